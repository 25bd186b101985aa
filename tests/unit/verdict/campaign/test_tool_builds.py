"""Which file ran, of which package: on the node, in the verdict, and against the references."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.checks.jobs import container
from railgauge.model.call import Call
from railgauge.node.system import tool_package
from railgauge.tools.common import version

TOOL = b"#!/bin/sh\necho iperf version 2.2.1\n"
#: As Spack 1.2 writes it, cut down to what is read.
SPEC = {
    "spec": {
        "_meta": {"version": 5},
        "nodes": [
            {"name": "iperf2", "version": "2.2.1-dfsg", "hash": "jujyn2sairfvqy2u4thgzkv7lobpvqui"},
            {"name": "compiler-wrapper", "version": "1.1.0", "hash": "dwhsw3c43p2aml57x432te6gu5p"},
        ],
    }
}
PACKAGE = "spack iperf2@2.2.1-dfsg/jujyn2sairfvqy2u4thgzkv7lobpvqui"


@pytest.fixture(autouse=True)
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node of its own: no package databases, nothing found before."""
    monkeypatch.setattr(tool_package, "DPKG", tmp_path / "dpkg")
    monkeypatch.setattr(tool_package, "CACHE", tmp_path / "found")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path


def program(path: Path, content: bytes = TOOL) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def spack_prefix(folder: Path, recorded: str | None = None) -> Path:
    """A prefix as `spack install` leaves it, with one program."""
    tool = program(folder / "bin/iperf")
    (folder / ".spack").mkdir()
    (folder / ".spack/spec.json").write_text(json.dumps(SPEC))
    at = recorded or str(folder)
    digest = base64.b32encode(hashlib.sha1(TOOL).digest()).decode()
    manifest = {
        f"{at}/.spack": {"mode": 17901},
        f"{at}/bin": {"mode": 17901},
        f"{at}/bin/iperf": {"mode": 33261, "hash": digest, "size": len(TOOL)},
    }
    (folder / ".spack/install_manifest.json").write_text(json.dumps(manifest))
    return tool


def dpkg_owns(node: Path, *names: str, package: str = "iperf", status: str = "installed") -> None:
    """dpkg's database with one package, amd64, that lists `names`; the first has a digest."""
    info = node / "dpkg/info"
    info.mkdir(parents=True, exist_ok=True)
    (info / f"{package}.list").write_text("".join(f"{name}\n" for name in ("/.", "/usr", *names)))
    (info / f"{package}.md5sums").write_text(f"{hashlib.md5(TOOL).hexdigest()}  {names[0][1:]}\n")
    entry = f"Package: {package}\nStatus: install ok {status}\nArchitecture: amd64\n"
    with (node / "dpkg/status").open("a") as stream:
        stream.write(f"{entry}Version: 2.2.1+dfsg-1\nDescription: a tool\n Version: no\n\n")


# ---- Spack ----


def test_hash_comes_from_the_prefix_itself(node: Path) -> None:
    tool = spack_prefix(node / "opt/some-name")
    assert tool_package.of(str(tool)) == (str(tool), PACKAGE)


def test_name_of_a_folder_proves_nothing(node: Path) -> None:
    tool = program(node / "opt/iperf2-2.2.1-dfsg-jujyn2sairfvqy2u4thgzkv7lobpvqui/bin/iperf")
    assert tool_package.of(str(tool))[1] == "unknown (of no package of Spack, dpkg or rpm)"


def test_path_of_the_call_decides_and_links_are_followed(node: Path) -> None:
    tool = spack_prefix(node / "opt/iperf2")
    program(node / "usr/bin/iperf")
    (node / "view").mkdir()
    (node / "view/iperf").symlink_to(tool)
    search = f"{node}/view:{node}/usr/bin"
    assert tool_package.of("iperf", search) == (str(tool), PACKAGE)


def test_prefix_that_was_installed_through_a_link_is_known(node: Path) -> None:
    tool = spack_prefix(node / "opt/iperf2", recorded="/shared/stack/iperf2")
    assert tool_package.of(str(tool))[1] == PACKAGE


def test_program_that_was_replaced_is_not_the_packages(node: Path) -> None:
    tool = spack_prefix(node / "opt/iperf2")
    program(tool, TOOL + b"# patched\n")
    assert tool_package.of(str(tool))[1] == f"unknown (changed since {PACKAGE})"


def test_program_that_was_put_into_a_prefix_is_not_the_packages(node: Path) -> None:
    spack_prefix(node / "opt/iperf2")
    tool = program(node / "opt/iperf2/bin/ib_write_bw")
    assert tool_package.of(str(tool))[1] == f"unknown (put into the prefix of {PACKAGE})"


@pytest.mark.parametrize("broken", ['{"spec": ', "[1]", "{}", "null", '{"spec": {"nodes": []}}'])
@pytest.mark.parametrize("file", ["spec.json", "install_manifest.json"])
def test_broken_record_of_spack_is_reported_and_not_remembered(
    node: Path, file: str, broken: str
) -> None:
    tool = spack_prefix(node / "opt/iperf2")
    whole = (node / "opt/iperf2/.spack" / file).read_text()
    (node / "opt/iperf2/.spack" / file).write_text(broken)
    assert tool_package.of(str(tool))[1].startswith("unknown (")
    (node / "opt/iperf2/.spack" / file).write_text(whole)
    assert tool_package.of(str(tool))[1] == PACKAGE


# ---- dpkg ----


def test_package_of_the_distribution_is_reported_with_its_version(node: Path) -> None:
    tool = program(node / "bin/iperf")
    dpkg_owns(node, str(tool))
    assert tool_package.of("iperf") == (str(tool), "dpkg iperf 2.2.1+dfsg-1")


@pytest.mark.parametrize("listed", ["/usr/bin/ping", "/bin/ping"])
def test_bin_and_usr_bin_are_one_folder(node: Path, listed: str) -> None:
    dpkg_owns(node, listed, package="iputils-ping")
    # Without a digest that would have to be compared with this machine's own file.
    (node / "dpkg/info/iputils-ping.md5sums").unlink()
    assert tool_package.look("/usr/bin/ping") == "dpkg iputils-ping 2.2.1+dfsg-1"


def test_name_with_only_the_same_beginning_is_another(node: Path) -> None:
    tool = program(node / "bin/iperf")
    dpkg_owns(node, f"{tool}3", package="iperf3")
    assert tool_package.of("iperf")[1].startswith("unknown (of no package")


def test_package_of_one_architecture_is_found_by_it(node: Path) -> None:
    tool = program(node / "bin/iperf")
    dpkg_owns(node, str(tool))
    for kind in ("list", "md5sums"):
        (node / f"dpkg/info/iperf.{kind}").rename(node / f"dpkg/info/iperf:amd64.{kind}")
    assert tool_package.of("iperf")[1] == "dpkg iperf:amd64 2.2.1+dfsg-1"


def test_file_that_two_packages_list_is_of_neither(node: Path) -> None:
    tool = program(node / "bin/iperf")
    dpkg_owns(node, str(tool))
    dpkg_owns(node, str(tool), package="diverted")
    assert tool_package.of("iperf")[1] == "unknown (listed by diverted, iperf)"


def test_removed_package_owns_nothing(node: Path) -> None:
    dpkg_owns(node, str(program(node / "bin/iperf")), status="config-files")
    assert tool_package.of("iperf")[1] == "unknown (dpkg says that iperf is not installed)"


def test_file_that_a_user_copied_over_the_packages_is_not_it(node: Path) -> None:
    tool = program(node / "bin/iperf", TOOL + b"# of my home folder\n")
    dpkg_owns(node, str(tool))
    assert tool_package.of("iperf")[1] == "unknown (changed since dpkg iperf 2.2.1+dfsg-1)"


# ---- rpm: rpm(8), --queryformat ----

RPM = """#!/bin/sh
[ "$1 $2 $3" = "--query --file --queryformat" ] || exit 9
printf '%b' '{says}'
exit {code}
"""


def test_package_of_rpm(node: Path) -> None:
    tool = program(node / "bin/iperf")
    files = f"\\t{tool}\\t{hashlib.sha256(TOOL).hexdigest()}\\n\\t/usr/share/doc\\t\\n"
    says = f"perftest 25.04-1.el9\\n{files}"
    program(node / "bin/rpm", RPM.format(says=says, code=0).encode())
    assert tool_package.of("iperf") == (str(tool), "rpm perftest 25.04-1.el9")


@pytest.mark.parametrize(
    ("says", "code", "reason"),
    [
        ("file x is not owned by any package\\n", 1, "of no package of Spack, dpkg or rpm"),
        ("perftest 25.04\\n\\t{tool}\\t" + 64 * "0" + "\\n", 0, "changed since rpm perftest 25.04"),
        ("a 1\\nb 1\\n", 0, "listed by a 1, b 1"),
        (
            "error: cannot open Packages database\\n",
            1,
            "NoAnswerError: rpm ended with 1: error: cannot",
        ),
    ],
)
def test_what_rpm_does_not_vouch_for(node: Path, says: str, code: int, reason: str) -> None:
    tool = program(node / "bin/iperf")
    program(node / "bin/rpm", RPM.format(says=says.format(tool=tool), code=code).encode())
    assert tool_package.of("iperf")[1].startswith(f"unknown ({reason}")


# ---- one look a node ----


def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every path that is looked at from now on."""
    seen: list[str] = []
    real = tool_package.look

    def look(path: str) -> str:
        seen.append(path)
        return real(path)

    monkeypatch.setattr(tool_package, "look", look)
    return seen


def test_second_call_on_a_node_looks_no_more(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool, seen = spack_prefix(node / "opt/iperf2"), looked(monkeypatch)
    assert tool_package.of(str(tool)) == tool_package.of(str(tool))
    assert seen == [str(tool)]


def test_file_that_changed_is_looked_at_again(node: Path) -> None:
    tool = spack_prefix(node / "opt/iperf2")
    tool_package.of(str(tool))
    before = tool.stat()
    program(tool, TOOL.replace(b"2.2.1", b"2.1.8"))
    # Size and time can be made the same again; when the inode changed cannot.
    os.utime(tool, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert tool_package.of(str(tool))[1].startswith("unknown (changed since")


def foreign_modes(folder: Path, _: pytest.MonkeyPatch) -> None:
    folder.chmod(0o777)


def foreign_owner(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: real + 1)


def foreign_link(folder: Path, _: pytest.MonkeyPatch) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))


@pytest.mark.parametrize("takes_over", [foreign_modes, foreign_owner, foreign_link])
def test_what_others_may_have_written_is_not_believed(
    node: Path,
    monkeypatch: pytest.MonkeyPatch,
    takes_over: Callable[[Path, pytest.MonkeyPatch], None],
) -> None:
    tool = spack_prefix(node / "opt/iperf2")
    tool_package.of(str(tool))
    [kept] = (node / "found").iterdir()
    kept.write_text(kept.read_text().replace("iperf2@2.2.1", "iperf2@9.9.9"))
    assert "9.9.9" in tool_package.of(str(tool))[1]
    takes_over(node / "found", monkeypatch)
    assert tool_package.of(str(tool))[1] == PACKAGE


def test_place_that_cannot_be_written_costs_only_another_look(node: Path) -> None:
    (node / "found").write_text("a file")
    tool = spack_prefix(node / "opt/iperf2")
    assert tool_package.of(str(tool))[1] == tool_package.of(str(tool))[1] == PACKAGE


def test_program_that_is_nowhere_is_reported(node: Path) -> None:
    assert tool_package.of("wdt") == ("", "unknown (no program wdt on the path)")


# ---- versions ----


@pytest.mark.parametrize(
    ("tool", "line", "found"),
    [
        ("iperf2", "iperf version 2.2.1 (4 Nov 2024) pthreads", {"iperf2": "2.2.1"}),
        ("perftest", "Version: 6.24", {"perftest": "6.24"}),
        ("nccl-tests", "2.17.6, NCCL 2.28.9+cuda13.0", {"nccl-tests": "2.17.6", "nccl": "2.28.9"}),
        ("iperf3", "iperf 3.18 (cJSON 1.7.15)", {"iperf3": "3.18"}),
        ("mpi_world", "Open MPI v5.0.7, package: Debian OpenMPI", {"mpi_world": "5.0.7"}),
        ("mpi_world", "MPICH Version: 5.0.2", {"mpi_world": "5.0.2"}),
        ("lftp", "LFTP | Version 4.9.2 | Copyright (c) 1996-2020", {"lftp": "4.9.2"}),
        ("scp", "OpenSSH_9.9p1-hpn18.6.2, OpenSSL 3.0.15", {"openssh": "9.9", "hpn": "18.6.2"}),
        ("wdt", "unknown (No such file)", {}),
    ],
)
def test_versions_in_what_tools_print(tool: str, line: str, found: dict[str, str]) -> None:
    assert found.items() <= version.stated(tool, line).items()


@pytest.mark.parametrize("text", ["2.28.9", "v2.28.9", "2.28.9-1", "2.28.9+cuda13.0"])
def test_spellings_of_one_version(text: str) -> None:
    assert version.normal(text) == "2.28.9"


# ---- NCCL in an image ----

IMAGE = f"docker://registry.example/nccl@sha256:{64 * '0'}"


@pytest.mark.parametrize(
    ("image", "path", "package"),
    [
        (IMAGE, "/usr/bin/all_reduce_perf", f"image {IMAGE}"),
        # This checkout is mounted into the container.
        (IMAGE, f"{paths.HOME}/.stack/opt/bin/all_reduce_perf", "dpkg nccl-tests 1"),
        (IMAGE, "", "dpkg nccl-tests 1"),
        (None, "/usr/bin/all_reduce_perf", "dpkg nccl-tests 1"),
    ],
)
def test_image_is_the_package_of_what_lies_in_it(
    image: str | None, path: str, package: str
) -> None:
    call = Call("nccl-tests", "rank0", 0, "n1", 0, 1.0, path=path, package="dpkg nccl-tests 1")
    assert container.package(image, call) == package


def test_the_word_version_is_no_tool() -> None:
    line = "iperf version 2.2.1 (4 Nov 2024) pthreads"
    assert version.stated("iperf2", line) == {"iperf2": "2.2.1"}


def test_the_v_before_a_number_is_no_tool() -> None:
    assert version.stated("mpi-world", "v5.0.7") == {"mpi-world": "5.0.7"}
    assert version.stated("mpi-world", "Open MPI v5.0.7")["mpi-world"] == "5.0.7"
