"""YAML against a model: every error leads to the line and the field."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pydantic
import pytest

from railgauge import yamlfile
from railgauge.common.errors import ConfigurationError
from railgauge.yamlfile import Strict
from tests.properties import tries


class Link(Strict):
    name: str
    gbits: float = pydantic.Field(gt=0)


class Fabric(Strict):
    links: list[Link]
    mtu: int = 1500


GOOD = """\
links:
  - name: left
    gbits: 25
  - name: right
    gbits: 100
mtu: 9000
"""


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "fabric.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def error_for(folder: Path, text: str | bytes) -> str:
    with pytest.raises(ConfigurationError) as caught:
        yamlfile.load_model(written(folder, text), Fabric)
    return str(caught.value)


def test_good_file_becomes_its_model(tmp_path: Path) -> None:
    fabric = yamlfile.load_model(written(tmp_path, GOOD), Fabric)
    assert [(link.name, link.gbits) for link in fabric.links] == [("left", 25), ("right", 100)]


def test_an_unchanged_file_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = yamlfile.load_model(written(tmp_path, GOOD), Fabric)
    monkeypatch.delattr(yamlfile, "_plain")
    assert yamlfile.load_model(written(tmp_path, GOOD), Fabric) is first


def test_a_changed_file_is_read_again_however_soon(tmp_path: Path) -> None:
    for mtu in (1000, 2000, 3000):
        path = written(tmp_path, GOOD.replace("9000", str(mtu)))
        assert yamlfile.load_model(path, Fabric).mtu == mtu


@pytest.mark.parametrize(
    ("good", "bad", "line", "field"),
    [
        ("gbits: 100", "gbits: fast", 5, "links.1.gbits"),
        ("gbits: 25", "gbits: -1", 3, "links.0.gbits"),
        ("name: right", "name: [right]", 4, "links.1.name"),
        ("mtu: 9000", "mtu: 9000.5", 6, "mtu"),
        ("gbits: 25", "gbits: 25\n    speed: 25", 4, "links.0.speed"),
        ("mtu: 9000", "mut: 9000", 6, "mut"),
        ("    gbits: 100\n", "", 4, "links.1.gbits"),
    ],
)
def test_wrong_field_is_named_with_file_and_line(
    tmp_path: Path, good: str, bad: str, line: int, field: str
) -> None:
    error = error_for(tmp_path, GOOD.replace(good, bad))
    assert error.startswith(f"{tmp_path}/fabric.yaml:{line}: {field}: ")


def test_what_was_found_is_shown(tmp_path: Path) -> None:
    assert "(found 'fast')" in error_for(tmp_path, GOOD.replace("100", "fast"))


def test_long_findings_are_cut(tmp_path: Path) -> None:
    error = error_for(tmp_path, GOOD.replace("100", "x" * 500))
    assert len(error.splitlines()[0]) < len(str(tmp_path)) + 200


def test_missing_field_at_the_top_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path}/fabric.yaml: links: " in error_for(tmp_path, "mtu: 9000\n")


def test_every_wrong_field_has_a_line_of_its_own(tmp_path: Path) -> None:
    text = GOOD.replace("25", "x").replace("100", "y").replace("9000", "z")
    lines = error_for(tmp_path, text).splitlines()
    assert [line.split(":")[1] for line in lines] == ["3", "5", "6"]


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "just a word", "[1, 2]"])
def test_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    assert f"{tmp_path}/fabric.yaml: document: " in error_for(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("links:\n  - name: [left\nmtu: 9000\n", 3),
        ("mtu: 9000\nlinks: *nobody\n", 2),
        ("links: []\nmtu: 1500\nmtu: 9000\n", 3),
        ("links: []\n\tmtu: 1500\n", 2),
    ],
)
def test_what_is_not_yaml_is_named_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    assert f"{tmp_path}/fabric.yaml:{line}: not valid YAML: " in error_for(tmp_path, text)


@pytest.mark.parametrize("content", [b"mtu: \xff\xfe9000\n", b"mtu: 1\x00\n", b"\x80"])
def test_binary_content_is_refused_with_the_files_name(tmp_path: Path, content: bytes) -> None:
    assert str(tmp_path / "fabric.yaml") in error_for(tmp_path, content)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"absent\.yaml: no such file"):
        yamlfile.load(tmp_path / "absent.yaml")


def test_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        yamlfile.load(tmp_path)


def test_wrong_field_that_came_by_a_merge_is_named(tmp_path: Path) -> None:
    text = """\
links:
  - &wrong
    name: left
    gbits: -1
  - <<: *wrong
    name: right
"""
    assert f"{tmp_path}/fabric.yaml:5: links.1.gbits: " in error_for(tmp_path, text)


def test_model_of_a_file_cannot_be_changed(tmp_path: Path) -> None:
    fabric = yamlfile.load_model(written(tmp_path, GOOD), Fabric)
    with pytest.raises(pydantic.ValidationError):
        fabric.mtu = 1


# ---- the two parsers ----

SCALARS = (
    *("~", "null", "Null", "", "true", "True", "FALSE", "yes", "no", "on", "off", "y", "N"),
    *("0", "1", "-7", "+12", "017", "0o17", "0x1F", "1_000", "1:30", "190:20:30"),
    *("1.5", "-.5", "1.", "1e3", "1E-3", "6.02e+23", ".inf", "-.Inf", "1e", "e3", "."),
    *("2026-11-24", "12:30", "a", "a b", "n[1-4]", "mlx5_0", "<", "'no'", '"0x1F"'),
    *("'it''s'", '"tab\\t \\u00e9 \\x41"', "[a, 1, no]", "{a: 1, b: [2]}", "[]", "{}", "é"),
)


def both(text: str) -> tuple[object, object]:
    """The document by the parser that is fast, and by the one that knows lines."""
    return yamlfile._plain(Path("x.yaml"), text), yamlfile._with_lines(Path("x.yaml"), text)


@pytest.mark.parametrize("scalar", SCALARS)
def test_both_parsers_read_a_scalar_as_the_same(scalar: str) -> None:
    fast, slow = both(f"key: {scalar}\nlist:\n  - {scalar}\n")
    if scalar in ("1_000", "2026-11-24"):
        # No number and no date by YAML 1.2; a model that asks for one reads the string.
        assert fast["key"] == scalar  # type: ignore[index]
        return
    # By the texts, in which 1, 1.0 and True differ; ruamel.yaml's own types are left out.
    assert repr(fast) == repr(json.loads(json.dumps(slow)))


def test_a_key_that_is_no_scalar_is_refused(tmp_path: Path) -> None:
    assert f"{tmp_path}/fabric.yaml:1: not valid YAML: " in error_for(tmp_path, "{a: [2]}: 1\n")


def test_a_key_that_a_merge_brings_may_be_replaced_wherever_it_stands() -> None:
    fast, slow = both(
        "base: &base {x: 1, y: 2}\n"
        "outer:\n  deep:\n    inner: &inner {<<: *base, x: 3}\n"
        "last: {<<: *inner, y: 4}\n"
    )
    assert fast == slow
    assert fast["last"] == {"x": 3, "y": 4}  # type: ignore[index]


#: Without what breaks a line for one of the two, as YAML 1.1 and 1.2 differ in that.
TEXTS = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=12)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@hypothesis.settings(max_examples=tries(50))
@hypothesis.given(TREES)
def test_what_was_written_is_read_by_both(tree: object) -> None:
    from ruamel.yaml import YAML

    stream = io.StringIO()
    YAML().dump(tree, stream)
    fast, slow = both(stream.getvalue())
    assert fast == slow == tree


@hypothesis.given(st.text(st.sampled_from("ac:-[]{},#'\"%@<~\n 01."), max_size=30))
def test_what_both_parsers_read_is_the_same(text: str) -> None:
    with contextlib.suppress(ConfigurationError):
        fast, slow = both(text)
        assert fast == slow


@pytest.mark.parametrize(
    "value", ["!!int abc", "!!float abc", "!!bool abc", "!!timestamp abc", "!!int ''", "9" * 5000]
)
def test_a_value_that_is_not_of_its_tag_is_named_with_its_line(tmp_path: Path, value: str) -> None:
    error = error_for(tmp_path, GOOD.replace("9000", value))
    assert "fabric.yaml:6: not valid YAML: found '" in error and "expected a value of" in error


#: One level more than a file may have.
TOO_DEEP = 101


@pytest.mark.parametrize(
    "text",
    [
        f"mtu: {'[' * TOO_DEEP}{']' * TOO_DEEP}",
        f"mtu: {'{a: ' * TOO_DEEP}{'}' * TOO_DEEP}",
        f"mtu:\n  {'- ' * TOO_DEEP}1",
    ],
    ids=["lists", "mappings", "dashes"],
)
def test_what_is_nested_too_deep_is_named_with_its_line(tmp_path: Path, text: str) -> None:
    assert "not valid YAML: found more than 100 levels" in error_for(tmp_path, text)
    with pytest.raises(ConfigurationError, match="found more than 100 levels"):
        yamlfile.load(written(tmp_path, text))


@pytest.mark.parametrize("opener", ["[", "{a: ", "- ", "? "])
def test_levels_are_counted_before_nodes_are_made_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opener: str
) -> None:
    closer = {"[": "]", "{a: ": "}"}.get(opener, " 1")
    nested = opener * TOO_DEEP + closer * (TOO_DEEP if closer != " 1" else 1)
    many = f"flat: [{'[], ' * yamlfile._MANY_OPENERS}]\nmtu:\n  {nested}"
    made: list[object] = []
    monkeypatch.setattr(yamlfile._Loader, "get_single_node", lambda loader: made.append(loader))
    assert "not valid YAML: found more than 100 levels" in error_for(tmp_path, many)
    assert made == []


def test_a_flat_file_may_open_as_many_lists_as_it_likes(tmp_path: Path) -> None:
    flat = [[]] * yamlfile._MANY_OPENERS
    assert yamlfile.plain(written(tmp_path, f"{flat}")) == flat


@pytest.mark.parametrize("value", ["true", "False"])
def test_a_truth_value_is_no_number(tmp_path: Path, value: str) -> None:
    for good in ("gbits: 100", "mtu: 9000"):
        error = error_for(tmp_path, GOOD.replace(good, f"{good.split()[0]} {value}"))
        assert f"expected a number, found {value.lower()}" in error


class Rates(Strict):
    several: list[float] = []
    by_name: dict[str, int | None] = {}
    either: int | bool = 0
    whether: bool = False


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("several: [1, true]", False),
        ("by_name: {a: true}", False),
        ("by_name: {a: 1}\nseveral: [1.5]", True),
        ("either: true\nwhether: true", True),
    ],
)
def test_a_truth_value_stands_where_one_is_expected(tmp_path: Path, text: str, good: bool) -> None:
    path = written(tmp_path, text)
    with contextlib.nullcontext() if good else pytest.raises(ConfigurationError, match="a number"):
        yamlfile.load_model(path, Rates)
