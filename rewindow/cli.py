"""The command line.

Exit status: 0 done, 1 the answer is negative, 2 usage, 3 unreadable input, 4 a dependency failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

import rewindow
from rewindow import reports, uploads
from rewindow.core import Choice
from rewindow.errors import BadOption, CaptureUnreadable, RewindowError, UnknownAlgorithm
from rewindow.replays import SENDER_CANDIDATES, Batch, Connection, Replay
from rewindow.windows import WindowStatistics

DONE, NEGATIVE, USAGE, UNREADABLE, FAILED = range(5)

REPLAY_COLUMNS = (
    "time_ns",
    "connection",
    "subflow",
    "src",
    "sport",
    "dst",
    "dport",
    "una",
    "ack",
    "acked_bytes",
    "rtt_us",
    "srtt_us",
    "in_flight_bytes",
    "phase",
    "flags",
    "cwnd_before",
    "cwnd",
    "ssthresh",
)


class _Usage(Exception):
    pass


@contextlib.contextmanager
def _whole_file(path: str) -> Iterator[str]:
    """A path to write that becomes `path` only when all of it was written."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as e:
        raise _Usage(f"{path}: cannot be written: {e.strerror}") from e
    os.close(handle)
    try:
        yield name
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _progress(replay: Replay) -> Iterator[Batch]:
    shown = sys.stderr.isatty()
    for batch in replay:
        if shown:
            print(f"\r{replay.progress():6.1%}", end="", file=sys.stderr, flush=True)
        yield batch
    if shown:
        print("\r       \r", end="", file=sys.stderr, flush=True)


def _options(pairs: Sequence[str]) -> dict[str, object]:
    options: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise _Usage(f"--option {pair}: not of the form name=value")
        options[key] = value
    return options


def _names(text: str | None) -> list[str]:
    return [n for n in (text or "").split(",") if n]


def _algorithms(args: argparse.Namespace) -> int:
    found = rewindow.algorithms()
    if args.json:
        print(json.dumps({"algorithms": [a.as_json() for a in found]}))
    else:
        print(reports.algorithms_text(found))
    return DONE


def _analyze(args: argparse.Namespace) -> int:
    labels = _names(args.algorithms)
    # The candidates for what the sender ran are replayed too, and shown only when they were asked for.
    hidden = [name for name in SENDER_CANDIDATES if name not in labels]
    declared = [_names(b) for b in args.bottleneck]
    with rewindow.open(*args.captures) as capture, capture.stream([*labels, *hidden]) as replay:
        windows = WindowStatistics(labels)
        shown = [n for n in replay.schema.names if not n.startswith(tuple(f"{h}." for h in hidden))]
        with contextlib.ExitStack() as stack:
            writer = None
            if args.series:
                path = stack.enter_context(_whole_file(args.series))
                schema = pa.schema([replay.schema.field(n) for n in shown])
                writer = stack.enter_context(pq.ParquetWriter(path, schema, compression="zstd"))
            for batch in _progress(replay):
                windows.add(batch.acks)
                if writer and batch.acks.num_rows:
                    writer.write_batch(batch.acks.select(shown))
        summary, connections = replay.summary(), replay.connections()
    try:
        fairness = rewindow.fairness_groups(connections, declared)
    except ValueError as e:
        raise _Usage(f"--bottleneck: {e}") from e
    if args.json:
        document = reports.analysis(summary, connections, fairness)
        document["windows"] = [
            dict(zip(("connection", "subflow", "algorithm", "mean", "max", "last"), row, strict=True))
            for row in windows.rows()
        ]
        print(json.dumps(document))
    else:
        print(reports.analysis_text(summary, connections, fairness))
        if labels:
            print("\n" + reports.windows_text(windows.rows()))
    return DONE


def _replay_rows(acks: pa.RecordBatch, label: str, ends: dict[str, Any]) -> pa.Table:
    """The contract's columns; ends: the four endpoint columns by subflow place."""
    place = acks["connection"].to_numpy().astype(np.int64)
    index = pa.array(ends["first"][place] + acks["subflow"].to_numpy())
    columns = {
        "src": pc.take(ends["src"], index),
        "sport": pc.take(ends["sport"], index),
        "dst": pc.take(ends["dst"], index),
        "dport": pc.take(ends["dport"], index),
        "phase": pc.cast(acks[f"{label}.phase"], pa.string()),
        "flags": pc.cast(acks["flags"], pa.string()),
        **{c: acks[f"{label}.{c}"] for c in ("cwnd_before", "cwnd", "ssthresh")},
    }
    return pa.table({name: columns[name] if name in columns else acks[name] for name in REPLAY_COLUMNS})


def _endpoints(connections: Sequence[Connection]) -> dict[str, Any]:
    subflows = [s for c in connections for s in c.subflows]
    sizes = [len(c.subflows) for c in connections]
    return {
        "first": np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64) if sizes else np.zeros(0, np.int64),
        "src": pa.array([s.src for s in subflows], pa.string()),
        "dst": pa.array([s.dst for s in subflows], pa.string()),
        "sport": pa.array([s.sport for s in subflows], pa.uint16()),
        "dport": pa.array([s.dport for s in subflows], pa.uint16()),
    }


def _replay(args: argparse.Namespace) -> int:
    suffix = Path(args.output).suffix
    if suffix not in (".csv", ".parquet"):
        raise _Usage(f"--output {args.output}: the name must end in .csv or .parquet")
    choice = Choice(args.algorithm, _options(args.option))
    with rewindow.open(*args.captures) as capture, capture.stream([choice]) as replay:
        ends = _endpoints(replay.connections())
        with _whole_file(args.output) as path, contextlib.ExitStack() as stack:
            empty = _replay_rows(pa.RecordBatch.from_pylist([], schema=replay.schema), choice.label, ends)
            if suffix == ".csv":
                quoting = pacsv.WriteOptions(quoting_style="none", quoting_header="none")
                writer: Any = stack.enter_context(pacsv.CSVWriter(path, empty.schema, write_options=quoting))
            else:
                writer = stack.enter_context(pq.ParquetWriter(path, empty.schema, compression="zstd"))
            for batch in _progress(replay):
                if batch.acks.num_rows:
                    writer.write_table(_replay_rows(batch.acks, choice.label, ends))
        rows = replay.summary().rows
    print(f"{rows} rows: {args.output}", file=sys.stderr)
    return DONE


def _upload(args: argparse.Namespace) -> int:
    token = args.token or os.environ.get("REWINDOW_TOKEN")
    if not token:
        raise _Usage("no token: give --token or set REWINDOW_TOKEN")
    tags = _options(args.tag)
    for path in args.captures:
        capture = uploads.upload(args.server, token, path, {k: str(v) for k, v in tags.items()}, wait=args.wait)
        print(f"{capture['id']}  {capture['state']}  {path}")
        if capture["state"] == "failed":
            print(f"{path}: {capture['error']}", file=sys.stderr)
            return NEGATIVE
        if args.wait:
            print("\n" + reports.server_text(capture, uploads.connections(args.server, token, capture["id"])))
    return DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rewindow", description=rewindow.__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    p = commands.add_parser("algorithms", help="list the controllers and their options")
    p.add_argument("--json", action="store_true")
    p.set_defaults(run=_algorithms)

    p = commands.add_parser("analyze", help="connections, metrics and fairness of captures")
    p.add_argument("captures", nargs="+", metavar="CAPTURE", help="several are one observation; - is standard input")
    p.add_argument("--algorithms", metavar="A,B", help="also replay these")
    p.add_argument(
        "--bottleneck",
        action="append",
        default=[],
        metavar="NET,NET",
        help="addresses or networks whose flows share a bottleneck; may be given several times",
    )
    p.add_argument("--series", metavar="OUT.parquet", help="write every ACK's row")
    p.add_argument("--json", action="store_true")
    p.set_defaults(run=_analyze)

    p = commands.add_parser("replay", help="the window of one controller at every ACK")
    p.add_argument("captures", nargs="+", metavar="CAPTURE")
    p.add_argument("--algorithm", required=True, metavar="NAME")
    p.add_argument("--option", action="append", default=[], metavar="K=V")
    p.add_argument("--output", required=True, metavar="OUT.{csv,parquet}")
    p.set_defaults(run=_replay)

    p = commands.add_parser("upload", help="send captures to a server")
    p.add_argument("captures", nargs="+", metavar="CAPTURE")
    p.add_argument("--server", required=True, metavar="URL")
    p.add_argument("--token", help="default: the environment's REWINDOW_TOKEN")
    p.add_argument("--tag", action="append", default=[], metavar="K=V")
    p.add_argument("--wait", action="store_true", help="until it is analysed")
    p.set_defaults(run=_upload)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    try:
        return int(args.run(args))
    except (_Usage, UnknownAlgorithm, BadOption) as e:
        print(f"rewindow: {e}", file=sys.stderr)
        return USAGE
    except CaptureUnreadable as e:
        print(f"rewindow: {e}", file=sys.stderr)
        return UNREADABLE
    except uploads.ServerFailed as e:
        print(f"rewindow: {e}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (RewindowError, MemoryError, OSError) as e:
        print(f"rewindow: {e}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
