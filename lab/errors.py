"""Why there is no run."""


class LabError(Exception):
    """Base of what the lab raises on purpose."""


class LabUnavailable(LabError):
    """This machine or user cannot run the lab, or not this scenario: one line says what is missing."""


class LabFailed(LabError):
    """A program that a run needs did not do its work."""


class RunInvalid(LabError):
    """The machine disturbed a run: its emulation, its capture or its truth is not what the scenario says."""
