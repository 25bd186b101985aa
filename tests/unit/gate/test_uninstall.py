"""What `railgauge uninstall` takes out of Slurm and crontabs, and what it leaves alone."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from railgauge import paths
from railgauge.cli import cli
from railgauge.cluster import store
from railgauge.gate import crontabs, journal, uninstall
from railgauge.gate.lock import alone
from railgauge.slurm import client
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmError
from railgauge.slurm.nodes import SlurmNode
from tests.command_line import invoke
from tests.unit import measured
from tests.unit.report.feeds.test_schemas import require

from .cluster import Slurm

OURS = f"0 2 * * * cd {paths.HOME} && SYSTEM=lab sbatch jobs/gate.sbatch\n"
THEIRS = "5 4 * * 0 /usr/local/bin/backup --all\n"
OTHERS = f"0 3 * * * {paths.HOME}-old/bin/railgauge patrol --act\n"


class Crontabs:
    """crontab and scrontab of this user: `text` has what each holds; none where it has no key."""

    def __init__(self) -> None:
        self.text: dict[str, str] = {}
        self.at_read: Callable[[], None] = lambda: None

    def answer(self, *command: str, limit_s: float = 60) -> tuple[str, SlurmError | None]:
        assert command[1:] == ("-l",)
        self.at_read()
        if command[0] in self.text:
            return self.text[command[0]], None
        return "", SlurmError(f"`{command[0]} -l` failed: no crontab for root")

    def write(self, command: str, file: str) -> None:
        self.text[command] = Path(file).read_text()


@pytest.fixture(autouse=True)
def tabs(monkeypatch: pytest.MonkeyPatch, nodes: Slurm, area: Path) -> Crontabs:
    fake = Crontabs()
    slurm = client.output

    def output(*command: str, limit_s: float = 60) -> str:
        if command[0] in crontabs.COMMANDS:
            fake.write(*command)
            return ""
        return slurm(*command, limit_s=limit_s)

    monkeypatch.setattr(client, "answer", fake.answer)
    monkeypatch.setattr(client, "output", output)
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/usr/bin/{name}")
    return fake


def run(*words: str) -> Result:
    return invoke(
        cli,
        ["uninstall", "--system", "lab", *words],
        may_say=("RAILGAUGE_RESULTS moves", "not passed on to jobs"),
    )


def ended_run(nodes: Slurm, *names: str, ended: str | None = "2026-11-21T11:00:00") -> journal.Run:
    """A gate run with both of its reservations left in Slurm."""
    one = journal.Run(
        journal.new_id(), "lab", list(names), ["n4"], store.now(), "root", ended=ended
    )
    (store.folder("lab") / "runs").mkdir(exist_ok=True)
    one.save()
    nodes.reserve(one.reservation, [*names, "n4"], 600)
    nodes.reserve(one.untested, names)
    return one


def test_a_clean_cluster_has_nothing_left() -> None:
    answer = run()
    assert answer.exit_code == 0 and "nothing of Railgauge is left" in answer.stdout


# --- reservations and nodes -----------------------------------------------------------------------


def test_without_act_nothing_is_changed(nodes: Slurm, tabs: Crontabs) -> None:
    ended_run(nodes, "n1")
    nodes.comment("n2", "railgauge: slow")
    tabs.text = {"crontab": OURS}
    before = json.dumps([nodes.reserved, nodes.comments, tabs.text, nodes.reason])
    assert run().exit_code == 1
    assert json.dumps([nodes.reserved, nodes.comments, tabs.text, nodes.reason]) == before


def test_the_reservations_of_an_ended_run_are_deleted(nodes: Slurm) -> None:
    nodes.drain(["n1"], "failed")
    ended_run(nodes, "n1")
    run("--act")
    assert nodes.reserved == {}


def test_a_node_that_only_a_reservation_kept_out_is_drained_first(nodes: Slurm) -> None:
    """Else jobs would start on it, untested, between the two."""
    one = ended_run(nodes, "n1")
    opened: list[str] = []
    nodes.at_each = lambda: opened.extend(nodes.open() & {"n1"})
    answer = run("--act")
    assert opened == [] and nodes.reason["n1"][0].startswith(f"railgauge: gate run {one.id}")
    assert answer.exit_code == 1 and "n1: drained" in answer.stdout


def test_a_node_that_left_the_description_is_drained_too(
    nodes: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes.flags["old1"], nodes.reason["old1"] = {"IDLE"}, ("", "", "")
    ended_run(nodes, "old1")
    run("--act")
    assert nodes.show(["old1"])["old1"].drained_by_us and nodes.reserved == {}


def test_a_drained_node_stays_drained_and_is_named_with_what_returns_it(nodes: Slurm) -> None:
    nodes.drain(["n2"], "Iperf2Pair: 0.1 Gb/s")
    answer = run("--act")
    assert "DRAIN" in nodes.flags["n2"] and answer.exit_code == 1
    assert "railgauge gate release --nodes n2 --act" in answer.stdout


def test_a_node_that_an_operator_drained_is_not_named(nodes: Slurm) -> None:
    nodes.drain(["n2"], "new fan", by="")
    answer = run("--act")
    assert answer.exit_code == 0 and "n2" not in answer.stdout


def test_the_reservation_of_a_run_without_a_journal_here_stays(nodes: Slurm) -> None:
    """It may be one of another checkout, which goes on."""
    nodes.drain(["n3"], "failed")
    nodes.reserve("railgauge_20261101T000000Z_abcd_untested", ["n3"])
    answer = run("--act")
    assert list(nodes.reserved) == ["railgauge_20261101T000000Z_abcd_untested"]
    assert answer.exit_code == 1


def test_a_reservation_of_others_is_not_touched(nodes: Slurm) -> None:
    nodes.reserve("maintenance", ["n3"])
    assert run("--act").exit_code == 0
    assert list(nodes.reserved) == ["maintenance"]


def test_our_comments_are_cleared_and_others_stay(
    nodes: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {"n1": "railgauge: slow", "n2": "ticket 7"}
    show = nodes.show

    def commented(names: object = ()) -> dict[str, SlurmNode]:
        shown = show(names)
        return {n: dataclasses.replace(s, comment=words.get(n, "")) for n, s in shown.items()}

    monkeypatch.setattr(slurm_nodes, "show", commented)
    assert run("--act").exit_code == 0
    assert nodes.comments == {"n1": ""}


# --- what is active -------------------------------------------------------------------------------


def test_an_open_gate_run_keeps_everything_as_it_is(nodes: Slurm, tabs: Crontabs) -> None:
    ended_run(nodes, "n1")
    open_run = ended_run(nodes, "n2", ended=None)
    tabs.text = {"crontab": OURS}
    answer = run("--act")
    assert answer.exit_code == 1 and f"gate run {open_run.id} is open" in answer.stdout
    assert len(nodes.reserved) == 4 and tabs.text == {"crontab": OURS}


@pytest.mark.parametrize("who", ["gate", "patrol"])
def test_a_gate_or_patrol_that_runs_keeps_everything_as_it_is(nodes: Slurm, who: str) -> None:
    nodes.drain(["n1"], "failed")
    ended_run(nodes, "n1")
    with alone("lab", who):  # type: ignore[arg-type]
        answer = run("--act")
    assert f"the {who} of lab is already running" in str(answer.exception)
    assert len(nodes.reserved) == 2


def test_a_campaign_that_runs_keeps_everything_as_it_is(nodes: Slurm, area: Path) -> None:
    folder = measured.leave(area.parents[1], 1, {measured.PLACES[0]: 390.0}).folder
    record = folder / "campaign.json"
    document = json.loads(record.read_text())
    context = {"host": "another"}
    record.write_text(json.dumps({**document, "state": "running", "context": context}))
    ended_run(nodes, "n1")
    answer = run("--act")
    assert f"marked as running: {folder.name}" in answer.stdout
    assert len(nodes.reserved) == 2


# --- crontabs -------------------------------------------------------------------------------------


def test_the_lines_that_start_this_program_are_removed_and_kept_in_a_backup(
    tabs: Crontabs, area: Path
) -> None:
    tabs.text = {"crontab": f"MAILTO=root\n{THEIRS}{OURS}# end\n"}
    assert run("--act").exit_code == 0
    assert tabs.text == {"crontab": f"MAILTO=root\n{THEIRS}# end\n"}
    (backup,) = (area.parents[1] / "uninstall").iterdir()
    assert OURS in backup.read_text()


def test_the_options_of_a_removed_line_of_scrontab_go_with_it(tabs: Crontabs) -> None:
    tabs.text = {"scrontab": f"#SCRON -p service\n{OURS}#SCRON -p other\n{THEIRS}"}
    run("--act")
    assert tabs.text == {"scrontab": f"#SCRON -p other\n{THEIRS}"}


def test_a_line_that_starts_another_checkout_stays_and_is_named(tabs: Crontabs) -> None:
    tabs.text = {"crontab": OTHERS}
    answer = run("--act")
    assert tabs.text == {"crontab": OTHERS}
    assert "names Railgauge, but not this folder" in answer.stdout


def test_a_line_that_starts_a_package_by_its_command_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As uv and the deb have it: a link on the path, which leads into the environment."""
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "railgauge").touch()
    link = tmp_path / "railgauge"
    link.symlink_to(tmp_path / "env" / "bin" / "railgauge")
    monkeypatch.setattr(paths, "HOME", paths.PACKAGED)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    monkeypatch.setattr(shutil, "which", lambda _: str(link))
    found = crontabs.split("crontab", f"0 * * * * {link} patrol\n0 * * * * /opt/railgauge patrol\n")
    assert found.ours == (f"0 * * * * {link} patrol",) and len(found.unclear) == 1


def test_a_crontab_that_changed_meanwhile_is_not_overwritten(tabs: Crontabs) -> None:
    tabs.text = {"crontab": OURS}
    reads: list[None] = []

    def edited() -> None:
        reads.append(None)
        # crontab and scrontab are looked at, then the crontab is read again before it is written.
        if len(reads) == 3:
            tabs.text["crontab"] += THEIRS

    tabs.at_read = edited
    assert run("--act").exit_code == 1
    assert tabs.text == {"crontab": OURS + THEIRS}


def test_a_crontab_that_cannot_be_read_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = SlurmError("`crontab -l` failed: you are not allowed to use this program")
    monkeypatch.setattr(client, "answer", lambda *_, **__: ("", refused))
    answer = run()
    assert answer.exit_code == 1 and "not allowed" in answer.stdout


@given(st.lists(st.sampled_from([OURS, THEIRS, OTHERS, "# x\n", "\n", "A=b\n", "#SCRON -p a\n"])))
def test_all_that_is_not_ours_is_kept_as_it_is(lines: list[str]) -> None:
    found = crontabs.split("crontab", "".join(lines))
    kept = [line for line in found.rest.splitlines(keepends=True) if not line.startswith("#SCRON")]
    assert kept == [line for line in lines if line != OURS and not line.startswith("#SCRON")]
    assert len(found.ours) == lines.count(OURS)
    assert crontabs.split("crontab", found.rest).ours == ()


@given(st.text())
def test_a_crontab_without_a_line_of_ours_is_kept_to_the_byte(text: str) -> None:
    assert crontabs.split("crontab", text).rest == text


# --- what stays -----------------------------------------------------------------------------------


def test_what_stays_is_listed_with_what_removes_it(area: Path) -> None:
    stays = {line.thing: line for line in uninstall.stays("lab")}
    assert stays["accepted states"].next_step == f"rm -r {area}"
    assert "systemctl disable railgauge-hold" in stays["on each node"].next_step


def test_the_document_has_its_schema(nodes: Slurm) -> None:
    nodes.drain(["n2"], "failed")
    document = json.loads(run("--json").stdout)
    require("uninstall", document)
    assert document["left"] is True
