"""The C core, with its errors translated in one place."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rewindow._core import ffi, lib
from rewindow.errors import (
    BadOption,
    CaptureUnreadable,
    NotACapture,
    RewindowError,
    UnknownAlgorithm,
    UnknownScheduler,
)

__all__ = [
    "Choice",
    "Redaction",
    "check",
    "choices_for",
    "extract",
    "ffi",
    "folded",
    "lib",
    "name_of",
    "redact",
]


def folded(name: str) -> str:
    """A name as the registries have it: case and spaces do not matter."""
    return "".join(name.split()).casefold()


class Choice:
    """One controller, detector or scheduler to run, and its options as text.

    name: case and spaces do not matter. label: what its columns are called; default: the name.
    """

    def __init__(self, name: str, options: dict[str, object] | None = None, label: str | None = None) -> None:
        self.name = folded(name)
        self.options = {k: _text(v) for k, v in (options or {}).items()}
        self.label = label or self.name

    @classmethod
    def several(cls, values: "str | Choice | Sequence[str | Choice]") -> "list[Choice]":
        """A single value becomes a list of one choice."""
        if not isinstance(values, str | Choice | Iterable):
            raise TypeError(f"expected a name, a Choice, or several of them; there is {values!r}")
        listed = [values] if isinstance(values, str | Choice) else values
        return [value if isinstance(value, cls) else cls(str(value)) for value in listed]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.12f}".rstrip("0").rstrip(".")
    return str(value)


def choices_for(choices: Sequence[Choice]) -> tuple[Any, list[Any]]:
    """An array of rw_choice, and what must stay alive as long as it does."""
    keep: list[Any] = []
    array = ffi.new("rw_choice[]", max(len(choices), 1))
    for entry, choice in zip(array, choices, strict=False):
        name = ffi.new("char[]", choice.name.encode())
        texts = [ffi.new("char[]", f"{k}={v}".encode()) for k, v in choice.options.items()]
        options = ffi.new("char *[]", texts)
        entry.name, entry.options, entry.option_count = name, options, len(texts)
        keep += [name, options, *texts]
    return array, keep


def check(status: int, error: Any, names: Sequence[str] = ()) -> None:
    """Raises the exception that stands for a status of the core."""
    if status == lib.RW_OK:
        return
    reason = ffi.string(error.reason).decode("utf-8", "replace")
    name = names[error.file] if error.file < len(names) else "capture"
    if status == lib.RW_ERROR_READ:
        raise CaptureUnreadable(name, reason, error.block, error.offset)
    if status == lib.RW_ERROR_NOT_A_CAPTURE:
        raise NotACapture(name, reason, error.block, error.offset, error.file)
    if status == lib.RW_ERROR_UNKNOWN_ALGORITHM:
        raise UnknownAlgorithm(reason)
    if status == lib.RW_ERROR_UNKNOWN_SCHEDULER:
        raise UnknownScheduler(reason)
    if status in (lib.RW_ERROR_UNKNOWN_OPTION, lib.RW_ERROR_BAD_VALUE):
        raise BadOption(reason)
    if status == lib.RW_ERROR_MEMORY:
        raise MemoryError(reason)
    raise RewindowError(reason)


def name_of(function: Any, number: int) -> str | None:
    """The name that one of the rw_*_name functions gives a number."""
    text = function(number)
    return None if text == ffi.NULL else ffi.string(text).decode()


def extract(fd: int, link_type: int, out_fd: int, name: str) -> int:
    """Copies a capture's records of one link type, as a pcapng. Returns how many. Raises CaptureUnreadable."""
    records, error = ffi.new("uint64_t *"), ffi.new("rw_error *")
    check(lib.rw_extract(fd, link_type, out_fd, records, error), error, [name])
    return int(records[0])


def count_decoded(fd: int, name: str) -> tuple[int, int]:
    """How many records of a capture have a link type that the core decodes, and how many have another one.

    Raises CaptureUnreadable.
    """
    decoded, others, error = ffi.new("uint64_t *"), ffi.new("uint64_t *"), ffi.new("rw_error *")
    check(lib.rw_count_decoded(fd, decoded, others, error), error, [name])
    return int(decoded[0]), int(others[0])


@dataclass(frozen=True)
class Redaction:
    """What a redaction did.

    unrecognised: records of which no header was recognised, so that nothing was kept. decoded_by: name and version of
    the program that found the headers; empty: the core.
    """

    records: int
    captured_bytes: int
    kept_bytes: int
    unrecognised: int
    decoded_by: str = ""


def redact(fd: int, out_fd: int, key: bytes | None, name: str) -> Redaction:
    """Copies a capture without payload, and with other addresses where there is a key of 16 bytes.

    fd is read once, from where it stands. Raises CaptureUnreadable.
    """
    row, error = ffi.new("rw_redaction_row *"), ffi.new("rw_error *")
    check(lib.rw_redact(fd, out_fd, ffi.NULL if key is None else key, row, error), error, [name])
    return Redaction(row.records, row.captured_bytes, row.kept_bytes, row.unrecognised)
