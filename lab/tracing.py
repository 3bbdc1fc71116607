"""The kernel's window: the trace point tcp_probe, read through the lab's own tracefs instance."""

from __future__ import annotations

import contextlib
import csv
import gzip
import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path

from lab.errors import LabFailed, RunInvalid
from rewindow.scenarios import Transfer

TRACEFS = Path("/sys/kernel/tracing")
INSTANCE = TRACEFS / "instances" / "rewindow-lab"
BUFFER_KB = 8192
"""Size of each processor's buffer."""
READ_INTERVAL_S = 0.05

COLUMNS = ("t", "src", "sport", "dst", "dport", "snd_una", "snd_nxt", "snd_cwnd", "ssthresh", "srtt_us")

_END = r"\[?([\da-f.:]+?)\]?:(\d+)"
_PROBE = re.compile(
    rf"(\d+\.\d+): tcp_probe: family=\w+ src={_END} dest={_END} mark=\S+ data_len=0 snd_nxt=0x([0-9a-f]+) "
    r"snd_una=0x([0-9a-f]+) snd_cwnd=(\d+) ssthresh=(\d+) snd_wnd=\d+ srtt=(\d+)"
)


def remove() -> None:
    """Removes the instance, even if it still traces."""
    if INSTANCE.is_dir():
        with contextlib.suppress(OSError):
            (INSTANCE / "events/tcp/tcp_probe/enable").write_text("0")
        try:
            INSTANCE.rmdir()
        except OSError as e:
            raise LabFailed(f"{INSTANCE} cannot be removed: {e.strerror}") from e


class Probe:
    """Records ACKs without data that reach the senders of these transfers, before the kernel processes them."""

    def __init__(self, transfers: Sequence[Transfer], file: Path) -> None:
        self._file = file
        self._senders = {(str(p.start.address), str(p.end.address), t.port) for t in transfers for p in t.paths}
        INSTANCE.mkdir()
        ports = " || ".join(f"dport=={port}" for port in sorted({t.port for t in transfers}))
        for name, value in (
            ("trace_clock", "mono"),
            ("buffer_size_kb", str(BUFFER_KB)),
            ("events/tcp/tcp_probe/filter", f"data_len==0 && ({ports})"),
            ("events/tcp/tcp_probe/enable", "1"),
        ):
            (INSTANCE / name).write_text(value)
        self._stopping = threading.Event()
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        """Reads continuously, because the kernel's buffer overwrites events that wait too long."""
        try:
            pipe = os.open(INSTANCE / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                with open(self._file, "wb") as f:
                    while True:
                        last = self._stopping.is_set()
                        with contextlib.suppress(BlockingIOError):
                            while data := os.read(pipe, 1 << 16):
                                f.write(data)
                        if last:
                            return
                        self._stopping.wait(READ_INTERVAL_S)
            finally:
                os.close(pipe)
        except OSError as e:
            self._error = e

    def stop(self) -> None:
        """Ends the trace, with all events in the file. Raises RunInvalid when the kernel lost events."""
        (INSTANCE / "events/tcp/tcp_probe/enable").write_text("0")
        self.kill()
        if self._error:
            raise LabFailed(f"trace_pipe: {self._error}")
        lost = lost_events([f.read_text() for f in sorted(INSTANCE.glob("per_cpu/cpu*/stats"))])
        remove()
        if lost:
            raise RunInvalid(f"the kernel's trace lost {lost} events")

    def kill(self) -> None:
        """Stops reading, so that the instance can be removed."""
        self._stopping.set()
        self._thread.join()

    def write_truth(self, target: Path) -> int:
        """Writes the rows of the transfers' senders; returns how many."""
        rows = 0
        with open(self._file, errors="replace") as lines, gzip.open(target, "wt", newline="") as f:
            table = csv.writer(f, lineterminator="\n")
            table.writerow(COLUMNS)
            for line in lines:
                row = truth_row(line)
                if row and (row[1], row[3], row[4]) in self._senders:
                    table.writerow(row)
                    rows += 1
        self._file.unlink()
        return rows


def truth_row(line: str) -> tuple[str, str, int, str, int, int, int, int, int, int] | None:
    """The COLUMNS of a line of the trace; None if the line is no ACK without data."""
    found = _PROBE.search(line)
    if found is None:
        return None
    time, src, sport, dst, dport, snd_nxt, snd_una, cwnd, ssthresh, srtt = found.groups()
    return (
        time, src, int(sport), dst, int(dport), int(snd_una, 16), int(snd_nxt, 16), int(cwnd), int(ssthresh), int(srtt)
    )  # fmt: skip


def lost_events(stats: Sequence[str]) -> int:
    """Events that were overwritten or dropped, on all processors."""
    pattern = re.compile(r"^(?:overrun|commit overrun|dropped events): (\d+)$", re.MULTILINE)
    return sum(int(n) for text in stats for n in pattern.findall(text))
