"""Logs of steps as files: what `rewindow-kernel trace` writes and `rewindow specs trace --steps` reads.

Lines of JSON, compressed by gzip or not. The first names the algorithm and its options; each of the others is a step:
an object with the fields of `Step` but choice, row and violated, and the paths as lists in the order of `PathState`.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rewindow.controllers.steps import KINDS, PathState, Step
from rewindow.core import Choice
from rewindow.errors import RewindowError

FORMAT = 1
LINE_BYTES_MAX = 1 << 16
_GZIP = b"\x1f\x8b"
_FIELDS = [f.name for f in dataclasses.fields(Step) if f.name not in ("choice", "row", "violated", "kind", "paths")]
_PATH_FIELDS = [f.name for f in dataclasses.fields(PathState)]
_LISTS = {"set_asked", "set_seen"}
_PLACES = 8


class StepsUnreadable(RewindowError):
    """A log of steps cannot be read: which file, which line, and why."""


def write(path: Path, choice: Choice, steps: Iterable[Step]) -> int:
    """How many steps there were. A name that ends in .gz is compressed."""
    count = 0
    with gzip.open(path, "wt") if path.suffix == ".gz" else open(path, "w") as file:
        file.write(json.dumps({"steps": FORMAT, "algorithm": choice.name, "options": choice.options}) + "\n")
        for step in steps:
            told: dict[str, Any] = {name: getattr(step, name) for name in _FIELDS}
            told["kind"] = step.kind
            told["paths"] = [[getattr(p, name) for name in _PATH_FIELDS] if p else None for p in step.paths]
            file.write(json.dumps(told, separators=(",", ":")) + "\n")
            count += 1
    return count


def read(path: Path) -> Iterator[Choice | Step]:
    """The choice, then each step. StepsUnreadable, OSError."""
    with open(path, "rb") as plain:
        compressed = plain.read(2) == _GZIP
    number = 0
    with gzip.open(path, "rb") if compressed else open(path, "rb") as file:
        try:
            while line := file.readline(LINE_BYTES_MAX):
                number += 1
                if not line.endswith(b"\n"):
                    raise ValueError("the line does not end")
                told = json.loads(line)
                yield _choice(told) if number == 1 else _step(told)
            if number == 0:
                raise ValueError("it is empty")
        except (ValueError, KeyError, TypeError, EOFError, gzip.BadGzipFile, RecursionError) as e:
            raise StepsUnreadable(f"{path}: line {max(number, 1)}: no log of steps ({e})") from e


def _choice(told: dict[str, Any]) -> Choice:
    if told["steps"] != FORMAT:
        raise ValueError(f"format {told['steps']!r}")
    options = told["options"]
    if not isinstance(told["algorithm"], str) or not all(isinstance(v, str) for v in options.values()):
        raise ValueError("an algorithm and options are text")
    return Choice(told["algorithm"], options)


def _number(value: Any) -> int:
    """Of 64 bits; a truth value counts as 0 or 1."""
    if not isinstance(value, int) or not -(1 << 63) <= value < 1 << 64:
        raise ValueError("a field is no integer of 64 bits")
    return int(value)


def _path(told: list[Any] | None) -> PathState | None:
    if told is None:
        return None
    if len(told) != len(_PATH_FIELDS):
        raise ValueError("a path has other fields")
    fields: dict[str, Any] = dict(zip(_PATH_FIELDS, map(_number, told), strict=True))
    for name in ("initial", "recovering"):
        fields[name] = bool(fields[name])
    return PathState(**fields)


def _step(told: dict[str, Any]) -> Step:
    fields: dict[str, Any] = {
        name: tuple(map(_number, told[name])) if name in _LISTS else _number(told[name]) for name in _FIELDS
    }
    fields["initial_ss"] = bool(fields["initial_ss"])
    paths = tuple(_path(p) for p in told["paths"])
    if len(paths) != _PLACES or not 0 <= fields["path"] < _PLACES or any(len(fields[name]) != 4 for name in _LISTS):
        raise ValueError("a step has other places")
    if told["kind"] not in KINDS:
        raise ValueError("an unknown kind of step")
    return Step(choice=0, row=0, violated=(), kind=told["kind"], paths=paths, **fields)
