"""Starting ReFrame in the right environment: what `bin/reframe` and `railgauge accept` share."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from railgauge import lab, paths, systems
from railgauge.campaign import variables
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.slurm import client
from railgauge.systems import rehearsal

#: Set in processes that already see the lab's mounts; its value is the lab's first process.
MOUNTS_VARIABLE = "RAILGAUGE_LAB_MOUNTS"

#: Set by `railgauge accept`: its own process, without which its session is to end.
PARENT_VARIABLE = "RAILGAUGE_PARENT"

#: Objects that are made before Python looks for reference cycles among them.
_COLLECT_OBJECTS = 100_000


def use(system: str, partition: str = "") -> None:
    """Let this process, and those it starts, work on `system`, or on one partition of it.

    Names it to ReFrame, gives ReFrame our configuration, and for the lab puts the lab's Slurm
    commands first on the path. SlurmError where Slurm's own are turned to another cluster. The
    caller's variables do not reach jobs: the same command means the same for everybody.
    """
    if (problem := client.elsewhere()) is not None:
        raise problem
    # First: in a rehearsal the description of this system is another one.
    os.environ["RFM_SYSTEM"] = f"{system}:{partition}" if partition else system
    _drop_callers_variables(system)
    os.environ["RFM_CONFIG_FILES"] = f":{paths.SETTINGS}"
    if in_lab(system):
        commands = str(paths.lab_folder() / "bin")
        others = [p for p in os.environ["PATH"].split(os.pathsep) if p != commands]
        os.environ["PATH"] = os.pathsep.join([commands, *others])


def _drop_callers_variables(system: str) -> None:
    """Say on standard error which, but for those of the job that this process is in."""
    if not client.callers():
        return
    in_job = "SLURM_JOB_ID" in os.environ
    try:
        partitions = systems.load(system).partitions
    except RailgaugeError:
        # The code that needs the description says what is wrong with it.
        partitions = []
    dropped = client.drop_callers({n for p in partitions for n in p.extras.keep_variables})
    named = [name for name in dropped if not (in_job and name.startswith("SLURM"))]
    if named:
        print(
            f"railgauge: not passed on to jobs: {', '.join(named)}; a system keeps what its "
            "extras.keep_variables name",
            file=sys.stderr,
        )


def in_lab(system: str) -> bool:
    """Whether the lab's Slurm runs this system's jobs."""
    return systems.is_of_lab(system) or rehearsal.scenario() is not None


def enter_lab_mounts(system: str) -> None:
    """Let this process, and those it starts, see the mounts that the lab's machines see.

    To be called while it has one thread, before anything looks for results. Does nothing where the
    lab is down or was entered already; PrerequisiteError where it is the cluster of another
    system, or the nodes would not see the results. It needs the same file systems as the nodes, so
    that what is mounted there (a full results area, say) is what is met here.
    """
    init = lab.first_process(paths.lab_folder())
    is_up = lab.system_in(paths.lab_folder())
    if init is None or is_up is None or os.environ.get(MOUNTS_VARIABLE) == str(init.pid):
        return
    if is_up != system and systems.is_of_lab(system):
        raise PrerequisiteError(
            f"the lab that is up is of system {is_up}, not {system}",
            next_step=f"railgauge lab down; railgauge lab up --system {system}",
        )
    shared = (paths.lab_folder() / "run" / "shared").read_text().splitlines()
    results = paths.results_root()
    if not any(results.is_relative_to(folder) for folder in shared):
        raise PrerequisiteError(
            f"the lab's nodes do not see the results root {results}",
            next_step=f"railgauge lab down; RAILGAUGE_RESULTS={results} railgauge lab up",
        )
    folder = Path.cwd()
    try:
        _enter_mounts(init.pid)
        os.chdir(folder)
    except OSError as error:
        raise PrerequisiteError(
            f"the lab's mounts cannot be entered: {error}",
            next_step="railgauge lab status; as root",
        ) from None
    os.environ[MOUNTS_VARIABLE] = str(init.pid)


def _enter_mounts(pid: int) -> None:
    """setns(2) into the mounts of process `pid`; OSError where the kernel refuses, as it does for a
    process with several threads. Python has it since 3.12.
    """
    new_mounts = 0x00020000  # CLONE_NEWNS
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(namespace, new_mounts):
            number = ctypes.get_errno()
            raise OSError(number, f"setns: {os.strerror(number)}")
    finally:
        os.close(namespace)


def _system_in(arguments: Sequence[str]) -> str | None:
    """The value of ReFrame's `--system`, without the partition."""
    for place, argument in enumerate(arguments):
        if argument == "--system" and place + 1 < len(arguments):
            return arguments[place + 1].partition(":")[0]
        if argument.startswith("--system="):
            return argument.removeprefix("--system=").partition(":")[0]
    return None


def compile_for_nodes() -> None:
    """Leave the bytecode of what runs on nodes next to it, whatever PYTHONDONTWRITEBYTECODE says.

    Else every agent and every rank compiles it again where nodes may not write there: a quarter of
    the time that it takes to start, seconds where the CPU is emulated. A checkout that cannot be
    written to stays as it is; nodes with another Python leave bytecode of their own where they can.
    """
    import compileall

    for room in ("node", "slurm", "locating", "common"):
        compileall.compile_dir(paths.SOURCE / "railgauge" / room, quiet=2)
    compileall.compile_file(paths.SOURCE / "railgauge" / "__init__.py", quiet=2)


def _end_with_parent() -> None:
    """Let the kernel send this process a Ctrl-C when `railgauge accept` is killed: it cancels its
    jobs and writes its report, instead of going on unseen.
    """
    parent = os.environ.pop(PARENT_VARIABLE, None)
    if parent is None:
        return
    set_parent_death_signal = 1  # prctl(2), PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGINT)
    if os.getppid() != int(parent):
        sys.exit("reframe: railgauge accept is gone already")


def _prepare(system: str) -> None:
    """Let this process work on `system`; in the lab, with what its machines see."""
    use(system, partition=os.environ.get("RFM_SYSTEM", "").partition(":")[2])
    if not in_lab(system):
        return
    if rehearsal.scenario() and paths.campaign_folder() is None:
        raise PrerequisiteError(
            f"{rehearsal.VARIABLE} is set", next_step=f"railgauge rehearse {system}"
        )
    enter_lab_mounts(system)
    if ":" not in os.environ["RFM_SYSTEM"]:
        # One measurement at a time, also of different partitions: they share one machine.
        sys.argv.insert(1, "--exec-policy=serial")


def main() -> None:
    """`reframe`, guarded."""
    # A shell's background job starts with Ctrl-C ignored; `railgauge accept` must be heard.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        system = systems.chosen(_system_in(sys.argv[1:]))
    except RailgaugeError:
        # `--version` works anywhere; whatever needs a system gets the error from settings.py.
        os.environ["RFM_CONFIG_FILES"] = f":{paths.SETTINGS}"
    else:
        try:
            _prepare(system)
        except RailgaugeError as error:
            sys.exit(f"reframe: {error}")
    _end_with_parent()
    compile_for_nodes()
    plan_only = bool(os.environ.get(variables.PLAN_ONLY))
    # Places by the hundred thousand make no circles; looking for them takes a tenth of the time.
    if plan_only:
        gc.disable()
    else:
        gc.set_threshold(_COLLECT_OBJECTS)
    from reframe.frontend import cli

    from railgauge.checks.framework import reframe_guard

    reframe_guard.install()
    sys.argv[0] = "reframe"
    try:
        cli.main()
    except SystemExit as ended:
        if reframe_guard.unready is not None:
            sys.exit(reframe_guard.unready.exit_code)
        if plan_only and isinstance(ended.code, int):
            # The list is written, and to take all places down would take a sixth of the time.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(ended.code)
        raise


if __name__ == "__main__":
    main()
