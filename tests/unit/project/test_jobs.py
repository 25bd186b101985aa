"""The batch scripts in jobs/: every setting has its reason, by hand is measured what the suite
measures, and the scheduled acceptance passes the verdict on.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import stat
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
import pytest

from railgauge import children, cli, paths
from railgauge.tools import application, iperf2, nccl_tests, perftest, table
from tests.unit.checks.test_golden import GOLDEN, Job, stored
from tests.unit.node.sweeping import PATIENCE_S

JOBS = paths.HOME / "jobs"
HELP = Path(__file__).parents[2] / "data" / "help"
BY_HAND = ("dgx.sbatch", "eth400g.sbatch", "gb200-nvl72.sbatch")
SCRIPTS = sorted(path.name for path in JOBS.glob("*.sbatch"))

NODES = ("node1", "node2")
IN_A_JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]"}
CAMPAIGN = "20261121T093027Z-lab-409426"


# --- running a script with stand-ins for what it starts -------------------------------------------


def program(folder: Path, name: str, text: str) -> None:
    """A stand-in on the path, in `folder`."""
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def run(script: str, folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A script of jobs/ in `folder`, with the programs in folder/bin first on the path."""
    return subprocess.run(
        ["bash", str(JOBS / script), *arguments],
        cwd=folder,
        env={"PATH": f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin", **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@dataclasses.dataclass(frozen=True)
class Started:
    """One command that a script started through srun."""

    srun: tuple[str, ...]
    argv: tuple[str, ...]
    #: what the script exported
    environment: dict[str, str]


#: Notes its argv and environment; what it would have started prints a line.
RECORDER = """#!/usr/bin/env python3
import json, os, sys, time
path = os.environ["RECORD"]
# Nobody listens before the server has noted itself, however busy the machine is.
while "ss" in sys.argv and not os.path.exists(path):
    time.sleep(0.01)
with open(path, "a") as record:
    record.write(json.dumps([sys.argv, dict(os.environ)]) + "\\n")
print("LISTEN")
"""


def started(script: str, folder: Path) -> list[Started]:
    """What a by-hand script starts on the nodes."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    program(programs, "srun", RECORDER)
    program(programs, "scontrol", f"#!/bin/sh\nprintf '%s\\n' {' '.join(NODES)}\n")
    given = {"RECORD": str(folder / "record"), **IN_A_JOB}
    answer = run(script, folder, **given)
    assert answer.returncode == 0, answer.stdout
    found = []
    for line in (folder / "record").read_text().splitlines():
        argv, environment = json.loads(line)
        words = argv[1:]
        place = next(i for i, word in enumerate(words) if not word.startswith("-"))
        own = {"PATH", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE", *given}
        exported = {name: value for name, value in environment.items() if name not in own}
        found.append(Started(tuple(words[:place]), tuple(words[place:]), exported))
    return found


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Started]]:
    """Of each by-hand script."""
    return {name: started(name, tmp_path_factory.mktemp("by-hand") / name) for name in BY_HAND}


# --- options --------------------------------------------------------------------------------------


def text_of(script: str) -> str:
    return (JOBS / script).read_text(encoding="utf-8")


def sbatch_words(text: str) -> list[str]:
    return re.findall(r"^#SBATCH (\S+)$", text, re.MULTILINE)


def options(words: Iterable[str]) -> set[str]:
    """The options among the words of a command, without their values."""
    return {word.partition("=")[0] for word in words if re.match(r"--?[A-Za-z]", word)}


def pairs(argv: Sequence[str]) -> dict[str, str]:
    """Option and value of a tool's command; options without one, and operands, have none."""
    found = {}
    for place, word in enumerate(argv[1:], start=1):
        if re.match(r"--?[A-Za-z]", word):
            following = argv[place + 1] if place + 1 < len(argv) else "-"
            name, _, value = word.partition("=")
            found[name] = value or ("" if following.startswith("-") else following)
    return found


def known(tool: str) -> set[str]:
    """The options that the help of the pinned version of a tool lists."""
    if tool.startswith("railgauge"):
        command: click.Command = cli.cli
        for word in tool.split()[1:]:
            assert isinstance(command, click.Group)
            found = command.get_command(click.Context(command), word)
            assert found is not None, f"railgauge has no {word}"
            command = found
        return {o for p in command.params if isinstance(p, click.Option) for o in p.opts}
    name = Path(tool).name
    if "_perf" in name:
        name = "nccl-tests-2.17.6"
    elif name.startswith("ib_"):
        # One source file reads the options of all six programs.
        name = "ib_write_bw"
    files = {
        "sbatch": "slurm-24.11-sbatch",
        "srun": "slurm-24.11-srun",
        "mpirun": "openmpi-mpirun",
        "iperf": "iperf2",
    }
    text = (HELP / f"{files.get(name, name)}.txt").read_text(encoding="utf-8")
    listed: set[str] = set()
    for short, long in re.findall(r"^\s*(-\w)?,?\s*(--[A-Za-z][\w-]*)?", text, re.MULTILINE):
        listed |= {short, long} - {""}
    # scp's usage; proftpd's options with a value; WDT's, which are gflags.
    for letters, value in re.findall(r"\[-(\w+)( [^]]+)?\]", text):
        listed |= {f"-{letters}"} if value else {f"-{letter}" for letter in letters}
    listed |= set(re.findall(r"^ -\w \[[^]]+\], (--[\w-]+)$", text, re.MULTILINE))
    listed |= set(re.findall(r"^    (-\w+) \(", text, re.MULTILINE))
    for option in re.findall(r"^## mpirun --help (\S+)$", text, re.MULTILINE):
        listed |= {f"-{option}", f"--{option}"}
    assert len(listed) > 5, f"no options in the help of {tool}"
    return listed


_REASON = re.compile(r"\s*# (?P<name>--?[A-Za-z][\w-]*|[A-Z]+_\w+): (?P<why>.+)")


def reasons(text: str) -> dict[str, str]:
    """The comments `# NAME: why [source]` of a script; one may go on over several lines."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        entry = _REASON.fullmatch(line)
        if entry:
            name = entry["name"]
            # The same option may serve two commands.
            found[name] = f"{found.get(name, '')} {entry['why']}".strip()
        elif name and line.strip().startswith("# "):
            found[name] += " " + line.strip().removeprefix("# ")
        else:
            name = ""
    return found


def without_reason(names: Iterable[str], text: str) -> list[str]:
    """Those that no comment with a source explains."""
    given = reasons(text)
    return sorted(
        name for name in names if not re.fullmatch(r"\S.* \[[^][]+\]", given.get(name, ""))
    )


def acceptance(folder: Path, **env: str) -> tuple[list[str], list[str]]:
    """What jobs/accept.sbatch gives to timeout, and to railgauge."""
    checkout(folder, code=0)
    program(folder / "bin", "timeout", '#!/bin/sh\nprintf "%s\\n" "$@" >timeout.argv\n')
    run("accept.sbatch", folder, SYSTEM="lab", **env)
    words = (folder / "timeout.argv").read_text().splitlines()
    place = words.index("railgauge")
    return words[:place], words[place:]


def used(script: str, folder: Path) -> dict[str, set[str]]:
    """The options that a script gives to each program; its variables are under `environment`."""
    found = {"sbatch": options(sbatch_words(text_of(script)))}
    if script == "accept.sbatch":
        timeout, railgauge = acceptance(folder, PARTITION="ns", NODES="n[1-2]")
        return {**found, "timeout": options(timeout), "railgauge accept": options(railgauge)}
    if script == "patrol.sbatch":
        checkout(folder, code=0)
        assert run(script, folder, SYSTEM="lab").returncode == 0
        return {**found, "railgauge patrol": options((folder / "argv").read_text().split())}
    if script == "gate.sbatch":
        checkout(folder, code=0)
        assert run(script, folder, SYSTEM="lab", NODES="n[1-2]").returncode == 0
        return {**found, "railgauge gate run": options((folder / "argv").read_text().split())}
    for command in started(script, folder):
        for name, names in (
            ("srun", options(command.srun)),
            (command.argv[0], options(command.argv)),
            ("environment", set(command.environment)),
        ):
            found[name] = found.get(name, set()) | names
    return found


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_setting_has_a_reason_and_its_source(script: str, tmp_path: Path) -> None:
    # What railgauge's own options are for stands at the top of the script.
    names = {
        n
        for tool, given in used(script, tmp_path).items()
        if "railgauge" not in tool
        for n in given
    }
    assert len(names) > 8
    assert without_reason(names, text_of(script)) == []


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "# --mem: for Python",
        "# --mem: []",
        "# --memory: for Python [sbatch(1)]",
        "# --mem is for Python [sbatch(1)]",
        "# --mem: for Python\n\n# [sbatch(1)]",
    ],
)
def test_a_setting_without_a_reason_or_source_is_found(comment: str) -> None:
    assert without_reason(["--mem"], f"{comment}\n#SBATCH --mem=1G\n") == ["--mem"]


def test_a_reason_may_go_on_in_the_next_line() -> None:
    text = "# --mem: for Python, which\n# needs it [sbatch(1)]\n#SBATCH --mem=1G\n"
    assert without_reason(["--mem"], text) == []


# --- what the pinned tools know -------------------------------------------------------------------

#: No help to look into: part of every Linux.
_EVERYWHERE = {"environment", "timeout", "ss", "python3"}

#: What a help does not list, and the tool knows all the same.
_UNLISTED = {
    "--use_cuda": "perftest lists it only where it is built with CUDA",
    "--cpu-bind": "srun(1) describes it, --help lists it where a plugin binds; the lab's takes it",
    "--container-image": "srun has it where Pyxis is (github NVIDIA/pyxis, README.md)",
    "--container-mounts": "srun has it where Pyxis is (github NVIDIA/pyxis, README.md)",
    "--segment": "sbatch(1) describes it, --help of 24.11 does not; the lab's Slurm takes it",
}


def unknown(tool: str, names: Iterable[str]) -> list[str]:
    if Path(tool).name in _EVERYWHERE:
        return []
    return sorted(set(names) - known(tool) - set(_UNLISTED))


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_use_options_that_the_pinned_tools_know(script: str, tmp_path: Path) -> None:
    found = {tool: unknown(tool, names) for tool, names in used(script, tmp_path).items()}
    assert {tool: names for tool, names in found.items() if names} == {}


def test_an_option_that_no_help_lists_is_found() -> None:
    assert unknown("srun", ["--mpi", "--gpu-per-node"]) == ["--gpu-per-node"]
    assert unknown("/opt/all_reduce_perf_mpi", ["-b", "-Q"]) == ["-Q"]


def _argvs(job: Job) -> list[list[str]]:
    if job.orders["tool"] == application.TOOL:
        # The site's own program.
        return []
    argvs = [job.orders[key] for key in ("argv", "server", "client") if key in job.orders]
    # A server that is started by its whole path is the first program that its side needs.
    servers = job.orders.get("programs", {}).get("server", [""])
    return [[servers[0] if word == "{program}" else word for word in argv] for argv in argvs]


@pytest.mark.parametrize(
    "path", sorted(GOLDEN.glob("*/*.txt")), ids=lambda p: f"{p.parent.name}/{p.stem}"
)
def test_jobs_use_options_that_the_pinned_tools_know(path: Path) -> None:
    for job in stored(path.parent.name, path.stem):
        launch = job.launch.split(" env ")[0].split()
        for tool, words in [
            ("sbatch", job.sbatch_options),
            (launch[0], launch),
            *((argv[0], argv) for argv in _argvs(job)),
        ]:
            asked = options(words)
            # TransferBench has none.
            assert not asked or unknown(tool, asked) == [], job.case


@pytest.mark.parametrize("operation", nccl_tests.OPERATIONS)
def test_nccl_tests_is_asked_for_what_it_knows(operation: str) -> None:
    asked = nccl_tests.Options(operation, ranks=8, min_bytes=8, max_bytes=1024)
    argv = nccl_tests.argv(asked, f"{operation}_perf", "result.json")
    assert unknown(argv[0], options(argv)) == []


@pytest.mark.parametrize(
    "asked",
    [
        perftest.Options(
            "write", "bw", sweep=True, iterations=5, bidirectional=True, queue_pairs=4
        ),
        perftest.Options("read", "bw", 64, duration_s=5, rdma_cm=True, traffic_class=96),
        perftest.Options("send", "bw", 64, iterations=5, pkey_index=1, cuda_device=0),
        perftest.Options("write", "lat", 2, iterations=5, traffic_class=96, rdma_cm=True),
    ],
    ids=lambda asked: asked.program,
)
def test_perftest_is_asked_for_what_it_knows(asked: perftest.Options) -> None:
    argv = [*perftest.client_argv(asked), *perftest.version_argv()[1:]]
    assert unknown(argv[0], options(argv)) == []


def test_iperf2_is_asked_for_what_it_knows() -> None:
    asked = iperf2.Options(window_bytes=1024, congestion="bbr", length_bytes=1024, interval_s=0.5)
    argv = [*iperf2.client_argv(asked), *iperf2.server_argv(asked), *iperf2.version_argv()]
    assert unknown("iperf", options(argv)) == []


# --- by hand, and by the suite --------------------------------------------------------------------

#: The suite's job for each command of a script: system, check, part of the case, which argv.
_COUNTERPARTS = {
    "dgx.sbatch": [
        ("dgx-h100", "NcclPair", ":all_reduce:default:", "argv"),
        ("dgx-h100", "NcclAll", ":alltoall:default:", "argv"),
    ],
    "gb200-nvl72.sbatch": [
        ("gb200-nvl72", "NcclPair", ":all_reduce:mnnvl:", "argv"),
        ("gb200-nvl72", "NcclPair", ":all_reduce:mnnvl-off:", "argv"),
    ],
    "eth400g.sbatch": [
        ("eth400g", "BondPair", "", "server"),
        ("eth400g", "BondPair", "", "client"),
    ],
}

_ANYWHERE = {
    "--nodes": "ReFrame names the nodes: --nodelist",
    "--time": "one job for all tests of a script",
    "--output": "beside the script's other outputs",
}
#: What the suite does not set in the same way, and why.
_BY_HAND_ONLY = {
    "dgx.sbatch": {
        **_ANYWHERE,
        "NCCL_DEBUG_FILE": "the suite knows a rank's number, NCCL its process",
    },
    "gb200-nvl72.sbatch": {
        **_ANYWHERE,
        "NCCL_DEBUG_FILE": "the suite knows a rank's number, NCCL its process",
    },
    "eth400g.sbatch": {
        **_ANYWHERE,
        "--exclusive": "the partition of the system gives whole nodes only",
        "--ntasks": "the suite starts both sides in one step, which a script cannot",
        "--nodelist": "the same",
        "--overlap": "the same",
    },
}
#: What the suite's job has for others that run like it.
_BY_SUITE_ONLY = {"eth400g.sbatch": {"UCX_TLS": "no MPI in it"}}


def _bytes(value: str) -> str:
    """nccl-tests' sizes: K, M and G are powers of 1024."""
    found = re.fullmatch(r"([0-9]+)([KMG])", value)
    return str(int(found[1]) * 1024 ** (" KMG".index(found[2]))) if found else value


def _same(value: str, suites: str | None) -> bool:
    if suites is None:
        return False
    # {server} and the like are filled in on the nodes.
    return _bytes(value) == suites or re.fullmatch(r"\{\w+\}", suites) is not None


def _compare(script: str, command: Started, job: Job, which: str) -> list[str]:
    """What the script says otherwise than the suite's job."""
    slurm = pairs(["", *sbatch_words(text_of(script)), *command.srun])
    launch = job.launch.split(" env ")[0].split()
    suites_slurm = pairs(["", *job.sbatch_options, *launch])
    argv = list(job.orders[which])
    sides = [
        (slurm, suites_slurm),
        (pairs(command.argv), pairs(argv)),
        (command.environment, job.environment),
        ({"program": command.argv[0]}, {"program": argv[0]}),
    ]
    found = [
        f"{name} is {value!r}, in the suite {suites.get(name)!r}"
        for given, suites in sides
        for name, value in given.items()
        if name not in _BY_HAND_ONLY[script] and not _same(value, suites.get(name))
    ]
    missing = set(job.environment) - set(command.environment) - set(_BY_SUITE_ONLY.get(script, ()))
    return found + [f"{name} is not set" for name in sorted(missing)]


@pytest.mark.parametrize("script", BY_HAND)
def test_by_hand_is_measured_what_the_suite_measures(
    script: str, commands: dict[str, list[Started]]
) -> None:
    tools = [command for command in commands[script] if command.argv[0] != "ss"]
    differences = []
    for command, (system, check, part, which) in zip(tools, _COUNTERPARTS[script], strict=True):
        job = next(job for job in stored(system, check) if part in job.case)
        differences += _compare(script, command, job, which)
    assert differences == []


def test_a_different_value_or_variable_is_found(commands: dict[str, list[Started]]) -> None:
    first = commands["dgx.sbatch"][0]
    job = next(job for job in stored("dgx-h100", "NcclPair") if ":default:" in job.case)
    wrong = dataclasses.replace(
        first,
        srun=tuple(word.replace("pmix", "pmi2") for word in first.srun),
        argv=tuple("8G" if word == "16G" else word for word in first.argv),
        environment={"NCCL_IB_TC": "0", "NCCL_ALGO": "Ring"},
    )
    found = "\n".join(_compare("dgx.sbatch", wrong, job, "argv"))
    for name in ("--mpi", "-e", "NCCL_IB_TC", "NCCL_ALGO", "NCCL_IB_HCA is not set"):
        assert name in found


@pytest.mark.parametrize("script", BY_HAND)
def test_no_exception_is_left_over(script: str, tmp_path: Path) -> None:
    names = {name for given in used(script, tmp_path).values() for name in given}
    assert set(_BY_HAND_ONLY[script]) <= names


@pytest.mark.parametrize("script", BY_HAND)
def test_outputs_are_kept_under_the_number_of_the_job(script: str, tmp_path: Path) -> None:
    started(script, tmp_path)
    kept = sorted((tmp_path / "results/by-hand/7").glob("*.txt"))
    assert len(kept) == 2 and all(path.stat().st_size for path in kept)


@pytest.mark.parametrize("script", BY_HAND)
def test_the_last_line_says_what_to_compare_with(script: str, tmp_path: Path) -> None:
    program_folder = tmp_path / "bin"
    program_folder.mkdir()
    program(program_folder, "srun", "#!/bin/sh\necho LISTEN\n")
    program(program_folder, "scontrol", "#!/bin/sh\nprintf 'a\\nb\\n'\n")
    answer = run(script, tmp_path, **IN_A_JOB)
    assert answer.returncode == 0, answer.stdout
    assert re.match(
        r"compare: railgauge parse \S+ results/by-hand/7/", answer.stdout.splitlines()[-1]
    )


def test_what_the_last_line_expects_can_be_expected() -> None:
    expected = re.findall(r"--expect (\S+=\w+)", (JOBS / "eth400g.sbatch").read_text())
    assert table.by_hand()["iperf2"].expected(expected) == {"streams": 16, "duration_s": 4}


@pytest.mark.parametrize("script", BY_HAND)
def test_outside_of_a_job_the_error_says_how_to_submit(script: str, tmp_path: Path) -> None:
    answer = run(script, tmp_path)
    assert answer.returncode != 0
    assert f"next: sbatch -N 2 jobs/{script}" in answer.stdout


@pytest.mark.parametrize("script", BY_HAND)
def test_a_failed_tool_fails_the_script(script: str, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin", "srun", "#!/bin/sh\necho broken; exit 3\n")
    program(tmp_path / "bin", "scontrol", "#!/bin/sh\nprintf 'a\\nb\\n'\n")
    answer = run(script, tmp_path, **IN_A_JOB)
    assert answer.returncode != 0
    assert "compare:" not in answer.stdout


# --- scheduled acceptance -------------------------------------------------------------------------

_VERDICTS = {0: "accept", 1: "reject", 2: "inconclusive"}

#: Until a signal comes; bash hears one only between commands, or in `wait`.
_HANG = "sleep 300 >/dev/null 2>&1 &\nwait"


def checkout(
    folder: Path,
    *,
    code: int,
    verdict: str | None = None,
    then: str = "",
    gate: str = "acceptance",
) -> None:
    """A checkout whose `railgauge` ends so, and notes its argv and environment."""
    (folder / "bin").mkdir()
    (folder / "configs/systems/lab").mkdir(parents=True)
    campaign = f"results/campaigns/{CAMPAIGN}"
    lines = ["#!/bin/bash", f"echo campaign {CAMPAIGN} >&2", f"mkdir -p {campaign}"]
    if verdict:
        document = json.dumps({"verdict": verdict, "gate": gate, "findings": []}, indent=2)
        lines.append(f"cat >{campaign}/verdict.json <<'EOF'\n{document}\nEOF")
    lines += ['printf "%s\\n" "$@" >argv', "env >environment", then, f"exit {code}"]
    program(folder / "bin", "railgauge", "\n".join(lines) + "\n")


@pytest.mark.parametrize("code", [0, 1, 2, 3, 137])
def test_the_exit_code_of_the_verdict_is_passed_on(code: int, tmp_path: Path) -> None:
    checkout(tmp_path, code=code, verdict=_VERDICTS.get(code))
    assert run("accept.sbatch", tmp_path, SYSTEM="lab").returncode == code


@pytest.mark.parametrize(
    ("verdict", "gate"), [("inconclusive", "baseline"), ("provisional accept", "acceptance")]
)
def test_a_recorded_baseline_and_a_provisional_accept_that_is_taken_are_passed_on(
    verdict: str, gate: str, tmp_path: Path
) -> None:
    checkout(tmp_path, code=0, verdict=verdict, gate=gate)
    assert run("accept.sbatch", tmp_path, SYSTEM="lab").returncode == 0


def test_what_the_script_is_given_reaches_railgauge(tmp_path: Path) -> None:
    checkout(tmp_path, code=1, verdict="reject")
    answer = run("accept.sbatch", tmp_path, SYSTEM="lab", RAILGAUGE_ON_VERDICT="tell --to ops")
    assert answer.returncode == 1
    given = (tmp_path / "environment").read_text().splitlines()
    assert "RAILGAUGE_ON_VERDICT=tell --to ops" in given


def test_the_verdict_is_found_in_another_results_area(tmp_path: Path) -> None:
    checkout(tmp_path, code=1, verdict="reject")
    (tmp_path / "elsewhere").symlink_to(tmp_path / "results")
    area = str(tmp_path / "elsewhere")
    answer = run("accept.sbatch", tmp_path, SYSTEM="lab", RAILGAUGE_RESULTS=area)
    assert answer.returncode == 1


@pytest.mark.parametrize(
    ("code", "verdict"), [(1, None), (1, "accept"), (0, None), (0, "inconclusive")]
)
def test_an_exit_code_without_its_verdict_is_none(
    code: int, verdict: str | None, tmp_path: Path
) -> None:
    checkout(tmp_path, code=code, verdict=verdict)
    answer = run("accept.sbatch", tmp_path, SYSTEM="lab")
    assert answer.returncode == 3
    assert f"the verdict is: {verdict or 'none'}" in answer.stdout


def test_a_session_that_hangs_is_interrupted_before_the_job_ends(tmp_path: Path) -> None:
    checkout(tmp_path, code=0, then=f"trap 'echo heard SIGINT; exit 2' INT\n{_HANG}")
    # Ten minutes and some seconds from now, in which the session begins.
    program(tmp_path / "bin", "date", "#!/bin/sh\necho 1000\n")
    answer = run("accept.sbatch", tmp_path, SYSTEM="lab", SLURM_JOB_END_TIME="1620")
    assert answer.returncode == 2, answer.stdout
    assert "heard SIGINT" in answer.stdout


def test_a_job_that_is_cancelled_waits_for_its_session(tmp_path: Path) -> None:
    trap = "trap 'sleep 0.2; echo cleaned up; exit 2' TERM"
    checkout(tmp_path, code=0, then=f"{trap}\necho ready\n{_HANG}")
    job = subprocess.Popen(
        ["bash", str(JOBS / "accept.sbatch")],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "SYSTEM": "lab"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert job.stdout is not None
    for line in job.stdout:
        if line == "ready\n":
            break
    # As Slurm: every process of the job.
    os.killpg(job.pid, 15)
    output, _ = job.communicate(timeout=PATIENCE_S)
    assert job.returncode == 2
    assert "cleaned up" in output


def test_a_time_limit_that_leaves_no_time_is_an_error(tmp_path: Path) -> None:
    checkout(tmp_path, code=0, verdict="accept")
    end = str(int(time.time()) + 500)
    answer = run("accept.sbatch", tmp_path, SYSTEM="lab", SLURM_JOB_END_TIME=end)
    assert answer.returncode == 3
    assert "next: sbatch --time" in answer.stdout


def test_the_checks_jobs_do_not_inherit_what_this_job_was_given(tmp_path: Path) -> None:
    checkout(tmp_path, code=0, verdict="accept")
    run(
        "accept.sbatch",
        tmp_path,
        SYSTEM="lab",
        SLURM_MEM_PER_NODE="1024",
        SLURM_CONF="/etc/s.conf",
        SLURM_JOB_ID="7",
    )
    environment = (tmp_path / "environment").read_text()
    assert "SLURM_CONF=/etc/s.conf" in environment
    assert "SLURM_MEM_PER_NODE" not in environment
    # By this it is known on which nodes the job itself is.
    assert "SLURM_JOB_ID=7" in environment


def test_what_to_accept_is_passed_on(tmp_path: Path) -> None:
    _, railgauge = acceptance(tmp_path, PARTITION="ns", NODES="n[1-2]")
    expected = "railgauge accept --system lab --partition ns --nodes n[1-2]"
    assert railgauge == expected.split()


def test_more_options_are_passed_on(tmp_path: Path) -> None:
    checkout(tmp_path, code=0, verdict="accept")
    run("accept.sbatch", tmp_path, "--series", "--", "-n", "NcclPair", SYSTEM="lab")
    assert (tmp_path / "argv").read_text().split()[-4:] == ["--series", "--", "-n", "NcclPair"]


def test_without_a_system_the_error_lists_them(tmp_path: Path) -> None:
    checkout(tmp_path, code=0)
    answer = run("accept.sbatch", tmp_path)
    assert answer.returncode == 3
    assert "SYSTEM is not set" in answer.stdout and "one of: lab" in answer.stdout


def test_outside_of_a_checkout_the_error_says_where_to_submit(tmp_path: Path) -> None:
    answer = run("accept.sbatch", tmp_path, SYSTEM="lab")
    assert answer.returncode == 3
    assert f"{tmp_path} is no checkout" in answer.stdout and "next: cd CHECKOUT" in answer.stdout


# --- jobs/gate.sbatch ----------------------------------------------------------------------------


def test_the_gate_acts_on_the_system_and_the_nodes_given(tmp_path: Path) -> None:
    checkout(tmp_path, code=0)
    run("gate.sbatch", tmp_path, "--batch", "2", SYSTEM="lab", NODES="n[1-2]")
    expected = "gate run --system lab --act --nodes n[1-2] --batch 2"
    assert (tmp_path / "argv").read_text().split() == expected.split()


@pytest.mark.parametrize("script", ["gate.sbatch", "patrol.sbatch"])
@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_exit_code_of_the_gate_is_passed_on(code: int, script: str, tmp_path: Path) -> None:
    checkout(tmp_path, code=code)
    assert run(script, tmp_path, SYSTEM="lab").returncode == code


def test_a_patrol_is_of_the_system_given(tmp_path: Path) -> None:
    checkout(tmp_path, code=0)
    run("patrol.sbatch", tmp_path, "--budget", "40m", SYSTEM="lab")
    words = ["patrol", "--system", "lab", "--budget", "40m"]
    assert (tmp_path / "argv").read_text().split() == words


@pytest.mark.parametrize("script", ["gate.sbatch", "patrol.sbatch"])
def test_slurms_signal_reaches_the_gate_which_is_waited_for(script: str, tmp_path: Path) -> None:
    """--signal=B: tells the batch shell alone."""
    checkout(tmp_path, code=0, then=f"trap 'sleep 0.2; exit 1' INT\necho ready\n{_HANG}")
    job = subprocess.Popen(
        ["bash", str(JOBS / script)],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "SYSTEM": "lab"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # As slurmd starts it; bash traps nothing that it was started to ignore.
        preexec_fn=children.default_signals,
    )
    assert job.stdout is not None
    assert "ready\n" in iter(job.stdout.readline, "")
    job.send_signal(2)
    job.communicate(timeout=PATIENCE_S)
    assert job.returncode == 1


@pytest.mark.parametrize("name", ["accept.sbatch", "gate.sbatch"])
def test_a_job_with_a_limit_that_leaves_no_time_says_so_and_begins_nothing(
    tmp_path: Path, name: str
) -> None:
    checkout(tmp_path, code=0)
    ends = str(int(time.time()) + 590)
    answer = run(name, tmp_path, SYSTEM="lab", SLURM_JOB_END_TIME=ends)
    assert answer.returncode == 3 and f"sbatch --time=08:00:00 jobs/{name}" in answer.stdout
    assert not (tmp_path / "argv").exists()


def test_the_gate_without_a_system_lists_them(tmp_path: Path) -> None:
    checkout(tmp_path, code=0)
    answer = run("gate.sbatch", tmp_path)
    assert answer.returncode == 3 and "SYSTEM=NAME sbatch jobs/gate.sbatch" in answer.stdout
