"""Breaks the service while uploads go on, and counts what became of them: `make chaos` (docs/reliability.md).

The processes of compose run under the supervisor of `make up`, with PostgreSQL and Redis of their own and a bucket that
breaks on demand. Each fault is injected, mended where the service cannot mend it, and followed by a look at all that is
promised. Exit status 1: a promise was broken. Prints Markdown; --write puts it into docs/reliability.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

from bench.chaos.faults import FAULTS
from bench.chaos.rounds import Report, run
from bench.documents import put


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__.partition("\n")[0])
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--rounds", type=int, default=1, metavar="N", help="each fault so often; default: 1")
    length.add_argument("--minutes", type=float, metavar="M", help="faults in turn, for so long")
    parser.add_argument("--only", metavar="PATTERN", default="", help="faults whose name this expression finds")
    parser.add_argument("--write", action="store_true", help="also put the result into docs/reliability.md")
    given = parser.parse_args(arguments)
    names = [name for name in FAULTS if re.search(given.only, name)]
    if not names:
        parser.error(f"no fault is called so; there are: {'; '.join(FAULTS)}")
    report: Report = run(
        names, rounds=given.rounds, minutes=given.minutes, tell=lambda line: print(line, file=sys.stderr)
    )
    print(report.markdown())
    if given.write:
        put("reliability.md", "make chaos", report.markdown())
    return 0 if report.kept() else 1


if __name__ == "__main__":
    sys.exit(main())
