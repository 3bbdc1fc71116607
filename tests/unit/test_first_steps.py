"""What somebody meets who uses the command line and the library for the first time."""

from __future__ import annotations

import csv
import errno
import importlib.metadata
import io
import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import rewindow
from tests.unit.test_cli import ECN, HEADER, SAMPLE, run


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"rewindow {rewindow.__version__}\n")
    assert rewindow.__version__ == importlib.metadata.version("rewindow")


def test_unknown_names_list_the_known_ones() -> None:
    names = ", ".join(a.name for a in rewindow.algorithms())
    assert f"unknown algorithm 'nope'; there are: {names}\n" in run("analyze", SAMPLE, "--algorithms", "nope").stderr
    assert "unknown detector 'nope'; there are: sbcc, dwc, sbd\n" in run("sets", SAMPLE, "--detector", "nope").stderr
    with pytest.raises(rewindow.UnknownScheduler, match=r"there are: minrtt, roundrobin, fps, sbfps$"):
        rewindow.Scheduler("nope")
    with pytest.raises(rewindow.UnknownAlgorithm, match=f"there are: {names.replace('+', '[+]')}$"):
        rewindow.Controller("nope")
    known = ", ".join(o.name for a in rewindow.algorithms() if a.name == "sbcc" for o in a.options)
    with pytest.raises(rewindow.BadOption, match=f"sbcc has no option 'nope'; there are: {known}$"):
        rewindow.Controller("sbcc", nope=1)


def test_names_ignore_case_and_spaces() -> None:
    done = run("analyze", SAMPLE, "--json", "--algorithms", " TCCC+, Coupled-Full,newreno ")
    assert done.returncode == 0, done.stderr
    labels = dict.fromkeys(w["algorithm"] for w in json.loads(done.stdout)["windows"])
    assert list(labels) == ["tccc+", "coupled-full", "newreno"]
    assert "named twice" in run("analyze", SAMPLE, "--algorithms", "tccc, TCCC").stderr
    assert rewindow.Controller("Tccc").name == "tccc"
    assert rewindow.Detector(" SBD").name == "sbd"
    assert rewindow.Scheduler("MinRTT").name == "minrtt"
    with rewindow.open(SAMPLE) as capture:
        assert "tccc.cwnd" in capture.replay("TCCC").acks.column_names


def test_what_is_no_algorithm_is_refused_with_what_is_expected() -> None:
    with rewindow.open(SAMPLE) as capture, pytest.raises(TypeError, match="expected a name, a Choice, or several"):
        capture.replay(7)  # type: ignore[arg-type]


def test_series_is_what_its_name_says(tmp_path: Path) -> None:
    text, columns = tmp_path / "series.csv", tmp_path / "series.parquet"
    for path in (text, columns):
        assert run("analyze", SAMPLE, "--algorithms", "tccc,css", "--series", path).returncode == 0
    table = pq.read_table(columns)
    rows = list(csv.DictReader(text.read_text().splitlines()))
    assert list(rows[0]) == table.column_names
    assert len(rows) == table.num_rows
    last = table.slice(table.num_rows - 1).to_pylist()[0]
    assert (float(rows[-1]["css.cwnd"]), rows[-1]["css.phase"]) == (last["css.cwnd"], last["css.phase"])
    for wrong in ("x.txt", "-"):
        done = run("analyze", SAMPLE, "--series", wrong, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"--series {wrong}: the name must end in .csv or .parquet" in done.stderr


def test_a_replay_to_standard_output(tmp_path: Path) -> None:
    assert run("replay", ECN, "--algorithm", "lia", "--output", tmp_path / "x.csv").returncode == 0
    done = run("replay", ECN, "--algorithm", "lia", "--output", "-")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (tmp_path / "x.csv").read_text()
    assert done.stdout.startswith(HEADER + "\n")


@pytest.mark.parametrize("pair", ["aca_md", "=half", " = "])
def test_options_that_are_no_pairs_are_refused(pair: str) -> None:
    for words in (["replay", "--algorithm", "tccc", "--output", "-", "--option", pair],):
        done = run(*words, SAMPLE)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"--option {pair}: not of the form name=value" in done.stderr
    twice = run("replay", SAMPLE, "--algorithm", "tccc", "--output", "-", "--option", "L=1", "--option", "L=2")
    assert (twice.returncode, twice.stdout) == (2, "")
    assert "L is given twice" in twice.stderr
    tag = run("upload", SAMPLE, "--server", "http://127.0.0.1:1", "--token", "rw_x", "--tag", pair)
    assert f"--tag {pair}: not of the form name=value" in tag.stderr


def test_each_subflow_of_several_files_says_which_one(tmp_path: Path) -> None:
    found = json.loads(run("analyze", SAMPLE, ECN, "--json").stdout)["connections"]
    files = [{s["file"] for s in c["subflows"]} for c in found]
    assert files == [{0}, {0}, {1}, {1}]
    assert {s["interface"].split(".")[0] for c in found for s in c["subflows"] if s["file"]} == {"1"}
    text = run("analyze", SAMPLE, ECN).stdout.splitlines()
    heading = next(line for line in text if line.startswith("connection  kind"))
    assert heading.endswith("  file")
    assert [sum(line.endswith(f"  {p.name}") for line in text) for p in (SAMPLE, ECN)] == [3, 3]
    assert "file" not in run("analyze", SAMPLE).stdout
    copy = tmp_path / SAMPLE.name
    shutil.copyfile(ECN, copy)
    assert run("analyze", SAMPLE, copy).stdout.count(f"  {copy}\n") == 3, "the same last part: whole paths"


def test_python_says_what_the_command_line_says() -> None:
    printed = json.loads(run("analyze", SAMPLE, "--json").stdout)
    with rewindow.open(SAMPLE) as capture:
        result = capture.replay("tccc")
    assert [n.split(".")[0] for n in result.acks.column_names if n.endswith(".cwnd")] == ["tccc"]
    found = [s for c in result.connections for s in c.subflows]
    told = [s for c in printed["connections"] for s in c["subflows"]]
    assert [vars(s.sender_algorithm) for s in found] == [s["sender_algorithm"] for s in told]
    assert {s.sender_algorithm.name for s in found} == {"newreno"}
    assert [(s.bottleneck, s.bottleneck_state) for s in found] == [
        (s["bottleneck"], s["bottleneck_state"]) for s in told
    ]
    groups = rewindow.fairness_groups(result.connections)
    assert [asdict(g) for g in groups] == printed["fairness"]


def test_candidates_with_options_do_not_name_senders() -> None:
    """The sender is judged by the candidate as it is, also where the same name is replayed with options."""
    with rewindow.open(SAMPLE) as capture:
        plain = capture.replay().connections
        asked = capture.replay([rewindow.Choice("newreno", {"mode": "paper"})])
    assert [s.sender_algorithm for c in asked.connections for s in c.subflows] == [
        s.sender_algorithm for c in plain for s in c.subflows
    ]
    assert {s.sender_algorithm.name for c in plain for s in c.subflows} == {"newreno"}
    assert "newreno.cwnd" in asked.acks.column_names


def test_missing_files_are_errors_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        rewindow.open(tmp_path / "nope.pcap")
    assert (missing.value.errno, missing.value.filename) == (errno.ENOENT, str(tmp_path / "nope.pcap"))
    assert str(missing.value) == f"{tmp_path / 'nope.pcap'}: No such file or directory"
    assert isinstance(missing.value, rewindow.CaptureUnreadable)
    with pytest.raises(OSError, match="Is a directory"):
        rewindow.open(tmp_path)
    with pytest.raises(rewindow.CaptureUnreadable) as text, rewindow.open(__file__) as capture:
        capture.replay()
    assert not isinstance(text.value, OSError), "it could be read"


def test_notebooks() -> None:
    with rewindow.open(SAMPLE) as capture:
        assert repr(capture) == f"<rewindow.Capture {SAMPLE}>"
        result = capture.replay("tccc")
    assert repr(capture) == f"<rewindow.Capture {SAMPLE} (closed)>"
    assert repr(result) == "<rewindow.Result: 2 connections, 4476 ACKs>"
    page = result._repr_html_()
    assert page.count("<tr>") == 1 + 3
    assert "10337 packets" in page
    assert "<td>newreno</td>" in page
    connection = result.connections[1]
    assert connection._repr_html_().count("<tr>") == 1 + 2
    connection.subflows[0].src = "<script>"
    assert "<script>" not in connection._repr_html_()
    assert "&lt;script&gt;" in connection._repr_html_()


def test_types_are_declared() -> None:
    assert (Path(rewindow.__file__).parent / "py.typed").exists()


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, int]]]:
    """A server that takes captures, but refuses those whose name is in the dictionary, with the status there."""
    refused: dict[str, int] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status = next((s for name, s in refused.items() if name in self.path), 202)
            body = {"id": "7", "state": "queued"} if status == 202 else {"detail": "not this one"}
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}", refused
        listening.shutdown()
        thread.join()


def test_uploads_go_on_after_one_that_fails(server: tuple[str, dict[str, int]], tmp_path: Path) -> None:
    address, refused = server
    captures = [tmp_path / f"{n}.pcap" for n in "abcde"]
    for path in captures:
        path.write_bytes(b"x")
    captures[1].unlink()
    refused["d.pcap"] = 413
    done = run("upload", *captures, "--server", address, "--token", "rw_x")
    assert done.returncode == 4
    sent = [captures[0], captures[2], captures[4]]
    assert done.stdout.splitlines() == [f"7  queued  {p}" for p in sent]
    errors = done.stderr.splitlines()
    assert errors[0] == f"rewindow: {captures[1]}: No such file or directory"
    assert errors[1] == f"rewindow: {captures[3]}: {address}: 413 not this one"
    assert errors[2:4] == ["", "3 of 5 captures accepted"]
    told = [line.split(maxsplit=3) for line in errors[6:]]
    assert [row[:3] for row in told] == [
        [outcome, "7" if outcome == "sent" else "-", str(p)]
        for outcome, p in zip(("sent", "unreadable", "sent", "refused", "sent"), captures, strict=True)
    ]
    assert [row[3:] for row in told] == [[], ["No such file or directory"], [], [f"{address}: 413 not this one"], []]
    del refused["d.pcap"]
    done = run("upload", *captures, "--server", address, "--token", "rw_x")
    assert done.returncode == 3


def test_uploads_end_where_the_server_refuses_the_caller(server: tuple[str, dict[str, int]], tmp_path: Path) -> None:
    address, refused = server
    captures = [tmp_path / f"{n}.pcap" for n in "abc"]
    for path in captures:
        path.write_bytes(b"x")
    refused["b.pcap"] = 401
    done = run("upload", *captures, "--server", address, "--token", "rw_x")
    assert done.returncode == 4
    assert done.stdout.splitlines() == [f"7  queued  {captures[0]}"]
    errors = done.stderr.splitlines()
    assert errors[:3] == [f"rewindow: {address}: 401 not this one", "", "1 of 3 captures accepted"]
    assert [line.split("  ")[0].strip() for line in errors[5:]] == ["sent", "not sent", "not tried"]
    alone = run("upload", captures[1], "--server", address, "--token", "rw_x")
    assert len(alone.stderr.splitlines()) == 1


def test_uploads_go_on_after_one_failure_of_the_server_but_not_after_two(
    server: tuple[str, dict[str, int]], tmp_path: Path
) -> None:
    address, refused = server
    captures = [tmp_path / f"{n}.pcap" for n in "abcdef"]
    for path in captures:
        path.write_bytes(b"x")
    refused |= {"b.pcap": 500, "d.pcap": 500, "e.pcap": 502}
    done = run("upload", *captures, "--server", address, "--token", "rw_x")
    assert done.returncode == 4
    assert done.stdout.splitlines() == [f"7  queued  {p}" for p in (captures[0], captures[2])]
    outcomes = [line.split("  ")[0].strip() for line in done.stderr.splitlines()[7:]]
    assert outcomes == ["sent", "not sent", "sent", "not sent", "not sent", "not tried"]


def test_several_captures_from_streams() -> None:
    """A file object has no path: its name is told."""
    with rewindow.open(SAMPLE, io.BytesIO(ECN.read_bytes())) as capture:
        assert repr(capture) == f"<rewindow.Capture {SAMPLE}, capture>"
