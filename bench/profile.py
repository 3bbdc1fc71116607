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

from bench.documents import put
from bench.speed import CONTROLLERS, FOLDER, PROGRAMS, Capture, build, generate, series, table

FUNCTIONS = 24

STAGES = {
    "the kernel: reading the file, memory": ("kernel",),
    "records: core-c/src/capture": ("capture", "findings"),
    "packets: core-c/src/packet": ("packet",),
    "flows and the journal: core-c/src/flow": ("flow",),
    "the loops over packets, rows: core-c/src/replay": ("replay",),
    "senders: core-c/src/sender": ("sender",),
    "their events: core-c/src/events": ("events",),
    "shadows: core-c/src/shadow": ("shadow",),
    "controllers: core-c/src/control": ("control",),
    "all else: libc, functions of one name in several rooms": (),
}
"""The rooms of each stage; the last one has what belongs to none."""

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
    return [(float(percent), f"[k] {name}" if kind == "k" else name.split(".")[0]) for percent, kind, name in found]


def files(capture: Capture) -> list[tuple[float, str]]:
    """Percent and loaded file of `rewindow analyze`; most first."""
    output = samples(series(capture).command, "dso")
    return [(float(percent), name) for percent, name in re.findall(r"^ +([0-9.]+)% +(\S+)", output, re.MULTILINE)]


def rooms() -> dict[str, str]:
    """The room of each function of the build, by the object files; none of a name that several rooms have."""
    found: dict[str, set[str]] = {}
    for file in (FOLDER / "core" / "CMakeFiles").glob("room_*.dir/**/*.o"):
        room = re.search(r"room_(\w+)\.dir", str(file))
        listed = subprocess.run(["nm", "--defined-only", file], check=True, capture_output=True, text=True).stdout
        for name in re.findall(r"^[0-9a-f]+ [tT] (\w+)", listed, re.MULTILINE):
            found.setdefault(name, set()).add(room[1] if room else "")
    return {name: next(iter(of)) for name, of in found.items() if len(of) == 1}


def stages(found: Sequence[tuple[float, str]]) -> list[tuple[str, str]]:
    """Percent by stage."""
    room_of = rooms()
    sums = dict.fromkeys(STAGES, 0.0)
    for percent, name in found:
        room = "kernel" if name.startswith("[k]") else room_of.get(name, "")
        sums[next((stage for stage, of in STAGES.items() if room in of), list(STAGES)[-1])] += percent
    return [(name, f"{share:.0f} %") for name, share in sums.items()]


def shares(found: Sequence[tuple[float, str]], of: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    sums = {name: 0.0 for name, _ in of}
    for percent, what in found:
        sums[next(name for name, pattern in of if re.search(pattern, what))] += percent
    return [(name, f"{share:.0f} %") for name, share in sums.items()]


def profile() -> Iterator[str]:
    build(across_files=False)
    one, ten = generate("bulk 1 M"), generate("bulk 10 M")
    found = functions(one)
    yield from table(("stage", "time"), stages(found), 1)
    parts = [shares(files(capture), PARTS) for capture in (one, ten)]
    rows = [(name, share, share_of_ten) for (name, share), (_, share_of_ten) in zip(*parts, strict=True)]
    yield from table(("`rewindow analyze --json --series`", one.name, ten.name), rows, 1)
    top = [(f"`{function}`", f"{percent:.1f} %") for percent, function in found[:FUNCTIONS]]
    yield from table(("function", "time"), top, 1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make profile", description=__doc__)
    parser.add_argument("--write", action="store_true", help="into performance.md")
    text = "\n".join(profile())
    print(text)
    if parser.parse_args().write:
        put("performance.md", "profile", text)


if __name__ == "__main__":
    main()
