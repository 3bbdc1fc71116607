"""Bytes and retransmissions of the data senders: packets that the rules and tshark count differently, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from bench.corpus.reasons import Comparison
from bench.corpus.sender import Sender
from bench.corpus.sequence import Spans, difference, near
from bench.corpus.tshark import SYN, Packet

Read = tuple[Sender, dict[str, Any]]
"""A flow read by the rules, and the core's row of it."""

_FLAGGED = "retransmission"
_OF_VERDICT = {
    "after_end": "after the end", "reordered": "overtaken", "probe": "probe", "keep_alive": "probe",
    "again": "sent twice", "before_start": "before the capture", "opened": "both open",
}  # fmt: skip


def _union(packets: Iterable[Packet]) -> int:
    """Bytes of payload as tshark shows them, each once."""
    spans, total, latest = Spans(), 0, None
    for packet in packets:
        if packet.shown_bytes:
            start = packet.sequence + bool(packet.flags & SYN)
            latest = start if latest is None else near(start, latest)
            total += spans.add(latest, latest + packet.shown_bytes)
    return total


def _bytes_reason(sender: Sender, mine: Sequence[Packet], rest: int) -> str:
    verdicts = {sender.verdicts.get(p.number, "") for p in mine if p.shown_bytes}
    if any(p.shown_bytes != p.payload_bytes for p in mine):
        return "shortened record"
    if rest < 0:
        for verdict in ("after_end", "before_start", "probe"):
            if verdict in verdicts:
                return _OF_VERDICT[verdict]
    return ""


def compare_bytes(found: Comparison, senders: Sequence[Read]) -> None:
    reasons: Counter[str] = Counter()
    total, detail = 0, ""
    for sender, row in senders:
        mine = [p for p in sender.flow.packets if p.source == sender.source]
        shown = _union(mine)
        total += shown
        later = row["bytes"] - sender.bytes
        reasons["as sent"] += later
        if later and not -sender.late_bytes <= later < 0:
            detail = f"bytes from {row['src']}:{row['sport']}: {row['bytes']}, by the rules {sender.bytes}"
        if rest := sender.bytes - shown:
            reason = _bytes_reason(sender, mine, rest)
            reasons[reason] += rest
            if not reason:
                detail = f"bytes from {row['src']}:{row['sport']}: by the rules {sender.bytes}, in the packets {shown}"
    ours = sum(row["bytes"] for _, row in senders)
    found.add("bytes", ours, total, ours, reasons, detail)


def _reason(sender: Sender, packet: Packet) -> str:
    """Why the rules count a packet differently from tshark; empty when no rule explains it."""
    flagged, verdict = _FLAGGED in packet.analysis, sender.verdicts.get(packet.number, "")
    if flagged and packet.source != sender.source:
        return "other side"
    if flagged and sender.units[packet.number]:
        return "segments"
    if flagged and sender.flow.goes_on and not sender.units[packet.number]:
        return "port reuse"
    if flagged and verdict in ("new", "no_data"):
        end = packet.sequence + packet.payload_bytes
        return "other attempt" if any(difference(number, end) >= 0 for number in sender.stray) else ""
    if flagged:
        return _OF_VERDICT.get(verdict, "")
    if verdict == "filled":
        return "hole filled" if sender.is_later(packet) else ""
    if verdict == "again" and packet.number not in sender.captured_before:
        return ""
    return _OF_VERDICT.get(verdict, "")


def compare_retransmissions(found: Comparison, senders: Sequence[Read]) -> None:
    reasons: Counter[str] = Counter()
    theirs, detail = 0, ""
    for sender, row in senders:
        moved = sender.flow.is_put_in_order
        for packet in sender.flow.packets:
            amount = sender.units[packet.number] - (_FLAGGED in packet.analysis)
            if amount:
                reason = _reason(sender, packet) or ("clock" if packet.number in sender.backward else "")
                reason = reason or ("put in order" if moved else "")
                reasons[reason] += amount
                if not reason:
                    verdict = sender.verdicts.get(packet.number)
                    detail = f"packet {packet.number}: {verdict}, sent again {amount:+d} more than for tshark"
        copies = sum(_FLAGGED in p.analysis for p in sender.flow.copies)
        reasons["captured twice"] -= copies
        theirs += copies + sum(_FLAGGED in p.analysis for p in sender.flow.packets)
        rest = row["retransmitted_packets"] - sender.retransmitted
        less, more = sender.doubtful
        reasons["lost twice" if 0 <= rest <= sender.numbers_missing else "as sent"] += rest
        if not -less <= rest <= more + sender.numbers_missing:
            ours, rules = row["retransmitted_packets"], sender.retransmitted
            detail = f"retransmissions from {row['src']}:{row['sport']}: {ours}, by the rules {rules}"
    ours = sum(row["retransmitted_packets"] for _, row in senders)
    found.add("retransmissions", ours, theirs, ours, reasons, detail)
