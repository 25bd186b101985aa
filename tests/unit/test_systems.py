"""The systems: every committed one loads, and a host is never taken for another's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import hostlist, lab, paths, systems
from railgauge.errors import ConfigurationError

GOOD = """\
name: alps
hostnames: [alps-login]
partitions:
  - name: gpu
    scheduler: slurm
    features: [tcp, gpu]
    extras:
      nodes: n[1-4]
      mtu_bytes: 9000
      required: [Iperf2Pair]
  - name: cpu
    scheduler: slurm
    extras:
      nodes: c[01-02],c09
"""

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _no_memory_of_other_folders(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("RFM_SYSTEM", raising=False)
    systems.load.cache_clear()
    yield
    systems.load.cache_clear()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Puts a system's reframe.yaml into a folder of systems that this test alone sees."""
    monkeypatch.setattr(paths, "SYSTEMS", tmp_path)

    def write(name: str = "alps", text: str = GOOD) -> Path:
        path = tmp_path / name / "reframe.yaml"
        path.parent.mkdir()
        path.write_text(text)
        return path

    return write


def no_lab(_: Path) -> None:
    return None


def a_lab(_: Path) -> Any:
    return object()


def on_host(monkeypatch: pytest.MonkeyPatch, host: str, lab_up: bool = False) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)
    monkeypatch.setattr(lab, "first_process", a_lab if lab_up else no_lab)


def load_error(name: str = "alps") -> str:
    with pytest.raises(ConfigurationError) as caught:
        systems.load(name)
    return str(caught.value)


# ---- the committed systems ----


def test_the_lab_is_a_committed_system() -> None:
    assert "lab" in systems.names()


@pytest.mark.parametrize("name", systems.names())
def test_committed_system_loads(name: str) -> None:
    assert systems.load(name).name == name


@pytest.mark.parametrize("name", systems.names())
def test_committed_system_names_each_partition_once(name: str) -> None:
    partitions = [partition.name for partition in systems.load(name).partitions]
    assert len(partitions) == len(set(partitions))


# ---- loading ----


def test_partition_has_all_nodes_of_its_list(write: Write) -> None:
    write()
    assert systems.load("alps").partition("cpu").nodes == ("c01", "c02", "c09")


def test_what_is_reframes_own_passes_through(write: Write) -> None:
    write()
    partition = systems.load("alps").partition("gpu")
    assert partition.model_dump()["scheduler"] == "slurm"


def test_partition_requires_nothing_unless_told(write: Write) -> None:
    write()
    assert systems.load("alps").partition("cpu").extras.required == []


def test_unknown_system_is_an_error_that_lists_the_known_ones(write: Write) -> None:
    write()
    write("daint", GOOD.replace("alps", "daint"))
    assert "system 'alp' is unknown" in load_error("alp")
    assert "alps, daint" in load_error("alp")


def test_unknown_partition_is_an_error(write: Write) -> None:
    write()
    with pytest.raises(ConfigurationError, match="alps has no partition 'gpus'"):
        systems.load("alps").partition("gpus")


@pytest.mark.parametrize("bad", ["n[1-", "n[4-1]", '""', "n[a-b]"])
def test_bad_host_list_is_named_with_file_and_line(write: Write, bad: str) -> None:
    path = write(text=GOOD.replace("n[1-4]", bad if bad == '""' else f'"{bad}"'))
    assert load_error().startswith(f"{path}:8: partitions.0.extras.nodes: ")


@pytest.mark.parametrize(
    ("good", "bad", "line", "field"),
    [
        ("mtu_bytes: 9000", "mtu_bytes: 90", 9, "partitions.0.extras.mtu_bytes"),
        ("mtu_bytes: 9000", "mtu: 9000", 9, "partitions.0.extras.mtu"),
        ("required: [Iperf2Pair]", "required: Iperf2Pair", 10, "partitions.0.extras.required"),
        ("      nodes: c[01-02],c09", "      required: []", 13, "partitions.1.extras.nodes"),
        ("hostnames: [alps-login]", "hostnames: alps-login", 2, "hostnames"),
        ("[alps-login]", '[alps-login, "*-login"]', 2, "hostnames.1"),
        ("[tcp, gpu]", "tcp", 6, "partitions.0.features"),
    ],
)
def test_wrong_field_is_named_with_file_and_line(
    write: Write, good: str, bad: str, line: int, field: str
) -> None:
    path = write(text=GOOD.replace(good, bad))
    assert load_error().startswith(f"{path}:{line}: {field}: ")


def test_system_without_partitions_is_an_error(write: Write) -> None:
    write(text="name: alps\nhostnames: [alps-login]\npartitions: []\n")
    assert "partitions: " in load_error()


def test_system_named_otherwise_than_its_folder_is_an_error(write: Write) -> None:
    write(text=GOOD.replace("name: alps", "name: daint"))
    assert "name is 'daint', expected that of the folder, 'alps'" in load_error()


# ---- which system is this? ----


def test_host_is_known_by_its_hostnames(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write()
    write("daint", GOOD.replace("alps", "daint"))
    on_host(monkeypatch, "daint-login")
    assert systems.current() == "daint"


def test_hostnames_are_patterns(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(text=GOOD.replace("alps-login", "alps-ln\\d+"))
    on_host(monkeypatch, "alps-ln003")
    assert systems.current() == "alps"


@pytest.mark.parametrize("host", ["login", "old-alps-login", "", "alps"])
def test_unknown_host_is_an_error_with_a_next_step(
    write: Write, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    write()
    on_host(monkeypatch, host)
    with pytest.raises(ConfigurationError) as caught:
        systems.current()
    assert f"host {host!r} matches no `hostnames`" in str(caught.value)
    assert "next: `railgauge lab up`" in str(caught.value)


def test_unknown_host_with_the_lab_up_is_the_lab(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    on_host(monkeypatch, "laptop", lab_up=True)
    assert systems.current() == "lab"


def test_hostnames_win_over_the_lab(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write()
    on_host(monkeypatch, "alps-login", lab_up=True)
    assert systems.current() == "alps"


def test_broken_system_is_an_error_also_where_another_would_match(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("aaa", "name: aaa\n")
    write()
    on_host(monkeypatch, "alps-login")
    with pytest.raises(ConfigurationError, match="aaa/reframe"):
        systems.current()


# ---- which system was chosen? ----


@pytest.mark.parametrize(
    ("option", "variable", "chosen"),
    [
        ("daint", "lab", "daint"),
        (None, "lab", "lab"),
        (None, "lab:ns", "lab"),
        (None, "", "alps"),
        (None, None, "alps"),
        ("", "lab", "lab"),
    ],
)
def test_option_wins_over_variable_over_host(
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    option: str | None,
    variable: str | None,
    chosen: str,
) -> None:
    write()
    on_host(monkeypatch, "alps-login")
    if variable is not None:
        monkeypatch.setenv("RFM_SYSTEM", variable)
    assert systems.chosen(option) == chosen


# ---- as ReFrame sees them ----


def test_reframe_is_given_every_system(write: Write) -> None:
    write()
    write("daint", GOOD.replace("alps", "daint"))
    assert [entry["name"] for entry in systems.site_configuration()["systems"]] == ["alps", "daint"]


def test_reframe_finds_the_system_only_by_its_name(write: Write) -> None:
    write()
    assert systems.site_configuration()["systems"][0]["hostnames"] == ["alps$"]


def test_broken_system_is_no_site_configuration(write: Write) -> None:
    write(text=GOOD.replace("n[1-4]", '"n[1-"'))
    with pytest.raises(ConfigurationError, match=r"extras\.nodes"):
        systems.site_configuration()


# ---- host lists ----


@pytest.mark.parametrize(
    ("text", "names"),
    [("n[1-3]", ("n1", "n2", "n3")), ("n[08-10],m1", ("m1", "n08", "n09", "n10")), ("n1", ("n1",))],
)
def test_host_list_names_its_nodes(text: str, names: tuple[str, ...]) -> None:
    assert tuple(sorted(hostlist.expand(text))) == names


@pytest.mark.parametrize("text", ["", "n[", "n[1-", "n[3-1]"])
def test_what_is_no_host_list_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="host list"):
        hostlist.expand(text)


def test_folded_names_expand_to_themselves() -> None:
    names = ("n1", "n2", "n3", "n7")
    assert hostlist.expand(hostlist.fold(names)) == names
