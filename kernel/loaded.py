"""Controllers in the running kernel: what is there is pinned under `PINNED`, so that any later process finds it."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import os
import re
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import rewindow
from kernel import libbpf
from kernel.errors import KernelUnavailable, LoadFailed, NotLoaded
from kernel.toolchain import COMPILER, Controller, build, compiler_is_missing, controllers
from rewindow import BadOption, Choice
from rewindow.controllers.registry import detector_numbers, number_text, option_numbers

FILE_SYSTEM = Path("/sys/fs/bpf")
PINNED = FILE_SYSTEM / "rewindow"
LOCK = Path("/run/rewindow-kernel.lock")
TYPES = Path("/sys/kernel/btf/vmlinux")
NEEDED = ("bpf_rdonly_cast", "bpf_local_irq_save", "tcp_reno_cong_avoid")
CONNECTIONS = 1024
"""At most, by default: MPTCP connections and TCP sockets."""
REPLAYS_OPTIONS = frozenset({"gate", "losses", "detector"})
"""Of an algorithm's description: those of what runs around a controller, which here is the kernel."""

_OPERATIONS = "rw_ops"
_SETTINGS, _COUNTS, _TRACING = ".rodata.settings", ".data.counts", ".data.tracing"
_MAPS = {_OPERATIONS: "operations", _SETTINGS: "settings", _COUNTS: "counts", _TRACING: "tracing",
         "places": "places", "steps": "steps"}  # fmt: skip
_KEY = bytes(4)
_SETTINGS_FORM = struct.Struct("=16q16qQ")
_OPTIONS = 16
_COUNTS_FORM = struct.Struct("=8Q")


@dataclass(frozen=True)
class Counts:
    """Since it was loaded."""

    joined: int
    """Subflows."""
    left: int
    refused: int
    """Subflows that found no place: the kernel's Reno runs in them."""
    missed: int
    """Events that the controller did not see, as another processor held the connection for too long."""
    losses: int
    """Reductions: losses, marks and timeouts."""
    timeouts: int
    undone: int
    untraced: int
    """Steps that a trace had no room for."""


@dataclass(frozen=True)
class Status:
    """A controller that is loaded."""

    controller: Controller
    registered: bool
    """Sockets may choose it."""
    numbers: tuple[int, ...]
    """What its options stand for."""
    connections: int
    counts: Counts

    def options(self) -> dict[str, str]:
        """By name, as people write them."""
        table = next(a for a in rewindow.algorithms() if a.name == self.controller.name).options
        own = [option for option in table if option.name not in REPLAYS_OPTIONS]
        return {
            option.name: option.choices[number] if option.choices else number_text(number)
            for option, number in zip(own, self.numbers, strict=False)
        }


def check() -> None:
    """KernelUnavailable with all that is missing, in one line."""
    if os.geteuid() != 0:
        raise KernelUnavailable("loading a controller into the kernel needs root")
    missing = []
    if compiler_is_missing():
        missing.append(f"{COMPILER} (deploy/setup.sh kernel installs it)")
    if not TYPES.exists():
        missing.append(f"{TYPES} (the kernel's CONFIG_DEBUG_INFO_BTF)")
    if not os.path.ismount(FILE_SYSTEM):
        missing.append(f"a file system of type bpf at {FILE_SYSTEM}")
    if not libbpf.is_there():
        missing.append(f"{libbpf.SHARED_LIBRARY} (deploy/setup.sh kernel installs it)")
    elif TYPES.exists():
        lacking = [name for name, there in libbpf.kernel_functions(NEEDED).items() if not there]
        if lacking:
            missing.append(f"{', '.join(lacking)} in the kernel, of which 6.18 was tried")
    if missing:
        raise KernelUnavailable(f"missing: {'; '.join(missing)}")


def ns_per_tick() -> int:
    """Of the kernel's clock; 0 where the kernel does not tell its configuration."""
    texts: list[Callable[[], str]] = [
        lambda: gzip.decompress(Path("/proc/config.gz").read_bytes()).decode(),
        lambda: Path(f"/boot/config-{os.uname().release}").read_text(),
    ]
    for read in texts:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            found = re.search(r"^CONFIG_HZ=(\d+)$", read(), re.MULTILINE)
            if found:
                return 10**9 // int(found[1])
    return 0


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Nobody else loads or unloads."""
    with open(LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def numbers_for(controller: Controller, options: dict[str, str]) -> tuple[int, ...]:
    """Checked as in the replay. `mode` is kernel here: it says whose machinery runs around the window."""
    if options.get("mode", "kernel") != "kernel":
        raise BadOption(f"{controller.name}: in a kernel, mode is kernel")
    return option_numbers(Choice(controller.name, {**options, "mode": "kernel"}))


def load(controller: Controller, options: dict[str, str], connections: int = CONNECTIONS) -> None:
    """Builds and registers it: from now on sockets may choose its kernel name."""
    numbers = numbers_for(controller, options)
    detects = detector_numbers(Choice(controller.detector)) if controller.detector else (0,) * _OPTIONS
    check()
    with _locked():
        folder = PINNED / controller.kernel_name
        if folder.is_dir():
            raise LoadFailed(f"{controller.kernel_name} is loaded already")
        with libbpf.Object(build(controller)) as opened:
            for name in ("connections", "unused", "places"):
                opened.entries(name, connections)
            opened.content(_SETTINGS, _SETTINGS_FORM.pack(*numbers, *detects, ns_per_tick()))
            opened.load()
            for place in range(connections):
                opened.map("unused").write(None, place.to_bytes(4, sys.byteorder))
            folder.mkdir(parents=True)
            try:
                for name, file in _MAPS.items():
                    opened.pin(name, folder / file)
                opened.register(_OPERATIONS)
            except BaseException:
                _remove(folder)
                raise


def _remove(folder: Path) -> None:
    """The pins of one, and the folder of all where it was the last."""
    for pin in folder.iterdir():
        pin.unlink()
    folder.rmdir()
    with contextlib.suppress(OSError):
        PINNED.rmdir()


def unload(controller: Controller) -> int:
    """Nobody may choose it any more. Returns how many subflows still use it: the kernel keeps it until they close."""
    check()
    folder = PINNED / controller.kernel_name
    with _locked():
        if not folder.is_dir():
            raise NotLoaded(f"{controller.kernel_name} is not loaded")
        using = 0
        with contextlib.suppress(FileNotFoundError):  # of a load that was interrupted
            counts = _status(controller).counts
            using = counts.joined - counts.left
        with (
            contextlib.suppress(FileNotFoundError),
            libbpf.Map.pinned(folder / _MAPS[_OPERATIONS]) as operations,
        ):
            operations.delete(_KEY)
        _remove(folder)
    return using


def _status(controller: Controller) -> Status:
    folder = PINNED / controller.kernel_name
    with libbpf.Map.pinned(folder / _MAPS[_SETTINGS]) as found:
        numbers = _SETTINGS_FORM.unpack(found.read(_KEY, _SETTINGS_FORM.size) or b"")[:_OPTIONS]
    with libbpf.Map.pinned(folder / _MAPS[_COUNTS]) as found:
        counts = read_counts(found)
    with libbpf.Map.pinned(folder / _MAPS["places"]) as found:
        connections = sum(1 for _ in found.keys(8))
    return Status(controller, _is_registered(controller), tuple(numbers), connections, counts)


def read_counts(counts: libbpf.Map) -> Counts:
    return Counts(*_COUNTS_FORM.unpack(counts.read(_KEY, _COUNTS_FORM.size) or b""))


def _is_registered(controller: Controller) -> bool:
    names = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    return controller.kernel_name in names


def status(controller: Controller) -> Status:
    """NotLoaded where it is not."""
    check()
    if not (PINNED / controller.kernel_name).is_dir():
        raise NotLoaded(f"{controller.kernel_name} is not loaded")
    try:
        return _status(controller)
    except FileNotFoundError as e:
        raise LoadFailed(f"{controller.kernel_name}: its load was interrupted; unload it") from e


def names_loaded() -> list[Controller]:
    """In the registry's order, those of an interrupted load too."""
    check()
    return [c for c in controllers() if (PINNED / c.kernel_name).is_dir()]
