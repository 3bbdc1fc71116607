"""What the kernel's BBR takes a path to be, at each ACK: read from its sockets by a program in the kernel.

The program is lab/bpf/bbr.bpf.c. It runs where a scenario's transfer has the congestion control bbr.
"""

from __future__ import annotations

import csv
import gzip
import ipaddress
import os
import struct
import threading
from collections.abc import Sequence
from pathlib import Path

from kernel import libbpf, toolchain
from kernel.errors import KernelError
from lab.errors import LabFailed, RunInvalid
from rewindow.scenarios import Scenario, Transfer

CONGESTION_CONTROL = "bbr"
SOURCE = Path(__file__).parent / "bpf" / "bbr.bpf.c"
OBJECT = toolchain.OUTPUT / "bbr.bpf.o"
TYPES = Path("/sys/kernel/btf/vmlinux")
READ_INTERVAL_S = 0.05

STATE = struct.Struct("=2Q16s16s9I3I6I2H2H10B6x")
"""struct state of the program."""
COLUMNS = (
    "t", "src", "sport", "dst", "dport", "snd_una", "snd_nxt", "snd_cwnd", "mode", "phase", "bandwidth_segments_s",
    "second_bandwidth_segments_s", "third_bandwidth_segments_s", "min_rtt_us", "pacing_gain", "cwnd_gain",
    "pacing_bytes_s", "full", "rounds", "ca_state", "packet_conservation", "prior_cwnd", "idle_restart", "in_flight",
    "delivered", "lost", "app_limited", "sampled_segments", "sampled_us", "extra_acked_0", "extra_acked_1", "policed",
    "policed_sampling", "policed_rounds", "policed_bandwidth_segments_s",
)  # fmt: skip
MODES = ("startup", "drain", "probe_bw", "probe_rtt")
_GAIN_ONE = 256


def is_wanted(scenario: Scenario) -> bool:
    return any(t.congestion_control == CONGESTION_CONTROL for t in scenario.transfers)


def missing(scenario: Scenario) -> str:
    """What this machine lacks to read the states; empty: nothing."""
    if not is_wanted(scenario):
        return ""
    lacking = []
    if toolchain.compiler_is_missing():
        lacking.append(f"{toolchain.COMPILER} (deploy/setup.sh lab installs it)")
    if not libbpf.is_there():
        lacking.append(f"{libbpf.SHARED_LIBRARY} (deploy/setup.sh lab installs it)")
    if not TYPES.exists():
        lacking.append(f"{TYPES} (the kernel's CONFIG_DEBUG_INFO_BTF)")
    return "; ".join(lacking)


class BbrStates:
    """Records the states of the senders of these transfers. Other sockets with BBR on the machine are left out."""

    def __init__(self, transfers: Sequence[Transfer], file: Path) -> None:
        self._file = file
        self._senders = {(str(p.start.address), str(p.end.address), t.port) for t in transfers for p in t.paths}
        try:
            self._program = libbpf.Object(toolchain.compile_object(SOURCE, OBJECT))
            try:
                self._program.load()
                self._program.attach("see_ack")
                self._stopping = threading.Event()
                self._error: Exception | None = None
                self._thread = threading.Thread(target=self._read, daemon=True)
                self._thread.start()
            except KernelError:
                self._program.close()
                raise
        except KernelError as e:
            raise LabFailed(f"BBR's state cannot be read: {e}") from e
        self._open = True

    def _read(self) -> None:
        try:
            with open(self._file, "wb") as f:

                def write(state: bytes) -> None:
                    f.write(state)

                samples = self._program.map("states").samples(write)
                try:
                    while not self._stopping.is_set():
                        samples.poll(READ_INTERVAL_S)
                    samples.poll(0)
                finally:
                    samples.close()
        except (KernelError, OSError) as e:
            self._error = e

    def stop(self) -> None:
        """Ends the recording, with all states in the file. Raises RunInvalid when some found no room."""
        self._program.detach()
        self._end_reading()
        (lost,) = struct.unpack("=Q", self._program.map(".data.lost").read(bytes(4), 8) or bytes(8))
        self.kill()
        if self._error:
            raise LabFailed(f"BBR's state cannot be read: {self._error}")
        if lost:
            raise RunInvalid(f"{lost} states of BBR found no room")

    def _end_reading(self) -> None:
        self._stopping.set()
        self._thread.join()

    def kill(self) -> None:
        """Ends the recording, however far it is."""
        if self._open:
            self._open = False
            self._end_reading()
            self._program.close()

    def write_truth(self, target: Path) -> int:
        """Writes the rows of the transfers' senders; returns how many."""
        rows = 0
        with open(self._file, "rb") as states, gzip.open(target, "wt", newline="") as f:
            table = csv.writer(f, lineterminator="\n")
            table.writerow(COLUMNS)
            while data := states.read(STATE.size):
                row = state_row(data)
                if (row[1], row[3], row[4]) in self._senders:
                    table.writerow(row)
                    rows += 1
        os.unlink(self._file)
        return rows


def _address(data: bytes, is_ipv6: int) -> str:
    return str(ipaddress.ip_address(data if is_ipv6 else data[:4]))


def _segments_s(bandwidth_q24: int) -> str:
    """The kernel's unit is segments each microsecond, with 24 fractional bits."""
    return f"{bandwidth_q24 * 1e6 / (1 << 24):.3f}"


def state_row(data: bytes) -> tuple[str | int, ...]:
    """The COLUMNS of a state."""
    (
        time_ns, pacing, source, destination, una, following, cwnd, delivered, lost, app_limited, sampled, sampled_us,
        in_flight, best, second, third, policed_bw, rounds, min_rtt_us, pacing_gain, cwnd_gain, prior_cwnd, extra_0,
        extra_1, sport, dport, is_ipv6, mode, phase, ca_state, full, conserves, idle_restart, policed,
        policed_sampling, policed_rounds,
    ) = STATE.unpack(data)  # fmt: skip
    return (
        f"{time_ns / 1e9:.6f}", _address(source, is_ipv6), sport, _address(destination, is_ipv6), dport, una, following,
        cwnd, MODES[mode], phase, _segments_s(best), _segments_s(second), _segments_s(third), min_rtt_us,
        f"{pacing_gain / _GAIN_ONE:.4f}", f"{cwnd_gain / _GAIN_ONE:.4f}", pacing, full, rounds, ca_state, conserves,
        prior_cwnd, idle_restart, in_flight, delivered, lost, app_limited, sampled, sampled_us, extra_0, extra_1,
        policed, policed_sampling, policed_rounds, _segments_s(policed_bw),
    )  # fmt: skip
