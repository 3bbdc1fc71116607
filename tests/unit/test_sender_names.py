"""Which algorithm a sender ran: by simulated senders, whose algorithm is known, and by counts of ACKs."""

from pathlib import Path

import pytest

import rewindow
from bench import names
from bench.senders import Ran
from rewindow.findings.senders import (
    CANDIDATE_OPTIONS,
    COUPLED_CANDIDATES,
    RARE_CANDIDATES,
    SenderAlgorithm,
    Windows,
    judged,
)
from rewindow.replays.capture import candidates_beside
from tests.unit.test_simulator import captured, one_path, two_paths

LINE = 'rate = "5M"\ndelay = "30ms"\nlimit = 31'


def senders(path: Path) -> dict[str, list[SenderAlgorithm]]:
    """Of each kind of connection."""
    with rewindow.open(str(path)) as capture:
        return {c.kind: [s.sender_algorithm for s in c.subflows] for c in capture.replay().connections}


@pytest.mark.parametrize("algorithm", COUPLED_CANDIDATES)
def test_a_coupled_sender_is_named_and_single_paths_have_it_among_their_candidates(
    algorithm: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.pcapng"
    captured(two_paths(wide='loss = "1%"', seconds=12), path, algorithm)
    found = senders(path)
    assert [s.name for s in found["mptcp"]] == [algorithm, algorithm]
    [rival] = found["tcp"]
    assert algorithm in rival.candidates
    assert rival.name == (algorithm if len(rival.candidates) == 1 else "unknown")


def test_coupled_candidates_are_replayed_only_where_there_is_mptcp(tmp_path: Path) -> None:
    rows = {}
    for protocol in ("tcp", "mptcp"):
        path = tmp_path / f"{protocol}.pcapng"
        captured(one_path(LINE, protocol=protocol), path, "css")
        with rewindow.open(str(path)) as capture, capture.stream(candidates=candidates_beside([])) as replay:
            replay.run()
            (table,) = replay.tables()
            found = replay.window_rows(table, [f"sender {name}" for name in CANDIDATE_OPTIONS])
        rows[protocol] = {label.removeprefix("sender ") for label, of in found.items() if of["rows"].any()}
    assert rows == {"tcp": {"newreno", "cubic", "bbr"}, "mptcp": set(CANDIDATE_OPTIONS)}


def test_a_single_path_that_several_algorithms_explain_has_them_as_candidates(tmp_path: Path) -> None:
    """One path has nothing to couple: CSS, TCCC and TCCC+ leave slow start alike, then each is NewReno."""
    path = tmp_path / "run.pcapng"
    captured(one_path(LINE, protocol="mptcp"), path, "tccc")
    [sender] = senders(path)["mptcp"]
    assert sender.name == "unknown"
    assert sender.text == "unknown (css, tccc, tccc+)"
    assert (sender.exceeded, sender.first_exceeded_ns) == (None, None)
    assert sender.match is not None
    assert sender.match > 0.9


def test_candidates_are_not_monitored(tmp_path: Path) -> None:
    path = tmp_path / "run.pcapng"
    captured(two_paths(), path, "css")
    steps = {}
    for chosen in ((), ("css",)):
        with (
            rewindow.open(str(path)) as capture,
            capture.stream(chosen, candidates=candidates_beside([]), monitor=True) as replay,
        ):
            replay.run()
            steps[chosen] = replay.monitored()
    assert steps[()] == 0 < steps["css",]


MARKED = 'rate = "5M"\ndelay = "30ms"\nlimit = 60\ndiscipline = { kind = "ecn_threshold", threshold = 12 }'


def named_of_rare(algorithm: str, line: str, path: Path) -> list[str]:
    """The names of one simulated sender: as analyze finds it, and where the rare candidates are replayed too."""
    captured(one_path(line, client="ecn = true", server="ecn = true"), path, algorithm)
    found = []
    for asked in ((), RARE_CANDIDATES):
        with rewindow.open(str(path)) as capture:
            [connection] = capture.replay(asked).connections
        [subflow] = connection.subflows
        found.append(subflow.sender_algorithm.text)
    return found


@pytest.mark.parametrize("algorithm", RARE_CANDIDATES)
def test_a_rare_sender_is_named_where_its_algorithm_is_replayed(algorithm: str, tmp_path: Path) -> None:
    line = MARKED if algorithm == "dctcp" else LINE
    without, asked = named_of_rare(algorithm, line, tmp_path / "run.pcapng")
    assert asked == algorithm
    assert without in ("unknown", "newreno")


def test_dctcp_without_a_mark_is_newreno(tmp_path: Path) -> None:
    for ran in ("dctcp", "newreno"):
        assert named_of_rare(ran, LINE, tmp_path / "run.pcapng") == ["newreno", "newreno"]


def test_sbcc_on_one_path_hides_no_newreno(tmp_path: Path) -> None:
    """It has no set there, and is within one segment of NewReno."""
    path, found = tmp_path / "run.pcapng", {}
    for ran in ("sbcc", "newreno"):
        captured(one_path(LINE, protocol="mptcp"), path, ran)
        [sender] = senders(path)["mptcp"]
        found[ran] = sender.candidates
    assert found["newreno"] == ["newreno"]
    assert "sbcc" in found["sbcc"]


@pytest.mark.parametrize(
    ("algorithm", "transfer", "asked", "found"),
    [
        ("bbr", "", (), "bbr"),
        ("bbr3", "", (), "bbr3"),
        ("bbr3", "", ("bbr3",), "bbr3"),
        ("bbr", 'bytes = "1MB"', (), "bbr"),
        ("bbr3", 'bytes = "1MB"', (), "bbr3"),
    ],
)
def test_versions_of_bbr_are_told_apart(
    algorithm: str, transfer: str, asked: tuple[str, ...], found: str, tmp_path: Path
) -> None:
    """After probes for bandwidth; by Startup's gain where a transfer is over before."""
    path = tmp_path / "run.pcapng"
    captured(one_path('rate = "8M"\ndelay = "30ms"\nlimit = 60', transfer), path, algorithm)
    with rewindow.open(str(path)) as capture:
        [connection] = capture.replay(asked).connections
    assert connection.subflows[0].sender_algorithm.text == found


def windows(**shares: tuple[float, float]) -> Windows:
    """1000 ACKs: of each algorithm the shares at which its window equalled the flight, and was within a segment."""
    return {
        name: {
            "rows": 1200, "full_rows": 1000, "matched": round(1000 * equal), "near": round(1000 * near), "exceeded": 0,
            "first_exceeded_ns": 0, "first_exceeded_record": 0, "paced_rows": 0, "paced_matched": 0,
        }
        for name, (equal, near) in shares.items()
    }  # fmt: skip


def paced(matched: int, own: int, other: int, either: int) -> Windows:
    """1000 ACKs, each before data that left on a timer, and BBR's replay of them."""
    of = windows(bbr=(0.1, 0.2))["bbr"]
    return {
        "bbr": {
            **of, "rows": 1000, "paced_rows": 1000, "paced_matched": matched, "paced_own": own, "paced_other": other,
            "paced_either": either,
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        (paced(900, 90, 5, 900), ["bbr"]),
        (paced(700, 0, 150, 850), ["bbr3"]),
        (paced(400, 1, 150, 550), ["bbr3"]),
        (paced(400, 40, 150, 550), []),
        (paced(900, 24, 0, 900), ["bbr", "bbr3"]),
        (paced(900, 90, 40, 900), ["bbr", "bbr3"]),
        (paced(500, 90, 0, 500), []),
    ],
)
def test_a_version_of_bbr_is_named_where_its_own_paces_lead(counts: Windows, found: list[str]) -> None:
    [sender] = judged([counts], False)
    assert sender.candidates == found
    assert sender.name == (found[0] if len(found) == 1 else "unknown")


def test_a_window_of_slow_start_does_not_overrule_a_pace() -> None:
    """A short transfer: NewReno's window equals the flights as well."""
    weak, strong = windows(newreno=(0.6, 0.7)), windows(newreno=(0.9, 1))
    [sender] = judged([weak | paced(900, 5, 0, 900)], False)
    assert sender.candidates == ["newreno", "bbr", "bbr3"]
    [sender] = judged([weak | paced(900, 50, 0, 900)], False)
    assert sender.name == "bbr"
    [sender] = judged([strong | paced(900, 50, 0, 900)], False)
    assert sender.name == "newreno", "a busy host answers ACKs late, as if it paced"


BOTH = windows(newreno=(0.95, 1), css=(0.94, 1), cubic=(0.1, 0.2))
ONLY_CSS = windows(newreno=(0.3, 0.5), css=(0.96, 1), cubic=(0.1, 0.2))
NOTHING = windows(newreno=(0.3, 0.5), css=(0.4, 0.8), cubic=(0.1, 0.2))
ONLY_CUBIC = windows(newreno=(0.1, 0.3), css=(0.1, 0.2), cubic=(0.6, 0.99))


@pytest.mark.parametrize(
    ("subflows", "is_mptcp", "found"),
    [
        ([BOTH], True, [["newreno", "css"]]),
        ([BOTH], False, [["newreno"]]),
        ([ONLY_CSS], False, [["css"]]),
        ([BOTH, ONLY_CSS], True, [["css"], ["css"]]),
        ([BOTH, NOTHING], True, [["newreno", "css"], []]),
        ([ONLY_CUBIC, ONLY_CSS], True, [["cubic"], ["css"]]),
        ([windows(newreno=(0.5, 0.6), css=(0.9, 0.95))], True, [["css"]]),
        ([windows(newreno=(0.5, 0.6), css=(0.6, 0.85))], True, [["newreno"]]),
        ([windows(css=(0.99, 1), tccc=(0.8, 1))], True, [["css"]]),
        ([windows(css=(0.75, 1), tccc=(0.74, 1))], True, [["css", "tccc"]]),
    ],
)
def test_algorithms_that_flights_do_not_exclude_are_candidates(
    subflows: list[Windows], is_mptcp: bool, found: list[list[str]]
) -> None:
    told = judged(subflows, is_mptcp)
    assert [s.candidates for s in told] == found
    assert [s.name for s in told] == [names[0] if len(names) == 1 else "unknown" for names in found]


def test_too_few_full_windows_have_no_candidates() -> None:
    few = {name: {**row, "full_rows": 29, "matched": 29, "near": 29} for name, row in ONLY_CSS.items()}
    [sender] = judged([few], True)
    assert (sender.name, sender.match, sender.candidates) == ("unknown", None, [])


@pytest.mark.parametrize(
    ("windows", "named", "missed"),
    [
        ({"lia": 1.0, "olia": 0.5}, "unknown", ["0 of 1 subflows that only one algorithm explains have its name"]),
        ({"lia": 1.0, "olia": 0.5}, "lia", []),
        ({"lia": 1.0, "olia": 0.995}, "unknown", []),
    ],
)
def test_a_sender_that_no_other_algorithm_explains_must_have_its_name(
    windows: dict[str, float], named: str, missed: list[str]
) -> None:
    """`make validate`: shares of ACKs within one segment of the kernel's window."""
    found = (Ran("lia", True), names.Named(named, ["lia", "olia"], 5, True, windows))
    assert names.falls_short([found]) == missed
