"""Mutants of specifications: which changes the rules make, and what is said of those that no property kills."""

import json
from collections import Counter

import pytest

from rewindow import cli, spec_mutants, specs, tla_mutants, tla_schemata
from rewindow.tla_mutants import ModuleUnreadable, Rules, mutants_of

TINY = r"""
---- MODULE Tiny ----
EXTENDS Naturals
CONSTANTS Most, Names, Printed
VARIABLES count, owner
vars == <<count, owner>>
Nobody == 0
Init == count = 0 /\ owner = [n \in Names |-> Nobody]
Room == count < Most  \* /\ a comment is /\ not changed
Up(n) ==
    /\ Room
    /\ owner[n] = Nobody \/ "again" \in Printed
    /\ count' = count + 1
    /\ owner' = [owner EXCEPT ![n] = count']
    (* /\ count' = 7 *)
Next == \E n \in Names : Up(n)
Spec == Init /\ [][Next]_vars /\ WF_vars(Next)
====
"""
RULES = Rules({"Names": ["n"]}, [], [{"Most": 3, "Printed": frozenset()}])


def changes(module, rules=RULES, roots=("Next",)):
    return [m.key for m in mutants_of(module, roots, rules)]


def body(text, rules=RULES):
    """The changes of an action `Act(n)` with this body."""
    module = f"VARIABLES x, y\nvars == <<x, y>>\nAct(n) ==\n{text}\nNext == \\E n \\in Names : Act(n)\n===="
    return [m.key.removeprefix("Act: ") for m in mutants_of(module, ["Next"], rules)]


def test_every_rule_makes_its_changes_and_no_others():
    assert changes(TINY) == [
        "Room: comparison changed: Room == count {< -> <=} Most",
        "Room: comparison changed: Room == count {< -> >} Most",
        "Room: one more or less: Room == count < {Most -> (Most + 1)}",
        "Room: one more or less: Room == count < {Most -> (Most - 1)}",
        "Up: conjunct dropped: /\\ {Room -> TRUE}",
        'Up: disjunct dropped: /\\ {owner[n] = Nobody -> FALSE} \\/ "again" \\in Printed',
        'Up: conjunct dropped: /\\ {owner[n] = Nobody \\/ "again" \\in Printed -> TRUE}',
        'Up: members swapped: /\\ owner[{n -> another}] = Nobody \\/ "again" \\in Printed',
        'Up: comparison changed: /\\ owner[n] {= -> #} Nobody \\/ "again" \\in Printed',
        'Up: comparison changed: /\\ owner[n] = Nobody \\/ "again" {\\in -> \\notin} Printed',
        "Up: conjunct dropped: /\\ {count' = count + 1 -> UNCHANGED <<count>>}",
        "Up: one more or less: /\\ count' = count + {1 -> 0}",
        "Up: one more or less: /\\ count' = count + {1 -> 2}",
        "Up: conjunct dropped: /\\ {owner' = [owner EXCEPT ![n] = count'] -> UNCHANGED <<owner>>}",
        "Up: members swapped: /\\ owner' = [owner EXCEPT ![{n -> another}] = count']",
        "Up: prime dropped: /\\ owner' = [owner EXCEPT ![n] = count{' -> }]",
    ]


def test_a_mutant_is_the_module_with_one_change():
    for mutant in mutants_of(TINY, ["Next"], RULES):
        before, after = TINY.splitlines(), mutant.text.splitlines()
        changed = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        assert changed == [mutant.line - 1]


def test_bullets_end_where_a_word_stands_at_their_column():
    text = """
    /\\ \\/ x = 1
          /\\ y = 2
       \\/ x = 3
    /\\ x' = IF y = 4 THEN x ELSE y
    /\\ UNCHANGED y"""
    found = [key for key in body(text) if "dropped" in key]
    assert found == [
        "conjunct dropped: /\\ {\\/ x = 1 /\\ y = 2 \\/ x = 3 -> TRUE}",
        "conjunct dropped: /\\ \\/ {x = 1 -> TRUE}",
        "disjunct dropped: /\\ \\/ {x = 1 /\\ y = 2 -> FALSE}",
        "conjunct dropped: /\\ {y = 2 -> TRUE}",
        "disjunct dropped: \\/ {x = 3 -> FALSE}",
        "conjunct dropped: /\\ {x' = IF y = 4 THEN x ELSE y -> UNCHANGED <<x>>}",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A next value given within a choice or an operator is left as it was, too.
        (
            "/\\ \\E k \\in {1} : x' = k\n/\\ UNCHANGED y",
            ["conjunct dropped: /\\ {\\E k \\in {1} : x' = k -> UNCHANGED <<x>>}"],
        ),
        # Neither a bound nor a definition is a comparison, and a field of a tuple is no number.
        (
            "/\\ \\E k \\in y[3] : x' = k\n/\\ UNCHANGED y",
            ["conjunct dropped: /\\ {\\E k \\in y[3] : x' = k -> UNCHANGED <<x>>}"],
        ),
        (
            "LET k == y IN x' = k /\\ UNCHANGED y",
            ["conjunct dropped: LET k == y IN {x' = k -> UNCHANGED <<x>>} /\\ UNCHANGED y"],
        ),
        # The names of one type that are bound here are swapped with each other.
        (
            "\\E m \\in Names : UNCHANGED <<x, y>> /\\ y[m] < x[n]",
            [
                "conjunct dropped: \\E m \\in Names : UNCHANGED <<x, y>> /\\ {y[m] < x[n] -> TRUE}",
                "members swapped: \\E m \\in Names : UNCHANGED <<x, y>> /\\ y[{m -> n}] < x[n]",
                "comparison changed: \\E m \\in Names : UNCHANGED <<x, y>> /\\ y[m] {< -> <=} x[n]",
                "comparison changed: \\E m \\in Names : UNCHANGED <<x, y>> /\\ y[m] {< -> >} x[n]",
                "members swapped: \\E m \\in Names : UNCHANGED <<x, y>> /\\ y[m] < x[{n -> m}]",
            ],
        ),
        # Sums are changed as a whole, unless a number in them is.
        (
            "x' = y - x /\\ UNCHANGED y",
            [
                "conjunct dropped: {x' = y - x -> UNCHANGED <<x>>} /\\ UNCHANGED y",
                "one more or less: x' = {y - x -> ((y - x) + 1)} /\\ UNCHANGED y",
                "one more or less: x' = {y - x -> ((y - x) - 1)} /\\ UNCHANGED y",
            ],
        ),
    ],
)
def test_what_is_no_guard_is_not_changed_as_one(text, expected):
    rules = Rules({"Names": ["n", "m"]})
    indented = "\n".join(f"    {line}" for line in text.splitlines())
    found = body(indented, rules)
    assert [key for key in found if "{1 ->" not in key] == expected


def test_code_that_no_judge_reaches_is_not_changed():
    text = """    /\\ IF "old" \\in Printed THEN x' = 5 ELSE x' = y
    /\\ "old" \\in Printed => y = 6
    /\\ UNCHANGED y"""
    found = body(text)
    assert not [key for key in found if "{5 ->" in key or "{6 ->" in key]
    assert any("{\\in -> \\notin}" in key for key in found), "that it is not reached is itself changed"
    both = Rules(judges=[{"Printed": frozenset()}, {"Printed": frozenset(["old"])}])
    assert any("{5 -> 6}" in key for key in body(text, both))


def test_what_would_be_the_same_is_no_change():
    said, meant = body("    /\\ x' = x /\\ y' = y + x"), body("    /\\ UNCHANGED x /\\ y' = y + x")
    assert len(said) == len(meant) == 3
    text = """    /\\ \\/ "old" \\in Printed
       \\/ x = y
    /\\ Printed \\cap {"old"} = {}
    /\\ UNCHANGED <<x, y>>"""
    found = body(text)
    assert [key for key in found if "dropped" in key] == [
        'conjunct dropped: /\\ {\\/ "old" \\in Printed \\/ x = y -> TRUE}',
        "disjunct dropped: \\/ {x = y -> FALSE}",
    ]
    both = Rules(judges=[{"Printed": frozenset()}, {"Printed": frozenset(["old"])}])
    assert len([key for key in body(text, both) if "dropped" in key]) == 4


def test_definitions_that_are_given_are_not_changed():
    assert not any(key.startswith("Room") for key in changes(TINY, Rules(given=["Room"])))


def test_the_same_change_twice_in_a_line_has_two_names():
    found = body("    /\\ x < 1 /\\ x < 1\n    /\\ UNCHANGED <<x, y>>")
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("Next == x' = ", "an expression expected"),
        ("Next == x' = (1", "\\) expected"),
        ("Next == x' = $", "begins no TLA\\+ word"),
        ("Next == x' = 1 ELSE 2", "is left over"),
        ("Init == x = 1", "Next is not defined"),
    ],
)
def test_what_cannot_be_parsed_is_refused(module, reason):
    with pytest.raises(ModuleUnreadable, match=reason):
        mutants_of(module)


@pytest.mark.parametrize("name", [m.parent.name for m in sorted(specs.SPECS.glob("*/manifest.json"))])
def test_every_specification_here_is_parsed_whole(name):
    text = (specs.SPECS / name / f"{name}.tla").read_text()
    definitions = tla_mutants.definitions_of(text, ["Next"])
    assert len(definitions) > 20
    assert len(mutants_of(text)) > 100


# TLC as the judge

COUNTER = r"""
---- MODULE Counter ----
EXTENDS Naturals
CONSTANT Most
VARIABLES count, down
vars == <<count, down>>
Init == count = 0 /\ down = FALSE
Up ==
    /\ count < Most
    /\ count' = count + 1
    /\ UNCHANGED down
Back ==
    /\ count = Most
    /\ count' = 0
    /\ down' = TRUE
Next == Up \/ Back
Spec == Init /\ [][Next]_vars /\ WF_vars(Next)
InRange == count \in 0..Most
DownStays == [][down => down']_vars
ComesBack == (count = 1) ~> (count = 0)
====
"""
JUDGE = "SPECIFICATION Spec\nCONSTANT Most = 2\n"
LATE = "Back: one more or less: /\\ count = {Most -> (Most + 1)}"


@pytest.fixture
def counter(tmp_path):
    """Writes a specification with a judge and gives the command's exit status and what it printed."""
    folder = tmp_path / "Counter"
    folder.mkdir()
    (folder / "Counter.tla").write_text(COUNTER)
    configuration = {"name": "counts", "module": "Counter.tla", "config": "counts.cfg", "suite": "quick", "distinct": 6}
    manifest = {"title": "counts", "configurations": [configuration], "mutation": {"judges": ["counts"]}}
    (folder / "manifest.json").write_text(json.dumps(manifest))

    def judge(properties, *options):
        (folder / "counts.cfg").write_text(JUDGE + properties)
        return cli.main(["specs", "mutants", "--folder", str(tmp_path), *options])

    judge.folder = folder
    return judge


BRANCHES = r"""
---- MODULE Branches ----
EXTENDS Naturals
CONSTANT Names
VARIABLES left, sent
vars == <<left, sent>>
Init == left = [n \in Names |-> 2] /\ sent = 0
Least(S) == CHOOSE a \in S : \A b \in S : a <= b
half[k \in Nat] == IF k < 2 THEN 0 ELSE 1 + half[k - 2]
Take(n) == /\ left[n] = Least({left[m] : m \in Names})
           /\ \/ left[n] > half[3]
              \/ sent > 100
           /\ left' = [left EXCEPT ![n] = @ - 1]
           /\ sent' = sent + 1
Next == \E n \in Names : Take(n)
OneGoes == [][ /\ \E n \in Names : left'[n] + 1 = left[n]
               /\ sent' > sent ]_vars
AllAreThere == sent = 0 => \E n \in Names : ENABLED Take(n)
InRange == \A n \in Names : left[n] \in 1..2
====
"""
BRANCHES_JUDGE = """CONSTANTS Names = {n1, n2}
    n1 = n1
    n2 = n2
INVARIANTS AllAreThere InRange
PROPERTY OneGoes
"""


@pytest.fixture
def branches(tmp_path):
    """Judges the mutants of Branches, which begins with these statements: the outcome of each, and who killed it."""
    folder = tmp_path / "Branches"
    folder.mkdir()
    (folder / "Branches.tla").write_text(BRANCHES)
    configuration = {"name": "both", "module": "Branches.tla", "config": "both.cfg", "suite": "quick", "distinct": 3}
    mutation = {"judges": ["both"], "members": {"Names": ["n", "m"]}}
    (folder / "manifest.json").write_text(
        json.dumps({"title": "branches", "configurations": [configuration], "mutation": mutation})
    )

    def judge(beginning, capsys):
        (folder / "both.cfg").write_text(beginning + BRANCHES_JUDGE)
        cli.main(["specs", "mutants", "--folder", str(tmp_path), "--json"])
        (found,) = json.loads(capsys.readouterr().out)["specs"]
        return {j["mutant"]: (j["outcome"], j["by"]) for j in found["judged"]}

    judge.folder = folder
    return judge


def test_mutants_that_are_judged_together_come_out_as_alone(branches, capsys):
    # A judge that has a SPECIFICATION judges one at a time.
    (branches.folder / "Branches.tla").write_text(
        BRANCHES.replace("OneGoes ==", "Spec == Init /\\ [][Next]_vars\nOneGoes ==")
    )
    alone = branches("SPECIFICATION Spec\n", capsys)
    together = branches("INIT Init\nNEXT Next\n", capsys)
    assert {key: outcome for key, (outcome, _) in together.items()} == {
        key: outcome for key, (outcome, _) in alone.items()
    }
    assert set(together.values()) >= {("killed", "OneGoes"), ("killed", "AllAreThere"), ("killed", "InRange")}
    assert {outcome for outcome, _ in together.values()} == {"killed", "deadlock only", "TLC error only", "survives"}


def test_all_mutants_in_one_module():
    rules = Rules({"Names": ["n", "m"]})
    every = dict(enumerate(mutants_of(BRANCHES, ["Next"], rules), 1))
    module = tla_schemata.schemata_of(BRANCHES, every, ["Next"])
    found = tla_mutants.definitions_of(module, ["Next"])
    for number, mutant in every.items():
        (changed,) = [d for name, d in found.items() if name == f"{mutant.definition}__{number}"]
        body = tla_mutants.definitions_of(mutant.text, ["Next"])[mutant.definition].body

        def parts(node):
            return [(n.kind, n.text.split("__")[0]) for n in tla_mutants.walk(node)]

        assert parts(changed.body) == parts(body)
    # The module itself is the variant 0, and a function calls its own variant.
    assert {"Least__0", "half__0", "Take__0"} <= found.keys()
    assert "half__0[k \\in Nat]" in module
    assert "1 + half__0[k - 2]" in module


def test_what_a_property_asks_of_steps_keeps_its_columns():
    steps = tla_schemata.steps_of(BRANCHES, "OneGoes")
    first, second = steps.splitlines()
    assert first.index("/\\") == second.index("/\\")
    for text in ("P == []x", "P == [][x]_<<x>>", "P == <>[][x]_vars", "Q == [][x]_vars"):
        assert tla_schemata.steps_of(text, "P") is None


def test_the_property_that_kills_is_named(counter, capsys):
    properties = "INVARIANT InRange\nPROPERTIES DownStays ComesBack\n"
    assert counter(properties, "--json") == specs.DIFFERENT
    (found,) = json.loads(capsys.readouterr().out)["specs"]
    outcomes = {j["mutant"]: (j["outcome"], j["by"]) for j in found["judged"]}
    assert outcomes["Up: comparison changed: /\\ count {< -> <=} Most"] == ("killed", "InRange")
    # It stands still in the last state: the property says so, not TLC's own look for deadlocks.
    assert outcomes[LATE] == ("killed", "a temporal property")
    assert outcomes["Back: truth value changed: /\\ down' = {TRUE -> FALSE}"][0] == "survives"
    assert found["mutants"] == len(outcomes)
    assert found["killed"] == [outcome for outcome, _ in outcomes.values()].count("killed")
    assert any("and is not listed" in said for said in found["differences"])


def test_a_deadlock_is_no_property(counter, capsys):
    counter("INVARIANT InRange\n", "--json", "--only", LATE)
    (found,) = json.loads(capsys.readouterr().out)["specs"]
    assert [(j["outcome"], j["by"]) for j in found["judged"]] == [("deadlock only", None)]


def failures(capsys):
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILED")]


def test_survivors_are_pinned_with_reasons(counter, capsys):
    weak = "INVARIANT InRange\n"
    assert counter(weak, "--write") == specs.DIFFERENT
    assert any("95% is the least" in line for line in failures(capsys))
    survivors = counter.folder / "survivors.json"
    entries = json.loads(survivors.read_text())
    assert LATE in [entry["mutant"] for entry in entries]
    assert counter(weak, "--only", LATE) == specs.DIFFERENT
    assert failures(capsys) == [f"FAILED  Counter: is listed without a reason: {LATE}"]
    entries = [entry | {"because": "nothing here asks for progress"} for entry in entries]
    survivors.write_text(json.dumps(entries))
    assert counter(weak, "--only", LATE) == specs.AS_PINNED
    assert not failures(capsys)
    # A property more kills what is listed; a listed mutant that is no longer made is told too.
    gone = {"mutant": "Up: no such change", "outcome": "survives", "because": "it was there once"}
    survivors.write_text(json.dumps([*entries, gone]))
    assert counter("PROPERTY ComesBack\n", "--only", LATE) == specs.DIFFERENT
    assert failures(capsys) == [
        f"FAILED  Counter: is listed as a survivor, and a temporal property kills it: {LATE}",
        "FAILED  Counter: is listed, and there is no such mutant: Up: no such change",
    ]


def test_a_judge_that_does_not_hold_is_refused(counter, capsys):
    assert counter("PROPERTY Nothing\n") == specs.UNREADABLE
    assert "cannot judge" in capsys.readouterr().err


def test_a_sample_is_the_same_each_time(counter, capsys):
    said = set()
    for _ in range(2):
        assert counter("", "--list", "--sample", "3") == specs.AS_PINNED
        said.add(capsys.readouterr().out)
    assert len(said) == 1
    assert len(said.pop().splitlines()) == 3


def test_a_judge_is_neither_offered_to_choose_from_nor_asked_for_mutants_by_hand(counter):
    (counter.folder / "counts.cfg").write_text(JUDGE + "INVARIANT InRange\n")
    path = counter.folder / "manifest.json"
    wanted = json.loads(path.read_text())
    # Out of the range in which it may be chosen; and there is a mutant by hand, which kills another property.
    wanted["constants"] = {"Most": {"min": 3, "max": 5, "meaning": "how far"}}
    other = wanted["configurations"][0] | {"name": "other", "config": "other.cfg"}
    (counter.folder / "other.cfg").write_text("SPECIFICATION Spec\nCONSTANT Most = 3\nPROPERTY ComesBack\n")
    hand = {"name": "stuck", "file": "Counter.tla", "text": "/\\ count = Most", "replacement": "/\\ FALSE"}
    wanted["configurations"].append(other)
    wanted["mutants"] = [hand | {"configuration": "other", "killed_by": "ComesBack"}]
    path.write_text(json.dumps(wanted))
    manifest = specs.read_manifest(counter.folder)
    assert specs.check_manifest(manifest).passed
    assert [manifest.chosen(c) for c in manifest.configurations] == [{}, {"Most": 3}]
    # Where it judges nothing, both are faults.
    path.write_text(json.dumps(wanted | {"mutation": None}))
    manifest = specs.read_manifest(counter.folder)
    with pytest.raises(specs.SpecUnreadable, match="it may be 3 to 5"):
        specs.check_manifest(manifest)


def test_a_sample_of_real_mutants_is_as_listed(capsys):
    assert cli.main(["specs", "mutants", "AggressiveAvoidance", "--sample", "3", "--json"]) == specs.AS_PINNED
    (found,) = json.loads(capsys.readouterr().out)["specs"]
    assert (found["mutants"], found["differences"]) == (3, [])


def test_the_document_counts_the_mutants_and_the_survivors_that_are_listed():
    """The table of specs/README.md; `make specs-mutants` asserts that the lists of survivors are true."""
    counted = []
    for manifest in specs.manifests(specs.SPECS):
        plan = spec_mutants.plan_of(manifest)
        listed = Counter(entry["outcome"] for entry in spec_mutants.read_survivors(manifest.folder).values())
        every = len(spec_mutants.mutants(manifest, plan))
        killed = every - listed.total()
        outcomes = (spec_mutants.DEADLOCK, spec_mutants.BROKEN, spec_mutants.ENDLESS, spec_mutants.SURVIVES)
        others = " | ".join(str(listed[o]) for o in outcomes)
        counted.append(f"| {manifest.spec} | {every} | {killed} | {killed / every:.1%} | {others} |")
    text = (specs.SPECS / "README.md").read_text(encoding="utf-8")
    table = text.partition("| specification | mutants |")[2].partition("\n\n")[0]
    assert table.splitlines()[2:] == counted
