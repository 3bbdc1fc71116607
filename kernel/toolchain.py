"""From a controller's C file to an eBPF object."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import rewindow
from kernel.errors import BuildFailed, KernelUnavailable
from rewindow.core import folded

CHECKOUT = Path(__file__).parent.parent
CONTROLLERS = CHECKOUT / "core-c" / "src" / "control"
GLUE = Path(__file__).parent / "bpf" / "controller.bpf.c"
OUTPUT = CHECKOUT / "build" / "Kernel"
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
        found.append(Controller(algorithm.name, f"rw_{plain}", path, symbol, "ece" in algorithm.callbacks))
    return found


def controller(name: str) -> Controller:
    """By its name in the registry, or in the kernel. rewindow.UnknownAlgorithm where there is none."""
    wanted = folded(name)
    every = controllers()
    for each in every:
        if wanted in (each.name, each.kernel_name):
            return each
    raise rewindow.UnknownAlgorithm(f"unknown algorithm '{name}': {', '.join(each.name for each in every)}")


def build(chosen: Controller) -> Path:
    """The object, made anew. BuildFailed with the compiler's first complaint."""
    if shutil.which(COMPILER) is None:
        raise KernelUnavailable(f"missing: {COMPILER} (deploy/setup.sh kernel installs it)")
    chosen.object.parent.mkdir(parents=True, exist_ok=True)
    words = [COMPILER, "-target", "bpf", "-mcpu=v3", "-g", "-O2", "-std=gnu11", "-ffreestanding"]
    words += [
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-missing-field-initializers",
        "-Wno-unused-function",
        "-Wno-unused-parameter",
    ]
    words += [f"-I{CHECKOUT / 'core-c' / 'include'}", f"-I{CONTROLLERS}", f"-I{GLUE.parent}"]
    words += [f'-DRW_CONTROL_FILE="{chosen.source.name}"', f"-DRW_CONTROL={chosen.symbol}"]
    words += [f'-DRW_KERNEL_NAME="{chosen.kernel_name}"', f"-DRW_HAS_ECE={int(chosen.has_ece)}"]
    partial = chosen.object.with_suffix(".partial")
    try:
        done = subprocess.run(
            [*words, "-c", str(GLUE), "-o", str(partial)], capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise BuildFailed(f"{COMPILER}: {e}") from e
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error:" in line] or done.stderr.splitlines()
        raise BuildFailed(errors[0] if errors else f"{COMPILER}: exit status {done.returncode}")
    return partial.replace(chosen.object)
