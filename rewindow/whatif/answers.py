"""What-ifs of several connections and algorithms of one capture: connections that share a bottleneck share a fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rewindow.core import Choice
from rewindow.errors import BadOption
from rewindow.simulator import check_choice
from rewindow.whatif.batches import Report, Work, completed
from rewindow.whatif.fitting import Fit, TooManyConnections, fitting, may_be_any, recorded_algorithm
from rewindow.whatif.observation import Observation, ObservedConnection
from rewindow.whatif.prediction import Prediction, cannot_be_fitted, predicting, read_settings, refused
from rewindow.whatif.worlds import Kept

CONNECTIONS_MOST = 32
"""Answered where no connection is named: those with the most data."""
FIT_SHARE = 0.6
"""Of the time that an answer takes, for progress."""


@dataclass
class WhatIf:
    """Fits are made once, when the first question needs them, and so are runs that several questions need.

    assumed: what connections ran, by id, where the capture does not tell.
    """

    observation: Observation
    seed: int = 1
    assumed: Mapping[int, Choice] = field(default_factory=dict)
    _fits: dict[int, list[Fit] | str] = field(default_factory=dict)
    _kept: Kept = field(default_factory=dict)

    def connection(self, number: int) -> ObservedConnection:
        """Raises BadOption where the capture has no such connection."""
        for c in self.observation.connections:
            if c.id == number:
                return c
        raise BadOption(f"connection {number}: the capture has none")

    def check(self, number: int, asked: Sequence[Choice], settings: Mapping[str, str] | None) -> None:
        """Raises BadOption or UnknownAlgorithm for what cannot be asked of a connection, before anything is run."""
        read_settings(settings or {}, len(self.connection(number).subflows))
        for choice in asked:
            if choice.options.get("mode", "kernel") != "kernel":
                raise BadOption(f"mode={choice.options['mode']}: a what-if simulates mode=kernel")
            check_choice(choice)

    def fits(self, number: int, report: Report = lambda done: None) -> list[Fit] | str:
        """The fits of a connection's paths, the best one first; or why there is none."""
        return completed(self.fitting(number), report)

    def fitting(self, number: int) -> Work[list[Fit] | str]:
        """As fits does, in batches."""
        connection = self.connection(number)
        if number not in self._fits:
            reason = cannot_be_fitted(connection, self.observation.first_ns)
            if reason is None and self._recorded(connection) is None and not may_be_any(connection):
                reason = "the algorithm that it ran is not known"
            if reason:
                self._fits[number] = reason
                return reason
            try:
                found = yield from fitting(self.observation, number, assumed=dict(self.assumed), seed=self.seed)
            except TooManyConnections as e:
                self._fits[number] = str(e)
                return str(e)
            for c in found[0].connections:
                self._fits.setdefault(c.id, found)
        return self._fits[number]

    def _recorded(self, connection: ObservedConnection) -> str | None:
        assumed = self.assumed.get(connection.id)
        return assumed.name if assumed else recorded_algorithm(connection)

    def ask(
        self,
        number: int,
        algorithm: Choice,
        *,
        everyone: bool = False,
        runs: int = 48,
        settings: Mapping[str, str] | None = None,
        report: Report = lambda done: None,
    ) -> Prediction:
        """The world in which this connection runs `algorithm`, or everyone that shares a bottleneck with it does.

        Raises BadOption, UnknownAlgorithm.
        """
        fits = self.fits(number, lambda done: report(FIT_SHARE * done))
        work = self.asking(
            fits, number, algorithm, everyone=everyone, runs=runs, settings=settings
        )  # fmt: skip
        return completed(work, lambda done: report(FIT_SHARE + (1 - FIT_SHARE) * done))

    def asking(
        self,
        fits: list[Fit] | str,
        number: int,
        algorithm: Choice,
        *,
        everyone: bool = False,
        runs: int = 48,
        settings: Mapping[str, str] | None = None,
    ) -> Work[Prediction]:
        """As ask does, in batches. fits: of this connection."""
        if isinstance(fits, str):
            connection = self.connection(number)
            return refused(connection, algorithm, fits, self._recorded(connection))
        return (
            yield from predicting(
                fits, number, algorithm, everyone=everyone, runs=runs, settings=settings, seed=self.seed,
                kept=self._kept,
            )
        )  # fmt: skip


def answers(
    whatif: WhatIf,
    algorithms_asked: Sequence[Choice],
    connections: Sequence[int] = (),
    *,
    everyone: bool = False,
    runs: int = 48,
    settings: Mapping[str, str] | None = None,
    report: Report = lambda done: None,
) -> Iterator[Prediction]:
    """A prediction for each connection and algorithm. connections: ids; none: all, as long as they are not many.

    Raises BadOption for a connection, option or setting that there is not, UnknownAlgorithm.
    """
    observed = whatif.observation.connections
    by_size = sorted(observed, key=lambda c: -c.facts.bytes)
    chosen = set(connections) or {c.id for c in by_size[:CONNECTIONS_MOST]}
    for number in chosen:
        whatif.check(number, algorithms_asked, settings)
    asked = [c for c in observed if not connections or c.id in chosen]
    total = max(len(asked) * len(algorithms_asked), 1)
    for i, c in enumerate(asked):
        for k, algorithm in enumerate(algorithms_asked):
            done = i * len(algorithms_asked) + k
            if c.id not in chosen:
                reason = f"not among the {CONNECTIONS_MOST} connections with the most data: ask for it by its number"
                yield refused(c, algorithm, reason, recorded_algorithm(c))
                continue
            yield whatif.ask(
                c.id, algorithm, everyone=everyone, runs=runs, settings=settings,
                report=lambda share, done=done: report((done + share) / total),  # type: ignore[misc]
            )  # fmt: skip
    report(1.0)
