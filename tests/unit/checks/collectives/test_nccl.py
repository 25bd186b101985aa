"""NCCL's checks: what a launch of many groups proves of each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railgauge import paths
from railgauge.checks.collectives import nccl
from railgauge.model.failure import NO_REFERENCE
from railgauge.node.transport import results_file
from railgauge.slurm import nodes as slurm_nodes
from tests.unit.checks import ended_jobs
from tests.unit.checks.collectives import nccl_left
from tests.unit.checks.collectives.nccl_left import Launch

#: Two rounds of two pairs of one rack.
NODES = "gb200-nvl72-r1t[01-04]"

#: algbw: a busbw of 812 GB/s over 8 ranks, the published one, and half of it.
GOOD, SLOW = 464.0, 232.0


@pytest.fixture
def check(tmp_path: Path) -> Iterator[Any]:
    """NcclPair, of which only what NCCL chooses by itself is measured."""
    wanted = {"RAILGAUGE_NODES": NODES, "RAILGAUGE_PLACES": ":default:"}
    with ended_jobs.session("gb200-nvl72", tmp_path, **wanted) as known:
        made = ended_jobs.ended(known["NcclPair"].kind(variant_num=0), tmp_path / "stage")
        made._rfm_dry_run = True
        made.select_places()
        yield made


def failed(check: Any) -> dict[str, list[str]]:
    """The kinds of what is wrong, by the nodes of the place."""
    return {
        " ".join(node[-1] for node in judged.place.nodes): [f.kind for f in judged.failures]
        for judged in check.results
        if not judged.passed
    }


def test_a_round_is_one_launch_of_pairs_in_the_order_of_their_nodes(check: Any) -> None:
    orders = check.orders().document()
    rounds = [[orders["places"][p]["nodes"] for p in one["places"]] for one in orders["rounds"]]
    short = [[[node[-1] for node in nodes] for nodes in pairs] for pairs in rounds]
    assert short == [[["1", "2"], ["3", "4"]], [["2", "3"], ["4", "1"]]]
    (order,) = orders["orders"]
    assert order["together"] == {"NCCL_TESTS_SPLIT": "DIV {ranks}"}
    assert order["bounds"]["busbw"] == pytest.approx(0.9 * 811.71)


def test_without_a_stored_number_no_launch_may_be_below_its_share_of_the_limit(check: Any) -> None:
    (order,) = check.orders().document()["orders"]
    with check.at(check.places[0]):
        limit = check.limit(check.sweep_run.largest("busbw"))
    assert order["least"] == dict.fromkeys(
        ("busbw", "busbw_in_place"), pytest.approx(0.4 * limit.value)
    )


def test_a_checkout_may_have_a_blank_in_its_path(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No shell reads these words."""
    monkeypatch.setattr(paths, "SOURCE", Path("/srv/a clone/src"))
    assert "PYTHONPATH=/srv/a clone/src" in check.orders().document()["program"]


def test_a_good_launch_clears_all_of_its_groups(check: Any) -> None:
    nccl_left.leave(check, rate=GOOD)
    assert ended_jobs.judge(check) == "" and failed(check) == {}
    (first, *_) = check.results
    (facts,) = {(f["launch"], f["slowest_of"]) for f in first.evidence.seen_on.values()}
    assert facts == (0, 2)


def test_settings_that_move_numbers_are_facts_of_its_nodes(check: Any) -> None:
    nccl_left.leave(check, rate=GOOD)
    ended_jobs.judge(check)
    seen = check.results[0].evidence.seen_on
    nvls = check.results[0].evidence.reading.seen["nvls"]
    with check.at(check.results[0].place):
        expected = {"nvls": nvls, "sharp": False, "warmup": check.sweep_run.options.warmup}
    assert [facts["collective"] for facts in seen.values()] == [expected] * len(seen)


def test_every_group_has_the_number_of_the_slowest_with_its_own_nodes(check: Any) -> None:
    nccl_left.leave(check, rate=GOOD)
    ended_jobs.judge(check)
    largest = [
        next(m for m in judged.evidence.measurements if m.variable == "busbw_17179869184B")
        for judged in check.results
    ]
    assert [m.nodes for m in largest] == [judged.place.nodes for judged in check.results]
    assert {m.ranks for m in largest} == {8}
    assert largest[0].value == largest[1].value


def test_a_good_launch_that_the_strict_reading_refuses_clears_none(check: Any) -> None:
    def broken(made: Launch) -> None:
        made.event["out"] = made.event["out"].replace("# Collective test concluded", "# Nothing")

    nccl_left.leave(check, broken, rate=GOOD)
    ended_jobs.judge(check)
    assert failed(check) == {"1 2": ["output"], "3 4": ["output"]}


def test_a_low_launch_that_was_taken_for_good_clears_none(check: Any) -> None:
    nccl_left.leave(check, rate=SLOW)
    ended_jobs.judge(check)
    assert all(not judged.within for judged in check.results)


def test_groups_other_than_those_asked_for_are_no_pass(check: Any) -> None:
    def as_one(made: Launch) -> None:
        made.event["out"] = made.event["out"].replace(" Group  1 ", " Group  0 ")

    nccl_left.leave(check, as_one, rate=GOOD)
    assert "NCCL_TESTS_SPLIT" in ended_jobs.judge(check)
    assert set(failed(check)) == {"1 2", "3 4"}


def test_a_group_whose_own_logs_show_another_way_fails_alone(check: Any) -> None:
    def by_sockets(made: Launch) -> None:
        roles = made.sides[1]
        for role, side in roles.items():
            files = {n: t.replace("P2P/MNNVL", "NET/Socket/0") for n, t in side.files.items()}
            roles[role] = side._replace(files=files)

    nccl_left.leave(check, by_sockets, rate=GOOD)
    ended_jobs.judge(check)
    assert set(failed(check)) == {"3 4"}
    assert "condition" in failed(check)["3 4"]


def test_a_rank_without_an_exit_line_leaves_nothing_cleared(check: Any) -> None:
    def silent(made: Launch) -> None:
        del made.sides[1]["rank3"]

    nccl_left.leave(check, silent, rate=GOOD)
    ended_jobs.judge(check)
    assert set(failed(check)) == {"1 2", "3 4"}
    assert "no-exit-line" in failed(check)["3 4"]
    assert "no-exit-line" not in failed(check)["1 2"]


def test_ranks_on_the_nodes_of_another_group_are_no_pass(check: Any) -> None:
    def swapped(made: Launch) -> None:
        made.sides[0], made.sides[1] = made.sides[1], made.sides[0]

    nccl_left.leave(check, swapped, rate=GOOD)
    ended_jobs.judge(check)
    assert {"wrong-node", "silent-node"} <= set(failed(check)["1 2"])


def test_what_halves_have_told_apart_is_judged_by_its_last_launch(check: Any) -> None:
    orders = check.orders().document()
    whole = nccl_left.launch(check, orders, 0, [0, 1], 0, SLOW)
    slow = nccl_left.launch(check, orders, 0, [0], 1, SLOW)
    good = nccl_left.launch(check, orders, 0, [1], 2, GOOD)
    others = nccl_left.launch(check, orders, 0, [2, 3], 3, GOOD)
    events = [e for one in (whole, slow, good, others) for e in nccl_left.events_of(one)]
    nccl_left.write(check, [*events, *(nccl_left.outcome(place) for place in range(4))])
    ended_jobs.judge(check)
    assert failed(check) == {"1 2": []}  # it is out of its reference, and nothing else is wrong
    facts = check.results[1].evidence.seen_on[check.results[1].place.nodes[0]]
    assert (facts["launch"], facts["slowest_of"]) == (2, 1)


def test_groups_that_were_not_told_apart_are_no_pass_and_accuse_nobody(check: Any) -> None:
    orders = check.orders().document()
    one = nccl_left.launch(check, orders, 0, [0, 1], 0, SLOW)
    other = nccl_left.launch(check, orders, 0, [2, 3], 1, GOOD)
    why = "could not isolate the bad group: busbw is 406 in launch 0"
    ends = [nccl_left.outcome(p, why, "refused") for p in (0, 1)]
    ends += [nccl_left.outcome(p) for p in (2, 3)]
    events = nccl_left.events_of(one) + nccl_left.events_of(other)
    nccl_left.write(check, [*events, *ends])
    assert "2 groups of nodes: could not isolate the bad group" in ended_jobs.judge(check)
    assert len(check.results) == 2 and len(check.not_run) == 2
    (failure,) = check.job_failures()
    assert failure.kind == "not-told-apart" and failure.nodes == ()


TROUBLE = "srun: error: Unable to contact slurm controller (connect failure)\n"


@pytest.mark.parametrize(("dead", "kind"), [([], "job-disturbed"), (["n"], "silent-node")])
def test_a_launch_that_the_controller_failed_accuses_no_node(
    check: Any, monkeypatch: pytest.MonkeyPatch, dead: list[str], kind: str
) -> None:
    def failed_launch(made: Launch) -> None:
        made.event |= {"out": "", "err": TROUBLE, "files": {}, "why": "no exit line"}
        made.sides.clear()

    monkeypatch.setattr(slurm_nodes, "dead", lambda nodes: dead)
    nccl_left.leave(check, failed_launch, rate=GOOD)
    ended_jobs.judge(check)
    assert kind in failed(check)["1 2"] and len(check.results) == 4


def test_a_hang_tells_what_ncclras_says_of_it(check: Any) -> None:
    def hung(made: Launch) -> None:
        made.event["files"]["hang.out"] = "rank 5 lags behind"
        for roles in made.sides.values():
            for role, side in roles.items():
                line = json.loads(json.dumps(side.line))
                line["call"] |= {"exit_code": None, "note": "still running after 600.0 s, killed"}
                roles[role] = results_file.Side(line, side.out, side.err, side.files)

    nccl_left.leave(check, hung, rate=GOOD)
    assert "ncclras says: rank 5 lags behind" in ended_jobs.judge(check)


def test_older_tools_have_a_launch_a_group(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    described = nccl.fabric_of(check.partition_data)
    old = described.binaries.model_copy(update={"version": "2.13.9"})
    fabric = described.model_copy(update={"binaries": old})
    monkeypatch.setattr(nccl, "fabric_of", lambda partition: fabric)
    (order,) = check.orders().document()["orders"]
    assert order["together"] is None


def test_an_image_is_given_to_every_launch_with_its_own_folder(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = f"docker://nccl@sha256:{'0' * 64}"
    described = nccl.fabric_of(check.partition_data)
    binaries = described.binaries.model_copy(update={"path": None, "image": image})
    fabric = described.model_copy(update={"binaries": binaries})
    monkeypatch.setattr(nccl, "fabric_of", lambda partition: fabric)
    argv = check.orders().document()["launcher"]["argv"]
    assert argv[0] == "srun" and f"--container-image={image}" in argv
    # The driver fills it in (railgauge.node.orchestration.group_launches).
    assert "--container-workdir={folder}" in argv


def test_where_ranks_run_is_not_left_to_mpiruns_own_mapping(check: Any) -> None:
    options = ["--map-by", "ppr:1:node", "--bind-to", "none"]
    check.job.launcher = SimpleNamespace(registered_name="mpirun", options=options)
    launcher = check.orders().document()["launcher"]
    assert launcher["kind"] == "mpirun"
    assert "--map-by" not in launcher["argv"] and "--bind-to" in launcher["argv"]


def test_a_group_needs_the_states_and_the_rails_of_its_own_nodes_alone(tmp_path: Path) -> None:
    nodes = [f"dgx-h100-n0{number}" for number in range(1, 5)]
    with ended_jobs.session("dgx-h100", tmp_path, RAILGAUGE_NODES="dgx-h100-n[01-04]") as known:
        made = known["NcclPair"].kind(variant_num=0)
        needs = {place.place: made.needs(place) for place in made.places}
    of_first = needs["all_reduce:default:dgx-h100-n[01-02]"]
    states = [("NodeState", node) for node in nodes[:2]]
    rails = [("RailProbe", f"{nodes[0]}:{nodes[1]}:{rail}-{rail}") for rail in range(8)]
    assert of_first == states + rails
    assert len(needs["all_reduce:one-hca:dgx-h100-n[01-02]"]) == 10


def of_first_node(check: Any, **facts: Any) -> dict[str, list[str]]:
    """What fails where the first rank of the first node of the first launch says this too."""

    def say(made: Launch) -> None:
        side = made.sides[0]["rank0"]
        made.sides[0]["rank0"] = side._replace(
            line={**side.line, "facts": {**side.line["facts"], **facts}}
        )

    nccl_left.leave(check, say, rate=GOOD)
    ended_jobs.judge(check)
    return failed(check)


def test_a_link_that_flapped_while_nccl_ran_fails_the_group_of_its_node(check: Any) -> None:
    link = {"states": ["ACTIVE"]}
    flapped = {
        "before": {**link, "carrier_changes": 4},
        "after": {**link, "carrier_changes": 6},
    }
    assert of_first_node(check, links={"mlx5_0": flapped}) == {"1 2": ["link-flap"]}


def test_a_budget_holds_for_the_counters_around_nccl(check: Any) -> None:
    counters = {"counters": {"rdma/mlx5_0/1/counters/link_downed": 1}}
    assert of_first_node(check, counters=counters) == {"1 2": ["counter"]}
    (group, *_) = check.results
    (failure,) = group.failures
    assert failure.nodes == group.place.nodes[:1]


def test_a_node_that_says_its_counters_are_simulated_is_no_pass(check: Any) -> None:
    assert of_first_node(check, counters={"simulated": True}) == {"1 2": ["simulated"]}


def test_every_node_is_watched_with_the_budgets_of_its_partition(check: Any) -> None:
    (order,) = check.orders().orders
    watched = order.ranks.watched
    assert watched.devices and watched.interfaces == ""
    budgets = [budget.counters for budget in check.partition_data.extras.counters]
    assert list(watched.budgets) == budgets


def test_within_a_node_links_are_watched_and_no_counter_is_missed(tmp_path: Path) -> None:
    wanted = {"RAILGAUGE_NODES": NODES}
    with ended_jobs.session("gb200-nvl72", tmp_path, **wanted) as known:
        made = ended_jobs.ended(known["NcclNode"].kind(variant_num=0), tmp_path / "stage")
        made._rfm_dry_run = True
        made.select_places()
        watched = made.orders().orders[0].ranks.watched
    assert watched.devices and watched.budgets == ()


# ---- with P2P off ----


@pytest.fixture
def without_p2p(tmp_path: Path) -> Iterator[Any]:
    """NcclNode on one node, with P2P off."""
    wanted = {"RAILGAUGE_NODES": "dgx-h100-n01", "RAILGAUGE_PLACES": ":p2p-off:"}
    with ended_jobs.session("dgx-h100", tmp_path, RAILGAUGE_SERIES="1", **wanted) as known:
        made = ended_jobs.ended(known["NcclNode"].kind(variant_num=0), tmp_path / "stage")
        made._rfm_dry_run = True
        made.select_places()
        yield made


def test_with_p2p_off_a_number_of_its_own_is_all_that_is_missing(without_p2p: Any) -> None:
    nccl_left.leave(without_p2p, rate=10.0)
    ended_jobs.judge(without_p2p)
    (result,) = without_p2p.results
    assert {failure.kind for failure in result.failures} == {NO_REFERENCE}
    assert {m.transport for m in result.evidence.measurements} == {"p2p-off"}


def test_nvlink_where_p2p_should_be_off_is_found(without_p2p: Any) -> None:
    def over_nvlink(launch: Launch) -> None:
        for roles in launch.sides.values():
            for role, side in roles.items():
                files = {
                    n: t.replace("SHM/direct/direct", "P2P/CUMEM") for n, t in side.files.items()
                }
                roles[role] = side._replace(files=files)

    nccl_left.leave(without_p2p, over_nvlink, rate=300.0)
    assert "within_nodes is ('P2P',), expected ('SHM',)" in ended_jobs.judge(without_p2p)
