"""What the nodes of a partition see, as reported by themselves: one `srun` over the idle ones.

It comes back over the network: what a node does not share with the login node cannot come back by
a file. First a shell, which needs nothing of the checkout, then `railgauge.node.system.readiness`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import secrets
import shutil
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from railgauge import hostlist, paths
from railgauge.common.errors import PrerequisiteError
from railgauge.node.system.readiness import MARK, source_digest
from railgauge.slurm import client, ends, reservations
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import option
from railgauge.stack import installed
from railgauge.systems import Partition

#: The longest that a look may take; on idle nodes it is done in a second.
LIMIT_S = 60
#: How long srun waits for its nodes, which were idle a moment ago.
_START_S = 15

#: Runs on every node: say WHAT VALUE, a line each; a newline within a value is a 036, a tab a 035.
#: Of a long value the end, as srun may part long lines by those of other nodes
#: (node/system/srun_output.py).
_SHELL = r"""
node=${SLURMD_NODENAME:-$(uname -n)}
mark=$1 source=$2 probe=$3 token=$4 orders=$5
shift 5
say() {
  local value=$2
  if ((${#value} > 700)); then
    value="... ${value: -700}"
  fi
  value=${value//$'\n'/$'\036'}
  printf '%s\t%s\t%s\t%s\n' "$mark" "$node" "$1" "${value//$'\t'/$'\035'}"
}
say begin "$SLURM_JOB_ID"
for file; do
  say at "looking for $file"
  if [[ ! -e $file ]]; then
    say unseen "$file"
  elif [[ ! -r $file ]]; then
    say unreadable "$file"
  fi
done
if [[ -e $probe ]]; then
  say at "writing into $probe"
  problem=$({ printf '%s' "$token" >"$probe/$node"; } 2>&1) || say unwritable "$problem"
fi
say at "preparing a job's environment"
prepare() {
  PREPARE
}
if problem=$(prepare 2>&1 >/dev/null); then
  prepare >/dev/null 2>&1
else
  say unprepared "$problem"
fi
say at "starting python3"
if ! command -v python3 >/dev/null; then
  say python-failed "python3: command not found"
elif [[ -r $source/railgauge/node/system/readiness.py ]]; then
  look=(env "PYTHONPATH=$source" python3 -S -m railgauge.node.system.readiness "$orders")
  { problem=$("${look[@]}" 2>&1 >&3); } 3>&1 ||
    say python-failed "$problem"
else
  problem=$(python3 -c 'import ctypes, json, socket' 2>&1) || say python-failed "$problem"
fi
say end ""
"""


@dataclasses.dataclass
class NodeLook:
    """What one node said of itself. All empty: nothing is wrong, as far as it came."""

    node: str
    job: str = ""
    #: the last thing that it began
    at: str = ""
    #: it came to its end
    ended: bool = False
    unseen: list[str] = dataclasses.field(default_factory=list)
    unreadable: list[str] = dataclasses.field(default_factory=list)
    unwritable: str = ""
    #: folders in which it wrote and nothing of that is seen here
    unshared: bool = False
    unprepared: str = ""
    #: what python3 said when it failed, whole
    python_failed: str = ""
    python: tuple[int, ...] = ()
    source: str = ""
    #: other nodes to which no name leads, and why
    unresolved: dict[str, str] = dataclasses.field(default_factory=dict)
    #: seconds since the epoch by the node's clock
    clock: float | None = None
    #: program -> what it says of its version, "" where the node has none
    tools: dict[str, str] = dataclasses.field(default_factory=dict)
    host: str = ""


@dataclasses.dataclass(frozen=True)
class Look:
    """What the nodes of a partition said, and when srun began and ended, by the clock of here.

    `requested` are the nodes that it named, `left` the others, and why they were left out.
    `problem` is srun's own where it started nothing.
    """

    partition: str
    requested: Sequence[str]
    nodes: Mapping[str, NodeLook]
    left: Mapping[str, str]
    problem: str = ""
    began: float = 0
    ended: float = 0
    #: the standard error of srun
    stderr: str = ""


def job_options(partition: Partition, more: Sequence[str] = ()) -> list[str]:
    """The options by which all jobs of a partition are submitted."""
    return [*partition.access_options, *reservations.options(), *more]


#: ReFrame's options that choose among the cases, each with its short form.
BY_NAME = ("-n", "--name")
FILTERS = (*BY_NAME, "-x", "-t", "-T", "-E", "--exclude", "--tag", "--filter-expr")


def from_reframe(options: Sequence[str]) -> list[str]:
    """What `-J` and `--job-option` of ReFrame's options give the scheduler: `-J account=x`."""
    options_given: list[str] = []
    words = iter(options)
    for word in words:
        if word in ("-J", "--job-option"):
            options_given.append(next(words, ""))
        elif word.startswith("--job-option="):
            options_given.append(word.partition("=")[2])
        elif word.startswith("-J"):
            options_given.append(word[2:])
    # As ReFrame's manual has it: a name of one letter is a short option.
    return [
        word
        for option in options_given
        if option and not option.startswith("#")
        for word in (
            [option]
            if option.startswith("-")
            else [f"--{option}"]
            if len(option.partition("=")[0]) > 1
            else [f"-{option[0]}", *filter(None, [option.partition("=")[2]])]
        )
    ]


def allocating(
    partition: Partition, nodes: Collection[str], name: str, more: Sequence[str] = ()
) -> list[str]:
    """srun for one task on each of `nodes`, that ends where they are not free at once."""
    return [
        *("srun", "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--chdir=/", "--quiet"),
        *(f"--immediate={_START_S}", "--time=2", f"--job-name={name}", slurm_jobs.comment()),
        *(*job_options(partition, more), f"--nodelist={hostlist.fold(nodes)}"),
        *(f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}", "--ntasks-per-node=1"),
    ]


def environment() -> dict[str, str]:
    """The environment without the caller's variables, those of a job among them: with them srun
    would start a step of that job.

    sbatch takes some options from variables, and srun from others.
    """
    kept = client.environment()
    for name in ("ACCOUNT", "QOS", "RESERVATION"):
        if f"SBATCH_{name}" in kept:
            kept[f"SLURM_{name}"] = kept[f"SBATCH_{name}"]
    return kept


def prepared(system: str, partition: Partition) -> str:
    """What a job of the partition begins with, as shell commands."""
    given = partition.model_dump()
    exports = [f"export {name}={value}" for name, value in given.get("env_vars", ())]
    first = [
        command.replace("|| exit 1", "|| return 1") for command in installed.activating(system)
    ]
    # A job goes on where one of the others fails.
    return "\n".join([*first, *given.get("prepare_cmds", ()), *exports, ":"])


@contextlib.contextmanager
def _probe() -> Iterator[tuple[Path, str]]:
    """A new folder in the results area, in which the nodes write a token."""
    token = secrets.token_hex(8)
    root = paths.results_root()
    folder = root / f".look-{token}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise PrerequisiteError(
            f"{root}: {error.strerror or error}: nothing can be written into the results area",
            next_step="make room, or set RAILGAUGE_RESULTS to another shared folder",
        ) from None
    try:
        yield folder, token
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def look(
    system: str,
    partition: Partition,
    nodes: Collection[str],
    left: Mapping[str, str],
    names: Mapping[str, Sequence[str]],
    tools: Mapping[str, Sequence[str]],
    more: Sequence[str] = (),
) -> Look:
    """Ask `nodes`, which are idle. `names` are those of all nodes of the partition, by NodeName."""
    if not nodes:
        return Look(partition.name, (), {}, left)
    orders = {
        "names": {node: [node, *names.get(node, ())] for node in partition.nodes},
        "tools": {program: list(argv) for program, argv in tools.items()},
    }
    stack = installed.folder(system) / "activate.sh"
    with _probe() as (probe, token):
        files = [str(paths.PROGRAM), str(paths.SOURCE / "railgauge/node/system/readiness.py")]
        files += [] if paths.SITE == paths.HOME else [str(paths.system_folder(system))]
        files += [str(stack)] if stack.is_file() else []
        files += [str(probe)]
        shell = _SHELL.replace("PREPARE", prepared(system, partition))
        name = f"railgauge-look-{token}"
        command = [
            *(*allocating(partition, nodes, name, more), "--mpi=none"),
            *("bash", "-c", shell, "look", MARK, str(paths.SOURCE), str(probe), token),
            *(json.dumps(orders), *files),
        ]
        began = time.time()
        stdout, stderr, code = run(command, environment(), name)
        ended = time.time()
        answers = parse(stdout)
        for node, node_look in answers.items():
            wrote = probe / node
            node_look.unshared = (
                node_look.ended
                and not (node_look.unseen or node_look.unreadable or node_look.unwritable)
                and not (wrote.is_file() and wrote.read_text(encoding="ascii") == token)
            )
    problem = "" if answers else ends.quoted(stderr) or f"srun ended with exit code {code}"
    return Look(partition.name, sorted(nodes), answers, left, problem, began, ended, stderr)


def run(
    command: Sequence[str], environment: Mapping[str, str], name: str, limit_s: float = LIMIT_S
) -> tuple[str, str, int | None]:
    """What srun prints, also where it had to be ended; then its exit code is None."""
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=dict(environment),
            timeout=limit_s,
            check=False,
        )
    except FileNotFoundError:
        raise PrerequisiteError(f"{command[0]} is not on the path") from None
    except subprocess.TimeoutExpired as error:
        with contextlib.suppress(PrerequisiteError):
            client.output("scancel", f"--name={name}")
        out, err = (
            text.decode("utf-8", "replace") if isinstance(text, bytes) else text or ""
            for text in (error.stdout, error.stderr)
        )
        return out, f"{err}\nsrun did not end within {limit_s:g} s", None
    return answer.stdout, answer.stderr, answer.returncode


def parse(text: str) -> dict[str, NodeLook]:
    """What each node said; a line that is not whole is none."""
    looks: dict[str, NodeLook] = {}
    for line in text.split("\n")[:-1]:
        fields = line.split("\t")
        if len(fields) == 4 and fields[0] == MARK:
            _, node, about, value = fields
            _take(looks.setdefault(node, NodeLook(node)), about, value)
    return looks


_TEXTS = {
    "at": "at",
    "unwritable": "unwritable",
    "unprepared": "unprepared",
    "python-failed": "python_failed",
}


def _take(node_look: NodeLook, about: str, value: str) -> None:
    words = value.replace("\036", "\n").replace("\035", "\t")
    if about in _TEXTS:
        setattr(node_look, _TEXTS[about], words or "it failed")
    elif about in ("unseen", "unreadable"):
        getattr(node_look, about).append(words)
    elif about == "begin":
        node_look.job = words
    elif about == "end":
        node_look.ended = True
    else:
        # From Python. What is not in the form that `readiness` prints is not known of the node.
        with contextlib.suppress(ValueError, TypeError, LookupError):
            content: Any = json.loads(value)
            if about == "clock":
                node_look.clock = float(content)
            elif about == "python":
                node_look.python, node_look.host = tuple(content[0]), str(content[2])
            elif about == "source":
                node_look.source = str(content)
            elif about in ("unresolved", "tools"):
                getattr(node_look, about).update(content)


def own_source() -> str:
    """The digest that a node reports which sees this program."""
    return source_digest(paths.SOURCE / "railgauge/node")


def idle(
    partition: Partition, nodes: Collection[str], more: Sequence[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Those of `nodes` on which a job of ours starts now, and why not on the others."""
    named = option("reservation", "", job_options(partition, more))
    free, left = [], {}
    states = slurm_nodes.show()
    for name in nodes:
        state = states.get(name)
        if state is None:
            left[name] = "not known to Slurm"
        elif state.drained or not state.answers or state.takes_no_job or state.restarts:
            left[name] = state.unavailable_reason
        elif state.asleep:
            left[name] = slurm_nodes.ASLEEP
        elif state.busy:
            left[name] = "busy"
        elif named in reservations.ours() and named in state.reservations:
            # Its flag lets its jobs start whatever other reservations a node has.
            free.append(name)
        elif [r for r in state.reservations if r != named] or (
            not state.reservations and "MAINTENANCE" in state.flags
        ):
            left[name] = state.unavailable_reason
        else:
            free.append(name)
    return free, left
