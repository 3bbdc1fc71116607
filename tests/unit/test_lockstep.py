"""The simulator's sender in step with captured ones (rewindow/simulator/lockstep.py, bench/lockstep.py)."""

import os
from pathlib import Path

import pytest

import rewindow
from bench import lockstep as judged
from bench.validate import truth_rows
from rewindow.core import Choice
from rewindow.errors import BadOption, UnknownAlgorithm
from rewindow.scenarios import parse
from rewindow.simulator import simulate
from rewindow.simulator.lockstep import Lockstep, lockstep

CAPTURES = Path(__file__).parent.parent / "captures"

ONE_FLOW = """
name = "one-flow"
seconds = 6

[hosts.client]
interfaces.a = { address = "10.0.1.1", mtu = 1400 }
[hosts.server]
interfaces.a = { address = "10.0.1.2", mtu = 1400 }

[links.narrow]
rate = "5M"
delay = "20ms"
limit = 40

[[paths]]
name = "only"
from = "client.a"
to = "server.a"
links = ["narrow"]

[[transfers]]
name = "bulk"
from = "client"
to = "server"
paths = ["only"]
congestion_control = "reno"
protocol = "tcp"
seconds = 5
"""


def stepped(path: Path, algorithm: str) -> list[Lockstep]:
    with rewindow.open(path) as capture:
        return lockstep(capture.descriptors, [Choice(algorithm)], capture.names)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lockstep") / "run.pcapng"
    with path.open("wb") as f:
        simulate(parse(ONE_FLOW, "one-flow"), capture=f.fileno())
    return path


@pytest.mark.parametrize(
    ("name", "algorithm", "least"),
    [
        ("mptcp-two-subflows", "newreno", {58230: 0.98, 59584: 0.99, 47667: 0.99}),
        ("mptcp-ecn", "newreno", {54964: 0.99, 55090: 0.99, 43575: 0.99}),
        ("mptcp-three-subflows", "cubic", {48584: 0.99, 57139: 0.97}),
    ],
)
def test_sends_what_the_kernel_sent(name: str, algorithm: str, least: dict[int, float]) -> None:
    """The shares that docs/validation.md prints of these runs, rounded down: a change that lowers one is seen here."""
    found = {s.sport: s for s in stepped(CAPTURES / f"{name}.pcap", algorithm)}
    for port, share in least.items():
        assert found[port].agreed >= share * found[port].segments, port


def test_windows_are_those_of_the_kernel() -> None:
    truth = truth_rows(CAPTURES / "mptcp-two-subflows.truth.csv.gz")
    plain = next(s for s in stepped(CAPTURES / "mptcp-two-subflows.pcap", "newreno") if s.sport == 58230)
    acks, agree = judged.windows_that_agree(plain, truth[plain.src, plain.sport])
    assert acks > 1400
    assert agree >= 0.95 * acks
    larger = [(una, cwnd + 1, srtt) for una, cwnd, srtt in truth[plain.src, plain.sport]]
    assert judged.windows_that_agree(plain, larger)[1] < 0.05 * acks


def test_a_simulated_sender_is_in_step_with_itself(simulated: Path) -> None:
    (own,) = stepped(simulated, "newreno")
    assert own.segments > 1000
    assert own.agreed == own.segments


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_learns_when_the_clock_of_the_host_ticks(tmp_path: Path, seed: int) -> None:
    """Timers let retransmissions out at ticks, whose place in time is drawn for each run.

    A host that stalls sends the answer to an ACK later than lockstep waits for it, until the recovery ends.
    """
    lossy = ONE_FLOW.replace("limit = 40", "limit = 40\nloss = 0.03")
    path = tmp_path / "lossy.pcapng"
    with path.open("wb") as f:
        simulate(parse(lossy, "lossy"), capture=f.fileno(), seed=seed)
    (own,) = stepped(path, "newreno")
    assert own.segments > 400
    assert own.agreed >= 0.99 * own.segments


def test_another_controller_gets_out_of_step(simulated: Path) -> None:
    (other,) = stepped(simulated, "cubic")
    assert other.agreed < 0.9 * other.segments
    first = other.runs[0]
    assert first.parting != "none"
    assert first.captured or first.simulated


def test_is_put_right_where_a_recovery_ends() -> None:
    with rewindow.open(CAPTURES / "mptcp-two-subflows.pcap") as capture:
        marks = capture.replay(["newreno"]).marks
        ends = {
            (c, s, t)
            for c, s, t, kind in zip(
                *(marks[n].to_pylist() for n in ("connection", "subflow", "time_ns", "kind")), strict=True
            )
            if kind == "recovered"
        }
    again = 0
    for sender in stepped(CAPTURES / "mptcp-two-subflows.pcap", "newreno"):
        assert sum(run.segments for run in sender.runs) == sender.agreed
        for before, after in zip(sender.runs, sender.runs[1:], strict=False):
            again += 1
            assert before.to_ns < after.from_ns
            assert (sender.connection, sender.subflow, after.from_ns) in ends
    assert again


def test_leaves_out_senders_that_were_captured_elsewhere() -> None:
    assert stepped(CAPTURES / "mptcp-receiver-side.pcap", "newreno") == []


@pytest.mark.parametrize(("name", "error"), [("bbr", BadOption), ("sbcc", BadOption), ("nothing", UnknownAlgorithm)])
def test_refuses_controllers_that_the_sender_cannot_run(name: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=name):
        stepped(CAPTURES / "mptcp-two-subflows.pcap", name)


def test_the_table_counts_what_was_found(tmp_path: Path) -> None:
    os.symlink(CAPTURES / "mptcp-two-subflows.pcap", tmp_path / "capture.pcap")
    truth = truth_rows(CAPTURES / "mptcp-two-subflows.truth.csv.gz")
    told = dict.fromkeys(truth, "newreno")
    found = judged.compare(tmp_path, told, truth)
    assert {s.found.sport for s in found} == {58230, 59584, 47667}
    segments, agreed = sum(s.found.segments for s in found), sum(s.found.agreed for s in found)
    last = judged.table(found)[-1]
    assert last.startswith(f"| **newreno** (goal 99%) | 3 | {segments} | {agreed / segments:.2%} |")
