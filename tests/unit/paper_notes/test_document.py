"""docs/paper-notes.md against the tests beside this one, and against what refers to its entries."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from rewindow import algorithms, detectors, schedulers

ROOT = Path(__file__).parent.parent.parent.parent
DOCUMENT = (ROOT / "docs" / "paper-notes.md").read_text()
TESTS = Counter(
    name
    for path in Path(__file__).parent.glob("test_*.py")
    for name in re.findall(r"^def (test_[bctsel]_\d+)\(", path.read_text(), flags=re.MULTILINE)
)
KINDS = {"misprint", "ambiguity", "infeasible", "omission", "contradiction"}
FIELDS = ("Where", "Print", "Proof", "We do")


def entries(text: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Title and fields of each entry; the same id twice raises."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        heading, body = part.split("\n", 1)
        name, title = heading.split(" ", 1)
        if name in found:
            raise ValueError(name)
        body = re.split(r"^(?:## |<a )", body, flags=re.MULTILINE)[0]
        fields = re.findall(r"^- \*\*([^*]+)\*\*: (.*?)(?=^- \*\*|\Z)", body, flags=re.MULTILINE | re.DOTALL)
        found[name] = title, {key: " ".join(value.split()) for key, value in fields}
    return found


def spans(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def proofs(name: str, text: str) -> tuple[list[str], list[str]]:
    """What a proof names that exists, and what does not: tests of this folder, or files (`::` a test)."""
    there, missing = [], []
    for span in spans(text):
        if re.fullmatch(r"test_[a-z]+_\d+", span):
            exists = TESTS[span] == 1 and span == f"test_{name.lower().replace('-', '_')}"
        elif "/" in span and " " not in span:
            path, _, test = span.partition("::")
            exists = (ROOT / path).is_file() and (not test or f"def {test}(" in (ROOT / path).read_text())
        else:
            continue
        (there if exists else missing).append(span)
    return there, missing


def faults(text: str) -> list[str]:
    """What is wrong with the document: entries, table, proofs, options."""
    found = []
    options = {a.name: {o.name: o for o in a.options} for a in (*algorithms(), *schedulers())}
    for detector in detectors():  # which may have a controller's name
        options[f"detector {detector.name}"] = {o.name: o for o in detector.options}
    by_name = {o.name: o for of in options.values() for o in of.values()}
    known = entries(text)
    rows = re.findall(r"^\| \[([A-Z]-\d+)\]\(#([a-z]-\d+)\) \| (\w+) \| (.*?) \| ([^|]+) \|$", text, flags=re.MULTILINE)
    if [row[0] for row in rows] != list(known):
        found.append("the table does not list the entries")
    for name, anchor, kind, title, _ in rows:
        if anchor != name.lower() or f'<a id="{anchor}"></a>' not in text:
            found.append(f"{name}: no anchor")
        if kind not in KINDS:
            found.append(f"{name}: kind {kind}")
        if title != known.get(name, ("",))[0]:
            found.append(f"{name}: titles differ")
    for name, (_, fields) in known.items():
        if tuple(fields) != FIELDS or not all(fields.values()):
            found.append(f"{name}: fields")
            continue
        there, missing = proofs(name, fields["Proof"])
        if missing or not there:
            found.append(f"{name}: proof {missing or 'none'}")
        claimed = re.findall(r"Option: `(\w+)=([^`]+)` \(([^)]+)\)", fields["We do"])
        if len(claimed) != fields["We do"].count("Option:"):
            found.append(f"{name}: an option that cannot be read")
        for option, default, names in claimed:
            for algorithm in names.split(", "):
                if (has := options.get(algorithm, {}).get(option)) is None or has.default != default:
                    found.append(f"{name}: {algorithm} has no {option}={default}")
    for option, value in re.findall(r"`(\w+)=([^`\s]+)`", text):
        values = by_name[option].values if option in by_name else ""
        if not values or ("|" in values and value not in values.split("|")):
            found.append(f"{option}={value}")
    referred = {f"{letter}-{number}" for letter, number in re.findall(r"\b([BCTSEL])-(\d+)\b", text)}
    found += [f"{name}: not an entry" for name in sorted(referred - set(known))]
    return found


def test_the_document_is_true() -> None:
    assert faults(DOCUMENT) == []
    cited = {span for _, fields in entries(DOCUMENT).values() for span in spans(fields["Proof"])}
    assert set(TESTS) <= cited


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("`alpha_form=exponent` (css", "`alpha_form=product` (css"),
        ("`mth_cap=2` (enmcc)", "`mth_cap=2` (nmcc)"),
        ("`mth_cap=2` (enmcc)", "`mth_cape=2` (enmcc)"),
        ("`mth_cap=2` (enmcc)", "`mth_cap=2`"),
        ("`aca_md=half`", "`aca_md=third`"),
        ("`test_c_5`", "`test_c_6`"),
        ("`test_c_5`", "`test_c_500`"),
        ("- **Proof**: `test_c_5`.\n", ""),
        ("- **Proof**: `test_c_5`.\n", "- **Proof**: obvious.\n"),
        ("test_replays.py::test_window", "test_replays.py::test_a_window"),
        ("### T-9 ", "### T-90 "),
        ("| misprint | RTT smoothing", "| mistake | RTT smoothing"),
        ("### C-5 RTT smoothing", "### C-5 Smoothing"),
        ('<a id="s-4"></a>', ""),
        ("corrects E-10", "corrects E-100"),
    ],
)
def test_a_wrong_document_is_found(right: str, wrong: str) -> None:
    assert right in DOCUMENT
    assert faults(DOCUMENT.replace(right, wrong, 1)) != []


def test_what_refers_to_an_entry_finds_it() -> None:
    """`(C-11)` in the reason of an option, in a comment or in another document."""
    known = entries(DOCUMENT)
    texts = [o.reason for a in (*algorithms(), *detectors(), *schedulers()) for o in a.options]
    for folder, kind in (("core-c", "*.[ch]"), ("rewindow", "*.py"), ("docs", "*.md")):
        texts += [path.read_text() for path in (ROOT / folder).rglob(kind)]
    referred = {name for text in texts for name in re.findall(r"\b[BCTSEL]-\d{1,2}\b(?!-)", text)}
    assert len(referred) > 100
    assert sorted(referred - set(known)) == []
