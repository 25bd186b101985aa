"""Text files that people bring along: UTF-8, and an error that says so of what is not."""

from __future__ import annotations

import codecs
import io
import shlex
from pathlib import Path

from railgauge.common.errors import RailgaugeError


def read(path: Path, errors: str = "strict") -> str:
    """As `Path.read_text` does; RailgaugeError of UTF-16, which some Windows programs write."""
    content = path.read_bytes()
    refuse_utf16(path, content)
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors=errors).read()


def refuse_utf16(path: Path, content: bytes) -> None:
    """RailgaugeError where a file that begins so is in UTF-16: no text in UTF-8 has a NUL there."""
    if encoding := _utf16(content[:2]):
        raise RailgaugeError(
            f"{path}: in {encoding} by its first bytes, {content[:2].hex(' ')}; expected UTF-8",
            next_step=f"iconv -f {encoding} -t UTF-8 {shlex.quote(str(path))} > FILE; give FILE",
        )


def _utf16(first: bytes) -> str | None:
    if first in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "UTF-16"
    # Without a mark, as of a text that begins with a printable character of ASCII.
    for encoding in ("UTF-16LE", "UTF-16BE"):
        text = first.decode(encoding, errors="replace")
        if text.isascii() and text.isprintable() and text:
            return encoding
    return None
