"""`make validate` on a run whose MPTCP sender was this project's TCCC in a real kernel, and on runs made wrong."""

import csv
import gzip
import json
import shutil
from pathlib import Path

import pytest

from bench import validate
from bench.senders import Ran, has_ecn, what_ran

CAPTURES = Path(__file__).parent.parent / "captures"

NAME = "mptcp-tccc-kernel"
FIRST, SECOND, TCP = ("10.0.1.1", 56716), ("10.0.2.1", 50369), ("10.0.11.1", 45938)


def write_run(folder: Path, params: dict[str, str], wrong: int = 0) -> Path:
    """wrong: so many segments are added to every window that the kernel had on the first subflow."""
    run = folder / "shared"
    run.mkdir()
    shutil.copy(CAPTURES / f"{NAME}.pcap", run / "capture.pcap")
    (run / "result.json").write_text(json.dumps({"scenario": "shared", "params": params}))
    with gzip.open(CAPTURES / f"{NAME}.truth.csv.gz", "rt") as f:
        rows = list(csv.DictReader(f))
    for row in rows:
        if row["src"] == FIRST[0]:
            row["snd_cwnd"] = str(int(row["snd_cwnd"]) + wrong)
    with gzip.open(run / "truth.csv.gz", "wt", newline="") as f:
        written = csv.DictWriter(f, rows[0])
        written.writeheader()
        written.writerows(rows)
    return run


def test_our_controller_in_a_kernel_is_named_and_its_windows_are_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path, {"cc": "bpf_tccc", "tcpcc": "reno"})
    assert validate.main([str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "| tccc | 2 | 2 |" in said.out  # two subflows ran it and have its name
    assert "| shared | tccc | 10.0.1.1:56716 | 916 | 99.78% | 100.00% |" in said.out


@pytest.mark.parametrize(
    ("params", "wrong", "said"),
    [
        ({"cc": "bpf_tccc"}, 2, "shared 10.0.1.1:56716 (tccc in the kernel)"),
        ({"cc": "bpf_css"}, 0, "shared 10.0.1.1:56716 ran css and is called tccc"),
        ({"cc": "bpf_tccc", "tcpcc": "cubic"}, 0, "shared 10.0.11.1:45938 ran cubic and is called newreno"),
    ],
)
def test_a_replay_or_a_name_that_is_wrong_falls_short(
    params: dict[str, str], wrong: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path, params, wrong)
    assert validate.main([str(tmp_path)]) == 1
    assert f"falls short of the goal: {said}\n" in capsys.readouterr().err


def test_a_goal_holds_without_the_floor_of_a_pcap_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """98.48 % of the windows are equal on the second subflow, 99 % is the goal, and two replays agree on 96.42 %."""
    run = write_run(tmp_path, {"cc": "bpf_tccc"})
    (run / "capture.pcap").rename(run / "capture.pcapng")
    assert validate.main([str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.err == "falls short of the goal: shared 10.0.2.1:50369 (tccc in the kernel)\n"
    assert "| 98.48% | 100.00% | – | – |" in said.out


def test_single_runs_leave_the_tables_of_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path, {"cc": "bpf_tccc"})
    written: list[str] = []
    monkeypatch.setattr(validate, "put", lambda document, name, text: written.append(name))
    assert validate.main([str(tmp_path), "--write"]) == 0
    assert written == ["windows", "bottlenecks", "lockstep"]
    written.clear()
    assert validate.main([str(tmp_path), "--write", "--networks"]) == 0
    assert written == ["networks", "names", "controllers"]


def test_a_folder_without_runs_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(SystemExit) as ended:
        validate.main([str(tmp_path)])
    assert ended.value.code == 2
    assert f"no run with a truth.csv.gz in {tmp_path}; `make lab` makes runs" in capsys.readouterr().err


def test_what_the_senders_of_a_run_ran(tmp_path: Path) -> None:
    assert what_ran(tmp_path) == {}
    run = write_run(tmp_path, {"cc": "bpf_tccc", "ecn": "20"})
    tccc, newreno = Ran("tccc", True), Ran("newreno", False)
    assert what_ran(run) == {FIRST: tccc, SECOND: tccc, TCP: newreno}
    assert has_ecn(run)
    flows = [("[fd00:1::1]:40000", "rw_tccc"), ("10.0.1.1:40001", "reno"), ("10.0.2.1:40002", "dctcp")]
    subflows = [{"local": local, "congestion_control": control} for local, control in flows]
    (run / "result.json").write_text(json.dumps({"transfers": [{"subflows": subflows}]}))
    (run / "scenario.toml").write_text("name = 'plain'\n")
    found = {("fd00:1::1", 40000): tccc, ("10.0.1.1", 40001): newreno, ("10.0.2.1", 40002): Ran("dctcp", False)}
    assert what_ran(run) == found
    assert not has_ecn(run)
