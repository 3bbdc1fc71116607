"""The monitor and the specification judge the same steps: recorded, random, corrupted, and those of faulty code."""

import itertools
import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import rewindow
from bench import faults
from rewindow import cli, conformance, specs
from rewindow.core import Choice
from rewindow.steps import UNSET, monitored

CAPTURES = Path(__file__).parent.parent / "captures"
CHOICES = [Choice(name) for name in conformance.SPECIFIED]


def steps_of(path, choices=CHOICES):
    with rewindow.open(str(path)) as capture, capture.stream(choices, monitor=True, moves=True) as replay:
        return list(replay.steps())


def judged(logs):
    """TLC's verdicts on logs, each (choice, steps), in their order."""
    flat = [replace(s, connection=n, choice=c) for n, (c, steps) in enumerate(logs) for s in steps]
    found = {v.connection: v for v in conformance.conformance(CHOICES, flat, specs.jar(), explain=False)}
    return [found[n] for n in range(len(logs))]


def first_violation(choice, steps):
    """The monitor's: which event, and against what."""
    for event, step in enumerate(monitored(CHOICES[choice], steps)):
        if step.violated:
            return event, step.violated
    return None


# Recorded and random


def test_recorded_steps_conform():
    logs = []
    for name, choices in (("two-subflows", (0, 1)), ("three-subflows", (1,)), ("ecn", (0, 1, 2))):
        of = {}
        for step in steps_of(CAPTURES / f"mptcp-{name}.pcap"):
            of.setdefault((step.connection, step.choice), []).append(step)
        logs += [(choice, steps) for (_, choice), steps in of.items() if choice in choices]
    kinds = Counter(s.kind for _, steps in logs for s in steps)
    assert len(logs) == 12
    assert all(kinds[k] for k in ("join", "ack", "rtt", "loss", "ece", "leave", "machinery", "idle"))
    for verdict, (_, steps) in zip(judged(logs), logs, strict=True):
        assert verdict.conforms, verdict.as_json()
        assert verdict.events == len(steps)
        assert not any(s.violated for s in steps)


def test_random_steps_conform():
    logs = [(c, faults.random_steps(choice.name, seed)) for c, choice in enumerate(CHOICES) for seed in range(12)]
    kinds = Counter(s.kind for _, steps in logs for s in steps)
    assert all(kinds[k] for k in ("join", "leave", "ack", "rtt", "loss", "ece", "timeout", "undo"))
    assert [v.first_violation for v in judged(logs) if not v.conforms] == []
    for choice, steps in logs:
        assert monitored(CHOICES[choice], steps) == steps
        assert not any(s.violated for s in steps)


# Corrupted


def own(step, **changed):
    paths = list(step.paths)
    paths[step.path] = replace(paths[step.path], **changed)
    return replace(step, paths=tuple(paths))


def another(step, **changed):
    place = next(i for i, p in enumerate(step.paths) if p and i != step.path)
    paths = list(step.paths)
    paths[place] = replace(paths[place], **changed)
    return replace(step, paths=tuple(paths))


def corrupted(steps, at, how):
    """The steps with one thing wrong at `at`, which is an ACK on a connection of two subflows."""
    found, step = list(steps), steps[at]
    p = step.paths[step.path]
    match how:
        case "window one segment up":
            found[at] = own(step, cwnd_q16=p.cwnd_q16 + 65536)
        case "window a hundredth down":
            found[at] = own(step, cwnd_q16=p.cwnd_q16 - p.cwnd_q16 // 100)
        case "threshold":
            found[at] = own(step, ssthresh_q16=(20 << 16) if p.ssthresh_q16 == UNSET else p.ssthresh_q16 + 65536)
        case "alpha":
            found[at] = replace(step, alpha_q32=step.alpha_q32 + (1 << 22))
        case "flag of the connection":
            found[at] = replace(step, initial_ss=not step.initial_ss)
        case "flag of the subflow":
            found[at] = own(step, initial=not p.initial)
        case "another's window":
            found[at] = another(step, cwnd_q16=15 << 16)
        case "another's flag":
            q = next(q for i, q in enumerate(step.paths) if q and i != step.path)
            found[at] = another(step, initial=not q.initial)
        case "dropped":
            del found[at]
        case "doubled":
            found.insert(at, step)
        case "somebody appears":
            place = step.paths.index(None)
            paths = list(step.paths)
            paths[place] = p
            found[at] = replace(step, paths=tuple(paths))
    return found


WAYS = [
    "window one segment up", "window a hundredth down", "threshold", "alpha", "flag of the connection",
    "flag of the subflow", "another's window", "another's flag", "dropped", "doubled", "somebody appears",
]  # fmt: skip


def test_monitor_and_specification_agree_on_corrupted_steps():
    steps = [s for s in steps_of(CAPTURES / "mptcp-two-subflows.pcap") if (s.connection, s.choice) == (1, 1)]
    two = [i for i, s in enumerate(steps) if s.kind == "ack" and sum(p is not None for p in s.paths) == 2]
    coupled = [i for i in two if steps[i].paths[steps[i].path].initial and steps[i - 1].initial_ss]
    beyond = [i for i in two if not steps[i].initial_ss and not steps[i - 1].initial_ss]
    moved = [i for i in beyond if steps[i].paths[steps[i].path].cwnd_q16 != steps[i - 1].paths[steps[i].path].cwnd_q16]
    assert len(coupled) > 5
    assert len(moved) > 20
    r = random.Random(3)
    cases = [(how, at) for how in WAYS for at in (r.choice(coupled), r.choice(moved), r.choice(moved))]
    assert first_violation(1, steps) is None
    logs = [corrupted(steps, at, how)[: at + 40] for how, at in cases]
    for (how, at), steps_, verdict in zip(cases, logs, judged([(1, log) for log in logs]), strict=True):
        monitor = first_violation(1, steps_)
        assert monitor, (how, at, verdict.first_violation)
        assert not verdict.conforms, (how, at, monitor)
        assert monitor[0] == verdict.first_violation.event, (how, at, monitor)


def test_what_only_the_specification_sees():
    """By design: what an undo gives back, and an idle sender keeps, is remembered by the machine; the monitor looks at
    one step alone. What differs there is found by TLC only."""
    log = [s for s in steps_of(CAPTURES / "mptcp-two-subflows.pcap") if (s.connection, s.choice) == (1, 1)]
    at = next(i for i, s in enumerate(log) if s.kind == "loss")
    step = log[at]
    undone = own(step, cwnd_q16=50 << 16, ssthresh_q16=60 << 16)
    idle = own(step, cwnd_q16=step.paths[step.path].cwnd_q16 // 7)
    logs = [
        [*log[: at + 1], replace(undone, kind="undo", acked_segments=0)],
        [*log[: at + 1], replace(idle, kind="idle", acked_segments=0)],
    ]
    for steps_, verdict in zip(logs, judged([(1, x) for x in logs]), strict=True):
        assert first_violation(1, steps_) is None or steps_[-1].kind == "idle"
        assert verdict.first_violation.event == at + 1


def test_a_subflow_joins_once():
    """Its place may be taken again only when it has left."""
    controller = rewindow.Controller("css", con_ssthresh=15)
    controller.observe()
    for _ in range(3):
        controller.join({"rtt": 0.02})  # the second leaves coupled slow start: alpha stays
    controller.leave(2)
    controller.join({"rtt": 0.02})
    steps = controller.steps()
    assert [s.kind for s in steps] == ["join", "join", "join", "leave", "join"]
    again = [*steps[:3], steps[4]]
    whole, twice = judged([(0, steps), (0, again)])
    assert whole.conforms
    assert twice.first_violation.event == 3


# Pieces


def test_pieces_are_a_chain(monkeypatch):
    """However a log is cut, the verdict is the same; a piece that ends elsewhere than the next begins is noticed."""
    steps = [s for s in steps_of(CAPTURES / "mptcp-two-subflows.pcap") if (s.connection, s.choice) == (1, 1)][:400]
    at = next(i for i in range(330, 400) if steps[i].kind == "ack")
    wrong = corrupted(steps, at, "window one segment up")
    monkeypatch.setattr(conformance, "PIECE_STEPS", 37)
    whole, broken = judged([(1, steps), (1, wrong)])
    assert whole.conforms
    assert whole.events == 400
    assert broken.first_violation.event == at

    begun = conformance._Log(conformance.Verdict(0, "tccc"))
    begun.steps = list(steps)
    pieces = list(begun.cut())
    assert [p.begins for p in pieces] == list(range(0, 400, 37))
    assert all(a.steps[-1] is b.start.step and a.memory == b.start.memory for a, b in itertools.pairwise(pieces))
    pieces[2].memory = {0: (1, 1, 0)}
    assert [
        (p.begins, why) for p, _, why in conformance._follow(specs.jar(), conformance.rules(CHOICES[1]), 0, pieces)
    ] == [(74, "broken")]


def test_windows_beyond_32_bits_conform():
    """A window of 2^20 segments does not fit in Q16; coarser units hold it."""
    controller = rewindow.Controller("tccc", con_ssthresh=15)
    controller.observe()
    for _ in range(3):
        controller.join({"rtt": 0.02})
    for _ in range(5):
        controller.ack(2, 1 << 17, 0.02)
    controller.loss(2)
    for _ in range(5):
        controller.ack(2, 40, 0.03)
        controller.ack(0, 40, 0.02)
    steps = controller.steps()
    assert max(p.cwnd_q16 for p in steps[-1].paths if p) > 1 << 31
    (verdict,) = judged([(1, steps)])
    assert verdict.conforms, verdict.as_json()
    wrong = own(steps[-1], cwnd_q16=steps[-1].paths[0].cwnd_q16 + 65536)
    (verdict,) = judged([(1, [*steps[:-1], wrong])])
    assert verdict.first_violation.event == len(steps) - 1


# Faults


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    return faults.Workshop(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda f: f.name)
def test_monitor_finds_fault(workshop, fault):
    assert faults.monitor_notices(workshop.logs(fault, faults.SEQUENCES))


def test_monitor_finds_nothing_in_the_controllers_as_they_are(workshop):
    logs = workshop.logs(None, 12)
    assert sum(len(steps) for _, steps in logs) > 4000
    assert not faults.monitor_notices(logs)


def test_tlc_finds_faults(workshop):
    names = (
        "exit at the rate, not above it",
        "exit forgets a subflow",
        "a loss takes none out",
        "equation 8 without its half",
    )
    sown = [f for f in faults.FAULTS if f.name in names]
    assert len(sown) == len(names)
    assert all(faults.tlc_notices([workshop.logs(f, 8) for f in sown]))


# The command


def test_command_answers_for_each_connection(capsys):
    path = str(CAPTURES / "mptcp-two-subflows.pcap")
    assert cli.main(["specs", "trace", path, "--algorithm", "css", "--json"]) == cli.DONE
    found = json.loads(capsys.readouterr().out)["connections"]
    assert [(c["id"], c["algorithm"], c["conforms"], c["first_violation"]) for c in found] == [
        (0, "css", True, None), (1, "css", True, None),
    ]  # fmt: skip
    assert all(c["events"] > 1000 for c in found)


def test_command_tells_what_was_expected(capsys, monkeypatch):
    """A capture's steps with one window wrong: exit status 1, the state before, what is allowed, and what was found."""
    whole = rewindow.Replay.steps

    def wrong(self):
        for n, step in enumerate(whole(self)):
            p = step.paths[step.path]
            yield own(step, cwnd_q16=p.cwnd_q16 + 65536) if n == 4 else step

    monkeypatch.setattr(rewindow.Replay, "steps", wrong)
    path = str(CAPTURES / "mptcp-two-subflows.pcap")
    assert cli.main(["specs", "trace", path, "--algorithm", "tccc", "--json"]) == cli.NEGATIVE
    first = json.loads(capsys.readouterr().out)["connections"][0]["first_violation"]
    assert (first["event"], first["step"], first["path"]) == (4, "ack", 0)
    (allowed,) = first["expected"]
    before, found = first["before"]["subflows"][0]["cwnd"], first["found"]["subflows"][0]["cwnd"]
    low, high = allowed["subflows"][0]["cwnd"]
    assert before + 0.4 < low <= high < before + 0.6 < found
    assert high - low < 0.001
    assert allowed["initial_slow_start"] is True
    assert cli.main(["specs", "trace", path, "--algorithm", "tccc"]) == cli.NEGATIVE
    text = capsys.readouterr().out
    assert "event 4 is no step of the specification" in text
    assert "expected" in text


def test_command_fails_clearly(tmp_path, capsys):
    (tmp_path / "no.pcap").write_bytes(b"\x00" * 100)
    assert cli.main(["specs", "trace", str(tmp_path / "missing.pcap")]) == cli.UNREADABLE
    assert cli.main(["specs", "trace", str(tmp_path / "no.pcap")]) == cli.UNREADABLE
    assert cli.main(["specs", "trace", "x.pcap", "--jar", str(tmp_path / "no.jar")]) == cli.FAILED
    assert "no.jar" in capsys.readouterr().err
    with pytest.raises(SystemExit) as e:
        cli.main(["specs", "trace", "x.pcap", "--algorithm", "lia"])
    assert e.value.code == cli.USAGE


@pytest.mark.parametrize("options", [{"mode": "kernel"}, {"L_scale": "on"}, {"ssthresh": "hystart"}, {"alpha0": "3"}])
def test_options_that_the_specification_does_not_know_are_refused(options):
    with pytest.raises(rewindow.errors.BadOption):
        conformance.rules(Choice("tccc", options))
