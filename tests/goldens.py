"""Each controller's windows on a capture, small enough to be read in a review: `make golden` writes them.

For each subflow the rows where its phase changes and every hundredth, and a digest of all of its rows.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import rewindow
from rewindow import Result

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
CAPTURES = ["mptcp-two-subflows", "mptcp-ecn"]
"""Losses and timeouts; ECN marks without a loss."""
EVERY = 100
COLUMNS = ("phase", "cwnd_before", "cwnd", "ssthresh")


def path_of(capture: str, algorithm: str) -> Path:
    return GOLDEN / f"{capture}.{algorithm}.csv"


@cache
def replayed(capture: str) -> Result:
    with rewindow.open(HERE / "captures" / f"{capture}.pcap") as opened:
        return opened.replay([a.name for a in rewindow.algorithms()])


def text_of(capture: str, algorithm: str) -> str:
    table = replayed(capture).acks
    columns = [table[name].to_pylist() for name in ("connection", "subflow")]
    columns += [table[f"{algorithm}.{name}"].to_pylist() for name in COLUMNS]
    subflows: dict[tuple[int, int], list[tuple[object, ...]]] = {}
    for connection, subflow, *values in zip(*columns, strict=True):
        subflows.setdefault((connection, subflow), []).append(tuple(values))
    lines = ["connection,subflow,row," + ",".join(COLUMNS)]
    for (connection, subflow), rows in sorted(subflows.items()):
        digest = hashlib.sha256()
        for i, row in enumerate(rows):
            digest.update(repr(row).encode())
            line = ",".join(f"{v:.10g}" if isinstance(v, float) else str(v) for v in row)
            if i % EVERY == 0 or row[0] != rows[i - 1][0]:
                lines.append(f"{connection},{subflow},{i},{line}")
        lines.append(f"# connection {connection}, subflow {subflow}: {len(rows)} rows, sha256 {digest.hexdigest()}")
    return "\n".join(lines) + "\n"


def there() -> set[Path]:
    """The existing files of controllers."""
    return {path for capture in CAPTURES for path in GOLDEN.glob(f"{capture}.*.csv")}


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    wanted = {path_of(capture, a.name): text_of(capture, a.name) for capture in CAPTURES for a in rewindow.algorithms()}
    for path in there() - set(wanted):
        path.unlink()
        print(f"removed  {path.name}")
    for path, text in sorted(wanted.items()):
        state = "new" if not path.exists() else "changed" if path.read_text() != text else "same"
        path.write_text(text)
        if state != "same":
            print(f"{state:8} {path.name}")


if __name__ == "__main__":
    main()
