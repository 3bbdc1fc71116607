"""Reads a scenario: TOML -> form -> model. Every mistake is reported with its place in the file."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from rewindow.errors import ScenarioUnreadable
from rewindow.scenarios import form, model
from rewindow.scenarios.quantities import RATE, TIME, quantity, shown

SCENARIO_BYTES_MAX = 1 << 16
TRACE_BYTES_MAX = 1 << 19
LINE_DOTS_MAX = 100
"""tomllib's time and memory grow with the square of the number of parts in a dotted key, which is on one line."""
MISTAKES_MAX = 100
LISTEN_PORT = 5001
"""Port of the first transfer; further transfers get the next ports."""

Read = Callable[[str], str]
"""Returns the text of a file beside the scenario. Raises OSError or ValueError where there is none."""

_Form = TypeVar("_Form", bound=BaseModel)


def load(path: str | os.PathLike[str]) -> model.Scenario:
    """The scenario in a file. ScenarioUnreadable's text has the first mistake, its attribute `mistakes` all of them."""
    file = FilePath(path)
    try:
        text = _text_of(file, SCENARIO_BYTES_MAX)
    except (OSError, ValueError) as e:
        raise ScenarioUnreadable(str(file), [("", "a readable file of TOML", _reason(e))]) from e
    return parse(text, str(file), lambda name: _text_of(file.parent / name, TRACE_BYTES_MAX))


def parse(text: str, name: str, read: Read | None = None) -> model.Scenario:
    """name: the file's name in error messages. read: reads files that the scenario names; None: it may name none."""
    try:
        for number, line in enumerate(text.split("\n"), 1):
            if line.count(".") > LINE_DOTS_MAX:
                raise ValueError(f"line {number} has more than {LINE_DOTS_MAX} dots; a list may go over several lines")
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as e:
        raise ScenarioUnreadable(name, [("", "a file of TOML", _reason(e))]) from e
    mistakes = _Mistakes()
    table = _filled(form.ScenarioTable, document, "", mistakes)
    found = _Resolver(table, read, mistakes).scenario() if table else None
    if mistakes.all or found is None:
        raise ScenarioUnreadable(name, mistakes.all[:MISTAKES_MAX])
    return found


def _text_of(file: FilePath, bytes_max: int) -> str:
    """The text of a regular file of at most bytes_max bytes."""
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as f:
        if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
            raise ValueError("it is no regular file")
        data = f.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise ValueError(f"it is longer than {bytes_max} bytes")
    return data.decode()


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"no UTF-8 at byte {error.start}"
    if isinstance(error, RecursionError):
        return "too many levels of brackets"
    return str(error)[:200]


def _actual(value: Any) -> str:
    """The actual value, shortened."""
    if isinstance(value, Mapping):
        return f"a table of {len(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of many digits"
    text = ascii(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass
class _Mistakes:
    all: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, place: str, expected: str, actual: Any) -> None:
        self.all.append((place, expected, _actual(actual)))

    def add_text(self, place: str, expected: str, actual: str) -> None:
        self.all.append((place, expected, actual))


_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,40}")


def _key(key: str) -> str:
    """A key of the file, safe to print on a terminal."""
    return key if _PLAIN_KEY.fullmatch(key) else ascii(key)[1:-1][:40]


def _place(prefix: str, parts: Sequence[str | int]) -> str:
    """links.bottleneck.changes[2].at: as keys and positions. Tags of unions are no keys."""
    place, last = prefix, ""
    for part in parts:
        if isinstance(part, int):
            place += f"[{part}]"
        elif not part.startswith("=") and not (last == "discipline" and part in form.DISCIPLINES) and part != "[key]":
            place += f".{_key(part)}" if place else _key(part)
            last = part
    return place


_PLAIN_WORDS = {
    "missing": "a value",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "a table",
    "string_too_long": "a shorter text",
}


def _filled(kind: type[_Form], data: Any, prefix: str, mistakes: _Mistakes) -> _Form | None:
    try:
        return kind.model_validate(data)
    except ValidationError as e:
        for error in e.errors(include_url=False):
            place = _place(prefix, error["loc"])
            context = error.get("ctx", {})
            if error["type"] == "unknown_key":
                place = f"{place}.{_key(context['key'])}" if place else _key(context["key"])
                mistakes.add_text(place, context["expected"], "an unknown key")
            elif error["type"] == "missing":
                mistakes.add_text(place, "a value", "none")
            else:
                said = error["msg"].removeprefix("Input should be ")
                mistakes.add(place, _PLAIN_WORDS.get(error["type"], said), error["input"])
        return None


class _Resolver:
    """Replaces names by objects."""

    def __init__(self, table: form.ScenarioTable, read: Read | None, mistakes: _Mistakes) -> None:
        self.table = table
        self.read = read
        self.mistakes = mistakes
        self.files: dict[str, str] = {}
        self.interfaces: dict[str, model.Interface] = {}
        self.directions: dict[str, model.Direction] = {}
        self.paths: dict[str, model.Path] = {}

    def scenario(self) -> model.Scenario | None:
        """None where a mistake was found."""
        table = self.table
        hosts = tuple(self._host(name, h) for name, h in table.hosts.items())
        for name, link in table.links.items():
            self._link(name, link)
        if self.mistakes.all:
            return None  # names that are missing now may be those of mistaken tables
        for i, path in enumerate(table.paths):
            self._path(f"paths[{i}]", path)
        if self.mistakes.all:
            return None
        transfers = list(self._transfers())
        traffic = [t for i, form_ in enumerate(table.traffic) if (t := self._traffic(f"traffic[{i}]", form_))]
        captures = list(self._captures(transfers))
        if self.mistakes.all:
            return None
        return model.Scenario(
            name=table.name, duration_ns=table.duration_ns, grace_ns=table.grace_ns, seed=table.seed, hosts=hosts,
            links=tuple(self.directions.values()), paths=tuple(self.paths.values()), transfers=tuple(transfers),
            traffic=tuple(traffic), captures=tuple(captures), files=tuple(self.files),
        )  # fmt: skip

    def _host(self, name: str, host: form.HostTable) -> model.Host:
        interfaces = []
        for short, table in host.interfaces.items():
            place = f"hosts.{name}.interfaces.{short}"
            interface = model.Interface(name, short, table.address, table.mtu_bytes)
            for other in self.interfaces.values():
                if other.address == interface.address:
                    self.mistakes.add(f"{place}.address", f"an address that {other} does not have", str(table.address))
            if table.address.version == 6 and table.mtu_bytes < 1280:
                self.mistakes.add(f"{place}.mtu", "at least 1280 bytes, which IPv6 needs", table.mtu_bytes)
            self.interfaces[str(interface)] = interface
            interfaces.append(interface)
        return model.Host(
            name, tuple(interfaces), host.sack, host.timestamps, host.ecn, host.offload, host.send_buffer_bytes,
            host.receive_buffer_bytes,
        )  # fmt: skip

    def _link(self, name: str, raw: dict[str, Any]) -> None:
        """`backward` replaces the values that it has, and its rate also the rate trace; others hold both ways."""
        place = f"links.{name}"
        forward = {key: value for key, value in raw.items() if key != "backward"}
        instead = raw.get("backward", {})
        if not isinstance(instead, Mapping):
            self.mistakes.add(f"{place}.backward", "a table", instead)
            return
        inherited = {key: value for key, value in forward.items() if key != "rate_trace" or "rate" not in instead}
        before = len(self.mistakes.all)
        self._direction(name, True, forward, place)
        if len(self.mistakes.all) == before:  # else both directions may have the mistake
            self._direction(name, False, {**inherited, **instead}, f"{place}.backward" if instead else place)

    def _direction(self, link: str, forward: bool, raw: Mapping[str, Any], place: str) -> model.Direction | None:
        table = _filled(form.OneWayTable, raw, place, self.mistakes)
        if table is None:
            return None
        loss: model.Bernoulli | model.GilbertElliott
        if isinstance(table.loss, form.GilbertElliottTable):
            loss = model.GilbertElliott(**dict(table.loss))
        else:
            loss = model.Bernoulli(table.loss)
        reordering = table.reordering
        found = model.Direction(
            link, forward, table.rate_bps, table.delay_ns, table.jitter_ns,
            table.limit.packets if table.limit else None, table.limit.bytes if table.limit else None,
            self._discipline(table, place), loss,
            model.Reordering(reordering.share, reordering.delay_ns) if reordering else model.Reordering(0.0, 0),
            tuple(self._changes(table, place)),
        )  # fmt: skip
        if table.rate_bps is None and (table.limit or found.discipline != model.DropTail()):
            self.mistakes.add_text(f"{place}.rate", "a rate: without one, nothing waits in a queue", "none")
        self.directions[found.name] = found
        return found

    def _discipline(self, table: form.OneWayTable, place: str) -> model.Discipline:
        found = table.discipline
        if isinstance(found, form.RedTable):
            if found.min_packets >= found.max_packets:
                self.mistakes.add(f"{place}.discipline.max", f"more than min ({found.min_packets})", found.max_packets)
            values = {k: v for k, v in found if k != "kind"}
            return model.Red(**values)
        if isinstance(found, form.EcnThresholdTable):
            return model.EcnThreshold(found.packets)
        if isinstance(found, form.CoDelTable):
            return model.CoDel(found.target_ns, found.interval_ns, found.ecn)
        return model.DropTail()

    def _changes(self, table: form.OneWayTable, place: str) -> Iterator[model.Change]:
        """Changes in order of time: the listed ones, or those of the rate trace."""
        times = f"after the one before and within the scenario's {shown(self.table.duration_ns, TIME)}"
        if table.rate_trace is not None and any(c.rate_bps is not None for c in table.changes):
            self.mistakes.add_text(f"{place}.rate_trace", "no changes of the rate beside it", "both")
        found = [
            [(f"{place}.changes[{i}].at", model.Change(c.at_ns, c.rate_bps, c.delay_ns, c.loss, c.down))
             for i, c in enumerate(table.changes)],
            [(f"{place}.rate_trace[{i}]", model.Change(at, rate))
             for i, (at, rate) in enumerate(self._trace(table.rate_trace, f"{place}.rate_trace"))],
        ]  # fmt: skip
        for changes in found:
            last = -1
            for where, change in changes:
                if not last < change.at_ns <= self.table.duration_ns:
                    self.mistakes.add_text(where, f"a time {times}", shown(change.at_ns, TIME))
                last = change.at_ns
        yield from sorted((c for changes in found for _, c in changes), key=lambda c: c.at_ns)

    def _trace(self, trace: list[tuple[int, int]] | str | None, place: str) -> list[tuple[int, int]]:
        """A file has a line `time,rate` for each point; empty lines and lines that begin with # are ignored."""
        if not isinstance(trace, str):
            return trace or []
        try:
            if self.read is None:
                raise ValueError("none may be read here")
            text = self.files[trace] = self.files.get(trace) or self.read(trace)
        except (OSError, ValueError) as e:
            self.mistakes.add_text(place, "a file beside the scenario", _reason(e))
            return []
        points: list[tuple[int, int]] = []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            time, _, rate = line.partition(",")
            try:
                points.append(
                    (quantity(_plain(time), TIME, 0, 3600 * form.S), quantity(_plain(rate), RATE, 1000, 10**11))
                )
            except PydanticCustomError as e:
                self.mistakes.add(f"{place} ({trace} line {number})", e.message(), line)
                break
            if len(points) > form.CHANGES_MAX:
                self.mistakes.add_text(f"{place} ({trace})", f"at most {form.CHANGES_MAX} points", "more")
                break
        return points

    def _path(self, place: str, table: form.PathTable) -> None:
        start, end = (
            self._interface(f"{place}.{key}", name) for key, name in (("from", table.start), ("to", table.end))
        )
        links = [self._named_direction(f"{place}.links[{i}]", name) for i, name in enumerate(table.links)]
        if start is None or end is None or None in links:
            return
        way = tuple(link for link in links if link is not None)
        if start.host == end.host:
            self.mistakes.add(f"{place}.to", f"an interface of another host than {start.host}", table.end)
        elif start.address.version != end.address.version:
            self.mistakes.add(f"{place}.to", f"an IPv{start.address.version} address, as {start} has", str(end.address))
        if len({link.link for link in way}) < len(way):
            self.mistakes.add(f"{place}.links", "each link once", ", ".join(table.links))
        if table.name in self.paths:
            self.mistakes.add(f"{place}.name", "a name that no path before has", table.name)
        for other in self.paths.values():
            if {other.start, other.end} == {start, end}:
                self.mistakes.add_text(place, f"other ends than path {other.name}", f"{start} and {end}")
        back = tuple(self._other_direction(link) for link in reversed(way))
        self.paths[table.name] = model.Path(table.name, start, end, way, back)

    def _interface(self, place: str, name: str) -> model.Interface | None:
        if name not in self.interfaces:
            self.mistakes.add(place, f"an interface: {_some(self.interfaces)}", name)
        return self.interfaces.get(name)

    def _named_direction(self, place: str, name: str) -> model.Direction | None:
        """A link's name without a direction means its forward direction."""
        found = self.directions.get(name if "." in name else f"{name}.forward")
        if found is None:
            known = _some(dict.fromkeys(d.link for d in self.directions.values()))
            self.mistakes.add(place, f"a link: {known}, or one with .backward", name)
        return found

    def _other_direction(self, link: model.Direction) -> model.Direction:
        return self.directions[f"{link.link}.{'backward' if link.forward else 'forward'}"]

    def _transfers(self) -> Iterator[model.Transfer]:
        names: set[str] = set()
        used: set[tuple[str, int]] = set()
        taken = {(t.receiver, t.port) for t in self.table.transfers if t.port}
        for i, table in enumerate(self.table.transfers):
            place = f"transfers[{i}]"
            name = table.name or f"{table.protocol}-{i + 1}"
            if name in names:
                self.mistakes.add(f"{place}.name", "a name that no other transfer has", name)
            names.add(name)
            unknown = [(k, v) for k, v in (("from", table.sender), ("to", table.receiver)) if v not in self.table.hosts]
            for key, host in unknown:
                self.mistakes.add(f"{place}.{key}", f"a host: {_some(self.table.hosts)}", host)
            paths = () if unknown else self._paths_of(place, table)
            if table.bytes is not None and table.duration_ns is not None:
                self.mistakes.add_text(f"{place}.seconds", "either bytes or seconds", "both")
            if table.start_ns >= self.table.duration_ns:
                end = shown(self.table.duration_ns, TIME)
                self.mistakes.add_text(f"{place}.start", f"a time before the end at {end}", shown(table.start_ns, TIME))
            port = table.port
            if port is None:
                port = next(p for p in range(LISTEN_PORT, 65536) if (table.receiver, p) not in used | taken)
            elif (table.receiver, port) in used:
                self.mistakes.add(f"{place}.port", f"a port that no other transfer to {table.receiver} has", port)
            used.add((table.receiver, port))
            if paths:
                left_ns = self.table.duration_ns - table.start_ns
                duration_ns = None if table.bytes is not None else min(table.duration_ns or left_ns, left_ns)
                yield model.Transfer(
                    name, table.protocol, table.sender, table.receiver, paths, table.bytes, duration_ns, table.start_ns,
                    table.write_bytes, table.pause_ns, table.congestion_control, table.send_buffer_bytes,
                    table.receive_buffer_bytes, port,
                )  # fmt: skip

    def _paths_of(self, place: str, table: form.TransferTable) -> tuple[model.Path, ...]:
        """The paths that it names; by default all between its hosts for MPTCP, and the first one for TCP."""
        ends = {table.sender, table.receiver}
        between = [p for p in self.paths.values() if {p.start.host, p.end.host} == ends]
        if len(ends) < 2 or not between:
            self.mistakes.add_text(place, f"a path between {table.sender} and {table.receiver}", "none")
            return ()
        chosen = between if table.protocol == "mptcp" else between[:1]
        if table.paths is not None:
            known = {p.name: p for p in between}
            for i, name in enumerate(table.paths):
                if name not in known or name in table.paths[:i]:
                    expected = f"a path between {table.sender} and {table.receiver}, each once: {_some(known)}"
                    self.mistakes.add(f"{place}.paths[{i}]", expected, name)
            chosen = [known[name] for name in table.paths if name in known]
        if table.protocol == "tcp" and len(chosen) > 1:
            self.mistakes.add_text(f"{place}.paths", "one path, as TCP has", f"{len(chosen)} paths")
        if len(chosen) > 8:
            self.mistakes.add_text(f"{place}.paths", "at most 8 paths", f"{len(chosen)} paths")
        return tuple(p.seen_from(table.sender) for p in chosen)

    def _traffic(self, place: str, table: form.TrafficTable) -> model.Traffic | None:
        link = self._named_direction(f"{place}.link", table.link)
        end_ns = self.table.duration_ns if table.end_ns is None else table.end_ns
        if not table.start_ns < end_ns <= self.table.duration_ns:
            expected = f"times within the scenario's {shown(self.table.duration_ns, TIME)}"
            self.mistakes.add_text(place, expected, f"{shown(table.start_ns, TIME)} to {shown(end_ns, TIME)}")
        if link is None:
            return None
        return model.Traffic(
            link, table.rate_bps, table.packet_bytes, table.start_ns, end_ns, table.on_ns, table.off_ns
        )

    def _captures(self, transfers: Sequence[model.Transfer]) -> Iterator[model.CapturePoint]:
        """Where the scenario names none: all interfaces of the hosts that send data."""
        if not self.table.captures:
            senders = dict.fromkeys(t.sender for t in transfers)
            found = tuple(i for s in senders for i in self.interfaces.values() if i.host == s)
            yield model.CapturePoint("capture", found, 120)
            return
        names: set[str] = set()
        for i, table in enumerate(self.table.captures):
            place = f"captures[{i}]"
            if table.name in names:
                self.mistakes.add(f"{place}.name", "a name that no other capture has", table.name)
            names.add(table.name)
            if table.interfaces is not None:
                interfaces = [self._interface(f"{place}.interfaces[{k}]", n) for k, n in enumerate(table.interfaces)]
            else:
                interfaces = [found for found in self.interfaces.values() if found.host == table.host]
                if not interfaces:
                    self.mistakes.add(f"{place}.host", f"a host: {_some(self.table.hosts)}", table.host)
            seen = dict.fromkeys(i for i in interfaces if i is not None)
            yield model.CapturePoint(table.name, tuple(seen), table.snap_bytes)
        if "capture" not in names:
            self.mistakes.add_text("captures", "one that is named capture, which others read", _some(names))


def _plain(text: str) -> Any:
    """The text as a number if it is one."""
    try:
        return float(text)
    except ValueError:
        return text


def _some(names: Any) -> str:
    """The known names, or the first of them if there are many."""
    listed = list(names)
    return ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")
