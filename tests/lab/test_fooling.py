"""Every hole of bare ReFrame that DESIGN.md lists, tried for real: none may end as a pass.

`tests/mutants.py` takes each protection away in turn and expects the test named there to fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.lab.cluster import Lab

from .conftest import CHECKS, PATIENCE_S, Run, area_of, run_command

FOOLING = CHECKS / "fooling.py"


def write_references(folder: Path, unit: str = "us") -> Path:
    """References for every check of fooling.py that measures latency."""
    number = f"{{value: 2, upper: 0.5, unit: {unit}, kind: floor, provenance: *source}}"
    lines = ["system: lab", "references:"]
    source = "&source {source: made up, date: 2026-11-21}"
    for name in re.findall(
        r"^class (\w+)\((?:ProbeCheck|Floored)", FOOLING.read_text(), re.MULTILINE
    ):
        for size in (1, 2, 4):
            lines.append(
                f"  - {{check: {name}, partition: ns, operation: probe, transport: none, nodes: 2,"
                f" size_bytes: {size}, metrics: {{latency: {number.replace('*source', source)}}}}}"
            )
            source = "*source"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lab.yaml").write_text("\n".join(lines) + "\n")
    return folder


def session(area: Path, names: list[str], *options: str) -> tuple[int, str]:
    """(exit code, output) of one ReFrame session with these checks of fooling.py."""
    references = write_references(area / "references")
    pattern = rf"^({'|'.join(names)})\b"
    answer = run_command(
        [str(paths.HOME / "bin/reframe"), "-c", str(FOOLING), "-n", pattern, "-r", *options],
        area,
        {"RAILGAUGE_REFERENCES": str(references)},
        PATIENCE_S,
    )
    return answer.returncode, answer.stdout


@pytest.fixture
def fool(cluster: Lab, area: Path) -> Callable[..., tuple[int, str]]:
    """Runs a check of fooling.py by name: (exit code, output)."""

    def run(name: str, *options: str) -> tuple[int, str]:
        return session(area, [name], *options)

    return run


Fool = Callable[..., tuple[int, str]]


def test_a_good_check_passes(fool: Fool) -> None:
    code, output = fool("Good")
    assert code == 0, output
    assert "Ran 1/1 test case(s)" in output


def failures(names: list[str], code: int, output: str) -> dict[str, str]:
    """What ReFrame says of the failure of each of these runs; nothing of one that passed."""
    sections = re.split(r"^FAILURE INFO for (\w+) .*$", output, flags=re.MULTILINE)
    said = dict(zip(sections[1::2], sections[2::2], strict=True))
    assert code == 1 and set(said) <= set(names), output
    return said


@pytest.fixture(scope="module", autouse=True)
def timing_out(cluster: Lab, request: pytest.FixtureRequest) -> Iterator[Future[tuple[int, str]]]:
    """A run to its time limit, a minute at the least: on nodes of its own next to all others."""
    with area_of("times-out") as area, ThreadPoolExecutor() as pool:
        asked = [getattr(item, "originalname", "") for item in request.session.items]
        if test_a_run_to_its_time_limit_is_failed.__name__ in asked:
            yield pool.submit(session, area, ["TimesOut"])
        else:
            yield Future()


@pytest.fixture(scope="module")
def bad_runs(cluster: Lab, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """What ReFrame says of the failure of each bad run that is asked for, by one session."""
    names = [
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.originalname == test_a_bad_run_is_failed_with_its_reason.__name__
    ]
    with area_of("bad-runs") as area:
        code, output = session(area, names)
    yield failures(names, code, output)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Cancelled", "Slurm says CANCELLED"),
        ("JobFails", "Slurm says FAILED"),
        ("PreparationFails", "Slurm says FAILED"),
        ("ToolFails", "ended with exit code 1"),
        ("RankMissing", "rank 1 of 2 left no exit line"),
        ("NotANumber", "could not convert string to float"),
        ("NotFinite", "not a finite number"),
        ("SweepStopsEarly", "not measured: latency_4B"),
        ("NoReference", "no reference for latency_8B"),
        ("BelowFloor", "latency_8B=1.8 us, expected 1.0"),
        ("OtherCondition", "transport is sockets, expected ib"),
        ("ConditionNotStated", "nothing states transport"),
        ("AboveLimit", "above the 1 that light in this fibre allows"),
        ("Unproved", "the output is unknown"),
        ("NoResult", "no result"),
        ("Simulated", "the output is a stand-in's, SIMULATED"),
        ("CountersSimulated", "the counters of n1 are a stand-in's, SIMULATED"),
        ("OutOfReference", "latency_4B=99.0 us, expected 2.0"),
        ("Singletons", r"MPI numbered its ranks \[0, 0, 0, 0\]"),
        ("GivesUp", "run 1 of 3: .* it came to 99, expected at most 16"),
        ("ServerDies", "iperf2 .server. on n1 ended with exit code"),
        ("CorruptData", "server on n1: VALIDATION: FAILED - 2 error"),
        ("EndedByTerm", "the error 'interrupt - the client has terminated"),
        (
            "Inflated",
            r"counters contradict: iperf2 .client. says it moved .* \([.0-9]+ Gb/s\), eth0",
        ),
        ("ClaimsNothing", "nothing says how much the tool moved"),
        ("StressorsEndEarly", "n[12] was not busy all the time: stress-ng ended early"),
        ("TransferTooShort", "the transfer had ended on n[12] before the MPI program did"),
    ],
)
def test_a_bad_run_is_failed_with_its_reason(
    bad_runs: dict[str, str], name: str, reason: str
) -> None:
    assert name in bad_runs, "it passed"
    assert re.search(reason, bad_runs[name]), bad_runs[name]


@pytest.mark.parametrize("name", ["AboveFloor", "StoredNumbersWin"])
def test_a_floor_is_a_reference_where_none_is_stored(fool: Fool, name: str) -> None:
    code, output = fool(name)
    assert code == 0, output


def test_out_of_memory_is_failed(reframe: Run, area: Path, cluster: Lab) -> None:
    """Without memory cgroups the lab's Slurm never says OUT_OF_MEMORY: here sacct is made to."""
    lab = area / "lab"
    lab.mkdir()
    (lab / "run").symlink_to(cluster.folders.run)
    (lab / "bin").mkdir()
    for command in cluster.folders.bin.iterdir():
        (lab / "bin" / command.name).symlink_to(command.readlink())
    (lab / "bin" / "sacct").unlink()
    (lab / "bin" / "sacct").write_text(
        f"#!/bin/sh\n'{cluster.folders.bin}/sacct' \"$@\" | sed 's/|COMPLETED|/|OUT_OF_MEMORY|/'\n"
    )
    (lab / "bin" / "sacct").chmod(0o755)
    answer = reframe(
        *("-c", str(FOOLING), "-n", r"^Good\b", "-r"),
        RAILGAUGE_REFERENCES=str(write_references(area / "references")),
        RAILGAUGE_LAB_DIR=str(lab),
    )
    assert answer.returncode == 1
    assert "Slurm says OUT_OF_MEMORY" in answer.stdout


@pytest.fixture(scope="module")
def baseline(cluster: Lab) -> Iterator[str]:
    """The output of a session that records."""
    with area_of("baseline") as area:
        names = ["NoReference", "OutOfReference", "NotInflated"]
        code, output = session(area, names, "--mode", "baseline")
    assert code == 0, output
    yield output


def test_a_baseline_is_recorded_without_a_reference(baseline: str) -> None:
    assert "latency_8B: 1.8 us" in baseline


def test_a_baseline_is_not_judged_by_the_numbers_of_before(baseline: str) -> None:
    assert re.search(r"OK \] \(\d/3\) OutOfReference ", baseline)


def test_a_tool_with_devices_that_say_the_same_is_believed(baseline: str) -> None:
    """The control of `Inflated`: through the same program."""
    assert re.search(r"OK \] \(\d/3\) NotInflated ", baseline)


def test_an_unknown_gate_is_failed(fool: Fool) -> None:
    code, output = fool("Good", "-S", "gate=none")
    assert code == 1
    assert "expected acceptance or baseline" in output


def test_a_retry_that_passes_is_failed(fool: Fool) -> None:
    code, output = fool("SecondTry", "--max-retries=2")
    assert code == 1, output
    assert "failed at the first try, which a retry must not hide" in output


def test_a_skipped_check_is_no_pass(fool: Fool) -> None:
    code, output = fool("Skips")
    assert code == 1, output
    assert "1 of 1 test cases were skipped" in output


@pytest.mark.parametrize(
    "options", [["--skip-sanity-check"], ["--skip-performance-check"], ["--disable-hook=compare"]]
)
def test_parts_of_a_check_cannot_be_switched_off(fool: Fool, options: list[str]) -> None:
    code, output = fool("Good", *options)
    assert code == 1, output
    assert "ERROR: run session stopped" in output


@pytest.mark.parametrize(
    "options",
    [
        *(["-n", "Mistyped"], ["-t", "mistyped"], ["-p", "mistyped"], ["--system=lab:mistyped"]),
        *(["-x", "."], ["-E", "False"]),
    ],
)
def test_a_session_that_selects_nothing_is_failed(reframe: Run, options: list[str]) -> None:
    answer = reframe("-c", str(paths.CHECKS), "-r", *options)
    assert answer.returncode == 1, answer.stdout
    assert "nothing was measured" in answer.stdout or "ERROR" in answer.stdout


def test_a_path_without_checks_is_failed(reframe: Run, area: Path) -> None:
    for path in (area / "absent", area):
        answer = reframe("-c", str(path), "-r")
        assert answer.returncode == 1, answer.stdout


def test_a_check_file_that_cannot_be_imported_is_failed(reframe: Run, area: Path) -> None:
    good = FOOLING.read_text()
    (area / "good.py").write_text(good)
    (area / "broken.py").write_text("import reframe\nimport nosuchmodule\n")
    answer = reframe("-c", str(area), "-n", r"^Good\b", "-r")
    assert answer.returncode == 1
    assert "nosuchmodule" in answer.stdout


BROKEN = """
import reframe as rfm
from reframe.core.builtins import run_after

@rfm.simple_test
class Broken(rfm.RunOnlyRegressionTest):
    @run_after("init")
    def fail(self):
        raise ValueError("no such table")
"""


def test_a_check_that_cannot_be_made_is_failed(reframe: Run, area: Path) -> None:
    """ReFrame warns that it skips the check, and passes without it."""
    (area / "good.py").write_text(FOOLING.read_text())
    (area / "broken.py").write_text(BROKEN)
    answer = reframe(
        *("-c", str(area), "-n", r"^Good\b", "-r"),
        RAILGAUGE_REFERENCES=str(write_references(area / "references")),
    )
    assert answer.returncode == 1, answer.stdout
    assert "no such table" in answer.stdout


def test_an_unknown_system_is_failed(reframe: Run) -> None:
    answer = reframe("-c", str(paths.CHECKS), "-r", RFM_SYSTEM="nosuch")
    assert answer.returncode == 1, answer.stdout


def test_an_unknown_host_is_failed(reframe: Run, area: Path) -> None:
    """No system names this host, and no lab is up: ReFrame would go on as `generic`."""
    answer = reframe("-c", str(paths.CHECKS), "-r", RAILGAUGE_LAB_DIR=str(area / "nolab"))
    assert answer.returncode == 1, answer.stdout
    assert "matches no `hostnames`" in answer.stdout


def test_a_wrong_unit_is_an_error_at_load(reframe: Run, area: Path) -> None:
    references = write_references(area / "references", unit="ms")
    answer = reframe(
        *("-c", str(FOOLING), "-n", r"^Good\b", "-r"), RAILGAUGE_REFERENCES=str(references)
    )
    assert answer.returncode == 1
    assert "latency is in 'ms', expected 'us'" in answer.stdout
    assert "RUN" not in answer.stdout


def test_a_missing_configuration_is_failed(cluster: Lab, area: Path) -> None:
    """Also without the wrapper: what activate.sh exports is enough."""
    answer = run_command(
        [str(paths.HOME / ".venv/bin/reframe"), "-c", str(paths.CHECKS), "-r"],
        area,
        {"RFM_CONFIG_FILES": f":{area}/settings.py"},
        60,
    )
    assert answer.returncode == 1


def test_bare_reframe_with_our_configuration_is_guarded(cluster: Lab, area: Path) -> None:
    """Someone who calls .venv/bin/reframe instead of the wrapper."""
    answer = run_command(
        [str(paths.HOME / ".venv/bin/reframe"), "-c", str(paths.CHECKS), "-n", "mistyped", "-r"],
        area,
        {"RFM_CONFIG_FILES": f":{paths.SETTINGS}", "RFM_SYSTEM": "lab"},
        60,
    )
    assert answer.returncode == 1
    assert "nothing was measured" in answer.stdout


# The last one: it has gone on next to the others.
def test_a_run_to_its_time_limit_is_failed(timing_out: Future[tuple[int, str]]) -> None:
    said = failures(["TimesOut"], *timing_out.result())
    assert "Slurm says TIMEOUT" in said["TimesOut"]
