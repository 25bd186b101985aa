"""What is measured in which state of the hosts, and what shows that they were not in it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge import systems
from railgauge.checks.framework import slurm_queue
from railgauge.checks.tcp import cpu_load
from railgauge.checks.tcp.cpu_load import RailStates, TcpStates, hypervisors, in_other_state
from railgauge.model import references
from railgauge.model.failure import HOST_STATE, NOT_MEASURED
from railgauge.node.orders.places import HypervisorOrder
from railgauge.systems import Contention
from tests.unit.checks import ended_jobs
from tests.unit.checks.rdma.test_rail import Describe, describe, partition, rails  # noqa: F401
from tests.unit.records import names

DATA: dict[str, Any] = {"series_only": False}


def of(**extras: Any) -> dict[str, Any]:
    return {**partition(**extras), "features": ["tcp", *extras]}


@pytest.mark.parametrize(("asked", "cases"), [("", 0), ("1", 3)])
def test_each_state_is_a_place_of_its_own_where_the_series_is_asked_for(
    describe: Describe,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    cases: int,
) -> None:
    describe(of(contention={}, rdma=rails(2)))
    monkeypatch.setenv("RAILGAUGE_SERIES", asked)
    assert (
        names(TcpStates())
        == [
            "gpu:n1:n2:idle",
            "gpu:n1:n2:busy",
            "gpu:n1:n2:beside",
        ][:cases]
    )
    assert names(RailStates())[:1] == ["gpu:n1:n2:0-0:idle"][:cases]


@pytest.mark.parametrize("system", ["lab", "vm-pair"])
def test_latency_beside_load_is_shown_as_times_that_without(system: str) -> None:
    ratios = references.load(system).ratios_of("ContentionLatency")
    shown = {ratio.metric for ratio in ratios if ratio.of.operation == "write busy"}
    assert {"latency", "latency_p99"} <= shown


def test_no_two_states_are_measured_at_once(describe: Describe) -> None:  # noqa: F811
    describe(of(contention=DATA))
    states = [case.condition for case in TcpStates()]
    assert len(set(states)) == len(states)


def test_a_state_that_the_data_has_not_is_no_condition_of_it(describe: Describe) -> None:  # noqa: F811
    describe(of(contention=DATA))
    only = systems.load("alps").partition("gpu")
    assert TcpStates().values(only) == {"operation": ["tcp idle", "tcp busy", "tcp beside"]}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"states": ["busy", "beside"]}, "no idle"),
        ({"states": ["idle", "idle"]}, "twice"),
        ({"hypervisors": {"n1": {"host": "-oProxyCommand=x", "cpus": "0"}}}, "host"),
        ({"hypervisors": {"n1": {"host": "epyc", "cpus": "0;reboot"}}}, "cpus"),
        ({"hypervisors": {"n1": {"host": "epyc", "cpus": "0", "near": "all"}}}, "near"),
    ],
)
def test_data_that_cannot_be_meant_are_refused(data: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Contention.model_validate(data)


# ---- hypervisors ----

VMS = {"vm0": {"host": "epyc", "cpus": "2-7"}, "vm1": {"host": "epyc", "cpus": "8-15"}}
ENDS = {"server": "vm0", "client": "vm1"}


def test_each_side_keeps_the_cpus_of_its_own_machine_busy() -> None:
    asked = hypervisors(Contention.model_validate({"hypervisors": VMS}), ENDS, "busy")
    assert asked == {
        "server": HypervisorOrder("epyc", cpus="2-7"),
        "client": HypervisorOrder("epyc", cpus="8-15"),
    }


def test_beside_two_machines_of_one_hypervisor_is_beside_both_and_once() -> None:
    asked = hypervisors(Contention.model_validate({"hypervisors": VMS}), ENDS, "beside")
    assert asked == {
        "server": HypervisorOrder("epyc", but="2-7,8-15"),
        "client": HypervisorOrder("epyc", by_other=True),
    }


@pytest.mark.parametrize("state", ["idle", "busy", "beside", "far"])
def test_a_virtual_machine_s_cpus_near_its_nic_are_told_in_every_state(state: Any) -> None:
    vms = {name: {**one, "near": "4-5"} for name, one in VMS.items()}
    asked = hypervisors(Contention.model_validate({"hypervisors": vms}), ENDS, state)
    assert [asked[role].near for role in ENDS] == ["4-5", "4-5"]


def test_nodes_without_a_hypervisor_are_loaded_themselves() -> None:
    assert hypervisors(Contention(), ENDS, "busy") == {}


# ---- whether it was so ----


def looked(state: str, stressors_s: float = 2.0, others_s: float = 0.0) -> dict[str, Any]:
    """Four seconds on four CPUs, of which the tool has the first two, and used 3 s itself."""
    before = {"at": 10.0, "cpus": [0, 1], "busy_s": 50.0, "online": 4, "online_busy_s": 90.0}
    used_s = 3.0 + others_s + (stressors_s if state in cpu_load.LOADED else 0)
    after = {**before, "at": 14.0, "busy_s": 50.0 + used_s, "online_busy_s": 90.0 + used_s}
    said = {
        **{"state": state, "tool_cpus": "0-1", "nic_numa_node": 0, "tool_numa_nodes": [0]},
        **{"own_s": 3.0, "before": before, "after": {**after, "load": 1.0}},
    }
    if state == "far":
        said["tool_numa_nodes"] = [1]
    if state in cpu_load.LOADED:
        said["before"].update(running=True, cpu_s=1.0, bound_to=[0, 1])
        said["after"].update(running=True, cpu_s=1.0 + stressors_s, bound_to=[0, 1])
    if state == "beside":
        said["tool_cpus"] = "2-3"
    return said


def wrong(said: dict[str, Any] | None, state: Any, tool_s: float = 4.0) -> list[str]:
    found = in_other_state("n1", said, state, Contention(), tool_s)
    assert all(one.kind == HOST_STATE and one.nodes == ("n1",) for one in found)
    return [one.message for one in found]


@pytest.mark.parametrize("state", ["idle", "busy", "beside", "far"])
def test_a_host_in_the_state_passes(state: str) -> None:
    assert wrong(looked(state), state) == []


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda said: said["after"].update(cpu_s=1.1), "was not busy"),
        (lambda said: said["after"].update(running=False), "ended early"),
        (lambda said: said["after"].update(bound_to=[0, 1, 2]), "where it should be"),
        (lambda said: said["after"].update(at=11.0), "looked at for 1.0 s"),
        (lambda said: said.pop("after"), "is unknown"),
        (lambda said: said.update(state="idle"), "nothing says that n1 was busy"),
        (lambda said: said.update(tool_cpus="2-3"), "which is not busy"),
    ],
)
def test_stressors_that_were_not_there_all_the_time_are_no_load(change: Change, words: str) -> None:
    said = copy.deepcopy(looked("busy"))
    change(said)
    (message,) = wrong(said, "busy")
    assert words in message


def test_load_on_the_tool_s_own_cpus_is_not_beside_it() -> None:
    assert "not beside" in wrong({**looked("beside"), "tool_cpus": "1-2"}, "beside")[0]


def test_a_host_of_which_nothing_is_said_is_in_no_state() -> None:
    assert wrong(None, "idle") and wrong(None, "busy")


@pytest.mark.parametrize(("others_s", "passes"), [(0.5, True), (1.0, False)])
def test_a_host_that_something_else_loads_is_not_idle(others_s: float, passes: bool) -> None:
    found = wrong(looked("idle", others_s=others_s), "idle")
    assert (found == []) is passes and all("was not idle" in message for message in found)


def test_load_on_other_cpus_is_not_idle_either() -> None:
    said = looked("idle")
    said["after"]["online_busy_s"] += 3.0
    assert "was not idle" in wrong(said, "idle")[0]


@pytest.mark.parametrize("state", ["idle", "far"])
@pytest.mark.parametrize("home", [0, 1])
def test_a_tool_on_the_other_numa_node_is_of_the_other_state(state: str, home: int) -> None:
    said = {**looked(state), "nic_numa_node": home}
    right = (state == "idle") == (home == 0)
    if state == "far":
        right = home == 0
    assert (wrong(said, state) == []) is right


@pytest.mark.parametrize(
    ("state", "tool", "right"),
    [
        ("idle", "12-13", True),
        ("idle", "11-12", False),
        ("far", "0-1", True),
        ("far", "11-12", False),
    ],
)
def test_the_tool_in_a_virtual_machine_is_where_the_data_have_it(
    state: str, tool: str, right: bool
) -> None:
    """It shows one NUMA node, of which the tool is always."""
    said = {**looked(state), "on": "epyc", "near": "12-27", "tool_cpus": tool}
    said["after"]["busy_s"] = said["after"]["online_busy_s"] = 0.0
    said |= {"nic_numa_node": 0, "tool_numa_nodes": [0]}
    assert (wrong(said, state) == []) is right


def test_what_a_hypervisor_s_guests_use_is_not_taken_off_twice() -> None:
    said = {**looked("idle"), "on": "epyc"}
    assert "epyc was not idle" in wrong(said, "idle")[0]


def test_a_host_in_another_state_is_not_measured_and_nobody_s_fault() -> None:
    assert HOST_STATE in NOT_MEASURED


# ---- a job that has ended ----


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("results")
    with ended_jobs.session("lab", folder, RAILGAUGE_SERIES="1") as checks:
        yield checks["ContentionTcp"].kind


def without_state(check: Any, **facts: Any) -> None:
    """The places of a job on whose nodes no state could be had."""
    check.select_places()
    sides: dict[str, dict[str, Any]] = {}
    for place in check.places:
        sides[place.place] = {}
        for rank, (role, node) in enumerate((("server", "n1"), ("client", "n2"))):
            said = {"emulation": "none", "mtu_bytes": 4200, **facts}
            line = ended_jobs.exit_line("iperf2", role, node, rank, **said)
            line["call"].update(exit_code=None, note=f"not started: {facts['no_state']}")
            sides[place.place][role] = ended_jobs.side(line, "")
    ended_jobs.Left(sides, dict.fromkeys(sides, ended_jobs.DONE)).write(check)


def test_a_state_that_cannot_be_had_is_not_measured_and_nobody_s_fault(
    known: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_queue.session, "takes_no_job", lambda asked: {})
    check = ended_jobs.ended(known(variant_num=0), tmp_path)
    without_state(check, no_state="no ssh")
    assert "n1 could not be idle: no ssh" in ended_jobs.judge(check)
    kinds = [[failure.kind for failure in judged.failures] for judged in check.results]
    assert kinds == [[HOST_STATE]] * len(check.places)


def test_where_there_is_one_numa_node_what_is_far_from_the_nic_is_left_out_by_name(
    known: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_queue.session, "takes_no_job", lambda asked: {})
    check = ended_jobs.ended(known(variant_num=0), tmp_path)
    without_state(check, no_state="all of its CPUs are near eth0", one_numa_node=True)
    ended_jobs.judge(check)
    (far,) = [judged for judged in check.results if not judged.failures]
    assert far.place.state == "far"
    left_out = check._result(far).left_out
    assert left_out is not None and "n1 could not be far: all of its CPUs" in left_out.message


def test_stressors_may_run_as_long_as_both_sides_and_not_much_longer(
    known: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_queue.session, "takes_no_job", lambda asked: {})
    check = ended_jobs.ended(known(variant_num=0), tmp_path)
    check.select_places()
    with check.at(check.places[0]):
        order = check.sweep_run.order(check.bound_before)
    limits_s = order.start_limit_s + order.run_limit_s
    assert limits_s + 60 < order.contention.at_most_s < limits_s + 300


SECONDS = st.floats(0, 1e6, allow_nan=False)


@given(SECONDS, SECONDS, SECONDS, st.sampled_from(["idle", "busy", "beside", "far"]))
def test_no_number_of_a_host_breaks_the_judgement(
    at: float, busy_s: float, cpu_s: float, state: str
) -> None:
    said = looked(state)
    said["after"].update(at=at, busy_s=busy_s, cpu_s=cpu_s)
    assert isinstance(wrong(said, state), list)
    assert cpu_load.how("n1", said)
