"""`railgauge system new`: a system of one's own, made from a template, or from one that is like it.

What is true of the class of machine is taken over (its fabric, its published numbers). What is true
of one site is not: its login nodes, nodes, baselines, ratios, what it tuned, what its nodes show.
All of it is there in the end, or nothing.
"""

from __future__ import annotations

import contextlib
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

from railgauge import paths, systems
from railgauge.common.atomic import write_text
from railgauge.common.errors import ConfigurationError, PrerequisiteError, RailgaugeError
from railgauge.fabric.folder import Fabric
from railgauge.model import references
from railgauge.model.references import Entry
from railgauge.site import from_subnet, host_pattern, shown, templates
from railgauge.site.check.description import slurm_partition
from railgauge.site.detect import Value
from railgauge.site.mapping import Mapped, fragments, mapped, texts
from railgauge.site.templates import DescribedPartition
from railgauge.slurm.partitions import Cluster
from railgauge.systems import System
from railgauge.yamlfile import load as load_yaml

#: Of a system's folder: what was recorded on its machines, and what only the lab has.
_LEFT_OUT = ("recorded", "lab.yaml", "site.lock", "__pycache__")

#: And what was chosen for those machines: settings, the stack's packages, firmware.
_CHOSEN_THERE = ("tuning", "spack", "expected.yaml", "fabric.json", "subnet.json")

_NOTHING_EXPECTED = """\
# What every node must show; configs/systems/dgx-h100/expected.yaml shows the form. Without entries
# nodes are looked at, and compared with each other.
expected: []
"""


def require_new(name: str, like: str) -> None:
    """RailgaugeError where the name cannot be given, or there is nothing to copy."""
    if not re.fullmatch("[a-z][a-z0-9-]{0,62}", name):
        shown_name = name if len(name) <= 63 else name[:60] + "..."
        raise RailgaugeError(
            f"{shown_name!r} is no name for a system: expected small letters, digits and hyphens, "
            "at most 63, the first a letter, such as alps-gpu",
            next_step=f"railgauge system new NAME --like {like}",
        )
    if name in templates.names():
        raise RailgaugeError(
            f"{name} is the name of a template",
            next_step=f"take another name: railgauge system new NAME --like {like}",
        )
    if like not in (*templates.names(), *systems.known()):
        raise RailgaugeError(
            f"--like {like}: {shown(paths.TEMPLATES)}/ has no such template; it has: "
            f"{', '.join(templates.names())}; nor is there such a system; there is: "
            f"{', '.join(systems.known())}",
            next_step=f"railgauge system new {name} --like ONE_OF_THESE",
        )
    for path in (paths.SYSTEMS / name, references.path_for(name)):
        if path.exists() or path.is_symlink():
            raise RailgaugeError(
                f"{shown(path)} exists, and nothing is overwritten",
                next_step=f"take another name, or move {shown(path)} away",
            )


def make(
    name: str,
    like: str,
    host: str,
    slurm: Cluster | None,
    choices: Mapping[str, str],
    filled: Mapping[str, Mapping[str, Value]] | None = None,
    access: Sequence[str] = (),
    subnet: Fabric | None = None,
) -> list[str]:
    """Make the folder and the reference file of `name`; what a person should read, line by line.

    `choices` are partitions of `like` and Slurm's, for those that their names do not match;
    `filled` has what is known of the nodes of Slurm's partitions, by the fields of the description,
    `access` what jobs need besides the partition, `subnet` the InfiniBand subnet of the nodes.
    Raises RailgaugeError, and leaves nothing behind, where anything of it cannot be done.
    """
    require_new(name, like)
    source = systems.load(like)
    mapping = mapped(source, slurm, choices) if slurm is not None else {}
    text, taken = references_text(name, like)
    left = [item for item in _CHOSEN_THERE if (paths.system_folder(like) / item).exists()]
    with _folder_of_systems() as folder:
        target = folder / name
        ignored = shutil.ignore_patterns(*_LEFT_OUT, *_CHOSEN_THERE)
        shutil.copytree(paths.system_folder(like), target, symlinks=True, ignore=ignored)
        _rename_within(target, like, name)
        description = target / "reframe.yaml"
        changed = _description(description, name, host, mapping, filled or {}, access)
        lost = fragments(target / "slurm", source, mapping)
        mentions = _mentions(target, like)
        if "expected.yaml" in left:
            (target / "expected.yaml").write_text(_NOTHING_EXPECTED, encoding="utf-8")
        description.write_text(
            f"# From {like}, by `railgauge system new`: sources that comments name are of {like}.\n"
            f"{changed}",
            encoding="utf-8",
        )
        of_subnet = _with_subnet(description, subnet)
        _put_in_place(target, name, text, {p.partition: p.names for p in mapping.values()})
    lines = [
        f"made {shown(paths.SYSTEMS / name)}/ like {like}",
        *([f"left out, as they are of {like}'s own machines: {', '.join(left)}"] if left else []),
        f"made {shown(references.path_for(name))}: {taken}",
        *_about_host(name, host),
        *(f"Slurm: {partition}" for partition in mapping.values()),
        *(
            f"not mapped: {partition.unclear}"
            for partition in mapping.values()
            if partition.unclear
        ),
        *_about_unmapped(source, slurm, mapping),
        *of_subnet,
        *lost,
    ]
    return [*lines, "", *_next_steps(name, like, mapping, mentions)]


def make_from_template(
    name: str,
    template: str,
    host: str,
    described: Sequence[DescribedPartition],
    notes: Sequence[str] = (),
    subnet: Fabric | None = None,
) -> list[str]:
    """The same from a template, with Slurm's partitions as they are `described`; none of them
    leaves one partition to be filled in. `notes` are what else a person should know of them.
    """
    require_new(name, template)
    text = f"{_NO_NUMBER}system: {name}\nreferences: []\n"
    with _folder_of_systems() as folder:
        target = folder / name
        target.mkdir()
        for path in templates.files(template):
            shutil.copyfile(path, target / path.name)
        written = templates.description(template, name, host, described)
        (target / "reframe.yaml").write_text(written, encoding="utf-8")
        of_subnet = _with_subnet(target / "reframe.yaml", subnet)
        _put_in_place(target, name, text, {one.name: one.nodes for one in described})
    opened = list(templates.open_fields(template, described))
    file = shown(paths.SYSTEMS / name / "reframe.yaml")
    return [
        f"made {file}, {len(written.splitlines())} lines, from the template {template}",
        f"made {shown(references.path_for(name))}: no number is known yet",
        *_about_host(name, host),
        *(f"{p.name}: Slurm's partition {p.slurm_partition}, {p.nodes}" for p in described),
        *notes,
        *of_subnet,
        *opened,
        *_about_floors(systems.load(name)),
        "",
        "next:",
        f"1. {'fill in what is open in' if opened or not described else 'look through'} {file}",
        f"2. railgauge system check {name} --run",
        f"3. railgauge accept --plan --system {name}",
    ]


# --- files ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def _folder_of_systems() -> Iterator[Path]:
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


def _not_made(path: Path, error: OSError) -> PrerequisiteError:
    return PrerequisiteError(
        f"{shown(path)}: {error.strerror or error}: nothing was made",
        next_step="work in a clone that you may write to, with room in it; RAILGAUGE_REFERENCES "
        "can name another folder for references",
    )


def _put_in_place(target: Path, name: str, text: str, nodes: Mapping[str, str]) -> None:
    """The folder and the reference file, both, loaded without error and with `nodes` in their
    partitions; or neither.
    """
    place, file = paths.SYSTEMS / name, references.path_for(name)
    made: list[Path] = []
    try:
        try:
            target.rename(place)
            made.append(place)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_text(file, text)
            made.append(file)
        except OSError as error:
            raise _not_made(file if made else place, error) from None
        made_system = systems.load(name)
        for partition, names in nodes.items():
            if made_system.partition(partition).extras.nodes != names:
                raise RailgaugeError(
                    f"partitions share their nodes by an alias: others would also get {names} of "
                    f"{partition}; nothing was made",
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


def _rename_within(target: Path, like: str, name: str) -> None:
    """Let the copy speak of its own files; and be writable, where the original is not."""
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200)
    for path, text in texts(target):
        changed = text
        for place in ("configs/systems/{}/", "results/references/{}.yaml", "include {}/"):
            changed = changed.replace(place.format(like), place.format(name))
        if changed != text:
            path.write_text(changed, encoding="utf-8")


def _mentions(target: Path, like: str) -> list[str]:
    """The files of the copy in which the original's name is left."""
    word = re.compile(rf"(?<![\w-]){re.escape(like)}(?![\w])")
    return [str(path.relative_to(target)) for path, text in texts(target) if word.search(text)]


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


def _description(
    path: Path,
    name: str,
    host: str,
    mapping: Mapping[str, Mapped],
    filled: Mapping[str, Mapping[str, Value]],
    access: Sequence[str],
) -> str:
    """reframe.yaml with the new system's name, login node, and nodes where they are known."""
    document = _yaml().load(path.read_text(encoding="utf-8"))
    document["name"] = name
    _replace(document, "hostnames", [SingleQuotedScalarString(host_pattern(host))])
    for partition in document["partitions"]:
        extras = partition["extras"]
        # Nodes that another site knows to be missing.
        extras.pop("absent", None)
        ours = mapping.get(partition["name"])
        if ours is None:
            continue
        others = [o for o in partition.get("access", []) if slurm_partition([o]) is None]
        _replace(partition, "access", [f"--partition={ours.slurm_partition}", *others, *access])
        extras["nodes"] = ours.names
        for field, value in filled.get(ours.slurm_partition, {}).items():
            if field in _OF_THE_LINK and field in extras:
                extras[field] = value
        if ours.gpus is not None:
            extras["nccl"]["gpus_per_node"] = ours.gpus
            for device in partition.get("devices", []):
                if device.get("type") == "gpu":
                    device["num_devices"] = ours.gpus
    return _dumped(_yaml(), document)


def _with_subnet(description: Path, subnet: Fabric | None) -> list[str]:
    """Write what a subnet says into a description and next to it; what was done."""
    if subnet is None:
        return []
    document = _yaml().load(description.read_text(encoding="utf-8"))
    lines = from_subnet.complete(document, subnet, description.parent)
    description.write_text(_dumped(_yaml(), document), encoding="utf-8")
    return lines


#: What is the site's even where the class of machine is known: the network under TCP.
_OF_THE_LINK = ("mtu_bytes", "link_gbits")


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

    Published numbers hold for the class of machine. Baselines and floors are of one site; a ratio
    is of machines that were tuned.
    """
    stored = references.load(like)
    if not stored.path.exists():
        taken = f"no numbers, as {shown(stored.path)} does not exist"
        return f"{_NO_NUMBER}system: {name}\nreferences: []\n", taken
    text = stored.path.read_text(encoding="utf-8")
    numbers = sum(len(entry.metrics) for entry in stored.entries)
    kept = sum(len(_published_in(entry)) for entry in stored.entries)
    dropped = numbers - kept + len(stored.ratios)
    taken = f"{kept} published numbers of {like}"
    if not dropped:
        # As it is, with its comments.
        return re.sub(r"(?m)^(system:\s*)\S+", rf"\g<1>{name}", text, count=1), taken
    taken += f"; left out, as they are of {like}'s own machines: {dropped}"
    document = YAML(typ="safe", pure=True).load(text)
    document["system"] = name
    document["references"] = [
        {**written, "metrics": {metric: written["metrics"][metric] for metric in metrics}}
        for written, entry in zip(document["references"], stored.entries, strict=True)
        if (metrics := _published_in(entry))
    ]
    document.pop("ratios", None)
    yaml = _yaml()
    yaml.representer.ignore_aliases = lambda _: True
    # Comments belong to what stood below them, which may be gone.
    header = f"# Published numbers, taken over from {like} by `railgauge system new`.\n"
    return (header if kept else _NO_NUMBER) + _dumped(yaml, document), taken


def _published_in(entry: Entry) -> list[str]:
    return [metric for metric, number in entry.metrics.items() if number.kind == "published"]


# --- what to say ---------------------------------------------------------------------------------


def _about_host(name: str, host: str) -> list[str]:
    others = []
    for other in systems.names():
        # One that is broken is what `system check` reports.
        with contextlib.suppress(ConfigurationError):
            if other != name and not systems.is_of_lab(other):
                others += [other] if systems.matches(systems.load(other), host) else []
    lines = [f"hostnames: {host_pattern(host)}, this host alone"]
    if others:
        lines.append(
            f"but this host is of {', '.join(others)} too, and every command refuses that: fix "
            f"their hostnames, or name the system each time: RFM_SYSTEM={name}"
        )
    return lines


def _about_floors(system: System) -> list[str]:
    """What a first acceptance is judged by, where there is no baseline yet."""
    lines = []
    for partition in system.partitions:
        extras = partition.extras
        if extras.floor_share is not None and extras.link_gbits is not None:
            lines.append(
                f"{partition.name}: until there is a baseline, TCP must reach "
                f"{extras.floor_share:.0%} of what {extras.link_gbits:g} Gb/s carry (at most "
                "5 Gb/s a stream): a floor, which proves that a link works, and no more"
            )
        elif extras.floor_share is not None:
            lines.append(
                f"{partition.name}: until link_gbits is stated (--link-gbits RATE, or in the file) "
                "there is no floor, and without a baseline nothing can be accepted"
            )
    return lines


def _about_unmapped(
    source: System, slurm: Cluster | None, mapping: Mapping[str, Mapped]
) -> list[str]:
    if slurm is None:
        return []
    used = {partition.slurm_partition for partition in mapping.values()}
    spare = [name for name in slurm.partitions if name not in used]
    lines = [
        f"not mapped: partition {p.name}, still {source.name}'s: fill it in, or take it out"
        for p in source.partitions
        if p.name not in mapping
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
    "mpi": "the MPI program that is timed during a transfer, and the tuning of the transfer",
    "wan": "round trips, and the commands that make them",
    "transfers": "tools, sets of files, and a folder with room for them",
    "nccl": "GPUs, NICs by name, binaries, segments",
}


def _next_steps(
    name: str, like: str, mapping: Mapping[str, Mapped], mentions: Sequence[str]
) -> list[str]:
    path = paths.SYSTEMS / name / "reframe.yaml"
    document = load_yaml(path)
    places = [
        (document.lc.key("hostnames")[0], "hostnames: patterns of the other login nodes, too")
    ]
    for partition in document["partitions"]:
        here, ours = partition["name"], partition["name"] in mapping
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
