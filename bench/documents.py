"""Puts what a measurement printed into a document."""

from __future__ import annotations

from pathlib import Path

_DOCS = Path(__file__).parent.parent / "docs"


def put(document: str, name: str, text: str) -> None:
    """Replaces what stands between the two `<!-- name -->` of a document, a file in docs/.

    SystemExit: the document does not have the mark twice.
    """
    path, mark = _DOCS / document, f"<!-- {name} -->"
    parts = path.read_text().split(mark)
    if len(parts) != 3:
        raise SystemExit(f"{path}: {mark} is not there twice")
    path.write_text(f"{mark}\n\n{text}\n\n{mark}".join((parts[0], parts[2])))
