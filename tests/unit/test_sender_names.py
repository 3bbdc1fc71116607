"""Which algorithm a sender ran: by simulated senders, whose algorithm is known, and by counts of ACKs."""

from pathlib import Path

import pytest

import rewindow
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


def windows(**shares: tuple[float, float]) -> Windows:
    """1000 ACKs: of each algorithm the shares at which its window equalled the flight, and was within a segment."""
    return {
        name: {
            "rows": 1200, "full_rows": 1000, "matched": round(1000 * equal), "near": round(1000 * near), "exceeded": 0,
            "first_exceeded_ns": 0, "first_exceeded_record": 0, "paced_rows": 0, "paced_matched": 0,
        }
        for name, (equal, near) in shares.items()
    }  # fmt: skip


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
