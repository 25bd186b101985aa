"""Words on the command line that are kept, and shown to others."""

from __future__ import annotations

from typing import Any

import click


class Words(click.types.StringParamType):
    """Text that says something: UTF-8, and not blank."""

    name = "text"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        text = str(value)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            readable = text.encode(errors="backslashreplace").decode()
            self.fail(f"{readable!r} is no UTF-8 at character {error.start + 1}.", param, ctx)
        if not text.strip():
            self.fail("it is empty.", param, ctx)
        return text
