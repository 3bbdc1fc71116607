"""The fields of connections and subflows, as reports, the service and Python programs get them."""

from __future__ import annotations

from dataclasses import dataclass, field

from rewindow.findings.senders import SenderAlgorithm


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
    file: int
    """The capture that has the first packet, from 0 on, where several captures are one observation."""
    interface: str
    """`file`, a dot, and the number of the interface within that capture: 0.1."""
    vantage: str
    send_times: str
    ecn: str
    paced: bool
    backup: bool
    replayed: bool
    quality: list[str]
    """The findings about this subflow: keys of rewindow.findings.quality.KINDS."""
    verdict: str
    unreliable: list[str]
    """The results that these findings make unreliable."""
    first_unseen_ns: int | None
    """The time from which on acknowledged data is missing in the capture."""
    sender_algorithm: SenderAlgorithm
    bottleneck: int | None
    """Flows of the capture with the same number share a bottleneck; None: see bottleneck_state."""
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

    def _repr_html_(self) -> str:
        from rewindow.findings.html import connections_html

        return connections_html(f"{self.kind}, {self.bytes} bytes", [self])
