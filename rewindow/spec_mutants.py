"""Which properties notice a small change of a specification, and which changes none notices.

`rewindow specs mutants` makes every change of a specification's actions by rule (`tla_mutants.py`), has TLC judge each
with the configurations that the manifest names, and says which property kills it. Mutants are judged together first,
many in one run of TLC (`tla_schemata.py`); those that no property kills there are judged again one by one, which says
what comes of each. They are listed in `survivors.json` beside the manifest, each with the reason; the command fails on
every difference from that list. `specs/README.md` describes both.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import re
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rewindow import specs, tla_schemata
from rewindow.tla_mutants import ModuleUnreadable, Mutant, Rules, mutants_of

SURVIVORS = "survivors.json"
SHARE_MIN = 0.95
"""The share of a specification's mutants that properties must kill."""
SLOWER_MAX = 20
"""A mutant may take this many times as long as the specification; its state space may be larger, or infinite."""
SECONDS_MIN = 60
TOGETHER_MAX = 40
"""Mutants in one run of TLC, which must be restarted after each mutant that it cannot evaluate."""

KILLED, DEADLOCK, BROKEN, ENDLESS, SURVIVES, INVALID = (
    "killed",
    "deadlock only",
    "TLC error only",
    "does not end",
    "survives",
    "is no specification",
)
_NO_SPECIFICATION = (150, 151, 255)
"""TLC's exit statuses for a module or a configuration that it cannot read."""


@dataclass
class Plan:
    """A manifest's `mutation`. next: definitions that only list actions; they are not changed themselves."""

    judges: list[str]
    next: list[str]
    members: dict[str, list[str]]
    given: dict[str, str]


@dataclass
class Judged:
    """A mutant and its outcome. by, judge: the property that kills it, and its configuration; hint: TLC's message."""

    spec: str
    mutant: Mutant
    outcome: str
    by: str = ""
    judge: str = ""
    seconds: float = 0.0
    hint: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "spec": self.spec,
            "mutant": self.mutant.key,
            "line": self.mutant.line,
            "outcome": self.outcome,
            "by": self.by or None,
            "judge": self.judge or None,
            "hint": self.hint or None,
            "seconds": round(self.seconds, 3),
        }

    def as_text(self) -> str:
        where = f"{self.spec}:{self.mutant.line}"
        said = f"killed by {self.by} ({self.judge})" if self.outcome == KILLED else f"{self.outcome}{self.hint}"
        return f"{where} {self.mutant.key}\n        {said}"


@dataclass
class Tally:
    """The mutants of one specification, judged. all_of_them: no sample was taken."""

    spec: str
    judged: list[Judged]
    differences: list[str] = field(default_factory=list)
    all_of_them: bool = True

    def count(self, outcome: str) -> int:
        return sum(j.outcome == outcome for j in self.judged)

    @property
    def counted(self) -> int:
        return len(self.judged) - self.count(INVALID)

    @property
    def share(self) -> float:
        return self.count(KILLED) / self.counted if self.counted else 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "spec": self.spec,
            "mutants": self.counted,
            **{o.replace(" ", "_"): self.count(o) for o in (KILLED, DEADLOCK, BROKEN, ENDLESS, SURVIVES)},
            "share": round(self.share, 4),
            "differences": self.differences,
        }


def plan_of(manifest: specs.Manifest) -> Plan | None:
    """The manifest's `mutation`, or None. Raises SpecUnreadable when it is malformed."""
    if manifest.mutation is None:
        return None
    place = f"{manifest.folder / 'manifest.json'}: mutation"
    taken = specs.take_fields(
        place,
        manifest.mutation,
        {"judges": (list, ...), "next": (list, ["Next"]), "members": (dict, {}), "given": (dict, {})},
    )
    for name in taken["judges"]:
        expected = manifest.configuration(str(name))
        if expected.exit != 0:
            raise specs.SpecUnreadable(f"{place}: {name} is violated as it is; it cannot judge")
    if not taken["judges"]:
        raise specs.SpecUnreadable(f"{place}: judges names no configuration")
    return Plan(**taken)


def constants_of(text: str) -> dict[str, Any]:
    """The constants of a *.cfg with their values, where an expression can be evaluated with the value."""
    config, found = specs.Config.parse(text), {}
    for name, value in re.findall(r"(\w+)\s*=\s*(\{[^}]*\}|\S+)", config.constants_text()):
        try:
            parsed = specs.parse_value(value)
        except ValueError:
            continue
        if isinstance(parsed, list):
            if all(isinstance(item, str) and f'"{item}"' in value for item in parsed):
                found[name] = frozenset(parsed)
        elif not isinstance(parsed, str) or value.startswith('"'):
            found[name] = parsed
    return found


def mutants(manifest: specs.Manifest, plan: Plan) -> list[Mutant]:
    """Every mutant of a specification's module. SpecUnreadable when the module cannot be parsed."""
    path = manifest.folder / f"{manifest.spec}.tla"
    judges = [
        constants_of((manifest.folder / manifest.configuration(name).config).read_text(encoding="utf-8"))
        for name in plan.judges
    ]
    try:
        return mutants_of(path.read_text(encoding="utf-8"), plan.next, Rules(plan.members, list(plan.given), judges))
    except ModuleUnreadable as e:
        raise specs.SpecUnreadable(f"{path}: {e}") from e


def chosen_of(every: Sequence[Mutant], sample: int | None, wanted: Callable[[Mutant], bool]) -> list[Mutant]:
    """The wanted mutants, in their order. sample: how many of all to take, always the same ones."""
    ordered = sorted(every, key=lambda m: hashlib.sha256(m.key.encode()).digest())
    sampled = {m.key for m in ordered[:sample]}
    return [m for m in every if m.key in sampled and wanted(m)]


@dataclass
class _Baseline:
    """The specification itself under a judge: how long it takes, how many states it has.

    archive: TLC's classes as Java has loaded them, so that the next run begins sooner.
    """

    seconds: float
    generated: int
    distinct: int
    archive: Path

    @property
    def java_options(self) -> list[str]:
        return [f"-XX:SharedArchiveFile={self.archive}", "-Xlog:disable"]


def _baseline(manifest: specs.Manifest, name: str, tlc: Path, stop: threading.Event, folder: Path) -> _Baseline:
    """Runs the specification itself. SpecUnreadable when a property is violated: it could not tell mutants apart."""
    archive = folder / f"{name}.jsa"
    # If Java cannot write or use the archive, it runs without.
    options = [f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable"]
    outcome = _run(manifest, name, tlc, stop, java_options=options)
    if outcome.exit != 0 or outcome.stopped or not outcome.distinct:
        said = outcome.stopped or specs.verdict(outcome.violated, outcome.exit)
        raise specs.SpecUnreadable(f"{manifest.spec}: {name} cannot judge: {said}")
    return _Baseline(outcome.seconds, outcome.generated, outcome.distinct, archive)


def _run(
    manifest: specs.Manifest,
    judge: str,
    tlc: Path,
    stop: threading.Event,
    *,
    changed: str | None = None,
    seconds_max: float | None = None,
    deadlock: bool = False,
    java_options: Sequence[str] = (),
) -> specs.Outcome:
    """Runs TLC on a judge with the changed module, without deadlock checking, which would precede a property."""
    expected = manifest.configuration(judge)
    with tempfile.TemporaryDirectory(prefix="rewindow-mutants-") as temporary:
        folder = Path(temporary)
        manifest.copy_to(folder)
        if changed is not None:
            (folder / f"{manifest.spec}.tla").write_text(changed, encoding="utf-8")
        return specs.run_tlc(
            folder,
            expected.module,
            expected.config,
            tlc=tlc,
            memory_mb=expected.memory_mb,
            seconds_max=seconds_max or expected.seconds_max,
            arguments=() if deadlock else ("-deadlock",),
            short=True,
            coverage=False,
            java_options=java_options,
            stop=stop,
        )


@dataclass(frozen=True)
class _Kill:
    judge: str
    by: str


def _kills_together(
    manifest: specs.Manifest, plan: Plan, numbered: dict[int, Mutant], tlc: Path, stop: threading.Event
) -> dict[int, _Kill]:
    """Which of these mutants a property kills, and which property, by one run of TLC for a judge.

    TLC stops at a mutant that it cannot work out; it is begun again without that one. Raises SpecUnreadable where the
    module itself does not hold beside its mutants.
    """
    kills: dict[int, _Kill] = {}
    text = (manifest.folder / f"{manifest.spec}.tla").read_text(encoding="utf-8")
    for judge in plan.judges:
        wanted = numbered.keys() - kills.keys()
        while wanted:
            outcome = _run_together(manifest, plan, judge, text, {n: numbered[n] for n in sorted(wanted)}, tlc, stop)
            if outcome is None:
                break
            found = tla_schemata.kills_of(outcome.printed)
            if 0 in found:
                raise specs.SpecUnreadable(f"{manifest.spec}: {judge} cannot judge: {found[0]} is violated")
            kills |= {number: _Kill(judge, by) for number, by in found.items()}
            wanted -= found.keys()
            if outcome.exit == 0 and not outcome.stopped:
                break
            at = tla_schemata.mutant_at(outcome.printed)
            if at not in wanted:
                said = outcome.stopped or " ".join(outcome.errors)[:200]
                raise specs.SpecUnreadable(f"{manifest.spec}: {judge} cannot judge many at once: {said}")
            wanted.remove(at)
    return kills


def _run_together(
    manifest: specs.Manifest,
    plan: Plan,
    judge: str,
    text: str,
    numbered: dict[int, Mutant],
    tlc: Path,
    stop: threading.Event,
) -> specs.Outcome | None:
    """None when this judge cannot judge many at once."""
    expected = manifest.configuration(judge)
    with tempfile.TemporaryDirectory(prefix="rewindow-mutants-") as temporary:
        folder = Path(temporary)
        manifest.copy_to(folder)
        files = tla_schemata.judge_of(folder, expected.module, manifest.config(expected), [0, *numbered])
        if files is None:
            return None
        schemata = tla_schemata.schemata_of(text, numbered, plan.next)
        (folder / f"{manifest.spec}.tla").write_text(schemata, encoding="utf-8")
        for suffix, content in zip((".tla", ".cfg"), files, strict=True):
            (folder / f"{tla_schemata.MODULE}{suffix}").write_text(content, encoding="utf-8")
        return specs.run_tlc(
            folder,
            f"{tla_schemata.MODULE}.tla",
            f"{tla_schemata.MODULE}.cfg",
            tlc=tlc,
            memory_mb=expected.memory_mb,
            seconds_max=SECONDS_MIN + SLOWER_MAX * len(numbered),
            arguments=("-deadlock",),
            coverage=False,
            stop=stop,
        )


def judge_mutant(
    manifest: specs.Manifest,
    plan: Plan,
    mutant: Mutant,
    baselines: dict[str, _Baseline],
    tlc: Path,
    stop: threading.Event,
) -> Judged:
    """Asks one judge after the other until a property is violated."""
    worst, hint, seconds = SURVIVES, "", 0.0
    differs: list[str] = []
    for name in plan.judges:
        base = baselines[name]
        limit = max(SECONDS_MIN, SLOWER_MAX * base.seconds)
        options = base.java_options
        outcome = _run(manifest, name, tlc, stop, changed=mutant.text, seconds_max=limit, java_options=options)
        seconds += outcome.seconds
        if outcome.violated is not None and outcome.violated != "Deadlock":
            # TLC does not name the temporal property that fails.
            return Judged(manifest.spec, mutant, KILLED, outcome.violated or "a temporal property", name, seconds)
        if outcome.exit in _NO_SPECIFICATION:
            return Judged(manifest.spec, mutant, INVALID, seconds=seconds, hint=": " + " ".join(outcome.errors)[:200])
        if outcome.stopped:
            worst = ENDLESS if worst == SURVIVES else worst
        elif outcome.exit != 0:
            worst = BROKEN
            hint = f": {' '.join(outcome.errors)[:200]}"
        elif (outcome.generated, outcome.distinct) != (base.generated, base.distinct):
            differs.append(name)
            if worst == SURVIVES:
                hint = hint or f", with {outcome.distinct} states in {name} instead of {base.distinct}"
    if worst == SURVIVES:
        for name in differs:  # where a state has no step any more, there are fewer steps
            outcome = _run(manifest, name, tlc, stop, changed=mutant.text, deadlock=True)
            seconds += outcome.seconds
            if outcome.violated == "Deadlock":
                return Judged(manifest.spec, mutant, DEADLOCK, "", name, seconds, f" in {name}")
        hint = hint or ", with the same numbers of states"
    return Judged(manifest.spec, mutant, worst, "", "", seconds, hint)


def judge(
    manifest: specs.Manifest,
    tlc: Path,
    *,
    jobs: int = 2,
    sample: int | None = None,
    wanted: Callable[[Mutant], bool] = lambda mutant: True,
    on_judged: Callable[[Judged], None] | None = None,
) -> Tally | None:
    """Judges the mutants of a specification and compares them with its list of survivors.

    None when its manifest has no `mutation`. Raises SpecUnreadable, and CheckerMissing.
    """
    plan = plan_of(manifest)
    if plan is None:
        return None
    every = mutants(manifest, plan)
    chosen = chosen_of(every, sample, wanted)
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="rewindow-mutants-") as temporary, specs.threads(jobs, stop) as pool:
        folder = Path(temporary)
        alone = {name: pool.submit(_baseline, manifest, name, tlc, stop, folder) for name in plan.judges}
        baselines = {name: run.result() for name, run in alone.items()}
        place = {m.key: i for i, m in enumerate(chosen)}
        judged: dict[int, Judged] = {}

        def take(result: Judged) -> None:
            judged[place[result.mutant.key]] = result
            if on_judged:
                on_judged(result)

        # Neighbours change the same definition and behave alike, so each run gets mutants from all definitions.
        numbered = dict(enumerate(chosen, 1))
        runs = -(-len(chosen) // TOGETHER_MAX)
        shares = [{n: m for n, m in numbered.items() if n % runs == share} for share in range(runs)]
        together = [pool.submit(_kills_together, manifest, plan, share, tlc, stop) for share in shares]
        left = dict(numbered)
        for future in concurrent.futures.as_completed(together):
            for number, kill in sorted(future.result().items()):
                take(Judged(manifest.spec, left.pop(number), KILLED, kill.by, kill.judge))
        running = [pool.submit(judge_mutant, manifest, plan, m, baselines, tlc, stop) for m in left.values()]
        for one in concurrent.futures.as_completed(running):
            take(one.result())
    tally = Tally(manifest.spec, [judged[i] for i in sorted(judged)], all_of_them=len(chosen) == len(every))
    tally.differences = differences_of(tally, {m.key for m in every}, read_survivors(manifest.folder))
    return tally


def read_survivors(folder: Path) -> dict[str, dict[str, str]]:
    """survivors.json: the mutant's key -> its outcome and the reason. Empty when there is no such file."""
    path = folder / SURVIVORS
    if not path.exists():
        return {}
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        taken = [
            specs.take_fields(str(path), e, {"mutant": (str, ...), "outcome": (str, ...), "because": (str, ...)})
            for e in entries
        ]
    except (OSError, ValueError, TypeError, RecursionError) as e:
        raise specs.SpecUnreadable(f"{path}: {e}") from e
    return {entry["mutant"]: entry for entry in taken}


def write_survivors(folder: Path, tally: Tally) -> None:
    """Lists the mutants that no property killed. Existing reasons stay; those of new entries are empty."""
    known = read_survivors(folder)
    entries = [
        {"mutant": j.mutant.key, "outcome": j.outcome, "because": known.get(j.mutant.key, {}).get("because", "")}
        for j in tally.judged
        if j.outcome not in (KILLED, INVALID)
    ]
    (folder / SURVIVORS).write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def differences_of(tally: Tally, every: set[str], listed: dict[str, dict[str, str]]) -> list[str]:
    """The differences from the list of survivors, and a share of kills below the least."""
    found = []
    for j in tally.judged:
        entry = listed.get(j.mutant.key)
        if j.outcome == INVALID:
            found.append(f"is no specification, a rule is wrong: {j.mutant.key}{j.hint}")
        elif j.outcome == KILLED and entry:
            found.append(f"is listed as a survivor, and {j.by} kills it: {j.mutant.key}")
        elif j.outcome != KILLED and not entry:
            found.append(f"{j.outcome}, and is not listed: {j.mutant.key}")
        elif entry and entry["outcome"] != j.outcome:
            found.append(f"{j.outcome}, and {entry['outcome']} is listed: {j.mutant.key}")
        if entry and not entry["because"].strip():
            found.append(f"is listed without a reason: {j.mutant.key}")
    found += [f"is listed, and there is no such mutant: {key}" for key in listed if key not in every]
    if tally.all_of_them and tally.share < SHARE_MIN:
        found.append(f"properties kill {tally.share:.1%} of the mutants; {SHARE_MIN:.0%} is the least")
    return found


def table(tallies: Sequence[Tally]) -> str:
    """In Markdown."""
    lines = [
        "| specification | mutants | killed by a property | share | deadlock only | TLC error only | without end "
        "| survive |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for t in tallies:
        others = " | ".join(str(t.count(o)) for o in (DEADLOCK, BROKEN, ENDLESS, SURVIVES))
        lines.append(f"| {t.spec} | {t.counted} | {t.count(KILLED)} | {t.share:.1%} | {others} |")
    return "\n".join(lines)


# The command line: `rewindow specs mutants`


def add_command(commands: Any) -> None:
    p = specs.add_command(
        commands, "mutants", "change each action by rule, and print the property that notices", _mutants
    )
    p.add_argument(
        "--jobs", type=int, default=specs.PROCESSES_MAX, metavar="N", help="TLC processes at once; default: 2"
    )
    p.add_argument("--sample", type=int, metavar="N", help="judge only N mutants of each, always the same ones")
    p.add_argument("--only", metavar="TEXT", help="judge only mutants whose line in the list contains TEXT")
    p.add_argument("--list", action="store_true", help="list the mutants and run nothing")
    p.add_argument("--write", action="store_true", help=f"rewrite {SURVIVORS} of each specification")
    p.add_argument("--json", action="store_true", help="print one JSON document")


def _mutants(args: argparse.Namespace) -> int:
    found = [m for m in specs.manifests(args.folder, args.specs) if m.mutation is not None]
    if not found:
        raise specs.SpecUnreadable(f"{args.folder}: no manifest here says how mutants are judged (mutation)")

    def wanted(mutant: Mutant) -> bool:
        return not args.only or args.only in mutant.key

    if args.list:
        for manifest in found:
            plan = plan_of(manifest)
            assert plan
            for m in chosen_of(mutants(manifest, plan), args.sample, wanted):
                print(f"{manifest.spec}:{m.line} {m.key}")
        return specs.AS_PINNED
    tlc = specs.jar(args.jar)
    began = time.monotonic()
    tallies = []
    for manifest in found:
        say = None if args.json else lambda judged: print(judged.as_text(), flush=True)
        tally = judge(manifest, tlc, jobs=max(args.jobs, 1), sample=args.sample, wanted=wanted, on_judged=say)
        assert tally
        if args.write:
            if not tally.all_of_them:
                raise specs.SpecUnreadable(f"{manifest.spec}: the list is of all mutants: without --sample and --only")
            write_survivors(manifest.folder, tally)
        tallies.append(tally)
    differ = any(t.differences for t in tallies)
    if args.json:
        print(json.dumps({"specs": [t.as_json() | {"judged": [j.as_json() for j in t.judged]} for t in tallies]}))
    else:
        for t in tallies:
            for difference in t.differences:
                print(f"FAILED  {t.spec}: {difference}")
        print(f"\n{table(tallies)}\n\n{time.monotonic() - began:.0f} s")
    return specs.DIFFERENT if differ else specs.AS_PINNED
