"""The lab as somebody else's cluster, and of another release: `lab up --spec`, `--release`."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import yaml

from railgauge import paths
from railgauge.acceptance import session
from railgauge.cli import cli
from railgauge.cli.lab import open_lab
from railgauge.common.errors import ConfigurationError, PrerequisiteError, RailgaugeError
from railgauge.lab import releases, render, spec, system_in
from railgauge.lab.cluster import Lab
from railgauge.processes import Process
from tests.command_line import invoke
from tests.lab.compat import first_cluster


@pytest.fixture
def other() -> spec.LabSpec:
    return spec.load(first_cluster.CLUSTER)


@pytest.fixture
def is_up(other: spec.LabSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab of bookworm made from that file, which is up as far as anybody can see."""
    monkeypatch.setenv("RAILGAUGE_LAB_DIR", str(tmp_path))
    run = tmp_path / "run"
    (run / "machines").mkdir(parents=True)
    (run / "system").write_text("lab")
    (run / "release").write_text("bookworm")
    (run / "lab.json").write_text(other.model_dump_json())
    itself = Process.of(os.getpid())
    assert itself is not None
    for name in ("init.pid", "machines/login.pid"):
        (run / name).write_text(f"{itself.pid} {itself.start_ticks}\n")
    return tmp_path


def test_its_slurm_conf_is_taken_as_it_is(other: spec.LabSpec) -> None:
    files = render.render(other, {"ns": "n[1-4]"}, releases.named("bookworm"))
    assert files["slurm.conf"] == other.slurm_conf
    assert "SlurmUser=slurm" in files["slurmdbd.conf"]


def test_its_hosts_have_full_names(other: spec.LabSpec) -> None:
    hosts = render.render(other, {})["hosts"].splitlines()
    assert "10.88.0.1 login.example.test login" in hosts
    assert "10.88.0.12 c02.example.test c02" in hosts


def test_its_machines_are_told_of_users_and_daemons(other: spec.LabSpec) -> None:
    assert render.environment(other, other.services).splitlines() == [
        "head=login",
        "domain=example.test",
        "services=(mariadb slurmdbd slurmctld)",
        "slurm_user=slurm",
        "users=(alice:2001:/home/alice bob:2002:/local/bob)",
    ]


def test_without_accounting_there_is_no_database(other: spec.LabSpec) -> None:
    plain = other.model_copy(update={"accounting": False})
    assert plain.services == ["slurmctld"]
    assert "slurmdbd.conf" not in render.render(plain, {})


def test_nothing_of_it_is_known_to_a_system_here(other: spec.LabSpec) -> None:
    names = {other.head.name, "batch", *(node.name for node in other.all_nodes())}
    for file in paths.SYSTEMS.glob("*/reframe.yaml"):
        described = yaml.safe_load(file.read_text())
        assert names.isdisjoint(part["name"] for part in described["partitions"]), file
        nodes = " ".join(str(part["extras"]["nodes"]) for part in described["partitions"])
        assert not any(name in nodes for name in names), file


def test_a_command_of_a_user_has_nothing_of_roots_environment(is_up: Path) -> None:
    command = open_lab().enter("login", "id", user="alice", workdir=Path("/home/alice"))
    after = command[command.index("--") + 1 :]
    assert after[:4] == ["runuser", "--user=alice", "--", "env"]
    assert {"-i", "HOME=/home/alice", "USER=alice"} <= set(after)
    assert "--wdns=/home/alice" in command


def test_a_user_that_the_lab_has_not_is_named_with_those_that_it_has(is_up: Path) -> None:
    with pytest.raises(PrerequisiteError, match="no user 'carol'; it has root, alice, bob"):
        open_lab().enter("login", "id", user="carol")


def test_the_lab_that_is_up_is_the_one_that_was_asked_for(is_up: Path) -> None:
    for lab in (open_lab(), open_lab("bookworm"), open_lab(file=first_cluster.CLUSTER)):
        assert (lab.release.name, lab.spec.head.name) == ("bookworm", "login")


def test_another_release_than_the_one_that_is_up_is_refused(is_up: Path) -> None:
    with pytest.raises(PrerequisiteError, match="is bookworm, not trixie") as caught:
        open_lab("trixie")
    assert caught.value.next_step == "railgauge lab down, then again"


def test_another_cluster_than_the_one_that_is_up_is_refused(is_up: Path) -> None:
    with pytest.raises(PrerequisiteError, match=r"is another than .*lab\.yaml"):
        open_lab(file=spec.file())


def test_the_lab_of_another_system_than_the_one_that_is_up_is_refused(is_up: Path) -> None:
    with pytest.raises(PrerequisiteError, match="is of system lab, not lab32") as caught:
        open_lab(system="lab32")
    assert caught.value.next_step == "railgauge lab down, then again"


def test_no_jobs_of_a_system_go_to_the_lab_of_another(is_up: Path) -> None:
    with pytest.raises(PrerequisiteError, match="is of system lab, not lab32") as caught:
        session.enter_lab_mounts("lab32")
    assert caught.value.next_step == "railgauge lab down; railgauge lab up --system lab32"


def test_mounts_that_cannot_be_entered_are_said(
    is_up: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(is_up / "results"))
    monkeypatch.delenv(session.MOUNTS_VARIABLE, raising=False)
    (is_up / "run" / "shared").write_text(f"{is_up}\n")
    over = threading.Event()
    # The kernel refuses a process with several threads (setns(2), EINVAL).
    other_thread = threading.Thread(target=over.wait)
    other_thread.start()
    try:
        with pytest.raises(PrerequisiteError, match=r"cannot be entered: .*Invalid argument"):
            session.enter_lab_mounts("lab")
    finally:
        over.set()
        other_thread.join()
    assert session.MOUNTS_VARIABLE not in os.environ


def test_the_lab_that_is_up_knows_its_system(is_up: Path) -> None:
    (is_up / "run" / "system").write_text("lab32")
    assert open_lab().system == "lab32"
    assert open_lab().partitions == {"ns": "n[1-32]"}


def test_a_system_that_is_not_the_labs_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        RailgaugeError,
        match=r"'vm-pair': .*no lab\.yaml; it can be lab, lab-gpu, lab-ib, lab-numa, lab32",
    ):
        open_lab(system="vm-pair")


def test_a_lab_is_of_a_system_or_of_a_file() -> None:
    words = ["lab", "up", "--system", "lab32", "--spec", str(first_cluster.CLUSTER)]
    answer = invoke(cli, words)
    assert answer.exit_code != 0
    assert "name one" in str(answer.exception)


@pytest.mark.parametrize("gone", ["lab.json", "system"])
def test_a_lab_whose_record_is_gone_can_be_taken_down(is_up: Path, gone: str) -> None:
    (is_up / "run" / gone).unlink()
    assert isinstance(open_lab(), Lab)


def test_a_lab_that_is_just_taken_away_is_of_no_system(is_up: Path) -> None:
    (is_up / "run" / "system").unlink()
    assert system_in(is_up) is None


def test_a_file_that_is_no_description_is_an_error_with_its_lines(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("head: {name: login}\nnodes: []\n")
    with pytest.raises(ConfigurationError, match="network: Field required"):
        open_lab(file=tmp_path / "mine.yaml")


def test_an_unknown_release_is_wrong_usage() -> None:
    words = ["lab", "up", "--release", "buster"]
    assert invoke(cli, words, stderr=["bookworm"]).exit_code != 0
