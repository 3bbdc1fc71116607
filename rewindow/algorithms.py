"""The registry of controllers, as the core describes it."""

from dataclasses import asdict, dataclass
from typing import Any

from rewindow.core import ffi, lib


@dataclass(frozen=True)
class Option:
    name: str
    default: str
    values: str
    reason: str


@dataclass(frozen=True)
class Algorithm:
    name: str
    kind: str  # single or multipath
    source: str
    formula: str
    deviations: str
    detector: str | None
    """That places its subflows in sets unless another is chosen; None: it does not use sets."""
    options: tuple[Option, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _text(value: Any) -> str:
    return str(ffi.string(value).decode())


def algorithms() -> list[Algorithm]:
    """Every controller, in the registry's order."""
    found = []
    info, option = ffi.new("rw_algorithm_info *"), ffi.new("rw_option_info *")
    for index in range(lib.rw_algorithm_count()):
        lib.rw_algorithm_describe(index, info)
        options = []
        for place in range(info.options):
            lib.rw_algorithm_option(index, place, option)
            options.append(
                Option(
                    _text(option.name),
                    _text(option.default_value),
                    _text(option.values),
                    _text(option.reason),
                )
            )
        kind = "multipath" if info.multipath else "single"
        found.append(
            Algorithm(
                name=_text(info.name),
                kind=kind,
                source=_text(info.source),
                formula=_text(info.formula),
                deviations=_text(info.deviations),
                detector=None if info.detector == ffi.NULL else _text(info.detector),
                options=tuple(options),
            )
        )
    return found
