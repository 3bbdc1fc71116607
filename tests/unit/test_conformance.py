"""The monitor and the specification judge the same steps: recorded, random, corrupted, and those of faulty code."""

import itertools
import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

import rewindow
from bench import faults
from rewindow import cli, specs
from rewindow.conformance import checks, shared_bottleneck, step_logs
from rewindow.controllers.steps import KINDS, UNSET, monitored
from rewindow.core import Choice
from tests.packets import Trace
from tests.recurrences import script
from tests.unit.test_senders import RTT, ack, segment

CAPTURES = Path(__file__).parent.parent / "captures"
CHOICES = [Choice(name) for name in step_logs.SPECIFIED]
PLUS, SBCC = 2, 3
DETECTOR_KINDS = [k for k in KINDS if k.startswith(("detector_", "judge_"))]


def steps_of(path, choices=CHOICES):
    with rewindow.open(str(path)) as capture, capture.stream(choices, monitor=True, transitions=True) as replay:
        return list(replay.steps())


def judged(logs):
    """TLC's verdicts on logs, each (choice, steps), in their order."""
    flat = [replace(s, connection=n, choice=c) for n, (c, steps) in enumerate(logs) for s in steps]
    found = {v.connection: v for v in checks.conformance(CHOICES, flat, specs.jar(), explain=False)}
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
    captures = (
        ("two-subflows", (0,)), ("three-subflows", (1, 3)), ("ecn", (0, 1, 2, 3)), ("recurrences", (0, 1, 2, 3)),
    )  # fmt: skip
    for name, choices in captures:
        of = {}
        for step in steps_of(CAPTURES / f"mptcp-{name}.pcap"):
            of.setdefault((step.connection, step.choice), []).append(step)
        logs += [(choice, steps[:6000]) for (_, choice), steps in of.items() if choice in choices]
    kinds = Counter(s.kind for _, steps in logs for s in steps)
    assert len(logs) == 22
    assert all(kinds[k] for k in ("join", "ack", "rtt", "loss", "ece", "timeout", "undo", "leave", "machinery", "idle"))
    assert all(
        kinds[k]
        for k in ("delivered", "sets", "detector_join", "detector_ece", "judge_subflow", "judge_set", "detector_end")
    )
    for verdict, (_, steps) in zip(judged(logs), logs, strict=True):
        assert verdict.conforms, verdict.as_json()
        assert verdict.events == len(steps)
        assert not any(s.violated for s in steps)


def test_a_sender_that_began_with_more_than_ten_conforms(tmp_path):
    trace = Trace()
    trace.handshake(1.0, RTT)
    for i in range(30):
        segment(trace, 1.2 + i * 1e-5, i)
    for n in (2, 20, 30):
        ack(trace, 1.3 + n * 1e-3, n)
    steps = [s for s in steps_of(trace.write(tmp_path / "larger.pcap")) if s.choice == 0]
    [began] = [s for s in steps if s.kind == "machinery"]
    assert began.paths[0].cwnd_q16 == 30 << 16
    smaller = [own(s, cwnd_q16=(30 << 16) - 1) if s is began else s for s in steps]
    assert [v.conforms for v in judged([(0, steps), (0, smaller)])] == [True, False]
    assert not any(s.violated for s in steps)


def test_random_steps_conform():
    logs = [(c, faults.random_steps(choice.name, seed)) for c, choice in enumerate(CHOICES) for seed in range(12)]
    kinds = Counter(s.kind for _, steps in logs for s in steps)
    assert all(kinds[k] for k in ("join", "leave", "ack", "rtt", "loss", "ece", "timeout", "undo", "sets"))
    assert all(kinds[k] > 50 for k in DETECTOR_KINDS if k != "detector_end")
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
    beyond = [i for i in beyond if i < 900]  # TLC follows all that goes before
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


def kept(steps, kind, when=lambda before, step: True):
    """Places of the steps of that kind; before: the detector's step before it."""
    found, before = [], None
    for i, step in enumerate(steps):
        if step.kind == kind and before and when(before, step):
            found.append(i)
        before = step if step.kind in DETECTOR_KINDS else before
    return found


def begins(before, step):
    """A decision on the subflow alone."""
    return step.paths[step.path].asked == step.path + 1 and before.paths[step.path].asked == 0


def detected(step, place, **changed):
    paths = list(step.paths)
    paths[place] = replace(paths[place], **changed)
    return replace(step, paths=tuple(paths))


def corrupted_detection(steps, r, how):
    """The steps of a detector with one thing wrong in the middle, and where."""
    found = list(steps)

    def at(*of):
        return r.choice([i for kind in of for i in kept(steps, kind) if i > 40])

    match how:
        case "a member is missing":
            n = r.choice([i for i in kept(steps, "judge_subflow") if any(p and p.set for p in steps[i].paths)])
            place = next(i for i, p in enumerate(steps[n].paths) if p and p.set)
            found[n] = detected(steps[n], place, set=0, set_state=0)
        case "final after one stage":
            changed = kept(steps, "judge_subflow", lambda b, s: any(p and p.set_state == 1 for p in s.paths))
            n = r.choice(changed)
            place = next(i for i, p in enumerate(steps[n].paths) if p and p.set_state == 1)
            found[n] = detected(steps[n], place, set_state=2)
        case "a set for nothing":
            n = r.choice(kept(steps, "detector_ece", lambda b, s: any(p and p.set == 0 for p in s.paths)))
            place = next(i for i, p in enumerate(steps[n].paths) if p and p.set == 0)
            found[n] = detected(steps[n], place, set=4, set_state=1)
        case "a decision is forgotten":
            n = r.choice(kept(steps, "detector_ece", begins))
            found[n] = detected(steps[n], steps[n].path, asked=0, seen=0)
        case "somebody else's event is noted":
            n = r.choice(kept(steps, "detector_ece", begins))
            found[n] = detected(steps[n], steps[n].path, seen=steps[n].paths[steps[n].path].seen | 1 << steps[n].path)
        case "the controller is told another state":
            n = r.choice(kept(steps, "sets", lambda b, s: any(p and p.set_state == 2 for p in s.paths)))
            place = next(i for i, p in enumerate(steps[n].paths) if p and p.set_state == 2)
            found[n] = detected(steps[n], place, set_state=1)
        case "a subflow that was not told joins":
            n = at("detector_loss")
            place = steps[n].paths.index(None)
            paths = list(steps[n].paths)
            paths[place] = replace(steps[n].paths[steps[n].path], set=2, set_state=1)
            found[n] = replace(steps[n], paths=tuple(paths))
        case "one nanosecond late":
            n = at("judge_subflow", "judge_set")
            found[n] = replace(steps[n], time_ns=steps[n].time_ns + 1)
        case "time goes back":
            n = at("detector_ece")
            found[n] = replace(steps[n], time_ns=steps[n].time_ns - 2_000_000_000)
        case "a decision is skipped":
            n = at("judge_subflow", "judge_set")
            del found[n]
        case "a mark is skipped":
            n = r.choice(kept(steps, "detector_ece", begins))
            del found[n]
        case "a round trip is shorter":
            n = r.choice(kept(steps, "detector_ece", begins))
            paths = [p and replace(p, srtt_ns=p.srtt_ns // 16) for p in steps[n].paths]
            found[n] = replace(steps[n], paths=tuple(paths))
    return found, n


BOTH_SEE = [
    "a member is missing", "final after one stage", "a set for nothing", "somebody else's event is noted",
    "the controller is told another state", "a subflow that was not told joins",
]  # fmt: skip
ONLY_TLC_SEES = [
    "a decision is forgotten", "one nanosecond late", "time goes back", "a decision is skipped", "a mark is skipped",
    "a round trip is shorter",
]  # fmt: skip


def test_monitor_and_specification_agree_on_corrupted_detections():
    """Both find the same step, in what the monitor looks at: sets, and what a decision has seen. What rests on times,
    and what did not happen, is for the specification to see."""
    r = random.Random(5)
    logs = [faults.random_steps("sbcc", seed) for seed in (1, 4, 6)]
    cases = [(how, *corrupted_detection(log, r, how)) for how in BOTH_SEE + ONLY_TLC_SEES for log in logs]
    for (how, steps, at), verdict in zip(cases, judged([(SBCC, steps) for _, steps, _ in cases]), strict=True):
        monitor, tlc = first_violation(SBCC, steps), verdict.first_violation
        assert tlc, how
        if how in BOTH_SEE:
            assert monitor[0] == tlc.event == at, (how, monitor, tlc.as_json())
        else:
            assert tlc.event >= at, how
            assert monitor is None or monitor[0] >= tlc.event, (how, monitor, tlc.event)


def test_window_of_a_subflow_to_the_nanosecond():
    """An event counts up to half a round trip after the mark that asks, and not a nanosecond later."""
    logs = []
    for late_ns in (0, 1):
        controller = rewindow.Controller("sbcc")
        controller.observe()
        for _ in range(2):
            controller.join({"rtt": 0.04})
        controller.join({"rtt": 0.2})  # keeps the decision waiting
        controller.ece(0, time=1)
        controller.ece(1, time=1 + (20_000_000 + late_ns) / 1e9)
        controller.advance(3)
        logs.append(controller.steps())
    for verdict in judged([(SBCC, steps) for steps in logs]):
        assert verdict.conforms, verdict.first_violation.as_json()
    assert [shared_bottleneck.STATES[steps[-1].paths[1].set_state] for steps in logs] == ["judgement", "monitor"]


def test_who_joins_under_a_decision_is_not_asked():
    controller = rewindow.Controller("sbcc")
    controller.observe()
    controller.join({"rtt": 0.04})
    controller.ece(0, time=1)
    controller.join({"rtt": 0.04})
    controller.ece(1, time=1.01)
    controller.advance(2)
    steps = controller.steps()
    judged_at = [s for s in steps if s.kind == "judge_subflow"]
    assert len(judged_at) == 2
    assert judged_at[0].paths[0].set == 0
    (verdict,) = judged([(SBCC, steps)])
    assert verdict.conforms, verdict.first_violation.as_json()


def test_what_an_undo_gives_back_and_an_idle_time_leaves():
    """Both remember what the window was before: the monitor, and the specification."""
    log = [s for s in steps_of(CAPTURES / "mptcp-two-subflows.pcap") if (s.connection, s.choice) == (1, 1)]
    at = next(i for i, s in enumerate(log) if s.kind == "loss")
    step = log[at]
    undone = own(step, cwnd_q16=50 << 16, ssthresh_q16=60 << 16)
    idle = own(step, cwnd_q16=step.paths[step.path].cwnd_q16 // 7)
    for kind, wrong, name in (("undo", undone, "UndoGivesBack"), ("idle", idle, "IdleKeeps")):
        steps = [*log[: at + 1], replace(wrong, kind=kind, acked_segments=0)]
        (verdict,) = judged([(1, steps)])
        event, violated = first_violation(1, steps)
        assert verdict.first_violation.event == event == at + 1
        assert name in violated


# What goes on over many steps


@pytest.fixture(scope="module")
def recurrences():
    """Of each choice, the first connection's steps."""
    of = {}
    for step in steps_of(CAPTURES / "mptcp-recurrences.pcap"):
        if step.connection == 0:
            of.setdefault(step.choice, []).append(step)
    return of


def test_the_capture_of_recurrences_is_what_its_script_writes():
    assert (CAPTURES / "mptcp-recurrences.pcap").read_bytes() == script().bytes()


def test_the_capture_of_recurrences_has_all_of_them(recurrences):
    css, sbcc = recurrences[0], recurrences[SBCC]
    pairs = list(itertools.pairwise(css))
    undone = [(b, s) for b, s in pairs if s.kind == "undo"]
    assert [(b.initial_ss, s.initial_ss, s.paths[s.path].initial) for b, s in undone] == [
        (True, True, True),  # coupled again
        (False, False, False),  # the connection left while the reduction could still be undone
        (False, False, False),  # of a timeout, in congestion avoidance
    ]
    left = [(s.initial_ss, sum(p is not None for p in s.paths)) for s in css if s.kind == "leave"]
    assert left == [(True, 2), (False, 2), (False, 1), (False, 0)]
    assert Counter(s.path for s in css if s.kind == "join")[2] == 2, "a place is taken again"
    assert len({p.coupled_rtt_ns // 10_000_000 for p in css[-400].paths if p}) > 1, "round trips differ"
    assert sum(s.kind == "timeout" for s in css) == 2
    assert any(s.kind == "machinery" and s.paths[s.path].cwnd_q16 == 65536 for s in css), "a further timeout"
    windows = [(b, s) for b, s in itertools.pairwise(sbcc) if s.kind == "delivered" and b.paths != s.paths]
    assert len(windows) > 20, "windows of data in a final set"
    assert any(0 < p.beta_q32 < 1 << 32 for s in sbcc for p in s.paths if p)


def changed_by(step, name, change):
    return own(step, **{name: getattr(step.paths[step.path], name) + change})


@pytest.mark.parametrize(
    ("choice", "kind", "name", "change", "check"),
    [
        (1, "rtt", "coupled_rtt_ns", 2, "CoupledRttSmoothed"),
        (1, "rtt", "coupled_rtt_ns", -2, "CoupledRttSmoothed"),
        (1, "undo", "cwnd_q16", 1, "UndoGivesBack"),
        (1, "undo", "ssthresh_q16", -1, "UndoGivesBack"),
        (1, "loss", "flight_peak_q16", 1, "PeakOfFlight"),
        (1, "timeout", "flight_peak_q16", -1, "PeakOfFlight"),
        (1, "machinery", "ssthresh_q16", 1, "MachinerySpares"),
        (1, "idle", "ssthresh_q16", 1, "IdleKeeps"),
        (SBCC, "delivered", "beta_q32", 4, "BetaAsMarked"),
        (SBCC, "delivered", "beta_q32", -4, "BetaAsMarked"),
        (SBCC, "ack", "beta_q32", 4, "BetaAsMarked"),
        (SBCC, "sets", "beta_q32", -4, "BetaAsMarked"),
    ],
)
def test_the_monitor_follows_recurrences_to_the_unit(recurrences, choice, kind, name, change, check):
    """The least change beyond the tolerance, at the last step of a kind, which rests on the most steps before it."""
    steps = recurrences[choice]

    def applies(before, step):
        p = step.paths[step.path]
        moved = before.paths != step.paths or kind not in ("sets", "delivered")
        return step.kind == kind and p is not None and getattr(p, name) < 1 << 60 and moved

    at = max(i for i in range(1, len(steps)) if applies(steps[i - 1], steps[i]))
    assert first_violation(choice, steps) is None
    event, violated = first_violation(choice, [*steps[:at], changed_by(steps[at], name, change)])
    assert (event, check in violated) == (at, True), violated


def test_marks_and_windows_of_data_are_counted(recurrences):
    """One marked segment less, or the end of a window one segment later, and beta is not what the monitor finds."""
    steps = recurrences[SBCC]
    marked = max(
        i for i, s in enumerate(steps) if s.kind == "delivered" and s.marked_segments and s.paths[s.path].set_state == 2
    )
    wrong = replace(steps[marked], marked_segments=0)
    event, violated = first_violation(SBCC, [*steps[:marked], wrong, *steps[marked + 1 :]])
    assert event >= marked
    assert violated == ("BetaAsMarked",)
    moves = max(
        i for i in range(1, len(steps)) if steps[i].kind == "delivered" and steps[i].paths != steps[i - 1].paths
    )
    early = replace(steps[moves], una=steps[moves].una - 100_000)
    assert first_violation(SBCC, [*steps[:moves], early]) == (moves, ("BetaAsMarked",))


def verdicts_in_slow_start():
    """Five subflows of tccc+, of which one, then two at once, are found to share with no other."""
    controller = rewindow.Controller("tccc+", con_ssthresh=200)
    controller.observe()
    for rtt in (0.05, 0.1, 0.1, 0.1, 0.1):
        controller.join({"rtt": rtt})
    for _ in range(2):
        for path in range(5):
            controller.ack(path, 8, 0.1 if path else 0.05)
    controller.loss(3)
    controller.verdict({0: None, 1: 1, 2: 1, 3: 1, 4: 1})
    for path in (0, 1, 2, 0, 1, 2):
        controller.ack(path, 40, 0.1 if path else 0.05)
    controller.undo(3)
    controller.loss(0)
    controller.undo(0)
    controller.verdict({1: None, 3: None})
    controller.leave(1)
    while controller.state["initial_ss"]:
        controller.ack(2, 40, 0.1)
    return controller.steps()


def test_verdicts_conform():
    """Who shares with no other counts neither in the rate nor in the smallest RTT; alpha moves as at a close."""
    steps = verdicts_in_slow_start()
    told = [i for i, s in enumerate(steps) if i and s.kind == "sets" and s.alpha_q32 != steps[i - 1].alpha_q32]
    assert len(told) == 2
    assert (steps[-1].kind, steps[-1].initial_ss) == ("ack", False)
    again = monitored(CHOICES[PLUS], steps)
    assert not any(s.violated for s in again), [(i, s.kind, s.violated) for i, s in enumerate(again) if s.violated]
    off = [[*steps[:i], replace(steps[i], alpha_q32=steps[i].alpha_q32 + (1 << 22))] for i in told]
    kept = [[*steps[:i], replace(steps[i], alpha_q32=steps[i - 1].alpha_q32)] for i in told]
    early = next(i for i, s in enumerate(steps) if i > told[0] and s.kind == "ack" and s.path == 1)
    paths = [
        replace(p, initial=False, ssthresh_q16=q.cwnd_q16, cwnd_q16=q.cwnd_q16) if p and q and q.initial else p
        for p, q in zip(steps[early].paths, steps[early - 1].paths, strict=True)
    ]
    left = [*steps[:early], replace(steps[early], initial_ss=False, paths=tuple(paths))]
    whole, *wrong = judged([(PLUS, steps), *((PLUS, log) for log in (*off, *kept, left))])
    assert whole.conforms, whole.first_violation.as_json()
    assert not any(v.conforms for v in wrong)
    assert [first_violation(PLUS, log) for log in (*off, *kept)] == [(i, ("AlphaMoves",)) for i in (*told, *told)]
    event, violated = first_violation(PLUS, left)
    assert (event, "ExitJustified" in violated) == (early, True)


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
    monkeypatch.setattr(step_logs, "PIECE_STEPS", 37)
    whole, broken = judged([(1, steps), (1, wrong)])
    assert whole.conforms
    assert whole.events == 400
    assert broken.first_violation.event == at

    begun = step_logs.Log(step_logs.Verdict(0, "tccc"))
    begun.steps = list(steps)
    pieces = list(begun.cut())
    assert [p.begins for p in pieces] == list(range(0, 400, 37))
    assert all(a.steps[-1] is b.start.step and a.memory == b.start.memory for a, b in itertools.pairwise(pieces))
    pieces[2].memory = {0: (1, 1, 0)}
    tlc = checks._Tlc(specs.jar(), checks.Runs())
    assert [(p.begins, why) for p, _, why in checks._follow(tlc, checks.rules(CHOICES[1]), 0, pieces)] == [
        (74, "broken")
    ]


def test_pieces_of_a_detector_are_a_chain(monkeypatch):
    """However often TLC hands over its state, what waits and when it is due included, the verdict is the same."""
    steps = faults.random_steps("sbcc", 4)
    wrong, at = corrupted_detection(steps, random.Random(2), "one nanosecond late")
    monkeypatch.setattr(checks, "BATCH_STEPS", 300)
    runs = []
    write = shared_bottleneck.write
    monkeypatch.setattr(shared_bottleneck, "write", lambda *a: (runs.append(a[2]), write(*a)))
    whole, broken = judged([(SBCC, steps), (SBCC, wrong)])
    assert len(runs) >= 3
    assert any(j[0] for pieces in runs[1:] for p in pieces if p.start for j in p.start[0][4] + p.start[0][5]), (
        "none waits"
    )
    assert whole.conforms, whole.first_violation.as_json()
    assert whole.events == len(steps)
    assert broken.first_violation.event == at
    assert broken.first_violation.why == "untimely"

    carry, changed = shared_bottleneck.DetectionLog.carry, []

    def later(log, piece, state):
        """Once, a piece starts with decisions that are due a second later than they are."""
        if not changed and any(j[0] for j in state[4] + state[5]):
            changed.append(piece)
            state = [*state[:-1], [[high + 1, low] for high, low in state[-1]]]
        carry(log, piece, state)

    monkeypatch.setattr(shared_bottleneck.DetectionLog, "carry", later)
    (verdict,) = judged([(SBCC, steps)])
    assert verdict.first_violation.why == "untimely"
    assert verdict.first_violation.event > changed[0].steps[-1].event


def test_silence_of_decades_fits():
    """Times are told to the nanosecond in integers of 32 bits, however far they are apart."""
    controller = rewindow.Controller("sbcc")
    controller.observe()
    for _ in range(2):
        controller.join({"rtt": 0.04})
    for years in range(0, 60, 3):
        for path in (0, 1):
            controller.ece(path, time=years * 31_536_000 + path * 0.01)
    steps = controller.steps()
    assert steps[-1].time_ns - steps[3].time_ns > 1 << 60
    assert any(p.set_state == 2 for p in steps[-1].paths if p)
    wrong = replace(steps[-2], time_ns=steps[-2].time_ns + 25_000_000)
    verdict, other = judged([(SBCC, steps), (SBCC, [*steps[:-2], wrong, steps[-1]])])
    assert verdict.conforms, verdict.first_violation.as_json()
    assert not other.conforms


def test_windows_beyond_32_bits_conform():
    """A window of 2^20 segments does not fit in Q16; coarser units hold it."""
    controller = rewindow.Controller("tccc", con_ssthresh=1 << 20)
    controller.observe()
    for path in range(2):
        controller.join({"rtt": 0.02})
        controller.loss(path)
    controller.join({"rtt": 0.02})  # nobody is coupled: slow start to its own threshold
    for _ in range(5):
        controller.ack(2, 1 << 17, 0.02)
    controller.loss(2)
    for _ in range(5):
        controller.ack(2, 40, 0.03)
        controller.ack(0, 40, 0.02)
    steps = controller.steps()
    assert max(p.cwnd_q16 for p in steps[-1].paths if p) > 1 << 31
    wrong = own(steps[-1], cwnd_q16=steps[-1].paths[0].cwnd_q16 + 65536)
    verdict, other = judged([(1, steps), (1, [*steps[:-1], wrong])])
    assert verdict.conforms, verdict.as_json()
    assert other.first_violation.event == len(steps) - 1


# Faults


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    return faults.Workshop(tmp_path_factory.mktemp("faults"))


ONLY_TLC_FINDS = {
    "a closed subflow's decision is taken",
    "observation window off by one",
    "a mark after the window counts",
    "an old mark counts",
    "who joins later is asked about",
    "an echo counts as an event",
    "a loss asks as a mark does",
    "decides before the window is over",
}


@pytest.mark.parametrize("fault", [f for f in faults.FAULTS if f.name not in ONLY_TLC_FINDS], ids=lambda f: f.name)
def test_monitor_finds_fault(workshop, fault):
    if fault in faults.RECURRENCES:
        assert workshop.on_captures(fault, ["recurrences"])
    else:
        assert faults.monitor_notices(workshop.logs(fault, faults.SEQUENCES))


def test_monitor_finds_nothing_in_the_controllers_as_they_are(workshop):
    logs = workshop.logs(None, 12)
    assert sum(len(steps) for _, steps in logs) > 4000
    assert not faults.monitor_notices(logs)
    assert not workshop.on_captures(None, faults.MPTCP)


def test_tlc_finds_faults(workshop):
    names = (
        "exit at the rate, not above it",
        "exit forgets a subflow",
        "a loss takes none out",
        "equation 8 without its half",
        *ONLY_TLC_FINDS,
    )
    sown = [f for f in faults.FAULTS if f.name in names]
    assert len(sown) == len(names)
    few = [
        [
            log
            for n, log in enumerate(workshop.logs(f, faults.SEQUENCES))
            if n % faults.SEQUENCES < (3 if log[0] == "sbcc" else 8)
        ]
        for f in sown
    ]
    found = faults.tlc_notices(few)
    assert [f.name for f, notices in zip(sown, found, strict=True) if not notices] == []


# The command


def test_command_answers_for_each_connection(capsys):
    path = str(CAPTURES / "mptcp-two-subflows.pcap")
    assert cli.main(["specs", "trace", path, "--algorithm", "css", "--json"]) == cli.DONE
    found = json.loads(capsys.readouterr().out)["connections"]
    assert [(c["id"], c["algorithm"], c["conforms"], c["first_violation"]) for c in found] == [
        (0, "css", True, None), (1, "css", True, None),
    ]  # fmt: skip
    assert all(c["events"] > 1000 for c in found)


def reported(path):
    """JUnit's cases: (suite, name, what is wrong, its message, its text)."""
    return [
        (suite.get("name"), case.get("name"), *((t.tag, t.get("message"), t.text) for t in case))
        for suite in ElementTree.parse(path).getroot()
        for case in suite
    ]


def test_command_tells_what_was_expected(capsys, monkeypatch, tmp_path):
    """A capture's steps with one window wrong: exit status 1, the state before, what is allowed, and what was found."""
    whole = rewindow.Replay.steps

    def wrong(self, *asked):
        for n, step in enumerate(whole(self, *asked)):
            p = step.paths[step.path]
            yield own(step, cwnd_q16=p.cwnd_q16 + 65536) if n == 4 else step

    monkeypatch.setattr(rewindow.Replay, "steps", wrong)
    path, report = str(CAPTURES / "mptcp-two-subflows.pcap"), tmp_path / "junit.xml"
    command = ["specs", "trace", path, "--algorithm", "tccc"]
    assert cli.main([*command, "--connection", "0", "--json"]) == cli.NEGATIVE
    first = json.loads(capsys.readouterr().out)["connections"][0]["first_violation"]
    assert (first["event"], first["step"], first["path"]) == (4, "ack", 0)
    (allowed,) = first["expected"]
    before, found = first["before"]["subflows"][0]["cwnd"], first["found"]["subflows"][0]["cwnd"]
    low, high = allowed["subflows"][0]["cwnd"]
    assert before + 0.4 < low <= high < before + 0.6 < found
    assert high - low < 0.001
    assert allowed["initial_slow_start"] is True
    assert cli.main([*command, "--junit", str(report)]) == cli.NEGATIVE
    text = capsys.readouterr().out
    assert "event 4 is no step of the specification" in text
    assert "expected" in text
    wrong, right = reported(report)
    assert wrong[:2] == (path, "connection 0, tccc")
    assert right == (path, "connection 1, tccc")
    tag, message, told = wrong[2]
    assert tag == "failure"
    assert message.startswith("connection 0, tccc: event 4 is no step of the specification: ack of")
    assert [line.split()[0] for line in told.splitlines() if line[2:3].strip()] == [
        "connection", "before", "expected", "found",
    ]  # fmt: skip
    assert told in text


def test_a_capture_without_steps_is_reported_as_skipped(tmp_path):
    empty, report = tmp_path / "empty.pcap", tmp_path / "junit.xml"
    empty.write_bytes((CAPTURES / "mptcp-ecn.pcap").read_bytes()[:24])
    assert cli.main(["specs", "trace", str(empty), "--junit", str(report)]) == cli.DONE
    ((_, _, (tag, message, _)),) = reported(report)
    assert (tag, message) == ("skipped", "no steps: nothing was acknowledged")


def test_command_follows_one_connection(capsys):
    command = ["specs", "trace", str(CAPTURES / "mptcp-two-subflows.pcap"), "--algorithm", "tccc", "--json"]
    assert cli.main(command) == cli.DONE
    both = json.loads(capsys.readouterr().out)["connections"]
    assert cli.main([*command, "--connection", "1"]) == cli.DONE
    assert json.loads(capsys.readouterr().out)["connections"] == [both[1]]
    assert cli.main([*command, "--connection", "2"]) == cli.USAGE
    assert "the capture has 2 connections, counted from 0" in capsys.readouterr().err
    with pytest.raises(SystemExit) as e:
        cli.main([*command, "--connection", "-1"])
    assert e.value.code == cli.USAGE


def follow(checker, steps):
    with checker:
        for step in steps:
            checker.add(step)
        return checker.verdicts()


def test_progress_is_told_and_ends_what_runs(monkeypatch):
    """Events that TLC is through with grow to all of them; what the listener raises kills TLC."""
    steps = [s for s in steps_of(CAPTURES / "mptcp-two-subflows.pcap", CHOICES[1:2]) if s.connection == 1]
    monkeypatch.setattr(checks, "BATCH_STEPS", 1500)
    monkeypatch.setattr(step_logs, "PIECE_STEPS", 400)
    told = []
    runs = checks.Runs(processes=1)
    checker = checks.Checker(CHOICES[1:2], specs.jar(), runs=runs, on_progress=told.append)
    (verdict,) = follow(checker, steps)
    assert verdict.conforms
    followed = [p.followed for p in told]
    assert followed == sorted(followed)
    assert any(0 < p.pieces_followed < p.pieces for p in told)
    assert any(0 < p.followed < p.events for p in told)
    last = checker.progress()
    assert (last.events, last.followed) == (len(steps), len(steps))
    assert last.pieces == last.pieces_followed > len(steps) / 400

    class Enough(Exception):
        pass

    def enough(_):
        raise Enough

    checker = checks.Checker(CHOICES[1:2], specs.jar(), on_progress=enough)
    with pytest.raises(Enough):
        follow(checker, steps)
    ends = [f.exception() for f in checker._running if not f.cancelled()]
    assert "cancelled" in [e.outcome.stopped for e in ends if isinstance(e, checks.CheckFailed)], "it was killed"


def test_limits_of_a_run_are_kept():
    steps = steps_of(CAPTURES / "mptcp-two-subflows.pcap", CHOICES[1:2])
    for runs, said in (
        (checks.Runs(memory_mb=8), "OutOfMemory"),
        (checks.Runs(seconds_max=0.1), "not finished in 0.1 s"),
        (checks.Runs(folder=Path("/nowhere")), "/nowhere"),
    ):
        checker = checks.Checker(CHOICES[1:2], specs.jar(), runs=runs)
        with pytest.raises((checks.CheckFailed, OSError), match=said):
            follow(checker, steps)


def test_command_follows_all_that_have_a_specification(capsys):
    assert cli.main(["specs", "trace", str(CAPTURES / "mptcp-ecn.pcap"), "--connection", "0", "--json"]) == cli.DONE
    found = json.loads(capsys.readouterr().out)["connections"]
    assert [(c["algorithm"], c["specification"]) for c in found] == list(step_logs.SPECIFIED.items())
    assert all(c["conforms"] and c["events"] > 2000 for c in found)


def test_command_tells_what_a_detector_should_have_found(capsys, monkeypatch):
    """A set that has one member less than was seen; a decision that comes late."""
    whole = rewindow.Replay.steps
    changes = {
        "differs": lambda step: detected(step, 1, set=0, set_state=0),
        "untimely": lambda step: replace(step, time_ns=step.time_ns + 1),
    }
    command = ["specs", "trace", str(CAPTURES / "mptcp-ecn.pcap"), "--algorithm", "sbcc", "--connection", "0"]
    said = {}
    for why, change in changes.items():

        def wrong(self, *asked, change=change):
            changed = False
            for step in whole(self, *asked):
                made = step.kind == "judge_subflow" and step.paths[1] and step.paths[1].set and not changed
                changed = changed or made
                yield change(step) if made else step

        monkeypatch.setattr(rewindow.Replay, "steps", wrong)
        assert cli.main([*command, "--json"]) == cli.NEGATIVE
        (found,) = json.loads(capsys.readouterr().out)["connections"]
        assert (found["first_violation"]["step"], found["first_violation"]["why"]) == ("judge_subflow", why)
        assert cli.main(command) == cli.NEGATIVE
        said[why] = found["first_violation"], capsys.readouterr().out
    first, text = said["differs"]
    (expected,) = first["expected"]
    assert [(s["path"], s["set"], s["state"]) for s in expected["subflows"]] == [
        (0, 1, "judgement"),
        (1, 1, "judgement"),
    ]
    assert [s["set"] for s in first["found"]["subflows"]] == [1, 0]
    assert "expected  subflow 0: judgement, set 1" in text
    assert "subflow 1: monitor\n" in text + "\n"
    first, text = said["untimely"]
    assert first["expected"] == []
    assert "expected  another time" in text


def test_command_fails_clearly(tmp_path, capsys):
    (tmp_path / "no.pcap").write_bytes(b"\x00" * 100)
    report = tmp_path / "junit.xml"
    junit = ["--junit", str(report)]
    assert cli.main(["specs", "trace", str(tmp_path / "missing.pcap")]) == cli.UNREADABLE
    assert cli.main(["specs", "trace", str(tmp_path / "no.pcap"), *junit]) == cli.UNREADABLE
    ((suite, _, (tag, message, _)),) = reported(report)
    assert (suite, tag) == (str(tmp_path / "no.pcap"), "error")
    assert message in capsys.readouterr().err
    assert cli.main(["specs", "trace", "x.pcap", "--jar", str(tmp_path / "no.jar"), *junit]) == cli.FAILED
    assert "no.jar" in capsys.readouterr().err
    assert "no.jar" in reported(report)[0][2][1]
    assert cli.main(["specs", "trace", "x.pcap", "--junit", str(tmp_path / "no" / "junit.xml")]) == cli.USAGE
    with pytest.raises(SystemExit) as e:
        cli.main(["specs", "trace", "x.pcap", "--algorithm", "lia"])
    assert e.value.code == cli.USAGE


@pytest.mark.parametrize("options", [{"mode": "kernel"}, {"L_scale": "on"}, {"ssthresh": "hystart"}, {"alpha0": "3"}])
def test_options_that_the_specification_does_not_know_are_refused(options):
    with pytest.raises(rewindow.errors.BadOption):
        checks.rules(Choice("tccc", options))


def test_another_detector_is_refused():
    """What dwc finds is no behaviour of SB-CC's detector."""
    with pytest.raises(rewindow.errors.BadOption, match="detector=sbcc"):
        checks.Checker([Choice("sbcc", {"detector": "dwc"})], specs.jar())
    assert checks.rules(Choice("sbcc", {"detector": "sbcc"})) is None


def test_the_page_has_each_seeded_fault() -> None:
    """The table of docs/conformance.md has all faults, in their order, and each is found by somebody."""
    page = (faults.CHECKOUT / "docs" / "conformance.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    found = [row for row in rows if len(row) == 5 and "/" in row[1]]
    assert [(row[0].removeprefix("| "), row[1]) for row in found] == [(f.name, f.file) for f in faults.FAULTS]
    assert [row[0] for row in found if {cell.removesuffix(" |") for cell in row[2:]} == {"-"}] == []
