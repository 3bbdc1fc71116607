"""What a program in tshark's place can reach: nothing, or else it does not run."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deploy.run import wait_for
from rewindow import confined
from rewindow.captures import tshark
from rewindow.captures.dissector import dissect
from rewindow.errors import DissectorAway, DissectorInterrupted

REWINDOW = Path(sys.executable).parent / "rewindow"
SECRET = "postgresql://app:a-password-that-nobody-should-read"
NETWORK_MONITOR = b"GMBU" + bytes(12)
"""The beginning of a file that tshark is asked for."""
NEEDS_A_NAMESPACE = {"threads"} if os.geteuid() else set()
"""Outside of a user namespace the threads of an ordinary user are not counted apart."""

REFUSE = """
import ctypes, errno, os, sys
library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_init.restype = ctypes.c_void_p
library.seccomp_rule_add_array.argtypes = library.seccomp_load.argtypes = [ctypes.c_void_p]
context = library.seccomp_init(ctypes.c_uint32(0x7FFF0000))
for name in sys.argv[1].split(","):
    call = library.seccomp_syscall_resolve_name(name.encode())
    assert library.seccomp_rule_add_array(context, ctypes.c_uint32(0x50000 | errno.EPERM), call, 0, None) == 0
assert library.seccomp_load(context) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Runs a program for which certain system calls fail, as in a container or with an older kernel."""


def refusing(*calls: str) -> list[str]:
    return [sys.executable, "-c", REFUSE, ",".join(calls)] if calls else []


class Prey:
    """What the hostile program is after: a folder with files, sockets that listen, and an environment."""

    def __init__(self, folder: Path) -> None:
        self.programs, self.guarded = folder / "programs", folder / "guarded"
        for each in (self.programs, self.guarded):
            each.mkdir()
            each.chmod(0o777)  # what keeps the program out is not the mode
        self.object = self.guarded / "object"
        self.object.write_text(SECRET)
        self.object.chmod(0o666)
        self.capture = folder / "capture.cap"
        self.capture.write_bytes(NETWORK_MONITOR)
        self._tcp = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._unix = socket.socket(socket.AF_UNIX)
        self._unix.bind(str(self.guarded / "socket"))
        self._unix.listen(100)
        (self.guarded / "socket").chmod(0o777)
        self.tshark = self.programs / "tshark"
        words = {"SECRET": f'"{SECRET}"', "GUARDED": f'"{self.guarded}"', "PORT": self._tcp.getsockname()[1]}
        subprocess.run(
            ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", *(f"-D{k}={v}" for k, v in words.items()),
             str(Path(__file__).parent / "hostile_tshark.c"), "-o", str(self.tshark)], check=True,
        )  # fmt: skip
        self.tshark.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k != "REWINDOW_ALLOW_UNCONFINED"}
        return kept | {"PATH": f"{self.programs}:{os.environ['PATH']}", "REWINDOW_DATABASE_URL": SECRET}

    def touched(self) -> bool:
        """Whether the folder is other than it was."""
        names = sorted(path.name for path in self.guarded.iterdir())
        return names != ["object", "socket"] or self.object.read_text() != SECRET

    def close(self) -> None:
        self._tcp.close()
        self._unix.close()


@pytest.fixture
def prey(everybodys_folder: Path) -> Iterator[Prey]:
    made = Prey(everybodys_folder)
    yield made
    made.close()


def analyze(prey: Prey, *before: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, str(REWINDOW), "analyze", str(prey.capture)], env=prey.environment | environment,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def succeeded(said: str) -> set[str]:
    """The attempts that the hostile program reports in rewindow's message, one line of which has them all."""
    found = re.search(r"tshark: (.*?) ?tried(.*)", said)
    assert found, said
    return {*found[1].split(), *found[2].split()}


def test_unconfined_the_attempts_succeed(prey: Prey) -> None:
    """They are real: what fails below fails because of the walls."""
    with prey.capture.open("r+b") as capture, prey.object.open() as inherited:
        done = subprocess.run(
            [prey.tshark], stdin=capture, stderr=subprocess.PIPE, text=True, check=False, cwd=prey.guarded,
            env=prey.environment, pass_fds=[inherited.fileno()],
        )  # fmt: skip
        descriptor = f"descriptor-{inherited.fileno()}"
    attempts = set(done.stderr.splitlines())
    assert {
        "environment", "read", "read-/etc/passwd", "list", "overwrite", "create", "create-in-/tmp", "create-here",
        "mkdir", "symlink", "mkfifo", "rename", "chmod", "set-times", "truncate",
        "truncate-on-opening", "reach-the-kernel-with-O_TRUNC", "openat2", "write-to-the-capture", descriptor,
        "connect-TCP", "connect-Unix", "socketpair", "signal-the-parent", "signal-all", "signal-the-group",
        "signal-a-thread", "signal-any-thread", "have-a-signal-sent", "limit-the-parent", "fork", "vfork", "ptrace",
        "process_vm_readv", "mount", "unshare", "threads", "tried", "execute",
    } <= attempts  # fmt: skip
    assert prey.touched()


@pytest.mark.parametrize("refused", [(), ("unshare",)], ids=["all walls", "without namespaces"])
def test_confined_none_succeeds(prey: Prey, refused: Sequence[str]) -> None:
    done = analyze(prey, *refusing(*refused))
    assert done.returncode == 3, done.stderr
    assert succeeded(done.stderr) - (NEEDS_A_NAMESPACE if refused else set()) == set()
    assert not prey.touched()


@pytest.mark.parametrize(
    ("call", "reason"),
    [("landlock_create_ruleset", "Landlock: "), ("seccomp,prctl", "seccomp: ")],
)
def test_where_nothing_confines(prey: Prey, call: str, reason: str) -> None:
    """tshark does not run, unless that is allowed; then the result says so."""
    done = analyze(prey, *refusing(*call.split(",")))
    assert done.returncode == 4
    assert f"tshark is needed to read it and cannot be confined on this system ({reason}" in done.stderr
    assert "tried" not in done.stderr
    prey.capture.write_bytes(b"only text")
    done = analyze(prey, *refusing(*call.split(",")))
    assert done.returncode == 3
    assert (
        "neither pcap nor pcapng nor snoop; tshark, which knows more, cannot be confined on this system" in done.stderr
    )
    prey.capture.write_bytes(NETWORK_MONITOR)
    allowed = analyze(prey, *refusing(*call.split(",")), REWINDOW_ALLOW_UNCONFINED="1")
    assert {"read", "fork"} & succeeded(allowed.stderr)


def launcher(walls: str) -> list[str]:
    return confined.command(walls, cpu_s=5, memory_bytes=1 << 30, file_bytes=65536)


@pytest.fixture
def waiting() -> Iterator[subprocess.Popen[bytes]]:
    """A confined program that reads lines and writes them, and has begun."""
    with subprocess.Popen([*launcher(confined.ALL), "/bin/cat"], stdin=-1, stdout=-1) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"line\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"line\n"
        yield process
        process.kill()


def test_it_ends_as_the_program_ends() -> None:
    for walls in (confined.NETWORK, confined.ALL):
        for program, status in (("/bin/true", 0), ("/bin/false", 1)):
            assert subprocess.run([*launcher(walls), program], check=False).returncode == status
    done = subprocess.run([*launcher(confined.ALL), "/bin/missing"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (126, "/bin/missing: No such file or directory\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGXCPU, 33])
def test_it_ends_by_the_programs_signal(number: int) -> None:
    """Also by one whose action nobody can set, as when memory is short: SIGKILL, and 33, which glibc keeps."""
    shell = [*launcher(confined.ALL), "/bin/sh", "-c", f"kill -{int(number)} $$"]
    done = subprocess.run(shell, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-number, "")


def test_it_ends_with_its_caller(waiting: subprocess.Popen[bytes]) -> None:
    """Nothing is left behind: the pipe ends when the last process that holds it is gone."""
    assert waiting.stdout
    waiting.kill()
    assert waiting.stdout.read() == b""


ORPHAN = """
import os, signal, sys
from rewindow import confined
command = confined.command(sys.argv[1], cpu_s=5, memory_bytes=1 << 30, file_bytes=65536)
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
    os.execv(command[0], [*command, "/bin/echo", "begun"])
os.waitpid(child, os.WUNTRACED)
print(child, file=sys.stderr)
"""
"""Starts a program and ends before the program has begun; its number is written to standard error."""


@pytest.mark.parametrize("walls", [confined.NETWORK, confined.ALL])
def test_it_does_not_begin_when_its_caller_has_ended(walls: str) -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHAN, walls], stdout=-1, stderr=-1) as caller:
        assert caller.stdout
        assert caller.stderr
        child = int(caller.stderr.readline())
        caller.wait()
        os.kill(child, signal.SIGCONT)
        assert caller.stdout.read() == b""


HELD = """
import os, signal, sys
from rewindow import confined
closerange = os.closerange
def held(first, end):
    if first == 0:  # the first act of the namespace's first process, which cannot be stopped
        signal.pause()
    if first == 3:  # the first act of the process that becomes the program
        os.kill(os.getpid(), signal.SIGSTOP)
    closerange(first, end)
os.closerange = held
confined.main([str(os.getppid()), confined.ALL, "5", str(1 << 30), "65536", "/bin/echo", "begun"])
"""


def state_of(process: int) -> str:
    """As in proc(5); empty: there is no such process."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return ""


@pytest.mark.parametrize("refused", [(), ("unshare",)], ids=["all walls", "without namespaces"])
def test_the_program_does_not_begin_when_what_waits_for_it_has_ended(refused: Sequence[str]) -> None:
    """Also where the namespace is still there, because its first process has not noticed."""
    with subprocess.Popen([*refusing(*refused), sys.executable, "-c", HELD], stdout=-1) as reaper:
        assert reaper.stdout

        def children() -> list[int]:
            return list(map(int, Path(f"/proc/{reaper.pid}/task/{reaper.pid}/children").read_text().split()))

        wait_for("the program's process", lambda: "T" in map(state_of, children()), [reaper])
        *first, program = children()
        reaper.kill()
        reaper.wait()
        os.kill(program, signal.SIGCONT)
        wait_for("the program's end", lambda: state_of(program) in ("", "Z"))
        for process in first:
            os.kill(process, signal.SIGKILL)
        assert reaper.stdout.read() == b""


def may_have_namespaces() -> bool:
    return any(
        subprocess.run(["unshare", *flags, "-p", "-i", "-n", "true"], capture_output=True, check=False).returncode == 0
        for flags in ([], ["-r"])
    )


def test_namespaces(waiting: subprocess.Popen[bytes]) -> None:
    """Where the kernel permits them, the program has processes, IPC and a network of its own."""
    permitted = may_have_namespaces()
    children = Path(f"/proc/{waiting.pid}/task/{waiting.pid}/children").read_text().split()
    (program,) = (pid for pid in children if Path(f"/proc/{pid}/comm").read_text() == "cat\n")
    for kind in ("pid", "ipc", "net"):
        own = os.readlink(f"/proc/{program}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
        assert own == permitted, kind


class Service:
    """tshark's service, with this folder's programs."""

    def __init__(self, folder: Path, *before: str, **environment: str) -> None:
        self.socket = folder / "tshark.socket"
        self.socket.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", "rewindow.captures.tshark_service", str(self.socket)],
            env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"} | environment,
        )
        wait_for("tshark's service", self.answers, [self.process])

    def answers(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            return client.connect_ex(str(self.socket)) == 0

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def service(prey: Prey) -> Iterator[Service]:
    started = Service(prey.programs)
    yield started
    started.stop()


def test_by_the_service(prey: Prey, service: Service) -> None:
    """As without it; and it outlives its clients."""
    for _ in range(2):
        done = analyze(prey, PATH=os.defpath, REWINDOW_TSHARK_SOCKET=str(service.socket))
        assert done.returncode == 3, done.stderr
        assert succeeded(done.stderr) == set()
    assert not prey.touched()


def test_the_service_decodes_as_a_child_does(prey: Prey, service: Service) -> None:
    prey.tshark.unlink()
    relay = b"\x18\x41\x03\xcc"  # Frame Relay with IP, where the core reads raw IP
    plain = (Path(__file__).parent.parent / "captures" / "mptcp-ecn.pcap").read_bytes()
    head, records, at = bytearray(plain[:24]), [], 24
    while len(records) < 300:
        seconds, fraction, captured, wire = struct.unpack_from("<IIII", plain, at)
        data = relay + plain[at + 16 : at + 16 + captured]
        records.append(struct.pack("<IIII", seconds, fraction, captured + 4, wire + 4) + data)
        at += 16 + captured
    head[20:24] = struct.pack("<I", 107)
    prey.capture.write_bytes(bytes(head) + b"".join(records))
    alone, served = analyze(prey), analyze(prey, REWINDOW_TSHARK_SOCKET=str(service.socket))
    assert alone.returncode == served.returncode == 0
    assert served.stdout == alone.stdout
    assert "link_type_107 decoded by tshark" in served.stdout


ENDLESS = """
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words)
{
	(void)words;
	fputs(count == 2 ? "TShark (Wireshark) 4.0.17\\n" : "begun", stdout);
	fputs(count == 2 ? "" : "begun", stderr);
	fflush(stdout);
	return count == 2 ? 0 : pause();
}
"""


@pytest.mark.parametrize("whose", ["client", "service"])
def test_a_run_ends_with_its(whose: str, prey: Prey, service: Service) -> None:
    subprocess.run(["cc", "-xc", "-", "-o", prey.tshark], input=ENDLESS, text=True, check=True)
    rows, output = os.pipe()
    with open(rows) as printed, open(os.devnull, "r+b") as null:
        limits = tshark.Limits(cpu_s=5, clock_s=60)
        run = tshark.Served(str(service.socket), limits, null.fileno(), output, null.fileno())
        os.close(output)
        assert (run.tool, printed.read(5)) == ("tshark 4.0.17", "begun")
        run.kill() if whose == "client" else service.stop()
        assert printed.read() == ""  # its end of the pipe is closed
        if whose == "service":
            with pytest.raises(DissectorInterrupted):
                run.wait()
        assert run.wait() == -signal.SIGKILL
        run.kill()


def test_a_service_that_ends_meanwhile_is_no_fault_of_the_capture(
    prey: Prey, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["cc", "-xc", "-", "-o", prey.tshark], input=ENDLESS, text=True, check=True)
    start = tshark.start

    def started(limits: tshark.Limits, capture: int, output: int, errors: int) -> tshark.Run:
        run = start(limits, capture, output, errors)
        wait_for("tshark to run", lambda: os.fstat(errors).st_size > 0)
        service.stop()
        return run

    monkeypatch.setattr(tshark, "start", started)
    monkeypatch.setenv("REWINDOW_TSHARK_SOCKET", str(service.socket))
    with prey.capture.open("rb") as capture, pytest.raises(DissectorInterrupted, match=r"x.cap: .* meanwhile"):
        dissect(capture, "x.cap", every_record=True)


def test_a_service_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tshark, "ANSWER_S", 0.1)
    address = str(tmp_path / "silent")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent, open(os.devnull, "r+b") as null:
        silent.bind(address)
        silent.listen()
        with pytest.raises(DissectorAway, match=r"its service is away .timed out"):
            tshark.Served(address, tshark.Limits(cpu_s=5, clock_s=60), *[null.fileno()] * 3)


def test_the_service_keeps_no_files_of_a_request_that_is_none(service: Service) -> None:
    files = Path(f"/proc/{service.process.pid}/fd")
    with open(os.devnull) as null:
        for count in (1, 2):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.connect(str(service.socket))
                socket.send_fds(client, [b"{}"], [null.fileno()] * count)
                assert client.recv(1) == b""
    assert os.devnull not in [os.readlink(file) for file in files.iterdir() if int(file.name) > 2]


def test_without_its_service(prey: Prey, service: Service) -> None:
    """An error of its own, which may pass. A service that has no tshark, or cannot confine it, says so."""
    service.stop()
    for before, environment, said, said_of_text in (
        ([], {"PATH": "/nonexistent"}, "tshark is needed to read it and is not installed", "is not installed"),
        (
            refusing("landlock_create_ruleset"),
            {},
            "cannot be confined on this system (Landlock: ",
            "cannot be confined",
        ),
    ):
        other = Service(prey.programs, *before, **environment)
        for content, status, expected in (
            (NETWORK_MONITOR, 4, said),
            (b"only text", 3, f"neither pcap nor pcapng nor snoop; tshark, which knows more, {said_of_text}"),
        ):
            prey.capture.write_bytes(content)
            done = analyze(prey, REWINDOW_TSHARK_SOCKET=str(other.socket))
            assert done.returncode == status
            assert expected in done.stderr
        other.stop()
    done = analyze(prey, REWINDOW_TSHARK_SOCKET=str(service.socket))
    assert done.returncode == 4
    assert "tshark is needed to read it and its service is away (Connection refused)" in done.stderr
