"""A network with its traffic, as a simulator or real hosts run it: everything resolved, in base units, immutable.

Times are nanoseconds, sizes bytes, rates bits per second, shares numbers from 0 to 1. A duplex link is two
`Direction`s, each with a queue of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Literal


@dataclass(frozen=True)
class Interface:
    """Of a host; names of interfaces are the host's own."""

    host: str
    name: str
    address: IPv4Address | IPv6Address
    mtu_bytes: int

    def __str__(self) -> str:
        return f"{self.host}.{self.name}"


@dataclass(frozen=True)
class Host:
    """send_buffer_bytes, receive_buffer_bytes: what the host's own tuning of buffers may reach; None: its default.

    offload: TCP hands segments of up to 64 KB to the interface, which is where a capture sees them.
    """

    name: str
    interfaces: tuple[Interface, ...]
    sack: bool
    timestamps: bool
    ecn: bool
    offload: bool
    send_buffer_bytes: int | None
    receive_buffer_bytes: int | None


@dataclass(frozen=True)
class DropTail:
    """Nothing happens to a packet that finds room."""


@dataclass(frozen=True)
class EcnThreshold:
    """A packet that finds so many in the queue is marked, where its sender understands ECN."""

    packets: int


@dataclass(frozen=True)
class Red:
    """Random early detection (Floyd, Jacobson 1993). The average's weight is 2^-weight_shift."""

    min_packets: int
    max_packets: int
    probability: float
    weight_shift: int
    gentle: bool
    ecn: bool


@dataclass(frozen=True)
class CoDel:
    """RFC 8289."""

    target_ns: int
    interval_ns: int
    ecn: bool


Discipline = DropTail | EcnThreshold | Red | CoDel


@dataclass(frozen=True)
class Bernoulli:
    """Each packet is lost with this probability."""

    share: float


@dataclass(frozen=True)
class GilbertElliott:
    """Two states with a loss of their own; the state may change at each packet. It begins in the good one."""

    good_to_bad: float
    bad_to_good: float
    good_loss: float
    bad_loss: float


@dataclass(frozen=True)
class Reordering:
    """A share of the packets arrives so much later, and others pass it."""

    share: float
    delay_ns: int


@dataclass(frozen=True)
class Change:
    """From a time on; None: as it was. loss replaces any model of loss by Bernoulli's."""

    at_ns: int
    rate_bps: int | None = None
    delay_ns: int | None = None
    loss: float | None = None
    down: bool | None = None


@dataclass(frozen=True)
class Direction:
    """One direction of a link: loss, queue, transmission at a rate, delay.

    rate_bps None: without a limit. jitter_ns: the mean of an exponential that is added to the delay; packets keep
    their order. limit_packets, limit_bytes: what may wait beside the packet in transmission; None: no limit.
    """

    link: str
    forward: bool
    rate_bps: int | None
    delay_ns: int
    jitter_ns: int
    limit_packets: int | None
    limit_bytes: int | None
    discipline: Discipline
    loss: Bernoulli | GilbertElliott
    reordering: Reordering
    changes: tuple[Change, ...]

    @property
    def name(self) -> str:
        return f"{self.link}.{'forward' if self.forward else 'backward'}"


@dataclass(frozen=True)
class Path:
    """Between two interfaces. links is the way from start to end; the way back passes the same links in reverse."""

    name: str
    start: Interface
    end: Interface
    links: tuple[Direction, ...]
    links_back: tuple[Direction, ...]

    def seen_from(self, host: str) -> Path:
        """The same path with its start at this host, which is at one of its ends."""
        return self if self.start.host == host else Path(self.name, self.end, self.start, self.links_back, self.links)


@dataclass(frozen=True)
class Transfer:
    """A connection that the sender of data opens. Its paths start at the sender, the first one's first.

    It writes `bytes`, or until `duration_ns` after its start, `write_bytes` at once with `pause_ns` after each write.
    congestion_control: a name that the sender's system knows; None: its default. Buffers are those of the socket;
    None: the host's.
    """

    name: str
    protocol: Literal["tcp", "mptcp"]
    sender: str
    receiver: str
    paths: tuple[Path, ...]
    bytes: int | None
    duration_ns: int | None
    start_ns: int
    write_bytes: int
    pause_ns: int
    congestion_control: str | None
    send_buffer_bytes: int | None
    receive_buffer_bytes: int | None
    port: int


@dataclass(frozen=True)
class Traffic:
    """Packets that enter a link at a rate, whatever happens to them, and leave the network behind it.

    on_ns, off_ns: means of exponential times in which it sends and rests; None: it sends always.
    """

    link: Direction
    rate_bps: int
    packet_bytes: int
    start_ns: int
    end_ns: int
    on_ns: int | None
    off_ns: int | None


@dataclass(frozen=True)
class CapturePoint:
    """Interfaces whose packets are written to one file, so many bytes of each."""

    name: str
    interfaces: tuple[Interface, ...]
    snap_bytes: int


@dataclass(frozen=True)
class Scenario:
    """duration_ns: transfers end their writing then, at the latest. What they wrote has grace_ns more to arrive."""

    name: str
    duration_ns: int
    grace_ns: int
    seed: int
    hosts: tuple[Host, ...]
    links: tuple[Direction, ...]
    paths: tuple[Path, ...]
    transfers: tuple[Transfer, ...]
    traffic: tuple[Traffic, ...]
    captures: tuple[CapturePoint, ...]
    files: tuple[str, ...]
    """Names of other files beside the scenario that it reads."""

    def host(self, name: str) -> Host:
        return next(h for h in self.hosts if h.name == name)

    def bottlenecks(self, path: Path) -> frozenset[str]:
        """The links of a path, from its start to its end, that have the least rate of it; none: no rate is limited."""
        rates = {link.name: link.rate_bps for link in path.links if link.rate_bps is not None}
        return frozenset(name for name, rate in rates.items() if rate == min(rates.values()))
