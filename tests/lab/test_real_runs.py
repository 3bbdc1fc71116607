"""Runs on this machine's kernel, as root. They fail where the kernel lacks what the lab needs.

The links are so slow that a busy machine does not make a run invalid: what may be late is the time of one packet.
TCP starts after MPTCP's second subflow has joined: behind TCP's queue the join could last until MPTCP has sent all.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rewindow
from bench import controllers
from bench.validate import our_rows, score, truth_rows
from kernel import loaded, toolchain
from lab import machine, tracing
from lab.programs import run

SCENARIO = """
name = "small"
seconds = 60
seed = 3

[hosts.client]
interfaces.a = { address = "10.0.1.1", mtu = 1400 }
interfaces.two = { address = "10.0.2.1", mtu = 1400 }

[hosts.server]
interfaces.one = { address = "10.0.1.2", mtu = 1400 }
interfaces.two = { address = "10.0.2.2", mtu = 1400 }

[hosts.other]
offload = true
interfaces.six = { address = "fd00:3::1", mtu = 1400 }

[hosts.peer.interfaces]
six = { address = "fd00:3::2", mtu = 1400 }

[links.bottleneck]
rate = "300k"
delay = "10ms"
limit = "20 packets"

[links.second]
rate = "100k"
delay = "20ms"
limit = "20 packets"

[[paths]]
name = "one"
from = "client.a"
to = "server.one"
links = ["bottleneck"]

[[paths]]
name = "two"
from = "client.two"
to = "server.two"
links = ["second"]

[[paths]]
name = "six"
from = "other.six"
to = "peer.six"
links = ["second"]

[[transfers]]
name = "mptcp"
protocol = "mptcp"
from = "client"
to = "server"
bytes = "90kB"
congestion_control = "reno"

[[transfers]]
name = "tcp"
protocol = "tcp"
from = "other"
to = "peer"
bytes = "30kB"
start = "1s"
congestion_control = "bbr"

[[captures]]
host = "client"

[[captures]]
name = "other"
host = "other"
"""

WAIT_S = 300
"""Another run of the lab may be under way on this machine."""

PROGRAM = [sys.executable, "-m", "lab.cli"]


def left_on_the_machine() -> list[str]:
    """Namespaces, devices and the trace instance of the lab."""
    devices = [d["ifname"] for d in json.loads(run(["ip", "-j", "link", "show"]))]
    instance = [str(tracing.INSTANCE)] if tracing.INSTANCE.exists() else []
    return machine.namespaces() + [d for d in devices if d.startswith(machine.DEVICE)] + instance


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


def test_a_run_has_the_kernels_windows_beside_the_capture(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [*PROGRAM, "run", str(scenario), "--output", str(out), "--attempts", "10"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr + done.stdout
    folder = out / "small-3"
    assert [p.name for p in out.iterdir()] == ["small-3"]
    assert {p.name for p in folder.iterdir()} == {
        "capture.pcap", "other.pcap", "truth.csv.gz", "bbr.csv.gz", "result.json", "emulator.json", "scenario.toml",
    }  # fmt: skip
    assert (folder / "scenario.toml").read_text() == SCENARIO

    result = json.loads((folder / "result.json").read_text())
    found = {t["name"]: t for t in result["transfers"]}
    assert [(t["bytes"], t["received_bytes"], t["complete"]) for t in found.values()] == [
        (90_000, 90_000, True), (30_000, 30_000, True),
    ]  # fmt: skip
    assert found["tcp"]["congestion_control"] == "bbr"
    assert {f["local"].rpartition(":")[0] for f in found["mptcp"]["subflows"]} == {"10.0.1.1", "10.0.2.1"}
    assert {f["congestion_control"] for f in found["mptcp"]["subflows"]} == {"reno"}
    assert result["counters"]["client"]["MPTcpExtMPJoinSynAckRx"] == 1

    links = {link["name"]: link for link in json.loads((folder / "emulator.json").read_text())["links"]}
    assert links["bottleneck.forward"]["bytes"] + links["second.forward"]["bytes"] > 120_000

    # The kernel's window at each ACK is the one that the replay finds: the truth's rows are the capture's.
    truth = truth_rows(folder / "truth.csv.gz")
    assert sum(len(rows) for rows in truth.values()) == result["truth_rows"]
    assert {src for src, _ in truth} == {"10.0.1.1", "10.0.2.1", "fd00:3::1"}
    with rewindow.open(folder / "capture.pcap") as capture:
        replayed = our_rows(capture.replay(["newreno"]), "newreno")
    for key in [k for k in truth if k[0].startswith("10.")]:
        scored = score(replayed[key], truth[key])
        # The trace point does not tell ACKs of the handshake and of the end as ours do.
        assert scored.rows >= len(truth[key]) - 6
        assert scored.exact >= 0.9 * scored.rows
    # The state of BBR is that of the same ACKs. Other senders have none.
    with gzip.open(folder / "bbr.csv.gz", "rt") as f:
        states = list(csv.DictReader(f))
    ends = {(r["src"], r["dst"], r["dport"]) for r in states}
    assert ends == {("fd00:3::1", "fd00:3::2", "5001")}
    (six,) = [rows for (src, _), rows in truth.items() if src == "fd00:3::1"]
    assert [(int(r["snd_una"]), float(r["snd_cwnd"])) for r in states] == [(una, cwnd) for una, cwnd, _ in six]
    assert {r["mode"] for r in states} <= {"startup", "drain", "probe_bw"}
    assert float(states[-1]["bandwidth_segments_s"]) == pytest.approx(100e3 / 8 / 1400, rel=0.25)
    with rewindow.open(folder / "other.pcap") as capture:
        (subflow,) = [s for c in capture.replay(["bbr"]).connections for s in c.subflows]
        assert (subflow.src, subflow.bytes) == ("fd00:3::1", 30_000)
    with machine.locked():
        assert left_on_the_machine() == []

    again = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S)
    assert again.stdout.splitlines()[0] == "small-3: is there already"


def test_a_run_loads_our_controller_and_takes_it_away(tmp_path: Path) -> None:
    """What was replayed is what runs: the kernel's window under the C file is the replay's."""
    scenario, out = tmp_path / "small.toml", tmp_path / "out"
    text = SCENARIO.replace('"reno"', '"rw_tccc"').replace('"bbr"', '"rw_dctcp"')
    text = text.replace("[hosts.other]", "[hosts.peer]\necn = true\n\n[hosts.other]\necn = true")
    text = text.replace('delay = "20ms"', 'delay = "20ms"\ndiscipline = { kind = "ecn_threshold", threshold = 3 }')
    scenario.write_text(text)
    words = [*PROGRAM, "run", str(scenario), "--output", str(out), "--attempts", "10"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr + done.stdout
    folder = out / "small-3"
    transfers = json.loads((folder / "result.json").read_text())["transfers"]
    assert [{f["congestion_control"] for f in t["subflows"]} for t in transfers] == [{"rw_tccc"}, {"rw_dctcp"}]
    assert [t["complete"] for t in transfers] == [True, True]
    found = controllers.compare(folder, truth_rows(folder / "truth.csv.gz"))
    compared = [c for c in found if c.endpoint.startswith("10.")]  # the other one is in another capture
    assert [c.algorithm for c in compared] == ["tccc", "tccc"]
    acks = sum(c.acks for c in compared)
    assert acks > 20
    assert sum(c.equal for c in compared) >= 0.9 * acks
    assert sum(c.within_one for c in compared) >= 0.95 * acks
    # The lab wrote down what the controllers were told: the same file, here, gives the kernel's windows.
    # A subflow whose window never was the limit was not asked to grow.
    assert all(c.inputs is None or c.inputs[0] == c.inputs[1] for c in compared)
    with gzip.open(folder / "steps.csv.gz", "rt") as f:
        steps = list(csv.DictReader(f))
    assert {c.endpoint.rpartition(":")[2] for c in compared} <= {r["sport"] for r in steps if r["kind"] == "join"}
    # The ACK that reports the first mark counts what it delivered as marked.
    dctcp = [r for r in steps if r["congestion_control"] == "rw_dctcp"]
    counted = [r["t"] for r in dctcp if r["marked"] != "0"]
    assert counted[0] == next(r["t"] for r in dctcp if r["kind"] == "ece")
    with machine.locked():
        assert loaded.names_loaded() == []
        assert left_on_the_machine() == []


def test_the_kernels_queues_carry_what_the_emulator_only_delays(tmp_path: Path) -> None:
    """IPv4 and IPv6, MPTCP, and a link that two paths of different hosts cross."""
    small = {'"90kB"': '"24kB"', '"30kB"': '"6kB"', "offload = true": "", '"bbr"': '"reno"', "60": "30"}
    text = SCENARIO
    for old, new in small.items():
        assert old in text
        text = text.replace(old, new, 1)
    scenario, out = tmp_path / "small.toml", tmp_path / "out"
    scenario.write_text(text)
    words = [*PROGRAM, "run", str(scenario), "--output", str(out), "--attempts", "10", "--queues", "kernel"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr + done.stdout
    result = json.loads((out / "small-3" / "result.json").read_text())
    assert [(t["name"], t["received_bytes"], t["complete"]) for t in result["transfers"]] == [
        ("mptcp", 24_000, True), ("tcp", 6_000, True),
    ]  # fmt: skip
    found = {q["link"]: q for q in result["queues"]}
    assert set(found) == {"bottleneck.forward", "bottleneck.backward", "second.forward", "second.backward"}
    assert sum(q["bytes"] for name, q in found.items() if name.endswith("forward")) > 30_000
    assert found["second.forward"]["bytes"] > 6_000
    # No faster than the rates: what crossed a queue took its time. A bucket lets the first packet go at once.
    (mptcp, tcp) = (t["seconds"] for t in result["transfers"])
    assert tcp >= (6_000 - 1400) * 8 / 100e3
    assert mptcp >= (24_000 - 2 * 1400) * 8 / 400e3
    with machine.locked():
        assert left_on_the_machine() == []


def test_a_controller_that_there_is_not_is_told(tmp_path: Path) -> None:
    scenario = tmp_path / "small.toml"
    scenario.write_text(SCENARIO.replace('"reno"', '"rw_nothing"'))
    done = subprocess.run([*PROGRAM, "run", str(scenario), "--output", str(tmp_path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr.startswith("unknown algorithm 'rw_nothing'")) == (4, True)


def test_a_controller_that_somebody_has_loaded_stays(tmp_path: Path) -> None:
    scenario = tmp_path / "small.toml"
    scenario.write_text(SCENARIO.replace('"reno"', '"rw_tccc"'))
    tccc = toolchain.controller("tccc")
    with machine.locked():
        loaded.load(tccc, {})
    try:
        done = subprocess.run(
            [*PROGRAM, "run", str(scenario), "--output", str(tmp_path)], capture_output=True, text=True, timeout=WAIT_S
        )
        assert done.returncode == 4
        assert "rw_tccc is loaded already: `rewindow-kernel unload tccc` takes it away" in done.stderr
        assert loaded.names_loaded() == [tccc]
    finally:
        loaded.unload(tccc)


def under_way(
    scenario: Path, out: Path, control: str = "reno", *options: str
) -> tuple[subprocess.Popen[bytes], Path, list[int]]:
    """A run whose data is being traced, for a while yet: its process, its folder so far, the processes in its
    namespaces. control: the congestion control of its MPTCP sender."""
    text = SCENARIO.replace('"90kB"', '"2MB"').replace('"30kB"', '"500kB"').replace('"reno"', f'"{control}"')
    scenario.write_text(text.replace("offload = true", "") if options else text)
    words = [*PROGRAM, "run", str(scenario), "--output", str(out), *options]
    started = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + WAIT_S
    while not (traced := [p for p in out.glob(".small-3.*/trace") if p.stat().st_size > 0]):
        assert started.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    names = machine.namespaces()
    more = "rwlab-.routers" if options else "rwlab-other.six"
    assert set(names) == {"rwlab-client", "rwlab-server", "rwlab-other", "rwlab-peer", more}
    return started, traced[0].parent, [int(p) for n in names for p in run(["ip", "netns", "pids", n]).split()]


def alive(processes: list[int]) -> list[int]:
    return [pid for pid in processes if machine.started(pid)]


@pytest.mark.parametrize("ways", [("reno",), ("rw_tccc",), ("reno", "--queues", "kernel")], ids=" ".join)
def test_the_next_start_cleans_what_a_killed_run_left(ways: tuple[str, ...], scenario: Path, tmp_path: Path) -> None:
    killed, folder, processes = under_way(scenario, tmp_path / "out", *ways)
    killed.kill()
    killed.wait()
    assert len(processes) >= 7  # two transfers have two ends each, three interfaces are captured
    assert [c.kernel_name for c in loaded.names_loaded()] == [w for w in ways if w.startswith("rw_")]
    with machine.alone():
        assert left_on_the_machine() == []
        assert loaded.names_loaded() == []
        assert alive(processes) == []
        assert not folder.exists()
        assert sorted(os.listdir(machine.STATE)) == ["lock"]


def test_a_stopped_run_cleans_by_itself(scenario: Path, tmp_path: Path) -> None:
    stopped, folder, processes = under_way(scenario, tmp_path / "out")
    stopped.terminate()
    assert stopped.wait(WAIT_S) == 128 + signal.SIGTERM
    assert alive(processes) == []
    assert not folder.exists()
    with machine.locked():
        assert left_on_the_machine() == []
        assert sorted(os.listdir(machine.STATE)) == ["lock"]
