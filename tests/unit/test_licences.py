"""What is compiled for eBPF may be used under the kernel's licence."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from kernel import toolchain
from lab import bbr_states

ROOT = Path(__file__).parents[2]
BOTH = "Apache-2.0 OR GPL-2.0-only"
FIRST_LINE = f"/* SPDX-License-Identifier: {BOTH} */\n"
OBJECTS = {
    **{c.kernel_name: (toolchain.GLUE, toolchain.definitions(c)) for c in toolchain.controllers()},
    "bbr": (bbr_states.SOURCE, []),
}


def compiled(source: Path, defined: list[str]) -> set[Path]:
    """The project's files that an object is made of, by the compiler's own list."""
    words = [*toolchain.compiler_words(source, defined), "-M", "-MT", "object"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    files = {Path(word).resolve() for word in done.stdout.removeprefix("object:").replace("\\\n", " ").split()}
    return {path for path in files if path.is_relative_to(ROOT)}


@pytest.mark.parametrize("name", OBJECTS)
def test_each_file_of_an_object_is_offered_under_both_licences(name: str) -> None:
    files = compiled(*OBJECTS[name])
    assert OBJECTS[name][0] in files
    assert not [path for path in files if not path.read_text().startswith(FIRST_LINE)]
    detector = ROOT / "core-c" / "src" / "bottleneck" / "sbcc.c"
    assert (detector in files) == (name == "rw_sbcc")


def test_all_controllers_are_offered_under_both_licences() -> None:
    """Also those that no hook of Linux suits yet."""
    folders = (toolchain.CORE / "include", toolchain.CONTROLLERS, toolchain.GLUE.parent, bbr_states.SOURCE.parent)
    files = [path for folder in folders for path in folder.glob("*.[ch]")]
    assert len(files) > 40
    assert not [path for path in files if not path.read_text().startswith(FIRST_LINE)]


def test_the_package_names_both_licences_and_has_their_texts() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == f"Apache-2.0 AND ({BOTH})"
    texts = {path.name: path.read_text() for pattern in project["license-files"] for path in ROOT.glob(pattern)}
    assert sorted(texts) == ["GPL-2.0-only.txt", "LICENSE"]
    assert "Apache License" in texts["LICENSE"]
    assert "GNU GENERAL PUBLIC LICENSE\n                       Version 2, June 1991" in texts["GPL-2.0-only.txt"]
