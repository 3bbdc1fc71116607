"""Verdicts about captures, as text. Takes them as `analyze --json` and the service give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def quality_text(quality: Mapping[str, Any], connections: Mapping[str, Mapping[str, Any]] | None) -> str:
    """The capture's verdict with a line for each finding, then the shares of its connections' verdicts.

    connections: how many `connections` have each verdict, with how many `bytes`; None: not known.
    """
    lines = [f"quality: {quality['verdict']}"]
    for f in quality["findings"]:
        since = "" if f["since_s"] is None else f", from {f['since_s']:.3f} s"
        file = f" of file {f['file'] + 1}" if f.get("file") else ""
        place = "" if f["packet"] is None else f" (packet {f['packet']}{file})"
        wrong = f"; unreliable: {', '.join(f['unreliable'])}" if f["unreliable"] else ""
        lines.append(f"  {f['what']} x {f['count']}{since}{place}: {f['meaning']}{wrong}")
    found = {verdict: c for verdict, c in byte_shares(connections or {}).items() if c["connections"]}
    shown = [
        f"{c['connections']} {verdict}" + (f" ({c['byte_share']:.1%} of bytes)" if c["byte_share"] is not None else "")
        for verdict, c in found.items()
    ]
    return "\n".join([*lines, *([f"connections: {', '.join(shown)}"] if shown else [])])


def byte_shares(connections: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same counts with `byte_share`, 0 to 1: the part of all connections' bytes; None where they have none."""
    total = sum(c["bytes"] for c in connections.values())
    return {v: {**c, "byte_share": c["bytes"] / total if total else None} for v, c in connections.items()}
