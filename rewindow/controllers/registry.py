"""The registry of controllers, as the core describes it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rewindow.core import Choice, check, choices_for, ffi, lib


@dataclass(frozen=True)
class Option:
    name: str
    default: str
    values: str
    """The values that the option takes, for people to read."""
    reason: str
    choices: tuple[str, ...] | None
    """The values that the option takes; None for a number."""
    least: float | None
    most: float | None
    """Bounds of a number, inclusive."""


@dataclass(frozen=True)
class Algorithm:
    name: str
    kind: str  # single or multipath
    source: str
    formula: str
    deviations: str
    detector: str | None
    """The detector of its sets of subflows, unless the user chooses another; None: it uses no sets."""
    options: tuple[Option, ...]
    callbacks: tuple[str, ...]
    """The callbacks of the contract (rw_control.h) that the controller has."""

    @property
    def is_validated(self) -> bool:
        """Whether a kernel, or measurements, have confirmed it; else its source says that none has."""
        return "not validated" not in self.source

    @property
    def is_rate_based(self) -> bool:
        """Whether it follows the delivery rate, and paces."""
        return "rate" in self.callbacks

    def as_json(self) -> dict[str, Any]:
        """All fields but the callbacks, which do not matter to a user."""
        return {name: value for name, value in asdict(self).items() if name != "callbacks"}


def text_of(value: Any) -> str:
    """A C string."""
    return str(ffi.string(value).decode())


def number_text(q16: int) -> str:
    """A number of the core, with as few decimal places as it takes to be read as the same one."""
    texts = (f"{q16 / 65536:.{places}f}" for places in range(6))
    return next(text for text in texts if round(float(text) * 65536) == q16)


def options_of(describe: Any, index: int, count: int) -> tuple[Option, ...]:
    """The options of one entry of a registry, by the function of the core that describes them."""
    info, found = ffi.new("rw_option_info *"), []
    for place in range(count):
        describe(index, place, info)
        values = text_of(info.values)
        choices = None if info.is_number else tuple(values.split("|"))
        found.append(
            Option(
                name=text_of(info.name),
                default=choices[info.default_value] if choices else number_text(info.default_value),
                values=values,
                reason=text_of(info.reason),
                choices=choices,
                least=info.low_q16 / 65536 if info.is_number else None,
                most=info.high_q16 / 65536 if info.is_number else None,
            )
        )
    return tuple(found)


def _callbacks(index: int) -> tuple[str, ...]:
    found: list[str] = []
    while (name := lib.rw_algorithm_callback(index, len(found))) != ffi.NULL:
        found.append(text_of(name))
    return tuple(found)


def _described(
    count: int, describe: Any, describe_option: Any, callbacks: Callable[[int], tuple[str, ...]]
) -> list[Algorithm]:
    found = []
    info = ffi.new("rw_algorithm_info *")
    for index in range(count):
        describe(index, info)
        options = options_of(describe_option, index, info.options)
        kind = "multipath" if info.multipath else "single"
        found.append(
            Algorithm(
                name=text_of(info.name),
                kind=kind,
                source=text_of(info.source),
                formula=text_of(info.formula),
                deviations=text_of(info.deviations),
                detector=None if info.detector == ffi.NULL else text_of(info.detector),
                options=options,
                callbacks=callbacks(index),
            )
        )
    return found


def algorithms() -> list[Algorithm]:
    """Every controller, in the registry's order."""
    return _described(lib.rw_algorithm_count(), lib.rw_algorithm_describe, lib.rw_algorithm_option, _callbacks)


def detectors() -> list[Algorithm]:
    """Every detector of shared bottlenecks, in the registry's order."""
    return _described(lib.rw_detector_count(), lib.rw_detector_describe, lib.rw_detector_option, lambda _: ())


def option_numbers(choice: Choice) -> tuple[int, ...]:
    """What the controller keeps of its options, with defaults: one integer for each of the 16 places of its table.

    BadOption for a value that is out of range, and for the replay's own options (gate, losses, detector).
    """
    return _numbers(lib.rw_algorithm_values, choice)


def detector_numbers(choice: Choice) -> tuple[int, ...]:
    """The same of a detector."""
    return _numbers(lib.rw_detector_values, choice)


def _numbers(values_of: Any, choice: Choice) -> tuple[int, ...]:
    values, error = ffi.new("int64_t[16]"), ffi.new("rw_error *")
    array, _keep = choices_for([choice])
    check(values_of(array, values, error), error)
    return tuple(values)
