"""Replays: the core's batches as Arrow tables, its tables as records."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rewindow.core import Choice, check, choices_for, ffi, lib, name_of
from rewindow.errors import BadOption

FLAG_NAMES = ("dup", "sack", "ece", "retransmit", "app_limited", "rwnd_limited")
"""By bit, from the lowest."""
_RAISES = 64
_UNSET = np.uint64(0xFFFFFFFFFFFFFFFF)

PHASES = [p for i in range(16) if (p := name_of(lib.rw_phase_name, i))]
MARKS = [m for i in range(32) if (m := name_of(lib.rw_mark_name, i))]
ODDITIES = [o for i in range(lib.RW_ODDITY_COUNT) if (o := name_of(lib.rw_oddity_name, i))]

LINK_TYPE_RAW = 101

EVENT_COLUMNS = (
    ("time_ns", "int64_t", np.int64),
    ("connection", "uint32_t", np.uint32),
    ("subflow", "uint32_t", np.uint32),
    ("una", "uint32_t", np.uint32),
    ("ack", "uint32_t", np.uint32),
    ("acked_bytes", "uint32_t", np.uint32),
    ("acked_segments", "uint32_t", np.uint32),
    ("rtt_us", "uint32_t", np.uint32),
    ("srtt_us", "uint32_t", np.uint32),
    ("in_flight_bytes", "uint32_t", np.uint32),
    ("flags", "uint16_t", np.uint16),
)


def link_type_name(number: int) -> str:
    """The core's name of a link type; one that it does not decode is called by its number."""
    return name_of(lib.rw_link_type_name, number) or f"link_type_{number}"


@dataclass
class SenderAlgorithm:
    """What the sender most likely ran: the single-path algorithm whose window the flight equalled most often.

    match: how often, of the ACKs before which the window was full; None when too few of them were seen.
    """

    name: str
    match: float | None


SENDER_CANDIDATES = ("newreno", "cubic")
_MATCH_ROWS_MIN = 50
_MATCH_MIN = 0.5
_MATCH_MARGIN = 0.2
"""Over the next candidate: in slow start all of them have the same window."""


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
    backup: bool
    replayed: bool
    quality: list[str]
    sender_algorithm: SenderAlgorithm


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
    subflows: list[Subflow] = field(default_factory=list)


@dataclass
class Summary:
    """decoded_by: link types that the core did not decode itself, and what did."""

    packets: int
    tcp_packets: int
    bytes: int
    duration_s: float
    first_ns: int
    last_ns: int
    link_types: list[str]
    interfaces: int
    oddities: dict[str, dict[str, Any]]
    vantage: str
    rows: int
    decoded_by: dict[str, str] = field(default_factory=dict)


@dataclass
class Decoded:
    """What the files that the core reads have to do with the captures, where another program decoded some.

    origins: of each file, which capture it comes from. by: link types, and what decoded them.
    copies: so many of the last files hold records of those before; copied_records: how many were looked at for them.
    replaced: captures of which the core reads only what was decoded; replaced_records, replaced_link_types: theirs.
    """

    origins: list[int]
    copies: int = 0
    replaced: set[int] = field(default_factory=set)
    by: dict[str, str] = field(default_factory=dict)
    copied_records: int = 0
    replaced_records: int = 0
    replaced_link_types: list[str] = field(default_factory=list)


@dataclass
class Result:
    """A whole replay in memory."""

    acks: pa.Table
    marks: pa.Table
    summary: Summary
    connections: list[Connection]


@dataclass
class Batch:
    acks: pa.RecordBatch
    marks: pa.RecordBatch


def _column(pointer: Any, ctype: str, dtype: Any, n: int) -> npt.NDArray[Any]:
    if n == 0:
        return np.empty(0, dtype)
    buffer = ffi.buffer(ffi.cast(f"const {ctype} *", pointer), n * np.dtype(dtype).itemsize)
    return np.frombuffer(buffer, dtype).copy()  # the core reuses its columns at the next call


def _segments(pointer: Any, n: int) -> npt.NDArray[np.float64]:
    q16 = _column(pointer, "uint64_t", np.uint64, n)
    segments: npt.NDArray[np.float64] = q16 / 65536.0
    segments[q16 == _UNSET] = np.inf
    return segments


def _phase_column(codes: npt.NDArray[np.uint8]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int8)), pa.array(PHASES))


def _flag_text(bits: int) -> str:
    return "|".join(name for i, name in enumerate(FLAG_NAMES) if bits >> i & 1)


_FLAG_TEXTS = pa.array([_flag_text(b) for b in range(1 << len(FLAG_NAMES))])


def flags_column(flags: npt.NDArray[np.uint16]) -> pa.DictionaryArray:
    """Flag bits as `|`-joined names, in the contract's order."""
    return pa.DictionaryArray.from_arrays(pa.array((flags & 63).astype(np.int8)), _FLAG_TEXTS)


def acks_schema(labels: Sequence[str]) -> pa.Schema:
    """Event columns, then cwnd_before, cwnd, ssthresh and phase of each algorithm, prefixed by its label."""
    fields = [(name, pa.from_numpy_dtype(dtype)) for name, _, dtype in EVENT_COLUMNS if name != "flags"]
    fields += [("flags", pa.dictionary(pa.int8(), pa.string())), ("raises", pa.bool_())]
    for label in labels:
        fields += [(f"{label}.{c}", pa.float64()) for c in ("cwnd_before", "cwnd", "ssthresh")]
        fields.append((f"{label}.phase", pa.dictionary(pa.int8(), pa.string())))
    return pa.schema(fields)


MARKS_SCHEMA = pa.schema(
    [
        ("time_ns", pa.int64()),
        ("row", pa.uint64()),
        ("connection", pa.uint32()),
        ("subflow", pa.uint32()),
        ("kind", pa.dictionary(pa.int8(), pa.string())),
        ("value", pa.uint32()),
    ]
)


class Replay:
    """A replay under way: iterate over it for batches, then read `summary` and `connections`."""

    def __init__(
        self,
        fds: Sequence[int],
        names: Sequence[str],
        choices: Sequence[Choice],
        *,
        batch_rows: int = 65536,
        decoded: Decoded | None = None,
    ) -> None:
        self.choices = list(choices)
        labels = [c.label for c in self.choices]
        if len(set(labels)) != len(labels):
            raise BadOption(f"an algorithm is named twice: {', '.join(labels)}")
        self._decoded = decoded or Decoded(list(range(len(fds))))
        self._names = [names[origin] for origin in self._decoded.origins]
        self.schema = acks_schema(labels)
        error, handle = ffi.new("rw_error *"), ffi.new("rw_replay **")
        array, keep = choices_for(self.choices)
        limits = ffi.new("rw_limits *", {"batch_rows": batch_rows, "copies": self._decoded.copies})
        status = lib.rw_replay_open(
            handle, ffi.new("int[]", list(fds)), len(fds), array, len(self.choices), limits, error
        )
        del keep
        check(status, error, self._names)
        self._handle = ffi.gc(handle[0], lib.rw_replay_close)
        self._ended = False

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        if self._handle is not None:
            ffi.release(self._handle)
            self._handle = None

    def __iter__(self) -> Iterator[Batch]:
        batch, error = ffi.new("rw_batch *"), ffi.new("rw_error *")
        while not self._ended:
            check(lib.rw_replay_next(self._handle, batch, error), error, self._names)
            if batch.rows == 0 and batch.marks == 0:
                self._ended = True
                return
            yield Batch(self._acks(batch), _marks(batch))

    def _acks(self, batch: Any) -> pa.RecordBatch:
        n = batch.rows
        columns: list[Any] = []
        for name, ctype, dtype in EVENT_COLUMNS:
            values = _column(getattr(batch, name), ctype, dtype, n)
            if name == "flags":
                columns += [flags_column(values), pa.array((values & _RAISES) != 0)]
            elif name in ("rtt_us", "srtt_us"):
                columns.append(pa.array(values, mask=values == 0))
            else:
                columns.append(pa.array(values))
        for k in range(len(self.choices)):
            columns += [
                pa.array(_segments(getattr(batch, c)[k], n)) for c in ("cwnd_before_q16", "cwnd_q16", "ssthresh_q16")
            ]
            columns.append(_phase_column(_column(batch.phase[k], "uint8_t", np.uint8, n)))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def progress(self) -> float:
        """How much of the replay is done, 0 to 1."""
        done, total = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        lib.rw_replay_progress(self._handle, done, total)
        return min(done[0] / total[0], 1.0) if total[0] else 0.0

    def run(self) -> None:
        """Draws what is left, for the summary and the connections alone."""
        for _ in self:
            pass

    def collect(self) -> Result:
        batches = list(self)
        return Result(
            pa.Table.from_batches([b.acks for b in batches], schema=self.schema),
            pa.Table.from_batches([b.marks for b in batches], schema=MARKS_SCHEMA),
            self.summary(),
            self.connections(),
        )

    def _summary(self) -> Any:
        s = ffi.new("rw_summary *")
        lib.rw_replay_summary(self._handle, s)
        return s

    def unknown_link_types(self) -> list[int]:
        """Link types that the core does not decode, in the order of their first packet; of the first 16 link types."""
        s = self._summary()
        return [n for n in s.link_type[0 : s.link_types] if name_of(lib.rw_link_type_name, n) is None]

    def summary(self) -> Summary:
        s = self._summary()
        return Summary(
            packets=s.packets,
            tcp_packets=s.tcp_packets,
            bytes=s.bytes,
            duration_s=(s.last_ns - s.first_ns) / 1e9,
            first_ns=s.first_ns,
            last_ns=s.last_ns,
            link_types=self._link_types(s),
            interfaces=s.interfaces,
            oddities=self._oddities(s),
            vantage=name_of(lib.rw_vantage_name, s.vantage) or "unknown",
            rows=s.rows,
            decoded_by=dict(self._decoded.by),
        )

    def _link_types(self, s: Any) -> list[str]:
        """Those of the captures: what stands for a replaced one is raw IP, which the capture need not have been."""
        packets = {s.link_type[i]: s.link_type_packets[i] for i in range(s.link_types)}
        if LINK_TYPE_RAW in packets:
            packets[LINK_TYPE_RAW] -= self._decoded.replaced_records
        names = [link_type_name(number) for number, count in packets.items() if count]
        return list(dict.fromkeys(names + self._decoded.replaced_link_types))

    def _oddities(self, s: Any) -> dict[str, dict[str, Any]]:
        """first_offset is unknown, None, where another program read the file."""
        counts = {name: s.oddity[i] for i, name in enumerate(ODDITIES)}
        counts["unknown_link_type"] -= self._decoded.copied_records
        found: dict[str, dict[str, Any]] = {}
        for i, name in enumerate(ODDITIES):
            if counts[name]:
                file = s.oddity_file[i]
                origin = self._decoded.origins[file]
                here = file == origin and origin not in self._decoded.replaced
                found[name] = {
                    "count": counts[name],
                    "first_offset": s.oddity_offset[i] if here else None,
                    "file": origin,
                }
        return found

    def connections(self) -> list[Connection]:
        """In the order of their first packet. Before the replay has ended: who they are, without metrics."""
        count = ffi.new("uint32_t *")
        rows = lib.rw_replay_connections(self._handle, count)
        n = count[0]
        subs = lib.rw_replay_subflows(self._handle, count)
        return [_connection(rows[i], subs, self._sender_algorithm, self._decoded.origins) for i in range(n)]

    def _sender_algorithm(self, subflow: int) -> SenderAlgorithm:
        """Asks the candidates that were replayed with their defaults."""
        full, matched = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        found = []
        for k, choice in enumerate(self.choices):
            if choice.name not in SENDER_CANDIDATES or choice.options:
                continue
            lib.rw_replay_match(self._handle, subflow, k, full, matched)
            if full[0] >= _MATCH_ROWS_MIN:
                found.append((matched[0] / full[0], choice.name))
        if not found:
            return SenderAlgorithm("unknown", None)
        found.sort(reverse=True)
        best, second = found[0][0], found[1][0] if len(found) > 1 else 0.0
        told_apart = best >= _MATCH_MIN and best - second >= _MATCH_MARGIN
        return SenderAlgorithm(found[0][1] if told_apart else "unknown", best)


def _marks(batch: Any) -> pa.RecordBatch:
    n = batch.marks
    kinds = _column(batch.mark_kind, "uint8_t", np.uint8, n).astype(np.int8)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(_column(batch.mark_time_ns, "int64_t", np.int64, n)),
            pa.array(_column(batch.mark_row, "uint64_t", np.uint64, n)),
            pa.array(_column(batch.mark_connection, "uint32_t", np.uint32, n)),
            pa.array(_column(batch.mark_subflow, "uint32_t", np.uint32, n)),
            pa.DictionaryArray.from_arrays(pa.array(kinds), pa.array(MARKS)),
            pa.array(_column(batch.mark_value, "uint32_t", np.uint32, n)),
        ],
        schema=MARKS_SCHEMA,
    )


def _address(raw: Any, family: int) -> str:
    data = bytes(ffi.buffer(raw, 4 if family == 4 else 16))
    return str(ipaddress.ip_address(data))


def _rate(n_bytes: int, start_ns: int, end_ns: int) -> float | None:
    return n_bytes * 8e9 / (end_ns - start_ns) if end_ns > start_ns and n_bytes else None


def _subflow(row: Any, sender_algorithm: SenderAlgorithm, origins: Sequence[int]) -> Subflow:
    quality = []
    if not row.handshake:
        quality.append("no_handshake")
    if row.one_direction:
        quality.append("one_direction")
    if row.unseen_bytes:
        quality.append("unseen_data")
    if not row.closed:
        quality.append("not_closed")
    vantage = name_of(lib.rw_vantage_name, row.vantage) or "unknown"
    if vantage != "sender":
        quality.append(f"vantage_{vantage}")
    send_times = name_of(lib.rw_send_times_name, row.send_times) or ""
    if vantage == "sender" and send_times != "captured":
        quality.append("queued_at_sender")
    if not row.replayed:
        quality.append("not_replayed")
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
        backup=bool(row.backup),
        replayed=bool(row.replayed),
        quality=quality,
        sender_algorithm=sender_algorithm,
    )


def _connection(
    row: Any, subs: Any, sender_algorithm: Callable[[int], SenderAlgorithm], origins: Sequence[int]
) -> Connection:
    places = range(row.first_subflow, row.first_subflow + row.subflows)
    subflows = [_subflow(subs[i], sender_algorithm(i), origins) for i in places]
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
        subflows=subflows,
    )
