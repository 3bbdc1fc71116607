"""Table II of the TCCC paper, Table I and eq. 18-19 of the e-NMCC paper: the printed and the corrected formulas.

Each cell is compared with k = (x/R) D and phi = I/D on random states. So are the identities between the papers'
equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewindow.fluid.models import Array, Model, State, model

STATES = 200
SAME = 1e-9
"""Relative difference up to which two formulas are one: rounding of float64 over sums of eight is far below."""

_Formula = Callable[[State], Array]


def random_states(count: int = STATES, seed: int = 1, routes_min: int = 1) -> list[State]:
    """Connections of up to 8 routes: windows 1 to 2^20 segments, round trips 50 us to 10 s, both log-uniform."""
    random = np.random.default_rng(seed)
    states = []
    for _ in range(count):
        n = int(random.integers(routes_min, 9))
        w = np.exp(random.uniform(0, 20 * np.log(2), n))
        rtt_s = np.exp(random.uniform(np.log(50e-6), np.log(10), n))
        states.append(State(w / rtt_s, rtt_s))
    return states


@dataclass(frozen=True)
class Cell:
    """One printed formula. `printed` and `corrected` are text, the functions compute them."""

    where: str
    algorithm: str
    quantity: str
    printed: str
    corrected: str
    as_printed: _Formula
    as_corrected: _Formula
    exact: _Formula


@dataclass(frozen=True)
class CheckedCell:
    """On how many random states a cell is right, as printed and as corrected."""

    where: str
    algorithm: str
    quantity: str
    printed: str
    corrected: str
    states: int
    printed_right: int
    corrected_right: int

    @property
    def misprint(self) -> bool:
        return self.printed_right < self.states


def _sum(values: Array) -> Array:
    return np.asarray(values.sum(axis=-1, keepdims=True))


def _max(values: Array) -> Array:
    return np.asarray(values.max(axis=-1, keepdims=True))


def _alpha(s: State) -> Array:
    return _max(s.x) / s.x


def _omega(s: State) -> Array:
    return s.rtt_s**-2.0


def _reno_phi(s: State) -> Array:
    return 2 / (s.rtt_s**2 * s.x**2)


def _reno_k(s: State) -> Array:
    return s.x**2 / 2


def _ewtcp_phi(s: State) -> Array:
    return 2 * s.n**-2.0 / (s.rtt_s**2 * s.x**2)


def _coupled_phi(s: State) -> Array:
    return 2 / (s.rtt_s**2 * s.x_sum**2)


def _lia_phi(s: State) -> Array:
    return 2 * _max(s.x / s.rtt_s) / (s.x * s.rtt_s * s.x_sum**2)


def _balia_factor(s: State) -> Array:
    return 4 + 5 * _alpha(s) + _alpha(s) ** 2


def _balia_k(s: State) -> Array:
    return s.x * np.minimum(_max(s.x), 1.5 * s.x) / 2


def _balia_phi(s: State) -> Array:
    return _coupled_phi(s) * _balia_factor(s) / (10 * np.minimum(_alpha(s), 1.5))


def _enmcc_k(s: State) -> Array:
    return s.x**2 * s.x_sum**2 / (2 * _sum(s.x**2))


def _enmcc_phi(s: State) -> Array:
    return 2 * _max(_omega(s)) * _sum(s.x**2) / (s.x**2 * s.rtt_s**2 * _sum(_omega(s)) * s.x_sum**2)


def _enmcc_i(s: State) -> Array:
    return _max(_omega(s)) / (s.w * _sum(_omega(s)))


def _enmcc_d(s: State) -> Array:
    return s.w * s.x_sum**2 / (2 * _sum(s.x**2))


def _tccc_k(s: State) -> Array:
    return s.x * s.rtt_min * s.x_sum**2 / (2 * s.rtt_s**2 * _sum(s.w / s.rtt_s**2))


def _tccc_phi(s: State) -> Array:
    return 2 / (s.rtt_min**2 * s.x_sum**2) + 0 * s.x


def _of(chosen: Model, quantity: str) -> _Formula:
    """The model's own quantity, without LIA's second argument of min: no table has it."""

    def exact(s: State) -> Array:
        return np.asarray(
            {"k": chosen.k, "phi": chosen.phi, "I": chosen.increment, "D": chosen.decrement}[quantity](s.x, s.rtt_s)
        )

    return exact


def _uncapped_lia(s: State) -> Array:
    return _max(s.w / s.rtt_s**2) / s.x_sum**2 / (s.w / 2)


def _cells() -> list[Cell]:
    enmcc = model("enmcc", {"mth_cap": 1e9})
    tccc = "TCCC paper, Table II"
    one = "e-NMCC paper, Table I"
    rows: list[tuple[str, str, Model, str, str, str, _Formula, _Formula]] = []

    def right(where: str, name: str, chosen: Model, quantity: str, text: str, formula: _Formula) -> None:
        rows.append((where, name, chosen, quantity, text, "", formula, formula))

    right(tccc, "Reno", model("newreno"), "k", "x^2/2", _reno_k)
    right(tccc, "Reno", model("newreno"), "phi", "2/(R^2 x^2)", _reno_phi)
    right(tccc, "EWTCP", model("ewtcp"), "k", "x^2/2", _reno_k)
    right(tccc, "EWTCP", model("ewtcp"), "phi", "2a/(R^2 x^2)", _ewtcp_phi)
    right(tccc, "Coupled", model("coupled"), "k", "x^2/2", _reno_k)
    right(tccc, "Coupled", model("coupled"), "phi", "2/(R^2 S^2)", _coupled_phi)
    balia = model("balia")
    rows.append(
        (tccc, "BALIA", balia, "k", "x min x/2", "x min(max x, 1.5 x)/2",
         lambda s: s.x * s.x.min(axis=-1, keepdims=True) / 2, _balia_k)
    )  # fmt: skip
    rows.append(
        (tccc, "BALIA", balia, "phi", "2/(R^2 S^2) (4+5a+a^2)/(10a)", "2/(R^2 S^2) (4+5a+a^2)/(10 min(a, 1.5))",
         lambda s: _coupled_phi(s) * _balia_factor(s) / (10 * _alpha(s)), _balia_phi)
    )  # fmt: skip
    right(tccc, "e-NMCC", enmcc, "k", "x^2 S^2/(2 sum x^2)", _enmcc_k)
    rows.append(
        (tccc, "e-NMCC", enmcc, "phi", "2 max(1/R^2) sum x^2/(x^2 R^2 sum(1/R^2) (sum x^2)^2)",
         "2 max(1/R^2) sum x^2/(x^2 R^2 sum(1/R^2) S^2)",
         lambda s: _enmcc_phi(s) * s.x_sum**2 / _sum(s.x**2) ** 2, _enmcc_phi)
    )  # fmt: skip
    right(tccc, "TCCC", model("tccc"), "k", "x min R S^2/(2 R^2 sum(w/R^2))", _tccc_k)
    right(tccc, "TCCC", model("tccc"), "phi", "2/(min R^2 S^2)", _tccc_phi)
    right(one, "EWTCP", model("ewtcp"), "k", "x^2/2", _reno_k)
    right(one, "EWTCP", model("ewtcp"), "phi", "2a/(x^2 R^2)", _ewtcp_phi)
    right(one, "Coupled", model("coupled"), "k", "x^2/2", _reno_k)
    right(one, "Coupled", model("coupled"), "phi", "2/(R^2 S^2)", _coupled_phi)
    right(one, "LIA", model("lia"), "k", "x^2/2", _reno_k)
    cells = [
        Cell(where, name, quantity, text, corrected, printed, good, _of(chosen, quantity))
        for where, name, chosen, quantity, text, corrected, printed, good in rows
    ]
    cells.append(
        Cell(one, "LIA", "phi", "2/R^2", "2 max(x/R)/(x R S^2)", lambda s: 2 / s.rtt_s**2, _lia_phi, _uncapped_lia)
    )
    eq18, eq19 = "e-NMCC paper, eq. 18", "e-NMCC paper, eq. 19"
    cells.append(
        Cell(eq18, "e-NMCC", "I", "2 max(1/R^2)/(w^2 sum 1/R^2)", "max(1/R^2)/(w sum 1/R^2)",
             lambda s: 2 * _max(_omega(s)) / (s.w**2 * _sum(_omega(s))), _enmcc_i, _of(enmcc, "I"))
    )  # fmt: skip
    cells.append(Cell(eq18, "e-NMCC", "D", "w S^2/(2 sum x^2)", "", _enmcc_d, _enmcc_d, _of(enmcc, "D")))
    cells.append(
        Cell(
            eq19,
            "e-NMCC",
            "k",
            "1/(2 x^2)",
            "x^2 S^2/(2 sum x^2)",
            lambda s: 1 / (2 * s.x**2),
            _enmcc_k,
            _of(enmcc, "k"),
        )
    )
    cells.append(
        Cell(
            eq19,
            "e-NMCC",
            "phi",
            "2 max(1/R^2) sum x^2/(x^2 R^2 sum(1/R^2) S^2)",
            "",
            _enmcc_phi,
            _enmcc_phi,
            _of(enmcc, "phi"),
        )
    )
    return cells


def _same(a: Array | float, b: Array | float) -> bool:
    return bool(np.allclose(a, b, rtol=SAME, atol=0))


def checked_cells(states: Sequence[State] | None = None) -> list[CheckedCell]:
    """Every printed cell, compared with the algorithm's own k or phi (or I, D) on random states."""
    states = random_states() if states is None else states
    return [
        CheckedCell(
            c.where, c.algorithm, c.quantity, c.printed, c.corrected, len(states),
            sum(_same(c.as_printed(s), c.exact(s)) for s in states),
            sum(_same(c.as_corrected(s), c.exact(s)) for s in states),
        )
        for c in _cells()
    ]  # fmt: skip


def _eq6(s: State) -> Array:
    """Growth of TCCC's window in one round trip."""
    return (s.w / s.rtt_s) / (s.rtt_min * _sum(s.w / s.rtt_s**2))


def _eq8(s: State) -> Array:
    return s.rtt_min * _sum(s.w / s.rtt_s) ** 2 / (s.rtt_s * s.w * _sum(s.w / s.rtt_s**2))


def _equal_rtt(s: State) -> State:
    return State(s.w / s.rtt_min, s.rtt_min + 0 * s.rtt_s)


def _kernel_balia(s: State) -> Array:
    """Segments to be acknowledged for one segment of growth."""
    m = _max(s.x)
    return 10 * s.w * s.x_sum**2 / ((s.x + m) * (4 * s.x + m))


def _full_matches(s: State) -> bool:
    s = _equal_rtt(s)
    tccc, full = model("tccc"), model("coupled-full")
    return _same(tccc.increment(s.x, s.rtt_s), full.increment(s.x, s.rtt_s)) and _same(
        tccc.decrement(s.x, s.rtt_s), full.decrement(s.x, s.rtt_s)
    )


def _is(formula: _Formula, name: str, quantity: str, **options: Any) -> Callable[[State], bool]:
    exact = _of(model(name, options), quantity)
    return lambda s: _same(formula(s), exact(s))


def _balia_above_coupled(s: State) -> bool:
    """At a = 1.3 between the two routes' rates, round trips of the state."""
    x = np.array([1.3, 1.0]) * s.x[0]
    rtt_s = np.resize(s.rtt_s, 2)
    return bool((model("balia").phi(x, rtt_s) >= model("coupled").phi(x, rtt_s) * (1 - SAME)).all())


IDENTITIES: dict[str, Callable[[State], bool]] = {
    "TCCC phi row": _is(_tccc_phi, "tccc", "phi"),
    "TCCC k row": _is(_tccc_k, "tccc", "k"),
    "eq6 = eq9 = Alg2 line6": lambda s: _same(_eq6(s) / s.w, 1 / (s.rtt_s * s.rtt_min * _sum(s.w / s.rtt_s**2))),
    "eq8 = Alg2 line10": lambda s: _same(s.w / 2 * _eq8(s), model("tccc").decrement(s.x, s.rtt_s)),
    "eq3 satisfied by eq6": lambda s: _same(_sum(_eq6(s) / s.rtt_s), 1 / s.rtt_min),
    "equal RTT: ACA = fully coupled (1/sum w, sum w/2)": _full_matches,
    "e-NMCC phi eq19 = I(eq14)/D(eq18)": lambda s: _same(_enmcc_phi(s), _enmcc_i(s) / _enmcc_d(s)),
    "e-NMCC k = x^2 (sum x)^2/(2 sum x^2) (TCCC table II)": _is(_enmcc_k, "enmcc", "k", mth_cap=1e9),
    "BALIA phi = 2/(rtt^2 S^2) (4+5a+a^2)/(10 min(a,1.5))": _is(_balia_phi, "balia", "phi"),
    "BALIA k = x_r min(max x, 1.5 x_r)/2": _is(_balia_k, "balia", "k"),
    "BALIA kernel reciprocal": lambda s: _same(1 / _kernel_balia(s), model("balia").increment(s.x, s.rtt_s)),
    "Coupled phi": _is(_coupled_phi, "coupled", "phi"),
    "LIA phi (uncapped) = 2 max(x/rtt)/(x_r rtt_r S^2)": lambda s: _same(_lia_phi(s), _uncapped_lia(s)),
    "SB-CC with beta=1 is LIA": lambda s: (
        _same(model("sbcc").increment(s.x, s.rtt_s), model("lia").increment(s.x, s.rtt_s))
        and _same(model("sbcc").decrement(s.x, s.rtt_s), model("lia").decrement(s.x, s.rtt_s))
    ),
}
"""Equations that agree with each other on every state."""

PRINTED_CLAIMS: dict[str, Callable[[State], bool]] = {
    "e-NMCC eq18 I_r as printed equals eq14": lambda s: _same(
        2 * _max(_omega(s)) / (s.w**2 * _sum(_omega(s))), _enmcc_i(s)
    ),
    "e-NMCC eq19 k=1/(2x^2) equals x/rtt*D": lambda s: _same(1 / (2 * s.x**2), s.x / s.rtt_s * _enmcc_d(s)),
    "TCCC table II e-NMCC phi with (sum x^2)^2 equals eq19": lambda s: _same(
        _enmcc_phi(s) * s.x_sum**2 / _sum(s.x**2) ** 2, _enmcc_phi(s)
    ),
    "BALIA phi >= Coupled phi at alpha=1.3 (TCCC eq17)": _balia_above_coupled,
    "TCCC phi <= Reno phi for every path": lambda s: bool((_tccc_phi(s) <= _reno_phi(s) * (1 + SAME)).all()),
}
"""Statements of the papers that fail, on some states or on all."""


def checked_claims(claims: dict[str, Callable[[State], bool]], states: Sequence[State] | None = None) -> dict[str, int]:
    """On how many of the states each claim holds."""
    states = random_states(routes_min=2) if states is None else states
    return {name: sum(claim(s) for s in states) for name, claim in claims.items()}
