"""Runs of one configuration with other constants, under limits, watched: what the service makes of the runner."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from rewindow import specs

FOLDER = Path(__file__).parent.parent / "specs"


@pytest.fixture
def manifest() -> specs.Manifest:
    return specs.read_manifest(FOLDER / "Windows")


def test_constants_that_may_be_chosen(manifest: specs.Manifest) -> None:
    holds = manifest.configuration("holds")
    assert manifest.chosen(holds) == {"Subflows": 2, "Limit": 4}
    text = manifest.config(holds).with_constants({"Subflows": "{s1, s2, s3}", "Limit": "10"})
    assert "Subflows = {s1, s2, s3}\n Limit = 10\n Step = 1\n" in text
    assert "INVARIANT Bounded" in text


def test_another_constant_is_another_run(manifest: specs.Manifest) -> None:
    holds = manifest.configuration("holds")
    found = specs.run_configuration(manifest, holds, specs.jar(), constants={"Subflows": 3, "Limit": 5})
    assert (found.exit, found.distinct, found.depth) == (0, 5**3, 3 * 4 + 1)
    own = specs.run_configuration(manifest, holds, specs.jar())
    assert specs.differences_of(holds, own) == []
    assert specs.hints_of(holds, own) == []
    assert specs.hints_of(holds, found) == [
        "distinct states: 16 is pinned, 125 found", "depth: 7 is pinned, 13 found"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ({"Limit": 61}, "Limit is 61: it may be 2 to 60"),
        ({"Subflows": 0}, "Subflows is 0: it may be 1 to 6"),
        ({"Step": 1}, "Step may not be chosen for holds; Subflows, Limit may"),
    ],
)
def test_constants_out_of_range(manifest: specs.Manifest, constants: dict[str, int], said: str) -> None:
    with pytest.raises(specs.BadConstant, match=said):
        specs.run_configuration(manifest, manifest.configuration("holds"), specs.jar(), constants=constants)


def test_a_run_is_watched_and_stopped(manifest: specs.Manifest) -> None:
    seen: list[tuple[int, int, int | None]] = []

    def watch(found: specs.Outcome) -> bool:
        seen.append((found.distinct, found.queued, found.depth))
        return len({distinct for distinct, _, _ in seen}) < 3  # TLC by itself says two in its first minute

    found = specs.run_configuration(
        manifest,
        manifest.configuration("holds"),
        specs.jar(),
        constants={"Subflows": 6, "Limit": 60},
        on_progress=watch,
    )
    assert found.stopped == "cancelled"
    distinct, queued, depth = seen[-1]
    assert distinct > 500
    assert queued > 0
    assert depth is not None
    assert depth > 5


def test_a_watched_run_finds_the_same(manifest: specs.Manifest) -> None:
    for name in ("holds", "asprinted"):
        pinned = manifest.configuration(name)
        found = specs.run_configuration(manifest, pinned, specs.jar(), on_progress=lambda _: True)
        assert specs.differences_of(pinned, found) == []


def test_a_run_that_hangs_begins_anew(
    manifest: specs.Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung, java = tmp_path / "hung", tmp_path / "bin" / "java"
    java.parent.mkdir()
    first = f"[ -e {hung}2 ] || {{ [ ! -e {hung} ] || touch {hung}2; touch {hung}; exec sleep 1000; }}"
    java.write_text(f'#!/bin/sh\n{first}\nexec {specs.java()} "$@"\n')
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(specs, "ASLEEP_S", 2)
    holds = manifest.configuration("holds")
    found = specs.run_configuration(manifest, holds, specs.jar(), on_progress=lambda outcome: True)
    assert specs.differences_of(holds, found) == []
    assert (tmp_path / "hung2").exists(), "it hung twice"
    java.write_text("#!/bin/sh\nexec sleep 1000\n")
    found = specs.run_configuration(manifest, holds, specs.jar())
    assert (found.stopped, found.exit) == ("hung: all threads of TLC waited for one another", -signal.SIGKILL)


def test_who_waits_for_a_processor_or_is_stopped_does_not_sleep() -> None:
    with subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=True) as process:
        try:
            assert not any(specs._is_asleep(process.pid) for _ in range(20))
            process.send_signal(signal.SIGSTOP)
            assert not any(specs._is_asleep(process.pid) for _ in range(20))
        finally:
            process.kill()
    assert not specs._is_asleep(process.pid), "it has ended"


def test_disk_and_time_are_bounded(manifest: specs.Manifest) -> None:
    holds = replace(manifest.configuration("holds"), seconds_max=3)
    large = {"Subflows": 6, "Limit": 60}
    late = specs.run_configuration(manifest, holds, specs.jar(), constants=large)
    assert late.stopped == "not finished in 3 s"
    patient = replace(holds, seconds_max=60)
    full = specs.run_configuration(manifest, patient, specs.jar(), constants=large, disk_bytes_max=10)
    assert full.stopped == "wrote more than 10 bytes"


@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ({"Limit": {"min": 5, "max": 9, "meaning": ""}}, "holds.cfg: Limit: Limit is 4: it may be 5 to 9"),
        ({"Limit": {"min": 5, "max": 4, "meaning": ""}}, "a name and a range"),
        ({"Limit": {"min": 1, "meaning": ""}}, "max is missing"),
        ({"Subflows": {"min": 1, "max": 4, "members": "t", "meaning": ""}}, r"\{s1, s2\} is not \{t1, t2\}"),
    ],
)
def test_manifests_that_declare_wrongly(tmp_path: Path, constants: object, said: str) -> None:
    folder = tmp_path / "Windows"
    shutil.copytree(FOLDER / "Windows", folder)
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"constants": constants}))

    def read() -> None:
        manifest = specs.read_manifest(folder)
        manifest.chosen(manifest.configuration("holds"))

    with pytest.raises(specs.SpecUnreadable, match=said):
        read()


def test_the_digest_is_of_what_tlc_reads(tmp_path: Path, manifest: specs.Manifest) -> None:
    folder = tmp_path / "Windows"
    shutil.copytree(FOLDER / "Windows", folder)
    (folder / "notes.txt").write_text("nothing that TLC reads")
    assert specs.read_manifest(folder).digest() == manifest.digest()
    (folder / "holds.cfg").write_text("INIT Init\nNEXT Next\n")
    assert specs.read_manifest(folder).digest() != manifest.digest()
