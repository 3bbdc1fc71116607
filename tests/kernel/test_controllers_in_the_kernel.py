"""Controllers loaded into this machine's kernel, as root: its verifier is the judge.

They fail where the kernel lacks what they need.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

import rewindow
from kernel import cli, libbpf, loaded, toolchain, tracing
from kernel.errors import LoadFailed, NotLoaded
from lab import machine
from rewindow import cli as rewindow_cli
from rewindow.conformance import step_files
from rewindow.controllers.steps import Step

NAMES = [c.name for c in toolchain.controllers()]
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
WAIT_S = 60
MPTCP = 262
BLOCK = bytes(1 << 16)
CLONE_NEWNET = 0x40000000
SKIPPED_MAX = 20
"""Events for which a busy kernel may skip the program by itself."""
HELD = 8
"""Where struct shared of the glue has `held` and then `users`, in bytes."""


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    """Another test run on this machine loads nothing meanwhile, and this one leaves what was loaded before, no more."""
    with machine.locked():
        before = loaded.names_loaded()
        yield
        for chosen in loaded.names_loaded():
            if chosen not in before:
                loaded.unload(chosen)
        assert loaded.names_loaded() == before
        assert before or not loaded.PINNED.exists()


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextlib.contextmanager
def connected(kernel_name: str, protocol: int = socket.IPPROTO_TCP) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A sender under the congestion control, and its receiver, over the loopback device."""
    with contextlib.ExitStack() as stack:
        listener, sender = (
            stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)) for _ in range(2)
        )
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, kernel_name.encode())
        sender.connect(listener.getsockname())
        yield sender, stack.enter_context(listener.accept()[0])


def carry(sender: socket.socket, receiver: socket.socket, blocks: int) -> int:
    """How many bytes arrive."""

    def send() -> None:
        for _ in range(blocks):
            sender.sendall(BLOCK)
        sender.shutdown(socket.SHUT_WR)

    sending = threading.Thread(target=send)
    sending.start()
    arrived = 0
    while data := receiver.recv(1 << 20):
        arrived += len(data)
    sending.join()
    return arrived


@contextlib.contextmanager
def own_network() -> Iterator[None]:
    """A network namespace for this thread and the programs that it starts."""
    libc = ctypes.CDLL(None)
    with open("/proc/thread-self/ns/net") as before:
        assert libc.unshare(CLONE_NEWNET) == 0
        try:
            yield
        finally:
            assert libc.setns(before.fileno(), 0) == 0


def ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_the_verifier_accepts_it_and_it_carries_data(name: str) -> None:
    chosen = toolchain.controller(name)
    loaded.load(chosen, {})
    assert chosen.kernel_name in AVAILABLE.read_text().split()
    for protocol in (socket.IPPROTO_TCP, MPTCP):
        with connected(chosen.kernel_name, protocol) as (sender, receiver):
            used = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
            assert used == chosen.kernel_name
            assert loaded.status(chosen).connections == 1
            assert carry(sender, receiver, 64) == 64 * len(BLOCK)
        wait_for(lambda: loaded.status(chosen).connections == 0)
    counts = loaded.status(chosen).counts
    assert (counts.joined, counts.left, counts.refused) == (2, 2, 0)
    assert loaded.unload(chosen) == 0
    assert chosen.kernel_name not in AVAILABLE.read_text().split()
    with pytest.raises(NotLoaded):
        loaded.status(chosen)


def test_options_are_those_of_the_replay() -> None:
    css = toolchain.controller("css")
    for options in ({"gate": "own"}, {"L": "5000"}, {"alpha0": "x"}, {"mode": "paper"}):
        with pytest.raises(rewindow.BadOption):
            loaded.load(css, options)
    assert not loaded.PINNED.exists()
    loaded.load(css, {"L": "0.5", "ssthresh": "hystart++"})
    found = loaded.status(css).options()
    assert found == {
        "mode": "kernel", "min_ssthresh": "2", "alpha0": "1.5", "L": "0.5", "L_scale": "off", "alpha_form": "exponent",
        "join_weighted": "off", "con_ssthresh": "0", "ssthresh": "hystart++",
    }  # fmt: skip


def ssthresh(sender: socket.socket) -> int:
    """Of a plain TCP socket, segments: tcpi_snd_ssthresh of linux/tcp.h."""
    told = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 80)
    return int.from_bytes(told[76:80], sys.byteorder)


@pytest.mark.parametrize("segments", [100, 2000])
def test_an_option_reaches_the_controller(segments: int) -> None:
    """A subflow of coupled slow start begins with con_ssthresh, where that is more than 65535 bytes."""
    css = toolchain.controller("css")
    loaded.load(css, {"con_ssthresh": str(segments)})
    with connected(css.kernel_name) as (sender, _):
        assert ssthresh(sender) == segments


def test_sockets_without_a_place_run_the_kernels_reno() -> None:
    tccc = toolchain.controller("tccc")
    loaded.load(tccc, {}, connections=1)
    with connected(tccc.kernel_name), connected(tccc.kernel_name) as (sender, receiver):
        assert carry(sender, receiver, 16) == 16 * len(BLOCK)
        found = loaded.status(tccc)
        assert (found.connections, found.counts.joined, found.counts.refused) == (1, 1, 1)
    wait_for(lambda: loaded.status(tccc).connections == 0)
    with connected(tccc.kernel_name) as (sender, receiver):
        assert carry(sender, receiver, 16) == 16 * len(BLOCK)
    assert loaded.status(tccc).counts.joined == 2  # the place was free again


def test_a_subflow_that_closes_while_another_processor_holds_the_connection_leaves_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The test holds the connection, as a virtual processor does that stops in the middle of an event."""
    monkeypatch.setitem(loaded._MAPS, "connections", "connections")
    tccc = toolchain.controller("tccc")
    loaded.load(tccc, {}, connections=1)
    with libbpf.Map.pinned(loaded.PINNED / tccc.kernel_name / "connections") as connections, own_network():
        told = Path(f"/proc/self/fdinfo/{connections.fd}").read_text()
        size = int(told.partition("value_size:")[2].split()[0])

        def shared() -> bytes:
            return connections.read(bytes(4), size) or b""

        def users() -> int:
            return int.from_bytes(shared()[HELD + 4 : HELD + 8], sys.byteorder)

        def set_held(held: int) -> None:
            """Nothing else changes the connection meanwhile: no data is under way."""
            value = shared()
            connections.write(bytes(4), value[:HELD] + held.to_bytes(4, sys.byteorder) + value[HELD + 4 :])

        for words in (
            "link set lo up",
            "mptcp limits set subflows 1",
            "mptcp endpoint add 127.0.0.2 dev lo id 7 subflow",
        ):
            ip(words)
        with connected(tccc.kernel_name, MPTCP) as (sender, receiver):
            sender.sendall(b"a subflow may join once data was acknowledged")
            assert receiver.recv(1)
            wait_for(lambda: loaded.status(tccc).counts.joined == 2)
            assert users() == 2
            set_held(1)
            ip("mptcp endpoint delete id 7")
            wait_for(lambda: loaded.status(tccc).counts.left == 1)
            assert users() == 2
            set_held(0)
            assert carry(sender, receiver, 4) > 4 * len(BLOCK) - 100
            assert users() == 1
        wait_for(lambda: loaded.status(tccc).connections == 0)
        with connected(tccc.kernel_name):
            assert loaded.status(tccc).counts.refused == 0  # the place was free again


def test_a_threshold_that_no_program_returned_is_put_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the kernel skips the program: it takes the low half of an address, and makes a window of it."""
    text = toolchain.GLUE.read_text()
    skipped = text.replace(
        "return reduced ? reduced : tcp_reno_ssthresh(sk);", "tp->snd_cwnd = 62375959; return 0x81104110;"
    )
    assert skipped != text
    (tmp_path / "controller.bpf.c").write_text(skipped)
    (tmp_path / "linux.h").symlink_to(toolchain.GLUE.parent / "linux.h")
    monkeypatch.setattr(toolchain, "GLUE", tmp_path / "controller.bpf.c")
    reno = toolchain.controller("newreno")
    loaded.load(reno, {})
    with own_network():
        for words in ("link set lo mtu 1500", "link set lo up"):
            ip(words)
        # A queue of a few packets, so that some are lost.
        queue = "tc qdisc add dev lo root tbf rate 200mbit burst 20k limit 20k"
        subprocess.run(queue, shell=True, check=True)
        with connected(reno.kernel_name) as (sender, receiver):
            done = threading.Event()
            with (
                ThreadPoolExecutor(1) as pool,
                libbpf.Map.pinned(loaded.PINNED / reno.kernel_name / "tracing") as until,
            ):
                steps = pool.submit(lambda: list(tracing.records(reno, 60, done)))
                try:
                    wait_for(lambda: until.read(bytes(4), 8) != bytes(8))
                    assert carry(sender, receiver, 64) == 64 * len(BLOCK)
                finally:
                    done.set()
                windows = [step.paths[step.path][0] >> 16 for step in steps.result()]
            counts = loaded.status(reno).counts
            assert counts.losses > 0
            # Each loss is put right once, the last one at an event after it. Where the kernel itself skips the program,
            # an event is put right, and no loss is counted.
            assert counts.losses - 1 <= counts.missed <= counts.losses + SKIPPED_MAX
            assert counts.missed > 0
            assert 2 <= ssthresh(sender) < 1000
            assert windows
            assert max(windows) < 1000


def test_a_socket_keeps_its_controller_after_the_unload() -> None:
    lia = toolchain.controller("lia")
    loaded.load(lia, {})
    with connected(lia.kernel_name) as (sender, receiver):
        assert loaded.unload(lia) == 1
        assert carry(sender, receiver, 16) == 16 * len(BLOCK)
    with pytest.raises(FileNotFoundError), connected(lia.kernel_name):
        pass


def test_one_of_a_name_at_a_time_and_an_interrupted_load_is_cleaned() -> None:
    dwc = toolchain.controller("dwc")
    with pytest.raises(NotLoaded):
        loaded.unload(dwc)
    loaded.load(dwc, {})
    with pytest.raises(LoadFailed, match="loaded already"):
        loaded.load(dwc, {})
    loaded.unload(dwc)
    os.makedirs(loaded.PINNED / dwc.kernel_name)
    with pytest.raises(LoadFailed, match="interrupted"):
        loaded.status(dwc)
    assert loaded.unload(dwc) == 0


def test_a_load_that_is_killed_is_unloaded_as_any_other() -> None:
    """Killed when its folder is there: some of its maps may be pinned, and sockets may choose it or not."""
    ewtcp = toolchain.controller("ewtcp")
    toolchain.build(ewtcp)
    words = [sys.executable, "-m", "kernel.cli", "load", "ewtcp"]
    loading = subprocess.Popen(words, cwd=machine.CHECKOUT, stdout=subprocess.DEVNULL)
    wait_for((loaded.PINNED / ewtcp.kernel_name).is_dir)
    loading.kill()
    loading.wait()
    assert loaded.names_loaded() == [ewtcp]
    with pytest.raises(LoadFailed, match="loaded already"):
        loaded.load(ewtcp, {})
    assert loaded.unload(ewtcp) == 0
    assert loaded.names_loaded() == []
    loaded.load(ewtcp, {})
    with connected(ewtcp.kernel_name) as (sender, receiver):
        assert carry(sender, receiver, 16) == 16 * len(BLOCK)


def test_what_the_verifier_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller with an unbounded access."""
    text = (toolchain.CONTROLLERS / "ewtcp.c").read_text()
    broken = text.replace("inverse_root_q32[rw_min64(n, RW_MAX_PATHS)]", "inverse_root_q32[c->mss_bytes]")
    assert broken != text
    for path in toolchain.CONTROLLERS.glob("*.h"):
        (tmp_path / path.name).symlink_to(path)
    for path in toolchain.CONTROLLERS.glob("*.c"):
        (tmp_path / path.name).write_text(broken if path.name == "ewtcp.c" else path.read_text())
    monkeypatch.setattr(toolchain, "CONTROLLERS", tmp_path)
    with pytest.raises(LoadFailed, match="the kernel refuses it"):
        loaded.load(toolchain.controller("ewtcp"), {})
    assert not loaded.PINNED.exists()


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["load", "tccc+", "--option", "aca_md=half"]) == 0
    assert cli.main(["status"]) == 0
    told = capsys.readouterr().out
    assert "rw_tccc_plus is loaded" in told
    assert "rw_tccc_plus: 0 connections" in told
    assert "aca_md=half" in told
    assert cli.main(["load", "tccc+"]) == 4
    assert cli.main(["load", "tccc", "--option", "aca_md"]) == 2
    assert cli.main(["load", "nothing"]) == 2
    assert cli.main(["unload"]) == 0
    assert cli.main(["unload", "tccc+"]) == 4
    assert "rw_tccc_plus is not loaded" in capsys.readouterr().err


def test_nobody_but_root_may_load() -> None:
    program = "import os, sys; from kernel import cli; os.setuid(65534); sys.exit(cli.main(['status']))"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, cwd=machine.CHECKOUT)
    assert (done.returncode, done.stderr.strip()) == (4, "loading a controller into the kernel needs root")


def traced(name: str, path: Path, before_ns: int) -> tuple[subprocess.Popen[str], int]:
    """A trace that is under way, and the time up to which steps are written down. before_ns: that of a trace before."""
    tracer = subprocess.Popen(
        [sys.executable, "-m", "kernel.cli", "trace", name, "--seconds", "600", "--output", str(path)],
        cwd=machine.CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
    )

    def until_ns() -> int:
        with libbpf.Map.pinned(loaded.PINNED / toolchain.controller(name).kernel_name / "tracing") as until:
            return int.from_bytes(until.read(bytes(4), 8) or b"", sys.byteorder)

    wait_for(lambda: until_ns() > before_ns)
    return tracer, until_ns()


@pytest.mark.parametrize("after_a_kill", [False, True])
def test_a_trace_tells_what_the_controller_did(
    after_a_kill: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps of connections that begin meanwhile, from the join to the leave; nobody's after it. Also where a trace was
    killed just before. TLC finds them to be a behaviour of CoupledSlowStart."""
    tccc, path = toolchain.controller("tccc"), tmp_path / "tccc.steps"
    loaded.load(tccc, {"con_ssthresh": "1000"})
    if after_a_kill:
        tracer, until_ns = traced("tccc", tmp_path / "killed.steps", 0)
        tracer.kill()
        tracer.communicate()
        assert not (tmp_path / "killed.steps").exists()
    else:
        until_ns = 0
    with connected(tccc.kernel_name) as (sender, receiver):
        tracer, _ = traced("tccc", path, until_ns)
        try:
            with connected(tccc.kernel_name, MPTCP) as (second, its_receiver):
                assert carry(second, its_receiver, 64) == 64 * len(BLOCK)
            wait_for(lambda: loaded.status(tccc).connections == 1)
            assert carry(sender, receiver, 16) == 16 * len(BLOCK)
        finally:
            tracer.send_signal(signal.SIGINT)
            said, _ = tracer.communicate(timeout=WAIT_S)
    choice, *steps = step_files.read(path)
    assert isinstance(choice, rewindow.Choice)
    assert (choice.name, choice.options["con_ssthresh"]) == ("tccc", "1000")
    kinds = [s.kind for s in steps if isinstance(s, Step)]
    assert (kinds[0], kinds[-1]) == ("join", "leave")
    # Linux asks for growth only where the window limits the sender; over the loopback device it may never do.
    assert kinds.count("rtt") > 5
    assert "of 1 connections" in said
    assert "; 0 steps of connections" not in said
    assert rewindow_cli.main(["specs", "trace", "--steps", str(path), "--json"]) == 0
    (judged,) = json.loads(capsys.readouterr().out)["connections"]
    assert (judged["algorithm"], judged["conforms"]) == ("tccc", True)
    assert judged["events"] > 5


@pytest.mark.parametrize("ends", [False, True])
def test_a_trace_whose_reader_was_late_fails(ends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes back when steps are not written down any more: to go on, or to end the trace."""
    tccc, stopped = toolchain.controller("tccc"), threading.Event()
    loaded.load(tccc, {})
    found = tracing.records(tccc, 600, stopped)
    with ThreadPoolExecutor(1) as pool, libbpf.Map.pinned(loaded.PINNED / tccc.kernel_name / "tracing") as until:
        first = pool.submit(next, found)
        wait_for(lambda: until.read(bytes(4), 8) != bytes(8))
        with connected(tccc.kernel_name):
            assert first.result(WAIT_S).kind == "join"
        (until_ns,) = struct.unpack("=Q", until.read(bytes(4), 8) or b"")
    if ends:
        stopped.set()
    later = itertools.count(until_ns + 1, 10**9)
    monkeypatch.setattr(tracing, "time", SimpleNamespace(monotonic_ns=lambda: next(later)))
    with pytest.raises(LoadFailed, match="kept waiting"):
        list(found)
