"""`railgauge system check`: is a system's folder, with its references, what it must be?

Nothing runs but two questions to Slurm. What the checks in reframe/ need of a partition is read
from their files, without ReFrame.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from railgauge import expected, hostlist, paths, references, systems
from railgauge.errors import ConfigurationError, EnvironmentProblem
from railgauge.gate.store import rules as gate_rules
from railgauge.measurement import METRICS
from railgauge.nccl import Nccl, Scale
from railgauge.references import Condition, Entry, Ratio, References, Side
from railgauge.site import host_pattern, shown
from railgauge.site.templates import PLACEHOLDER
from railgauge.sizes import format_size
from railgauge.slurm.nodes import gpus_in
from railgauge.slurm.partitions import Cluster, Run, cluster
from railgauge.systems import Nics, NicScale, Partition, System, Tcp
from railgauge.tools.file_transfer import DISCARDED, FileSet
from railgauge.yamlfile import load as load_yaml

Status = Literal["ok", "problem", "warning", "hint", "not checked"]


@dataclasses.dataclass(frozen=True)
class Line:
    """One thing that was checked, or could not be."""

    status: Status
    thing: str
    said: str
    next_step: str = ""

    def __str__(self) -> str:
        following = f"; next: {self.next_step}" if self.next_step else ""
        return f"{self.status:<11}  {self.thing}: {self.said}{following}"


def summary(name: str, lines: Sequence[Line]) -> str:
    """The last line: how many of each."""
    words: dict[Status, tuple[str, str]] = {
        "ok": ("ok", "ok"),
        "problem": ("problem", "problems"),
        "warning": ("warning", "warnings"),
        "hint": ("hint", "hints"),
        "not checked": ("not checked", "not checked"),
    }
    counts = {status: sum(line.status == status for line in lines) for status in words}
    told = {s: n for s, n in counts.items() if n or s in ("ok", "problem")}
    return f"{name}: " + ", ".join(f"{n} {words[s][n != 1]}" for s, n in told.items())


def broken(lines: Sequence[Line]) -> bool:
    """Whether the description itself does not load."""
    return any(line.thing == "everything else" for line in lines)


def asked_slurm(lines: Sequence[Line]) -> bool:
    """Whether this host's Slurm is the system's, and has answered."""
    return any(line.thing.endswith(": nodes in Slurm") for line in lines)


def failed(lines: Sequence[Line]) -> bool:
    return any(line.status == "problem" for line in lines)


def check(name: str, ask: Run, host: str, named_by: str = "") -> list[Line]:
    """Everything about the system `name`, as seen from `host`.

    `named_by` is the system that the environment names (RFM_SYSTEM), which tells whose Slurm `ask`
    reaches where the host does not. ConfigurationError where there is no such system.
    """
    if name not in systems.names():
        raise ConfigurationError(
            f"{shown(paths.SYSTEMS / name / 'reframe.yaml')}: no such file; there is: "
            f"{', '.join(systems.names())}",
            next_step=f"name one of these, or: railgauge system new {name}",
        )
    try:
        system = systems.load(name)
    except ConfigurationError as error:
        lines = [Line("problem", "description", line) for line in str(error).splitlines()]
        return [*lines, Line("not checked", "everything else", "it follows from the description")]
    others, lines = _others(name)
    lines = [*_description(system), *lines, *_hostnames(system, others, host)]
    checks, broken = known_checks(paths.CHECKS)
    lines += broken
    for partition in system.partitions:
        lines += _fields(system, partition)
        lines += _features(partition, checks)
        lines += _placeholders(partition, others)
    stored, found = _references(system, checks)
    lines += found
    for partition in system.partitions:
        lines += _required(partition, checks, stored)
    lines += _expected(system, checks)
    lines += _fragments(system)
    lines += _gate(name)
    lines += _in_slurm(system, others, ask, host, named_by)
    return lines


def _gate(name: str) -> list[Line]:
    """What the firmware gate of the system watches, and how much it may take away."""
    try:
        rules = gate_rules(name)
    except ConfigurationError as error:
        return [Line("problem", "gate", line) for line in str(error).splitlines()]
    said = f"holds at most {rules.max_hold} nodes in {rules.window_s} s"
    return [Line("ok", "gate", f"{said}, tests with {rules.partners} healthy ones")]


# --- the description -----------------------------------------------------------------------------


def _file(name: str) -> str:
    return shown(paths.SYSTEMS / name / "reframe.yaml")


def _others(name: str) -> tuple[list[System], list[Line]]:
    """The other systems of this checkout; one that is broken breaks every session."""
    found, lines = [], []
    for other in systems.names():
        if other != name:
            try:
                found.append(systems.load(other))
            except ConfigurationError as error:
                said = f"does not load, and ReFrame loads all: {str(error).splitlines()[0]}"
                lines.append(Line("problem", f"system {other}", said, f"mend {_file(other)}"))
    return found, lines


def _description(system: System) -> list[Line]:
    names = [partition.name for partition in system.partitions]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        said = f"{_file(system.name)}: {', '.join(twice)} twice; ReFrame would see one of them"
        return [Line("problem", "description", said, "give each partition a name of its own")]
    known = _reframe_fields() or {
        "system": frozenset(system.model_fields_set),
        "partition": frozenset(f for p in system.partitions for f in p.model_fields_set),
    }
    strange = sorted((key, "system") for key in system.model_fields_set - known["system"])
    for partition in system.partitions:
        where = f"partition {partition.name}"
        strange += sorted((key, where) for key in partition.model_fields_set - known["partition"])
    lines = [
        Line(
            "problem",
            "description",
            f"{_file(system.name)}: {where}: ReFrame knows no field {key!r}",
            "a misspelling? the manual's Configuration Reference lists them",
        )
        for key, where in strange
    ]
    text = (paths.SYSTEMS / system.name / "reframe.yaml").read_text(encoding="utf-8")
    lines += [
        Line(
            "problem",
            "description",
            f"{_file(system.name)}:{number}: still a placeholder: {line.split('#')[0].strip()}",
            "fill it in, and take the comment away",
        )
        for number, line in enumerate(text.splitlines(), start=1)
        if PLACEHOLDER in line
    ]
    said = f"{_file(system.name)}: it loads, with partitions {', '.join(names)}"
    return lines or [Line("ok", "description", said)]


@functools.cache
def _reframe_fields() -> Mapping[str, frozenset[str]]:
    """The fields that ReFrame's own schema has; none where ReFrame cannot be found."""
    # This finds the package without loading it.
    package = importlib.util.find_spec("reframe")
    for folder in (package.submodule_search_locations or []) if package else []:
        schema = Path(folder, "schemas", "config.json")
        if schema.exists():
            system = json.loads(schema.read_text(encoding="utf-8"))["properties"]["systems"]
            fields = system["items"]["properties"]
            partition = fields["partitions"]["items"]["properties"]
            return {"system": frozenset(fields), "partition": frozenset(partition)}
    return {}


def slurm_partition(access: object) -> str | None:
    """The Slurm partition that jobs are sent to: X of `--partition=X`."""
    words = (
        [word for option in access if isinstance(option, str) for word in option.split()]
        if (isinstance(access, list))
        else []
    )
    for place, word in enumerate(words):
        if word.startswith("--partition="):
            return word.removeprefix("--partition=")
        if word in ("--partition", "-p") and place + 1 < len(words):
            return words[place + 1]
        if re.match("-p[^-]", word):
            return word[2:]
    return None


def _fields(system: System, partition: Partition) -> list[Line]:
    """What ReFrame, and the checks, need to start a job."""
    given = partition.model_dump()
    thing = f"{partition.name}: scheduler, launcher, environs, access"
    expected = {
        "scheduler": (
            given.get("scheduler") == "slurm",
            "slurm: jobs are followed by sacct",
        ),
        "launcher": (
            given.get("launcher") in ("srun", "mpirun"),
            "srun or mpirun: by these a rank knows its number",
        ),
        "environs": (
            given.get("environs") == ["builtin"],
            "[builtin]: no other is defined",
        ),
        "access": (
            slurm_partition(given.get("access")) is not None,
            "[--partition=X], or Slurm takes its default partition",
        ),
    }
    lines = [
        Line(
            "problem",
            f"{partition.name}: {field}",
            f"found {given.get(field, 'nothing')}, expected {wanted}",
            f"edit partition {partition.name} in {_file(system.name)}",
        )
        for field, (good, wanted) in expected.items()
        if not good
    ]
    values = f"slurm, {given.get('launcher')}, builtin, {slurm_partition(given.get('access'))}"
    return lines or [Line("ok", thing, values)]


# --- whose host is it? ---------------------------------------------------------------------------

#: No system may take these for its own.
_STRANGERS = ("", "localhost", "zz-some-other-host-0")


def _hostnames(system: System, others: Sequence[System], host: str) -> list[Line]:
    lines = []
    edit = f"edit hostnames in {_file(system.name)}: '{host_pattern(host)}' is exactly this host"
    for pattern in system.hostnames:
        if any(re.match(pattern, stranger) for stranger in _STRANGERS):
            said = f"{pattern!r} matches any host, expected the login nodes of {system.name} only"
            lines.append(Line("problem", "hostnames", said, edit))
    for other in others:
        said = _overlap(system, other, host)
        if said:
            lines.append(Line("problem", "hostnames", said, f"{edit}; or that of {other.name}"))
    if lines:
        return lines
    patterns = ", ".join(system.hostnames) or "none"
    if belongs(system, host):
        return [Line("ok", "hostnames", f"{patterns}: this host, {host}, and no other system's")]
    return [
        Line(
            "hint",
            "hostnames",
            f"{patterns}: no other system's, but this host, {host}, is not among them either",
            f"if it is a login node, {edit}; else name the system: --system {system.name}",
        )
    ]


def belongs(system: System, host: str) -> bool:
    # As `systems.current` does.
    return any(re.match(pattern, host) for pattern in system.hostnames)


def _overlap(system: System, other: System, host: str) -> str:
    """Why a host of one system may be taken for one of the other; "" where it may not."""
    same = sorted(set(system.hostnames) & set(other.hostnames))
    if same:
        return (
            f"{same[0]!r} is that of {other.name} too, and a host of both is refused by every "
            "command: a placeholder that was copied?"
        )
    if belongs(system, host) and belongs(other, host):
        return (
            f"this host, {host}, is of {system.name} and of {other.name}: every command refuses it"
        )
    for one, two in ((system, other), (other, system)):
        for example in (e for pattern in two.hostnames for e in examples(pattern)):
            for pattern in one.hostnames:
                if re.match(pattern, example):
                    return (
                        f"{pattern!r} of {one.name} matches {example!r}, a host of {two.name} "
                        f"({', '.join(two.hostnames)})"
                    )
    return ""


def examples(pattern: str) -> list[str]:
    """Names that a pattern matches: a short one, and one with every optional part."""
    # By the parser of `re`, which is not public: without it there are no examples.
    try:
        parser = importlib.import_module(
            "re._parser" if sys.version_info >= (3, 11) else "sre_parse"
        )
        tree = list(parser.parse(pattern))
    except (ImportError, AttributeError, re.error):
        return []
    found = dict.fromkeys(_example(tree, longer) for longer in (False, True))
    return [name for name in found if name is not None and re.match(pattern, name)]


def _example(tree: Sequence[Any], longer: bool) -> str | None:
    parts = [_example_of(str(kind), value, longer) for kind, value in tree]
    return None if None in parts else "".join(part for part in parts if part)


def _example_of(kind: str, value: Any, longer: bool) -> str | None:
    if kind == "LITERAL":
        return chr(value)
    if kind == "ANY":
        return "x"
    if kind == "AT":
        return ""
    if kind == "IN":
        return _member(value)
    if kind == "BRANCH":
        return _example(list(value[1][-1 if longer else 0]), longer)
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, tree = value
        part = _example(list(tree), longer)
        return None if part is None else part * min(int(most), int(least) + (1 if longer else 0))
    if kind == "SUBPATTERN":
        return _example(list(value[-1]), longer)
    return None


def _member(choices: Sequence[Any]) -> str | None:
    """A character of a class such as `[a-z]`."""
    kind, value = choices[0]
    if str(kind) == "LITERAL":
        return chr(value)
    if str(kind) == "RANGE":
        return chr(value[0])
    return {"CATEGORY_DIGIT": "0", "CATEGORY_WORD": "a"}.get(str(value))


# --- what the checks need ------------------------------------------------------------------------

#: What a check's cases are made from, and the features that a partition needs to have any. Those of
#: the others are written where they are called: ring_pairs("tcp").
_PLACES: Mapping[str, tuple[str, ...]] = {
    "ring_pairs": (),
    "neighbours": (),
    "whole_partitions": (),
    "rdma_links": ("rdma",),
    "wan_ways": ("wan",),
    "nic_cases": ("nics",),
    "mpi_cases": ("mpi", "tcp"),
    "nccl_cases": ("nccl",),
    "transfer_cases": ("transfers",),
    # By extras.rdma or extras.bond, whatever the features are.
    "path_places": (),
    # By the system's expected.yaml.
    "node_state_places": (),
    "rail_probes": ("rdma",),
}
_OF_NODES = ("path_places", "node_state_places")
_FEATURES_GIVEN = ("ring_pairs", "neighbours", "whole_partitions")
_PAIRS = (
    "ring_pairs",
    "neighbours",
    "rdma_links",
    "wan_ways",
    "rail_probes",
    "nic_cases",
    "mpi_cases",
    "transfer_cases",
)

#: Features that make no cases: `mnnvl` adds transports, `gpu` is for people and for sites' checks.
_OTHER_FEATURES = frozenset({"mnnvl", "sockets", "gpu"})


@dataclasses.dataclass(frozen=True)
class CheckClass:
    """A check in reframe/: `places` is what its cases are made from, called with `words`.

    `only` is the field of extras.rdma that must be set, as a path: ("perftest", "cuda").
    """

    name: str
    places: str = ""
    words: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    #: X of ReFrame's own `valid_systems = ["+X"]`, in checks that a site has added
    asked: tuple[str, ...] = ()
    #: the metrics that need a reference, as far as the file tells
    metrics: tuple[str, ...] = ()
    #: whether a floor follows from the description where no number is stored
    has_floor: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """What a partition must have for this check to have a case on it."""
        given = self.words if self.places in _FEATURES_GIVEN else ()
        return (*_PLACES.get(self.places, ()), *given)

    @property
    def scale(self) -> Scale | None:
        known: Mapping[str, Scale] = {s: s for s in ("node", "pair", "segment", "all")}
        return known.get(self.words[0]) if self.places == "nccl_cases" and self.words else None

    @property
    def transfer_tool(self) -> str | None:
        return self.words[0] if self.places == "transfer_cases" and self.words else None


def known_checks(folder: Path) -> tuple[dict[str, CheckClass], list[Line]]:
    """The checks in a folder by name, and a line for every file that is no Python."""
    classes: dict[str, ast.ClassDef] = {}
    lines = []
    for path in sorted(folder.glob("*.py")):
        try:
            module = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError) as error:
            said = f"{shown(path)}: not Python: {error}"
            lines.append(Line("problem", "checks", said, f"mend {shown(path)}"))
            continue
        classes.update({node.name: node for node in module.body if isinstance(node, ast.ClassDef)})
    found = {}
    for name, node in classes.items():
        if "simple_test" in {_last_name(decorator) for decorator in node.decorator_list}:
            call = _cases(node, classes)
            words = [w.value for w in call.args if isinstance(w, ast.Constant)] if call else []
            found[name] = CheckClass(
                name,
                _last_name(call.func) if call else "",
                tuple(word for word in words if isinstance(word, str)),
                _only(call) if call else (),
                _asked(node),
                _metrics(node, classes),
                _defines(node, "floor"),
            )
    return found, lines


def _last_name(node: ast.AST) -> str:
    """`simple_test` of `simple_test` and of `rfm.simple_test`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _cases(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> ast.Call | None:
    """F(...) of `parameter(F(...))` in a class, or in one that it inherits from."""
    for statement in node.body:
        value = statement.value if isinstance(statement, ast.Assign) else None
        if isinstance(value, ast.Call) and _last_name(value.func) == "parameter" and value.args:
            call = value.args[0]
            if isinstance(call, ast.Call) and _last_name(call.func) in _PLACES:
                return call
    bases = [classes[name] for name in map(_last_name, node.bases) if name in classes]
    inherited = (_cases(base, classes) for base in bases if base is not node)
    return next((call for call in inherited if call is not None), None)


def _only(call: ast.Call) -> tuple[str, ...]:
    """("perftest", "cuda") of `only=lambda fabric: fabric.perftest.cuda`."""
    condition = next((word.value for word in call.keywords if word.arg == "only"), None)
    part = condition.body if isinstance(condition, ast.Lambda) else None
    names: list[str] = []
    while isinstance(part, ast.Attribute):
        names.insert(0, part.attr)
        part = part.value
    return tuple(names) if isinstance(part, ast.Name) else ()


def _metrics(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> tuple[str, ...]:
    """What `gates` compares with, else what `metrics` lists; of a class, or one that it inherits
    from. None where it is computed.
    """
    bodies = [
        *(s for s in node.body if isinstance(s, ast.FunctionDef) and s.name == "gates"),
        *(
            s
            for s in node.body
            if isinstance(s, ast.Assign) and "metrics" in map(_last_name, s.targets)
        ),
    ]
    for body in bodies:
        words = [w.value for w in ast.walk(body) if isinstance(w, ast.Constant)]
        plain = [re.sub("_[0-9]+B$", "", w) for w in words if isinstance(w, str)]
        known = tuple(word for word in plain if word in METRICS)
        if known:
            return known
    bases = [classes[name] for name in map(_last_name, node.bases) if name in classes]
    inherited = (_metrics(base, classes) for base in bases if base is not node)
    return next((metrics for metrics in inherited if metrics), ())


def _defines(node: ast.ClassDef, name: str) -> bool:
    return any(isinstance(s, ast.FunctionDef) and s.name == name for s in node.body)


def _asked(node: ast.ClassDef) -> tuple[str, ...]:
    written = [
        word.value
        for statement in node.body
        if isinstance(statement, ast.Assign)
        and "valid_systems" in map(_last_name, statement.targets)
        for word in ast.walk(statement.value)
        if isinstance(word, ast.Constant) and isinstance(word.value, str)
    ]
    return tuple(feature for text in written for feature in re.findall(r"\+([\w-]+)", text))


def _features(partition: Partition, checks: Mapping[str, CheckClass]) -> list[Line]:
    used = {f for check in checks.values() for f in (*check.features, *check.asked)}
    known = used | _OTHER_FEATURES
    strange = sorted(set(partition.features) - known)
    thing = f"{partition.name}: features"
    lines = [
        Line(
            "problem",
            thing,
            f"{feature!r} is used by no check, expected some of {', '.join(sorted(known))}",
            "a misspelling? its checks would not run",
        )
        for feature in strange
    ]
    extras = partition.extras
    nvlink = extras.nccl.nvlink if extras.nccl else None
    if "mnnvl" in partition.features and (nvlink is None or nvlink.domain_nodes == 1):
        said = "'mnnvl' needs extras.nccl.nvlink.domain_nodes above 1: NVLink ends at the node"
        lines.append(Line("problem", thing, said, "set domain_nodes, or leave mnnvl out"))
    described = [d for d in _devices(partition) if d.get("type") == "gpu"]
    for device in described if extras.nccl else []:
        told, wanted = device.get("num_devices"), extras.nccl.gpus_per_node if extras.nccl else 0
        if told != wanted:
            said = f"devices has {told} GPUs, expected {wanted} as extras.nccl.gpus_per_node says"
            lines.append(Line("problem", thing, said, "mend the one that is wrong"))
    lines += [
        Line(
            "warning",
            thing,
            f"extras.{name} describes what features does not have: none of its checks run",
            f"add {name} to features, or leave extras.{name} out",
        )
        for name in systems.DESCRIBED
        if getattr(extras, name) is not None and name not in partition.features
    ]
    if lines:
        return lines
    # What looks at every node is there by expected.yaml, and measures none of the features.
    of_features = [c for c in checks.values() if c.places not in ("", "node_state_places")]
    measured = sorted(c.name for c in of_features if not lacks(c, partition))
    features = ", ".join(partition.features) or "none"
    if not measured:
        step = f"features are some of {', '.join(sorted(known))}; pairs need two nodes"
        return [Line("problem", thing, f"{features}: no check has a case here", step)]
    return [Line("ok", thing, f"{features}: {', '.join(measured)}")]


def _devices(partition: Partition) -> list[dict[str, Any]]:
    """ReFrame's own description of what the nodes have."""
    found = partition.model_dump().get("devices") or []
    return [device for device in found if isinstance(device, dict)]


def lacks(check: CheckClass, partition: Partition) -> str:
    """Why a check has no case on a partition; "" where it has, or where that is not known."""
    missing = [f for f in check.features if f not in partition.features]
    if missing:
        return f"{check.name} runs where features has {', '.join(missing)}"
    extras = partition.extras
    if check.only and not _field(extras.rdma, check.only):
        return f"{check.name} runs where extras.rdma.{'.'.join(check.only)} is true"
    if check.places == "path_places" and not (extras.rdma or extras.bond):
        return f"{check.name} looks at extras.rdma and extras.bond, and there is neither"
    if check.places == "rail_probes" and extras.rdma and extras.rdma.perftest.probe_s is None:
        return f"{check.name} runs where extras.rdma.perftest.probe_s is a time"
    if check.places == "mpi_cases" and extras.mpi is None:
        return f"{check.name} runs the program of extras.mpi, and there is none"
    if check.places == "nic_cases" and extras.nics and not nic_groups(check, extras.nics):
        return f"{check.name} finds no such NICs in extras.nics.cables: {extras.nics.cables}"
    if check.places in _PAIRS and len(partition.nodes) < 2:
        return f"{check.name} needs two nodes, and there is {hostlist.fold(partition.nodes)}"
    transfers = extras.transfers
    if check.transfer_tool is not None and transfers is not None:
        tools = (*transfers.tools, *transfers.optional)
        if check.transfer_tool not in tools:
            return (
                f"{check.name} runs where extras.transfers.tools has {check.transfer_tool}; "
                f"it has {', '.join(tools)}"
            )
    if check.scale is not None and extras.nccl is not None:
        if check.scale not in extras.nccl.operations:
            return (
                f"{check.name} measures what extras.nccl.operations has for {check.scale}; "
                f"it has {', '.join(extras.nccl.operations)}"
            )
        if not node_counts(extras.nccl, check.scale, partition):
            return (
                f"{check.name} finds no group of nodes: {len(partition.nodes)} nodes, "
                f"segment_nodes {extras.nccl.segment_nodes}"
            )
    return ""


def nic_groups(check: CheckClass, nics: Nics) -> list[str]:
    """The NICs that the cases of a check measure at once, as `eth1+eth2`."""
    known: Mapping[str, NicScale] = {"nic": "nic", "cable": "cable", "all": "all"}
    scale = known.get(check.words[0]) if check.words else None
    return ["+".join(names) for names in nics.at_once(scale)] if scale else []


def _field(part: object, names: Sequence[str]) -> object:
    for name in names:
        part = getattr(part, name, None)
    return part


def node_counts(fabric: Nccl, scale: Scale, partition: Partition) -> range:
    """How many nodes a case of that scale may have, with all nodes or with a part of them."""
    everyone, present = hostlist.expand(partition.extras.nodes), set(partition.nodes)
    size = fabric.segment_nodes or len(everyone)
    segments = [
        sum(node in present for node in everyone[start : start + size])
        for start in range(0, len(everyone), size)
    ]
    most = {
        "node": 1,
        "pair": min(2, max(segments)),
        # One segment is the same as all, and two nodes are a pair.
        "segment": max(segments) if len(segments) > 1 else 0,
        "all": len(present),
    }
    least = {"node": 1, "pair": 2, "segment": 3, "all": 3}
    return range(least[scale], most[scale] + 1)


def _required(
    partition: Partition, checks: Mapping[str, CheckClass], stored: References | None
) -> list[Line]:
    lines = []
    names = partition.extras.required
    thing = f"{partition.name}: required"
    for name in names:
        if name not in checks:
            said = f"{name} is no check in {shown(paths.CHECKS)}/, expected one of "
            said += ", ".join(sorted(checks))
            lines.append(Line("problem", thing, said, "a misspelling? nothing could be accepted"))
        elif reason := lacks(checks[name], partition):
            said = f"{name} has no case here, so nothing could be accepted: {reason}"
            step = f"take {name} out of required, or describe what it needs"
            lines.append(Line("problem", thing, said, step))
        elif reason := _not_everywhere(checks[name], partition):
            lines.append(Line("problem", thing, f"{name} {reason}", "mend extras.transfers"))
    if not names:
        said = "no check is: a campaign that measures next to nothing could end in accept"
        lines.append(Line("warning", thing, said, "name the checks that must have run"))
    elif not lines:
        lines.append(Line("ok", thing, ", ".join(names)))
    if stored is None:
        said = "the reference file does not load"
        return [*lines, Line("not checked", f"{partition.name}: baselines", said)]
    bare = [
        told
        for name in names
        if name in checks and not _judges_itself(checks[name], partition)
        if (told := _without_reference(checks[name], partition, stored))
    ]
    if bare:
        said = f"no reference for {', '.join(bare)}: needs a baseline before it can be accepted"
        stating = [
            s for name in names if name in checks for s in _floor_of(checks[name], partition)
        ]
        floors = f"state {', '.join(stating)}, of which floors follow; or " if stating else ""
        step = f"{floors}railgauge accept --mode baseline"
        lines.append(Line("hint", f"{partition.name}: baselines", said, step))
    elif names:
        said = "every required check has a reference"
        lines.append(Line("ok", f"{partition.name}: baselines", said))
    return lines


def _without_reference(check: CheckClass, partition: Partition, stored: References) -> str:
    """The check, with those of its metrics that nothing gates; "" where each has a number."""
    known = {
        metric
        for entry in stored.entries
        if (entry.check, entry.partition) == (check.name, partition.name)
        for metric, number in entry.metrics.items()
        if not number.is_context
    }
    missing = [metric for metric in check.metrics if metric not in known]
    if missing:
        return f"{check.name} ({', '.join(missing)})"
    return "" if known else check.name


def _floor_of(check: CheckClass, partition: Partition) -> list[str]:
    """What the description would have to state for the check to have a floor, where it is open."""
    extras = partition.extras
    if check.has_floor and extras.floor_share is not None:
        return [f for f in ("link_gbits", "mtu_bytes") if getattr(extras, f) is None]
    if check.places == "rail_probes" and extras.rdma and extras.rdma.line_gbits is None:
        return ["rdma.line_gbits"]
    return []


def _judges_itself(check: CheckClass, partition: Partition) -> bool:
    """Whether its reference follows from the description: of the preflights it does, and of checks
    with a floor where the link is described.
    """
    extras = partition.extras
    if check.has_floor:
        return None not in (extras.floor_share, extras.link_gbits, extras.mtu_bytes)
    known_rate = extras.rdma is not None and extras.rdma.line_gbits is not None
    return check.places in _OF_NODES or (check.places == "rail_probes" and known_rate)


def _expected(system: System, checks: Mapping[str, CheckClass]) -> list[Line]:
    """expected.yaml: what the nodes of the system must show."""
    path, thing = expected.path_for(system.name), "expected state"
    try:
        found = expected.load(system.name)
    except ConfigurationError as error:
        return [Line("problem", thing, line) for line in str(error).splitlines()]
    if found is None:
        of_nodes = {name for name, c in checks.items() if c.places == "node_state_places"}
        needed = sorted(of_nodes & {n for p in system.partitions for n in p.extras.required})
        said = f"{shown(path)}: no such file: nobody looks at firmware and tuning"
        step = "write one; configs/systems/dgx-h100/expected.yaml shows the form"
        if needed:
            said = f"{shown(path)}: no such file, and {', '.join(needed)} is required"
        return [Line("problem" if needed else "hint", thing, said, step)]
    names = {partition.name for partition in system.partitions}
    strangers = sorted({e.partition for e in found.expected if e.partition} - names)
    if strangers:
        said = f"{shown(path)}: no partition {', '.join(strangers)}; there is {', '.join(names)}"
        return [Line("problem", thing, said, "mend the entry's partition")]
    said = f"{shown(path)}: {len(found.expected)} entries"
    return [Line("ok", thing, said)]


def _not_everywhere(check: CheckClass, partition: Partition) -> str:
    """Why a required check of transfers leaves nodes, or whole acceptances, without a result."""
    transfers = partition.extras.transfers
    if check.transfer_tool is None or transfers is None:
        return ""
    if check.transfer_tool in transfers.optional:
        return f"is required, and {check.transfer_tool} is optional: where it is not, no accept"
    if transfers.series_only:
        return "is required, and transfers.series_only leaves it out of every other acceptance"
    if transfers.pairs == "first" and len(partition.nodes) > 2:
        return "is required of every node, and transfers.pairs: first measures two of them"
    return ""


def _placeholders(partition: Partition, others: Sequence[System]) -> list[Line]:
    """Nodes that are still those of the system which this one was copied from."""
    nodes = set(hostlist.expand(partition.extras.nodes))
    for other in others:
        if any(nodes == set(hostlist.expand(p.extras.nodes)) for p in other.partitions):
            said = f"{partition.extras.nodes} are those of {other.name} too: still to be filled in?"
            return [Line("warning", f"{partition.name}: nodes", said, "scontrol show partition")]
    return []


# --- references ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Mismatch:
    """Why no case is under a condition; `by_count` where the system is only too small for it."""

    said: str
    by_count: bool = False


def _references(
    system: System, checks: Mapping[str, CheckClass]
) -> tuple[References | None, list[Line]]:
    """The stored numbers, None where they do not load, and what is to be said of them."""
    path = references.path_for(system.name)
    try:
        stored = references.load(system.name)
    except ConfigurationError as error:
        step = f"mend {shown(path)}"
        said = str(error).splitlines()
        return None, [Line("problem", "references", line, step) for line in said]
    if not path.exists():
        said_of_none = f"{shown(path)}: no such file: no number is known yet"
        step = "railgauge accept --mode baseline"
        return stored, [Line("hint", "references", said_of_none, step)]
    items: list[tuple[str, int, Entry | Ratio]] = [
        *(("references", place, entry) for place, entry in enumerate(stored.entries)),
        *(("ratios", place, ratio) for place, ratio in enumerate(stored.ratios)),
    ]
    wrong = [
        (kind, place, item, mismatch)
        for kind, place, item in items
        for mismatch in _mismatches(item, system, checks)
    ]
    if not wrong:
        said_of_all = f"{shown(path)}: {len(stored.entries)} entries, {len(stored.ratios)} ratios"
        return stored, [Line("ok", "references", said_of_all)]
    document = load_yaml(path)
    lines = []
    for kind, place, item, mismatch in wrong:
        where = f"{shown(path)}:{document[kind].lc.item(place)[0] + 1}"
        said_of_item = f"{_title(item)}: {mismatch.said}"
        if mismatch.by_count and published(item):
            step = "keep it for a larger system, or remove it"
            lines.append(Line("warning", f"references: {where}", said_of_item, step))
        else:
            lines.append(Line("problem", f"references: {where}", said_of_item, f"edit {where}"))
    return stored, lines


def _title(item: Entry | Ratio) -> str:
    if isinstance(item, Ratio):
        return f"ratio {item.name!r}"
    parts = (item.check, item.partition, item.operation, item.transport)
    return " ".join(part for part in parts if part)


def published(item: Entry | Ratio) -> bool:
    """Whether somebody else's numbers are all that is in it.

    Only a campaign knows the firmware that it was taken under.
    """
    if isinstance(item, Ratio):
        return item.provenance.fingerprint is None
    return all(number.kind == "published" for number in item.metrics.values())


def _mismatches(
    item: Entry | Ratio, system: System, checks: Mapping[str, CheckClass]
) -> Iterator[_Mismatch]:
    if isinstance(item, Entry):
        gates = not all(number.is_context for number in item.metrics.values())
        yield from _mismatch(item, item.check, item.partition, gates, system, checks)
        return
    for name, side in (("of", item.of), ("over", item.over)):
        # What a state says is measured by nothing here.
        if side.check is not None:
            for found in _mismatch(side, side.check, side.partition, False, system, checks):
                yield dataclasses.replace(found, said=f"{name}: {found.said}")


def _mismatch(
    condition: Entry | Side,
    name: str,
    partition: str | None,
    gates: bool,
    system: System,
    checks: Mapping[str, CheckClass],
) -> Iterator[_Mismatch]:
    check = checks.get(name)
    if check is None:
        known = ", ".join(sorted(checks))
        yield _Mismatch(f"check {name!r} is not in {shown(paths.CHECKS)}/, expected one of {known}")
    places = {p.name: p for p in system.partitions}
    if partition is not None and partition not in places:
        known = ", ".join(places)
        yield _Mismatch(f"partition {partition!r} is not of {system.name}, which has {known}")
    if check is None or (partition is not None and partition not in places):
        return
    tried = [places[partition]] if partition is not None else list(system.partitions)
    found = [_impossible(condition, check, place, gates) for place in tried]
    # Without a partition it is enough that one has such a case.
    if all(mismatch is not None for mismatch in found):
        best = next((m for m in found if m is not None and m.by_count), found[0])
        assert best is not None
        yield best


def _impossible(
    condition: Condition, check: CheckClass, partition: Partition, gates: bool
) -> _Mismatch | None:
    """Why no case of the check on this partition is under the condition."""
    reason = lacks(check, partition)
    if reason:
        return _Mismatch(f"no case on {partition.name}: {reason}", _too_small(check, partition))
    if check.scale is not None:
        return _impossible_collective(condition, check.scale, partition, gates)
    nodes = condition.nodes
    counts = range(1, len(partition.nodes) + 1)
    if check.places in _PAIRS:
        counts = range(2, 3)
    elif check.places in _OF_NODES:
        counts = range(1, 2)
    if isinstance(nodes, int) and nodes not in counts:
        said = f"nodes is {nodes}, expected {_counts(counts)}"
        return _Mismatch(said, by_count=check.places == "whole_partitions")
    rdma = partition.extras.rdma
    if (
        check.places in ("rdma_links", "rail_probes")
        and rdma is not None
        and condition.rails is not None
    ):
        rails = [str(number) for number in range(rdma.rails)]
        ends = condition.rails.split("-")
        if len(ends) != 2 or not set(ends) <= set(rails):
            return _Mismatch(
                f"rails is {condition.rails!r}, expected two of {', '.join(rails)} such as '0-0'"
            )
    if check.places == "wan_ways":
        return _impossible_way(condition, partition)
    nics, program = partition.extras.nics, partition.extras.mpi
    if check.places == "nic_cases" and nics is not None:
        groups = nic_groups(check, nics)
        if condition.nics is not None and condition.nics not in groups:
            return _Mismatch(f"nics is {condition.nics!r}, expected one of {', '.join(groups)}")
        return _impossible_setting(condition, "nics", nics.settings)
    if check.places == "mpi_cases" and program is not None:
        return _impossible_setting(condition, "mpi", program.settings)
    if check.transfer_tool is not None:
        return _impossible_transfer(condition, check.transfer_tool, partition)
    return None


def _impossible_setting(
    condition: Condition, field: str, settings: Mapping[str, Tcp]
) -> _Mismatch | None:
    stated = {part: v for part, v in condition.stated.items() if part in Tcp.model_fields}
    if any(all(getattr(s, part) == v for part, v in stated.items()) for s in settings.values()):
        return None
    said = ", ".join(f"{part} {value}" for part, value in stated.items())
    known = "; ".join(
        f"{name}: " + ", ".join(f"{part} {value}" for part, value in setting)
        for name, setting in settings.items()
    )
    return _Mismatch(f"{said}, expected one that extras.{field}.settings has: {known}")


def _too_small(check: CheckClass, partition: Partition) -> bool:
    """Whether a check that has no case on a partition would have one with more nodes."""
    if any(feature not in partition.features for feature in check.features):
        return False
    fabric = partition.extras.nccl
    grouped = check.scale is not None and fabric is not None and check.scale in fabric.operations
    return grouped or (check.places in _PAIRS and len(partition.nodes) < 2)


def _counts(counts: Sequence[int]) -> str:
    if not counts:
        return "none"
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _impossible_way(condition: Condition, partition: Partition) -> _Mismatch | None:
    wan = partition.extras.wan
    assert wan is not None  # it has the feature
    stated = condition.stated
    known: dict[str, list[Any]] = {
        "delay_ms": [*wan.round_trips_ms, *wan.series_ms, "any"],
        "window_bytes": [*wan.window_bytes],
        "congestion": [*wan.congestion],
    }
    for part, values in known.items():
        if part in stated and stated[part] not in values:
            expected = ", ".join(str(value) for value in dict.fromkeys(values))
            return _Mismatch(
                f"{part} is {stated[part]}, expected one that extras.wan has: {expected}"
            )
    return None


def _impossible_transfer(condition: Condition, tool: str, partition: Partition) -> _Mismatch | None:
    transfers, wan = partition.extras.transfers, partition.extras.wan
    assert transfers is not None  # it has the feature
    stated = condition.stated
    files = tool != "iperf3"
    sets = [FileSet(s.files, s.file_bytes) for s in transfers.file_sets.values()]
    ends = [DISCARDED if skip else "" for skip in transfers.wdt.skip_writes]
    written = ends if tool == "wdt" else [""]
    one = tool in ("scp", "hpn-scp")
    known: dict[str, list[Any]] = {
        "operation": [s.name + end for s in sets for end in written] if files else ["tcp"],
        "size_bytes": [s.file_bytes for s in sets] if files else [None],
        "streams": [1 if one else transfers.streams],
        "delay_ms": [None, "any", *(wan.round_trips_ms if wan else ())],
    }
    for part, values in known.items():
        if part in stated and stated[part] not in values:
            expected = ", ".join("none" if v is None else str(v) for v in dict.fromkeys(values))
            return _Mismatch(
                f"{part} is {stated[part]}, expected what extras.transfers has: {expected}"
            )
    return None


def _impossible_collective(
    condition: Condition, scale: Scale, partition: Partition, gates: bool
) -> _Mismatch | None:
    fabric = partition.extras.nccl
    assert fabric is not None  # it has the feature
    stated = condition.stated
    # `any` is a value only where the number is context, or a ratio's.
    operation = stated.get("operation")
    operations = fabric.operations[scale]
    if operation is not None and operation not in (*operations, *(() if gates else ("any",))):
        return _Mismatch(
            f"operation is {operation!r}, expected one that extras.nccl.operations has for "
            f"{scale}: {', '.join(operations)}"
        )
    transport = stated.get("transport")
    # A number to look at beside one's own may be of sockets, also where nobody measures them.
    features = partition.features if gates else [*partition.features, "sockets"]
    known = fabric.transports(scale, features)
    if operation not in (None, "any", "all_reduce") or "all_reduce" not in operations:
        # The other transports are measured with all_reduce.
        known = known[:1]
    if transport is not None and transport not in (*known, *(() if gates else ("any",))):
        return _Mismatch(
            f"transport is {transport!r}, expected one that {operation or scale} has here: "
            f"{', '.join(known)}"
        )
    foreign = [
        part
        for part in ("streams", "rails", "window_bytes", "congestion", "delay_ms")
        if stated.get(part) not in (None, "any")
    ]
    if foreign:
        return _Mismatch(f"{', '.join(foreign)} is stated, expected none: a collective has none")
    smallest = fabric.min_bytes
    largest = max(fabric.largest_bytes(t) for t in known if transport in (None, "any", t))
    size = condition.size_bytes
    if size is not None and not smallest <= size <= largest:
        return _Mismatch(
            f"size_bytes is {size} ({format_size(size)}), expected one of the sweep's, "
            f"{format_size(smallest)} to {format_size(largest)}"
        )
    counts = node_counts(fabric, scale, partition)
    nodes, ranks, gpus = condition.nodes, condition.ranks, fabric.gpus_per_node
    if isinstance(nodes, int) and nodes not in counts:
        return _Mismatch(f"nodes is {nodes}, expected {_counts(counts)}", by_count=True)
    possible = [nodes] if isinstance(nodes, int) else counts
    if ranks is not None and ranks not in [count * gpus for count in possible]:
        said = f"ranks is {ranks}, expected {_counts(possible)} nodes times {gpus} GPUs"
        return _Mismatch(said, by_count=ranks % gpus == 0 and not isinstance(nodes, int))
    return None


# --- Slurm fragments -----------------------------------------------------------------------------


def fragment_lines(text: str) -> list[tuple[int, dict[str, str]]]:
    """The lines of a Slurm configuration, as number (from 1) and options with lower-case names."""
    found: list[tuple[int, dict[str, str]]] = []
    kept, start = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        start = start if kept else number
        content = re.split(r"(?<!\\)#", line)[0].rstrip()
        if content.endswith("\\"):
            kept += content[:-1] + " "
            continue
        options = dict(word.split("=", 1) for word in (kept + content).split() if "=" in word)
        found.append((start, {key.lower(): value for key, value in options.items()}))
        kept = ""
    return [(number, options) for number, options in found if options]


@dataclasses.dataclass(frozen=True)
class _Fragment:
    where: str
    options: Mapping[str, str]

    def nodes(self, option: str) -> tuple[str, ...]:
        """ValueError where it is not a host list."""
        return hostlist.expand(self.options[option])


def _fragments(system: System) -> list[Line]:
    """Whether slurm/*.conf speaks of the same nodes and partitions as reframe.yaml."""
    folder = paths.SYSTEMS / system.name / "slurm"
    thing = f"{shown(folder)}/*.conf"
    try:
        found = [
            _Fragment(f"{shown(path)}:{number}", options)
            for path in sorted(folder.glob("*.conf"))
            for number, options in fragment_lines(path.read_text("utf-8", errors="replace"))
            if options.get("nodename", options.get("partitionname", "DEFAULT")) != "DEFAULT"
        ]
        if not found:
            return [Line("not checked", thing, "there is no line for a node or a partition")]
        return [*_fragment_nodes(system, thing, found), *_fragment_partitions(system, thing, found)]
    except (OSError, ValueError) as error:
        return [Line("problem", thing, str(error), f"edit the files in {shown(folder)}")]


def _expanded(fragment: _Fragment, option: str) -> set[str]:
    try:
        return set(fragment.nodes(option))
    except ValueError as error:
        raise ValueError(f"{fragment.where}: {fragment.options[option]!r}: {error}") from None


def _fragment_nodes(system: System, thing: str, found: Sequence[_Fragment]) -> list[Line]:
    # gres.conf has lines NodeName=... Name=gpu, which need not name all.
    named = [f for f in found if "nodename" in f.options]
    defining = [f for f in named if "name" not in f.options]
    everyone = {n for p in system.partitions for n in hostlist.expand(p.extras.nodes)}
    lines = []
    for fragment in named:
        strangers = _expanded(fragment, "nodename") - everyone
        if strangers:
            said = f"{hostlist.fold(strangers)} in no partition of {_file(system.name)}"
            step = f"edit {fragment.where}, or extras.nodes"
            lines.append(Line("problem", fragment.where, said, step))
    told = set().union(*(_expanded(f, "nodename") for f in defining))
    missing = {n for p in system.partitions for n in p.nodes} - told
    if defining and missing:
        said = f"no NodeName= for {hostlist.fold(missing)}, which {_file(system.name)} has"
        lines.append(Line("problem", thing, said, "add them, or take them out of extras.nodes"))
    for partition in system.partitions:
        for fragment in named if partition.extras.nccl else []:
            if _expanded(fragment, "nodename") & set(partition.nodes):
                lines += _gpus_told(partition, fragment)
    return lines or [Line("ok", thing, f"the nodes of {_file(system.name)}")]


def _gpus_told(partition: Partition, fragment: _Fragment) -> list[Line]:
    fabric = partition.extras.nccl
    assert fabric is not None  # or nobody would count GPUs
    options = fragment.options
    try:
        if "gres" in options:
            told = gpus_in(options["gres"])
        elif options.get("name") == "gpu" and ("count" in options or "file" in options):
            # gres.conf; files are as many as GPUs, unless it says otherwise.
            told = int(options.get("count") or len(hostlist.expand(options["file"])))
        else:
            return []
    except ValueError as error:
        return [Line("problem", fragment.where, str(error), f"edit {fragment.where}")]
    if told == fabric.gpus_per_node:
        return []
    said = f"{told} GPUs a node, expected {fabric.gpus_per_node} as gpus_per_node of "
    said += f"{partition.name} says"
    return [Line("problem", fragment.where, said, "mend the one that is wrong")]


def _fragment_partitions(system: System, thing: str, found: Sequence[_Fragment]) -> list[Line]:
    named = {f.options["partitionname"]: f for f in found if "partitionname" in f.options}
    lines = []
    for partition in system.partitions if named else []:
        wanted = slurm_partition(partition.model_dump().get("access"))
        fragment = named.get(wanted or "")
        if wanted is None:
            continue
        if fragment is None:
            said = f"no PartitionName={wanted}, to which {partition.name} sends its jobs; there is "
            said += ", ".join(named)
            lines.append(
                Line("problem", thing, said, f"add it, or edit access of {partition.name}")
            )
            continue
        value = fragment.options.get("nodes", "")
        if value.upper() == "ALL" or "nodes" not in fragment.options:
            continue
        told = _expanded(fragment, "nodes")
        everyone = set(hostlist.expand(partition.extras.nodes))
        if not set(partition.nodes) <= told or not told <= everyone:
            said = f"Nodes={value}, expected those of {partition.name}: {partition.extras.nodes}"
            lines.append(Line("problem", fragment.where, said, "mend the one that is wrong"))
    if named and not lines:
        return [Line("ok", thing, f"the partitions of {_file(system.name)}")]
    return lines


# --- Slurm itself --------------------------------------------------------------------------------


def _owner(system: System, others: Sequence[System], host: str, named_by: str) -> str:
    """The other system that this host, and so its Slurm, is of; "" where it may be `system`'s."""
    if named_by == system.name or belongs(system, host):
        return ""
    return next((other.name for other in others if belongs(other, host)), "")


def owner(name: str, host: str, named_by: str) -> str:
    """`_owner` of a system that loads."""
    others, _ = _others(name)
    return _owner(systems.load(name), others, host, named_by)


def _in_slurm(
    system: System, others: Sequence[System], ask: Run, host: str, named_by: str
) -> list[Line]:
    step = f"on a login node of {system.name}: railgauge system check {system.name}"
    owner = _owner(system, others, host, named_by)
    if owner:
        said = f"this host, {host}, is of {owner}, and so is its Slurm"
        return [Line("not checked", "nodes in Slurm", said, step)]
    try:
        slurm = cluster(ask)
    except EnvironmentProblem as error:
        said = f"no Slurm here: {error.message.removesuffix(': no Slurm here')}"
        return [Line("not checked", "nodes in Slurm", said, step)]
    lines = []
    for partition in system.partitions:
        lines += _nodes_in_slurm(system, partition, slurm)
        lines += _gpus_in_slurm(system, partition, slurm)
    return lines


def _nodes_in_slurm(system: System, partition: Partition, slurm: Cluster) -> list[Line]:
    thing = f"{partition.name}: nodes in Slurm"
    wanted = set(partition.nodes)
    edit = f"edit extras.nodes of {partition.name} in {_file(system.name)}"
    name = slurm_partition(partition.model_dump().get("access"))
    if name is not None and name not in slurm.partitions:
        said = f"Slurm has no partition {name!r}, expected one of {slurm.describe()}"
        step = f"edit access of {partition.name} in {_file(system.name)}"
        return [Line("problem", thing, said, step)]
    members = set(slurm.partitions[name]) if name is not None else wanted & slurm.nodes.keys()
    lines = []
    unknown = wanted - slurm.nodes.keys()
    if unknown:
        said = f"Slurm knows no {hostlist.fold(unknown)}"
        lines.append(Line("problem", thing, said, edit))
    outside = wanted - unknown - members
    if outside:
        said = f"{hostlist.fold(outside)} not in Slurm's partition {name}"
        said += f" ({hostlist.fold(members) if members else 'no nodes'})"
        lines.append(Line("problem", thing, said, f"{edit}, or access"))
    covered = {
        node
        for other in system.partitions
        if slurm_partition(other.model_dump().get("access")) == name
        for node in hostlist.expand(other.extras.nodes)
    }
    surplus = members - covered
    if surplus:
        said = f"{hostlist.fold(surplus)} of Slurm's partition {name} would never be measured"
        lines.append(Line("warning", thing, said, edit))
    if lines:
        return lines
    down = [
        n for n in hostlist.in_order(wanted) if slurm.nodes[n].flags & {"DOWN", "DRAIN", "FAIL"}
    ]
    said = f"{hostlist.fold(wanted)} in partition {name or '(any)'}"
    return [Line("ok", thing, said + (f"; down or drained: {hostlist.fold(down)}" if down else ""))]


def _gpus_in_slurm(system: System, partition: Partition, slurm: Cluster) -> list[Line]:
    fabric = partition.extras.nccl
    if fabric is None:
        return []
    thing = f"{partition.name}: GPUs in Slurm"
    edit = f"edit gpus_per_node of {partition.name} in {_file(system.name)}, or Slurm's gres.conf"
    by_gres: dict[str, list[str]] = {}
    for node in partition.nodes:
        if node in slurm.nodes:
            by_gres.setdefault(slurm.nodes[node].gres, []).append(node)
    if not by_gres:
        return [Line("not checked", thing, "Slurm knows none of the nodes")]
    lines = []
    for gres, nodes in by_gres.items():
        try:
            count = gpus_in(gres)
        except ValueError as error:
            lines.append(Line("problem", thing, f"{hostlist.fold(nodes)}: {error}", edit))
            continue
        if count != fabric.gpus_per_node:
            said = f"{hostlist.fold(nodes)}: Gres is {gres or 'none'}, {count} GPUs, expected "
            said += f"{fabric.gpus_per_node} as gpus_per_node says"
            lines.append(Line("problem", thing, said, edit))
    return lines or [Line("ok", thing, f"{fabric.gpus_per_node} on every node")]
