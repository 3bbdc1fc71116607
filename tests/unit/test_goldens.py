"""Every controller's windows on two real captures, exactly as they were when someone last looked."""

from __future__ import annotations

import pytest

import rewindow
from tests.goldens import CAPTURES, path_of, text_of, there

NAMES = [a.name for a in rewindow.algorithms()]


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("name", NAMES)
def test_golden(name: str, capture: str) -> None:
    path = path_of(capture, name)
    assert path.exists(), (
        f"{name} has no golden: `make golden` writes tests/golden/{path.name}; look at it, and commit it"
    )
    assert text_of(capture, name).splitlines() == path.read_text().splitlines(), (
        "the windows changed: when they should, `make golden` and say why in the commit"
    )


def test_no_golden_is_left_over() -> None:
    wanted = {path_of(capture, name) for capture in CAPTURES for name in NAMES}
    assert there() == wanted, "`make golden` removes those of controllers that are gone"
