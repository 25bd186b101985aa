"""Reading YAML against a pydantic model, with errors that name file, line and field.

Two parsers read it. PyYAML's, which is libyaml's in C, takes a tenth of the time of ruamel.yaml's:
what every start reads goes through it. ruamel.yaml's knows the line of every field, and keeps
comments: it is asked where a field is wrong, and by whoever writes a file again.
"""

from __future__ import annotations

import re
import sys
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
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


@cache
def _numbers(model: type[pydantic.BaseModel]) -> frozenset[str]:
    """The fields that hold numbers, or lists or mappings of them, and no truth value."""

    def within(kind: Any) -> set[Any]:
        return {kind}.union(*map(within, typing.get_args(kind)))

    kinds = {name: within(field.annotation) for name, field in model.model_fields.items()}
    return frozenset(n for n, has in kinds.items() if has & {int, float} and bool not in has)


class _OldKey(typing.NamedTuple):
    """A key that a file has under its old name, and the mapping in which it stands."""

    mapping: dict[str, Any]
    old: str
    new: str


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
                info.context.append(_OldKey(value, old, new))
        return {cls.RENAMED.get(key, key): found for key, found in value.items()}

    @pydantic.field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: pydantic.ValidationInfo) -> Any:
        # Pydantic would make 1 of it.
        if info.field_name in _numbers(cls):
            if isinstance(node, dict):
            node = node.get(key)
        elif isinstance(node, list) and isinstance(key, int):
            node = node[key]
    return tuple(keys)


def _note_old_keys(path: Path, text: str, document: Any, old_keys: list[_OldKey]) -> None:
    """Print a line on standard error for each old name, with its first line in the file."""
    if not old_keys:
        return
    commented, locations = _with_lines(path, text), dict(_mappings(document, ()))
    counts = Counter((one.old, one.new) for one in old_keys)
    for (old, new), count in counts.items():
        mapping = next(one.mapping for one in old_keys if (one.old, one.new) == (old, new))
        line = _line_of(commented, (*locations.get(id(mapping), ()), old))
        more = f" ({count} times in this file)" if count > 1 else ""
        print(
            f"railgauge: {path}:{line}: the key {old} is now called {new}{more}; "
            f"next: rename it, the next release does not read {old}",
            file=sys.stderr,
        )


def _mappings(
    node: Any, location: tuple[int | str, ...]
) -> Iterator[tuple[int, tuple[int | str, ...]]]:
    """The identity of each mapping below a node, with the keys that lead to it."""
    if isinstance(node, dict):
        yield id(node), location
    inside = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in inside:
        if isinstance(value, (dict, list)):
            yield from _mappings(value, (*location, key))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
