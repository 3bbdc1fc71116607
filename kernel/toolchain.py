"""From C to an eBPF object: controllers with the glue, and other programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import rewindow
from kernel.errors import BuildFailed, KernelUnavailable
from rewindow.core import folded

CHECKOUT = Path(__file__).parent.parent
IS_CHECKOUT = (CHECKOUT / "core-c").is_dir()
CORE = (CHECKOUT if IS_CHECKOUT else Path(__file__).parent) / "core-c"
"""A wheel has the controllers and the headers that they need in this package."""
CONTROLLERS = CORE / "src" / "control"
DETECTORS = frozenset({"sbcc"})
"""Those whose facts reach a program in the kernel."""
GLUE = Path(__file__).parent / "bpf" / "controller.bpf.c"


def _output() -> Path:
    """Where objects are made: outside of a checkout it is the user's folder for caches."""
    if IS_CHECKOUT:
        return CHECKOUT / "build" / "Kernel"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rewindow" / "kernel"


OUTPUT = _output()
COMPILER = "clang-19"
"""Other versions make other objects: clang-14's type information is refused by the kernel."""
TIMEOUT_S = 120


@dataclass(frozen=True)
class Controller:
    """A controller of the registry as a congestion control of the kernel."""

    name: str
    """In the registry."""
    kernel_name: str
    """For TCP_CONGESTION: 15 characters at most."""
    source: Path
    symbol: str
    has_ece: bool
    detector: str | None
    """The detector of shared bottlenecks that runs beside it in the kernel."""

    @property
    def object(self) -> Path:
        return OUTPUT / f"{self.kernel_name}.bpf.o"


_DEFINITION = re.compile(r'^const struct rw_control rw_control_(\w+) = \{\s*\.name = "([^"]+)"', re.MULTILINE)


def controllers() -> list[Controller]:
    """Each window-based one of the registry, in its order. The glue gives a controller no delivery rates."""
    defined = {
        name: (path, plain)
        for path in sorted(CONTROLLERS.glob("*.c"))
        for plain, name in _DEFINITION.findall(path.read_text())
    }
    found = []
    for algorithm in rewindow.algorithms():
        if algorithm.is_rate_based:
            continue
        path, plain = defined[algorithm.name]
        symbol = f"rw_control_{plain}"
        detector = algorithm.detector if algorithm.detector in DETECTORS else None
        found.append(Controller(algorithm.name, f"rw_{plain}", path, symbol, "ece" in algorithm.callbacks, detector))
    return found


def controller(name: str) -> Controller:
    """By its name in the registry, or in the kernel. rewindow.UnknownAlgorithm where there is none."""
    wanted = folded(name)
    every = controllers()
    for each in every:
        if wanted in (each.name, each.kernel_name):
            return each
    raise rewindow.UnknownAlgorithm(f"unknown algorithm '{name}': {', '.join(each.name for each in every)}")


def compiler_is_missing() -> bool:
    return shutil.which(COMPILER) is None


def compiler_words(source: Path, defined: Sequence[str] = ()) -> list[str]:
    """The compiler's command line for a program for eBPF, up to what it shall make of it."""
    words = [COMPILER, "-target", "bpf", "-mcpu=v3", "-g", "-O2", "-std=gnu11", "-ffreestanding"]
    words += [
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-missing-field-initializers",
        "-Wno-unused-function",
        "-Wno-unused-parameter",
    ]
    words += [f"-I{CORE / 'include'}", f"-I{CONTROLLERS}", f"-I{GLUE.parent}"]
    return [*words, *(f"-D{definition}" for definition in defined), str(source)]


def compile_object(source: Path, target: Path, defined: Sequence[str] = ()) -> Path:
    """A program for eBPF, made anew. BuildFailed with the compiler's first complaint."""
    if compiler_is_missing():
        raise KernelUnavailable(f"missing: {COMPILER} (deploy/setup.sh kernel installs it)")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    words = [*compiler_words(source, defined), "-c", "-o", str(partial)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise BuildFailed(f"{COMPILER}: {e}") from e
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error:" in line] or done.stderr.splitlines()
        raise BuildFailed(errors[0] if errors else f"{COMPILER}: exit status {done.returncode}")
    return partial.replace(target)


def definitions(chosen: Controller) -> list[str]:
    """What the glue is compiled with, so that it becomes this controller."""
    defined = [f'RW_CONTROL_FILE="{chosen.source.name}"', f"RW_CONTROL={chosen.symbol}"]
    defined += [f'RW_KERNEL_NAME="{chosen.kernel_name}"', f"RW_HAS_ECE={int(chosen.has_ece)}"]
    if chosen.detector:
        name = chosen.detector
        defined += [f'RW_DETECTOR_FILE="../bottleneck/{name}.c"', f"RW_DETECTOR=rw_detector_{name}"]
        defined.append(f"RW_DETECTION=struct {name}")
    return defined


def build(chosen: Controller) -> Path:
    """The object, made anew. BuildFailed with the compiler's first complaint."""
    return compile_object(GLUE, chosen.object, definitions(chosen))
