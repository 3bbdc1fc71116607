"""Conditions that a caller may want to tell apart."""


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


class UnknownAlgorithm(RewindowError, ValueError):
    """No controller has this name."""


class BadOption(RewindowError, ValueError):
    """A controller has no such option, or the option does not take this value."""


class LimitReached(RewindowError):
    """A bound on memory or on the number of flows was reached."""
