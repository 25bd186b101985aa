"""Counters around a test and the peak rate on the wire, on trees of files that stand for sysfs."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.common.spread import jain
from railgauge.node.system import counter_sampler, counters, rdma_devices
from railgauge.node.system.counter_sampler import MOST_READINGS, Peak, Reading, Sampler, Steady
from railgauge.node.system.counter_watch import Watch
from railgauge.node.system.counters import delta, snapshot

ETHTOOL_TEXT = """\
NIC statistics:
     rx_packets: 12
     rx_crc_errors_phy: 0
     [0]: rx_ucast_packets: 7
     ptp: cq0: 3
     temperature: 41.5
     tx_queue_0_state: on
     link_down_events_phy: 1
"""

MLX5 = {
    "class/infiniband/mlx5_0/hw_counters/cc_drops": "5\n",
    "class/infiniband/mlx5_0/ports/1/counters/symbol_error": "0\n",
    "class/infiniband/mlx5_0/ports/1/counters/port_rcv_data": "1000\n",
    "class/infiniband/mlx5_0/ports/1/counters/port_xmit_data": "1000\n",
    "class/infiniband/mlx5_0/ports/1/counters/VL15_dropped": "N/A (no PMA)\n",
    "class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence": "3\n",
    "class/infiniband/mlx5_0/ports/1/hw_counters/lifespan": "10\n",
    "class/infiniband/mlx5_0/ports/2/counters/symbol_error": "9\n",
    "class/net/eth0/statistics/rx_bytes": "1000\n",
    "class/net/eth0/statistics/tx_bytes": "2000\n",
    "class/net/eth0/device/vendor": "0x15b3\n",
    "class/net/lo/statistics/rx_bytes": "5\n",
    "class/net/bond0/statistics/rx_errors": "4\n",
    "class/net/bonding_masters": "bond0\n",
}
RX_BYTES = "class/net/eth0/statistics/rx_bytes"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def install(folder: Path, program: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / program).write_text(f"#!/bin/sh\n{script}\n")
    (folder / program).chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which programs are found, empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(rdma_devices, "SYSTEM_FOLDERS", "")
    return folder


@pytest.fixture
def mlx5(tmp_path: Path, tools: Path) -> Path:
    """A node with a dual-port HCA, a physical interface, a bond, and ethtool."""
    root = tmp_path / "sys"
    write(root, MLX5)
    (tmp_path / "statistics").write_text(ETHTOOL_TEXT)
    install(tools, "ethtool", f"exec /bin/cat {tmp_path}/statistics")
    return root


# ---- snapshots ----


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rdma/mlx5_0/1/counters/port_rcv_data", 1000),
        ("rdma/mlx5_0/1/hw_counters/out_of_sequence", 3),
        ("rdma/mlx5_0/2/counters/symbol_error", 9),
        ("rdma/mlx5_0/hw_counters/cc_drops", 5),
        ("net/eth0/rx_bytes", 1000),
        ("net/bond0/rx_errors", 4),
        ("ethtool/eth0/rx_packets", 12),
        ("ethtool/eth0/[0]: rx_ucast_packets", 7),
        ("ethtool/eth0/ptp: cq0", 3),
    ],
)
def test_counter_is_found_by_its_name(mlx5: Path, name: str, value: int) -> None:
    assert snapshot(str(mlx5))[0][name] == value


@pytest.mark.parametrize(
    "name",
    [
        "rdma/mlx5_0/1/hw_counters/lifespan",
        "rdma/mlx5_0/1/counters/VL15_dropped",
        "net/lo/rx_bytes",
        "ethtool/eth0/temperature",
        "ethtool/eth0/tx_queue_0_state",
        "ethtool/eth0/NIC statistics",
    ],
)
def test_what_is_no_counter_of_a_link_is_left_out(mlx5: Path, name: str) -> None:
    assert name not in snapshot(str(mlx5))[0]


def test_counter_that_is_no_number_is_noted(mlx5: Path) -> None:
    note = "not read: rdma/mlx5_0/1/counters/VL15_dropped: not a whole number"
    assert note in snapshot(str(mlx5))[1]


def test_counter_that_cannot_be_read_is_noted(mlx5: Path) -> None:
    # Reading a folder fails for root too.
    (mlx5 / "class/net/eth0/statistics/rx_odd").mkdir()
    assert "not read: net/eth0/rx_odd: Is a directory" in snapshot(str(mlx5))[1]


def test_missing_ethtool_is_a_note(mlx5: Path, tools: Path) -> None:
    (tools / "ethtool").unlink()
    assert "not read: ethtool/eth0: ethtool is not installed" in snapshot(str(mlx5))[1]


def test_driver_without_statistics_is_a_note(mlx5: Path, tools: Path) -> None:
    install(tools, "ethtool", "echo 'no stats available' >&2; exit 94")
    assert any("exit code 94: no stats available" in note for note in snapshot(str(mlx5))[1])


def test_ethtool_is_asked_of_physical_interfaces_only(mlx5: Path) -> None:
    assert not any(name.startswith("ethtool/bond0/") for name in snapshot(str(mlx5))[0])


def test_node_without_rdma_has_counters_of_its_interfaces(tmp_path: Path, tools: Path) -> None:
    write(tmp_path / "sys", {"class/net/veth0/statistics/rx_bytes": "1\n"})
    assert snapshot(str(tmp_path / "sys")) == ({"net/veth0/rx_bytes": 1}, [])


def test_soft_roce_has_only_hardware_counters(tmp_path: Path, tools: Path) -> None:
    path = "class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts"
    write(tmp_path / "sys", {path: "8\n"})
    assert snapshot(str(tmp_path / "sys"))[0] == {"rdma/rxe0/1/hw_counters/rcvd_pkts": 8}


def test_empty_machine_has_no_counters(tmp_path: Path) -> None:
    assert snapshot(str(tmp_path / "nowhere")) == ({}, [])


def test_statistic_that_is_listed_twice_is_summed() -> None:
    assert counters.ethtool_counts("NIC statistics:\n a: 1\n a: 2\n") == {"a": 3}


@given(st.text())
def test_any_text_of_ethtool_is_read(text: str) -> None:
    assert all(isinstance(v, int) for v in counters.ethtool_counts(text).values())


# ---- delta ----

COUNTS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 5))


@given(COUNTS, COUNTS)
def test_every_counter_is_accounted_for_once(before: dict[str, int], after: dict[str, int]) -> None:
    changes = delta(before, after)
    same = [name for name in before if after.get(name) == before[name]]
    named = [*changes.changed, *changes.reset, *changes.gone, *changes.new, *same]
    assert sorted(named) == sorted(before.keys() | after.keys())


@given(COUNTS, COUNTS)
def test_changes_and_snapshot_before_give_snapshot_after(
    before: dict[str, int], after: dict[str, int]
) -> None:
    changes = delta(before, after)
    assert all(before[name] + grown == after[name] for name, grown in changes.changed.items())


@given(COUNTS, COUNTS)
def test_delta_leaves_its_snapshots_alone(before: dict[str, int], after: dict[str, int]) -> None:
    copies = (dict(before), dict(after))
    delta(before, after)
    assert (before, after) == copies


@given(COUNTS)
def test_nothing_changes_between_equal_snapshots(counts: dict[str, int]) -> None:
    assert delta(counts, counts) == ({}, [], [], [])


def test_counter_that_goes_backwards_is_a_reset_not_a_wrap() -> None:
    assert delta({"a": 2**32 - 1}, {"a": 3}) == ({}, ["a"], [], [])


# ---- Jain's index ----

SHARES = st.lists(st.floats(0, allow_nan=False, allow_infinity=False), min_size=1).filter(any)


@given(SHARES)
def test_index_lies_between_one_share_for_all_and_equal_shares(values: list[float]) -> None:
    assert 1 / len(values) <= jain(values) <= 1


@given(st.floats(1e-300, 1e300), st.integers(1, 64))
def test_equal_shares_are_perfectly_fair(share: float, n: int) -> None:
    assert jain([share] * n) == pytest.approx(1)


@given(st.floats(1e-300, 1e300), st.integers(1, 64))
def test_all_for_one_is_one_of_n(share: float, n: int) -> None:
    assert jain([share, *[0.0] * (n - 1)]) == pytest.approx(1 / n)


def test_index_of_a_case_done_by_hand() -> None:
    # (1 + 2 + 3)^2 / (3 * (1 + 4 + 9))
    assert jain([1, 2, 3]) == pytest.approx(36 / 42)


@pytest.mark.parametrize("values", [[], [0.0, 0.0], [1.0, -1.0], [math.nan], [math.inf, 1.0]])
def test_shares_without_an_index_are_an_error(values: list[float]) -> None:
    with pytest.raises(ValueError, match="Jain's index needs"):
        jain(values)


# ---- the peak ----


def peak_of(values: list[float], period_s: float = 0.1, unit_bytes: int = 1) -> Peak:
    peak = Peak(unit_bytes)
    for turn, value in enumerate(values):
        peak.add(Reading(turn * period_s, turn * period_s + 1e-6, int(value)))
    return peak


def steady(gbits: float, turns: int) -> list[float]:
    return [turn * 0.1 * gbits * 1e9 / 8 for turn in range(turns)]


def test_steady_rate_is_its_own_peak() -> None:
    assert peak_of(steady(392, 20)).gbits == pytest.approx(392, rel=1e-4)


def test_words_of_rdma_counters_count_as_four_bytes() -> None:
    words = [value / 4 for value in steady(392, 20)]
    assert peak_of(words, unit_bytes=counters.RDMA_WORD_BYTES).gbits == pytest.approx(392, rel=1e-4)


def test_peak_is_that_of_the_fastest_half_second() -> None:
    slow, fast = steady(10, 20), steady(40, 11)
    values = slow + [slow[-1] + value for value in fast[1:]]
    values += [values[-1] + value for value in slow[1:]]
    assert peak_of(values).gbits == pytest.approx(40, rel=1e-3)


def test_idle_link_has_a_peak_of_zero() -> None:
    assert peak_of([7.0] * 20).gbits == 0


def test_watch_shorter_than_the_window_has_no_peak() -> None:
    assert peak_of(steady(10, 5)).gbits is None


def test_reset_invents_no_rate() -> None:
    assert peak_of([10**15, *steady(10, 20)]).gbits == pytest.approx(10, rel=1e-3)


def test_counter_refreshed_each_second_has_no_peak() -> None:
    assert peak_of([turn // 10 * 1e9 for turn in range(50)]).gbits is None


def test_counter_refreshed_each_second_is_not_trusted_after_a_pause() -> None:
    peak = Peak(1)
    for turn, at_s in enumerate([0.0, 0.1, 0.2, 1.3, 2.4, 2.5, 2.6]):
        peak.add(Reading(at_s, at_s, [0, 0, 0, 1, 2, 2, 2][turn]))
    assert peak.gbits is None


@given(
    st.lists(
        st.tuples(st.floats(0, 0.3), st.floats(0, 1), st.floats(0, 0.3)), min_size=2, max_size=40
    )
)
def test_held_up_sampler_never_shows_more_than_the_link_carried(
    turns: list[tuple[float, float, float]],
) -> None:
    """A link at 1 Gb/s, read at any time between the two clock readings, with any pauses."""
    peak, now_s = Peak(1), 0.0
    for pause_s, share, reading_s in turns:
        now_s += pause_s
        value = int((now_s + share * reading_s) * 1e9 / 8)
        peak.add(Reading(now_s, now_s + reading_s, value))
        now_s += reading_s
    assert (peak.gbits or 0) <= 1.0001


# ---- the rate while a transfer was under way ----


def rate_of(values: Sequence[float], unit_bytes: int = 1, widths: Sequence[float] = ()) -> Any:
    """Read each quarter of a second; `widths` are how long each reading took (s)."""
    found = Steady(unit_bytes)
    for turn, value in enumerate(values):
        took_s = widths[turn] if widths else 1e-6
        found.add(Reading(turn * 0.25, turn * 0.25 + took_s, int(value)))
    return found.gbits


def carried(begins_s: float, ends_s: float, reads: int, gbits: float = 8.0) -> list[float]:
    """Bytes at each reading of a transfer of one rate between two times."""
    times = [0.25 * turn for turn in range(reads)]
    return [max(0.0, min(at_s, ends_s) - begins_s) * gbits * 1e9 / 8 for at_s in times]


@given(st.floats(0, 2), st.floats(1.5, 5), st.integers(0, 12))
def test_idle_time_before_and_after_a_transfer_is_no_part_of_its_rate(
    begins_s: float, lasts_s: float, idle_reads: int
) -> None:
    reads = int((begins_s + lasts_s) / 0.25) + 2 + idle_reads
    values = carried(begins_s, begins_s + lasts_s, reads)
    assert rate_of(values) == pytest.approx(8.0, rel=1e-3)


def test_packets_that_close_a_connection_late_are_no_transfer() -> None:
    values = carried(0.1, 5.1, 24)
    values[-1] += 4000
    assert rate_of(values) == pytest.approx(8.0, rel=1e-3)


def test_a_transfer_that_stalls_is_slower() -> None:
    first = carried(0.0, 2.0, 9)
    values = [*first, *[first[-1]] * 8, *(first[-1] + more for more in first[1:])]
    assert rate_of(values) == pytest.approx(8.0 * 3.5 / 5.5, rel=1e-3)


def test_a_counter_refreshed_each_second_has_the_same_rate() -> None:
    assert rate_of([turn // 4 * 1e9 for turn in range(24)]) == pytest.approx(8.0, rel=1e-3)


def test_words_have_four_bytes_in_the_steady_rate_too() -> None:
    assert rate_of([value / 4 for value in carried(0, 5, 20)], 4) == pytest.approx(8.0, rel=1e-3)


@pytest.mark.parametrize("values", [[], [5], [5, 5, 5], [0, 10**9, 2 * 10**9]])
def test_too_few_readings_have_no_rate(values: list[float]) -> None:
    assert rate_of(values) is None


def test_a_reading_that_was_held_up_is_left_out() -> None:
    values = carried(0, 5, 20)
    widths = [1e-6] * 20
    widths[3], values[3] = 0.2, values[3] + 0.2 * 1e9
    assert rate_of(values, widths=widths) == pytest.approx(8.0, rel=1e-3)


def test_a_burst_between_two_readings_that_followed_soon_is_no_rate() -> None:
    found = Steady(1)
    for turn, value in enumerate(carried(0, 5, 20)):
        found.add(Reading(turn * 0.25, turn * 0.25, int(value)))
        found.add(Reading(turn * 0.25 + 1e-4, turn * 0.25 + 1e-4, int(value) + 2_000_000))
    assert found.gbits == pytest.approx(8.0, rel=1e-3)


def test_after_a_reset_the_rate_is_that_of_what_came_then() -> None:
    assert rate_of([10**15, *carried(0, 5, 20)]) == pytest.approx(8.0, rel=1e-3)


def test_a_long_transfer_keeps_few_readings() -> None:
    found = Steady(1)
    for turn in range(20_000):
        found.add(Reading(turn * 0.25, turn * 0.25, turn * 250_000_000))
    assert len(found._readings) <= MOST_READINGS
    assert found.gbits == pytest.approx(8.0, rel=1e-3)


# ---- the sampler and the watch ----


def grow(root: Path, name: str, value: int) -> None:
    """A new value in the same file, never half written."""
    with (root / name).open("r+b") as stream:
        stream.write(b"%018d\n" % value)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A watch of 2 s in which eth0 received 1 Gb/s, a port sent as much, and a device vanished."""
    root = tmp_path_factory.mktemp("sys")
    write(root, {name: text for name, text in MLX5.items() if "device" not in name})
    word_file = "class/infiniband/mlx5_0/ports/1/counters/port_xmit_data"
    watch = Watch(root=str(root))
    began, read, read_so_far = time.monotonic(), os.pread, list[int]()

    def growing(*words: int) -> bytes:
        """As of the kernel's: whenever it is read, it has what has come by then."""
        for name, bits in ((RX_BYTES, 8), (word_file, 32)):
            grow(root, name, 1000 + int((time.monotonic() - began) * 1e9 / bits))
        read_so_far.append(words[0])
        return read(*words)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counter_sampler.os, "pread", growing)
        watch.start()
        # Nine of each of four counters: a sampler that was held up once has others in a row.
        while len(read_so_far) < 9 * 4:
            assert time.monotonic() < began + 200, "nothing is sampled"
            time.sleep(0.02)
        grow(root, "class/infiniband/mlx5_0/ports/2/counters/symbol_error", 2)
        (root / "class/net/bond0/statistics/rx_errors").unlink()
        write(root, {"class/net/eth9/statistics/rx_errors": "1\n"})
        return watch.stop()


#: As the kernel writes it: names, then numbers.
_SNMP = (
    "Ip: Forwarding DefaultTTL\nIp: 1 64\n"
    "Tcp: RtoAlgorithm MaxConn OutSegs RetransSegs InErrs\nTcp: 1 -1 900 {} 0\n"
)


@pytest.mark.parametrize(
    ("before", "after", "counted"),
    [
        (_SNMP.format(5), _SNMP.format(12), {"tcp/RetransSegs": 7}),
        (_SNMP.format(5), _SNMP.format(5), {}),
        (_SNMP.format(5), "Tcp: RetransSegs\n", {}),
        (_SNMP.format(5), "Tcp: RetransSegs\nTcp: many\n", {}),
    ],
)
def test_segments_sent_again_are_counted(
    tmp_path: Path, before: str, after: str, counted: dict[str, int]
) -> None:
    write(tmp_path, {"sys/class/net/eth0/statistics/rx_bytes": "1\n", "proc/net/snmp": before})
    watch = Watch(root=str(tmp_path / "sys"))
    watch.start()
    write(tmp_path, {"proc/net/snmp": after})
    assert watch.stop()["counters"] == counted


def test_record_is_ready_for_json(record: dict[str, Any]) -> None:
    assert json.loads(json.dumps(record)) == record


@pytest.mark.parametrize(("device", "direction"), [("net/eth0", "rx"), ("rdma/mlx5_0/1", "tx")])
def test_record_has_the_peak_of_each_device(
    record: dict[str, Any], device: str, direction: str
) -> None:
    assert record["peak_gbits"][device][direction] == pytest.approx(1, rel=0.15)


def test_port_without_byte_counters_has_no_peak(record: dict[str, Any]) -> None:
    assert "rdma/mlx5_0/2" not in record["peak_gbits"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("reset", "rdma/mlx5_0/2/counters/symbol_error"),
        ("gone", "net/bond0/rx_errors"),
        ("new", "net/eth9/rx_errors"),
    ],
)
def test_record_has_a_device_that_was_made_again(
    record: dict[str, Any], kind: str, name: str
) -> None:
    assert record[kind] == [name]


def test_record_has_the_bytes_of_each_interface(record: dict[str, Any]) -> None:
    assert record["bytes"]["eth0"] == {"rx": record["counters"]["net/eth0/rx_bytes"], "tx": 0}


def test_record_has_the_bytes_of_each_port(record: dict[str, Any]) -> None:
    words = record["counters"]["rdma/mlx5_0/1/counters/port_xmit_data"]
    assert record["bytes"]["rdma/mlx5_0/1"] == {"rx": 0, "tx": 4 * words}


def test_record_has_the_bytes_that_never_left_the_node(record: dict[str, Any]) -> None:
    assert record["bytes"]["lo"] == {"rx": 0}


@pytest.mark.parametrize(
    ("counter", "device"),
    [
        ("net/eth0/tx_bytes", "eth0"),
        ("rdma/bnxt_re0/1/hw_counters/tx_bytes", "rdma/bnxt_re0/1"),
        ("rdma/irdma0/1/hw_counters/ip4OutOctets", "rdma/irdma0/1"),
        ("ethtool/eth2/tx_vport_rdma_unicast_bytes", "ethtool/eth2"),
    ],
)
def test_bytes_are_found_where_drivers_keep_them(counter: str, device: str) -> None:
    assert counters.byte_counts({counter: 7, "net/eth0/tx_packets": 9}) == {device: {"tx": 7}}


def test_bytes_of_a_counter_that_was_reset_are_not_reported() -> None:
    before, after = {"net/eth0/rx_bytes": 9, "net/eth0/tx_bytes": 1}, {"net/eth0/rx_bytes": 8}
    assert counters.moved_bytes(before, {**after, "net/eth0/tx_bytes": 3}) == {"eth0": {"tx": 2}}


def test_what_a_driver_shows_late_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A counter refreshed once, after the test has ended."""
    write(tmp_path, MLX5)
    watch = Watch(["eth0"], root=str(tmp_path))
    watch.start()
    time.sleep(1)
    grow(tmp_path, RX_BYTES, 2**30)
    time.sleep(1)
    # Once it has been looked at ten times.
    late = itertools.chain([2**30] * 10, itertools.repeat(3 * 2**30))
    monkeypatch.setattr(
        counter_sampler.time, "sleep", lambda _: grow(tmp_path, RX_BYTES, next(late))
    )
    record = watch.stop()
    assert record["bytes"]["eth0"]["rx"] == 3 * 2**30 - 1000


def test_record_has_only_counters_that_changed(record: dict[str, Any]) -> None:
    changed = {"net/eth0/rx_bytes", "rdma/mlx5_0/1/counters/port_xmit_data"}
    assert record["counters"].keys() == changed


def test_sampler_states_what_it_costs(record: dict[str, Any]) -> None:
    assert 0 < record["sampler_cpu_share"] < 0.2


def test_sampler_reads_only_the_named_devices(tmp_path: Path) -> None:
    write(tmp_path, MLX5)
    sampler = Sampler(["eth0"], str(tmp_path))
    sampler.start()
    assert list(sampler.stop()["peak_gbits"]) == ["net/eth0"]


def test_device_that_vanishes_under_the_sampler_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unplugged(*_: object) -> bytes:
        raise OSError(19, os.strerror(19))

    write(tmp_path, MLX5)
    sampler = Sampler(["eth0"], str(tmp_path))
    monkeypatch.setattr(counter_sampler.os, "pread", unplugged)
    sampler.start()
    assert [note.partition(" after ")[0] for note in sampler.stop()["notes"]] == [
        "net/eth0 rx could not be read any more",
        "net/eth0 tx could not be read any more",
    ]


def test_sampler_leaves_signals_to_the_main_thread(tmp_path: Path) -> None:
    """Else SIGTERM comes to it while the main thread keeps it off, and ends what must go on."""
    write(tmp_path, MLX5)
    sampler = Sampler(["eth0"], str(tmp_path))
    sampler.start()
    status = Path(f"/proc/self/task/{sampler._thread.native_id}/status").read_text()
    sampler.stop()
    (blocked,) = re.findall(r"^SigBlk:\s+(\S+)$", status, re.MULTILINE)
    assert int(blocked, 16) & 1 << (signal.SIGTERM - 1)
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_sampler_leaves_no_file_open(tmp_path: Path) -> None:
    write(tmp_path, MLX5)
    before = len(list(Path("/proc/self/fd").iterdir()))
    sampler = Sampler(None, str(tmp_path))
    sampler.start()
    sampler.stop()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_sampler_leaves_files_for_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_sampler, "MOST_SAMPLED", 2)
    write(tmp_path, MLX5)
    sampler = Sampler(None, str(tmp_path))
    sampler.start()
    note = "not sampled, more than 2 counters: net/eth0, net/bond0"
    assert sampler.stop()["notes"] == [note]


@pytest.mark.parametrize(
    ("name", "value", "full"),
    [
        ("symbol_error", 65535, True),
        ("symbol_error", 65534, False),
        ("link_downed", 255, True),
        ("local_link_integrity_errors", 15, True),
        # of 64 bits, and one that no budget names
        ("port_rcv_packets", 65535, False),
        ("VL15_dropped", 65535, False),
    ],
)
def test_a_counter_that_can_count_no_more_is_reported(
    tmp_path: Path, name: str, value: int, full: bool
) -> None:
    write(tmp_path, {f"class/infiniband/mlx5_0/ports/1/counters/{name}": f"{value}\n"})
    budgets = ["rdma/mlx5_0/1/counters/(symbol_error|link_downed|local_.*|port_rcv_packets)"]
    watch = Watch(root=str(tmp_path), budgets=budgets)
    watch.start()
    assert watch.stop()["full"] == ([f"rdma/mlx5_0/1/counters/{name}"] if full else [])


def test_bytes_of_rdma_by_ionic_are_known() -> None:
    counts = {"rdma/ionic_0/1/hw_counters/rx_rdma_ucast_bytes": 7}
    assert counters.byte_counts(counts) == {"rdma/ionic_0/1": {"rx": 7}}
