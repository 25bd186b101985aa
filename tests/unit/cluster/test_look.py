"""What nodes say of what they see: the real programs, under an srun that starts them here."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from railgauge import paths, systems
from railgauge.cluster import look as looking
from railgauge.cluster import mpi, ready
from railgauge.cluster.look import from_reframe, job_options, parse
from railgauge.common.errors import PrerequisiteError
from railgauge.node.system.readiness import MARK
from railgauge.slurm import client, reservations
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmError
from railgauge.slurm.nodes import SlurmNode
from railgauge.systems import Partition

#: Slurm as the look meets it: two nodes, of which each task runs here; `fault.NODE` is sourced
#: before a node's own part, and lines that it prints come first.
SRUN = """\
#!/bin/bash
echo "$@" >>{folder}/asked
while [[ $1 != bash ]]; do shift; done
for node in n1 n2; do
  (
    export SLURMD_NODENAME=$node SLURM_JOB_ID=7
    [[ ! -e {folder}/fault.$node ]] || source {folder}/fault.$node
    exec "$@"
  )
done
"""
SCONTROL = """\
#!/bin/bash
[[ "$*" == *reservation* ]] && exit 0
for node in n1 n2 n3; do
  state=IDLE
  [[ $node != n3 ]] || state={n3}
  echo "NodeName=$node NodeAddr=127.0.0.1 NodeHostName=$node State=$state ThreadsPerCore=1"
done
"""


class Cluster:
    """Two nodes that are this machine, and a third whose state a test chooses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def program(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def fault(self, node: str, shell: str) -> None:
        """What happens on a node before it looks."""
        (self.folder / f"fault.{node}").write_text(shell)

    @property
    def asked(self) -> str:
        return (self.folder / "asked").read_text()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    folder = tmp_path / "bin"
    folder.mkdir()
    found = Cluster(folder)
    found.program("srun", SRUN.format(folder=shlex.quote(str(folder))))
    found.program("scontrol", SCONTROL.format(n3="ALLOCATED"))
    found.program("sbatch", "#!/bin/bash\necho 'sbatch: Job 8 to start' >&2\n")
    # A python3 of a node has none of this environment's packages.
    found.program("python3", f'#!/bin/bash\nexec {shlex.quote(sys.executable)} -S "$@"\n')
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("RAILGAUGE_STACK_DIR", str(tmp_path / "stack"))
    monkeypatch.delenv(reservations.RESERVATION_VARIABLE, raising=False)
    monkeypatch.setattr(systems, "load", lambda _: SYSTEM)
    slurm_nodes.other_names.cache_clear()
    yield found
    slurm_nodes.other_names.cache_clear()


PARTITION = Partition.model_validate(
    {
        "name": "ns",
        "access": ["--partition=batch --account=net"],
        "features": ["tcp"],
        "extras": {"nodes": "n[1-3]"},
    }
)


class OnePartition:
    name = "site"

    def partition(self, name: str) -> Partition:
        assert name == "ns"
        return PARTITION


SYSTEM = OnePartition()
ALL = {"ns": ["n1", "n2", "n3"]}


def said() -> list[str]:
    """What the nodes lack."""
    (seen,) = ready.looks("site", ALL)
    return [str(trouble) for trouble in ready.troubles(seen.nodes.values())]


def test_nodes_that_see_all_lack_nothing(cluster: Cluster) -> None:
    assert said() == []
    assert not list((cluster.folder.parent / "results").iterdir())


def test_the_nodes_are_asked_by_the_options_of_the_partitions_jobs(cluster: Cluster) -> None:
    said()
    assert "--partition=batch --account=net --nodelist=n[1-2]" in cluster.asked


def test_a_node_that_is_busy_is_not_asked_and_said(cluster: Cluster) -> None:
    (seen,) = ready.looks("site", ALL)
    assert (sorted(seen.nodes), dict(seen.left)) == (["n1", "n2"], {"n3": "busy"})


@pytest.mark.parametrize(
    ("state", "why"),
    [("IDLE+DRAIN", "drained"), ("DOWN+NOT_RESPONDING", "does not answer"), ("IDLE+X", "")],
)
def test_only_nodes_on_which_jobs_start_are_asked(cluster: Cluster, state: str, why: str) -> None:
    cluster.program("scontrol", SCONTROL.format(n3=state))
    _, left = looking.idle(PARTITION, ["n3"])
    assert why in left.get("n3", "")
    assert bool(left) is bool(why)


def hidden(folder: Path) -> str:
    """A node's part meets nothing there."""
    beginning = str(folder).replace(" ", "\\ ")
    there, gone = "'! -e $file'", f"'$file == {beginning}*'"
    return f'set -- bash -c "${{3/{there}/{gone}}}" "${{@:4}}"\n'


def test_a_folder_that_nodes_do_not_see_is_named_with_them(cluster: Cluster) -> None:
    for node in ("n1", "n2"):
        cluster.fault(node, hidden(paths.results_root()))
    (words,) = said()
    assert words == f"n[1-2] do not see {paths.results_root()} (the results area)"


def test_a_checkout_that_a_node_does_not_see_is_said_once(cluster: Cluster) -> None:
    cluster.fault("n2", hidden(paths.HOME))
    assert said() == [f"n2 does not see {paths.HOME} (the checkout)"]


def test_descriptions_outside_of_the_program_that_a_node_does_not_see_are_named(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a site" / "configs" / "systems"
    (folder / "site").mkdir(parents=True)
    monkeypatch.setattr(paths, "SITE", tmp_path / "a site")
    monkeypatch.setattr(paths, "SYSTEMS", folder)
    cluster.fault("n2", hidden(folder))
    assert said() == [f"n2 does not see {folder} (the site's descriptions)"]


def test_another_folder_of_the_same_name_is_not_taken_for_the_results_area(
    cluster: Cluster, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    # The seventh word is the folder that the login node has made.
    cluster.fault("n1", f'mkdir -p {other}; set -- "${{@:1:6}}" {other} "${{@:8}}"')
    (words,) = said()
    assert words.startswith("n1 has another ")


def test_a_folder_that_cannot_be_written_is_said_with_the_reason(
    cluster: Cluster, tmp_path: Path
) -> None:
    other = tmp_path / "full"
    # A folder in the place of the file: root may write everywhere else.
    cluster.fault(
        "n2",
        f'mkdir -p {other}/n2; set -- "${{@:1:6}}" {other} "${{@:8}}"',
    )
    (words,) = said()
    assert words.startswith("n2 cannot write into") and words.endswith("Is a directory")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (
            "echo 'python3: error while loading shared libraries: libexpat.so.1: cannot open "
            "shared object file: No such file or directory' >&2; exit 127",
            "does not start python3: python3: error while loading shared libraries: libexpat.so.1",
        ),
        ("exit 3", "does not start python3: it failed"),
    ],
)
def test_a_python_that_does_not_start_is_quoted(
    cluster: Cluster, tmp_path: Path, program: str, words: str
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "python3").write_text(f"#!/bin/bash\n{program}\n")
    (broken / "python3").chmod(0o755)
    cluster.fault("n2", f"PATH={broken}:$PATH")
    (found,) = said()
    assert found.startswith(f"n2 {words}")


def test_no_python_is_said(cluster: Cluster, tmp_path: Path) -> None:
    programs = tmp_path / "few"
    programs.mkdir()
    for name in ("bash", "tr", "uname"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    cluster.fault("n1", f"PATH={programs}")
    assert said() == ["n1 does not start python3: python3: command not found"]


def test_a_node_that_hangs_is_named_with_what_it_was_at(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "LIMIT_S", 30)
    monkeypatch.setattr(looking.run, "__defaults__", (30,))
    cluster.program("scancel", "#!/bin/bash\n")
    cluster.program("python3", "#!/bin/bash\nexec sleep 100\n")
    assert said() == ["n1 does not come to an end while starting python3"]


# ---- what each says, from its lines ----


def line(node: str, about: str, value: object) -> str:
    return "\t".join((MARK, node, about, json.dumps(value))) + "\n"


def troubles(**told: object) -> list[str]:
    text = "".join(line("n1", about.replace("_", "-"), value) for about, value in told.items())
    text += f"{MARK}\tn1\tend\t\n"
    return [str(trouble) for trouble in ready.troubles(parse(text).values())]


def test_an_old_python_is_said_with_the_oldest_that_works() -> None:
    assert troubles(python=[[3, 6, 8], "/usr/bin/python3", "n1"]) == [
        "n1 has Python 3.6.8, expected 3.9 or newer"
    ]


def test_a_name_that_leads_nowhere_is_said() -> None:
    (words,) = troubles(unresolved={"n2": "n2: Name or service not known"})
    assert words == "n1 does not resolve n2 (n2: Name or service not known)"


def test_another_checkout_of_the_same_path_is_said() -> None:
    (words,) = troubles(source="0" * 64)
    assert words.startswith("n1 sees another checkout in ")


def test_a_line_that_was_cut_is_none() -> None:
    assert parse(line("n1", "clock", 1.5)[:-1]) == {}


# ---- before anything is measured ----


@pytest.mark.parametrize("about", ["clock", "python", "source", "unresolved", "tools"])
@pytest.mark.parametrize("content", [None, 3, "x", [], [3], {}, {"x": None}])
def test_an_answer_of_another_form_is_no_answer(about: str, content: object) -> None:
    text = line("n1", "begin", "7") + line("n1", about, json.dumps(content))
    assert parse(text).keys() == {"n1"}


def test_what_is_lacking_ends_with_all_of_it_and_what_to_type(cluster: Cluster) -> None:
    cluster.fault("n2", hidden(paths.results_root()))
    with pytest.raises(PrerequisiteError) as caught:
        ready.require("site", ALL)
    assert caught.value.exit_code == 3
    assert caught.value.message.startswith("nothing was measured: n2 does not see ")
    assert "RAILGAUGE_RESULTS=" in str(caught.value.next_step)
    assert "railgauge accept --nodes n[1,3]" in str(caught.value.next_step)


def test_a_node_without_a_tool_is_named_before_anything_is_measured(cluster: Cluster) -> None:
    own = cluster.folder / "n1"
    own.mkdir()
    cluster.program("n1/wire-tool", "#!/bin/bash\n")
    cluster.fault("n1", f"PATH={own}:$PATH")
    with pytest.raises(PrerequisiteError) as caught:
        ready.require("site", ALL, tools=lambda _: {"wire-tool": ()})
    assert caught.value.message == "nothing was measured: n2 has no wire-tool"
    assert "install wire-tool on n2" in str(caught.value.next_step)
    assert "railgauge accept --nodes n[1,3]" in str(caught.value.next_step)


def test_what_is_not_known_stops_nothing(cluster: Cluster) -> None:
    cluster.program("srun", "#!/bin/bash\necho 'srun: error: not here' >&2\nexit 1\n")
    told: list[str] = []
    ready.require("site", ALL, say=told.append)
    assert "not here" in told[0]


@pytest.fixture
def mpi_said(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """What srun prints when MPI is started, and its standard error; with MPI in the partition."""
    assert cluster
    given = {**PARTITION.model_dump(), "launcher": "srun", "features": ["tcp", "mpi"]}
    with_mpi = Partition.model_validate(given)
    monkeypatch.setattr(OnePartition, "partition", lambda *_: with_mpi)
    answers: list[tuple[str, str]] = []
    monkeypatch.setattr(mpi, "run", lambda *_: (*answers[0], 0 if not answers[0][1] else 1))
    yield answers


_ALONE = "".join(f"world of 1: rank 0 on n{number}\n" for number in (1, 2))
_NO_PMI = (Path(__file__).parents[2] / "data/job_end/mpi_no_pmi.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("stdout", "stderr", "words"),
    [
        ("", _NO_PMI, "partition ns: MPI finds no launcher: OMPI was not built with SLURM's PMI"),
        (_ALONE, "", "partition ns: every rank is a world of its own: no launch_options"),
    ],
    ids=["no plugin", "singletons"],
)
def test_an_mpi_without_a_launcher_is_the_environment(
    mpi_said: list[tuple[str, str]], stdout: str, stderr: str, words: str
) -> None:
    mpi_said.append((stdout, stderr))
    with pytest.raises(PrerequisiteError) as caught:
        ready.require("site", ALL, with_mpi=ALL)
    assert (caught.value.exit_code, words in caught.value.message) == (3, True)
    assert "launch_options" in str(caught.value.next_step)
    assert "configs/systems/site/reframe.yaml, partition ns" in str(caught.value.next_step)
    # Checks that start no MPI go on without.
    ready.require("site", ALL)


@pytest.mark.parametrize(
    ("stdout", "stderr"),
    [
        (_ALONE.replace("of 1", "of 2"), ""),
        ("world of 2: rank 0 on n1\n", "srun: error: n2: task 1: Segmentation fault\n"),
    ],
    ids=["one world", "a rank that crashed is the campaign's to tell"],
)
def test_what_mpi_does_otherwise_stops_nothing(
    mpi_said: list[tuple[str, str]], stdout: str, stderr: str
) -> None:
    mpi_said.append((stdout, stderr))
    ready.require("site", ALL, with_mpi=ALL)


REFUSED = {
    "allocation failure: Invalid account or account/partition combination specified": True,
    "sbatch: error: Batch job submission failed: Invalid qos specification": True,
    "allocation failure: User's group not permitted to use this partition": True,
    "allocation failure: Invalid partition name specified": True,
    # These nodes, now: the campaign's to tell.
    "allocation failure: Requested node configuration is not available": False,
    "allocation failure: Requested nodes are busy": False,
}


def test_a_job_on_a_node_under_test_does_not_wait_for_itself(cluster: Cluster) -> None:
    with pytest.raises(PrerequisiteError) as refused:
        ready.require("site", ALL, own=["n2", "login1"])
    assert "n2 runs the job in which this was started" in refused.value.message
    assert "--nodes n[1,3]" in str(refused.value.next_step)


@pytest.mark.parametrize(
    ("job", "answer", "nodes"),
    [("", "n2", ()), ("7", "n[2-3]\n", ("n2", "n3")), ("7", "", ()), ("7", None, ())],
)
def test_the_nodes_of_the_own_job_are_known_by_its_number(
    monkeypatch: pytest.MonkeyPatch, job: str, answer: str | None, nodes: tuple[str, ...]
) -> None:
    def asked(*command: str) -> str:
        assert f"--jobs={job}" in command
        if answer is None:
            raise SlurmError("Invalid job id specified")
        return answer

    monkeypatch.setattr(client, "OWN_JOB", job)
    monkeypatch.setattr(client, "output", asked)
    assert slurm_jobs.own_nodes() == nodes


@pytest.mark.parametrize("words", REFUSED)
def test_what_slurm_refuses_whatever_the_nodes_is_said_before(cluster: Cluster, words: str) -> None:
    cluster.program("sbatch", f'#!/bin/bash\necho "{words}" >&2\nexit 1\n')
    found = ready.refusals("site", ["ns", "ns"])
    assert len(found) == int(REFUSED[words])
    for trouble in found:
        assert words.rpartition(": ")[2] in str(trouble)
        assert "--account=net" in str(trouble)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-J", "account=net"], ["--account=net"]),
        (["-Jp=debug", "-n", "x"], ["-p", "debug"]),
        (["--job-option=--qos=high"], ["--qos=high"]),
        (["--job-option", "exclusive", "-J#DW x"], ["--exclusive"]),
        (["-n", "Iperf2Pair"], []),
    ],
)
def test_options_that_reframe_gives_its_jobs_are_those_of_the_look(
    options: list[str], words: list[str]
) -> None:
    assert from_reframe(options) == words


def test_a_look_within_a_job_is_a_job_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/other.conf")
    monkeypatch.setenv("SBATCH_ACCOUNT", "net")
    monkeypatch.setenv("SBATCH_QOS", "low")
    monkeypatch.setattr(client, "_kept", ["SBATCH_ACCOUNT"])
    environment = looking.environment()
    assert "SLURM_JOB_ID" not in environment
    assert environment["SLURM_CONF"] == "/etc/slurm/other.conf"
    assert environment["SLURM_ACCOUNT"] == "net" and "SLURM_QOS" not in environment


def test_the_reservation_of_a_gate_run_holds_for_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(reservations.RESERVATION_VARIABLE, "railgauge_1")
    assert "--reservation=railgauge_1" in job_options(PARTITION)


@pytest.mark.parametrize(
    ("others", "free"),
    [((), ["n1", "n2"]), (("repair",), ["n1", "n2"]), (("repair", "railgauge_0"), ["n1", "n2"])],
)
def test_a_gate_run_looks_at_the_nodes_under_test(
    monkeypatch: pytest.MonkeyPatch, others: tuple[str, ...], free: list[str]
) -> None:
    """Which are in two reservations of the run, and may be in those of others; its partner is in
    one. A node that is in no reservation of the run is left.
    """
    monkeypatch.setenv(reservations.RESERVATION_VARIABLE, "railgauge_1")
    flags = frozenset({"IDLE", "RESERVED", "MAINTENANCE"})
    under_test = ("railgauge_1", "railgauge_1_untested", *others)
    of_node = {"n1": ("railgauge_1",), "n2": under_test, "n3": others or ("repair",)}
    states = {
        name: SlurmNode(name, flags, reservations=reserved) for name, reserved in of_node.items()
    }
    monkeypatch.setattr(slurm_nodes, "show", lambda: states)
    assert looking.idle(PARTITION, ["n1", "n2", "n3"])[0] == free


@pytest.mark.parametrize("maintenance", ["maint", "railgauge_1_untested"])
def test_a_reservation_of_a_users_own_is_no_gate_runs(
    monkeypatch: pytest.MonkeyPatch, maintenance: str
) -> None:
    """Its jobs start on what no other reservation holds."""
    monkeypatch.delenv(reservations.RESERVATION_VARIABLE, raising=False)
    flags = frozenset({"IDLE", "RESERVED"})
    states = {
        "n1": SlurmNode("n1", flags, reservations=("mine",)),
        "n2": SlurmNode("n2", flags, reservations=(maintenance, "mine")),
    }
    monkeypatch.setattr(slurm_nodes, "show", lambda: states)
    assert looking.idle(PARTITION, ["n1", "n2"], ["--reservation=mine"])[0] == ["n1"]


@pytest.mark.parametrize(
    ("campaign", "comment"), [("", "railgauge"), ("/r/20261123-lab-1", "railgauge:20261123-lab-1")]
)
def test_a_look_is_a_job_of_its_campaign(
    monkeypatch: pytest.MonkeyPatch, campaign: str, comment: str
) -> None:
    """By which it is cancelled with the campaign's other jobs, and counts as one of them."""
    monkeypatch.setenv("RAILGAUGE_CAMPAIGN", campaign)
    assert f"--comment={comment}" in looking.allocating(PARTITION, ["n1"], "look")


# ---- Slurm's own ----


def test_accounting_that_is_off_is_said_with_what_it_needs(cluster: Cluster) -> None:
    cluster.program("sinfo", "#!/bin/bash\n")
    cluster.program(
        "sacct", "#!/bin/bash\necho 'Slurm accounting storage is disabled' >&2\nexit 1\n"
    )
    with pytest.raises(PrerequisiteError, match="accounting is off") as caught:
        slurm_jobs.require_answer()
    assert "slurmdbd" in str(caught.value.next_step)


def test_a_slurmdbd_that_is_down_is_named_with_what_to_type(cluster: Cluster) -> None:
    cluster.program("sinfo", "#!/bin/bash\n")
    cluster.program(
        "sacct",
        "#!/bin/bash\necho 'sacct: error: _open_persist_conn: failed to open persistent connection "
        "to host:head:6819: Connection refused\n"
        "sacct: error: Problem talking to the database: Connection refused' >&2\nexit 1\n",
    )
    with pytest.raises(PrerequisiteError) as caught:
        slurm_jobs.require_answer()
    assert caught.value.message.startswith(
        "slurmdbd does not answer at head:6819 (Connection refused)"
    )
    assert "systemctl status slurmdbd" in str(caught.value.next_step)


def test_other_names_are_those_that_differ_from_the_nodes(cluster: Cluster) -> None:
    assert slurm_nodes.other_names() == dict.fromkeys(("n1", "n2", "n3"), ("127.0.0.1",))
    assert slurm_nodes.names_of(["n2"]) == {"n2": ("127.0.0.1",)}
