"""Runs a program and reports its times and peak memory, as JSON, to a descriptor: `measured.py FD PROGRAM ARGUMENT...`.

A process of its own, because Linux counts into a program's ru_maxrss the peak memory of the process that started it
(a vfork lends it that memory until the program is loaded). `own_peak_rss_bytes` is therefore the least that
`peak_rss_bytes` can be, and this program loads little.
"""

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    report, command = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(report, False)
    began = time.monotonic()
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    ended = time.monotonic()
    own = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    found = {
        "began_s": began,
        "ended_s": ended,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_rss_bytes": usage.ru_maxrss * 1024,
        "own_peak_rss_bytes": int(own.split()[1]) * 1024,
        "exit_status": os.waitstatus_to_exitcode(status),
    }
    os.write(report, json.dumps(found).encode())


if __name__ == "__main__":
    main()
