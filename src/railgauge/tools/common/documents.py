"""JSON documents: whole, every key once, and of the shape that a model states."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from typing import Annotated, Any, TypeVar

import pydantic

from railgauge.tools import ParseError
from railgauge.tools.common.lines import quote


class Part(pydantic.BaseModel):
    """An object in a document. Keys that the model does not name are passed over."""

    model_config = pydantic.ConfigDict(strict=True, frozen=True, defer_build=True)


#: no bool, and no number that a float would not hold
Count = Annotated[int, pydantic.Field(ge=0, le=10**18)]
Number = Annotated[float, pydantic.Field(ge=0, le=1e18)]

AnyPart = TypeVar("AnyPart", bound=Part)

_EXPECTED = {
    "model_type": "an object",
    "list_type": "a list",
    "int_type": "an integer of 0 or more",
    "float_type": "a number of 0 or more",
    "string_type": "a text",
}


def decoder(repeated: Collection[str] = (), *, private: bool = False) -> json.JSONDecoder:
    """Of objects that have every key once, but those in `repeated`: they are not read. It raises
    ParseError where one has a key twice; of a `private` document no content is in it.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        whole = dict(pairs)
        if len(whole) < len(pairs):
            counts = Counter(name for name, _ in pairs if name not in repeated)
            for name, count in counts.items():
                if count > 1:
                    key = "a key" if private else f"the key {quote(name)}"
                    raise ParseError(0, f"{key} twice in one object", "every key once")
        return whole

    return json.JSONDecoder(object_pairs_hook=once)


def document(text: str, *, repeated: Collection[str] = (), private: bool = False) -> dict[str, Any]:
    """The JSON object that a text is; ParseError where it is not whole, or has a key twice.

    Keys in `repeated` may be there twice: they are not read. Of a `private` document no content
    is in a message, or in an exception behind it.
    """
    value, where, why = None, 0, "no object"
    try:
        value = decoder(repeated, private=private).decode(text)
    except ParseError:
        raise
    except (ValueError, RecursionError) as error:
        # It holds the whole text: it must not be the context of what is raised.
        where, why = getattr(error, "lineno", 0), getattr(error, "msg", str(error))
    if not isinstance(value, dict):
        raise ParseError(where, f"no whole JSON ({why})", "one JSON object, to its end")
    return value


def validated(
    model: type[AnyPart], part: object, where: str = "", *, private: bool = False
) -> AnyPart:
    """The part of a document that is at `where` in it; ParseError names what is not as stated."""
    try:
        return model.model_validate(part)
    except pydantic.ValidationError as invalid:
        # That one holds the values, too.
        error = invalid.errors(include_url=False)[0]
    path = where
    for step in error["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    if error["type"] == "missing":
        raise ParseError(0, f"no {path}", "it, as in a whole document")
    expected = _EXPECTED.get(error["type"], error["msg"].removeprefix("Input should be "))
    if error["type"] == "greater_than_equal":
        expected = _EXPECTED["int_type" if isinstance(error["input"], int) else "float_type"]
    value = "of another kind" if private else quote(error["input"])
    raise ParseError(0, f"{path} {value}", expected)
