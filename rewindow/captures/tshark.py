"""A confined run of tshark over one capture, as a child of this process or by a service.

The service (`python -m rewindow.captures.tshark_service`) runs in a place without network and secrets. It gets open
files over the Unix socket that REWINDOW_TSHARK_SOCKET names, and starts tshark with them.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from dataclasses import asdict, dataclass
from typing import Protocol

from rewindow import confined
from rewindow.errors import DissectorAway, DissectorFailed, DissectorInterrupted, DissectorMissing

PROGRAM = "tshark"

OPTIONS = (
    "-n",  # no names are resolved
    # No reassembly and no analysis: each packet by itself, as in the core.
    *("-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE", "-o", "tcp.desegment_tcp_streams:FALSE"),
    *("-o", "tcp.analyze_sequence_numbers:FALSE", "-o", "tcp.relative_sequence_numbers:FALSE"),
    *("-o", "ip.tso_support:TRUE", "-o", "ipv6.tso_support:TRUE"),  # a length of 0 is segmentation offload's
    *("-d", "tcp.port==0-65535,data"),  # nothing above TCP is dissected
)

FIELDS = (
    "frame.time_epoch", "frame.interface_id", "frame.len", "frame.protocols", "_ws.short", "_ws.malformed",
    "ip.src", "ip.dst", "ip.dsfield.ecn", "ip.len", "ip.hdr_len", "ip.id", "ip.flags.mf", "ip.frag_offset", "ip.proto",
    "ipv6.src", "ipv6.dst", "ipv6.tclass.ecn", "ipv6.fraghdr.more", "ipv6.fraghdr.offset", "ipv6.fraghdr.nxt",
    "ipv6.fraghdr.ident", "ipv6.plen", "ah.length",
    "tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw", "tcp.flags", "tcp.window_size_value",
    "tcp.urgent_pointer", "tcp.hdr_len", "tcp.len", "tcp.options",
)  # fmt: skip

ERROR_BYTES_MAX = 1 << 16
"""Limit of each file that tshark writes, which is only its standard error."""
MESSAGE_BYTES_MAX = 4096
"""Limit of a message to or from the service."""
ANSWER_S = 30.0
"""Time in which the service must accept and start a run."""


@dataclass(frozen=True)
class Limits:
    """Limits of tshark: seconds of CPU and of the clock, bytes of address space, bytes of output."""

    cpu_s: int
    clock_s: float
    memory_bytes: int = 2 << 30
    output_bytes: int = 1 << 40

    @classmethod
    def for_size(cls, size_bytes: int) -> Limits:
        """Enough for a tenth of tshark's speed (1 to 2 MB/s), for a minute at least, and for a row for each record."""
        cpu_s = 60 + size_bytes // 100_000
        return cls(cpu_s=cpu_s, clock_s=3.0 * cpu_s, output_bytes=(1 << 20) + 64 * size_bytes)


@functools.cache
def version(path: str) -> str:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, env=_environment())
    found = re.match(r"TShark \(Wireshark\) (\d+(?:\.\d+)+)", said.stdout)
    if not found:
        raise DissectorFailed(f"{path} --version is not understood")
    return f"{PROGRAM} {found[1]}"


def _environment() -> dict[str, str]:
    """No variable of the caller. With a home that does not exist, tshark finds no profiles, plugins or external capture
    programs."""
    names = (
        "HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_CACHE_HOME",
        "XDG_RUNTIME_DIR",
        "TMPDIR",
        "WIRESHARK_EXTCAP_DIR",
    )
    return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", **dict.fromkeys(names, "/nonexistent")}


def _walls() -> str:
    return confined.POSSIBLE if os.environ.get("REWINDOW_ALLOW_UNCONFINED") == "1" else confined.ALL


def installed() -> str:
    """Its path. Raises DissectorMissing."""
    path = shutil.which(PROGRAM)
    if path is None:
        raise DissectorMissing(f"{PROGRAM} is needed to read it and is not installed")
    return path


def launch(limits: Limits, capture: int, output: int, errors: int) -> subprocess.Popen[bytes]:
    """Starts tshark with three open files: the capture, its rows, its messages. Raises DissectorMissing."""
    path = installed()
    command = [path, "-r", "-", *OPTIONS, "-T", "fields", "-E", "separator=/t", "-E", "occurrence=a",
               *(word for name in FIELDS for word in ("-e", name))]  # fmt: skip
    return subprocess.Popen(
        [*confined.command(_walls(), limits.cpu_s, limits.memory_bytes, ERROR_BYTES_MAX), *command],
        stdin=capture, stdout=output, stderr=errors, env=_environment(), cwd="/", start_new_session=True,
    )  # fmt: skip


class Run(Protocol):
    """tool: name and version. `kill` may be called by any thread, and more than once."""

    tool: str

    def kill(self) -> None: ...

    def wait(self) -> int:
        """Waits for the end; the exit status, or minus the number of a signal. Raises DissectorInterrupted, once."""


class Child:
    """A run as a child of this process."""

    def __init__(self, limits: Limits, capture: int, output: int, errors: int) -> None:
        self.tool = version(installed())
        self._process = launch(limits, capture, output, errors)

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        return self._process.wait()


class Served:
    """A run by the service. It ends when the connection does.

    Raises DissectorAway, DissectorMissing, DissectorFailed.
    """

    def __init__(self, address: str, limits: Limits, capture: int, output: int, errors: int) -> None:
        self._status: int | None = None
        self._killed = False
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.settimeout(ANSWER_S)
        try:
            self._connection.connect(address)
            asked = json.dumps(asdict(limits)).encode()
            socket.send_fds(self._connection, [asked], [capture, output, errors])
            answer = self._connection.recv(MESSAGE_BYTES_MAX)
        except OSError as e:
            self._connection.close()
            raise DissectorAway(f"{PROGRAM} is needed to read it and its service is away ({e.strerror or e})") from e
        if not answer:
            self._connection.close()
            raise DissectorAway(f"{PROGRAM} is needed to read it and its service has ended")
        said = json.loads(answer)
        if "tool" not in said:
            self._connection.close()
            raise (DissectorMissing if said["missing"] else DissectorFailed)(said["reason"])
        self._connection.settimeout(None)
        self.tool: str = said["tool"]

    def kill(self) -> None:
        self._killed = True
        # The service notices, and `wait` returns.
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the service, or this object, has closed it

    def wait(self) -> int:
        if self._status is None:
            try:
                answer = self._connection.recv(MESSAGE_BYTES_MAX)
            except ConnectionResetError:
                answer = b""
            self._connection.close()
            self._status = int(json.loads(answer)["status"]) if answer else -signal.SIGKILL
            if not answer and not self._killed:
                raise DissectorInterrupted(f"{PROGRAM} is needed to read it and its service ended meanwhile")
        return self._status


def start(limits: Limits, capture: int, output: int, errors: int) -> Run:
    """Raises DissectorMissing, DissectorAway, DissectorFailed, without the name of the capture."""
    address = os.environ.get("REWINDOW_TSHARK_SOCKET")
    if address:
        return Served(address, limits, capture, output, errors)
    return Child(limits, capture, output, errors)
