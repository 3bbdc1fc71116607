"""Measures the cost of the monitor, and TLC's time for a long log: `make conformance`.

Generates an MPTCP capture under build/conformance. The monitor's cost is the processor time of an analysis with the
monitor, compared with one without: the least of several runs that take turns. TLC gets `--events` steps of TCCC, and as
many of SB-CC's detector in one long random connection.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import rewindow
from bench.faults import random_steps
from rewindow import specs
from rewindow.conformance import checks
from rewindow.controllers.steps import Step
from rewindow.core import Choice
from rewindow.findings.senders import SINGLE_PATH_CANDIDATES

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "conformance"
INGEST = ("newreno", "cubic", "uncoupled", "css", "tccc")
"""The algorithms that the service replays by default (store/settings.py)."""
ALONE = ("tccc", *SINGLE_PATH_CANDIDATES)


def generate(packets: int) -> Path:
    tools = ROOT / ".venv" / "bin"
    ninja = f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"
    options = ("-G", "Ninja", ninja, "-DCMAKE_BUILD_TYPE=Release", "-DREWINDOW_BENCH=ON")
    for command in (
        (tools / "cmake", "-S", ROOT / "core-c", "-B", FOLDER / "core", *options),
        (tools / "cmake", "--build", FOLDER / "core", "--target", "generate"),
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    path = FOLDER / f"mptcp-{packets}.pcap"
    subprocess.run([FOLDER / "core" / "bench" / "generate", "mptcp", str(packets), "2", path], check=True)
    return path


def analysis_seconds(path: Path, algorithms: Sequence[str], monitor: bool) -> tuple[float, int]:
    """Processor time, and the number of steps that the monitor has checked."""
    began = time.process_time()
    with rewindow.open(str(path)) as capture, capture.stream(algorithms, monitor=monitor) as replay:
        replay.run()
        return time.process_time() - began, replay.monitored()


def monitor_cost(path: Path, algorithms: Sequence[str], runs: int) -> str:
    times: dict[bool, list[float]] = {False: [], True: []}
    steps = 0
    for _, monitor in itertools.product(range(runs), (False, True)):
        seconds, seen = analysis_seconds(path, algorithms, monitor)
        times[monitor].append(seconds)
        steps = max(steps, seen)
    without, with_ = min(times[False]), min(times[True])
    return f"| {' '.join(algorithms)} | {without:.2f} s | {with_:.2f} s | {steps:,} | {with_ / without - 1:.0%} |"


def detections(events: int) -> Iterator[Step]:
    """The steps of the detector, and the controller's changes of sets."""
    steps = random_steps("sbcc", 0, 2 * events)
    return (s for s in steps if s.kind == "sets" or s.kind.startswith(("detector_", "judge_")))


def trace_time(algorithm: str, steps: Iterable[Step], events: int) -> str:
    began, choices = time.monotonic(), [Choice(algorithm)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with checks.Checker(choices, specs.jar()) as checker:
        for step in itertools.islice(steps, events):
            checker.add(step)
        verdicts = checker.verdicts()
    if not all(v.conforms for v in verdicts):
        raise SystemExit("the generated steps do not conform")
    checked = sum(v.events for v in verdicts)
    seconds = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = used.ru_utime - before.ru_utime + used.ru_stime - before.ru_stime
    return f"{algorithm}: {checked:,} events: {seconds:.0f} s, {spent:.0f} s of a processor in TLC"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.conformance", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--packets", type=int, default=200_000)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args(arguments)
    path = generate(args.packets)
    print("| controllers | without | with the monitor | steps | more |\n|---|---|---|---|---|")
    for algorithms in (INGEST, ALONE):
        print(monitor_cost(path, algorithms, args.runs), flush=True)
    if args.events:
        with rewindow.open(str(path)) as capture, capture.stream([Choice("tccc")], transitions=True) as replay:
            print("\n" + trace_time("tccc", replay.steps(), args.events), flush=True)
        print(trace_time("sbcc", detections(args.events), args.events))
    return 0


if __name__ == "__main__":
    sys.exit(main())
