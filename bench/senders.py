"""What each data sender of a run ran, as its `result.json` tells it."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel import toolchain

_OF_LINUX = {"reno": "newreno", "cubic": "cubic", "bbr": "bbr"}
_PROTOTYPE = "bpf_"
"""Begins the names of the project's first loaded controllers, which are rw_NAME today."""
_MPTCP_PORT = "5001"
"""Of the receiver, in runs that were made by the project's first tools."""


@dataclass(frozen=True)
class Ran:
    """algorithm: the sender's in the registry, or Linux's name where that is not there; ours: it ran from our file."""

    algorithm: str
    ours: bool


def what_ran(folder: Path) -> dict[tuple[str, int], Ran]:
    """By address and port of each data sender; empty where the run does not tell.

    A run of the lab has the congestion control of each socket; a run of the project's first tools has that of the MPTCP
    sender and that of the TCP senders.
    """
    try:
        result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    except FileNotFoundError:
        return {}
    if "transfers" in result:
        controls = _of_sockets(result["transfers"])
    else:
        controls = _of_kinds(folder, result["params"]) if "params" in result else {}
    ours = {name: c.name for c in toolchain.controllers() for name in (c.kernel_name, f"rw_{c.name}")}
    found = {}
    for end, control in controls.items():
        algorithm = ours.get(control) or _OF_LINUX.get(control, control)
        found[end] = Ran(algorithm, control in ours)
    return found


def has_ecn(folder: Path) -> bool:
    """Whether the senders of a run asked for ECN."""
    described = folder / "scenario.toml"
    if described.exists():
        return "ecn = true" in described.read_text()
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return float(result["params"].get("ecn", 0)) > 0


def _of_sockets(transfers: list[dict[str, Any]]) -> dict[tuple[str, int], str]:
    found = {}
    for flow in (f for t in transfers for f in t["subflows"]):
        address, _, port = flow["local"].rpartition(":")
        found[address.strip("[]"), int(port)] = flow["congestion_control"]
    return found


def _of_kinds(folder: Path, params: dict[str, str]) -> dict[tuple[str, int], str]:
    mptcp, tcp = (params.get(name, "reno") for name in ("cc", "tcpcc"))
    if mptcp.startswith(_PROTOTYPE):
        mptcp = f"rw_{mptcp.removeprefix(_PROTOTYPE)}"
    with gzip.open(folder / "truth.csv.gz", "rt") as f:
        return {(r["src"], int(r["sport"])): mptcp if r["dport"] == _MPTCP_PORT else tcp for r in csv.DictReader(f)}
