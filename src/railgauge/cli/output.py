"""Facts as JSON: what prints some has `--json`, and docs/schema says what that is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def json_option(*schemas: str) -> Callable[[_Command], _Command]:
    """`--json` of a command, as `as_json`; the document is as one of these files says."""
    files = " or ".join(f"docs/schema/{name}.json" for name in schemas)
    return click.option("--json", "as_json", is_flag=True, help=f"Print JSON, as {files} says.")


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=2, allow_nan=False))
