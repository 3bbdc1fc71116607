"""The names of simulated senders: `python -m bench.simulated_names`. Not validated against a kernel.

The simulator runs networks of the lab's suite, with BBR of version 1 or 3 as the client's congestion control. `analyze`
names the senders from the capture. Prints Markdown: a confusion matrix for what `analyze` replays by default, and one
for `--algorithms bbr3`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import rewindow
from bench.documents import put
from bench.names import Named, matrix
from bench.senders import Ran
from lab.suite import NETWORKS, Network, text_of
from rewindow import Choice
from rewindow.scenarios import parse
from rewindow.simulator import simulate

VERSIONS = ("bbr", "bbr3")
RIVALS = {"cubic": "cubic", "bbr": "bbr"}
"""Of the networks, else NewReno."""


def networks() -> list[Network]:
    return [n for n in NETWORKS if n.name.startswith(("bbr-", "shared-", "disjoint-"))]


def capture(network: Network, algorithm: str, path: Path) -> dict[str, str]:
    """Writes the capture of a simulated run; returns what each sender ran, by its address."""
    scenario = parse(text_of(network), network.name)
    chosen = {"client": Choice(algorithm), "rival": Choice(RIVALS.get(network.rival, "newreno"))}
    algorithms = {t.name: chosen[t.name] for t in scenario.transfers}
    with path.open("wb", 0) as file:
        simulate(scenario, network.seed, algorithms, capture=file.fileno())
    return {str(p.start.address): chosen[t.name].name for t in scenario.transfers for p in t.paths}


def named(path: Path, ran: dict[str, str], asked: tuple[str, ...]) -> Iterator[tuple[Ran, Named]]:
    with rewindow.open(str(path)) as source:
        for connection in source.replay(asked).connections:
            for s in connection.subflows:
                told = s.sender_algorithm
                losses = s.fast_retransmits + s.timeouts
                yield Ran(ran[s.src], True), Named(told.name, told.candidates, losses, s.verdict == "good")


def report() -> str:
    found: dict[tuple[str, ...], list[tuple[Ran, Named]]] = {(): [], ("bbr3",): []}
    with tempfile.TemporaryDirectory(prefix="rewindow-") as folder:
        path = Path(folder) / "run.pcapng"
        for network in networks():
            for algorithm in VERSIONS:
                ran = capture(network, algorithm, path)
                for asked, pairs in found.items():
                    pairs += named(path, ran, asked)
    return "\n\n".join(
        "\n".join(matrix("`" + " ".join(["analyze", *(f"--algorithms {name}" for name in asked)]) + "`", pairs))
        for asked, pairs in found.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.simulated_names", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--write", action="store_true", help="put the tables into docs/validation.md")
    text = report()
    print(text)
    if parser.parse_args().write:
        put("validation.md", "simulated names", text)


if __name__ == "__main__":
    main()
