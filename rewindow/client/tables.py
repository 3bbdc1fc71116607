"""The connections of a service, as a table or as a file that the service writes."""

from __future__ import annotations

import urllib.parse
from collections.abc import Collection, Iterator, Sequence
from typing import IO, Any

from rewindow.client.service import Service
from rewindow.reports.tables import endpoint, ms, si

FORMATS = ("csv", "jsonl", "parquet")
_PAGE = 500
_HEADING = (
    "captured (UTC)", "from", "to", "kind", "subflows", "bytes", "retrans", "rtt ms", "goodput", "sender", "quality",
    "capture",
)  # fmt: skip
_RIGHT = (4, 5, 6, 7, 8)

Filters = Sequence[tuple[str, str]]
"""Names and values, as the query of GET /v1/connections has them."""


def write(service: Service, path: str, suffix: str, filters: Filters, out: IO[bytes], most: int | None) -> str | None:
    """Writes a list of the service as a file of one of FORMATS. path: /v1/connections, for example.

    Returns what is stored of the addresses in it: kept, replaced or some-replaced. Raises ServerFailed, Refused.
    """
    query = [*filters, *([] if most is None else [("limit", str(most))])]
    with service.answer("GET", f"{path}.{suffix}?{urllib.parse.urlencode(query)}") as answer:
        if answer.status != 200:
            raise answer.failure()
        for chunk in answer.chunks():
            out.write(chunk)
        return answer.headers.get("Rewindow-Addresses")


def lines(service: Service, filters: Filters, most: int | None) -> Iterator[str]:
    """A table of connections, a line at a time. Columns are as wide as the first page needs, and wider from where a
    later page does. Raises ServerFailed, Refused."""
    widths = [len(h) for h in _HEADING]
    shown = 0
    for page in service.items("/v1/connections", list(filters), _PAGE if most is None else min(_PAGE, most)):
        items = page["items"] if most is None else page["items"][: most - shown]
        rows = [_cells(c) for c in items]
        widths = [max(w, *(len(r[i]) for r in rows)) if rows else w for i, w in enumerate(widths)]
        if not shown:
            yield aligned(_HEADING, widths, _RIGHT)
            yield "  ".join("-" * w for w in widths)
        yield from (aligned(row, widths, _RIGHT) for row in rows)
        shown += len(items)
        if shown == most:
            break
    total = max(page["total"], shown)
    about = "" if page["total_is_exact"] else "about "
    yield f"\n{shown} of {about}{total} connections" if shown < total else f"\n{shown} connections"


def aligned(row: Sequence[str], widths: Sequence[int], right: Collection[int] = ()) -> str:
    """One line of a table. right: the columns of numbers."""
    cells = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
    return "  ".join(cells).rstrip()


def _cells(c: dict[str, Any]) -> list[str]:
    cells = [
        (c["started_at"] or "-")[:19].replace("T", " "), endpoint(c["src"], c["sport"]), endpoint(c["dst"], c["dport"]),
        c["kind"], str(c["subflow_count"]), str(c["bytes"]), str(c["retransmitted_packets"]), ms(c["rtt_us"]),
        si(c["goodput_bps"], "bit/s"), c["sender_algorithm"], c["verdict"], c["filename"],
    ]  # fmt: skip
    return [printable(cell) for cell in cells]


def printable(text: str) -> str:
    """Without what a terminal would obey."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)
