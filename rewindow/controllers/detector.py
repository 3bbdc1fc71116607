"""One connection's detector of shared bottlenecks, driven by hand: the C code of the replay, without a capture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewindow.core import Choice, check, choices_for, ffi, lib, name_of

STATES: list[str] = [s for i in range(8) if (s := name_of(lib.rw_group_state_name, i))]
NAMES: list[str] = [n for i in range(lib.rw_detector_count()) if (n := name_of(lib.rw_detector_name, i))]

_STATISTICS_KEYS = {"skew", "var", "freq", "loss", "previously"}
_ONE = 1 << 16


@dataclass(frozen=True)
class BottleneckSet:
    """Subflows that a detector placed behind one bottleneck. Controllers couple a final set only."""

    number: int
    members: list[int]
    state: str

    @property
    def final(self) -> bool:
        return self.state == "final"


def gathered(paths: Iterable[tuple[int, int, str]]) -> list[BottleneckSet]:
    """Sets of paths given as (path, set or 0, state)."""
    found: dict[int, BottleneckSet] = {}
    for path, number, state in paths:
        if number:
            found.setdefault(number, BottleneckSet(number, [], state)).members.append(path)
    return [found[number] for number in sorted(found)]


class Detector:
    """Drives one detector: sbcc, dwc or sbd. Keywords are its options (`rewindow.detectors()`).

    Times are seconds on any clock; a time before the last one counts as the last one. A decision that is due at some
    time is taken at the first call with a later time; `advance` is such a call without an event.

    Raises UnknownAlgorithm, BadOption.
    """

    def __init__(self, name: str, **options: object) -> None:
        self._choice = Choice(name, options)
        self.name = self._choice.name
        handle, error = ffi.new("rw_hand_detector **"), ffi.new("rw_error *")
        array, keep = choices_for([self._choice])
        status = lib.rw_hand_detector_open(handle, array, error)
        del keep
        check(status, error)
        self._handle = ffi.gc(handle[0], lib.rw_hand_detector_close)
        self._indices: list[int | None] = []
        self._statistics = self._described()

    def _described(self) -> dict[str, tuple[int, float]]:
        """Place and scale of each statistic; times in seconds."""
        found: dict[str, tuple[int, float]] = {}
        info = ffi.new("rw_statistic_info *")
        while True:
            lib.rw_hand_detector_statistic_describe(self._handle, len(found), info)
            if info.name == ffi.NULL:
                return found
            scale = 1e9 if ffi.string(info.unit) == b"ns" else float(1 << info.fraction_bits)
            found[ffi.string(info.name).decode()] = (len(found), scale)

    def _place(self, path: int) -> int:
        place = self._indices[path]
        if place is None:
            raise ValueError(f"path {path} has left")
        return place

    def _call(self, function: Any, *arguments: Any) -> None:
        error = ffi.new("rw_error *")
        check(function(self._handle, *arguments, error), error)

    def join(self, *, time: float = 0.0, srtt: float | None = None) -> int:
        """A path joins; returns its number."""
        place = ffi.new("uint32_t *")
        self._call(lib.rw_hand_detector_join, _ns(time), _ns(srtt or 0), place)
        self._indices.append(place[0])
        return len(self._indices) - 1

    def leave(self, path: int, *, time: float) -> None:
        self._call(lib.rw_hand_detector_leave, self._place(path), _ns(time))
        self._indices[path] = None

    def ece(self, path: int, *, time: float) -> None:
        """An ACK with ECN echo."""
        self._call(lib.rw_hand_detector_congestion, self._place(path), lib.RW_HAND_DETECTOR_ECE, _ns(time))

    def loss(self, path: int, *, time: float) -> None:
        """A fast retransmit."""
        self._call(lib.rw_hand_detector_congestion, self._place(path), lib.RW_HAND_DETECTOR_LOSS, _ns(time))

    def timeout(self, path: int, *, time: float) -> None:
        self._call(lib.rw_hand_detector_congestion, self._place(path), lib.RW_HAND_DETECTOR_TIMEOUT, _ns(time))

    def sample(
        self,
        path: int,
        delay: float | None = None,
        *,
        time: float,
        srtt: float | None = None,
        delivered: int = 1,
        lost: int = 0,
    ) -> None:
        """An ACK: a delay in seconds (a round trip, or one way with any constant offset), segments newly delivered and
        newly known as lost. srtt None: smoothed from the samples."""
        place = self._place(path)
        self._call(lib.rw_hand_detector_delivery, place, delivered, lost, _ns(delay or 0), _ns(srtt or 0), _ns(time))

    def advance(self, time: float) -> None:
        lib.rw_hand_detector_advance(self._handle, _ns(time))

    def _row(self, path: int) -> tuple[int, str]:
        row = ffi.new("rw_hand_detector_row *")
        self._call(lib.rw_hand_detector_path, self._place(path), row)
        return int(row.set), STATES[int(row.state)]

    @property
    def states(self) -> dict[int, str]:
        """The state of each live path: monitor, judgement or final."""
        return {i: self._row(i)[1] for i, place in enumerate(self._indices) if place is not None}

    @property
    def sets(self) -> list[BottleneckSet]:
        return gathered((i, *self._row(i)) for i, place in enumerate(self._indices) if place is not None)

    def statistics(self, path: int) -> dict[str, float]:
        """The statistics of one path by which the detector decides; times in seconds."""
        value = ffi.new("int64_t *")
        found = {}
        for name, (index, scale) in self._statistics.items():
            self._call(lib.rw_hand_detector_statistic, index, self._place(path), value)
            found[name] = value[0] / scale
        return found


@dataclass(frozen=True)
class FlowVerdict:
    """bottleneck: the flow is congested; group: flows with the same number share a bottleneck; 0: with none."""

    bottleneck: bool
    group: int


def group_flows(flows: Sequence[Mapping[str, Any]], **options: object) -> list[FlowVerdict]:
    """RFC 8382's verdict on up to 64 flows by their statistics, with the options of the detector sbd.

    Each flow has `skew`, `var` (seconds), `freq`, `loss` (default 0), and `previously`: whether it was congested
    before.

    Raises BadOption, ValueError.
    """
    array = ffi.new("rw_flow_statistics[]", max(len(flows), 1))
    for entry, flow in zip(array, flows, strict=False):
        if unknown := set(flow) - _STATISTICS_KEYS:
            raise ValueError(f"a flow has no {', '.join(sorted(unknown))}")
        entry.skew_q16 = round(float(flow.get("skew", 0.0)) * _ONE)
        entry.var_ns = _ns(float(flow.get("var", 0.0)))
        entry.freq_q16 = round(float(flow.get("freq", 0.0)) * _ONE)
        entry.loss_q16 = round(float(flow.get("loss", 0.0)) * _ONE)
        entry.bottleneck = bool(flow.get("previously"))
    error = ffi.new("rw_error *")
    choice, keep = choices_for([Choice("sbd", options)])
    status = lib.rw_sbd_group_flows(choice, array, len(flows), error)
    del keep
    check(status, error)
    return [FlowVerdict(bool(array[i].bottleneck), array[i].group) for i in range(len(flows))]


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
