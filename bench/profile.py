"""Where the time goes: `make profile`. perf's samples of the core on the long transfers of `make bench`, by function.

Prints Markdown; --write puts it into docs/performance.md. Raises SystemExit where perf is missing or may not sample.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.speed import CONTROLLERS, DOCUMENT, PROGRAMS, build, generate, table

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
        "senders: core-c/src/events",
        r"^(rw_(sender|rack|scoreboard)_|sent|clean|sack|read_sacks|react|count_rtt|identify|process_)",
    ),
    ("controllers: core-c/src/control", r"^(control|newreno|cubic|tccc|css|aca|lia|reno)_"),
    ("shadows and rows: core-c/src/replay", r""),
)
"""By the names of functions; what no other stage claims is the last one's."""


def samples() -> list[tuple[float, str]]:
    """Percent and function, `[k]` before those of the kernel; most first."""
    perf = shutil.which("perf")
    if not perf:
        raise SystemExit("perf is not installed (Debian: linux-perf)")
    build(across_files=False)
    capture = generate("bulk 1 M")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "perf.data"
        command = [PROGRAMS / "replay_bench", capture.path, *CONTROLLERS]
        subprocess.run([perf, "record", "-q", "-F", "20000", "-o", data, *command], check=True, capture_output=True)
        report = [perf, "report", "-i", data, "--stdio", "--sort", "symbol", "--percent-limit", "0.05"]
        output = subprocess.run(report, check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^ +([0-9.]+)% +\[(.)\] +(\S+)", output, re.MULTILINE)
    if not found:
        raise SystemExit("perf has no samples")
    return [(float(percent), f"[k] {name}" if kind == "k" else name) for percent, kind, name in found]


def stage_of(function: str) -> str:
    return next(name for name, pattern in STAGES if re.search(pattern, function))


def profile() -> Iterator[str]:
    found = samples()
    shares: dict[str, float] = {name: 0.0 for name, _ in STAGES}
    for percent, function in found:
        shares[stage_of(function)] += percent
    yield from table(("stage", "time"), [(name, f"{share:.0f} %") for name, share in shares.items()], 1)
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
