"""Rates over time and equilibria of a network, and the Jacobian's eigenvalues there.

Unknowns are each route's rate x_r (segments/s) and the price of each link whose loss model is `price`. A rate never
falls below one window of `window_min_segments`: there (a)^+ of TCCC's eq. 10 applies, at a window that a sender has.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.integrate import Radau
from scipy.optimize import least_squares

from rewindow.fluid.models import TIED, Array, Model, Real
from rewindow.fluid.network import Network

START_WINDOW_SEGMENTS = 10.0
"""RFC 6928."""
STARTS = 6
"""Start points of the search for equilibria: cold, full, and some at random."""
RESIDUAL_MAX = 1e-8
"""Relative: of phi against the loss, and of a load against its link's capacity."""
DISTINCT = 1e-3
"""Relative distance from which two equilibria count as different."""
NEUTRAL = 1e-7
"""An eigenvalue this small relative to the largest counts as zero."""
_MARGINAL = 1e-6
_STILL_PER_S = 1e-10
_HORIZON_S = 1e8
_WORK_MAX = 100_000
"""Limit of evaluations times unknowns, so that a start takes seconds at most."""
_LAYER = 1e-3
_PRICE_LAYER = 1e-9
_LN_MAX = 50.0
_PRICE_MAX = 1e6


def blocking(load: Real, places: Real) -> tuple[Real, Real]:
    """M/M/1/B: the share of arrivals that find all places taken, and its derivative by the load.

    load: arrivals over capacity, at least 0; places: B. (1 - a) a^B / (1 - a^(B+1)), written so that neither a small
    nor a large load loses digits.
    """
    u = np.log(np.maximum(load, 1e-300))
    n = places + 1
    small = np.abs(n * u) < 1e-5
    v = np.where(small, 1.0, u)
    below = np.minimum(v, 0)
    above = np.maximum(v, 0)
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        p_below = np.exp(places * below) * np.expm1(below) / np.expm1(n * below)
        p_above = np.expm1(-above) / np.expm1(-n * above)
        p = np.where(small, np.exp(np.where(small, places * u / 2, 0.0)) / n, np.where(v < 0, p_below, p_above))
        # d ln p / du = 1/(1 - e^-u) - n/(1 - e^(-n u)) + n - 1
        slope = np.where(
            small, places / 2 + u * (1 - n**2) / 12, np.where(v < 0, _slope_below(below, n), _slope_above(above, n))
        )
    return p, p * slope / np.maximum(load, 1e-300)


def _slope_below(u: Real, n: Real) -> Real:
    return n - 1 + np.exp(u) / np.expm1(u) - n * np.exp(n * u) / np.expm1(n * u)


def _slope_above(u: Real, n: Real) -> Real:
    return np.asarray(n - 1 - 1 / np.expm1(-u) + n / np.expm1(-n * u))


@dataclass(frozen=True)
class _Group:
    """Users of one algorithm, with the same options and number of routes; places: of their routes, (users, routes)."""

    model: Model
    places: NDArrayInt


NDArrayInt = np.ndarray[tuple[int, ...], np.dtype[np.intp]]


class System:
    """The differential equations of a network. Rates in segments/s, times in s, in the order of `routes`."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.routes = [(u, r) for u, user in enumerate(network.users) for r in range(len(user.routes))]
        self.rtt_s: Real = np.array([r.rtt_ms / 1e3 for user in network.users for r in user.routes])
        self.x_min: Real = network.window_min_segments / self.rtt_s
        links = network.links
        self.crosses: Real = np.zeros((len(links), len(self.routes)))
        for place, (u, r) in enumerate(self.routes):
            self.crosses[list(network.users[u].routes[r].links), place] = 1
        self.capacity: Real = np.array([network.segments_per_second(link.capacity_mbps) for link in links])
        self.places: Real = np.array([float(link.buffer_packets) for link in links])
        self.loss: Real = np.array([link.loss for link in links])
        self.gamma: Real = np.array([link.gamma_per_segment for link in links])
        self.overflows = np.array([link.loss_model == "overflow" for link in links])
        self.priced: NDArrayInt = np.flatnonzero([link.loss_model == "price" for link in links])
        self.groups = self._grouped()

    def _grouped(self) -> list[_Group]:
        found: dict[tuple[object, ...], tuple[Model, list[list[int]]]] = {}
        place = 0
        for user in self.network.users:
            n = len(user.routes)
            key = (user.model.name, tuple(sorted(user.model.options.items())), n)
            found.setdefault(key, (user.model, []))[1].append(list(range(place, place + n)))
            place += n
        return [_Group(model, np.array(places)) for model, places in found.values()]

    def steps(self, x: Real, pick: int = 0) -> tuple[Real, Real]:
        """I_r and D_r of every route."""
        increment, decrement = np.empty_like(x), np.empty_like(x)
        for g in self.groups:
            increment[g.places] = g.model.increment(x[g.places], self.rtt_s[g.places], pick)
            decrement[g.places] = g.model.decrement(x[g.places], self.rtt_s[g.places], pick)
        return increment, decrement

    def losses(self, x: Real, prices: Real) -> tuple[Real, Real]:
        """Each link's loss, and its derivative by the link's load (0 where a price stands for it)."""
        p, slope = blocking(self.crosses @ x / self.capacity, self.places)
        p, slope = np.where(self.overflows, p, 0.0), np.where(self.overflows, slope / self.capacity, 0.0)
        p[self.priced] += prices
        return p + self.loss, slope

    def route_losses(self, x: Real, prices: Real) -> Real:
        """q_r, the sum over the route's links."""
        return np.asarray(self.losses(x, prices)[0] @ self.crosses)

    def flow(self, x: Real, prices: Real) -> Real:
        """dx/dt in segments/s^2, then dp/dt in 1/s, without the bounds."""
        increment, decrement = self.steps(x)
        rates = x / self.rtt_s * (increment - decrement * self.route_losses(x, prices))
        excess = (self.crosses @ x - self.capacity)[self.priced]
        return np.concatenate([rates, self.gamma[self.priced] * excess])

    def jacobian(self, x: Real, prices: Real, pick: int = 0) -> Real:
        """d flow / d (x, p): I and D by complex steps, the links' loss analytically.

        pick: which of several tied rates counts as the largest, where a formula has a maximum (see models.State).
        """
        n = len(x)
        p, slope = self.losses(x, prices)
        q = p @ self.crosses
        increment, decrement = self.steps(x, pick)
        found = np.zeros((n + len(prices), n + len(prices)))
        for g in self.groups:
            at = g.places
            d_increment, d_decrement = g.model.gradients(x[at], self.rtt_s[at], pick)
            gain = (x / self.rtt_s)[at][..., None]
            found[at[..., :, None], at[..., None, :]] = gain * (d_increment - q[at][..., None] * d_decrement)
        k = x / self.rtt_s * decrement
        found[:n, :n] -= k[:, None] * (self.crosses.T @ (slope[:, None] * self.crosses))
        found[:n, :n] += np.diag((increment - decrement * q) / self.rtt_s)
        found[:n, n:] = -k[:, None] * self.crosses[self.priced].T
        found[n:, :n] = self.gamma[self.priced][:, None] * self.crosses[self.priced]
        return found

    def ties(self, x: Real) -> int:
        """The most routes of one user that tie for an extreme of what the formulas take one of: x, x/R, w."""
        most = 1
        for g in self.groups:
            for values in (x[g.places], (x / self.rtt_s)[g.places], 1 / (x * self.rtt_s)[g.places]):
                tied = values >= values.max(axis=-1, keepdims=True) * (1 - TIED)
                most = max(most, int(tied.sum(axis=-1).max()))
        return most


@dataclass(frozen=True)
class Trajectory:
    """Rates over time. rates: segments/s, shape (times, routes); settled: whether the rates stand still at the end."""

    times_s: Real
    rates: Real
    prices: Real
    settled: bool


def trajectory(system: System, x: Real, prices: Real | None = None) -> Trajectory:
    """Integrates from these rates (segments/s) until they stand still, 1e8 s have passed or the work is too much."""
    n = len(system.rtt_s)
    prices = np.zeros(len(system.priced)) if prices is None else prices
    lowest = np.log(system.x_min) - 1
    evaluations = 0
    evaluations_max = min(max(_WORK_MAX // (n + len(prices)), 800), 6000)

    def split(z: Real) -> tuple[Real, Real]:
        # The solver may try, and reject, stages far outside.
        return np.exp(np.clip(z[:n], lowest, _LN_MAX)), np.clip(z[n:], 0.0, _PRICE_MAX)

    def bounded(z: Real) -> tuple[Real, Real]:
        """The share of a fall that the bounds let through, and the flow of ln x and p."""
        rates, p = split(z)
        flow = system.flow(rates, p)
        flow[:n] /= rates
        room = np.concatenate([(rates / system.x_min - 1) / _LAYER, p / _PRICE_LAYER])
        return np.where(flow < 0, np.clip(room, 0, 1), 1.0), flow

    def rhs(_: float, z: Real) -> Real:
        nonlocal evaluations
        evaluations += 1
        share, flow = bounded(z)
        return share * flow

    def jacobian(_: float, z: Real) -> Real:
        rates, p = split(z)
        share, flow = bounded(z)
        found = system.jacobian(rates, p)
        found[:, :n] *= rates
        found[:n] /= rates[:, None]
        found[:n, :n] -= np.diag(flow[:n])
        found *= share[:, None]
        edge = (share < 1) & (share > 0)
        found += np.diag(
            np.where(edge, flow * np.concatenate([rates / system.x_min / _LAYER, p * 0 + 1 / _PRICE_LAYER]), 0)
        )
        return found

    start = np.concatenate([np.log(np.maximum(x, system.x_min)), prices])
    tolerance = np.concatenate([np.full(n, 1e-8), np.full(len(prices), 1e-10)])
    solver = Radau(rhs, 0.0, start, _HORIZON_S, jac=jacobian, rtol=1e-6, atol=tolerance)
    times, values, settled = [0.0], [start], False
    while solver.status == "running" and evaluations < evaluations_max and not settled:
        solver.step()
        times.append(solver.t)
        values.append(solver.y)
        settled = float(np.abs(rhs(solver.t, solver.y)).max()) < _STILL_PER_S
    table = np.array(values)
    return Trajectory(np.array(times), np.exp(table[:, :n]), np.maximum(table[:, n:], 0), settled)


@dataclass(frozen=True)
class Equilibrium:
    """A point where no rate moves: rates in segments/s, losses as shares, eigenvalues in 1/s (slowest first)."""

    rates: Real
    prices: Real
    link_losses: Real
    route_losses: Real
    parked: list[bool]
    """Routes whose window is held at the smallest allowed value."""
    residual: float
    eigenvalues: NDArrayComplex
    branches: int
    """The number of spectra that meet here, above 1 where rates or windows tie for a maximum. The least stable is
    given."""
    starts: list[str] = field(default_factory=list)
    """The start points from which it was reached."""

    @property
    def verdict(self) -> str:
        """`stable`, `unstable`, or `neutral`: some direction neither returns nor leaves (a continuum of equilibria)."""
        if not len(self.eigenvalues):
            return "stable"
        largest, slowest = np.abs(self.eigenvalues).max(), self.eigenvalues.real.max()
        if slowest > NEUTRAL * largest:
            return "unstable"
        return "stable" if slowest < -NEUTRAL * largest else "neutral"

    @property
    def slowest_s(self) -> float | None:
        """The time constant of the slowest decay; None where something does not decay."""
        if self.verdict != "stable" or not len(self.eigenvalues):
            return None
        return float(-1 / self.eigenvalues.real.max())

    @property
    def oscillation_hz(self) -> float | None:
        """The frequency of the least damped oscillation; None without one."""
        swinging = self.eigenvalues[self.eigenvalues.imag > NEUTRAL * np.abs(self.eigenvalues).max(initial=0)]
        if not len(swinging):
            return None
        damping = -swinging.real / np.abs(swinging)
        return float(swinging[damping.argmin()].imag / (2 * np.pi))


NDArrayComplex = np.ndarray[tuple[int, ...], np.dtype[np.complex128]]


@dataclass(frozen=True)
class Failure:
    """A start that led to no equilibrium, and why."""

    start: str
    reason: str


@dataclass(frozen=True)
class Solution:
    """equilibria: the one reached from a cold start is the first, unless it is unstable and another is not."""

    system: System
    equilibria: list[Equilibrium]
    failures: list[Failure]
    cold: Trajectory


def solve(network: Network, starts: int = STARTS, seed: int = 1) -> Solution:
    """Searches for equilibria from several starts: integrates the rates until they settle, then solves phi_r = q_r.

    A start that settles nowhere, or whose root leaves a residual above RESIDUAL_MAX, is in `failures`.
    """
    system = System(network)
    random = np.random.default_rng(seed)
    full = np.array([min(system.capacity[system.crosses[:, r] > 0]) for r in range(len(system.routes))])
    points = [("cold", START_WINDOW_SEGMENTS / system.rtt_s), ("full", full)]
    for number in range(starts - 2):
        low, high = np.log(system.x_min), np.log(np.maximum(2 * full, 2 * system.x_min))
        points.append((f"random {number + 1}", np.exp(random.uniform(low, high))))
    found: list[Equilibrium] = []
    failures = []
    cold = None
    for name, start in points[: max(starts, 1)]:
        path = trajectory(system, start)
        cold = path if cold is None else cold
        reached = _polished(system, path)
        if isinstance(reached, str):
            failures.append(Failure(name, reached))
            continue
        same = next((e for e in found if _distance(e, reached) < DISTINCT), None)
        (reached if same is None else same).starts.append(name)
        if same is None:
            found.append(reached)
    assert cold is not None
    found.sort(key=lambda e: e.verdict == "unstable")
    return Solution(system, found, failures, cold)


def _distance(a: Equilibrium, b: Equilibrium) -> float:
    return float(np.abs(np.log(a.rates / b.rates)).max())


def _polished(system: System, path: Trajectory) -> Equilibrium | str:
    """The root next to the end of a trajectory, or why there is none."""
    floor = (system.crosses @ system.x_min > system.capacity)[system.priced]
    if floor.any():
        name = system.network.links[system.priced[floor.argmax()]].name
        return f"the smallest windows alone exceed the capacity of {name}, whose price has no bound"
    x, prices = path.rates[-1].copy(), path.prices[-1].copy()
    parked = (x <= system.x_min * (1 + 2 * _LAYER)) & (_pull(system, x, prices) < 0)
    slack = (system.crosses @ x < system.capacity * (1 - 1e-6))[system.priced] & (prices < 1e-6)
    for _ in range(2 * len(x) + 2):
        x[parked] = system.x_min[parked]
        prices[slack] = 0
        x, prices = _root(system, x, prices, parked, slack)
        pull = _pull(system, x, prices)
        load = (system.crosses @ x)[system.priced]
        wrong_routes = (parked & (pull > RESIDUAL_MAX)) | (~parked & (x < system.x_min * (1 - 1e-9)))
        over = load > system.capacity[system.priced] * (1 + RESIDUAL_MAX)
        wrong_links = (slack & over) | (~slack & (prices <= 0))
        if not wrong_routes.any() and not wrong_links.any():
            break
        parked, slack = parked ^ wrong_routes, slack ^ wrong_links
    else:
        return "the routes at the smallest window could not be told"
    residual = float(np.abs(pull[~parked]).max(initial=0.0))
    residual = max(residual, float(np.abs(load / system.capacity[system.priced] - 1)[~slack].max(initial=0.0)))
    if not residual <= RESIDUAL_MAX:
        if not path.settled:
            return f"the rates had not settled after {path.times_s[-1]:.3g} s"
        return f"no root of phi = q near the rates' end: a residual of {residual:.2g} is left"
    # A parked route that would rest without the bound counts as free: with it the split is a continuum.
    eigenvalues, branches = _spectrum(system, x, prices, parked & (pull < -_MARGINAL), slack)
    return Equilibrium(
        x, prices, system.losses(x, prices)[0], system.route_losses(x, prices), [bool(b) for b in parked], residual,
        eigenvalues, branches,
    )  # fmt: skip


def _pull(system: System, x: Real, prices: Real) -> Real:
    """phi_r/q_r - 1 of every route, smooth and of order one also where both are tiny."""
    increment, decrement = system.steps(x)
    return np.asarray(increment / decrement / np.maximum(system.route_losses(x, prices), 1e-300) - 1)


def _root(system: System, x: Real, prices: Real, parked: Array, slack: Array) -> tuple[Real, Real]:
    """Solves ln phi = ln q for the free rates and y = c for the links that ask a price, in ln x and ln p."""
    free, asking = np.flatnonzero(~parked), np.flatnonzero(~slack)
    at = len(free)

    def point(v: Real) -> tuple[Real, Real]:
        rates, p = x.copy(), prices.copy()
        rates[free] = np.exp(np.clip(v[:at], -50, 50))
        p[asking] = np.exp(np.clip(v[at:], -80, 10))
        return rates, p

    def distance(v: Real) -> Real:
        rates, p = point(v)
        increment, decrement = system.steps(rates)
        q = np.maximum(system.route_losses(rates, p), 1e-300)
        load = (system.crosses @ rates / system.capacity)[system.priced[asking]]
        return np.concatenate([np.log(increment / decrement / q)[free], np.log(load)])

    def slopes(v: Real) -> Real:
        rates, p = point(v)
        increment, decrement = system.steps(rates)
        loss, slope = system.losses(rates, p)
        q = np.maximum(loss @ system.crosses, 1e-300)
        by_rate = -(system.crosses.T @ (slope[:, None] * system.crosses)) / q[:, None]
        for g in system.groups:
            d_increment, d_decrement = g.model.gradients(rates[g.places], system.rtt_s[g.places])
            relative = d_increment / increment[g.places][..., None] - d_decrement / decrement[g.places][..., None]
            by_rate[g.places[..., :, None], g.places[..., None, :]] += relative
        by_price = -system.crosses[system.priced].T / q[:, None]
        crosses = system.crosses[system.priced[asking]]
        load_by_rate = crosses / (crosses @ rates)[:, None]
        top = np.hstack([(by_rate * rates)[np.ix_(free, free)], (by_price * p)[np.ix_(free, asking)]])
        bottom = np.hstack([(load_by_rate * rates)[:, free], np.zeros((len(asking), len(asking)))])
        return np.vstack([top, bottom])

    start = np.concatenate([np.log(x[free]), np.log(np.maximum(prices[asking], 1e-12))])
    if not len(start):
        return x, prices
    found = least_squares(distance, start, slopes, method="trf", xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=200)
    return point(found.x)


def _spectrum(system: System, x: Real, prices: Real, parked: Array, slack: Array) -> tuple[NDArrayComplex, int]:
    """Eigenvalues of the free rates and prices, of the least stable branch, and the number of branches."""
    free = np.concatenate([~parked, ~slack])
    ties = system.ties(x)
    spectra: list[NDArrayComplex] = []
    for pick in range(ties):
        block = system.jacobian(x, prices, pick)[np.ix_(free, free)]
        values = np.linalg.eigvals(block).astype(complex)
        values = values[np.lexsort((values.imag, -values.real))]
        if not any(np.allclose(values, s, rtol=1e-6, atol=1e-9 * np.abs(values).max(initial=0)) for s in spectra):
            spectra.append(values)
    return max(spectra, key=lambda s: s.real.max(initial=-np.inf)), len(spectra)
