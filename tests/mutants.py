"""Take each protection away in turn, and see that its test fails: `make mutants`.

    python -m tests.mutants [--nodes n[1-4]] [--no-lab] [--jobs N] [--again] [WORD...]

Words choose mutants by what they say, their file or their test. `--nodes` leaves the others of the
lab's nodes out, and with the virtual machines their tests; `--no-lab` all tests that need a lab.
What was killed is a line of results/tests/mutants.jsonl, so that a run that broke off, of hours,
goes on where it was: a mutant of the same text in the same file, with the same test, is not tried
again without `--again`. Other code on which the test rests may have changed since.

Works on copies of the checkout inside `.lab/`, which the lab's nodes see: those whose tests need no
lab in `--jobs` of them at once, then the others against the lab that is up (or is brought up for
it). Prints one line a mutant and ends with 1 if any survived.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import queue
import shlex
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from railgauge import hostlist, paths
from railgauge.cli.lab import open_lab

#: The copies of this run; another may be under way.
TREE = paths.HOME / ".lab" / "mutants" / str(os.getpid())
#: The keys of those that were killed.
KILLED = paths.HOME / "results" / "tests" / "mutants.jsonl"


class Mutant(NamedTuple):
    """`old` in `file` becomes `new`, and `test` must fail."""

    what: str
    file: str
    old: str
    new: str
    test: str


_BAD = "tests/lab/test_fooling.py::test_a_bad_run_is_failed_with_its_reason"
_FOOLING = "tests/lab/test_fooling.py"
_GUARD = "src/railgauge/checks/guard.py"
_PLAN = "src/railgauge/checks/plan.py"
_ATTEMPTS = "src/railgauge/verdict/attempts.py"
_COMPARE = "src/railgauge/verdict/compare.py"
_RESUME = "tests/unit/acceptance/test_resume.py"
_RULES = "tests/unit/verdict/test_rules.py"
_INNOCENTS = "tests/unit/locating/test_innocents.py"
_SILENT_LEAVES = "tests/unit/verdict/test_silent_leaves.py"
_GATE = "tests/unit/gate"
_PATROL = "tests/unit/patrol"
_PAGE = "tests/unit/report/test_page.py"
_FEEDS = "tests/unit/report/feeds/test_feeds.py"

#: The tests on virtual machines.
_NEEDS_VMS = "tests/lab/test_vm.py"


def _without(protection: str, test: str) -> Mutant:
    """A protection that is left out of the list."""
    file = "src/railgauge/checks/protections.py"
    return Mutant(f"no {protection}", file, f"    {protection},\n", "", f"{_BAD} -k {test}")


def _call(call: str, test: str) -> Mutant:
    """A part of the guard that is not called."""
    return Mutant(f"no {call}", _GUARD, f"    {call}(self, testcases)\n", "    pass\n", test)


def _sweep(what: str, old: str, new: str, test: str) -> Mutant:
    """A protection of the places of a sweep."""
    file = "src/railgauge/checks/sweep.py"
    return Mutant(what, file, old, new, f"tests/unit/checks/test_sweep.py -k {test}")


def _summary(what: str, old: str, new: str, test: str) -> Mutant:
    """What ReFrame's own report shows of a sweep."""
    file = "src/railgauge/checks/summary.py"
    return Mutant(what, file, old, new, f"tests/unit/checks/test_sweep.py -k {test}")


def _contention(what: str, old: str, test: str, new: str = "False") -> Mutant:
    """Something that tells a host that was busy from one that was idle."""
    file = "src/railgauge/checks/contention.py"
    return Mutant(what, file, old, new, f"tests/unit/checks/test_contention.py {test}")


MUTANTS = [
    Mutant(
        "a few destinations are no uplink of a leaf that is not known",
        "src/railgauge/locating/judge.py",
        "(received or len(sent) >= _SENT_TO)",
        "True",
        f"{_INNOCENTS} -k behind_a_link",
    ),
    Mutant(
        "a link that was found after a node explains nothing of it",
        "src/railgauge/locating/judge.py",
        "        for path in one.lows if self.paths.fabric else ():\n",
        "        for path in ():\n",
        f"{_INNOCENTS} -k behind_a_link",
    ),
    Mutant(
        "flows that may share a link are measured again at once",
        "src/railgauge/locating/plan.py",
        " and self._is_apart(pair):\n",
        ":\n",
        "tests/unit/locating/test_scenarios.py -k shared_a_link",
    ),
    Mutant(
        "an agent that lost the conductor is a node that went",
        "src/railgauge/checks/sweep.py",
        "was_there = silent and ",
        "was_there = False and ",
        "tests/unit/checks/test_sweep.py -k agent_that_lost",
    ),
    Mutant(
        "a node that does not answer Slurm either is not named",
        "src/railgauge/checks/sweep.py",
        ' and not slurm_nodes.dead([node]):\n                message = f"{why}; its',
        ':\n                message = f"{why}; its',
        "tests/unit/checks/test_sweep.py -k agent_that_lost",
    ),
    Mutant(
        "nodes that send slowly say nothing of another one",
        "src/railgauge/locating/judge.py",
        "            if part.way and found.part.way == part.way\n",
        "            if False\n",
        f"{_INNOCENTS} -k behind_a_link",
    ),
    Mutant(
        "a cut path is named beside the uplink that explains it",
        "src/railgauge/verdict/locate.py",
        "        if not explained(cut.nodes)\n",
        "",
        f"{_SILENT_LEAVES} -k suspect_uplink",
    ),
    Mutant(
        "nodes are made of YAML before its levels are counted",
        "src/railgauge/yamlfile.py",
        "        _refuse_bottomless(text)\n",
        "",
        "tests/unit/test_yamlfile.py -k levels_are_counted",
    ),
    _without("job_completed", "Cancelled"),
    _without("every_rank_reported", "RankMissing"),
    _without("every_call_succeeded", "ToolFails"),
    _without("output_is_a_result", "NoResult"),
    _without("nothing_is_simulated", "Simulated"),
    _without("output_is_complete", "Unproved"),
    _without("conditions_as_asked", "OtherCondition"),
    _without("conditions_as_asked", "ConditionNotStated"),
    _without("nothing_is_missing", "SweepStopsEarly"),
    _without("counters_agree", "Inflated"),
    _without("within_limits", "AboveLimit"),
    _without("every_number_has_a_reference", "NoReference"),
    _contention("stressors that ended early are load", 'not after.get("running")', "-k not_there"),
    _contention("stressors that had no CPU are load", "share < data.least_share", "-k not_there"),
    _contention(
        "stressors on any CPUs are load where it should be",
        'after["bound_to"] != after["cpus"]',
        "-k not_there",
    ),
    _contention("a part of the test is all of it", "seconds < _WITHIN * tool_s", "-k not_there"),
    _contention("a busy host is idle", "max(here, everywhere) > data.most_idle", "-k not_idle"),
    _contention(
        "any NUMA node is far",
        'state == "far" and (home is None',
        "-k numa",
        "False and (home is None",
    ),
    _contention(
        "a tool anywhere in a virtual machine is far from the NIC",
        '(tool & near) if state == "far"',
        "-k virtual_machine",
        'False if state == "far"',
    ),
    _contention(
        "any state that cannot be had is left out",
        'self.state == "far" and nowhere',
        "-k cannot_be_had",
        "True",
    ),
    Mutant(
        "modules of a program's own folder",
        "src/railgauge/node/__init__.py",
        "    sys.path.sort(key=lambda folder: not folder.startswith(_LIBRARY))\n",
        "    pass\n",
        "tests/unit/node/test_python.py -k strangers_file",
    ),
    Mutant(
        "stressors outlive who keeps them",
        "src/railgauge/node/stressor.py",
        "            preexec_fn=lambda: _die_with_parent(signal.SIGKILL),\n",
        "",
        "tests/unit/node/test_contention.py -k whatever_dies",
    ),
    Mutant(
        "who keeps stressors outlives its side",
        "src/railgauge/node/stressor.py",
        "        if not data:\n            return\n",
        "        if not data:\n            time.sleep(900)\n            return\n",
        "tests/unit/node/test_contention.py -k end_with_the_input",
    ),
    Mutant(
        "a machine that lost its power keeps its hypervisor busy",
        "src/railgauge/node/stressor.py",
        "if not any(select.select([0], [], [], step_s)[0] for _ in range(_SILENT_STEPS)):",
        "if False:",
        "tests/unit/node/test_contention.py -k heard_of",
    ),
    Mutant(
        "stressors run as long as they like",
        "src/railgauge/node/stressor.py",
        '"--timeout", str(at_most_s)]',
        '"--timeout", "3600"]',
        "tests/unit/node/test_contention.py -k behind_the_limits",
    ),
    Mutant(
        "what several operations sent over uplinks is alltoall's",
        "src/railgauge/checks/nccl.py",
        "leaves is None or len(self._chosen) != 1:",
        "leaves is None:",
        "tests/unit/checks/test_nccl_uplinks.py -k several_operations",
    ),
    Mutant(
        "what others sent over uplinks beside NCCL is NCCL's",
        "src/railgauge/checks/nccl.py",
        "            confirm(sum(each.sent_bytes for each in uplinks), moved, self.tool_name)\n",
        "",
        "tests/unit/checks/test_nccl_uplinks.py -k cannot_have_sent",
    ),
    Mutant(
        "what others sent over the uplinks tells which is at fault",
        "src/railgauge/checks/pair.py",
        "            return own.alone_on(self._counting.carried())\n",
        "            return self._counting.carried(), {}\n",
        "tests/unit/checks/test_fabric.py -k unless_others",
    ),
    Mutant(
        "a flow that ended before the others adds its rate",
        "src/railgauge/checks/fabric.py",
        "max((m.seconds for m in of_round), default=0.0)",
        "min((m.seconds for m in of_round), default=0.0)",
        "tests/unit/checks/test_fabric.py -k ends_early",
    ),
    Mutant(
        "a results database that a kill left half made ends every later session",
        "src/railgauge/systems/reframe_settings.py",
        "    history.drop_half_made(results)\n",
        "",
        "tests/unit/systems/test_history.py",
    ),
    Mutant(
        "streams that take one way are flows of their own",
        "src/railgauge/checks/uplinks.py",
        "count if self._apart else 1",
        "count",
        "tests/unit/checks/test_fabric.py -k failed_or_not",
    ),
    Mutant(
        "a leaf with a node that answers is named for the others' silence",
        "src/railgauge/verdict/locate.py",
        "if answering and members[leaf] <= set(silent)",
        "if answering and members[leaf] & set(silent)",
        _SILENT_LEAVES,
    ),
    Mutant(
        "a leaf is named for the silence of a single node",
        "src/railgauge/verdict/locate.py",
        "_SILENT_LEAF = 2",
        "_SILENT_LEAF = 1",
        _SILENT_LEAVES,
    ),
    Mutant(
        "leaves are named where nobody answers",
        "src/railgauge/verdict/locate.py",
        "if answering and members[leaf] <= set(silent)",
        "if members[leaf] <= set(silent)",
        _SILENT_LEAVES,
    ),
    Mutant(
        "a silent leaf is named beside a node that answers and may be its own",
        "src/railgauge/verdict/locate.py",
        "if not answering <= leaf_of.keys():",
        "if False:",
        _SILENT_LEAVES,
    ),
    Mutant(
        "nodes of a silent leaf are not held",
        "src/railgauge/locating/suspects.py",
        'return self.kind in ("node", "rail") or (self.kind == "leaf" and bool(self.own_reason))',
        'return self.kind in ("node", "rail")',
        "tests/unit/verdict/test_silent_leaves.py -k gate",
    ),
    Mutant(
        "a node that passed before its leaf went silent is passing",
        "src/railgauge/locating/suspects.py",
        "if suspect.accuses_nodes\n        or suspect.kind not in",
        "if suspect.kind not in",
        "tests/unit/verdict/test_silent_leaves.py -k passed_before",
    ),
    Mutant(
        "who answered later does not answer",
        "src/railgauge/verdict/direct_evidence.py",
        "if not any(_spoke(case, n) for case in cases)}",
        "}",
        "tests/unit/verdict/test_silent_leaves.py -k answered_later",
    ),
    Mutant(
        "an uplink that carried somewhat less is at fault",
        "src/railgauge/locating/uplinks.py",
        "_STARVED, _BY_CHANCE = 1 / 3, 1e-3",
        "_STARVED, _BY_CHANCE = 0.9, 1e-3",
        "tests/unit/locating/test_scenarios.py -k somewhat_less",
    ),
    Mutant(
        "an uplink without a flow is at fault, of however few flows",
        "src/railgauge/locating/uplinks.py",
        "return 2 * uplinks * min(of_one, 1.0) < _BY_CHANCE",
        "return True",
        "tests/unit/locating/test_scenarios.py -k chance",
    ),
    Mutant(
        "of two uplinks that carried little one is at fault",
        "src/railgauge/locating/uplinks.py",
        'return starved.pop() if len(starved) == 1 else ""',
        'return starved.pop() if starved else ""',
        "tests/unit/locating/test_scenarios.py -k far_less",
    ),
    Mutant(
        "numbers of one mode of the leaves are those of any",
        "src/railgauge/checks/uplinks.py",
        'f"{traffic} {mode}" if mode else traffic',
        "traffic",
        "tests/unit/checks/test_fabric.py -k session_says",
    ),
    Mutant(
        "what the uplinks carried for others is spread by the leaf too",
        "src/railgauge/lab/switches.py",
        "    ours = f'iifname \"{network.BRIDGE}\"'\n",
        '    ours = ""\n',
        "tests/unit/lab/test_switches.py -k marked",
    ),
    Mutant(
        "what a cluster lacks accuses its nodes",
        "src/railgauge/checks/protections.py",
        "    environment_serves,\n",
        "",
        "tests/unit/checks/test_protections.py",
    ),
    Mutant(
        "a tool that could not measure accuses its nodes",
        "src/railgauge/checks/protections.py",
        "    if reading is not None and reading.unfit:\n",
        "    if False:\n",
        "tests/unit/checks/test_protections.py -k unfit",
    ),
    Mutant(
        "a second run makes up for a first one that failed",
        "src/railgauge/tools/perftest/judge.py",
        "            if not (failed or sides.parsed) and (spread",
        "            if not sides.parsed and (spread",
        "tests/unit/checks/test_verbs_modes.py -k not_made_up_for",
    ),
    Mutant(
        "a second run replaces numbers that the first one has",
        "src/railgauge/checks/pair.py",
        "        if reading.unfit and len(second) == len(self.roles()):\n",
        "        if len(second) == len(self.roles()):\n",
        "tests/unit/checks/test_verbs_modes.py -k numbers_of_a_first_run",
    ),
    Mutant(
        "a second run washes away what the first one showed of the link",
        "src/railgauge/checks/pair.py",
        "_unmeasured(first), self._of_link(first), repeat.PREFIX\n",
        "_unmeasured(first), [], repeat.PREFIX\n",
        "tests/unit/checks/test_verbs_modes.py -k first_run",
    ),
    Mutant(
        "how a job ends whose rank lacks its program accuses its nodes",
        "src/railgauge/checks/protections.py",
        'return self.missing_program is not None and self.job_state == "FAILED"',
        "return False",
        "tests/unit/checks/test_protections.py -k without_its_program",
    ),
    Mutant(
        "a rank that lacks its program excuses a dead node",
        "src/railgauge/checks/protections.py",
        'return self.missing_program is not None and self.job_state == "FAILED"',
        "return self.missing_program is not None",
        "tests/unit/checks/test_protections.py -k without_its_program",
    ),
    Mutant(
        "a placeholder is run",
        "src/railgauge/checks/application.py",
        "not program.placeholders and (is_series()",
        "(is_series()",
        "tests/unit/checks/test_application.py -k placeholder",
    ),
    Mutant(
        "what its host stood still is time of a tool",
        "src/railgauge/node/calls.py",
        "        if late_s > LATE_S and left_s:\n            # Others",
        "        if False:\n            # Others",
        "tests/unit/node/test_calls.py -k stood_still",
    ),
    Mutant(
        "a host that stands still again and again never comes to a limit",
        "src/railgauge/node/calls.py",
        "put_off_s, moment_s = now + moment_s - deadline, 0.0",
        "put_off_s = now + moment_s - deadline",
        "tests/unit/node/test_calls.py -k again_and_again",
    ),
    Mutant(
        "what the conductor's host stood still is time of an agent's answer",
        "src/railgauge/node/rounds.py",
        "place.stood_s += late_s",
        "place.stood_s += 0",
        "tests/unit/node/test_rounds.py -k stands_still",
    ),
    Mutant(
        "an agent that was asked has no more time where the conductor's host stood still",
        "src/railgauge/node/rounds.py",
        "self._asked_at[node] += late_s",
        "self._asked_at[node] += 0",
        "tests/unit/node/test_rounds.py -k stands_still",
    ),
    Mutant(
        "stressors end where their host stood still for long",
        "src/railgauge/node/stressor.py",
        "_SILENT_STEPS = 10",
        "_SILENT_STEPS = 1",
        "tests/unit/node/test_contention.py -k stood_still",
    ),
    Mutant(
        "a bandwidth of 0 is a result, whatever the message rate says",
        "src/railgauge/tools/perftest/text.py",
        "    if average.value == rate.value == 0:\n        raise",
        "    if False:\n        raise",
        "tests/unit/tools/test_perftest.py -k bandwidth_of_0",
    ),
    Mutant(
        "a perftest run may be of any connection type",
        "src/railgauge/tools/perftest/judge.py",
        '("connection type", output.connection_type, options.connection_type)',
        '("connection type", options.connection_type, options.connection_type)',
        "tests/unit/tools/test_perftest.py -k connection_type",
    ),
    Mutant(
        "one way of --report-both may be missing",
        "src/railgauge/tools/perftest/text.py",
        "        self._require_parts()\n",
        "",
        "tests/unit/tools/test_perftest.py -k ways_that_are_not_both",
    ),
    Mutant(
        "an event of iperf3 may be there twice",
        "src/railgauge/tools/iperf3.py",
        'if name in ("start", "end") and name in run:',
        "if False:",
        "tests/unit/tools/test_iperf3.py -k has_one_twice",
    ),
    Mutant(
        "the rule of the next run of perftest ends the table of one that is cut",
        "src/railgauge/tools/perftest/by_hand.py",
        'rf"(?:RDMA_|Send|Atomic|raw_)[ \\w]*{name}", _RULE)',
        'rf"(?:RDMA_|Send|Atomic|raw_)[ \\w]*{name}")',
        "tests/unit/tools/test_recognize.py -k the_rule_of_the_next_run",
    ),
    Mutant(
        "runs on several hosts that each started alone are several in a log",
        "src/railgauge/tools/nccl_tests/by_hand.py",
        "    why_one=why_alone,\n",
        "",
        "tests/unit/tools/test_recognize.py -k ran_the_same_test_alone",
    ),
    Mutant(
        "a failure of another rank is none of the test in a log",
        "src/railgauge/tools/nccl_tests/by_hand.py",
        "    shared=True,\n",
        "",
        "tests/unit/tools/test_recognize.py -k failure_of_another_rank",
    ),
    Mutant(
        "an output of a stand-in whose mark is elsewhere in the log is real",
        "src/railgauge/tools/recognize.py",
        "simulated=reading.simulated or self.simulated",
        "simulated=reading.simulated",
        "tests/unit/tools/test_recognize.py -k stays_one",
    ),
    Mutant(
        "an archive that is damaged in the middle is whole",
        "src/railgauge/textfiles.py",
        "if counted.filled > end or counted.count <= end:",
        "if False:",
        "tests/unit/test_textfiles.py -k damaged_header",
    ),
    Mutant(
        "two runs of iperf2 in csv are one",
        "src/railgauge/tools/iperf2/runs.py",
        'if name != "-1" and known.setdefault(name, ports) != ports:',
        "if False:",
        "tests/unit/tools/test_recognize.py -k csv_without_a_heading",
    ),
    Mutant(
        "a log with a part that is not read is read",
        "src/railgauge/cli/read.py",
        "EXIT_INCONCLUSIVE if readings.unread or not readings.runs else EXIT_ACCEPT",
        "EXIT_ACCEPT",
        "tests/unit/cli/test_read.py -k ends_with_2",
    ),
    Mutant(
        "ranks that are ahead of others are late",
        "src/railgauge/tools/nccl_log/ras.py",
        "for rank in self.ranks if _launched(rank.what) < most}",
        "for rank in self.ranks}",
        "tests/unit/tools/test_gpu_runs.py -k launched_more",
    ),
    Mutant(
        "samples of perftest are the run that was asked for",
        "src/railgauge/tools/perftest/judge.py",
        "    if output.sampled:\n        complaints",
        "    if False:\n        complaints",
        "tests/unit/tools/test_perftest.py -k never_the_run",
    ),
    Mutant(
        "a warning may say that perftest died",
        "src/railgauge/tools/perftest/text.py",
        " and not _died(message)",
        "",
        "tests/unit/tools/test_perftest.py -k messages_of_failure",
    ),
    Mutant(
        "a bandwidth that rounds to 0 stays one",
        "src/railgauge/tools/perftest/text.py",
        "average.value or rate.value * factor",
        "average.value",
        "tests/unit/tools/test_perftest.py -k below_six_digits",
    ),
    Mutant(
        "words of a clock excuse what else is wrong with a run",
        "src/railgauge/tools/perftest/judge.py",
        "if not (failed or sides.parsed) and (spread",
        "if (spread",
        "tests/unit/tools/test_perftest.py -k clock",
    ),
    Mutant(
        "words of what a cluster lacks excuse a job whose ranks all ended",
        "src/railgauge/checks/protections.py",
        "[] if len(ended) == evidence.ranks else [evidence.job_error]",
        "[evidence.job_error]",
        "tests/unit/checks/test_protections.py",
    ),
    Mutant(
        "a campaign begins on nodes that do not see its results area",
        "src/railgauge/acceptance/accept.py",
        "    _require_ready(system, chosen, options, say)\n",
        "",
        "tests/lab/test_site.py -k before_anything",
    ),
    Mutant(
        "nodes of a job that Slurm did not name at first",
        _GUARD,
        "        if not job._nodelist or getattr(job, name, None) != reported:\n",
        "        if getattr(job, name, None) != reported:\n",
        "tests/unit/checks/test_guard.py::"
        "test_slurm_is_asked_again_where_it_reports_other_nodes_or_named_none",
    ),
    Mutant(
        "nodes of a job that Slurm names otherwise later",
        _GUARD,
        "        reported = (job.state, job._nodespec)\n",
        "        reported = job.state\n",
        "tests/unit/checks/test_guard.py::"
        "test_slurm_is_asked_again_where_it_reports_other_nodes_or_named_none",
    ),
    Mutant(
        "a bare session begins there",
        _GUARD,
        "                refuse_unready_cluster(self, testcases)\n",
        "                pass\n",
        "tests/lab/test_site.py -k bare",
    ),
    Mutant(
        "any folder of that name is the results area",
        "src/railgauge/cluster/look.py",
        "wrote.is_file() and wrote.read_text",
        "True or wrote.read_text",
        "tests/unit/cluster/test_look.py -k another_folder",
    ),
    Mutant(
        "a node's own name for another is the only one",
        "src/railgauge/node/calls.py",
        "address = address_of([peer, *names])",
        "address = address_of([peer])",
        "tests/lab/test_site.py -k leads_nowhere",
    ),
    Mutant(
        "a tool that is not there is excused",
        "src/railgauge/checks/protections.py",
        "    every_program_is_there,\n",
        "",
        "tests/unit/checks/test_protections.py",
    ),
    Mutant(
        "a provisional accept is an accept",
        "src/railgauge/verdict/answer.py",
        '"provisional accept": EXIT_INCONCLUSIVE',
        '"provisional accept": EXIT_ACCEPT',
        "tests/unit/verdict/test_first_day.py",
    ),
    Mutant(
        "a node that was resumed is looked at before it answers",
        "src/railgauge/slurm/nodes.py",
        "        _set_resumed(ours)\n        once_answering(ours)\n",
        "        _set_resumed(ours)\n",
        "tests/unit/gate/test_silence.py",
    ),
    Mutant(
        "a floor accepts where a baseline is stored for another condition",
        "src/railgauge/checks/base.py",
        "return None if self.baseline_elsewhere(measurement) else found",
        "return found",
        "tests/unit/checks/test_sweep.py -k floor_never_accepts",
    ),
    Mutant(
        "floors alone accept",
        "src/railgauge/verdict/first_day.py",
        "0 if any(case.floors_suffice for case in cases) else floors(cases)",
        "0",
        "tests/unit/verdict/test_first_day.py",
    ),
    Mutant(
        "floors that no number replaces accept alone",
        "src/railgauge/verdict/first_day.py",
        "len(replaceable if better_anywhere else replaceable | final)",
        "len(replaceable)",
        "tests/unit/verdict/test_first_day.py",
    ),
    Mutant(
        "peers excuse whatever else is wrong with a place",
        _COMPARE,
        "all(failure.kind == NO_REFERENCE for failure in self.failures)",
        "any(failure.kind == NO_REFERENCE for failure in self.failures)",
        "tests/unit/verdict/test_first_day.py",
    ),
    Mutant(
        "what nothing judges is provisionally accepted",
        "src/railgauge/verdict/rules.py",
        "        if day.unjudged:\n",
        "        if False:\n",
        "tests/unit/verdict/test_first_day.py",
    ),
    Mutant(
        "an agent measures again what its list does not allow",
        "src/railgauge/node/sweep.py",
        'if known is None or set(known.roles) != {"server", "client"} or not self.retests.rounds:',
        "if known is None:",
        "tests/unit/node/test_strangers.py -k measured_again",
    ),
    Mutant(
        "pairs that were measured again stand for those of the plan",
        "src/railgauge/verdict/not_measured.py",
        "and not (c.of_job or c.like)",
        "and not c.of_job",
        "tests/unit/verdict/test_rules.py -k measured_again",
    ),
    Mutant(
        "a bad pair that was measured again is nobody's finding",
        "src/railgauge/verdict/rules.py",
        "return bool(case.like) and not names and any(key in failed for key in keys)",
        "return bool(case.like) and not names",
        "tests/unit/verdict/test_rules.py -k although",
    ),
    Mutant(
        "an optional tool that is not there has measured its nodes",
        "src/railgauge/verdict/not_measured.py",
        "                and not case.was_left_out\n",
        "",
        "tests/unit/verdict/test_rules.py",
    ),
    Mutant(
        "whatever arrives is what was sent",
        "src/railgauge/node/file_set.py",
        "        elif arrived[name] != wanted[name]:\n",
        "        elif False:\n",
        "tests/unit/node/test_transfer.py",
    ),
    Mutant(
        "WDT's key is kept",
        "src/railgauge/node/wdt_url.py",
        "            kept.write(redacted(line))\n",
        "            kept.write(line)\n",
        "tests/unit/node/test_transfer.py",
    ),
    Mutant(
        "a filter may leave cases of a required check out",
        "src/railgauge/verdict/rules.py",
        "    findings += selection_findings(campaign, cases, possible)\n",
        "",
        "tests/unit/verdict/test_rules.py",
    ),
    Mutant(
        "an MPI program may run beside a transfer that has ended",
        "src/railgauge/checks/mpi_under_load.py",
        '    if beside.get("outlasted") is True:\n',
        "    if True:\n",
        f"{_BAD} -k TransferTooShort",
    ),
    Mutant(
        "a device may have carried less than the tool says",
        "src/railgauge/checks/byte_accounting.py",
        "if missing > 0 or _is_faster(",
        "if _is_faster(",
        "tests/unit/checks/test_byte_accounting.py",
    ),
    Mutant(
        "a tool may have been faster than its device",
        "src/railgauge/checks/byte_accounting.py",
        "if missing > 0 or _is_faster(mean_gbits, claim.seconds, carried.peak_gbits, gap_s):",
        "if missing > 0:",
        "tests/unit/checks/test_byte_accounting.py",
    ),
    Mutant(
        "a device without a count is believed",
        "src/railgauge/checks/byte_accounting.py",
        "    if carried is None:\n        yield",
        "    if carried is None:\n        return\n        yield",
        "tests/unit/checks/test_byte_accounting.py",
    ),
    Mutant(
        "a reader that claims nothing is believed",
        "src/railgauge/checks/pair.py",
        "    counted = True\n",
        "    counted = False\n",
        f"{_BAD} -k ClaimsNothing",
    ),
    Mutant(
        "what stands out among its peers is accepted",
        "src/railgauge/verdict/rules.py",
        "    findings += _outlier_findings(far) + _provenance_findings(cases)\n",
        "    findings += _provenance_findings(cases)\n",
        "tests/unit/verdict/test_rules.py",
    ),
    Mutant(
        "a node may start again while it is measured",
        "src/railgauge/verdict/rules.py",
        "    findings += _restart_findings(restarted)\n",
        "",
        "tests/unit/verdict/test_restarts.py",
    ),
    Mutant(
        "nodes do not tell of their boot",
        "src/railgauge/node/calls.py",
        '"boot_id": boot_id(), ',
        "",
        "tests/unit/node/test_pair.py -k boot",
    ),
    Mutant(
        "a strict system accepts a tool that was changed",
        "src/railgauge/verdict/rules.py",
        "    findings += _outlier_findings(far) + _provenance_findings(cases)\n",
        "    findings += _outlier_findings(far)\n",
        "tests/unit/verdict/test_rules.py",
    ),
    Mutant(
        "NCCL may use what it likes between nodes",
        "src/railgauge/systems/nccl.py",
        '        facts["between_nodes"] = self._between(transport, nodes, domains)\n',
        '        facts["between_nodes"] = ()\n',
        "tests/unit/systems/test_nccl_fabric.py",
    ),
    Mutant(
        "halves that are good hide what was bad together",
        "src/railgauge/node/launches.py",
        "        elif launch.why and not launch.is_explained:\n",
        "        elif False:\n",
        "tests/unit/node/test_launches.py -k only_among_others",
    ),
    Mutant(
        "a launch clears its groups however slow the slowest is",
        "src/railgauge/node/launches.py",
        "            launch.why = low(launch.numbers, bounds)\n",
        '            launch.why = ""\n',
        "tests/unit/node/test_launches.py -k halves_name",
    ),
    Mutant(
        "a launch of some of the nodes meets as one of all",
        "src/railgauge/node/job.py",
        "    if not set(own) < set(of_job):\n",
        "    if True:\n",
        "tests/unit/node/test_launches.py -k is_told_that_they_are_the_jobs",
    ),
    Mutant(
        "what slows a leaf for a moment is its uplink",
        "src/railgauge/locating/fabric.py",
        "if rounds := _moments(paths, of_part):",
        "if False and (rounds := _moments(paths, of_part)):",
        "tests/unit/locating/test_protections.py -k is_a_moment",
    ),
    Mutant(
        "two bad groups clear each other where no number is stored",
        "src/railgauge/node/launches.py",
        '        count = len(places) if not order["together"] else 1 if is_known else _PARTS\n',
        '        count = len(places) if not order["together"] else 1 if is_known else 2\n',
        "tests/unit/node/test_launches.py -k equally_bad",
    ),
    Mutant(
        "groups that are slow alike are good where no number is stored",
        "src/railgauge/checks/nccl.py",
        "        return self._lowest(lambda m: shares.reference(m, self.limit(m), of_system))\n",
        "        return {}\n",
        "tests/unit/checks/test_nccl.py -k share_of_the_limit",
    ),
    Mutant(
        "NCCL may make other groups than were asked for",
        "src/railgauge/tools/nccl_tests/judge.py",
        "        if device.group != expected:\n",
        "        if False:\n",
        "tests/unit/checks/test_nccl.py -k groups_other_than",
    ),
    Mutant(
        "a JSON result as 2.17.6 spells it is none",
        "src/railgauge/tools/nccl_tests/document.py",
        '        validation_alias=pydantic.AliasChoices("bandwidth", "bandwidith")\n',
        '        validation_alias=pydantic.AliasChoices("bandwidth")\n',
        "tests/unit/tools/test_gpu_runs.py -k good_run_is_proved",
    ),
    Mutant(
        "one rank that asks convicts the only other",
        "src/railgauge/checks/nccl_hang.py",
        " or len(others) < _WITNESSES:\n",
        ":\n",
        "tests/unit/checks/test_gpu_jobs.py -k one_other_node",
    ),
    Mutant(
        "ncclras accuses who may be behind an uplink",
        "src/railgauge/checks/nccl_hang.py",
        "leaves.of_node[other] != leaves.of_node[node] for other in others",
        "False for other in others",
        "tests/unit/checks/test_gpu_jobs.py -k alone_on_its_leaf",
    ),
    Mutant(
        "an answer of ncclras that was cut accuses",
        "src/railgauge/tools/nccl_log/ras.py",
        "    return Answer(tuple(found), whole and not left)\n",
        "    return Answer(tuple(found), True)\n",
        "tests/unit/checks/test_gpu_jobs.py -k does_not_name_all",
    ),
    Mutant(
        "a rank that lags behind in NCCL is one that does not answer",
        "src/railgauge/tools/nccl_log/ras.py",
        "if rank and left and not rank[2]:\n",
        "if rank and left:\n",
        "tests/unit/tools/test_gpu_runs.py -k launched_less",
    ),
    Mutant(
        "a rank is found by its number, whatever its process",
        "src/railgauge/checks/nccl_hang.py",
        "(device.rank % ranks, device.pid)",
        "(device.rank % ranks, 9)",
        "tests/unit/checks/test_gpu_jobs.py -k does_not_have",
    ),
    Mutant(
        "a VBIOS changes with who is asked for it",
        "src/railgauge/node/inventory/nvidia.py",
        '(gpu.findtext("vbios_version") or "").strip().lower()\n',
        '(gpu.findtext("vbios_version") or "").strip()\n',
        "tests/unit/node/test_inventory_parsers.py -k h100",
    ),
    Mutant(
        "a table of several groups is read as that of all ranks",
        "src/railgauge/tools/nccl_tests/judge.py",
        "    if options or not _has_groups(result.devices):\n",
        "    if True:\n",
        "tests/unit/tools/test_gpu_runs.py -k several_groups_alone",
    ),
    Mutant(
        "groups that were not told apart leave their job good",
        "src/railgauge/checks/launches.py",
        "        if apart:\n",
        "        if False:\n",
        "tests/unit/checks/test_nccl.py -k not_told_apart",
    ),
    Mutant(
        "a message of any size tells the bandwidth",
        "src/railgauge/checks/nccl.py",
        "if self._sizes[-1] < _LEAST_SHARE * requested:",
        "if False:",
        "tests/lab/test_rehearsal.py -k no-memory",
    ),
    Mutant(
        "a sweep that memory ended may end earlier still",
        "src/railgauge/tools/nccl_tests/rows.py",
        "return _unlike(result.sizes, options.sizes(result.reduced_bytes))",
        "return [] if result.reduced_bytes else _unlike(result.sizes, options.sizes())",
        "tests/unit/tools/test_nccl_tests.py -k must_be_whole_up_to_there",
    ),
    Mutant(
        "what is said below the footer is nobody's business",
        "src/railgauge/tools/common/lines.py",
        r'    r"\bprocess received signal\b|\blost communication\b|\bunexpectedly failed\b|"',
        "",
        "tests/unit/tools/test_nccl_tests.py -k end_that_was_none",
    ),
    Mutant(
        "a document is believed whatever its intervals say",
        "src/railgauge/tools/iperf3.py",
        "    if not intervals:\n        return\n",
        "    return\n",
        "tests/unit/tools/test_iperf3.py -k contradicts_itself",
    ),
    Mutant(
        "a row behind something else is none",
        "src/railgauge/tools/osu.py",
        "elif _HIDDEN_ROW.search(line):",
        "elif False:",
        "tests/unit/tools/test_osu.py -k may_hold",
    ),
    Mutant(
        "a sweep may leave sizes out",
        "src/railgauge/tools/osu.py",
        "if row.size_bytes != following:",
        "if False:",
        "tests/unit/tools/test_osu.py -k is_missing",
    ),
    Mutant(
        "a receiver that wrote threw all away",
        "src/railgauge/tools/wdt/judge.py",
        "if options.skip_writes and output.wrote and",
        "if False and",
        "tests/unit/tools/test_wdt.py -k did_not_throw_away",
    ),
    Mutant(
        "the runs of an iperf2 server that was left running add up",
        "src/railgauge/tools/iperf2/text.py",
        "        runs.require_one_run(self.connections, _totals(groups))\n",
        "",
        "tests/unit/tools/test_iperf2.py -k several_runs",
    ),
    Mutant(
        "an iperf2 run may go any way",
        "src/railgauge/tools/iperf2/judge.py",
        "            if ways_of_side != requested:\n",
        "            if False:\n",
        "tests/unit/tools/test_iperf2.py -k not_asked_for",
    ),
    Mutant(
        "a rail that NCCL left out is nobody's business",
        "src/railgauge/checks/nccl.py",
        "for device in sorted(wanted - used):",
        "for device in []:",
        "tests/lab/test_rehearsal.py -k lost-nic",
    ),
    Mutant(
        "what NCCL's logs say is wrong is nobody's business",
        "src/railgauge/checks/nccl.py",
        "            for problem in used.problems\n",
        "            for problem in ()\n",
        "tests/lab/test_rehearsal.py -k cut-log",
    ),
    Mutant(
        "a program that was replaced is still its package's",
        "src/railgauge/node/provenance.py",
        "if hashed.hexdigest() == digest",
        "if True",
        "tests/unit/verdict/test_provenance.py",
    ),
    Mutant(
        "a built tool may lack the program that a check looks for",
        "src/railgauge/stack/activation.py",
        "        _require_programs(root)\n",
        "        pass\n",
        "tests/unit/stack/test_activation.py",
    ),
    Mutant(
        "a build of one tool drops those built before",
        "src/railgauge/stack/activation.py",
        '        and not solved[tool["name"]]["installed"]\n',
        "        and False\n",
        "tests/unit/stack/test_activation.py",
    ),
    Mutant(
        "any Spack will do",
        "src/railgauge/stack/fetching.py",
        "        _require_commit(Path(given), source)\n",
        "        return Path(given)\n",
        "tests/unit/stack/test_fetching.py",
    ),
    Mutant(
        "make stack keeps a tool that was changed since it was built",
        "src/railgauge/stack/intact.py",
        "            if origin.startswith(provenance.CHANGED):\n",
        "            if False:\n",
        "tests/unit/stack/test_intact.py",
    ),
    Mutant(
        "a solve takes the scopes of another checkout, which used the same folder before",
        "src/railgauge/stack/build.py",
        "        beside.replace(folder / name)\n",
        "        (folder / name).exists() or beside.replace(folder / name)\n",
        "tests/unit/stack/test_build.py",
    ),
    Mutant(
        "a configuration put into our Spack changes the solve",
        "src/railgauge/stack/fetching.py",
        "    if now == came:\n",
        "    if True:\n",
        "tests/unit/stack/test_fetching.py",
    ),
    Mutant(
        "a site's external may have any version",
        "src/railgauge/stack/externals.py",
        "    return numbers[:shorter] == others[:shorter] and shorter > 0\n",
        "    return True\n",
        "tests/unit/stack/test_externals.py",
    ),
    Mutant(
        "counters may grow without bounds",
        "src/railgauge/checks/protections.py",
        "growth > budget.most",
        "False",
        "tests/unit/checks/test_protections.py",
    ),
    Mutant(
        "nothing needs a reference",
        "src/railgauge/checks/protections.py",
        "if evidence.reading_ok and not gating:",
        "if False:",
        "tests/unit/checks/test_protections.py",
    ),
    Mutant(
        "an odd node is nobody's business",
        "src/railgauge/verdict/rules.py",
        "    findings += _peer_findings(odd)\n",
        "",
        "tests/unit/checks/test_state.py",
    ),
    Mutant(
        "an unknown field is as expected",
        "src/railgauge/checks/state.py",
        "        if key in node_inventory.unknown:\n",
        "        if key in one.unknown:\n            continue\n        if key not in one.fields:\n",
        "tests/unit/checks/test_state.py",
    ),
    Mutant(
        "a rail is measured although its probe failed",
        "src/railgauge/checks/rdma.py",
        "    needs_rails = True\n",
        "    needs_rails = False\n",
        "tests/lab/test_vm.py::test_nothing_more_is_measured_over_a_rail_that_fails_its_probe",
    ),
    Mutant(
        "where a device has gone the next one is measured in its place",
        "src/railgauge/node/rdma.py",
        '    names = wanted.get("names", ())\n    left',
        "    names = ()\n    left",
        "tests/unit/node/test_network_path.py::"
        "test_no_other_device_is_measured_in_the_place_of_one_that_vanished",
    ),
    Mutant(
        "the rails of a node that lacks a device are counted from its first",
        "src/railgauge/node/network_path.py",
        'elif not names and len(there) != wanted.get("count", len(there)):',
        "elif False:",
        "tests/unit/node/test_network_path.py -k without_names",
    ),
    Mutant(
        "a program that makes a way long is interrupted, and goes on behind the one that clears it",
        "src/railgauge/node/network_path.py",
        '    with processes.undisturbed():\n        try:\n            _run_lines(wan["set"]',
        '    with contextlib.nullcontext():\n        try:\n            _run_lines(wan["set"]',
        "tests/unit/node/test_network_path.py -k a_signal_waits",
    ),
    Mutant(
        "SIGTERM comes to the sampler's thread while the main thread keeps it off",
        "src/railgauge/node/rates.py",
        "        with processes.undisturbed():\n            self._thread.start()",
        "        self._thread.start()",
        "tests/unit/node/test_counters.py -k leaves_signals",
    ),
    Mutant(
        "the rails of one pair are a round in which all is lost",
        "src/railgauge/locating/evidence.py",
        "lost = {number for number, count in pairs.items() if count >= _OF_ROUND}",
        "lost = set(pairs)",
        "tests/unit/locating/test_innocents.py -k bad_node_of_three",
    ),
    Mutant(
        "a node that left no line as another lacks a program is silent by its own doing",
        "src/railgauge/checks/protections.py",
        "elif silent and not evidence.ended_without_program:",
        "elif silent:",
        "tests/unit/checks/test_protections.py -k takes_the_lines",
    ),
    Mutant(
        "all silent nodes are accused where srun says which one it did not reach",
        "src/railgauge/checks/protections.py",
        "            tuple(unreached),\n",
        "            silent,\n",
        "tests/unit/checks/test_protections.py -k srun_does_not_reach",
    ),
    Mutant(
        "a controller that does not answer srun accuses the job's nodes",
        "src/railgauge/slurm/ends.py",
        'return next((line for line in _lines(stderr) if _CONTROLLER.search(line)), "")',
        'return ""',
        "tests/unit/checks/test_protections.py -k controller_did_not_start",
    ),
    Mutant(
        "all nodes are accused where srun started no agent at all",
        "src/railgauge/checks/sweep.py",
        "if not self._raw.joined and len(self._raw.lost) > 1:",
        "if False:",
        "tests/unit/checks/test_sweep.py -k no_agent_at_all",
    ),
    Mutant(
        "the partner of a rail that is gone is as suspect",
        "src/railgauge/checks/pair.py",
        '            if "rail_missing" in node_facts:\n',
        "            if False:\n",
        "tests/unit/verdict/test_lost_rails.py",
    ),
    Mutant(
        "what a node is known to lack is odd",
        "src/railgauge/verdict/peers.py",
        "return None if field.startswith(self.absent) else _ABSENT",
        "return _ABSENT",
        "tests/unit/checks/test_state.py -k absent",
    ),
    Mutant(
        "what went over a NIC that NCCL was not to use is nobody's business",
        "src/railgauge/checks/byte_accounting.py",
        "    elif claim.related is not None:\n",
        "    elif False:\n",
        "tests/unit/checks/test_nccl_claims.py -k was_not_to_use",
    ),
    Mutant(
        "over sockets any interface will do",
        "src/railgauge/checks/nccl.py",
        "yield (tuple(name for name in moved if name in allowed),)",
        'yield (tuple(name for name in moved if "/" not in name and name != "lo"),)',
        "tests/unit/checks/test_nccl_claims.py -k may_use_counts",
    ),
    Mutant(
        "a link that flapped while NCCL ran is forgotten",
        "src/railgauge/checks/nccl.py",
        "        failures = [*failures, *links.lost(facts)]\n",
        "",
        "tests/unit/checks/test_nccl.py -k flapped",
    ),
    Mutant(
        "budgets of counters do not hold for NCCL",
        "src/railgauge/checks/nccl.py",
        "return () if self.rehearsal else tuple(self.partition_data.extras.counters)",
        "return ()",
        "tests/unit/checks/test_nccl.py -k budget",
    ),
    Mutant(
        "a stand-in's counters count as a node's",
        "src/railgauge/checks/protections.py",
        'if node_facts.get("counters", {}).get("simulated") and not evidence.rehearsal:',
        "if False:",
        "tests/unit/checks/test_protections.py -k a-stand-ins-counters",
    ),
    Mutant(
        "secrets in NCCL's files are told",
        "src/railgauge/node/inventory/nccl.py",
        "    return HIDDEN if is_secret else value.strip() or '\"\"'\n",
        "    return value.strip() or '\"\"'\n",
        "tests/unit/node/test_inventory_nccl.py -k secrets",
    ),
    Mutant(
        "a node's own settings of NCCL are nobody's business",
        "src/railgauge/node/inventory/nccl.py",
        '        _put(sheet, f"nccl/conf/{name}", path, conf)\n',
        "        pass\n",
        "tests/unit/node/test_inventory_nccl.py -k every_setting",
    ),
    Mutant(
        "what a receiver threw away is compared with what others wrote",
        "src/railgauge/report/transfers.py",
        "            if c == column and is_thrown_away(other) is is_thrown_away(tool)\n",
        "            if c == column\n",
        "tests/unit/checks/test_transfer_cases.py -k nothing_that_was_written",
    ),
    Mutant(
        "an emulated delay is nobody's business",
        "src/railgauge/checks/rdma.py",
        '            "emulation": "none",\n',
        "",
        "tests/lab/test_vm.py::test_a_delay_is_rejected_and_named",
    ),
    Mutant(
        "a link that went down during the test is forgotten",
        "src/railgauge/checks/pair.py",
        'if after.get("state", "ACTIVE") != "ACTIVE":',
        "if False:",
        "tests/lab/test_vm.py::test_a_rail_that_goes_down_in_mid_transfer_is_named",
    ),
    Mutant(
        "a script goes on after an error",
        "src/railgauge/checks/base.py",
        'self.prerun_cmds.insert(0, "set -o errexit")',
        "pass",
        f"{_BAD} -k PreparationFails",
    ),
    Mutant(
        "references are not compared",
        "src/railgauge/checks/base.py",
        "                if r is not None\n",
        "                if False\n",
        f"{_BAD} -k OutOfReference",
    ),
    Mutant(
        "NaN is a number",
        "src/railgauge/model/measurement.py",
        "if not math.isfinite(self.value) or self.value < 0:",
        "if self.value < 0:",
        f"{_BAD} -k NotFinite",
    ),
    Mutant(
        "singletons are numbered as they like",
        "src/railgauge/tools/mpi_world.py",
        "if numbers != list(range(options.ranks)):",
        "if False:",
        f"{_BAD} -k Singletons",
    ),
    Mutant(
        "rails that are to be measured at once may follow each other",
        "src/railgauge/checks/rails.py",
        "        if apart_s <= _APART * duration_s:\n",
        "        if True:\n",
        "tests/unit/checks/test_rails.py -k at_work_at_once",
    ),
    Mutant(
        "a time both ways may have next to no messages",
        "src/railgauge/tools/perftest/judge.py",
        "        if sent < _SHORT * options.duration_s * (rate - 0.5):\n",
        "        if False:\n",
        "tests/unit/tools/test_perftest.py -k rate_of_both_ways",
    ),
    Mutant(
        "the bytes of one of many rails may take another",
        "src/railgauge/checks/rails.py",
        "                    if moved:\n",
        "                    if False:\n",
        "tests/unit/checks/test_rails.py -k did_not_take_it",
    ),
    Mutant(
        "NCCL with P2P off may use NVLink",
        "src/railgauge/systems/nccl.py",
        '            facts["within_nodes"] = ("SHM",)\n',
        '            facts["within_nodes"] = ("P2P",)\n',
        "tests/unit/systems/test_nccl_fabric.py -k p2p_off",
    ),
    Mutant(
        "an application that comes to another value counts",
        "src/railgauge/tools/application.py",
        "        _require(value, options)\n",
        "        pass\n",
        f"{_BAD} -k GivesUp",
    ),
    Mutant(
        "an application's ranks may each be a world of their own",
        "src/railgauge/tools/application.py",
        "    if len(matches) != count:\n",
        "    if not matches:\n",
        "tests/unit/tools/test_application.py -k one_bad_run",
    ),
    Mutant(
        "an application's rank may leave no exit line in one of the runs",
        "src/railgauge/tools/application.py",
        "    if ranks != list(range(options.ranks)):\n",
        "    if False:\n",
        "tests/unit/checks/test_application.py -k no_exit_line",
    ),
    Mutant(
        "an application may print a longer time than it ran",
        "src/railgauge/tools/application.py",
        "    if printed.seconds > wall + max(_CLOCK_S, _CLOCK_SHARE * wall):\n",
        "    if False:\n",
        "tests/unit/tools/test_application.py -k cannot_be",
    ),
    Mutant(
        "any gate will do",
        "src/railgauge/checks/base.py",
        'if self.gate not in ("acceptance", "baseline"):',
        "if False:",
        f"{_FOOLING}::test_an_unknown_gate_is_failed",
    ),
    _call("refuse_empty_session", f"{_FOOLING}::test_a_session_that_selects_nothing_is_failed"),
    _call(
        "refuse_weakened_session",
        f"{_FOOLING}::test_parts_of_a_check_cannot_be_switched_off",
    ),
    _call("refuse_unfinished_session", f"{_FOOLING}::test_a_skipped_check_is_no_pass"),
    _call("refuse_retried_session", f"{_FOOLING}::test_a_retry_that_passes_is_failed"),
    Mutant(
        "the guard is not installed",
        _GUARD,
        "    Runner.runall = runall\n",
        "",
        f"{_FOOLING}::test_bare_reframe_with_our_configuration_is_guarded",
    ),
    Mutant(
        "warnings stay warnings",
        "configs/settings.py",
        'os.environ["RFM_WARN_AS_ERROR"] = "1"',
        "",
        f"{_FOOLING}::test_a_check_that_cannot_be_made_is_failed",
    ),
    Mutant(
        "any unit will do",
        "src/railgauge/model/references.py",
        "if reference.unit != METRICS[metric].unit:",
        "if False:",
        f"{_FOOLING}::test_a_wrong_unit_is_an_error_at_load",
    ),
    Mutant(
        "an unknown host is `generic`",
        "src/railgauge/systems/__init__.py",
        '    raise ConfigurationError(\n        f"host {host!r} matches',
        '    return "generic"\n    raise ConfigurationError(\n        f"host {host!r} matches',
        f"{_FOOLING}::test_an_unknown_host_is_failed",
    ),
    Mutant(
        "required checks may be left out",
        "src/railgauge/verdict/rules.py",
        "    findings += coverage_findings(campaign, cases)\n",
        "",
        "tests/lab/test_accept.py::test_a_filter_that_leaves_nodes_out_is_inconclusive",
    ),
    Mutant(
        "nothing measured is no finding",
        "src/railgauge/verdict/rules.py",
        'if not cases and campaign.state == "finished":',
        "if False:",
        "tests/lab/test_accept.py::test_a_mistyped_name_is_rejected_as_nothing_measured",
    ),
    Mutant(
        "whose ranks the launcher ended is blamed",
        "src/railgauge/checks/protections.py",
        "        if node not in ended and not any(",
        "        if not any(",
        "tests/unit/checks/test_protections.py",
    ),
    Mutant(
        "whoever cancelled a job, its nodes are blamed",
        "src/railgauge/checks/protections.py",
        "    return alone or failures\n",
        "    return found\n",
        "tests/unit/checks/test_protections.py",
    ),
    Mutant(
        "what was cancelled, blocked or not started speaks against its nodes",
        _COMPARE,
        "return Outcome.FAILED if speaks and not self.disturbed else Outcome.UNMEASURED",
        "return Outcome.FAILED",
        "tests/unit/verdict/test_rules.py",
    ),
    Mutant(
        "a node that others clear is guilty all the same",
        "src/railgauge/verdict/direct_evidence.py",
        "    return {node: why for node, why in silent.items() if node not in cleared}\n",
        "    return silent\n",
        "tests/unit/verdict/test_rules.py",
    ),
    Mutant(
        "a drained or reserved node is a dead one",
        _COMPARE,
        "return tuple(n for n in named if n in campaign.unavailable and n in case.nodes)",
        "return tuple(named)",
        "tests/unit/verdict/test_rules.py",
    ),
    Mutant(
        "a clock may be set in the middle of a test",
        "src/railgauge/checks/protections.py",
        "    every_clock_was_left_alone,\n",
        "",
        "tests/unit/checks/test_protections.py",
    ),
    Mutant(
        "a line of a sweep with a wrong MAC is believed",
        "src/railgauge/node/wire.py",
        "        if not hmac.compare_digest(mac, self._mac.of(body)):\n",
        "        if False:\n",
        "tests/unit/node/test_strangers.py",
    ),
    Mutant(
        "a line of a sweep may come twice",
        "src/railgauge/node/wire.py",
        '        if number != b"%d" % self._number:\n',
        "        if False:\n",
        "tests/unit/node/test_strangers.py",
    ),
    Mutant(
        "a node may have two agents",
        "src/railgauge/node/conducting.py",
        "        if end.node in self._agents or end.node in self.rounds.lost:\n",
        "        if False:\n",
        "tests/unit/node/test_strangers.py",
    ),
    Mutant(
        "an agent measures what is not its own",
        "src/railgauge/node/agent.py",
        "        if place is None or place.roles.get(role) != self._node:\n",
        "        if False:\n",
        "tests/unit/node/test_strangers.py",
    ),
    Mutant(
        "an output that was cut is whole",
        "src/railgauge/node/calls.py",
        'if call.is_cut else "")',
        'if False else "")',
        "tests/unit/node/test_conductor.py -k runaway",
    ),
    Mutant(
        "nodes do not look at their clock",
        "src/railgauge/node/calls.py",
        "_clock_lead() - _FIRST_LEAD",
        "0.0",
        "tests/unit/node/test_calls.py",
    ),
    Mutant(
        "a full disk is nobody's business",
        "src/railgauge/checks/protections.py",
        "    every_node_has_room,\n",
        "",
        "tests/unit/checks/test_protections.py",
    ),
    Mutant(
        "an end of another campaign counts",
        _ATTEMPTS,
        "        if actual != expected:\n",
        "        if False:\n",
        f"{_RESUME}::test_an_end_that_is_not_of_this_case_is_no_result",
    ),
    Mutant(
        "an end with another record counts",
        _ATTEMPTS,
        "hashlib.sha256(content).hexdigest() == digest",
        "True",
        f"{_RESUME}::test_an_end_that_is_not_of_this_case_is_no_result",
    ),
    Mutant(
        "a session that ended well needs no report",
        _ATTEMPTS,
        "    if campaign.ended_well(session):\n        return {}\n",
        "",
        f"{_RESUME}::test_a_session_that_ended_well_is_known_by_its_report",
    ),
    Mutant(
        "a record changed after its session is judged",
        _ATTEMPTS,
        "        damage = end.damage\n",
        "        pass\n",
        f"{_RULES}::test_campaign_with_another_number_in_a_record_is_never_accepted",
    ),
    Mutant(
        "a reported case needs no end of its own",
        _ATTEMPTS,
        "elif end is None and (",
        "elif False and (",
        f"{_RULES}::test_campaign_that_lost_a_file_is_never_accepted",
    ),
    Mutant(
        "a report may say pass of a case that failed",
        _ATTEMPTS,
        "elif end is not None and end.result != reported.result:",
        "elif False:",
        f"{_RULES}::test_report_that_says_pass_of_a_case_that_failed_is_damaged",
    ),
    Mutant(
        "a copied campaign is judged by the original's files",
        _ATTEMPTS,
        "stage = end.stagedir if end else _within(folder, reported.stagedir)",
        "stage = reported.stagedir",
        f"{_RULES}::test_a_campaign_that_was_copied_is_judged_by_its_own_files",
    ),
    Mutant(
        "a flaky case is made good by another session",
        _COMPARE,
        "    return not (beside or case.damage)\n",
        "    return True\n",
        f"{_RESUME}::test_a_second_try_within_a_session_is_not_made_good_by_another_session",
    ),
    Mutant(
        "a campaign is resumed under a running one",
        "src/railgauge/campaign/folder.py",
        "fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
        f"{_RESUME}::test_a_session_that_lost_its_railgauge_still_holds_the_campaign",
    ),
    Mutant(
        "what a node does not tell counts as changed",
        "src/railgauge/node/gate.py",
        "if rules.counts(c.key) and c.what not in compare.OF_KNOWLEDGE]",
        "if rules.counts(c.key)]",
        f"{_GATE}/test_hold.py",
    ),
    Mutant(
        "a patrol tests nodes that have jobs",
        "src/railgauge/patrol/run.py",
        "    if state.busy:\n",
        "    if False:\n",
        f"{_PATROL}/test_run.py",
    ),
    Mutant(
        "a patrol takes nodes that are under test for free",
        "src/railgauge/patrol/run.py",
        "patrol_rules.max_under_test - len(under_test & everybody)",
        "patrol_rules.max_under_test",
        f"{_PATROL}/test_run.py",
    ),
    Mutant(
        "a patrol tests nodes that have just started",
        "src/railgauge/patrol/run.py",
        "    if due_in_s > 0:\n",
        "    if False:\n",
        f"{_PATROL}/test_run.py",
    ),
    Mutant(
        "the pace of patrols forgets the ways between leaves",
        "src/railgauge/patrol/pace.py",
        "max(everybody / most, for_ways)",
        "everybody / most",
        f"{_PATROL}/test_pace.py",
    ),
    Mutant(
        "a preempted patrol goes on",
        "src/railgauge/patrol/run.py",
        "return f\"{PREEMPTED} {' '.join(preempted)}\"",
        'return ""',
        f"{_PATROL}/test_run.py",
    ),
    Mutant(
        "a preempted job is waited for",
        _GUARD,
        '"CANCELLED" if s == "PREEMPTED" else s',
        "s",
        "tests/unit/checks/test_guard.py -k preempted",
    ),
    Mutant(
        "what a node does in one of many runs is hidden by the others",
        "src/railgauge/verdict/outliers.py",
        "_keep(of_places, _place(m), case, m, worse)",
        "_keep(of_places, _place(m), case, m, better)",
        "tests/unit/verdict/test_outliers.py -k several_runs",
    ),
    Mutant(
        "a job of a patrol is lost with the first node that somebody takes",
        "src/railgauge/checks/queue.py",
        "if out and self._goes_on_without(job, out):",
        "if False:",
        "tests/unit/slurm/test_waiting.py -k goes_on_without",
    ),
    Mutant(
        "a job of a patrol that has just begun gives its nodes back",
        "src/railgauge/slurm/jobs.py",
        "    if waits(job_id):\n        if refused is not None:\n",
        "    if True:\n        if refused is not None:\n",
        "tests/unit/slurm/test_waiting.py -k keeps_all_of_them",
    ),
    Mutant(
        "a session takes its own job in another partition for somebody else's",
        _GUARD,
        "        queue.session.submitted(job.jobid)\n",
        "        pass\n",
        "tests/unit/slurm/test_waiting.py -k another_partition",
    ),
    Mutant(
        "a node that a job did not get is waited for",
        "src/railgauge/node/conducting.py",
        "if node not in launcher.nodes:",
        "if False:",
        "tests/unit/node/test_conductor.py -k fewer_nodes",
    ),
    Mutant(
        "a patrol waits for a job that took one of its nodes",
        "src/railgauge/checks/queue.py",
        "if obstacle.standing or out:",
        "if obstacle.standing:",
        "tests/unit/slurm/test_waiting.py -k before_it_began",
    ),
    Mutant(
        "a partner that was taken hides the direction that only it would have measured",
        "src/railgauge/verdict/node_status.py",
        "and other.nodes.index(node) == case.nodes.index(node)",
        "and True",
        "tests/unit/verdict/test_node_status.py -k taken",
    ),
    Mutant(
        "a good READ makes up for a SEND that nobody measured",
        "src/railgauge/verdict/node_status.py",
        "case.kind, case.condition",
        "case.kind",
        "tests/unit/verdict/test_node_status.py -k one_use",
    ),
    Mutant(
        "a check that gate.yaml misspells loses its teeth in silence",
        "src/railgauge/cluster/store.py",
        "if why := check_names.unknown(name):",
        'if why := "":',
        "tests/unit/cluster/test_check_names.py -k with_its_line",
    ),
    Mutant(
        "switches that cannot be read are not told",
        "src/railgauge/checks/pair.py",
        "if unread else ()",
        "if False else ()",
        "tests/unit/checks/test_fabric.py -k nobody_could_count",
    ),
    Mutant(
        "a node without the MPI program is accused",
        "src/railgauge/node/mpi_under_load.py",
        "if lacking := ranks.missing(argv[:1], os.environ):",
        "if lacking := []:",
        "tests/unit/node/test_mpi_under_load.py -k is_named",
    ),
    Mutant(
        "who was taken before a preflight is no reason to its partners",
        "src/railgauge/checks/sweep.py",
        "taken = self._taken_before(wanted)",
        "taken = {}",
        "tests/unit/checks/test_sweep.py -k taken_before",
    ),
    Mutant(
        "a node that was taken is accepted",
        "src/railgauge/verdict/node_status.py",
        "if not taken or node in taken:",
        "if not taken:",
        "tests/unit/verdict/test_node_status.py -k taken",
    ),
    Mutant(
        "a node's reason is what its partner did",
        "src/railgauge/verdict/node_status.py",
        "return _Rank.OWN if self._nodes_there(finding).isdisjoint(others) else "
        "_Rank.BESIDE_CULPRIT",
        "return _Rank.CONVICTS",
        "tests/unit/verdict/test_node_status.py -k own_fault",
    ),
    Mutant(
        "a check holds a node for what its partner did",
        "src/railgauge/verdict/node_status.py",
        "order.rank(finding, node) < _Rank.BESIDE_CULPRIT",
        "True",
        "tests/unit/verdict/test_node_status.py -k accused_of_what",
    ),
    Mutant(
        "a gate run that broke off waits for a node that Slurm no longer knows",
        "src/railgauge/gate/run.py",
        "run.decided[name] = slurm_nodes.UNKNOWN",
        "pass",
        f"{_GATE}/test_unknown_nodes.py -k broke_off",
    ),
    Mutant(
        "a changed node beyond max_hold is shown nowhere",
        "src/railgauge/node/gate.py",
        'if outcome.state == "alarm" and outcome.changes:',
        "if False:",
        f"{_GATE}/test_not_held.py -k show_it",
    ),
    Mutant(
        "a node that a person set down during its test returns, as Slurm had returned it",
        "src/railgauge/gate/run.py",
        "STEPS = (reserve, resume, testing.test, heed, record, drain, unreserve)",
        "STEPS = (reserve, resume, testing.test, record, drain, unreserve)",
        f"{_GATE}/test_run.py -k set_down_meanwhile",
    ),
    Mutant(
        "a node that was not tested counts as tested",
        "src/railgauge/gate/coverage.py",
        'standing.alarms is not None and standing.outcome != "not tested"',
        "standing.alarms is not None",
        f"{_PATROL}/test_run.py -k keeps_its_age",
    ),
    Mutant(
        "a campaign dated in the future hides what was measured since",
        "src/railgauge/gate/coverage.py",
        "if campaigns.in_future(folder.name):",
        "if False:",
        f"{_PATROL}/test_run.py -k from_the_future",
    ),
    Mutant(
        "a campaign dated in the future is the latest, and the last accepted one",
        "src/railgauge/campaign/folder.py",
        "(not in_future(path.name), path.name)",
        "path.name",
        "tests/unit/campaign/test_folder.py -k from_the_future_is_older",
    ),
    Mutant(
        "who was refused for want of results is tested again on its leaf",
        "src/railgauge/patrol/run.py",
        "test is not None and test.open and test.campaign in across",
        "test is not None and test.campaign in across",
        f"{_PATROL}/test_run.py -k tested_again",
    ),
    Mutant(
        "a tool that ended with its preempted job failed",
        "src/railgauge/checks/sweep.py",
        "if judged.passed or not self._was_cut(event):",
        "if True:",
        "tests/unit/checks/test_sweep.py -k somebody_ended",
    ),
    Mutant(
        "a patrol whose budget ends judges nobody",
        "src/railgauge/patrol/run.py",
        "why.startswith((_SPENT, PREEMPTED))",
        "why.startswith(PREEMPTED)",
        f"{_PATROL}/test_run.py -k budget",
    ),
    Mutant(
        "a patrol that a signal ended judges",
        "src/railgauge/patrol/run.py",
        "why.startswith((_SPENT, PREEMPTED))",
        "True",
        f"{_PATROL}/test_run.py -k signal",
    ),
    Mutant(
        "leaves met that a patrol which broke off did not measure",
        "src/railgauge/patrol/run.py",
        "if all(by_check.values())",
        "if True",
        f"{_PATROL}/test_run.py -k every_check",
    ),
    Mutant(
        "what a patrol that broke off left open is forgotten",
        "src/railgauge/gate/coverage.py",
        "doubted = standing.alarms is None and standing.open",
        "doubted = False",
        f"{_PATROL}/test_run.py -k broke_off",
    ),
    Mutant(
        "what runs when the budget ends is ended unread",
        "src/railgauge/patrol/run.py",
        "if now - self._spent >= _READ_S else",
        "if True else",
        f"{_PATROL}/test_run.py -k read_yet",
    ),
    Mutant(
        "a tool that was not started makes its pair low",
        "src/railgauge/node/rounds.py",
        '_NOT_STARTED = ("missing", "no_state")',
        "_NOT_STARTED = ()",
        "tests/unit/node/test_rounds.py -k not_started",
    ),
    Mutant(
        "a rehearsal's system is loaded before it is known as the rehearsed one",
        "src/railgauge/acceptance/session.py",
        """    # First: in a rehearsal the description of this system is another one.
    os.environ["RFM_SYSTEM"] = f"{system}:{partition}" if partition else system
    _drop_callers_variables(system)
""",
        """    _drop_callers_variables(system)
    os.environ["RFM_SYSTEM"] = f"{system}:{partition}" if partition else system
""",
        "tests/unit/slurm/test_callers.py -k rehearsal",
    ),
    Mutant(
        "late is judged by places of other conditions",
        "src/railgauge/node/rounds.py",
        "self._took.setdefault(self._sweep.places[place.index].of, [])",
        "self._took.setdefault(0, [])",
        "tests/unit/node/test_rounds.py -k far_longer",
    ),
    Mutant(
        "a link that loses packets at its peers' rate is not measured again",
        "src/railgauge/node/rounds.py",
        "                well = well and not lossy\n",
        "",
        "tests/unit/node/test_rounds.py -k sends_again_more",
    ),
    Mutant(
        "a repaired node is not compared with its partners",
        "src/railgauge/gate/testing.py",
        "updated=[] if _must_be_as_peers(run) else list(run.open_nodes)",
        "updated=list(run.open_nodes)",
        "tests/unit/gate/test_readmit.py -k as_its_peers",
    ),
    Mutant(
        "a single partner is odd beside a repaired node",
        "src/railgauge/gate/testing.py",
        "len(healthy) > len(tested)",
        "healthy",
        "tests/unit/gate/test_readmit.py -k as_its_peers",
    ),
    Mutant(
        "a node that came back untested from its update stays open",
        "src/railgauge/gate/roll.py",
        "    slurm_nodes.drain(roll.batch, journal.UPDATED)\n",
        "    slurm_nodes.drain([], journal.UPDATED)\n",
        "tests/unit/gate/test_update.py -k who_left",
    ),
    Mutant(
        "who left during an update is not said",
        "src/railgauge/gate/roll.py",
        "for name in states if name not in ours}",
        "for name in ()}",
        "tests/unit/gate/test_update.py -k who_left",
    ),
    Mutant(
        "a journal that cannot be read for now is set aside",
        "src/railgauge/gate/run.py",
        "    if not lost.damaged:\n",
        "    if False:\n",
        "tests/unit/gate/test_update.py -k not_set_aside",
    ),
    Mutant(
        "one flap that is over holds a node",
        "src/railgauge/gate/enforcement.py",
        '            sharp = "comment"\n',
        "            pass\n",
        "tests/unit/patrol/test_run.py -k came_back",
    ),
    Mutant(
        "a second flap holds nobody",
        "src/railgauge/gate/enforcement.py",
        " and store.suspected(system, node) is None",
        "",
        "tests/unit/patrol/test_run.py -k came_back",
    ),
    Mutant(
        "a campaign is resumed by other readers",
        "src/railgauge/acceptance/accept.py",
        '        paths.SOURCE / "railgauge",\n',
        "",
        "tests/unit/acceptance/test_resume.py -k another_railgauge",
    ),
    Mutant(
        "what fell by half of what matters is not measured again",
        "src/railgauge/node/interface_rate.py",
        "max(change / 2, ",
        "max(change, ",
        "tests/unit/node/test_interface_rate.py -k since_then",
    ),
    Mutant(
        "quiet results of a sweep that broke off make a certain fault doubtful",
        "src/railgauge/locating/judge.py",
        "elif missed is not None and not confirm and not self.evidence.added >= set(one.ends):",
        "elif missed is not None and not confirm:",
        "tests/unit/verdict/test_quiet.py -k broke_off",
    ),
    Mutant(
        "a published share of a quiet result makes sound nodes provisional",
        "src/railgauge/verdict/rules.py",
        "_first_day_findings(needed)",
        "_first_day_findings(cases)",
        "tests/unit/verdict/test_quiet.py -k nobody_provisional",
    ),
    Mutant(
        "many pairs that fell are noise",
        "src/railgauge/node/interface_rate.py",
        "[share - median for share in known if share > median]",
        "[abs(share - median) for share in known]",
        "tests/unit/node/test_interface_rate.py -k since_then",
    ),
    Mutant(
        "what all nodes send again accuses their pairs",
        "src/railgauge/node/interface_rate.py",
        "return most + (statistics.median(segments) if len(segments) >= LEAST_PAIRS else 0)",
        "return most",
        "tests/unit/node/test_interface_rate.py -k beside_what_all",
    ),
    Mutant(
        "a node that lacks a rail for now is in pairs of all rails",
        "src/railgauge/checks/rails.py",
        "            if all(partition.extras.rails_of(node) == every for node in pair.ends)\n",
        "",
        "tests/unit/checks/test_rails.py -k lacks_a_rail",
    ),
    Mutant(
        "a link that ate the budget is not named",
        "src/railgauge/node/rounds.py",
        "if took and ran_s > SLOW * statistics.median(took) + SLOW_S:",
        "if False:",
        "tests/unit/node/test_rounds.py -k enough",
    ),
    Mutant(
        "a node whose links flapped is due as any other",
        "src/railgauge/patrol/run.py",
        "    if line.flaps:\n",
        "    if False:\n",
        f"{_PATROL}/test_run.py",
    ),
    Mutant(
        "a healthy partner that would not be measured again is a suspect",
        "src/railgauge/verdict/locate.py",
        "tolerant=True",
        "tolerant=False",
        "tests/unit/verdict/test_retested.py",
    ),
    Mutant(
        "a tool outlives its rank that was ended while it started it",
        "src/railgauge/node/ranks.py",
        "            processes.end_children()\n",
        "",
        "tests/unit/node/test_ranks.py -k outlive",
    ),
    Mutant(
        "who removes a transfer's files is ended with its side",
        "src/railgauge/node/agent.py",
        "processes.end_children(but_keepers=True)",
        "processes.end_children()",
        "tests/unit/node/test_transfer.py -k take_long",
    ),
    Mutant(
        "a side ends who removes its files, where a signal came before it was told to",
        "src/railgauge/node/worker.py",
        "processes.end_children(but_keepers=True)",
        "processes.end_children()",
        "tests/unit/node/test_transfer.py -k just_before",
    ),
    Mutant(
        "the signal of its agent's death disturbs a side that ends for it already",
        "src/railgauge/node/peer.py",
        "processes.terminate()",
        "raise SystemExit(143)",
        "tests/unit/node/test_agent.py -k only_once",
    ),
    Mutant(
        "agents that srun ended are lost nodes",
        "src/railgauge/checks/sweep.py",
        "            if failed and self._raw.joined.keys() <= self._raw.lost.keys():\n",
        "            if False:\n",
        "tests/unit/checks/test_sweep.py -k srun_ended",
    ),
    Mutant(
        "a client of the connection manager comes before its listeners",
        "src/railgauge/node/pair.py",
        "    return listening and server.sleeps\n",
        "    return listening\n",
        "tests/unit/node/test_pair.py",
    ),
    Mutant(
        "a patrol's jobs are queued again",
        "src/railgauge/patrol/run.py",
        '(*rules.patrol.job_options, "#SBATCH --no-requeue")',
        "(*rules.patrol.job_options,)",
        f"{_PATROL}/test_run.py",
    ),
    Mutant(
        "a mass restart is tested all at once",
        "src/railgauge/patrol/choose.py",
        "ready = max(ready, turns[-most] + turn_s)",
        "pass",
        f"{_PATROL}/test_choose.py",
    ),
    Mutant(
        "a new check holds nodes",
        "src/railgauge/gate/enforcement.py",
        'rules.teeth.get(check, "record")',
        'rules.teeth.get(check, "hold")',
        f"{_GATE}/test_enforcement.py",
    ),
    Mutant(
        "a comment of another person is replaced",
        "src/railgauge/slurm/nodes.py",
        "if before and not before.startswith(OURS):",
        "if False:",
        "tests/unit/slurm/test_nodes.py",
    ),
    Mutant(
        "what no retest has looked at counts as cleared by one",
        "src/railgauge/verdict/node_status.py",
        "again.get(_what(case), False)",
        "again.get(_what(case), True)",
        "tests/unit/verdict/test_node_status.py",
    ),
    Mutant(
        "an alarm that nothing decided counts for a check",
        "src/railgauge/gate/trust.py",
        "return lower, _upper(count.false + count.open, tests)",
        "return lower, _upper(count.false, tests)",
        f"{_GATE}/test_trust.py",
    ),
    Mutant(
        "a rehearsal is told as if it were a verdict",
        "src/railgauge/acceptance/accept.py",
        "    if not verdict.simulated:\n        files = ",
        "    if True:\n        files = ",
        "tests/unit/acceptance/test_told.py",
    ),
    Mutant(
        "a node is readmitted beside too few partners",
        "src/railgauge/gate/readmit.py",
        "        if len(partners_there) < needed:\n",
        "        if False:\n",
        f"{_GATE}/test_readmit.py",
    ),
    Mutant(
        "partners in another partition are counted",
        "src/railgauge/gate/readmit.py",
        "        if len(partners_there) < needed:\n",
        "        if len(lent) < needed:\n",
        f"{_GATE}/test_readmit.py -k partition",
    ),
    Mutant(
        "any number of nodes is held at once",
        "src/railgauge/node/gate.py",
        "if not full and len(holds) >= rules.max_hold:",
        "if False:",
        f"{_GATE}/test_hold.py",
    ),
    Mutant(
        "a second run in a file of nccl-tests is known by its processes",
        "src/railgauge/tools/nccl_tests/judge.py",
        "tuple(dataclasses.replace(device, pid=None) for device in result.devices)",
        "result.devices",
        "tests/unit/tools/test_nccl_tests.py -k does_not_say",
    ),
    Mutant(
        "ranks that each started alone accuse their nodes",
        "src/railgauge/verdict/location/logs.py",
        "    return why_alone(text)\n",
        '    return ""\n',
        "tests/unit/verdict/location/test_sources.py -k started_alone",
    ),
    Mutant(
        "ranks of several groups accuse their nodes",
        "src/railgauge/verdict/location/logs.py",
        "if len({device.group for device in _devices(text)}) > 1:",
        "if False:",
        "tests/unit/verdict/location/test_sources.py -k groups",
    ),
    Mutant(
        "ranks that each started alone have run a test",
        "src/railgauge/tools/nccl_tests/judge.py",
        "    for started_alone in filter(None, map(why_alone, outputs.values())):\n",
        "    for started_alone in ():\n",
        "tests/unit/tools/test_nccl_tests.py -k each_started_alone",
    ),
    Mutant(
        "a run that was appended to another is a run that failed",
        "src/railgauge/verdict/location/logs.py",
        "        for runs in [[text] if why_alone(text) else each(text)]\n",
        "        for runs in [[text]]\n",
        "tests/unit/verdict/location/test_sources.py -k appended",
    ),
    Mutant(
        "a node whose results are all missing is nobody's concern",
        "src/railgauge/locating/evidence.py",
        "return sorted(unjudged | self._lacking, key=natural)",
        "return sorted(unjudged, key=natural)",
        "tests/unit/cli/test_locate.py -k missing_results_alone",
    ),
    Mutant(
        "a folder of which outputs are empty is judged",
        "src/railgauge/cli/locate.py",
        "sys.exit(EXIT_INPUT if located.unjudged or lacking else EXIT_NOBODY)",
        "sys.exit(EXIT_INPUT if located.unjudged else EXIT_NOBODY)",
        "tests/unit/cli/test_locate.py -k without_a_result",
    ),
    Mutant(
        "a copy of a file is another run",
        "src/railgauge/cli/compare.py",
        "            if content in of_content:\n",
        "            if False:\n",
        "tests/unit/cli/test_compare.py -k copy_of_a_file",
    ),
    Mutant(
        "a latency under another name is better when it is more",
        "src/railgauge/verdict/before_after.py",
        "    if _LESS.intersection(parts):\n",
        "    if False:\n",
        "tests/unit/cli/test_compare.py -k known_by_its_words",
    ),
    Mutant(
        "who waited to hold a node counts it once more",
        "src/railgauge/node/gate.py",
        "run if late else None",
        "None",
        f"{_GATE}/test_hold.py -k looks_again",
    ),
    Mutant(
        "what a wrong clock dated in the future counts as held",
        "src/railgauge/node/gate.py",
        'if abs(now - float(one["at"])) <= window_s]',
        'if now - float(one["at"]) <= window_s]',
        f"{_GATE}/test_hold.py -k future",
    ),
    Mutant(
        "a patrol ends with the first guilty node that cannot be held",
        "src/railgauge/gate/enforcement.py",
        "        except (node_gate.NoStore, EnvironmentProblem) as error:\n",
        "        except ZeroDivisionError as error:\n",
        f"{_PATROL}/test_run.py -k cannot_be_held",
    ),
    Mutant(
        "a patrol clears whom somebody accused meanwhile",
        "src/railgauge/gate/enforcement.py",
        "        if known is None or known.date > since:\n",
        "        if known is None:\n",
        f"{_PATROL}/test_run.py -k accused_meanwhile",
    ),
    Mutant(
        "a gate run's preflight passes over the nodes under test",
        "src/railgauge/cluster/look.py",
        "elif named in reservations.ours() and named in state.reservations:",
        "elif False:",
        "tests/unit/cluster/test_look.py -k under_test",
    ),
    Mutant(
        "of an option given twice the first one counts",
        "src/railgauge/slurm/client.py",
        '            value = word.partition("=")[2]\n',
        '            value = value or word.partition("=")[2]\n',
        "tests/unit/slurm/test_waiting.py -k option",
    ),
    Mutant(
        "whoever drained a node, it is released",
        "src/railgauge/slurm/nodes.py",
        "return self.drained and self.reason.startswith(OURS)",
        "return self.drained",
        "tests/unit/slurm/test_nodes.py",
    ),
    Mutant(
        "the reservation goes before the rejected nodes are drained",
        "src/railgauge/gate/run.py",
        "STEPS = (reserve, resume, testing.test, heed, record, drain, unreserve)",
        "STEPS = (reserve, resume, testing.test, heed, record, unreserve, drain)",
        f"{_GATE}/test_run.py",
    ),
    Mutant(
        "a run that goes on records again who has returned since",
        "src/railgauge/gate/run.py",
        "sorted(accepted.difference(run.recorded))",
        "sorted(accepted)",
        f"{_GATE}/test_run.py -k adopted_since",
    ),
    Mutant(
        "who is tested again by a run that goes on is not recorded anew",
        "src/railgauge/gate/run.py",
        "        run.recorded = [node for node in run.recorded if node in run.decided]\n",
        "",
        f"{_GATE}/test_run.py -k since_its_test",
    ),
    Mutant(
        "the untested nodes' reservation ends",
        "src/railgauge/gate/run.py",
        "reservations.reserve(run.untested, run.open_nodes)",
        "reservations.reserve(run.untested, run.open_nodes, lease.LEASE_S)",
        f"{_GATE}/test_run.py -k has_an_end",
    ),
    Mutant(
        "the partners' reservation has no end",
        "src/railgauge/gate/run.py",
        "reservations.reserve(run.reservation, both, lease.LEASE_S)",
        "reservations.reserve(run.reservation, both)",
        f"{_GATE}/test_run.py -k has_an_end",
    ),
    Mutant(
        "a run's reservation is renewed after its death",
        "src/railgauge/gate/lease.py",
        "    while not select.select([sys.stdin], [], [], lease_s / _RENEWALS)[0]:\n",
        # It ends by itself, later than the test.
        "    for _ in range(1000):\n        select.select([], [], [], lease_s / _RENEWALS)\n",
        f"{_GATE}/test_lease.py -k killed",
    ),
    Mutant(
        "after an interrupted campaign another one begins",
        "src/railgauge/gate/testing.py",
        'if verdict.campaign.state == "interrupted":\n                say(',
        "if False:\n                say(",
        f"{_GATE}/test_update.py -k interrupted_test",
    ),
    Mutant(
        "what an interrupted campaign left open is left undecided",
        "src/railgauge/gate/testing.py",
        '    if verdict.campaign.state == "interrupted":\n        again = set()\n',
        "",
        f"{_GATE}/test_run.py -k after_an_interrupt",
    ),
    Mutant(
        "a server that crashed is one that its client did not wait for",
        "src/railgauge/tools/perftest/judge.py",
        "if failed and waits and (rejected",
        "if failed and (rejected",
        "tests/unit/tools/test_perftest.py -k speaks_against_the_run",
    ),
    Mutant(
        "jobs of a campaign that cannot be continued stay in the queue",
        "src/railgauge/gate/testing.py",
        "    slurm_jobs.cancel_jobs_of(broken.id)\n",
        "",
        f"{_GATE}/test_run.py -k leaves_no_jobs",
    ),
    Mutant(
        "what a run that broke off had accepted returns without a look",
        "src/railgauge/gate/run.py",
        "    _doubt(run)\n",
        "",
        f"{_GATE}/test_run.py -k changed_since_its_test",
    ),
    Mutant(
        "a campaign of another state is judged as it lies",
        "src/railgauge/gate/testing.py",
        "    return tested.boot_id == seen.boot_id and not changes\n",
        "    return True\n",
        f"{_GATE}/test_run.py -k changed_since_its_test",
    ),
    Mutant(
        "who failed elsewhere too is tested again because another is bad",
        "src/railgauge/gate/testing.py",
        "again = set(kept).difference(guilty, apart) if guilty else set()",
        "again = set(kept).difference(guilty) if guilty else set()",
        f"{_GATE}/test_run.py -k no_second_try",
    ),
    Mutant(
        "a node counts what its partner loses, and is at fault",
        "src/railgauge/checks/protections.py",
        "if len(seen_on) <= 2 and _OF_THE_WAY.fullmatch(counter):",
        "if False:",
        "tests/unit/verdict/test_rules.py -k counts_what",
    ),
    Mutant(
        "a node that failed with a good one is passing",
        "src/railgauge/verdict/answer.py",
        "return sorted(passed.difference(apart), key=natural)",
        "return sorted(passed, key=natural)",
        "tests/unit/verdict/test_rules.py -k is_not_passing",
    ),
    Mutant(
        "what a campaign that cannot be continued had found is forgotten",
        "src/railgauge/gate/testing.py",
        "        _keep_failed(run, broken, say)\n        return None\n",
        "        run.judged.append(broken.id)\n        return None\n",
        f"{_GATE}/test_run.py -k cannot_be_continued",
    ),
    Mutant(
        "a former partner's fault keeps out who was measured with it",
        "src/railgauge/gate/testing.py",
        "guilty = node_status.culprits(verdict, _nodes_of(broken))",
        "guilty = node_status.culprits(verdict, [*run.open_nodes, *run.partners])",
        f"{_GATE}/test_run.py -k former_partner",
    ),
    Mutant(
        "a campaign is finished before its verdict is written",
        "src/railgauge/acceptance/accept.py",
        "    campaign.save()\n    campaign.end(state)\n",
        "    campaign.end(state)\n    campaign.save()\n",
        f"{_RESUME} -k concluded_again",
    ),
    Mutant(
        "what fails before a test stays reserved",
        "src/railgauge/gate/run.py",
        "        if not run.campaigns:\n",
        "        if False:\n",
        f"{_GATE}/test_run.py -k undone",
    ),
    Mutant(
        "nodes that a run resumed are not drained again before its reservations go",
        "src/railgauge/gate/run.py",
        "        if not state.stays_drained:\n            slurm_nodes.drain([node], run.reasons",
        "        if False:\n            slurm_nodes.drain([node], run.reasons",
        f"{_GATE}/test_run.py -k half_way",
    ),
    Mutant(
        "a run that measured nothing has tested a rolling update's batch",
        "src/railgauge/gate/roll.py",
        "    if known is not None and not known.undone:\n",
        "    if known is not None:\n",
        f"{_GATE}/test_update.py -k measured_nothing",
    ),
    Mutant(
        "nobody asks for the rights",
        "src/railgauge/cluster/rights.py",
        "    if lacking:\n",
        "    if False:\n",
        f"{_GATE}/test_rights.py -k nothing_is_changed",
    ),
    Mutant(
        "a rehearsal returns nodes to service",
        "src/railgauge/verdict/node_status.py",
        "    if verdict.simulated:\n",
        "    if False:\n",
        "tests/unit/verdict/test_node_status.py",
    ),
    Mutant(
        "a node without its reservation goes on being tested",
        "src/railgauge/gate/testing.py",
        "    if not missing:\n        return\n",
        "    if True:\n        return\n",
        f"{_GATE}/test_run.py",
    ),
    Mutant(
        "a finding of no node keeps nobody out",
        "src/railgauge/verdict/node_status.py",
        "if finding.nodes or _concerns(finding, partitions):",
        "if finding.nodes:",
        "tests/unit/verdict/test_node_status.py",
    ),
    Mutant(
        "the caller's variables reach jobs",
        "src/railgauge/acceptance/session.py",
        "    _drop_callers_variables(system)\n",
        "",
        "tests/unit/slurm/test_callers.py -k srun_read",
    ),
    Mutant(
        "the caller's variables reach Slurm's commands",
        "src/railgauge/slurm/client.py",
        "dropped = frozenset(callers(_kept))",
        "dropped = frozenset()",
        "tests/unit/slurm/test_callers.py -k either",
    ),
    Mutant(
        "an empty update is accepted",
        "src/railgauge/cli/words.py",
        "if not text.strip():",
        "if False:",
        "tests/unit/cli/test_cli.py -k cannot_be_kept",
    ),
    Mutant(
        "an update is over once its command has ended",
        "src/railgauge/gate/installer.py",
        "    _reap()\n",
        "",
        f"{_GATE}/test_update.py -k returns_early",
    ),
    Mutant(
        "an update whose process was killed does not run",
        "src/railgauge/gate/update.py",
        "    if still:\n",
        "    if still and alive:\n",
        f"{_GATE}/test_update.py -k alone_was_killed",
    ),
    Mutant(
        "an update begins before its journal is written",
        "src/railgauge/gate/installer.py",
        "    if sys.stdin.buffer.read() != BEGIN:\n",
        '    if sys.stdin.buffer.read() == b"no":\n',
        f"{_GATE}/test_update.py -k journal",
    ),
    Mutant(
        "an earlier update that did not begin says it of the one that runs",
        "src/railgauge/gate/update.py",
        "    if not_begun(roll.end_file, update.pid).exists():",
        '    if list(roll.end_file.parent.glob("*.not-begun")):',
        f"{_GATE}/test_update.py -k before_the_word",
    ),
    Mutant(
        "a node in update is tested and released",
        "src/railgauge/gate/run.py",
        "updating = {} if despite_updates else journal.in_update(system, known)",
        "updating: dict[str, str] = {}",
        f"{_GATE}/test_update.py -k in_update",
    ),
    Mutant(
        "a gate run does not end well beside a reservation that nothing goes on with",
        "src/railgauge/gate/sequence.py",
        "bool(self.barred or self.ownerless)",
        "bool(self.barred)",
        f"{_GATE}/test_orphaned_reservations.py -k does_not_end_well",
    ),
    Mutant(
        "an updated node that its reboot put back in service is free until its test begins",
        "src/railgauge/gate/journal.py",
        " or run_of(system, roll.run) is None",
        "",
        f"{_GATE}/test_update.py -k before_its_test",
    ),
    Mutant(
        "a rolling update whose journal is damaged counts as none",
        "src/railgauge/gate/journal.py",
        "for name in states if lost.nodes is None else lost.nodes:",
        "for name in ():",
        f"{_GATE}/test_lost_rolls.py",
    ),
    Mutant(
        "a folder of journals that cannot be listed counts as no rolling update",
        "src/railgauge/gate/journal.py",
        "return [], [Lost(folder, error.strerror or str(error), damaged=False)]",
        "return [], []",
        f"{_GATE}/test_lost_rolls.py -k cannot_be_read",
    ),
    Mutant(
        "a run sets the damaged journal of a rolling update aside, and nothing tells of it then",
        "src/railgauge/gate/run.py",
        "    if lost in journal.lost_rolls(system):\n        return\n",
        "",
        f"{_GATE}/test_lost_rolls.py -k a_run_tests",
    ),
    Mutant(
        "a rolling update goes on beside one whose nodes nobody knows",
        "src/railgauge/gate/sequence.py",
        "    stuck = roll.unknown(system)\n",
        "    stuck: roll.StuckError | None = None\n",
        f"{_GATE}/test_lost_rolls.py -k no_other",
    ),
    Mutant(
        "a run that broke off goes on beside an update whose nodes nobody knows",
        "src/railgauge/gate/sequence.py",
        "        if (wait := waits_for(broken)) is not None:\n",
        "        if (wait := waits_for(broken)) is not None and False:\n",
        f"{_GATE}/test_lost_rolls.py -k broke_off_waits",
    ),
    Mutant(
        "a run that waits for a word leaves its nodes to its reservation alone",
        "src/railgauge/gate/sequence.py",
        "        run.keep_waiting(broken)\n",
        "        pass\n",
        f"{_GATE}/test_lost_rolls.py -k not_all_that_keeps",
    ),
    Mutant(
        "the word of a damaged journal drops the batches of another rolling update",
        "src/railgauge/cli/gate.py",
        "        if no_more and not damaged:\n",
        "        if no_more:\n",
        f"{_GATE}/test_lost_rolls.py -k leaves_another",
    ),
    Mutant(
        "a damaged journal is settled while its update runs",
        "src/railgauge/gate/roll.py",
        'if update.runs_here(log.with_suffix(".end")):',
        "if False:",
        f"{_GATE}/test_lost_rolls.py -k runs_here",
    ),
    Mutant(
        "a node in update that came back is lent as a partner",
        "src/railgauge/gate/partners.py",
        "            and name not in updating\n",
        "",
        f"{_GATE}/test_update.py -k nobodys_partner",
    ),
    Mutant(
        "a node in update that came back can be named as a partner",
        "src/railgauge/gate/readmit.py",
        "else updating.get(name, states[name].outside)",
        "else states[name].outside",
        f"{_GATE}/test_update.py -k named_as_a_partner",
    ),
    Mutant(
        "a patrol tests a node in update that came back",
        "src/railgauge/patrol/run.py",
        "            why := updating.get(node)\n            or _why_left_alone(",
        "            why := _why_left_alone(",
        f"{_PATROL}/test_run.py -k rolling_update",
    ),
    Mutant(
        "a node in update is adopted as it is",
        "src/railgauge/cli/gate.py",
        "updating = {name: known[name] for name in new if name in known}",
        "updating: dict[str, str] = {}",
        f"{_GATE}/test_update.py -k not_adopted",
    ),
    Mutant(
        "an update whose process is gone has ended well",
        "src/railgauge/gate/update.py",
        'return self.word == "ended" and self.exit_code == 0',
        'return self.word in ("ended", "unknown") and not self.exit_code',
        f"{_GATE}/test_update.py -k cannot_be_seen",
    ),
    Mutant(
        "a process id of before the reboot is the update's",
        "src/railgauge/gate/update.py",
        "same_boot = on_this_host and update.boot_id == boot_id()",
        "same_boot = on_this_host",
        f"{_GATE}/test_update.py -k cannot_be_seen",
    ),
    Mutant(
        "what was held and returned does not count",
        "src/railgauge/node/gate.py",
        "            _write_holds(store, holds)\n",
        "",
        f"{_GATE}/test_hold.py",
    ),
    Mutant(
        "a changed node is lent as a partner",
        "src/railgauge/gate/partners.py",
        "if known is not None and not node_gate.changes(known, inventory.as_dict(), counted):",
        "if known is not None:",
        f"{_GATE}/test_run.py -k partner",
    ),
    Mutant(
        "a partner at fault stays in service",
        "src/railgauge/gate/testing.py",
        '            partners.accuse(run, node, f"{why} ({verdict.campaign.id})", say)\n',
        "",
        f"{_GATE}/test_run.py -k partner",
    ),
    Mutant(
        "a human's reason is overwritten",
        "src/railgauge/slurm/nodes.py",
        "        elif node.ours or not node.drained:\n",
        "        else:\n",
        "tests/unit/slurm/test_nodes.py",
    ),
    Mutant(
        "a node in somebody's reservation is resumed",
        "src/railgauge/gate/run.py",
        "elif node.foreign_reservations and not run.despite_reservations:",
        "elif False:",
        f"{_GATE}/test_run.py -k reservation",
    ),
    Mutant(
        "whatever a gate run accepted, the node is never odd again",
        "src/railgauge/verdict/peers.py",
        "return key in self.tested and same(self.fields.get(field), self.tested[key])",
        "return key in self.tested",
        "tests/unit/checks/test_state.py -k odd",
    ),
    Mutant(
        "the reason of whoever set a node down is overwritten",
        "src/railgauge/slurm/nodes.py",
        "theirs if node.taken_down else words",
        "words",
        "tests/unit/slurm/test_nodes.py -k set_a_node_down",
    ),
    Mutant(
        "who wants a node tested is told to overwrite the reason of whoever set it down",
        "src/railgauge/gate/run.py",
        "    if node.drained or node.taken_down:\n",
        "    if node.drained:\n",
        f"{_GATE}/test_run.py -k did_not_hold",
    ),
    Mutant(
        "a damaged record of one node stops the tests of all",
        "src/railgauge/cluster/store.py",
        "    except ConfigurationError:\n        return None\n",
        "    except ConfigurationError:\n        raise\n",
        f"{_GATE}/test_run.py -k damaged_record_of_one_node",
    ),
    Mutant(
        "a named partner need not be known to be healthy",
        "src/railgauge/gate/readmit.py",
        "for name in sorted({*named} - {*same}):",
        "for name in ():",
        "tests/unit/gate/test_readmit.py -k not_known_to_be_healthy",
    ),
    Mutant(
        "accept resumes a patrol's campaign",
        "src/railgauge/patrol/run.py",
        "            owner=PATROL,\n",
        "            owner=None,\n",
        "tests/unit/patrol/test_run.py -k nobody_is_touched",
    ),
    Mutant(
        "anybody resumes the campaign of a gate run",
        "src/railgauge/acceptance/accept.py",
        "    _require_owner(campaign, owner)\n",
        "",
        f"{_RESUME} -k gate_run",
    ),
    Mutant(
        "a campaign is resumed with other expectations",
        "src/railgauge/acceptance/accept.py",
        "        if digest != before.get(path):\n",
        "        if False:\n",
        f"{_RESUME} -k refused",
    ),
    Mutant(
        "a session is only asked to end",
        "src/railgauge/children.py",
        "        os.killpg(process.pid, signal.SIGKILL)\n",
        "        pass\n",
        "tests/unit/acceptance/test_follow.py -k whatever",
    ),
    Mutant(
        "a stored reference is looked for after the floor",
        "src/railgauge/checks/base.py",
        "self.stored.find(check, partition, measurement) or self.floor(measurement)",
        "self.floor(measurement) or self.stored.find(check, partition, measurement)",
        f"{_FOOLING} -k StoredNumbersWin",
    ),
    Mutant(
        "of two systems of a host the first is taken",
        "src/railgauge/systems/__init__.py",
        "    if len(systems_of_host) > 1:\n",
        "    if False:\n",
        "tests/unit/systems/test_schema.py -k two_systems",
    ),
    Mutant(
        "any host with the name of a lab's head is that lab",
        "src/railgauge/systems/__init__.py",
        "    if is_of_lab(system.name) and lab.system_here() != system.name:\n",
        "    if False:\n",
        "tests/unit/systems/test_schema.py -k labs_head",
    ),
    Mutant(
        "names with a suffix are folded as Slurm 22.05 refuses",
        "src/railgauge/hostlist.py",
        """    if "[" not in word or word.endswith("]"):\n""",
        "    if True:\n",
        "tests/unit/test_hostlist.py -k slurm",
    ),
    Mutant(
        "a node without a tool is found by its partners' results",
        "src/railgauge/cluster/ready.py",
        "            problems += missing_tools(system, one.nodes.values())\n",
        "            pass\n",
        "tests/unit/cluster/test_look.py -k without_a_tool",
    ),
    Mutant(
        "a job over a limit is only one that waits",
        "src/railgauge/cluster/probe.py",
        "    standing = reason in STANDING\n",
        "    standing = False\n",
        "tests/unit/cluster/test_probe.py -k own_reason",
    ),
    Mutant(
        "a session that did not begin is a verdict",
        "src/railgauge/acceptance/accept.py",
        "        _require_begun(campaign, output)\n",
        "        pass\n",
        "tests/lab/test_accept.py -k does_not_begin",
    ),
    Mutant(
        "a session ignores what nohup ignores",
        "src/railgauge/acceptance/follow.py",
        "            preexec_fn=children.default_signals,\n",
        "",
        "tests/unit/acceptance/test_follow.py -k hears",
    ),
    Mutant(
        "uplinks are believed that did not carry the test's traffic",
        "src/railgauge/checks/uplinks.py",
        "    if sent_bytes < LEAST_SHARE * moved_bytes:\n",
        "    if False:\n",
        "tests/unit/checks/test_fabric.py -k of_its_own_traffic",
    ),
    Mutant(
        "uplinks are believed that carried other traffic too",
        "src/railgauge/checks/uplinks.py",
        "    if sent_bytes > MOST_SHARE * moved_bytes:\n",
        "    if False:\n",
        "tests/unit/checks/test_fabric.py -k of_other_traffic",
    ),
    Mutant(
        "a pair that failed is no failure of the fabric's measurement",
        "src/railgauge/checks/fabric.py",
        "        calls = [call for _, _, of_flow, _ in sides for call in of_flow]\n",
        "        calls = [dataclasses.replace(c, exit_code=0) for x in sides for c in x[2]]\n",
        "tests/unit/checks/test_fabric.py -k pair_that_failed",
    ),
    _sweep(
        "a place is measured though what it needs has failed",
        "self.not_run.update(self.unmet(p for p in wanted if not taken.keys() & set(p.nodes)))",
        "self.unmet(wanted)",
        "unmet_precondition",
    ),
    _sweep(
        "a place of which nothing was recorded is done",
        "self._raw.places.get(self._numbers[place.place])\n",
        'self._raw.places.setdefault(self._numbers[place.place], {"outcome": "done"})\n',
        "sides_without_the_end",
    ),
    _sweep(
        "a place is settled that has no end of its own",
        "        return self._numbers.get(self.here.place) in self._raw.places\n",
        "        return True\n",
        "settled_by_its_own_end",
    ),
    _sweep(
        "a place that was ended at its limit is judged by what it printed",
        '        if event["outcome"] != "done" and not evidence.missing_program:\n',
        "        if False:\n",
        "late",
    ),
    _summary(
        "places that were not measured fail nothing",
        "    return [*named, *more, *not_measured]\n",
        "    return [*named, *more]\n",
        "refused",
    ),
    _summary(
        "places that were not measured are not counted",
        "(*failed, *not_run)",
        "failed",
        "not_run_have_failed",
    ),
    Mutant(
        "a node that somebody took meanwhile is said to be in service",
        "src/railgauge/gate/run.py",
        "run.outside = {name: node.outside for name, node in states.items() if node.outside}",
        "run.outside = {}",
        f"{_GATE}/test_run.py -k drained_meanwhile",
    ),
    Mutant(
        "two gate commands at once",
        "src/railgauge/gate/lock.py",
        "            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "            pass\n",
        f"{_GATE}/test_run.py -k 'left_just_before or beside_a_run'",
    ),
    Mutant(
        "the other direction of a slow pair is not measured",
        "src/railgauge/node/reverse.py",
        "slow = rate is not None and rate < on_the_wire(",
        "slow = False and bool(",
        "tests/unit/node/test_reverse.py",
    ),
    Mutant(
        "the head has an sshd in labs that need none",
        "src/railgauge/lab/cluster.py",
        'return [*(["sshd"] if is_hypervisor else []), *self.spec.services]',
        'return ["sshd", *self.spec.services]',
        "tests/unit/lab/test_vm.py -k where_it_is_the_hypervisor",
    ),
    Mutant(
        "a dead sshd of the hypervisor stays dead",
        "src/railgauge/lab/cluster.py",
        "        for service in self.services:\n",
        "        for service in self.spec.services:\n",
        "tests/unit/lab/test_vm.py -k dead_sshd",
    ),
    Mutant(
        "a drained node is waited for",
        "src/railgauge/cluster/inventories.py",
        "    closed = _closed(states)\n",
        "    closed: dict[str, str] = {}\n",
        "tests/unit/cli/test_inventory.py -k drained",
    ),
    Mutant(
        "every case waits for a partition that is down",
        "src/railgauge/checks/queue.py",
        "            if obstacle is not None:\n                raise JobError",
        "            if False:\n                raise JobError",
        "tests/unit/slurm/test_waiting.py -k partition_that_is_down",
    ),
    Mutant(
        "what a kill or a full disk leaves of a write is taken for the file",
        "src/railgauge/atomic.py",
        "    beside = beside_of(path)\n",
        "    beside = path\n",
        "tests/unit/test_atomic.py",
    ),
    Mutant(
        "a changed node that somebody set down comes back by itself",
        "src/railgauge/node/gate.py",
        "            slurm_nodes.drain([name], reasons[name])\n",
        "            None if state.taken_down else slurm_nodes.drain([name], reasons[name])\n",
        f"{_GATE}/test_hold.py -k set_down",
    ),
    Mutant(
        "a copy may have the name of another campaign",
        "src/railgauge/campaign/folder.py",
        "self.id if _NAME.fullmatch(self.id) else self.recorded_id",
        "self.recorded_id",
        f"{_RULES} -k by_the_name_of_another",
    ),
    Mutant(
        "a copy is gone on with",
        "src/railgauge/acceptance/accept.py",
        '    if campaign.recorded_id not in ("", campaign.id):\n',
        "    if False:\n",
        f"{_RESUME} -k a_copy_is_not",
    ),
    Mutant(
        "a node with somebody's job is tested",
        "src/railgauge/gate/run.py",
        "    if node.busy:\n        return",
        "    if False:\n        return",
        f"{_GATE}/test_run.py -k somebodys_job",
    ),
    Mutant(
        "an update begins beneath jobs",
        "src/railgauge/gate/roll.py",
        "    while left := _has_jobs(roll.batch):\n",
        "    while left := ():\n",
        f"{_GATE}/test_update.py -k 'waits_for_the_jobs or does_not_end'",
    ),
    Mutant(
        "an update begins beneath suspended jobs",
        "src/railgauge/gate/roll.py",
        "s.restarts or n in suspended or",
        "s.restarts or",
        f"{_GATE}/test_update.py -k does_not_end",
    ),
    Mutant(
        "a node comes back from scontrol reboot untested",
        "src/railgauge/node/gate.py",
        "    if state.stays_drained:",
        "    if state.drained:",
        f"{_GATE}/test_hold.py -k after_scontrol_reboot",
    ),
    Mutant(
        "a rejected node comes back from scontrol reboot",
        "src/railgauge/gate/testing.py",
        "    for node, state in states.items():\n        if not state.stays_drained:\n",
        "    for node, state in states.items():\n        if not state.drained:\n",
        f"{_GATE}/test_run.py -k scontrol_reboot",
    ),
    Mutant(
        "Slurm takes the drain of a restarted node away",
        "src/railgauge/slurm/nodes.py",
        "    restarted = [name for name, node in known.items() if node.returns_by_itself]\n",
        "    restarted: list[str] = []\n",
        "tests/unit/slurm/test_nodes.py -k leaves_it_drained",
    ),
    Mutant(
        "an administrator's words that begin as Slurm's do are Slurm's",
        "src/railgauge/slurm/nodes.py",
        "_SLURMS_REASON.fullmatch(part)",
        "_SLURMS_REASON.match(part)",
        "tests/unit/slurm/test_nodes.py -k set_a_node_down_is_kept",
    ),
    Mutant(
        "a GPU's health is not asked for",
        "src/railgauge/node/inventory/nvidia.py",
        "{**GPU_FIELDS, **NEWER_FIELDS}.items()",
        "GPU_FIELDS.items()",
        "tests/unit/systems/test_gpu_systems.py -k says_it_is_broken",
    ),
    Mutant(
        "no byte need be claimed of a rate",
        "src/railgauge/checks/protections.py",
        "any(claim.payload_bytes > 0 for claim in evidence.claims)",
        "bool(evidence.claims)",
        "tests/unit/checks/test_protections.py -k claimed",
    ),
    Mutant(
        "a rate in GB/s needs no claim",
        "src/railgauge/checks/protections.py",
        'in ("Gb/s", "GB/s")',
        'in ("Gb/s",)',
        "tests/unit/checks/test_protections.py -k rates_in_bytes",
    ),
    _sweep(
        "places of nodes that take no job are forgotten",
        "[p for p in self._wanted if self._absent.keys() & set(p.nodes)]",
        "[]",
        "take_no_job",
    ),
    _sweep(
        "a sweep without nodes is submitted",
        "            absent, chosen = {}, free\n",
        "            pass\n",
        "left_to_the_queue",
    ),
    _sweep(
        "a sweep that did not begin is no failure",
        "            return protections.failures_of_job(self._whole(), began=False)\n",
        "            return ()\n",
        "never_began_is_no_pass",
    ),
    _sweep(
        "how its job ended says nothing of a sweep",
        "        failures = protections.failures_of_job(self._whole(), began=True)\n"
        "        if not failures",
        "        failures = []\n        if not failures",
        "though_all_places_are",
    ),
    _sweep(
        "a conductor that was ended has come to its end",
        "        if not failures and (end is None or end[",
        "        if False and (end is None or end[",
        "come_to_its_end",
    ),
    Mutant(
        "an agent that is stopped is waited for",
        "src/railgauge/node/rounds.py",
        "            if now - since > ANSWER_S:\n",
        "            if False:\n",
        "tests/unit/node/test_rounds.py -k agent_that_is_stopped",
    ),
    _sweep(
        "a conductor's node that went is not named",
        "        if (lost := queue.session.lost_host(self.job.jobid)) is not None:\n"
        "            return [lost]\n",
        "",
        "conductors_node_alone",
    ),
    Mutant(
        "a sweep without its conductor lasts to its time limit",
        "src/railgauge/checks/queue.py",
        "            if node is not None and node.name in gone:\n",
        "            if False:\n",
        "tests/unit/slurm/test_waiting.py -k conductors_node",
    ),
    Mutant(
        "all nodes of a job wait for one that went while it waited",
        "src/railgauge/checks/queue.py",
        "if self._looks_at_nodes_of(job, now) and self.goes_on(job):",
        "if False:",
        "tests/unit/slurm/test_waiting.py -k gives_up_while_it_waits",
    ),
    Mutant(
        "a restarted controller costs a job that waits its nodes",
        "src/railgauge/checks/queue.py",
        "if node.given_up or now - self._silent[name][0] > slurm_nodes.REGISTERED_S",
        "if True",
        "tests/unit/slurm/test_waiting.py -k silent_since_just_now",
    ),
    Mutant(
        "a node is silent since a look of an hour ago",
        "src/railgauge/checks/queue.py",
        "since if now - last <= _SEEN_S else now",
        "since",
        "tests/unit/slurm/test_waiting.py -k long_ago",
    ),
    Mutant(
        "a node that was given up for a moment is rejected",
        "src/railgauge/checks/queue.py",
        "            failures[node] = dataclasses.replace(",
        "            dataclasses.replace(",
        "tests/unit/slurm/test_waiting.py -k for_a_moment_is_not_accused",
    ),
    Mutant(
        "a job stays held where the controller goes for a moment",
        "src/railgauge/checks/queue.py",
        "            self._release(job)\n            if self._looks",
        "            if self._looks",
        "tests/unit/slurm/test_waiting.py -k answers_again",
    ),
    Mutant(
        "a node that a job needs is hidden behind the hold of the job",
        "src/railgauge/checks/queue.py",
        "                return not slurm_jobs.waits(job.jobid)\n",
        "                slurm_jobs.hold(job.jobid)\n                return False\n",
        "tests/unit/slurm/test_waiting.py -k is_named",
    ),
    _sweep(
        "a node that died while its job waited is taken for somebody else's",
        "without.get(n) or Failure(TAKEN",
        "Failure(TAKEN",
        "made_to_do_without",
    ),
    _sweep(
        "what a job left and cannot be read is no failure",
        '            return [*failures, Failure("output", unreadable)]\n',
        "            return failures\n",
        "damaged",
    ),
    _summary(
        "any place may stand for the worst",
        "        worst = min(values, key=_margin)\n",
        "        worst = max(values, key=_margin)\n",
        "worst",
    ),
    Mutant(
        "a place may have several results",
        _COMPARE,
        """has several results of {', '.join(repeated)}" if repeated else ""\n""",
        """has several results of {', '.join(repeated)}" if False else ""\n""",
        "tests/unit/verdict/test_rules.py -k cannot_be_of_this_case",
    ),
    Mutant(
        "a node has two partners in a round",
        "src/railgauge/checks/schedule.py",
        "            self._busy[end] = self._busy.get(end, 0) | 1 << first\n",
        "            self._busy[one] = 0\n",
        "tests/unit/checks/test_schedule.py -k two_partners",
    ),
    Mutant(
        "pairs within leaves and across are measured at once",
        "src/railgauge/checks/schedule.py",
        "(leaves and within(place, leaves), *_how(place, at_once))",
        "_how(place, at_once)",
        "tests/unit/checks/test_pairing.py -k mixes",
    ),
    Mutant(
        "some nodes only ever send, or only receive",
        "src/railgauge/checks/pairing.py",
        "return in_both_roles(_met(nodes, leaves, sweep)) if",
        "return _met(nodes, leaves, sweep) if",
        "tests/unit/checks/test_pairing.py -k server_once_and_client_once",
    ),
    Mutant(
        "a quiet reference judges a loaded pair",
        "src/railgauge/model/references.py",
        '        "load": measurement.load,\n    }\n',
        '        "load": "quiet",\n    }\n',
        "tests/unit/model/test_references.py -k judges_nothing",
    ),
    Mutant(
        "a measurement does not say what else was measured",
        "src/railgauge/checks/pair.py",
        "within=self.within, load=self.load)\n\n",
        "within=self.within)\n\n",
        "tests/unit/checks/test_sweep.py -k loaded",
    ),
    Mutant(
        "a loaded pair is failed for what a quiet one carries",
        "src/railgauge/model/references.py",
        '            and key[_PARTS.index("load")] in (load, None)\n',
        "",
        "tests/unit/model/test_references.py -k least_bound",
    ),
    Mutant(
        "a resumed session has other leaves",
        "src/railgauge/checks/topology.py",
        "    if kept is None:\n",
        "    if True:\n",
        "tests/unit/checks/test_topology.py -k resumed",
    ),
    _call("refuse_impossible_schedule", "tests/unit/acceptance/test_plan.py -k bare"),
    Mutant(
        "a case that no job has time for begins",
        _GUARD,
        "        if seconds > limits_s.get(name, math.inf):\n",
        "        if False:\n",
        "tests/unit/checks/test_topology.py -k longer_than_a_job",
    ),
    Mutant(
        "a preflight that waits for a failed one is measured again",
        _PLAN,
        "and (*key(case), place.name) not in bad\n",
        "and (*key(case), place.name) not in failed\n",
        f"{_RESUME} -k preflight_that_failed",
    ),
    Mutant(
        "a resumed session measures all places again",
        _PLAN,
        "                check.only = frozenset(wanted[key(case)])\n",
        "                check.only = frozenset(p.name for p in places[key(case)])\n",
        f"{_RESUME} -k missing_place",
    ),
    Mutant(
        "two low partners of a few nodes confirm a node",
        "src/railgauge/locating/judge.py",
        "elif not counted and self._chance(one, sound) >= self._most_chance(one, sound, low):",
        "elif False:",
        "tests/unit/locating/test_protections.py -k may_be_chance",
    ),
    Mutant(
        "a partner that was never good convicts",
        "src/railgauge/locating/judge.py",
        "sound = [witness for witness in witnesses if witness.sound]",
        "sound = witnesses",
        "tests/unit/locating/test_protections.py -k never_good_with_another",
    ),
    Mutant(
        "who is low beyond its leaf alone is confirmed, and a bad link hidden",
        "src/railgauge/locating/judge.py",
        "elif not counted and (why := self._other_explanation(one)):",
        "elif False:",
        "tests/unit/locating/test_protections.py -k beyond_its_leaf",
    ),
    Mutant(
        "a pair is confirmed on three results",
        "src/railgauge/locating/judge.py",
        "if times < PAIR_TIMES or not all_low",
        "if not all_low",
        "tests/unit/locating/test_scenarios.py -k bad_three_times",
    ),
    Mutant(
        "what is missing is a failure",
        "src/railgauge/verdict/location/table.py",
        "if value is None and ok is not False:",
        "if value is None and ok is not False and False:",
        "tests/unit/verdict/location/test_table.py -k no_value_alone",
    ),
    Mutant(
        "a path that is low once of three times is a witness",
        "src/railgauge/locating/parts.py",
        "return max(map(_of_most, by_condition.values()))",
        "return max(map(max, by_condition.values()))",
        "tests/unit/locating/test_protections.py -k once_of_three_times",
    ),
    Mutant(
        "rounds in which all failed accuse",
        "src/railgauge/locating/evidence.py",
        "[n for n in numbers if self.results[n].value or self.results[n].round not in lost],",
        "numbers,",
        "tests/unit/locating/test_innocents.py -k all_runs_failed",
    ),
    Mutant(
        "what is slow within a leaf is known of nobody",
        "src/railgauge/locating/evidence.py",
        "elif elsewhere and crosses is False and value < elsewhere.below(LOW):",
        "elif False:",
        "tests/unit/locating/test_protections.py -k slower_within",
    ),
    Mutant(
        "a name of two lines is taken",
        "src/railgauge/verdict/location/table.py",
        "if column in (*needed, *known) and not cell.isprintable():",
        "if False:",
        "tests/unit/verdict/location/test_table.py -k refused",
    ),
    Mutant(
        "failures that all share accuse",
        "src/railgauge/locating/evidence.py",
        "if lows and lows == len(numbers):",
        "if False:",
        "tests/unit/locating/test_scenarios.py -k every_run_failed",
    ),
    Mutant(
        "a wrong reference accuses",
        "src/railgauge/locating/evidence.py",
        "if below < len(bound) < LEAST_PEERS or 2 * below <= len(bound):",
        "if True:",
        "tests/unit/locating/test_scenarios.py -k reference_that_most",
    ),
    Mutant(
        "a leaf is accused for slow moments",
        "src/railgauge/locating/evidence.py",
        " or len(both) < _LEAST_ROUNDS:",
        ":",
        "tests/unit/locating/test_scenarios.py -k two_slow_rounds",
    ),
    Mutant(
        "a check clears what another measures",
        "src/railgauge/verdict/location/campaign.py",
        'return case.check, case.partition, "" if _RAILS.fullmatch(case.kind) else case.kind',
        'return "", case.partition, "" ',
        "tests/unit/verdict/location/test_sources.py -k judged_apart",
    ),
    Mutant(
        "groups of a launch that were not told apart accuse",
        "src/railgauge/verdict/location/campaign.py",
        '    return next((f.message for f in case.failures if f.kind == NOT_TOLD_APART), "")\n',
        '    return ""\n',
        "tests/unit/verdict/location/test_sources.py -k not_told_apart",
    ),
    Mutant(
        "one node of a ring of three spoils the reference",
        "src/railgauge/locating/evidence.py",
        "if below < len(bound) < LEAST_PEERS or 2",
        "if 2",
        "tests/unit/verdict/test_rules.py -k one_bad_node_of_a_ring",
    ),
    Mutant(
        "a slow node that nothing held against it is accused",
        "src/railgauge/verdict/locate.py",
        "known += [suspect for suspect in located.suspects if _explains(suspect, bad_ends)]",
        "known += located.suspects",
        "tests/unit/verdict/test_rules.py -k not_named_beside",
    ),
    Mutant(
        "the gate holds who is not confirmed",
        "src/railgauge/verdict/node_status.py",
        "failing = set(verdict.failing_nodes)",
        "failing = {node for suspect in verdict.suspects for node in suspect.nodes}",
        f"{_GATE}/test_run.py -k not_confirmed",
    ),
    Mutant(
        "nodes that are not confirmed fail",
        "src/railgauge/locating/suspects.py",
        "return self.nodes if self.confirmed and self.accuses_nodes else ()",
        "return self.nodes if self.accuses_nodes else ()",
        "tests/unit/cli/test_locate.py -k only_confirmed_nodes",
    ),
    Mutant(
        "a value that nothing judges is good",
        "src/railgauge/locating/evidence.py",
        "if (compared or by_reference) and number not in self.unclear:",
        "if True:",
        "tests/unit/locating/test_scenarios.py -k nothing_judges",
    ),
    Mutant(
        "who is in a suspect pair is passing",
        "src/railgauge/locating/suspects.py",
        'or suspect.kind not in ("leaf", "uplink")\n',
        "or False\n",
        "tests/unit/locating/test_scenarios.py -k only_confirmed_nodes",
    ),
    Mutant(
        "nobody, where nothing tells",
        "src/railgauge/cli/locate.py",
        "sys.exit(EXIT_INPUT if located.unjudged or lacking else EXIT_NOBODY)",
        "sys.exit(EXIT_INPUT if lacking else EXIT_NOBODY)",
        "tests/unit/cli/test_locate.py -k not_judged",
    ),
    Mutant(
        "links that jump by chance are accused",
        "src/railgauge/verdict/link_changes.py",
        "flagged[known] &= ~_doubtful(of, after, result.p[known], bound, level)",
        "pass",
        "tests/unit/verdict/test_link_changes.py -k jump_by_chance",
    ),
    Mutant(
        "errors are never widened to the spread between places",
        "src/railgauge/verdict/link_changes.py",
        "        se = se * max(1.0, statistics.mad(scipy.special.ndtri(probability)))\n",
        "",
        "tests/unit/verdict/test_link_changes.py -k moved_somewhat",
    ),
    Mutant(
        "what one run shows has the tails of a normal distribution",
        "src/railgauge/verdict/link_changes.py",
        "df = min(float(choices[np.argmin(np.abs(ratios - ratio))]), values.size - 1.0)",
        "df = values.size - 1.0",
        "tests/unit/verdict/test_link_changes.py -k heavy",
    ),
    Mutant(
        "a place that is missing after an update is the same",
        "src/railgauge/verdict/before_after.py",
        'overall([*words, "unknown"] if self.missing.height or not words else words)',
        "overall(words)",
        "tests/unit/cli/test_compare.py -k is_gone",
    ),
    Mutant(
        "a place that is worse than in the earlier campaign is no finding",
        "src/railgauge/verdict/regressions.py",
        "        *_worse(comparison, campaign, earlier),\n",
        "",
        "tests/unit/verdict/test_regressions.py -k slower_link",
    ),
    Mutant(
        "an earlier campaign that is gone leaves an accept",
        "src/railgauge/verdict/regressions.py",
        'return [Finding("inconclusive", "not-compared", message, next_step=next_step)], []',
        "return [], []",
        "tests/unit/verdict/test_regressions.py -k gone",
    ),
    Mutant(
        "groups of one launch are many samples of a baseline",
        "src/railgauge/verdict/baselines.py",
        'pl.coalesce("launch", "place")',
        'pl.col("place")',
        "tests/unit/cli/test_promote.py -k launch",
    ),
    Mutant(
        "a comparison of stand-ins ends with 0",
        "src/railgauge/cli/compare.py",
        "EXIT_INCONCLUSIVE if simulated and code == EXIT_ACCEPT else code",
        "code",
        "tests/unit/cli/test_compare.py -k simulated",
    ),
    Mutant(
        "numbers that a check does not vouch for are compared",
        "src/railgauge/verdict/before_after.py",
        ' & pl.col("vouched")',
        "",
        "tests/unit/cli/test_compare.py -k vouch",
    ),
    Mutant(
        "a link below its reference is missing from a comparison",
        "src/railgauge/verdict/table.py",
        "all(failure.kind in OF_THE_NUMBER for failure in case.failures)",
        "not case.failures",
        "tests/unit/cli/test_compare.py -k speaks_of_the_number",
    ),
    Mutant(
        "what is lost on the way is carried",
        "src/railgauge/node/interface_rate.py",
        'place: min(known, key=operator.attrgetter("steady_gbits"))',
        'place: max(known, key=operator.attrgetter("steady_gbits"))',
        "tests/unit/node/test_rounds.py -k lost_on_the_way",
    ),
    Mutant(
        "a client that ends late makes its pair bad",
        "src/railgauge/node/interface_rate.py",
        "return Carried(mean, steady or None, ",
        "return Carried(mean, None, ",
        "tests/unit/node/test_interface_rate.py -k while_the_transfer_was_under_way",
    ),
    Mutant(
        "a stream that crawls is hidden by the others, which fill the link as long as they last",
        "src/railgauge/node/interface_rate.py",
        "_CRAWLING = 1.5",
        "_CRAWLING = 15",
        "tests/unit/node/test_interface_rate.py -k crawls",
    ),
    Mutant(
        "the idle end of a run is part of its steady rate",
        "src/railgauge/node/rates.py",
        "if step[0] > most * IDLE_SHARE]",
        "]",
        "tests/unit/node/test_counters.py -k close_a_connection_late",
    ),
    Mutant(
        "two leaves' uplinks make a spine",
        "src/railgauge/locating/uplinks.py",
        "if count >= _LEAST_LEAVES and 2 * count > len(leaves) else",
        "if count >= 2 else",
        "tests/unit/locating/test_scenarios.py -k spine_without",
    ),
    Mutant(
        "a result below its bound clears a node",
        "src/railgauge/locating/evidence.py",
        "self.good[number] = not is_below",
        "self.good[number] = 1",
        "tests/unit/locating/test_protections.py -k below_its_bound",
    ),
    Mutant(
        "a node that sends slowly, within what places may differ by, is not named",
        "src/railgauge/locating/evidence.py",
        "lifted < known.beyond_noise",
        "lifted < known.below(GOOD)",
        "tests/unit/verdict/test_retested.py -k sends_slowly",
    ),
    Mutant(
        "the verdict on a recorded baseline looks like an accept",
        "src/railgauge/cli/running.py",
        "    return EXIT_ACCEPT if taken else verdict.exit_code",
        "    return EXIT_ACCEPT if taken or _is_recorded(verdict) else verdict.exit_code",
        "tests/unit/cli/test_accept.py -k accepts_nothing",
    ),
    Mutant(
        "a baseline that lacks something is taken for recorded",
        "src/railgauge/cli/running.py",
        "        and not verdict.findings\n",
        "",
        "tests/unit/cli/test_accept.py -k lacks_something",
    ),
    Mutant(
        "a verdict that names nobody says nothing of it",
        "src/railgauge/verdict/locate.py",
        "            without_suspect.append(nobody)\n",
        "            pass\n",
        "tests/unit/verdict/test_unnamed.py -k nobody_named",
    ),
    Mutant(
        "a node is said to have been good where the reference may be wrong",
        "src/railgauge/verdict/locate.py",
        "(nobody is not None and nobody.mostly_bad)",
        "False",
        "tests/unit/verdict/test_unnamed.py -k nobody_named",
    ),
    Mutant(
        "a campaign that lacks nothing is to be resumed",
        "src/railgauge/verdict/not_measured.py",
        "helps = not ended or lacks is None or there",
        "helps = True",
        "tests/unit/verdict/test_not_measured.py -k lacks_something",
    ),
    Mutant(
        "a verdict that confirms nobody hides what its results do not exclude",
        "src/railgauge/verdict/locate.py",
        "if any(sure.isdisjoint(result.nodes) for result in bad):",
        "if False:",
        "tests/unit/verdict/test_locate.py -k results_do_not_exclude",
    ),
    Mutant(
        "a bad node that was away in two quiet rounds is load, and not held",
        "src/railgauge/locating/judge.py",
        "if missed is not None and missed < load.BY_CHANCE:",
        "if missed is not None:",
        "tests/unit/verdict/test_quiet.py -k broke_off",
    ),
    Mutant(
        "a bad node that was good in one quiet round is load, and not held",
        "src/railgauge/locating/load.py",
        "elif not evidence.good[number]:\n                return None\n",
        "elif False:\n                return None\n",
        "tests/unit/verdict/test_quiet.py -k bad_at_last",
    ),
    Mutant(
        "a sum by a clock that is none of its streams' makes a link fast",
        "src/railgauge/tools/iperf2/judge.py",
        "if whole < min(clock.seconds for clock in ours.values()):",
        "if False:",
        "tests/unit/tools/test_iperf2.py -k shorter_than_any_stream",
    ),
    Mutant(
        "an echo that overtakes the others makes a long way short",
        "src/railgauge/node/network_path.py",
        "by_length[len(by_length) > 2]",
        "by_length[0]",
        "tests/unit/node/test_network_path.py -k an_echo_that_overtakes",
    ),
    Mutant(
        "a round that is added has the pairs of suspects alone",
        "src/railgauge/locating/plan.py",
        "    chosen.fill()\n",
        "",
        "tests/unit/node/test_rounds.py -k as_busy_as_they_were",
    ),
    Mutant(
        "all of a large partition are busy beside one pair",
        "src/railgauge/locating/plan.py",
        "needed + most_others]",
        "None]",
        "tests/unit/locating/test_protections.py -k large_partition",
    ),
    Mutant(
        "a quiet result that differs by what equal places do makes load a fault",
        "src/railgauge/locating/evidence.py",
        "tolerated = max(LEAST_LOSS, GOOD * self._spread)",
        "tolerated = 0.0",
        "tests/unit/verdict/test_quiet.py -k good_each_time",
    ),
    Mutant(
        "a session's rounds to locate are not its own",
        "src/railgauge/checks/sweep.py",
        "schedule.of(self.partition_data).locate_rounds",
        "self.partition_data.extras.sweep.locate_rounds",
        "tests/unit/checks/test_sweep.py -k how_often_the_conductor",
    ),
    Mutant(
        "a few quiet rounds make a certain fault a doubtful one",
        "src/railgauge/locating/plan.py",
        "if needed > 0 and needed + (not others) <= left:",
        "if needed > 0:",
        "tests/unit/node/test_rounds.py -k few_rounds_are_left",
    ),
    Mutant(
        "a node that was bad alone is measured so until it is good",
        "src/railgauge/locating/plan.py",
        " or not all(evidence.good[n] for n in (*done, *others)):",
        ":",
        "tests/unit/node/test_rounds.py -k slow_alone_is_measured",
    ),
    Mutant(
        "nobody looks what others reach while all else is quiet",
        "src/railgauge/locating/plan.py",
        "return clean[0] if done and not others else",
        "return clean[0] if False else",
        "tests/unit/node/test_rounds.py -k measured_alone_where_rounds",
    ),
    Mutant(
        "a node that was good while all else was quiet is cleared",
        "src/railgauge/node/rounds.py",
        "                quiet=index in self._quiet,\n",
        "",
        "tests/unit/node/test_rounds.py -k good_alone_clears",
    ),
    Mutant(
        "a few quiet results are compared with loaded ones",
        "src/railgauge/verdict/location/campaign.py",
        "o._replace(quiet=case.quiet)",
        "o._replace(quiet=False)",
        "tests/unit/verdict/test_quiet.py -k single_one",
    ),
    Mutant(
        "what no reference judges while all else is quiet is good: a lossy link is load",
        "src/railgauge/verdict/location/campaign.py",
        "if unjudged and not case.failed:",
        "if False:",
        "tests/unit/verdict/test_quiet.py -k no_reference_judges",
    ),
    Mutant(
        "a run that failed while all else was quiet is missing, and a bad node load",
        "src/railgauge/verdict/location/campaign.py",
        "if unjudged and not case.failed:",
        "if unjudged:",
        "tests/unit/verdict/test_quiet.py -k needs_no_number",
    ),
    Mutant(
        "a quiet retest clears the check that failed beside others",
        "src/railgauge/verdict/node_status.py",
        "if case.like and not case.quiet:",
        "if case.like:",
        "tests/unit/verdict/test_quiet.py -k clear_no_check",
    ),
    Mutant(
        "a quiet retest replaces the loaded number in a comparison",
        "src/railgauge/verdict/table.py",
        "or case.damage or case.quiet:",
        "or case.damage:",
        "tests/unit/verdict/test_quiet.py -k no_other_campaign",
    ),
    Mutant(
        "a quiet retest without a reference keeps healthy nodes out",
        "src/railgauge/verdict/rules.py",
        "and not named and not case.quiet:",
        "and not named:",
        "tests/unit/verdict/test_quiet.py -k beside_the_fault",
    ),
    Mutant(
        "a quiet retest fails for want of a reference",
        "src/railgauge/checks/base.py",
        'self.gate == "acceptance" and not self.is_quiet(self.here)',
        'self.gate == "acceptance"',
        "tests/unit/checks/test_sweep.py -k alone_to_tell_load",
    ),
    Mutant(
        "what tools do besides makes a pair slow, and doubles a sweep's time",
        "src/railgauge/node/reverse.py",
        "if steady and moving_s >= _MOSTLY",
        "if False and moving_s >= _MOSTLY",
        "tests/unit/node/test_reverse.py -k while_it_sent",
    ),
    Mutant(
        "headers count as payload",
        "src/railgauge/node/reverse.py",
        "    return least_gbits * (mtu + _ETHERNET_BYTES)",
        "    return least_gbits * (mtu - _INSIDE_BYTES)",
        "tests/unit/node/test_reverse.py -k headers",
    ),
    Mutant(
        "a pair below what is asked is a good one",
        "src/railgauge/node/rounds.py",
        'least = max(bound, order.get("least_gbits", 0.0))',
        "least = bound",
        "tests/unit/node/test_rounds.py -k below_what_is_asked",
    ),
    Mutant(
        "a tool that ended late was slow",
        "src/railgauge/node/rounds.py",
        "interface_rate.rates(\n            {n: of for n in good if",
        "dict(\n            {n: of['client'].mean_gbits for n in good if",
        "tests/unit/node/test_rounds.py -k ends_late",
    ),
    Mutant(
        "tasks of a job speak for nodes of other tasks",
        "src/railgauge/node/parts.py",
        "if tasks[task] == 1]",
        "if tasks[task] >= 1]",
        "tests/unit/node/test_parts.py",
    ),
    Mutant(
        "a text that did not come whole is taken",
        "src/railgauge/node/parts.py",
        "set(known[0]) == set(range(1, counts[node] + 1))",
        "known[0]",
        "tests/unit/node/test_parts.py",
    ),
    Mutant(
        "a busy machine's echoes make a way too long",
        "src/railgauge/node/network_path.py",
        "_ECHOES, _PINGS_TRIED = 5, 8",
        "_ECHOES, _PINGS_TRIED = 5, 1",
        "tests/unit/node/test_network_path.py -k 'again or shortest'",
    ),
    Mutant(
        "a server that comes late to some streams makes a link slow",
        "src/railgauge/tools/iperf2/judge.py",
        "began - clock.began_s + own.seconds - clock.seconds + own.began_s - first",
        "own.seconds - clock.seconds",
        "tests/unit/tools/test_iperf2.py -k late_to_some_streams",
    ),
    Mutant(
        "a sum by the clock of a late stream makes a link fast",
        "src/railgauge/tools/iperf2/judge.py",
        "row.duration_s * _SAME < wall < whole * _SAME:",
        "row.duration_s * _SAME < wall < whole:",
        "tests/unit/tools/test_iperf2.py -k late_to_some_streams",
    ),
    Mutant(
        "a client that closes late makes a link slow",
        "src/railgauge/tools/iperf2/judge.py",
        "if server is not client and len(theirs) > 1",
        "if False",
        "tests/unit/tools/test_iperf2.py -k comes_late",
    ),
    Mutant(
        "a server that accepts all streams late makes a rate too high",
        "src/railgauge/tools/iperf2/judge.py",
        "wall + max(before, 0.0)",
        "wall",
        "tests/unit/tools/test_iperf2.py -k comes_late",
    ),
    Mutant(
        "the launches of several jobs are one place",
        "src/railgauge/verdict/table.py",
        " places, {hostlist.fold(sorted(known))}",
        " places",
        "tests/unit/cli/test_compare.py -k several_jobs",
    ),
    Mutant(
        "an extreme that depends on chance becomes a baseline",
        "src/railgauge/verdict/baselines.py",
        "[*counted, *BY_CHANCE]",
        "counted",
        "tests/unit/cli/test_promote.py -k depends_on_chance",
    ),
    Mutant(
        "an extreme that depends on chance needs a reference",
        "src/railgauge/checks/base.py",
        "return measurement.metric not in BY_CHANCE",
        "return True",
        "tests/unit/checks/test_sweep.py -k chance",
    ),
    Mutant(
        "a baseline rejects runs that it was made of",
        "src/railgauge/verdict/baselines.py",
        'self.runs.within(max(self.usual, abs(self.worst["log"] - self.value)), most)',
        "self.usual",
        "tests/unit/cli/test_promote.py -k tail",
    ),
    Mutant(
        "bounds reject more than one of 1,000 healthy campaigns",
        "src/railgauge/verdict/healthy.py",
        "        if self.rejected(bound) <= most:\n",
        "        if True:\n",
        "tests/unit/verdict/test_healthy.py",
    ),
    Mutant(
        "one bad run of a pair goes into a baseline",
        "src/railgauge/verdict/baselines.py",
        'descending=known.better != "more"',
        'descending=known.better == "more"',
        "tests/unit/cli/test_promote.py -k stands_out_in_one_run",
    ),
    Mutant(
        "a result below its reference becomes a baseline",
        "src/railgauge/verdict/baselines.py",
        '("passed", False, "results that failed")',
        '("vouched", False, "results that failed")',
        "tests/unit/cli/test_promote.py -k looks_wrong",
    ),
    Mutant(
        "a campaign that broke a check becomes a baseline",
        "src/railgauge/verdict/baselines.py",
        "    if reasons:\n        text =",
        "    if False:\n        text =",
        "tests/unit/cli/test_promote.py -k looks_wrong",
    ),
    Mutant(
        "texts come into the page as they are",
        "src/railgauge/report/page/__init__.py",
        "        autoescape=True,\n",
        "        autoescape=False,\n",
        f"{_PAGE}::test_no_text_of_a_campaign_becomes_markup",
    ),
    Mutant(
        "the page lets requests leave",
        "src/railgauge/report/page/__init__.py",
        "default-src 'none'; script-src",
        "default-src *; script-src",
        f"{_PAGE}::test_only_our_own_script_and_style_may_run_and_nothing_may_be_asked_for",
    ),
    Mutant(
        "what turns a text's direction is shown as it is",
        "src/railgauge/report/page/__init__.py",
        "        finalize=_shown,\n",
        "",
        f"{_PAGE}::test_every_text_of_a_campaign_is_shown_as_it_is",
    ),
    Mutant(
        "a rehearsal's page says a verdict alone",
        "src/railgauge/report/page/__init__.py",
        '        mark="SIMULATED " if verdict.simulated else "",\n',
        '        mark="",\n',
        f"{_PAGE}::test_a_rehearsal_says_simulated_wherever_it_says_a_verdict",
    ),
    Mutant(
        "a page that cannot be written ends the campaign without its verdict",
        "src/railgauge/acceptance/accept.py",
        "write()\n        except Exception",
        "write()\n        except OSError",
        f"{_PAGE}::test_a_page_that_cannot_be_written_changes_no_verdict",
    ),
    Mutant(
        "JUnit is green for an inconclusive verdict",
        "src/railgauge/report/feeds/junit.py",
        '    bad: Bad | None = "error"\n',
        "    bad: Bad | None = None\n",
        f"{_FEEDS}::test_junit_is_never_all_green_but_for_an_accept",
    ),
    Mutant(
        "a rehearsal's numbers come into the monitoring",
        "src/railgauge/report/feeds/prometheus.py",
        "    if verdict.simulated:\n",
        "    if False:\n",
        f"{_FEEDS}::test_prometheus_takes_no_rehearsal",
    ),
    Mutant(
        "a node counts as accepted by a campaign that rejected it",
        "src/railgauge/gate/coverage.py",
        '        accepted = standing.outcome in ("accepted", "provisional")\n',
        "        accepted = True\n",
        f"{_FEEDS}::test_the_age_of_a_node_is_that_of_its_newest_acceptance",
    ),
    Mutant(
        "findings that let accept provisionally only do not reach the monitoring",
        "src/railgauge/report/feeds/prometheus.py",
        "    for weight in WEIGHTS:\n",
        "    for weight in WEIGHTS[:2]:\n",
        f"{_FEEDS}::test_prometheus_counts_findings_of_each_weight",
    ),
    Mutant(
        "before and after is against a campaign that came later",
        "src/railgauge/campaign/folder.py",
        "        later = before and campaign.id >= before\n",
        "        later = False\n",
        f"{_PAGE}::test_what_was_accepted_later_is_not_before",
    ),
    Mutant(
        "a rehearsal is compared with a cluster",
        "src/railgauge/report/page/before.py",
        "    if verdict.simulated:\n",
        "    if False:\n",
        f"{_PAGE}::test_a_rehearsal_is_not_compared_with_what_was_measured",
    ),
    Mutant(
        "who is in all results of a condition passes by them",
        "src/railgauge/locating/evidence.py",
        "ends = result.ends if by_reference else [e for e in result.ends if e not in in_all]",
        "ends = result.ends",
        "tests/unit/locating/test_innocents.py -k is_not_judged_by_them",
    ),
    Mutant(
        "an uplink is confirmed though its nodes may be slow",
        "src/railgauge/locating/fabric.py",
        'elif part.kind in ("uplinks", "leaf") and not _beyond_nodes(paths, found[0]):',
        "elif False:",
        "tests/unit/locating/test_innocents.py -k slow_by_heat",
    ),
    Mutant(
        "Slurm's commands are turned to another cluster",
        "src/railgauge/slurm/client.py",
        "    if (problem := elsewhere()) is not None:",
        "    if (problem := elsewhere()) is not None and False:",
        "tests/unit/slurm/test_nodes.py -k another_cluster",
    ),
    Mutant(
        "jobs that Slurm does not show are not there",
        "src/railgauge/slurm/waiting.py",
        "return {**obstacles, **more, **others}",
        "return {**obstacles, **more}",
        "tests/unit/slurm/test_waiting.py -k does_not_show",
    ),
    Mutant(
        "jobs that share nodes by force are measured alone",
        "src/railgauge/slurm/waiting.py",
        "    if _FORCED.fullmatch(shares) and not reserved:",
        "    if False:",
        "tests/unit/slurm/test_waiting.py -k forces_jobs",
    ),
    Mutant(
        "a partition's leaves are those of the cluster's default topology",
        "src/railgauge/slurm/topology.py",
        "        chosen = [name for name in names if name]",
        "        chosen: list[str] = []",
        "tests/unit/slurm/test_topology.py -k own_topology",
    ),
    Mutant(
        "a node is accepted on which a maintenance has begun",
        "src/railgauge/gate/testing.py",
        '                run.decided[node] = f"{failed}; {why}" if failed else why\n',
        "                pass\n",
        "tests/unit/gate/test_run.py -k maintenance_began",
    ),
    Mutant(
        "an update begins in a reservation that began while it waited",
        "src/railgauge/gate/roll.py",
        "    # A reservation may have begun meanwhile.\n"
        "    _require_free(list(states.values()), roll.despite_reservations)\n",
        "",
        "tests/unit/gate/test_update.py -k began_while_it_waited",
    ),
    Mutant(
        "a node that is to be reserved soon is lent before others",
        "src/railgauge/gate/partners.py",
        "key=lambda name: (bool(states[name].soon_reserved), name not in before)",
        "key=lambda name: name not in before",
        "tests/unit/gate/test_run.py -k reserved_soon",
    ),
    Mutant(
        "a reader that goes early makes a reject of every answer",
        "src/railgauge/cli/commands.py",
        "    sys.stdout, sys.stderr = _written(sys.stdout), _written(sys.stderr, is_log=True)\n",
        "",
        "tests/unit/cli/test_output.py -k goes_early",
    ),
    Mutant(
        "a campaign counts twice as two runs",
        "src/railgauge/cli/compare.py",
        "    if twice := sorted({each for each in ids if ids.count(each) > 1}):",
        "    if twice := []:",
        "tests/unit/cli/test_compare.py -k counts_once",
    ),
    Mutant(
        "a device that a page is written to is replaced",
        "src/railgauge/atomic.py",
        "    if own_output or (path.exists() and not path.is_file()):",
        "    if own_output:",
        "tests/unit/test_atomic.py -k no_regular_file",
    ),
    Mutant(
        "a results area that is not mounted has no campaigns",
        "src/railgauge/paths.py",
        "        if path.is_dir():\n            return\n        found",
        "        return\n        found",
        "tests/unit/campaign/test_folder.py -k not_mounted",
    ),
    Mutant(
        "a node that is good with most partners is confirmed",
        "src/railgauge/locating/judge.py",
        "elif 2 * len(low) <= len(sound) and len(events) < 2:",
        "elif False:",
        "tests/unit/locating/test_protections.py -k good_with_most",
    ),
    Mutant(
        "a node that was low in one round alone is confirmed",
        "src/railgauge/locating/judge.py",
        "elif not self._in_two_rounds(one):",
        "elif False:",
        "tests/unit/locating/test_protections.py -k one_round_alone",
    ),
    Mutant(
        "of four nodes one is confirmed by two others",
        "src/railgauge/locating/judge.py",
        "return _ALL_OF_FEW if len(low) == nodes - 1 else _MOST_OF_FEW",
        "return _ALL_OF_FEW",
        "tests/unit/locating/test_protections.py -k all_three_others",
    ),
    Mutant(
        "a leaf is accused beside a node of it that is good",
        "src/railgauge/locating/fabric.py",
        "    return not any(\n        not low and (1 - one.share)",
        "    return True or not any(\n        not low and (1 - one.share)",
        "tests/unit/locating/test_protections.py -k good_with_all_others",
    ),
    Mutant(
        "a rail that is low everywhere accuses its nodes",
        "src/railgauge/locating/fabric.py",
        "return len(nodes) >= _PLANE and one.share >= _OF_PLANE",
        "return False",
        f"{_INNOCENTS} -k low_everywhere",
    ),
    Mutant(
        "a healthy node between two bad ones explains them",
        "src/railgauge/locating/explain.py",
        "return sum(degrees[b if a.node == node else a] == 1 for a, b in one.lows if node)",
        "return 0",
        "tests/unit/locating/test_scenarios.py -k healthy_node_between",
    ),
    Mutant(
        "what healthy pairs do is known beforehand, and not by the campaign's other pairs",
        "src/railgauge/locating/chance.py",
        "logs = [_log_beta(a + low,",
        "low, count = 0, 100\n    logs = [_log_beta(a + low,",
        "tests/unit/locating/test_protections.py -k low_as_often",
    ),
    Mutant(
        "a bad node's own quiet results are its peers: it is load, and not held",
        "src/railgauge/locating/evidence.py",
        "elif value > good_above and value >= least_good.get(result.ends, 0.0):",
        "elif value > good_above:",
        "tests/unit/verdict/test_quiet.py -k bad_at_last",
    ),
    Mutant(
        "a node is load that is worse than others while all else is quiet",
        "src/railgauge/locating/peers.py",
        "max(loaded, statistics.median(others) if others else 0.0)",
        "loaded",
        "tests/unit/locating/test_protections.py -k worse_than_others",
    ),
]


class _Copy:
    """A copy of the checkout, in which one mutant at a time is tried. All share which tests pass
    without any.
    """

    def __init__(self, folder: Path, passing: set[str]) -> None:
        self.folder, self._passing = folder, passing
        for name in _listed():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(paths.HOME / name, target)
        (folder / ".venv").symlink_to(paths.HOME / ".venv")

    def kills(self, mutant: Mutant) -> bool:
        """Whether the mutant's test, which passes without it, fails with it."""
        file = self.folder / mutant.file
        text = file.read_text()
        if text.count(mutant.old) != 1:
            sys.exit(f"{mutant.what}: {mutant.file} holds {mutant.old!r} not exactly once")
        if mutant.test not in self._passing:
            if not self._passes(mutant.test):
                sys.exit(f"{mutant.test} fails without any mutant")
            self._passing.add(mutant.test)
        file.write_text(text.replace(mutant.old, mutant.new))
        try:
            return not self._passes(mutant.test)
        finally:
            file.write_text(text)

    def _passes(self, test: str) -> bool:
        """Whether `test` passes here; any outcome but pass or failure is an error."""
        answer = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
                *shlex.split(test),
            ],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": str(self.folder / "src"),
                "RAILGAUGE_LAB_DIR": str(paths.lab_folder()),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode not in (0, 1):
            printed = answer.stdout[-2000:] + answer.stderr[-2000:]
            sys.exit(f"pytest {test}: exit code {answer.returncode}\n{printed}")
        return answer.returncode == 0


def _listed() -> list[str]:
    answer = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=paths.HOME,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in answer.stdout.split("\0") if name]


def _key(mutant: Mutant) -> str:
    """What a mutant is of: its text, the files that it names, and its test."""
    test = shlex.split(mutant.test)[0].partition("::")[0]
    texts = [*mutant, *((paths.HOME / name).read_text() for name in (mutant.file, test))]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def killed_before() -> set[str]:
    text = KILLED.read_text() if KILLED.exists() else ""
    return {json.loads(line)["key"] for line in text.splitlines()}


_writing = threading.Lock()


def _keep(mutant: Mutant, key: str) -> None:
    line = json.dumps({"key": key, "what": mutant.what})
    with _writing:
        KILLED.parent.mkdir(parents=True, exist_ok=True)
        with KILLED.open("a") as file:
            file.write(f"{line}\n")


def _needs_lab(mutant: Mutant) -> bool:
    return "tests/lab" in mutant.test


def _chosen(nodes: str | None, no_lab: bool, words: list[str]) -> list[Mutant]:
    return [
        mutant
        for mutant in MUTANTS
        if not (nodes and _NEEDS_VMS in mutant.test)
        and not (no_lab and _needs_lab(mutant))
        and (not words or any(w in field for w in words for field in mutant))
    ]


def _survivors(mutants: list[Mutant], jobs: int) -> int:
    """Tries them in `jobs` copies at once; prints a line for each."""
    copies: queue.SimpleQueue[_Copy] = queue.SimpleQueue()
    passing: set[str] = set()
    for number in range(min(jobs, len(mutants))):
        copies.put(_Copy(TREE / str(number), passing))

    def tried(mutant: Mutant) -> bool:
        copy = copies.get()
        began = time.monotonic()
        key = _key(mutant)
        try:
            killed = copy.kills(mutant)
        finally:
            copies.put(copy)
        if killed:
            _keep(mutant, key)
        took = time.monotonic() - began
        print(f"{'killed' if killed else 'SURVIVED':<9} {took:5.1f} s  {mutant.what}", flush=True)
        return killed

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(tried, mutant) for mutant in mutants]
        try:
            return sum(not future.result() for future in futures)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def main() -> int:
    parser = argparse.ArgumentParser(description="See that every protection has a test.")
    parser.add_argument("--nodes", help="the lab's nodes to use (default: all)")
    parser.add_argument("--no-lab", action="store_true", help="leave out what needs the lab")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="at once, of those without a lab"
    )
    parser.add_argument("--again", action="store_true", help="also those that were killed before")
    parser.add_argument("words", nargs="*", metavar="WORD")
    args = parser.parse_args()
    if args.jobs < 1:
        parser.error(f"--jobs is {args.jobs}, expected 1 or more")
    chosen = _chosen(args.nodes, args.no_lab, args.words)
    if not chosen:
        parser.error(f"no mutant has {' or '.join(args.words)}")
    before = set() if args.again else killed_before()
    left = [mutant for mutant in chosen if _key(mutant) not in before]
    shutil.rmtree(TREE, ignore_errors=True)
    in_lab = [mutant for mutant in left if _needs_lab(mutant)]
    try:
        survived = _survivors([m for m in left if not _needs_lab(m)], args.jobs)
        if in_lab:
            lab = open_lab()
            was_up = lab.init is not None
            try:
                lab.up(nodes=hostlist.expand(args.nodes) if args.nodes else None)
                survived += _survivors(in_lab, 1)
            finally:
                if not was_up:
                    lab.down()
    finally:
        shutil.rmtree(TREE, ignore_errors=True)
    earlier = f", {len(chosen) - len(left)} of them earlier" if len(left) < len(chosen) else ""
    print(f"{len(chosen) - survived} of {len(chosen)} mutants killed{earlier}")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
