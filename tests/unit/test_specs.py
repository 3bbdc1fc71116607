"""The runner of the specifications: what it reads of TLC, and what it does not let pass."""

import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from deploy.run import alive, wait_for
from rewindow import cli, spec_pictures, specs
from tests.processes import tlc_below

COUNTER = r"""
---- MODULE Counter ----
EXTENDS Naturals
CONSTANT Most
VARIABLES count, seen
vars == <<count, seen>>
Init == count = 0 /\ seen = [odd |-> {}, last |-> <<>>]
Up ==
    /\ count < Most
    /\ count' = count + 1
    /\ seen' = [odd |-> IF count % 2 = 1 THEN seen.odd \cup {count} ELSE seen.odd, last |-> <<count, "up">>]
Reset == count = Most /\ count' = 0 /\ seen' = [odd |-> {}, last |-> <<>>]
Never == count > Most /\ UNCHANGED vars
Next == Up \/ Reset \/ Never
Spec == Init /\ [][Next]_vars /\ WF_vars(Next)
InRange == count <= Most
BelowMost == count < Most
OneByOne == [][count' = count + 1]_vars
ComesBack == (count = Most) ~> (count = 0)
Settles == <>[](count = Most)
====
"""
HOLDS = "SPECIFICATION Spec\nCONSTANT Most = 4\nINVARIANT InRange\nPROPERTY ComesBack\n"


def configuration(**changed):
    return {
        "name": "counts",
        "module": "Counter.tla",
        "config": "counts.cfg",
        "suite": "quick",
        "distinct": 5,
        "depth": 5,
        "untaken": {"Never": "count is in range"},
    } | changed


def mutant(**changed):
    return {
        "name": "too-far",
        "file": "Counter.tla",
        "text": "/\\ count < Most",
        "replacement": "/\\ count <= Most",
        "configuration": "counts",
        "killed_by": "InRange",
    } | changed


def manifest_of(a_configuration, *mutants):
    return json.dumps({"title": "counts", "configurations": [a_configuration], "mutants": mutants})


@pytest.fixture
def counter(tmp_path):
    """Writes a folder with one specification and gives its results, by configuration."""

    def check(configurations, mutants=(), config=HOLDS, suite="quick", module=COUNTER):
        folder = tmp_path / "Counter"
        folder.mkdir(exist_ok=True)
        (folder / "Counter.tla").write_text(module)
        (folder / "counts.cfg").write_text(config)
        manifest = {"title": "counts", "configurations": configurations, "mutants": list(mutants)}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        before = sorted(folder.rglob("*"))
        results = specs.check(specs.manifests(tmp_path), specs.jar(), suite)
        assert sorted(folder.rglob("*")) == before, "nothing is left behind"
        return {r.configuration: r for r in results}

    check.folder = tmp_path
    return check


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-3", -3),
        ("TRUE", True),
        ('"a \\"quoted\\" \\\\ one"', 'a "quoted" \\ one'),
        ("s1", "s1"),
        ("{}", []),
        ("<<>>", []),
        ("{1, {2}, <<3, FALSE>>}", [1, [2], [3, False]]),
        ("1..3", [1, 2, 3]),
        ('[cwnd |-> 10, "odd" |-> {}]', {"cwnd": 10, '"odd"': []}),
        ("(s1 :> 4 @@ s2 :> [w |-> <<0, 0>>])", {"s1": 4, "s2": {"w": [0, 0]}}),
        ("(0 :> 1 @@ <<1, 2>> :> 3)", {"0": 1, "[1, 2]": 3}),
    ],
)
def test_values_become_json(text, value):
    assert specs.parse_value(text) == value


@pytest.mark.parametrize("text", ["", "{1", "<<1 2>>", "[a |-> ]", "(1 :> )", "1 2", "?", "[a |-> 1", "{1,"])
def test_what_is_no_value_is_said(text):
    with pytest.raises(ValueError, match="no TLA"):
        specs.parse_value(text)


def test_states_hold_values_over_several_lines():
    text = '/\\ life = ( s1 :> "live" @@\n  s2 :> "gone" )\n/\\ alpha = 405'
    assert specs.parse_state(text) == {"life": {"s1": "live", "s2": "gone"}, "alpha": 405}
    assert specs.parse_state("x = 1") == {"x": 1}


def test_a_state_too_deep_to_be_read_does_not_end_the_reading():
    """Whoever stops reading lets TLC wait for ever."""
    deep = f"x = {'<<' * 4000}{'>>' * 4000}"
    reader = specs.Reader()
    message = ["@!@!@STARTMSG 2217:4 @!@!@\n", f"1: <Initial predicate>\n/\\ {deep}\n", "@!@!@ENDMSG 2217 @!@!@\n"]
    specs._read([*message, "@!@!@STARTMSG 2114:1 @!@!@\n", "@!@!@ENDMSG 2114 @!@!@\n"], reader)
    assert reader.outcome.violated == "Deadlock"
    assert any("recursion" in e for e in reader.outcome.errors)


def test_a_specification_that_holds(counter):
    result = counter([configuration()])["counts"]
    assert result.passed, result.differences
    assert (result.found, result.outcome.distinct, result.outcome.depth) == ("holds", 5, 5)
    assert result.outcome.temporal
    assert {name.split()[0] for name in result.outcome.actions} == {"Up", "Reset", "Never"}
    assert result.outcome.untaken() == ["Never"]


def test_a_violation_and_its_states(counter):
    config = HOLDS.replace("InRange", "InRange BelowMost").replace("PROPERTY ComesBack\n", "")
    pinned = {"exit": 12, "violates": "BelowMost", "states": 5, "untaken": {}}
    result = counter([configuration(**pinned)], config=config)["counts"]
    assert result.passed, result.differences
    assert [s.action for s in result.outcome.counterexample] == ["Initial predicate", "Up", "Up", "Up", "Up"]
    assert result.outcome.counterexample[-1].values == {"count": 4, "seen": {"odd": [1, 3], "last": [3, "up"]}}


@pytest.mark.parametrize(("name", "states", "back_to"), [("OneByOne", 6, None), ("Settles", 5, 1)])
def test_violations_of_steps_and_of_behaviours(counter, name, states, back_to):
    config = f"SPECIFICATION Spec\nCONSTANT Most = 4\nPROPERTY {name}\n"
    depth = 5 if name == "OneByOne" else None
    pinned = {"exit": 13, "violates": name, "states": states, "depth": depth, "untaken": {}}
    result = counter([configuration(**pinned)], config=config)["counts"]
    assert result.passed, result.differences
    assert result.outcome.counterexample[-1].back_to == back_to


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"exit": 12, "violates": "InRange"}, "violated: InRange is pinned, None found"),
        ({"untaken": {}}, "action Never was never taken"),
        ({"untaken": {"Never": "-", "Up": "-"}}, "action Up was taken after all"),
        ({"seconds_max": 0.05}, "not finished in 0.05 s"),
    ],
)
def test_every_difference_fails(counter, changed, difference):
    result = counter([configuration(**changed)])["counts"]
    assert difference in result.differences


@pytest.mark.parametrize(
    ("changed", "hint"),
    [
        ({"distinct": 6}, "distinct states: 6 is pinned, 5 found"),
        ({"depth": 4}, "depth: 4 is pinned, 5 found"),
    ],
)
def test_a_count_is_a_hint_and_no_judge(counter, changed, hint):
    result = counter([configuration(**changed)])["counts"]
    assert result.passed
    assert result.hints == [hint]
    assert result.as_text().splitlines()[-1] == f"        hint: {hint}"


def test_no_state_is_a_failure(counter):
    module = COUNTER.replace("Init == count = 0", "Init == count = 0 /\\ count = 1")
    result = counter([configuration(distinct=0, depth=0)], module=module)["counts"]
    assert result.outcome.exit == 0, "TLC lets it pass"
    assert "no state was reached" in result.differences


def test_a_broken_module_says_what_is_wrong(counter):
    result = counter([configuration()], module=COUNTER.replace("Reset ==", "Reset == undefined /\\"))["counts"]
    assert result.outcome.exit == 150
    assert any("undefined" in line for line in result.differences)


def test_liveness_under_symmetry_is_refused(counter):
    module = COUNTER.replace("EXTENDS Naturals", "EXTENDS Naturals, TLC\nCONSTANT Names\nSame == Permutations(Names)")
    config = HOLDS + "CONSTANTS Names = {a, b}\na = a\nb = b\nSYMMETRY Same\n"
    results = counter([configuration(flags=["symmetry"])], config=config, module=module)
    assert "a temporal property is not sound under symmetry or a view" in results["counts"].differences
    assert not any("flags" in d for d in results["manifest"].differences)
    results = counter([configuration()], config=config, module=module)
    assert "counts.cfg: flags are ['symmetry'], [] are pinned" in results["manifest"].differences


def test_mutants_are_killed_by_their_property(counter):
    killed = mutant()
    wrong = mutant(name="wrong", replacement="/\\ count < Most - 1")
    equal = mutant(name="equal", replacement="/\\ count < Most + 0", killed_by=None, survives_because="the same")
    silent = mutant(name="silent", replacement="/\\ count < Most + 0", killed_by=None)
    gone = mutant(name="gone", text="no such text")
    results = counter([configuration()], [killed, wrong, equal, silent, gone])
    assert results["mutant too-far"].passed
    assert "killed by InRange is pinned, survives found" in results["mutant wrong"].differences
    assert results["mutant equal"].passed
    assert "mutant silent survives without a reason" in results["manifest"].differences
    assert results["mutant gone"].differences == ["its text is found 0 times in Counter.tla, not once"]


def test_a_property_without_mutant_is_said(counter):
    differences = counter([configuration()], [mutant()])["manifest"].differences
    assert differences == ["property ComesBack is killed by no mutant"]
    without = counter([configuration()])["manifest"]
    assert (without.found, without.differences) == ("complete", []), "who lists none is not asked for any"


def test_each_of_our_specifications_has_ten_mutants():
    assert {m.spec: len(m.mutants) for m in specs.manifests(specs.SPECS) if len(m.mutants) < 10} == {}


def test_only_the_full_suite_runs_everything(counter):
    both = [configuration(), configuration(name="again", suite="full")]
    assert "again" not in counter(both)
    assert counter(both, suite="full")["again"].passed


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ("{", "manifest.json"),
        ("[]", "an object is expected"),
        ('{"title": "x"}', "configurations is missing"),
        ('{"title": "x", "configurations": [], "colour": 1}', "unknown: colour"),
        ('{"title": "x", "configurations": [{"name": 1}]}', "configuration 0: name is of the wrong kind"),
        ('{"title": "x", "configurations": [], "picture": {"config": "a"}}', "picture: module is missing"),
        ("[" * 100_000, "manifest.json"),
        (manifest_of(configuration(module="../Counter.tla")), "configuration 0: '../Counter.tla' is no name"),
        (manifest_of(configuration(config="-dump.cfg")), "configuration 0: '-dump.cfg' is no name"),
        (manifest_of(configuration(seconds_max=float("nan"))), "configuration 0: seconds_max, workers and memory_mb"),
        (manifest_of(configuration(), mutant(file="../../Counter.tla")), "mutant 0: '../../Counter.tla' is no name"),
    ],
)
def test_broken_manifests_are_named(tmp_path, manifest, reason):
    (tmp_path / "A").mkdir()
    (tmp_path / "A" / "manifest.json").write_text(manifest)
    with pytest.raises(specs.SpecUnreadable, match=reason):
        specs.manifests(tmp_path)


def test_the_command_line_and_its_exit_status(counter, tmp_path, capsys):
    counter([configuration()], [mutant(), mutant(name="b", text="'= 0 /\\ seen'", killed_by="ComesBack")])
    arguments = ["specs", "check", "--folder", str(tmp_path), "--junit", str(tmp_path / "junit.xml"), "--json"]
    assert cli.main(arguments) == specs.DIFFERENT
    found = {r["configuration"]: r for r in json.loads(capsys.readouterr().out)["specs"]}
    assert set(found) == {"manifest", "counts", "mutant too-far", "mutant b"}
    assert {"spec", "configuration", "expected", "found", "distinct", "depth", "seconds"} <= set(found["counts"])
    assert found["mutant too-far"]["counterexample"][0]["state"]["count"] == 0
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("Counter", "4", "1")
    assert [case.get("name") for case in suite if len(case)] == ["mutant b"]
    assert cli.main(["specs", "check", "NoSuch", "--folder", str(tmp_path)]) == specs.USAGE
    assert cli.main(["specs", "check", "--folder", str(tmp_path / "empty")]) == specs.UNREADABLE
    assert cli.main(["specs", "check", "--jar", "/no/such.jar"]) == specs.FAILED
    assert "/no/such.jar: TLC is missing" in capsys.readouterr().err


@pytest.fixture
def plain(tmp_path, capsys):
    """Checks folders without a manifest, {path: text}, by the command; gives exit status, output and JUnit's cases."""

    def check(files, *arguments):
        folder = tmp_path / "theirs"
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        report = tmp_path / "junit.xml"
        status = cli.main(["specs", "check", "--folder", str(folder), "--junit", str(report), *arguments])
        found = {}
        for suite in ElementTree.parse(report).getroot():
            for case in suite:
                trouble = case[0] if len(case) else None
                found[f"{suite.get('name')} {case.get('name')}"] = (
                    None if trouble is None else (trouble.tag, trouble.get("message"), trouble.text)
                )
        return status, capsys.readouterr(), found

    return check


def test_without_a_manifest_no_violation_is_success(plain):
    files = {"Counter.tla": COUNTER, "Counter.cfg": HOLDS, "b/Counter.tla": COUNTER, "b/Counter.cfg": HOLDS}
    status, said, found = plain(files, "--seconds-max", "60", "--memory-mb", "200")
    assert (status, found) == (specs.AS_PINNED, {"theirs Counter": None, "b Counter": None}), said
    assert "ok      theirs Counter: holds, 5 states, depth 5" in said.out
    assert "2 passed, 0 failed" in said.out
    assert plain(files, "b")[2] == {"b Counter": None}
    assert plain(files, "c")[0] == specs.USAGE


def test_without_a_manifest_a_violation_is_told_state_by_state(plain):
    broken = {"Counter.tla": COUNTER, "Counter.cfg": HOLDS.replace("InRange", "BelowMost")}
    status, said, found = plain(broken)
    assert status == specs.DIFFERENT
    tag, message, text = found["theirs Counter"]
    assert (tag, message) == ("failure", "expected: holds; found: violates BelowMost")
    assert text.splitlines()[-3:] == ["5: Up", '    seen = {"odd": [1, 3], "last": [3, "up"]}', "    count = 4"]
    assert "        5: Up\n            seen = " in said.out


@pytest.mark.parametrize(
    ("change", "seconds_max", "reason"),
    [
        (
            {"Counter.tla": COUNTER.replace("Init == count = 0", "Init == count = 0 /\\ FALSE")},
            60,
            "no state was reached",
        ),
        ({"Counter.tla": COUNTER.replace("Reset ==", "Reset == undefined /\\")}, 60, "TLC exit status 150"),
        ({"Counter.cfg": HOLDS.replace("= 4", "= 100000000")}, 3, "not finished in 3 s"),
        (
            {
                "Counter.tla": COUNTER.replace("EXTENDS Naturals", "EXTENDS Naturals, TLC\nSame == Permutations({})"),
                "Counter.cfg": HOLDS + "SYMMETRY Same\n",
            },
            60,
            "a temporal property is not sound under symmetry",
        ),
    ],
)
def test_without_a_manifest_no_answer_is_no_success(plain, change, seconds_max, reason):
    files = {"Counter.tla": COUNTER, "Counter.cfg": HOLDS} | change
    status, _, found = plain(files, "--seconds-max", str(seconds_max))
    assert status == specs.DIFFERENT
    assert reason in found["theirs Counter"][2]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"notes.txt": "none"}, "no specification here"),
        ({"Counter.tla": COUNTER}, "no specification here"),
        ({"Counter.tla": COUNTER, "small.cfg": HOLDS}, "small.cfg: there is no small.tla beside it"),
        ({"Counter.tla": COUNTER, "Counter.cfg": "nonsense"}, "nonsense is no statement"),
        ({"Counter/manifest.json": "{"}, "manifest.json"),
    ],
)
def test_what_cannot_be_checked_is_an_error_in_the_report(plain, files, reason):
    status, said, found = plain(files)
    assert status == specs.UNREADABLE
    assert reason in said.err
    ((tag, message, _),) = found.values()
    assert tag == "error"
    assert reason in message


def test_names_may_be_anything(tmp_path):
    """A folder's name that no encoding has: it is in the log and in the report, escaped."""
    folder = os.fsencode(tmp_path) + b"/a\xff"
    os.mkdir(folder)
    for name, text in (("Counter.tla", COUNTER), ("Counter.cfg", HOLDS)):
        Path(os.fsdecode(folder), name).write_text(text)
    command = [sys.executable, specs.__file__, "check", "--folder", folder, "--junit", "junit.xml"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C.UTF-8"})
    assert run.returncode == specs.AS_PINNED, run.stderr
    assert "a\\udcff Counter: holds" in run.stdout
    assert ElementTree.parse(tmp_path / "junit.xml").getroot()[0].get("name") == "a\ufffd"


def test_a_manifest_may_be_in_the_folder_itself(tmp_path):
    folder = tmp_path / "Windows"
    shutil.copytree(Path(__file__).parent.parent / "specs" / "Windows", folder)
    assert [m.spec for m in specs.specifications(folder)] == ["Windows"]
    assert [m.is_plain for m in specs.specifications(tmp_path)] == [False]


def test_reports_hold_any_text_and_no_more_than_is_shown(tmp_path):
    cases = [
        specs.Case("a\ud800\x1b", "\x00]]>", 1.5, "failure", 'x" \x07', "<&>" + "y" * specs.REPORTED_CHARACTERS_MAX),
        specs.Case("a\ud800\x1b", "fine", 0.25),
        specs.Case("b", "none", 0, "error", "no answer"),
        specs.Case("b", "left out", 0, "skipped", "nothing to ask"),
    ]
    specs.write_junit(str(tmp_path / "junit.xml"), "specs", cases)
    top = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert top.attrib == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "1.750"}
    assert [(s.get("name"), s.get("tests"), s.get("failures"), s.get("errors")) for s in top] == [
        ("a\ufffd\ufffd", "2", "1", "0"),
        ("b", "2", "0", "1"),
    ]
    assert top[0][0].get("classname") == "specs.a\ufffd\ufffd"
    assert top[0][0].get("name") == "\ufffd]]>"
    assert top[0][0][0].text == "<&>" + "y" * (specs.REPORTED_CHARACTERS_MAX - 3) + "\n..."


def test_it_needs_nothing_but_the_standard_library(tmp_path):
    copy = shutil.copy(specs.__file__, tmp_path / "specs.py")
    run = subprocess.run([sys.executable, "-I", "-S", str(copy), "check", "-h"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "--junit" in run.stdout


def test_a_run_can_be_watched_and_cancelled(tmp_path):
    (tmp_path / "Counter.tla").write_text(COUNTER)
    (tmp_path / "long.cfg").write_text(HOLDS.replace("= 4", "= 100000000"))
    asked = []

    def watch(outcome):
        asked.append(outcome.distinct)
        return len(asked) < 2

    outcome = specs.run_tlc(tmp_path, "Counter.tla", "long.cfg", tlc=specs.jar(), on_progress=watch)
    assert outcome.stopped == "cancelled"
    assert len(asked) == 2
    assert outcome.seconds < 60


@pytest.fixture
def long_check(tmp_path):
    manifest = json.dumps({"title": "long", "configurations": [configuration(config="long.cfg")]})
    folder = tmp_path / "Counter"
    folder.mkdir()
    (folder / "manifest.json").write_text(manifest)
    (folder / "Counter.tla").write_text(COUNTER)
    (folder / "long.cfg").write_text(HOLDS.replace("= 4", "= 100000000"))
    return specs.manifests(tmp_path)


def test_an_interrupt_ends_what_runs(long_check):
    def interrupted(result):
        raise KeyboardInterrupt  # at the first result, the manifest's, while TLC runs

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        specs.check(long_check, specs.jar(), on_result=interrupted)
    assert time.monotonic() - began < 60


def test_an_interrupt_before_all_runs_are_submitted_ends_those_that_are(long_check, monkeypatch):
    submit = concurrent.futures.ThreadPoolExecutor.submit

    def interrupted(pool, task):
        submit(pool, task)
        wait_for("TLC", lambda: tlc_below(os.getpid()) != [], [])
        raise KeyboardInterrupt

    monkeypatch.setattr(concurrent.futures.ThreadPoolExecutor, "submit", interrupted)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        specs.check(long_check, specs.jar())
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_runner_that_is_told_to_end_ends_its_checker(tmp_path, number):
    folder = tmp_path / "Counter"
    folder.mkdir()
    (folder / "Counter.tla").write_text(COUNTER)
    (folder / "Counter.cfg").write_text(HOLDS.replace("= 4", "= 100000000"))
    with (tmp_path / "said").open("wb") as said:
        runner = subprocess.Popen(
            [sys.executable, specs.__file__, "check", "--folder", str(tmp_path)],
            stdout=said,
            stderr=said,
            # Under nohup(1) it would rightly go on.
            preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
        )
    wait_for("TLC", lambda: tlc_below(runner.pid) != [], [runner])
    (tlc,) = tlc_below(runner.pid)
    try:
        runner.send_signal(number)
        assert runner.wait(60) == 128 + number
        assert not alive(tlc)
    finally:
        runner.kill()
        runner.wait()
        if alive(tlc):
            os.kill(tlc, signal.SIGKILL)


def test_pictures_merge_states_that_look_the_same():
    dump = [
        '1 [label="/\\\\ drawn = <<\\"\\", [flow |-> \\"new\\"]>>\\n/\\\\ x = 0",style = filled]',
        '2 [label="/\\\\ drawn = <<\\"Join\\", [flow |-> \\"live\\"]>>\\n/\\\\ x = 1"];',
        '3 [label="/\\\\ drawn = <<\\"another\'s Loss\\", [flow |-> \\"live\\"]>>\\n/\\\\ x = 2"];',
        '1 -> 2 [label="",color="black",fontcolor="black"];',
        '2 -> 3 [label="",color="black",fontcolor="black"];',
        '2 -> 2 [style="dashed"];',
    ]
    graph = spec_pictures.state_machine(dump, "drawn", "Flow").splitlines()
    assert [line.strip() for line in graph if "label" in line and "flow" in line] == [
        'n0 [label="flow: live"];',
        'n1 [label="flow: new"];',
    ]
    assert [line.strip() for line in graph if "->" in line] == ["start -> n1;", 'n1 -> n0 [label="Join"];']


def test_pictures_are_of_one_variable():
    alone = spec_pictures.state_machine(['1 [label="drawn = <<\\"\\", {}>>",style = filled]'], "drawn", "Flow")
    assert 'n0 [label="[]"];' in alone
    other = ['1 [label="/\\\\ drawn_too = <<\\"\\", {}>>\\n/\\\\ x = \\"drawn = 1\\"",style = filled]']
    with pytest.raises(specs.SpecUnreadable, match="has no drawn"):
        spec_pictures.state_machine(other, "drawn", "Flow")


@pytest.mark.parametrize("spec", [m.spec for m in specs.manifests(specs.SPECS) if m.picture])
def test_pictures_are_of_their_specifications(spec):
    assert spec_pictures.is_drawn(specs.manifests(specs.SPECS, [spec])[0], specs.jar())


def test_the_tables_of_violations_are_the_manifests():
    """Where specs/README.md tabulates a specification's violations, they are all there, as pinned."""
    section = r"^## (\w+)\n(.*?)(?=^## |\Z)"
    row = r"^\| `([\w-]+)` \| .* \| `(\w+)` \| (\d+) \|$"
    tabulated = 0
    for spec, text in re.findall(section, (specs.SPECS / "README.md").read_text(), re.MULTILINE | re.DOTALL):
        rows = {name: (violated, int(states)) for name, violated, states in re.findall(row, text, re.MULTILINE)}
        if rows:
            tabulated += 1
            pinned = specs.manifests(specs.SPECS, [spec])[0].configurations
            assert rows == {c.name: (c.violates, c.states) for c in pinned if c.violates}
    assert tabulated


def test_every_mutant_changes_one_place_of_its_file():
    """The full suite too, which runs seldom."""
    for manifest in specs.manifests(specs.SPECS):
        places = {m.name: (manifest.folder / m.file).read_text().count(m.text) for m in manifest.mutants}
        assert {name: count for name, count in places.items() if count != 1} == {}, manifest.spec


def test_every_configuration_is_in_a_manifest():
    for manifest in specs.manifests(specs.SPECS):
        used = {c.config for c in manifest.configurations} | {(manifest.picture or {}).get("config", "")}
        assert {p.name for p in Path(manifest.folder).glob("*.cfg")} == used - {""}
