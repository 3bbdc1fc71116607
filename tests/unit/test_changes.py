"""The statistics of what changed: distribution, clusters, many comparisons."""

from __future__ import annotations

import random

import pytest
from scipy import stats

from api.aggregates import changes


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 30, 61, 500, 1000, 1001, 40_000])
def test_students_distribution(freedom: int) -> None:
    for t in (0.0, 0.3, 1.0, -2.5, 6.0):
        assert changes.two_sided(t, freedom) == pytest.approx(
            2 * stats.t.sf(abs(t), freedom), abs=1e-9 if freedom <= 1000 else 1e-6
        )
    assert changes.quantile(freedom) == pytest.approx(
        stats.t.isf(changes.ERRORS / 2, freedom), rel=1e-6 if freedom <= 1000 else 1e-5
    )


def test_holms_procedure() -> None:
    assert changes.holm([]) == []
    assert changes.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert changes.holm([0.9, 0.8]) == [1.0, 1.0]


def sample(draws: random.Random, captures: int, mean: float) -> changes._Sample:
    """Connections of a capture differ from each other by much less than captures do."""
    made = changes._Sample()
    for _ in range(captures):
        of_capture = draws.gauss(mean, 1)
        values = [draws.gauss(of_capture, 0.1) for _ in range(draws.randint(5, 40))]
        count, total = len(values), sum(values)
        made.add([count, 1, total, total**2, count * total, count**2])
    return made


def test_connections_of_one_capture_are_not_many_samples() -> None:
    """Without a change one test of twenty reports one; with connections as the sample most tests would."""
    draws = random.Random(17)
    runs = 400
    false = sum(changes._Compared("x", sample(draws, 12, 0), sample(draws, 12, 0)).chance <= 0.05 for _ in range(runs))
    assert 0.02 * runs <= false <= 0.09 * runs
    true = sum(changes._Compared("x", sample(draws, 12, 0), sample(draws, 12, 2)).chance <= 0.05 for _ in range(50))
    assert true >= 45
