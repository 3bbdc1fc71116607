"""`python -m bench.corpus DIR`: compares rewindow and tshark on every capture of a folder; prints Markdown.

Exit status: 0 every difference has a reason and nothing failed, 1 otherwise, 2 usage, 4 tshark is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rewindow
from bench.corpus import tshark
from bench.corpus.compare import compare
from bench.corpus.reasons import REASONS, Comparison, Difference

OURS_S = 300
"""Time limit for one capture, also under sanitizers; the largest captures take seconds."""
SANITIZED = Path("build/Debug/tests/replay_file")
COLUMNS = ("packets", "TCP packets", "TCP streams", "MPTCP streams", "bytes", "retransmissions", "median RTT")

_MAGICS = (
    b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\xcd\x34",
    b"\x34\xcd\xb2\xa1", b"\x0a\x0d\x0d\x0a", b"snoop\0\0\0", b"RTSS", b"GMBU", b"TRSNIFF data", b"XCP\0",
)  # fmt: skip


@dataclass
class Outcome:
    """The outcome of one capture. failure: a program failed, or only one can read the capture; neither: both refuse it;
    alone: tshark does not know the format or link type.
    """

    name: str
    comparison: Comparison | None = None
    failure: str = ""
    neither: str = ""
    alone: str = ""

    @property
    def unexplained(self) -> list[str]:
        found = [d.unexplained for d in self.comparison.differences] if self.comparison else []
        return [text for text in found if text]


def is_capture(path: Path) -> bool:
    """Tells by the first bytes, after decompression."""
    try:
        with rewindow.open(path) as capture:
            return os.pread(capture.descriptors[0], 16, 0).startswith(_MAGICS)
    except rewindow.CaptureUnreadable:
        return False


def read_ours(path: Path, sanitized: Path | None) -> tuple[dict[str, Any], str]:
    """The core's result, and a failure: a crash, a timeout, a sanitizer's report."""
    command = [sys.executable, "-m", "bench.corpus.ours", str(path), *([str(sanitized)] if sanitized else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=OURS_S, check=False)
    except subprocess.TimeoutExpired:
        return {}, f"took more than {OURS_S} s"
    if done.returncode:
        return {}, f"ended with status {done.returncode}: {(done.stderr.splitlines() or ['nothing said'])[-1]}"
    found: dict[str, Any] = json.loads(done.stdout)
    return found, found["sanitizer"] or ""


_READ_ON = ("bad_block", "unknown_interface", "second_header")
"""Oddities after which the core reads on, and tshark ends."""


def _read_until(path: Path, end: int, sanitized: Path | None) -> tuple[dict[str, Any], str]:
    """The core's result for the part of a capture before an offset."""
    with rewindow.open(path) as capture, tempfile.NamedTemporaryFile() as part:
        place = 0
        while place < end and (chunk := os.pread(capture.descriptors[0], min(end - place, 1 << 20), place)):
            part.write(chunk)
            place += len(chunk)
        part.flush()
        return read_ours(Path(part.name), sanitized)


def _without_tcp(ours: dict[str, Any]) -> str:
    """Why the core finds no TCP in a file that it can read."""
    summary = ours["summary"]
    whys = ("cut_capture", "corrupt_record", "unknown_link_type", *_READ_ON)
    return "" if summary["tcp_packets"] else ", ".join(why for why in whys if why in summary["oddities"])


def outcome_of(path: Path, name: str, sanitized: Path | None) -> Outcome:
    ours, failure = read_ours(path, sanitized)
    if failure:
        return Outcome(name, failure=failure)
    try:
        with rewindow.open(path) as capture, tempfile.TemporaryDirectory() as home:
            seen = tshark.see(capture.descriptors[0], home)
    except RuntimeError as e:
        return Outcome(name, failure=str(e))
    if "error" in ours and seen.refusal:
        return Outcome(name, neither=ours["error"])
    if "error" in ours:
        return Outcome(name, failure="rewindow does not read it")
    passed_over = [
        ours["summary"]["oddities"][what]["first_offset"] for what in _READ_ON if what in ours["summary"]["oddities"]
    ]
    read_on = 0
    if passed_over and (seen.refusal or seen.ending == "corrupt"):
        read_on = ours["summary"]["packets"]
        ours, failure = _read_until(path, min(passed_over), sanitized)
        if failure:
            return Outcome(name, failure=failure)
        read_on -= ours["summary"]["packets"]
    if seen.refusal and (why := _without_tcp(ours) or "nothing before a bad block" * bool(passed_over)):
        return Outcome(name, neither=why)
    if seen.refusal and "unknown or unsupported" in seen.refusal:
        return Outcome(name, alone=f"only rewindow reads it: tshark says {seen.refusal}")
    if seen.refusal:
        return Outcome(name, failure="tshark does not read it")
    if read_on:
        seen.ending = ""
    comparison = compare(ours, seen)
    if read_on:
        whole = str(ours["summary"]["packets"] + read_on)
        comparison.differences.append(Difference("packets", whole, str(seen.frames), Counter({"read on": read_on})))
    return Outcome(name, comparison)


def _number(value: float | None, *, milliseconds: bool) -> str:
    if value is None:
        return "–"
    return f"{value / 1000:.3f}" if milliseconds else f"{value:.0f}"


def _cell(comparison: Comparison, what: str) -> str:
    ours, theirs = comparison.numbers.get(what, (None, None))
    texts = [_number(v, milliseconds=what == "median RTT") for v in (ours, theirs)]
    return texts[0] if texts[0] == texts[1] else " / ".join(texts)


def _oddities(comparison: Comparison) -> str:
    texts = []
    for name, (ours, theirs) in comparison.oddities.items():
        same = theirs is None or ours == theirs
        texts.append(f"{name} {ours}" if same else f"{name} {ours} / {theirs}")
    return ", ".join(texts)


def _why(comparison: Comparison) -> str:
    texts = []
    for d in comparison.differences:
        reasons = ", ".join(f"{name} {amount:+d}" for name, amount in d.reasons.items() if amount)
        what = f"{d.what} ({d.ours})" if d.what == "median RTT" else d.what
        unexplained = f"**unexplained: {d.unexplained}**" if d.unexplained else ""
        texts.append(f"{what}: {'; '.join(t for t in (reasons, unexplained) if t)}")
    return "<br>".join(texts)


def _row(outcome: Outcome) -> str:
    if outcome.comparison is None:
        said = outcome.alone or f"neither reads it: {outcome.neither}"
        if outcome.failure:
            said = f"**failed: {outcome.failure}**"
        return f"| {outcome.name} |{' |' * len(COLUMNS)} | {said} |"
    cells = [_cell(outcome.comparison, what) for what in COLUMNS]
    return "| " + " | ".join([outcome.name, *cells, _oddities(outcome.comparison), _why(outcome.comparison)]) + " |"


def report(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Two tables and a line of sums, as Markdown."""
    yield "A cell with one number: both say so. With two: ours / tshark's. RTTs in ms, of the flow with the most bytes."
    yield ""
    yield "| capture | " + " | ".join(COLUMNS) + " | oddities | why they differ |"
    yield "|---|" + "---:|" * len(COLUMNS) + "---|---|"
    for outcome in outcomes:
        yield _row(outcome)
    amounts: Counter[str] = Counter()
    captures: Counter[str] = Counter()
    for outcome in outcomes:
        found = [d for d in outcome.comparison.differences] if outcome.comparison else []
        for d in found:
            amounts.update({name: abs(amount) for name, amount in d.reasons.items()})
        captures.update({name for d in found for name, amount in d.reasons.items() if amount})
    yield ""
    yield "| reason | captures | how much | what it means |"
    yield "|---|---:|---:|---|"
    for name, text in REASONS.items():
        if captures[name]:
            yield f"| {name} | {captures[name]} | {amounts[name]} | {text} |"
    differences = [d for o in outcomes if o.comparison for d in o.comparison.differences]
    unexplained = sum(len(o.unexplained) for o in outcomes)
    failed = sum(bool(o.failure) for o in outcomes)
    yield ""
    yield (
        f"{len(outcomes)} captures: {len(differences) - unexplained} differences explained, "
        f"{unexplained} unexplained, {failed} failed"
    )


def run(folder: Path, sanitized: Path | None) -> list[Outcome]:
    """Every capture below a folder, in the order of their names."""
    paths = [p for p in sorted(folder.rglob("*")) if p.is_file() and is_capture(p)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda p: outcome_of(p, str(p.relative_to(folder)), sanitized), paths))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.corpus", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the report also goes there")
    parser.add_argument("--without-sanitizers", action="store_true", help=f"do not run {SANITIZED}")
    args = parser.parse_args(arguments)
    if not shutil.which("tshark"):
        print("bench.corpus: tshark is not installed", file=sys.stderr)
        return 4
    if not args.without_sanitizers and not SANITIZED.exists():
        print(f"bench.corpus: {SANITIZED} is not built: make corpus builds it", file=sys.stderr)
        return 2
    outcomes = run(args.folder, None if args.without_sanitizers else SANITIZED)
    if not outcomes:
        print(f"bench.corpus: no capture below {args.folder}", file=sys.stderr)
        return 2
    text = "\n".join(report(outcomes))
    print(text)
    if args.write:
        args.write.write_text(text + "\n")
    return int(any(o.failure or o.unexplained for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
