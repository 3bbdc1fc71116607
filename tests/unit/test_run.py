"""Where `make up` starts the service, and what it writes down about it."""

import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deploy import run


def test_a_state_that_is_half_written_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_checkouts_folder", lambda: tmp_path)
    services: Any = SimpleNamespace(processes={}, port=8000, host="127.0.0.1")
    run._record(services)
    before = json.loads((tmp_path / "run.json").read_text())
    assert before["port"] == 8000

    def interrupted(state: dict[str, Any], file: Any) -> None:
        file.write(json.dumps(state)[:10])
        file.flush()
        assert json.loads((tmp_path / "run.json").read_text()) == before
        raise KeyboardInterrupt

    monkeypatch.setattr(run.json, "dump", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run._record(services)
    assert json.loads((tmp_path / "run.json").read_text()) == before
    assert (tmp_path / "run.json").stat().st_mode & 0o777 == 0o600


def test_a_port_that_is_taken_is_another_ones() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run.port_at("127.0.0.1", port) not in (0, port)
    assert run.port_at("127.0.0.1", port) == port
