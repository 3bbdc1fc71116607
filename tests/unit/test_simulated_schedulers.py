"""Packet schedulers of the registry in the simulator. Their decisions have tests of their own (test_schedulers.py)."""

from pathlib import Path

import pytest

import rewindow
from rewindow import BadOption, UnknownScheduler
from rewindow.core import Choice
from rewindow.scenarios import Scenario, parse
from rewindow.simulator import SimulatedTransfer, simulate
from tests.unit.test_simulator import command, equal_and_within_one

NAMES = [s.name for s in rewindow.schedulers()]

NEAR_AND_FAR = """
name = "near-and-far"
seconds = 10
[hosts.client]
interfaces.a = {{ address = "10.0.1.1", mtu = 1400 }}
interfaces.b = {{ address = "10.0.2.1", mtu = 1400 }}
[hosts.server]
{server}
interfaces.a = {{ address = "10.0.1.2", mtu = 1400 }}
interfaces.b = {{ address = "10.0.2.2", mtu = {mtu} }}
[links.near]
rate = "4M"
delay = "10ms"
limit = 25
{near}
[links.far]
rate = "4M"
delay = "100ms"
limit = 25
[[paths]]
name = "near"
from = "client.a"
to = "server.a"
links = ["near"]
[[paths]]
name = "far"
from = "client.b"
to = "server.b"
links = ["far"]
[[transfers]]
name = "client"
protocol = "{protocol}"
from = "client"
to = "server"
paths = [{paths}]
congestion_control = "reno"
{transfer}
"""
MSS = 1400 - 20 - 20 - 12 - 24
LITTLE = f'write = {6 * MSS}\npause = "200ms"'
"""Windows never limit so little data: each scheduler shows whom it prefers."""
SMALL_BUFFER = 'receive_buffer = "128KiB"'
"""Data of the far path fills the receiver's window while it is under way."""


def near_and_far(
    transfer: str = "", server: str = "", near: str = "", mtu: int = 1400, protocol: str = "mptcp", first: str = "near"
) -> Scenario:
    both = '"near", "far"' if first == "near" else '"far", "near"'
    paths = both if protocol == "mptcp" else '"near"'
    text = NEAR_AND_FAR.format(
        transfer=transfer, server=server, near=near, mtu=mtu, protocol=protocol, paths=paths
    )  # fmt: skip
    return parse(text, "near-and-far.toml")


def under(name: str, scenario: Scenario, algorithm: str = "newreno", **options: str) -> SimulatedTransfer:
    run = simulate(scenario, 1, {"client": Choice(algorithm)}, schedulers={"client": Choice(name, options)})
    assert run.transfers[0].scheduler == name
    return run.transfers[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_transfer_completes_and_its_replay_agrees(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.pcapng"
    # A capture does not show that a window was halved as a penalty.
    chosen = Choice(name, {"penalize": "off"} if name == "minrtt" else {})
    with open(path, "wb", 0) as file:
        run = simulate(
            near_and_far("bytes = 3000000"), 1, rows=True, capture=file.fileno(), schedulers={"client": chosen}
        )
    assert run.transfers[0].complete
    assert run.transfers[0].bytes == 3_000_000
    assert min(s.bytes for s in run.transfers[0].subflows) > 500_000
    assert equal_and_within_one(run, path, "newreno") == (1, 1)


def test_round_robin_takes_turns_of_a_quantum() -> None:
    near, far = (s.bytes for s in under("roundrobin", near_and_far(LITTLE)).subflows)
    # Before the second subflow joins, the first one carries all.
    assert far <= near <= far + 4 * 6 * MSS
    near, far = (s.bytes for s in under("roundrobin", near_and_far(LITTLE), quantum="2").subflows)
    # Two, two, and two: one write to the near path twice, the next one once.
    assert far <= near <= far + 4 * 6 * MSS
    # A quantum of a whole write: the writes take turns.
    run = under("roundrobin", near_and_far(LITTLE), quantum="6")
    assert [s.bytes % (6 * MSS) for s in run.subflows] == [0, 0]


def test_the_lowest_round_trip_comes_first() -> None:
    run = under("minrtt", near_and_far(LITTLE))
    assert run.complete
    assert [s.segments > 0 for s in run.subflows] == [True, False]


def test_linuxs_scheduler_gives_a_write_to_the_first_subflow_that_is_idle() -> None:
    """A kernel (6.18) sent all 300 segments on the near path where that was the first, and half of them on each path
    where the far one was: there a write is not acknowledged yet when the next one comes."""
    assert [s.segments for s in under("kernel", near_and_far(LITTLE)).subflows] == [300, 0]
    far, near = (s.segments for s in under("kernel", near_and_far(LITTLE, first="far")).subflows)
    assert far == pytest.approx(150, abs=12)
    assert near == pytest.approx(150, abs=12)


def test_min_rtt_halves_the_window_of_a_path_that_fills_the_receivers() -> None:
    smaller = 'receive_buffer = "96KiB"'
    with_penalty = under("minrtt", near_and_far(server=smaller))
    without = under("minrtt", near_and_far(server=smaller), penalize="off")
    assert with_penalty.subflows[1].cwnd < without.subflows[1].cwnd / 2
    assert with_penalty.subflows[1].segments < without.subflows[1].segments


def test_min_rtt_sends_the_segment_again_that_fills_the_receivers_window() -> None:
    """The near path sends more than its own data. Data that waits for a whole timeout goes again anyway."""
    again = under("minrtt", near_and_far(server=SMALL_BUFFER), penalize="off")
    never = under("minrtt", near_and_far(server=SMALL_BUFFER), penalize="off", reinject="off")
    twice, by_timeout = (sum(s.bytes for s in run.subflows) - run.bytes for run in (again, never))
    assert twice > by_timeout + 40 * MSS


@pytest.mark.parametrize("name", ["fps", "sbfps"])
def test_forward_prediction_needs_a_smaller_receive_buffer_than_turns(name: str) -> None:
    predicted = under(name, near_and_far(server=SMALL_BUFFER))
    turns = under("roundrobin", near_and_far(server=SMALL_BUFFER))
    assert predicted.goodput_bps
    assert turns.goodput_bps
    assert predicted.goodput_bps > 1.2 * turns.goodput_bps
    assert predicted.subflows[1].segments > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_path_that_dies_does_not_stop_a_transfer(name: str) -> None:
    run = under(name, near_and_far("bytes = 2000000", near="changes = [{ at = 1, down = true }]"))
    assert run.complete
    assert run.bytes == 2_000_000
    assert run.subflows[0].timeouts > 3


@pytest.mark.parametrize("name", NAMES)
def test_segments_may_be_of_two_sizes_and_writes_of_any(name: str) -> None:
    run = under(name, near_and_far("bytes = 1000001\nwrite = 777", mtu=900))
    assert run.complete
    assert run.bytes == 1_000_001


def test_what_is_no_scheduler_is_refused() -> None:
    with pytest.raises(UnknownScheduler, match="unknown scheduler 'nope'"):
        under("nope", near_and_far())
    with pytest.raises(BadOption, match="fps has no option 'quantum'"):
        under("fps", near_and_far(), quantum="1")
    with pytest.raises(BadOption, match="quantum takes 1 to 1024"):
        under("roundrobin", near_and_far(), quantum="0")
    with pytest.raises(BadOption, match="has no options"):
        under("kernel", near_and_far(), quantum="1")
    with pytest.raises(BadOption, match="client is no MPTCP transfer"):
        under("fps", near_and_far(protocol="tcp"))


def test_the_command_takes_a_scheduler(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(
        NEAR_AND_FAR.format(
            transfer="bytes = 100000", server="", near="", mtu=1400, protocol="mptcp", paths='"near", "far"'
        )
    )
    told = command(str(path), "--scheduler", "client=roundrobin", "--scheduler-option", "quantum=4", "--json")
    assert told.returncode == 0, told.stderr
    assert '"scheduler": "roundrobin"' in told.stdout
    assert '"scheduler": "kernel"' in command(str(path), "--json").stdout
    for words, said in (
        (["--scheduler", "rival=fps"], "no MPTCP transfer rival, but client"),
        (["--scheduler", "nope"], "unknown scheduler 'nope'"),
        (["--scheduler-option", "quantum=4"], "--scheduler, which is missing"),
    ):
        told = command(str(path), *words)
        assert told.returncode == 2
        assert said in told.stderr
