"""A new tool is a module in tools/ and a check in reframe/: no other node names one."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from railgauge import paths, tools
from railgauge.cli.parse import parse
from railgauge.model.references import References
from railgauge.site import run
from railgauge.site.check import checks
from railgauge.stack import activation
from railgauge.systems import Partition
from railgauge.tools import table
from tests.command_line import invoke

PACKAGE = paths.SOURCE / "railgauge"

#: Where tools are known: what calls and reads them, what measures with them, what stands in.
ROOMS = ("tools", "checks", "lab")

#: Other modules that name tools: none of them needs a change for one more.
EXCEPTIONS = {
    "systems/schema.py": "the schema has what a site may set of WDT and of transfers",
    "systems/rdma.py": "the schema of rails has what a site may set of perftest",
    "systems/nccl.py": "the schema of NCCL's fabric has the operations of nccl-tests",
    "systems/rehearsal.py": "a rehearsal stages the tools that have stand-ins in lab/",
    "model/measurement.py": "defines metrics after the tool that gave them their meaning",
    "cli/limit.py": "tells which definition of bus bandwidth a limit is of",
    "report/transfers.py": "compares the transfer tools, in their order, on one page",
    "site/figures.py": "writes sentences with the figures that were measured of some tools",
    "stack/manifest.py": "a site chooses its iperf2 in a list of its own in spack.yaml",
    "node/runners/file_transfer.py": "is the part of the transfer tools that runs on nodes",
    "node/runners/wdt_url.py": "is the part of WDT that runs on nodes",
}


def words() -> set[str]:
    found = {program for brought in table.programs().values() for program in brought}
    found |= {package for package, brought in table.programs().items() if brought}
    return found | {word.replace("-", "_") for word in found}


def names_of_code(path: Path) -> Iterator[str]:
    """Names, and words of texts, without comments and docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documents = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documents:
            yield from re.findall(r"[\w-]+", node.value)
        for field in ("id", "attr", "name", "arg", "module"):
            if isinstance(name := getattr(node, field, None), str):
                yield from name.split(".")


def named_in(path: Path) -> set[str]:
    return words() & set(names_of_code(path))


def modules() -> list[str]:
    files = (path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
    return sorted(str(file) for file in files if file.parts[0] not in ROOMS)


@pytest.mark.parametrize("file", modules())
def test_no_other_module_names_a_tool(file: str) -> None:
    assert bool(named_in(PACKAGE / file)) == (file in EXCEPTIONS)


def test_every_exception_is_of_a_module() -> None:
    assert set(EXCEPTIONS) <= set(modules())


# ---- one more tool ----

MODULE = """\
import dataclasses
from railgauge.tools import Completeness, Reading
from railgauge.tools.common.by_hand import ByHand, integer

TOOL = "netperf"
PACKAGES = {TOOL: ("netperf",)}

@dataclasses.dataclass(frozen=True)
class Options:
    streams: int

def version_argv():
    return ["netperf", "-V"]

def read(texts, codes, options):
    if options and options.streams != 1:
        return Reading.invalid(f"1 stream, expected {options.streams}")
    return Reading(True, "1 stream", Completeness.UNKNOWN)

BY_HAND = ByHand(("its output",), "", {"streams": integer}, Options, read, ("streams=1",))
"""

CHECK = """\
from reframe.core.builtins import parameter
from railgauge.checks.framework.check import simple_test
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs.pairs import RingPairs
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.tools import netperf

@simple_test
class NetperfPair(SweepCheck):
    tool = netperf
    programs = Programs(netperf)
    metrics = ["bandwidth"]
    cases = RingPairs("fast")
    pair = parameter(cases, loggable=True)
"""


@pytest.fixture
def partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Partition]:
    """With a feature that only the check of a tool of one's own measures."""
    for folder, name, text in (("tools", "netperf.py", MODULE), ("reframe", "fast.py", CHECK)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    monkeypatch.setattr(tools, "__path__", [*tools.__path__, str(tmp_path / "tools")])
    monkeypatch.setattr(paths, "CHECKS", tmp_path / "reframe")
    table.programs.cache_clear()
    yield Partition.model_validate(
        {
            "name": "p",
            "features": ["fast"],
            "extras": {"nodes": "n[1-2]", "required": ["NetperfPair"]},
        }
    )
    table.programs.cache_clear()
    sys.modules.pop("railgauge.tools.netperf", None)


def test_a_module_and_a_check_are_all_that_a_new_tool_needs(partition: Partition) -> None:
    assert run.tools(partition)["netperf"] == ["netperf", "-V"]
    assert "in the pinned stack's netperf" in (activation.bringing("netperf", "nosuch") or "")
    known, broken = checks.known(paths.CHECKS)
    lines = [
        *broken,
        *checks.features(partition, known),
        *checks.required(partition, known, References("s", [], Path("s.yaml"))),
    ]
    assert [line.status for line in lines] == ["ok", "ok", "hint"]
    assert "no reference for NetperfPair (bandwidth)" in lines[-1].text


def test_its_module_is_all_that_a_command_to_read_it_needs(partition: Partition) -> None:
    def typed(*words: str) -> int:
        return invoke(parse, ["netperf", "/dev/null", *words]).exit_code

    assert (typed("--expect", "streams=1"), typed("--expect", "streams=2")) == (0, 1)
