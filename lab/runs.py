"""A run: a scenario on real kernels, from the namespaces to a folder with captures, traces and counts."""

from __future__ import annotations

import json
import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lab import bbr_states, controllers, kernel_queues, machine, namespaces
from lab.bbr_states import BbrStates
from lab.capturing import Capturing
from lab.emulation import Emulator, configuration, devices, lateness_bound_ns
from lab.errors import RunInvalid
from lab.machine import Left
from lab.tracing import Probe
from lab.transfers import Transfers
from rewindow.scenarios import Scenario

FORMAT = 1
"""Version of a run's folder; it counts up when older readers would misread a new folder."""
ATTEMPTS = 3
Queues = Literal["emulator", "kernel"]
"""Whose are the rates and queues of links."""


@dataclass(frozen=True)
class Described:
    """A scenario with its text, and the folder of the files that it names."""

    scenario: Scenario
    text: str
    beside: Path


@dataclass(frozen=True)
class Run:
    """folder: None when no attempt was valid. invalid: the reason for each invalid attempt."""

    name: str
    seed: int
    folder: Path | None
    invalid: tuple[str, ...]
    result: dict[str, Any]


def folder_name(scenario: Scenario, seed: int) -> str:
    return f"{scenario.name}-{seed}"


def run(
    described: Described, seed: int, output: Path, attempts: int = ATTEMPTS, queues: Queues = "emulator",
    others_max: float | None = None,
) -> Run:  # fmt: skip
    """Repeats a run that the machine disturbed, up to `attempts` times. The folder appears when it is complete.

    others_max: a run is disturbed where other programs used more of a CPU; None: whatever they used."""
    name = folder_name(described.scenario, seed)
    target = output / name
    output.mkdir(parents=True, exist_ok=True)
    invalid: list[str] = []
    while len(invalid) < attempts:
        with machine.alone() as left:
            partial = output.resolve() / f".{name}.{os.getpid()}"
            left.folder(partial)
            partial.mkdir()
            try:
                for chosen in controllers.of_scenario(described.scenario):
                    controllers.refuse_loaded(chosen)  # before it is noted as one to take away
                    left.controller(chosen.kernel_name)
                with controllers.in_the_kernel(described.scenario):
                    others = machine.Others()
                    result = _measure(described.scenario, seed, partial, left, queues)
                    share = others.share()
                if others_max is not None and share > others_max:
                    raise RunInvalid(f"other programs used {share:.0%} of a CPU, more than {others_max:.0%}")
                result["others_cpu"] = round(share, 3)
                result["invalid_attempts"] = invalid
                _finish(described, partial, target, result)
                return Run(name, seed, target, tuple(invalid), result)
            except RunInvalid as e:
                invalid.append(str(e))
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return Run(name, seed, None, tuple(invalid), {})


def _measure(scenario: Scenario, seed: int, folder: Path, left: Left, queues: Queues) -> dict[str, Any]:
    """One attempt: writes captures, truth and counts into the folder. Raises RunInvalid if the machine disturbed it."""
    names = devices(scenario, machine.DEVICE)
    in_the_kernel = kernel_queues.queues(scenario) if queues == "kernel" else []
    emulated = kernel_queues.delays_only(scenario) if in_the_kernel else scenario
    emulator = Emulator(machine.emulator_program(), folder / "emulator.err")
    left.process(emulator.pid)
    probe = states = steps = capturing = transfers = None
    try:
        emulator.configure(configuration(emulated, seed, names, [(q.device, q.address) for q in in_the_kernel]))
        join = kernel_queues.build if in_the_kernel else namespaces.joined_by_the_emulator
        places = namespaces.build(scenario, lambda: join(scenario, names), bool(in_the_kernel))
        before = {host.name: namespaces.counters(host.name) for host in scenario.hosts}
        probe = Probe(scenario.transfers, folder / "trace")
        if bbr_states.is_wanted(scenario):
            states = BbrStates(scenario.transfers, folder / "states")
        if controllers.of_scenario(scenario):
            steps = controllers.Steps(scenario)
        capturing = Capturing(scenario, folder)
        transfers = Transfers(scenario)
        zero_ns = emulator.start()
        transfers.begin(zero_ns)
        done = transfers.wait(zero_ns)
        probe.stop()
        if states:
            states.stop()
        if steps:
            steps.stop()
        capturing.stop()
        after = {host.name: namespaces.counters(host.name) for host in scenario.hosts}
        dropped = namespaces.dropped_before_the_emulator(places)
        queued = kernel_queues.counted(scenario) if in_the_kernel else []
        counted = emulator.stop()
    finally:
        for started in (probe, states, steps, capturing, transfers, emulator):
            if started is not None:
                started.kill()
    rows = probe.write_truth(folder / "truth.csv.gz")
    if states:
        states.write_truth(folder / "bbr.csv.gz")
    if steps:
        steps.write_truth(folder / controllers.STEPS_FILE)
    (folder / "emulator.json").write_text(json.dumps(counted, indent=1) + "\n")
    (folder / "emulator.err").unlink()
    bound_ns = lateness_bound_ns(scenario)
    if dropped:
        raise RunInvalid(f"{dropped} packets did not reach the emulator")
    if counted["lateness_ns"]["p99"] > bound_ns:
        raise RunInvalid(f"the emulator's p99 lateness was {counted['lateness_ns']['p99']} ns, more than {bound_ns}")
    return {
        "format": FORMAT,
        "scenario": scenario.name,
        "seed": seed,
        "kernel": platform.release(),
        **({"queues": queued} if in_the_kernel else {}),
        "transfers": done,
        "truth_rows": rows,
        "lateness_ns": counted["lateness_ns"],
        "lateness_bound_ns": bound_ns,
        "counters": {host: namespaces.counted(before[host], now) for host, now in after.items()},
    }


def _finish(described: Described, partial: Path, target: Path, result: dict[str, Any]) -> None:
    """Completes the partial folder and renames it to the run's."""
    (partial / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    (partial / "scenario.toml").write_text(described.text)
    for name in described.scenario.files:
        shutil.copyfile(described.beside / name, partial / name)
    partial.rename(target)


def is_there(described: Described, target: Path, queues: Queues = "emulator") -> bool:
    """Whether the folder holds a run of this scenario with these queues. Raises FileExistsError if it holds anything
    else."""
    if not target.exists():
        return False
    try:
        in_the_kernel = "queues" in json.loads((target / "result.json").read_text())
        same = (target / "scenario.toml").read_text() == described.text and in_the_kernel == (queues == "kernel")
    except (OSError, ValueError):
        same = False
    if not same:
        raise FileExistsError(f"{target} holds something else than a run of this scenario")
    return True
