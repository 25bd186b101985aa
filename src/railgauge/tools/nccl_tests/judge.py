"""What a careful person takes from a run of nccl-tests, by all that is known of it."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from railgauge.model.call import Call, why_failed
from railgauge.model.measurement import Measurement
from railgauge.tools import Completeness, ParseError, Reading
from railgauge.tools.nccl_log import ADVICE
from railgauge.tools.nccl_tests.alone import why_alone
from railgauge.tools.nccl_tests.document import parse_json
from railgauge.tools.nccl_tests.layout import SIDE
from railgauge.tools.nccl_tests.options import PRINTS_END, TOOL, Options, version_numbers
from railgauge.tools.nccl_tests.result import JSON_HALF, Device, Result, Row
from railgauge.tools.nccl_tests.rows import (
    Range,
    cycles,
    kind_of,
    numbers_of,
    row_complaints,
    size_complaints,
    sizes_of_sweep,
    sweeps,
)
from railgauge.tools.nccl_tests.text import apart, scan

#: What the tool says with its exit code (testResult_t in src/common.h).
_EXIT_CODES = {
    1: "an internal error, before 2.19 also wrong values",
    2: "a CUDA error",
    3: "an NCCL error",
    4: "a timeout (-T)",
    5: "fewer GPUs than asked for, or something that the test cannot do",
    6: "wrong usage",
    7: "wrong values, or less bandwidth than NCCL_TESTS_MIN_BW",
    # After any error 2.17 aborts where it writes JSON (an assertion in jsonOutputFinalize).
    -6: "aborted, perhaps by an error before",
    134: "aborted, perhaps by an error before",
    255: "arguments that the tool cannot use",
}


def read(
    outputs: Mapping[int, str],
    *,
    json_text: str | None = None,
    calls: Sequence[Call] = (),
    options: Options | None = None,
) -> Reading:
    """Judges all that is known of one run; never raises for what a tool or a job wrote.

    `outputs` are by rank; only rank 0 prints a table. Proved with the end line of the tool's newer
    versions, or with exit code 0 of every rank. A bare file (no options) is judged by what it
    states itself, and may hold several tests: one that failed refuses the file, which then gives
    the numbers of the others.
    """
    complaints = _call_complaints(calls, options)
    # It explains what else is wrong with their tables.
    for started_alone in filter(None, map(why_alone, outputs.values())):
        return Reading.invalid("; ".join([started_alone, *complaints]))
    failed: list[str] = []
    tables: dict[int, tuple[Result, ...]] = {}
    for rank, text in sorted(outputs.items()):
        alone = options is None and len(outputs) == 1
        tests, why = _scanned(text, alone)
        if tests:
            tables[rank] = tests
        failed += [f"rank {rank}: {error}" if len(outputs) > 1 else error for error in why]
    results = next(iter(tables.values()), ())
    judged = [_judged(result, options) for result in results]
    failed += _twice(results, judged)
    complaints += _table_complaints(tables, [*complaints, *failed], options)
    several = len(results) + len(failed) > 1
    for result, verdict in zip(results, judged, strict=True):
        name = f"{result.program or 'test'}: " if several else ""
        failed += [f"{name}{why}" for why in verdict.complaints]
    simulated = any(result.simulated for tests in tables.values() for result in tests)
    if json_text is not None and (json_text.strip() or options is None or options.has_json):
        stored, why = _stored(json_text)
        simulated = simulated or (stored is not None and stored.simulated)
        complaints += why
        if stored is not None and len(results) == 1:
            complaints += _disagreements(results[0], stored)
    seen = _seen(results)
    nodes = tuple(dict.fromkeys(c.host for c in sorted(calls, key=lambda call: call.rank)))
    measurements = tuple(
        measurement
        for result, verdict in zip(results, judged, strict=True)
        if not verdict.complaints
        for measurement in _measurements(result, verdict, options, nodes, simulated)
    )
    notes = tuple(note for result in results for note in _notes(result))
    if complaints or failed:
        reason = "; ".join(dict.fromkeys([*complaints, *failed]))
        good = sum(not verdict.complaints for verdict in judged)
        # A bare file gives the numbers of its good tests.
        kept = measurements if options is None and not complaints else ()
        if kept:
            reason = f"{reason}; {good} good test(s)"
        return Reading.invalid(
            reason, measurements=kept, seen=seen, simulated=simulated, notes=notes
        )
    sizes = sum(len(result.rows) for result in results)
    reason = f"{sizes} size(s) of {', '.join(v.operation or 'a collective' for v in judged)}"
    if not all(
        result.validation or verdict.checked
        for result, verdict in zip(results, judged, strict=True)
    ):
        reason += " (values not checked)"
    ended = _all_ended(results, calls, options)
    if ended or all(result.concluded for result in results):
        end = "every rank ended with exit code 0" if ended else "the tool says that it concluded"
        reason, completeness = f"{reason}: {end}", Completeness.PROVED
    else:
        reason += (
            ": nothing is contradicted, but that the run finished is not proved without exit codes"
        )
        completeness = Completeness.UNKNOWN
    return Reading(True, reason, completeness, measurements, seen, simulated, notes)


def _scanned(text: str, alone: bool) -> tuple[tuple[Result, ...], list[str]]:
    """The tests in a text that can be read, and why others cannot.

    It may hold several tests, or be the tool's JSON, only if the text is `alone`.
    """
    if text.lstrip().startswith("{"):
        if not alone:
            return (), [
                "the JSON of -J, expected what the run printed, and the JSON as a second file"
            ]
        stored, why = _stored(text)
        return () if stored is None else (_with_all_devices(stored),), why
    try:
        return scan(text), []
    except ParseError as error:
        parts = apart(text) if alone else []
        whole = str(error)
    if len(parts) < 2:
        return (), [whole]
    results: list[Result] = []
    complaints = []
    for part in parts:
        try:
            results += scan(part)
        except ParseError as error:
            complaints.append(str(error))
    # What is wrong with no single test is wrong with all of them.
    return (tuple(results), complaints) if complaints else ((), [whole])


def _twice(results: Sequence[Result], judged: Sequence[_Verdict]) -> Iterator[str]:
    """A file to which a second run was appended: its numbers are of another time."""
    kinds = Counter(
        (
            name,
            # A second run has other processes.
            tuple(dataclasses.replace(device, pid=None) for device in result.devices),
            tuple((row.size_bytes, row.datatype, row.redop, row.root) for row in result.rows),
            (result.iterations, result.warmup, result.aggregated, result.threads),
            result.conditions,
        )
        for result, verdict in zip(results, judged, strict=True)
        if result.rows and (name := result.program or verdict.operation)
    )
    for (name, *_), count in kinds.items():
        if count > 1:
            yield f"{name} of the same sizes {count} times, expected the output of one run"


def _notes(result: Result) -> Iterator[str]:
    """What speaks against nothing, but is not as requested, or not of one communicator."""
    if (groups := group_count(result.devices)) > 1:
        yield (
            f"{result.operation or 'a test'}: {groups} groups of {len(result.devices) // groups} "
            "ranks ran at once (NCCL_TESTS_SPLIT): each number is of all of them together"
        )
    if result.reduced_bytes is not None and result.rows:
        largest = max(result.sizes)
        yield (
            f"{result.operation or 'a test'}: no more than {result.reduced_bytes} bytes fit into "
            f"the memory of its GPUs, so its largest size is {largest}, not {result.max_bytes}"
        )


def _call_complaints(calls: Sequence[Call], options: Options | None) -> list[str]:
    complaints = why_failed(
        calls, lambda call: "" if call.note else _EXIT_CODES.get(call.exit_code or 0, "")
    )
    ranks = Counter(call.rank for call in calls)
    twice = [rank for rank, count in ranks.items() if count > 1]
    if twice:
        complaints.append(f"two exit lines of rank {min(twice)}")
    if calls and options:
        missing = sorted(set(range(options.ranks)) - set(ranks))
        if missing:
            complaints.append(f"no exit line of rank {_few(missing)}")
        if surplus := sorted(set(ranks) - set(range(options.ranks))):
            complaints.append(
                f"an exit line of rank {_few(surplus)}, expected {options.ranks} ranks"
            )
    return complaints


def _all_ended(results: Sequence[Result], calls: Sequence[Call], options: Options | None) -> bool:
    """Whether there is an exit line of every rank."""
    if options:
        return bool(calls)
    processes = [
        len(result.devices) // max((result.threads or 1) * (result.gpus_per_thread or 1), 1)
        for result in results
    ]
    ranks = {call.rank for call in calls}
    return bool(calls) and all(count and ranks >= set(range(count)) for count in processes)


def _few(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:4])) + (" ..." if len(ranks) > 4 else "")


def _table_complaints(
    tables: Mapping[int, tuple[Result, ...]], earlier: Sequence[str], options: Options | None
) -> list[str]:
    """Whether one rank printed one table."""
    if not tables:
        return [] if earlier else ["no output: no rank printed a table"]
    complaints = []
    if len(tables) > 1:
        complaint = f"ranks {_few(list(tables))} printed a table each, expected rank 0 alone"
        alone = all(len(test.devices) == 1 for tests in tables.values() for test in tests)
        complaints.append(
            f"singletons: {complaint}: each started alone, without the others (no usable PMIx?)"
            if alone
            else complaint
        )
    elif 0 not in tables:
        complaints.append(f"rank {next(iter(tables))} printed the table, expected rank 0")
    tests = next(iter(tables.values()))
    if options and len(tests) > 1:
        complaints.append(f"{len(tests)} tests in one output, expected 1")
    return complaints


class _Verdict(NamedTuple):
    complaints: list[str]
    #: "" where neither the text says it nor its numbers can only be those of one
    operation: str
    #: None where the text does not say
    ranks: int | None
    #: whether the rows say that values were checked
    checked: bool


def _judged(result: Result, options: Options | None) -> _Verdict:
    """One test by itself, and by the options."""
    complaints = _device_complaints(result, options)
    if options:
        complaints += _header_complaints(result, options)
    groups = options.groups if options else group_count(result.devices)
    ranks = len(result.devices) // groups or (options.gpus if options else None)
    checked = any(row.out_of_place.wrong is not None for row in result.rows)
    operation = options.operation if options else result.operation
    if not any(result.sizes):
        why_not = "every size is 0 bytes" if result.rows else "no row"
        return _Verdict(
            [*complaints, f"{why_not}: nothing was measured"], operation, ranks, checked
        )
    # How many ranks the numbers of groups of different sizes are of is not known.
    if options or groups > 1 or not _has_groups(result.devices):
        why, operation = row_complaints(result, operation, ranks, options)
        complaints += why or size_complaints(result, operation, ranks, options)
    complaints += _footer_complaints(result, options)
    return _Verdict(complaints, operation, ranks, checked)


def _short(host: str) -> str:
    """As the tool prints it: without the domain."""
    return host.partition(".")[0]


def _device_complaints(result: Result, options: Options | None) -> list[str]:
    devices = result.devices
    if not devices:
        return ["no line of a device: which ranks took part is not known"] if options else []
    complaints = []
    groups = options.groups if options else group_count(devices)
    if options and len(devices) != options.gpus * groups:
        complaint = f"{len(devices)} rank(s) in the header, expected {options.gpus * groups}"
        if len(devices) == options.gpus_per_rank:
            complaint = f"singletons: {complaint}: rank 0 started alone (no usable PMIx?)"
        complaints.append(complaint)
    numbers = [device.rank for device in devices]
    if numbers != list(range(len(devices))):
        complaints.append(
            f"the header numbers its ranks {_few(numbers)}, expected 0 to {len(devices) - 1}"
        )
    if options and (why := _group_complaint(devices, groups, options.gpus_per_rank)):
        complaints.append(why)
    elif groups == 1 and _has_groups(devices):
        complaints.append(
            "groups of different sizes (NCCL_TESTS_SPLIT): their table has one line for all, and "
            "of how many ranks its bandwidth is is not known"
        )
    used: dict[tuple[str, ...], int] = {}
    for device in devices:
        place: tuple[str, ...] = (device.host, device.bus_id)
        if ":" not in device.bus_id:
            # The bus number alone, 0 on some machines: it does not identify a GPU.
            place += (str(device.device),)
        if place in used:
            complaints.append(
                f"ranks {used[place]} and {device.rank} use the same GPU, {device.bus_id} on "
                f"{device.host}"
            )
            break
        used[place] = device.rank
    if options and options.hosts and not complaints:
        for device in devices:
            host = options.hosts[device.rank // options.gpus_per_rank]
            if _short(device.host) != _short(host):
                complaints.append(f"rank {device.rank} ran on {device.host}, expected {host}")
                break
    return complaints


def group_count(devices: Sequence[Device]) -> int:
    """The groups of NCCL_TESTS_SPLIT or NCCL_TESTS_SPLIT_MASK, where they have as many ranks each;
    else 1.
    """
    sizes = Counter(device.group for device in devices)
    return len(sizes) if len(set(sizes.values())) == 1 else 1


def _has_groups(devices: Sequence[Device]) -> bool:
    return len({device.group for device in devices}) > 1


def _group_complaint(devices: Sequence[Device], groups: int, gpus_per_rank: int) -> str:
    """Whether NCCL_TESTS_SPLIT made the groups that were asked for."""
    if groups == 1:
        several = "several groups of ranks (NCCL_TESTS_SPLIT), expected one"
        return several if _has_groups(devices) else ""
    size = max(len(devices) // gpus_per_rank // groups, 1)
    for device in devices:
        expected = device.rank // gpus_per_rank // size
        if device.group != expected:
            return (
                f"rank {device.rank} is of group {device.group}, expected {expected}: {groups} "
                f"groups of {size} ranks (NCCL_TESTS_SPLIT)"
            )
    return ""


def _header_complaints(result: Result, options: Options) -> list[str]:
    """What the header says against the options."""
    complaints = []
    if result.iterations is None:
        return ["no line of parameters (nThread ... validation)"]
    if result.operation and result.operation != options.operation:
        complaints.append(f"operation {result.operation}, expected {options.operation}")
    for name, stated, wanted in (
        ("threads", result.threads, 1),
        ("GPUs per rank", result.gpus_per_thread, options.gpus_per_rank),
        ("smallest size", result.min_bytes, options.min_bytes),
        ("largest size", result.max_bytes, options.max_bytes),
        ("step factor", result.step_factor, options.factor),
        ("warmup", result.warmup, options.warmup),
        ("iterations", result.iterations, options.iterations),
        # printed by newer versions only
        ("operations per iteration", result.aggregated or 1, 1),
    ):
        if stated != wanted:
            complaints.append(f"{name} {stated}, expected {wanted}")
    if not result.validation:
        complaints.append("validation 0, expected 1: nothing was checked")
    if result.cpu_time:
        complaints.append("the time is that of the CPU (-C), expected that of the operation")
    complaints += [f"{condition!r}, which was not asked for" for condition in result.conditions]
    for row in result.rows:
        if row.datatype != options.datatype:
            complaints.append(f"datatype {row.datatype}, expected {options.datatype}")
            break
    return complaints


def _footer_complaints(result: Result, options: Options | None) -> list[str]:
    complaints = []
    if result.out_of_bounds is None:
        complaints.append("no line 'Out of bounds values'")
    elif result.out_of_bounds or not result.out_of_bounds_ok:
        complaints.append(f"out of bounds values: {result.out_of_bounds} FAILED")
    average = result.average_busbw_gbytes_s
    if average is None:
        complaints.append("no line 'Avg bus bandwidth'")
    elif not result.average_ok:
        complaints.append(f"average bus bandwidth {average:g}: FAILED")
    else:
        ranges = [side.busbw for row in result.rows for side in numbers_of(row)]
        mean = Range(
            sum(r.least for r in ranges) / len(ranges), sum(r.most for r in ranges) / len(ranges)
        )
        # six digits (%g)
        half = 0.5 * float(10.0 ** (math.floor(math.log10(average)) - 5)) if average else JSON_HALF
        if not mean.meets(Range(average - half, average + half)):
            complaints.append(
                f"average bus bandwidth {average:g} is not the mean of the rows, "
                f"{(mean.least + mean.most) / 2:g}"
            )
    reduced, most = result.reduced_bytes, result.max_bytes
    if reduced is not None and most is not None and reduced >= most:
        complaints.append(f"maxBytes {most} was reduced to {reduced}, which is not less")
    ends = result.ends_with_line or (options and version_numbers(options.version) >= PRINTS_END)
    if ends and not result.concluded:
        complaints.append("no line 'Collective test concluded': the output breaks off")
    return complaints


# --- JSON, next to the text or alone ---


def _with_all_devices(stored: Result) -> Result:
    """The result with a device for each GPU: the tool writes the first one of each process."""
    gpus = (stored.threads or 1) * (stored.gpus_per_thread or 1)
    if gpus == 1:
        return stored
    devices = tuple(
        dataclasses.replace(
            device, rank=device.rank * gpus + number, device=device.device + number, bus_id=""
        )
        for device in stored.devices
        for number in range(gpus)
    )
    return dataclasses.replace(stored, devices=devices)


def _stored(json_text: str) -> tuple[Result | None, list[str]]:
    if not json_text.strip():
        return None, ["no JSON result, although the tool was asked for one (-J)"]
    try:
        stored = parse_json(json_text)
    except ParseError as error:
        return None, [f"JSON result: {error}"]
    complaints = []
    if not stored.concluded:
        complaints.append("JSON result: no end_time, it breaks off")
    for message in stored.errors:
        if not ADVICE.search(message):
            complaints.append(f"JSON result: NCCL's last error: {message!a}")
    return stored, complaints


def _disagreements(result: Result, stored: Result) -> list[str]:
    """Where the text and the tool's own JSON differ beyond rounding."""
    for name in (
        *("threads", "gpus_per_thread", "min_bytes", "max_bytes", "step_factor", "step_bytes"),
        *("warmup", "iterations", "validation", "out_of_bounds", "out_of_bounds_ok"),
        *("operation", "nccl_version"),
    ):
        one, other = getattr(result, name), getattr(stored, name)
        if one != other and one not in (None, "") and other != "":
            return [f"{name.replace('_', ' ')} is {one}, in the JSON result {other}"]
    ours = [(d.rank, d.host, d.device) for d in result.devices]
    theirs = [(d.rank, d.host, d.device) for d in stored.devices]
    if result.gpus_per_thread == 1 and result.threads == 1 and ours != theirs:
        return [f"{len(ours)} rank(s), in the JSON result {len(theirs)}, or others"]
    if result.sizes != stored.sizes:
        return ["the sizes of text and JSON result differ"]
    for one_row, other_row in zip(result.rows, stored.rows, strict=True):
        if why := _row_disagreement(one_row, other_row):
            return [f"{one_row.size_bytes} bytes: {why} differ in text and JSON result"]
    mine, stated = result.average_busbw_gbytes_s, stored.average_busbw_gbytes_s
    if mine is not None and stated is not None:
        half = JSON_HALF + (10.0 ** (math.floor(math.log10(mine)) - 5) if mine else 0.0)
        if abs(mine - stated) > half or result.average_ok != stored.average_ok:
            return [f"average bus bandwidth is {mine:g}, in the JSON result {stated:g}"]
    return []


def _row_disagreement(one: Row, other: Row) -> str:
    if (one.count, one.datatype) != (other.count, other.datatype):
        return "count or datatype"
    if len(one.columns) != len(other.columns):
        return "sides"
    if [column.wrong for column in one.columns] != [column.wrong for column in other.columns]:
        return "#wrong"
    for mine, theirs in zip(numbers_of(one), numbers_of(other), strict=True):
        for name, shown, exact in zip(SIDE, mine, theirs, strict=True):
            if not shown.meets(exact):
                return name
    return ""


# --- what comes out ---


def _seen(results: Sequence[Result]) -> dict[str, Any]:
    """What the first test states of itself."""
    if not results:
        return {}
    result = results[0]
    models = sorted({device.name for device in result.devices})
    seen: dict[str, Any] = {
        "version": result.version or None,
        "nccl_version": result.nccl_version or None,
        "ranks": len(result.devices) or None,
        "gpu": models[0] if len(models) == 1 else models or None,
        "hosts": tuple(device.host for device in result.devices) or None,
        **{
            name: getattr(result, name)
            for name in ("warmup", "iterations", "validation", "min_bytes", "max_bytes")
        },
        "warnings": result.warnings or None,
        "reduced_bytes": result.reduced_bytes,
        "tests": len(results) if len(results) > 1 else None,
    }
    return {name: value for name, value in seen.items() if value is not None}


def _measurements(
    result: Result,
    verdict: _Verdict,
    options: Options | None,
    nodes: tuple[str, ...],
    simulated: bool,
) -> Iterator[Measurement]:
    kinds = sweeps(result)
    groups = 1 if options else group_count(result.devices)
    for rows in kinds:
        # Of several sweeps (-N) the mean, as the tool's own average is.
        repeated = cycles(rows, len(rows) if options else sizes_of_sweep(result, rows))
        words = [verdict.operation, *_apart(rows[0], kinds)]
        operation = " ".join([*words, f"groups {groups}"] if groups > 1 else words)
        done = set()
        for same in zip(*repeated, strict=True):
            size = same[0].size_bytes
            if not size or size in done:
                continue
            done.add(size)
            for place, suffix in enumerate(("", "_in_place")[: len(same[0].columns)]):
                columns = [row.columns[place] for row in same]
                values = {"busbw": [column.busbw_gbytes_s for column in columns]}
                if not result.cpu_time:
                    values["time"] = [column.time_us for column in columns]
                for metric, shown in values.items():
                    yield Measurement(
                        f"{metric}{suffix}",
                        statistics.fmean(shown) if len(shown) > 1 else shown[0],
                        TOOL,
                        operation,
                        options.transport if options else "any",
                        size_bytes=size,
                        nodes=nodes,
                        ranks=verdict.ranks,
                        samples=result.iterations and result.iterations * len(repeated),
                        warmup=result.warmup,
                        simulated=simulated,
                    )


def _apart(row: Row, kinds: Sequence[Sequence[Row]]) -> list[str]:
    """What distinguishes a kind of row from the others of its test: `max`, `half`, `root 3`."""
    others = [kind_of(rows[0]) for rows in kinds]
    datatype, redop, root = kind_of(row)
    shown = (datatype, redop, f"root {root}")
    return [word for place, word in enumerate(shown) if len({other[place] for other in others}) > 1]
