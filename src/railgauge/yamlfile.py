"""Reading YAML against a pydantic model, with errors that name file, line and field.

Two parsers read it. PyYAML's, which is libyaml's in C, takes a tenth of the time of ruamel.yaml's:
what every start reads goes through it. ruamel.yaml's knows the line of every field, and keeps
comments: it is asked where a field is wrong, and where a file is written again.
"""

from __future__ import annotations

import re
import sys
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import pydantic
import yaml

from railgauge.common.errors import ConfigurationError

Model = TypeVar("Model", bound=pydantic.BaseModel)

#: Tag -> what a plain scalar of that type is, and its first characters: the core schema of YAML
#: 1.2, https://yaml.org/spec/1.2.2/#1032-tag-resolution. PyYAML's own is that of 1.1, to which
#: `no` is False and `1:30` is 90.
_CORE_SCHEMA = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
}


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML 1.2 and refuses a key that stands twice."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def document(self) -> Any:
        node = self.get_single_node()
        if node is None:
            return None
        _refuse_duplicates(node)
        return self.construct_document(node)

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        text = node.value
        return int(text, 0) if text.startswith(("0o", "0x")) else int(text)


def _named_where_wrong(kind: str, construct: Callable[..., Any]) -> Callable[..., Any]:
    """PyYAML's constructors of scalars raise what int() and the like do, which has no line."""

    def constructed(loader: _Loader, node: yaml.ScalarNode) -> Any:
        try:
            return construct(loader, node)
        except (ValueError, LookupError, AttributeError):
            value = _short(node.value) if isinstance(node, yaml.ScalarNode) else f"a {node.id}"
            problem = f"found {value}, expected a value of YAML's {kind}"
            mark = node.start_mark
            raise yaml.constructor.ConstructorError(None, None, problem, mark) from None

    return constructed


for _tag, (_pattern, _first) in _CORE_SCHEMA.items():
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first
    )
_Loader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"<<\Z"), ["<"])
for _tag, _construct in {
    "int": _Loader.construct_integer,
    **{kind: getattr(_Loader, f"construct_yaml_{kind}") for kind in ("float", "bool", "timestamp")},
}.items():
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _named_where_wrong(_tag, _construct))

#: Nothing that people write is nested so deep, and every level is one of some parser's stack.
_MOST_NESTED = 100

#: Of a text with more of what opens a level the C parser could take more stack than there is.
_MANY_OPENERS = 5000


#: Checks of the release before -> the check that judges the same now.
RENAMED_CHECKS = {"Path": "NodeState"}


@cache
def _numbers(model: type[pydantic.BaseModel]) -> frozenset[str]:
    """The fields that hold numbers, or lists or mappings of them, and no truth value."""

    def within(kind: Any) -> set[Any]:
        return {kind}.union(*map(within, typing.get_args(kind)))

    kinds = {name: within(field.annotation) for name, field in model.model_fields.items()}
    return frozenset(n for n, has in kinds.items() if has & {int, float} and bool not in has)


class _OldName(typing.NamedTuple):
    """A key, or the name of a check, that a file has under its old name, and the mapping or list in
    which it stands.
    """

    within: dict[str, Any] | list[Any]
    old: str
    new: str
    what: str = "key"

    @property
    def step(self) -> str:
        """Of a mapping or a list that has the new name too, the old one can only go."""
        return "remove" if self.new in self.within else "rename"


def read_old_checks(value: Any, info: pydantic.ValidationInfo) -> Any:
    """A list of checks, or a mapping from checks, in which checks of before have their new names.
    This release reads the old name and prints a note.
    """
    if not isinstance(value, (dict, list)):
        return value
    for old, new in RENAMED_CHECKS.items():
        if old in value and info.context is not None:
            info.context.append(_OldName(value, old, new, "check"))
    if isinstance(value, list):
        added = [new for old, new in RENAMED_CHECKS.items() if old in value and new not in value]
        return [one for one in value if one not in list(RENAMED_CHECKS)] + added
    renamed = {RENAMED_CHECKS[old]: v for old, v in value.items() if old in RENAMED_CHECKS}
    return {**renamed, **{key: v for key, v in value.items() if key not in RENAMED_CHECKS}}


class Strict(pydantic.BaseModel):
    """A model that knows all its fields: a misspelt key is an error, not a default.

    What stands in quotes below a field is its description in documents (`site/schema.py`).
    """

    # What checks a model is built when it is first used: a command uses few of them.
    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True
    )

    #: Old key -> the key that replaced it. This release reads the old one and prints a note.
    RENAMED: typing.ClassVar[Mapping[str, str]] = {}

    @pydantic.model_validator(mode="before")
    @classmethod
    def _read_old_keys(cls, value: Any, info: pydantic.ValidationInfo) -> Any:
        if not isinstance(value, dict):
            return value
        for old in sorted(cls.RENAMED.keys() & value.keys()):
            new = cls.RENAMED[old]
            if new in value:
                raise ValueError(f"give {new}, and not its old name {old} as well")
            if info.context is not None:
                info.context.append(_OldName(value, old, new))
        return {cls.RENAMED.get(key, key): found for key, found in value.items()}

    @pydantic.field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: pydantic.ValidationInfo) -> Any:
        # Pydantic would make 1 of it.
        if info.field_name in _numbers(cls):
            inside = value.values() if isinstance(value, dict) else value
            for one in inside if isinstance(value, (dict, list, tuple)) else [value]:
                if isinstance(one, bool):
                    raise ValueError(f"expected a number, found {str(one).lower()}")
        return value


def _refuse_duplicates(root: yaml.Node) -> None:
    """Of the file's own keys: those that a merge (<<) brings come later, and may be replaced.
    Likewise what is nested too deep for the code that walks through it later.
    """
    open_nodes, known = [(root, 0)], set()
    while open_nodes:
        node, depth = open_nodes.pop()
        if depth > _MOST_NESTED:
            raise _too_deep(node.start_mark)
        if id(node) in known or isinstance(node, yaml.ScalarNode):
            continue
        # An alias leads to a node that was there before.
        known.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            open_nodes += ((value, depth + 1) for value in node.value)
            continue
        keys = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in keys:
                    problem = f"found duplicate key {key.value!r}"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                keys.add((key.tag, key.value))
            open_nodes.append((value, depth + 1))


def _too_deep(mark: Any) -> yaml.constructor.ConstructorError:
    problem = f"found more than {_MOST_NESTED} levels, one in the other, expected fewer"
    return yaml.constructor.ConstructorError(None, None, problem, mark)


def _refuse_bottomless(text: str) -> None:
    """What the C parser would make nodes of by calling itself until the stack is gone."""
    if sum(map(text.count, "[{-?")) < _MANY_OPENERS:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_NESTED:
            raise _too_deep(event.start_mark)


#: What parsers raise, of hostile texts also in places without a line.
_NO_YAML = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)


def plain(path: Path) -> Any:
    """The document at `path` as dicts, lists, strings and numbers; errors as `load`'s."""
    return _plain(path, _read(path))


def _plain(path: Path, text: str) -> Any:
    try:
        _refuse_bottomless(text)
        loader = _Loader(text)
        try:
            return loader.document()
        finally:
            loader.dispose()
    except _NO_YAML as error:
        raise _no_yaml(path, error) from None


def load(path: Path) -> Any:
    """The document at `path` as ruamel.yaml's types, with lines and comments.

    ConfigurationError with file and line where it is not YAML.
    """
    text = _read(path)
    _plain(path, text)
    return _with_lines(path, text)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from None


def _with_lines(path: Path, text: str) -> Any:
    """Of a text that the other parser reads."""
    # Loaded only here: most starts have no use for it.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML().load(text)
    except (YAMLError, *_NO_YAML) as error:
        raise _no_yaml(path, error) from None


def _no_yaml(path: Path, error: Exception) -> ConfigurationError:
    mark = getattr(error, "problem_mark", None)
    where = f"{path}:{mark.line + 1}" if mark else str(path)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return ConfigurationError(f"{where}: not valid YAML: {problem}")


def _line_of(node: Any, location: tuple[int | str, ...]) -> int | None:
    """The line (from 1) of the field at `location`, or of the nearest thing around it."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

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


def place(path: Path, location: tuple[int | str, ...]) -> str:
    """`file:line` of the field at `location`, of a file that has been read."""
    line = _line_of(load(path), location)
    return f"{path}:{line}" if line else str(path)


def load_model(path: Path, model: type[Model]) -> Model:
    """The document at `path` as `model`; every wrong field is named with its line.

    A file with unchanged text gives the same object again, so no caller may change it. Parsing took
    half of a ReFrame session's own time, which asks for its references with every case.
    """
    return cast(Model, _validated(path, _read(path), model))


@lru_cache(maxsize=64)
def _validated(path: Path, text: str, model: type[pydantic.BaseModel]) -> pydantic.BaseModel:
    document, old_names = _plain(path, text), list[_OldName]()
    try:
        validated = model.model_validate(document, context=old_names)
        _note_old_names(path, text, document, old_names)
        return validated
    except pydantic.ValidationError as error:
        commented, lines = _with_lines(path, text), []
        keys = {one.new: one.old for one in old_names if one.what == "key"}
        for problem in error.errors():
            location = _as_written(commented, problem["loc"], keys)
            line = _line_of(commented, location)
            # Of a key itself pydantic says so with a part of its own, and the key is the input.
            of_key = location[-1:] == ("[key]",)
            field = ".".join(str(part) for part in location[: -1 if of_key else None]) or "document"
            value = problem.get("input")
            no_value = problem["type"] == "missing" or of_key
            shown = "" if no_value else f" (found {_short(value)})"
            where = f"{path}:{line}" if line else str(path)
            lines.append(f"{where}: {field}: {problem['msg']}{shown}")
        raise ConfigurationError("\n".join(lines)) from None


def _as_written(
    node: Any, location: tuple[int | str, ...], old_names: Mapping[str, str]
) -> tuple[int | str, ...]:
    """The location with the old names of keys where the file has these."""
    keys: list[int | str] = []
    for key in location:
        old = old_names.get(str(key))
        if isinstance(node, dict) and key not in node and old in node:
            key = str(old)
        keys.append(key)
        if isinstance(node, dict):
            node = node.get(key)
        elif isinstance(node, list) and isinstance(key, int):
            node = node[key]
    return tuple(keys)


def _note_old_names(path: Path, text: str, document: Any, old_names: Sequence[_OldName]) -> None:
    """Print a line on standard error for each old name, with its first line in the file."""
    if not old_names:
        return
    commented, locations = _with_lines(path, text), dict(_locations(document, ()))
    counts = Counter((one.old, one.new, one.what, one.step) for one in old_names)
    for (old, new, what, step), count in counts.items():
        within = next(one.within for one in old_names if one[1:] == (old, new, what))
        place = within.index(old) if isinstance(within, list) else old
        line = _line_of(commented, (*locations.get(id(within), ()), place))
        more = f" ({count} times in this file)" if count > 1 else ""
        print(
            f"railgauge: {path}:{line}: the {what} {old} is now called {new}{more}; "
            f"next: {step} it, the next release does not read {old}",
            file=sys.stderr,
        )


def _locations(
    node: Any, location: tuple[int | str, ...]
) -> Iterator[tuple[int, tuple[int | str, ...]]]:
    """The identity of each mapping and list at or below a node, with the keys that lead to it."""
    yield id(node), location
    inside = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in inside:
        if isinstance(value, (dict, list)):
            yield from _locations(value, (*location, key))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
