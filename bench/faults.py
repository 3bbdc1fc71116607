# ruff: noqa: E501
"""Faults sown into the C controllers, and what finds them: `make faults`.

Each fault is one exact change of core-c/src/control. The changed controllers are compiled and linked before the core's
library, so that theirs is the code that runs; then random sequences of joins, ACKs, losses, timeouts, undone ones and closes drive
them, and the monitor and TLC look at every step. Prints the table of docs/conformance.md; exits 1 when one is not found.
"""

from __future__ import annotations

import argparse
import pickle
import random
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewindow.steps import Step

CHECKOUT = Path(__file__).resolve().parent.parent
CONTROL = CHECKOUT / "core-c" / "src" / "control"
CONTROLLERS = ("css", "tccc", "tccc_plus", "sbcc")
ALGORITHMS = ("css", "tccc", "tccc+", "sbcc")
SEQUENCES = 12
STEPS = 120


@dataclass(frozen=True)
class Fault:
    """text occurs once in file."""

    name: str
    file: str
    text: str
    replacement: str


_CSS = "coupled_slow_start.h"
_ACA = "aggressive_avoidance.h"
FAULTS = (
    Fault("exit at the rate, not above it", _CSS, "rtt_min_ns) > css_con_ssthresh_q16(c) << 11", "rtt_min_ns) >= css_con_ssthresh_q16(c) << 11"),
    Fault("exit one segment late", _CSS, "> css_con_ssthresh_q16(c) << 11", "> (css_con_ssthresh_q16(c) + RW_Q16_ONE) << 11"),
    Fault("exit one segment early", _CSS, "> css_con_ssthresh_q16(c) << 11", "> (css_con_ssthresh_q16(c) - RW_Q16_ONE) << 11"),
    Fault("exit counts windows, not rates", _CSS, "(rw_window_q16(p) << 27) / rw_rho_q16(p->word[PATH_RTT_NS], rtt_min_ns)", "(rw_window_q16(p) << 11)"),
    Fault("exit forgets a subflow", _CSS, "	c->word[WORD_INITIAL_SS] = 0;\n	for (uint32_t i = 0;", "	c->word[WORD_INITIAL_SS] = 0;\n	for (uint32_t i = 1;"),
    Fault("exit leaves no threshold", _CSS, "			p->ssthresh_q16 = p->cwnd_q16;\n", ""),
    Fault("growth on the exit's own ACK", _CSS, "		css_exit(c);\n		return 1;", "		css_exit(c);"),
    Fault("L dropped", _CSS, "rw_min64(step_q32, cap_q16 << 16) << 8", "step_q32 << 8"),
    Fault("product for the exponent", _CSS, "if (c->option[ALPHA_FORM] == 1)", "if (c->option[ALPHA_FORM] != 1)"),
    Fault("growth as if all RTTs were alike", _CSS, "if (rtt == 0 || rtt <= rtt_min_ns)", "if (rtt || !rtt)"),
    Fault("alpha not rescaled at a join", _CSS, "		c->word[WORD_ALPHA_Q32] = css_rescale_q32(c->word[WORD_ALPHA_Q32], con, before, after);\n", "		(void)after;\n"),
    Fault("alpha not given back at a close", _CSS, "	if (before >= con)\n		return;\n", "	if (before || con)\n		return;\n"),
    Fault("alpha above alpha0 after a close", _CSS, "rw_min64((uint64_t)c->option[ALPHA0] << 16,\n", "rw_max64((uint64_t)c->option[ALPHA0] << 16,\n"),
    Fault("a join at con_ssth does not leave", _CSS, "if (after >= con)", "if (after > con)"),
    Fault("a join after the exit couples", _CSS, "p->initial = c->word[WORD_INITIAL_SS] && (others == 0 || coupled > 0);", "p->initial = 1;"),
    Fault("a loss takes all subflows out", _CSS, "	if (c->path[path].initial)\n		css_leave_initial(&c->path[path]);\n	for", "	for (uint32_t i = 0; i < rw_path_count(c); i++)\n		c->path[i].initial = 0;\n	for"),
    Fault("a loss takes none out", _CSS, "	if (c->path[path].initial)\n		css_leave_initial(&c->path[path]);\n	for", "	(void)path;\n	for"),
    Fault("no floor of ssthresh", "fixed_point.h", "p->ssthresh_q16 = rw_max64(ssthresh_q16, (uint64_t)floor_q16);", "(void)floor_q16;\n	p->ssthresh_q16 = ssthresh_q16;"),
    Fault("a halving rounds to segments", "fixed_point.h", "whole ? (w >> 17) << 16 : w - (w >> 1)", "(w >> 17) << 16"),
    Fault("slow start beyond ssthresh", "fixed_point.h", "step = rw_min64(acked_q16, room);", "step = acked_q16 + 0 * room;"),
    Fault("own R for min R in the increase", _ACA, "rw_multiply_divide(inverse_q50, 1 << 6, rw_rho_q16(p->srtt_ns, t.rtt_min_ns))", "rw_multiply_divide(inverse_q50, 1 << 6, RW_Q16_ONE)"),
    Fault("equation 8 without its half", _ACA, "rw_rho_q16(p->srtt_ns, t.rtt_min_ns)) >> 1;", "rw_rho_q16(p->srtt_ns, t.rtt_min_ns));"),
    Fault("equation 8 where loss rates differ", _ACA, "	return a.high != b.high ? a.high < b.high : a.low <= b.low;", "	return a.high != b.high || b.high == b.high;"),
    Fault("coupling in Judgement", "fixed_point.h", "return p->group_state == RW_GROUP_FINAL ? p->group : 0;", "return p->group;"),
    Fault("beta above 1", "sbcc.c", "p->word[PATH_BETA_Q32] = BETA_ONE_Q32;\n	p->word[PATH_DELIVERED]", "p->word[PATH_BETA_Q32] = 2 * BETA_ONE_Q32;\n	p->word[PATH_DELIVERED]"),
    Fault("SB-CC's decrease by all of beta", "sbcc.c", "beta, 2 * BETA_ONE_Q32)", "beta, BETA_ONE_Q32)"),
)  # fmt: skip

# Random sequences


def random_steps(algorithm: str, seed: int, steps: int = STEPS) -> list[Step]:
    """One connection's joins, ACKs, losses, timeouts, undone ones and closes, as a controller took them."""
    from rewindow import Controller

    r = random.Random(f"{algorithm}/{seed}")
    rtts = r.choice(
        [(0.02, 0.02, 0.02, 0.02), (0.01, 0.02, 0.05, 0.2), (0.01, 0.015, 0.3, 0.02), (0.04, 0.04, 0.1, 0.1)]
    )
    steady = r.random() < 0.5
    together: list[dict[str, Any]] = []
    named: dict[str, object] = {}
    if algorithm == "sbcc":
        # Two subflows of one set, which stay: it is the detector that ends sets.
        state = r.choice(["final", "final", "judgement"])
        together = [{"rtt": rtt, "set": 1, "set_state": state} for rtt in rtts[:2]]
    else:
        named["con_ssthresh"] = r.choice([20, 45, 45, 60])
    controller = Controller(algorithm, together, **named)
    controller.observe()
    open_ = {path: rtts[path] for path in range(len(together))}
    joined, late = len(together), r.choice([0, 8, 15, 30])
    reduced: set[int] = set()

    def join() -> None:
        nonlocal joined
        path = {} if r.random() < 0.2 else {"rtt": rtts[joined % 4]}
        open_[controller.join(path)] = rtts[joined % 4]
        joined += 1

    join()
    for n in range(steps):
        if not open_ or (joined < 4 and (n == late or r.random() < 0.02)):
            join()
            continue
        path = r.choice(list(open_))
        rtt = open_[path] * (1 if steady else r.uniform(0.9, 1.2))
        what = r.random()
        if what < 0.032:
            (controller.loss if what < 0.015 else controller.ece if what < 0.025 else controller.timeout)(path)
            reduced.add(path)
        elif what < 0.04 and path >= len(together):
            controller.leave(path)
            del open_[path]
            reduced.discard(path)
        elif what < 0.08 and path in reduced:
            controller.undo(path)
            reduced.discard(path)
        else:
            acked = r.choice([1, 1, 2, 2, 3, 8, 44])
            controller.ack(
                path, acked, rtt, time=n * 0.01, marked=r.choice([0, 0, acked]) if algorithm == "sbcc" else 0
            )
    return controller.steps()


def random_logs(sequences: int) -> list[tuple[str, list[Step]]]:
    """Of each algorithm so many; a log's connection is its place in the list."""
    found = [(a, random_steps(a, seed)) for a in ALGORITHMS for seed in range(sequences)]
    return [(a, [replace(s, connection=n) for s in steps]) for n, (a, steps) in enumerate(found)]


# Builds with a fault


class Workshop:
    """Builds the binding with changed controllers. It needs the build of deploy/setup.sh."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.suffix = sysconfig.get_config_var("EXT_SUFFIX")
        builds = [p.parent for p in CHECKOUT.glob(f"build/*/_core{self.suffix}")]
        if not builds:
            raise FileNotFoundError("no build of the binding: run deploy/setup.sh build")
        self.build = builds[0]
        self.binding = folder / "_core.o"
        self._compile("-c", str(self.build / "_core.c"), "-o", str(self.binding), f"-I{sysconfig.get_path('include')}")

    def _compile(self, *arguments: str) -> None:
        command = ["cc", "-O0", "-w", "-fPIC", "-D_GNU_SOURCE", f"-I{CHECKOUT / 'core-c' / 'include'}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)

    def core(self, fault: Fault | None) -> Path:
        """An extension module with this fault; without, the controllers as they are."""
        place = Path(tempfile.mkdtemp(dir=self.folder))
        for source in CONTROL.iterdir():
            shutil.copy(source, place)
        if fault:
            changed = place / fault.file
            text = changed.read_text()
            if text.count(fault.text) != 1:
                raise ValueError(f"{fault.name}: its text occurs {text.count(fault.text)} times in {fault.file}")
            changed.write_text(text.replace(fault.text, fault.replacement))
        core = place / f"_core{self.suffix}"
        sources = [str(place / f"{name}.c") for name in CONTROLLERS]
        library = self.build / "core" / "librewindow_static.a"
        self._compile("-shared", str(self.binding), *sources, str(library), "-lm", "-o", str(core))
        return core

    def logs(self, fault: Fault | None, sequences: int) -> list[tuple[str, list[Step]]]:
        """The random sequences under this fault, in a process of its own."""
        command = [sys.executable, "-m", "bench.faults", "--core", str(self.core(fault)), "--sequences", str(sequences)]
        done = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, check=True)
        found: list[tuple[str, list[Step]]] = pickle.loads(done.stdout)
        return found


def _run_with(core: str, sequences: int) -> None:
    """In the process of its own: that extension module instead of the installed one."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("rewindow._core", core)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["rewindow._core"] = module
    spec.loader.exec_module(module)
    sys.stdout.buffer.write(pickle.dumps(random_logs(sequences)))


# Who notices


def monitor_notices(logs: Sequence[tuple[str, list[Step]]]) -> Counter[str]:
    """Properties that the monitor found violated, and in how many sequences."""
    return Counter(name for _, steps in logs for name in {name for s in steps for name in s.violated})


def tlc_notices(of: Sequence[Sequence[tuple[str, list[Step]]]]) -> list[Counter[str]]:
    """For each fault: in how many sequences of which algorithm TLC found a step that is none."""
    from rewindow import specs
    from rewindow.conformance import SPECIFIED, conformance
    from rewindow.core import Choice

    names = list(SPECIFIED)
    steps = [
        replace(s, connection=s.connection + number * 1000, choice=names.index(a))
        for number, logs in enumerate(of)
        for a, log in logs
        if a in SPECIFIED
        for s in log
    ]
    found: list[Counter[str]] = [Counter() for _ in of]
    for v in conformance([Choice(n) for n in names], steps, specs.jar(), explain=False):
        if not v.conforms:
            found[v.connection // 1000][v.algorithm] += 1
    return found


def _rows(sequences: int) -> Iterator[tuple[Fault | None, Counter[str], Counter[str]]]:
    with tempfile.TemporaryDirectory(prefix="rewindow-faults-") as folder:
        workshop = Workshop(Path(folder))
        faults = [None, *FAULTS]
        logs = [workshop.logs(f, sequences) for f in faults]
        yield from zip(faults, map(monitor_notices, logs), tlc_notices(logs), strict=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.faults", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sequences", type=int, default=SEQUENCES, help="random ones of each algorithm")
    parser.add_argument("--core", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.core:
        _run_with(args.core, args.sequences)
        return 0
    missed = 0
    print("| fault | file | monitor | TLC |\n|---|---|---|---|")
    for fault, monitor, tlc in _rows(args.sequences):
        properties = ", ".join(name for name, _ in monitor.most_common(3)) or "-"
        sequences = ", ".join(f"{a} {n}/{args.sequences}" for a, n in sorted(tlc.items())) or "-"
        missed += bool(monitor or tlc) if fault is None else not (monitor or tlc)
        print(f"| {fault.name if fault else '(none)'} | {fault.file if fault else ''} | {properties} | {sequences} |")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
