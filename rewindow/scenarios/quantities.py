"""Quantities in a scenario's file: a number in the base unit, or text with a unit.

Rates are bits per second ("5M", "5 Mbit/s"), times seconds ("30ms"), sizes bytes ("64kB", "64KiB"), shares numbers
from 0 to 1 or per cent ("1.5%"). Prefixes of rates and sizes are powers of 1000, those with an i powers of 1024.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pydantic_core import PydanticCustomError

# Without exponents, so that a short text is never a huge number.
_QUANTITY = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s?([A-Za-zµ/%]{0,8})")


@dataclass(frozen=True)
class Kind:
    """A kind of quantity: its name, its units as multiples of the model's unit, the unit of plain numbers."""

    name: str
    units: dict[str, Fraction]
    base: str
    example: str


def _rates() -> dict[str, Fraction]:
    prefixes = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
    return {prefix + ending: Fraction(n) for prefix, n in prefixes.items() for ending in ("", "bit", "bit/s", "bps")}


RATE = Kind("rate in bit/s", _rates(), "", '5000000 or "5M"')
TIME = Kind(
    "time in seconds",
    {"ns": Fraction(1), "us": Fraction(10**3), "µs": Fraction(10**3), "ms": Fraction(10**6), "s": Fraction(10**9)},
    "s",
    '0.03 or "30ms"',
)
SIZE = Kind(
    "size in bytes",
    {"B": Fraction(1), "kB": Fraction(10**3), "MB": Fraction(10**6), "GB": Fraction(10**9)}
    | {"KiB": Fraction(2**10), "MiB": Fraction(2**20), "GiB": Fraction(2**30)},
    "B",
    '64000 or "64kB"',
)
PACKETS = Kind("number of packets", {"packet": Fraction(1), "packets": Fraction(1)}, "packets", '47 or "47 packets"')


def mistake(expected: str) -> PydanticCustomError:
    """An error with the expected value; the reader of scenarios adds the place and the actual value."""
    return PydanticCustomError("scenario", "{expected}", {"expected": expected})


def _exact(value: Any, kind: Kind) -> Fraction | None:
    """The value in the model's unit; None if it is no quantity of this kind."""
    if isinstance(value, str):
        found = _QUANTITY.fullmatch(value.strip())
        unit = kind.units.get(found[2] or kind.base) if found else None
        return None if found is None or unit is None else Fraction(found[1]) * unit
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        return Fraction(str(value)) * kind.units[kind.base] if math.isfinite(value) else None
    return value * kind.units[kind.base]


def quantity(value: Any, kind: Kind, least: int, most: int) -> int:
    """The nearest whole number in the model's unit (bit/s, ns, bytes, packets), from least to most."""
    exact = _exact(value, kind)
    if exact is None:
        raise mistake(f"a {kind.name}, as in {kind.example}")
    if not least <= exact <= most:
        raise mistake(f"a {kind.name} from {shown(least, kind)} to {shown(most, kind)}")
    return round(exact)


def shown(amount: int, kind: Kind) -> str:
    """The amount as text, in the largest unit that divides it."""
    if amount == 0:
        return "0"
    name = max((u for u in kind.units if amount % kind.units[u] == 0), key=lambda u: (kind.units[u], -len(u)))
    separator = " " if name.startswith("packet") else ""
    return f"{amount / kind.units[name]}{separator}{name}"


def share(value: Any) -> float:
    """A share of packets or events, from 0 to 1."""
    if isinstance(value, str) and (found := re.fullmatch(r"(\d{1,3}(?:\.\d{1,12})?)\s?%", value.strip())):
        value = float(Fraction(found[1]) / 100)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise mistake('a share from 0 to 1, as in 0.01 or "1%"')
    return float(value)


def q32(share: float) -> int:
    """A probability times 2^32, limited to 2^32 - 1: as the core has it."""
    return min(round(share * 2**32), 2**32 - 1)
