"""Why a number of ours is not tshark's: each reason is found by a rule in this package. docs/corpus.md says more."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

REASONS = {
    "no packet": "a pcapng block that is no packet, or a second file header; tshark numbers it as a frame",
    "read on": "records after a pcapng block that contradicts itself, or a second file header: tshark ends there",
    "ICMP error": "a TCP header quoted in an ICMP error: nobody sent that packet here",
    "broken header": "a TCP header that is cut, or whose length or payload cannot be: for us an oddity",
    "aggregate": "several frames in one (802.11 A-MSDU): each of their TCP packets counts",
    "cut aggregate": "an aggregate of frames that the snap length cut: what of it is missing, at most two headers each",
    "passed over": "PPP with compressed headers, or several packets in a frame: the core passes it over",
    "undecoded": "frames behind whose link or tunnel tshark, not told what it is, shows bytes: no more than there are",
    "cut tunnel": "a tunnel's packet whose second fragment is missing: the first has the inner headers",
    "captured twice": "a frame that passed the capture before (same IPv4 number or timestamps), where that is the rule",
    "port reuse": "a SYN or SYN/ACK with another number opens the four-tuple anew; tshark goes on with the stream",
    "join by token": "the token of a join names the connection, whichever packet came first; tshark begins another",
    "token again": "connections with the same keys, one after the other: tshark takes them for one",
    "cut option": "an MPTCP option that the snap length cut: tshark reads of it what is there, the core nothing",
    "offered only": "MP_CAPABLE was offered and not agreed, or fell back (RFC 8684 3.7): this is TCP",
    "no number": "an MPTCP connection on a link for which tshark numbers none",
    "no subtype": "an MPTCP option that is malformed or of a reserved subtype makes no connection",
    "other side": "sent again by the side that sends less data: we count a connection's data sender",
    "segments": "one captured packet of several segments (offload): each that was sent again counts",
    "sent twice": "bytes that the capture has twice; for tshark out of order, a probe, or nothing",
    "hole filled": "missing bytes, a round trip later or with a newer IPv4 number: lost before the capture point",
    "overtaken": "missing bytes that came within 3 ms, or a round trip and with an older IPv4 number: reordered",
    "lost twice": "an IPv4 number is missing while something is lost: a retransmission that the capture lacks",
    "after the end": "after a RST, or after the FIN was acknowledged: no more of the flow is counted",
    "probe": "a byte to a closed window, or a keep-alive: a question, no data",
    "other attempt": "an ACK from before the connection, with another's number, which tshark takes for data sent",
    "both open": "a SYN with ACK after one without, as both sides opened at once: neither was sent again",
    "before the capture": "below the first number that the capture shows: it was sent before",
    "shortened record": "a record that says less than its IP header: the length is IP's",
    "delayed ACK": "an ACK for several segments: the sender's clock runs from the oldest, tshark's from the newest",
    "retransmitted": "what was sent twice gives no sample (Karn); for tshark it does",
    "handshake": "a handshake is a sample of the sender at which it ends, when nothing of it was repeated",
    "SACK": "what a SACK block delivers is a sample",
    "echo": "beside the receiver, a timestamp's way to its echo; ACKs come at once there and show nothing",
    "partial ACK": "an ACK whose number is not the end of a captured packet: tshark has no sample",
    "nothing new": "the answer to a keep-alive, or an ACK that says nothing new: tshark has a sample",
    "unseen data": "an ACK for data that the capture lacks, or has from elsewhere",
    "outside": "an ACK before the flow is established, or of its handshake, or after its end",
    "as sent": "away from the sender a packet counts when it was sent, not when it was captured",
    "not followed": "more outstanding than a connection can have: the core says so and forgets what was sent",
    "put in order": "records of several interfaces are read in the order of their times, by tshark as they stand",
    "clock": "the capture's time goes back or is none; a subflow's clock never does",
}


@dataclass
class Difference:
    """One number that is not tshark's. reasons: how much of it each explains. unexplained: what no rule explains."""

    what: str
    ours: str
    tshark: str
    reasons: Counter[str] = field(default_factory=Counter)
    unexplained: str = ""


@dataclass
class Comparison:
    """numbers: ours and tshark's, by what they count. oddities: ours and what corresponds to them; None: nothing."""

    numbers: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    oddities: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    def add(self, what: str, ours: int, tshark: int, expected: int, reasons: Counter[str], detail: str = "") -> None:
        """expected: ours by the rules. reasons: lead from tshark's number to that. detail: what no rule explains."""
        self.numbers[what] = (ours, tshark)
        if not detail and not ours == expected == tshark + sum(reasons.values()):
            detail = f"{what}: {ours}, by the rules {expected}, tshark {tshark}"
        if ours != tshark or detail:
            kept = Counter({name: amount for name, amount in reasons.items() if amount})
            self.differences.append(Difference(what, str(ours), str(tshark), kept, detail))
