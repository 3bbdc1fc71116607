"""A network of links, users and routes, read from TOML (docs/fluid.md)."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewindow.errors import BadOption, NetworkUnreadable, UnknownAlgorithm
from rewindow.fluid.models import Model, model

FILE_BYTES_MAX = 1 << 20
LINKS_MAX = 64
ROUTES_MAX = 128
"""Limit for all users together: the Jacobian has a row for each route."""
SUBFLOWS_MAX = 8
HOPS_MAX = 16
NAME_MAX = 64

LOSS_MODELS = ("overflow", "price", "constant")


@dataclass(frozen=True)
class Link:
    """A link and how load turns into loss on it.

    loss_model: `overflow`, the share of segments that find all `buffer_packets` places taken when they arrive as a
    Poisson process and take exponential times (M/M/1/B); `price`, dp/dt = gamma_per_segment (y - c) (TCCC, eq. 11);
    `constant`, only `loss`. loss: an additional share, at any load.
    """

    name: str
    capacity_mbps: float
    delay_ms: float
    buffer_packets: int
    loss_model: str
    loss: float
    gamma_per_segment: float


@dataclass(frozen=True)
class Route:
    """links: indices in Network.links. rtt_ms is constant, as in the papers' model."""

    links: tuple[int, ...]
    rtt_ms: float


@dataclass(frozen=True)
class User:
    """One connection; its routes are its subflows."""

    name: str
    model: Model
    routes: tuple[Route, ...]


@dataclass(frozen=True)
class Network:
    """A network. A user with a count in the file is in `users` that many times."""

    name: str
    links: tuple[Link, ...]
    users: tuple[User, ...]
    segment_bytes: float
    window_min_segments: float

    def segments_per_second(self, mbps: float) -> float:
        return mbps * 1e6 / (8 * self.segment_bytes)

    def mbps(self, segments_per_second: float) -> float:
        return segments_per_second * 8 * self.segment_bytes / 1e6


class _Table:
    """One table of the file. Every key is read once; keys that nobody reads are errors."""

    def __init__(self, file: str, place: str, values: Any) -> None:
        self.file = file
        self.place = place
        if not isinstance(values, dict):
            raise self.wrong("", "must be a table")
        self.values: dict[str, Any] = dict(values)

    def wrong(self, key: str, reason: str) -> NetworkUnreadable:
        return NetworkUnreadable(self.file, f"{self.place}.{key}".strip("."), reason)

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        value = self.values.pop(key, default)
        if value is None:
            raise self.wrong(key, "is missing")
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.wrong(key, f"must be a number from {low:g} to {high:g}")
        return float(value)

    def whole(self, key: str, low: int, high: int, default: int) -> int:
        value = self.values.pop(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(key, f"must be a whole number from {low} to {high}")
        return value

    def word(self, key: str, among: Sequence[str] = (), default: str | None = None) -> str:
        value = self.values.pop(key, default)
        if value is None:
            raise self.wrong(key, "is missing")
        if among and value not in among:
            raise self.wrong(key, f"must be {' or '.join(among)}")
        if not isinstance(value, str) or not 1 <= len(value) <= NAME_MAX or not value.isprintable():
            raise self.wrong(key, f"must be 1 to {NAME_MAX} printable characters")
        return value

    def items(self, key: str, most: int) -> list[Any]:
        value = self.values.pop(key, None)
        if value is None:
            raise self.wrong(key, "is missing")
        if not isinstance(value, list) or not 1 <= len(value) <= most:
            raise self.wrong(key, f"must be a list of 1 to {most}")
        return value

    def tables(self, key: str, most: int) -> list[_Table]:
        place = f"{self.place}.{key}".strip(".")
        return [_Table(self.file, f"{place}[{i}]", v) for i, v in enumerate(self.items(key, most))]

    def end(self) -> None:
        for key in self.values:
            raise self.wrong(key[:NAME_MAX] if key.isprintable() else repr(key[:NAME_MAX]), "unknown key")


def read_network(path: str) -> Network:
    """Reads a network from a TOML file; `-` is standard input.

    Raises NetworkUnreadable for a file that cannot be read, is not TOML, or does not describe a network.
    """
    try:
        if path == "-":
            data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with open(path, "rb") as f:
                data = f.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as e:
        raise NetworkUnreadable(path, "", getattr(e, "strerror", None) or str(e)) from e
    if len(data) > FILE_BYTES_MAX:
        raise NetworkUnreadable(path, "", f"larger than {FILE_BYTES_MAX} bytes")
    try:
        document = tomllib.loads(data.decode())
    except UnicodeDecodeError as e:
        raise NetworkUnreadable(path, f"byte {e.start}", "not UTF-8") from e
    except (ValueError, RecursionError) as e:
        raise NetworkUnreadable(path, "", f"not TOML: {' '.join(str(e).split())}") from e
    return parse_network(document, path)


def parse_network(document: Mapping[str, Any], name: str = "network") -> Network:
    """The network that a document of TOML's types describes. Raises NetworkUnreadable, with `name` for the file."""
    top = _Table(name, "", dict(document))
    settings = _Table(name, "model", top.values.pop("model", {}))
    segment_bytes = settings.number("segment_bytes", 40, 65535, 1500)
    window_min = settings.number("window_min_segments", 1e-3, 100, 1)
    settings.end()
    links = [_link(t) for t in top.tables("links", LINKS_MAX)]
    places = {link.name: i for i, link in enumerate(links)}
    if len(places) < len(links):
        twice = next(link.name for i, link in enumerate(links) if places[link.name] != i)
        raise top.wrong("links", f"two have the name {twice!r}")
    users: list[User] = []
    routes = 0
    names: set[str] = set()
    for t in top.tables("users", ROUTES_MAX):
        count, user = _user(t, links, places)
        if user.name in names:
            raise t.wrong("name", f"two users have the name {user.name!r}")
        names.add(user.name)
        routes += count * len(user.routes)
        if routes > ROUTES_MAX:
            raise t.wrong("", f"all users together have more than {ROUTES_MAX} routes")
        users += [user] if count == 1 else [User(f"{user.name} {i + 1}", user.model, user.routes) for i in range(count)]
    top.end()
    return Network(name, tuple(links), tuple(users), segment_bytes, window_min)


def _link(t: _Table) -> Link:
    name = t.word("name")
    loss_model = t.word("loss_model", LOSS_MODELS, "overflow")
    capacity_mbps = t.number("capacity_mbps", 1e-3, 1e6)
    delay_ms = t.number("delay_ms", 0, 1e5, 0)
    buffer_packets = t.whole("buffer_packets", 1, 1_000_000, 100)
    loss = t.number("loss", 0, 0.5, 0)
    # A RED queue that drops a tenth when it is full: the queue grows by y - c, the price by this much for each segment.
    gamma = t.number("gamma_per_segment", 1e-12, 1, 0.1 / buffer_packets)
    t.end()
    if loss_model == "constant" and loss == 0:
        raise t.wrong("loss", "must be above 0 where loss_model is constant")
    return Link(name, capacity_mbps, delay_ms, buffer_packets, loss_model, loss, gamma)


def _user(t: _Table, links: Sequence[Link], places: Mapping[str, int]) -> tuple[int, User]:
    name = t.word("name")
    algorithm = t.word("algorithm")
    count = t.whole("count", 1, ROUTES_MAX, 1)
    options = _Table(t.file, f"{t.place}.options", t.values.pop("options", {})).values
    try:
        chosen = model(algorithm, options)
    except UnknownAlgorithm as e:
        raise t.wrong("algorithm", str(e)) from e
    except BadOption as e:
        raise t.wrong("options", str(e)) from e
    routes = []
    for r in t.tables("routes", SUBFLOWS_MAX):
        hops: list[int] = []
        for hop in r.items("links", HOPS_MAX):
            if not isinstance(hop, str) or hop not in places:
                known = isinstance(hop, str)
                raise r.wrong(
                    "links", f"no link has the name {hop[:NAME_MAX]!r}" if known else "must be names of links"
                )
            if places[hop] in hops:
                raise r.wrong("links", f"{hop!r} stands twice")
            hops.append(places[hop])
        both_ways_ms = 2 * sum(links[i].delay_ms for i in hops)
        rtt_ms = r.number("rtt_ms", 0.05, 1e5, both_ways_ms)
        r.end()
        routes.append(Route(tuple(hops), rtt_ms))
    t.end()
    if chosen.algorithm.single and len(routes) > 1:
        raise t.wrong("routes", f"{algorithm} has one route; uncoupled is the same on each of several")
    return count, User(name, chosen, tuple(routes))
