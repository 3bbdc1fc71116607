"""CPU time of what-ifs: `make bench-whatifs`.

Asks `rewindow whatif` for two algorithms: of the recorded sample, and of a simulated capture of 60 seconds at 100
Mbit/s. Prints Markdown. An answer uses two cores: where nothing else runs, it takes little more than half of its CPU
time.
"""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
from pathlib import Path

from bench.speed import REWINDOW, machine, table
from deploy.run import SAMPLE

ALGORITHMS = ("tccc", "newreno")
LIMITS_S = {"recorded sample": 30, "60 s at 100 Mbit/s": 300}
"""How long an answer may take."""
FAST = """
name = "fast"
seconds = 60
[hosts.client]
interfaces.a = { address = "10.0.1.1", mtu = 1500 }
[hosts.server]
interfaces.a = { address = "10.0.1.2", mtu = 1500 }
[links.line]
rate = "100M"
delay = "20ms"
limit = 400
[[paths]]
name = "one"
from = "client.a"
to = "server.a"
links = ["line"]
[[transfers]]
name = "client"
protocol = "tcp"
from = "client"
to = "server"
congestion_control = "cubic"
"""


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(capture: Path) -> tuple[int, int, float]:
    """Answers, those that say something, and the CPU seconds that they took."""
    words = [word for name in ALGORITHMS for word in ("--algorithm", name)]
    before = cpu_s()
    told = subprocess.run([REWINDOW, "whatif", capture, *words, "--json"], stdout=subprocess.PIPE, check=False)
    found = json.loads(told.stdout)["connections"]
    return len(found), sum(c["verdict"] == "ok" for c in found), cpu_s() - before


def main() -> None:
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        scenario, fast = Path(folder) / "fast.toml", Path(folder) / "fast.pcapng"
        scenario.write_text(FAST)
        subprocess.run([REWINDOW, "simulate", scenario, "--pcapng", fast], stdout=subprocess.DEVNULL, check=True)
        rows = []
        for (name, limit_s), capture in zip(LIMITS_S.items(), (SAMPLE, fast), strict=True):
            answers, said, seconds = measured(capture)
            rows.append([name, f"{answers}", f"{said}", f"{seconds:.0f} s", f"{limit_s} s"])
    print("\n".join(table(["capture", "answers", "of them not refused", "CPU time", "goal for the answer"], rows, 1)))


if __name__ == "__main__":
    main()
