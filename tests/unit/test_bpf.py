"""What was replayed is what could be deployed: controllers, detectors and schedulers are files that compile for eBPF.

tests/kernel loads window-based controllers into this machine's kernel, whose verifier judges them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "core-c"
FOLDERS = ("control", "bottleneck", "scheduler")
SOURCES = [source for folder in FOLDERS for source in sorted((CORE / "src" / folder).glob("*.c"))]
CLANG = (
    "clang", "-target", "bpf", "-O2", "-std=c11", "-ffreestanding", "-Wall", "-Werror",
    "-Wno-missing-field-initializers", f"-I{CORE / 'include'}", f"-I{CORE / 'src' / 'control'}",
)  # fmt: skip
TABLES = ("rw_control_", "rw_detector_", "rw_scheduler_")
"""Names that the lists of controllers, detectors and schedulers take from other files."""


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: f"{s.parent.name}-{s.stem}")
def test_compiles_for_ebpf_and_calls_nothing(source: Path, tmp_path: Path) -> None:
    """Neither floating point nor libc: core-c/include/rw_control.h says what there is."""
    compiled = tmp_path / "controller.o"
    done = subprocess.run([*CLANG, "-c", source, "-o", compiled], capture_output=True, text=True)
    assert done.returncode == 0, f"no floating point and no libc, eBPF has none: {done.stderr}"
    listed = subprocess.run(["llvm-nm", "--undefined-only", compiled], capture_output=True, text=True, check=True)
    called = [line.split()[-1] for line in listed.stdout.splitlines()]
    assert not [name for name in called if not name.startswith(TABLES)]
