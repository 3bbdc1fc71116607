"""Pictures: rates from a cold start with the eigenvalues, and the map of orders. Needs no display."""

from __future__ import annotations

import warnings

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from rewindow.fluid.equilibrium import NEUTRAL, Solution
from rewindow.fluid.models import Real
from rewindow.fluid.orders import CLAIMS, WINDOW_RATIOS, holds, margin_of_ratios

FORMATS = (".svg", ".png")
_LEGEND_MAX = 16
_TAIL = 1.3
_MAP_POINTS = 241
_BESIDE = 1.0123


def _save(figure: Figure, path: str, suffix: str) -> None:
    # No date and no random names, so that the same picture is the same file.
    with matplotlib.rc_context({"svg.hashsalt": "rewindow"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a name is drawn as far as the font goes
        figure.savefig(path, format=suffix.lstrip("."), metadata={"Date": None} if suffix == ".svg" else None)


def _smallest(values: Real) -> float:
    """The smallest that is not zero beside the largest: from there on the axis is logarithmic."""
    size = np.abs(values)
    seen = size[size > NEUTRAL * size.max(initial=0)]
    return float(seen.min(initial=1e6)) if len(seen) else 1.0


def plot_solution(solution: Solution, path: str, suffix: str) -> None:
    """Draws rates over time from a cold start and the first equilibrium's eigenvalues. suffix: `.svg` or `.png`."""
    system, network, cold = solution.system, solution.system.network, solution.cold
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    rates = np.vectorize(network.mbps)(cold.rates)
    moving = np.abs(rates / rates[-1] - 1).max(axis=1) > 1e-2
    settled_at = np.flatnonzero(moving).max(initial=0) + 1
    end = _TAIL * float(cold.times_s[min(settled_at, len(cold.times_s) - 1)])
    for place, (u, r) in enumerate(system.routes):
        user = network.users[u]
        label = f"{user.name}, route {r}" if len(user.routes) > 1 else user.name
        left.plot(cold.times_s, rates[:, place], linewidth=1.2, label=label.replace("$", r"\$").lstrip("_"))
    left.set(xlabel="s", ylabel="Mbit/s", title="from a cold start", xlim=(0, end or 1), ylim=(0, None))
    if len(system.routes) <= _LEGEND_MAX:
        left.legend(fontsize="small")
    values = solution.equilibria[0].eigenvalues if solution.equilibria else np.array([])
    right.axvline(0, color="0.6", linewidth=0.8)
    right.axhline(0, color="0.6", linewidth=0.8)
    right.plot(values.real, values.imag, "x")
    right.set_xscale("symlog", linthresh=_smallest(values.real))
    verdict = solution.equilibria[0].verdict if solution.equilibria else "no equilibrium"
    right.set(xlabel="Re, 1/s", ylabel="Im, 1/s", title=f"eigenvalues: {verdict}")
    _save(figure, path, suffix)


def plot_orders(path: str, suffix: str) -> None:
    """Draws for each claim of `orders.CLAIMS` where it holds, over ratios of round trips and windows."""
    figure = Figure(figsize=(11, 12), layout="constrained")
    panels = figure.subplots(5, 3, sharex=True, sharey=True).flatten()
    rtt = np.geomspace(1, 10, _MAP_POINTS)
    # Between the points where rates are equal: there a claim may hold on a line that no picture shows.
    windows = np.geomspace(*WINDOW_RATIOS, _MAP_POINTS) * _BESIDE
    for panel, claim in zip(panels, CLAIMS, strict=False):
        good = holds(claim, margin_of_ratios(claim, windows[:, None], rtt))
        panel.contourf(rtt, windows, good.astype(float), levels=[-0.5, 0.5, 1.5], colors=["#d95f5f", "#8fc79a"])
        panel.set(xscale="log", yscale="log")
        panel.set_title(f"{claim.equation}: {claim.text}\n{claim.variant or claim.given}", fontsize="small")
    for panel in panels[len(CLAIMS) :]:
        panel.set_visible(False)
    figure.supxlabel("R2/R1")
    figure.supylabel("w2/w1")
    figure.suptitle("green: the order holds on both routes; red: it fails")
    _save(figure, path, suffix)
