"""Records of several interfaces in the order of their times: a second implementation of the rule in
docs/decisions/two-passes.md."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

DISORDER_NS = 5_000_000_000
"""A buffer does not delay records by more."""


@dataclass(frozen=True, slots=True)
class Frame:
    """number: in the file, from 1 on. Sections and interfaces may have any names."""

    number: int
    time_ns: int
    section: str
    interface: str


@dataclass
class Order:
    """place: frame number -> index in the order. backward: frames that are earlier than the one before them in it.

    late: frames put before one that the file has before them; None where an interface's own times go back, and
    the count depends on when each was handed out.
    """

    place: dict[int, int] = field(default_factory=dict)
    backward: int = 0
    late: int | None = 0

    @property
    def is_the_files(self) -> bool:
        numbers = list(self.place)
        return numbers == sorted(numbers)


def _runs(frames: Sequence[Frame]) -> Iterator[list[Frame]]:
    """Groups of frames that are put in order among one another."""
    run: list[Frame] = []
    latest = 0
    for frame in frames:
        if run and (frame.section != run[0].section or latest - frame.time_ns > DISORDER_NS):
            yield run
            run = []
        latest = max(latest, frame.time_ns) if run else frame.time_ns
        run.append(frame)
    if run:
        yield run


def order_of(frames: Sequence[Frame]) -> Order:
    found = Order()
    before = 0
    for run in _runs(frames):
        queues: dict[str, list[Frame]] = {}
        latest = 0
        for frame in run:
            queue = queues.setdefault(frame.interface, [])
            if queue and queue[-1].time_ns > frame.time_ns:
                found.late = None
            if found.late is not None:
                found.late += frame.time_ns < latest
            latest = max(latest, frame.time_ns)
            queue.append(frame)
        for frame in heapq.merge(*queues.values(), key=lambda f: (f.time_ns, f.number)):
            found.place[frame.number] = len(found.place)
            found.backward += frame.time_ns < before
            before = frame.time_ns
    return found
