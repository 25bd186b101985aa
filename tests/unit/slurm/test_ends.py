"""How a job ended, from what jobs left on their standard error in the embedded cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge.slurm import ends

FOLDER = Path(__file__).parents[2] / "data" / "job_end"


def recorded(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8").partition("\n")[2]


CAUSES = {
    "killed": "srun: Force Terminated",
    "missing_file": "cat: /nowhere/x: No such file or directory",
    "missing_library": "python3: error while loading shared libraries: /tmp/broken/libm.so.6",
    "mpi_no_pmi": "[node001:94018] PMIX ERROR: NOT-FOUND",
    "mpi_plugin": "Invalid MPI type 'foo'",
    "mpi_pmi2": "If srun is being used to launch application,  2 singletons",
    "no_checkout": "ModuleNotFoundError: No module named 'railgauge'",
    "no_libmpi": "mpi_world: libmpi.so.99: cannot open shared object file",
    "no_python": "python3\u2019: No such file or directory",
    "no_python_execve": "error: execve(): python3: No such file or directory",
    "no_room_for_memory": "exceeded memory limit",
    "chdir": "couldn't chdir to `/nowhere'",
    "chdir_26.05": "couldn't chdir to `/nowhere'",
    "ended_by_srun_26.05": "n2: task 1: Exited with exit code 3",
    "mpi_pmi2_26.05": "If srun is being used to launch application,  2 singletons",
    "no_python_execve_26.05": "error: execve(): python3: No such file or directory",
    "no_room_for_memory_26.05": "exceeded memory limit",
    "python_home": "Fatal Python error: Failed to import encodings module",
    "segfault": "srun: error: n1: task 0: Segmentation fault",
    "traceback": "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
}


def test_every_recording_has_its_cause_here() -> None:
    assert set(CAUSES) == {path.stem for path in FOLDER.glob("*.txt")}


@pytest.mark.parametrize("name", sorted(CAUSES.keys() - {"killed"}))
def test_the_cause_is_quoted_and_not_what_follows_from_it(name: str) -> None:
    assert CAUSES[name] in ends.quoted(recorded(name))


def test_of_a_killed_task_srun_alone_speaks() -> None:
    assert ends.quoted(recorded("killed")).startswith("srun: ")


def test_sruns_own_words_are_quoted_where_nothing_else_is_said() -> None:
    stderr = (
        "srun: error: Unable to create step: Requested nodes are busy\n"
        "srun: error: n1: task 0: Exited with exit code 1\n"
    )
    assert "Requested nodes are busy" in ends.quoted(stderr)


def test_a_warning_is_no_cause() -> None:
    stderr = "tool: warning: cannot set the buffer\ntool: connect failed: refused\n"
    assert ends.quoted(stderr) == "tool: connect failed: refused"


def test_of_a_box_of_open_mpi_its_first_sentence_is_the_cause() -> None:
    box = recorded("mpi_no_pmi").partition("line 112\n")[2]
    assert ends.quoted(box).endswith("PMI support and therefore cannot execute.")


ENVIRONMENT = {
    "mpi_no_pmi": ("OMPI was not built with SLURM's PMI support", "launch_options"),
    "mpi_pmi2": ("No PMIx server was reachable", "launch_options"),
    "mpi_plugin": ("plugin name for mpi/foo", "launch_options"),
    "no_libmpi": ("libmpi.so.99: cannot open", "env_vars"),
    "chdir": ("n1 does not see /nowhere: No such file or directory", "RAILGAUGE_RESULTS"),
    "chdir_26.05": ("a node does not see /nowhere: No such file or directory", "RAILGAUGE_RESULTS"),
    "mpi_pmi2_26.05": ("No PMIx server was reachable", "launch_options"),
    "no_python_execve_26.05": ("Python does not start: execve(): python3", "python3"),
    "no_checkout": ("does not see the checkout", "clone"),
    "no_python": ("Python does not start: env: ", "python3"),
    "no_python_execve": ("Python does not start: execve(): python3", "python3"),
    "missing_library": ("libm.so.6: file too short", "python3"),
    "python_home": ("Failed to import encodings module", "python3"),
}


@pytest.mark.parametrize("name", sorted(CAUSES))
def test_what_a_cluster_lacks_differs_from_what_a_node_or_a_tool_did(name: str) -> None:
    trouble = ends.environment_trouble(recorded(name))
    if name not in ENVIRONMENT:
        assert trouble is None
        return
    words, step = ENVIRONMENT[name]
    assert trouble is not None
    assert words in trouble.words and "\n" not in trouble.words
    assert step in trouble.next_step


def test_a_folder_that_one_node_does_not_see_is_the_area_and_not_the_cases() -> None:
    stage = "/shared/results/campaigns/20261122T034210Z-lab-668846/stage/lab/ns/builtin/Iperf2Pair"
    stderr = recorded("chdir").replace("/nowhere", stage)
    trouble = ends.environment_trouble(stderr)
    assert trouble is not None
    assert trouble.words == "n1 does not see /shared/results: No such file or directory"
    assert trouble.nodes == ("n1",)


# ---- containers ----

_NO_CONTAINER = """\
{name} error: pyxis:     [ERROR] No such file or directory: /images/x.sqsh
{name} error: pyxis: couldn't start container
srun: error: n3: task 2: Exited with exit code 1
"""


@pytest.mark.parametrize(
    ("name", "nodes"),
    [("slurmstepd-n3:", ("n3",)), ("slurmstepd:", ()), ("[2026-11-28T09:59:46.136]", ())],
)
def test_a_container_that_did_not_start_names_its_node_and_what_it_lacked(
    name: str, nodes: tuple[str, ...]
) -> None:
    """Who ended with code 1 may be any of the job's: where Slurm does not say who speaks, nobody
    is named.
    """
    trouble = ends.environment_trouble(_NO_CONTAINER.format(name=name))
    assert trouble is not None and trouble.nodes == nodes
    assert trouble.words.endswith(": No such file or directory: /images/x.sqsh")


def test_a_hook_that_failed_is_the_nodes_own_trouble() -> None:
    """As where the driver of its GPUs is not loaded."""
    hook = (
        "slurmstepd-n3: error: pyxis:     nvidia-container-cli: initialization error: nvml error: "
        "driver not loaded\n"
    )
    assert ends.environment_trouble(hook + _NO_CONTAINER.format(name="slurmstepd-n3:")) is None


def test_every_node_without_the_image_is_named() -> None:
    both = "".join(_NO_CONTAINER.format(name=f"slurmstepd-{node}:") for node in ("n3", "n4"))
    trouble = ends.environment_trouble(both)
    assert trouble is not None and trouble.nodes == ("n3", "n4")


def test_a_container_for_which_there_was_no_room_is_another_matter() -> None:
    full = "slurmstepd-n3: error: pyxis:     [ERROR] write: No space left on device\n"
    assert ends.environment_trouble(full + _NO_CONTAINER.format(name="slurmstepd-n3:")) is None


@pytest.mark.parametrize(
    "words",
    [
        "Exceeded job memory limit",
        # task_cgroup_memory.c of 21.08, and of 23.02 and later
        "Detected 1 oom-kill event(s) in StepId=12.0. Some of your processes may have been killed "
        "by the cgroup out-of-memory handler.",
        "Detected 1 oom_kill event in StepId=12.0. Some of the step tasks have been OOM Killed.",
    ],
)
def test_a_job_that_had_too_much_memory_is_reported(words: str) -> None:
    stderr = f"slurmstepd-n1: error: {words}\nsrun: error: n1: task 0: Out Of Memory\n"
    assert ends.out_of_memory_on(stderr, "n1") == words
    assert ends.out_of_memory_on(stderr, "n2") is None


@pytest.mark.parametrize(
    ("line", "node"), [("n1: task 0: Out Of Memory", "n1"), ("n2: tasks 4-7: Killed", "n2")]
)
def test_words_of_memory_without_a_node_are_of_nodes_with_killed_tasks(
    line: str, node: str
) -> None:
    words = "Detected 1 oom_kill event in StepId=12.0. Some of the step tasks have been OOM Killed."
    stderr = f"[2026-11-28T09:59:50.047] error: {words}\nsrun: error: {line}\n"
    named = {one: ends.out_of_memory_on(stderr, one) for one in ("n1", "n2", "n3")}
    assert named == {"n1": None, "n2": None, "n3": None, node: words}


def test_slurm_26_05_ends_all_tasks_of_a_step_that_had_too_much_memory() -> None:
    stderr = recorded("no_room_for_memory_26.05")
    for node in ("n1", "n2"):
        assert str(ends.out_of_memory_on(stderr, node)).startswith("StepId=31.0 exceeded memory")
    assert ends.out_of_memory_on(stderr, "n3") is None


def test_the_nodes_that_srun_ended_are_known_and_not_the_one_that_failed() -> None:
    assert ends.ended_by_launcher(recorded("ended_by_srun_26.05")) == {"n1", "n3"}
