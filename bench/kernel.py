"""What controllers cost in this machine's kernel: nanoseconds for each callback, CPU time for each gigabit. As root.

`make bench-kernel`: each controller carries one plain TCP connection over the loopback device, in segments of 1448
bytes, paced to 1 Gbit/s; the kernel's own reno and cubic beside them. The kernel counts calls and their time itself
(kernel.bpf_stats_enabled). --write puts the table into docs/kernel.md.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import resource
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.documents import put
from kernel import libbpf, loaded, toolchain
from kernel.errors import KernelError
from lab import machine

STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
SEGMENT_BYTES = 1448
RATE_BYTES = 125_000_000
BLOCK = bytes(1 << 18)
SO_MAX_PACING_RATE = 47
CALLBACKS = ("pkts_acked", "in_ack_event", "cong_avoid", "ssthresh", "set_state", "cwnd_event", "init")


@contextmanager
def statistics() -> Iterator[None]:
    before = STATISTICS.read_text()
    STATISTICS.write_text("1")
    try:
        yield
    finally:
        STATISTICS.write_text(before)


def cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def carried(kernel_name: str, seconds: float) -> tuple[float, float]:
    """Gigabits that arrived, and the CPU seconds of both ends."""
    listener, sender = (socket.socket() for _ in range(2))
    with listener, sender:
        for s in (listener, sender):
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, kernel_name.encode())
        sender.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("=I", RATE_BYTES))
        sender.connect(listener.getsockname())
        receiver, _ = listener.accept()
        child = os.fork()
        if child == 0:
            with receiver:
                sender.close()
                while receiver.recv(1 << 18):
                    pass
            os._exit(0)
        receiver.close()
        before, sent = cpu_seconds(), 0
        while sent < RATE_BYTES * seconds:
            sent += sender.send(BLOCK)
        sender.shutdown(socket.SHUT_WR)
        os.waitpid(child, 0)
        return sent * 8 / 1e9, cpu_seconds() - before


def rows(controllers: Sequence[toolchain.Controller], seconds: float) -> Iterator[str]:
    """The lines of the table, each as soon as it is measured."""
    yield "| congestion control | CPU ms/Gbit | " + " | ".join(f"{c} ns" for c in CALLBACKS) + " |"
    yield "|---|---:|" + "---:|" * len(CALLBACKS)
    for name in ("reno", "cubic"):
        gigabits, cpu = carried(name, seconds)
        yield f"| {name} | {cpu / gigabits * 1000:.0f} |" + " |" * len(CALLBACKS)
    for controller in controllers:
        loaded.load(controller, {})
        try:
            gigabits, cpu = carried(controller.kernel_name, seconds)
            costs = libbpf.program_costs("rw_")
        finally:
            loaded.unload(controller)
        told = [f"{costs[c][0] / costs[c][1]:.0f}" if costs.get(c, (0, 0))[1] else "–" for c in CALLBACKS]
        yield f"| {controller.kernel_name} | {cpu / gigabits * 1000:.0f} | {' | '.join(told)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="kernel", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3, help="of each connection, at 1 Gbit/s (%(default)s)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="controllers whose names match, as a shell does"
    )
    parser.add_argument("--write", action="store_true", help="also put the table into docs/kernel.md")
    chosen = parser.parse_args(arguments)
    controllers = [
        c for c in toolchain.controllers()
        if not chosen.only or any(fnmatch.fnmatchcase(c.name, pattern) for pattern in chosen.only)
    ]  # fmt: skip
    if not controllers:
        parser.error(f"no controller has a name like {', '.join(chosen.only)}")
    lines: list[str] = []
    try:
        loaded.check()
        with machine.locked(), statistics():
            for line in rows(controllers, chosen.seconds):
                print(line, flush=True)
                lines.append(line)
    except KernelError as e:
        print(e, file=sys.stderr)
        return 4
    if chosen.write:
        put("kernel.md", "costs", "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
