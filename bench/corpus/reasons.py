"""Reasons why a number of rewindow differs from tshark's, each found by a rule of this package (docs/corpus.md)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

REASONS = {
    "no packet": "a pcapng block that is no packet, or a second file header: tshark counts it as a frame",
    "read on": "records after a pcapng block that contradicts itself, or after a second file header: tshark ends there",
    "ICMP error": "a TCP header quoted in an ICMP error: nobody sent that packet here",
    "broken header": "a TCP header that is cut, or whose length or payload is impossible: an oddity for rewindow",
    "aggregate": "a frame that contains several frames (802.11 A-MSDU): each of their TCP packets counts",
    "cut aggregate": "an aggregate of frames that the snap length cut: at most two headers are missing for each",
    "passed over": "PPP with compressed headers, or several packets in a frame: the core skips it",
    "undecoded": "frames whose link or tunnel tshark shows as bytes, for lack of the session's beginning",
    "cut tunnel": "a tunnel's packet whose second fragment is missing: the first has the inner headers",
    "captured twice": "a copy of a captured frame (same IPv4 number or timestamps), in a flow with many copies",
    "port reuse": "a SYN or SYN/ACK with another number opens the four-tuple anew; tshark continues the stream",
    "join by token": "the token of a join names the connection, whichever packet came first; tshark begins another",
    "token again": "connections with the same keys, one after the other: tshark takes them for one",
    "cut option": "an MPTCP option that the snap length cut: tshark reads the fields before the cut, the core none",
    "offered only": "MP_CAPABLE was offered and not accepted, or fell back (RFC 8684 3.7): this is TCP",
    "no number": "an MPTCP connection on a link type for which tshark has no mptcp.stream",
    "no subtype": "an MPTCP option that is malformed or of a reserved subtype makes no connection",
    "other side": "a retransmission by the side that sends less data: rewindow counts the connection's data sender",
    "segments": "one captured packet of several segments (offload): each segment that was sent again counts",
    "sent twice": "bytes that the capture has twice; for tshark out of order, a probe, or nothing",
    "hole filled": "missing bytes, a round trip later or with a newer IPv4 number: lost before the capture point",
    "overtaken": "missing bytes that came within 3 ms, or a round trip and with an older IPv4 number: reordered",
    "lost twice": "an IPv4 number is missing during a loss: a retransmission that the capture lacks",
    "after the end": "a packet after a RST, or after the FIN was acknowledged, is not counted",
    "probe": "a byte to a closed window, or a keep-alive, is no data",
    "other attempt": "a stray ACK of another connection's number, which tshark takes for data that was sent",
    "both open": "a SYN with ACK after a SYN without, as both sides opened at once: neither was sent again",
    "before the capture": "data below the first number of the capture was sent before it",
    "shortened record": "a record that is shorter than its IP header says: the length is IP's",
    "delayed ACK": "an ACK for several segments: the sender's sample runs from the oldest, tshark's from the newest",
    "retransmitted": "data that was sent twice gives no sample (Karn); for tshark it does",
    "handshake": "a handshake is a sample of the sender at which it ends, if no packet of it was repeated",
    "SACK": "the segment that a SACK block acknowledges is a sample",
    "echo": "next to the receiver, the time from sending a timestamp to its echo is the round trip",
    "partial ACK": "an ACK whose number is not the end of a captured packet: tshark has no sample",
    "nothing new": "the answer to a keep-alive, or an ACK without news: a sample for tshark only",
    "unseen data": "an ACK for data that the capture lacks, or that another flow sent",
    "outside": "an ACK before the flow is established, or of its handshake, or after its end",
    "as sent": "away from the sender a packet counts when it was sent, not when it was captured",
    "not followed": "more data was outstanding than a connection can have: the core forgets the data that was sent",
    "put in order": "rewindow reads records of several interfaces in the order of their times, tshark in the file's",
    "clock": "the capture's time goes back or is missing; a subflow's clock does not go back",
}


@dataclass
class Difference:
    """One number that differs from tshark's. reasons: the part that each explains. unexplained: the rest."""

    what: str
    ours: str
    tshark: str
    reasons: Counter[str] = field(default_factory=Counter)
    unexplained: str = ""


@dataclass
class Comparison:
    """numbers: rewindow's and tshark's, by name. oddities: rewindow's count, and tshark's or None."""

    numbers: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    oddities: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    def add(self, what: str, ours: int, tshark: int, expected: int, reasons: Counter[str], detail: str = "") -> None:
        """expected: the number by the rules. reasons: the differences from tshark's number to it. detail: a packet that
        no rule explains."""
        self.numbers[what] = (ours, tshark)
        if not detail and not ours == expected == tshark + sum(reasons.values()):
            detail = f"{what}: {ours}, by the rules {expected}, tshark {tshark}"
        if ours != tshark or detail:
            kept = Counter({name: amount for name, amount in reasons.items() if amount})
            self.differences.append(Difference(what, str(ours), str(tshark), kept, detail))
