"""`railgauge system new`: a system of one's own, made from one that is like it.

What is true of the class of machine is taken over (its fabric, its published numbers), what is true
of one site is not (its login nodes, nodes, baselines). All of it is there in the end, or nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.scalarstring import SingleQuotedScalarString

from railgauge import hostlist, paths, references, systems
from railgauge.atomic import write_text
from railgauge.errors import ConfigurationError, EnvironmentProblem, RailgaugeError
from railgauge.references import Entry
from railgauge.site import Slurm, SlurmNode, gpus_in, shown
from railgauge.site.check import belongs, host_pattern, published, slurm_partition
from railgauge.systems import Partition, System
from railgauge.yamlfile import load as load_yaml

#: Of a system's folder: what was recorded on its machines, and what only the lab has.
_LEFT_OUT = ("recorded", "lab.yaml", "site.lock", "__pycache__")


@dataclasses.dataclass(frozen=True)
class Found:
    """A partition of the description as Slurm has it; `gpus` only where all nodes agree."""

    partition: str
    slurm_partition: str
    nodes: tuple[SlurmNode, ...]
    gpus: int | None
    unclear: str = ""

    @property
    def names(self) -> str:
        return hostlist.fold(node.name for node in self.nodes)

    def __str__(self) -> str:
        gpus = "" if self.gpus is None else f", GPUs a node: {self.gpus}"
        lost = [node.name for node in self.nodes if node.state.startswith("down")]
        down = f"; {hostlist.fold(lost)} down, and kept" if lost else ""
        return (
            f"{self.partition} is Slurm's {self.slurm_partition}: "
            f"{len(self.nodes)} nodes, {self.names}{gpus}{down}"
        )


def chosen(options: Sequence[str]) -> dict[str, str]:
    """`ours=theirs` of every --partition; RailgaugeError where one is not of that form."""
    found = {}
    for option in options:
        ours, equals, theirs = option.partition("=")
        if not (ours and equals and theirs):
            raise RailgaugeError(
                f"--partition {option}: expected PARTITION=SLURM_PARTITION",
                next_step="name the partition of the description, then Slurm's: "
                "--partition gpu=batch",
            )
        found[ours] = theirs
    return found


def require_new(name: str, like: str) -> None:
    """RailgaugeError where the name cannot be given, or there is nothing to copy."""
    if not re.fullmatch("[a-z0-9][a-z0-9-]*", name):
        raise RailgaugeError(
            f"{name!r} is no name for a system: expected small letters, digits and hyphens, "
            "such as alps-gpu",
            next_step=f"railgauge system new NAME --like {like}",
        )
    if like not in systems.names():
        raise RailgaugeError(
            f"--like {like}: {shown(paths.SYSTEMS)}/ has no such system; it has: "
            f"{', '.join(systems.names())}",
            next_step=f"railgauge system new {name} --like ONE_OF_THESE",
        )
    for path in (paths.SYSTEMS / name, references.path_for(name)):
        if path.exists() or path.is_symlink():
            raise RailgaugeError(
                f"{shown(path)} exists, and nothing is overwritten",
                next_step=f"take another name, or move {shown(path)} away",
            )


def make(
    name: str, like: str, host: str, slurm: Slurm | None, choices: Mapping[str, str]
) -> list[str]:
    """Make the folder and the reference file of `name`; what a person should read, line by line.

    `choices` are partitions of `like` and Slurm's, for those that cannot be told by their names.
    Raises RailgaugeError, and leaves nothing behind, where anything of it cannot be done.
    """
    require_new(name, like)
    source = systems.load(like)
    found = mapped(source, slurm, choices) if slurm is not None else {}
    text, taken = references_text(name, like)
    with _beside() as folder:
        target = folder / name
        shutil.copytree(
            paths.SYSTEMS / like, target, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_OUT)
        )
        _rename_within(target, like, name)
        description = target / "reframe.yaml"
        changed = _description(description, name, host, found)
        lost = _fragments(target / "slurm", source, found)
        mentions = _mentions(target, like)
        description.write_text(
            f"# From {like}, by `railgauge system new`: sources that comments name are of {like}.\n"
            f"{changed}",
            encoding="utf-8",
        )
        _put_in_place(target, name, text, found)
    lines = [
        f"made {shown(paths.SYSTEMS / name)}/ like {like}",
        f"made {shown(references.path_for(name))}: {taken}",
        *_said_of_host(name, host),
        *(f"Slurm: {partition}" for partition in found.values()),
        *(f"not mapped: {partition.unclear}" for partition in found.values() if partition.unclear),
        *_said_of_unmapped(source, slurm, found),
        *lost,
    ]
    return [*lines, "", *_next_steps(name, like, found, mentions)]


# --- files ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def _beside() -> Iterator[Path]:
    """A folder in which a system can be made, on the file system where it will be.

    What is in it lies one level too deep to be taken for a system meanwhile.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=".new-", dir=paths.SYSTEMS))
    except OSError as error:
        raise _not_made(paths.SYSTEMS, error) from None
    try:
        yield folder
    except OSError as error:
        raise _not_made(paths.SYSTEMS, error) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _not_made(path: Path, error: OSError) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"{shown(path)}: {error.strerror or error}: nothing was made",
        next_step="work in a clone that you may write to, with room in it; RAILGAUGE_REFERENCES "
        "can name another folder for references",
    )


def _put_in_place(target: Path, name: str, text: str, found: Mapping[str, Found]) -> None:
    """The folder and the reference file, both, loaded without error; or neither."""
    place, file = paths.SYSTEMS / name, references.path_for(name)
    made: list[Path] = []
    try:
        try:
            target.rename(place)
            made.append(place)
            file.parent.mkdir(exist_ok=True)
            write_text(file, text)
            made.append(file)
        except OSError as error:
            raise _not_made(file if made else place, error) from None
        made_system = systems.load(name)
        for partition in found.values():
            if made_system.partition(partition.partition).extras.nodes != partition.names:
                raise RailgaugeError(
                    f"partitions share what is written of their nodes, by an alias: {partition} "
                    "would be that of others too; nothing was made",
                    next_step="the same command without --from-slurm, then edit the nodes",
                )
        references.load(name)
    except BaseException:
        for path in made:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        systems.load.cache_clear()
        raise


def _texts(folder: Path) -> Iterator[tuple[Path, str]]:
    """The files of a folder that are text."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def _rename_within(target: Path, like: str, name: str) -> None:
    """Let the copy speak of its own files; and be writable, where the original is not."""
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200)
    for path, text in _texts(target):
        changed = text
        for place in ("configs/systems/{}/", "results/references/{}.yaml", "include {}/"):
            changed = changed.replace(place.format(like), place.format(name))
        if changed != text:
            path.write_text(changed, encoding="utf-8")


def _mentions(target: Path, like: str) -> list[str]:
    """The files of the copy in which the original's name is left."""
    word = re.compile(rf"(?<![\w-]){re.escape(like)}(?![\w])")
    return [str(path.relative_to(target)) for path, text in _texts(target) if word.search(text)]


# --- YAML ----------------------------------------------------------------------------------------


class _Explicit(RoundTripRepresenter):
    """Writes null as null: nothing at all looks like something forgotten."""

    def represent_none(self, value: None) -> Any:
        return self.represent_scalar("tag:yaml.org,2002:null", "null")


_Explicit.add_representer(type(None), _Explicit.represent_none)


def _yaml() -> YAML:
    yaml = YAML()
    yaml.Representer = _Explicit
    yaml.preserve_quotes = True
    yaml.width = 100
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _dumped(yaml: YAML, document: Any) -> str:
    stream = io.StringIO()
    yaml.dump(document, stream)
    # A long line that was folded keeps its space before the break.
    written = stream.getvalue()
    bare = re.sub(r"[ \t]+$", "", written, flags=re.MULTILINE)
    plain = YAML(typ="safe", pure=True)
    return bare if plain.load(bare) == plain.load(written) else written


def _description(path: Path, name: str, host: str, found: Mapping[str, Found]) -> str:
    """reframe.yaml with the new system's name, login node, and nodes where they are known."""
    document = _yaml().load(path.read_text(encoding="utf-8"))
    document["name"] = name
    _replace(document, "hostnames", [SingleQuotedScalarString(host_pattern(host))])
    for partition in document["partitions"]:
        extras = partition["extras"]
        # Nodes that another site knows to be missing.
        extras.pop("absent", None)
        ours = found.get(partition["name"])
        if ours is None:
            continue
        others = [o for o in partition.get("access", []) if slurm_partition([o]) is None]
        _replace(partition, "access", [f"--partition={ours.slurm_partition}", *others])
        extras["nodes"] = ours.names
        if ours.gpus is not None:
            extras["nccl"]["gpus_per_node"] = ours.gpus
            for device in partition.get("devices", []):
                if device.get("type") == "gpu":
                    device["num_devices"] = ours.gpus
    return _dumped(_yaml(), document)


def _replace(mapping: CommentedMap, key: str, values: list[str]) -> None:
    """Put `values` into a list without losing the comments around it."""
    if not isinstance(mapping.get(key), list) or not mapping[key]:
        mapping[key] = values
        return
    old = mapping[key]
    del old[len(values) :]
    for place, value in enumerate(values):
        if place < len(old):
            old[place] = value
        else:
            old.append(value)


# --- references ----------------------------------------------------------------------------------


_NO_NUMBER = "# No number is known yet.\n"


def references_text(name: str, like: str) -> tuple[str, str]:
    """The reference file of `name`, and in words what was taken over from that of `like`.

    Published numbers hold for the class of machine. Baselines and floors are of one site, and so
    are ratios that a campaign has shown.
    """
    path = references.path_for(like)
    if not path.exists():
        said = f"no numbers, as {shown(path)} does not exist"
        return f"{_NO_NUMBER}system: {name}\nreferences: []\n", said
    stored = references.load(like)
    text = path.read_text(encoding="utf-8")
    numbers = sum(len(entry.metrics) for entry in stored.entries)
    kept = sum(len(_published_in(entry)) for entry in stored.entries)
    ratios = [ratio.name for ratio in stored.ratios if published(ratio)]
    dropped = numbers - kept + len(stored.ratios) - len(ratios)
    said = f"{kept} published numbers and {len(ratios)} ratios of {like}"
    if not dropped:
        # As it is, with its comments.
        return re.sub(r"(?m)^(system:\s*)\S+", rf"\g<1>{name}", text, count=1), said
    said += f"; left out, as they are of {like}'s own machines: {dropped}"
    document = YAML(typ="safe", pure=True).load(text)
    document["system"] = name
    document["references"] = [
        {**written, "metrics": {metric: written["metrics"][metric] for metric in metrics}}
        for written, entry in zip(document["references"], stored.entries, strict=True)
        if (metrics := _published_in(entry))
    ]
    if "ratios" in document:
        document["ratios"] = [r for r in document["ratios"] if r["name"] in ratios]
    yaml = _yaml()
    yaml.representer.ignore_aliases = lambda _: True
    # Comments belong to what stood below them, which may be gone.
    header = f"# Published numbers, taken over from {like} by `railgauge system new`.\n"
    return (header if kept or ratios else _NO_NUMBER) + _dumped(yaml, document), said


def _published_in(entry: Entry) -> list[str]:
    return [metric for metric, number in entry.metrics.items() if number.kind == "published"]


# --- Slurm ---------------------------------------------------------------------------------------


def mapped(system: System, slurm: Slurm, choices: Mapping[str, str]) -> dict[str, Found]:
    """Slurm's partitions for those of the description, as far as it can be told which is which.

    By choice, by name, or because there is only one of each. RailgaugeError where a choice names
    what does not exist, or where nothing can be told.
    """
    names = [partition.name for partition in system.partitions]
    for ours, theirs in choices.items():
        if ours not in names:
            raise RailgaugeError(
                f"--partition {ours}={theirs}: {system.name} has no partition {ours!r}; "
                f"it has: {', '.join(names)}",
                next_step=f"--partition {names[0]}={theirs}",
            )
        if not slurm.partitions.get(theirs):
            raise RailgaugeError(
                f"--partition {ours}={theirs}: Slurm has no partition {theirs!r} with nodes; "
                f"it has: {slurm.describe()}",
                next_step=f"--partition {ours}=ONE_OF_THESE",
            )
    peopled = [name for name, nodes in slurm.partitions.items() if nodes]
    found = {}
    for partition in system.partitions:
        named = (choices.get(partition.name), partition.name, _sent_to(partition))
        only = peopled if len(peopled) == len(names) == 1 else []
        theirs_or_none = next((n for n in (*named, *only) if n in peopled), None)
        if theirs_or_none is not None:
            found[partition.name] = _found(partition, theirs_or_none, slurm)
    if not found:
        raise RailgaugeError(
            f"cannot tell which of Slurm's partitions is which of {system.name}'s "
            f"({', '.join(names)}): Slurm has {slurm.describe()}; nothing was made",
            next_step=f"the same command with --partition {names[0]}=ONE_OF_THESE",
        )
    return found


def _sent_to(partition: Partition) -> str | None:
    return slurm_partition(partition.model_dump().get("access"))


def _found(partition: Partition, theirs: str, slurm: Slurm) -> Found:
    nodes = tuple(slurm.nodes[name] for name in slurm.partitions[theirs])
    gpus, unclear = _gpus(partition, nodes)
    return Found(partition.name, theirs, nodes, gpus, unclear)


def _gpus(partition: Partition, nodes: Sequence[SlurmNode]) -> tuple[int | None, str]:
    """The number of GPUs of every node, or why there is none such."""
    if partition.extras.nccl is None:
        return None, ""
    by_count: dict[int, list[str]] = {}
    for node in nodes:
        try:
            by_count.setdefault(gpus_in(node.gres), []).append(node.name)
        except ValueError as error:
            return None, f"gpus_per_node of {partition.name}: {node.name}: {error}"
    if len(by_count) == 1 and 0 not in by_count:
        return next(iter(by_count)), ""
    parts = [f"{count} on {hostlist.fold(names)}" for count, names in sorted(by_count.items())]
    return None, (
        f"gpus_per_node of {partition.name}: Slurm's Gres has {', '.join(parts)}, expected one "
        f"number for all; still {partition.extras.nccl.gpus_per_node}: mend gres.conf, or make a "
        "partition of each kind"
    )


def _fragments(folder: Path, source: System, found: Mapping[str, Found]) -> list[str]:
    """Put Slurm's nodes into slurm/*.conf in place of the original's; what could not be done."""
    lines = []
    for path, text in _texts(folder) if found else []:
        changed, stale, told = [], [], set()
        for number, line in _lines(text):
            values = _for_fragment(line, source, found)
            nodes = (values or {}).get("nodename")
            if values is None and re.match("(?i)(node|partition|block|switch)name=", line):
                stale += [] if re.match("(?i)[a-z]+name=default", line) else [str(number)]
            if nodes is None or nodes not in told:
                # Of several lines for the original's nodes the first is for all of ours.
                changed.append(_with_values(line, values or {}))
            told.add(nodes)
        path.write_text("".join(changed), encoding="utf-8")
        if stale:
            where = f"slurm/{path.relative_to(folder)}:{', '.join(stale)}"
            lines.append(f"not mapped: {where}, still {source.name}'s")
    return lines


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers (from 1); one that a backslash continues is one."""
    for line in re.finditer(r"(?:[^\n]*\\\n)*[^\n]*(?:\n|$)", text):
        yield text.count("\n", 0, line.start()) + 1, line[0]


def _with_values(line: str, values: Mapping[str, str]) -> str:
    """A line of slurm.conf with other values of the options that it has."""
    return re.sub(
        r"(\w+)=(\S+)",
        lambda o: f"{o[1]}={values.get(o[1].lower(), o[2])}" if values else o[0],
        line,
    )


def _for_fragment(line: str, source: System, found: Mapping[str, Found]) -> dict[str, str] | None:
    """What a line about a mapped partition, or its nodes, is to say; None of any other line."""
    if not re.match("(?i)(node|partition)name=", line):
        return None
    options = {key.lower(): value for key, value in re.findall(r"(\w+)=(\S+)", line)}
    for partition in source.partitions:
        ours = found.get(partition.name)
        if ours is None:
            continue
        if _nodes(options.get("nodename")) & _nodes(partition.extras.nodes):
            return {"nodename": ours.names, **_agreed(ours.nodes)}
        if options.get("partitionname") == _sent_to(partition):
            same = _nodes(options.get("nodes")) == _nodes(partition.extras.nodes)
            nodes = {"nodes": ours.names} if same else {}
            return {"partitionname": ours.slurm_partition, **nodes}
    return None


def _nodes(names: str | None) -> set[str]:
    try:
        return set(hostlist.expand(names or ""))
    except ValueError:
        return set()


def _agreed(nodes: Sequence[SlurmNode]) -> dict[str, str]:
    """What Slurm says of all these nodes alike, by slurm.conf's names."""
    said: dict[str, set[str]] = {
        "cpus": {str(node.cpus or "") for node in nodes},
        "realmemory": {str(node.memory_mib or "") for node in nodes},
        "gres": {re.sub(r"\([^)]*\)", "", node.gres) for node in nodes},
        "feature": {node.features for node in nodes},
    }
    agreed = {name: values.pop() for name, values in said.items() if len(values) == 1}
    return {name: value for name, value in agreed.items() if value}


# --- what to say ---------------------------------------------------------------------------------


def _said_of_host(name: str, host: str) -> list[str]:
    others = []
    for other in systems.names():
        # One that is broken is what `system check` tells.
        with contextlib.suppress(ConfigurationError):
            others += [other] if other != name and belongs(systems.load(other), host) else []
    lines = [f"hostnames: {host_pattern(host)}, this host alone"]
    if others:
        lines.append(
            f"but this host is of {', '.join(others)} too: mend their hostnames, or name the "
            f"system each time: RFM_SYSTEM={name}"
        )
    return lines


def _said_of_unmapped(source: System, slurm: Slurm | None, found: Mapping[str, Found]) -> list[str]:
    if slurm is None:
        return []
    used = {partition.slurm_partition for partition in found.values()}
    spare = [name for name in slurm.partitions if name not in used]
    lines = [
        f"not mapped: partition {p.name}, still {source.name}'s: fill it in, or take it out"
        for p in source.partitions
        if p.name not in found
    ]
    if spare:
        lines.append(f"not used: Slurm's {', '.join(spare)}")
    return lines


#: What to look at in a partition's extras.
_TO_EDIT = {
    "nodes": "all that belong there, also those that are down",
    "mtu_bytes": "of the TCP path",
    "link_gbits": "the raw rate of the link that TCP uses",
    "launch_options": "what the launcher needs to start MPI",
    "required": "the checks without which nothing is accepted",
    "rdma": "devices, rails, rate, MTU",
    "bond": "device, links, rate",
    "nics": "interfaces, cable by cable, and their rates",
    "mpi": "the MPI program that is timed beside a transfer, and how the transfer is tuned",
    "wan": "round trips, and the commands that make them",
    "transfers": "tools, sets of files, and a folder with room for them",
    "nccl": "GPUs, NICs by name, binaries, segments",
}


def _next_steps(
    name: str, like: str, found: Mapping[str, Found], mentions: Sequence[str]
) -> list[str]:
    path = paths.SYSTEMS / name / "reframe.yaml"
    document = load_yaml(path)
    places = [
        (document.lc.key("hostnames")[0], "hostnames: patterns of the other login nodes, too")
    ]
    for partition in document["partitions"]:
        here, ours = partition["name"], partition["name"] in found
        if "access" in partition and not ours:
            line = partition.lc.key("access")[0]
            places.append((line, f"{here}: access: the Slurm partition, and an account if need be"))
        extras = partition["extras"]
        if ours and "segment_nodes" in extras.get("nccl", {}):
            what = "nodes: a segment is the next of them, in the order of their names"
            places.append((extras.lc.key("nodes")[0], f"{here}: {what}"))
        places += [
            (extras.lc.key(key)[0], f"{here}: {key}: {meaning}")
            for key, meaning in _TO_EDIT.items()
            if key in extras.lc.data and not (key == "nodes" and ours)
        ]
    lines = ["next:", "1. edit, where your machines are others:"]
    lines += [f"   {shown(path)}:{line + 1}: {what}" for line, what in sorted(places)]
    if mentions:
        lines.append(f"   still about {like}: {', '.join(mentions)} in {shown(path.parent)}/")
    return [
        *lines,
        f"2. railgauge system check {name}",
        f"3. railgauge accept --plan --system {name}",
    ]
