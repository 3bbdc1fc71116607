"""The colours of lines are told apart by people with red-, green- and blue-weak vision, on both papers."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

DASHBOARD = Path(__file__).parents[2] / "dashboard" / "src"
Array = npt.NDArray[np.float64]

LACKING = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                            [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip
"""What of linear sRGB is seen without one kind of cone (Machado, Oliveira, Fernandes 2009, severity 1)."""
TO_CONES = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
                     [0.0883024619, 0.2817188376, 0.6299787005]])  # fmt: skip
TO_LAB = np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
                   [0.0259040371, 0.7827717662, -0.8086757660]])  # fmt: skip
"""OKLab (Ottosson 2020), in which equal distances look alike."""
APART = 0.085
"""Some four times what is just noticed, 0.02."""
CONTRAST = 3.0
"""WCAG 2.2, 1.4.11: of what is drawn to its paper."""


def linear(colour: str) -> Array:
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def seen(colour: str, vision: str) -> Array:
    rgb = np.clip(LACKING[vision] @ linear(colour), 0, 1)
    return TO_LAB @ np.cbrt(TO_CONES @ rgb)


def luminance(colour: str) -> float:
    return float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour))


def contrast(a: str, b: str) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lines(name: str) -> list[str]:
    [found] = re.findall(rf"const {name} = \[([^\]]+)\]", (DASHBOARD / "look.ts").read_text())
    return re.findall(r"#[0-9a-f]{6}", found)


def papers() -> dict[str, str]:
    """The two values of --paper, the light one first."""
    light, dark = dict.fromkeys(re.findall(r"--paper: (#[0-9a-f]{3,6})", (DASHBOARD / "style.css").read_text()))
    whole = [c if len(c) == 7 else "#" + "".join(2 * digit for digit in c[1:]) for c in (light, dark)]
    return dict(zip(("LIGHT", "DARK"), whole, strict=True))


@pytest.mark.parametrize("vision", LACKING)
@pytest.mark.parametrize("name", ["LIGHT", "DARK"])
def test_any_two_lines_are_told_apart(name: str, vision: str) -> None:
    distances = {
        (a, b): float(np.linalg.norm(seen(a, vision) - seen(b, vision))) for a, b in combinations(lines(name), 2)
    }
    least = min(distances, key=lambda pair: distances[pair])
    assert distances[least] >= APART, f"{least} are {distances[least]:.3f} apart"


@pytest.mark.parametrize("name", ["LIGHT", "DARK"])
def test_each_line_stands_out_from_its_paper(name: str) -> None:
    assert len(lines(name)) == 8
    for colour in lines(name):
        assert contrast(colour, papers()[name]) >= CONTRAST, colour
