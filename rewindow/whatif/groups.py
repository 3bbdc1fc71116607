"""Which subflows may share a bottleneck: as the times of their ACKs tell, else as the detector has it, and by how alike
their queueing delays are.

Where these two differ, both are fitted, and the one that explains the capture better answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rewindow.whatif.observation import Observation, ObservedSubflow
from rewindow.whatif.round_trips import Member
from rewindow.whatif.sharing import shares

_GRID_S = 0.1
_POINTS_MIN, _POINTS_ENOUGH = 10, 20
_ALIKE, _ALIKE_OF_FEW = 0.5, 0.75
"""The least correlation of two subflows whose packets wait in one queue, and of few common points."""

_ASKED = 3
"""Of a group, the largest subflows: whether another one shares their bottleneck is asked of the next one where ACKs do
not tell."""

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


def _fixed(groups: Iterable[Iterable[Place]]) -> Grouping:
    return tuple(sorted(tuple(sorted(g)) for g in groups))


def _largest_first(observation: Observation, places: Iterable[Place]) -> list[Place]:
    return sorted(places, key=lambda place: -observation.connections[place[0]].subflows[place[1]].facts.bytes)


@dataclass
class _Told:
    """What the times of ACKs tell. apart: pairs of subflows, one in each of two groups that are not one."""

    groups: list[list[Place]]
    apart: set[tuple[Place, Place]]

    def are_apart(self, one: list[Place], other: list[Place]) -> bool:
        return any((a, b) in self.apart or (b, a) in self.apart for a in one for b in other)


def _told(observation: Observation) -> _Told:
    """Each subflow, the largest ones first, is compared with the groups that were found before."""

    def member(place: Place) -> Member:
        connection = observation.connections[place[0]]
        return connection.subflows[place[1]], connection.facts.kind

    found = _Told([], set())
    places = [(c, s) for c, connection in enumerate(observation.connections) for s in range(len(connection.subflows))]
    for place in _largest_first(observation, places):
        own, others = [place], []
        for group in found.groups:
            for known in group[:_ASKED]:
                told = shares(member(known), member(place))
                if told is not None:
                    break
            if told is False:
                found.apart.add((known, place))
            if told and not found.are_apart(own, group):
                own = [*group, *own]
            else:
                others.append(group)
        found.groups = [*others, _largest_first(observation, own)]
    return found


def _completed(told: _Told, hypothesis: Grouping) -> Grouping:
    """What is told, and of the rest what the hypothesis says."""
    of = {place: i for i, group in enumerate(hypothesis) for place in group}
    found: list[list[Place]] = []
    for group in told.groups:
        supposed = {of[place] for place in group}
        for other in found:
            if supposed & {of[place] for place in other} and not told.are_apart(group, other):
                other += group
                break
        else:
            found.append(list(group))
    return _fixed(found)


def groupings(observation: Observation) -> list[Grouping]:
    """The hypotheses, without repetition: as the detector has it; where it sees no common bottleneck, by likeness, too;
    by likeness alone. What the times of ACKs tell is so in all of them.
    """
    detected = observation.groups()
    alone = [[place] for group in detected for place in group]

    def alike(groups: list[list[Place]]) -> Grouping:
        largest_first = sorted(
            groups, key=lambda g: -sum(observation.connections[c].subflows[s].facts.bytes for c, s in g)
        )
        return _fixed(_joined(observation, largest_first))

    told = _told(observation)
    supposed = (_fixed(detected), alike(detected), alike(alone))
    return list(dict.fromkeys(_completed(told, hypothesis) for hypothesis in supposed))


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
