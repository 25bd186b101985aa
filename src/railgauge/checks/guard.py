"""A ReFrame session that measured nothing must not end as a pass.

ReFrame has no hook around a session, so `Runner.runall` of the pinned version is wrapped. The
wrapper is installed by whatever of ours is loaded first: bin/reframe, configs/settings.py or a
check file.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Collection, Sequence
from typing import Any

from reframe.core import fields, runtime, variables
from reframe.core.exceptions import ReframeError
from reframe.frontend.executors import Runner

import reframe
from railgauge import paths, systems
from railgauge.atomic import write_json

_PINNED = "4.10.4"

#: Set where only the plan of a dry run is wanted, not a thousand job scripts.
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


def refuse_empty_session(runner: Any, cases: Sequence[Any]) -> None:
    """No test selected: a mistyped name, tag, partition or path."""
    if not cases:
        raise ReframeError(
            "no test was selected, so nothing was measured: look at -c, -n, -t, -p and --system; "
            "`reframe -c reframe/ -l` lists what there is"
        )


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
    return float(sum(_seconds(value) for value in (check.max_pending_time, check.time_limit)))


def _seconds(value: Any) -> float:
    """ReFrame's durations are numbers of seconds, or texts such as 1h30m."""
    if not isinstance(value, str):
        return float(value or 0)
    parts = re.findall(r"([0-9]+)([dhms])", value)
    return sum(int(n) * {"d": 86400, "h": 3600, "m": 60, "s": 1}[u] for n, u in parts)


def possible_cases(cases: Sequence[Any], partitions: Collection[str]) -> dict[str, dict[str, int]]:
    """Check -> partition -> how many cases there are, selected or not, of each selected check.

    A check's parameter begins with the partition of its case: `PARTITION` or `PARTITION:...`. One
    without such a parameter runs on each partition that it has a case on.
    """
    selected: dict[type[Any], set[str]] = {}
    for case in cases:
        selected.setdefault(type(case.check), set()).add(case.partition.name)
    found: dict[str, dict[str, int]] = {}
    for check, reached in selected.items():
        counts: dict[str, int] = {}
        for number in range(check.num_variants):
            values = check.get_variant_info(number)["params"].values()
            begins = [str(value).partition(":")[0] for value in values]
            named = [name for name in begins if name in partitions][:1]
            for partition in named or reached:
                counts[partition] = counts.get(partition, 0) + 1
        # --repeat makes of every case a class of the same name, each with all variants.
        known = found.setdefault(check.__name__, {})
        for partition, count in counts.items():
            known[partition] = max(count, known.get(partition, 0))
    return found


def _kind(check: Any) -> str:
    """What a check's cases must share to tell of the same thing: a transport, the rails."""
    return getattr(check, "kind", None) or getattr(check, "rails", None) or ""


def write_plan(cases: Sequence[Any]) -> None:
    """Tell the campaign what was selected, so that a case which never ran is missed; and of how
    many, so that one which a filter left out is missed too.
    """
    folder = paths.campaign_folder()
    if folder is None:
        return
    plan = [
        {
            "check": type(case.check).__name__,
            "case": case.check.display_name,
            "unique_name": case.check.unique_name,
            "partition": case.partition.name,
            "nodes": list(getattr(case.check, "pinned_nodes", ())),
            "node_count": case.check.num_tasks // (case.check.num_tasks_per_node or 1),
            "seconds": getattr(case.check, "expected_seconds", None),
            "limit_s": _longest_s(case.check),
            "depends_on": sorted({dependency.check.unique_name for dependency in case.deps}),
            "kind": _kind(case.check),
        }
        for case in cases
    ]
    # All of the system, also those that --partition leaves out: theirs are not this session's.
    names = {p.name for p in systems.load(runtime.runtime().system.name).partitions}
    # Before the plan: without a plan nothing is accepted.
    write_json(folder / "possible.json", possible_cases(cases, names))
    write_json(folder / "plan.json", plan)


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
        refuse_empty_session(self, testcases)
        write_plan(testcases)
        if self.policy.dry_run_mode and os.environ.get(PLAN_ONLY_VARIABLE):
            return
        original(self, testcases, restored_cases)
        if not self.policy.dry_run_mode:
            refuse_unfinished_session(self, testcases)
            refuse_retried_session(self, testcases)

    runall.railgauge_guard = True  # type: ignore[attr-defined]
    Runner.runall = runall
