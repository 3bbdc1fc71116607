"""One end of a transfer, run inside of a host's network namespace: `transfer.py JSON`.

Keys of the JSON: role (send, receive), family (4, 6), mptcp, address, port, congestion_control, buffer_bytes; and for
send: bind, bytes, duration_ns, start_ns, write_bytes, pause_ns, end_ns. The program prints a line of JSON when it is
ready, reads `start NS` (the zero of its times on the monotonic clock), and prints another line of JSON at its end.
It uses only the standard library, because it is started with `python -I -S`.
"""

import errno
import fcntl
import json
import os
import re
import select
import socket
import subprocess
import sys
import termios
import time
from typing import Any

IPPROTO_MPTCP = 262
SO_SNDBUFFORCE = 32
SO_RCVBUFFORCE = 33
S_NS = 10**9
LOOK_NS = 2 * 10**6


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def opened(config: dict[str, Any]) -> socket.socket:
    """A socket with the requested congestion control, which is read back to check it."""
    family = socket.AF_INET6 if config["family"] == 6 else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM, IPPROTO_MPTCP if config["mptcp"] else socket.IPPROTO_TCP)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    wanted = config["congestion_control"]
    if wanted:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, wanted.encode())
    if config["buffer_bytes"]:
        option = SO_SNDBUFFORCE if config["role"] == "send" else SO_RCVBUFFORCE
        # The kernel doubles it, for its own accounting (socket(7)), and not the limits of its tuning.
        s.setsockopt(socket.SOL_SOCKET, option, config["buffer_bytes"] // 2)
    return s


def congestion_control(s: socket.socket) -> str:
    return s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\0")[0].decode()


def subflows(port: int) -> list[dict[str, str]]:
    """The kernel's list of subflows to this port, each with its congestion control."""
    listed = subprocess.run(
        ["ss", "-tinHO", "dport", "=", f":{port}"], capture_output=True, text=True, check=True
    ).stdout
    found = []
    for line in listed.splitlines():
        name = re.search(r"(\S+) (?:wscale:\S+ )?rto:", line)
        if name:
            # The address may end with the interface: 10.0.1.1%wifi:40000.
            local = re.sub(r"%[^\]:]+", "", line.split()[3])
            found.append({"local": local, "congestion_control": name[1]})
    return found


def started() -> int:
    """Reads the zero of all times. When the input ends instead, the run is over."""
    word, _, value = sys.stdin.readline().partition(" ")
    if word != "start":
        sys.exit(1)
    return int(value)


def wait_until(time_ns: int) -> None:
    while (left := time_ns - time.monotonic_ns()) > 0:
        time.sleep(left / S_NS)


def ready_before(s: socket.socket, event: int, deadline_ns: int) -> bool:
    """Whether the socket becomes writable or readable before this time."""
    poll = select.poll()
    poll.register(s, event)
    return bool(poll.poll(max(0, deadline_ns - time.monotonic_ns()) / 10**6))


def acknowledged_before(s: socket.socket, deadline_ns: int) -> bool:
    """Whether all written data is acknowledged before this time."""
    while int.from_bytes(fcntl.ioctl(s, termios.TIOCOUTQ, bytes(4)), sys.byteorder):  # SIOCOUTQ, tcp(7)
        if time.monotonic_ns() >= deadline_ns:
            return False
        wait_until(time.monotonic_ns() + LOOK_NS)
    return True


def send(config: dict[str, Any]) -> None:
    s = opened(config)
    s.bind((config["bind"], 0))
    say(ready=True)
    zero_ns = started()
    begin_ns, end_ns = zero_ns + config["start_ns"], zero_ns + config["end_ns"]
    stop_ns = begin_ns + config["duration_ns"]
    left = config["bytes"]
    block = memoryview(os.urandom(config["write_bytes"]))
    wait_until(begin_ns)
    s.setblocking(False)
    told = s.connect_ex((config["address"], config["port"]))
    if told == errno.EINPROGRESS and ready_before(s, select.POLLOUT, end_ns):
        told = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if told:
        say(error=os.strerror(told))
        return
    connected_ns = time.monotonic_ns()
    sent, error = 0, ""
    used, flows, complete = "", list[dict[str, str]](), False
    try:
        while left is None or left > 0:
            write = block if left is None else block[:left]
            done = 0
            while done < len(write) and ready_before(s, select.POLLOUT, stop_ns):
                done += s.send(write[done:])
            sent += done
            left = None if left is None else left - done
            if done < len(write):
                break  # its time is over
            if config["pause_ns"]:
                wait_until(min(time.monotonic_ns() + config["pause_ns"], stop_ns))
            if time.monotonic_ns() >= stop_ns:
                break
        used, flows = congestion_control(s), subflows(config["port"])
        # A socket that was shut down is not in the state in which the kernel's tcp_probe tells its window.
        complete = acknowledged_before(s, end_ns)
        took_ns = time.monotonic_ns() - connected_ns
        s.shutdown(socket.SHUT_WR)
        # The receiver closes when it has everything.
        complete = complete and ready_before(s, select.POLLIN, end_ns) and s.recv(1) == b""
    except OSError as e:
        error = e.strerror or str(e)
        took_ns = time.monotonic_ns() - connected_ns
    s.close()
    say(
        bytes=sent, seconds=took_ns / S_NS, connected_s=(connected_ns - zero_ns) / S_NS, complete=complete,
        congestion_control=used, subflows=flows, error=error,
    )  # fmt: skip


def receive(config: dict[str, Any]) -> None:
    listener = opened(config)
    # Of any address: MPTCP's further subflows come to others.
    listener.bind(("::" if config["family"] == 6 else "0.0.0.0", config["port"]))
    listener.listen(1)
    say(ready=True)
    s, _ = listener.accept()
    received, error = 0, ""
    try:
        while data := s.recv(1 << 16):
            received += len(data)
    except OSError as e:
        error = e.strerror or str(e)
    say(bytes=received, error=error)
    s.close()


if __name__ == "__main__":
    chosen = json.loads(sys.argv[1])
    (send if chosen["role"] == "send" else receive)(chosen)
