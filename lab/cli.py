"""`rewindow-lab`: runs scenarios on real kernels.

Exit status: 0 done, 1 a run was not valid in any attempt, 2 usage, 3 a scenario cannot be read, 4 the lab cannot run
here, or a program that it needs failed.
"""

from __future__ import annotations

import argparse
import fnmatch
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn, get_args

from lab import kernel_queues, machine, namespaces, pairs, runs
from lab.errors import LabError
from lab.runs import Described, Run
from lab.suite import NETWORKS, Network, text_of
from rewindow.errors import ScenarioUnreadable
from rewindow.scenarios import load, parse

DONE, NEGATIVE, USAGE, UNREADABLE, FAILED = range(5)
SUITE_OUTPUT = Path("build/lab")
PAIRS_OUTPUT = Path("build/pairs")
OTHERS_MAX = 0.2
"""Of a CPU: what other programs may use during runs that others are compared with. Builds at the lowest priority
changed the goodput of networks with short queues by more than a factor of two while the emulator was in time."""


def _told(run: Run) -> str:
    """One line about a run."""
    if run.folder is None:
        return f"{run.name}: refused after {len(run.invalid)} attempts: {run.invalid[-1]}"
    ended = []
    for t in run.result["transfers"]:
        rate = t["bytes"] * 8 / t["seconds"] / 1e6
        ended.append(f"{t['name']} {rate:.2f} Mbit/s" + ("" if t["complete"] else " (not complete)"))
    lateness = run.result["lateness_ns"]["p99"] / 1000
    repeated = f", {len(run.invalid)} attempts were invalid" if run.invalid else ""
    others = f"others used {run.result['others_cpu']:.0%} of a CPU"
    counted = f"{run.result['truth_rows']} ACKs, p99 lateness {lateness:.0f} us, {others}{repeated}"
    return f"{run.name}: {', '.join(ended)}; {counted}"


def _run_all(
    wanted: Sequence[tuple[Described, int]], output: Path, attempts: int, queues: runs.Queues = "emulator",
    others_max: float | None = None,
) -> int:  # fmt: skip
    """Runs each scenario with its seed, unless its folder exists; returns NEGATIVE when no attempt of one was valid."""
    for described in dict.fromkeys(d for d, _ in wanted):
        machine.check(described.scenario)
        namespaces.announcements(described.scenario)
        if queues == "kernel":
            kernel_queues.queues(described.scenario)
    refused = invalid = kept = 0
    for described, seed in wanted:
        target = output / runs.folder_name(described.scenario, seed)
        if runs.is_there(described, target, queues):
            print(f"{target.name}: is there already", flush=True)
            kept += 1
            continue
        run = runs.run(described, seed, output, attempts, queues, others_max)
        print(_told(run), flush=True)
        refused += run.folder is None
        invalid += len(run.invalid)
    made = len(wanted) - refused - kept
    print(f"{made} runs, {kept} were there, {refused} refused; {invalid} invalid attempts", flush=True)
    return NEGATIVE if refused else DONE


def _run(args: argparse.Namespace) -> int:
    text = load(args.scenario)
    described = Described(text, Path(args.scenario).read_text(), Path(args.scenario).parent)
    first = described.scenario.seed if args.seed is None else args.seed
    wanted = [(described, first + k) for k in range(args.runs)]
    return _run_all(wanted, Path(args.output), args.attempts, args.queues, args.others)


def _named(networks: Sequence[Network], args: argparse.Namespace, seeds: Sequence[int] | None) -> int:
    """Lists or runs those that --only chooses, each with the seeds; None: with its own."""
    chosen = [n for n in networks if not args.only or any(fnmatch.fnmatchcase(n.name, p) for p in args.only)]
    if not chosen:
        print(f"no network has a name like {', '.join(args.only)}", file=sys.stderr)
        return USAGE
    if args.list:
        width = max(len(n.name) for n in chosen)
        print("\n".join(f"{n.name:{width}}  {n.told()}" for n in chosen))
        return DONE
    described = [(n, Described(parse(text := text_of(n), n.name), text, Path())) for n in chosen]
    if seeds is None:
        wanted = [(d, n.seed) for n, d in described]
    else:
        wanted = [(d, seed) for seed in seeds for _, d in described]
    others_max = OTHERS_MAX if args.others is None else args.others
    return _run_all(wanted, Path(args.output), args.attempts, args.queues, others_max)


def _suite(args: argparse.Namespace) -> int:
    return _named(NETWORKS, args, range(1, args.runs + 1) if args.runs else None)


def _pairs(args: argparse.Namespace) -> int:
    return _named([n for each in pairs.ALL for n in each.networks()], args, range(1, args.runs + 1))


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 10_000:
        raise ValueError
    return number


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share < float("inf"):
        raise ValueError
    return share


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rewindow-lab", description="Runs scenarios (docs/scenarios.md) on real kernels."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    attempts = argparse.ArgumentParser(add_help=False)
    attempts.add_argument(
        "--attempts",
        type=_count,
        default=runs.ATTEMPTS,
        help="how often a run is tried until it is valid (default %(default)s)",
    )
    attempts.add_argument(
        "--queues",
        choices=get_args(runs.Queues),
        default="emulator",
        help="whose are rates and queues of links: the emulator's, or the kernel's token buckets (default %(default)s)",
    )
    attempts.add_argument(
        "--others",
        type=_share,
        metavar="SHARE",
        help="a run is invalid if other programs used more of a CPU meanwhile (by default no limit for `run`, and"
        f" {OTHERS_MAX} for `suite` and `pairs`)",
    )
    one = commands.add_parser("run", parents=[attempts], help="run a scenario")
    one.add_argument("scenario", metavar="SCENARIO.toml")
    one.add_argument("--output", required=True, metavar="DIR", help="each run becomes a folder NAME-SEED in DIR")
    one.add_argument(
        "--runs",
        type=_count,
        default=1,
        metavar="N",
        help="number of runs, with consecutive seeds (default %(default)s)",
    )
    one.add_argument("--seed", type=int, help="seed of the first run; default: the scenario's")
    one.set_defaults(command=_run)
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="run the networks whose names match, as a shell matches files",
    )
    named.add_argument("--list", action="store_true", help="list the networks and run nothing")
    suite = commands.add_parser("suite", parents=[attempts, named], help="run the networks of the lab")
    suite.add_argument("--output", default=SUITE_OUTPUT, metavar="DIR", help="default: %(default)s")
    suite.add_argument(
        "--runs", type=_count, metavar="N", help="runs of each network, with seeds from 1 (default: one, with its own)"
    )
    suite.set_defaults(command=_suite)
    both = commands.add_parser(
        "pairs", parents=[attempts, named], help="run the networks of what-ifs, each under several algorithms"
    )
    both.add_argument("--output", default=PAIRS_OUTPUT, metavar="DIR", help="default: %(default)s")
    both.add_argument(
        "--runs", type=_count, default=pairs.RUNS, metavar="N", help="runs of each algorithm (default %(default)s)"
    )
    both.set_defaults(command=_pairs)
    return parser


def _stopped(number: int, _: FrameType | None) -> NoReturn:
    """Raises an exception, so that the run is cleaned up on the way out."""
    raise SystemExit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _stopped)
    try:
        status: int = args.command(args)
    except ScenarioUnreadable as e:
        print(e, file=sys.stderr)
        return UNREADABLE
    except FileExistsError as e:
        print(e, file=sys.stderr)
        return USAGE
    except (LabError, OSError) as e:
        print(e, file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return status


if __name__ == "__main__":
    sys.exit(main())
