"""Data out of a running service by the command line: searches as tables and files, and captures."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from deploy.run import Services
from rewindow.cli import main
from rewindow.client import tables
from tests.acceptance.test_stack import get
from tests.conftest import CAPTURES, make_token

NAMES = ("mptcp-ecn.pcap", "mptcp-recurrences.pcap")
Rewindow = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def team(stack: Services) -> str:
    """A token of a team with two analysed captures."""
    token = make_token(["read", "write", "admin"])
    asked = ["--server", stack.address, "--token", token, "--tag", "site=lab", "--wait"]
    assert main(["upload", *(str(CAPTURES / n) for n in NAMES), *asked]) == 0
    return token


@pytest.fixture
def rewindow(
    stack: Services, team: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Rewindow:
    monkeypatch.setenv("REWINDOW_TOKEN", team)

    def run(command: str, *arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        status = main([command, *map(str, arguments), "--server", stack.address])
        return status, *capfd.readouterr()

    return run


def test_captures_that_are_there_already_are_told(rewindow: Rewindow, team: str) -> None:
    status, out, err = rewindow("upload", *(CAPTURES / n for n in NAMES), "--tag", "site=lab")
    assert status == 0
    assert [line.split()[1] for line in out.splitlines()] == ["done", "done"]
    assert [line.split("  ")[0] for line in err.splitlines()[-2:]] == ["already here", "already here"]


def test_one_capture_that_is_there_already_is_told(rewindow: Rewindow, team: str) -> None:
    status, out, err = rewindow("upload", CAPTURES / NAMES[0])
    assert status == 0
    assert [line.split("  ")[1:] for line in out.splitlines()] == [["done", str(CAPTURES / NAMES[0])]]
    assert err.splitlines() == [f"{CAPTURES / NAMES[0]}: already here"]


def test_captures_whose_analysis_failed_are_told(
    stack: Services, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The server accepts any bytes, and finds later that they are no capture."""
    text = tmp_path / "text.pcap"
    text.write_text("no capture")
    token = make_token(["read", "write"])
    captures = (str(CAPTURES / NAMES[0]), str(text))
    assert main(["upload", *captures, "--server", stack.address, "--token", token, "--wait"]) == 1
    out, err = capfd.readouterr()
    assert [line.split()[1] for line in out.splitlines() if line.endswith("text.pcap")] == ["failed"]
    whole, failed = (line.split("  ") for line in err.splitlines()[-2:])
    assert (whole[0], failed[0]) == ("sent", "failed")
    assert "neither pcap nor pcapng" in failed[-1]


def test_a_search_as_a_table(stack: Services, team: str, rewindow: Rewindow, monkeypatch: pytest.MonkeyPatch) -> None:
    told = get(stack, team, "/v1/connections?sort=-bytes")["items"]
    assert len(told) > 2
    for size in (500, 1):
        monkeypatch.setattr(tables, "_PAGE", size)
        status, out, err = rewindow("connections", "--sort=-bytes")
        assert (status, err) == (0, "")
        heading, rule, *rows, empty, total = out.splitlines()
        assert heading.split()[:4] == ["captured", "(UTC)", "from", "to"]
        assert set(rule) == {"-", " "}
        assert (empty, total) == ("", f"{len(told)} connections")
        for row, c in zip(rows, told, strict=True):
            assert f"{c['src']}:{c['sport']}  " in row
            assert [c["started_at"][:10], c["started_at"][11:19]] == row.split()[:2]
            assert row.split()[-1] == c["filename"]
            assert f" {c['bytes']}  " in row
    status, out, _ = rewindow("connections", "--where", "kind=mptcp", "--where", "tag=site=lab", "--limit", 1)
    mptcp = get(stack, team, "/v1/connections?kind=mptcp")["total"]
    assert mptcp > 1
    assert out.splitlines()[-1] == f"1 of {mptcp} connections"
    assert out.splitlines()[2].split()[4] == "mptcp"
    assert rewindow("connections", "--where", "port=1")[1].splitlines()[-1] == "0 connections"


def test_a_search_as_a_file(stack: Services, team: str, rewindow: Rewindow, tmp_path: Path) -> None:
    told = get(stack, team, "/v1/connections?sort=bytes")["items"]
    asked = ("--sort", "bytes", "--where", "bytes_min=0")
    for suffix in tables.FORMATS:
        out = tmp_path / f"x.{suffix}"
        assert rewindow("connections", *asked, "--output", out) == (0, "", "")
        if suffix == "csv":
            ids = [r["id"] for r in csv.DictReader(io.StringIO(out.read_bytes().decode(), newline=""))]
        elif suffix == "jsonl":
            ids = [json.loads(line)["id"] for line in out.read_text().splitlines()]
        else:
            ids = pq.read_table(out)["id"].to_pylist()
            about = json.loads(pq.read_schema(out).metadata[b"rewindow"])
            assert about["filters"] == "bytes_min=0&sort=bytes"
        assert ids == [c["id"] for c in told]
    printed = rewindow("connections", *asked, "--format", "jsonl", "--limit", 2)[1]
    assert [json.loads(line) for line in printed.splitlines()] == told[:2]
    text = (tmp_path / "x.csv").read_bytes().decode()
    assert rewindow("connections", *asked, "--format", "csv")[1] == text


def test_what_is_wrong_with_a_search_is_said(rewindow: Rewindow, tmp_path: Path) -> None:
    for wrong, said in (
        (["--where", "adress=10.0.0.1"], "422 unknown query parameter 'adress'; there are: address, "),
        (["--where", "kind"], "--where kind: not of the form filter=value"),
        (["--sort", "nothing"], "query.sort: connections are sorted by first_ns, "),
        (["--output", "x.txt"], "--output x.txt: the name must end in .csv, .jsonl or .parquet"),
        (["--output", "x.csv", "--format", "parquet"], "the name says that it is not parquet"),
        (["--where", "tag=site", "--output", str(tmp_path / "x.csv")], "400 tag 'site' is not of the form key=value"),
    ):
        status, out, err = rewindow("connections", *wrong)
        assert (status, out) == (2, "")
        assert said in err
    assert list(tmp_path.iterdir()) == []
    status, _, err = rewindow("connections", "--token", "rw_wrong")
    assert (status, "401" in err) == (4, True)


def test_captures_are_fetched(stack: Services, team: str, rewindow: Rewindow, tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    told = get(stack, team, "/v1/captures?sort=created_at")["items"]
    status, out, err = rewindow("download", "--where", "tag=site=lab", "--folder", folder)
    assert (status, err) == (0, "")
    assert out.splitlines() == [f"{c['id']}  written  {folder / c['filename']}" for c in told]
    for name in NAMES:
        assert (folder / name).read_bytes() == (CAPTURES / name).read_bytes()
    assert {p.name for p in folder.iterdir()} == set(NAMES)
    first, second = (c["id"] for c in told)
    (folder / NAMES[1]).write_bytes(b"another file")
    status, out, _ = rewindow("download", first, second, "--folder", folder)
    beside = folder / f"mptcp-recurrences-{second[:8]}.pcap"
    assert out.splitlines() == [f"{first}  was here  {folder / NAMES[0]}", f"{second}  written  {beside}"]
    assert (folder / NAMES[1]).read_bytes() == b"another file"
    assert beside.read_bytes() == (CAPTURES / NAMES[1]).read_bytes()
    one = tmp_path / "one.pcap"
    assert rewindow("download", first, "--output", one)[0] == 0
    assert one.read_bytes() == (CAPTURES / NAMES[0]).read_bytes()


def test_a_download_that_fails_does_not_stop_the_others(
    stack: Services, team: str, rewindow: Rewindow, tmp_path: Path
) -> None:
    (known, *_) = (c["id"] for c in get(stack, team, "/v1/captures?sort=created_at")["items"])
    nobodys = "00000000-0000-4000-8000-000000000000"
    status, out, err = rewindow("download", nobodys, "../../x", known, "--folder", tmp_path)
    assert status == 4
    assert out.splitlines() == [f"{known}  written  {tmp_path / NAMES[0]}"]
    assert err.splitlines() == [
        f"rewindow: {nobodys}: {stack.address}: 404 no such capture",
        "rewindow: ../../x: '../../x' is no id of a capture",
    ]
    for wrong, said in (
        ([], "give either the ids of captures or --where"),
        (["--where", "kind=tcp", known], "give either the ids of captures or --where"),
        ([known, nobodys, "--output", "-"], "--output: is for one capture"),
        (["--where", "kind=udp"], "422 query.kind"),
    ):
        status, out, err = rewindow("download", *wrong)
        assert (status, out) == (2, "")
        assert said in err
