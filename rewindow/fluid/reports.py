"""The output of `rewindow fluid`: text, and documents for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewindow.fluid.equilibrium import RESIDUAL_MAX, Equilibrium, Solution
from rewindow.fluid.models import TIED
from rewindow.fluid.network import Network
from rewindow.fluid.orders import (
    CLAIMS,
    RTT_RATIOS,
    WINDOW_RATIOS,
    Order,
    Span,
    orders_at,
    responsiveness_when_equal,
    spans,
)
from rewindow.fluid.table import (
    IDENTITIES,
    PRINTED_CLAIMS,
    STATES,
    checked_cells,
    checked_claims,
)
from rewindow.reports.tables import table

LOSS_TRUSTED = 0.1
"""Largest loss without a note, because the model takes 1 - q for 1."""
_ORDER_USERS_MAX = 6
_OTHERS_MAX = 10


def _places(network: Network) -> list[slice]:
    """The range of each user's routes in the arrays of an equilibrium."""
    ends = np.cumsum([len(u.routes) for u in network.users])
    return [slice(int(end) - len(u.routes), int(end)) for end, u in zip(ends, network.users, strict=True)]


def _orders(solution: Solution, e: Equilibrium, at: slice) -> list[Order]:
    return orders_at(e.rates[at], solution.system.rtt_s[at]) if at.stop - at.start > 1 else []


def tcp_ratio(solution: Solution, e: Equilibrium, at: slice) -> float:
    """A user's rate over that of one NewReno on the best of its routes, at the losses there: sqrt(2/q)/R."""
    tcp = np.sqrt(2 / e.route_losses[at]) / solution.system.rtt_s[at]
    return float(e.rates[at].sum() / tcp.max())


def _notes(solution: Solution, e: Equilibrium) -> list[str]:
    """Notes on the limits of an equilibrium."""
    system, network = solution.system, solution.system.network
    notes = []
    if e.branches > 1:
        notes.append(
            f"rates or windows tie for a maximum: {e.branches} spectra meet here, the eigenvalues are the least stable"
        )
    if e.verdict == "neutral":
        notes.append("a continuum: along one direction at least nothing pulls back, and the split depends on the start")
    if e.route_losses.max() > LOSS_TRUSTED:
        notes.append(f"losses above {LOSS_TRUSTED:.0%}: the model takes 1 - q for 1")
    decrement = system.steps(e.rates)[1]
    for user, at in zip(network.users, _places(network), strict=True):
        if (decrement[at] >= e.rates[at] * system.rtt_s[at] * (1 - TIED)).any():
            notes.append(f"{user.name}: one loss takes a whole window or more (D >= w); the model has no floor for it")
    load = system.crosses @ e.rates
    for i, link in enumerate(network.links):
        if link.loss_model == "constant" and load[i] > system.capacity[i]:
            notes.append(f"{link.name}: the load exceeds the capacity, which a constant loss does not know")
    notes += [
        f"{a.name}: {a.note}" for a in {u.model.name: u.model.algorithm for u in network.users}.values() if a.note
    ]
    return notes


def _equilibrium_document(solution: Solution, e: Equilibrium) -> dict[str, Any]:
    system, network = solution.system, solution.system.network
    load = system.crosses @ e.rates
    users = []
    for user, at in zip(network.users, _places(network), strict=True):
        routes = [
            {
                "links": [network.links[i].name for i in route.links],
                "rtt_ms": route.rtt_ms,
                "rate_mbps": network.mbps(float(e.rates[place])),
                "rate_segments_per_s": float(e.rates[place]),
                "window_segments": float(e.rates[place] * system.rtt_s[place]),
                "loss": float(e.route_losses[place]),
                "at_smallest_window": e.parked[place],
            }
            for place, route in zip(range(at.start, at.stop), user.routes, strict=True)
        ]
        users.append(
            {
                "name": user.name,
                "algorithm": user.model.name,
                "options": dict(user.model.options),
                "rate_mbps": network.mbps(float(e.rates[at].sum())),
                "tcp_ratio": tcp_ratio(solution, e, at),
                "routes": routes,
                "orders": [
                    {"equation": o.claim.equation, "order": o.claim.text, "variant": o.claim.variant,
                     "given": o.claim.given, "holds": o.holds, "margin": o.margin}
                    for o in _orders(solution, e, at)
                ],
            }
        )  # fmt: skip
    return {
        "verdict": e.verdict,
        "reached_from": e.starts,
        "residual": e.residual,
        "slowest_s": e.slowest_s,
        "oscillation_hz": e.oscillation_hz,
        "eigenvalues_per_s": [[float(v.real), float(v.imag)] for v in e.eigenvalues],
        "branches": e.branches,
        "links": [
            {"name": link.name, "load_mbps": network.mbps(float(load[i])), "load": float(load[i] / system.capacity[i]),
             "loss": float(e.link_losses[i])}
            for i, link in enumerate(network.links)
        ],
        "users": users,
        "notes": _notes(solution, e),
    }  # fmt: skip


def solution_document(solution: Solution) -> dict[str, Any]:
    """What `rewindow fluid NETWORK.toml --json` prints."""
    network = solution.system.network
    return {
        "network": network.name,
        "segment_bytes": network.segment_bytes,
        "window_min_segments": network.window_min_segments,
        "links": [
            {"name": link.name, "capacity_mbps": link.capacity_mbps, "loss_model": link.loss_model}
            for link in network.links
        ],
        "equilibria": [_equilibrium_document(solution, e) for e in solution.equilibria],
        "failures": [{"start": f.start, "reason": f.reason} for f in solution.failures],
        "cold_start": {"settled": solution.cold.settled, "until_s": float(solution.cold.times_s[-1])},
    }


def _percent(share: float) -> str:
    return f"{share:.4%}"


def _links_text(solution: Solution, e: Equilibrium) -> str:
    system, network = solution.system, solution.system.network
    load = system.crosses @ e.rates
    rows = [["link", "capacity Mbit/s", "load Mbit/s", "load", "loss", "loss model"]]
    rows += [
        [link.name, f"{link.capacity_mbps:g}", f"{network.mbps(float(load[i])):.4f}",
         f"{load[i] / system.capacity[i]:.2%}", _percent(e.link_losses[i]), link.loss_model]
        for i, link in enumerate(network.links)
    ]  # fmt: skip
    return table(rows, right=(1, 2, 3, 4))


def _users_text(solution: Solution, e: Equilibrium) -> str:
    system, network = solution.system, solution.system.network
    rows = [["user", "algorithm", "route", "links", "rtt ms", "window", "loss", "segments/s", "Mbit/s", "of one TCP"]]
    for user, at in zip(network.users, _places(network), strict=True):
        ratio = f"{tcp_ratio(solution, e, at):.4f}"
        for place, route in zip(range(at.start, at.stop), user.routes, strict=True):
            window = float(e.rates[place] * system.rtt_s[place])
            rows.append(
                [
                    user.name, user.model.name, str(place - at.start),
                    ", ".join(network.links[i].name for i in route.links), f"{route.rtt_ms:g}",
                    f"{window:.2f}" + ("*" if e.parked[place] else ""), _percent(e.route_losses[place]),
                    f"{e.rates[place]:.2f}", f"{network.mbps(float(e.rates[place])):.4f}",
                    ratio if len(user.routes) == 1 else "",
                ]
            )  # fmt: skip
        if len(user.routes) > 1:
            total = float(e.rates[at].sum())
            rows.append(
                [user.name, user.model.name, "all", "", "", "", "", f"{total:.2f}", f"{network.mbps(total):.4f}", ratio]
            )
    text = table(rows, right=(2, 4, 5, 6, 7, 8, 9))
    return text + ("\n* the smallest window: it would have less" if any(e.parked) else "")


def _eigenvalues_text(e: Equilibrium) -> str:
    parts = [f"{e.verdict}, reached from {', '.join(e.starts)}; residual below {RESIDUAL_MAX:g}"]
    if e.slowest_s is not None:
        parts.append(f"slowest decay {e.slowest_s:.4g} s")
    if e.oscillation_hz is not None:
        parts.append(f"oscillation {e.oscillation_hz:.4g} Hz")
    # Users with the same routes have equal eigenvalues; each is shown once, with its number.
    counts: dict[str, int] = {}
    zero = 1e-9 * float(np.abs(e.eigenvalues).max(initial=0))
    for v in e.eigenvalues:
        real = 0.0 if abs(v.real) <= zero else float(v.real)
        text = f"{real:.4g}" if abs(v.imag) <= zero else f"{real:.4g}{v.imag:+.4g}i"
        counts[text] = counts.get(text, 0) + 1
    values = [text if times == 1 else f"{text} (x{times})" for text, times in counts.items()]
    return "; ".join(parts) + "\neigenvalues 1/s: " + (", ".join(values) or "none, no rate is free to move")


def _orders_text(solution: Solution, e: Equilibrium) -> str:
    network = solution.system.network
    found = [(u, _orders(solution, e, at)) for u, at in zip(network.users, _places(network), strict=True)]
    found = [(u, orders) for u, orders in found if orders]
    shown = found[:_ORDER_USERS_MAX]
    if not shown:
        return ""
    rows = [["eq.", "order at these rates", "", *(u.name for u, _ in shown)]]
    for i, claim in enumerate(CLAIMS):
        rows.append(
            [
                claim.equation,
                claim.text,
                claim.variant or claim.given,
                *("holds" if o[i].holds else "fails" for _, o in shown),
            ]
        )
    text = table(rows)
    left = len(found) - len(shown)
    return text + (f"\nand of {left} users more: --json has all of them" if left else "")


def solution_text(solution: Solution) -> str:
    """What `rewindow fluid NETWORK.toml` prints."""
    parts = []
    if not solution.equilibria:
        parts.append("no equilibrium was found")
    for first in solution.equilibria[:1]:
        parts += [_links_text(solution, first), _users_text(solution, first), _eigenvalues_text(first)]
        parts += [text for text in (_orders_text(solution, first),) if text]
        if notes := _notes(solution, first):
            parts.append("\n".join(f"note: {n}" for n in notes))
    if others := solution.equilibria[1:]:
        parts.append(_others_text(solution, others))
    if solution.failures:
        parts.append("\n".join(f"from {f.start}: {f.reason}" for f in solution.failures))
    return "\n\n".join(parts)


def _others_text(solution: Solution, others: list[Equilibrium]) -> str:
    network = solution.system.network
    rows = [["other equilibrium", "reached from", "Mbit/s of each route"]]
    for e in others[:_OTHERS_MAX]:
        rates = [network.mbps(float(x)) for x in e.rates]
        shown = " ".join(f"{r:.4f}" for r in rates[:12]) + (" ..." if len(rates) > 12 else "")
        rows.append([e.verdict, ", ".join(e.starts), shown])
    return table(rows)


def _ranges(found: list[Span]) -> str:
    if not found:
        return "nowhere"
    if found == [Span(*WINDOW_RATIOS)]:
        return "everywhere"
    return ", ".join(f"{s.low:.4g}" if s.high / s.low - 1 < 1e-6 else f"{s.low:.4g} to {s.high:.4g}" for s in found)


def orders_document() -> dict[str, Any]:
    """What `rewindow fluid --orders --json` prints."""
    return {
        "window_ratios": list(WINDOW_RATIOS),
        "orders": [
            {
                "equation": c.equation, "order": c.text, "variant": c.variant, "given": c.given,
                "holds": [
                    {"rtt_ratio": r, "window_ratios": [[s.low, s.high] for s in spans(c, r)]} for r in RTT_RATIOS
                ],
            }
            for c in CLAIMS
        ],
        "responsiveness_when_equal": [
            {"routes": n, "algorithm": r.algorithm, "slowest_rw": r.slowest, "total_rw": r.total}
            for n in (2, 4) for r in responsiveness_when_equal(n)
        ],
    }  # fmt: skip


def orders_rows() -> list[list[str]]:
    """Where each order holds: a row for each claim, a column for each ratio of round trips."""
    rows = [["eq.", "order", "read with", *(f"R2/R1 = {r:g}" for r in RTT_RATIOS)]]
    for c in CLAIMS:
        rows.append([c.equation, c.text, c.variant or c.given, *(_ranges(spans(c, r)) for r in RTT_RATIOS)])
    return rows


def responsiveness_rows() -> list[list[str]]:
    """Eq. 20: how fast algorithms return where all subflows are equal."""
    rows = [["subflows", "algorithm", "slowest direction (eq. 13)", "the total"]]
    for n in (2, 4):
        for r in responsiveness_when_equal(n):
            slowest = 0.0 if abs(r.slowest) < 1e-12 else r.slowest
            rows.append([str(n), r.algorithm, f"{slowest:.4g}", f"{r.total:.4g}"])
    return rows


def orders_text() -> str:
    """What `rewindow fluid --orders` prints."""
    return (
        "Window ratios w2/w1, of 0.01 to 100, for which an order holds on both of two routes.\n"
        "A TCP sees the loss ratio p2/p1 = (w1/w2)^2 at such windows.\n\n"
        + table(orders_rows())
        + "\n\nEq. 20: return to an equilibrium of equal subflows, in 1/(R w); the more negative, the faster.\n\n"
        + table(responsiveness_rows(), right=(0, 2, 3))
    )


def table_rows() -> list[list[str]]:
    """The papers' cells: printed, right on how many states, corrected."""
    rows = [["where", "algorithm", "", "printed", "right on", "corrected", "right on"]]
    for c in checked_cells():
        rows.append(
            [c.where, c.algorithm, c.quantity, c.printed, f"{c.printed_right}/{c.states}",
             c.corrected if c.misprint else "", f"{c.corrected_right}/{c.states}" if c.misprint else ""]
        )  # fmt: skip
    return rows


def claims_rows() -> list[list[str]]:
    """Identities that hold, and printed statements that do not."""
    rows = [["statement", "holds on"]]
    for claims in (IDENTITIES, PRINTED_CLAIMS):
        rows += [[name, f"{count}/{STATES}"] for name, count in checked_claims(claims).items()]
    return rows


def table_text() -> str:
    """What `rewindow fluid --table` prints."""
    return table(table_rows()) + "\n\n" + table(claims_rows())


def table_document() -> dict[str, Any]:
    """What `rewindow fluid --table --json` prints."""
    return {
        "cells": [{**vars(c), "misprint": c.misprint} for c in checked_cells()],
        "identities": {"states": STATES, "hold_on": checked_claims(IDENTITIES)},
        "printed_claims": {"states": STATES, "hold_on": checked_claims(PRINTED_CLAIMS)},
    }
