"""Captures: a tcpdump for each interface of a capture point, merged by time at the end."""

from __future__ import annotations

import re
import select
import signal
import subprocess
import time
from pathlib import Path

from lab.errors import LabFailed, RunInvalid
from lab.namespaces import host_namespace
from lab.programs import inside, run
from rewindow.scenarios import CapturePoint, Interface, Scenario

BUFFER_KIB = 16384
ANSWER_S = 30


class _Dump:
    """tcpdump at one interface, which writes packets at once, with timestamps in nanoseconds."""

    def __init__(self, interface: Interface, snap_bytes: int, file: Path) -> None:
        self.interface = interface
        self.file = file
        words = ["tcpdump", "-i", interface.name, "-s", str(snap_bytes), "-B", str(BUFFER_KIB), "--immediate-mode",
                 "--time-stamp-precision=nano", "-n", "-Z", "root", "-w", str(file), "tcp"]  # fmt: skip
        self._process = subprocess.Popen(
            inside(host_namespace(interface.host), *words), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0
        )
        self._said = b""
        deadline = time.monotonic() + ANSWER_S
        assert self._process.stderr
        while b"listening on" not in self._said:
            left = deadline - time.monotonic()
            more = b""
            if left > 0 and select.select([self._process.stderr], [], [], left)[0]:
                more = self._process.stderr.read(4096)
            if not more:
                self.kill()
                said = self._said.decode(errors="replace").strip().splitlines()
                raise LabFailed(f"tcpdump at {interface} does not listen: {said[-1] if said else 'no message'}")
            self._said += more

    def stop(self) -> int:
        """Ends tcpdump; returns how many packets the kernel dropped before tcpdump saw them."""
        self._process.send_signal(signal.SIGINT)
        try:
            _, said = self._process.communicate(timeout=ANSWER_S)
        except subprocess.TimeoutExpired as e:
            self.kill()
            raise LabFailed(f"tcpdump at {self.interface} does not end") from e
        found = re.search(rb"(\d+) packets? dropped by kernel", self._said + said)
        if self._process.returncode or not found:
            raise LabFailed(f"tcpdump at {self.interface}: exit status {self._process.returncode}")
        return int(found[1])

    def kill(self) -> None:
        with self._process:
            self._process.kill()


class Capturing:
    """All capture points of a scenario; they capture from the object's creation on."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self._scenario = scenario
        self._folder = folder
        self._dumps: dict[CapturePoint, list[_Dump]] = {}
        try:
            for number, point in enumerate(scenario.captures):
                dumps = self._dumps.setdefault(point, [])
                for k, interface in enumerate(point.interfaces):
                    dumps.append(_Dump(interface, point.snap_bytes, folder / f"{number}-{k}.pcap"))
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Writes the files of the capture points. Raises RunInvalid where packets are missing in them."""
        dropped = sum(dump.stop() for dumps in self._dumps.values() for dump in dumps)
        for point, dumps in self._dumps.items():
            # A pcap has one link type for all packets; veth has Ethernet, TUN has raw IP.
            types = {self._scenario.host(i.host).offload for i in point.interfaces}
            kind, ending = ("nsecpcap", "pcap") if len(types) == 1 else ("pcapng", "pcapng")
            run(
                [
                    "mergecap",
                    "-F",
                    kind,
                    "-w",
                    str(self._folder / f"{point.name}.{ending}"),
                    *(str(d.file) for d in dumps),
                ]
            )
            for dump in dumps:
                dump.file.unlink()
        if dropped:
            raise RunInvalid(f"the captures lack {dropped} packets")

    def kill(self) -> None:
        for dumps in self._dumps.values():
            for dump in dumps:
                dump.kill()
