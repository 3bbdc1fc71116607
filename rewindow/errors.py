"""Conditions that a caller may want to tell apart."""

from collections.abc import Sequence


class RewindowError(Exception):
    """Base of everything that this package raises on purpose."""


class CaptureUnreadable(RewindowError):
    """A capture cannot be read: which file, where in it, and why."""

    def __init__(self, name: str, reason: str, block: int = 0, offset: int = 0) -> None:
        self.name = name
        self.reason = reason
        self.block = block
        self.offset = offset
        place = f" at byte {offset} (after {block} records)" if offset or block else ""
        super().__init__(f"{name}{place}: {reason}")


class CaptureNotOpened(CaptureUnreadable, OSError):
    """The system does not open a capture; `errno` and `filename` as in any OSError."""

    def __init__(self, name: str, error: OSError) -> None:
        super().__init__(name, error.strerror or str(error))
        self.errno, self.strerror, self.filename = error.errno, error.strerror, name

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class CaptureMissing(CaptureNotOpened, FileNotFoundError):
    """There is no such file."""


class NotACapture(CaptureUnreadable):
    """The file has no format that the core knows. file: its index among the captures opened together."""

    def __init__(self, name: str, reason: str, block: int, offset: int, file: int) -> None:
        super().__init__(name, reason, block, offset)
        self.file = file


class NetworkUnreadable(RewindowError):
    """A description of a network cannot be read: which file, which key, and why."""

    def __init__(self, name: str, place: str, reason: str) -> None:
        self.name = name
        self.place = place
        self.reason = reason
        super().__init__(f"{name}: {place}: {reason}" if place else f"{name}: {reason}")


class ScenarioUnreadable(RewindowError):
    """A scenario cannot be run: each mistake as (where it stands, what was expected, what is there)."""

    def __init__(self, name: str, mistakes: Sequence[tuple[str, str, str]]) -> None:
        self.name = name
        self.mistakes = tuple(mistakes)
        place, expected, actual = self.mistakes[0]
        more = f" ({len(self.mistakes) - 1} more)" if len(self.mistakes) > 1 else ""
        where = f"{name}: {place}" if place else name
        super().__init__(f"{where}: expected {expected}; there is {actual}{more}")


class UnknownAlgorithm(RewindowError, ValueError):
    """No controller has this name."""


class UnknownScheduler(RewindowError, ValueError):
    """No packet scheduler has this name."""


class BadOption(RewindowError, ValueError):
    """A controller or scheduler has no such option or state, or it does not take this value."""


class DependencyFailed(RewindowError):
    """A program or service that rewindow depends on is missing or failed."""


class DissectorMissing(DependencyFailed):
    """A capture needs tshark, which is not installed."""


class DissectorAway(DependencyFailed):
    """A capture needs tshark, whose service does not answer now."""


class DissectorInterrupted(DissectorAway):
    """The service of tshark ended while it decoded this capture, which may be the reason."""


class DissectorFailed(DependencyFailed):
    """tshark broke, or reached a limit, on a capture that needs it."""


class DissectorNotConfined(DissectorFailed):
    """A capture needs tshark, which this system cannot confine."""
