"""One connection's controller, driven by hand: the C code of the replay, without a capture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewindow.controllers.detector import STATES, BottleneckSet, gathered
from rewindow.controllers.steps import KINDS, Step, step_of
from rewindow.core import Choice, check, choices_for, ffi, folded, lib, name_of

_UNSET = 0xFFFFFFFFFFFFFFFF
_WORD = 0xFFFFFFFFFFFFFFFF
_GONE = 0xFFFFFFFF
_PATH_KEYS = {"cwnd", "rtt", "ssthresh", "cwnd_cnt", "max_packets_out", "recovering", "set", "set_state"}
_SET_STATES = {"monitor": 0, "judgement": 1, "final": 2}
_TIME_UNKNOWN = -(1 << 63)


_REPAIRS = ("none", "recovery", "timeout")
_GROWTH = {"allowed": 0, "withheld": 1, "none": 2}


@dataclass(frozen=True)
class Word:
    """A value that the algorithm keeps: 64 bits in the core, `bits` of them after the binary point."""

    index: int
    of_path: bool
    """Whether each path has one; otherwise the connection has one."""
    bits: int
    """Bits after the binary point."""
    is_signed: bool
    of_set: bool
    """Whether it has a meaning only while its path is in a set."""
    place: int
    """Among the words of the connection, or of each path (rw_control.h)."""


def _q16(segments: float) -> int:
    return round(segments * 65536)


def _ns(time: float | None) -> int:
    return _TIME_UNKNOWN if time is None else round(time * 1e9)


class Path:
    """The current state of one path."""

    def __init__(self, controller: Controller, index: int) -> None:
        self._controller, self.index = controller, index

    def _state(self) -> tuple[Any, int]:
        state, phase, error = ffi.new("rw_path_state *"), ffi.new("uint32_t *"), ffi.new("rw_error *")
        check(lib.rw_controller_path(self._controller._handle, self.index, state, phase, error), error)
        return state, phase[0]

    @property
    def cwnd(self) -> float:
        """Segments."""
        return float(self._state()[0].cwnd_q16 / 65536)

    @property
    def ssthresh(self) -> float:
        """Segments; infinite while it is not set."""
        value = self._state()[0].ssthresh_q16
        return math.inf if value == _UNSET else float(value / 65536)

    @property
    def rtt(self) -> float | None:
        """Smoothed, seconds."""
        value = self._state()[0].srtt_ns
        return float(value / 1e9) if value else None

    @property
    def cwnd_cnt(self) -> int:
        """Linux's additive-increase credit in segments, or the algorithm's own count; it may be below 0."""
        value = int(self._state()[0].cwnd_cnt)
        return value - (1 << 32) if value >> 31 else value

    @property
    def set(self) -> int | None:
        """The number of its set of subflows behind one bottleneck; None: it is in no set."""
        return int(self._state()[0].group) or None

    @property
    def set_state(self) -> str:
        """The state of its detector's decision: monitor, judgement or final. Controllers couple final sets only."""
        return STATES[int(self._state()[0].group_state)]

    @property
    def recovering(self) -> bool:
        """Whether it was given as recovering, and no loss, timeout or undo has set its window since."""
        return bool(self._state()[0].recovering)

    @property
    def phase(self) -> str:
        return name_of(lib.rw_phase_name, self._state()[1]) or "unknown"


class Controller:
    """Drives one controller.

    paths: for each path a dict with

    - `cwnd` and `ssthresh` in segments and `rtt` in seconds; a path without `ssthresh` is in the initial slow start;
    - `cwnd_cnt` and `max_packets_out` (segments), for algorithms that use them;
    - `set`, the number of the set of subflows behind one bottleneck, for algorithms that couple sets. A path with state
      that only sets have (`beta`) is in set 1 by default;
    - `set_state`, the state of the set's decision: monitor, judgement or (by default) final. `set_state="final"`
      without a set is the verdict that the path shares its bottleneck with no other;
    - `recovering`: in fast recovery or CWR, where the window counts as `ssthresh` and does not grow.

    Keywords are the algorithm's state by name (`alpha`, `con_ssthresh`, ...) or its options (`mode`, `L`, ...).
    without: a callback of the contract (`registry.Algorithm.callbacks`) to remove, to see its effect.

    Raises UnknownAlgorithm, BadOption.
    """

    def __init__(
        self,
        name: str,
        paths: Sequence[Mapping[str, Any]] = (),
        *,
        mss: int = 1460,
        without: str | None = None,
        **named: object,
    ) -> None:
        self.name = folded(name)
        probe = self._open(name, {}, mss, without)
        words = self._words(probe)
        state = {k: v for k, v in named.items() if k in words and not words[k].of_path}
        options = {k: v for k, v in named.items() if k not in state}
        self._handle = self._open(name, options, mss, without) if options else probe
        self._named = self._words(self._handle)  # the names may depend on the mode
        self._indices: list[int] = []
        for key, value in state.items():
            self._set(key, 0, value)
        for path in paths:
            self._add(path, lib.rw_controller_place)

    @staticmethod
    def _open(name: str, options: dict[str, object], mss: int, without: str | None) -> Any:
        handle, error = ffi.new("rw_controller **"), ffi.new("rw_error *")
        array, keep = choices_for([Choice(name, options)])
        lacks = ffi.NULL if without is None else ffi.new("char[]", without.encode())
        status = lib.rw_controller_open(handle, array, mss, lacks, error)
        del keep
        check(status, error)
        return ffi.gc(handle[0], lib.rw_controller_close)

    @staticmethod
    def _words(handle: Any) -> dict[str, Word]:
        words: dict[str, Word] = {}
        info = ffi.new("rw_word_info *")
        while True:
            lib.rw_controller_word_describe(handle, len(words), info)
            if info.name == ffi.NULL:
                return words
            name = ffi.string(info.name).decode()
            words[name] = Word(
                len(words), bool(info.of_path), info.fraction_bits, bool(info.is_signed), bool(info.of_set), info.place
            )

    def _set(self, key: str, path: int, value: Any) -> None:
        word = self._named[key]
        error = ffi.new("rw_error *")
        number = round(float(value) * (1 << word.bits)) & _WORD
        check(lib.rw_controller_set_word(self._handle, word.index, path, number, error), error)

    def _add(self, values: Mapping[str, Any], function: Any) -> int:
        unknown = set(values) - _PATH_KEYS - {k for k, w in self._named.items() if w.of_path}
        if unknown:
            raise ValueError(f"{self.name}: a path has no {', '.join(sorted(unknown))}")
        ssthresh = values.get("ssthresh")
        unset = ssthresh is None or math.isinf(float(ssthresh))
        in_a_set = any(key in values for key, word in self._named.items() if word.of_set)
        place = int(values.get("set") or ("set" not in values and in_a_set))
        state = ffi.new(
            "rw_path_state *",
            {
                "cwnd_q16": _q16(float(values.get("cwnd", 10.0))),
                "ssthresh_q16": _UNSET if unset else _q16(float(ssthresh)),  # type: ignore[arg-type]
                "srtt_ns": round(float(values.get("rtt") or 0) * 1e9),
                "flight_peak_q16": _q16(float(values.get("max_packets_out") or 0)),
                "cwnd_cnt": int(values.get("cwnd_cnt") or 0) & 0xFFFFFFFF,
                "recovering": bool(values.get("recovering")),
                "group": place,
                "group_state": _SET_STATES[str(values.get("set_state", "final" if place else "monitor"))],
            },
        )
        index, error = ffi.new("uint32_t *"), ffi.new("rw_error *")
        check(function(self._handle, state, index, error), error)
        for key, value in values.items():
            if key not in _PATH_KEYS:
                self._set(key, index[0], value)
        self._indices.append(index[0])
        return len(self._indices) - 1

    @property
    def words(self) -> dict[str, Word]:
        """The algorithm's named values in its mode, of which `state` has the numbers."""
        return dict(self._named)

    @property
    def paths(self) -> list[Path]:
        """In the order given and joined; a path that left raises when it is read."""
        return [Path(self, i) for i in self._indices]

    @property
    def live(self) -> list[int]:
        """The numbers of the paths that have not left."""
        return [number for number, index in enumerate(self._indices) if index != _GONE]

    @property
    def state(self) -> dict[str, Any]:
        """The algorithm's named values; those of paths as lists."""
        values: dict[str, Any] = {}
        for key, word in self._named.items():
            places = [i for i in self._indices if i != _GONE] if word.of_path else [0]
            read = [self._word(word, place) for place in places]
            values[key] = read if word.of_path else read[0]
        return values

    def _word(self, word: Word, path: int) -> float:
        value, error = ffi.new("uint64_t *"), ffi.new("rw_error *")
        check(lib.rw_controller_word(self._handle, word.index, path, value, error), error)
        number = int(value[0])
        if word.is_signed and number >> 63:
            number -= 1 << 64
        return number / (1 << word.bits) if word.bits else number

    def _place(self, path: int) -> int:
        return self._indices[path]

    @property
    def sets(self) -> list[BottleneckSet]:
        """Sets of paths behind one bottleneck, from the detector or as given."""
        there = [(i, Path(self, i)) for i, place in enumerate(self._indices) if place != _GONE]
        return gathered((i, path.set or 0, path.set_state) for i, path in there)

    def verdict(self, sets: Mapping[int, int | None], state: str = "final") -> None:
        """One decision on these paths, as a detector's: the set of each, or None where it shares with no other."""
        array, error = ffi.new("rw_verdict[]", len(sets)), ffi.new("rw_error *")
        for entry, (path, number) in zip(array, sets.items(), strict=True):
            entry.path, entry.group, entry.group_state = self._place(path), number or 0, _SET_STATES[state]
        check(lib.rw_controller_verdict(self._handle, array, len(sets), error), error)

    def advance(self, time: float) -> None:
        """Lets time pass: the detector takes the decisions that are due."""
        lib.rw_controller_advance(self._handle, round(time * 1e9))

    def ack(
        self, path: int = 0, acked: int = 1, rtt: float | None = None, time: float | None = None, marked: int = 0,
        *, rtt_newest: float | None = None, growth: str = "allowed",
    ) -> None:  # fmt: skip
        """acked: segments newly delivered; rtt: this ACK's sample in seconds, of the oldest segment; rtt_newest: the
        sample of the newest segment, by default rtt; time: seconds on any clock, without which the detector does not
        get the event; marked: how many of the segments the ACK reports as marked by ECN; growth: allowed, withheld (one
        segment of the window was not in flight) or none (the window was not the limit, or the path is recovering)."""
        error = ffi.new("rw_error *")
        if growth not in _GROWTH:
            raise ValueError(f"growth is one of {', '.join(_GROWTH)}")
        ack = ffi.new(
            "rw_hand_ack *",
            {
                "path": self._place(path),
                "acked_segments": acked,
                "marked_segments": marked,
                "rtt_ns": round((rtt or 0) * 1e9),
                "rtt_newest_ns": round(((rtt if rtt_newest is None else rtt_newest) or 0) * 1e9),
                "time_ns": _ns(time),
                "growth": _GROWTH[growth],
            },
        )
        check(lib.rw_controller_ack(self._handle, ack, error), error)

    def sample(
        self, path: int = 0, *, delivered: int, prior_delivered: int, interval: float, time: float, acked: int = 1,
        lost: int = 0, in_flight_before: int = 0, in_flight: int = 0, repair: str = "none", app_limited: bool = False,
        rtt: float | None = None, held: float = 0.0, paced: tuple[int, float] = (0, 0.0), sent_in_flight: int = 0,
        lost_since: int = 0, selective: bool = True, window_limited: bool = False, window: tuple[int, int] = (0, 0),
    ) -> None:  # fmt: skip
        """An ACK as a rate-based controller is told of it: a delivery-rate sample of the newest packet that it covers.

        delivered, prior_delivered: segments since the beginning, now and when that packet was sent; interval: the
        seconds in which the difference was delivered, 0 for no sample; acked, lost: segments newly; in_flight_before,
        in_flight: segments; repair: none, recovery or timeout; rtt: of that packet, seconds; held: seconds until the
        pace lets the next packet go; paced: segments that left on a timer since the ACK before, and in what time;
        sent_in_flight: segments in flight when that packet had left, 0 if that is not known; lost_since: segments found
        lost since then; selective: the connection has SACK; window_limited: the flight filled the window in this round
        trip; window: bounds of a recorded sender's window before the ACK, as its flight shows them, 0 if they are not
        known."""
        if repair not in _REPAIRS:
            raise ValueError(f"repair is one of {', '.join(_REPAIRS)}")
        error = ffi.new("rw_error *")
        rate = ffi.new(
            "rw_hand_rate *",
            {
                "path": self._place(path),
                "acked_segments": acked,
                "lost_segments": lost,
                "in_flight_before": in_flight_before,
                "in_flight": in_flight,
                "repair": _REPAIRS.index(repair),
                "app_limited": app_limited,
                "rtt_ns": round((rtt or 0) * 1e9),
                "delivered": delivered,
                "prior_delivered": prior_delivered,
                "interval_ns": round(interval * 1e9),
                "held_ns": round(held * 1e9),
                "paced_segments": paced[0],
                "paced_ns": round(paced[1] * 1e9),
                "time_ns": _ns(time),
                "selective": selective,
                "window_limited": window_limited,
                "window_least": window[0],
                "window_most": window[1],
                "sent_in_flight": sent_in_flight,
                "lost_since": lost_since,
            },
        )
        check(lib.rw_controller_rate(self._handle, rate, error), error)

    def lost(
        self, path: int = 0, *, in_flight: int, lost_since: int, delivered: int, time: float,
        app_limited: bool = False, continues: bool = False, selective: bool = True,
    ) -> None:  # fmt: skip
        """A segment is found lost, as a rate-based controller is told of it before the ACK's sample.

        in_flight: segments when it had left, with it; lost_since: segments found lost since it left, with it;
        delivered: segments since the beginning; app_limited: it left while the application had no more to send;
        continues: it follows in sequence on the segment found lost before it; selective: the connection has SACK."""
        error = ffi.new("rw_error *")
        lost = ffi.new(
            "rw_hand_lost *",
            {
                "path": self._place(path),
                "in_flight": in_flight,
                "lost_since": lost_since,
                "delivered": delivered,
                "time_ns": _ns(time),
                "app_limited": app_limited,
                "continues": continues,
                "selective": selective,
            },
        )
        check(lib.rw_controller_lost(self._handle, lost, error), error)

    def _event(self, function: Any, path: int, *values: Any) -> None:
        error = ffi.new("rw_error *")
        check(function(self._handle, self._place(path), *values, error), error)

    def loss(self, path: int = 0, time: float | None = None) -> None:
        """A fast retransmit, with the recovery over: the window is that after recovery."""
        self._event(lib.rw_controller_loss, path, _ns(time))

    def ece(self, path: int = 0, time: float | None = None) -> None:
        """The first ECN echo of a window."""
        self._event(lib.rw_controller_ece, path, _ns(time))

    def timeout(self, path: int = 0, time: float | None = None) -> None:
        """A retransmission timeout with nothing left in flight."""
        self._event(lib.rw_controller_timeout, path, _ns(time))

    def undo(self, path: int = 0) -> None:
        """Undoes the reduction of the last loss, ECN echo or timeout, which was spurious (Eifel, DSACK, F-RTO)."""
        self._event(lib.rw_controller_undo, path)

    def follow(
        self, kind: str, path: int, *, cwnd_q16: int, ssthresh_q16: int, srtt_ns: int = 0, recovering: bool = False,
        acked: int = 0, marked: int = 0, rtt_ns: int = 0, rtt_newest_ns: int = 0, una: int = 0, following: int = 0,
        time_ns: int = 0,
    ) -> None:  # fmt: skip
        """A step that the controller took in another sender, with the facts that its callback got there and without the
        machinery around it.

        kind: a name of steps.KINDS; path: its place there, which is the number of the path here. The path after the
        step: its window and threshold (segments, Q16; all ones: not set), its smoothed round trip, and whether it
        recovers. Of the window counts only what that sender's machinery set. una, following: the sequence numbers that
        are acknowledged and next to be sent."""
        step, error = ffi.new("rw_hand_step *"), ffi.new("rw_error *")
        step.kind, step.path, step.time_ns = KINDS.index(kind), path, time_ns
        step.acked_segments, step.marked_segments, step.una, step.next = acked, marked, una, following
        step.rtt_ns, step.rtt_newest_ns = rtt_ns, rtt_newest_ns
        step.after.cwnd_q16, step.after.ssthresh_q16, step.after.srtt_ns = cwnd_q16, ssthresh_q16, srtt_ns
        step.after.recovering = recovering
        check(lib.rw_controller_follow(self._handle, step, error), error)
        if kind == "join":
            self._indices += [_GONE] * (path + 1 - len(self._indices))
            self._indices[path] = path
        elif kind == "leave":
            self._indices[path] = _GONE

    def idle(self, path: int = 0, seconds: float = 0.0, time: float | None = None) -> None:
        """Data is sent after an idle time. The window stays, because there is no retransmission timer by hand."""
        self._event(lib.rw_controller_idle, path, round(seconds * 1e9), _ns(time))

    def resume(self, path: int = 0) -> bool:
        """The sender keeps doubling its window: returns whether the controller goes back to slow start."""
        resumed = ffi.new("uint32_t *")
        self._event(lib.rw_controller_resume, path, resumed)
        return bool(resumed[0])

    @property
    def tick(self) -> float | None:
        """The length in seconds of a tick of the kernel's clock that the controller counts; None: it counts none."""
        return float(lib.rw_controller_tick_ns(self._handle) / 1e9) or None

    def leave(self, path: int) -> None:
        self._event(lib.rw_controller_leave, path)
        self._indices[path] = _GONE  # a later join may take its index in the core

    def join(self, path: Mapping[str, Any]) -> int:
        """A subflow joins with the given window (10 by default); returns its number."""
        return self._add(path, lib.rw_controller_join)

    def observe(self) -> None:
        """Keeps every step from now on, and checks it if the algorithm has a specification."""
        lib.rw_controller_observe(self._handle)

    def steps(self) -> list[Step]:
        """The steps since observe() was called."""
        count = ffi.new("uint64_t *")
        rows = lib.rw_controller_transitions(self._handle, count)
        return [step_of(rows[i]) for i in range(count[0])]
