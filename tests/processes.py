"""Which processes run."""

from __future__ import annotations

from pathlib import Path


def tlc_below(pid: int) -> list[int]:
    """Processes that run TLC and descend from this one."""
    parents, tlc = {}, []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if b"tlc2.TLC" in (folder / "cmdline").read_bytes():
                    tlc.append(int(folder.name))
            except OSError:
                continue  # it has ended
    found = []
    for child in tlc:
        at = child
        while at in parents and at != pid:
            at = parents[at]
        if at == pid:
            found.append(child)
    return found
