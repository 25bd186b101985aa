"""Whoever reads JSON takes what is nested too deeply for damaged, as all else that is no JSON:
Python's reader raises RecursionError of it, which is no ValueError.
"""

from __future__ import annotations

import ast
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.checks.preflight import inventory_state
from railgauge.common.errors import ConfigurationError, PrerequisiteError
from railgauge.model import record, uplinks
from railgauge.node.orchestration import sweep_file
from railgauge.node.system import srun_output
from railgauge.node.transport import protocol, results_file
from railgauge.site import detect
from railgauge.stack import lock
from railgauge.tools import ParseError

FILES = [path for path in sorted(paths.SOURCE.rglob("*.py")) if "json" in path.read_text()]

READERS = ("loads", "_decode")


def _called(statement: ast.stmt) -> set[str]:
    calls = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return {call.attr if isinstance(call, ast.Attribute) else ast.unparse(call) for call in calls}


def _caught(handler: ast.ExceptHandler) -> set[str]:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(kind) for kind in kinds if kind is not None}


def forgetful(text: str) -> Iterator[int]:
    """Lines of handlers that know of JSON that is none, and not of what is nested too deeply."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Try) and any(_called(one) & {*READERS} for one in node.body):
            caught = [_caught(handler) for handler in node.handlers]
            for handler, kinds in zip(node.handlers, caught, strict=True):
                if "ValueError" in kinds and not any("RecursionError" in one for one in caught):
                    yield handler.lineno


def test_of_json_that_is_nested_too_deeply_every_reader_knows() -> None:
    found = [
        f"{file.relative_to(paths.SOURCE)}:{line}"
        for file in FILES
        for line in forgetful(file.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("handlers", "lines"),
    [
        ("except (OSError, ValueError): pass", [4]),
        ("except ValueError as error: raise", [4]),
        ("except (ValueError, RecursionError): pass", []),
        ("except RecursionError: pass\nexcept ValueError: pass", []),
        ("except OSError: pass", []),
    ],
)
def test_a_reader_that_does_not_is_found(handlers: str, lines: list[int]) -> None:
    assert list(forgetful(f"import json\ntry:\n    json.loads(text)\n{handlers}")) == lines


NESTED = "[" * 100_000


def _file(tmp_path: Path) -> Path:
    path = tmp_path / "document"
    path.write_text(NESTED)
    return path


def _raw(tmp_path: Path) -> None:
    path = tmp_path / results_file.FILE
    path.write_bytes(gzip.compress(f"{NESTED}\n".encode()))
    results_file.read(path)


def _inventory() -> None:
    printed = "".join(f"0: {line}\n" for line in srun_output.lines("n1", NESTED))
    assert srun_output.texts(printed) == {"n1": NESTED}
    detect.documents(printed, "batch")


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (lambda folder: record.read_record(_file(folder)), record.BrokenRecordError),
        (lambda folder: sweep_file.read(_file(folder)), sweep_file.SweepError),
        (lambda folder: lock.read(_file(folder)), ConfigurationError),
        (_raw, ValueError),
        (lambda _: uplinks.parse(NESTED), uplinks.CountersError),
        (lambda _: inventory_state.parse(NESTED), ParseError),
        (lambda _: _inventory(), PrerequisiteError),
        # Of a stranger, who has not proved himself.
        (
            lambda _: protocol.document_of(NESTED.encode()[: protocol.HELLO_BYTES]),
            protocol.ProtocolError,
        ),
    ],
)
def test_what_is_nested_too_deeply_is_damaged(
    tmp_path: Path, read: Callable[[Path], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        read(tmp_path)
