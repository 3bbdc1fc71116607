"""Simulation-based calibration of the path's fit: `make calibration` (Talts et al. 2018).

Networks are drawn, a transfer is simulated on each, and a path is fitted to the capture that the simulation wrote. The
rank of the true value among draws of the posterior is uniform where the posterior is right: too narrow a posterior has
ranks at both ends, too wide a one in the middle, a biased one at one end. The simulator is the model here, so nothing
is said of how far it is from a kernel: the simulator's own error, which the fit otherwise adds, is left out.

Prints Markdown: for each parameter the deviation of the ranks from uniform (chi-squared over BINS bins, with the 95 %
quantile), and the shares of true values in central intervals.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import numpy.typing as npt

import rewindow
from bench.speed import table
from rewindow.core import Choice
from rewindow.scenarios import parse
from rewindow.simulator import simulate
from rewindow.whatif import observe
from rewindow.whatif.fitting import fit

DRAWS = 99
"""Of each posterior: a rank is one of 0 to DRAWS."""
BINS = 20
CHI_SQUARED_95 = 30.14
"""Of 19 degrees of freedom."""
PARAMETERS = ("rate_bps", "queue_packets", "ecn_packets", "loss")
WHOLE = ("queue_packets", "ecn_packets")
CENTRAL = (0.5, 0.8, 0.95)
MTU_BYTES = 1400
TEXT = """
name = "drawn"
seconds = {seconds}
[hosts.client]
send_buffer = "4MB"
receive_buffer = "8MB"
ecn = {ecn}
interfaces.a = {{ address = "10.0.1.1", mtu = {mtu} }}
[hosts.server]
send_buffer = "4MB"
receive_buffer = "8MB"
ecn = {ecn}
interfaces.a = {{ address = "10.0.1.2", mtu = {mtu} }}
[links.line]
rate = {rate}
delay = "{delay_ms:.3f}ms"
limit = {queue}
loss = {loss:.8f}
backward = {{ loss = 0 }}
{discipline}
[[paths]]
name = "path"
from = "client.a"
to = "server.a"
links = ["line"]
[[transfers]]
name = "client"
protocol = "tcp"
from = "client"
to = "server"
congestion_control = "{algorithm}"
"""

Array = npt.NDArray[np.float64]


def drawn(number: int) -> tuple[str, dict[str, float]]:
    """A scenario, and the true values of its parameters; some have no loss, some no ECN."""
    random = np.random.default_rng([7, number])

    def log_uniform(low: float, high: float) -> float:
        return float(np.exp(random.uniform(np.log(low), np.log(high))))

    rate, delay_ms = log_uniform(2e6, 30e6), random.uniform(5, 60)
    path_packets = rate * 2 * delay_ms / 1e3 / 8 / MTU_BYTES
    queue = max(round(path_packets * log_uniform(0.3, 3)), 8)
    truth = {"rate_bps": rate, "queue_packets": float(queue)}
    discipline, loss, marks = "", 0.0, random.random() < 0.25
    if marks:
        threshold = max(round(queue * random.uniform(0.2, 0.6)), 3)
        truth["ecn_packets"] = float(threshold)
        discipline = f'discipline = {{ kind = "ecn_threshold", threshold = {threshold} }}'
    elif random.random() < 0.33:
        loss = truth["loss"] = log_uniform(5e-4, 5e-3)
    text = TEXT.format(
        seconds=8, ecn=str(marks).lower(), mtu=MTU_BYTES, rate=round(rate), delay_ms=delay_ms, queue=queue, loss=loss,
        discipline=discipline, algorithm=random.choice(["reno", "cubic"]),
    )  # fmt: skip
    return text, truth


def ranks(number: int, runs: int) -> dict[str, int]:
    """Of each parameter that the fit has."""
    text, truth = drawn(number)
    scenario = parse(text, "drawn.toml")
    with tempfile.NamedTemporaryFile(suffix=".pcapng") as file:
        simulate(scenario, number, capture=file.fileno())
        with rewindow.open(file.name) as capture:
            observation = observe(capture)
    if not observation.connections:
        return {}
    (connection,) = observation.connections
    algorithm = scenario.transfers[0].congestion_control or "cubic"
    assumed = {connection.id: Choice({"reno": "newreno"}.get(algorithm, algorithm))}
    best = fit(observation, connection.id, assumed=assumed, runs=runs, draws=DRAWS, seed=number, is_simulated=True)[0]
    random = np.random.default_rng([8, number])
    found = {}
    for i, p in enumerate(best.parameters):
        if p.name in truth:
            values = np.exp(best.posterior_log[:, i])
            # A network has whole packets: of equal ones, chance says which is less.
            values = np.rint(values) if p.name in WHOLE else values
            ties = np.count_nonzero(values == truth[p.name])
            found[p.name] = int(np.count_nonzero(values < truth[p.name])) + int(random.integers(ties + 1))
    return found


def rows(found: dict[str, list[int]]) -> Iterator[tuple[str, ...]]:
    for name in PARAMETERS:
        own = np.array(found[name])
        if not len(own):
            continue
        counts = np.bincount(own * BINS // (DRAWS + 1), minlength=BINS)
        expected = len(own) / BINS
        deviation = float(((counts - expected) ** 2 / expected).sum())
        place = (own + 0.5) / (DRAWS + 1)
        inside = [np.mean(np.abs(place - 0.5) < share / 2) for share in CENTRAL]
        yield (name, str(len(own)), f"{deviation:.1f}", f"{CHI_SQUARED_95:.1f}", f"{np.mean(place):.3f}",
               *(f"{share:.1%}" for share in inside))  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="simulation-based calibration of the path's fit")
    parser.add_argument("--draws", type=int, default=1000, metavar="N", help="networks (default %(default)s)")
    parser.add_argument("--runs", type=int, default=150, metavar="N", help="simulations of a fit (default %(default)s)")
    options = parser.parse_args()
    found: dict[str, list[int]] = defaultdict(list)
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        for done, own in enumerate(processes.map(ranks, range(options.draws), [options.runs] * options.draws), 1):
            for name, rank in own.items():
                found[name].append(rank)
            if done % 50 == 0:
                print(f"{done} of {options.draws}", file=sys.stderr, flush=True)
    heading = ("parameter", "fits", "chi-squared of the ranks", "95 % bound", "mean rank (0.5)",
               *(f"in the central {share:.0%}" for share in CENTRAL))  # fmt: skip
    print("\n".join(table(heading, list(rows(found)), 1)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
