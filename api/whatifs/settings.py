"""Changes of the network that a what-if asks for, such as `path2.rate`: "20M", and what the application sends. They are
read by the worker, with rewindow/whatif/prediction.py; what is accepted here is a part of what is accepted there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from api.errors import Unprocessable

_TEXT_MAX = 16
SUBFLOWS_MAX = 999
"""The largest number of a subflow that a setting can name."""
_SCALES = {"": Decimal(1), "k": Decimal(1000), "M": Decimal(10**6), "G": Decimal(10**9)}


@dataclass(frozen=True)
class _Quantity:
    """scales: factors by suffix. least, most: after scaling."""

    meaning: str
    scales: Mapping[str, Decimal]
    least: Decimal
    most: Decimal
    whole: bool = False


_OF_PATH = {
    "rate": _Quantity("1k to 100G bit/s, as 20M", _SCALES, Decimal(1000), Decimal(10**11)),
    "queue": _Quantity("1 to 1000000 packets", {"": Decimal(1)}, Decimal(1), Decimal(10**6), whole=True),
    "ecn": _Quantity("1 to 1000000 packets", {"": Decimal(1)}, Decimal(1), Decimal(10**6), whole=True),
    "loss": _Quantity(
        "a share from 0 to 0.5, as 0.01 or 1%", {"": Decimal(1), "%": Decimal("0.01")}, Decimal(0), Decimal("0.5")
    ),
    "rtt": _Quantity(
        "0.0001 to 10 seconds, as 0.02 or 20ms",
        {"": Decimal(1), "ms": Decimal("0.001")},
        Decimal("0.0001"),
        Decimal(10),
    ),
    "jitter": _Quantity(
        "0 to 1 second, as 0.002 or 2ms", {"": Decimal(1), "ms": Decimal("0.001")}, Decimal(0), Decimal(1)
    ),
}
SOURCES = ("bytes", "time", "clock", "requests")
_SEND_BUFFER = _Quantity("4096 to 1G bytes", _SCALES, Decimal(4096), Decimal(10**9), whole=True)


def checked(settings: Mapping[str, str | int | float], subflow_count: int) -> dict[str, str]:
    """The settings as text. Raises Unprocessable for one that there is not, or whose value is out of range."""
    return {key: _checked(key, given, subflow_count) for key, given in sorted(settings.items())}


def _checked(key: str, given: str | int | float, subflow_count: int) -> str:
    if key == "source":
        if given not in SOURCES:
            raise Unprocessable(f"setting source takes one of {', '.join(SOURCES)}, not '{str(given)[:40]}'")
        return str(given)
    quantity = _quantity(key, subflow_count)
    if quantity is None:
        known = ", ".join([*(f"pathN.{name}" for name in _OF_PATH), "send_buffer", "source"])
        raise Unprocessable(f"unknown setting '{key[:40]}'; there are: {known}, with N from 1 to {subflow_count}")
    text = format(Decimal(repr(given)), "f") if isinstance(given, float) else str(given).strip()
    if not _takes(quantity, text):
        raise Unprocessable(f"setting {key} takes {quantity.meaning}, not '{text[:40]}'")
    return text


def _quantity(key: str, subflow_count: int) -> _Quantity | None:
    if key == "send_buffer":
        return _SEND_BUFFER
    found = re.fullmatch(r"path([1-9]\d{0,2})\.(\w+)", key, re.ASCII)
    return _OF_PATH.get(found[2]) if found and int(found[1]) <= subflow_count else None


def _takes(quantity: _Quantity, text: str) -> bool:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(\D*)", text, re.ASCII)
    if len(text) > _TEXT_MAX or not found or found[2] not in quantity.scales:
        return False
    value = Decimal(found[1]) * quantity.scales[found[2]]
    return quantity.least <= value <= quantity.most and not (quantity.whole and value % 1)
