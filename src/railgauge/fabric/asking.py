"""The commands that read a subnet. None of them changes anything in it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from railgauge.common.atomic import write_text
from railgauge.fabric.folder import FabricError

#: File -> the command that prints it. `perfquery -R` and `ibqueryerrors -k` and `-K` clear counters
#: and `ibportstate` and `opensm` set things: none of them belongs here.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "ibnetdiscover.txt": ("ibnetdiscover",),
    "iblinkinfo.txt": ("iblinkinfo", "-l"),
    "ibqueryerrors.txt": ("ibqueryerrors", "--details", "--threshold-file", "/dev/null"),
    "dump_fts.txt": ("dump_fts",),
    "saquery.txt": ("saquery", "-s"),
    "sminfo.txt": ("sminfo",),
}
#: Run once for each thing that an earlier output lists, which is its last word: that file, and the
#: pattern of the thing. Each subnet manager is asked for its state, by its LID.
#: Those behind `IsSMdisabled ports` have none that answers.
EACH: Mapping[str, tuple[str, str]] = {
    "sminfo.txt": ("saquery.txt", r"EndPortLid\.+([0-9]+)(?=[\s\S]*\nIsSMdisabled ports\n)")
}
#: What a subnet is judged without, where it cannot be read.
OPTIONAL = frozenset({"saquery.txt", "sminfo.txt"})
#: The outputs of a reading of a campaign, in the case's folder.
FOLDER = "subnet"
#: The exit codes of a command that printed all: ibqueryerrors ends with 1 where it found errors.
_GOOD: Mapping[str, tuple[int, ...]] = {"ibqueryerrors": (0, 1)}
#: Of one command. Discovery of 2,000 hosts takes seconds; an SM that does not answer, forever.
_LIMIT_S = 600

RIGHTS = (
    "run it where /dev/infiniband/umad* can be read: as root, by sudo of these commands, or with a "
    'udev rule: KERNEL=="umad*", GROUP="rdma", MODE="0660"'
)


class Command(NamedTuple):
    """A command, and the exit codes with which it has printed all; `each` as in `EACH`."""

    argv: tuple[str, ...]
    good: tuple[int, ...]
    each: tuple[str, str] | None = None


def commands(device: str = "", prefix: Sequence[str] = ()) -> dict[str, Command]:
    """The commands by file. They ask by a local port, as in `mlx5_0:1`, else by one that they
    choose. The words of `prefix` stand before each, as in `ssh sm1`.
    """
    options = device_options(device)
    return {
        name: Command((*prefix, *command, *options), _GOOD.get(command[0], (0,)), EACH.get(name))
        for name, command in COMMANDS.items()
    }


def commands_of(devices: Sequence[str], prefix: Sequence[str] = ()) -> dict[str, Command]:
    """The commands for several subnets, each by a local port; the files of all but the first are in
    a folder that has the port's name.
    """
    first, *further = devices or ("",)
    found = commands(first, prefix)
    for device in further:
        for name, command in commands(device, prefix).items():
            each = command.each and (f"{device}/{command.each[0]}", command.each[1])
            found[f"{device}/{name}"] = command._replace(each=each)
    return found


def device_options(device: str) -> tuple[str, ...]:
    """The options of all commands for a local port such as `mlx5_0:1`; none for ""."""
    if not device:
        return ()
    name, _, port = device.partition(":")
    if not name or not port.isdigit() or name.startswith("-"):
        raise FabricError(
            f"--device {device}, expected a device and its port",
            next_step="--device mlx5_0:1; ibstat -l lists devices",
        )
    return "-C", name, "-P", port


def ask(device: str = "", routes: bool = True) -> dict[str, str]:
    """What the commands print, by file; FabricError of the first that fails and is needed."""
    texts: dict[str, str] = {}
    for name, command in commands(device).items():
        if name == "dump_fts.txt" and not routes:
            continue
        try:
            texts[name] = "".join(_output(argv, command.good) for argv in _calls(command, texts))
        except FabricError:
            if name not in OPTIONAL:
                raise
    return {name: text for name, text in texts.items() if text}


def _calls(command: Command, texts: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The calls of a command, each with its last word where it is run for each of several."""
    if command.each is None:
        return [command.argv]
    file, pattern = command.each
    return [
        (*command.argv, word) for word in dict.fromkeys(re.findall(pattern, texts.get(file, "")))
    ]


def _output(argv: Sequence[str], good: Collection[int]) -> str:
    if shutil.which(argv[0]) is None:
        raise FabricError(
            f"{argv[0]} is not installed here, expected infiniband-diags",
            next_step="run this on a host of the subnet, or give saved outputs: --from FOLDER",
        )
    shown = " ".join(argv)
    try:
        ended = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise FabricError(
            f"{shown}: no end after {_LIMIT_S} s", next_step=f"{shown}, by hand"
        ) from None
    except OSError as error:
        raise FabricError(f"{shown}: {error.strerror}", next_step=RIGHTS) from None
    if ended.returncode not in good or not ended.stdout:
        lines = ended.stderr.strip().splitlines()
        raise FabricError(
            f"{shown}: exit code {ended.returncode}{': ' + lines[-1] if lines else ''}",
            next_step=RIGHTS,
        )
    return ended.stdout


def save(texts: Mapping[str, str], folder: Path) -> None:
    """The outputs as files of a folder, for --from."""
    try:
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_text(folder / name, text)
    except OSError as error:
        raise FabricError(
            f"{folder}: cannot be written: {error.strerror}", next_step="--save another FOLDER"
        ) from None
