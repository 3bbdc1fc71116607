"""This machine: requirements of the lab, the lock for one run at a time, cleaning up after a killed run."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from lab import bbr_states, controllers, tracing
from lab.errors import LabFailed, LabUnavailable
from lab.programs import run
from rewindow.scenarios import Scenario

STATE = Path("/run/rewindow-lab")
PREFIX = "rwlab-"
"""Prefix of the lab's network namespaces. The lab removes every namespace with it."""
DEVICE = "rwlab"
"""Prefix of the TUN devices' names before they are moved into namespaces."""
KILL_S = 10
STAT = Path("/proc/stat")
CHECKOUT = Path(__file__).parent.parent


def emulator_program() -> Path:
    """The emulator of the checkout, or the one that REWINDOW_EMULATOR names."""
    return Path(os.environ.get("REWINDOW_EMULATOR") or CHECKOUT / "build" / "Emulator" / "lab" / "rewindow-emulator")


class Others:
    """The CPU time of other programs, from its construction on: all that the machine did, or its hypervisor took away,
    without interrupts, less what this process and its ended children used (proc(5), times(2))."""

    def __init__(self) -> None:
        self._begun = self._now()

    @staticmethod
    def _now() -> tuple[float, float]:
        """Seconds: the clock, and others' CPU time."""
        fields = STAT.read_text().split("\n", 1)[0].split()[1:]
        user, nice, system, _, _, _, _, stolen = (int(f) / os.sysconf("SC_CLK_TCK") for f in fields[:8])
        own = os.times()
        used = own.user + own.system + own.children_user + own.children_system
        return time.monotonic(), user + nice + system + stolen - used

    def share(self) -> float:
        """Of one CPU, at least 0: 1.5 where others kept one CPU and a half busy."""
        (begun_s, begun), (now_s, now) = self._begun, self._now()
        return max(0.0, (now - begun) / (now_s - begun_s))


def check(scenario: Scenario | None = None) -> None:
    """Raises LabUnavailable with all missing requirements, in one line."""
    if os.geteuid() != 0:
        raise LabUnavailable("the lab needs root: it makes network namespaces and reads the kernel's trace points")
    missing = [name for name in ("ip", "ss", "tcpdump", "mergecap", "tc") if shutil.which(name) is None]
    if not os.access(emulator_program(), os.X_OK):
        missing.append(f"{emulator_program()} (deploy/setup.sh lab builds it)")
    if not Path("/dev/net/tun").exists():
        missing.append("/dev/net/tun (the kernel's CONFIG_TUN)")
    if not (tracing.TRACEFS / "events/tcp/tcp_probe").is_dir():
        missing.append(f"{tracing.TRACEFS}/events/tcp/tcp_probe (tracefs, and the kernel's trace points)")
    if scenario is not None:
        if any(t.protocol == "mptcp" for t in scenario.transfers) and not Path("/proc/sys/net/mptcp").is_dir():
            missing.append("MPTCP in the kernel (CONFIG_MPTCP)")
        if lacking := controllers.missing(scenario):
            missing.append(lacking)
        if lacking := bbr_states.missing(scenario):
            missing.append(lacking)
        ours = {c.kernel_name for c in controllers.of_scenario(scenario)}
        for name in sorted({t.congestion_control for t in scenario.transfers if t.congestion_control} - ours):
            if not has_congestion_control(name):
                missing.append(f"the congestion control {name} in the kernel")
    if missing:
        raise LabUnavailable(f"missing for the lab: {'; '.join(missing)}")


def has_congestion_control(name: str) -> bool:
    """Asks the kernel, which may load a module for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError as e:
            if e.errno == errno.ENOENT:
                return False
            raise LabFailed(f"congestion control {name}: {e.strerror}") from e
        return True


def started(pid: int) -> str | None:
    """When a process started, in ticks; together with the number this identifies a process. None: gone, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return None if fields[0] == "Z" else fields[19]


class Left:
    """Processes and folders that a killed run would leave behind, and that no name identifies. They are noted before
    they are made."""

    FILE = STATE / "left.json"

    def __init__(self) -> None:
        self.folders: list[str] = []
        self.processes: list[tuple[int, str]] = []
        self.controllers: list[str] = []

    def folder(self, path: Path) -> None:
        self.folders.append(str(path))
        self.note()

    def process(self, pid: int) -> None:
        since = started(pid)
        if since:
            self.processes.append((pid, since))
            self.note()

    def controller(self, kernel_name: str) -> None:
        self.controllers.append(kernel_name)
        self.note()

    def note(self) -> None:
        """Writes the note for the next start."""
        partial = self.FILE.with_suffix(".partial")
        left = {"folders": self.folders, "processes": self.processes, "controllers": self.controllers}
        partial.write_text(json.dumps(left))
        partial.replace(self.FILE)

    @classmethod
    def read(cls) -> Left:
        found = cls()
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            stored = json.loads(cls.FILE.read_text())
            found.folders = [str(f) for f in stored["folders"]]
            found.processes = [(int(pid), str(since)) for pid, since in stored["processes"]]
            found.controllers = [str(name) for name in stored["controllers"]]
        return found


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Waits for the end of another run, then holds the lab's lock on this machine."""
    STATE.mkdir(mode=0o700, exist_ok=True)
    with open(STATE / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("another run of the lab is under way on this machine: waiting", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def alone() -> Iterator[Left]:
    """Holds the lock for one run, and cleans up before and after it."""
    with locked():
        clean()
        left = Left()
        try:
            yield left
        finally:
            left.note()
            clean()


def namespaces() -> list[str]:
    """The lab's network namespaces."""
    listed = run(["ip", "netns", "list"]).splitlines()
    return [line.split()[0] for line in listed if line.startswith(PREFIX)]


def clean() -> None:
    """Ends processes, and removes namespaces, devices, trace instance and folders of a run that did not end."""
    left = Left.read()
    ours = [pid for pid, since in left.processes if started(pid) == since]
    found = namespaces()
    for name in found:
        ours += [int(pid) for pid in run(["ip", "netns", "pids", name]).split()]
    kill(ours)
    for name in found:
        run(["ip", "netns", "delete", name])
    for device in json.loads(run(["ip", "-j", "link", "show"])):
        if device["ifname"].startswith(DEVICE):
            run(["ip", "link", "delete", device["ifname"]])
    tracing.remove()
    for name in left.controllers:
        controllers.unload(name)
    for folder in left.folders:
        shutil.rmtree(folder, ignore_errors=True)
    Left.FILE.unlink(missing_ok=True)


def kill(pids: list[int]) -> None:
    """Kills processes and waits until they are gone, because a namespace lives as long as a process in it."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + KILL_S
    while any(started(pid) for pid in pids):
        if time.monotonic() > deadline:
            raise LabFailed(f"processes {pids} do not end")
        time.sleep(0.01)
