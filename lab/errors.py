"""Conditions in which there is no run."""


class LabError(Exception):
    """Base of the lab's exceptions."""


class LabUnavailable(LabError):
    """This machine or user cannot run the lab, or this scenario; the text is one line that names what is missing."""


class LabFailed(LabError):
    """A program that a run needs failed."""


class RunInvalid(LabError):
    """The machine disturbed a run: the emulation, a capture or the kernel's trace is not that of the scenario."""
