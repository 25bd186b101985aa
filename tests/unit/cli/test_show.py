"""`railgauge show`: what was measured and printed at a place."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from railgauge.campaign import folder as campaigns
from railgauge.campaign.folder import RESULT_FILE, Campaign, Requested, Scope, Session
from railgauge.cli import cli
from railgauge.cli.show import _chosen, _names
from railgauge.common.atomic import write_json
from railgauge.common.errors import RailgaugeError
from railgauge.model import record
from railgauge.model.failure import Failure
from railgauge.model.measurement import Measurement
from railgauge.model.record import Row
from railgauge.node.orchestration import sweep_file
from railgauge.node.transport import results_file
from tests.command_line import invoke
from tests.unit import records
from tests.unit.verdict.decision.test_rules import case_on

PLACES = ("n1:n2:0-0", "n1:n2:1-1", "n2:n3:0-0")
CHECKS = ("RailProbe", "RdmaLatency")


def facts(node: str) -> dict[str, Any]:
    moved = {"net/eth1/rx_bytes": 15822282, "net/eth1/tx_errors": 0}
    return {
        "device": f"mlx5_of_{node}",
        "unknown": {"fw_ver": "empty"},
        "counters": {"seconds": 6.2, "counters": moved},
        "rails": [{"rail": 0, "state": "ACTIVE"}],
    }


def exit_line(role: str, node: str) -> dict[str, Any]:
    said = records.call("perftest", role=role, host=node, seconds=6.0, version="Version: 6.24")
    return {"call": dataclasses.asdict(said), "facts": facts(node)}


def leave_sweep(stage: Path, check: str) -> None:
    """What the job of a check left: its list, its raw outputs, and its record."""
    stage.mkdir(parents=True)
    pairs = [place.split(":")[:2] for place in PLACES]
    listed = [
        {
            "name": name,
            "program": "client_server",
            "roles": {"server": server, "client": client},
            "order": 0,
        }
        for name, (server, client) in zip(PLACES, pairs, strict=True)
    ]
    write_json(
        stage / sweep_file.FILE,
        {
            "tool": "perftest",
            "nodes": ["n1", "n2", "n3"],
            "rounds": [[0], [1], [2]],
            "places": listed,
            "orders": [{"run_limit_s": 1}],
        },
    )
    writer = results_file.Writer(stage / results_file.FILE)
    results = []
    for number, (server, client) in enumerate(pairs):
        for role, node in (("server", server), ("client", client)):
            printed = f"{check} {role} of {PLACES[number]}\n"
            line = exit_line(role, node)
            side = {"event": "side", "place": number, "role": role, "line": line}
            writer.write({**side, "out": printed, "err": "", "files": {"log": "a log\n"}})
        bandwidth = Measurement("bandwidth", 9.5, "perftest", "write", "rdma", nodes=("n1", "n2"))
        document = records.record(
            [Row(bandwidth, None, None)],
            [Failure("condition", "gid_index is 0, expected 3", ("n1",), "show_gids")],
            [records.call("perftest", role="server", host=server)],
            {server: facts(server), client: facts(client)},
        )
        results.append({**document["results"][0], "place": PLACES[number]})
    writer.close()
    whole = records.record(check=check)
    records.write(stage / RESULT_FILE, {**whole, "results": results})


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of two checks at three places."""
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    folder = tmp_path / "campaigns" / "20261122T102033Z-lab-567bea"
    folder.mkdir(parents=True)
    places = tuple(record.Place(name, tuple(name.split(":")[:2])) for name in PLACES)
    plan, ran = [], []
    for check in CHECKS:
        plan.append(records.planned(check, f"{check} %sweep=ns", f"{check}_1", [], places=places))
        stage = folder / "stage" / check
        leave_sweep(stage, check)
        ends = {"unique_name": f"{check}_1", "partition": "ns", "result": "fail"}
        ran.append({**ends, "stagedir": str(stage), "fail_reason": "all of the sweep"})
    write_json(folder / "plan.json", plan)
    records.leave_report(folder, plan, [ran])
    Campaign(
        folder,
        "lab",
        "acceptance",
        Scope({"ns": ["n1", "n2", "n3"]}, {}),
        Requested([], {}, {}),
        state="finished",
        session=Session(0, ""),
    ).save()
    return folder


def show(*words: str) -> Result:
    return invoke(cli, ["show", *words])


def titles(answer: Result) -> list[str]:
    return [line for line in answer.output.splitlines() if line.startswith("===")]


def test_a_place_of_a_check_is_shown_with_all_that_is_known_of_it(campaign: Path) -> None:
    answer = show("latest", "n1:n2:1-1", "--check", "RailProbe")
    assert (answer.exit_code, titles(answer)) == (0, ["=== RailProbe ns n1:n2:1-1: fail"])
    for part in (
        "perftest, server on n1, exit code 0, 1.00 s",
        "bandwidth 9.5 Gb/s: no reference",
        "condition: gid_index is 0, expected 3",
        "next: show_gids",
        "device mlx5_of_n2",
        "rails: rail 0, state ACTIVE",
        "net/eth1/rx_bytes",
        "--- server on n1, standard output\nRailProbe server of n1:n2:1-1\n",
        "--- client on n2, standard output\nRailProbe client of n1:n2:1-1\n",
        "--- client on n2, standard error: nothing\n",
        "--- client on n2, log\na log\n",
        str(campaign / "stage" / "RailProbe"),
    ):
        assert part in answer.output


def test_a_counter_that_did_not_move_is_not_shown(campaign: Path) -> None:
    assert "tx_errors" not in show("latest", "n1:n2:1-1").output


def test_the_reason_of_the_whole_sweep_is_not_of_a_place_with_its_own(campaign: Path) -> None:
    assert "all of the sweep" not in show("latest", "n1:n2:1-1").output


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("n2:n3:0-0", ["n2:n3:0-0"]),
        ("n1:n2", ["n1:n2:0-0", "n1:n2:1-1"]),
        ("n[1-2]", ["n1:n2:0-0", "n1:n2:1-1"]),
        ("n2", list(PLACES)),
        ("n3", ["n2:n3:0-0"]),
    ],
)
def test_a_place_is_its_name_its_nodes_or_one_of_them(
    campaign: Path, place: str, shown: list[str]
) -> None:
    found = titles(show("latest", place))
    assert found == [f"=== {check} ns {name}: fail" for check in CHECKS for name in shown]


def test_an_unknown_place_is_answered_with_the_nearest(campaign: Path) -> None:
    error = show("latest", "n1:n3:0-0").exception
    assert isinstance(error, RailgaugeError)
    assert "no place n1:n3:0-0; it has n2:n3:0-0, n1:n2:0-0, " in error.message
    assert error.next_step == f"railgauge verdict --all {campaign.name}"


def test_a_pair_that_was_measured_again_is_found_by_its_nodes_as_the_tables_name_it() -> None:
    names = _names(dataclasses.replace(case_on(("n1", "n3"), passed=True), place="n1:n3:0-0@4"))
    assert {"n1:n3", "n1 n3", "n1:n3:0-0", "n1:n3:0-0@4"} <= set(names)


def test_no_place_is_suggested_that_no_table_prints(campaign: Path) -> None:
    cases = [dataclasses.replace(case_on(("n1", "n2"), passed=True), place="n1:n2@4", check="Rail")]
    with pytest.raises(RailgaugeError) as error:
        _chosen(campaigns.load("latest"), cases, "n1:n9@4", None)
    assert "n1:n2" in error.value.message and "n1:n2@4" not in error.value.message


def test_an_unknown_check_is_answered_with_the_known_ones(campaign: Path) -> None:
    error = show("latest", "n1", "--check", "Rail").exception
    assert isinstance(error, RailgaugeError)
    assert error.message.endswith("expected one of: RailProbe, RdmaLatency")


def test_outputs_that_cannot_be_read_are_an_error_next_to_what_is_known(campaign: Path) -> None:
    (campaign / "stage" / "RailProbe" / results_file.FILE).write_bytes(b"no gzip")
    answer = show("latest", "n1:n2:0-0")
    assert [line.split()[1] for line in titles(answer)] == list(CHECKS)
    assert isinstance(answer.exception, RailgaugeError)
    assert "raw.jsonl.gz: damaged" in answer.exception.message


def test_a_sweep_that_broke_off_is_shown_as_far_as_it_came(campaign: Path) -> None:
    path = campaign / "stage" / "RailProbe" / results_file.FILE
    path.write_bytes(path.read_bytes()[:-10])
    assert "RailProbe server of n1:n2:0-0" in show("latest", "n1:n2:0-0").output


def test_a_job_that_is_no_sweep_is_shown_by_its_files(campaign: Path) -> None:
    stage = campaign / "stage" / "RailProbe"
    (stage / results_file.FILE).unlink()
    (stage / "server.out").write_text("of a job\n")
    answer = show("latest", "n1:n2:0-0", "--check", "RailProbe")
    assert "--- server, standard output\nof a job\n" in answer.output


def test_a_damaged_plan_is_an_error(campaign: Path) -> None:
    (campaign / "plan.json").write_text(json.dumps([{"check": 1}]))
    assert isinstance(show("latest", "n1").exception, RailgaugeError)


def test_a_group_of_nodes_is_shown_with_the_table_of_its_launch(
    campaign: Path,
) -> None:
    stage = campaign / "stage" / "RailProbe"
    # A list of launches has no roles.
    write_json(stage / sweep_file.FILE, {"places": [{"name": name} for name in PLACES]})
    writer = results_file.Writer(stage / results_file.FILE)
    event = {"event": "launch", "launch": 4, "places": [0, 1], "parent": None, "why": ""}
    files = {"hang.out": "rank 5 lags behind\n"}
    writer.write({**event, "seconds": 1.0, "out": "a table\n", "err": "", "files": files})
    line = exit_line("rank0", "n1")
    side = {"event": "side", "place": 1, "role": "rank0", "line": line, "out": "", "err": ""}
    writer.write({**side, "files": {"rank0.nccl.log": "NCCL INFO\n"}})
    writer.close()
    answer = show("latest", "n1:n2:1-1", "--check", "RailProbe")
    for part in (
        "--- launch 4 of 2 groups, table\na table\n",
        "--- launch 4 of 2 groups, hang.out\nrank 5 lags behind\n",
        "--- rank0 on n1, rank0.nccl.log\nNCCL INFO\n",
    ):
        assert part in answer.output


def test_of_many_ranks_those_that_failed_are_shown_first_and_long_files_by_their_ends(
    campaign: Path,
) -> None:
    stage = campaign / "stage" / "RailProbe"
    writer = results_file.Writer(stage / results_file.FILE)
    for rank in range(20):
        line = exit_line(f"rank{rank}", "n1")
        line["call"]["exit_code"] = 3 if rank == 19 else 0
        side = {"event": "side", "place": 1, "role": f"rank{rank}", "line": line, "err": ""}
        log = "".join(f"line {number}\n" for number in range(100))
        writer.write({**side, "out": "", "files": {"log": log}})
    writer.close()
    answer = show("latest", "n1:n2:1-1", "--check", "RailProbe")
    shown = [line.split()[1] for line in answer.output.splitlines() if line.endswith(", log")]
    assert len(shown) == 16 and shown[0] == "rank19"
    assert "... 60 lines before these\nline 60\n" in answer.output
    assert "--- 4 more\nin " in answer.output
