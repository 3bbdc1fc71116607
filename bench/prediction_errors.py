"""Fits the error model of predictions to real runs: `make prediction-errors PAIRS=FOLDER`.

It writes rewindow/whatif/errors.toml.
Only networks that are not judged on (lab/pairs.py) count, each as much as the others. Runs of the same number are left
out of the comparison: the lab draws their losses alike, so that luck of the recorded run comes back in them, which
it does nowhere else. For each metric the numbers of
`rewindow.whatif.errors.Error` are those with the least interval score of single real runs and error of the median, by
a search along one number after the other. What networks score that were left out of the fit, a tenth of them at a time,
is printed, too: it tells how far the model depends on single networks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.pair_runs import METRICS, NAME, Asked, Results, ask_all, runs_of
from bench.predictions import ALPHA
from bench.speed import table
from rewindow.whatif import errors
from rewindow.whatif.errors import Error

Array = npt.NDArray[Any]

OUTPUT = Path(errors.__file__).with_name("errors.toml")
START = Error(level=0.7, reach=1.0, follow=1.0, spread=1.0, fixed=0.1, change=0.1, off=0.1)
BOUNDS = {"level": (0.0, 1.0), "reach": (0.05, 3.0), "follow": (0.9, 1.0), "spread": (1.0, 2.0), "fixed": (0.05, 2.0),
          "change": (0.0, 1.0), "off": (0.0, 2.0)}  # fmt: skip
"""Least spread and fixed error: the networks that are fitted to would have smaller ones, others would not."""
STEPS = (0.2, 0.1, 0.05, 0.02)
STEPS_NEARBY = STEPS[2:]
"""From what fits all networks to what fits most of them."""
PARTS = 10
"""Of the networks, of which each is left out once."""
SWEEPS = 6
TEXT = """# Errors of predictions; see errors.py. Written by `make prediction-errors`, do not edit.
# From {answers} answers on {networks} networks: {names}.
"""


@dataclass(frozen=True)
class Case:
    """An answer, in logarithms of one metric. real: of the runs that really happened."""

    network: str
    recorded: float | None
    before: Array
    after: Array
    real: Array


def _drawn_otherwise(a: Asked) -> list[dict[str, float | None]]:
    """The real runs with another seed than the recorded one; all of them, where there is no other."""
    name = NAME.fullmatch(a.run)
    alike = int(name["number"]) - 1 if name else -1
    return [r for i, r in enumerate(a.real) if i != alike] or a.real


def cases(results: Results, metric: str) -> list[Case]:
    found = []
    for a in results.asked:
        real = [errors.log(metric, v) for r in _drawn_otherwise(a) if (v := r[metric]) is not None]
        if metric not in a.simulated or not real or (metric == "completion_s" and errors.same_bytes(a.simulated)):
            continue
        recorded, (before, after) = a.recorded[metric], a.simulated[metric]
        known = None if recorded is None else errors.log(metric, recorded)
        found.append(Case(a.network, known, np.array(before), np.array(after), np.array(real)))
    return found


def score(error: Error, case: Case) -> float:
    """The mean interval score of the real runs."""
    _, low, high = error.interval(case.recorded, case.before, case.after)
    outside = np.maximum(np.maximum(low - case.real, case.real - high), 0.0)
    return float(high - low + 2 / ALPHA * outside.mean())


def off(error: Error, case: Case) -> float:
    """How far the median is from the real runs, on average."""
    middle = error.median(case.recorded, float(np.median(case.before)), float(np.median(case.after)))
    return float(np.abs(case.real - middle).mean())


def mean_of_networks(values: Sequence[tuple[str, float]]) -> float:
    networks = sorted({n for n, _ in values})
    return float(np.mean([np.mean([v for n, v in values if n == name]) for name in networks]))


def fitted(own: Sequence[Case], start: Error = START, steps: Sequence[float] = STEPS) -> Error:
    """The numbers with the least sum of the mean interval score and the mean error of the median."""

    def loss(error: Error) -> float:
        return mean_of_networks([(c.network, score(error, c) + off(error, c)) for c in own])

    best, least = start, loss(start)
    for step in steps:
        for _ in range(SWEEPS):
            before = least
            for field in fields(Error):
                low, high = BOUNDS[field.name]
                for sign in (-1, 1):
                    value = round(min(max(getattr(best, field.name) + sign * step, low), high), 4)
                    tried = replace(best, **{field.name: value})
                    got = loss(tried)
                    if got < least:
                        best, least = tried, got
            if least == before:
                break
    return best


def _of_metric(own: Sequence[Case]) -> tuple[Error, float | None]:
    """The error model, and what networks score that it was not fitted to; None: there is one."""
    found = fitted(own)
    left_out = []
    names = sorted({c.network for c in own})
    for part in range(min(PARTS, len(names))):
        absent = set(names[part::PARTS])
        without = [c for c in own if c.network not in absent]
        if without:
            other = fitted(without, found, STEPS_NEARBY)
            left_out += [(c.network, score(other, c)) for c in own if c.network in absent]
    return found, mean_of_networks(left_out) if left_out else None


def main() -> int:
    parser = argparse.ArgumentParser(description="fits the error model of predictions to real runs")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--asked", type=int, default=1, metavar="N", help="runs of each algorithm that are asked")
    parser.add_argument(
        "--from", type=Path, metavar="FILE", dest="saved", nargs="+", help="what `predictions --save` wrote"
    )
    options = parser.parse_args()
    if options.saved:
        results = Results()
        for saved in options.saved:
            results.asked += Results.read(saved).of(False).asked
    elif options.folder:
        runs = [r for r in runs_of(options.folder, lambda network: True) if not r.judged]
        results = ask_all(runs, options.asked, lambda name: print(name, file=sys.stderr, flush=True))
    else:
        parser.error("a folder of runs, or --from FILE")
    names = sorted({a.network for a in results.asked})
    text = TEXT.format(answers=len(results.asked), networks=len(names), names=", ".join(names))
    by_metric = [cases(results, metric) for metric in METRICS]
    if missing := [metric for metric, own in zip(METRICS, by_metric, strict=True) if not own]:
        print(f"no answer has {', '.join(missing)}", file=sys.stderr)
        return 1
    rows = []
    with ProcessPoolExecutor() as processes:
        for metric, own, (found, left_out) in zip(
            METRICS, by_metric, processes.map(_of_metric, by_metric), strict=True
        ):
            text += f"\n[{metric}]\n" + "".join(f"{f.name} = {getattr(found, f.name):.3g}\n" for f in fields(Error))
            inside = mean_of_networks([(c.network, score(found, c)) for c in own])
            rows.append((metric, str(len(own)), f"{inside:.3f}", "-" if left_out is None else f"{left_out:.3f}"))
    OUTPUT.write_text(text)
    print("\n".join(table(("interval score", "answers", "fitted", "networks left out"), rows, 1)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
