"""A ReFrame session that measured nothing must not end as a pass.

ReFrame has no hook around a session, so `Runner.runall` of the pinned version is wrapped. The
wrapper is installed by whatever of ours is loaded first: bin/reframe, configs/settings.py or a
check file.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from reframe.core import fields, runtime, variables
from reframe.core.exceptions import ReframeError, what
from reframe.core.schedulers import slurm as slurm_scheduler
from reframe.core.schedulers.slurm import SlurmJobScheduler
from reframe.frontend.executors import Runner, TaskEventListener
from reframe.frontend.executors.policies import AsynchronousExecutionPolicy

import reframe
from railgauge import paths
from railgauge.atomic import write_json
from railgauge.campaign.folder import (
    ENDED,
    LEAVES,
    PLAN,
    POSSIBLE,
    REMAINING,
    RESULT_FILE,
    SWITCH_PORTS,
)
from railgauge.checks import queue, schedule, topology
from railgauge.checks.cases import Case, SweepCase
from railgauge.cluster import ready
from railgauge.errors import EnvironmentProblem
from railgauge.model import record
from railgauge.model.record import Ended, Key, Listed, Place, PlaceKey, Planned, Possible, Remaining
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import partitions, waiting
from railgauge.slurm.client import option

_PINNED = "4.10.4"

#: Less than this every partition gives to a job.
_LONG_S = 600

#: Set where a list of the cases is wanted, and no plan of all places, no session.
PLAN_ONLY_VARIABLE = "RAILGAUGE_PLAN_ONLY"


def refuse_weakened_session(runner: Any, cases: Sequence[Any]) -> None:
    """Options that switch parts of a check off."""
    if runner.policy.skip_sanity_check or runner.policy.skip_performance_check:
        raise ReframeError(
            "--skip-sanity-check and --skip-performance-check leave nothing to pass; drop them"
        )
    disabled = sorted({hook for case in cases for hook in case.check.disabled_hooks})
    if disabled:
        raise ReframeError(f"--disable-hook {' '.join(disabled)}: no part of a check may be off")


def refuse_impossible_schedule(runner: Any, cases: Sequence[Any]) -> None:
    """Pairs that a partition cannot have, as of leaves that nobody knows."""
    wrong = schedule.session_problem()
    if wrong is not None:
        raise ReframeError(str(wrong))


def refuse_endless_case(runner: Any, cases: Sequence[Any]) -> None:
    """A case that takes longer than a job may on its partition: Slurm would never start it."""
    limits_s: Mapping[str, float] | None = None
    for case in cases:
        seconds = getattr(case.check, "expected_seconds", None) or 0.0
        if seconds < _LONG_S:
            continue
        limits_s = partitions.time_limits_s() if limits_s is None else limits_s
        name = option("partition", "p", case.partition.access)
        if seconds > limits_s.get(name, math.inf):
            listed = _listed(case)
            raise ReframeError(
                f"{listed.title}: {listed.rounds} rounds take about {seconds:.0f} s, Slurm gives a "
                f"job of partition {name} at most {limits_s[name]:.0f} s (MaxTime): nodes_per_job "
                "in extras.sweep, or another schedule: docs/sweeps.md"
            )


def refuse_empty_session(runner: Any, cases: Sequence[Any]) -> None:
    """No test selected: a mistyped name, tag, partition or path."""
    if not cases:
        raise ReframeError(
            "no test was selected, so nothing was measured: look at -c, -n, -t, -p and --system; "
            "`reframe -c reframe/ -l` lists what there is"
        )


#: Why a session of this process began nothing; None where nothing was in its way.
unready: EnvironmentProblem | None = None


def refuse_unready_cluster(runner: Any, cases: Sequence[Any]) -> None:
    """Nodes that do not see what the checks need there would be rejected for it."""
    global unready
    nodes: dict[str, set[str]] = {}
    with_mpi = set()
    for case in cases:
        if case.partition.scheduler.registered_name == "slurm":
            pinned = getattr(case.check, "pinned_nodes", ())
            nodes.setdefault(case.partition.name, set()).update(pinned)
            if "mpi" in case.check.tags:
                with_mpi.add(case.partition.name)
    options = [word for option in runner.policy.sched_options for word in option.split()]
    try:
        ready.require(runtime.runtime().system.name, nodes, options, with_mpi=with_mpi)
    except EnvironmentProblem as error:
        unready = error
        raise ReframeError(str(error)) from None


def refuse_unfinished_session(runner: Any, cases: Sequence[Any]) -> None:
    """Cases that were selected and did not come to a result."""
    stats = runner.stats
    skipped = sum(len(stats.skipped(run)) for run in range(stats.num_runs))
    if skipped:
        raise ReframeError(f"{skipped} of {len(cases)} test cases were skipped: not a pass")
    finished = len(stats.completed(0))
    if finished < len(cases):
        raise ReframeError(f"only {finished} of {len(cases)} test cases came to a result")


def refuse_retried_session(runner: Any, cases: Sequence[Any]) -> None:
    """A case that failed and passed on a second try: the link is flaky, not well."""
    failed = runner.stats.failed(run=0)
    if runner.max_retries and failed:
        names = ", ".join(sorted(task.check.display_name for task in failed))
        raise ReframeError(
            f"failed at the first try, which a retry must not hide: {names}; "
            "--reruns repeats a test and counts every run"
        )


def _longest_s(check: Any) -> float:
    """The longest that a case may take: in the queue, and then by its job's own limit."""
    longest = getattr(check, "longest_seconds", None)
    job_s = _seconds(check.time_limit) if longest is None else longest
    return float(_seconds(check.max_pending_time) + job_s)


def _seconds(value: Any) -> float:
    """ReFrame's durations are numbers of seconds, or texts such as 1h30m."""
    if not isinstance(value, str):
        return float(value or 0)
    parts = re.findall(r"([0-9]+)([dhms])", value)
    return sum(int(n) * {"d": 86400, "h": 3600, "m": 60, "s": 1}[u] for n, u in parts)


def possible_cases(cases: Sequence[Any]) -> Possible:
    """Check -> partition -> how many places there are, selected or not, of each selected check.

    One without a parameter that names the partition runs on each that it has a case on.
    """
    selected: dict[type[Any], set[str]] = {}
    for case in cases:
        selected.setdefault(type(case.check), set()).add(case.partition.name)
    found: dict[str, dict[str, int]] = {}
    for check, reached in selected.items():
        counts: dict[str, int] = {}
        for number in range(check.num_variants):
            values = check.get_variant_info(number)["params"].values()
            named = {v.partition: places_in(v) for v in values if isinstance(v, Case)}
            for partition, places in (named or dict.fromkeys(reached, 1)).items():
                counts[partition] = counts.get(partition, 0) + places
        # --repeat makes of every case a class of the same name, each with all variants.
        known = found.setdefault(check.__name__, {})
        for partition, count in counts.items():
            known[partition] = max(count, known.get(partition, 0))
    return found


def places_in(case: Case) -> int:
    return case.possible if isinstance(case, SweepCase) else 1


def _places(check: Any) -> tuple[Place, ...]:
    """The places of a check; one that knows nothing of them is one place itself."""
    if not isinstance(getattr(check, "target", None), Case):
        return (Place("", tuple(getattr(check, "pinned_nodes", ()))),)
    return tuple(
        Place(place.place, place.nodes, place.kind, tuple(check.needs(place)))
        for place in check.places
    )


def _nodes(check: Any) -> tuple[str, ...]:
    """All nodes that a case is about, also those that it left out."""
    target = getattr(check, "target", None)
    return tuple(target.nodes if isinstance(target, Case) else getattr(check, "pinned_nodes", ()))


def _planned(case: Any, runs: int) -> Planned:
    check = case.check
    return Planned(
        check=type(check).__name__,
        case=check.display_name,
        unique_name=check.unique_name,
        partition=case.partition.name,
        places=_places(check),
        limit_s=_longest_s(check),
        depends_on=tuple(sorted({dependency.check.unique_name for dependency in case.deps})),
        runs=runs,
        transfer_tool=getattr(check, "transfer_tool", ""),
        **_schedule(check),
    )


def _schedule(check: Any) -> dict[str, Any]:
    """How the pairs of a sweep follow from its nodes, for those who look at a plan."""
    paired_by = getattr(check, "paired_by", None)
    if paired_by is None:
        return {}
    seed = paired_by.seed if paired_by.schedule == "random" else None
    return {"schedule": paired_by.schedule, "seed": seed}


def _listed(case: Any) -> Listed:
    check = case.check
    target = getattr(check, "target", None)
    return Listed(
        case=check.display_name,
        partition=case.partition.name,
        places=len(check.places) if isinstance(target, Case) else 1,
        rounds=getattr(check, "planned_rounds", 1),
        node_count=len(_nodes(check)),
        seconds=getattr(check, "expected_seconds", None),
        **_schedule(check),
    )


def write_list(folder: Path, cases: Sequence[Any]) -> None:
    """For `railgauge accept --plan`: what would run, without every place of it."""
    record.write_list(folder / PLAN, map(_listed, cases))


def write_plan(cases: Sequence[Any], runs: int = 1) -> None:
    """Tell the campaign what was selected, so that a case which never ran is missed; and of how
    many, so that one which a filter left out is missed too.
    """
    folder = paths.campaign_folder()
    if folder is None:
        return
    # Before the plan: without a plan nothing is accepted.
    write_json(folder / LEAVES, topology.described(runtime.runtime().system.name))
    if ports := topology.switch_ports(runtime.runtime().system.name):
        write_json(folder / SWITCH_PORTS, ports)
    write_json(folder / POSSIBLE, possible_cases(cases))
    record.write_plan(folder / PLAN, [_planned(case, runs) for case in cases])


# --- a campaign that is resumed ------------------------------------------------------------------


def resume_plan(cases: Sequence[Any], runs: int = 1) -> list[Any]:
    """Those of the selected cases that a resumed session is to run, and its plan.

    ReframeError where the selection is not that of the campaign's first session: what was measured
    then would be taken for something else.
    """
    campaign = paths.campaign_folder()
    assert campaign is not None
    kept = list(cases)
    before = record.read_plan(campaign / PLAN)
    if before is not None:
        refuse_another_plan(before, [_planned(case, runs) for case in cases])
        lacks = record.read(paths.session_folder() / REMAINING, Remaining)
        assert lacks is not None
        kept = to_run(cases, lacks.missing, lacks.failed)
    else:
        # The first session died before it had one.
        write_plan(cases, runs)
    record.write_plan(paths.session_folder() / PLAN, [_planned(case, runs) for case in kept])
    return kept


def refuse_another_plan(before: Sequence[Planned], now: Sequence[Planned]) -> None:
    """Another description of the system, other checks, or another environment than before."""

    def identities(plan: Sequence[Planned]) -> dict[str, object]:
        return {f"{case.case} @{case.partition}": case.identity for case in plan}

    old, new = identities(before), identities(now)
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    if changed:
        raise ReframeError(
            f"the selected cases are not those of the campaign's plan: {changed[0]} and "
            f"{len(changed) - 1} others are new, gone or changed; measure anew: railgauge accept"
        )


def to_run(
    cases: Sequence[Any], missing: Collection[PlaceKey], failed: Collection[PlaceKey]
) -> list[Any]:
    """The cases with missing places, and with what must be known of their nodes again: what these
    places need, and the preflight of their nodes, where that had not failed already, nor waits for
    what had. Each is told which of its places it is to measure.
    """

    def key(case: Any) -> Key:
        return case.check.unique_name, case.partition.name

    places = {key(case): _places(case.check) for case in cases}
    wanted: dict[Key, set[str]] = {}
    for unique_name, partition, place in missing:
        wanted.setdefault((unique_name, partition), set()).add(place)
    touched = {
        node
        for case_key, names in wanted.items()
        for place in places.get(case_key, ())
        if place.name in names
        for node in place.nodes
    }
    bad = set(failed)
    # Cases come with their preconditions before them.
    for case in cases:
        _, partition = key(case)
        bad |= {
            (*key(case), place.name)
            for place in places[key(case)]
            if any((name, partition, needed) in bad for name, needed in place.needs)
        }
        if "preflight" in case.check.tags:
            again = {
                place.name
                for place in places[key(case)]
                if touched & set(place.nodes) and (*key(case), place.name) not in bad
            }
            if again:
                wanted.setdefault(key(case), set()).update(again)
    for case in reversed(cases):
        names = wanted.get(key(case), set())
        for measured in places[key(case)]:
            for unique_name, needed in measured.needs if measured.name in names else ():
                wanted.setdefault((unique_name, key(case)[1]), set()).add(needed)
    kept = [case for case in cases if key(case) in wanted]
    for case in cases:
        if key(case) in wanted:
            # ReFrame runs a copy, and repeats the original.
            for check in (case.check, case._check_orig):
                check.only = frozenset(wanted[key(case)])
        else:
            for dependency in case.deps:
                # By this number ReFrame knows when a precondition is needed no more.
                dependency.in_degree -= 1
    # A case may depend on one of which no place is needed again.
    for case in kept:
        case.deps[:] = [dependency for dependency in case.deps if key(dependency) in wanted]
    return kept


class EndKeeper(TaskEventListener):
    """Leaves how each case ended, at the moment at which ReFrame knows it.

    ReFrame writes its report when all have ended; a session that is killed leaves none.
    """

    def on_task_success(self, task: Any) -> None:
        self._keep(task, "pass", "")

    def on_task_failure(self, task: Any) -> None:
        self._keep(task, "fail", str(what(*task.exc_info)))

    def _keep(self, task: Any, result: Literal["pass", "fail"], reason: str) -> None:
        campaign, session = paths.campaign_folder(), paths.session_folder()
        assert campaign is not None
        check, run = task.check, runtime.runtime().current_run
        stage = Path(check.stagedir) if check.stagedir else None
        if stage is not None and not stage.is_relative_to(session):
            # ReFrame was told to stage elsewhere: only its report has this case.
            return
        try:
            content = (stage / RESULT_FILE).read_bytes() if stage else None
        except OSError:
            content = None
        end = Ended(
            campaign=campaign.name,
            session=paths.session_number(),
            system=runtime.runtime().system.name,
            partition=task.testcase.partition.name,
            check=type(check).__name__,
            unique_name=check.unique_name,
            nodes=_nodes(check),
            run=run,
            result=result,
            reason=reason,
            stage=stage.relative_to(session) if stage else None,
            record_sha256=hashlib.sha256(content).hexdigest() if content is not None else None,
        )
        name = f"{check.short_name}.{task.testcase.partition.name}.{run}.json"
        try:
            (session / ENDED).mkdir(exist_ok=True)
            end.write(session / ENDED / name)
        except OSError:
            # A full results area. The case then counts as not finished, unless the report has it.
            return

    def on_task_setup(self, task: Any) -> None: ...
    def on_task_run(self, task: Any) -> None: ...
    def on_task_compile(self, task: Any) -> None: ...
    def on_task_exit(self, task: Any) -> None: ...
    def on_task_compile_exit(self, task: Any) -> None: ...
    def on_task_skip(self, task: Any) -> None: ...
    def on_task_abort(self, task: Any) -> None: ...
    def on_task_xfailure(self, task: Any) -> None: ...
    def on_task_xsuccess(self, task: Any) -> None: ...


def patient(original: Callable[[Any, Sequence[Any]], None]) -> Callable[[Any, Sequence[Any]], None]:
    """A job that waits for another campaign's job is waiting, and not stuck.

    And one that was cancelled because it waited too long for others has measured nothing: without
    an exception ReFrame would have it judged as one that ran and was cancelled.
    """

    @functools.wraps(original)
    def cancel_if_pending_too_long(self: Any, jobs: Sequence[Any]) -> None:
        now = time.time()
        late = [
            job
            for job in jobs
            if job.state == "PENDING"
            and job.max_pending_time
            and now - job.submit_time >= job.max_pending_time
        ]
        try:
            ours = set(slurm_jobs.waiting_for_campaigns() if late else ())
        except EnvironmentProblem:
            # Nobody knows; the watchdog of `railgauge accept` ends what waits for ever.
            ours = {job.jobid for job in late}
        for job in late:
            if job.jobid in ours:
                job._submit_time = now
            elif job._exception is None:
                queue.session.give_up(job)
        queue.session.look_at(self, [job for job in jobs if job not in late])
        original(self, jobs)

    return cancel_if_pending_too_long


def blocked_only(original: Callable[..., None]) -> Callable[..., None]:
    """What waits for a job that ends by itself is not blocked, whatever word Slurm has for it."""

    @functools.wraps(original)
    def cancel_if_blocked(
        self: Any, jobs: Sequence[Any], reasons: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        pending = {job.jobid: job for job in jobs if job.state == "PENDING"}
        if reasons is None:
            try:
                reasons = {i: [why] for i, why in waiting.of_pending(pending.keys()).items()}
            except EnvironmentProblem:
                return
        blocked = {
            jobid: whys
            for jobid, whys in reasons.items()
            if jobid in pending
            and not all(queue.session.ends_by_itself(pending[jobid], why) for why in whys)
        }
        if blocked:
            original(self, jobs, blocked)

    return cancel_if_blocked


def without_resized(original: Callable[..., Any]) -> Callable[..., Any]:
    """A job that goes on when a node of it dies (--no-kill) has two records in accounting, of which
    the first says RESIZING for ever: ReFrame would wait for that one's end.
    """

    @functools.wraps(original)
    def run(*command: Any, **options: Any) -> Any:
        answer = original(*command, **options)
        lines = answer.stdout.splitlines(keepends=True)
        answer.stdout = "".join(line for line in lines if "|RESIZING|" not in line)
        return answer

    return run


def with_preempted(original: Callable[[str | None], bool]) -> Callable[[str | None], bool]:
    """A job that Slurm preempted has ended. ReFrame takes it for one that is queued again, and
    would wait for ever for one that is not.
    """

    @functools.wraps(original)
    def completed(state: str | None) -> bool:
        states = (state or "").split(",")
        return original(",".join("CANCELLED" if s == "PREEMPTED" else s for s in states))

    return completed


def after_bad_ones(original: Callable[[Any, Any], bool], question: str) -> Callable[..., bool]:
    """A case that needs others goes on with the places that passed: one bad rail is no reason to
    leave out all the others.

    `question` is what ReFrame asks: whether the preconditions have `failed`, or have `succeeded`.
    """

    @functools.wraps(original)
    def asked(self: Any, task: Any) -> bool:
        before = [self._task_index[c] for c in task.testcase.deps if c in self._task_index]
        ended = [t.succeeded or (t.failed and _has_results(t.check)) for t in before]
        if question == "succeeded":
            return all(ended)
        return any(t.failed for t, good in zip(before, ended, strict=True) if not good)

    return asked


def _has_results(check: Any) -> bool:
    return bool(getattr(check, "results", ()))


def install() -> None:
    """Wrap `Runner.runall`, once; ReframeError under a ReFrame that this was not made for."""
    if reframe.VERSION != _PINNED:
        raise ReframeError(
            f"ReFrame is {reframe.VERSION}, Railgauge's guard was made for {_PINNED}; "
            "next: make setup"
        )
    # ReFrame walks the stack twice for every test that it makes, to place a warning of a variable
    # that none of ours uses: half of the start of a session with a thousand cases.
    fields.user_deprecation_warning = variables.user_deprecation_warning = lambda *_, **__: None
    original = Runner.runall
    if getattr(original, "railgauge_guard", False):
        return

    @functools.wraps(original)
    def runall(self: Any, testcases: Sequence[Any], restored_cases: Any = None) -> None:
        refuse_weakened_session(self, testcases)
        refuse_impossible_schedule(self, testcases)
        refuse_empty_session(self, testcases)
        refuse_endless_case(self, testcases)
        folder = paths.campaign_folder()
        if folder is not None and os.environ.get(PLAN_ONLY_VARIABLE):
            write_list(folder, testcases)
            return
        if paths.session_number() > 1:
            testcases = resume_plan(testcases, self._num_reruns + 1)
        else:
            write_plan(testcases, self._num_reruns + 1)
        if paths.campaign_folder() is not None:
            # Before ReFrame's own, which may end the session.
            self.policy.task_listeners.insert(0, EndKeeper())
        if not self.policy.dry_run_mode:
            if paths.campaign_folder() is None:
                # A campaign has looked before it began.
                refuse_unready_cluster(self, testcases)
            queue.session.begin(testcases)
        original(self, testcases, restored_cases)
        if not self.policy.dry_run_mode:
            refuse_unfinished_session(self, testcases)
            refuse_retried_session(self, testcases)

    runall.railgauge_guard = True  # type: ignore[attr-defined]
    Runner.runall = runall
    policy = AsynchronousExecutionPolicy
    policy.deps_failed = after_bad_ones(policy.deps_failed, "failed")
    policy.deps_succeeded = after_bad_ones(policy.deps_succeeded, "succeeded")
    slurm_scheduler._run_strict = without_resized(slurm_scheduler._run_strict)
    slurm_scheduler.slurm_state_completed = with_preempted(slurm_scheduler.slurm_state_completed)
    SlurmJobScheduler._cancel_if_blocked = blocked_only(SlurmJobScheduler._cancel_if_blocked)
    SlurmJobScheduler._cancel_if_pending_too_long = patient(
        SlurmJobScheduler._cancel_if_pending_too_long
    )
