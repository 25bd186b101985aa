"""`railgauge completion`: the script that completes commands and options in a shell."""

from __future__ import annotations

import click
from click import shell_completion

#: Where a shell looks for the script by itself, for one user.
_PLACES = {
    "bash": "~/.local/share/bash-completion/completions/railgauge",
    "zsh": "a folder of $fpath, as _railgauge",
    "fish": "~/.config/fish/completions/railgauge.fish",
}


@click.command(
    epilog="\n\n".join(f"{shell}: {place}" for shell, place in _PLACES.items()),
)
@click.argument("shell", type=click.Choice(list(_PLACES)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes railgauge's commands and options in SHELL.

    Write it to the file below, or read it in the shell that runs now: in bash
    `source <(railgauge completion bash)`. bash needs 4.4 or newer.
    """
    kind = shell_completion.get_completion_class(shell)
    assert kind is not None, shell
    program = context.find_root().command
    click.echo(kind(program, {}, "railgauge", "_RAILGAUGE_COMPLETE").source())
