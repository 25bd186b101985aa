"""Railgauge on the lab of each Debian release, and a stranger's first ten minutes on one of them.

    make compat [RELEASES="bookworm trixie"]      (python -m tests.lab.compat [RELEASE...])

Each step is a test, a drill or a command that is there anyway; here they run with other versions of
Slurm, Open MPI, iperf2 and Python. Prints what it does, and writes the table of
docs/compatibility.md when all releases ran. The exit code is 1 where anything failed. The labs are
in a folder of their own (.lab/compat), with the images of .lab; one that is up there goes down.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from importlib import metadata

from railgauge import paths
from railgauge.campaign import variables
from railgauge.cli.lab import open_lab
from railgauge.common.atomic import write_text
from railgauge.common.errors import EXIT_INCONCLUSIVE, EXIT_USAGE, RailgaugeError
from railgauge.lab import releases, spec
from railgauge.lab.cluster import Lab
from railgauge.lab.releases import Release
from railgauge.lab.spec import LabSpec

from . import first_cluster, first_gate

DOCUMENT = paths.HOME / "docs" / "compatibility.md"
BEGIN, END = "<!-- made by make compat -->\n", "<!-- end of what make compat made -->\n"

FOLDER = paths.HOME / ".lab" / "compat"
AREA = paths.HOME / "results" / "tests" / "compat"
RAILGAUGE = str(paths.HOME / "bin" / "railgauge")
NODES = ["n1", "n2", "n3", "n4"]

#: Older ones are here for the Python of their nodes.
OLDEST_SLURM = (22, 5)

#: program of the image -> (how to ask for its version, where it is in the answer)
VERSIONS = {
    "Slurm": ("sinfo --version", r"slurm-wlm (\S+)"),
    "Open MPI": ("mpirun --version", r"\(Open MPI\) (\S+)"),
    "MPICH": ("mpichversion", r"MPICH Version:\s+(\S+)"),
    "iperf2": ("iperf --version 2>&1", r"iperf version (\S+)"),
    "iperf3": ("iperf3 --version", r"iperf (\S+)"),
    "perftest": ("dpkg-query -W -f '${Version}' perftest", r"(\S+)"),
    "Python of the nodes": ("python3 --version", r"Python (\S+)"),
}


def must(*command: str, limit_s: float = 1200, last: str = "") -> None:
    """Run a command here; AssertionError with its last words where it fails."""
    done = subprocess.run(
        command,
        cwd=paths.HOME,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit_s,
        check=False,
    )
    shown = "\n".join(done.stdout.splitlines()[-25:])
    assert done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{shown}"
    assert last in done.stdout, f"{' '.join(command)}: no {last!r}\n{shown}"


def tests(*names: str) -> Callable[[], None]:
    """Tests of tests/lab, on the lab that is up."""
    return lambda: must(sys.executable, "-m", "pytest", "--quiet", *names)


#: What is done with a lab that is up, by the name in the table.
STEPS: dict[str, Callable[[], None]] = {
    "`system check`": lambda: must(RAILGAUGE, "system", "check", "lab"),
    "host lists": tests("tests/lab/test_lab.py", "-k", "host_lists"),
    "`accept`": lambda: must(RAILGAUGE, "accept", "--partition", "ns", last="ACCEPT 9 of 9"),
    "faults of links and nodes": tests(
        "tests/lab/test_accept.py",
        "-k",
        "slow_link_is_rejected or loses_power or restarted_controller",
    ),
    "how jobs and tools end": tests(
        "tests/lab/test_fooling.py",
        "-k",
        "time_limit or Cancelled or JobFails or ServerDies or EndedByTerm or Inflated "
        "or out_of_memory",
    ),
    "a queue that does not move": tests(
        *("tests/lab/test_slurm_trouble.py", "tests/lab/test_sweep_ends.py", "-k"),
        "drained_node or is_cancelled or controller_that_hangs",
    ),
    "gate: hold, test, return": lambda: must(
        sys.executable, "-m", "tests.lab.drill", "changed-field", "shaped-link"
    ),
    "resume, two campaigns": tests(
        "tests/lab/test_resume.py::test_one_of_two_campaigns_is_killed_and_goes_on"
    ),
}

#: What holds for newer versions of Slurm alone.
NEWEST_SLURM = (26, 5)
OF_NEWEST = {"what Slurm 26.05 changed": tests("tests/lab/test_slurm_changes.py")}

#: On VM nodes, of releases that have them.
VM_NODES = ["n5", "n6"]
OF_VM_NODES = {
    "`accept`, VM nodes": lambda: must(RAILGAUGE, "accept", "--partition", "vm", last="ACCEPT 27"),
}

#: What runs on nodes, and nothing that older tools lack: iperf 2.0.14 prints no retransmits.
ON_NODES: dict[str, Callable[[], None]] = {
    "`system check`": STEPS["`system check`"],
    "`inventory show`": lambda: must(RAILGAUGE, "inventory", "show", "--nodes", "n[1-4]"),
    "NodeState, iperf3, lftp, scp": lambda: must(
        *(
            "env",
            f"{variables.SERIES}=1",
            "bin/reframe",
            "-c",
            "reframe/",
            "-r",
            "--system",
            "lab:ns",
        ),
        *("-n", "NodeState|Iperf3Pair|FtpTransfer|ScpTransfer"),
        last="Ran 9/9 test case(s)",
    ),
    "MPI's world": lambda: must(
        *(RAILGAUGE, "lab", "exec", "head", "srun", "--mpi=pmix", "--nodes=4"),
        *("env", f"PYTHONPATH={paths.SOURCE}", "python3", "-m", "railgauge.node.runners.mpi_world"),
        last="world of 4",
    ),
    "`gate adopt`, `gate hold`": lambda: [
        must(RAILGAUGE, "gate", "adopt", "--nodes", "n[1-4]", "--act"),
        must(RAILGAUGE, "gate", "hold", "--nodes", "n[1-4]", last="n4: unchanged"),
    ][-1],
}


class Table:
    """Rows by name, columns by release."""

    def __init__(self) -> None:
        self.cells: dict[str, dict[str, str]] = {}
        self.failed = 0

    def put(self, row: str, release: Release, cell: str) -> None:
        self.cells.setdefault(row, {})[release.name] = cell
        print(f"{release.name:<10} {row:<28} {cell}", flush=True)

    def step(self, row: str, release: Release, act: Callable[[], None]) -> bool:
        """Put whether `act` works, and how long it takes; what is wrong goes to the terminal."""
        started = time.monotonic()
        try:
            act()
        except (AssertionError, RailgaugeError, subprocess.SubprocessError) as error:
            self.failed += 1
            self.put(row, release, "**failed**")
            print(error, flush=True)
            return False
        self.put(row, release, f"ok, {time.monotonic() - started:.0f} s")
        return True

    def markdown(self, columns: list[Release]) -> str:
        lines = [
            f"| | {' | '.join(f'Debian {each.name}' for each in columns)} |",
            f"|---|{'---|' * len(columns)}",
        ]
        for row, cells in self.cells.items():
            shown = " | ".join(cells.get(each.name, "not run") for each in columns)
            lines.append(f"| {row} | {shown} |")
        return "\n".join(lines) + "\n"


def own_cluster(release: Release, table: Table) -> None:
    """The lab of `release`, and the steps on it."""
    lab = open_lab(release.name)
    try:
        if not table.step("`lab up`", release, lambda: lab.up(nodes=NODES)):
            return
        for name, (question, pattern) in VERSIONS.items():
            # iperf 2.0 ends with 1 after its version.
            asked = lab.enter("n1", "sh", "-c", question)
            answer = subprocess.run(asked, capture_output=True, text=True, check=False)
            found = re.search(pattern, answer.stdout)
            table.put(name, release, found.group(1) if found else "none")
        table.put("ReFrame", release, metadata.version("reframe-hpc"))
        steps = STEPS if release.slurm >= OLDEST_SLURM else ON_NODES
        newest = OF_NEWEST if release.slurm >= NEWEST_SLURM else {}
        for name, act in {**steps, **newest}.items():
            table.step(name, release, act)
            lab.up(nodes=NODES)
        if release.vm_nodes:
            lab.up(nodes=[*NODES, *VM_NODES])
            for name, act in OF_VM_NODES.items():
                table.step(name, release, act)
    finally:
        lab.down()


def unknown_cluster(release: Release, table: Table) -> None:
    """The documented commands, as alice types them on a cluster that nobody here knows."""
    cluster = spec.load(first_cluster.CLUSTER)
    with prepared(cluster, release, table, "another cluster, up") as lab:
        table.step("its first verdict", release, lambda: first_verdict(lab))
        table.step("its gate", release, lambda: first_gate.refused_then_tested(lab))
        seen = "c[01-04] do not see /local/bob/railgauge"
        table.step(
            "nodes do not see the clone",
            release,
            lambda: refused(lab, first_cluster.USER_OF_ONE_MACHINE, seen),
        )
    plain = first_cluster.without_accounting(cluster)
    with prepared(plain, release, table, "the same, no accounting, up") as lab:
        table.step(
            "its first refusal", release, lambda: refused(lab, first_cluster.USER, "accounting")
        )


@contextlib.contextmanager
def prepared(cluster: LabSpec, release: Release, table: Table, row: str) -> Iterator[Lab]:
    lab = Lab(cluster, {}, release=release)
    wheels = FOLDER / "wheels"

    def prepare() -> None:
        lab.up()
        python = lab.on_head("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
        first_cluster.download(wheels, python.stdout.strip())
        first_cluster.prepare(lab, wheels)

    try:
        table.step(row, release, prepare)
        yield lab
    finally:
        lab.down()


def first_verdict(lab: Lab) -> None:
    typed = first_cluster.commands(first_cluster.DOCUMENT.read_text(encoding="utf-8"))
    last = ""
    for done in first_cluster.type_all(lab, typed):
        print(f"  {done.seconds:5.1f} s  $ {done.command}", flush=True)
        # What was made by --like tcp has floors, and they accept provisionally.
        good = EXIT_INCONCLUSIVE if done.command.endswith("railgauge accept") else 0
        assert done.returncode == good, f"exit code {done.returncode}\n{done.output}"
        last = done.output
    assert "\nPROVISIONAL ACCEPT " in last and "by floors" in last, last


def refused(lab: Lab, user: str, why: str) -> None:
    """No node is accused, and nothing is measured: one message, and exit code 3."""
    *before, last = list(first_cluster.type_all(lab, first_cluster.UNCHECKED, user))
    for done in before:
        assert done.returncode == 0, f"{done.command}: exit code {done.returncode}\n{done.output}"
    assert last.returncode == EXIT_USAGE, f"exit code {last.returncode}\n{last.output}"
    assert why in last.output and "next: " in last.output, last.output


def main(names: list[str]) -> int:
    chosen = [releases.named(name) for name in names] or list(releases.RELEASES.values())
    os.environ["RAILGAUGE_LAB_DIR"] = str(FOLDER)
    os.environ["RAILGAUGE_RESULTS"] = str(AREA)
    AREA.mkdir(parents=True, exist_ok=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    images = FOLDER / "rootfs"
    if not images.is_symlink():
        (paths.HOME / ".lab" / "rootfs").mkdir(exist_ok=True)
        images.symlink_to("../rootfs")
    open_lab().down()
    table = Table()
    for release in chosen:
        own_cluster(release, table)
        if release.login:
            unknown_cluster(release, table)
    if not names:
        before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        day = datetime.now(timezone.utc).date()
        made = f"{table.markdown(chosen)}\nMeasured on {day}.\n"
        write_text(DOCUMENT, before + BEGIN + made + END + after)
        print(f"\n{made}")
    return int(table.failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
