"""k_r and phi_r of each algorithm, by which Peng, Walid, Hwang and Low's fluid model describes a controller.

An algorithm adds I_r segments for each segment acknowledged and takes D_r at each loss, so that route r's rate follows

    dx_r/dt = k_r (phi_r - q_r),   k_r = (x_r / R_r) D_r,   phi_r = I_r / D_r     (TCCC paper, eq. 10 and 12)

with q_r the share of its segments that is lost. Every algorithm is given here by I and D; k and phi are derived, so
that they cannot differ from it. `rewindow.fluid.table` compares them with what the papers print.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewindow.core import folded
from rewindow.errors import BadOption, UnknownAlgorithm

Real = NDArray[np.float64]
Array = Any
"""An array of float64, or of complex128 while a Jacobian is taken by complex steps."""

TIED = 1e-9
"""Relative distance below which two values compete for a maximum: there the formulas have a kink."""


class State:
    """Rates and round trips of connections that have the same number of routes.

    x: segments/s, rtt_s: seconds, both of shape (..., routes). pick chooses among values that tie for a maximum: a
    formula with a maximum has as many Jacobians there as values tie.
    """

    def __init__(self, x: Array, rtt_s: Array, pick: int = 0) -> None:
        self.x = x
        self.rtt_s = rtt_s
        self.pick = pick

    @property
    def n(self) -> int:
        return int(self.x.shape[-1])

    @cached_property
    def w(self) -> Array:
        """Windows in segments."""
        return self.x * self.rtt_s

    @cached_property
    def x_sum(self) -> Array:
        """S, segments/s."""
        return np.asarray(self.x.sum(axis=-1, keepdims=True))

    @cached_property
    def w_sum(self) -> Array:
        return np.asarray(self.w.sum(axis=-1, keepdims=True))

    @cached_property
    def q_sum(self) -> Array:
        """Q = sum w/R^2, segments/s^2."""
        return np.asarray((self.x / self.rtt_s).sum(axis=-1, keepdims=True))

    @cached_property
    def rtt_min(self) -> Array:
        return np.asarray(self.rtt_s.min(axis=-1, keepdims=True))

    def largest(self, values: Array) -> Array:
        """The maximum over the routes."""
        real = values.real
        tied = real >= real.max(axis=-1, keepdims=True) * (1 - TIED)
        place = np.cumsum(tied, axis=-1) - 1
        chosen = tied & (place == self.pick % tied.sum(axis=-1, keepdims=True))
        return np.take_along_axis(values, chosen.argmax(axis=-1)[..., None], axis=-1)


def _smaller(a: Array, b: Array | float) -> Array:
    return np.where(a.real <= np.real(b), a, b)


def _larger(a: Array, b: Array | float) -> Array:
    return np.where(a.real >= np.real(b), a, b)


def _reno_increment(s: State, _: Options) -> Array:
    return 1 / s.w


def _half(s: State, _: Options) -> Array:
    return s.w / 2


def _ewtcp_increment(s: State, options: Options) -> Array:
    return (s.n**-2.0 if options["ewtcp_a"] == "inv_n2" else s.n**-0.5) / s.w


def _coupled_increment(s: State, _: Options) -> Array:
    return s.x / s.rtt_s / s.x_sum**2


def _full_increment(s: State, _: Options) -> Array:
    return 1 / s.w_sum + 0 * s.w


def _full_decrement(s: State, _: Options) -> Array:
    return s.w_sum / 2 + 0 * s.w


def _group_decrement(s: State, _: Options) -> Array:
    """A loss on any route halves every window: with one loss rate for all, S/x_r of the losses are felt on route r."""
    return s.rtt_s * s.x_sum / 2


def _lia_increment(s: State, _: Options) -> Array:
    return _smaller(s.largest(s.x / s.rtt_s) / s.x_sum**2 + 0 * s.w, 1 / s.w)


def _balia_increment(s: State, _: Options) -> Array:
    alpha = s.largest(s.x) / s.x
    return s.x / s.rtt_s / s.x_sum**2 * (1 + alpha) / 2 * (4 + alpha) / 5


def _balia_decrement(s: State, options: Options) -> Array:
    return s.w / 2 * _smaller(s.largest(s.x) / s.x, options["balia_cap"])


def _nmcc_increment(s: State, _: Options) -> Array:
    growth = s.rtt_s**-2.0
    return growth.max(axis=-1, keepdims=True) / growth.sum(axis=-1, keepdims=True) / s.w


def _enmcc_decrement(s: State, options: Options) -> Array:
    if options["mth"] == "equal":
        m_th = s.x_sum**2 / (s.x**2).sum(axis=-1, keepdims=True)
    else:
        p = 2 / s.w**2
        m_th = s.largest(p) * s.x_sum**2 / (p * s.x**2).sum(axis=-1, keepdims=True)
    return s.w / 2 * _larger(_smaller(m_th, options["mth_cap"]), 1.0)


def _tccc_increment(s: State, options: Options) -> Array:
    step = 1 / (s.rtt_s * s.rtt_min * s.q_sum)
    return _smaller(step, 1 / s.w) if options["aca_safe"] == "on" else step


def _tccc_decrement(s: State, options: Options) -> Array:
    if options["aca_md"] == "half":
        return s.w / 2
    step = s.rtt_min * s.x_sum**2 / (2 * s.rtt_s * s.q_sum)
    return _larger(step, s.w / 2) if options["aca_safe"] == "on" else step


def _sbcc_increment(s: State, options: Options) -> Array:
    return _smaller(options["beta"] * s.largest(s.x / s.rtt_s) / s.x_sum**2 + 0 * s.w, 1 / s.w)


def _sbcc_decrement(s: State, options: Options) -> Array:
    return options["beta"] * s.w / 2


Options = Mapping[str, Any]
_Rule = Callable[[State, Options], Array]


@dataclass(frozen=True)
class Option:
    """One option: a choice of words, or a number within bounds."""

    name: str
    default: str | float
    reason: str
    words: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0

    def checked(self, value: object) -> str | float:
        """The value, when it is one that the option takes. Raises BadOption."""
        if self.words:
            if value in self.words:
                return str(value)
            raise BadOption(f"option {self.name} takes {' or '.join(self.words)}")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and self.low <= value <= self.high:  # type: ignore[operator]
            return float(value)  # type: ignore[arg-type]
        raise BadOption(f"option {self.name} takes a number from {self.low:g} to {self.high:g}")


@dataclass(frozen=True)
class Algorithm:
    """The fluid form of an algorithm in congestion avoidance."""

    name: str
    formula: str
    source: str
    increment: _Rule
    decrement: _Rule
    options: tuple[Option, ...] = ()
    note: str = ""
    single: bool = False
    """Only for one route."""


@dataclass(frozen=True)
class Model:
    """An algorithm with its options: I_r, D_r, k_r and phi_r.

    x: rates in segments/s, rtt_s: round trips in seconds, both of shape (..., routes of a connection); results have the
    same shape.
    """

    algorithm: Algorithm
    options: Mapping[str, str | float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.algorithm.name

    def increment(self, x: Array, rtt_s: Array, pick: int = 0) -> Array:
        """I_r: segments added for each segment acknowledged."""
        return self.algorithm.increment(State(x, rtt_s, pick), self.options)

    def decrement(self, x: Array, rtt_s: Array, pick: int = 0) -> Array:
        """D_r: segments taken at each loss. Not limited: a decrease above the window is a result, too."""
        return self.algorithm.decrement(State(x, rtt_s, pick), self.options)

    def phi(self, x: Array, rtt_s: Array, pick: int = 0) -> Array:
        """phi_r = I_r/D_r: the loss share at which the rate stands still."""
        state = State(x, rtt_s, pick)
        return self.algorithm.increment(state, self.options) / self.algorithm.decrement(state, self.options)

    def k(self, x: Array, rtt_s: Array, pick: int = 0) -> Array:
        """k_r = (x_r/R_r) D_r: the gain, in segments/s^2."""
        return x / rtt_s * self.decrement(x, rtt_s, pick)

    def gradients(self, x: Real, rtt_s: Real, pick: int = 0) -> tuple[Real, Real]:
        """dI_r/dx_j and dD_r/dx_j by complex steps, exact to rounding: shape (..., routes r, routes j)."""
        columns = []
        for j in range(x.shape[-1]):
            step = np.zeros(x.shape, complex)
            step[..., j] = 1j * _STEP * x[..., j]
            state = State(x + step, rtt_s, pick)
            scale = _STEP * x[..., j, None]
            columns.append(
                [
                    rule(state, self.options).imag / scale
                    for rule in (self.algorithm.increment, self.algorithm.decrement)
                ]
            )
        return np.stack([c[0] for c in columns], axis=-1), np.stack([c[1] for c in columns], axis=-1)


_STEP = 1e-30
"""Relative. A complex step subtracts nothing, so it may be this small."""

_EWTCP = Option(
    "ewtcp_a", "inv_n2", "1/n^2 makes n equal subflows one TCP; the papers print 1/sqrt(n)", ("inv_n2", "inv_sqrt")
)
_CAP = Option("balia_cap", 1.5, "largest factor of the decrease", low=1.0, high=1e9)
_MTH = Option(
    "mth",
    "equal",
    "equal loss rates, as in the papers' tables, or p = 2/w^2 as the code estimates",
    ("equal", "estimated"),
)
_MTH_CAP = Option("mth_cap", 2.0, "Algorithm 1; the tables have no cap: 1e9", low=1.0, high=1e9)
_MD = Option("aca_md", "eq8", "the decrease for equal loss rates, or half", ("eq8", "half"))
_SAFE = Option("aca_safe", "off", "on: I <= 1/w and D >= w/2", ("off", "on"))
_BETA = Option("beta", 1.0, "share of marked segments, held constant; 1 is LIA", low=1e-3, high=1.0)

_RENO = (_reno_increment, _half)
_COUPLED = (_coupled_increment, _half)
_LIA = (_lia_increment, _half)
_FULL = (_full_increment, _full_decrement)

ALGORITHMS: Mapping[str, Algorithm] = {
    a.name: a
    for a in (
        Algorithm("newreno", "I = 1/w, D = w/2", "RFC 5681", *_RENO, single=True),
        Algorithm("uncoupled", "I = 1/w, D = w/2 on each route", "e-NMCC paper II.B", *_RENO),
        Algorithm("ewtcp", "I = a/w, D = w/2", "TCCC paper Table II", _ewtcp_increment, _half, (_EWTCP,)),
        Algorithm("coupled", "I = (w/R^2)/S^2, D = w/2", "TCCC paper Table II", *_COUPLED),
        Algorithm("coupled-full", "I = 1/W, D = W/2", "Wischik et al., NSDI 2011", *_FULL),
        Algorithm("lia", "I = min(max(w/R^2)/S^2, 1/w), D = w/2", "RFC 6356", *_LIA),
        Algorithm(
            "olia", "I = (w/R^2)/S^2, D = w/2", "Khalili et al., ToN 2013", *_COUPLED,
            note="without the term alpha_r/w, which depends on sets of best and largest paths and not on rates alone",
        ),
        Algorithm(
            "balia", "I = (x/R)/S^2 (1+a)/2 (4+a)/5, D = w/2 min(a, cap), a = max x/x", "TCCC paper Table II",
            _balia_increment, _balia_decrement, (_CAP,),
        ),
        Algorithm("nmcc", "I = max(1/R^2)/(w sum 1/R^2), D = w/2", "e-NMCC paper, eq. 14", _nmcc_increment, _half),
        Algorithm(
            "enmcc", "I = max(1/R^2)/(w sum 1/R^2), D = w/2 min(max(p) S^2/sum(p x^2), cap)",
            "e-NMCC paper, eq. 14 and 18",
            _nmcc_increment, _enmcc_decrement, (_MTH, _MTH_CAP),
        ),
        Algorithm(
            "tccc", "I = 1/(R min R Q), D = min R S^2/(2 R Q) or w/2", "TCCC paper, eq. 6, 8 and 15",
            _tccc_increment, _tccc_decrement, (_MD, _SAFE),
        ),
        Algorithm(
            "sbcc", "I = min(beta max(w/R^2)/S^2, 1/w), D = beta w/2", "SB-CC paper, Algorithm 2",
            _sbcc_increment, _sbcc_decrement, (_BETA,), note="all routes are taken to be in one set",
        ),
        Algorithm(
            "dwc", "I = 1/W, D = R S/2", "SB-CC paper I-II", _full_increment, _group_decrement,
            note="all routes are taken to be in one group, with one loss rate: a loss on any halves all windows",
        ),
        Algorithm("lisa", "as lia", "LISA differs from LIA only at joins", *_LIA),
        Algorithm("css", "as lia", "Coupled Slow-Start ends in LIA", *_LIA),
        Algorithm("tccc+", "as uncoupled", "TCCC paper V.B", *_RENO),
        Algorithm("enmcc+", "as uncoupled", "TCCC paper V.B", *_RENO),
        Algorithm(
            "mptcp-sbd", "as olia", "OLIA within a group", *_COUPLED, note="all routes are taken to be in one group",
        ),
    )
}  # fmt: skip

WITHOUT_MODEL: Mapping[str, str] = {
    "cubic": "its window follows the time since the last loss, not the rates",
    "wvegas": "it answers queueing delays; the model's prices are losses, and with prices of two kinds an equilibrium"
    " would rest on how links turn load into delay",
    "bbr": "it follows the delivery rate",
    "bbr3": "it follows the delivery rate",
    "dctcp": "it answers marks by their share; the model's prices are losses",
    "westwood": "a loss leaves what the path delivered, which the rates at one moment do not tell",
    "htcp": "its growth follows the time since the last loss, not the rates",
    "illinois": "it answers queueing delays, as wvegas does",
    "scalable": "it is for one path, and NewReno in small windows",
    "vegas": "it answers queueing delays, as wvegas does",
}


def model(name: str, options: Mapping[str, object] | None = None) -> Model:
    """The fluid model of the algorithm with this name.

    Raises UnknownAlgorithm, also for one that has no fluid form (with the reason), and BadOption.
    """
    name = folded(name)
    if name in WITHOUT_MODEL:
        raise UnknownAlgorithm(f"{name} has no fluid model here: {WITHOUT_MODEL[name]}")
    if name not in ALGORITHMS:
        raise UnknownAlgorithm(f"unknown algorithm {name!r}: one of {', '.join(ALGORITHMS)}")
    algorithm = ALGORITHMS[name]
    known = {o.name: o for o in algorithm.options}
    chosen = {o.name: o.default for o in algorithm.options}
    for key, value in (options or {}).items():
        if key not in known:
            raise BadOption(f"{name} has no option {key[:64]!r}" + (f": it has {', '.join(known)}" if known else ""))
        chosen[key] = known[key].checked(value)
    return Model(algorithm, chosen)
