"""Runs another program under limits and behind walls.

    python -I -S confined.py CALLER WALLS CPU_S MEMORY_BYTES FILE_BYTES PROGRAM ...

CALLER is the number of the process that starts it (`command` puts it there): the program ends with that process, and
does not begin when that process has ended already. FILE_BYTES bounds each file that the program writes. WALLS is one of

    network   a network without interfaces. Where the kernel does not permit one, the program runs without it, and a
              line on standard error begins with NOT_ISOLATED.
    all       the program can access only its standard input and output and the files of the system's libraries. It
              cannot start a process, open a socket, write a file or signal another process. Where the kernel cannot
              enforce this, the program is not run: a line on standard error begins with NOT_CONFINED, and the exit
              status is REFUSED.
    possible  as `all`, but the program runs even if a wall is missing; the line names that wall.

The walls of `all` are Landlock (landlock(7)) for files, seccomp(2) for system calls, no_new_privs, and another user
when the caller is root. These are required. Where the kernel permits them, namespaces of users, processes, IPC and
network stand behind them (docs/decisions/tshark.md).

It is a program of its own because code between fork and exec may deadlock in a process with threads. It imports only
the standard library, to start quickly.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import platform
import resource
import select
import signal
import struct
import sys
from collections.abc import Sequence

NOT_ISOLATED = "network not isolated"
NOT_CONFINED = "not confined"
REFUSED = 125
NETWORK, ALL, POSSIBLE = "network", "all", "possible"

_CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x08000000, 0x10000000, 0x20000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_CPU_GRACE_S = 2
_FILES_MAX = 64
_THREADS_MAX = 64
_NOBODYS_UID = 65533
"""A user and group that own no file and no process; `nobody` may own PostgreSQL's."""

_libc = ctypes.CDLL(None, use_errno=True)


def command(walls: str, cpu_s: int, memory_bytes: int, file_bytes: int) -> list[str]:
    """What starts a program, whose command follows, as a child of this process."""
    words = (os.getpid(), walls, cpu_s, memory_bytes, file_bytes)
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), *map(str, words)]


class NotConfined(Exception):
    """A required wall cannot be built; the text says which one, and why."""


def _checked(wall: str, result: int) -> int:
    if result < 0:
        raise NotConfined(f"{wall}: {os.strerror(ctypes.get_errno())}")
    return result


# Namespaces


def _unshare(namespaces: int) -> bool:
    """Moves into new namespaces: with the privilege of root, or else as an ordinary user."""
    return any(_libc.unshare(flags) == 0 for flags in (namespaces, _CLONE_NEWUSER | namespaces))


# Landlock: which files can be opened

_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
"""System calls, of the same number on every architecture."""
_LANDLOCK_VERSION, _LANDLOCK_PATH_BENEATH = 1, 1
_EXECUTE, _READ_FILE, _READ_DIR, _WRITE_FILE = 1 << 0, 1 << 2, 1 << 3, 1 << 1
_FILE_RIGHTS = ((1, 0x1FFF), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
"""Rights over files, and the version of Landlock that they came with; all are withdrawn."""
_NETWORK_RIGHTS, _SCOPES = (4, 0b11), (6, 0b11)
"""To bind and connect TCP; to reach abstract sockets, and to signal processes, that are not confined alike."""

_LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/share", "/usr/local/lib",
              "/usr/local/share", "/etc/wireshark", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom")  # fmt: skip
_LOADERS = ("/lib*/ld-linux*.so.*", "/lib/ld-musl-*.so.*")


def _readable(program: str) -> dict[str, int]:
    """Paths below which the program may read, and its rights there."""
    read = _READ_FILE | _READ_DIR
    paths = dict.fromkeys(_LIBRARIES, read)
    folder, name = os.path.split(os.path.realpath(program))
    if os.path.basename(folder) == "bin":
        paths |= {os.path.join(os.path.dirname(folder), part): read for part in ("lib", "lib64", "share")}
    paths[os.path.join(folder, name)] = _READ_FILE | _EXECUTE
    paths |= {loader: _READ_FILE | _EXECUTE for pattern in _LOADERS for loader in glob.glob(pattern)}
    paths["/dev/null"] = _READ_FILE | _WRITE_FILE
    return paths


def _withdraw_files(program: str) -> None:
    """Raises NotConfined."""
    version = _checked("Landlock", _libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION))
    rights = sum(bits for since, bits in _FILE_RIGHTS if version >= since)
    network, scopes = (bits if version >= since else 0 for since, bits in (_NETWORK_RIGHTS, _SCOPES))
    attributes = struct.pack("=QQQ", rights, network, scopes)
    rules = _checked("Landlock", _libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0))
    for path, allowed in _readable(program).items():
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        if not os.path.isdir(path):
            allowed &= ~_READ_DIR
        rule = struct.pack("=Qi", allowed, handle)
        _checked("Landlock", _libc.syscall(_LANDLOCK_ADD_RULE, rules, _LANDLOCK_PATH_BENEATH, rule, 0))
        os.close(handle)
    _checked("Landlock", _libc.syscall(_LANDLOCK_RESTRICT_SELF, rules, 0))
    os.close(rules)


# seccomp: which system calls can be made

_CALLS = """
    brk mmap mprotect munmap mremap madvise membarrier
    read readv pread64 preadv write writev lseek close close_range dup dup2 dup3 pipe pipe2 eventfd2 fadvise64
    stat lstat fstat newfstatat statx access faccessat faccessat2 readlink readlinkat
    getdents getdents64 getcwd statfs fstatfs poll ppoll select pselect6
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack pause
    clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getrusage restart_syscall
    futex set_robust_list rseq set_tid_address sched_yield sched_getaffinity getcpu arch_prctl exit exit_group execve
    getpid getppid gettid getuid geteuid getgid getegid getresuid getresgid getgroups uname sysinfo getrlimit getrandom
    setresuid setresgid
"""
"""System calls of a program that reads, computes and writes. Landlock restricts the files of `open` and `execve`. A
user without capabilities can set only the ids that it already has."""

_EQUAL, _MASKED_EQUAL = 4, 7
"""Comparisons of libseccomp: with a value; of masked bits with a value."""
_CLONE_THREAD, _CLONE_NEW_ANY = 0x00010000, 0x7E020080
_TCGETS = 0x5401
_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA = 15, 16, 0x53564D41
_F_DUPFD_CLOEXEC = 1030

_Comparison = tuple[int, int, int, int]
"""Argument, comparison, mask or value, value."""


def _partly_allowed(pid: int) -> list[tuple[str, list[_Comparison]]]:
    """System calls that are allowed with certain arguments only."""

    def one_of(call: str, argument: int, values: Sequence[int]) -> list[tuple[str, list[_Comparison]]]:
        return [(call, [(argument, _EQUAL, value, 0)]) for value in values]

    return [
        # Landlock refuses O_TRUNC since its version 3; before, a file that may only be read could be emptied.
        ("open", [(1, _MASKED_EQUAL, os.O_TRUNC, 0)]),
        ("openat", [(2, _MASKED_EQUAL, os.O_TRUNC, 0)]),
        ("clone", [(0, _MASKED_EQUAL, _CLONE_THREAD | _CLONE_NEW_ANY, _CLONE_THREAD)]),  # threads, no processes
        *one_of("kill", 0, [pid]),
        *one_of("tgkill", 0, [pid]),
        *one_of("prlimit64", 0, [0, pid]),
        *one_of("ioctl", 1, [_TCGETS]),
        # Not F_SETOWN: the process that it names gets signals.
        *one_of("fcntl", 1, [0, 1, 2, 3, 4, _F_DUPFD_CLOEXEC]),
        *one_of("prctl", 0, [_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA]),
    ]


class _Argument(ctypes.Structure):
    """struct scmp_arg_cmp (seccomp_rule_add(3))."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("comparison", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


_ALLOW, _FAIL = 0x7FFF0000, 0x00050000


def _withdraw_calls() -> None:
    """All other system calls fail with ENOSYS, so that libraries take the way of an older kernel.

    Raises NotConfined.
    """
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError as e:
        raise NotConfined(f"seccomp: {e}") from e
    library.seccomp_init.restype = ctypes.c_void_p
    for function in (library.seccomp_rule_add_array, library.seccomp_load):
        function.argtypes = [ctypes.c_void_p]  # the other arguments are ints and a pointer
    context = library.seccomp_init(ctypes.c_uint32(_FAIL | errno.ENOSYS))
    if not context:
        raise NotConfined(f"seccomp: libseccomp knows no system calls of {platform.machine()}")
    whole: list[tuple[str, list[_Comparison]]] = [(name, []) for name in _CALLS.split()]
    for name, comparisons in [*whole, *_partly_allowed(os.getpid())]:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            continue  # this architecture has no such call
        arguments = (_Argument * len(comparisons))(*(_Argument(*c) for c in comparisons))
        if status := library.seccomp_rule_add_array(
            context, ctypes.c_uint32(_ALLOW), number, len(comparisons), arguments
        ):
            raise NotConfined(f"seccomp: {name}: {os.strerror(-status)}")
    if status := library.seccomp_load(context):
        raise NotConfined(f"seccomp: {os.strerror(-status)}")


# The program


def _limit(cpu_s: int, memory_bytes: int, file_bytes: int) -> None:
    for limit, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, file_bytes, file_bytes),
        (resource.RLIMIT_NOFILE, _FILES_MAX, _FILES_MAX),
        (resource.RLIMIT_CPU, cpu_s, cpu_s + _CPU_GRACE_S),  # first a signal that tells why, then the end
        (resource.RLIMIT_AS, memory_bytes, memory_bytes),
    ):
        resource.setrlimit(limit, (soft, hard))


def _become_nobody() -> None:
    """Raises NotConfined."""
    try:
        os.setgroups([])
        os.setresgid(_NOBODYS_UID, _NOBODYS_UID, _NOBODYS_UID)
        os.setresuid(_NOBODYS_UID, _NOBODYS_UID, _NOBODYS_UID)
    except OSError as e:
        raise NotConfined(f"another user: {e.strerror}") from e


def _end_with(parent: int) -> None:
    """The kernel kills this process when its parent ends; if that has happened already, it ends now."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # Whoever is a parent outside of this process's namespace has the number 0. Where the parent has ended, another
    # process has taken its place.
    if os.getppid() not in (parent, 0):
        os._exit(REFUSED)


def _run_walled(parent: int, ends: int, walls: str, limits: Sequence[int], command: list[str]) -> None:
    """Becomes the program, behind all walls, or ends. ends: a pipe that ends when the parent does."""
    missing = []

    def build(wall: str) -> None:
        try:
            {"user": _become_nobody, "files": lambda: _withdraw_files(command[0]), "calls": _withdraw_calls}[wall]()
        except NotConfined as e:
            missing.append(str(e))

    os.closerange(3, ends)
    os.closerange(ends + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    was_root = os.geteuid() == 0
    if was_root:
        build("user")
    # The kernel counts the threads of a user, separately in each user namespace. Without a namespace the user's other
    # processes would count too, so that no limit would be the program's own.
    if _libc.unshare(_CLONE_NEWUSER) == 0 or was_root:
        resource.setrlimit(resource.RLIMIT_NPROC, (_THREADS_MAX, _THREADS_MAX))
    _end_with(parent)  # after the change of the user, which clears the signal that the kernel is to send
    # Seen from a namespace, a parent that has ended has the number 0 as before.
    if select.select([ends], [], [], 0)[0]:
        os._exit(REFUSED)
    os.close(ends)
    build("files")
    build("calls")
    if missing:
        print(f"{NOT_CONFINED}: {'; '.join(missing)}", file=sys.stderr, flush=True)
        if walls == ALL:
            os._exit(REFUSED)
    _limit(*limits)
    try:
        os.execv(command[0], command)
    except OSError as e:
        print(f"{command[0]}: {e.strerror}", file=sys.stderr, flush=True)
        os._exit(126)


def _reap(walls: str, limits: Sequence[int], command: list[str]) -> None:
    """Runs the program and ends as it ends: with its exit status, or by its signal.

    The program is not the first process of its namespace: the kernel keeps signals from that one, SIGXCPU among them.
    The first process ends when this one does, and with it all that is left in the namespace.
    """
    waits, held = os.pipe()
    if _unshare(_CLONE_NEWPID | _CLONE_NEWNET | _CLONE_NEWIPC) and os.fork() == 0:
        os.close(held)
        os.closerange(0, waits)
        os.read(waits, 1)
        os._exit(0)
    ends, kept = os.pipe()  # a second one, which the first process does not hold open
    reaper, program = os.getpid(), os.fork()
    if program == 0:
        os.close(kept)
        _run_walled(reaper, ends, walls, limits, command)
    _, status = os.waitpid(program, 0)
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL, SIGSTOP and glibc's own have no other action
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def main(arguments: list[str]) -> None:
    caller, walls, limits, program = arguments[0], arguments[1], [int(a) for a in arguments[2:5]], arguments[5:]
    _end_with(int(caller))
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if walls != NETWORK:
        _reap(walls, limits, program)
    if not _unshare(_CLONE_NEWNET):
        print(f"{NOT_ISOLATED}: {os.strerror(ctypes.get_errno())}", file=sys.stderr, flush=True)
    _limit(*limits)
    os.execv(program[0], program)


if __name__ == "__main__":
    main(sys.argv[1:])
