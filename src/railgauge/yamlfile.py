"""Reading YAML against a pydantic model, with errors that name file, line and field."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import pydantic
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from railgauge.errors import ConfigurationError

Model = TypeVar("Model", bound=pydantic.BaseModel)


class Strict(pydantic.BaseModel):
    """A model that knows all its fields: a misspelt key is an error, not a default.

    What stands in quotes below a field is its description in documents (`site/schema.py`).
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


def _line_of(node: Any, location: tuple[int | str, ...]) -> int | None:
    """The line (from 1) of the field at `location`, or of the nearest thing around it."""
    line: int | None = None
    for key in location:
        # A key that came in by a merge (<<) has no line of its own here.
        if isinstance(node, CommentedMap) and key in (node.lc.data or {}):
            line = node.lc.key(key)[0] + 1
        elif isinstance(node, CommentedSeq) and isinstance(key, int) and key < len(node):
            line = node.lc.item(key)[0] + 1
        else:
            break
        node = node[key]
    return line


def load(path: Path) -> Any:
    """The document at `path`; ConfigurationError with file and line where it is not YAML."""
    return _parse(path, _read(path))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from None


def _parse(path: Path, text: str) -> Any:
    try:
        return YAML().load(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigurationError(f"{where}: not valid YAML: {problem}") from None


def load_model(path: Path, model: type[Model]) -> Model:
    """The document at `path` as `model`; every wrong field is named with its line.

    A file whose text is unchanged gives the same object again: nobody may change it. Parsing took
    half of a ReFrame session's own time, which asks for its references with every case.
    """
    return cast(Model, _validated(path, _read(path), model))


@lru_cache(maxsize=64)
def _validated(path: Path, text: str, model: type[pydantic.BaseModel]) -> pydantic.BaseModel:
    document = _parse(path, text)
    try:
        return model.model_validate(document)
    except pydantic.ValidationError as error:
        lines = []
        for problem in error.errors():
            location = problem["loc"]
            line = _line_of(document, location)
            # Of a key itself pydantic says so with a part of its own, and the key is the input.
            of_key = location[-1:] == ("[key]",)
            field = ".".join(str(part) for part in location[: -1 if of_key else None]) or "document"
            value = problem.get("input")
            no_value = problem["type"] == "missing" or of_key
            shown = "" if no_value else f" (found {_short(value)})"
            where = f"{path}:{line}" if line else str(path)
            lines.append(f"{where}: {field}: {problem['msg']}{shown}")
        raise ConfigurationError("\n".join(lines)) from None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
