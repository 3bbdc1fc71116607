"""Pictures of the state machines, from TLC's dump of their states: X.dot, and X.svg by Graphviz, beside X.tla."""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rewindow import specs
from rewindow.specs import CheckerMissing, Manifest, SpecUnreadable

_DOT_NODE = re.compile(r'^(-?\d+) \[label="((?:[^"\\]|\\.)*)"')
_DOT_EDGE = re.compile(r"^(-?\d+) -> (-?\d+)\b")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _shown(value: Any) -> str:
    """A node's name: a record, a field on each line."""
    return "\n".join(f"{k}: {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


def state_machine(dump: Iterable[str], variable: str, title: str) -> str:
    """TLC's dump of a state graph -> the graph of one variable's values, in Graphviz's language.

    The variable is <<label of the step that led here, visible part of the state>>: states with equal visible parts are
    one node, and edges have the steps' labels. Steps of `another` that change nothing visible are left out. Nodes and
    edges are in the order of their names.
    """
    seen: dict[str, tuple[str, str]] = {}
    steps: set[tuple[str, str]] = set()
    first: set[str] = set()
    wanted = re.compile(rf"^(?:/\\ )?{re.escape(variable)} = (.*?)(?=\n/\\ |\Z)", re.MULTILINE | re.DOTALL)
    values: dict[str, tuple[str, str]] = {}  # many states have the same one
    for line in dump:
        node, edge = _DOT_NODE.match(line), _DOT_EDGE.match(line)
        if edge and 'style="dashed"' in line:
            continue  # a state that may stay as it is
        if edge:
            steps.add((edge[1], edge[2]))
        elif node and node[1] not in seen:
            label = node[2].replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")
            text = wanted.search(label)
            if text is None:
                raise SpecUnreadable(f"{title}: a state of the dump has no {variable}")
            if text[1] not in values:
                action, value = specs.parse_value(text[1])
                values[text[1]] = (action, _shown(value))
            seen[node[1]] = values[text[1]]
            if "style = filled" in line:
                first.add(seen[node[1]][1])
    labels: dict[tuple[str, str], set[str]] = {}
    for a, b in steps:
        edge_names = (seen[a][1], seen[b][1])
        if edge_names[0] != edge_names[1] or not seen[b][0].startswith("another"):
            labels.setdefault(edge_names, set()).add(seen[b][0])
    nodes = {name: f"n{i}" for i, name in enumerate(sorted({value for _, value in seen.values()}))}
    lines = [
        f"digraph {_quoted(title)} {{",
        "\trankdir=TB; ranksep=0.6;",
        '\tnode [shape=box, style="rounded,filled", fillcolor="#eef3fa", color="#5b7aa6"];',
        '\tnode [fontname="sans-serif", fontsize=11];',
        '\tedge [fontname="sans-serif", fontsize=9, color="#666666"];',
        '\tstart [shape=point, label=""];',
    ]
    lines += [f"\t{place} [label={_quoted(name)}];" for name, place in nodes.items()]
    lines += [f"\tstart -> {nodes[name]};" for name in sorted(first)]
    for (a, b), actions in sorted(labels.items()):
        lines.append(f"\t{nodes[a]} -> {nodes[b]} [label={_quoted(chr(10).join(sorted(actions)))}];")
    return "\n".join([*lines, "}", ""])


def picture(manifest: Manifest, tlc: Path) -> str:
    """The picture of a specification, in Graphviz's language, from TLC's dump of the picture's configuration."""
    wanted = manifest.picture
    if wanted is None:
        raise SpecUnreadable(f"{manifest.spec}: no picture in its manifest")
    with tempfile.TemporaryDirectory(prefix="rewindow-specs-") as temporary:
        manifest.copy_to(Path(temporary))
        dump = Path(temporary) / "graph.dot"
        arguments = ("-dump", "dot", str(dump.with_suffix("")))
        outcome = specs.run_tlc(
            Path(temporary), wanted["module"], wanted["config"], tlc=tlc, arguments=arguments, short=True
        )
        if outcome.exit != 0 or not dump.is_file():
            reason = outcome.stopped or "\n".join(outcome.errors) or specs.verdict(outcome.violated, outcome.exit)
            raise SpecUnreadable(f"{manifest.spec}: no picture: {reason}")
        with dump.open(encoding="utf-8") as lines:
            return state_machine(lines, wanted["variable"], manifest.spec)


def _digest(dot: str) -> str:
    return f"<!-- of {hashlib.sha256(dot.encode()).hexdigest()} -->"


def draw(manifest: Manifest, tlc: Path) -> None:
    """Writes the picture beside the specification: X.dot, and X.svg by Graphviz with the digest of X.dot."""
    dot = picture(manifest, tlc)
    program = shutil.which("dot")
    if not program:
        raise CheckerMissing("dot is missing: install Graphviz (Debian: graphviz)")
    svg = subprocess.run([program, "-Tsvg"], input=dot, capture_output=True, text=True, check=True).stdout
    (manifest.folder / f"{manifest.spec}.dot").write_text(dot, encoding="utf-8")
    (manifest.folder / f"{manifest.spec}.svg").write_text(f"{svg.rstrip()}\n{_digest(dot)}\n", encoding="utf-8")


def is_drawn(manifest: Manifest, tlc: Path) -> bool:
    """Whether the committed picture is that of the specification."""
    dot = picture(manifest, tlc)
    try:
        had = (manifest.folder / f"{manifest.spec}.dot").read_text(encoding="utf-8")
        svg = (manifest.folder / f"{manifest.spec}.svg").read_text(encoding="utf-8")
    except OSError:
        return False
    return had == dot and svg.endswith(f"{_digest(dot)}\n")


def _draw(args: argparse.Namespace) -> int:
    tlc = specs.jar(args.jar)
    stale = 0
    for manifest in specs.manifests(args.folder, args.specs):
        if manifest.picture is None:
            continue
        if not args.check:
            draw(manifest, tlc)
            print(f"{manifest.folder / manifest.spec}.svg")
        elif not is_drawn(manifest, tlc):
            stale += 1
            print(f"{manifest.spec}: the picture is not of this specification; draw it again", file=sys.stderr)
    return specs.DIFFERENT if stale else specs.AS_PINNED


def add_command(commands: Any) -> None:
    """Adds `draw` to the commands of `rewindow specs`."""
    p = specs.add_command(commands, "draw", "draw each state machine from TLC's dump", _draw)
    p.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 if a picture differs from TLC's dump"
    )
