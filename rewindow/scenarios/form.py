"""The form of a scenario's file: which tables and keys there are, with their units and bounds.

The reader checks references between tables (names, routes, overlaps).
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from rewindow.scenarios.quantities import PACKETS, RATE, SIZE, TIME, mistake, quantity, shown
from rewindow.scenarios.quantities import share as share_of

MS = 10**6
S = 10**9

HOSTS_MAX = 16
INTERFACES_MAX = 8
LINKS_MAX = 64
PATHS_MAX = 64
TRANSFERS_MAX = 64
TRAFFIC_MAX = 64
CAPTURES_MAX = 8
CHANGES_MAX = 10_000
"""Changes of one link, including those of its rate trace."""


def _rate(least: int) -> Any:
    return BeforeValidator(lambda v: quantity(v, RATE, least, 10**11))


def _time(least: int, most: int) -> Any:
    return BeforeValidator(lambda v: quantity(v, TIME, least, most))


def _size(least: int, most: int) -> Any:
    return BeforeValidator(lambda v: quantity(v, SIZE, least, most))


def _packets(least: int, most: int) -> Any:
    return BeforeValidator(lambda v: quantity(v, PACKETS, least, most))


Rate = Annotated[int, _rate(1000)]
Delay = Annotated[int, _time(0, 10 * S)]
Moment = Annotated[int, _time(0, 3600 * S)]
Length = Annotated[int, _time(MS, 3600 * S)]
Buffer = Annotated[int, _size(4096, 2**30)]
Queue = Annotated[int, _packets(1, 1_000_000)]
Share = Annotated[float, BeforeValidator(share_of)]


class Limit(BaseModel):
    """The limit of a queue; one of the two fields is set."""

    model_config = ConfigDict(frozen=True)
    packets: int | None
    bytes: int | None


def _limit(value: Any) -> Limit:
    in_bytes = isinstance(value, str) and value.strip().endswith("B")
    try:
        if in_bytes:
            return Limit(packets=None, bytes=quantity(value, SIZE, 64, 2**30))
        return Limit(packets=quantity(value, PACKETS, 1, 1_000_000), bytes=None)
    except PydanticCustomError as e:
        expected = 'from 64B to 1GiB, or from 1 to 1000000 packets, as in "47 packets" or "64kB"'
        raise mistake(f"the queue's limit, {expected}") from e


def _address(value: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    expected = 'an IPv4 or IPv6 address of one host, as in "10.0.1.1" or "fd00:1::1"'
    if not isinstance(value, str) or len(value) > 45 or "%" in value:
        raise mistake(expected)
    try:
        address = ipaddress.ip_address(value)
    except ValueError as e:
        raise mistake(expected) from e
    if address.is_loopback or address.is_multicast or address.is_unspecified or address.is_link_local:
        raise mistake(expected)
    return address


def _named(pattern: str, expected: str) -> Any:
    def check(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise mistake(expected)
        return value

    return BeforeValidator(check)


Name = Annotated[
    str, _named(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", "a name of 1 to 40 letters, digits, dashes and underscores")
]
InterfaceName = Annotated[
    str,
    _named(
        r"(?!(lo|all|default)$)[a-z][a-z0-9_-]{0,13}",
        "an interface's name: a lower-case letter, then at most 13 letters, digits, dashes and underscores, not lo",
    ),
]
FileName = Annotated[
    str, _named(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", "the name of a file beside the scenario, without a folder")
]
CongestionControl = Annotated[
    str, _named(r"[a-z][a-z0-9_+-]{0,14}", "a congestion control's name: at most 15 lower-case letters and digits")
]
Address = Annotated[Any, BeforeValidator(_address)]


class Table(BaseModel):
    """A table of the file. The aliases are the file's keys; the fields have the model's names, with units."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _keys_are_known(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            raise mistake("a table")
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for key in data:
            if key not in known:
                near = difflib.get_close_matches(str(key)[:40], known, 1)
                expected = f"the key {near[0]}" if near else f"one of the keys {', '.join(known)}"
                raise PydanticCustomError("unknown_key", "{expected}", {"expected": expected, "key": str(key)[:40]})
        return data


class InterfaceTable(Table):
    address: Address
    mtu_bytes: Annotated[int, _size(576, 65535)] = Field(default=1500, alias="mtu")


class HostTable(Table):
    interfaces: dict[InterfaceName, InterfaceTable] = Field(min_length=1, max_length=INTERFACES_MAX)
    sack: bool = True
    timestamps: bool = True
    ecn: bool = False
    offload: bool = False
    send_buffer_bytes: Buffer | None = Field(default=None, alias="send_buffer")
    receive_buffer_bytes: Buffer | None = Field(default=None, alias="receive_buffer")


class DropTailTable(Table):
    kind: Literal["drop_tail"]


class EcnThresholdTable(Table):
    kind: Literal["ecn_threshold"]
    packets: Queue = Field(alias="threshold")


class RedTable(Table):
    kind: Literal["red"]
    min_packets: Queue = Field(alias="min")
    max_packets: Queue = Field(alias="max")
    probability: Share = 0.1
    weight_shift: Annotated[int, Field(ge=0, le=16)] = 9
    gentle: bool = True
    ecn: bool = False


class CoDelTable(Table):
    kind: Literal["codel"]
    target_ns: Annotated[int, _time(1, S)] = Field(default=5 * MS, alias="target")
    interval_ns: Annotated[int, _time(1, 10 * S)] = Field(default=100 * MS, alias="interval")
    ecn: bool = False


DISCIPLINES = ("drop_tail", "ecn_threshold", "red", "codel")


def _discipline(value: Any) -> Any:
    """The name alone stands for a discipline with its defaults."""
    table = {"kind": value} if isinstance(value, str) else value
    if not isinstance(table, Mapping) or table.get("kind") not in DISCIPLINES:
        raise mistake(f"a queue discipline: one of {', '.join(DISCIPLINES)}, or a table with such a kind")
    return table


class GilbertElliottTable(Table):
    good_to_bad: Share
    bad_to_good: Share
    good_loss: Share
    bad_loss: Share


def _way_of_writing(value: Any) -> str:
    """The tag of a value whose key takes two kinds of values. The = keeps it apart from the parts of a key's place."""
    return "=table" if isinstance(value, Mapping) else "=list" if isinstance(value, list) else "=plain"


Loss = Annotated[
    Annotated[Share, Tag("=plain")] | Annotated[Share, Tag("=list")] | Annotated[GilbertElliottTable, Tag("=table")],
    Discriminator(_way_of_writing),
]


class ReorderingTable(Table):
    share: Share
    delay_ns: Annotated[int, _time(1, 10 * S)] = Field(alias="delay")


class ChangeTable(Table):
    at_ns: Moment = Field(alias="at")
    rate_bps: Rate | None = Field(default=None, alias="rate")
    delay_ns: Delay | None = Field(default=None, alias="delay")
    loss: Share | None = None
    down: bool | None = None

    @model_validator(mode="after")
    def _something_changes(self) -> ChangeTable:
        if self.rate_bps is self.delay_ns is self.loss is self.down is None:
            raise mistake("at least one of rate, delay, loss, down")
        return self


def _trace_point(value: Any) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise mistake('a pair of a time and a rate, as in [0.5, "3M"]')
    return quantity(value[0], TIME, 0, 3600 * S), quantity(value[1], RATE, 1000, 10**11)


TracePoint = Annotated[tuple[int, int], BeforeValidator(_trace_point)]


RateTrace = Annotated[
    Annotated[list[TracePoint], Tag("=list"), Field(min_length=1, max_length=CHANGES_MAX)]
    | Annotated[FileName, Tag("=plain")]
    | Annotated[FileName, Tag("=table")],
    Discriminator(_way_of_writing),
]


class OneWayTable(Table):
    """One direction of a link."""

    rate_bps: Rate | None = Field(default=None, alias="rate")
    delay_ns: Delay = Field(default=0, alias="delay")
    jitter_ns: Annotated[int, _time(0, S)] = Field(default=0, alias="jitter")
    limit: Annotated[Limit | None, BeforeValidator(_limit)] = None
    discipline: Annotated[
        Annotated[DropTailTable | EcnThresholdTable | RedTable | CoDelTable, Field(discriminator="kind")],
        BeforeValidator(_discipline),
    ] = DropTailTable(kind="drop_tail")
    loss: Loss = 0.0
    reordering: ReorderingTable | None = None
    changes: list[ChangeTable] = Field(default=[], max_length=CHANGES_MAX)
    rate_trace: RateTrace | None = None


class PathTable(Table):
    name: Name
    start: str = Field(alias="from", max_length=64)
    end: str = Field(alias="to", max_length=64)
    links: list[Annotated[str, Field(max_length=64)]] = Field(min_length=1, max_length=16)


class TransferTable(Table):
    name: Name | None = None
    protocol: Literal["tcp", "mptcp"]
    sender: Name = Field(alias="from")
    receiver: Name = Field(alias="to")
    paths: list[Name] | None = Field(default=None, min_length=1, max_length=8)
    bytes: Annotated[int, _size(1, 10**12)] | None = None
    duration_ns: Length | None = Field(default=None, alias="seconds")
    start_ns: Moment = Field(default=0, alias="start")
    write_bytes: Annotated[int, _size(1, 2**24)] = Field(default=2**16, alias="write")
    pause_ns: Annotated[int, _time(0, 3600 * S)] = Field(default=0, alias="pause")
    congestion_control: CongestionControl | None = None
    send_buffer_bytes: Buffer | None = Field(default=None, alias="send_buffer")
    receive_buffer_bytes: Buffer | None = Field(default=None, alias="receive_buffer")
    port: Annotated[int, Field(ge=1024, le=65535)] | None = None


class TrafficTable(Table):
    link: Annotated[str, Field(max_length=64)]
    kind: Literal["constant", "on_off"] = "constant"
    rate_bps: Rate = Field(alias="rate")
    packet_bytes: Annotated[int, _size(64, 65535)] = Field(default=1500, alias="packet")
    start_ns: Moment = Field(default=0, alias="start")
    end_ns: Length | None = Field(default=None, alias="end")
    on_ns: Length | None = Field(default=None, alias="on")
    off_ns: Length | None = Field(default=None, alias="off")

    @model_validator(mode="after")
    def _times_fit_the_kind(self) -> TrafficTable:
        given = [name for name, value in (("on", self.on_ns), ("off", self.off_ns)) if value is not None]
        wanted = ["on", "off"] if self.kind == "on_off" else []
        if given != wanted:
            raise mistake("on and off with the kind on_off, neither with constant")
        if self.end_ns is not None and self.end_ns <= self.start_ns:
            raise mistake(f"an end after its start at {shown(self.start_ns, TIME)}")
        if self.rate_bps > self.packet_bytes * 8 * 1_000_000:
            raise mistake("at most a million packets per second")
        return self


class CaptureTable(Table):
    name: Name = "capture"
    host: Name | None = None
    interfaces: list[Annotated[str, Field(max_length=64)]] | None = Field(default=None, min_length=1, max_length=64)
    snap_bytes: Annotated[int, _size(64, 65535)] = Field(default=120, alias="snap_length")

    @model_validator(mode="after")
    def _one_of_two(self) -> CaptureTable:
        if (self.host is None) == (self.interfaces is None):
            raise mistake("either host or interfaces")
        return self


class ScenarioTable(Table):
    """The whole file. The reader reads the two directions of each link separately."""

    name: Name
    duration_ns: Annotated[int, _time(S // 10, 3600 * S)] = Field(alias="seconds")
    grace_ns: Annotated[int, _time(0, 600 * S)] = Field(default=30 * S, alias="grace")
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    hosts: dict[Name, HostTable] = Field(min_length=2, max_length=HOSTS_MAX)
    links: dict[Name, dict[str, Any]] = Field(min_length=1, max_length=LINKS_MAX)
    paths: list[PathTable] = Field(min_length=1, max_length=PATHS_MAX)
    transfers: list[TransferTable] = Field(min_length=1, max_length=TRANSFERS_MAX)
    traffic: list[TrafficTable] = Field(default=[], max_length=TRAFFIC_MAX)
    captures: list[CaptureTable] = Field(default=[], max_length=CAPTURES_MAX)
