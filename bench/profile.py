"""Profiles with perf: `make profile`. The core on the long transfers of `make bench`, by function, and `rewindow
analyze`, by loaded file.

Prints Markdown; --write puts it into docs/performance.md. Raises SystemExit where perf is missing or may not sample.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.speed import CONTROLLERS, DOCUMENT, PROGRAMS, Capture, build, generate, series, table

MARKER = "<!-- profile -->"
FUNCTIONS = 24

STAGES = (
    ("the kernel: reading the file", r"^\[k\]"),
    ("records: core-c/src/capture", r"^(rw_(pcap|pcapng|capture|observation|input)_|rw_oddity|next_plain)"),
    ("packets: core-c/src/packet", r"^(rw_(packet|parse)_|parse_)"),
    (
        "flows: core-c/src/flow",
        r"^(rw_(survey|flow|clock|copies|journal|pass)_|(read|write)_long|see_(data|handshake|lag|echo|mptcp)|slot_of|hash)",
    ),
    (
        "senders: core-c/src/sender, core-c/src/events",
        r"^(rw_(sender|rack|scoreboard|round_trip|reconstruction|rtt_samples|events|settle)_|sent_|acked_|begin_ack|sack_|"
        r"read_sacks|react|drop_acknowledged|acknowledge_|identify_|process_|make_room|recut|mark_)",
    ),
    ("controllers: core-c/src/control", r"^(control|newreno|cubic|tccc|css|aca|lia|reno)_"),
    ("shadows and rows: core-c/src/shadow, core-c/src/replay", r""),
)
"""Stages by the names of functions; functions without a match belong to the last stage."""

PARTS = (
    ("the core", r"^_core\.|^librewindow"),
    ("Arrow: rows, Parquet, zstd", r"^libarrow|^libparquet"),
    ("the kernel: process, files, memory", r"^\[kernel"),
    ("Python: its start, imports, the report", r""),
)
"""Parts by the names of loaded files; files without a match belong to the last part."""


def samples(command: Sequence[str | Path], sort: str) -> str:
    """perf's report of a run, in percent by `sort`, the largest first."""
    perf = shutil.which("perf")
    if not perf:
        raise SystemExit("perf is not installed (Debian: linux-perf)")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "perf.data"
        subprocess.run([perf, "record", "-q", "-F", "20000", "-o", data, *command], check=True, capture_output=True)
        report = [perf, "report", "-i", data, "--stdio", "--sort", sort, "--percent-limit", "0.05"]
        output = subprocess.run(report, check=True, capture_output=True, text=True).stdout
    if not re.search(r"^ +[0-9.]+%", output, re.MULTILINE):
        raise SystemExit("perf has no samples")
    return output


def functions(capture: Capture) -> list[tuple[float, str]]:
    """Percent and function of the core, `[k]` before those of the kernel; most first."""
    output = samples([PROGRAMS / "replay_bench", capture.path, *CONTROLLERS], "symbol")
    found = re.findall(r"^ +([0-9.]+)% +\[(.)\] +(\S+)", output, re.MULTILINE)
    return [(float(percent), f"[k] {name}" if kind == "k" else name) for percent, kind, name in found]


def files(capture: Capture) -> list[tuple[float, str]]:
    """Percent and loaded file of `rewindow analyze`; most first."""
    output = samples(series(capture).command, "dso")
    return [(float(percent), name) for percent, name in re.findall(r"^ +([0-9.]+)% +(\S+)", output, re.MULTILINE)]


def shares(found: Sequence[tuple[float, str]], of: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    sums = {name: 0.0 for name, _ in of}
    for percent, what in found:
        sums[next(name for name, pattern in of if re.search(pattern, what))] += percent
    return [(name, f"{share:.0f} %") for name, share in sums.items()]


def profile() -> Iterator[str]:
    build(across_files=False)
    one, ten = generate("bulk 1 M"), generate("bulk 10 M")
    found = functions(one)
    yield from table(("stage", "time"), shares(found, STAGES), 1)
    parts = [shares(files(capture), PARTS) for capture in (one, ten)]
    rows = [(name, share, share_of_ten) for (name, share), (_, share_of_ten) in zip(*parts, strict=True)]
    yield from table(("`rewindow analyze --json --series`", one.name, ten.name), rows, 1)
    top = [(f"`{function}`", f"{percent:.1f} %") for percent, function in found[:FUNCTIONS]]
    yield from table(("function", "time"), top, 1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make profile", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"into {DOCUMENT.name}")
    text = "\n".join(profile())
    print(text)
    if parser.parse_args().write:
        before, _, after = DOCUMENT.read_text().split(MARKER)
        DOCUMENT.write_text(f"{before}{MARKER}\n\n{text}\n\n{MARKER}{after}")


if __name__ == "__main__":
    main()
