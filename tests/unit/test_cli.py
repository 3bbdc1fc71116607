"""The command line, as outside scripts use it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rewindow.client import results

ROOT = Path(__file__).parent.parent.parent
ECN = ROOT / "tests" / "captures" / "mptcp-ecn.pcap"
SAMPLE = ROOT / "tests" / "captures" / "mptcp-two-subflows.pcap"
REWINDOW = Path(sys.executable).parent / "rewindow"

HEADER = (
    "time_ns,connection,subflow,src,sport,dst,dport,una,ack,acked_bytes,rtt_us,srtt_us,in_flight_bytes,phase,flags,"
    "cwnd_before,cwnd,ssthresh"
)
SUBFLOW_KEYS = {
    "id", "src", "sport", "dst", "dport", "bytes", "packets", "retransmitted_packets", "retransmitted_bytes",
    "spurious_retransmissions", "rtt_min_us", "rtt_median_us", "rtt_p95_us", "goodput_bps", "duration_s", "ece_acks",
    "ce_packets", "sender_algorithm",
}  # fmt: skip


def run(*arguments: object, **kw: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(REWINDOW), *map(str, arguments)], capture_output=True, text=True, **kw)  # type: ignore[call-overload, no-any-return]


def test_algorithms() -> None:
    done = run("algorithms", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)["algorithms"]
    multipath = """tccc tccc+ css lisa lia olia balia ewtcp coupled coupled-full uncoupled nmcc enmcc enmcc+ wvegas sbcc
        dwc mptcp-sbd"""
    assert {a["name"] for a in found if a["kind"] == "single"} >= {"newreno", "cubic"}
    assert {a["name"] for a in found if a["kind"] == "multipath"} >= set(multipath.split())
    assert {"name", "default", "values", "reason"} <= found[0]["options"][0].keys()
    assert "tccc" in run("algorithms").stdout
    assert run("algorithms", "--markdown").stdout == (ROOT / "docs/algorithms.md").read_text(), "make docs"


def test_schedulers() -> None:
    done = run("schedulers", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)["schedulers"]
    assert [s["name"] for s in found] == ["minrtt", "roundrobin", "fps", "sbfps"]
    assert {"name", "default", "values", "reason"} <= found[0]["options"][0].keys()
    assert "sbfps\n" in run("schedulers").stdout


def test_analyze_json() -> None:
    done = run("analyze", "--json", SAMPLE, "--algorithms", "tccc,newreno")
    assert done.returncode == 0
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert {"packets", "bytes", "duration_s", "link_types", "oddities", "vantage"} <= document["capture"].keys()
    mptcp = document["connections"][1]
    assert {"id", "kind", "version", "token", "subflows", "goodput_bps", "completion_s"} <= mptcp.keys()
    assert mptcp["subflows"][0].keys() >= SUBFLOW_KEYS
    found = [s["sender_algorithm"] for c in document["connections"] for s in c["subflows"]]
    assert [f["name"] for f in found] == ["newreno"] * 3
    assert all(0.9 < f["match"] <= 1 for f in found)
    assert {"bottleneck", "method", "members", "jain", "mptcp_to_tcp_ratio"} <= document["fairness"][0].keys()
    assert document["bottlenecks"] == {"method": "sbd", "undecided": 0, "not_judged": 0}
    assert {w["algorithm"] for w in document["windows"]} == {"tccc", "newreno"}


def test_analyze_text_and_standard_input() -> None:
    with SAMPLE.open("rb") as f:
        piped = run("analyze", "-", stdin=f)
    assert piped.returncode == 0
    assert piped.stdout == run("analyze", SAMPLE).stdout
    assert "mptcp v1" in piped.stdout
    assert "not validated" not in piped.stdout
    replayed = run("analyze", SAMPLE, "--algorithms", "newreno,bbr3").stdout
    assert replayed.count("not validated against a kernel") == 1


def test_what_finds_bottlenecks_can_be_chosen() -> None:
    def groups(*how: str) -> list[tuple[str, str]]:
        found = json.loads(run("analyze", "--json", SAMPLE, *how).stdout)["fairness"]
        return [(g["bottleneck"], g["method"]) for g in found]

    assert groups() == [("detected: sbd #1", "sbd")] == groups("--bottleneck", "sbd")
    assert groups("--bottleneck", "interface") == [("interface 0.0", "interface")]
    assert groups("--bottleneck", "10.0.1.0/24,10.0.11.1") == [("declared 10.0.1.0/24, 10.0.11.1", "declared")]


def test_detectors_are_listed() -> None:
    found = json.loads(run("detectors", "--json").stdout)["detectors"]
    assert [d["name"] for d in found] == ["sbcc", "dwc", "sbd"]
    options = {o.pop("name"): o for o in found[2]["options"]}
    assert options["p_f"] == {
        "default": "0.1", "values": "0 to 1", "reason": "gap of frequency; RFC 8382",
        "choices": None, "least": 0.0, "most": 1.0,
    }  # fmt: skip
    assert options["grouping"]["choices"] == ["statistics", "correlation"]
    assert options["grouping"]["most"] is None
    assert "trigger_loss=off" in run("detectors").stdout


def test_sets(tmp_path: Path) -> None:
    printed = run("sets", ECN).stdout.splitlines()
    assert printed[0] == "time_ns,connection,subflow,detector,state,set"
    last = {line.split(",")[2]: line.split(",")[3:] for line in printed[1:]}
    assert last == {"0": ["sbcc", "final", "1"], "1": ["sbcc", "final", "1"]}
    out = tmp_path / "sets.csv"
    assert run("sets", ECN, "--output", out).returncode == 0
    assert out.read_text().splitlines() == printed
    columns = tmp_path / "sets.parquet"
    assert run("sets", ECN, "--detector", "dwc", "--option", "count_ece=on", "--output", columns).returncode == 0
    assert set(pq.read_table(columns)["detector"].to_pylist()) == {"dwc"}


def test_series(tmp_path: Path) -> None:
    out = tmp_path / "series.parquet"
    assert run("analyze", SAMPLE, "--algorithms", "tccc,css", "--series", out).returncode == 0
    table = pq.read_table(out)
    assert {"tccc.cwnd", "css.ssthresh", "time_ns", "flags"} <= set(table.column_names)
    assert not [n for n in table.column_names if n.startswith(("newreno", "cubic"))]
    assert table["time_ns"].to_pylist() == sorted(table["time_ns"].to_pylist())


def test_replay_csv_and_parquet(tmp_path: Path) -> None:
    paths = [tmp_path / "out.csv", tmp_path / "out.parquet"]
    for path in paths:
        done = run("replay", SAMPLE, "--algorithm", "tccc", "--option", "aca_md=half", "--output", path)
        assert (done.returncode, done.stdout) == (0, "")
    text = paths[0].read_text()
    assert text.splitlines()[0] == HEADER
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == pq.read_table(paths[1]).num_rows == 4476
    first = rows[0]
    assert (first["src"], first["sport"], first["ssthresh"], first["phase"]) == (
        "10.0.11.1", "58230", "48.616455078125", "coupled_slow_start",
    )  # fmt: skip
    """A subflow of coupled slow start begins with 65535 bytes, in segments of 1348."""
    assert first["flags"] == ""
    assert int(rows[5]["ack"]) - int(rows[5]["una"]) == int(rows[5]["acked_bytes"])
    phases = {"slow_start", "coupled_slow_start", "congestion_avoidance", "recovery", "loss", "cwr"}
    assert {r["phase"] for r in rows} <= phases
    assert {f for r in rows for f in r["flags"].split("|")} <= {
        "", "dup", "sack", "ece", "retransmit", "app_limited", "rwnd_limited",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["nonsense"], 2, "invalid choice"),
        (["analyze"], 2, "required"),
        (["analyze", SAMPLE, "--algorithms", "nope"], 2, "unknown algorithm 'nope'"),
        (["analyze", SAMPLE, "--algorithms", "tccc,tccc"], 2, "named twice"),
        (["analyze", SAMPLE, "--bottleneck", "nowhere"], 2, "--bottleneck"),
        (["analyze", SAMPLE, "--bottleneck", "sbd", "--bottleneck", "interface"], 2, "--bottleneck"),
        (["sets", SAMPLE, "--detector", "nope"], 2, "unknown detector 'nope'"),
        (["sets", SAMPLE, "--option", "T_ms=1"], 2, "sbcc has no option 'T_ms'"),
        (["sets", SAMPLE, "--detector", "sbd", "--option", "T_ms=1"], 2, "option T_ms takes 10 to 10000"),
        (["sets", SAMPLE, "--output", "x.txt"], 2, ".csv or .parquet"),
        (
            ["replay", SAMPLE, "--algorithm", "lia", "--detector-option", "N=9", "--output", "x.csv"],
            2,
            "without a detector",
        ),
        (
            ["replay", SAMPLE, "--algorithm", "dwc", "--detector-option", "N=9", "--output", "x.csv"],
            2,
            "dwc has no option",
        ),
        (["replay", SAMPLE, "--algorithm", "tccc", "--output", "x.txt"], 2, ".csv or .parquet"),
        (["replay", SAMPLE, "--algorithm", "tccc", "--output", "/nonexistent/x.csv"], 2, "cannot be written"),
        (["replay", SAMPLE, "--algorithm", "tccc", "--option", "L", "--output", "x.csv"], 2, "name=value"),
        (["replay", SAMPLE, "--algorithm", "tccc", "--option", "L=x", "--output", "x.csv"], 2, "option L takes"),
        (["replay", SAMPLE, "--algorithm", "newreno", "--option", "L=1", "--output", "x.csv"], 2, "no option 'L'"),
        (["analyze", "/nonexistent.pcap"], 3, "/nonexistent.pcap: No such file"),
        (["analyze", __file__], 3, "neither pcap nor pcapng"),
        (["upload", SAMPLE, "--server", "http://127.0.0.1:1", "--token", "rw_x"], 4, "http://127.0.0.1:1"),
        (["upload", SAMPLE, "--server", "ftp://x", "--token", "rw_x"], 4, "not an http address"),
    ],
)
def test_what_goes_wrong_is_said_in_one_line(arguments: list[object], status: int, said: str, tmp_path: Path) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == status
    assert said in done.stderr
    assert done.stdout == ""
    if status > 2:
        assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [], "nothing half-written is left"


def test_what_a_server_found_is_told_with_its_conformance():
    def connection(number, conformance):
        return {
            "number": number, "kind": "tcp", "version": None, "subflows": [], "replays": [], "conformance": conformance
        }  # fmt: skip

    finding = {
        "what": "asymmetric",
        "count": 2,
        "since_s": None,
        "packet": 7,
        "unreliable": ["windows"],
        "meaning": "why",
    }
    shares = {v: {"connections": n, "bytes": 10 * n} for v, n in (("good", 3), ("limited", 1), ("poor", 0))}
    summary = {"packets": 1, "duration_s": 1.0, "vantage": "sender", "connection_quality": shares}
    summary["quality"] = {"verdict": "limited", "findings": [finding]}
    capture = {"filename": "x.pcap", "summary": summary}
    first = {"algorithm": "tccc", "property": "FloorHeld", "step": "loss", "path": 1, "row": 77, "time_ns": 5}
    clean = {"steps": 30, "violations": 0, "first": None}
    broken = {"steps": 40, "violations": 3, "first": first}
    nothing = {"steps": 0, "violations": 0, "first": None}

    def last_line(*found):
        return results.server_text(capture, [connection(n, f) for n, f in enumerate(found)]).splitlines()[-1]

    assert results.server_text(capture, []).splitlines()[2:5] == [
        "quality: limited",
        "  asymmetric x 2 (packet 7): why; unreliable: windows",
        "connections: 3 good (75.0% of bytes), 1 limited (25.0% of bytes)",
    ]
    assert last_line(clean, clean) == "conformance: all 60 steps of the controllers are as specified"
    assert last_line(clean, broken) == (
        "connection 1: 3 of 40 steps are none of the specifications', the first tccc's"
        " against FloorHeld: loss at row 77"
    )
    assert "conformance" not in last_line(nothing, None)
