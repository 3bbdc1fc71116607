"""README shows what its commands print."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import readme


@pytest.mark.parametrize(("command", "output"), readme.sessions(), ids=[c for c, _ in readme.sessions()])
def test_command_prints_what_the_readme_shows(command: str, output: str, tmp_path: Path) -> None:
    readme.checkout_in(tmp_path)
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == output


def test_readme_has_the_examples_that_it_promises() -> None:
    assert len(readme.sessions()) == 3
