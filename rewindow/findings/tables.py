"""Connections and their subflows in bulk: columns over some thousands of them, made from the core's rows.

A field of Subflow or Connection is a column. It is the field of the core's row with the same name, unless a function
here derives it. This module is separate from the dataclasses, because NumPy loads slowly.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.core import ffi, lib, name_of
from rewindow.findings.connections import Connection, Subflow
from rewindow.findings.quality import (
    OF_ALL_CONNECTIONS,
    POOR_UNSEEN,
    VERDICTS,
    ConnectionQuality,
    of_subflow,
    unreliable,
)
from rewindow.findings.senders import FULL_ROWS_MIN, PACED_ROWS_MIN, UNKNOWN, judged
from rewindow.findings.windows import Window

Array = npt.NDArray[Any]

_COARSE_BELOW_US = 10_000
"""Below it a millisecond is more than a tenth of a round trip."""
_COARSE_SPACING_NS = 2_000_000
"""If packets are closer on average, several share a millisecond, and their order beside an ACK is unknown."""


@dataclass(frozen=True)
class Column:
    """values: numbers; or indices into `texts`, whose items may be any objects; or addresses of 16 bytes each, whose
    families are in `family`.

    missing: where the value is None.
    """

    values: Array
    missing: Array | None = None
    texts: Sequence[Any] | None = None
    family: Array | None = None

    def tolist(self) -> list[Any]:
        """The values as Python objects; each list is a copy."""
        if self.texts is not None:
            found = [self.texts[code] for code in self.values.tolist()]
            return [list(v) for v in found] if self.texts and isinstance(self.texts[0], list) else found
        if self.family is not None:
            rows = zip(np.ascontiguousarray(self.values), self.family.tolist(), strict=True)
            return [_address(raw.tobytes(), family) for raw, family in rows]
        values: list[Any] = self.values.tolist()
        if self.missing is not None:
            for place in np.flatnonzero(self.missing).tolist():
                values[place] = None
        return values

    def take(self, places: Array) -> Column:
        """The same column of these rows."""
        missing = None if self.missing is None else self.missing[places]
        family = None if self.family is None else self.family[places]
        return Column(self.values[places], missing, self.texts, family)


Columns = dict[str, Column]


@functools.lru_cache(maxsize=4096)
def _address(raw: bytes, family: int) -> str:
    text = ffi.new("char[40]")
    return bytes(ffi.buffer(text, lib.rw_text_address(raw, family, text))).decode()


def row_type(name: str) -> np.dtype[Any]:
    """NumPy's type of a struct of the core."""
    struct = ffi.typeof(name)
    names, formats, offsets = [], [], []
    for field, about in struct.fields:
        is_array = about.type.kind == "array"
        item = about.type.item if is_array else about.type
        number = np.dtype(f"{'u' if int(ffi.cast(item, -1)) > 0 else 'i'}{ffi.sizeof(item)}")
        names.append(field)
        formats.append((number, (about.type.length,)) if is_array else number)
        offsets.append(about.offset)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": ffi.sizeof(struct)})


ROW_TYPES = {
    name: row_type(name) for name in ("rw_connection_row", "rw_subflow_row", "rw_window_row", "rw_violation_row")
}


def rows_of(kind: str, fill: Callable[[Any, int], int], most: int) -> Array:
    """Rows of a kind that a function of the core writes into an array of `most`."""
    held = ffi.new(f"{kind}[]", max(most, 1))
    count = fill(held, most)
    return np.frombuffer(ffi.buffer(held), ROW_TYPES[kind], count)


def _coded(keys: Array, make: Callable[[int], Any]) -> Column:
    """A column of texts, made once for each of a few distinct keys."""
    first = int(keys[0]) if len(keys) else 0
    if (keys == first).all():
        return Column(np.zeros(len(keys), np.uint32), texts=[make(first)])
    found, codes = np.unique(keys, return_inverse=True)
    return Column(codes.astype(np.uint32), texts=[make(int(key)) for key in found])


def _named(codes: Array, function: Any, unknown: str) -> Column:
    return _coded(codes, lambda code: name_of(function, code) or unknown)


def _lasted(start_ns: Array, end_ns: Array) -> Column:
    """Seconds; times are 0 where there is none."""
    return Column((end_ns - start_ns) / 1e9, (start_ns == 0) | (end_ns <= start_ns))


def _rate(n_bytes: Array, start_ns: Array, end_ns: Array) -> Column:
    """Bits per second; times are 0 where there is none."""
    lasted_ns = end_ns - start_ns
    missing = (start_ns == 0) | (lasted_ns <= 0) | (n_bytes == 0)
    return Column(n_bytes * 8e9 / np.where(missing, 1, lasted_ns), missing)


# The findings of a subflow: a bit for each kind, in this order.

_WHATS = (
    "no_handshake", "one_direction", "truncated_header", "captured_twice", "window_too_large", "unseen_data",
    "not_closed", "vantage_unknown", "vantage_middle", "vantage_receiver", "queued_at_sender", "send_times_coarse",
    "send_times_estimated", "send_times_shifted", "send_times_unknown", "not_replayed", "window_exceeded",
    "window_unmatched", *OF_ALL_CONNECTIONS,
)  # fmt: skip
_MUCH_UNSEEN = 1 << len(_WHATS)
"""A further bit: so much data is missing that the subflow is poor."""


def _wrong_with(s: Array, exceeded: Array, unmatched: Array, of_all: Mapping[str, int]) -> Array:
    """of_all: findings of all subflows that last longer than until then, nanoseconds since 1970."""
    vantage, sender = s["vantage"], s["vantage"] == lib.RW_VANTAGE_SENDER
    timestamps = s["send_times"] == lib.RW_SEND_TIMES_TIMESTAMPS
    shifted = s["send_times"] == lib.RW_SEND_TIMES_ROUND_TRIP
    close = s["last_ns"] - s["first_ns"] < s["packets"].astype(np.int64) * _COARSE_SPACING_NS
    coarse = (s["rtt_samples"] == 0) | (s["rtt_min_us"] < _COARSE_BELOW_US) | close
    away = (vantage == lib.RW_VANTAGE_MIDDLE) | (vantage == lib.RW_VANTAGE_RECEIVER)
    bits = {
        "no_handshake": s["handshake"] == 0,
        "one_direction": s["one_direction"] != 0,
        "truncated_header": s["cut"] != 0,
        "captured_twice": s["copied"] != 0,
        "window_too_large": s["window_too_large"] != 0,
        "unseen_data": s["unseen_bytes"] != 0,
        "not_closed": s["closed"] == 0,
        "vantage_unknown": vantage == lib.RW_VANTAGE_UNKNOWN,
        "vantage_middle": vantage == lib.RW_VANTAGE_MIDDLE,
        "vantage_receiver": vantage == lib.RW_VANTAGE_RECEIVER,
        "queued_at_sender": sender & timestamps,
        "send_times_coarse": timestamps & coarse,
        "send_times_estimated": timestamps & ~coarse,
        "send_times_shifted": shifted,
        "send_times_unknown": ~timestamps & ~shifted & away,
        "not_replayed": s["replayed"] == 0,
        "window_exceeded": exceeded,
        "window_unmatched": unmatched,
    }
    wrong = np.where(s["unseen_bytes"] > s["bytes"] * POOR_UNSEEN, _MUCH_UNSEEN, 0)
    bits |= {what: s["last_ns"] >= since_ns for what, since_ns in of_all.items()}
    for place, what in enumerate(_WHATS):
        if what in bits:
            wrong |= bits[what].astype(np.int64) << place
    return wrong


def _whats(wrong: int) -> list[str]:
    return [what for place, what in enumerate(_WHATS) if wrong >> place & 1]


class Senders:
    """The algorithm that each sender most likely ran. Most subflows have too few ACKs and share one answer."""

    def __init__(self, windows: Mapping[str, Array], connections: Array, mptcp: Array) -> None:
        """windows: replayed candidate -> its rows of the subflows.

        connections, mptcp: of each subflow, the number of its connection, and whether that is MPTCP.
        """
        count = len(connections)
        self.found = [UNKNOWN]
        self.codes = np.zeros(count, np.uint32)
        self.exceeded, self.unmatched = np.zeros(count, bool), np.zeros(count, bool)
        enough = np.zeros(count, bool)
        for rows in windows.values():
            enough |= (rows["full_rows"] >= FULL_ROWS_MIN) | (rows["paced_rows"] >= PACED_ROWS_MIN)
        beside: dict[int, list[int]] = {}
        for place in np.flatnonzero(enough).tolist():
            beside.setdefault(int(connections[place]), []).append(place)
        for places in beside.values():
            rows_of_each = [{name: _plain(rows[place]) for name, rows in windows.items()} for place in places]
            for place, sender in zip(places, judged(rows_of_each, bool(mptcp[places[0]])), strict=True):
                self.codes[place] = len(self.found)
                self.found.append(sender)
                self.exceeded[place], self.unmatched[place] = sender.is_exceeded, sender.is_unmatched


def _plain(row: Any) -> dict[str, int]:
    return dict(zip(row.dtype.names, row.item(), strict=True))


class ConnectionTable:
    """Consecutive connections, with all of their subflows."""

    def __init__(
        self,
        connections: Array,
        subflows: Array,
        windows: Mapping[str, Array],
        origins: Sequence[int],
        of_all: Mapping[str, int],
    ) -> None:
        """Rows of the core. windows: candidate for the sender's algorithm -> rows. origins: each file's capture.
        of_all: as of_all_connections finds them."""
        self._c, self._s, self._origins = connections, subflows, origins
        mptcp = np.repeat(connections["mptcp"], connections["subflows"])
        self._senders = Senders(windows, subflows["connection"], mptcp)
        self._wrong = _wrong_with(subflows, self._senders.exceeded, self._senders.unmatched, of_all)
        self.counts = connections["subflows"]
        """The number of subflows of each connection, at least one."""
        self._starts = (connections["first_subflow"] - connections["first_subflow"][:1]).astype(np.int64)
        self._verdicts = _coded(self._wrong, _verdict)

    def __len__(self) -> int:
        return len(self._c)

    def subflows(self) -> Columns:
        """In the order of Subflow's fields."""
        return {f.name: self._subflow_column(f.name, f.type == "bool") for f in fields(Subflow)}

    def _subflow_column(self, name: str, is_bool: bool) -> Column:
        derive = _SUBFLOW.get(name)
        if derive:
            return derive(self)
        return Column(self._s[name] != 0 if is_bool else self._s[name])

    def connections(self) -> Columns:
        """In the order of Connection's fields, without `subflows`."""
        names = [f for f in fields(Connection) if f.name != "subflows"]
        return {f.name: self._connection_column(f.name, f.type == "bool") for f in names}

    def _connection_column(self, name: str, is_bool: bool) -> Column:
        derive = _CONNECTION.get(name)
        if derive:
            return derive(self)
        return Column(self._c[name] != 0 if is_bool else self._c[name])

    @property
    def verdict_places(self) -> Array:
        """For each connection the index in VERDICTS of its verdict, which is the worst of its subflows'."""
        texts = self._verdicts.texts or ()
        ranks = np.array([VERDICTS.index(v) for v in texts])[self._verdicts.values]
        return np.maximum.reduceat(ranks, self._starts)

    @property
    def main_subflows(self) -> Array:
        """For each connection the index of the subflow that sent most bytes; of equal ones, the first."""
        places = np.arange(len(self._s))
        owners = np.repeat(np.arange(len(self)), self.counts)
        order = np.lexsort((places, -self._s["bytes"].astype(np.int64), owners))
        return np.asarray(order[self._starts])

    def sums(self, values: Array) -> Array:
        """For each connection the sum of its subflows' values. values: a number, or a row of numbers, of each."""
        return np.asarray(np.add.reduceat(values, self._starts))

    def add_quality(self, quality: ConnectionQuality) -> None:
        """Counts each connection, with its bytes, under its verdict."""
        for place, verdict in enumerate(VERDICTS):
            of_verdict = self.verdict_places == place
            quality[verdict]["connections"] += int(of_verdict.sum())
            quality[verdict]["bytes"] += int(self._c["data_bytes"][of_verdict].sum())

    def _wrong_in_connections(self) -> Array:
        return np.bitwise_or.reduceat(self._wrong, self._starts)

    def objects(self, places: Array | range | None = None) -> list[Connection]:
        """The connections as objects, all or those at these indices."""
        chosen = np.asarray(range(len(self)) if places is None else places, np.int64)
        counts = self.counts[chosen].astype(np.int64)
        ends = np.cumsum(counts)
        rows = np.arange(counts.sum()) + np.repeat(self._starts[chosen] - (ends - counts), counts)
        subflows = [Subflow(*row) for row in _rows(self.subflows(), rows)]
        bounds = zip((ends - counts).tolist(), ends.tolist(), strict=True)
        rows_of_connections = zip(_rows(self.connections(), chosen), bounds, strict=True)
        return [Connection(*(*row, subflows[begin:end])) for row, (begin, end) in rows_of_connections]

    @property
    def subflow_rows(self) -> Array:
        """The core's rows of the subflows, for what is no field of Subflow."""
        return self._s

    @property
    def first_connection(self) -> int:
        return int(self._c["id"][0])

    @property
    def first_subflow(self) -> int:
        """The index of the table's first subflow among all subflows of the replay."""
        return int(self._c["first_subflow"][0])

    @property
    def subflow_count(self) -> int:
        return len(self._s)

    def windows(self, rows: Mapping[str, Array]) -> Iterator[Window]:
        """Windows of the subflows that have rows, by subflow. rows: algorithm -> rw_window_row of the subflows."""
        seen = np.zeros(len(self._s), bool)
        for of_algorithm in rows.values():
            seen |= of_algorithm["rows"] != 0
        for place in np.flatnonzero(seen).tolist():
            connection, subflow = int(self._s["connection"][place]), int(self._s["id"][place])
            for label, of_algorithm in rows.items():
                row = _plain(of_algorithm[place])
                if row["rows"]:
                    mean, most = row["sum_q16"] / row["rows"] / 65536, row["most_q16"] / 65536
                    yield Window(connection, subflow, label, mean, most, row["last_q16"] / 65536)

    def window_values(self, rows: Mapping[str, Array]) -> Column:
        """For each subflow a row of mean, maximum and last window under each algorithm, in segments.

        NaN where an algorithm has no rows; missing where no algorithm has any.
        """
        values = np.full((len(self._s), 3 * len(rows)), np.nan)
        for place, of_algorithm in enumerate(rows.values()):
            count = of_algorithm["rows"]
            some = count != 0
            values[some, 3 * place] = of_algorithm["sum_q16"][some] / count[some] / 65536
            values[some, 3 * place + 1] = of_algorithm["most_q16"][some] / 65536
            values[some, 3 * place + 2] = of_algorithm["last_q16"][some] / 65536
        return Column(values, np.isnan(values).all(axis=1))

    def with_bulk(self, bytes_min: int) -> Array:
        """Indices of the connections that have a subflow of at least `bytes_min` bytes."""
        return np.flatnonzero(np.maximum.reduceat(self._s["bytes"], self._starts) >= bytes_min)


def _rows(columns: Columns, places: Array) -> Any:
    return zip(*(column.take(places).tolist() for column in columns.values()), strict=True)


def _verdict(wrong: int) -> str:
    return of_subflow(_whats(wrong), bool(wrong & _MUCH_UNSEEN))


def _where_zero(values: Array) -> Column:
    return Column(values, values == 0)


def _round_trip(name: str) -> Callable[[ConnectionTable], Column]:
    return lambda t: Column(t._s[name], t._s["rtt_samples"] == 0)


def _interface(t: ConnectionTable) -> Column:
    keys = t._s["file"].astype(np.int64) << 32 | t._s["interface"]
    return _coded(keys, lambda key: f"{t._origins[key >> 32]}.{key & 0xFFFFFFFF}")


_SUBFLOW: Mapping[str, Callable[[ConnectionTable], Column]] = {
    "src": lambda t: Column(t._s["src"], family=t._s["family"]),
    "dst": lambda t: Column(t._s["dst"], family=t._s["family"]),
    "rtt_min_us": _round_trip("rtt_min_us"),
    "rtt_median_us": _round_trip("rtt_median_us"),
    "rtt_p95_us": _round_trip("rtt_p95_us"),
    "goodput_bps": lambda t: _rate(t._s["bytes"], t._s["first_data_ns"], t._s["last_ack_ns"]),
    "duration_s": lambda t: Column((t._s["last_ns"] - t._s["first_ns"]) / 1e9),
    "handshake_rtt_us": lambda t: _where_zero(t._s["handshake_rtt_us"]),
    "file": lambda t: _coded(t._s["file"], lambda file: t._origins[file]),
    "interface": _interface,
    "vantage": lambda t: _named(t._s["vantage"], lib.rw_vantage_name, "unknown"),
    "send_times": lambda t: _named(t._s["send_times"], lib.rw_send_times_name, ""),
    "ecn": lambda t: _named(t._s["ecn"], lib.rw_ecn_mode_name, "unknown"),
    "quality": lambda t: _coded(t._wrong, _whats),
    "verdict": lambda t: t._verdicts,
    "unreliable": lambda t: _coded(t._wrong, lambda wrong: unreliable(_whats(wrong))),
    "first_unseen_ns": lambda t: _where_zero(t._s["first_unseen_ns"]),
    "sender_algorithm": lambda t: Column(t._senders.codes, texts=t._senders.found),
    "bottleneck": lambda t: _where_zero(t._s["bottleneck"]),
    "bottleneck_state": lambda t: _named(t._s["bottleneck_state"], lib.rw_bottleneck_state_name, "not_asked"),
}
"""Fields of Subflow that are not copied from rw_subflow_row."""


def _token(t: ConnectionTable) -> Column:
    known = t._c["has_token"] != 0
    return _coded(
        np.where(known, t._c["token"].astype(np.int64), -1), lambda token: None if token < 0 else f"0x{token:08x}"
    )


_CONNECTION: Mapping[str, Callable[[ConnectionTable], Column]] = {
    "kind": lambda t: _coded(t._c["mptcp"] != 0, lambda mptcp: "mptcp" if mptcp else "tcp"),
    "version": lambda t: Column(t._c["version"].astype(np.int64), t._c["version"] < 0),
    "token": _token,
    "bytes": lambda t: Column(t._c["data_bytes"]),
    "goodput_bps": lambda t: _rate(t._c["data_bytes"], t._c["first_data_ns"], t._c["last_ack_ns"]),
    "completion_s": lambda t: _lasted(t._c["first_data_ns"], t._c["last_ack_ns"]),
    "retransmitted_packets": lambda t: Column(np.add.reduceat(t._s["retransmitted_packets"], t._starts)),
    "quality": lambda t: _coded(t._wrong_in_connections(), lambda wrong: sorted(_whats(wrong))),
    "verdict": lambda t: Column(t.verdict_places.astype(np.uint32), texts=VERDICTS),
    "unreliable": lambda t: _coded(t._wrong_in_connections(), lambda wrong: unreliable(_whats(wrong))),
}
"""Fields of Connection that are not copied from rw_connection_row."""
