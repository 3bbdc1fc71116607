"""The sections of docs/fluid.md on the papers' tables and orders: `python -m bench.fluid --write`.

Prints Markdown; --write puts it into the document, with the pictures.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rewindow.fluid import read_network, reports, solve
from rewindow.fluid.plots import plot_orders, plot_solution

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "fluid.md"
EXAMPLE = ROOT / "docs" / "examples" / "fluid-phone.toml"
MARK = "<!-- measured -->\n"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines) + "\n"


def _formulas(rows: Sequence[Sequence[str]], columns: Sequence[int]) -> list[list[str]]:
    """Formulas as code: their stars and carets mean nothing else."""
    heading, *rest = rows
    return [list(heading), *([f"`{c}`" if i in columns and c else c for i, c in enumerate(r)] for r in rest)]


def measured() -> str:
    """The part of the document below the mark."""
    return "\n".join(
        [
            "\n## The example\n",
            "    rewindow fluid docs/examples/fluid-phone.toml\n",
            f"```\n{reports.solution_text(solve(read_network(str(EXAMPLE))))}\n```\n",
            "## The papers' tables\n",
            "Each cell on random states of one to eight subflows; one right for one subflow only is a misprint:\n",
            _markdown(_formulas(reports.table_rows(), (3, 5))),
            "Statements, each on random states of two to eight subflows; those below 200 are misprints or false:\n",
            _markdown(reports.claims_rows()),
            "## Where the orders hold\n",
            "The window ratios w2/w1 between 0.01 and 100 at which each order holds:\n",
            _markdown(_formulas(reports.orders_rows(), (1,))),
            "The lambda of eq. 20 for equal subflows, in 1/(R w):\n",
            _markdown(reports.responsiveness_rows()),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="also put it into docs/fluid.md, and draw its pictures")
    args = parser.parse_args()
    text = measured()
    print(text)
    if args.write:
        before = DOCUMENT.read_text().split(MARK)[0]
        DOCUMENT.write_text(before + MARK + text)
        plot_solution(solve(read_network(str(EXAMPLE))), str(DOCUMENT.with_name("fluid-phone.svg")), ".svg")
        plot_orders(str(DOCUMENT.with_name("fluid-orders.png")), ".png")


if __name__ == "__main__":
    main()
