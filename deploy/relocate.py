"""Makes an installation in a checkout's .venv find the checkout from its own place: setup.sh calls it.

pip writes the checkout's path into what it installs. A copy of the checkout (`cp -r`) would run the code of the
original.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent

LAUNCHER = """\
#!/bin/sh
'''exec' "$(/usr/bin/dirname "$(/usr/bin/readlink -f "$0")")/python" "$0" "$@"
' '''
"""
"""A first line without a path of the checkout: sh runs the Python beside the script, and Python reads these lines as a
string."""


def relocate_launcher(script: Path) -> None:
    """The script of a command: the Python that it runs is the one beside it."""
    lines = script.read_text().splitlines(keepends=True)
    if lines[0].startswith("#!" + os.sep) and "python" in lines[0]:
        script.write_text(LAUNCHER + "".join(lines[1:]))


def relocate_editable(site: Path) -> None:
    """Makes paths to modules, which `pip install -e` wrote, relative to the folder of the file that contains them."""
    up = os.path.relpath(CHECKOUT, site)
    for path_list in site.glob("_editable_*.pth"):
        lines = path_list.read_text().splitlines()
        path_list.write_text("".join(f"{up if line == str(CHECKOUT) else line}\n" for line in lines))
    for finder in site.glob("_editable_*.py"):
        code = finder.read_text().replace(f"'{CHECKOUT}/", "CHECKOUT + '/")
        where = f"CHECKOUT = os.path.abspath(os.path.join(DIR, {up!r}))\n"
        if where not in code:
            code = code.replace("\ninstall(", f"\n{where}install(", 1)
        finder.write_text(code)


def main() -> int:
    relocate_launcher(Path(sysconfig.get_path("scripts")) / "rewindow")
    relocate_editable(Path(sysconfig.get_path("purelib")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
