"""The orders of friendliness and responsiveness that the TCCC paper prints (eq. 17 to 20), and where they fail.

Friendlier is the smaller phi (Theorem 1). More responsive is the larger k, or the smaller lambda of eq. 13 (Theorem 2).
All depend only on ratios: of windows (or of the loss that a TCP has at such windows, p = 2/w^2) and of round trips.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rewindow.fluid.models import Array, Model, Real, model

EQUAL = 1e-9
"""Relative difference up to which two sides count as equal: `<` fails and `<=` holds."""
WINDOW_RATIOS = (1e-2, 1e2)
RTT_RATIOS = (1.0, 1.25, 2.0, 5.0)
_GRID = 241


@dataclass(frozen=True)
class Claim:
    """`left < right` (or <=) of a quantity, on every route.

    variant: the reading, where the print leaves a choice. given: the condition that the paper states.
    """

    equation: str
    left: str
    right: str
    strict: bool
    quantity: str
    variant: str = ""
    given: str = ""

    @property
    def text(self) -> str:
        sign = "<" if self.strict else "<="
        return f"{self.quantity} {self.left} {sign} {self.quantity} {self.right}"


_PRINTED_BALIA = model("balia", {"balia_cap": 1e9})
_MODELS: dict[str, dict[str, Model]] = {
    "": {"TCP": model("uncoupled"), "Coupled": model("coupled"), "BALIA": model("balia"), "TCCC": model("tccc"),
         "EWTCP": model("ewtcp")},
    "a = 1/sqrt(n)": {"EWTCP": model("ewtcp", {"ewtcp_a": "inv_sqrt"})},
    "phi as printed": {"BALIA": _PRINTED_BALIA},
}  # fmt: skip

_EQUAL_RTT = "equal RTTs"
CLAIMS: tuple[Claim, ...] = (
    Claim("17", "Coupled", "BALIA", False, "phi", "phi as printed"),
    Claim("17", "Coupled", "BALIA", False, "phi"),
    Claim("17", "BALIA", "EWTCP", True, "phi", "a = 1/sqrt(n)"),
    Claim("17", "BALIA", "EWTCP", True, "phi"),
    Claim("17", "EWTCP", "TCP", True, "phi", "a = 1/sqrt(n)"),
    Claim("17", "EWTCP", "TCP", True, "phi"),
    Claim("17", "Coupled", "TCCC", False, "phi"),
    Claim("17", "TCCC", "EWTCP", True, "phi", "a = 1/sqrt(n)"),
    Claim("17", "TCCC", "EWTCP", True, "phi"),
    Claim("17", "TCCC", "TCP", True, "phi"),
    Claim("18", "TCP", "TCCC", False, "k", given=_EQUAL_RTT),
    Claim("19", "BALIA", "TCCC", False, "k", given=_EQUAL_RTT),
    Claim("19", "Coupled", "BALIA", False, "k", given=_EQUAL_RTT),
)
"""Eq. 17 to 19. EWTCP's a is 1/n^2 unless a variant says otherwise; TCCC decreases by eq. 8, as in Table II."""


def _side(claim: Claim, name: str) -> Model:
    return _MODELS[claim.variant].get(name, _MODELS[""][name])


def margins(claim: Claim, x: Real, rtt_s: Real) -> Real:
    """ln(right/left) on each route at these rates (segments/s) and round trips (s): above 0 where the order holds."""
    sides = [_side(claim, name) for name in (claim.left, claim.right)]
    left, right = [m.phi(x, rtt_s) if claim.quantity == "phi" else m.k(x, rtt_s) for m in sides]
    return np.asarray(np.log(right / left), dtype=np.float64)


def holds(claim: Claim, margin: Array) -> Array:
    """Whether a claim with this smallest margin is true; of an array of margins, which."""
    return margin > EQUAL if claim.strict else margin >= -EQUAL


def margin_of_ratios(claim: Claim, window_ratio: Array, rtt_ratio: Array) -> Array:
    """The smallest margin of two routes with windows 1 : window_ratio and round trips 1 : rtt_ratio.

    Arrays of ratios are broadcast together.
    """
    w2, r2 = np.broadcast_arrays(np.asarray(window_ratio, float), np.asarray(rtt_ratio, float))
    rtt_s = np.stack([np.ones_like(r2), r2], axis=-1)
    return margins(claim, np.stack([np.ones_like(w2), w2], axis=-1) / rtt_s, rtt_s).min(axis=-1)


@dataclass(frozen=True)
class Span:
    """Window ratios, from and to, for which a claim holds; both equal for a single point."""

    low: float
    high: float


def spans(claim: Claim, rtt_ratio: float) -> list[Span]:
    """Where the claim holds, at this ratio of round trips, among window ratios w2/w1 of 1/100 to 100.

    Boundaries are found by bisection. Points at which a formula has a kink (equal rates, equal windows) are tested
    separately: a claim may hold, or fail, at such a point alone.
    """
    low, high = WINDOW_RATIOS
    kinks = [v for v in (1.0, rtt_ratio) if low < v < high]
    grid = np.unique(np.concatenate([np.geomspace(low, high, _GRID), kinks]))

    def good(ratio: float) -> bool:
        return bool(holds(claim, margin_of_ratios(claim, ratio, rtt_ratio)))

    held = holds(claim, margin_of_ratios(claim, grid, rtt_ratio))
    found: list[Span] = []
    begin: float | None = float(grid[0]) if held[0] else None
    for (left, before), (right, after) in itertools.pairwise(zip(grid, held, strict=True)):
        if before == after:
            continue
        edge = _boundary(good, float(left), float(right))
        if begin is None:
            begin = edge
        else:
            found.append(Span(begin, edge))
            begin = None
    if begin is not None:
        found.append(Span(begin, float(grid[-1])))
    return found


def _boundary(good: Callable[[float], bool], left: float, right: float) -> float:
    """By bisection of the claim itself: a margin that is 0 on all of one side has no root to look for."""
    at_left = good(left)
    for _ in range(45):
        middle = (left + right) / 2
        left, right = (middle, right) if good(middle) == at_left else (left, middle)
    return left


@dataclass(frozen=True)
class Order:
    """A claim at one state of a connection. margin: the smallest ln(right/left) of its routes."""

    claim: Claim
    holds: bool
    margin: float


def orders_at(x: Real, rtt_s: Real) -> list[Order]:
    """Every claim at the rates (segments/s) and round trips (s) of one connection."""
    found = []
    for claim in CLAIMS:
        margin = float(margins(claim, x, rtt_s).min())
        found.append(Order(claim, bool(holds(claim, margin)), margin))
    return found


@dataclass(frozen=True)
class Responsiveness:
    """How fast an algorithm returns at a state, prices held: 1/s, negative where it returns.

    slowest: lambda of eq. 13, the largest over all directions; total: along the direction in which all rates keep their
    proportions.
    """

    algorithm: str
    slowest: float
    total: float


def responsiveness(name: str, x: Real, rtt_s: Real, branches: int = 1) -> Responsiveness:
    """Eq. 13 with fixed prices, for `TCP`, `Coupled`, `BALIA`, `TCCC` or `EWTCP`: the numerical range of dPhi/dx.

    The largest value of x^T sym(dPhi/dx) x / x^T K^-1 x. branches: at a kink, how many of the tied maxima to look at.
    """
    chosen = _MODELS[""][name]
    k = chosen.k(x, rtt_s)
    slowest, total = -np.inf, -np.inf
    for pick in range(branches):
        d_increment, d_decrement = chosen.gradients(x, rtt_s, pick)
        decrement = chosen.decrement(x, rtt_s, pick)
        slope = (d_increment - chosen.phi(x, rtt_s, pick)[:, None] * d_decrement) / decrement[:, None]
        even = (slope + slope.T) / 2
        scaled = np.sqrt(k)[:, None] * even * np.sqrt(k)
        slowest = max(slowest, float(np.linalg.eigvalsh(scaled).max()))
        total = max(total, float(x @ even @ x / (x @ (x / k))))
    return Responsiveness(name, slowest, total)


RESPONSIVE = ("TCP", "TCCC", "BALIA", "Coupled")


def responsiveness_when_equal(routes: int = 2) -> list[Responsiveness]:
    """Eq. 20's case: routes with one window and one round trip, both 1; in units of 1/(R w)."""
    x = np.ones(routes)
    return [responsiveness(name, x, np.ones(routes), branches=routes) for name in RESPONSIVE]
