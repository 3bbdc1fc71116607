"""The recipes of deploy/ci: their very shell steps, run as their runners do, in another team's folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "deploy" / "ci"
CAPTURE = ROOT / "tests" / "captures" / "mptcp-ecn.pcap"
ACTION = yaml.safe_load((RECIPES / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]
TEMPLATE = yaml.safe_load((RECIPES / "gitlab.yml").read_text())[".rewindow"]

CROSSING = r"""
---- MODULE Crossing ----
EXTENDS Naturals
VARIABLE lights
Lights == {"north", "east"}
Init == lights = [l \in Lights |-> "red"]
Go(l) == (\A k \in Lights : lights[k] = "red") /\ lights' = [lights EXCEPT ![l] = "green"]
Stop(l) == lights[l] = "green" /\ lights' = [lights EXCEPT ![l] = "red"]
Next == \E l \in Lights : Go(l) \/ Stop(l)
Safe == ~ \A l \in Lights : lights[l] = "green"
====
"""
CONFIGURATION = "INIT Init\nNEXT Next\nINVARIANT Safe\n"
UNSAFE = CROSSING.replace('(\\A k \\in Lights : lights[k] = "red")', 'lights[l] = "red"')


def write(folder: Path, module: str = CROSSING) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Crossing.tla").write_text(module)
    (folder / "Crossing.cfg").write_text(CONFIGURATION)


def environment(**more: str) -> dict[str, str]:
    """What a runner's shell has; no more of ours than where programs are."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ} | more


@dataclass
class Ran:
    """A job. trouble: of the cases in its reports, (suite, case) -> (element, message, text)."""

    status: int
    output: str
    reports: Path
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    cases: list[tuple[str, str]] = field(default_factory=list)
    trouble: dict[tuple[str, str], tuple[str, str, str]] = field(default_factory=dict)

    def read(self) -> Ran:
        for path in sorted(self.reports.glob("*.xml")):
            for suite in junit(path):
                for case in suite:
                    key = suite.attrib["name"], case.attrib["name"]
                    self.cases.append(key)
                    if len(case):
                        self.trouble[key] = case[0].tag, case[0].attrib["message"], case[0].text or ""
        return self


def junit(path: Path) -> ElementTree.Element:
    """A report of the form that GitLab and others read: suites of cases, and counts that are those of the cases."""
    top = ElementTree.parse(path).getroot()
    assert top.tag == "testsuites"
    for part in (top, *top):
        cases = list(part.iter("testcase"))
        assert int(part.attrib["tests"]) == len(cases)
        for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(part.attrib[count]) == sum(case.find(tag) is not None for case in cases)
    assert len(top)
    for suite in top:
        assert suite.tag == "testsuite"
        assert suite.attrib["name"]
        for case in suite:
            assert case.tag == "testcase"
            assert set(case.attrib) == {"classname", "name", "time"}
            assert float(case.attrib["time"]) >= 0
            assert [child.tag for child in case] in ([], ["failure"], ["error"], ["skipped"])
    return top


# GitHub


def evaluated(text: str, context: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ (\S+) \}\}", lambda found: context[found[1]], text)


def github(theirs: Path, temporary: Path, **inputs: str) -> Ran:
    """Runs the action's shell steps in order, up to the first that fails."""
    temporary.mkdir()
    context = {f"inputs.{name}": given["default"] for name, given in ACTION["inputs"].items()}
    context |= {f"inputs.{name}": text for name, text in inputs.items()}
    said = ""
    status = 0
    summary = temporary / "summary"
    summary.touch()
    for step in STEPS:
        if "run" not in step:
            continue
        outputs, script = temporary / "output", temporary / "step.sh"
        outputs.write_text("")
        script.write_text(step["run"])
        run = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
            cwd=theirs,
            env=environment(
                GITHUB_ACTION_PATH=str(RECIPES),
                GITHUB_OUTPUT=str(outputs),
                GITHUB_STEP_SUMMARY=str(summary),
                RUNNER_TEMP=str(temporary),
                RUNNER_OS="Linux",
                RUNNER_ARCH="X64",
                **{name: evaluated(text, context) for name, text in step.get("env", {}).items()},
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said += run.stdout
        for line in outputs.read_text().splitlines():
            name, _, text = line.partition("=")
            context[f"steps.{step['id']}.outputs.{name}"] = text
        status = run.returncode
        if status:
            break
    outputs_of = {name: evaluated(given["value"], context) for name, given in ACTION["outputs"].items()}
    return Ran(status, said, Path(outputs_of["reports"]), outputs_of, summary.read_text()).read()


def test_github_checks_specifications_and_captures(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    write(theirs / "specs" / "crossing")
    shutil.copytree(ROOT / "tests" / "specs" / "Windows", theirs / "specs" / "Windows")
    (theirs / "captures").mkdir()
    shutil.copy(CAPTURE, theirs / "captures")
    (theirs / "captures" / "README").write_text("no capture")
    ran = github(theirs, tmp_path / "runner", specs="specs", captures="captures", algorithms="css\ntccc")
    assert (ran.status, ran.outputs["status"], ran.trouble) == (0, "0", {}), ran.output
    assert ("crossing", "Crossing") in ran.cases
    assert {("Windows", "manifest"), ("Windows", "holds"), ("Windows", "asprinted")} <= set(ran.cases)
    traced = {case for suite, case in ran.cases if suite == "captures/mptcp-ecn.pcap"}
    assert {"connection 0, css", "connection 0, tccc"} <= traced
    assert not any("tccc+" in case for case in traced)
    assert sorted(p.name for p in ran.reports.iterdir()) == ["specs-1.xml", "summary.html", "trace-1.xml"]
    assert re.search(r"<tr><td>captures/mptcp-ecn\.pcap</td><td>\d+</td><td>0</td><td>0</td></tr>", ran.summary)
    assert "<details>" not in ran.summary


def test_github_fails_where_a_specification_is_violated(tmp_path: Path) -> None:
    """In a folder whose name would be commands for a shell, for the runner and for the summary."""
    name = '::error::x $(touch owned) `touch owned`; "touch owned" <b>\'*'
    write(tmp_path / "theirs" / name, UNSAFE)
    ran = github(tmp_path / "theirs", tmp_path / "runner", specs=f"  {name}\n")
    assert (ran.status, ran.outputs["status"]) == (1, "1"), ran.output
    tag, message, text = ran.trouble[name, "Crossing"]
    assert (tag, message) == ("failure", "expected: holds; found: violates Safe")
    assert text.endswith('3: Go\n    lights = {"north": "green", "east": "green"}')
    assert sorted(p.name for p in (tmp_path / "theirs").rglob("*")) == sorted([name, "Crossing.tla", "Crossing.cfg"])
    # What the runner would obey: only that which says when to stop obeying.
    before, token, rest = re.split(r"^::stop-commands::(\w{32})$", ran.output, flags=re.MULTILINE)
    inside, after = rest.split(f"\n::{token}::\n")
    assert name in inside
    assert "::" not in before + after
    assert "<b>" not in ran.summary
    assert "violates Safe" in ran.summary
    assert all(line.startswith("<") for line in ran.summary.splitlines())


def test_github_says_which_capture_cannot_be_read(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "captures" / "of").mkdir(parents=True)
    (theirs / "captures" / ".hidden").mkdir()
    for name in ("of/broken.PCAP.gz", ".hidden/broken.pcap"):
        (theirs / "captures" / name).write_bytes(b"\x00" * 100)
    shutil.copy(CAPTURE, theirs / "captures" / "z.pcap")
    ran = github(theirs, tmp_path / "runner", captures="captures", algorithms="tccc")
    assert (ran.status, ran.outputs["status"]) == (3, "3"), ran.output
    ((suite, _),) = ran.trouble
    assert suite == "captures/of/broken.PCAP.gz"
    ((tag, message, _),) = ran.trouble.values()
    assert tag == "error"
    assert message in ran.output
    assert ("captures/z.pcap", "connection 0, tccc") in ran.cases, "the others are looked at"


@pytest.mark.parametrize(
    ("inputs", "status", "reason"),
    [
        ({}, 2, "nothing to check"),
        ({"specs": "\n"}, 2, "nothing to check"),
        ({"specs": "specs", "suite": "some"}, 2, "invalid choice: 'some'"),
        ({"specs": "none"}, 3, "none: no specification here"),
        ({"captures": "specs"}, 3, "specs: no capture here"),
        ({"captures": "none.pcap"}, 3, "none.pcap: no capture here"),
        ({"captures": "-x.pcap"}, 3, "./-x.pcap: not a capture"),
    ],
)
def test_github_tells_what_is_wrong_with_inputs(
    tmp_path: Path, inputs: dict[str, str], status: int, reason: str
) -> None:
    write(tmp_path / "theirs" / "specs")
    (tmp_path / "theirs" / "-x.pcap").write_bytes(b"\x00" * 100)
    ran = github(tmp_path / "theirs", tmp_path / "runner", **inputs)
    assert ran.status == status, ran.output
    assert reason in ran.output


# GitLab


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This repository as it is in the working tree, committed and with a tag, to be fetched."""
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run([ROOT / "deploy" / "setup.sh", "specs"], check=True, stdin=subprocess.DEVNULL)
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    who = ["-c", "user.name=test", "-c", "user.email=test", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "-Af"], [*who, "commit", "-q", "-m", "all"], ["tag", "v1"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def gitlab(theirs: Path, repository: Path, **variables: str) -> Ran:
    """Runs a job of the template with its cache restored."""
    for name in TEMPLATE["cache"]["paths"]:
        cached = theirs / name
        cached.parent.mkdir(parents=True, exist_ok=True)
        cached.symlink_to(ROOT / Path(name).relative_to(".rewindow"))
    given = {"REWINDOW_REPOSITORY": str(repository), "REWINDOW_REF": "v1", **variables}
    assert set(given) <= set(TEMPLATE["variables"])
    run = subprocess.run(
        ["sh", "-e", "-c", "\n".join([*TEMPLATE["before_script"], *TEMPLATE["script"]])],
        cwd=theirs,
        env=environment(**(TEMPLATE["variables"] | given), PIP_DRY_RUN="1"),  # the cache is our own .venv
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert not re.search(r"^(installing|building)", run.stdout, re.MULTILINE), "the cache is of another state"
    kept = theirs / "rewindow-reports"
    assert f"{kept.name}/" in TEMPLATE["artifacts"]["paths"]
    assert sorted(theirs.glob(TEMPLATE["artifacts"]["reports"]["junit"])) == sorted(kept.glob("*.xml"))
    return Ran(run.returncode, run.stdout, kept).read()


def test_gitlab_checks_specifications_and_captures(tmp_path: Path, repository: Path) -> None:
    write(tmp_path / "specs")
    shutil.copy(CAPTURE, tmp_path / "one.pcap")
    (tmp_path / "rewindow-reports").mkdir()
    (tmp_path / "rewindow-reports" / "trace-9.xml").write_text("of an earlier run")
    ran = gitlab(tmp_path, repository, REWINDOW_SPECS="specs", REWINDOW_CAPTURES="one.pcap", REWINDOW_ALGORITHMS="css")
    assert (ran.status, ran.trouble) == (0, {}), ran.output
    assert {("specs", "Crossing"), ("one.pcap", "connection 0, css")} <= set(ran.cases)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path / ".rewindow", capture_output=True, text=True)
    tag = subprocess.run(["git", "rev-parse", "v1"], cwd=repository, capture_output=True, text=True)
    assert head.stdout == tag.stdout


def test_gitlab_fails_where_a_specification_is_violated(tmp_path: Path, repository: Path) -> None:
    write(tmp_path / "a $(touch owned)", UNSAFE)
    write(tmp_path / "b")
    ran = gitlab(tmp_path, repository, REWINDOW_SPECS="a $(touch owned)\nb")
    assert ran.status == 1, ran.output
    assert list(ran.trouble) == [("a $(touch owned)", "Crossing")]
    assert ("b", "Crossing") in ran.cases
    assert not list(tmp_path.rglob("owned"))


def test_gitlab_fails_without_the_repository(tmp_path: Path, repository: Path) -> None:
    write(tmp_path / "specs")
    ran = gitlab(tmp_path, repository, REWINDOW_SPECS="specs", REWINDOW_REF="v2")
    assert ran.status == 128
    assert ran.cases == []
    owned = tmp_path / "owned"
    ran = gitlab(tmp_path / "b", repository, REWINDOW_SPECS="specs", REWINDOW_REPOSITORY=f"--upload-pack=touch {owned}")
    assert ran.status == 128
    assert not owned.exists()


def test_gitlab_example_uses_the_template() -> None:
    example = yaml.safe_load((RECIPES / "gitlab-example.yml").read_text())
    assert (ROOT / example["include"][0]["file"].lstrip("/")).samefile(RECIPES / "gitlab.yml")
    assert example["specifications"]["extends"] == ".rewindow"
    assert set(example["specifications"]["variables"]) <= set(TEMPLATE["variables"])


# What linters do not look at


def test_without_tlc_nothing_passes(tmp_path: Path) -> None:
    write(tmp_path)
    run = subprocess.run(
        [str(RECIPES / "check.py")],
        cwd=tmp_path,
        env=environment(REWINDOW_SPECS=".", REWINDOW_TLA_JAR="/no/such.jar"),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 4
    assert "/no/such.jar" in run.stderr
    assert Ran(4, "", tmp_path / "rewindow-reports").read().trouble.popitem()[1][0] == "error"


def test_github_names_what_there_is() -> None:
    """Inputs and outputs that are asked for exist: GitHub has an empty text in place of others."""
    expressions = re.findall(r"\b(inputs|steps)\.([\w.-]+)", (RECIPES / "action.yml").read_text())
    assert len(expressions) > 10
    for kind, name in expressions:
        if kind == "inputs":
            assert name in ACTION["inputs"]
            continue
        step, outputs, output = name.split(".")
        assert outputs == "outputs"
        (found,) = [s for s in STEPS if s.get("id") == step]
        assert f'"{output}=' in found["run"] if "run" in found else output == "cache-hit"
    example = yaml.safe_load((RECIPES / "github-example.yml").read_text())
    used: dict[str, Any] = example["jobs"]["specifications"]["steps"][-1]
    assert used["uses"].split("@")[0].endswith("/rewindow/deploy/ci")
    assert set(used["with"]) <= set(ACTION["inputs"])


RUNNER = ["GITHUB_ACTION_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "RUNNER_TEMP", "RUNNER_OS", "RUNNER_ARCH"]
SCRIPTS = [("bash", [*s.get("env", {}), *RUNNER], s["run"]) for s in STEPS if "run" in s] + [
    ("sh", list(TEMPLATE["variables"]), "\n".join([*TEMPLATE["before_script"], *TEMPLATE["script"]]))
]


@pytest.mark.parametrize(("shell", "variables", "script"), SCRIPTS)
def test_shell_steps_are_as_shellcheck_likes_them(shell: str, variables: list[str], script: str) -> None:
    names = " ".join(variables)
    given = f"set -e\nread -r {names}\nexport {names}\n"
    run = subprocess.run(
        [str(ROOT / ".venv" / "bin" / "shellcheck"), "-s", shell, "-o", "check-unassigned-uppercase", "-"],
        input=given + script,
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stdout) == (0, "")
