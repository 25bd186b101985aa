"""`railgauge stack ...`, which is also what bin/stack runs."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from railgauge.errors import EXIT_USAGE, ConfigurationError, RailgaugeError
from railgauge.stack import lock as locks
from railgauge.stack import manifest


@click.group()
def stack() -> None:
    """The pinned stack of tools: build it by Spack, and compare its locks."""


@stack.command()
@click.argument("systems", nargs=-1)
def check(systems: tuple[str, ...]) -> None:
    """Compare pins, CPU target and GPU of every lock with spack.yaml, without Spack.

    Of a site's own lock also the versions of its externals.

    Exit code: 0 all agree, 3 a lock is out of step, or cannot be read.
    """
    found: list[locks.Difference] = []
    for system in systems or manifest.systems():
        wanted = manifest.read(system)
        reference = locks.read(wanted.lock)
        different = locks.differences(wanted, reference)
        if wanted.site_lock.exists():
            own = locks.read(wanted.site_lock, f"make stack SYSTEM={system}")
            different += locks.differences(wanted, own, site=True)
        if not different:
            click.echo(f"{system}: {len(reference.nodes)} nodes agree with spack.yaml")
        found += different
    require_none(found)


def require_none(found: list[locks.Difference]) -> None:
    """ConfigurationError that lists the differences, if there are any."""
    if found:
        paths = dict.fromkeys(str(difference.path) for difference in found)
        raise ConfigurationError(
            "\n".join(str(difference) for difference in found),
            next_step="make lock-check SPACK_ROOT=... solves again and writes the reference locks "
            f"that differ ({', '.join(paths)}); make stack SYSTEM=... a site's own",
        )


def main() -> NoReturn:
    """Run it by itself: what bin/stack does."""
    try:
        stack.main(standalone_mode=False, prog_name="stack")
    except RailgaugeError as error:
        click.echo(f"stack: {error}", err=True)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stack: interrupted", err=True)
        sys.exit(130)
    sys.exit(0)


if __name__ == "__main__":
    main()
