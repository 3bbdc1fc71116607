"""Replays: batches of the core, and its tables of a capture and its connections."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rewindow.controllers.registry import algorithms
from rewindow.controllers.steps import Step, step_of
from rewindow.core import Choice, check, choices_for, ffi, lib, name_of
from rewindow.errors import BadOption
from rewindow.findings.connections import Connection
from rewindow.findings.quality import ConnectionQuality, Quality, no_connections, of_all_connections, of_capture
from rewindow.findings.senders import is_candidate
from rewindow.findings.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa

    from rewindow.findings.tables import ConnectionTable

ODDITIES = [o for i in range(lib.RW_ODDITY_COUNT) if (o := name_of(lib.rw_oddity_name, i))]

LINK_TYPE_RAW = 101

TABLE_CONNECTIONS = 8192
"""Connections in one ConnectionTable."""


def link_type_name(number: int) -> str:
    """The core's name of a link type; the number where the core does not decode it."""
    return name_of(lib.rw_link_type_name, number) or f"link_type_{number}"


@dataclass
class Summary:
    """decoded_by: link types that the core did not decode itself -> the program that did.

    quality: of the capture. connection_quality: how many connections, and how many bytes, have each verdict.
    """

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
    quality: Quality = field(default_factory=Quality)
    connection_quality: ConnectionQuality = field(default_factory=no_connections)


@dataclass
class Decoded:
    """How the files that the core reads relate to the captures, where tshark decoded some packets.

    origins: for each file, the number of its capture. by: the program that decoded each link type.
    copies: how many files, the last ones, hold records of the files before them; copied_records: how many records
    tshark read for these copies.
    replaced: the captures that tshark decoded as a whole; the core reads tshark's output in their place.
    replaced_records, replaced_link_types: the records and link types of these captures.
    """

    origins: list[int]
    copies: int = 0
    replaced: set[int] = field(default_factory=set)
    by: dict[str, str] = field(default_factory=dict)
    copied_records: int = 0
    replaced_records: int = 0
    replaced_link_types: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Violation:
    """Steps of a controller on one connection that its specification does not allow.

    property_, step, row, time_ns: of the first of them; row: how many rows of the whole replay came before it.
    """

    connection: int
    algorithm: str
    count: int
    property_: str
    step: str
    row: int
    time_ns: int

    def as_json(self) -> dict[str, Any]:
        return {k.rstrip("_"): v for k, v in asdict(self).items()}


@dataclass(repr=False)
class Result:
    """A whole replay in memory."""

    acks: pa.Table
    marks: pa.Table
    sets: pa.Table
    """The sets that detectors of shared bottlenecks found, over time."""
    summary: Summary
    connections: list[Connection]

    def __repr__(self) -> str:
        return f"<rewindow.Result: {len(self.connections)} connections, {self.acks.num_rows} ACKs>"

    def _repr_html_(self) -> str:
        from rewindow.findings.html import connections_html

        s = self.summary
        about = f"{s.packets} packets, {s.duration_s:.2f} s, quality {s.quality.verdict}; {self.acks.num_rows} ACKs"
        return connections_html(about, self.connections)


@dataclass
class Batch:
    acks: pa.RecordBatch
    marks: pa.RecordBatch
    sets: pa.RecordBatch


class Replay:
    """A replay under way: iterate over it for batches, then read `summary` and `connections`."""

    def __init__(
        self,
        fds: Sequence[int],
        names: Sequence[str],
        choices: Sequence[Choice],
        *,
        batch_rows: int = 65536,
        jobs: int = 1,
        decoded: Decoded | None = None,
        detectors: Sequence[Choice] = (),
        across: Choice | None = None,
        monitor: bool = False,
        transitions: bool = False,
        hidden: Sequence[str] = (),
        candidates: Sequence[Choice] = (),
        segments_of: int | None = None,
    ) -> None:
        """monitor: checks each step of a controller with a specification; transitions: keeps the steps in the batches.

        hidden: labels of algorithms that are replayed, but have no columns. candidates: algorithms that are replayed
        only to name the senders. jobs: threads that share the work. segments_of: a connection whose `segments` are
        wanted.
        """
        self.choices = [*choices, *candidates]
        labels = [c.label for c in self.choices]
        self._shown = [place for place, choice in enumerate(choices) if choice.label not in hidden]
        if len(set(labels)) != len(labels):
            raise BadOption(f"an algorithm is named twice: {', '.join(labels)}")
        self._decoded = decoded or Decoded(list(range(len(fds))))
        self._names = [names[origin] for origin in self._decoded.origins]
        error, handle = ffi.new("rw_error *"), ffi.new("rw_replay **")
        array, keep = choices_for(self.choices)
        limits = ffi.new(
            "rw_limits *",
            {
                "batch_rows": batch_rows,
                "jobs": jobs,
                "copies": self._decoded.copies,
                "monitor": monitor,
                "transitions": transitions,
                "candidates": len(candidates),
                "segments": segments_of is not None,
                "segments_of": segments_of or 0,
            },
        )
        watching, keep_watching = choices_for(detectors)
        limits.detector, limits.detectors = watching, len(detectors)
        over_all, keep_over_all = choices_for([across] if across else [])
        limits.shared_bottlenecks = over_all if across else ffi.NULL
        status = lib.rw_replay_open(
            handle, ffi.new("int[]", list(fds)), len(fds), array, len(self.choices), limits, error
        )
        del keep, watching, keep_watching, over_all, keep_over_all
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

    @functools.cached_property
    def schema(self) -> pa.Schema:
        from rewindow.replays.columns import acks_schema

        shown = [self.choices[place] for place in self._shown]
        rate_based = {a.name for a in algorithms() if a.is_rate_based}
        return acks_schema([c.label for c in shown], {c.label for c in shown if c.name in rate_based})

    def _draw(self) -> Iterator[Any]:
        """The core's batches: each is valid until the next one."""
        batch, error = ffi.new("rw_batch *"), ffi.new("rw_error *")
        while not self._ended:
            check(lib.rw_replay_next(self._handle, batch, error), error, self._names)
            if batch.rows == 0 and batch.marks == 0 and batch.segments == 0:
                self._ended = True
                return
            yield batch

    def __iter__(self) -> Iterator[Batch]:
        from rewindow.replays import columns

        for batch in self._draw():
            yield Batch(columns.acks(batch, self.schema, self._shown), columns.marks(batch), columns.sets(batch))

    def steps(
        self, connection: int | None = None, report: Callable[[float], None] = lambda done: None
    ) -> Iterator[Step]:
        """Draws the rest of the replay for the steps alone; it was opened with transitions=True.

        connection: only the steps of this one. report: called with the progress, 0 to 1, also while there are no steps.
        """
        for batch in self._draw():
            for i in range(batch.transitions):
                if connection in (None, batch.transition[i].connection):
                    yield step_of(batch.transition[i])
            report(self.progress())

    def connection_count(self) -> int:
        """How many connections the survey found."""
        return int(lib.rw_replay_connections(self._handle))

    def progress(self) -> float:
        """How much of the replay is done, 0 to 1."""
        done, total = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        lib.rw_replay_progress(self._handle, done, total)
        return min(done[0] / total[0], 1.0) if total[0] else 0.0

    def segments(self, report: Callable[[float], None] = lambda done: None) -> Iterator[pa.RecordBatch]:
        """Draws the rest of the replay for the segments alone (columns.SEGMENTS_SCHEMA); it was opened with
        `segments_of`. report: called with the progress, 0 to 1."""
        from rewindow.replays import columns

        for batch in self._draw():
            if batch.segments:
                yield columns.segments(batch)
            report(self.progress())

    def run(self, report: Callable[[float], None] = lambda done: None) -> None:
        """Draws the rest for the summary and the connections alone. report: called with the progress, 0 to 1."""
        for _ in self._draw():
            report(self.progress())
        report(1)

    def collect(self) -> Result:
        import pyarrow as pa

        from rewindow.replays.columns import MARKS_SCHEMA, SETS_SCHEMA

        batches = list(self)
        return Result(
            pa.Table.from_batches([b.acks for b in batches], schema=self.schema),
            pa.Table.from_batches([b.marks for b in batches], schema=MARKS_SCHEMA),
            pa.Table.from_batches([b.sets for b in batches], schema=SETS_SCHEMA),
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
        oddities = self._oddities(s)
        connection_quality = no_connections()
        for table in self.tables():
            table.add_quality(connection_quality)
        return Summary(
            packets=s.packets,
            tcp_packets=s.tcp_packets,
            bytes=s.bytes,
            duration_s=(s.last_ns - s.first_ns) / 1e9,
            first_ns=s.first_ns,
            last_ns=s.last_ns,
            link_types=self._link_types(s),
            interfaces=s.interfaces,
            oddities=oddities,
            quality=of_capture(oddities, s.packets, lib.rw_replay_subflows(self._handle), s.first_ns),
            connection_quality=connection_quality,
            vantage=name_of(lib.rw_vantage_name, s.vantage) or "unknown",
            rows=s.rows,
            decoded_by=dict(self._decoded.by),
        )

    def _link_types(self, s: Any) -> list[str]:
        """The captures' own link types, also of a replaced capture, which the core reads as raw IP."""
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
                    "first_record": s.oddity_record[i] if here else None,
                    "first_ns": s.oddity_ns[i],
                    "file": origin,
                }
        return found

    def connections(self) -> list[Connection]:
        """In the order of their first packet. Before the replay has ended they have endpoints but no metrics."""
        return list(self.each_connection())

    def each_connection(self) -> Iterator[Connection]:
        """The connections, one by one."""
        for table in self.tables():
            yield from table.objects()

    def tables(self) -> Iterator[ConnectionTable]:
        """The connections as columns, some thousands at once."""
        from rewindow.findings.tables import ConnectionTable, rows_of

        candidates = {c.name: k for k, c in enumerate(self.choices) if is_candidate(c.name, c.options)}
        s = self._summary()
        of_all = of_all_connections(self._oddities(s), s.packets)
        for first in range(0, lib.rw_replay_connections(self._handle), TABLE_CONNECTIONS):
            fill = functools.partial(lib.rw_replay_connection_rows, self._handle, first)
            connections = rows_of("rw_connection_row", fill, TABLE_CONNECTIONS)
            begin, count = int(connections["first_subflow"][0]), int(connections["subflows"].sum())
            subflows = rows_of(
                "rw_subflow_row", functools.partial(lib.rw_replay_subflow_rows, self._handle, begin), count
            )
            windows = {name: self._window_rows(k, begin, count) for name, k in candidates.items()}
            yield ConnectionTable(connections, subflows, windows, self._decoded.origins, of_all)

    def _window_rows(self, choice: int, first: int, count: int) -> Any:
        from rewindow.findings.tables import rows_of

        fill = functools.partial(lib.rw_replay_window_rows, self._handle, choice, first)
        return rows_of("rw_window_row", fill, count)

    def windows(self, labels: Sequence[str]) -> Iterator[Window]:
        """Windows of each subflow that has rows, in the order of connections, under the algorithms of these labels."""
        if not labels:
            return
        for table in self.tables():
            yield from table.windows(self.window_rows(table, labels))

    def window_rows(self, table: ConnectionTable, labels: Sequence[str]) -> dict[str, Any]:
        """Label of the algorithm -> rw_window_row of the table's subflows."""
        places = {c.label: k for k, c in enumerate(self.choices)}
        return {label: self._window_rows(places[label], table.first_subflow, table.subflow_count) for label in labels}

    def violations(self) -> Iterator[Violation]:
        """The connections on which a controller took a step that its specification does not allow."""
        for first in range(0, lib.rw_replay_connections(self._handle), TABLE_CONNECTIONS):
            of_choices = self._violation_rows(first)
            if not of_choices:
                return
            for place in sorted({place for rows in of_choices for place in rows["count"].nonzero()[0].tolist()}):
                for choice, rows in zip(self.choices, of_choices, strict=True):
                    if (row := rows[place])["count"]:
                        yield Violation(
                            first + place,
                            choice.label,
                            int(row["count"]),
                            name_of(lib.rw_check_name, int(row["first_check"])) or "unknown",
                            name_of(lib.rw_transition_name, int(row["first_transition"])) or "unknown",
                            int(row["first_row"]),
                            int(row["first_ns"]),
                        )

    def _violation_rows(self, first: int) -> list[Any]:
        """For each choice, rw_violation_row of the connections from `first` on."""
        from rewindow.findings.tables import rows_of

        found = []
        for k in range(len(self.choices)):
            fill = functools.partial(lib.rw_replay_violation_rows, self._handle, k, first)
            found.append(rows_of("rw_violation_row", fill, TABLE_CONNECTIONS))
        return found

    def violation_counts(self, table: ConnectionTable) -> Any:
        """An array: the number of steps that are not allowed, for each connection of the table."""
        import numpy as np

        rows = self._violation_rows(table.first_connection)
        return sum((r["count"] for r in rows), np.zeros(len(table), np.uint64))

    def monitored_steps(self, table: ConnectionTable) -> Any:
        """An array: the number of steps that the monitor checked, for each connection of the table."""
        import numpy as np

        places = range(table.first_connection, table.first_connection + len(table))
        return np.fromiter((lib.rw_replay_monitored_of(self._handle, c) for c in places), np.uint64, len(table))

    def conformance(self, connection: int) -> dict[str, Any]:
        """The monitor's result for a connection: `steps` checked, `violations`, and by row the `first` of them."""
        row = ffi.new("rw_violation_row *")
        count, first = 0, None
        for k, choice in enumerate(self.choices):
            lib.rw_replay_violations(self._handle, connection, k, row)
            if not row.count:
                continue
            count += row.count
            if first is None or row.first_row < first["row"]:
                first = {
                    "algorithm": choice.label,
                    "property": name_of(lib.rw_check_name, row.first_check) or "unknown",
                    "step": name_of(lib.rw_transition_name, row.first_transition) or "unknown",
                    "path": int(row.first_path),
                    "row": int(row.first_row),
                    "time_ns": int(row.first_ns),
                }
        steps = int(lib.rw_replay_monitored_of(self._handle, connection))
        return {"steps": steps, "violations": count, "first": first}

    def monitored(self) -> int:
        """Steps that the monitor has checked."""
        return int(lib.rw_replay_monitored(self._handle))
