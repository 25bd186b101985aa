"""What documents say of fields, metrics and figures, from their data: `make docs` writes it.

The part of a document below MARK is made here; what stands above is written by hand. The schemas
of a site's files, for its editors, are made as a whole.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pydantic

from railgauge import paths
from railgauge.cluster.store import GateRules
from railgauge.model import catalogue, published_page, signatures
from railgauge.model.measurement import METRICS
from railgauge.site import figures
from railgauge.systems import System
from railgauge.systems.expected import Expected

Schema = Mapping[str, Any]

#: The unit that the end of a field's name says.
_UNITS = {
    "_gbytes_s": "GB/s",
    "_gbits": "Gb/s",
    "_bytes": "bytes",
    "_kib": "KiB",
    "_ms": "ms",
    "_s": "s",
    "_percent": "%",
}

_SCALARS = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false"}

_HEAD = "| field | type | unit | default | meaning |\n|---|---|---|---|---|"


#: The files below `configs/systems/SYSTEM/`, and what reads them.
FILES: Mapping[str, type[pydantic.BaseModel]] = {
    "reframe": System,
    "expected": Expected,
    "gate": GateRules,
}

MARK = "<!-- `make docs` writes what follows -->\n"


def documents() -> dict[Path, str]:
    """The documents and the plots of one, as they must be."""
    rows = figures.read()
    parts = {
        "system-file.md": _fields(System, "a system"),
        "gate-file.md": _fields(GateRules, "gate.yaml"),
        "references.md": _metrics(),
        "findings.md": catalogue.kinds_page(),
        "glossary.md": catalogue.terms_page(),
        "numbers.md": published_page.page(),
        "explain.md": signatures.page(),
        "figures.md": figures.page(rows),
    }
    docs = paths.HOME / "docs"
    written = {
        path: path.read_text(encoding="utf-8").partition(MARK)[0] + MARK + "\n" + part
        for path, part in ((docs / name, part) for name, part in parts.items())
    }
    plots = {docs / figures.PLOTS / name: plot for name, plot in figures.plots(rows).items()}
    schemas = {
        docs / "schema" / "files" / f"{name}.json": json.dumps(editor_schema(name), indent=2) + "\n"
        for name in FILES
    }
    return written | plots | schemas


def editor_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of `configs/systems/SYSTEM/<name>.yaml`, for the YAML language server.

    It says less than Railgauge checks: relations between fields are not in it. Draft 7 is the one
    that every editor reads.
    """
    described = _described(FILES[name])
    return {
        **described,
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": f"{name}.json",
        "title": f"configs/systems/SYSTEM/{name}.yaml",
    }


def _metrics() -> str:
    rows = (f"| `{n}` | {m.unit} | {m.better} | {m.meaning} |\n" for n, m in METRICS.items())
    return "| metric | unit | better | meaning |\n|---|---|---|---|\n" + "".join(rows)


def _fields(root: type[pydantic.BaseModel], title: str) -> str:
    """A section for a file and for each thing within it, by the path of its field."""
    schema = _described(root)
    return "\n".join(_Sections(schema["$defs"]).of(title, "", schema))


def _described(root: type[pydantic.BaseModel]) -> dict[str, Any]:
    """A model's schema, each field with what stands in quotes below it in the source."""
    schema = root.model_json_schema()
    definitions = {root.__name__: schema, **schema["$defs"]}
    for model in dict.fromkeys(_models(root)):
        fields = definitions[model.__name__]["properties"]
        for name, words in _meanings(model).items():
            if name in fields:
                fields[name].setdefault("description", words)
    return schema


def _models(kind: Any) -> Iterator[type[pydantic.BaseModel]]:
    """A model and those of its fields."""
    if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
        yield kind
        for field in kind.model_fields.values():
            yield from _models(field.annotation)
    for part in typing.get_args(kind):
        yield from _models(part)


def _meanings(model: type[pydantic.BaseModel]) -> dict[str, str]:
    """Field -> what stands in quotes below it, of a model and those that it is made from.

    Pydantic can do so (`use_attribute_docstrings`), and then reads the source of every model
    whenever a command starts.
    """
    meanings = {}
    for of in reversed(model.__mro__):
        if of.__module__.startswith("railgauge."):
            (made,) = ast.parse(inspect.getsource(of)).body
            assert isinstance(made, ast.ClassDef)
            for field, below in itertools.pairwise(made.body):
                match field, below:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(words))),
                    ):
                        meanings[name] = inspect.cleandoc(words)
    return meanings


class _Sections:
    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        #: definition -> the path of its section
        self._paths: dict[str, str] = {}

    def of(self, title: str, path: str, schema: Schema) -> Iterator[str]:
        """The lines of a section and of those within it."""
        yield f"### {title}\n"
        yield " ".join(schema["description"].split()) + "\n"
        yield _HEAD
        new: list[str] = []
        for name, field in schema["properties"].items():
            kind, within = self._type(field, f"{path}.{name}".lstrip("."), new)
            default = "" if name in schema.get("required", ()) else _default(field, within)
            meaning = " ".join(field["description"].split())
            unit = next((unit for end, unit in _UNITS.items() if f"_{name}".endswith(end)), "")
            cells = (f"`{name}`", kind, unit, default, meaning)
            yield "|" + "|".join(f" {cell.replace('|', chr(92) + '|')} " for cell in cells) + "|"
        yield ""
        for name in new:
            yield from self.of(self._paths[name], self._paths[name], self._definitions[name])

    def _type(self, field: Schema, path: str, new: list[str]) -> tuple[str, bool]:
        """The type in words, and whether it has fields of its own; `new` gets their definition."""
        if "$ref" in field:
            name = field["$ref"].rpartition("/")[2]
            if name not in self._paths:
                self._paths[name] = path
                new.append(name)
            return f"[fields](#{self._paths[name].replace('.', '')})", True
        if "anyOf" in field:
            (one,) = (one for one in field["anyOf"] if one.get("type") != "null")
            return self._type(one, path, new)
        if "enum" in field or "const" in field:
            return ", ".join(f"`{v}`" for v in field.get("enum") or [field["const"]]), False
        if field["type"] == "array":
            kind, within = self._type(field["items"], path, new)
            return f"list: {kind}", within
        if field["type"] == "object":
            # The names have a pattern, or none.
            plain = {"": field.get("additionalProperties")}
            (value,) = field.get("patternProperties", plain).values()
            kind, within = self._type(value, path, new)
            return f"by name: {kind}", within
        return _SCALARS[field["type"]] + _bounds(field), False


def _bounds(field: Schema) -> str:
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
        "multipleOf": "a multiple of",
        "pattern": "like",
    }
    shown = [
        f"{word} {f'`{field[key]}`' if key == 'pattern' else format(field[key], ',')}"
        for key, word in words.items()
        if key in field
    ]
    return f", {', '.join(shown)}" if shown else ""


def _default(field: Schema, has_fields: bool) -> str:
    value = field.get("default")
    if value is None:
        return "none"
    return "theirs" if has_fields and value else f"`{json.dumps(value)}`"


if __name__ == "__main__":
    for document, text in documents().items():
        document.parent.mkdir(exist_ok=True)
        document.write_text(text, encoding="utf-8")
