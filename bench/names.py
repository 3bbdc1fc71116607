"""The algorithms that `analyze` names, beside those that the senders of a lab ran: a confusion matrix.

Our implementations, which the kernel ran from our files, have a matrix of their own: it says nothing about others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.senders import Ran
from rewindow.findings.senders import NEWRENO_AT_REST

LOSSES_MIN, AMONG_MIN = 5, 0.95
"""The first goal: of the subflows with at least so many losses, the share whose algorithm is among the candidates."""
ALIKE_MIN = 0.99
"""The second goal: of these subflows, each that only one algorithm explains has its name. An algorithm explains a
subflow if its window is within one segment of the kernel's at such a share of the ACKs."""


@dataclass(frozen=True)
class Named:
    """What `analyze` says of a subflow. losses: how often it entered recovery, and its timeouts.

    within_one: the share of ACKs at which the replay of each algorithm is within one segment of the kernel's window;
    None: no kernel's window is known.
    """

    name: str
    candidates: Sequence[str]
    losses: int
    good: bool
    within_one: Mapping[str, float] | None = None

    def is_distinguishable(self, algorithm: str) -> bool:
        """Whether the windows of all other algorithms are elsewhere, and there are enough losses to tell.

        Algorithms that are NewReno, too, at rest (senders.NEWRENO_AT_REST) do not count beside NewReno."""
        if self.within_one is None:
            return False
        others = {name for name, share in self.within_one.items() if share >= ALIKE_MIN} - {algorithm}
        if algorithm == "newreno":
            others -= set(NEWRENO_AT_REST)
        return self.losses >= LOSSES_MIN and not others


def wrong(truth: Ran, named: Named) -> bool:
    """Whether a subflow with a verdict of good has the name of another algorithm."""
    return named.good and named.name not in ("unknown", truth.algorithm)


def _named(found: Sequence[tuple[str, Named]]) -> tuple[int, int]:
    """How many subflows have the name of the algorithm that they ran, of those that can be told; and these."""
    told = [n.name == algorithm for algorithm, n in found if n.is_distinguishable(algorithm)]
    return sum(told), len(told)


def falls_short(found: Sequence[tuple[Ran, Named]]) -> list[str]:
    """The goals for many subflows at once, in words, where one is missed."""
    lossy = [(truth, named) for truth, named in found if named.losses >= LOSSES_MIN]
    among = sum(truth.algorithm in named.candidates for truth, named in lossy)
    short = []
    if among < AMONG_MIN * len(lossy):
        short.append(f"the sender's algorithm is among the candidates of {among} of {len(lossy)} subflows with losses")
    named, distinguishable = _named([(truth.algorithm, named) for truth, named in found])
    if named < distinguishable:
        short.append(f"{named} of {distinguishable} subflows that only one algorithm explains have its name")
    return short


def matrix(title: str, found: Sequence[tuple[Ran, Named]]) -> list[str]:
    """A confusion matrix as Markdown lines."""
    names = sorted({named.name for _, named in found} - {"unknown"} | {truth.algorithm for truth, _ in found})
    heads = [*names, "unknown, with it among the candidates", "unknown, without"]
    counted = ["subflows", *heads, f"with {LOSSES_MIN} losses", "among the candidates"]
    if any(named.within_one is not None for _, named in found):
        counted += ["of them distinguishable", "named"]
    lines = [f"{title}:", "", f"| ran | {' | '.join(counted)} |", "|---|" + "---:|" * len(counted)]
    for algorithm in sorted({truth.algorithm for truth, _ in found}):
        of = [named for truth, named in found if truth.algorithm == algorithm]
        cells = Counter(
            (heads[-2] if algorithm in n.candidates else heads[-1]) if n.name == "unknown" else n.name for n in of
        )
        lossy = [n for n in of if n.losses >= LOSSES_MIN]
        among = sum(algorithm in n.candidates for n in lossy)
        named, distinguishable = _named([(algorithm, n) for n in of])
        row = [len(of), *(cells[head] or "" for head in heads), len(lossy), among, distinguishable, named]
        lines.append(f"| {algorithm} | {' | '.join(map(str, row[: len(counted)]))} |")
    return lines


def tables(found: Sequence[tuple[Ran, Named]]) -> list[str]:
    """Markdown lines."""
    lines: list[str] = []
    for title, ours in (("Linux's implementations", False), ("Our implementations", True)):
        if of := [pair for pair in found if pair[0].ours == ours]:
            lines += [*([""] if lines else []), *matrix(title, of)]
    return lines
