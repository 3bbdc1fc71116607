# ruff: noqa: E501
"""Seeds faults in the C controllers, and prints who finds them: `make faults`.

Each fault is one exact change of core-c/src/control, of SB-CC's detector or of the shadow that drives them. The core is
compiled once, and for each fault the files that it changes are compiled again. Then random sequences of joins, ACKs,
marks, losses, timeouts, undone reductions and closes drive it, and the monitor and TLC check every step. The monitor
also checks the committed captures under each fault. Prints the table of docs/conformance.md, and --write puts it there;
exits 1 when nobody finds a fault.
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
    from rewindow.controllers.steps import Step

CHECKOUT = Path(__file__).resolve().parent.parent
SOURCE = CHECKOUT / "core-c" / "src"
CHANGEABLE = (
    "control/css.c", "control/tccc.c", "control/tccc_plus.c", "control/sbcc.c", "bottleneck/sbcc.c", "shadow/detect.c",
    "shadow/shadow.c",
)  # fmt: skip
CAPTURES = CHECKOUT / "tests" / "captures"
MPTCP = ("recurrences", "ecn", "two-subflows", "three-subflows", "receiver-side")
ALGORITHMS = ("css", "tccc", "tccc+", "sbcc")
SEQUENCES = 12
STEPS = 120


@dataclass(frozen=True)
class Fault:
    """text occurs once in file, a path below core-c/src."""

    name: str
    file: str
    text: str
    replacement: str

    @property
    def algorithms(self) -> Sequence[str]:
        """The algorithms that use the file."""
        return _OF_FILE.get(self.file, ALGORITHMS)


_CSS = "control/coupled_slow_start.h"
_ACA = "control/aggressive_avoidance.h"
_FIXED = "control/fixed_point.h"
_TCCC = "control/tccc.c"
_SBCC = "control/sbcc.c"
_DETECTOR = "bottleneck/sbcc.c"
_DETECT = "shadow/detect.c"
_SHADOW = "shadow/shadow.c"
_WINDOW = "sender/window.c"
_OF_FILE = {
    _CSS: ALGORITHMS[:3], _ACA: ALGORITHMS[1:3], _TCCC: ALGORITHMS[1:2], _SBCC: ALGORITHMS[3:], _DETECTOR: ALGORITHMS[3:], _DETECT: ALGORITHMS[3:],
}  # fmt: skip
RECURRENCES = (
    Fault("coupled RTT by an eighth of each sample", _CSS, "(*r + ack->rtt_ns) / 2", "(7 * *r + ack->rtt_ns) / 8"),
    Fault("coupled RTT is the last sample", _CSS, "(*r + ack->rtt_ns) / 2", "ack->rtt_ns"),
    Fault("coupled RTT begins with half a sample", _CSS, "/ 2 : ack->rtt_ns;", "/ 2 : ack->rtt_ns / 2;"),
    Fault("a closed subflow has the smallest RTT", _CSS, "		if (css_takes_part(&c->path[i]) && c->path[i].word[PATH_RTT_NS])\n			least", "		if (c->path[i].word[PATH_RTT_NS])\n			least"),
    Fault("a closed subflow's window counts", _CSS, "		if (i != path && css_takes_part(&c->path[i]))\n			total", "		if (i != path)\n			total"),
    Fault("the last close keeps alpha", _CSS, "		c->word[WORD_ALPHA_Q32] = (uint64_t)c->option[ALPHA0] << 16; /* the next subflow is a first one again */\n", ""),
    Fault("an undo does not couple again", _CSS, "		p->initial = 1;\n		c->word[WORD_INITIAL_SS] = 1;\n", ""),
    Fault("an undo couples again after the exit", _CSS, "			p->word[PATH_LEFT] = LEFT_BEFORE_EXIT;\n", "			(void)p;\n"),
    Fault("an undo leaves the others' exit out", _CSS, "	} else if (left == LEFT_BEFORE_EXIT) {\n		p->ssthresh_q16 = p->cwnd_q16;\n	}", "	}"),
    Fault("a timeout decreases by equation 8", _TCCC, ".timeout = aca_timeout,", ".timeout = tccc_loss,"),
    Fault("an undo leaves the window", _SHADOW, "	p->cwnd_q16 = larger(p->cwnd_q16, h->prior_cwnd_q16);\n", ""),
    Fault("an undo leaves the threshold", _SHADOW, "	p->ssthresh_q16 = larger(p->ssthresh_q16, h->prior_ssthresh_q16);\n", ""),
    Fault("an undo gives back half the window as threshold", _WINDOW, "(cwnd_q16 >> 17 << 16) + (cwnd_q16 >> 18 << 16)", "(cwnd_q16 >> 17 << 16)"),
    Fault("a timeout leaves two segments", _SHADOW, "(uint64_t)in_flight + 1 : 1);", "(uint64_t)in_flight + 1 : 2);"),
    Fault("a further timeout reduces again", _SHADOW, "	if (new_episode) {\n		h->prior", "	if (new_episode || !new_episode) {\n		h->prior"),
    Fault("a timeout ends no interval of the flight", _SHADOW, "		end_interval(p);\n		if (s->control->timeout)", "		if (s->control->timeout)"),
    Fault("the largest flight of all time", _SHADOW, "	p->flight_max_q16 = 0;\n}", "}"),
    Fault("an idle time leaves the threshold", _SHADOW, "		p->ssthresh_q16 = rw_window_kept_ssthresh(p->cwnd_q16, p->ssthresh_q16);\n", ""),
    Fault("an idle time takes the initial window too", _WINDOW, "floor = rw_window_of(initial_segments);", "floor = rw_window_of(initial_segments / 2);"),
    Fault("a place that is taken again keeps what it was", _SHADOW, "	memset(p, 0, sizeof *p);\n", ""),
    Fault("beta by a sixteenth of each window", _SBCC, "enum { GAIN_BITS = 3 };", "enum { GAIN_BITS = 4 };"),
    Fault("beta is the share of the last window", _SBCC, "beta - (beta >> GAIN_BITS) + (rw_min64(marked_q32, BETA_ONE_Q32) >> GAIN_BITS);", "0 * beta + rw_min64(marked_q32, BETA_ONE_Q32);"),
    Fault("T over all windows", _SBCC, "		p->word[PATH_DELIVERED] = p->word[PATH_MARKED] = 0;\n", ""),
    Fault("T of the segments without a mark", _SBCC, "+= ack->marked_segments;", "+= ack->acked_segments - ack->marked_segments;"),
    Fault("T counts ACKs, not segments", _SBCC, "	p->word[PATH_MARKED] += ack->marked_segments;", "	p->word[PATH_MARKED] += ack->marked_segments != 0;"),
    Fault("a window of data ends with each ACK", _SBCC, "SEEN | ack->next;", "SEEN | ack->una;"),
    Fault("a window of data ends one ACK late", _SBCC, "(uint32_t)p->word[PATH_ROUND]) < 0)", "(uint32_t)p->word[PATH_ROUND]) <= 0)"),
    Fault("beta goes on where a set begins", _SBCC, "    .grouped = sbcc_grouped,\n", ""),
    Fault("beta moves outside of a set", _SBCC, "	if (!rw_final_group(p))\n		return;\n", ""),
    Fault("a subflow that joins has no beta", _SBCC, "    .begin = sbcc_begin,\n", ""),
)  # fmt: skip
"""Faults in values that depend on many steps. The capture mptcp-recurrences.pcap shows each of them."""
FAULTS = (
    *RECURRENCES,
    Fault("exit at the rate, not above it", _CSS, "rtt_min_ns) > css_con_ssthresh_q16(c) << 11", "rtt_min_ns) >= css_con_ssthresh_q16(c) << 11"),
    Fault("exit one segment late", _CSS, "> css_con_ssthresh_q16(c) << 11", "> (css_con_ssthresh_q16(c) + RW_Q16_ONE) << 11"),
    Fault("exit one segment early", _CSS, "> css_con_ssthresh_q16(c) << 11", "> (css_con_ssthresh_q16(c) - RW_Q16_ONE) << 11"),
    Fault("exit counts windows, not rates", _CSS, "(rw_window_q16(p) << 27) / rw_rho_q16(p->word[PATH_RTT_NS], rtt_min_ns)", "(rw_window_q16(p) << 11)"),
    Fault("exit forgets a subflow", _CSS, "	c->word[WORD_INITIAL_SS] = 0;\n	for (uint32_t i = 0;", "	c->word[WORD_INITIAL_SS] = 0;\n	for (uint32_t i = 1;"),
    Fault("exit leaves no threshold", _CSS, "			p->ssthresh_q16 = p->cwnd_q16;\n", ""),
    Fault("growth on the exit's own ACK", _CSS, "		css_exit(c);\n		return coupled;", "		css_exit(c);\n		return 0;"),
    Fault("the exit is tested on coupled subflows' ACKs only", _CSS, "	if (css_rate_q27(c, rtt_min_ns) >", "	if (coupled && css_rate_q27(c, rtt_min_ns) >"),
    Fault("no subflow's own threshold", _CSS, "	if (p->cwnd_q16 > p->ssthresh_q16) {", "	if (p->cwnd_q16 > p->ssthresh_q16 && !coupled) {"),
    Fault("the own threshold takes all out", _CSS, "		css_leave_alone(c, ack->path);\n		return 0;", "		css_exit(c);\n		return 0;"),
    Fault("L dropped", _CSS, "rw_min64(step_q32, cap_q16 << 16) << 8", "step_q32 << 8"),
    Fault("product for the exponent", _CSS, "if (c->option[ALPHA_FORM] == 1)", "if (c->option[ALPHA_FORM] != 1)"),
    Fault("growth as if all RTTs were alike", _CSS, "if (rtt == 0 || rtt <= rtt_min_ns)", "if (rtt || !rtt)"),
    Fault("alpha not rescaled at a join", _CSS, "		c->word[WORD_ALPHA_Q32] = css_rescale_q32(c->word[WORD_ALPHA_Q32], con, before, after);\n", "		(void)after;\n"),
    Fault("alpha not given back at a close", _CSS, "	if (before >= con)\n		return;\n", "	if (before || con)\n		return;\n"),
    Fault("alpha above alpha0 after a close", _CSS, "rw_min64((uint64_t)c->option[ALPHA0] << 16, css_rescale", "rw_max64((uint64_t)c->option[ALPHA0] << 16, css_rescale"),
    Fault("a join at con_ssth does not leave", _CSS, "if (after >= con)", "if (after > con)"),
    Fault("a join after the exit couples", _CSS, "if (!c->word[WORD_INITIAL_SS] || (others && !coupled)) {", "if (others > RW_MAX_PATHS) {"),
    Fault("a loss takes all subflows out", _CSS, "	if (c->path[path].initial)\n		css_leave_initial(&c->path[path]);\n	for", "	for (uint32_t i = 0; i < rw_path_count(c); i++)\n		c->path[i].initial = 0;\n	for"),
    Fault("a loss takes none out", _CSS, "	if (c->path[path].initial)\n		css_leave_initial(&c->path[path]);\n	for", "	(void)path;\n	for"),
    Fault("no floor of ssthresh", _FIXED, "p->ssthresh_q16 = rw_max64(ssthresh_q16, (uint64_t)floor_q16);", "(void)floor_q16;\n	p->ssthresh_q16 = ssthresh_q16;"),
    Fault("a halving rounds to segments", _FIXED, "whole ? (w >> 17) << 16 : w - (w >> 1)", "(w >> 17) << 16"),
    Fault("slow start beyond ssthresh", _FIXED, "step = rw_min64(acked_q16, room);", "step = acked_q16 + 0 * room;"),
    Fault("own R for min R in the increase", _ACA, "rw_rho_q16(p->srtt_ns, t.rtt_min_ns);\n\tuint64_t step", "RW_Q16_ONE;\n\tuint64_t step"),
    Fault("equation 8 without its half", _ACA, "RW_Q16_ONE, rho_q16) >> 1;", "RW_Q16_ONE, rho_q16);"),
    Fault("equation 8 where loss rates differ", _ACA, "	return a.high != b.high ? a.high < b.high : a.low <= b.low;", "	return a.high != b.high || b.high == b.high;"),
    Fault("coupling in Judgement", _FIXED, "return p->group_state == RW_GROUP_FINAL ? p->group : 0;", "return p->group;"),
    Fault("beta above 1", _SBCC, "p->word[PATH_BETA_Q32] = BETA_ONE_Q32;\n	p->word[PATH_DELIVERED]", "p->word[PATH_BETA_Q32] = 2 * BETA_ONE_Q32;\n	p->word[PATH_DELIVERED]"),
    Fault("SB-CC's decrease by all of beta", _SBCC, "beta, 2 * BETA_ONE_Q32)", "beta, BETA_ONE_Q32)"),
    Fault("a subflow in two sets", _DETECTOR, "path[i].live && path[i].set == 0)", "path[i].live != 0)"),
    Fault("a set takes a number in use", _DETECTOR, "		if (members(s, n) == 0)", "		if (n)"),
    Fault("a set with one member", _DETECTOR, "if (set && members(s, set) <= 2)", "if (set && members(s, set) <= 1)"),
    Fault("a closed subflow stays in its set", _DETECT, "p->live = p->set = p->state = 0;", "p->live = 0;"),
    Fault("a closed subflow's decision is taken", _DETECTOR, "	if (j->trigger == path)\n		j->waits = 0;\n", ""),
    Fault("observation window off by one", _DETECTOR, "return ago_ns <= (int64_t)(d->path[path].srtt_ns / 2);", "return ago_ns < (int64_t)(d->path[path].srtt_ns / 2);"),
    Fault("a mark after the window counts", _DETECTOR, "	if (in_window(d, path, d->now_ns - j->since_ns))", "	if (j->waits)"),
    Fault("an old mark counts", _DETECTOR, "			s->path[i].recent = 0;", "			s->path[i].recent = 1;"),
    Fault("who joins later is asked about", _DETECTOR, "!(j->open & bit))", "j->trigger == path)"),
    Fault("an echo counts as an event", _DETECTOR, "		if (same_run)\n			return;\n", "		(void)same_run;\n"),
    Fault("a loss asks as a mark does", _DETECTOR, "if (kind != RW_CONGESTION_ECE && !d->option[TRIGGER_LOSS])", "if (kind > RW_CONGESTION_TIMEOUT)"),
    Fault("decides before the window is over", _DETECTOR, "j->due_ns = d->now_ns + (int64_t)(longest / 2);", "j->due_ns = d->now_ns + (int64_t)(longest / 4);"),
    Fault("final at once", _DETECTOR, "path[i].state = RW_GROUP_JUDGEMENT;", "path[i].state = RW_GROUP_FINAL;"),
    Fault("final left too early", _DETECTOR, "	if (!holds)", "	if (!holds || path[j->trigger % RW_MAX_PATHS].state == RW_GROUP_FINAL)"),
    Fault("outsiders do not veto", _DETECTOR, "(j->seen >> i & 1) != (path[i].set == set))", "!(j->seen >> i & 1) && path[i].set == set)"),
    Fault("a silent member stays", _DETECTOR, "(j->seen >> i & 1) != (path[i].set == set))", "(j->seen >> i & 1) && path[i].set != set)"),
    Fault("a controller is not told of final", _DETECT, "if (p->set == w->set[i] && p->state == w->group_state[i])", "if (p->set == w->set[i])"),
)  # fmt: skip

# Random sequences


def random_steps(algorithm: str, seed: int, steps: int = STEPS) -> list[Step]:
    """A controller's steps on one random connection: joins, ACKs, losses, timeouts, undone reductions and closes."""
    from rewindow import Controller

    if algorithm == "sbcc":
        return _random_detections(seed, steps)
    r = random.Random(f"{algorithm}/{seed}")
    rtts = r.choice(
        [(0.02, 0.02, 0.02, 0.02), (0.01, 0.02, 0.05, 0.2), (0.01, 0.015, 0.3, 0.02), (0.04, 0.04, 0.1, 0.1)]
    )
    steady = r.random() < 0.5
    controller = Controller(algorithm, con_ssthresh=r.choice([20, 45, 45, 60]))
    controller.observe()
    open_: dict[int, float] = {}
    joined, late = 0, r.choice([0, 8, 15, 30])
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
        # In every third sequence long paths have most ACKs, so that their windows pass the threshold they begin with.
        weights = list(open_.values()) if seed % 3 == 1 else None
        path = r.choices(list(open_), weights)[0] if weights else r.choice(list(open_))
        rtt = open_[path] * (1 if steady else r.uniform(0.9, 1.2))
        what = r.random()
        if what < 0.032:
            (controller.loss if what < 0.015 else controller.ece if what < 0.025 else controller.timeout)(path)
            reduced.add(path)
        elif what < 0.04:
            controller.leave(path)
            del open_[path]
            reduced.discard(path)
        elif what < 0.08 and path in reduced:
            controller.undo(path)
            reduced.discard(path)
        else:
            controller.ack(path, r.choice([1, 1, 2, 2, 3, 8, 44]), rtt, time=n * 0.01)
    return controller.steps()


def _random_detections(seed: int, steps: int) -> list[Step]:
    """A connection under SB-CC whose subflows meet in two queues: most congestions of one reach all of its subflows within
    their windows, some are a little late, and there is noise."""
    from rewindow import Controller

    r = random.Random(f"sbcc/{seed}")
    controller = Controller("sbcc")
    controller.observe()
    rtts = r.choice([(0.04, 0.04, 0.04), (0.02, 0.05, 0.1), (0.03, 0.2, 0.04)])
    queues, largest = r.choice([1, 2, 2]), r.choice([2, 4, 6, 8])
    open_: dict[int, int] = {}  # path -> queue
    t, joined = 0, 0  # ns

    def rtt(path: int) -> float:
        return rtts[path % 3] * r.choice([1, 1, 1, r.uniform(0.9, 1.3), 8])

    def join() -> None:
        nonlocal joined
        open_[controller.join({} if r.random() < 0.1 else {"rtt": rtts[joined % 3]})] = r.randrange(queues)
        joined += 1

    def leave(path: int) -> None:
        controller.leave(path)
        del open_[path]

    def happens(path: int) -> None:
        what = r.random()
        if what < 0.88:
            controller.ece(path, time=t / 1e9)
        else:
            (controller.loss if what < 0.96 else controller.timeout)(path, time=t / 1e9)

    for _ in range(steps):
        t += r.choice([0, 1, 10, 50, 300]) * 1_000_000
        what = r.random()
        if len(open_) < 2 or (len(open_) < largest and what < 0.04):
            join()
        elif what < 0.07 and len(open_) > 1:
            leave(r.choice(list(open_)))
        elif what < 0.4:
            queue = r.randrange(queues)
            hit = [p for p in open_ if open_[p] == queue]
            r.shuffle(hit)
            for path in hit:
                happens(path)
                t += round(r.choice([0, 0, 0.05, 0.5, 0.5]) * rtts[path % 3] * 1e9)
            # While decisions wait.
            if hit and r.random() < 0.08:
                leave(hit[0])
            elif len(open_) < largest and r.random() < 0.1:
                join()
                happens(list(open_)[-1])
            t += r.choice([0, 300, 300, 600]) * 1_000_000
        elif what < 0.45:
            happens(r.choice(list(open_)))
        else:
            path, acked = r.choice(list(open_)), r.choice([1, 1, 2, 2, 3, 8, 44])
            controller.ack(path, acked, rtt(path), time=t / 1e9, marked=r.choice([0, 0, acked]))
    return controller.steps()


def random_logs(sequences: int, algorithms: Sequence[str]) -> list[tuple[str, list[Step]]]:
    """`sequences` logs of each algorithm; a log's connection is its index in the list."""
    found = [(a, random_steps(a, seed)) for a in algorithms for seed in range(sequences)]
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
        self.binding = folder / "_core.o"
        python = f"-I{sysconfig.get_path('include')}"
        self._compile(folder, "-c", str(builds[0] / "_core.c"), "-o", str(self.binding), python)
        self._cores: dict[str, Path] = {}
        self._logs: dict[tuple[str, int], list[tuple[str, list[Step]]]] = {}
        self._objects: dict[str, Path] = {}
        """File of core-c/src -> its object without a fault."""
        for room in sorted({source.parent for source in SOURCE.glob("*/*.c")}):
            self._objects |= self._room(room, [source.name for source in sorted(room.glob("*.c"))], folder / room.name)

    def _compile(self, folder: Path, *arguments: str) -> None:
        """Compiles without link-time optimisation, with which each fault would compile the whole core."""
        command = ["cc", "-O0", "-w", "-fPIC", "-D_GNU_SOURCE", f"-I{CHECKOUT / 'core-c' / 'include'}", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)

    def _room(self, room: Path, files: Sequence[str], folder: Path) -> dict[str, Path]:
        """Objects of these files of a room, by the names that FAULTS has; folder: where they are written."""
        folder.mkdir(exist_ok=True)
        rooms = [room.name for room in sorted(SOURCE.iterdir())]
        self._compile(folder, "-c", *(str(room / file) for file in files), *(f"-I{SOURCE / seen}" for seen in rooms))
        return {f"{room.name}/{file}": folder / f"{Path(file).stem}.o" for file in files}

    def core(self, fault: Fault | None) -> Path:
        """An extension module with this fault; without, the controllers as they are."""
        name = fault.name if fault else ""
        if name not in self._cores:
            self._cores[name] = self._build(fault)
        return self._cores[name]

    def _build(self, fault: Fault | None) -> Path:
        place = Path(tempfile.mkdtemp(dir=self.folder))
        objects = dict(self._objects)
        if fault:
            room = Path(fault.file).parent
            shutil.copytree(SOURCE / room, place / room)
            changed = place / fault.file
            text = changed.read_text()
            if text.count(fault.text) != 1:
                raise ValueError(f"{fault.name}: its text occurs {text.count(fault.text)} times in {fault.file}")
            changed.write_text(text.replace(fault.text, fault.replacement))
            affected = [file for file in CHANGEABLE if Path(file).parent == room]
            if fault.file.endswith(".c"):
                affected = [fault.file]
            objects |= self._room(place / room, [Path(file).name for file in affected], place / room)
        core = place / f"_core{self.suffix}"
        self._compile(place, "-shared", str(self.binding), *map(str, objects.values()), "-lm", "-o", str(core))
        return core

    def logs(self, fault: Fault | None, sequences: int) -> list[tuple[str, list[Step]]]:
        """The random sequences under this fault, in a process of its own."""
        key = fault.name if fault else "", sequences
        if key not in self._logs:
            self._logs[key] = self._run(fault, sequences)
        return self._logs[key]

    def _run(self, fault: Fault | None, sequences: int) -> list[tuple[str, list[Step]]]:
        found: list[tuple[str, list[Step]]] = self._in_a_process(fault, "--sequences", str(sequences))
        return found

    def on_captures(self, fault: Fault | None, captures: Sequence[str]) -> Counter[str]:
        """Properties that the monitor finds violated on these committed captures under this fault, and by how many steps."""
        found: Counter[str] = self._in_a_process(fault, "--captures", ",".join(captures))
        return found

    def _in_a_process(self, fault: Fault | None, *what: str) -> Any:
        command = [sys.executable, "-m", "bench.faults", "--core", str(self.core(fault)), *what]
        command += fault.algorithms if fault else ALGORITHMS
        return pickle.loads(subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, check=True).stdout)


def captured(captures: Sequence[str], algorithms: Sequence[str]) -> Counter[str]:
    """The monitor's violations on committed captures."""
    import rewindow

    found: Counter[str] = Counter()
    for capture in captures:
        path = str(CAPTURES / f"mptcp-{capture}.pcap")
        with rewindow.open(path) as opened, opened.stream(list(algorithms), monitor=True, transitions=True) as replay:
            found.update(name for step in replay.steps() for name in step.violated)
    return found


def _run_with(core: str, captures: str | None, sequences: int, algorithms: Sequence[str]) -> None:
    """Runs in a process of its own, with that extension module instead of the installed one."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("rewindow._core", core)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["rewindow._core"] = module
    spec.loader.exec_module(module)
    found = captured(captures.split(","), algorithms) if captures else random_logs(sequences, algorithms)
    sys.stdout.buffer.write(pickle.dumps(found))


# Which judge notices


def monitor_notices(logs: Sequence[tuple[str, list[Step]]]) -> Counter[str]:
    """Properties that the monitor found violated, and in how many sequences."""
    return Counter(name for _, steps in logs for name in {name for s in steps for name in s.violated})


def tlc_notices(of: Sequence[Sequence[tuple[str, list[Step]]]]) -> list[Counter[str]]:
    """For each fault and algorithm: in how many sequences TLC refused a step."""
    from rewindow import specs
    from rewindow.conformance.checks import conformance
    from rewindow.conformance.step_logs import SPECIFIED
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


def _rows(sequences: int) -> Iterator[tuple[Fault | None, Counter[str], Counter[str], Counter[str]]]:
    with tempfile.TemporaryDirectory(prefix="rewindow-faults-") as folder:
        workshop = Workshop(Path(folder))
        faults = [None, *FAULTS]
        logs = [workshop.logs(f, sequences) for f in faults]
        captures = [workshop.on_captures(f, MPTCP) for f in faults]
        yield from zip(faults, map(monitor_notices, logs), captures, tlc_notices(logs), strict=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.faults", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sequences", type=int, default=SEQUENCES, help="random ones of each algorithm")
    parser.add_argument("--write", action="store_true", help="also put the table into docs/conformance.md")
    parser.add_argument("--core", help=argparse.SUPPRESS)
    parser.add_argument("--captures", help=argparse.SUPPRESS)
    parser.add_argument("algorithm", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.core:
        _run_with(args.core, args.captures, args.sequences, args.algorithm)
        return 0
    missed = 0
    lines = ["| fault | file | monitor | monitor, captures | TLC |", "|---|---|---|---|---|"]
    for fault, monitor, captures, tlc in _rows(args.sequences):
        properties, on_captures = (
            ", ".join(sorted(found, key=lambda name: (-found[name], name))[:3]) or "-" for found in (monitor, captures)
        )
        sequences = ", ".join(f"{a} {n}/{args.sequences}" for a, n in sorted(tlc.items())) or "-"
        noticed = bool(monitor or captures or tlc)
        missed += noticed if fault is None else not noticed
        name, file = (fault.name, fault.file) if fault else ("(none)", "")
        lines.append(f"| {name} | {file} | {properties} | {on_captures} | {sequences} |")
    print(*lines, sep="\n")
    if args.write:
        from bench.documents import put

        put("conformance.md", "faults", "\n".join(lines))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
