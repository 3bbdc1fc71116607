"""An opened capture, from which replays are started. tshark decodes what the core does not."""

import tempfile
from collections.abc import Sequence
from typing import IO, Any, cast

from rewindow.captures.dissector import Dissection, NotUnderstood, dissect, dissect_format
from rewindow.captures.files import Source, opened
from rewindow.captures.tshark import PROGRAM
from rewindow.core import Choice, extract
from rewindow.errors import DissectorFailed, NotACapture
from rewindow.findings.senders import CANDIDATE_OPTIONS
from rewindow.replays.replay import Decoded, Replay, Result, link_type_name

ACROSS_OPTIONS: dict[str, object] = {"grouping": "correlation", "N": 20}
"""Options of the detector sbd over all flows of a capture, which share one clock. N: the most recent intervals, those
that RFC 8382 weighs fully (F). docs/decisions/bottlenecks.md compares these options with others."""

_PCAPNG_LINK_TYPE_MAX = 0xFFFF


class Capture:
    """One observation: one capture, or several merged by time. Use it as a context manager, or close it."""

    def __init__(self, sources: Sequence[Source]) -> None:
        if not sources:
            raise ValueError("no capture given")
        self.names: list[str] = []
        self._files: list[IO[bytes]] = []
        self._copies: list[IO[bytes]] = []
        self._decoded = Decoded(list(range(len(sources))))
        self._link_types_decoded = False
        try:
            for source in sources:
                name, file = opened(source)
                self.names.append(name)
                self._files.append(file)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<rewindow.Capture {', '.join(self.names)}{'' if self._files else ' (closed)'}>"

    def __enter__(self) -> "Capture":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        for file in (*self._files, *self._copies):
            file.close()
        self._files, self._copies = [], []

    def stream(
        self,
        algorithms: str | Choice | Sequence[str | Choice] = (),
        *,
        batch_rows: int = 65536,
        jobs: int = 1,
        detectors: str | Choice | Sequence[str | Choice] = (),
        bottlenecks: bool | Choice = False,
        monitor: bool = False,
        transitions: bool = False,
        hidden: Sequence[str] = (),
        candidates: Sequence[Choice] = (),
        segments_of: int | None = None,
    ) -> Replay:
        """Starts a replay whose batches are drawn one by one: memory stays bounded however long the capture is.

        algorithms: one or several, by name or as a Choice with options. Only these are replayed: to have senders named,
        set `candidates`; to have flows compared, set `bottlenecks`.
        detectors: detectors of shared bottlenecks whose sets are reported; those that algorithms need run anyway. One
        that is given with options has them for all algorithms that use it, candidates too.
        bottlenecks: compare the flows of all connections, to find which share one (`Subflow.bottleneck`); True, or the
        detector sbd with options of its own.
        monitor: check each step of a controller with a specification; transitions: keep those steps in the batches.
        hidden: labels of algorithms that are replayed only for the summary, and have no columns.
        candidates: algorithms that are replayed only to name the senders, as `candidates_beside` gives them. They have
        no columns, and are not monitored; coupled ones are left out where the capture has no MPTCP.

        segments_of: a connection, by its number, whose data segments and SACK blocks `Replay.segments` yields. Such a
        replay has one thread. BadOption where the captures have no such connection.

        jobs: threads that share the work; the result does not depend on their number.

        tshark decodes the packets that the core cannot decode. That happens once; the capture keeps the result.

        Raises CaptureUnreadable, UnknownAlgorithm, BadOption, DissectorMissing, DissectorAway, DissectorFailed.
        """
        choices = Choice.several(algorithms)
        asked = {
            "batch_rows": batch_rows,
            "jobs": jobs,
            "detectors": Choice.several(detectors),
            "across": _across(bottlenecks),
            "monitor": monitor,
            "transitions": transitions,
            "hidden": hidden,
            "candidates": candidates,
            "segments_of": segments_of,
        }
        replay = self._open(choices, asked)
        if self._link_types_decoded or not replay.unknown_link_types():
            return replay
        replay.close()
        self._decode_link_types()
        return self._open(choices, asked)

    def _open(self, choices: Sequence[Choice], asked: dict[str, Any]) -> Replay:
        while True:
            try:
                return Replay(self.descriptors, self.names, choices, decoded=self._decoded, **asked)
            except NotACapture as e:
                self._replace(e)

    def _replace(self, why: NotACapture) -> None:
        """Replaces a file by tshark's output for it. Raises CaptureUnreadable when tshark finds no IP in it."""
        place, file = why.file, self._files[why.file]
        found = dissect_format(file, why)
        file.close()
        self._files[place] = found.file
        self._decoded.replaced.add(place)
        self._decoded.replaced_records += found.records
        self._decoded.replaced_link_types += found.link_types
        self._decoded.by |= dict.fromkeys(found.link_types, found.tool)

    def _decode_link_types(self) -> None:
        for place, (name, file) in enumerate(zip(self.names, self._files, strict=True)):
            with Replay([file.fileno()], [name], []) as survey:
                unknown = survey.unknown_link_types()
            for link_type in unknown:
                found = _decoded_link_type(name, file, link_type)
                if found is not None:
                    self._copies.append(found.file)
                    self._decoded.origins.append(place)
                    self._decoded.copies += 1
                    self._decoded.copied_records += found.records
                    self._decoded.by[link_type_name(link_type)] = found.tool
        self._link_types_decoded = True

    @property
    def descriptors(self) -> list[int]:
        """The files that the core reads: the decompressed captures, then the packets that tshark has decoded so far."""
        return [f.fileno() for f in (*self._files, *self._copies)]

    @property
    def copies(self) -> int:
        """How many descriptors, the last ones, are copies: files with records of the captures before them."""
        return len(self._copies)

    def replay(
        self,
        algorithms: str | Choice | Sequence[str | Choice] = (),
        *,
        detectors: str | Choice | Sequence[str | Choice] = (),
        bottlenecks: bool | Choice = True,
    ) -> Result:
        """Replays everything and holds it in memory: `acks`, `marks` and `sets` as Arrow tables, `connections`,
        `summary`. Senders are named and bottlenecks found as `rewindow analyze` does it. The rest as in `stream`.
        """
        choices = Choice.several(algorithms)
        beside = candidates_beside(choices)
        with self.stream(choices, detectors=detectors, bottlenecks=bottlenecks, candidates=beside) as replay:
            return replay.collect()


def open(*sources: Source) -> Capture:
    """Opens a capture.

    sources: paths or binary file objects; several are one observation. `-` is standard input. A stream that cannot
    seek and a compressed capture (gzip, bzip2, xz, zstd, lz4) are first written to a temporary file, within limits.

    Raises CaptureUnreadable; CaptureNotOpened, which is an OSError too, where the system does not open a file, and of
    these CaptureMissing, a FileNotFoundError, where there is none.
    """
    return Capture(sources)


def candidates_beside(choices: Sequence[Choice]) -> list[Choice]:
    """The algorithms to replay beside these choices (`candidates`), so that senders can be named."""
    replayed = {c.name for c in choices if CANDIDATE_OPTIONS.get(c.name) == c.options}
    return [
        Choice(name, dict(options), label=f"sender {name}")
        for name, options in CANDIDATE_OPTIONS.items()
        if name not in replayed
    ]


def _across(bottlenecks: bool | Choice) -> Choice | None:
    if isinstance(bottlenecks, Choice):
        return bottlenecks
    return Choice("sbd", ACROSS_OPTIONS) if bottlenecks else None


def _decoded_link_type(name: str, file: IO[bytes], link_type: int) -> Dissection | None:
    """tshark's output for a capture's packets of one link type; None when it finds no IP in any of them."""
    if link_type > _PCAPNG_LINK_TYPE_MAX:
        return None
    with tempfile.TemporaryFile(prefix="rewindow-") as packets:
        count = extract(file.fileno(), link_type, packets.fileno(), name)
        try:
            found = dissect(cast(IO[bytes], packets), name, every_record=False)
        except NotUnderstood as e:
            raise DissectorFailed(f"{name}: {PROGRAM}: {e}") from e
    if found.records != count:
        found.file.close()
        raise DissectorFailed(f"{name}: {PROGRAM} decoded {found.records} of {count} packets")
    if not found.ip:
        found.file.close()
        return None
    return found
