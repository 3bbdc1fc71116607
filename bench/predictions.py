"""What-ifs beside runs that really happened: `make predictions PAIRS=FOLDER`.

The folder has runs of the same network under different algorithms, one folder each, named NETWORK-ALGORITHM-NUMBER,
with a capture. For each run and each other algorithm of its network the prediction is compared with the single runs
that really used it. In the same tables: the null model, that nothing changes, and the floor, another run of the same
algorithm. Networks that the lab only judges on (lab/pairs.py) are reported apart from all others. Prints Markdown.

--save FILE keeps what was asked and what really happened; --from FILE reports it again. An answer's intervals are then
made anew with the error model of this checkout (`make prediction-errors` makes it from such a file).

An error of goodput is |log(predicted / real)|. An error of a count is relative to max(5, n), of a delay to
max(10 ms, n), so that 1 ms counts as 10 %. A network's errors are averaged, then networks' are. The score is the
interval score of log goodput (Gneiting, Raftery 2007): the width, and 20 times the distance to what lies outside. The
null model's interval is the recorded goodput times the 5 and 95 % quantiles of real / recorded on the tuned networks.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from bench.pair_runs import METRICS, Asked, Repeated, Results, ask_all, runs_of
from bench.speed import table
from rewindow.whatif.errors import predicted

ALPHA = 0.1
RESAMPLES = 2000
COVERAGE = (0.80, 0.97)
ERROR_GOALS = {"retransmitted_packets": 0.20, "completion_s": 0.06, "queueing_delay_ms": 0.10}
"""The largest median of relative errors; of completion: of transfers that are limited in bytes."""
REFUSALS_MOST = 0.10
FIT_GOALS = {"rate_bps": (0.01, 0.0), "queue_packets": (0.05, 1.0), "base_rtt_ms": (0.0, 1.0),
             "ecn_packets": (0.05, 1.0), "loss": (0.2, 0.0)}  # fmt: skip
"""Within which share of the truth, or which distance from it, an estimate counts as right."""

Metrics = dict[str, float | None]


def log_error(value: float, real: float) -> float:
    return float(abs(np.log(max(value, 1e-9) / max(real, 1e-9))))


def relative_error(metric: str, value: float, real: float) -> float:
    least = {"retransmitted_packets": 5.0, "queueing_delay_ms": 10.0, "queueing_delay_p95_ms": 10.0}.get(metric, 1e-9)
    return abs(value - real) / max(real, least)


def interval_score(low: float, high: float, real: float) -> float:
    outside = max(low - real, real - high, 0.0)
    return high - low + 2 / ALPHA * outside


def by_network(rows: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for network, value in rows:
        found[network].append(value)
    return found


def mean_of_networks(values: dict[str, list[float]]) -> float | None:
    return statistics.mean(statistics.mean(own) for own in values.values()) if values else None


def _median(values: dict[str, list[float]]) -> float | None:
    """Over all, whatever their network."""
    return statistics.median(e for own in values.values() for e in own) if values else None


def bootstrapped(values: dict[str, list[float]]) -> tuple[float, float] | None:
    """95 % interval of the mean over networks, over which networks there are."""
    if len(values) < 3:
        return None
    means = np.array([statistics.mean(own) for own in values.values()])
    drawn = np.random.default_rng(1).choice(means, (RESAMPLES, len(means))).mean(axis=1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return float(low), float(high)


def told(value: float | None, bounds: tuple[float, float] | None = None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" + (f" [{bounds[0]:.3f}, {bounds[1]:.3f}]" if bounds else "")


class Judged:
    """Errors of answers, on some networks."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.answered = [a for a in results.asked if a.verdict == "ok"]

    def of(self, metric: str, value: Callable[[Asked], float | None],
           error: Callable[[float, float], float]) -> dict[str, list[float]]:  # fmt: skip
        """Errors of a value that each answer gives, by network, against each real run."""
        found = []
        for a in self.answered:
            said = value(a)
            if said is not None and metric in a.predicted:
                found += [(a.network, error(said, real)) for r in a.real if (real := r[metric]) is not None]
        return by_network(found)

    def predicted(self, metric: str, error: Callable[[float, float], float]) -> dict[str, list[float]]:
        return self.of(metric, lambda a: a.predicted[metric][0] if metric in a.predicted else None, error)

    def null(self, metric: str, error: Callable[[float, float], float]) -> dict[str, list[float]]:
        return self.of(metric, lambda a: a.recorded[metric], error)

    def floor(self, metric: str, error: Callable[[float, float], float]) -> dict[str, list[float]]:
        def both(r: Repeated) -> tuple[float | None, float | None]:
            return r.one[metric], r.other[metric]

        pairs = [(r.network, *both(r)) for r in self.results.repeated]
        return by_network((n, error(one, other)) for n, one, other in pairs if one is not None and other is not None)

    def coverage(self, metric: str) -> float | None:
        inside = self._intervals(metric, lambda low, high, real: float(low <= real <= high))
        return mean_of_networks(inside)

    def scores(self) -> dict[str, list[float]]:
        return self._intervals(
            "goodput_bps", lambda low, high, real: interval_score(np.log(low), np.log(high), np.log(real))
        )

    def _intervals(self, metric: str, value: Callable[[float, float, float], float]) -> dict[str, list[float]]:
        found = []
        for a in self.answered:
            if metric in a.predicted:
                _, low, high = a.predicted[metric]
                found += [(a.network, value(low, high, real)) for r in a.real if (real := r[metric]) is not None]
        return by_network(found)

    def ratios(self) -> list[tuple[str, float]]:
        """log(real / recorded) of goodput, by network."""
        found = []
        for a in self.answered:
            recorded = a.recorded["goodput_bps"]
            if recorded:
                found += [(a.network, float(np.log(real / recorded))) for r in a.real if (real := r["goodput_bps"])]
        return found


def errors_table(judged: Judged) -> Iterator[str]:
    rows = []
    for metric in METRICS:
        if metric == "goodput_bps":
            kind, error = "log", log_error
        else:
            kind, error = "relative", lambda value, real, metric=metric: relative_error(metric, value, real)
        columns = (judged.predicted(metric, error), judged.null(metric, error), judged.floor(metric, error))
        covered = judged.coverage(metric)
        rows.append((metric, kind, *(told(mean_of_networks(c), bootstrapped(c)) for c in columns),
                     f"{covered:.0%}" if covered is not None else "-"))  # fmt: skip
    heading = ("mean error", "", "what-if", "null: nothing changes", "floor: another run", "in the 90 % interval")
    yield from table(heading, rows, 2)


def networks_table(judged: Judged) -> Iterator[str]:
    ours, null, floor = (f("goodput_bps", log_error) for f in (judged.predicted, judged.null, judged.floor))
    scores = judged.scores()
    asked, said = (by_network((a.network, 1.0) for a in rows) for rows in (judged.results.asked, judged.answered))
    rows = [
        (network, *(told(statistics.mean(e[network]) if e.get(network) else None) for e in (ours, null, floor, scores)),
         f"{len(said.get(network, []))} of {len(own)}")
        for network, own in asked.items()
    ]  # fmt: skip
    yield from table(("goodput of", "what-if", "null", "floor", "interval score", "answered"), rows, 1)


def goals(judged: Judged, null_interval: tuple[float, float]) -> Iterator[str]:
    """Each goal, what was reached, and whether that is enough."""
    rows: list[tuple[str, str, str, str]] = []

    def add(goal: str, bound: str, reached: str, met: bool) -> None:
        rows.append((goal, bound, reached, "met" if met else "**missed**"))

    ours, null, floor = (f("goodput_bps", log_error) for f in (judged.predicted, judged.null, judged.floor))
    mean, null_mean = mean_of_networks(ours), mean_of_networks(null)
    if mean is None or null_mean is None:
        yield "Nothing was answered."
        return
    add("goodput: mean error over the null's", "0.5", f"{mean / null_mean:.2f}", mean <= null_mean / 2)
    worse = [
        n for n in ours if statistics.mean(ours[n]) > statistics.mean(null[n]) + statistics.mean(floor.get(n, [0.0]))
    ]
    add("networks worse than the null by more than the floor", "0", f"{len(worse)} of {len(ours)}", not worse)
    for metric, bound in ERROR_GOALS.items():
        limited = [a for a in judged.results.asked if a.byte_limited]
        networks = {a.network for a in limited}
        repeated = [r for r in judged.results.repeated if r.network in networks]
        own = Judged(Results(limited, repeated)) if metric == "completion_s" else judged

        def error(value: float, real: float, metric: str = metric) -> float:
            return relative_error(metric, value, real)

        median, least = (_median(errors) for errors in (own.predicted(metric, error), own.floor(metric, error)))
        if median is not None:
            beside = "" if least is None else f"; floor {least:.0%}"
            add(f"{metric}: median error", f"{bound:.0%}", f"{median:.0%}{beside}", median <= bound)
    covered = judged.coverage("goodput_bps")
    if covered is not None:
        add("goodput: in the 90 % interval", "80-97%", f"{covered:.0%}", COVERAGE[0] <= covered <= COVERAGE[1])
    score = mean_of_networks(judged.scores())
    null_score = mean_of_networks(by_network((n, interval_score(*null_interval, r)) for n, r in judged.ratios()))
    # Without networks that are tuned on, the null model has no interval.
    if score is not None and null_score and not math.isnan(null_score):
        add("interval score over the null's", "0.5", f"{score:.2f} / {null_score:.2f} = {score / null_score:.2f}",
            score <= null_score / 2)  # fmt: skip
    refused = len(judged.results.asked) - len(judged.answered)
    share = refused / len(judged.results.asked)
    add("refusals", f"{REFUSALS_MOST:.0%}", f"{refused} of {len(judged.results.asked)}", share <= REFUSALS_MOST)
    planted = judged.results.planted
    if planted:
        answered = sum(p.verdict == "ok" for p in planted)
        add("captures that cannot be answered, refused", "all", f"{len(planted) - answered} of {len(planted)}",
            not answered)  # fmt: skip
    yield from table(("goal", "bound", "reached", ""), rows, 1)


def fits_table(results: Results) -> Iterator[str]:
    rows = []
    for name, (share, distance) in FIT_GOALS.items():
        own = [f for f in results.fitted if f.parameter == name]
        if not own:
            continue
        off = [abs(f.fitted / f.truth - 1) for f in own]
        first = [abs(f.started / f.truth - 1) for f in own]
        right = sum(abs(f.fitted - f.truth) <= max(share * f.truth, distance) for f in own)
        goal = " or ".join(f"{share:.0%}" if bound is share else f"{bound:g}" for bound in (share, distance) if bound)
        rows.append((name, str(len(own)), f"{statistics.median(first):.1%}", f"{statistics.median(off):.1%}",
                     f"{np.percentile(off, 90):.1%}", f"{right / len(own):.0%}", goal))  # fmt: skip
    heading = ("fitted", "values", "estimate: median error", "fit: median", "fit: 90 %", "right", "within")
    yield from table(heading, rows, 1)


def report(results: Results, each_judged: bool) -> Iterator[str]:
    """each_judged: single networks that are only judged on are in the tables, too."""
    tuned = Judged(results.of(False))
    ratios = [r for _, r in tuned.ratios()]
    low, high = np.percentile(ratios, (5, 95)) if ratios else (np.nan, np.nan)
    for title, judged, named in (("Tuned on", tuned, True), ("Only judged on", Judged(results.of(True)), each_judged)):
        if not judged.results.asked:
            continue
        networks = len({a.network for a in judged.results.asked})
        yield f"### {title}: {networks} networks, {len(judged.results.asked)} what-ifs"
        yield ""
        yield from errors_table(judged)
        yield from goals(judged, (float(low), float(high)))
        yield from fits_table(judged.results)
        if named:
            yield from networks_table(judged)
            refused = [a for a in judged.results.asked if a.verdict != "ok"]
            yield from (f"- refused: {a.run} with {a.algorithm} ({a.reason})" for a in refused)
            answered = [p for p in judged.results.planted if p.verdict == "ok"]
            yield from (f"- answered, and should not be: {p.run}, {p.how}" for p in answered)
            if refused or answered:
                yield ""


def main() -> int:
    parser = argparse.ArgumentParser(description="compares what-ifs with runs that really happened")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--asked", type=int, default=1, metavar="N", help="of each algorithm of a network, of how many "
                        "runs what-ifs are asked (default %(default)s)")  # fmt: skip
    parser.add_argument("--only", default="", metavar="PREFIX", help="networks whose names begin so")
    parser.add_argument(
        "--alone",
        action="store_true",
        help="leave out of each capture what is beside the client, so that nothing is known of it",
    )
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--from", type=Path, metavar="FILE", dest="saved")
    parser.add_argument("--each-judged", action="store_true", help="name the networks that are only judged on")
    options = parser.parse_args()
    if options.saved:
        results = Results.read(options.saved)
        for a in results.asked:
            a.predicted.update(predicted(a.recorded, a.simulated))
    elif options.folder:
        runs = runs_of(options.folder, lambda network: network.startswith(options.only), options.alone)
        if not runs:
            print(f"{options.folder}: no run named NETWORK-ALGORITHM-NUMBER with a capture", file=sys.stderr)
            return 1
        results = ask_all(runs, options.asked, lambda name: print(name, file=sys.stderr, flush=True))
        if options.save:
            results.write(options.save)
    else:
        parser.error("a folder of runs, or --from FILE")
    print("\n".join(report(results, options.each_judged)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
