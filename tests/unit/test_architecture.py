"""ARCHITECTURE.md's table of the core's rooms beside what core-c/CMakeLists.txt lets each room include."""

from __future__ import annotations

import re
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent.parent


def rooms_of_table(text: str) -> dict[str, set[str]]:
    """What each room may see, by the third column."""
    rows = re.findall(r"^\| `core-c/src/(\w+)/` \|[^|]*\|([^|]*)\|$", text, re.MULTILINE)
    return {room: {seen.strip() for seen in sees.split(",") if seen.strip()} for room, sees in rows}


def rooms_of_build(text: str) -> dict[str, set[str]]:
    """What each room is given: the words after SEES, with CMake's variables put in."""
    variables = dict(re.findall(r"^set\((\w+) ([^)]*)\)", text, re.MULTILINE))
    rooms = {}
    for room, arguments in re.findall(r"^room\((\w+) ([^)]*)\)", text, re.MULTILINE):
        sees = arguments.partition("SEES")[2]
        for name, value in variables.items():
            sees = sees.replace(f"${{{name}}}", value)
        rooms[room] = set(sees.split())
    return rooms


def test_table_of_rooms_is_what_the_build_allows() -> None:
    table = rooms_of_table((CHECKOUT / "ARCHITECTURE.md").read_text())
    build = rooms_of_build((CHECKOUT / "core-c" / "CMakeLists.txt").read_text())
    # A room of headers alone is no object library.
    headers = {p.name for p in (CHECKOUT / "core-c" / "src").iterdir() if p.is_dir() and not list(p.glob("*.c"))}
    assert table == build | {room: set() for room in headers}


def test_every_folder_of_the_core_is_a_room() -> None:
    folders = {p.name for p in (CHECKOUT / "core-c" / "src").iterdir() if p.is_dir()}
    assert set(rooms_of_table((CHECKOUT / "ARCHITECTURE.md").read_text())) == folders
