"""The project's own controllers in the kernel, for the time of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import rewindow
from kernel import loaded, toolchain
from kernel.errors import KernelError, NotLoaded
from lab.errors import LabFailed, LabUnavailable
from rewindow.scenarios import Scenario

PREFIX = "rw_"


def of_scenario(scenario: Scenario) -> list[toolchain.Controller]:
    """Those that its transfers name. LabUnavailable for a name that no controller has."""
    names = sorted({t.congestion_control or "" for t in scenario.transfers})
    try:
        return [toolchain.controller(name) for name in names if name.startswith(PREFIX)]
    except rewindow.UnknownAlgorithm as e:
        raise LabUnavailable(str(e)) from e


def missing(scenario: Scenario) -> str:
    """What this machine lacks to load them; empty: nothing."""
    if of_scenario(scenario):
        try:
            loaded.check()
        except KernelError as e:
            return str(e)
    return ""


@contextlib.contextmanager
def in_the_kernel(scenario: Scenario) -> Iterator[None]:
    """Loaded with their defaults, and unloaded afterwards. LabFailed where somebody has loaded one of them."""
    with contextlib.ExitStack() as stack:
        for chosen in of_scenario(scenario):
            try:
                loaded.load(chosen, {})
            except KernelError as e:
                raise LabFailed(str(e)) from e
            stack.callback(unload, chosen.kernel_name)
        yield


def unload(kernel_name: str) -> None:
    """If it is loaded."""
    with contextlib.suppress(NotLoaded):
        loaded.unload(toolchain.controller(kernel_name))
