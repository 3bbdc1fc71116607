"""The project's own controllers in the kernel, for the time of a run."""

from __future__ import annotations

import contextlib
import csv
import gzip
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import rewindow
from kernel import loaded, toolchain, tracing
from kernel.errors import KernelError, NotLoaded
from lab.errors import LabFailed, LabUnavailable, RunInvalid
from rewindow.scenarios import Scenario

PREFIX = "rw_"
STEPS_FILE = "steps.csv.gz"
COLUMNS = (
    "congestion_control", "connection", "t", "sport", "kind", "path", "acked", "marked", "rtt_ns", "rtt_newest_ns",
    "una", "next", "mss", "cwnd_q16", "ssthresh_q16", "srtt_ns", "recovering", "set", "set_state",
)  # fmt: skip
_LONGEST_S = 86_400.0


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


def refuse_loaded(chosen: toolchain.Controller) -> None:
    """Raises LabFailed where somebody has loaded it, and may need it."""
    if chosen in loaded.names_loaded():
        raise LabFailed(f"{chosen.kernel_name} is loaded already: `rewindow-kernel unload {chosen.name}` takes it away")


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


def step_row(kernel_name: str, connection: int, r: tracing.Record) -> tuple[str | int, ...]:
    """The COLUMNS of a step: what the controller was told, and the path that it then had."""
    cwnd, ssthresh, srtt, _, _, _, _, _, recovering, _, group, group_state = r.paths[r.path][:12]
    return (
        kernel_name, connection, f"{r.time_ns / 1e9:.6f}", r.port, r.kind, r.path, r.acked_segments,
        r.marked_segments, r.rtt_ns, r.rtt_newest_ns, r.una, r.next, r.mss_bytes, cwnd, ssthresh, srtt, recovering,
        group, group_state,
    )  # fmt: skip


class Steps:
    """Writes down what the loaded controllers of a scenario do."""

    def __init__(self, scenario: Scenario) -> None:
        self._stopping = threading.Event()
        self._errors: list[Exception] = []
        self._controllers = of_scenario(scenario)
        self._found: dict[str, list[tracing.Record]] = {c.kernel_name: [] for c in self._controllers}
        self._threads = [threading.Thread(target=self._read, args=(c,), daemon=True) for c in self._controllers]
        for thread in self._threads:
            thread.start()

    def _read(self, controller: toolchain.Controller) -> None:
        try:
            self._found[controller.kernel_name].extend(tracing.records(controller, _LONGEST_S, self._stopping))
        except (KernelError, OSError) as e:
            self._errors.append(e)

    def stop(self) -> None:
        """Ends the recording. Raises RunInvalid when a step found no room, or an event did not reach a controller."""
        self.kill()
        if self._errors:
            raise RunInvalid(str(self._errors[0]))
        for controller in self._controllers:
            if missed := loaded.status(controller).counts.missed:
                raise RunInvalid(f"{missed} events did not reach {controller.kernel_name}")

    def kill(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def write_truth(self, target: Path) -> int:
        """Writes the steps, each connection's in their order; returns how many. Connections have numbers from 0 on."""
        rows = 0
        with gzip.open(target, "wt", newline="") as f:
            table = csv.writer(f, lineterminator="\n")
            table.writerow(COLUMNS)
            connections = 0
            ports: dict[int, dict[int, int]] = {}
            for name, found in self._found.items():
                numbers: dict[int, int] = {}
                for r in found:
                    if r.kind == "join" and r.key not in numbers:
                        numbers[r.key] = connections
                        connections += 1
                    if r.key not in numbers:
                        continue
                    ports.setdefault(r.key, {})[r.path] = r.port
                    # A detector's decision is about all subflows: a row for each, the deciding one's as for every step.
                    others = ports[r.key].keys() - {r.path} if r.kind == "sets" else ()
                    for path in (r.path, *sorted(others)):
                        row = replace(r, path=path, port=ports[r.key][path])
                        table.writerow(step_row(name, numbers[r.key], row))
                        rows += 1
        return rows
