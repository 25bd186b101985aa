"""The guard of a ReFrame session: one that measured nothing must not end as a pass.

ReFrame has no hook around a session, so `Runner.runall` of the pinned version is wrapped. Whatever
of ours is loaded first installs the wrapper: bin/reframe, configs/settings.py or a check file.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reframe.core import fields, runtime
from reframe.core import variables as reframe_variables
from reframe.core.exceptions import ReframeError, SpawnedProcessError, what
from reframe.core.schedulers import slurm as slurm_scheduler
from reframe.core.schedulers.slurm import SlurmJobScheduler
from reframe.frontend.executors import Runner, TaskEventListener
from reframe.frontend.executors.policies import AsynchronousExecutionPolicy
from reframe.frontend.loader import RegressionCheckLoader

import reframe
from railgauge import paths
from railgauge.campaign import variables
from railgauge.campaign.folder import ENDED, RESULT_FILE
from railgauge.checks.framework import plan, schedule, slurm_queue
from railgauge.checks.framework.cases import Case
from railgauge.cluster import ready
from railgauge.common.errors import PrerequisiteError
from railgauge.model.record import Ended, EndResult
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import partitions, waiting
from railgauge.slurm.client import SlurmError, option
from railgauge.systems import Partition

_PINNED = "4.10.4"

#: Every partition gives a job more time than this.
_LONG_S = 600


def refuse_weakened_session(runner: Any, cases: Sequence[Any]) -> None:
    """Refuse options that switch parts of a check off."""
    if runner.policy.skip_sanity_check or runner.policy.skip_performance_check:
        raise ReframeError(
            "--skip-sanity-check and --skip-performance-check leave nothing to pass; drop them"
        )
    disabled = sorted({hook for case in cases for hook in case.check.disabled_hooks})
    if disabled:
        raise ReframeError(f"--disable-hook {' '.join(disabled)}: no part of a check may be off")


def refuse_impossible_schedule(runner: Any, cases: Sequence[Any]) -> None:
    """Refuse pairs that a partition cannot have, such as those of unknown leaves."""
    wrong = schedule.session_problem()
    if wrong is not None:
        raise ReframeError(str(wrong))


def refuse_endless_case(runner: Any, cases: Sequence[Any]) -> None:
    """Refuse a case that takes longer than a job of its partition may, which never starts."""
    limits_s: Mapping[str, float] | None = None
    for case in cases:
        seconds = getattr(case.check, "expected_seconds", None) or 0.0
        if seconds < _LONG_S:
            continue
        limits_s = partitions.time_limits_s() if limits_s is None else limits_s
        name = option("partition", "p", case.partition.access)
        if seconds > limits_s.get(name, math.inf):
            listed = plan.listed(case)
            raise ReframeError(
                f"{listed.title}: {listed.rounds} rounds take about {seconds:.0f} s, Slurm gives a "
                f"job of partition {name} at most {limits_s[name]:.0f} s (MaxTime): nodes_per_job "
                "in extras.sweep, or another schedule: docs/sweeps.md"
            )


def refuse_empty_session(runner: Any, cases: Sequence[Any]) -> None:
    """Refuse a session without tests: a name, tag, partition or path was mistyped."""
    if not cases:
        raise ReframeError(
            "no test was selected, so nothing was measured: look at -c, -n, -t, -p and --system; "
            "`reframe -c reframe/ -l` lists what there is"
        )


#: Why a session of this process did not begin; None where nothing was in its way.
unready: PrerequisiteError | None = None


def required_programs(check: Any, partition: Partition) -> list[str]:
    """The programs of a StrictCheck without which no node of the partition is accepted; none where
    only its own job can look for them.
    """
    if check.__name__ not in partition.extras.required or check.programs.may_be_missing(partition):
        return []
    elsewhere = partition.loads_modules or check.programs.folders(partition)
    if elsewhere or check.programs.unknown(partition):
        return []
    return list(check.programs.needed(partition))


def refuse_unready_cluster(runner: Any, cases: Sequence[Any]) -> None:
    """Refuse nodes that lack what the checks need there: they would be rejected for it."""
    global unready
    nodes: dict[str, set[str]] = {}
    with_mpi = set()
    needed: dict[str, dict[str, Sequence[str]]] = {}
    for case in cases:
        if case.partition.scheduler.registered_name == "slurm":
            pinned = getattr(case.check, "pinned_nodes", ())
            nodes.setdefault(case.partition.name, set()).update(pinned)
            if "mpi" in case.check.tags:
                with_mpi.add(case.partition.name)
            if isinstance(partition := getattr(case.check, "partition_data", None), Partition):
                programs = required_programs(type(case.check), partition)
                needed.setdefault(partition.name, {}).update(dict.fromkeys(programs, ()))
    options = [word for option in runner.policy.sched_options for word in option.split()]
    try:
        ready.require(
            runtime.runtime().system.name,
            nodes,
            options,
            with_mpi=with_mpi,
            tools=lambda partition: needed.get(partition.name, {}),
        )
    except PrerequisiteError as error:
        unready = error
        raise ReframeError(str(error)) from None


def refuse_unfinished_session(runner: Any, cases: Sequence[Any]) -> None:
    """Refuse a session in which selected cases did not come to a result."""
    stats = runner.stats
    skipped = sum(len(stats.skipped(run)) for run in range(stats.num_runs))
    if skipped:
        raise ReframeError(f"{skipped} of {len(cases)} test cases were skipped, so this is no pass")
    finished = len(stats.completed(0))
    if finished < len(cases):
        raise ReframeError(f"only {finished} of {len(cases)} test cases came to a result")


def refuse_other_stage() -> None:
    """Refuse a campaign whose cases would be staged elsewhere than in its folder: nobody could tell
    whether their records are as they were measured.
    """
    stage, usual = Path(runtime.runtime().stage_prefix), paths.session_folder() / "stage"
    if stage.resolve() != usual.resolve():
        raise ReframeError(
            f"the test cases would be staged in {stage}, expected {usual}; next: "
            "unset RFM_STAGE_DIR and RFM_PREFIX, and leave out --stage and --prefix"
        )


def refuse_retried_session(runner: Any, cases: Sequence[Any]) -> None:
    """Refuse a session in which a case failed and passed on a second try: the link is flaky."""
    failed = runner.stats.failed(run=0)
    if runner.max_retries and failed:
        names = ", ".join(sorted(task.check.display_name for task in failed))
        raise ReframeError(
            f"failed at the first try, which a retry must not hide: {names}; "
            "--reruns repeats a test and counts every run"
        )


class EndKeeper(TaskEventListener):
    """Writes how each case ended, as soon as ReFrame knows it.

    ReFrame writes its report when all cases have ended; a killed session leaves none.
    """

    def on_task_success(self, task: Any) -> None:
        self._keep(task, "pass", "")

    def on_task_failure(self, task: Any) -> None:
        self._keep(task, "fail", str(what(*task.exc_info)))

    def _keep(self, task: Any, result: EndResult, reason: str) -> None:
        campaign, session = paths.campaign_folder(), paths.session_folder().resolve()
        assert campaign is not None
        check, run = task.check, runtime.runtime().current_run
        stage = Path(check.stagedir).resolve() if check.stagedir else None
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
            nodes=plan.nodes_of(check),
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
            # A full results area. The case then counts for nothing.
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


def wrap_submit(original: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Let the queue know a job as ours from the moment at which it has a number. Partitions are
    polled one by one, and a job of one on shared nodes must not look like somebody else's to
    another. Submit once more what a controller that restarted has not answered.
    """

    @functools.wraps(original)
    def submit(self: Any, job: Any) -> None:
        try:
            original(self, job)
        except SpawnedProcessError as error:
            if not slurm_jobs.was_not_answered(error.stderr or ""):
                raise
            with contextlib.suppress(SlurmError):
                slurm_queue.session.cancel_unanswered(job)
                original(self, job)
            if job.jobid is None:
                raise
        slurm_queue.session.submitted(job.jobid)

    return submit


def wrap_pending_timeout(
    original: Callable[[Any, Sequence[Any]], None],
) -> Callable[[Any, Sequence[Any]], None]:
    """Do not take a job that waits for another campaign's job for stuck.

    And give up a job that has waited too long for others: without an exception ReFrame would have
    it judged as one that ran and was cancelled.
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
        except PrerequisiteError:
            # Nobody knows; the watchdog of `railgauge accept` ends what waits for ever.
            ours = {job.jobid for job in late}
        for job in late:
            if job.jobid in ours:
                job._submit_time = now
            elif job._exception is None:
                slurm_queue.session.cancel_wait(job)
        slurm_queue.session.poll(self, [job for job in jobs if job not in late])
        original(self, jobs)

    return cancel_if_pending_too_long


def wrap_blocked_check(original: Callable[..., None]) -> Callable[..., None]:
    """Do not take a job for blocked that waits for one that ends by itself, whatever Slurm says, or
    that goes on without the nodes on which it does not start.
    """

    @functools.wraps(original)
    def cancel_if_blocked(
        self: Any, jobs: Sequence[Any], reasons: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        pending = {job.jobid: job for job in jobs if job.state == "PENDING"}
        if reasons is None:
            try:
                reasons = {i: [why] for i, why in waiting.of_pending(pending.keys()).items()}
            except PrerequisiteError:
                return
        blocked = {
            jobid: whys
            for jobid, whys in reasons.items()
            if jobid in pending
            and not all(slurm_queue.session.is_transient(pending[jobid], why) for why in whys)
            and not slurm_queue.session.continue_without(pending[jobid], whys)
            and not slurm_queue.session.may_register(pending[jobid], whys)
        }
        if blocked:
            original(self, jobs, blocked)

    return cancel_if_blocked


def without_resized(original: Callable[..., Any]) -> Callable[..., Any]:
    """Drop accounting records of state RESIZING. A job that goes on when a node of it dies
    (--no-kill) has two records, the first with that state for ever: ReFrame would wait for its end.
    """

    @functools.wraps(original)
    def run(*command: Any, **options: Any) -> Any:
        answer = original(*command, **options)
        lines = answer.stdout.splitlines(keepends=True)
        answer.stdout = "".join(line for line in lines if "|RESIZING|" not in line)
        return answer

    return run


def with_preempted(original: Callable[[str | None], bool]) -> Callable[[str | None], bool]:
    """Take a preempted job for ended. ReFrame takes it for one that is queued again, and would wait
    for ever for one that is not.
    """

    @functools.wraps(original)
    def completed(state: str | None) -> bool:
        states = (state or "").split(",")
        return original(",".join("CANCELLED" if s == "PREEMPTED" else s for s in states))

    return completed


def without_every_value(original: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Take a check of ours as it was made. ReFrame asks each value in it whether it can be copied,
    names of nodes by the thousand, and leaves a check out for one that cannot.
    """

    @functools.wraps(original)
    def validate(loader: Any, check: Any) -> bool:
        return isinstance(getattr(check, "target", None), Case) or original(loader, check)

    return validate


def cache_nodelist(original: property) -> property:
    """Have Slurm name the nodes of a job that ended once for as long as it reports the same ones.
    ReFrame starts a command for it with every line that it logs of the job: 19 of one case.
    """
    name = "_railgauge_nodes"

    def nodelist(job: Any) -> Any:
        reported = (job.state, job._nodespec)
        if not job._nodelist or getattr(job, name, None) != reported:
            job._nodelist = original.__get__(job)
            setattr(job, name, reported)
        return job._nodelist

    return property(nodelist)


def with_passed_places(original: Callable[[Any, Any], bool], question: str) -> Callable[..., bool]:
    """Let a case run with the places whose preconditions passed: one bad rail is no reason to leave
    out all others.

    `question` is the one that ReFrame asks: whether preconditions have `failed`, or `succeeded`.
    """

    @functools.wraps(original)
    def ask(self: Any, task: Any) -> bool:
        tasks_before = [self._task_index[c] for c in task.testcase.deps if c in self._task_index]
        have_results = [t.succeeded or (t.failed and _has_results(t.check)) for t in tasks_before]
        if question == "succeeded":
            return all(have_results)
        return any(t.failed for t, good in zip(tasks_before, have_results, strict=True) if not good)

    return ask


def in_turn(original: Callable[[Any, Any], int]) -> Callable[[Any, Any], int]:
    """Let a case wait until all cases of its partition with a lower `turn` have ended, well or not:
    ReFrame's own dependencies would leave it out where one of them failed.
    """

    @functools.wraps(original)
    def advance_startup(self: Any, task: Any) -> int:
        turn, partition = turn_of(task), task.testcase.partition.name
        waits = any(
            turn_of(other) < turn and other.testcase.partition.name == partition
            for other in self._current_tasks
        )
        return 0 if waits else original(self, task)

    return advance_startup


def turn_of(case: Any) -> int:
    """When a case runs among those of its partition, the lowest first."""
    return getattr(case.check, "turn", 0)


def _has_results(check: Any) -> bool:
    return bool(getattr(check, "results", ()))


def install() -> None:
    """Wrap `Runner.runall`, once; ReframeError under another ReFrame than the pinned one."""
    if reframe.VERSION != _PINNED:
        raise ReframeError(
            f"ReFrame is {reframe.VERSION}, Railgauge's guard was made for {_PINNED}; "
            "next: make setup"
        )
    # ReFrame walks the stack twice for every test that it makes, to place a warning of a variable
    # that none of ours uses: half of the start of a session with a thousand cases.
    for module in (fields, reframe_variables):
        module.user_deprecation_warning = lambda *_, **__: None
    original = Runner.runall
    if getattr(original, "railgauge_guard", False):
        return
    RegressionCheckLoader._validate_check = without_every_value(
        RegressionCheckLoader._validate_check
    )

    @functools.wraps(original)
    def runall(self: Any, testcases: Sequence[Any], restored_cases: Any = None) -> None:
        refuse_weakened_session(self, testcases)
        refuse_impossible_schedule(self, testcases)
        refuse_empty_session(self, testcases)
        refuse_endless_case(self, testcases)
        testcases = sorted(testcases, key=turn_of)
        folder = paths.campaign_folder()
        if folder is not None:
            refuse_other_stage()
        if folder is not None and os.environ.get(variables.PLAN_ONLY):
            plan.write_list(folder, testcases)
            return
        if paths.session_number() > 1:
            testcases = plan.resume_plan(testcases, self._num_reruns + 1)
        else:
            plan.write_plan(testcases, self._num_reruns + 1)
        if folder is not None:
            # Before ReFrame's own, which may end the session.
            self.policy.task_listeners.insert(0, EndKeeper())
        if not self.policy.dry_run_mode:
            if folder is None:
                # A campaign has looked before it began.
                refuse_unready_cluster(self, testcases)
            slurm_queue.session.begin(testcases)
        original(self, testcases, restored_cases)
        if not self.policy.dry_run_mode:
            refuse_unfinished_session(self, testcases)
            refuse_retried_session(self, testcases)

    runall.railgauge_guard = True  # type: ignore[attr-defined]
    Runner.runall = runall
    policy = AsynchronousExecutionPolicy
    policy.deps_failed = with_passed_places(policy.deps_failed, "failed")
    policy.deps_succeeded = with_passed_places(policy.deps_succeeded, "succeeded")
    policy._advance_startup = in_turn(policy._advance_startup)
    slurm_scheduler._run_strict = without_resized(slurm_scheduler._run_strict)
    slurm_scheduler.slurm_state_completed = with_preempted(slurm_scheduler.slurm_state_completed)
    slurm_scheduler._SlurmJob.nodelist = cache_nodelist(slurm_scheduler._SlurmJob.nodelist)
    SlurmJobScheduler.submit = wrap_submit(SlurmJobScheduler.submit)
    SlurmJobScheduler._cancel_if_blocked = wrap_blocked_check(SlurmJobScheduler._cancel_if_blocked)
    SlurmJobScheduler._cancel_if_pending_too_long = wrap_pending_timeout(
        SlurmJobScheduler._cancel_if_pending_too_long
    )
