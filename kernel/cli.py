"""`rewindow-kernel`: the project's controllers as congestion controls of this machine's kernel.

Exit status: 0 done, 2 usage, an unknown controller or option, 4 the kernel or the machine does not allow it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import rewindow
from kernel import loaded, tracing
from kernel.errors import KernelError
from kernel.toolchain import build, controller, controllers
from rewindow.conformance import step_files

SPECIFIED = ("css", "tccc", "tccc+")
"""Whose windows a specification speaks of."""

DONE, USAGE, FAILED = 0, 2, 4


def _build(args: argparse.Namespace) -> None:
    for chosen in [controller(name) for name in args.name] or controllers():
        print(build(chosen))


def _load(args: argparse.Namespace) -> None:
    chosen = controller(args.name)
    options = {}
    for text in args.option:
        name, equals, value = text.partition("=")
        if not equals:
            raise rewindow.BadOption(f"'{text}' is not of the form option=value")
        options[name] = value
    loaded.load(chosen, options, args.connections)
    print(f"{chosen.kernel_name} is loaded: a socket chooses it by TCP_CONGESTION")


def _status(args: argparse.Namespace) -> None:
    for chosen in [controller(args.name)] if args.name else loaded.names_loaded():
        found = loaded.status(chosen)
        counts = found.counts
        print(
            f"{chosen.kernel_name}{'' if found.registered else ' (not registered)'}: "
            f"{found.connections} connections, {counts.joined - counts.left} subflows"
        )
        print(f"  options: {', '.join(f'{k}={v}' for k, v in found.options().items())}")
        print(
            f"  since it was loaded: {counts.joined} subflows, {counts.refused} refused; {counts.losses} reductions, "
            f"{counts.timeouts} of them timeouts, {counts.undone} undone; {counts.missed} events missed, "
            f"{counts.untraced} steps not traced"
        )


def _unload(args: argparse.Namespace) -> None:
    for chosen in [controller(args.name)] if args.name else loaded.names_loaded():
        using = loaded.unload(chosen)
        print(f"{chosen.kernel_name} is unloaded" + (f"; {using} subflows use it until they close" if using else ""))


def _trace(args: argparse.Namespace) -> None:
    chosen = controller(args.name)
    if chosen.name not in SPECIFIED:
        raise rewindow.BadOption(f"{chosen.name}: no specification speaks of it; one does of {', '.join(SPECIFIED)}")
    options = {k: v for k, v in loaded.status(chosen).options().items() if k != "mode"}
    steps = tracing.Steps(chosen.name)
    output = Path(args.output)
    partial = output.with_name(f".{output.name}")
    try:
        with tracing.stopped_by_signals() as stopped:
            found = steps.of(tracing.records(chosen, args.seconds, stopped))
            count = step_files.write(partial, rewindow.Choice(chosen.name, dict(options)), found)
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)
    print(
        f"{count} steps of {steps.connections} connections in {args.output}; "
        f"{steps.unknown} steps of connections that had begun before are left out"
    )


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number <= 86_400:
        raise ValueError
    return number


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 1 << 20:
        raise ValueError
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rewindow-kernel",
        description="The controllers of rewindow as congestion controls of this machine's kernel (docs/kernel.md).",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    make = commands.add_parser("build", help="compile controllers for eBPF; without NAME, each")
    make.add_argument("name", nargs="*", metavar="NAME")
    make.set_defaults(command=_build)
    load = commands.add_parser("load", help="compile one, have the kernel verify it, and register it as rw_NAME")
    load.add_argument("name", metavar="NAME")
    load.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="as `rewindow replay` has it")
    load.add_argument(
        "--connections",
        type=_count,
        default=loaded.CONNECTIONS,
        metavar="N",
        help="at most, MPTCP connections and TCP sockets together (%(default)s)",
    )
    load.set_defaults(command=_load)
    status = commands.add_parser("status", help="what is loaded, with its options and what it counted")
    status.add_argument("name", nargs="?", metavar="NAME")
    status.set_defaults(command=_status)
    unload = commands.add_parser("unload", help="take one away; without NAME, each")
    unload.add_argument("name", nargs="?", metavar="NAME")
    unload.set_defaults(command=_unload)
    trace = commands.add_parser("trace", help="write down what a loaded one does, for `rewindow specs trace --steps`")
    trace.add_argument("name", metavar="NAME")
    trace.add_argument("--seconds", type=_seconds, default=60.0, help="how long, or until Ctrl-C (%(default)s)")
    trace.add_argument("--output", required=True, metavar="FILE", help="gets the steps; compressed if it ends in .gz")
    trace.set_defaults(command=_trace)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    try:
        args.command(args)
    except rewindow.RewindowError as e:
        print(e, file=sys.stderr)
        return USAGE
    except (KernelError, OSError) as e:
        print(e, file=sys.stderr)
        return FAILED
    return DONE


if __name__ == "__main__":
    sys.exit(main())
