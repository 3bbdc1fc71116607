"""What controllers cost in this machine's kernel: nanoseconds for each callback, CPU time for each gigabit. As root.

`make bench-kernel`: each controller carries one plain TCP connection over the loopback device, in segments of 1448
bytes, paced to 1 Gbit/s; the kernel's own reno and cubic beside them. The kernel counts calls and their time itself
(kernel.bpf_stats_enabled).
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kernel import libbpf, loaded, toolchain
from kernel.errors import KernelError
from lab import machine

STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
SEGMENT_BYTES = 1448
RATE_BYTES = 125_000_000
BLOCK = bytes(1 << 18)
SO_MAX_PACING_RATE = 47
CALLBACKS = ("pkts_acked", "cong_avoid", "ssthresh", "set_state", "cwnd_event", "init")


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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="kernel", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3, help="of each connection, at 1 Gbit/s (%(default)s)")
    chosen = parser.parse_args(arguments)
    print("| congestion control | CPU ms/Gbit | " + " | ".join(f"{c} ns" for c in CALLBACKS) + " |")
    print("|---|---:|" + "---:|" * len(CALLBACKS))
    try:
        loaded.check()
        with machine.locked(), statistics():
            for name in ("reno", "cubic"):
                gigabits, cpu = carried(name, chosen.seconds)
                print(f"| {name} | {cpu / gigabits * 1000:.0f} |" + " |" * len(CALLBACKS), flush=True)
            for controller in toolchain.controllers():
                loaded.load(controller, {})
                try:
                    gigabits, cpu = carried(controller.kernel_name, chosen.seconds)
                    costs = libbpf.program_costs("rw_")
                finally:
                    loaded.unload(controller)
                told = [f"{costs[c][0] / costs[c][1]:.0f}" if costs.get(c, (0, 0))[1] else "–" for c in CALLBACKS]
                print(
                    f"| {controller.kernel_name} | {cpu / gigabits * 1000:.0f} | {' | '.join(told)} |",
                    flush=True,
                )
    except KernelError as e:
        print(e, file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
