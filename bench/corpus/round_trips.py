"""Median round trips of the data senders: whether rewindow's follow from the rules, and which samples tshark lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bench.corpus.reasons import Comparison, Difference
from bench.corpus.repeats import Read
from bench.corpus.sender import Sample, Sender
from bench.corpus.sequence import difference
from bench.corpus.tshark import FIN, RST, SYN, Packet

TOLERANCE = 0.05
"""rewindow's quantiles come from a histogram of 32 steps in an octave."""
TOLERANCE_US = 2.0
TICK_US = 1000.0
"""Length of a tick of the clock in TCP timestamps."""

_OF_KIND = {"oldest": "partial ACK", "sack": "SACK", "handshake": "handshake", "echo": "echo"}
_OF_FATE = {"repeated": "retransmitted", "unseen": "unseen data", "old": "nothing new", "after_end": "outside"}


def _alike(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= max(TOLERANCE * max(a, b), TOLERANCE_US)


def _median(values: Sequence[float]) -> float | None:
    return sorted(values)[(len(values) - 1) // 2] if values else None


def _asked(sender: Sender, ack: Packet) -> bool:
    """Is the ACK the answer to a probe?"""
    for packet in sender.flow.packets:
        end = packet.sequence + packet.payload_bytes + bool(packet.flags & (SYN | FIN))
        if sender.verdicts.get(packet.number) in ("probe", "keep_alive") and difference(end, ack.ack) == 0:
            return True
    return False


def _reason(sender: Sender, packet: Packet, sample: Sample | None, theirs: float | None) -> str:
    """Why tshark has another sample of an ACK; empty when no rule explains it."""
    if theirs is None:
        return _OF_KIND[sample.kind] if sample else ""
    if sample is None:
        if sender.vantage == "receiver":
            return "echo"
        outside = "handshake" if packet.flags & SYN else "outside"
        return _OF_FATE.get(sender.fates.get(packet.number, ""), outside)
    if sample.us > theirs:
        return "delayed ACK"
    if sender.backward:
        return "clock"
    if sender.fates.get(packet.number) == "repeated":
        return "retransmitted"
    return "probe" if _asked(sender, packet) else ""


def _reasons(sender: Sender) -> tuple[Counter[str], str]:
    reasons: Counter[str] = Counter()
    detail = ""
    ours = {s.number: s for s in sender.samples}
    moved = sender.flow.is_put_in_order
    for packet in sender.flow.packets:
        sample = ours.get(packet.number)
        theirs = None if packet.source == sender.source else packet.ack_rtt_us
        if _alike(sample.us if sample else None, theirs):
            continue
        reason = "put in order" if moved else _reason(sender, packet, sample, theirs)
        reasons[reason] += 1
        if not reason:
            detail = f"packet {packet.number}: round trip {sample.us if sample else None} us, tshark {theirs}"
    return reasons, detail


def compare_round_trips(found: Comparison, senders: Sequence[Read], *, bad_time: bool) -> None:
    """Compares each flow's median, us; the table has that of the flow with the most bytes. bad_time: records lack
    times."""
    reasons: Counter[str] = Counter()
    differing, most, detail = 0, -1, ""
    shown: tuple[float | None, float | None] = (None, None)
    for sender, row in senders:
        rules = _median([s.us for s in sender.samples])
        acks = [p for p in sender.flow.packets if p.source != sender.source and not p.flags & RST]
        theirs = _median([p.ack_rtt_us for p in acks if p.ack_rtt_us is not None])
        ours = row["rtt_median_us"]
        if row["bytes"] > most and (ours is not None or theirs is not None):
            most, shown = row["bytes"], (ours, theirs)
        if bad_time and not _alike(ours, theirs):
            differing, reasons["clock"] = differing + 1, reasons["clock"] + 1
        elif not sender.as_captured:
            # The whole round trip is not shorter than the part behind the capture point, which tshark sees.
            differing, reasons["as sent"] = differing + 1, reasons["as sent"] + 1
            least = min((s.us for s in sender.samples), default=0)
            if sender.samples and (ours or 0) < least - TICK_US:
                detail = f"median round trip of {row['src']}:{row['sport']}: {ours} us, behind the capture {least}"
        elif not _alike(ours, rules):
            detail = f"median round trip of {row['src']}:{row['sport']}: {ours} us, by the rules {rules}"
        elif not _alike(ours, theirs):
            differing += 1
            why, unexplained = _reasons(sender)
            reasons += why
            if unexplained or not why:
                detail = unexplained or f"median round trip of {row['src']}:{row['sport']}: {ours} us, tshark {theirs}"
    found.numbers["median RTT"] = shown
    if differing or detail:
        found.differences.append(Difference("median RTT", f"{differing} of {len(senders)} flows", "", reasons, detail))
