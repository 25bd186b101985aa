"""A group of commands that are loaded when they are called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem


class Place(NamedTuple):
    """Where a command is, `module:name`, and the first sentence of its help."""

    where: str
    first_sentence: str


class LazyGroup(click.Group):
    """Most of the time of a short command went into loading the others.

    `places` has each command that is loaded when it is called. Others are added as to any group.
    `sections` has headings of the group's help, each with its commands in their order; what is in
    none of them stands below `Commands`.
    The group's own help and completion take the first sentences from `places`, so they load no
    command.
    """

    def __init__(
        self,
        *args: Any,
        places: Mapping[str, Place],
        sections: Mapping[str, Sequence[str]] = {},
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.places, self.sections = places, sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.places, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self.places.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, name = place.where.partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        known = self.outline().commands
        room = formatter.width - 6 - max(map(len, known), default=0)
        listed = {name for names in self.sections.values() for name in names}
        others = [name for name in sorted(known) if name not in listed]
        for heading, names in (*self.sections.items(), ("Commands", others)):
            if names:
                with formatter.section(heading):
                    rows = [(name, known[name].get_short_help_str(room)) for name in names]
                    formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        outline = self.outline()
        within = click.Context(
            outline, info_name=ctx.info_name, parent=ctx.parent, **self.context_settings
        )
        return outline.shell_complete(within, incomplete)

    def outline(self) -> click.Group:
        """This group, with commands that only have a name and the first sentence of a help."""
        known = {
            name: click.Command(name, help=place.first_sentence)
            for name, place in self.places.items()
        }
        return click.Group(self.name, commands={**known, **self.commands}, params=self.params)
