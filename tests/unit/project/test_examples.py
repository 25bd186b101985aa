"""The examples in the documents: each is run by a test, or says when it was run.

A block of commands (```console) is run here and compared, where it needs no cluster; or tests run
its commands, and it shows no output; or it has a date. So has every output that stands alone
(```text).
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from railgauge import paths

DOCUMENTS = [paths.HOME / "README.md", *sorted((paths.HOME / "docs").glob("*.md"))]

#: Commands that need no cluster: a block of them is run here, and what it shows is compared.
RUN_HERE = (
    *("railgauge limit", "railgauge locate", "railgauge parse", "railgauge published"),
    "railgauge read",
)

#: The beginning of a command -> the test that runs it. The longest one that fits counts.
RUN_BY = {
    "source activate.sh": "unit/cli/test_commands.py::test_activation_says_it_and_goes_on",
    "railgauge accept": "lab/test_accept.py::test_a_campaign_keeps_what_it_saw",
    "railgauge coverage": (
        "unit/gate/test_coverage.py::test_each_node_says_when_it_was_accepted_and_what_became_of_it"
    ),
    "railgauge compare": "unit/cli/test_compare.py::test_a_slower_link_is_named_and_no_other",
    "railgauge compare before.log after.log": (
        "unit/cli/test_compare_logs.py::test_two_logs_of_which_one_is_far_slower"
    ),
    "railgauge trend": "unit/cli/test_trend.py::test_a_node_is_asked_about_alone",
    "railgauge power": (
        "unit/verdict/comparison/test_power.py::test_it_is_said_in_a_line_a_partition"
    ),
    "railgauge promote": (
        "unit/cli/test_promote.py::test_the_median_becomes_the_baseline_with_where_it_is_from"
    ),
    "railgauge references": (
        "unit/cli/test_promote.py::test_a_baseline_is_listed_with_its_age_and_source"
    ),
    "railgauge report": (
        "unit/report/test_page.py::test_report_writes_the_page_where_it_is_asked_to"
    ),
    "railgauge report --history": (
        "unit/report/test_history.py::test_the_command_writes_it_into_the_results_root"
    ),
    "railgauge explain": "unit/cli/test_explain.py::test_a_log_is_held_against_known_symptoms",
    "railgauge export": "unit/report/feeds/test_feeds.py::test_export_writes_each_kind",
    "railgauge fabric": "unit/cli/test_fabric.py::test_a_healthy_fabric_is_as_it_was_written",
    "railgauge fabric compare": (
        "unit/cli/test_fabric.py::test_what_changed_between_two_readings_is_found"
    ),
    "railgauge fabric leaves": (
        "unit/cli/test_fabric.py::test_routes_leaves_and_topology_are_as_their_schemas"
    ),
    "railgauge fabric routes": (
        "unit/cli/test_fabric.py::test_routes_leaves_and_topology_are_as_their_schemas"
    ),
    "railgauge fabric show": "unit/cli/test_fabric.py::test_show_has_switches_by_level",
    "railgauge fabric slurm-topology": ("unit/cli/test_fabric.py::test_a_topology_conf_is_checked"),
    "railgauge gate adopt": "lab/test_gate.py::test_no_untested_node_is_ever_open",
    "railgauge gate hold": "unit/gate/test_rights.py::test_without_the_rights_nothing_is_changed",
    "railgauge gate run": "lab/test_gate.py::test_no_untested_node_is_ever_open",
    "railgauge gate status": "unit/gate/test_status.py::test_what_a_node_is_held_for_is_said",
    "railgauge gate readmit": (
        "unit/gate/test_readmit.py::test_a_good_node_returns_and_says_what_changed"
    ),
    "railgauge gate trust": "unit/gate/test_trust.py::test_the_command_reports_and_proposes",
    "railgauge gate release": "lab/test_gate.py::test_no_untested_node_is_ever_open",
    "railgauge patrol": "unit/patrol/test_run.py::test_a_plan_changes_nothing",
    "railgauge lab down": "lab/test_lab.py::test_down_leaves_nothing",
    "railgauge lab exec": ("lab/test_vm.py::test_a_command_on_a_vm_gives_its_output_and_exit_code"),
    "railgauge inventory diff": "unit/cli/test_inventory.py::test_another_field_ends_with_1",
    "railgauge inventory show": (
        "unit/cli/test_inventory.py::test_this_host_is_shown_with_its_fingerprint"
    ),
    "railgauge lab logs": "unit/lab/test_commands.py::test_a_log_is_shown_by_its_name",
    "railgauge lab shell": "lab/test_lab.py::test_commands_say_that_the_lab_is_not_up",
    "railgauge lab fault": "lab/test_lab.py::test_a_drained_node_is_reported_and_not_waited_for",
    "railgauge lab status": "lab/test_lab.py::test_status_shows_machines_services_and_faults",
    "railgauge lab routes": "lab/test_leaves.py::test_the_routes_of_the_leaves_kernels_are_printed",
    "railgauge lab uplinks": "lab/test_leaves.py::test_how_evenly_uplinks_are_used_is_shown",
    "railgauge lab up": "lab/test_lab.py::test_up_says_that_every_node_is_idle",
    "railgauge rehearse": (
        "lab/test_rehearsal.py::test_gb200_gives_the_published_numbers_and_accepts_provisionally"
    ),
    "railgauge rehearse --help": "unit/project/test_examples.py::test_help_is_printed",
    "railgauge show": ("unit/cli/test_show.py::test_a_place_is_its_name_its_nodes_or_one_of_them"),
    "railgauge system check": (
        "lab/test_site.py::test_each_thing_that_is_not_as_needed_is_a_line_with_what_to_type"
    ),
    "railgauge system new": "lab/test_vm.py::test_rails_are_found_on_the_nodes",
}

_FENCED = re.compile(
    r"^(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^ *```$", re.DOTALL | re.MULTILINE
)
#: A day, or the moment in the name of a campaign or reservation.
_DATE = re.compile(r"\b20[0-9]{2}-[01][0-9]-[0-3][0-9]\b|\b20[0-9]{6}T[0-9]{6}Z")
_PROMPT = re.compile(r"[$#] ")


class Block(NamedTuple):
    """A fenced block of a document, and the line above it."""

    document: str
    line: int
    kind: str
    text: str
    above: str

    @property
    def dated(self) -> bool:
        return bool(_DATE.search(self.above + self.text))

    @property
    def commands(self) -> list[str]:
        """What is typed, without the remark behind it."""
        lines = [line for line in self.text.splitlines() if _PROMPT.match(line)]
        return [re.split(r"\s{2,}#", _PROMPT.sub("", line, count=1))[0].strip() for line in lines]

    @property
    def shown(self) -> list[str]:
        return [line for line in self.text.splitlines() if not _PROMPT.match(line)]


def blocks(*kinds: str) -> list[Block]:
    fenced_blocks = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for fenced in _FENCED.finditer(text):
            if fenced["kind"] in kinds:
                before = text[: fenced.start()]
                above = before.rstrip().rpartition("\n")[2]
                line = before.count("\n") + 1
                fenced_blocks.append(
                    Block(document.name, line, fenced["kind"], fenced["text"], above)
                )
    return fenced_blocks


def name(block: Block) -> str:
    return f"{block.document}:{block.line}"


def is_run_here(block: Block) -> bool:
    return bool(block.commands) and all(c.startswith(RUN_HERE) for c in block.commands)


def runner(command: str) -> str:
    """The test that runs a command, "" where none does."""
    words = shlex.split(command.removeprefix("bin/"))
    fitting = [known for known in RUN_BY if words[: len(known.split())] == known.split()]
    return RUN_BY[max(fitting, key=len)] if fitting else ""


@pytest.mark.parametrize("test", sorted(set(RUN_BY.values())))
def test_a_test_that_is_said_to_run_a_command_is_there(test: str) -> None:
    file, _, function = test.partition("::")
    tree = ast.parse((paths.HOME / "tests" / file).read_text(encoding="utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("block", blocks("console"), ids=name)
def test_commands_are_run_by_a_test_or_say_when_they_were(block: Block) -> None:
    if block.dated or is_run_here(block):
        return
    unknown = [command for command in block.commands if not runner(command)]
    assert unknown == [], "no test runs them: write the date of their run above the block"
    assert block.shown == [], "nothing compares what is shown: write the date of the run above it"


@pytest.mark.parametrize("block", blocks("text"), ids=name)
def test_an_output_says_when_it_was_printed(block: Block) -> None:
    assert block.dated, "write the date of its run above the block"


def test_the_documents_have_examples_that_are_run_here() -> None:
    assert {c for b in blocks("console") if is_run_here(b) for c in b.commands}


@pytest.mark.parametrize("block", list(filter(is_run_here, blocks("console"))), ids=name)
def test_what_is_shown_is_what_is_printed(block: Block, tmp_path: Path) -> None:
    """`...` stands for lines that are left out."""
    printed = ""
    for command in block.commands:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=paths.HOME,
            env={**os.environ, "PATH": f"{paths.HOME / 'bin'}{os.pathsep}{os.environ['PATH']}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        printed += done.stdout
    expected = "".join(
        r"(?s:.*?)" if line.strip() == "..." else re.escape(f"{line}\n") for line in block.shown
    )
    assert re.fullmatch(expected, printed), printed


def test_help_is_printed() -> None:
    commands = {c for b in blocks("console") for c in b.commands if c.endswith("--help")}
    for command in sorted(commands):
        done = subprocess.run(
            [paths.HOME / "bin" / "railgauge", *shlex.split(command)[1:]],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        assert done.stdout.startswith("Usage: railgauge "), command


def test_a_command_that_no_test_runs_is_noticed() -> None:
    assert runner("railgauge nosuch") == runner("make stack SYSTEM=lab") == ""
    assert runner("bin/railgauge accept --plan") == RUN_BY["railgauge accept"]
