"""The manual pages, section 1, one a command: `make docs` writes them to site/man/man1."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click
from click_man.core import write_man_pages

from railgauge import version
from railgauge.cli import cli

#: What click-man writes at the begin of a line. Other text there that begins with `.` is text.
_MACRO = re.compile(r"\.(TH|SH|PP|TP|B)( |$)")
#: click's mark of a paragraph that keeps its lines, up to the end of the paragraph.
_AS_TYPED = re.compile(r"^\x08\n(.*?)(?=^\.(?:PP|SH)|\Z)", re.DOTALL | re.MULTILINE)


def write(folder: Path) -> None:
    """Write railgauge.1, railgauge-gate-run.1 and so on into that folder.

    The date is today, or that of SOURCE_DATE_EPOCH.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = loaded(cli)
    write_man_pages("railgauge", program, version=version.current().number, target_dir=str(folder))
    for path in folder.glob("*.1"):
        path.write_text(as_roff(path.read_text(encoding="utf-8")), encoding="utf-8")


def loaded(group: click.Group) -> click.Group:
    """A group with all its commands: click-man does not see those that are loaded later."""
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    commands = {
        name: loaded(one) if isinstance(one, click.Group) else one
        for name, one in found.items()
        if one is not None
    }
    return click.Group(group.name, commands=commands, help=group.help, params=group.params)


def as_roff(page: str) -> str:
    """A page of click-man 0.6.0 without what roff would read in another way.

    click-man writes help texts as they are: roff drops a line that begins with a full stop or an
    apostrophe, and fills paragraphs that must keep their lines.
    """
    lines = (
        rf"\&{line}" if line[:1] in (".", "'") and not _MACRO.match(line) else line
        for line in page.splitlines()
    )
    return _AS_TYPED.sub(r".nf\n\1.fi\n", "\n".join(lines) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
