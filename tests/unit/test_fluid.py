"""The fluid model against closed forms, against itself by other means, and with files that nobody should write."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import subprocess
import sys
import xml.dom.minidom
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rewindow
from rewindow.fluid import (
    ALGORITHMS,
    CLAIMS,
    Claim,
    Equilibrium,
    Network,
    NetworkUnreadable,
    Solution,
    Span,
    System,
    checked_cells,
    model,
    orders_at,
    parse_network,
    read_network,
    solve,
    spans,
    trajectory,
)
from rewindow.fluid.equilibrium import blocking
from rewindow.fluid.models import State
from rewindow.fluid.orders import margin_of_ratios, responsiveness, responsiveness_when_equal
from rewindow.fluid.reports import solution_document, tcp_ratio
from rewindow.fluid.table import IDENTITIES, PRINTED_CLAIMS, STATES, checked_claims, random_states

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "docs" / "examples" / "fluid-phone.toml"
GOLDEN = ROOT / "tests" / "golden" / "fluid-phone.txt"
REWINDOW = Path(sys.executable).parent / "rewindow"

MULTIPATH = [name for name, a in ALGORITHMS.items() if not a.single]
VARIANTS: list[tuple[str, dict[str, object]]] = [
    *((name, {}) for name in MULTIPATH),
    ("ewtcp", {"ewtcp_a": "inv_sqrt"}),
    ("balia", {"balia_cap": 1e9}),
    ("enmcc", {"mth": "estimated"}),
    ("enmcc", {"mth_cap": 1e9}),
    ("tccc", {"aca_md": "half"}),
    ("tccc", {"aca_safe": "on"}),
    ("sbcc", {"beta": 0.25}),
]

windows = st.floats(1, 2**20)
rtts_s = st.floats(50e-6, 10)


def shared(algorithm: str, rtts_ms: list[float], link: dict[str, Any] | None = None, **user: Any) -> Network:
    """A multipath user and one TCP on one link."""
    link = link or {"capacity_mbps": 5, "buffer_packets": 47}
    routes = [{"links": ["dsl"], "rtt_ms": r} for r in rtts_ms]
    return parse_network(
        {
            "links": [{"name": "dsl", **link}],
            "users": [
                {"name": "mp", "algorithm": algorithm, "routes": routes, **user},
                {"name": "tcp", "algorithm": "newreno", "routes": [{"links": ["dsl"], "rtt_ms": min(rtts_ms)}]},
            ],
        }
    )


def lossy(algorithm: str, losses: list[float], rtts_ms: list[float], **user: Any) -> Network:
    """One user, each route over a link of constant loss."""
    return parse_network(
        {
            "links": [
                {"name": str(i), "capacity_mbps": 1e6, "loss_model": "constant", "loss": p}
                for i, p in enumerate(losses)
            ],
            "users": [
                {
                    "name": "u",
                    "algorithm": algorithm,
                    "routes": [{"links": [str(i)], "rtt_ms": r} for i, r in enumerate(rtts_ms)],
                    **user,
                }
            ],
        }
    )


def first(network: Network) -> tuple[Solution, Equilibrium]:
    solution = solve(network, starts=2)
    assert solution.equilibria, solution.failures
    return solution, solution.equilibria[0]


# ---- tables


def test_every_identity_holds_and_every_misprint_shows() -> None:
    assert len(IDENTITIES) == 14
    assert set(checked_claims(IDENTITIES).values()) == {STATES}
    assert len(PRINTED_CLAIMS) == 5
    assert all(count < STATES for count in checked_claims(PRINTED_CLAIMS).values())


def test_cells_of_the_tables() -> None:
    cells = checked_cells()
    assert all(c.corrected_right == c.states for c in cells)
    assert [(c.where, c.algorithm, c.quantity) for c in cells if c.misprint] == [
        ("TCCC paper, Table II", "BALIA", "k"),
        ("TCCC paper, Table II", "BALIA", "phi"),
        ("TCCC paper, Table II", "e-NMCC", "phi"),
        ("e-NMCC paper, Table I", "LIA", "phi"),
        ("e-NMCC paper, eq. 18", "e-NMCC", "I"),
        ("e-NMCC paper, eq. 19", "e-NMCC", "k"),
    ]


@settings(deadline=None)
@given(w=windows, rtt_s=rtts_s)
def test_one_route_is_newreno(w: float, rtt_s: float) -> None:
    x, r = np.array([w / rtt_s]), np.array([rtt_s])
    for name, options in VARIANTS:
        if name == "sbcc" and options:
            continue  # beta below 1 decreases less, whatever the number of routes
        m = model(name, options)
        assert m.increment(x, r)[0] == pytest.approx(1 / w, rel=1e-12), name
        assert m.decrement(x, r)[0] == pytest.approx(w / 2, rel=1e-12), name
        assert m.phi(x, r)[0] == pytest.approx(2 / w**2, rel=1e-12), name
        assert m.k(x, r)[0] == pytest.approx(x[0] ** 2 / 2, rel=1e-12), name


@settings(deadline=None)
@given(st.lists(windows, min_size=2, max_size=8), rtts_s)
def test_with_equal_round_trips_tccc_is_fully_coupled(w: list[float], rtt_s: float) -> None:
    r = np.full(len(w), rtt_s)
    x = np.array(w) / r
    for ours, theirs in ((model("tccc").k, model("coupled-full").k), (model("tccc").phi, model("coupled-full").phi)):
        np.testing.assert_allclose(ours(x, r), theirs(x, r), rtol=1e-12)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_gradients_are_those_of_finite_differences(name: str, options: dict[str, object]) -> None:
    m = model(name, options)
    for state in random_states(30, seed=7, routes_min=2):
        x, r = state.x, state.rtt_s
        gradients = m.gradients(x, r)
        for rule, gradient in zip((m.increment, m.decrement), gradients, strict=True):
            for j in range(state.n):
                step = np.zeros(state.n)
                step[j] = 1e-6 * x[j]
                differences = (rule(x + step, r) - rule(x - step, r)) / (2e-6 * x[j])
                scale = np.abs(rule(x, r)).max() / x[j]
                np.testing.assert_allclose(gradient[:, j], differences, rtol=1e-5, atol=1e-8 * scale)


# ---- links


@settings(deadline=None)
@given(load=st.fractions(Fraction(1, 50), 20), places=st.integers(1, 40))
def test_blocking_is_that_of_an_m_m_1_b_queue(load: Fraction, places: int) -> None:
    def exact(a: Fraction) -> Fraction:
        return a**places / sum(a**i for i in range(places + 1))

    h = Fraction(1, 10**12)
    slope = (exact(load + h) - exact(load - h)) / (2 * h)
    p, derivative = blocking(np.array([float(load)]), np.array([float(places)]))
    assert p[0] == pytest.approx(float(exact(load)), rel=1e-9)
    assert derivative[0] == pytest.approx(float(slope), rel=1e-6)


@pytest.mark.parametrize("beside", [Fraction(0), Fraction(5, 10**8), Fraction(-5, 10**8), Fraction(1, 10**6)])
def test_blocking_keeps_its_digits_beside_a_full_load(beside: Fraction) -> None:
    load, h, places = 1 + beside, Fraction(1, 10**15), 100

    def exact(a: Fraction) -> Fraction:
        return a**places / sum(a**i for i in range(places + 1))

    p, slope = blocking(np.array([float(load)]), np.array([float(places)]))
    assert p[0] == pytest.approx(float(exact(load)), rel=1e-10)
    assert slope[0] == pytest.approx(float((exact(load + h) - exact(load - h)) / (2 * h)), rel=1e-8)


@pytest.mark.parametrize("load", [0.0, 1e-9, 1 - 1e-12, 1.0, 1 + 1e-9, 1e6])
def test_blocking_of_a_large_buffer(load: float) -> None:
    p, slope = blocking(np.array([load]), np.array([1e6]))
    assert np.isfinite(p[0])
    assert np.isfinite(slope[0])
    assert p[0] == pytest.approx(max(0.0, 1 - 1 / load) if load else 0.0, abs=1.1e-6)
    assert slope[0] >= 0


# ---- equilibria with closed forms


@settings(max_examples=20, deadline=None)
@given(loss=st.floats(1e-6, 0.05), rtt_ms=st.floats(1, 500))
def test_one_tcp(loss: float, rtt_ms: float) -> None:
    solution, e = first(lossy("newreno", [loss], [rtt_ms]))
    w = math.sqrt(2 / loss)
    assert e.rates[0] * rtt_ms / 1e3 == pytest.approx(w, rel=1e-9)
    # dx/dt = 1/R^2 - p x^2/2
    assert e.eigenvalues.real.tolist() == [pytest.approx(-2 / (rtt_ms / 1e3 * w), rel=1e-9)]
    assert e.verdict == "stable"
    assert e.slowest_s == pytest.approx(rtt_ms / 1e3 * w / 2)
    assert tcp_ratio(solution, e, slice(0, 1)) == pytest.approx(1)


def test_one_tcp_over_time() -> None:
    system = System(lossy("newreno", [0.001], [100]))
    path = trajectory(system, np.array([10 / 0.1]))
    best, loss = math.sqrt(2 / 0.001) / 0.1, 0.001
    exact = best * np.tanh(math.atanh(100 / best) + path.times_s * best * loss / 2)
    assert path.settled
    np.testing.assert_allclose(path.rates[:, 0], exact, rtol=1e-4)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_tcps_share_a_link_equally(count: int) -> None:
    network = parse_network(
        {
            "links": [{"name": "l", "capacity_mbps": 100, "buffer_packets": 300}],
            "users": [
                {"name": "t", "algorithm": "newreno", "count": count, "routes": [{"links": ["l"], "rtt_ms": 40}]}
            ],
        }
    )
    solution, e = first(network)
    np.testing.assert_allclose(e.rates, e.rates[0], rtol=1e-9)
    loss = blocking(np.array([e.rates.sum() / solution.system.capacity[0]]), np.array([300.0]))[0]
    np.testing.assert_allclose(e.rates, math.sqrt(2 / loss[0]) / 0.04, rtol=1e-7)
    assert [u.name for u in network.users] == (["t"] if count == 1 else [f"t {i + 1}" for i in range(count)])


@pytest.mark.parametrize(
    ("algorithm", "options", "ratio"),
    [
        ("lia", {}, 1),
        ("balia", {}, 1),
        ("coupled", {}, 1),
        ("tccc", {}, 1),
        ("enmcc", {}, 1),
        ("ewtcp", {}, 1),
        ("ewtcp", {"ewtcp_a": "inv_sqrt"}, 2**0.75),
        ("uncoupled", {}, 2),
        ("nmcc", {}, math.sqrt(2)),
        ("dwc", {}, 1),
        ("tccc", {"aca_md": "half"}, math.sqrt(2)),
        ("sbcc", {"beta": 0.5}, 1),
    ],
)
def test_two_equal_subflows_in_tcps(algorithm: str, options: dict[str, object], ratio: float) -> None:
    solution, e = first(shared(algorithm, [100, 100], options=options))
    assert tcp_ratio(solution, e, slice(0, 2)) == pytest.approx(ratio, rel=1e-6)
    assert e.rates[:2].sum() / e.rates[2] == pytest.approx(ratio, rel=1e-6)


@pytest.mark.parametrize("rtts_ms", [[20, 60], [100, 30, 200]])
def test_lia_is_one_tcp_on_the_best_path(rtts_ms: list[float]) -> None:
    solution, e = first(shared("lia", rtts_ms))
    assert tcp_ratio(solution, e, slice(0, len(rtts_ms))) == pytest.approx(1, rel=1e-7)
    np.testing.assert_allclose(e.rates[0] * rtts_ms[0], e.rates[1] * rtts_ms[1], rtol=1e-7)


def test_coupled_leaves_the_more_congested_path_and_balia_is_between() -> None:
    share = {}
    for name in ("coupled", "balia", "lia", "uncoupled"):
        _, e = first(lossy(name, [0.002, 0.004], [100, 100]))
        share[name] = e.rates[1] / e.rates.sum()
        assert e.verdict == "stable"
        assert e.parked == [False, name == "coupled"]
    assert share["coupled"] < share["balia"] < share["lia"] < share["uncoupled"]
    # Coupled keeps one window of one segment there, and the rest of a TCP's rate on the other.
    _, e = first(lossy("coupled", [0.002, 0.004], [100, 100]))
    assert e.rates * 0.1 == pytest.approx([math.sqrt(1000) - 1, 1])


def test_balia_with_equal_paths_has_two_stable_equilibria_and_an_unstable_one_between() -> None:
    solution = solve(shared("balia", [100, 100]), starts=8)
    assert [e.verdict for e in solution.equilibria] == ["stable", "stable", "unstable"]
    alpha = (math.sqrt(69) - 5) / 2  # (4 + 5a + a^2)/15 = 1
    ratios = sorted(e.rates[0] / e.rates[1] for e in solution.equilibria)
    assert ratios == pytest.approx([1 / alpha, 1, alpha], rel=1e-6)


def test_dwc_halves_the_group_as_its_controller_does() -> None:
    """Of n losses, route r has x_r/S, and each of the n halves its window: D_r of a loss of its own is R_r S/2."""
    windows, rtts = [20.0, 30.0], [0.1, 0.2]
    paths = [{"cwnd": w, "rtt": r, "ssthresh": 2.0, "set": 1} for w, r in zip(windows, rtts, strict=True)]
    x = np.array(windows) / np.array(rtts)
    lost = np.zeros(2)
    for r in range(2):
        controller = rewindow.Controller("dwc", paths=paths)
        controller.loss(r)
        fallen = np.array(windows) - [p.cwnd for p in controller.paths]
        lost += x[r] / x.sum() * fallen  # on average, of one loss anywhere
    state = State(x, np.array(rtts))
    per_own_loss = ALGORITHMS["dwc"].decrement(state, {})
    np.testing.assert_allclose(x / x.sum() * per_own_loss, lost)


@pytest.mark.parametrize("algorithm", ["coupled", "tccc", "coupled-full", "dwc"])
def test_a_continuum_is_said_to_be_one(algorithm: str) -> None:
    solution = solve(shared(algorithm, [100, 100]))
    assert {e.verdict for e in solution.equilibria} == {"neutral"}
    assert len(solution.equilibria) > 2
    totals = [e.rates[:2].sum() for e in solution.equilibria]
    assert totals == pytest.approx([totals[0]] * len(totals), rel=1e-6)
    assert any("continuum" in n for n in solution_document(solution)["equilibria"][0]["notes"])


def test_a_kink_is_told() -> None:
    """With the estimate p = 2/w^2 equal windows tie for the largest p, whose route has one round trip or the other."""
    solution, e = first(shared("enmcc", [100, 30], options={"mth": "estimated"}))
    assert e.branches == 2
    assert any("2 spectra meet" in n for n in solution_document(solution)["equilibria"][0]["notes"])
    for pick in range(2):
        values = np.linalg.eigvals(solution.system.jacobian(e.rates, e.prices, pick))
        assert values.real.max() <= e.eigenvalues.real.max() + 1e-12
    assert first(shared("enmcc", [100, 30]))[1].branches == 1


def test_a_price_fills_its_link_and_the_spectrum_is_the_closed_form() -> None:
    link = {"capacity_mbps": 12, "loss_model": "price", "gamma_per_segment": 1e-4}
    network = parse_network(
        {
            "links": [{"name": "l", **link}, {"name": "wide", "capacity_mbps": 100, "loss_model": "price"}],
            "users": [{"name": "t", "algorithm": "newreno", "routes": [{"links": ["l", "wide"], "rtt_ms": 50}]}],
        }
    )
    _, e = first(network)
    x, rtt_s = 1000.0, 0.05  # 12 Mbit/s of 1500 bytes
    assert e.rates[0] == pytest.approx(x, rel=1e-9)
    assert e.prices == pytest.approx([2 / (x * rtt_s) ** 2, 0], rel=1e-8)
    expected = np.roots([1, 2 / (rtt_s * x * rtt_s), 1e-4 * x**2 / 2])
    np.testing.assert_allclose(np.sort_complex(e.eigenvalues), np.sort_complex(expected), rtol=1e-7)
    assert e.oscillation_hz == pytest.approx(abs(expected[0].imag) / (2 * np.pi), rel=1e-6)


def test_no_equilibrium_is_reported_with_its_reason() -> None:
    """One segment each millisecond is more than the link carries, and its price has no bound."""
    network = parse_network(
        {
            "links": [{"name": "l", "capacity_mbps": 0.001, "loss_model": "price"}],
            "users": [{"name": "t", "algorithm": "newreno", "routes": [{"links": ["l"], "rtt_ms": 1}]}],
        }
    )
    solution = solve(network, starts=2)
    assert solution.equilibria == []
    assert [f.start for f in solution.failures] == ["cold", "full"]
    assert "the smallest windows alone exceed the capacity of l" in solution.failures[0].reason


# ---- the Jacobian

mixed = st.sampled_from(VARIANTS)


@settings(max_examples=40, deadline=None)
@given(
    users=st.lists(st.tuples(mixed, st.integers(1, 4)), min_size=1, max_size=3),
    models=st.lists(st.sampled_from(["overflow", "price", "constant"]), min_size=2, max_size=2),
    seed=st.integers(0, 2**32 - 1),
)
def test_jacobian_is_that_of_finite_differences(
    users: list[tuple[tuple[str, dict[str, object]], int]], models: list[str], seed: int
) -> None:
    random = np.random.default_rng(seed)
    network = parse_network(
        {
            "links": [
                {"name": str(i), "capacity_mbps": 10, "loss_model": m, "buffer_packets": 20, "loss": 0.001}
                for i, m in enumerate(models)
            ],
            "users": [
                {
                    "name": str(u),
                    "algorithm": name,
                    "options": options,
                    "routes": [
                        {"links": [["0"], ["1"], ["0", "1"]][r % 3], "rtt_ms": float(random.uniform(5, 200))}
                        for r in range(routes)
                    ],
                }
                for u, ((name, options), routes) in enumerate(users)
            ],
        }
    )
    system = System(network)
    n = len(system.routes)
    x = np.exp(random.uniform(np.log(2), np.log(100), n)) / system.rtt_s
    prices = random.uniform(1e-4, 1e-2, len(system.priced))
    jacobian = system.jacobian(x, prices)
    point = np.concatenate([x, prices])
    for j, value in enumerate(point):
        step = np.zeros(len(point))
        step[j] = 1e-6 * value
        up, down = (system.flow((point + s)[:n], (point + s)[n:]) for s in (step, -step))
        differences = (up - down) / (2e-6 * value)
        terms = np.abs(system.flow(x, prices * 0)).max() + np.abs(system.flow(x, prices)).max()
        np.testing.assert_allclose(jacobian[:, j], differences, rtol=1e-4, atol=1e-7 * terms / value)


@settings(max_examples=25, deadline=None)
@given(
    algorithm=st.sampled_from(["uncoupled", "ewtcp", "nmcc"]),
    rtts_ms=st.lists(st.floats(5, 300), min_size=1, max_size=4),
    places=st.integers(10, 500),
)
def test_decoupled_increases_are_always_stable(algorithm: str, rtts_ms: list[float], places: int) -> None:
    """phi_r falls with x_r and knows no other rate: dPhi/dx is negative definite, the links add to it (Theorem 2)."""
    _, e = first(shared(algorithm, rtts_ms, {"capacity_mbps": 10, "buffer_packets": places}))
    assert e.eigenvalues.real.max() < 0
    assert np.abs(e.eigenvalues.imag).max() < 1e-9 * np.abs(e.eigenvalues).max()
    assert e.residual < 1e-8


# ---- orders


def claim(quantity: str, left: str, right: str, variant: str = "") -> Claim:
    return next(c for c in CLAIMS if (c.quantity, c.left, c.right, c.variant) == (quantity, left, right, variant))


def edges(found: list[Span]) -> list[float]:
    return [v for s in found for v in (s.low, s.high)]


@pytest.mark.parametrize("rtt_ratio", [1.0, 2.5])
def test_coupled_is_not_below_balia_while_rates_are_close(rtt_ratio: float) -> None:
    for variant, alpha in (("phi as printed", 4.0), ("", (math.sqrt(69) - 5) / 2)):
        found = edges(spans(claim("phi", "Coupled", "BALIA", variant), rtt_ratio))
        rates = [0.01, rtt_ratio / alpha, rtt_ratio, rtt_ratio, rtt_ratio * alpha, 100]
        assert found == pytest.approx(rates, rel=1e-6)


def test_where_ewtcp_is_above() -> None:
    share = 2**-0.25  # of the larger rate, with a = 1/sqrt(2)
    for name in ("BALIA", "TCCC"):
        found = edges(spans(claim("phi", name, "EWTCP", "a = 1/sqrt(n)"), 1.0))
        assert found == pytest.approx([(1 - share) / share, share / (1 - share)], rel=1e-6)
        assert spans(claim("phi", name, "EWTCP"), 1.0) == []


@pytest.mark.parametrize("rtt_ratio", [1.25, 2.0, 5.0])
def test_tccc_passes_tcp_on_the_longer_path(rtt_ratio: float) -> None:
    # w2 < S min R = w1 + w2/rho
    found = spans(claim("phi", "TCCC", "TCP"), rtt_ratio)
    assert edges(found) == pytest.approx([0.01, rtt_ratio / (rtt_ratio - 1)], rel=1e-6)
    assert edges(spans(claim("phi", "TCCC", "TCP"), 1.0)) == [0.01, 100]


def test_orders_that_hold_everywhere() -> None:
    everywhere = [("phi", "EWTCP", "TCP", ""), ("phi", "Coupled", "TCCC", ""), ("k", "Coupled", "BALIA", "")]
    for one in everywhere:
        for rtt_ratio in (1.0, 3.0, 20.0):
            assert spans(claim(*one), rtt_ratio) == [Span(0.01, 100.0)]
    for one in (("k", "TCP", "TCCC"), ("k", "BALIA", "TCCC")):
        assert spans(claim(*one), 1.0) == [Span(0.01, 100.0)]
        assert spans(claim(*one), 2.0) != [Span(0.01, 100.0)]


@settings(deadline=None)
@given(w=windows, rtt_s=st.floats(1e-4, 1), window_ratio=st.floats(0.01, 100), rtt_ratio=st.floats(1, 100))
def test_orders_depend_on_ratios_alone(w: float, rtt_s: float, window_ratio: float, rtt_ratio: float) -> None:
    rtts = np.array([rtt_s, rtt_s * rtt_ratio])
    for order in orders_at(np.array([w, w * window_ratio]) / rtts, rtts):
        expected = margin_of_ratios(order.claim, window_ratio, rtt_ratio)
        assert order.margin == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_responsiveness_of_equal_subflows(n: int) -> None:
    """In 1/(R w): TCP -2; TCCC's total -2/n and BALIA's -2/n^2, both with directions that do not return."""
    found = {r.algorithm: r for r in responsiveness_when_equal(n)}
    assert found["TCP"].slowest == pytest.approx(-2)
    assert [found[a].total for a in ("TCP", "TCCC", "BALIA", "Coupled")] == pytest.approx(
        [-2, -2 / n, -2 / n**2, -2 / n**2]
    )
    assert found["TCCC"].slowest == pytest.approx(0, abs=1e-12)
    assert found["BALIA"].slowest > 0
    # The same state in other units.
    scaled = responsiveness("TCCC", np.full(n, 400.0), np.full(n, 0.05))
    assert scaled.total == pytest.approx(-2 / n / (0.05 * 20))


# ---- files

GOOD = EXAMPLE.read_text()


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "links: is missing"),
        ("links = 1", "links: must be a list of 1 to 64"),
        ("links = [1]", "links[0]: must be a table"),
        ("x = ", "not TOML: Invalid value (at end of document)"),
        ("\0", "not TOML"),
        ("a = " + "[" * 5000, "not TOML"),
        ("a = " + "1" * 5000, "not TOML"),
        (changed('name = "wifi"', "name = 3"), "links[0].name: must be 1 to 64 printable characters"),
        (changed('name = "wifi"', 'name = "a\\u001b[2J"'), "links[0].name: must be 1 to 64 printable"),
        (changed('name = "wifi"', 'name = "cellular"'), "links: two have the name 'cellular'"),
        (changed("capacity_mbps = 20", "capacity_mbps = nan"), "links[0].capacity_mbps: must be a number from 0.001"),
        (changed("capacity_mbps = 20", "capacity_mbps = 0x" + "f" * 9000), "links[0].capacity_mbps: must be a number"),
        (changed("capacity_mbps = 20", "capacity_mbps = true"), "links[0].capacity_mbps: must be a number"),
        (changed("capacity_mbps = 20", ""), "links[0].capacity_mbps: is missing"),
        (changed("buffer_packets = 50", "buffer_packets = 1.5"), "links[0].buffer_packets: must be a whole number"),
        (changed("buffer_packets = 50", "buffers = 1"), "links[0].buffers: unknown key"),
        (changed("buffer_packets = 50", '"\\u001b" = 1'), "links[0].'\\x1b': unknown key"),
        (changed("buffer_packets = 50", 'loss_model = "no"'), "links[0].loss_model: must be overflow or price"),
        (changed("buffer_packets = 50", 'loss_model = "constant"'), "links[0].loss: must be above 0"),
        (changed('"lia"', '"wvegas"'), "users[0].algorithm: wvegas has no fluid model here: it answers"),
        (changed('"lia"', '"nope"'), "users[0].algorithm: unknown algorithm 'nope'"),
        (changed('"lia"', '"newreno"'), "users[0].routes: newreno has one route"),
        (changed('"lia"', '"lia"\noptions = { beta = 1 }'), "users[0].options: lia has no option 'beta'"),
        (changed('"lia"', '"sbcc"\noptions = { beta = 0 }'), "users[0].options: option beta takes a number from"),
        (changed('"lia"', '"tccc"\noptions = { aca_md = 1 }'), "users[0].options: option aca_md takes eq8 or half"),
        (changed('"lia"', '"lia"\noptions = 3'), "users[0].options: must be a table"),
        (changed('"lia"', '"lia"\ncount = 100'), "users[0]: all users together have more than 128 routes"),
        (changed('name = "laptop"', 'name = "car"'), "users[2].name: two users have the name 'car'"),
        (changed('links = ["wifi"]', "links = [0x" + "f" * 9000 + "]"), "users[0].routes[0].links: must be names"),
        (changed('links = ["wifi"]', 'links = ["lan"]'), "users[0].routes[0].links: no link has the name 'lan'"),
        (changed('links = ["wifi"]', 'links = ["wifi", "wifi"]'), "users[0].routes[0].links: 'wifi' stands twice"),
        (changed("delay_ms = 10 ", "delay_ms = 0 "), "users[0].routes[0].rtt_ms: must be a number from 0.05 to 100000"),
        (GOOD + "[model]\nsegment_bytes = 1\n", "model.segment_bytes: must be a number from 40 to 65535"),
        (GOOD + "[more]\n", "more: unknown key"),
    ],
)  # fmt: skip
def test_a_bad_file_is_told_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text(text)
    with pytest.raises(NetworkUnreadable) as caught:
        read_network(str(path))
    message = str(caught.value)
    assert message.startswith(f"{path}: {said}")
    assert "\n" not in message
    assert len(message) < 600


def test_what_is_no_file(tmp_path: Path) -> None:
    for path, said in (
        ("/nonexistent", "No such file"),
        (str(tmp_path), "directory"),
        ("/dev/zero", "larger than"),
        ("a\0b", "null"),
    ):
        with pytest.raises(NetworkUnreadable, match=said):
            read_network(path)
    path = str(tmp_path / "x")
    Path(path).write_bytes(b'a = "\xff"')
    with pytest.raises(NetworkUnreadable, match="byte 5: not UTF-8"):
        read_network(path)


keys = st.sampled_from(["links", "users", "routes", "name", "algorithm", "options", "count", "rtt_ms", "loss", "model"])
short = st.text("ab.\x1b\n", max_size=5)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | short | st.sampled_from(["a", "lia", "price"])


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return inner | st.lists(inner, max_size=3) | st.dictionaries(keys | short, inner, max_size=6)


toml_values = nested(nested(nested(leaves)))


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["links", "users", "model", "x"]), toml_values))
def test_any_document_is_a_network_or_a_clear_error(document: dict[str, Any]) -> None:
    with contextlib.suppress(NetworkUnreadable):
        assert parse_network(document).users


# ---- the command


def run(*arguments: object, **kw: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(REWINDOW), "fluid", *map(str, arguments)], capture_output=True, text=True, **kw)


def test_the_example() -> None:
    done = run(EXAMPLE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == GOLDEN.read_text()
    assert run("-", input=EXAMPLE.read_text()).stdout == done.stdout


def test_json_and_plots(tmp_path: Path) -> None:
    pictures = [tmp_path / "a.svg", tmp_path / "b.svg", tmp_path / "c.png"]
    for picture in pictures:
        done = run(EXAMPLE, "--json", "--plot", picture)
        assert done.returncode == 0
    document = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(name))
    (e,) = document["equilibria"]
    assert e["verdict"] == "stable"
    assert e["residual"] < 1e-8
    assert len(e["eigenvalues_per_s"]) == 4
    phone = e["users"][0]
    assert phone["tcp_ratio"] == pytest.approx(1)
    assert {o["equation"] for o in phone["orders"]} == {"17", "18", "19"}
    for user in e["users"]:
        assert sum(r["rate_mbps"] for r in user["routes"]) == pytest.approx(user["rate_mbps"])
        for r in user["routes"]:
            assert r["window_segments"] == pytest.approx(r["rate_segments_per_s"] * r["rtt_ms"] / 1e3)
            assert r["rate_mbps"] == pytest.approx(r["rate_segments_per_s"] * 12000 / 1e6)
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    assert b"<svg" in pictures[0].read_bytes()
    assert b"phone, route 1" in pictures[0].read_bytes()
    assert pictures[2].read_bytes().startswith(b"\x89PNG")


def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    path, picture = tmp_path / "n.toml", tmp_path / "n.svg"
    path.write_text(GOOD.replace('"phone"', '"a $b$ <!-- 電 -->"'))
    done = run(path, "--plot", picture)
    assert (done.returncode, done.stderr) == (0, "")
    xml.dom.minidom.parse(str(picture))


def test_tables_and_orders(tmp_path: Path) -> None:
    cells = json.loads(run("--table", "--json").stdout)
    assert sum(c["misprint"] for c in cells["cells"]) == 6
    assert "19/200" not in run("--table").stdout.splitlines()[0]
    orders = json.loads(run("--orders", "--json").stdout)
    assert len(orders["orders"]) == len(CLAIMS)
    assert run("--orders", "--plot", tmp_path / "map.png").returncode == 0
    assert (tmp_path / "map.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "give NETWORK.toml, --orders or --table"),
        ([EXAMPLE, "--orders"], 2, "give NETWORK.toml, --orders or --table"),
        ([EXAMPLE, "--plot", "x.pdf"], 2, ".svg or .png"),
        ([EXAMPLE, "--plot", "/nonexistent/x.svg"], 2, "cannot be written"),
        (["/nonexistent.toml"], 3, "/nonexistent.toml: No such file"),
        ([__file__], 3, "not TOML"),
    ],
)
def test_errors(arguments: list[object], status: int, said: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_nothing_found_is_a_negative_answer(tmp_path: Path) -> None:
    path = tmp_path / "n.toml"
    path.write_text(
        'links = [{ name = "l", capacity_mbps = 0.001, loss_model = "price" }]\n'
        'users = [{ name = "t", algorithm = "newreno", routes = [{ links = ["l"], rtt_ms = 1 }] }]\n'
    )
    done = run(path)
    assert done.returncode == 1
    assert done.stdout.startswith("no equilibrium was found")
    assert json.loads(run(path, "--json").stdout)["equilibria"] == []


def test_other_commands_do_not_load_scipy() -> None:
    code = "import sys, rewindow.cli; sys.exit(bool({'scipy', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("package", "arguments"),
    [("scipy", ["--table"]), ("scipy", [str(EXAMPLE)]), ("matplotlib", ["--orders", "--plot", "orders.svg"])],
)
def test_what_is_not_installed_is_named_in_one_line(package: str, arguments: list[str], tmp_path: Path) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from rewindow.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "fluid", *arguments], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("rewindow: fluid needs SciPy and matplotlib: pip install 'rewindow[fluid]'")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_unknown_names() -> None:
    with pytest.raises(rewindow.UnknownAlgorithm, match="cubic has no fluid model"):
        model("cubic")
    with pytest.raises(rewindow.BadOption, match="no option"):
        model("lia", {"x": 1})
    assert dataclasses.is_dataclass(model("lia"))


def test_the_document_is_what_the_commands_print() -> None:
    from bench import fluid

    text = (ROOT / "docs" / "fluid.md").read_text()
    assert text.split(fluid.MARK)[1] == fluid.measured()
