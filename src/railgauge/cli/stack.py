"""`railgauge stack ...`, which is also what bin/stack runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NoReturn

import click

from railgauge.cli import commands
from railgauge.cli.output import json_option, print_json
from railgauge.common import atomic
from railgauge.common.errors import ConfigurationError, RailgaugeError
from railgauge.stack import activation, externals, intact, manifest
from railgauge.stack import build as building
from railgauge.stack import lock as locks
from railgauge.stack.fetching import Purpose, Supply

#: What writes the reference locks.
SOLVE = "bin/stack solve --write"


@click.group()
def stack() -> None:
    """The pinned stack of tools: build it by Spack, and compare its locks."""


@stack.command()
@click.argument("systems", nargs=-1)
@json_option("stack-check")
def check(systems: tuple[str, ...], as_json: bool) -> None:
    """Compare pins, CPU target and GPU of every lock with spack.yaml, without Spack.

    Of a site's own lock also the versions of its externals. Without SYSTEMS it leaves out those
    without a reference lock, and names them.

    Exit code: 0 all agree, 3 a lock is out of step, or cannot be read.
    """
    differences: list[locks.Difference] = []
    documents = []
    unsolved = [] if systems else sorted({*manifest.systems()} - {*manifest.solved_systems()})
    for system in systems or manifest.solved_systems():
        wanted = manifest.read(system)
        reference = locks.read(wanted.lock)
        different = locks.differences(wanted, reference)
        if wanted.site_lock.exists():
            own = locks.read(wanted.site_lock, f"make stack SYSTEM={system}")
            different += locks.differences(wanted, own, site=True)
        documents.append(
            {
                "system": system,
                "nodes": len(reference.nodes),
                "differences": [
                    {**dataclasses.asdict(one), "path": str(one.path)} for one in different
                ],
            }
        )
        if not different and not as_json:
            click.echo(f"{system}: {len(reference.nodes)} nodes agree with spack.yaml")
        differences += different
    if as_json:
        print_json(documents)
    elif unsolved:
        click.echo(f"without a reference lock: {', '.join(unsolved)}; next: {SOLVE}")
    require_none(differences)


@stack.command()
@click.argument("system")
@click.option("--mirror", type=click.Path(path_type=Path), help="Sources from here, no network.")
@click.option(
    "--only", multiple=True, help="Only these tools, by name; more than once for several."
)
@click.option("--jobs", type=click.IntRange(min=1), help="Compilers at a time.")
def build(system: str, mirror: Path | None, only: tuple[str, ...], jobs: int | None) -> None:
    """Solve with what SYSTEM's site has, store its lock, install, and write the activation.

    A tool is built again if its programs were changed or removed since.

    $SPACK_ROOT and $SPACK_PACKAGES name checkouts to copy the pinned commits of Spack and of its
    recipes from; else they are fetched. Nothing else of such a checkout is used.

    Exit code: 0 installed, 3 not, with what to do.
    """
    wanted = _known_tools(manifest.read(system), only)
    building.require_folder(system)
    externals.require(wanted, externals.problems(wanted))
    spack = building.prepare(wanted, Supply(mirror.absolute() if mirror else None))
    externals.require(wanted, externals.version_problems(wanted, spack.detect))
    solved = building.solve(spack)
    require_none(locks.differences(wanted, locks.read(solved), site=True))
    folder = building.state_folder() / system
    packages = spack.describe()
    damaged = intact.damaged(packages)
    for tool in activation.require_all(wanted, packages, only, folder):
        click.echo(f"left out, as spack.yaml no longer asks for it: {tool}")
    needed = spack.describe(only) if only else packages
    for package in needed:
        package["installed"] = package["installed"] and package["hash"] not in damaged
    if spack.supply.mirror:
        building.require_sources(needed, spack.supply, system)
    if again := [package["hash"] for package in needed if package["hash"] in damaged]:
        for each in again:
            click.echo(f"rebuilt: {damaged[each]}")
        building.forget(spack, again)
    parallel = [f"-j{jobs}"] if jobs else []
    spack.run("install", "install", "--only-concrete", *parallel, *only)
    for tool in activation.write(wanted, spack.describe(), folder):
        click.echo(tool)
    atomic.write_text(wanted.site_lock, solved.read_text(encoding="utf-8"))
    click.echo(f"the site's lock: {wanted.site_lock}")
    click.echo(f"RAILGAUGE_SYSTEM={system} (or RFM_SYSTEM), then: source activate.sh")


@stack.command()
@click.argument("system")
@click.argument("mirror", type=click.Path(path_type=Path))
def mirror(system: str, mirror: Path) -> None:
    """Fill the folder MIRROR with all that `build --mirror` needs for SYSTEM.

    It can be run for several systems, on any connected machine.
    """
    wanted = manifest.read(system)
    if mirror == Path():
        raise RailgaugeError(
            "MIRROR: found none, expected the folder to fill",
            next_step=f"make mirror SYSTEM={system} MIRROR=dir",
        )
    spack = building.prepare(wanted, Supply(purpose=Purpose.FILL))
    building.solve(spack)
    building.fill_mirror(spack, mirror.absolute())
    click.echo(f"{mirror} has all of {system}")


@stack.command()
@click.argument("systems", nargs=-1)
@click.option("--write", is_flag=True, help="Write the reference locks again.")
def solve(systems: tuple[str, ...], write: bool) -> None:
    """Solve again in a copy, and compare with the reference locks, by Spack.

    Without SYSTEMS all that have such a lock; with --write all.

    Exit code: 0 the same, 3 not.
    """
    changed = []
    for system in systems or (manifest.systems() if write else manifest.solved_systems()):
        wanted = manifest.read(system)
        if not write:
            locks.read(wanted.lock)
        spack = building.prepare(wanted, Supply(purpose=Purpose.SOLVE))
        with building.solved_in_a_copy(spack) as fresh:
            require_none(locks.differences(wanted, locks.read(fresh)))
            if write:
                atomic.write_text(wanted.lock, fresh.read_text(encoding="utf-8"))
                click.echo(f"{system}: wrote {wanted.lock}")
            elif names := locks.changes(wanted.lock, fresh):
                changed.append(f"{wanted.lock}: solved otherwise now: {', '.join(names)}")
            else:
                click.echo(f"{system}: solved again, and the same")
    if changed:
        raise ConfigurationError("\n".join(changed), next_step=f"{SOLVE}, and look at git diff")


def _known_tools(wanted: manifest.Stack, only: tuple[str, ...]) -> manifest.Stack:
    names = [pin.name for pin in wanted.pins]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise RailgaugeError(
            f"ONLY: found {', '.join(unknown)}, expected some of {', '.join(names)}",
            next_step=f'make stack SYSTEM={wanted.system} ONLY="{names[0]}"',
        )
    return wanted


def require_none(differences: list[locks.Difference]) -> None:
    """ConfigurationError that lists the differences, if there are any."""
    if differences:
        raise ConfigurationError(
            "\n".join(str(difference) for difference in differences),
            next_step=f"{SOLVE} for a reference lock; for a site's own: make stack SYSTEM=...",
        )


def main() -> NoReturn:
    """Run it by itself: what bin/stack does."""
    commands.run(stack, "stack")


if __name__ == "__main__":
    main()
