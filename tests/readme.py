"""README's examples as its reader pastes them: fenced blocks of commands, and what it shows of their output."""

from __future__ import annotations

import re
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    """The text of each fenced block of README.md in this language, in order."""
    return [text for found, text in _BLOCK.findall((CHECKOUT / "README.md").read_text()) if found == language]


def sessions() -> list[tuple[str, str]]:
    """Each `console` block: the command after its prompt, and the output below it."""
    found = []
    for text in blocks("console"):
        command, _, output = text.partition("\n")
        assert command.startswith("$ ")
        found.append((command.removeprefix("$ "), output))
    return found


def checkout_in(folder: Path) -> None:
    """What the examples name, so that what they write stays in the folder."""
    for name in (".venv", "tests", "specs"):
        (folder / name).symlink_to(CHECKOUT / name)
