"""Texts from outside, as they may stand in a document of ours."""

from __future__ import annotations

import re

#: What does not show as itself, or may not stand in XML: control characters, surrogates, and what
#: turns the direction of the text around it.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ud800-\udfff\ufffe\uffff]"
)


def clean(text: str) -> str:
    """The text with what cannot be seen written as its code."""
    return _UNSAFE.sub(lambda matched: f"\\u{ord(matched[0]):04x}", text.replace("\r\n", "\n"))
