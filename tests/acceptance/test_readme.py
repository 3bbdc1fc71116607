"""README's examples against a service, as a newcomer pastes them after `make up`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from deploy.run import Services
from tests import readme

DEFAULT = "http://127.0.0.1:8000"


def paste(commands: str, stack: Services, token: str, folder: Path) -> str:
    """What they print, with this service's address and with its token where `make up` keeps it."""
    (folder / ".local").mkdir()
    (folder / ".local" / "token").write_text(token)
    readme.checkout_in(folder)
    assert DEFAULT in commands
    done = subprocess.run(
        ["bash", "-e", "-c", commands.replace(DEFAULT, stack.address)],
        cwd=folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_upload_and_list_by_curl(stack: Services, token: str, tmp_path: Path) -> None:
    (commands,) = [b for b in readme.blocks("sh") if "curl" in b]
    decoder, printed = json.JSONDecoder(), paste(commands, stack, token, tmp_path)
    uploaded, end = decoder.raw_decode(printed)
    listed, _ = decoder.raw_decode(printed[end:].lstrip())
    assert uploaded["id"] in [capture["id"] for capture in listed["items"]]


def test_upload_from_a_script(stack: Services, token: str, tmp_path: Path) -> None:
    (commands,) = [b for b in readme.blocks("sh") if "rewindow upload" in b]
    assert " done " in paste(commands, stack, token, tmp_path)
