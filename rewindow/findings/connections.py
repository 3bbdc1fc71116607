"""Connections and their subflows, as the core's tables describe them."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rewindow.core import ffi, lib, name_of
from rewindow.findings.quality import of_subflow, unreliable, worst


@dataclass
class SenderAlgorithm:
    """What the sender most likely ran: the single-path algorithm whose window the flight equalled most often.

    match: how often, of the ACKs before which the window was full; None when too few of them were seen.
    exceeded: at how many of these the flight was larger than that window by more than a segment, which no sender's is.
    first_exceeded_ns, first_exceeded_packet: when first, and with which record of the capture, from 1 on; the record is
    not known where packets do not come as the records of one file stand.
    """

    name: str
    match: float | None
    exceeded: float | None = None
    first_exceeded_ns: int | None = None
    first_exceeded_packet: int | None = None


@dataclass
class Subflow:
    """One subflow; src sent more data. Times in nanoseconds since 1970, None where nothing was seen."""

    id: int
    src: str
    sport: int
    dst: str
    dport: int
    bytes: int
    packets: int
    retransmitted_packets: int
    retransmitted_bytes: int
    spurious_retransmissions: int
    rtt_min_us: int | None
    rtt_median_us: int | None
    rtt_p95_us: int | None
    goodput_bps: float | None
    duration_s: float
    ece_acks: int
    ce_packets: int
    first_ns: int
    last_ns: int
    reverse_bytes: int
    reverse_packets: int
    acks: int
    fast_retransmits: int
    timeouts: int
    unseen_bytes: int
    mss_bytes: int
    handshake_rtt_us: int | None
    interface: str
    vantage: str
    send_times: str
    ecn: str
    paced: bool
    backup: bool
    replayed: bool
    quality: list[str]
    """What is wrong with it: keys of rewindow.quality.KINDS."""
    verdict: str
    unreliable: list[str]
    """Results that rest on what is wrong."""
    first_unseen_ns: int | None
    """Since when acknowledged data is missing in the capture."""
    sender_algorithm: SenderAlgorithm
    bottleneck: int | None
    """Flows of the capture with the same number share one; None: see bottleneck_state."""
    bottleneck_state: str
    """not_asked, not_judged (too little data, or too many flows have more), undecided, alone or shared."""


@dataclass
class Connection:
    id: int
    kind: str  # tcp or mptcp
    version: int | None
    token: str | None
    bytes: int
    goodput_bps: float | None
    completion_s: float | None
    first_ns: int
    last_ns: int
    retransmitted_packets: int
    fallback: bool
    checksum: bool
    fast_closed: bool
    quality: list[str]
    verdict: str
    unreliable: list[str]
    subflows: list[Subflow] = field(default_factory=list)


_EXCEEDED_MOST = 0.05
"""Of the full windows: some are exceeded where what a recovery leaves in flight is not known exactly."""
_MATCH_LEAST = 0.55
_WHOLE_WINDOWS = ("newreno",)
"""Senders whose windows are known exactly; CUBIC's are within a segment."""
_COARSE_BELOW_US = 10_000
"""Below it a millisecond is more than a tenth of a round trip."""
_COARSE_SPACING_NS = 2_000_000
"""Packets closer than that on average: in many a millisecond nobody knows which of them an ACK came before."""


def _address(raw: Any, family: int) -> str:
    data = bytes(ffi.buffer(raw, 4 if family == 4 else 16))
    return str(ipaddress.ip_address(data))


def _rate(n_bytes: int, start_ns: int, end_ns: int) -> float | None:
    return n_bytes * 8e9 / (end_ns - start_ns) if end_ns > start_ns and n_bytes else None


def _whats(row: Any, vantage: str, send_times: str, sender: SenderAlgorithm) -> list[str]:
    quality = []
    if not row.handshake:
        quality.append("no_handshake")
    if row.one_direction:
        quality.append("one_direction")
    if row.cut:
        quality.append("truncated_header")
    if row.copied:
        quality.append("captured_twice")
    if row.window_too_large:
        quality.append("window_too_large")
    if row.unseen_bytes:
        quality.append("unseen_data")
    if not row.closed:
        quality.append("not_closed")
    if vantage != "sender":
        quality.append(f"vantage_{vantage}")
    if vantage == "sender" and send_times == "timestamps":
        quality.append("queued_at_sender")
    if send_times == "timestamps":
        close = row.last_ns - row.first_ns < row.packets * _COARSE_SPACING_NS
        coarse = row.rtt_samples == 0 or row.rtt_min_us < _COARSE_BELOW_US or close
        quality.append("send_times_coarse" if coarse else "send_times_estimated")
    elif send_times == "round_trip":
        quality.append("send_times_shifted")
    elif vantage in ("middle", "receiver"):
        quality.append("send_times_unknown")
    if not row.replayed:
        quality.append("not_replayed")
    if sender.name != "unknown" and sender.exceeded and sender.exceeded > _EXCEEDED_MOST:
        quality.append("window_exceeded")
    if sender.name in _WHOLE_WINDOWS and sender.match is not None and sender.match < _MATCH_LEAST:
        quality.append("window_unmatched")
    return quality


def _subflow(row: Any, sender_algorithm: SenderAlgorithm, origins: Sequence[int]) -> Subflow:
    vantage = name_of(lib.rw_vantage_name, row.vantage) or "unknown"
    send_times = name_of(lib.rw_send_times_name, row.send_times) or ""
    whats = _whats(row, vantage, send_times, sender_algorithm)
    samples = row.rtt_samples > 0
    return Subflow(
        id=row.id,
        src=_address(row.src, row.family),
        sport=row.sport,
        dst=_address(row.dst, row.family),
        dport=row.dport,
        bytes=row.bytes,
        packets=row.packets,
        retransmitted_packets=row.retransmitted_packets,
        retransmitted_bytes=row.retransmitted_bytes,
        spurious_retransmissions=row.spurious_retransmissions,
        rtt_min_us=row.rtt_min_us if samples else None,
        rtt_median_us=row.rtt_median_us if samples else None,
        rtt_p95_us=row.rtt_p95_us if samples else None,
        goodput_bps=_rate(row.bytes, row.first_ns, row.last_ack_ns),
        duration_s=(row.last_ns - row.first_ns) / 1e9,
        ece_acks=row.ece_acks,
        ce_packets=row.ce_packets,
        first_ns=row.first_ns,
        last_ns=row.last_ns,
        reverse_bytes=row.reverse_bytes,
        reverse_packets=row.reverse_packets,
        acks=row.acks,
        fast_retransmits=row.fast_retransmits,
        timeouts=row.timeouts,
        unseen_bytes=row.unseen_bytes,
        mss_bytes=row.mss_bytes,
        handshake_rtt_us=row.handshake_rtt_us or None,
        interface=f"{origins[row.file]}.{row.interface}",
        vantage=vantage,
        send_times=send_times,
        ecn=name_of(lib.rw_ecn_mode_name, row.ecn) or "unknown",
        paced=bool(row.paced),
        backup=bool(row.backup),
        replayed=bool(row.replayed),
        quality=whats,
        verdict=of_subflow(whats, row.unseen_bytes, row.bytes),
        unreliable=unreliable(whats),
        first_unseen_ns=row.first_unseen_ns or None,
        sender_algorithm=sender_algorithm,
        bottleneck=row.bottleneck or None,
        bottleneck_state=name_of(lib.rw_bottleneck_state_name, row.bottleneck_state) or "not_asked",
    )


def connection_of(
    row: Any,
    subflow_row: Callable[[int], Any],
    sender_algorithm: Callable[[int], SenderAlgorithm],
    origins: Sequence[int],
) -> Connection:
    places = range(row.first_subflow, row.first_subflow + row.subflows)
    subflows = [_subflow(subflow_row(i), sender_algorithm(i), origins) for i in places]
    return Connection(
        id=row.id,
        kind="mptcp" if row.mptcp else "tcp",
        version=row.version if row.version >= 0 else None,
        token=f"0x{row.token:08x}" if row.has_token else None,
        bytes=row.data_bytes,
        goodput_bps=_rate(row.data_bytes, row.first_ns, row.last_ack_ns),
        completion_s=(row.last_ack_ns - row.first_ns) / 1e9 if row.last_ack_ns else None,
        first_ns=row.first_ns,
        last_ns=row.last_ns,
        retransmitted_packets=sum(s.retransmitted_packets for s in subflows),
        fallback=bool(row.fallback),
        checksum=bool(row.checksum),
        fast_closed=bool(row.fast_closed),
        quality=sorted({q for s in subflows for q in s.quality}),
        verdict=worst([s.verdict for s in subflows]),
        unreliable=sorted({u for s in subflows for u in s.unreliable}),
        subflows=subflows,
    )
