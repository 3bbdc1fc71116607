"""Findings about a capture: their kinds, since when each holds, and the results that it makes unreliable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

GOOD, LIMITED, POOR = "good", "limited", "poor"
VERDICTS = (GOOD, LIMITED, POOR)
"""From the best to the worst."""

WINDOWS = ("windows", "in_flight", "sender_algorithm")
TIMES = ("rtt", "windows", "sender_algorithm")
LOSSES = ("retransmissions", "windows")


@dataclass(frozen=True)
class Kind:
    """verdict: of a capture or subflow with this finding. unreliable: the results that it makes unreliable."""

    verdict: str
    unreliable: tuple[str, ...]
    meaning: str


KINDS: Mapping[str, Kind] = {
    # of the whole capture
    "no_packets": Kind(POOR, (), "the capture has no packets"),
    "cut_capture": Kind(LIMITED, ("completion",), "the file ends inside a record; everything before it was analysed"),
    "second_header": Kind(GOOD, (), "the file holds several captures, one after the other; all were read"),
    "corrupt_record": Kind(POOR, ("completion",), "an impossible record; nothing after it can be read"),
    "bad_block": Kind(LIMITED, (), "a block contradicts its own length; it was skipped, or read as far as it goes"),
    "bad_timestamp": Kind(LIMITED, TIMES, "an impossible time; the time of the record before was used"),
    "backward_timestamp": Kind(LIMITED, TIMES, "records are not in the order of their times"),
    "late_record": Kind(GOOD, (), "records stood behind later records of another interface; they were sorted"),
    "no_timestamp": Kind(POOR, (*TIMES, "goodput", "completion"), "packets have no time of their own"),
    "unknown_interface": Kind(LIMITED, LOSSES, "packets of an interface without a description were skipped"),
    "too_many_interfaces": Kind(LIMITED, LOSSES, "packets of further interfaces were skipped"),
    "unknown_link_type": Kind(LIMITED, (), "packets of an unknown link type were skipped"),
    "compressed_ppp": Kind(LIMITED, LOSSES, "PPP packets with compressed headers, or several in a frame, were skipped"),
    "dropped_packets": Kind(LIMITED, (*LOSSES, "in_flight"), "the capturing system says that it missed packets"),
    "truncated_header": Kind(LIMITED, (*LOSSES, "grouping"), "the snap length cut headers; options are missing"),
    "bad_length": Kind(LIMITED, LOSSES, "packets whose lengths contradict each other were skipped"),
    "bad_option_length": Kind(LIMITED, ("windows",), "options that contradict their length were skipped"),
    "ip_fragment": Kind(GOOD, (), "segments in IP fragments were reassembled"),
    "lost_fragment": Kind(LIMITED, LOSSES, "segments with missing fragments were skipped"),
    # of flows
    "captured_twice": Kind(GOOD, (), "frames that were captured more than once are counted once"),
    "unseen_data": Kind(LIMITED, (*LOSSES, "in_flight"), "data was acknowledged that is not in the capture"),
    "unmatched_join": Kind(LIMITED, ("grouping",), "a subflow joined a connection that is not in the capture"),
    "no_handshake": Kind(
        LIMITED, (*WINDOWS, "grouping"), "the flow began before the capture; its window at that time is unknown"
    ),
    "too_many_flows": Kind(
        LIMITED, ("grouping",), "there are more flows than the limit; packets of further ones were skipped"
    ),
    "too_many_subflows": Kind(
        LIMITED, ("windows",), "more subflows were alive at once than a controller has places for"
    ),
    "window_too_large": Kind(
        POOR,
        (*LOSSES, "in_flight"),
        "more unacknowledged segments than the limit, or cut so small that following them exceeds the work allowed",
    ),
    "one_direction": Kind(POOR, (*TIMES, "retransmissions", "in_flight"), "only one direction was captured"),
    "not_closed": Kind(GOOD, ("completion",), "the flow goes on after the capture's end"),
    "vantage_receiver": Kind(GOOD, (), "captured at the receiver"),
    "vantage_middle": Kind(GOOD, (), "captured between sender and receiver"),
    "vantage_unknown": Kind(
        LIMITED, (*TIMES, "in_flight"), "the capture point is unknown; it was treated as the sender"
    ),
    "send_times_estimated": Kind(GOOD, (), "send times come from TCP timestamps, to a millisecond"),
    "send_times_coarse": Kind(
        LIMITED,
        WINDOWS,
        "send times are known to a millisecond, and round trips or the gaps between packets are hardly longer",
    ),
    "send_times_shifted": Kind(
        LIMITED, TIMES, "send times are one constant round trip before the capture; queues on the way do not show"
    ),
    "send_times_unknown": Kind(
        POOR, (*TIMES, "in_flight"), "captured away from the sender, and nothing tells of the sender's clock"
    ),
    "queued_at_sender": Kind(GOOD, (), "a queue on the sender's host held data before it was captured"),
    "window_exceeded": Kind(
        LIMITED,
        ("windows",),
        "more was in flight than the window of the algorithm that the sender seems to run, so it ran another window",
    ),
    "window_unmatched": Kind(
        LIMITED,
        ("windows",),
        "the window of the algorithm that the sender seems to run mostly differs from what was in flight",
    ),
    "not_replayed": Kind(LIMITED, ("windows",), "no controller was replayed on it"),
}

_RARE = 1 / 1000
"""A finding in fewer of the packets does not change the verdict."""
POOR_UNSEEN = 1 / 20
"""A subflow of whose bytes more than this share is missing in the capture is poor."""


@dataclass
class Finding:
    """One finding about a capture.

    since_s: seconds after the capture's start; packet: its number in the file, from 1 on. Both are None where unknown.
    file: the index, from 0 on, of the capture that has the packet.
    """

    what: str
    count: int
    since_s: float | None
    packet: int | None
    unreliable: tuple[str, ...]
    meaning: str
    file: int = 0


@dataclass
class Quality:
    verdict: str = GOOD
    findings: list[Finding] = field(default_factory=list)


ConnectionQuality = dict[str, dict[str, int]]
"""For each verdict, from the best to the worst: how many `connections` have it, and how many `bytes` these sent."""


def no_connections() -> ConnectionQuality:
    return {verdict: {"connections": 0, "bytes": 0} for verdict in VERDICTS}


def worst(verdicts: Sequence[str]) -> str:
    return VERDICTS[max((VERDICTS.index(v) for v in verdicts), default=0)]


OF_FLOWS = frozenset({"no_handshake", "unmatched_join", "too_many_subflows", "window_too_large"})
"""Findings that a flow has about once: the number of flows decides whether they are rare."""

OF_ALL_CONNECTIONS = (
    "bad_timestamp", "backward_timestamp", "no_timestamp", "unknown_interface", "too_many_interfaces",
    "compressed_ppp", "dropped_packets", "bad_length", "lost_fragment",
)  # fmt: skip
"""Findings about the capture that concern each connection which lasts longer: nothing tells whose packets are missing,
or have a wrong time."""


def of_capture(oddities: Mapping[str, Mapping[str, Any]], packets: int, flows: int, first_ns: int) -> Quality:
    """oddities: count, first_record, first_ns and file of each.

    Findings of flows count here too, as often as they occur. The verdict is about the capture: all its connections may
    have a worse one (ConnectionQuality).
    """
    findings, verdicts = [], []
    if not packets:
        kind = KINDS["no_packets"]
        findings.append(Finding("no_packets", 1, None, None, kind.unreliable, kind.meaning))
        verdicts.append(kind.verdict)
    for what, seen in oddities.items():
        kind = KINDS[what]
        since_s = (seen["first_ns"] - first_ns) / 1e9 if seen["first_ns"] else None
        packet = seen["first_record"] or None
        findings.append(Finding(what, seen["count"], since_s, packet, kind.unreliable, kind.meaning, seen["file"]))
        verdicts.append(GOOD if _is_rare(what, seen["count"], packets, flows) else kind.verdict)
    return Quality(worst(verdicts), findings)


def _is_rare(what: str, count: int, packets: int, flows: int) -> bool:
    """Whether it is too rare for a verdict."""
    rare = count < (flows if what in OF_FLOWS else packets) * _RARE
    return rare and what not in ("cut_capture", "corrupt_record")


def of_all_connections(oddities: Mapping[str, Mapping[str, Any]], packets: int) -> dict[str, int]:
    """Findings that each connection has, too: since when, nanoseconds since 1970. Without those that are rare.

    oddities: as of_capture takes them.
    """
    found = {what: seen for what, seen in oddities.items() if what in OF_ALL_CONNECTIONS}
    return {
        # The capturing system says only at the end how many packets it missed.
        what: 0 if what == "dropped_packets" else seen["first_ns"]
        for what, seen in found.items()
        if not _is_rare(what, seen["count"], packets, 0)
    }


def of_subflow(whats: Sequence[str], much_unseen: bool) -> str:
    """The verdict on a subflow with these findings. much_unseen: more than POOR_UNSEEN of its bytes are missing."""
    return worst([KINDS[w].verdict for w in whats] + [POOR] * much_unseen)


def unreliable(whats: Sequence[str]) -> list[str]:
    """The results that these findings make unreliable, by name."""
    return sorted({name for w in whats for name in KINDS[w].unreliable})
