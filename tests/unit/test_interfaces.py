"""Captures of several interfaces, whose records stand in the file as buffers were drained."""

from __future__ import annotations

import dataclasses
import io
import os
import random
import subprocess
import threading
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import rewindow
from bench.corpus.order import Frame, order_of
from rewindow.reports.verdicts import quality_text
from tests.interfaces import SECOND_NS, drained, pcapng, two_subflows

ALGORITHMS = ["newreno", "tccc", "sbcc"]


def replay(*sources: Any) -> rewindow.Result:
    with rewindow.open(*sources) as capture:
        return capture.replay(ALGORITHMS)


def same(one: rewindow.Result, other: rewindow.Result) -> bool:
    """All but the numbers of packets."""
    tables = all(getattr(one, name).equals(getattr(other, name)) for name in ("acks", "marks", "sets"))
    connections = [[dataclasses.asdict(c) for c in result.connections] for result in (one, other)]
    summaries = []
    for result in (one, other):
        summary = dataclasses.asdict(result.summary)
        del summary["oddities"], summary["quality"]
        summaries.append(summary)
    return tables and connections[0] == connections[1] and summaries[0] == summaries[1]


def findings(result: rewindow.Result) -> dict[str, tuple[int, int | None]]:
    """Count and first packet."""
    return {f.what: (f.count, f.packet) for f in result.summary.quality.findings}


@pytest.fixture(scope="module")
def in_order(tmp_path_factory: pytest.TempPathFactory) -> rewindow.Result:
    """As reordercap, of Wireshark, puts the records of the file that was drained late."""
    folder = tmp_path_factory.mktemp("interfaces")
    late, ordered = folder / "late.pcapng", folder / "ordered.pcapng"
    late.write_bytes(pcapng(drained(two_subflows(), lambda interface: interface * SECOND_NS)))
    subprocess.run(["reordercap", late, ordered], check=True, capture_output=True)
    result = replay(ordered)
    assert result.summary.interfaces == 2
    assert result.acks.num_rows > 4000
    assert findings(result) == {}
    return result


@pytest.mark.parametrize("delays_ms", [(0, 1000), (1000, 0), (0, 3), (400, 4500)])
def test_the_same_as_in_order(delays_ms: tuple[int, int], tmp_path: Path, in_order: rewindow.Result) -> None:
    records = drained(two_subflows(), lambda interface: delays_ms[interface] * 10**6)
    path = tmp_path / "late.pcapng"
    path.write_bytes(pcapng(records))
    result = replay(path)
    assert same(result, in_order)
    latest, late = 0, []
    for number, (_, time_ns, _, _) in enumerate(records, 1):
        if time_ns < latest:
            late.append(number)
        latest = max(latest, time_ns)
    assert late
    assert findings(result) == {"late_record": (len(late), late[0])}
    assert result.summary.quality.verdict == "good"


def test_through_a_pipe(in_order: rewindow.Result) -> None:
    data = pcapng(drained(two_subflows(), lambda interface: interface * SECOND_NS))
    read, write = os.pipe()

    def feed() -> None:
        with os.fdopen(write, "wb") as stream:
            stream.write(data)

    thread = threading.Thread(target=feed)
    thread.start()
    with os.fdopen(read, "rb") as stream:
        assert same(replay(stream), in_order)
    thread.join()


def test_several_files_of_several_interfaces(tmp_path: Path, in_order: rewindow.Result) -> None:
    """Each direction in a file of its own, each with one interface behind the other."""
    records = drained(two_subflows(), lambda interface: interface * SECOND_NS)
    paths = []
    for host in (1, 2):
        path = tmp_path / f"{host}.pcapng"
        path.write_bytes(pcapng([r for r in records if r[2][15] == host]))
        paths.append(path)
    result = replay(*paths)
    assert result.acks.equals(in_order.acks)
    assert findings(result).keys() == {"late_record"}


def test_what_is_too_late_stays_and_is_told(tmp_path: Path) -> None:
    """A packet that stands six seconds behind where it belongs; the number is that of Wireshark."""
    records = drained(two_subflows(), lambda interface: interface * SECOND_NS)
    place = next(i for i, r in enumerate(records) if i > 3000 and r[0])
    moved = records[place]
    after = next(i for i, r in enumerate(records) if r[1] > moved[1] + 6 * SECOND_NS)
    records.insert(after, records.pop(place))
    path = tmp_path / "late.pcapng"
    path.write_bytes(pcapng(records))
    result = replay(path)
    found = findings(result)
    assert found["backward_timestamp"] == (1, after + 1)
    finding = next(f for f in result.summary.quality.findings if f.what == "backward_timestamp")
    assert finding.since_s is not None
    assert abs(finding.since_s - (moved[1] - records[0][1]) / 1e9) < 0.5
    assert result.summary.oddities["backward_timestamp"]["first_ns"] == moved[1]


def test_findings_of_later_passes_have_the_number_in_the_file(tmp_path: Path) -> None:
    """Data that is acknowledged, but not in the capture, is found when packets are replayed."""
    records = drained(two_subflows(), lambda interface: interface * SECOND_NS)
    data = [i for i, r in enumerate(records) if r[0] and r[3] > 1000]
    gone = set(data[300:340])
    records = [r for i, r in enumerate(records) if i not in gone]
    path = tmp_path / "late.pcapng"
    path.write_bytes(pcapng(records))
    result = replay(path)
    oddity = result.summary.oddities["unseen_data"]
    packet = records[oddity["first_record"] - 1]
    assert packet[1] == oddity["first_ns"]
    assert packet[0] == 1
    offset = len(pcapng(records[: oddity["first_record"] - 1]))
    assert offset == oddity["first_offset"]


@pytest.mark.parametrize("bad", [1, 6])
@pytest.mark.parametrize("interfaces", [1, 2])
def test_a_time_that_cannot_be_is_found_at_its_own_record(interfaces: int, bad: int, tmp_path: Path) -> None:
    """What is found while a record is read, before it counts."""
    records = [(0, *record[1:]) for record in two_subflows()[:12]]
    records[bad - 1] = (0, (1 << 64) - 1, *records[bad - 1][2:])
    capture = tmp_path / "capture.pcapng"
    capture.write_bytes(pcapng(records, interfaces))
    assert findings(replay(capture))["bad_timestamp"] == (1, bad)


def test_a_finding_says_in_which_of_several_files_it_is(tmp_path: Path) -> None:
    records = two_subflows()
    cut = pcapng([(0, *r[1:]) for r in records[200:300]], 1)[:-10]
    paths = [tmp_path / "a.pcapng", tmp_path / "b.pcapng"]
    paths[0].write_bytes(pcapng([(0, *r[1:]) for r in records[:200]], 1))
    paths[1].write_bytes(cut)
    quality = replay(*paths).summary.quality
    finding = next(f for f in quality.findings if f.what == "cut_capture")
    assert (finding.file, finding.packet) == (1, 99)
    shown = quality_text(asdict(quality), None)
    assert "cut_capture x 1, from" in shown
    assert "(packet 99 of file 2)" in shown


def test_sections_are_not_mixed() -> None:
    """Two captures of an interface each, one behind the other in one file: hours may lie between them."""
    records = two_subflows()
    halves = [[(0, *r[1:]) for r in records if r[0] == interface] for interface in (0, 1)]
    result = replay(io.BytesIO(b"".join(pcapng(half, 1) for half in halves)))
    found = findings(result)
    assert found["backward_timestamp"] == (1, len(halves[0]) + 1)
    assert "late_record" not in found


def random_capture(chance: random.Random) -> tuple[bytes, list[Frame]]:
    """Interfaces that are drained up to six seconds late, whose clocks are apart, set back, or wrong for a packet."""
    interfaces, records, frames = chance.choice([2, 2, 3, 5]), bytearray(), list[Frame]()
    packets = [r[2] for r in two_subflows()[:150]]
    for part in range(chance.choice([1, 2])):
        now, rows = 100 * SECOND_NS, []
        delays = [chance.choice([0, 0, 1, 3, 6, 37]) * SECOND_NS for _ in range(interfaces)]
        ahead = [chance.choice([0, 0, 0, 37]) * SECOND_NS for _ in range(interfaces)]
        jitter = chance.choice([0, 5000, SECOND_NS])
        for packet in packets[: chance.randrange(5, len(packets))]:
            now += chance.choice([0, 1000, 10**6, 10**8, 2 * SECOND_NS])
            if chance.random() < 0.02:
                now -= chance.choice([1, 20]) * SECOND_NS
            interface = chance.randrange(interfaces)
            time_ns = 4 * 10**18 if chance.random() < 0.005 else now + ahead[interface] - chance.choice([0, 0, jitter])
            rows.append((now + delays[interface], (interface, time_ns, packet, len(packet))))
        drawn = [record for _, record in sorted(rows)]
        records += pcapng(drawn, interfaces)
        frames += [Frame(len(frames) + i, r[1], str(part), str(r[0])) for i, r in enumerate(drawn, 1)]
    return bytes(records), frames


def test_the_rule_read_anew() -> None:
    """bench/corpus/order.py has the whole file at once, and no bound."""
    found = Counter[str]()
    for seed in range(150):
        data, frames = random_capture(random.Random(seed))
        order, oddities = order_of(frames), replay(io.BytesIO(data)).summary.oddities
        counts = {name: oddities.get(name, {"count": 0})["count"] for name in ("late_record", "backward_timestamp")}
        assert counts["backward_timestamp"] == order.backward, seed
        assert order.late in (None, counts["late_record"]), seed
        found["late"] += bool(order.late)
        found["backward"] += order.backward > 0
        found["in order"] += order.backward == 0 and bool(order.late)
    assert min(found.values()) > 5
