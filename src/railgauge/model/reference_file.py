"""Writing baselines into a file of references; everything else in it stays as written."""

from __future__ import annotations

import io
import itertools
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.scalarstring import FoldedScalarString

from railgauge.model import references
from railgauge.model.references import Condition, Entry, ReferenceFile, References
from railgauge.yamlfile import Strict

#: Of an entry and of a number, what stands before the other fields, and behind them.
_FIRST = ("check", "partition", "value", "lower", "upper")
_LAST = ("provenance", "metrics")

#: Longer texts are folded, at so many characters.
_WIDTH = 76


class _Representer(RoundTripRepresenter):
    """Writes null as the files of this project have it."""


def _null(representer: _Representer, _: None) -> Any:
    return representer.represent_scalar("tag:yaml.org,2002:null", "null")


_Representer.add_representer(type(None), _null)


def _yaml() -> YAML:
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.preserve_quotes = True
    yaml.width = 100
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def with_baselines(system: str, path: Path, entries: Sequence[Entry]) -> tuple[str, str]:
    """The text of a file, "" where there is none yet, and the same with these baselines.

    A baseline of the same condition and metric is replaced where it stands; others are added at the
    end. ConfigurationError where the file is no file of references, or the new one would be none.
    """
    known = references.load(system, path)
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    yaml = _yaml()
    document: Any = CommentedMap(system=system, references=CommentedSeq())
    if old:
        document = yaml.load(old)
        _keep_anchors(document)
    for entry in entries:
        _put(document["references"], known, entry)
    stream = io.StringIO()
    yaml.dump(document, stream)
    new = stream.getvalue()
    _check(system, path, yaml.load(new))
    return old, new


def _keep_anchors(node: Any) -> None:
    """Keep also anchors that nothing refers to."""
    if isinstance(node, (CommentedMap, CommentedSeq)):
        if node.yaml_anchor() is not None:
            node.yaml_set_anchor(node.yaml_anchor().value, always_dump=True)
        for child in node.values() if isinstance(node, CommentedMap) else node:
            _keep_anchors(child)


def _check(system: str, path: Path, document: Any) -> None:
    content = ReferenceFile.model_validate(document)
    References(system, content.references, path, content.ratios)


def _put(listed: Any, known: References, entry: Entry) -> None:
    """Each number of an entry: into that of the same condition, or into a new one."""
    new = dict(entry.metrics)
    for index, there in enumerate(known.entries):
        if _same(there, entry):
            for metric, number in entry.metrics.items():
                standing = there.metrics.get(metric)
                if standing is not None and standing.kind == "baseline":
                    _replace(listed[index]["metrics"], metric, _plain(number))
                    del new[metric]
    if new:
        document = _plain(entry)
        document["metrics"] = {metric: _plain(number) for metric, number in new.items()}
        listed.append(_commented(document))


def _same(there: Entry, entry: Entry) -> bool:
    """Whether both are of one condition; what is left out is as good as null."""
    parts = ("check", "partition", *Condition.model_fields)
    return all(getattr(there, part) == getattr(entry, part) for part in parts)


def _replace(metrics: Any, metric: str, number: dict[str, Any]) -> None:
    """Replace the fields of a number; other fields, and comments, stay."""
    standing = metrics[metric]
    if standing.yaml_anchor() is not None:
        # Other entries may share the anchor, and keep it.
        metrics[metric] = _commented(number)
        return
    for field in ("lower", "upper"):
        if field not in number:
            standing.pop(field, None)
    for field, value in number.items():
        standing[field] = _commented(value)


def _plain(model: Strict) -> dict[str, Any]:
    """A model as the file has it: what was stated, in the order in which people write it."""
    document = model.model_dump(mode="python", exclude_unset=True, exclude_none=True)
    first = [name for name in _FIRST if name in document]
    last = [name for name in _LAST if name in document]
    rest = [name for name in document if name not in (*first, *last)]
    return {name: document[name] for name in (*first, *rest, *last)}


def _commented(value: Any) -> Any:
    """A plain value as ruamel.yaml's types, which keep the order of fields and take comments."""
    if isinstance(value, str) and len(value) > _WIDTH:
        return _folded(value)
    if not isinstance(value, dict):
        return value
    mapping = CommentedMap((key, _commented(one)) for key, one in value.items())
    if "tools" in mapping:
        mapping["tools"].fa.set_flow_style()
    return mapping


def _folded(text: str) -> Any:
    """A text over several lines, `>-`, as ruamel.yaml has it: it breaks at `fold_pos`."""
    lines = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    folded = FoldedScalarString(" ".join(lines))
    ends = itertools.accumulate(len(line) + 1 for line in lines[:-1])
    folded.fold_pos = [end - 1 for end in ends]
    return folded
