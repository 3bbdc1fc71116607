"""Which subflows may share a bottleneck: as the detector has it, and by how alike their queueing delays are.

Where the two differ, both are fitted, and the one that explains the capture better answers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rewindow.whatif.observation import Observation, ObservedSubflow

_GRID_S = 0.1
_POINTS_MIN, _POINTS_ENOUGH = 10, 20
_ALIKE, _ALIKE_OF_FEW = 0.5, 0.75
"""The least correlation of two subflows whose packets wait in one queue, and of few common points."""

Place = tuple[int, int]
"""A connection and a subflow of it, as places in the observation."""
Grouping = tuple[tuple[Place, ...], ...]


def _waits(subflow: ObservedSubflow) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The mean round trip, seconds, in each step of the grid that has a sample."""
    s = subflow.series
    known = ~np.isnan(s.rtt_s)
    if not subflow.sees_queues or not known.any():
        return np.empty(0, np.int64), np.empty(0)
    steps, place = np.unique((s.time_s[known] / _GRID_S).astype(np.int64), return_inverse=True)
    sums = np.bincount(place, s.rtt_s[known])
    return steps, sums / np.bincount(place)


def likeness(a: ObservedSubflow, b: ObservedSubflow) -> float | None:
    """The correlation of their queueing delays at common times; None: there are too few."""
    x, y = _together(a, b)
    if len(x) < _POINTS_MIN or x.std() == 0 or y.std() == 0:
        return None
    found = float(np.corrcoef(x, y)[0, 1])
    return None if len(x) < _POINTS_ENOUGH and found < _ALIKE_OF_FEW else found


def _together(a: ObservedSubflow, b: ObservedSubflow) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Their mean round trips, seconds, in the steps of the grid that have samples of both."""
    (at_a, waits_a), (at_b, waits_b) = _waits(a), _waits(b)
    _, first, second = np.intersect1d(at_a, at_b, return_indices=True)
    return waits_a[first], waits_b[second]


def _joined(observation: Observation, groups: list[list[Place]]) -> list[list[Place]]:
    """Groups whose first members' delays are alike become one."""
    found: list[list[Place]] = []
    for group in groups:
        for other in found:
            alike = likeness(*(observation.connections[c].subflows[s] for c, s in (group[0], other[0])))
            if alike is not None and alike >= _ALIKE:
                other += group
                break
        else:
            found.append(list(group))
    return found


def _fixed(groups: list[list[Place]]) -> Grouping:
    return tuple(sorted(tuple(sorted(g)) for g in groups))


def groupings(observation: Observation) -> list[Grouping]:
    """The hypotheses, without repetition: as the detector has it; where it sees no common bottleneck, by likeness, too;
    by likeness alone.
    """
    detected = observation.groups()
    alone = [[place] for group in detected for place in group]

    def alike(groups: list[list[Place]]) -> Grouping:
        largest_first = sorted(
            groups, key=lambda g: -sum(observation.connections[c].subflows[s].facts.bytes for c, s in g)
        )
        return _fixed(_joined(observation, largest_first))

    return list(dict.fromkeys((_fixed(detected), alike(detected), alike(alone))))


def components(grouping: Grouping) -> list[tuple[int, ...]]:
    """Connections that influence each other, directly or by others."""
    owner: dict[int, int] = {}

    def root(c: int) -> int:
        while owner.setdefault(c, c) != c:
            c = owner[c]
        return c

    for group in grouping:
        for c, _ in group:
            owner[root(c)] = root(group[0][0])
    found: dict[int, list[int]] = {}
    for c in sorted(owner):
        found.setdefault(root(c), []).append(c)
    return [tuple(members) for members in found.values()]
