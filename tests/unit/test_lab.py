"""The lab without root: what it says to the emulator and to kernels, what it reads from them, its suite, its words."""

from __future__ import annotations

import gzip
import ipaddress
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.bottlenecks import shares_of
from bench.kernel_queues import row
from lab import bbr_states, cli, kernel_queues, machine, runs, transfers
from lab.emulation import Emulator, configuration, devices, lateness_bound_ns
from lab.errors import LabFailed, LabUnavailable, RunInvalid
from lab.namespaces import Announcement, announcements, counted, host_options
from lab.runs import Described
from lab.suite import NETWORKS, text_of
from lab.tracing import COLUMNS, lost_events, truth_row
from rewindow.findings.senders import RARE_CANDIDATES
from rewindow.scenarios import Interface, Scenario, load, parse, q32

DOCS = Path(__file__).parent.parent.parent / "docs"
PHONE = load(DOCS / "examples" / "scenario-phone.toml")
SUITE = {network.name: parse(text_of(network), network.name) for network in NETWORKS}


def changed(name: str, old: str, new: str) -> Scenario:
    text = text_of(next(n for n in NETWORKS if n.name == name))
    assert old in text
    return parse(text.replace(old, new), name)


# What the emulator is told


def test_the_emulator_is_told_the_whole_scenario() -> None:
    lines = list(configuration(PHONE, 9, devices(PHONE, "t")))
    assert lines[0] == "seed value=9"
    assert lines[-1] == "go"
    assert (
        "link name=wifi.forward rate_bps=20000000 delay_ns=3000000 jitter_ns=500000 limit_packets=0 limit_bytes=64000 "
        "discipline=codel codel_target_ns=5000000 codel_interval_ns=100000000 ecn=1 ge_good_to_bad_q32=4294967 "
        "ge_bad_to_good_q32=858993459 ge_loss_good_q32=0 ge_loss_bad_q32=1288490189"
    ) in lines
    assert (
        "link name=cell.forward rate_bps=8000000 delay_ns=25000000 jitter_ns=0 limit_packets=150 limit_bytes=0 "
        "discipline=drop_tail reorder_q32=8589935 reorder_ns=20000000"
    ) in lines
    assert "change link=cell.forward at_ns=2500000000 rate_bps=5000000" in lines
    assert "change link=cell.forward at_ns=12000000000 down=1" in lines
    assert (
        "traffic link=wifi.forward kind=on_off rate_bps=4000000 packet_bytes=1200 from_ns=0 to_ns=20000000000 "
        "on_ns=1000000000 off_ns=2000000000"
    ) in lines
    assert "interface name=t0 address=10.0.1.1" in lines
    assert "route from=10.0.1.1 to=10.0.1.2 links=wifi.forward,backbone.forward" in lines
    assert "route from=10.0.1.2 to=10.0.1.1 links=backbone.backward,wifi.backward" in lines


def test_disciplines_of_the_suite_as_the_emulator_reads_them() -> None:
    def link(name: str) -> str:
        return next(line for line in configuration(SUITE[name], 1, {}) if line.startswith("link name=bottleneck1.f"))

    assert link("ecn-red").endswith(
        "discipline=red red_min_packets=10 red_max_packets=40 red_max_p_q32=429496730 red_weight_shift=9 red_gentle=1 "
        "ecn=1"
    )
    assert link("ecn-threshold").endswith(
        "limit_packets=100 limit_bytes=0 discipline=ecn_threshold ecn_threshold_packets=20"
    )
    assert link("loss-8-percent").endswith("discipline=drop_tail loss_q32=343597384")


def test_probabilities_fit_into_32_bits() -> None:
    assert (q32(0), q32(0.5), q32(1)) == (0, 2**31, 2**32 - 1)


def test_every_line_has_words_and_values() -> None:
    pattern = re.compile(r"go|\w+( \w+=[\w.,:-]{1,2000})+")
    for scenario in (PHONE, *SUITE.values()):
        assert [x for x in configuration(scenario, 1, devices(scenario, "rwlab")) if not pattern.fullmatch(x)] == []


def test_a_run_may_be_late_by_one_packet_of_its_slowest_link() -> None:
    assert lateness_bound_ns(SUITE["shared-1m-30ms"]) == 1400 * 8 * 1000
    assert lateness_bound_ns(SUITE["fast-100m"]) == 500_000


def stand_in(tmp_path: Path, script: str) -> Path:
    """A program that answers in an emulator's place."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


COUNTED = '{"lateness_ns": {"median": 1, "p99": 2, "max": 3, "packets": 4}}'


def configured_and_stopped(emulator: Emulator) -> dict[str, Any]:
    emulator.configure(iter(["go"]))
    return emulator.stop()


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo 'line 3: no such key' >&2; exit 2", "ended (exit status 2): line 3: no such key"),
        ("echo hello; cat >/dev/null", "said 'hello', not ready"),
        ("echo ready; cat >/dev/null; echo '{}'", "counted nothing"),
        ("echo ready; cat >/dev/null", "counted nothing"),
        ("""echo ready; cat >/dev/null; echo '{"lateness_ns": {"median": 1}}'""", "counted nothing"),
        (f"echo ready; cat >/dev/null; echo '{COUNTED}'; exit 3", "failed (exit status 3)"),
    ],
)
def test_an_emulator_that_does_not_do_its_work_is_named(script: str, complaint: str, tmp_path: Path) -> None:
    emulator = Emulator(stand_in(tmp_path, script), tmp_path / "errors")
    try:
        with pytest.raises(LabFailed, match=re.escape(complaint)):
            configured_and_stopped(emulator)
    finally:
        emulator.kill()


# What kernels are told


def announced(scenario: Scenario) -> dict[str, list[tuple[str, str]]]:
    return {host: [(str(a.interface), a.kind) for a in found] for host, found in announcements(scenario).items()}


def test_the_kernels_path_manager_opens_a_subflow_for_each_path() -> None:
    assert announced(SUITE["three-paths"]) == {"server": [("server.p2", "signal"), ("server.p3", "signal")]}
    one_address = changed("disjoint-5m-30ms", 'to = "server.p2"', 'to = "server.p1"')
    assert announced(one_address) == {"client": [("client.p2", "subflow")]}
    assert announced(SUITE["tcp-reno-5m"]) == {}
    assert announcements(SUITE["mptcp-one-path"]) == {}


def test_networks_that_the_kernels_path_manager_cannot_open_are_refused() -> None:
    with pytest.raises(LabUnavailable, match=r"two end at server\.p2"):
        announcements(changed("three-paths", 'to = "server.p3"', 'to = "server.p2"'))
    second = 'name = "again"\nprotocol = "mptcp"\nfrom = "client"\nto = "server"\npaths = ["path2"]\n'
    text = text_of(NETWORKS[7]) + f"\n[[transfers]]\n{second}"
    with pytest.raises(LabUnavailable, match="must have the same paths"):
        announcements(parse(text, "x"))


def test_options_of_hosts_are_those_of_the_scenario() -> None:
    def options(name: str) -> dict[str, str]:
        return host_options(SUITE[name], SUITE[name].host("client"))

    assert options("no-timestamps-no-sack")["net.ipv4.tcp_sack"] == "0"
    assert options("no-timestamps")["net.ipv4.tcp_timestamps"] == "0"
    assert (options("ecn-red")["net.ipv4.tcp_ecn"], options("red")["net.ipv4.tcp_ecn"]) == ("1", "0")
    assert options("fast-100m")["net.ipv4.tcp_rmem"] == "4096 131072 16000000"
    assert options("red")["net.ipv4.tcp_wmem"] == "4096 16384 512000"
    assert "net.mptcp.enabled" not in options("tcp-reno-5m")


def test_an_announcement_is_told_once() -> None:
    second = 'name = "again"\nprotocol = "mptcp"\nfrom = "client"\nto = "server"\n'
    text = text_of(next(n for n in NETWORKS if n.name == "three-paths")) + f"\n[[transfers]]\n{second}"
    interface = SUITE["three-paths"].host("server").interfaces[1]
    assert announcements(parse(text, "x"))["server"][0] == Announcement(interface, "signal")
    assert len(announcements(parse(text, "x"))["server"]) == 2


# What kernels tell

PROBE = (
    "          <idle>-0       [001] ..s2. 26955.449812: tcp_probe: family=AF_INET{six} src={src} dest={dst} mark=0x0 "
    "data_len={length} snd_nxt=0x47c0d48 snd_una=0x47bd990 snd_cwnd=10 ssthresh=2147483647 snd_wnd=65535 srtt=70791 "
    "rcv_wnd=65536 sock_cookie=5 skbaddr=00000000a5b9d4ed skaddr=00000000f2eb7b55\n"
)


@pytest.mark.parametrize(
    ("six", "src", "dst", "ends"),
    [
        ("", "10.0.1.1:34925", "10.0.1.2:5001", ("10.0.1.1", 34925, "10.0.1.2", 5001)),
        ("6", "[fd00:1::1]:34925", "[fd00:1::2]:5001", ("fd00:1::1", 34925, "fd00:1::2", 5001)),
    ],
)
def test_a_line_of_the_trace(six: str, src: str, dst: str, ends: tuple[object, ...]) -> None:
    row = truth_row(PROBE.format(six=six, src=src, dst=dst, length=0))
    assert row == ("26955.449812", *ends, 0x47BD990, 0x47C0D48, 10, 2147483647, 70791)
    assert len(COLUMNS) == 10
    assert truth_row(PROBE.format(six=six, src=src, dst=dst, length=1348)) is None
    assert truth_row("CPU:1 [LOST 5 EVENTS]\n") is None


def test_lost_events_are_counted_over_processors() -> None:
    stats = "entries: 4\noverrun: {}\ncommit overrun: {}\nbytes: 99\nnow ts: 7.1\ndropped events: {}\nread events: 9\n"
    assert lost_events([stats.format(0, 0, 0)] * 2) == 0
    assert lost_events([stats.format(3, 0, 0), stats.format(0, 20, 100)]) == 123


def test_counters_tell_what_changed() -> None:
    assert counted({"TcpOutSegs": 2, "TcpInSegs": 1}, {"TcpOutSegs": 5, "TcpInSegs": 1, "MPTcpExtAddAddr": 1}) == {
        "TcpOutSegs": 3,
        "MPTcpExtAddAddr": 1,
    }


# Transfers, over the loopback interface


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def ends(more: dict[str, Any], *, listens: bool = True) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What sender and receiver say at their end."""
    both = {"family": 4, "mptcp": False, "address": "127.0.0.1", "port": free_port(), "congestion_control": "reno",
            "buffer_bytes": None}  # fmt: skip
    sending = {"role": "send", "bind": "127.0.0.1", "bytes": None, "duration_ns": 10**10, "start_ns": 0,
               "write_bytes": 65536, "pause_ns": 0, "end_ns": 6 * 10**10}  # fmt: skip
    programs = []
    for config in ([{"role": "receive"}] if listens else []) + [sending | more]:
        words = [sys.executable, "-I", "-S", str(transfers.PROGRAM), json.dumps(both | config)]
        program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert program.stdout
        assert json.loads(program.stdout.readline()) == {"ready": True}
        programs.append(program)
    sent, _ = programs[-1].communicate(f"start {time.monotonic_ns()}\n", timeout=60)
    if not listens:
        return json.loads(sent), None
    received, _ = programs[0].communicate(timeout=60)
    return json.loads(sent), json.loads(received)


def test_a_transfer_sends_its_bytes_under_its_congestion_control() -> None:
    sent, received = ends({"bytes": 1_000_001})
    assert received == {"bytes": 1_000_001, "error": ""}
    assert (sent["bytes"], sent["complete"], sent["error"]) == (1_000_001, True, "")
    assert sent["congestion_control"] == "reno"
    assert [f["congestion_control"] for f in sent["subflows"]] == ["reno"]


def test_a_transfer_writes_until_its_time_is_over() -> None:
    sent, received = ends(
        {"duration_ns": 300_000_000, "start_ns": 100_000_000, "write_bytes": 1000, "pause_ns": 50_000_000}
    )
    assert received
    assert sent["bytes"] == received["bytes"]
    # A busy machine writes less often; nobody writes more often than the pauses allow.
    assert 1000 <= sent["bytes"] <= 7000
    assert sent["connected_s"] >= 0.1
    assert sent["connected_s"] + sent["seconds"] >= 0.399


def test_a_transfer_that_nobody_accepts_says_so() -> None:
    sent, _ = ends({"bytes": 1}, listens=False)
    assert sent == {"error": "Connection refused"}


def test_a_transfer_whose_run_was_killed_ends() -> None:
    config = {"role": "send", "bind": "127.0.0.1", "family": 4, "mptcp": False, "congestion_control": None,
              "buffer_bytes": None, "port": 1, "address": "127.0.0.1"}  # fmt: skip
    words = [sys.executable, "-I", "-S", str(transfers.PROGRAM), json.dumps(config)]
    assert subprocess.run(words, input="", capture_output=True, text=True, timeout=60).returncode == 1


# The suite


def test_the_suite_has_the_networks_that_a_sender_meets() -> None:
    assert len(NETWORKS) == len(SUITE) >= 60
    paths = [t.paths for s in SUITE.values() for t in s.transfers]
    assert {len(p) for p in paths} == {1, 2, 3, 4}
    rates = {link.rate_bps for s in SUITE.values() for link in s.links if link.rate_bps}
    assert (min(rates), max(rates)) == (1_000_000, 200_000_000)
    trips = {sum(link.delay_ns for link in (*p.links, *p.links_back)) for ways in paths for p in ways}
    assert min(trips) <= 5_000_000
    assert max(trips) == 300_000_000
    assert {i.address.version for s in SUITE.values() for h in s.hosts for i in h.interfaces} == {4, 6}
    coupled = ("css", "tccc", "tccc_plus", "lia", "olia", "balia", "enmcc")
    ours = {f"rw_{name}" for name in (*coupled, "sbcc", *RARE_CANDIDATES)}
    assert {t.congestion_control for s in SUITE.values() for t in s.transfers} == {"reno", "cubic", "bbr"} | ours
    hosts = [h for s in SUITE.values() for h in s.hosts]
    for option in ("sack", "timestamps", "ecn", "offload"):
        assert {getattr(h, option) for h in hosts} == {True, False}
    at_receivers = [
        s for s in SUITE.values() if {i.host for i in s.captures[0].interfaces} & {t.receiver for t in s.transfers}
    ]
    assert {s.name for s in at_receivers} == {"receiver-side", "receiver-side-cubic"}


def test_queues_hold_a_bandwidth_delay_product() -> None:
    (link,) = [x for x in SUITE["shared-10m-75ms"].links if x.name == "bottleneck1.forward"]
    assert link.limit_packets == round(10e6 * 0.160 / 8 / 1400)


def test_networks_know_which_flows_meet() -> None:
    def flow(end: Interface) -> Any:
        address = str(end.address)
        return SimpleNamespace(src=address, dst=address[:-1] + "2")

    kinds = {name: shares_of(scenario)[0] for name, scenario in SUITE.items()}
    assert (kinds["four-paths-v6-shared"], kinds["four-paths"], kinds["tcp-reno-5m"]) == ("shared", "mixed", "disjoint")
    meet = shares_of(SUITE["disjoint-5m-30ms"])[1]
    first, second = (flow(i) for i in SUITE["disjoint-5m-30ms"].host("client").interfaces)
    rival = flow(SUITE["disjoint-5m-30ms"].host("rival").interfaces[0])
    assert (meet(first, rival), meet(first, second), meet(second, rival)) == (True, False, False)


# Links whose rates are the kernel's


def test_the_emulator_only_delays_what_the_kernel_queues() -> None:
    """Data leaves a bucket when its time begins: a packet of 1400 bytes takes 2.24 ms at 5 Mbit/s."""
    scenario = SUITE["shared-5m-30ms"]
    found = kernel_queues.queues(scenario)
    assert [(q.link.name, q.link.limit_packets) for q in found] == [
        ("bottleneck1.forward", 31), ("bottleneck1.backward", 31),
    ]  # fmt: skip
    rest = kernel_queues.delays_only(scenario)
    lines = list(configuration(rest, 1, {}, [(q.device, q.address) for q in found]))
    for link, delay_ns in (("bottleneck1.forward", 32_240_000), ("bottleneck1.backward", 30_000_000)):
        assert f"link name={link} rate_bps=0 delay_ns={delay_ns} jitter_ns=0 limit_packets=0 limit_bytes=0 " in "".join(
            f"{line} " for line in lines
        )
    assert [line for line in lines if line.startswith("interface ")] == [
        "interface name=rwlabq0 address=192.0.2.1", "interface name=rwlabq1 address=192.0.2.2",
    ]  # fmt: skip
    assert {link.name for path in rest.paths for link in path.links if link.rate_bps} == set()


def test_a_delay_that_changes_keeps_the_time_of_a_packet() -> None:
    rest = kernel_queues.delays_only(SUITE["delay-rises"])
    changes = {link.name: [c.delay_ns for c in link.changes] for link in rest.links if link.changes}
    assert changes["bottleneck1.forward"] == [61_400_000]
    assert changes["bottleneck1.backward"] == [60_000_000]


@pytest.mark.parametrize(
    ("network", "lacks"),
    [
        ("red", "link bottleneck1: the kernel's queues here do not have a queue discipline that is not drop-tail"),
        ("queue-in-bytes", "a queue that is not limited in packets"),
        ("loss-2-percent", "loss or reordering"),
        ("reordering", "loss or reordering"),
        ("path-fails", "a change of anything but the delay"),
        ("cross-traffic", "cross traffic is the emulator's"),
        ("offload", "host client: the kernel's queues count packets"),
    ],
)
def test_what_the_kernels_queues_cannot_do_is_told(network: str, lacks: str) -> None:
    with pytest.raises(LabUnavailable, match=re.escape(lacks)):
        kernel_queues.queues(SUITE[network])


def test_a_path_has_one_queue_of_the_kernel() -> None:
    scenario = changed("tcp-reno-5m", "[links.access]", '[links.access]\nrate = "9M"\nlimit = 20')
    with pytest.raises(LabUnavailable, match="path path1: at most one link"):
        kernel_queues.queues(scenario)


@pytest.mark.parametrize(
    ("kernel", "difference", "agree"),
    [
        ((4.7, 4.8, 4.9), "+0.0% ± 0.0%", True),
        ((4.6, 4.7, 4.8), "+2.1% ± 0.1%", True),  # within the tolerance of 3 %
        ((4.5, 4.6, 4.7), "+4.3% ± 0.2%", False),
        ((4.5, 4.9, 4.5), "+3.8% ± 13.7%", True),  # within its bound
    ],
)
def test_two_ways_agree_within_a_tolerance_or_their_bound(
    kernel: tuple[float, ...], difference: str, agree: bool
) -> None:
    line, found = row("n", "goodput_mbps", (4.7, 4.8, 4.9), kernel)
    assert line.split(" | ")[:4] == ["| n", "goodput", "3", "4.80 (4.70–4.90)"]
    assert line.removesuffix(" **too far**").removesuffix(" |").endswith(f"| {difference}")
    assert (found, line.endswith("too far**")) == (agree, not agree)


# Commands and folders


def test_an_ordinary_user_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cli.main(["suite", "--only", "tcp-reno-5m"]) == 4
    said = capsys.readouterr()
    assert said.err == "the lab needs root: it makes network namespaces and reads the kernel's trace points\n"
    assert said.out == ""


def test_what_is_missing_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("REWINDOW_EMULATOR", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    scenario = changed("tcp-reno-5m", '"reno"', '"nosuch"')
    with pytest.raises(LabUnavailable) as caught:
        machine.check(scenario)
    for missing in (
        "ip; ss; tcpdump; mergecap; tc",
        "none (deploy/setup.sh lab builds it)",
        "the congestion control nosuch",
    ):
        assert missing in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["suite", "--only", "nothing-*"], 2, "no network has a name like nothing-*"),
        (["run", "none.toml", "--output", "."], 3, "none.toml: expected a readable file of TOML"),
    ],
)
def test_usage_and_unreadable_scenarios(
    words: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == status
    assert said in capsys.readouterr().err


def test_the_suite_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["suite", "--list", "--only", "ecn-*"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [n.name for n in NETWORKS if n.name.startswith("ecn-")]


def test_a_run_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    described = Described(SUITE["red"], "text", tmp_path)
    target = tmp_path / "red-1"
    assert not runs.is_there(described, target)
    target.mkdir()
    with pytest.raises(FileExistsError, match="something else"):
        runs.is_there(described, target)
    (target / "scenario.toml").write_text("text")
    (target / "result.json").write_text("{}")
    assert runs.is_there(described, target)
    with pytest.raises(FileExistsError, match="something else"):
        runs.is_there(described, target, "kernel")
    (target / "result.json").write_text('{"queues": []}')
    assert runs.is_there(described, target, "kernel")
    (target / "result.json").write_text("{}")
    (target / "scenario.toml").write_text("other")
    with pytest.raises(FileExistsError, match="something else"):
        runs.is_there(described, target)


@pytest.fixture
def private_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is left behind is noted here, and nothing of the machine is touched."""
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setattr(machine, "STATE", state)
    monkeypatch.setattr(machine.Left, "FILE", state / "left.json")
    monkeypatch.setattr(machine, "namespaces", list)
    monkeypatch.setattr(machine, "run", lambda words: "[]")
    monkeypatch.setattr(machine.tracing, "remove", lambda: None)
    return state


def test_what_a_killed_run_noted_is_cleaned(private_state: Path, tmp_path: Path) -> None:
    ours = subprocess.Popen(["sleep", "60"])
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        left = machine.Left()
        (tmp_path / "partial").mkdir()
        left.folder(tmp_path / "partial")
        left.process(ours.pid)
        # Another process has the number of one that ended long ago.
        left.processes.append((stranger.pid, "1"))
        left.note()
        machine.clean()
        assert ours.wait(10) == -signal.SIGKILL
        assert stranger.poll() is None
        assert not (tmp_path / "partial").exists()
        assert not machine.Left.FILE.exists()
        machine.Left.FILE.write_text("{damaged")
        machine.clean()
        assert not machine.Left.FILE.exists()
    finally:
        ours.kill()
        stranger.kill()
        ours.wait()
        stranger.wait()


def test_invalid_attempts_are_repeated_and_counted(
    private_state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The machine disturbs the first attempt, or all of them."""
    attempts = []

    def measure(scenario: Scenario, seed: int, folder: Path, left: machine.Left, queues: str) -> dict[str, Any]:
        attempts.append(folder)
        (folder / "truth.csv.gz").write_bytes(gzip.compress(b""))
        if len(attempts) in disturbed:
            raise RunInvalid("the machine was busy")
        return {"transfers": [], "truth_rows": 0, "lateness_ns": {"p99": 0}}

    monkeypatch.setattr(runs, "_measure", measure)
    described = Described(SUITE["red"], "text", tmp_path)
    disturbed = {1}
    run = runs.run(described, 5, tmp_path / "out", attempts=3)
    assert (run.folder, run.invalid, len(attempts)) == (tmp_path / "out" / "red-5", ("the machine was busy",), 2)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["red-5"]
    stored = json.loads((tmp_path / "out" / "red-5" / "result.json").read_text())
    assert stored["invalid_attempts"] == ["the machine was busy"]
    attempts.clear()
    disturbed = {1, 2, 3}
    run = runs.run(described, 6, tmp_path / "out", attempts=3)
    assert (run.folder, len(run.invalid)) == (None, 3)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["red-5"]
    monkeypatch.setattr(cli.machine, "check", lambda scenario: None)
    attempts.clear()
    assert cli._run_all([(described, 6)], tmp_path / "out", 2) == 1
    assert "red-6: refused after 2 attempts: the machine was busy" in capsys.readouterr().out


def test_what_other_programs_use_disturbs_a_run(
    private_state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In ten seconds the machine is busy for nine, of which the run and its children use six."""
    ticks = os.sysconf("SC_CLK_TCK")
    stat = tmp_path / "stat"
    monkeypatch.setattr(machine, "STAT", stat)
    now: dict[str, Any] = {}

    def at(seconds: float, own: float, user: float, nice: float, system: float, stolen: float) -> None:
        idle, waiting, interrupts = 1000, 200, 300 + 100 * seconds
        fields = [user, nice, system, idle, waiting, interrupts, interrupts, stolen, 0, 0]
        stat.write_text(f"cpu  {' '.join(str(round(f * ticks)) for f in fields)}\ncpu0 1 2 3\n")
        now.update(s=seconds, own=own)

    def measure(scenario: Scenario, seed: int, folder: Path, left: machine.Left, queues: str) -> dict[str, Any]:
        at(60, 7.5, 14, 25, 36, 42)
        return {"transfers": [], "truth_rows": 0, "lateness_ns": {"p99": 0}}

    monkeypatch.setattr(machine.time, "monotonic", lambda: now["s"])
    times = SimpleNamespace(user=0.5, system=0.25, children_system=0.25)
    monkeypatch.setattr(machine.os, "times", lambda: SimpleNamespace(**vars(times), children_user=now["own"]))
    monkeypatch.setattr(runs, "_measure", measure)
    monkeypatch.setattr(cli.machine, "check", lambda scenario: None)
    described = Described(SUITE["red"], "text", tmp_path)
    at(50, 1.5, 10, 24, 34, 40)
    assert runs.run(described, 1, tmp_path / "out", others_max=0.31).result["others_cpu"] == 0.3
    at(50, 1.5, 10, 24, 34, 40)
    refused = runs.run(described, 2, tmp_path / "out", attempts=1, others_max=0.29)
    assert refused.invalid == ("other programs used 30% of a CPU, more than 29%",)
    at(50, 1.5, 10, 24, 34, 40)
    assert cli._run_all([(described, 3)], tmp_path / "out", 1) == 0
    assert "others used 30% of a CPU" in capsys.readouterr().out


def test_a_state_of_bbr_that_the_kernel_wrote() -> None:
    """IPv4 and IPv6; bandwidths in segments a second, where the kernel has 24 bits below a segment each microsecond."""
    four = bytes([10, 0, 1, 1]) + bytes(12)
    data = bbr_states.STATE.pack(
        1_500_000, 120_000, four, four[:3] + bytes([2]) + bytes(12), 7, 9, 26, 400, 3, 0, 20, 70_000, 18,
        16777, 8389, 0, 1678, 12, 66_000, 320, 512, 30, 4, 6, 40_000, 5001, 0, 2, 0, 3, 1, 0, 0, 1, 0, 5,
    )  # fmt: skip
    assert len(data) == 144
    row = dict(zip(bbr_states.COLUMNS, bbr_states.state_row(data), strict=True))
    assert (row["t"], row["src"], row["sport"], row["dst"], row["dport"]) == (
        "0.001500", "10.0.1.1", 40_000, "10.0.1.2", 5001,
    )  # fmt: skip
    assert (row["snd_una"], row["snd_cwnd"], row["mode"], row["phase"]) == (7, 26, "probe_bw", 0)
    assert (row["bandwidth_segments_s"], row["second_bandwidth_segments_s"]) == ("999.987", "500.023")
    assert (row["pacing_gain"], row["cwnd_gain"], row["ca_state"], row["full"]) == ("1.2500", "2.0000", 3, 1)
    assert (row["policed"], row["policed_rounds"], row["policed_bandwidth_segments_s"]) == (1, 5, "100.017")
    six = ipaddress.ip_address("fd00:3::1").packed
    assert bbr_states.state_row(data[:16] + six + data[32:128] + b"\x01" + data[129:])[1] == "fd00:3::1"


def test_the_state_of_bbr_is_read_where_a_sender_has_it() -> None:
    assert bbr_states.is_wanted(SUITE["beside-bbr"])
    assert not bbr_states.is_wanted(SUITE["disjoint-5m-30ms"])
    assert bbr_states.missing(SUITE["disjoint-5m-30ms"]) == ""
