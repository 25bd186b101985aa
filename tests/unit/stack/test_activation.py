"""What jobs and shells find after `make stack`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths, systems
from railgauge.common.errors import ConfigurationError, PrerequisiteError, RailgaugeError
from railgauge.stack import activation, installed, manifest
from railgauge.systems import reframe_settings, rehearsal
from railgauge.tools import file_transfer
from railgauge.tools.table import programs

RECORDED: dict[str, Any] = json.loads(
    (paths.HOME / "tests/data/stack/described.json").read_text(encoding="utf-8")
)


def root(tmp_path: Path, installed: bool, name: str = "iperf2", sub: str = "bin") -> dict[str, Any]:
    """What spack/describe.py says of a tool, its programs in a folder of their own."""
    prefix = tmp_path / f"opt/{name}-2.1.9-abcdefg"
    (prefix / sub).mkdir(parents=True, exist_ok=True)
    for program in programs()[name]:
        (prefix / sub / program).touch(mode=0o755)
    return {
        **{"name": name, "version": "2.1.9", "hash": "abcdefgh", "prefix": str(prefix)},
        **{"installed": installed, "root": True, "sources": []},
        "run_environment": [
            {"action": "prepend", "name": "PATH", "value": str(prefix / sub), "separator": ":"}
        ],
    }


def test_activation_puts_the_tools_on_the_path(tmp_path: Path) -> None:
    folder = tmp_path / "with a blank/lab"
    activation.write(manifest.read("lab"), [root(tmp_path, True)], folder)
    command = f". '{folder}/activate.sh'; echo $PATH; echo $RAILGAUGE_STACK"
    done = subprocess.run(["bash", "-euc", command], capture_output=True, text=True, check=True)
    path, stack = done.stdout.splitlines()
    assert path.startswith(f"{tmp_path}/opt/iperf2-2.1.9-abcdefg/bin:")
    assert stack == str(folder)


def test_what_was_built_is_recorded_with_its_hash(tmp_path: Path) -> None:
    activation.write(manifest.read("lab"), [root(tmp_path, True)], tmp_path)
    [tool] = json.loads((tmp_path / "stack.json").read_text(encoding="utf-8"))
    assert (tool["name"], tool["version"], tool["hash"]) == ("iperf2", "2.1.9", "abcdefgh")


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `make stack` leaves of the lab: one tool."""
    monkeypatch.setenv("RAILGAUGE_STACK_DIR", str(tmp_path))
    activation.write(manifest.read("lab"), [root(tmp_path, True)], tmp_path / "lab")
    return tmp_path / "lab"


def prepared(system: str) -> list[list[str]]:
    """The commands that jobs begin with, by partition."""
    configured = reframe_settings.site_configuration()["systems"]
    (found,) = [entry for entry in configured if entry["name"] == system]
    return [partition.get("prepare_cmds", []) for partition in found["partitions"]]


def test_jobs_of_every_partition_begin_with_what_was_built(built: Path) -> None:
    command = f"source {built}/activate.sh || exit 1"
    assert prepared("lab") == [[command], [command]]
    assert not any(prepared("dgx-h100"))


def test_a_rehearsal_is_not_prepared_with_the_systems_own_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILGAUGE_STACK_DIR", str(tmp_path))
    activation.write(manifest.read("dgx-h100"), [root(tmp_path, True)], tmp_path / "dgx-h100")
    monkeypatch.setenv("RFM_SYSTEM", "dgx-h100")
    assert all(prepared("dgx-h100"))
    systems.load.cache_clear()
    monkeypatch.setenv(rehearsal.VARIABLE, "healthy")
    try:
        assert not any(prepared("dgx-h100"))
    finally:
        systems.load.cache_clear()


@pytest.mark.parametrize(
    ("spec", "there"),
    [
        ("iperf2", True),
        ("iperf2@2.1.9", True),
        ("iperf2@=2.1.9", True),
        ("iperf2@2.2.1", False),
        ("perftest", False),
        ("iperf2 +debug", False),
    ],
)
def test_specs_that_the_built_stack_provides(built: Path, spec: str, there: bool) -> None:
    assert installed.provides("lab", spec) is there
    assert not installed.provides("eth400g", spec)


def test_nothing_installed_activates_nothing(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="found nothing installed"):
        activation.write(manifest.read("lab"), [root(tmp_path, False)], tmp_path)
    assert not (tmp_path / "activate.sh").exists()


def sourced(script: Path, *show: str, path: str = "/usr/bin:/bin") -> list[str]:
    """What a shell has in the variables named, once it sourced `script`."""
    command = f"set -eu; . {script}; " + "; ".join(f'echo "${{{name}-}}"' for name in show)
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_programs_outside_bin_are_on_the_path_that_spack_says(tmp_path: Path) -> None:
    activation.write(manifest.read("lab"), [root(tmp_path, True, "hpn-ssh", "sbin")], tmp_path)
    (path,) = sourced(tmp_path / "activate.sh", "PATH")
    assert path.startswith(f"{tmp_path}/opt/hpn-ssh-2.1.9-abcdefg/sbin:/usr/bin")


@pytest.mark.parametrize("system", sorted(RECORDED["systems"]))
def test_every_program_that_a_check_looks_for_is_where_spack_puts_the_path(
    system: str, tmp_path: Path
) -> None:
    """As Spack described it, with the programs where the packages install them."""
    packages = relocated(RECORDED["systems"][system], tmp_path)
    for package in packages:
        for name in RECORDED["programs"].get(package["name"], []):
            program = Path(package["prefix"], name)
            program.parent.mkdir(parents=True, exist_ok=True)
            program.touch(mode=0o755)
    activation.write(manifest.read(system), packages, tmp_path / "lab")
    (path,) = sourced(tmp_path / "lab/activate.sh", "PATH")
    folders = path.split(":")
    for pin in manifest.read(system).pins:
        for program in programs()[pin.name]:
            assert any(Path(folder, program).exists() for folder in folders), program


@pytest.mark.parametrize("folder", ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/bin"])
def test_an_external_of_the_system_never_comes_before_what_was_built(
    tmp_path: Path, folder: str
) -> None:
    """The recipe of pciutils puts its sbin on the path of perftest, in the lab Debian's."""
    first, second = root(tmp_path, True), root(tmp_path, True, "perftest")
    change = {"action": "prepend", "name": "PATH", "value": folder, "separator": ":"}
    second["run_environment"].insert(0, change)
    activation.write(manifest.read("lab"), [first, second], tmp_path)
    (path,) = sourced(tmp_path / "activate.sh", "PATH", path="/node")
    built = [f"{tool['prefix']}/bin" for tool in (second, first)]
    assert path.split(":") == [*built, "/node", folder]


def relocated(packages: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    text = json.dumps(packages).replace(RECORDED["prefix"], str(folder / "opt"))
    return [{**package, "installed": True, "sources": []} for package in json.loads(text)]


@pytest.mark.parametrize("system", manifest.systems())
def test_programs_of_every_tool_are_known(system: str) -> None:
    assert {pin.name for pin in manifest.read(system).pins} <= set(programs())


def test_every_program_of_a_transfer_has_a_provider() -> None:
    programs = {name for pair in file_transfer.PROGRAMS.values() for name in pair}
    for program in (*programs, "wdt", "iperf3", "hpnssh", "ssh", "ssh-keygen", "ftpasswd"):
        assert activation.bringing(program, "lab") or file_transfer.PROVIDERS[program]


def test_tool_without_its_program_on_the_path_is_an_error_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    described = root(tmp_path, True, "hpn-ssh", "sbin")
    Path(described["prefix"], "sbin/hpnsshd").rename(tmp_path / "elsewhere")
    with pytest.raises(PrerequisiteError, match=r"hpn-ssh@2.1.9 /abcdefg: found no hpnsshd in"):
        activation.write(manifest.read("lab"), [described], tmp_path / "lab")
    assert not (tmp_path / "lab").exists()


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ([{"action": "set", "name": "X", "value": "a b'c"}], "a b'c"),
        ([{"action": "prepend", "name": "X", "value": "/a", "separator": ":"}], "/a"),
        ([{"action": "append", "name": "X", "value": "/a", "separator": ":"}], "/a"),
        (
            [
                {"action": "set", "name": "X", "value": "/b"},
                {"action": "prepend", "name": "X", "value": "/a", "separator": ":"},
                {"action": "append", "name": "X", "value": "/c", "separator": " "},
            ],
            "/a:/b /c",
        ),
        ([{"action": "set", "name": "X", "value": "/b"}, {"action": "unset", "name": "X"}], ""),
    ],
)
def test_what_a_recipe_sets_for_its_run_environment_is_set(
    tmp_path: Path, changes: list[dict[str, str]], shown: str
) -> None:
    described = root(tmp_path, True)
    described["run_environment"] += changes
    activation.write(manifest.read("lab"), [described], tmp_path)
    assert sourced(tmp_path / "activate.sh", "X") == [shown]


# --- a build of some tools, after one of more -------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """perftest and iperf2, built."""
    tools = [root(tmp_path, True, name) for name in ("perftest", "iperf2")]
    activation.write(manifest.read("lab"), tools, tmp_path / "lab")
    return tmp_path / "lab"


def test_build_of_some_that_leaves_out_what_was_built_is_refused(two: Path, tmp_path: Path) -> None:
    changed = [{**root(tmp_path, False, n), "hash": "changed"} for n in ("perftest", "iperf2")]
    with pytest.raises(RailgaugeError) as caught:
        activation.require_all(manifest.read("lab"), changed, ["iperf2"], two)
    assert "found perftest@2.1.9 /abcdefg, and the solve now asks for" in str(caught.value)
    assert caught.value.next_step == 'make stack SYSTEM=lab ONLY="iperf2 perftest"'


def test_tool_that_was_changed_since_it_was_built_is_named_as_that(
    two: Path, tmp_path: Path
) -> None:
    damaged = [root(tmp_path, False, n) for n in ("perftest", "iperf2")]
    with pytest.raises(RailgaugeError) as caught:
        activation.require_all(manifest.read("lab"), damaged, ["iperf2"], two)
    assert "perftest@2.1.9 /abcdefg, changed or gone since it was built" in str(caught.value)


@pytest.mark.parametrize("only", [[], ["iperf2", "perftest"]])
def test_build_of_all_that_was_built_goes_on(two: Path, tmp_path: Path, only: list[str]) -> None:
    changed = [{**root(tmp_path, False, n), "hash": "changed"} for n in ("perftest", "iperf2")]
    assert activation.require_all(manifest.read("lab"), changed, only, two) == []


def test_build_of_one_more_tool_keeps_those_that_did_not_change(two: Path, tmp_path: Path) -> None:
    packages = [
        root(tmp_path, True, "perftest"),
        root(tmp_path, True),
        root(tmp_path, False, "wdt"),
    ]
    assert activation.require_all(manifest.read("lab"), packages, ["wdt"], two) == []


def test_tool_that_spack_yaml_no_longer_asks_for_is_named(two: Path, tmp_path: Path) -> None:
    packages = [root(tmp_path, True)]
    left_out = activation.require_all(manifest.read("lab"), packages, ["iperf2"], two)
    assert left_out == ["perftest@2.1.9 /abcdefg"]


def test_record_of_the_last_build_that_is_damaged_is_an_error(two: Path, tmp_path: Path) -> None:
    (two / "stack.json").write_text('[{"name": "iperf2"', encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"stack.json: found no list of tools"):
        activation.require_all(manifest.read("lab"), [root(tmp_path, True)], ["iperf2"], two)


# --- what a check says of a program that a node lacks -----------------------------------------


def test_program_of_the_stack_is_brought_by_make_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILGAUGE_STACK_DIR", str(tmp_path))
    assert activation.bringing("hpnsshd", "lab") == "make stack SYSTEM=lab brings hpnsshd"


def test_program_that_was_built_is_not_brought_by_building_it_again(built: Path) -> None:
    step = activation.bringing("iperf", "lab")
    assert step is not None and f"look whether that node sees {built}" in step


def test_system_without_a_scope_needs_one_first() -> None:
    step = activation.bringing("wdt", "my-cluster")
    assert step is not None and "write configs/systems/my-cluster/spack" in step


def test_program_of_no_tool_of_the_stack_is_not_brought_by_it() -> None:
    assert activation.bringing("proftpd", "lab") is None
