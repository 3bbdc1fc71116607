"""Speed and memory, as ratios to other programs in the same run on the same machine: `make bench`.

Builds the core and its baselines, generates captures under build/bench, reads them once so that they are in memory, and
takes turns between the programs; of several runs the best counts. Prints Markdown; --write puts it into
docs/performance.md, which explains the rows.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.documents import put

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "bench"
PROGRAMS = FOLDER / "core" / "bench"
REWINDOW = ROOT / ".venv" / "bin" / "rewindow"
MEASURED = ROOT / "bench" / "measured.py"

SLICE_PACKETS = 50_000
OUTPUT_BYTES_MAX = 64 << 20
"""How much of a program's output is read, because a report of 300 k connections has 400 MB."""
CONTROLLERS = ("tccc", "newreno")
MANY_CONTROLLERS = 8
CANDIDATES = ("newreno", "cubic")
"""The algorithms that `rewindow analyze` replays to name the senders' algorithms."""
CAPTURES = {
    "bulk 1 M": ("bulk", 1_000_000),
    "bulk 10 M": ("bulk", 10_000_000),
    "bulk 1 M, microseconds": ("bulk-us", 1_000_000),
    "offload": ("offload", 50_000_000),
    "mptcp 1 M": ("mptcp", 1_000_000, 2),
    "mptcp 1 M, 8 subflows": ("mptcp", 1_000_000, 8),
    "interleaved 1 k": ("interleaved", 1_500_000, 1_000),
    "interleaved 100 k": ("interleaved", 150_000_000, 100_000),
    "short 300 k, 1 k at once": ("short", 300_000, 1_000),
    "short 300 k, 100 k at once": ("short", 300_000, 100_000),
    "balanced 64": ("balanced", 500_000_000, 64),
    "balanced 1": ("balanced", 500_000_000, 1),
    "many 1 k": ("many", 1_000),
    "many 300 k": ("many", 300_000),
    "many 1 M": ("many", 1_000_000),
    "many 2.2 M": ("many", 2_200_000),
    "lossy 1 k": ("lossy", 1_000_000, 1_000, 100),
    "lossy 5 k": ("lossy", 1_000_000, 5_000, 100),
    "lossy 10 k": ("lossy", 1_000_000, 10_000, 100),
    "lossy 20 k": ("lossy", 1_000_000, 20_000, 100),
    "lossy 20 k, rare": ("lossy", 1_000_000, 20_000, 10_000),
    "lossy 80 k": ("lossy", 1_000_000, 80_000, 100),
}
"""Arguments of `generate`, which explains them when called without."""
BESIDE_PEERS = (
    "bulk 1 M, microseconds",
    "offload",
    "mptcp 1 M",
    "mptcp 1 M, 8 subflows",
    "interleaved 100 k",
    "short 300 k, 1 k at once",
    "short 300 k, 100 k at once",
    *(name for name in CAPTURES if name.startswith("lossy")),
)
"""Further captures that libpcap's loop and tcptrace read, too."""


@dataclass(frozen=True)
class Capture:
    name: str
    path: Path
    packets: int
    connections: int


@dataclass(frozen=True)
class Run:
    began_s: float
    """By the monotonic clock."""
    ended_s: float
    cpu_seconds: float
    max_rss_bytes: int
    """ru_maxrss, which counts the process that started the program, too."""
    least_rss_bytes: int
    """That process's own peak."""
    output: str
    complaints: str = ""

    @property
    def seconds(self) -> float:
        return self.ended_s - self.began_s

    @property
    def peak_rss_bytes(self) -> int:
        """The program's own. SystemExit where it did not need more than the process that started it."""
        if self.max_rss_bytes <= self.least_rss_bytes:
            raise SystemExit(f"peak memory is not known: below the {self.least_rss_bytes} bytes of bench/measured.py")
        return self.max_rss_bytes

    def value(self, key: str) -> str:
        """The value of a `key=value` line in the program's output."""
        found = re.search(rf"^{key}=(.*)$", self.output, re.MULTILINE)
        if not found:
            raise SystemExit(f"no {key} in: {self.output[:500]}")
        return found[1]


@dataclass
class Program:
    """A command that reads one capture; `seen` gets the number of packets from its output."""

    name: str
    capture: Capture
    command: Sequence[str | Path]
    seen: Callable[[str], int]
    packets: int = 0
    best: Run = field(default_factory=lambda: Run(0, float("inf"), float("inf"), 0, 0, ""))

    def __post_init__(self) -> None:
        self.packets = self.packets or self.capture.packets

    def measure(self) -> None:
        run = Process(self.command).finish()
        if self.seen(run.output) != self.packets:
            raise SystemExit(f"{self.name} read {self.seen(run.output)} of {self.packets} packets: {self.command}")
        if run.seconds < self.best.seconds:
            self.best = run

    @property
    def rate(self) -> float:
        """Packets a second."""
        return self.packets / self.best.seconds


class Process:
    """A running program. Its output goes to files, so that it never waits for a reader."""

    def __init__(self, command: Sequence[str | Path], stdin: int | None = None, stdout: int | None = None) -> None:
        self.command = [str(part) for part in command]
        self.out, self.err, self.report = (tempfile.TemporaryFile() for _ in range(3))  # noqa: SIM115  # closed by finish
        # Compiled Python is kept, as for a user.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        words = [sys.executable, "-I", "-S", str(MEASURED), str(self.report.fileno()), *self.command]
        self.popen = subprocess.Popen(
            words, stdin=stdin, stdout=stdout or self.out, stderr=self.err, env=environment,
            pass_fds=[self.report.fileno()],
        )  # fmt: skip

    def finish(self) -> Run:
        failed = self.popen.wait()
        with self.out as out, self.err as err, self.report as report:
            for f in (out, err, report):
                f.seek(0)
            printed, complaints = (f.read(OUTPUT_BYTES_MAX).decode(errors="replace") for f in (out, err))
            found = {"exit_status": failed} if failed else json.loads(report.read())
        if found["exit_status"]:
            raise SystemExit(f"{' '.join(self.command)} failed: {complaints[-2000:]}")
        peaks = found["peak_rss_bytes"], found["own_peak_rss_bytes"]
        return Run(found["began_s"], found["ended_s"], found["cpu_seconds"], *peaks, printed, complaints)


class Others:
    """How much processor time other processes used since this object was made."""

    def __init__(self) -> None:
        self.began, self.before_s = time.perf_counter(), self._others_s()

    @staticmethod
    def _others_s() -> float:
        """Processor time that this process and its finished children did not use."""
        words = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(word) for word in words[:8])
        busy_s = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        return busy_s - sum(
            sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )

    def cores(self) -> float:
        return max(0.0, (self._others_s() - self.before_s) / (time.perf_counter() - self.began))


def printed(output: str) -> int:
    """The number of packets from `packets=N` or from tcptrace's `N packets seen`."""
    found = re.search(r"^packets=(\d+)$|^(\d+) packets seen", output, re.MULTILINE)
    return int(found[1] or found[2]) if found else 0


def analysed(output: str) -> int:
    found = re.match(r'{"capture": {"packets": (\d+),', output)
    return int(found[1]) if found else 0


def lines(output: str) -> int:
    return output.count("\n")


def build(across_files: bool = True) -> None:
    """across_files=False: no optimisation across files, so that perf sees every function under its own name."""
    tools, folder = ROOT / ".venv" / "bin", FOLDER / "core"
    lto = f"-DREWINDOW_LTO={'ON' if across_files else 'OFF'}"
    options = ("-DCMAKE_BUILD_TYPE=Release", "-DREWINDOW_BENCH=ON", "-DREWINDOW_BENCH_PCAP=ON", lto)
    ninja = f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"
    Process([tools / "cmake", "-S", ROOT / "core-c", "-B", folder, "-G", "Ninja", ninja, *options]).finish()
    Process([tools / "cmake", "--build", folder]).finish()


def generated(report: str) -> dict[str, int]:
    """The numbers that `generate` prints of its capture: packets, bytes, connections, retransmissions."""
    return {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", report)}


def generate(name: str) -> Capture:
    words = [str(word) for word in CAPTURES[name]]
    path = FOLDER / f"{'-'.join(words)}.pcap"
    counts = generated(Process([PROGRAMS / "generate", *words, path]).finish().complaints)
    with path.open("rb", buffering=0) as f:  # into the page cache
        while f.read(1 << 22):
            pass
    return Capture(name, path, counts["packets"], counts["connections"])


def controllers(count: int) -> list[str]:
    """`count` controllers for replay_bench: every name, then every name again in the mode that is not the default."""
    found = json.loads(Process([REWINDOW, "algorithms", "--json"]).finish().output)["algorithms"]
    names = [a["name"] for a in found]
    for algorithm in found:
        modes = next((o for o in algorithm["options"] if o["name"] == "mode"), None)
        if modes:
            other = "kernel" if modes["default"] == "paper" else "paper"
            names.append(f"{algorithm['name']}:mode={other}")
    if len(names) < count:
        raise SystemExit(f"only {len(names)} different controllers: {names}")
    return names[:count]


def core(capture: Capture, names: Sequence[str]) -> Program:
    label = " ".join(names) if len(names) <= len(CONTROLLERS) else f"{len(names)} controllers"
    return Program(
        f"core, {label or 'no controller'}", capture, [PROGRAMS / "replay_bench", capture.path, *names], printed
    )


def compressed(capture: Capture) -> Capture:
    path = capture.path.with_suffix(".pcap.gz")
    with capture.path.open("rb") as plain, gzip.open(path, "wb", compresslevel=1) as out:
        shutil.copyfileobj(plain, out, 1 << 22)
    return Capture(f"{capture.name}, gzip", path, capture.packets, capture.connections)


def core_threads(capture: Capture, jobs: int) -> Program:
    command: list[str | Path] = [PROGRAMS / "replay_bench", "-j", str(jobs), capture.path, *CONTROLLERS]
    return Program(f"core, {' '.join(CONTROLLERS)}, {jobs} threads", capture, command, printed)


def peers(capture: Capture) -> list[Program]:
    return [
        Program("walk", capture, [PROGRAMS / "walk", capture.path], printed),
        Program("pcap_loop", capture, [PROGRAMS / "pcap_loop", capture.path], printed),
        Program("tcptrace -n -l", capture, ["tcptrace", "-n", "-l", capture.path], printed),
    ]


def tshark(capture: Capture) -> Program:
    fields = ("retransmission", "fast_retransmission", "duplicate_ack_num", "ack_rtt", "bytes_in_flight")
    columns = [part for name in fields for part in ("-e", f"tcp.analysis.{name}")]
    command: list[str | Path] = ["tshark", "-n", "-r", capture.path, "-c", str(SLICE_PACKETS), "-T", "fields", *columns]
    return Program(f"tshark -T fields, {SLICE_PACKETS} packets", capture, command, lines, SLICE_PACKETS)


def analyze(capture: Capture) -> Program:
    return Program("rewindow analyze --json", capture, [REWINDOW, "analyze", "--json", capture.path], analysed)


def analyze_threads(capture: Capture, jobs: int) -> Program:
    command: list[str | Path] = [REWINDOW, "analyze", "--json", "--jobs", str(jobs), capture.path]
    return Program(f"rewindow analyze --json, {jobs} threads", capture, command, analysed)


def series(capture: Capture) -> Program:
    """`rewindow analyze --json`, which also writes every ACK's row as Parquet."""
    command: list[str | Path] = [REWINDOW, "analyze", "--json", "--series", FOLDER / "series.parquet", capture.path]
    return Program("rewindow analyze --json --series", capture, command, analysed)


def take_turns(programs: Sequence[Program], runs: int) -> None:
    for turn in range(runs):
        print(f"turn {turn + 1} of {runs}", file=sys.stderr)
        for program in programs:
            program.measure()


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> Iterator[str]:
    """Markdown; the first `left` columns are text, the others numbers."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{''.join('---|' if i < left else '---:|' for i in range(len(columns)))}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def rates(programs: Sequence[Program]) -> Iterator[str]:
    ours = {p.capture.name: p.rate for p in programs if p.name == f"core, {' '.join(CONTROLLERS)}"}
    rows = [(p.name, p.capture.name, f"{p.rate / 1e6:.3g} M", f"{ours[p.capture.name] / p.rate:.3g}") for p in programs]
    yield from table(("program", "capture", "packets/s", f"`core, {' '.join(CONTROLLERS)}` / it"), rows, 2)


def per_ack(alone: Program, with_controllers: Sequence[Program]) -> Iterator[tuple[str, str]]:
    acks = int(alone.best.value("rows"))
    for p in with_controllers:
        count = len(p.command) - 2
        cost = (float(p.best.value("cpu_seconds")) - float(alone.best.value("cpu_seconds"))) / acks / count
        yield f"time for each ACK and controller, {count} controllers", f"{cost * 1e9:.1f} ns"


def instructions(program: Program) -> int:
    """Instructions of a run under callgrind, which needs no counters of the processor and always counts the same."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *program.command]
    found = re.search(r"Collected : (\d+)", Process(command).finish().complaints)
    if not found:
        raise SystemExit(f"callgrind counted nothing: {command}")
    return int(found[1])


def instructions_per_packet(program: Program) -> tuple[str, str]:
    name = f"instructions for each packet, {' '.join(CONTROLLERS)} ({program.capture.name})"
    return name, f"{instructions(program) / program.packets:.0f}"


def instructions_per_ack(alone: Program, with_controllers: Sequence[Program]) -> Iterator[tuple[str, str]]:
    """alone: a program without controllers that has been measured."""
    print("counting instructions", file=sys.stderr)
    acks, before = int(alone.best.value("rows")), instructions(alone)
    yield f"instructions for each packet, no controller ({alone.capture.name})", f"{before / alone.packets:.0f}"
    for p in with_controllers:
        count = len(p.command) - 2
        each = (instructions(p) - before) / acks / count
        yield f"instructions for each ACK and controller, {count} controllers ({alone.capture.name})", f"{each:.0f}"


def short_connections(alone: Program, analysis: Program) -> Iterator[tuple[str, str]]:
    """The cost of a report of many connections, compared with the core, which replays the same candidates."""
    name = f"{analysis.name} ({analysis.capture.name})"
    yield f"{name}: processor time / `{alone.name}`", f"{analysis.best.cpu_seconds / alone.best.cpu_seconds:.2f}"
    yield f"{name}: peak resident memory", f"{analysis.best.peak_rss_bytes / 1e6:.0f} MB"
    yield f"{alone.name} ({alone.capture.name}): peak resident memory", f"{alone.best.peak_rss_bytes / 1e6:.0f} MB"


def memory_of_a_flow(what: str, few: Program, many: Program) -> tuple[str, str]:
    rss = [int(p.best.value("peak_rss_bytes")) for p in (few, many)]
    flows = many.capture.connections - few.capture.connections
    return f"resident memory for each {what}", f"{(rss[1] - rss[0]) / flows:.0f} bytes"


def churn(size: str) -> Iterator[tuple[str, str]]:
    """One run: `generate churn SIZE | rewindow analyze -`."""
    print(f"churn of {size}", file=sys.stderr)
    reading, writing = os.pipe()
    source = Process([PROGRAMS / "generate", "churn", size], stdout=writing)
    reader = Process([REWINDOW, "analyze", "-"], stdin=reading)
    os.close(reading)
    os.close(writing)
    counts = generated(source.finish().complaints)
    run = reader.finish()
    if not run.output.startswith(f"{counts['packets']} packets"):
        raise SystemExit(f"of {counts['packets']} packets analyze read: {run.output[:100]}")
    what = f"`generate churn {size} \\| rewindow analyze -`"
    yield f"{what}: peak resident memory", f"{run.peak_rss_bytes / 1e6:.0f} MB"
    yield f"{what}: connections in all", str(counts["connections"])
    yield f"{what}: packets/s", f"{counts['packets'] / run.seconds / 1e6:.3g} M"


def two_cores(program: Program, runs: int) -> tuple[str, str]:
    """Packets/s of two processes at once, divided by those of one."""
    name = f"packets/s of two processes at once / of one ({program.name}, {program.capture.name})"
    if len(os.sched_getaffinity(0)) < 2:
        return name, "not measured: one core"
    both_s, others = float("inf"), Others()
    for _ in range(runs):
        both = [process.finish() for process in [Process(program.command) for _ in range(2)]]
        both_s = min(both_s, max(run.ended_s for run in both) - min(run.began_s for run in both))
    if others.cores() > 0.1:
        return name, f"not measured: other processes took {others.cores():.2f} cores"
    return name, f"{2 * program.best.seconds / both_s:.2f}"


def threads(one: Program, two: Program) -> Iterator[tuple[str, str]]:
    name = f"two threads ({one.capture.name})"
    if one.name.startswith("rewindow"):
        name = f"`rewindow analyze`, two threads ({one.capture.name})"
    yield f"{name}: packets/s / of one", f"{one.best.seconds / two.best.seconds:.2f}"
    yield f"{name}: peak resident memory / of one", f"{two.best.peak_rss_bytes / one.best.peak_rss_bytes:.2f}"


def flows_beyond(capture: Capture) -> Iterator[tuple[str, str]]:
    """One run on more flows than there may be; SystemExit where packets of the others are missing without a word."""
    print("flows beyond the limit", file=sys.stderr)
    run = Process(core(capture, ()).command).finish()
    connections, told = int(run.value("connections")), int(run.value("packets_beyond"))
    if connections * (capture.packets // capture.connections) + told != capture.packets:
        raise SystemExit(f"{capture.name}: {connections} connections, {told} packets told")
    yield f"live flows of {capture.connections} ({capture.name})", str(connections)
    yield f"packets of the other flows, told as `too_many_flows` ({capture.name})", str(told)
    yield f"core, no controller ({capture.name}): peak resident memory", f"{run.peak_rss_bytes / 1e6:.0f} MB"


def machine() -> str:
    models = re.findall(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{models[0] if models else os.uname().machine}, {os.uname().release}, {len(os.sched_getaffinity(0))} cores"


def measured(churn_bytes: str, runs: int) -> Iterator[str]:
    build()
    captures = {name: generate(name) for name in CAPTURES}
    one, ten, mptcp = (captures[n] for n in ("bulk 1 M", "bulk 10 M", "mptcp 1 M"))
    sets = ((), CONTROLLERS, tuple(controllers(MANY_CONTROLLERS)))
    large, small = ([core(capture, names) for names in sets] for capture in (ten, one))
    compared = [*peers(one), tshark(one), *small[:2], analyze(one), series(one)]
    compared += [*peers(ten), *large, analyze(ten), series(ten)]
    short = [core(captures["many 300 k"], names) for names in (CONTROLLERS, CANDIDATES)]
    short.append(analyze(captures["many 300 k"]))
    compared += short
    for name in BESIDE_PEERS:
        compared += [*peers(captures[name])[1:], core(captures[name], CONTROLLERS)]
    paired = [
        (core(captures[name], CONTROLLERS), core_threads(captures[name], 2)) for name in ("balanced 64", "balanced 1")
    ]
    zipped = compressed(ten)
    paired.append((analyze_threads(zipped, 1), analyze_threads(zipped, 2)))
    if shutil.which("mptcptrace"):
        compared.append(Program("mptcptrace", mptcp, ["mptcptrace", "-f", mptcp.path], lambda _: mptcp.packets))
    idle = [core(captures[n], ()) for n in ("many 1 k", "many 1 M")]
    live = [core(captures[n], CONTROLLERS) for n in ("interleaved 1 k", "interleaved 100 k")]
    others = Others()
    take_turns([*compared, *idle, *live, *(program for pair in paired for program in pair)], runs)
    yield f"On {machine()}, of which other processes took {others.cores():.2f}; best of {runs} runs, churn: one.\n"
    yield from rates(compared)
    if not shutil.which("mptcptrace"):
        yield "mptcptrace is not installed: not measured.\n"
    facts = [*per_ack(large[0], large[1:]), *instructions_per_ack(small[0], small[1:])]
    facts += [
        instructions_per_packet(core(captures[name], CONTROLLERS)) for name in ("bulk 1 M", "bulk 1 M, microseconds")
    ]
    facts += [row for pair in paired for row in threads(*pair)]
    facts += [*short_connections(*short[1:]), memory_of_a_flow("idle TCP flow, no controller", *idle)]
    facts += [memory_of_a_flow(f"open TCP flow that lost nothing, {' '.join(CONTROLLERS)}", *live)]
    facts += [*flows_beyond(captures["many 2.2 M"]), two_cores(large[1], runs), *churn(churn_bytes)]
    yield from table(("", ""), facts, 1)
    yield f"The {MANY_CONTROLLERS} controllers: `{' '.join(sets[2])}`."


def main() -> None:
    parser = argparse.ArgumentParser(description="measures speed and memory")
    parser.add_argument("--churn-bytes", default="10g", metavar="N[k|m|g]", help="read through a pipe [10g]")
    parser.add_argument("--runs", type=int, default=5, help="of each program [5]")
    parser.add_argument("--write", action="store_true", help="also put the result into docs/performance.md")
    arguments = parser.parse_args()
    text = "\n".join(measured(arguments.churn_bytes, arguments.runs))
    print(text)
    if arguments.write:
        put("performance.md", "measured", text)


if __name__ == "__main__":
    main()
