"""A network with its traffic, as a simulator or real hosts run it: immutable, in base units, with names resolved.

Times are nanoseconds, sizes bytes, rates bits per second, shares numbers from 0 to 1. A duplex link is two
`Direction`s, each with a queue of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Literal


@dataclass(frozen=True)
class Interface:
    """An interface of a host; its name is unique on the host."""

    host: str
    name: str
    address: IPv4Address | IPv6Address
    mtu_bytes: int

    def __str__(self) -> str:
        return f"{self.host}.{self.name}"


@dataclass(frozen=True)
class Host:
    """send_buffer_bytes, receive_buffer_bytes: largest size that automatic tuning may reach; None: the host's default.

    offload: TCP hands segments of up to 64 KB to the interface, and a capture there shows these segments.
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
    """A packet that finds the queue full is dropped."""


@dataclass(frozen=True)
class EcnThreshold:
    """A packet that finds this many packets in the queue is marked, if its sender supports ECN."""

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
    """Two states with different loss shares; the state may change at each packet. The first state is the good one."""

    good_to_bad: float
    bad_to_good: float
    good_loss: float
    bad_loss: float


@dataclass(frozen=True)
class Reordering:
    """A share of the packets arrives later by the delay, and other packets overtake them."""

    share: float
    delay_ns: int


@dataclass(frozen=True)
class Change:
    """A change from a time on; None: the value stays. loss replaces any loss model by Bernoulli's."""

    at_ns: int
    rate_bps: int | None = None
    delay_ns: int | None = None
    loss: float | None = None
    down: bool | None = None


@dataclass(frozen=True)
class Direction:
    """One direction of a link: loss, queue, transmission at a rate, delay.

    rate_bps None: no limit. jitter_ns: mean of an exponentially distributed addition to the delay; packets keep their
    order. limit_packets, limit_bytes: capacity of the queue, without the packet in transmission; None: no limit.
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
    """A path between two interfaces. links lead from start to end; links_back are the same in reverse."""

    name: str
    start: Interface
    end: Interface
    links: tuple[Direction, ...]
    links_back: tuple[Direction, ...]

    def seen_from(self, host: str) -> Path:
        """The same path with its start at this host, which is at one of its ends."""
        return self if self.start.host == host else Path(self.name, self.end, self.start, self.links_back, self.links)


@dataclass(frozen=True)
class Write:
    """What an application writes at once: not before after_ns from its transfer's start; after_acknowledged: so long
    after all data before it was acknowledged.
    """

    bytes: int
    after_ns: int
    after_acknowledged: bool


@dataclass(frozen=True)
class Transfer:
    """A connection that the sender of data opens. Its paths start at the sender; it begins on the first one.

    The sender writes `bytes`, or until `duration_ns` after the start, in writes of `write_bytes` with `pause_ns` after
    each. congestion_control: a name of the sender's system; None: its default. Buffers are the sockets'; None: the
    hosts'.
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
    receive_buffer_first_bytes: int | None = None
    """What the tuning of the receiver's buffer begins with; None: the receiver's system decides."""
    writes: tuple[Write, ...] = ()
    """In place of writes of one size; a scenario's file has none."""


@dataclass(frozen=True)
class Traffic:
    """Cross traffic: packets that enter a link at a rate, do not react to loss, and leave the network after the link.

    on_ns, off_ns: means of the exponentially distributed times in which it sends and pauses; None: it always sends.
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
    """Interfaces whose packets are written to one file, snap_bytes of each."""

    name: str
    interfaces: tuple[Interface, ...]
    snap_bytes: int


@dataclass(frozen=True)
class Scenario:
    """duration_ns: when transfers stop writing at the latest. Written data has grace_ns more to arrive."""

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
    """Names of the files beside the scenario that it refers to."""

    def host(self, name: str) -> Host:
        return next(h for h in self.hosts if h.name == name)

    def bottlenecks(self, path: Path) -> frozenset[str]:
        """The links with the path's smallest rate, from start to end; empty if no link has a rate."""
        rates = {link.name: link.rate_bps for link in path.links if link.rate_bps is not None}
        return frozenset(name for name, rate in rates.items() if rate == min(rates.values()))
