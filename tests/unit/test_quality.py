"""What is wrong with a capture, since when, and what that makes unreliable."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import rewindow
from deploy.run import CHECKOUT
from rewindow.core import lib, name_of
from rewindow.findings import quality
from rewindow.findings.senders import judged
from rewindow.findings.tables import _WHATS
from tests.packets import ACK, FIN, Trace, sack
from tests.unit.test_linux_senders import recovered_from_ten
from tests.unit.test_senders import ack, segment

MSS = 1460
REWINDOW = Path(sys.executable).parent / "rewindow"


def test_every_oddity_has_a_meaning() -> None:
    names = [name_of(lib.rw_oddity_name, i) for i in range(lib.RW_ODDITY_COUNT)]
    assert set(names) <= quality.KINDS.keys()


def test_the_chart_knows_what_each_finding_concerns() -> None:
    """Of findings about subflows; those about captures are not drawn."""
    text = (CHECKOUT / "dashboard" / "src" / "chart" / "doubts.ts").read_text()
    told = re.findall(r'^  (\w+): { parts: \[(.*)\], words: "(.*)" }', text, re.MULTILINE)
    drawn = {"windows": "window", "in_flight": "window", "rtt": "rtt"}
    parts = {what: sorted({drawn[u] for u in quality.KINDS[what].unreliable if u in drawn}) for what in _WHATS}
    assert {what: (sorted(re.findall(r"\w+", its)), words) for what, its, words in told} == {
        what: (its, quality.KINDS[what].meaning) for what, its in parts.items() if its
    }


def conversation(
    *, handshake: bool = True, hole: bool = False, close: bool = True, client: str = "10.0.0.1", answered: bool = True
) -> Trace:
    trace = Trace()
    if handshake:
        trace.handshake(10.0, 0.05, client=client)
    for i in range(100):
        start = 11.0 + i * 0.06
        if not (hole and 40 <= i < 60):
            trace.packet(start, True, 1 + i * MSS, 1001, payload=MSS, client=client)
        if answered:
            trace.packet(start + 0.05, False, 1001, 1 + (i + 1) * MSS, client=client)
    if close:
        trace.packet(18.0, True, 1 + 100 * MSS, 1001, FIN | ACK, client=client)
    return trace


def result(data: bytes, tmp_path: Path) -> rewindow.Result:
    path = tmp_path / "capture.pcap"
    path.write_bytes(data)
    with rewindow.open(path) as capture:
        return capture.replay(["newreno"])


def test_a_whole_capture_is_good(tmp_path: Path) -> None:
    found = result(conversation().bytes(), tmp_path)
    assert (found.summary.quality.verdict, found.summary.quality.findings) == ("good", [])
    (subflow,) = found.connections[0].subflows
    assert (subflow.verdict, subflow.quality, subflow.unreliable) == ("good", [], [])


def test_packets_that_are_missing_are_poor_from_where_they_are_missing(tmp_path: Path) -> None:
    found = result(conversation(hole=True).bytes(), tmp_path)
    (finding,) = found.summary.quality.findings
    assert finding.what == "unseen_data"
    assert finding.since_s == pytest.approx(11.0 + 40 * 0.06 + 0.05 - 10.0)
    assert finding.packet == 3 + 2 * 40 + 1  # the ACK of what is not there
    (subflow,) = found.connections[0].subflows
    assert subflow.verdict == "poor"  # a fifth of the bytes
    assert subflow.first_unseen_ns == round((11.0 + 40 * 0.06 + 0.05) * 1e9)
    assert {"windows", "retransmissions", "in_flight"} <= set(subflow.unreliable)
    assert found.connections[0].verdict == "poor"


def test_a_cut_file_and_an_open_connection(tmp_path: Path) -> None:
    found = result(conversation(close=False).bytes()[:-5], tmp_path)
    (finding,) = found.summary.quality.findings
    assert (finding.what, finding.unreliable) == ("cut_capture", ("completion",))
    assert found.summary.quality.verdict == "limited"
    assert found.connections[0].quality == ["not_closed"]
    assert found.connections[0].unreliable == ["completion"]


def test_a_connection_that_began_before(tmp_path: Path) -> None:
    found = result(conversation(handshake=False).bytes(), tmp_path)
    assert [f.what for f in found.summary.quality.findings] == ["no_handshake"]
    assert found.summary.quality.findings[0].since_s == 0.0
    assert found.summary.quality.findings[0].packet == 1
    assert {"no_handshake", "vantage_unknown"} <= set(found.connections[0].quality)
    assert "windows" in found.connections[0].unreliable


def test_a_rare_finding_does_not_spoil_the_whole(tmp_path: Path) -> None:
    trace = conversation()
    for i in range(2000):
        trace.packet(20 + i * 1e-3, True, 1, 1, ACK, client="10.9.0.1")
    found = result(trace.bytes()[:-5], tmp_path)
    assert [f.what for f in found.summary.quality.findings] == ["cut_capture", "no_handshake"]
    assert found.summary.quality.verdict == "limited"
    flows = {"no_handshake": found.summary.oddities["no_handshake"]}  # one
    assert quality.of_capture(flows, 10_000, 2, 0).verdict == "limited"
    assert quality.of_capture(flows, 10_000, 2000, 0).verdict == "good"
    packets = {"bad_length": {"count": 5, "first_ns": 1, "first_record": 1, "file": 0}}
    assert quality.of_capture(packets, 5000, 1, 0).verdict == "limited"
    assert quality.of_capture(packets, 5001, 1, 0).verdict == "good"
    cut = {"cut_capture": {"count": 1, "first_ns": 1, "first_record": 1, "file": 0}}
    assert quality.of_capture(cut, 1_000_000, 1, 0).verdict == "limited"  # never rare


def test_fairness_carries_the_worst_verdict(tmp_path: Path) -> None:
    trace = conversation(hole=True)
    other = Trace()
    other.handshake(10.0, 0.05, client="10.0.0.9")
    for i in range(100):
        other.packet(11.0 + i * 0.06, True, 1 + i * MSS, 1001, payload=MSS, client="10.0.0.9")
        other.packet(11.05 + i * 0.06, False, 1001, 1 + (i + 1) * MSS, client="10.0.0.9")
    trace.records += other.records
    found = result(trace.bytes(), tmp_path)
    (group,) = rewindow.fairness_groups(found.connections, method="interface")
    assert (sorted(group.members), group.verdict) == ([0, 1], "poor")


def block(kind: int, body: bytes) -> bytes:
    """Of pcapng."""
    length = 12 + len(body)
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def test_packets_without_times_tell_no_goodput(tmp_path: Path) -> None:
    """pcapng: simple packet blocks, which have no time."""
    data = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(1, struct.pack("<HHI", 101, 0, 0))
    for _, packet, wire in sorted(conversation().records, key=lambda r: r[0]):
        data += block(3, struct.pack("<I", wire) + packet + b"\0" * (-len(packet) % 4))
    (connection,) = result(data, tmp_path).connections
    assert "no_timestamp" in connection.quality
    assert connection.verdict == "poor"
    assert {"goodput", "completion", "rtt"} <= set(connection.unreliable)


def test_what_the_capturing_system_missed(tmp_path: Path) -> None:
    """pcapng: an interface statistics block with isb_ifdrop 7 and isb_osdrop 5."""
    trace = conversation()
    data = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    data += block(1, struct.pack("<HHI", 101, 0, 0) + struct.pack("<HHB3x", 9, 1, 9) + struct.pack("<HH", 0, 0))
    for time_ns, packet, wire in sorted(trace.records, key=lambda r: r[0]):
        padded = packet + b"\0" * (-len(packet) % 4)
        data += block(6, struct.pack("<IIIII", 0, time_ns >> 32, time_ns & 0xFFFFFFFF, len(packet), wire) + padded)
    options = struct.pack("<HHQHHQHH", 5, 8, 7, 7, 8, 5, 0, 0)
    data += block(5, struct.pack("<III", 0, 0, 0) + options)
    found = result(data, tmp_path)
    assert found.summary.oddities["dropped_packets"]["count"] == 12
    assert found.summary.quality.verdict == "limited"
    assert [f.what for f in found.summary.quality.findings] == ["dropped_packets"]
    for connection in found.connections:
        assert "dropped_packets" in connection.quality
        assert (connection.verdict, connection.subflows[0].verdict) == ("limited", "limited")
        assert {"retransmissions", "windows", "in_flight"} <= set(connection.unreliable)


def test_a_finding_about_the_capture_concerns_connections_that_last_longer(tmp_path: Path) -> None:
    """Of packets whose lengths contradict each other nobody knows whose they were."""
    trace = conversation()
    for i in range(5):
        trace.records.append(((19 + i) * 1_000_000_000, b"\x45\x00\x00\x10" + bytes(16), 20))
    later = conversation(client="10.0.0.9")
    trace.records += [(time_ns + 15_000_000_000, packet, wire) for time_ns, packet, wire in later.records]
    found = result(trace.bytes(), tmp_path)
    assert found.summary.oddities["bad_length"]["count"] == 5
    first, second = found.connections
    assert (first.quality, first.verdict) == ([], "good")
    assert (second.quality, second.verdict) == (["bad_length"], "limited")
    assert second.unreliable == ["retransmissions", "windows"]
    assert found.summary.connection_quality["limited"]["connections"] == 1


def test_a_rare_finding_about_the_capture_concerns_no_connection() -> None:
    seen = {"count": 5, "first_ns": 7, "first_record": 1, "file": 0}
    assert quality.of_all_connections({"bad_length": seen, "no_handshake": seen}, 5000) == {"bad_length": 7}
    assert quality.of_all_connections({"bad_length": seen}, 5001) == {}
    assert quality.of_all_connections({"dropped_packets": seen}, 5000) == {"dropped_packets": 0}


def avoidance_from_six(acks: int, exceeding: int, held: int = 0) -> Trace:
    """NewReno after a loss, at its window; before the last ACKs five segments more are in flight, or one less."""
    trace = recovered_from_ten()
    window, credit, sent, acked, time = 6, 2, 10, 10, 1.41
    for i in range(acks):
        while sent < acked + window + (5 if i >= acks - exceeding else 0):
            segment(trace, time, sent)
            sent, time = sent + 1, time + 1e-5
        acked, time, credit = acked + 1, time + 0.01, credit + 1
        ack(trace, time, acked)
        if i == acks - held:
            window, credit = window - 1, -acks
        if credit == window:
            window, credit = window + 1, 0
    return trace


@pytest.mark.parametrize(("exceeding", "found"), [(0, []), (5, []), (20, ["window_exceeded"])])
def test_a_flight_above_its_senders_window_makes_windows_unreliable(
    exceeding: int, found: list[str], tmp_path: Path
) -> None:
    trace = avoidance_from_six(200, exceeding)
    with rewindow.open(trace.write(tmp_path / "trace.pcap")) as capture:
        result = capture.replay(["newreno", "cubic"])
    (subflow,) = result.connections[0].subflows
    sender = subflow.sender_algorithm
    assert sender.name == "newreno"
    assert [q for q in subflow.quality if q != "not_closed"] == found
    assert ("windows" in subflow.unreliable) == bool(found)
    assert sender.exceeded == pytest.approx(exceeding / 200, rel=0.02, abs=0)
    times = [time for time, _, _ in trace.records]
    acks = [i + 1 for i, time in enumerate(times) if time == sender.first_exceeded_ns]
    assert sender.first_exceeded_packet in (acks or [None])


@pytest.mark.parametrize(("held", "found"), [(0, []), (80, []), (97, ["window_unmatched"])])
def test_a_flight_that_stays_below_its_senders_window_makes_windows_unreliable(
    held: int, found: list[str], tmp_path: Path
) -> None:
    """Something else than the window is the limit, of a segment less, and nothing tells what."""
    trace = avoidance_from_six(200, 0, held)
    with rewindow.open(trace.write(tmp_path / "trace.pcap")) as capture:
        (subflow,) = capture.replay(["newreno", "cubic"]).connections[0].subflows
    assert subflow.sender_algorithm.name == "newreno"
    assert [q for q in subflow.quality if q != "not_closed"] == found
    assert ("windows" in subflow.unreliable) == bool(found)


def test_flights_are_counted_by_how_far_they_are_from_the_window(tmp_path: Path) -> None:
    """After a recovery, flights of 4 to 18 segments: equal to the window, one beside it, and further above or below."""
    trace = recovered_from_ten()
    sent, acked, time = 10, 10, 1.41
    for i in range(60):
        flight = 4 + abs(i % 28 - 14)
        acked += max(0, sent + 1 - acked - flight)
        if i:
            time += 0.1
            ack(trace, time, acked)
        while sent < acked + flight:
            segment(trace, time + 1e-5 * (1 + sent - acked), sent)
            sent += 1
    ack(trace, time + 0.1, sent)
    with rewindow.open(trace.write(tmp_path / "trace.pcap")) as capture:
        acks = capture.replay(["newreno"]).acks.to_pydict()
        with capture.stream(["newreno"]) as replay:
            for _ in replay:
                pass
            [table] = replay.tables()
            found = replay.window_rows(table, ["newreno"])["newreno"][0]
    full = [0, *range(4, 64)]  # the first ACK, and those after the recovery
    assert found["full_rows"] == len(full)
    above = [int(acks["newreno.cwnd_before"][row]) - acks["in_flight_bytes"][row] // MSS for row in full]
    times = [acks["time_ns"][row] for row in full]
    assert {-3, -2, -1, 0, 1, 2, 3} <= set(above)
    assert found["matched"] == above.count(0)
    assert found["near"] == sum(abs(a) <= 1 for a in above)
    assert found["exceeded"] == sum(a < -1 for a in above) > 1
    first = next(i for i, a in enumerate(above) if a < -1)
    assert found["first_exceeded_ns"] == times[first]
    records = sorted(round(t) for t, _, _ in trace.records)
    assert records[int(found["first_exceeded_record"]) - 1] == times[first]


@pytest.mark.parametrize(("kept", "found"), [(72, []), (64, []), (60, ["truncated_header"])])
def test_sack_blocks_that_the_snap_length_cut_make_windows_unreliable(
    kept: int, found: list[str], tmp_path: Path
) -> None:
    trace = conversation()
    blocks = (
        b"\x01\x01\x08\x0a"
        + bytes(8)
        + b"\x01\x01"
        + sack((1 + 101 * MSS, 1 + 102 * MSS))
        + b"\x1e\x08\x20\x01"
        + bytes(4)
    )
    trace.packet(17.5, False, 1001, 1 + 100 * MSS, options=blocks)
    *others, (time, data, wire) = trace.records
    trace.records = [*others, (time, data[:kept], wire)]
    (subflow,) = result(trace.bytes(), tmp_path).connections[0].subflows
    assert [q for q in subflow.quality if q != "not_closed"] == found
    assert ("windows" in subflow.unreliable) == bool(found)


def test_connections_are_counted_beside_the_verdict_of_the_capture(tmp_path: Path) -> None:
    """tcpdump's capture of IP over InfiniBand is good, and each of its connections is poor."""
    good, limited, poor = (
        conversation(client="10.0.0.1"),
        conversation(client="10.0.0.2", handshake=False),
        conversation(client="10.0.0.3", handshake=False, answered=False),
    )
    found = result(Trace([*good.records, *limited.records, *poor.records]).bytes(), tmp_path)
    sizes = {c.verdict: c.bytes for c in found.connections}
    assert [c.verdict for c in found.connections] == ["good", "limited", "poor"]
    assert all(sizes.values())
    assert found.summary.connection_quality == {v: {"connections": 1, "bytes": sizes[v]} for v in quality.VERDICTS}
    none = {v: {"connections": 0, "bytes": 0} for v in quality.VERDICTS}
    alone = result(poor.bytes(), tmp_path)
    assert alone.summary.connection_quality == none | {"poor": {"connections": 1, "bytes": sizes["poor"]}}


def test_a_capture_without_packets_is_poor(tmp_path: Path) -> None:
    found = result(Trace().bytes(), tmp_path)
    assert (found.summary.packets, found.summary.quality.verdict) == (0, "poor")
    (finding,) = found.summary.quality.findings
    assert (finding.what, finding.since_s, finding.packet) == ("no_packets", None, None)
    assert {c["connections"] for c in found.summary.connection_quality.values()} == {0}


def test_json_has_counts_and_shares_of_connections(tmp_path: Path) -> None:
    trace = Trace([*conversation().records, *conversation(client="10.0.0.2", handshake=False).records])
    for path, shares in (
        (trace.write(tmp_path / "some.pcap"), [0.5, 0.5, 0]),
        (Trace().write(tmp_path / "no.pcap"), [None] * 3),
    ):
        said = subprocess.run([REWINDOW, "analyze", path, "--json"], capture_output=True, text=True, check=True).stdout
        found = json.loads(said)["capture"]["connection_quality"]
        assert [found[v]["byte_share"] for v in quality.VERDICTS] == shares


def test_text_has_counts_and_shares_of_connections(tmp_path: Path) -> None:
    trace = Trace([*conversation().records, *conversation(client="10.0.0.2", handshake=False).records])
    path = trace.write(tmp_path / "capture.pcap")
    shown = [
        subprocess.run([REWINDOW, "analyze", p], capture_output=True, text=True, check=True).stdout.splitlines()[2:5]
        for p in (path, Trace().write(tmp_path / "empty.pcap"))
    ]
    assert shown[0][0].startswith("quality: ")
    assert "connections: 1 good (50.0% of bytes), 1 limited (50.0% of bytes)" in shown[0][1:]
    assert shown[1][:2] == ["quality: poor", "  no_packets x 1: the capture has no packets"]


@pytest.mark.parametrize(
    ("newreno", "cubic", "name"),
    [
        ((330, 332), (380, 398), "cubic"),  # most of it was slow start, where both have one window
        ((380, 384), (384, 400), "cubic"),  # CUBIC's is within a segment all the time
        ((392, 392), (392, 392), "unknown"),  # nothing but slow start
        ((390, 392), (398, 398), "unknown"),  # eight ACKs are chance
        ((240, 250), (300, 310), "unknown"),  # something else than either window was the limit
        ((380, 380), (100, 150), "newreno"),
    ],
)
def test_a_sender_is_told_where_windows_differ(newreno: tuple[int, int], cubic: tuple[int, int], name: str) -> None:
    """400 full windows; how often each candidate's was the flight, and within a segment of it."""
    rows = {
        candidate: {
            "full_rows": 400, "matched": matched, "near": near, "exceeded": 0,
            "first_exceeded_ns": 0, "first_exceeded_record": 0,
        }
        for candidate, (matched, near) in (("newreno", newreno), ("cubic", cubic))
    }  # fmt: skip
    assert judged([rows], False)[0].name == name
