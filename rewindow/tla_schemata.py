"""All mutants of a TLA+ specification in one module, so that one run of TLC judges them.

These are mutant schemata (Untch, Offutt, Harrold 1993): each definition that mutants change becomes a choice between
its variants. The variable `mutant__`, which has one value in a behaviour, makes the choice. A property that does not
hold prints which mutant it kills, and that mutant takes no step any more.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rewindow import specs
from rewindow.tla_mutants import Definition, Mutant, definitions_of, tokens_of

MODULE = "Mutants__"
_EXTENDS = re.compile(r"^EXTENDS\s+\w+(?:\s*,\s*\w+)*|^-{4,}\s*MODULE\s+\w+\s*-{4,}", re.MULTILINE)
_AT = re.compile(r'<<"at", (\d+)>>')
_KILLED = re.compile(r'<<"killed", (\d+), "(\w+)">>')
_BEGINNING = {"INIT": "Init", "NEXT": "Next"}


def schemata_of(text: str, mutants: Mapping[int, Mutant], roots: Sequence[str]) -> str:
    """The module with every one of these mutants in it, by its number; `mutant__ = 0` is the module itself."""
    changed: dict[str, dict[int, Mutant]] = {}
    for number, mutant in mutants.items():
        changed.setdefault(mutant.definition, {})[number] = mutant
    definitions = definitions_of(text, roots)
    result = text
    for name in sorted(changed, key=lambda name: definitions[name].start, reverse=True):
        definition = definitions[name]
        variants = {0: text[definition.start : definition.body.end]}
        variants |= {number: m.text[definition.start : m.end] for number, m in changed[name].items()}
        family = "\n".join(_family(definition, variants))
        result = f"{result[: definition.start]}{family}{result[definition.body.end :]}"
    heads = list(_EXTENDS.finditer(result))
    after = heads[-1].end()
    return f"{result[:after]}\nVARIABLE mutant__\n{result[after:]}"


def _family(definition: Definition, variants: Mapping[int, str]) -> Iterator[str]:
    """Each variant under a name of its own, then the choice under the definition's name."""
    arguments = f"({', '.join(definition.parameters)})" if definition.parameters else ""

    def named(number: int) -> str:
        return f"{definition.name}__{number}"

    def choice(numbers: list[int]) -> str:
        if len(numbers) == 1:
            return f"{named(numbers[0])}{arguments}"
        half = len(numbers) // 2
        return f"(IF mutant__ < {numbers[half]} THEN {choice(numbers[:half])} ELSE {choice(numbers[half:])})"

    for number, source in variants.items():
        at = source.index("==")
        head, body = source[len(definition.name) : at], source[at + 2 :]
        if definition.names:  # a function knows itself alone
            body = _renamed(body, definition.name, named(number))
        # On a line of its own, at its column: bullets are told apart by their columns.
        yield f"{named(number)}{head}==\n{' ' * (at + 2)}{body}"
    numbers = sorted(variants.keys() - {0})
    chosen = choice(numbers)
    known = ", ".join(map(str, numbers))
    yield f"{definition.name}{arguments} == IF mutant__ \\notin {{{known}}} THEN {named(0)}{arguments} ELSE {chosen}"


def _renamed(text: str, name: str, new: str) -> str:
    for token in reversed(tokens_of(text)):
        if token.text == name:
            text = f"{text[: token.start]}{new}{text[token.end :]}"
    return text


def steps_of(text: str, name: str) -> str | None:
    """A of a property `name == [][ A ]_vars`, each word at its column; None where it is defined otherwise, or not."""
    tokens = tokens_of(text)
    tops = [i for i, token in enumerate(tokens) if token.column == 0] + [len(tokens)]
    for here, following in itertools.pairwise(tops):
        head, body = [t.text for t in tokens[here : here + 2]], tokens[here + 2 : following]
        if head != [name, "=="]:
            continue
        shape = [t.text for t in body]
        if shape[:1] != ["[]["] or shape[-2:] != ["]_", "vars"] or shape.count("]_") != 1:
            return None
        first, last = body[0], body[-2]
        return f"{' ' * (first.column + 3)}{text[first.end : last.start]}"
    return None


def judge_of(folder: Path, module: str, config: specs.Config, numbers: Sequence[int]) -> tuple[str, str] | None:
    """A module and its *.cfg that judge these mutants; None where a judge has temporal properties."""
    taken = {keyword: rest.strip() for keyword, rest in config.statements if keyword in _BEGINNING}
    if taken.keys() != _BEGINNING.keys():
        return None
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.tla"))]
    members, looked_at = ", ".join(map(str, numbers)), max(numbers) + 1
    lines = [
        f"---- MODULE {MODULE} ----",
        f"EXTENDS {Path(module).stem}",
        "LOCAL TLC__ == INSTANCE TLC",
        f"ASSUME \\A i \\in {{{members}}} : TLC__!TLCSet(i, FALSE)",
        f"ASSUME TLC__!TLCSet({looked_at}, <<>>)",
        "Dead__ == TLC__!TLCGet(mutant__)",
        # Printed before TLC evaluates anything of a mutant, so the last one is the mutant at which TLC stops.
        f"At__ == IF TLC__!TLCGet({looked_at}) = <<mutant__>> THEN TRUE",
        f'        ELSE TLC__!PrintT(<<"at", mutant__>>) /\\ TLC__!TLCSet({looked_at}, <<mutant__>>)',
        "Judged__(holds, property) ==",
        "    IF Dead__ THEN TRUE ELSE IF At__ /\\ holds THEN TRUE",
        '    ELSE TLC__!PrintT(<<"killed", mutant__, property>>) /\\ TLC__!TLCSet(mutant__, TRUE)',
        f"Init__ == mutant__ \\in {{{members}}} /\\ {taken['INIT']}",
        f"Next__ == mutant__' = mutant__ /\\ ~ Dead__ /\\ At__ /\\ {taken['NEXT']}",
    ]
    lines += [f'{name}__ == Judged__({name}, "{name}")' for name in config.invariants]
    for name in config.properties:
        steps = next((found for text in texts if (found := steps_of(text, name)) is not None), None)
        if steps is None:
            return None
        lines += [f"{name}__A ==", steps]
        lines += [f'{name}__ == [][Judged__({name}__A, "{name}")]_<<vars, mutant__>>']
    statements = [f"{keyword} {name}__" for keyword, name in _BEGINNING.items()]
    for keyword, rest in config.statements:
        if keyword in specs.INVARIANTS or keyword in specs.PROPERTIES:
            statements.append(keyword + "".join(f" {name}__" for name in rest.split()))
        elif keyword not in _BEGINNING:
            statements.append(f"{keyword}{rest}")
    return "\n".join([*lines, "====", ""]), "\n".join([*statements, ""])


def kills_of(printed: Sequence[str]) -> dict[int, str]:
    """Killed mutant -> the first property that was violated."""
    found: dict[int, str] = {}
    for line in printed:
        if killed := _KILLED.fullmatch(line):
            found.setdefault(int(killed[1]), killed[2])
    return found


def mutant_at(printed: Sequence[str]) -> int | None:
    """The last mutant that TLC evaluated."""
    return next((int(at[1]) for line in reversed(printed) if (at := _AT.fullmatch(line))), None)
