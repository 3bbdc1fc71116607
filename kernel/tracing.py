"""What a loaded controller does, step by step, as its specification sees it."""

from __future__ import annotations

import contextlib
import re
import signal
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import rewindow
from kernel import libbpf, loaded
from kernel.errors import LoadFailed
from kernel.toolchain import CORE, Controller
from rewindow.controllers.steps import KINDS, UNSET, PathState, Step

SEGMENT_Q16 = 1 << 16
_AHEAD_NS = 10 * 10**9
"""Steps are written down until then; whoever traces moves it on in time, and one that was killed moves it no more."""
_CONTRACT = (CORE / "include" / "rw_control.h").read_text()
_PATHS, _PATH_WORDS, _CONNECTION_WORDS = (
    int(re.findall(rf"^#define {name} (\d+)$", _CONTRACT, re.MULTILINE)[0])
    for name in ("RW_MAX_PATHS", "RW_PATH_WORDS", "RW_CONNECTION_WORDS")
)
_HEAD = struct.Struct(f"=4Q4IIHBB{_CONNECTION_WORDS}Q")
_PATH = struct.Struct(f"=5Q2I5B3x{_PATH_WORDS}Q")
"""struct rw_path of rw_control.h."""
_RECOVERING = 8


@dataclass(frozen=True)
class Record:
    """A step as the program in the kernel writes it (struct step of controller.bpf.c)."""

    time_ns: int
    key: int
    rtt_ns: int
    rtt_newest_ns: int
    acked_segments: int
    marked_segments: int
    una: int
    next: int
    mss_bytes: int
    port: int
    """The subflow's own one."""
    kind: str
    path: int
    words: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]


def _record(data: bytes) -> Record:
    if len(data) != _HEAD.size + _PATHS * _PATH.size:
        raise LoadFailed("what is loaded was built from another version of the glue")
    time_ns, key, rtt_ns, rtt_newest_ns, acked, marked, una, following, mss, port, kind, path, *words = (
        _HEAD.unpack_from(data)
    )
    paths = tuple(_PATH.unpack_from(data, _HEAD.size + i * _PATH.size) for i in range(_PATHS))
    return Record(
        time_ns, key, rtt_ns, rtt_newest_ns, acked, marked, una, following, mss, port, KINDS[kind], path,
        tuple(words), paths,
    )  # fmt: skip


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Set by Ctrl-C, and by a request to end: an exception could be raised in the middle of a sample."""
    stopped = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: stopped.set()) for number in numbers]
    try:
        yield stopped
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def records(controller: Controller, seconds: float, stopped: threading.Event) -> Iterator[Record]:
    """Of the next seconds, or until `stopped` is set. LoadFailed where the time ran out up to which steps are written
    down, and at the end where the ring buffer had no room."""
    loaded.status(controller)
    folder = loaded.PINNED / controller.kernel_name
    found: list[bytes] = []
    with (
        libbpf.Map.pinned(folder / "tracing") as switch,
        libbpf.Map.pinned(folder / "steps") as steps,
        libbpf.Map.pinned(folder / "counts") as counts,
    ):
        before = loaded.read_counts(counts)
        samples = steps.samples(found.append)
        try:
            samples.poll(0)
            found.clear()  # of a trace that was killed
            end_ns = time.monotonic_ns() + int(seconds * 1e9)
            until_ns = end_ns  # of the first turn: before it nothing is written down
            while (now_ns := time.monotonic_ns()) < end_ns and not stopped.is_set():
                before_ns, until_ns = until_ns, min(now_ns + _AHEAD_NS, end_ns)
                switch.write(bytes(4), struct.pack("=Q", until_ns))
                _check_in_time(before_ns, end_ns)
                samples.poll(0.2)
                yield from map(_record, found)
                found.clear()
            _check_in_time(until_ns, end_ns)
            switch.write(bytes(4), bytes(8))
            samples.poll(0)
            yield from map(_record, found)
        finally:
            switch.write(bytes(4), bytes(8))
            samples.close()
        lost = loaded.read_counts(counts).untraced - before.untraced
        if lost:
            raise LoadFailed(f"{lost} steps found no room in the trace: what is left of it would prove nothing")


def _check_in_time(until_ns: int, end_ns: int) -> None:
    """Raises LoadFailed when it is later than the time up to which steps were written down, as after a long pause of
    this process or of who takes the records."""
    if min(time.monotonic_ns(), end_ns) > until_ns:
        raise LoadFailed("the trace was kept waiting for too long: steps are missing in it")


class _Connection:
    """One that began while it was traced."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.reducing: set[int] = set()
        """Paths that the kernel is about to take into recovery, or out of it."""
        self.paths: list[PathState | None] = [None] * _PATHS
        """After the last step."""


class Steps:
    """Records as steps of the specification, in their order.

    The specification sets a window to its threshold at once, where Linux brings it there by proportional rate
    reduction: a subflow that recovers has the window that it will leave recovery with, as coupled sums have it. After a
    timeout the specification's window is one segment; that Linux adds what is in flight is a step of the machinery, as
    is every other window that Linux sets.
    """

    def __init__(self, algorithm: str) -> None:
        self._words = rewindow.Controller(algorithm).words
        self._live: dict[int, _Connection] = {}
        self.connections = 0
        self.unknown = 0
        """Steps of connections that had begun before."""

    def _word(self, name: str, of: tuple[int, ...]) -> int:
        word = self._words.get(name)
        return of[word.place] if word else 0

    def _path(self, fields: tuple[int, ...], reduced: bool) -> PathState | None:
        cwnd, ssthresh, srtt, _, peak, _, _, live, recovering, initial, group, group_state, *words = fields
        if not live:
            return None
        own = tuple(words)
        return PathState(
            cwnd_q16=ssthresh if (recovering or reduced) and ssthresh != UNSET else cwnd,
            ssthresh_q16=ssthresh,
            flight_peak_q16=peak,
            srtt_ns=srtt,
            coupled_rtt_ns=self._word("coupled_rtt", own),
            estimate_q16=self._word("ssth", own),
            beta_q32=0,
            initial=bool(initial),
            recovering=bool(recovering),
            set=group,
            set_state=group_state,
        )

    def of(self, found: Iterable[Record]) -> Iterator[Step]:
        for r in found:
            connection = self._live.get(r.key)
            if r.kind == "join" and connection is None:
                connection = self._live[r.key] = _Connection(self.connections)
                self.connections += 1
            if connection is None:
                self.unknown += 1
            elif r.kind != "delivered":  # nothing of it is in the specification
                yield from self._step(r, connection)

    def _step(self, r: Record, connection: _Connection) -> Iterator[Step]:
        before = connection.paths[r.path]
        # Linux takes a subflow out of recovery just before it sets its window to the threshold.
        ends = r.kind == "machinery" and before and before.recovering and not r.paths[r.path][_RECOVERING]
        if ends or r.kind in ("loss", "ece"):
            connection.reducing.add(r.path)
        else:
            connection.reducing.discard(r.path)
        paths = [self._path(fields, i in connection.reducing) for i, fields in enumerate(r.paths)]
        step = Step(
            time_ns=r.time_ns,
            row=0,
            connection=connection.number,
            choice=0,
            kind=r.kind,
            path=r.path,
            acked_segments=r.acked_segments,
            violated=(),
            initial_ss=bool(self._word("initial_ss", r.words)),
            alpha_q32=self._word("alpha", r.words),
            con_ssthresh_q16=self._word("con_ssthresh", r.words),
            mss_bytes=r.mss_bytes,
            paths=tuple(paths),
            rtt_ns=r.rtt_ns,
            marked_segments=r.marked_segments,
            una=r.una,
            next=r.next,
        )
        own = paths[r.path]
        moved = r.kind == "machinery" and own and before and own.cwnd_q16 != before.cwnd_q16
        if own and own.cwnd_q16 != SEGMENT_Q16 and (r.kind == "timeout" or moved):
            paths[r.path] = replace(own, cwnd_q16=SEGMENT_Q16)
            yield replace(step, paths=tuple(paths))
            step = replace(step, kind="machinery")
        yield step
        connection.paths = list(step.paths)
        if r.kind == "leave" and not any(paths):
            del self._live[r.key]
