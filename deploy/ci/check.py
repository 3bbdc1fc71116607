#!/usr/bin/env python3
"""Checks another repository's specifications and captures, for the recipes of this folder; only the standard library.

Everything is told by the environment, so that no path becomes a shell's text; a list has one entry a line:

    REWINDOW_SPECS       folders of specifications
    REWINDOW_SUITE       quick (default) or full, of those with a manifest
    REWINDOW_CAPTURES    captures, or folders of them; each is an observation of its own
    REWINDOW_ALGORITHMS  default: all with a specification
    REWINDOW_REPORTS     the folder to write: JUnit's XML and summary.html; default: rewindow-reports

Exit status: the largest of the commands that it ran: 0 all is well, 1 a specification is violated or a capture does not
conform, 2 usage, 3 something cannot be read, 4 Java or TLC is missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from xml.etree import ElementTree

PASSED, _, USAGE, UNREADABLE, FAILED = range(5)
ROOT = Path(__file__).resolve().parents[2]
CAPTURES = (".pcap", ".pcapng", ".cap", ".dmp", ".snoop")
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4")
SUMMARY_CHARACTERS_MAX = 200_000
"""Limit of the details, because GitHub refuses a summary of more than 1 MiB."""


class Refused(Exception):
    """A request that cannot be met. status: the exit status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass
class Done:
    """One command. what: the subject of the check; report: the file for its JUnit XML."""

    what: str
    status: int
    report: Path


def listed(name: str) -> list[str]:
    """A variable's entries. Paths that begin with a hyphen are no options."""
    entries = [line.strip() for line in os.environ.get(name, "").splitlines()]
    return [f"./{entry}" if entry.startswith("-") else entry for entry in entries if entry]


def is_capture(name: str) -> bool:
    name = name.lower()
    for suffix in COMPRESSED:
        name = name.removesuffix(suffix)
    return name.endswith(CAPTURES)


def captures_in(place: str) -> Iterator[str]:
    """The captures at and below a place, but for hidden folders, in order."""
    if os.path.isfile(place):
        yield place
        return
    found = []
    for folder, below, names in os.walk(place):
        below[:] = [name for name in below if not name.startswith(".")]
        found += [os.path.join(folder, name) for name in names if is_capture(name)]
    if not found:
        raise Refused(UNREADABLE, f"{place}: no capture here ({' '.join(CAPTURES)}, also compressed)")
    yield from sorted(found)


def commands(reports: Path) -> Iterator[tuple[str, Path, list[str]]]:
    """The subject of each check, the file of its report, and the command without the report's option."""
    for n, folder in enumerate(listed("REWINDOW_SPECS"), 1):
        suite = os.environ.get("REWINDOW_SUITE") or "quick"
        command = [sys.executable, str(ROOT / "rewindow" / "specs.py"), "check", f"--folder={folder}"]
        yield folder, reports / f"specs-{n}.xml", [*command, f"--suite={suite}"]
    algorithms = [f"--algorithm={name}" for name in listed("REWINDOW_ALGORITHMS")]
    captures = [capture for place in listed("REWINDOW_CAPTURES") for capture in captures_in(place)]
    for n, capture in enumerate(captures, 1):
        command = [str(ROOT / ".venv" / "bin" / "rewindow"), "specs", "trace", *algorithms, capture]
        yield capture, reports / f"trace-{n}.xml", command


def run(reports: Path) -> list[Done]:
    wanted = list(commands(reports))
    if not wanted:
        raise Refused(USAGE, "nothing to check: set REWINDOW_SPECS or REWINDOW_CAPTURES")
    reports.mkdir(parents=True, exist_ok=True)
    for stale in [*reports.glob("specs-*.xml"), *reports.glob("trace-*.xml")]:
        stale.unlink()
    done = []
    for what, report, command in wanted:
        print(f"\n{escape_controls(what)}", flush=True)
        status = subprocess.run([*command, f"--junit={report}"], stdin=subprocess.DEVNULL).returncode
        done.append(Done(what, status if status >= 0 else FAILED, report))
    return done


def escape_controls(text: str) -> str:
    """A file's name as one line of a log."""
    return text.encode("unicode_escape").decode("ascii") if not text.isprintable() else text


def summary(done: list[Done]) -> str:
    """A table and the failures in detail, as one block of HTML. It has no empty line, so that no Markdown begins."""

    def shown(text: str | None) -> str:
        return escape(text or "").replace("\n", "&#10;")

    rows, details, used = [], [], 0
    for one in done:
        cases = ElementTree.parse(one.report).getroot().iter("testcase") if one.report.exists() else ()
        passed, wrong = 0, []
        for case in cases:
            if len(case) and case[0].tag != "skipped":
                wrong.append((case.get("name"), case[0]))
            else:
                passed += 1
        name = shown(escape_controls(one.what))
        rows.append(f"<tr><td>{name}</td><td>{passed}</td><td>{len(wrong)}</td><td>{one.status}</td></tr>")
        for case_name, trouble in wrong:
            text = f"{shown(trouble.get('message'))}&#10;{shown(trouble.text)}"
            used += len(text)
            if used <= SUMMARY_CHARACTERS_MAX:
                head = f"<summary>{name}: {shown(case_name)}</summary>"
                details.append(f"<details>{head}<pre>{text}</pre></details>")
    head = "<tr><th>checked</th><th>passed</th><th>not passed</th><th>exit status</th></tr>"
    if used > SUMMARY_CHARACTERS_MAX:
        details.append("<p>More is in the reports.</p>")
    return "\n".join(["<table>", head, *rows, "</table>", *details, ""])


def main() -> int:
    reports = Path(os.environ.get("REWINDOW_REPORTS") or "rewindow-reports")
    try:
        done = run(reports)
    except Refused as e:
        print(f"rewindow: {e}", file=sys.stderr)
        return e.status
    except OSError as e:
        print(f"rewindow: {e}", file=sys.stderr)
        return FAILED
    (reports / "summary.html").write_text(summary(done), encoding="utf-8", errors="replace")
    return max(one.status for one in done)


if __name__ == "__main__":
    sys.exit(main())
