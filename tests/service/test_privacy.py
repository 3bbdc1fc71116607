"""What a team does not keep never reaches the store, and the analysis finds the same."""

from __future__ import annotations

import gzip
import hashlib
import os
import signal
import struct
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, select, text

from api.privacy import Privacy
from deploy.run import Services
from rewindow.core import redact
from store import objects
from store.database import engine
from store.models import Capture, Team
from tests.conftest import CAPTURES, make_token
from tests.packets import Trace, iptrace
from tests.service.conftest import Client
from tests.service.test_api import PCAP, SAMPLE, Run, assert_problem, upload
from tests.service.test_jobs import alembic, new_database

SECRET = b"correct horse battery staple"


def pcap(*payloads: bytes) -> bytes:
    """Raw IP, UDP."""
    packets = []
    for payload in payloads:
        head = struct.pack("!BBHHHBBH", 0x45, 0, 28 + len(payload), 7, 0, 64, 17, 0) + bytes(
            [192, 0, 2, 1, 192, 0, 2, 2]
        )
        packets.append(head + struct.pack("!HHHH", 9, 53, 8 + len(payload), 0) + payload)
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 101)
    return head + b"".join(struct.pack("<IIII", 1, 0, len(p), len(p)) + p for p in packets)


def settings_url(client: TestClient) -> str:
    return f"/v1/teams/{client.get('/v1/teams/me').json()['id']}/settings"


def set_to(client: TestClient, **values: str) -> None:
    assert client.patch(settings_url(client), json=values).status_code == 200


@pytest.fixture
def cutting(client_for: Client) -> TestClient:
    """Of a new team, which has changed nothing."""
    return client_for(make_token(["read", "write", "admin"], payload="cut"))


def stored(capture: dict[str, Any]) -> bytes:
    with engine().connect() as connection:
        key = connection.scalar(select(Capture.object_key).where(Capture.id == uuid.UUID(capture["id"])))
    return bytes(obstore.get(objects.object_store(), str(key)).bytes())


def test_payload_is_cut_before_anything_is_stored(cutting: TestClient) -> None:
    content = pcap(SECRET, SECRET * 40)
    for body in (content, gzip.compress(content)):
        capture = cutting.post("/v1/captures?filename=a.pcapng.gz", content=body, headers=PCAP).json()
        copy = stored(capture)
        assert b"horse" not in copy
        assert (capture["bytes"], capture["sha256"]) == (len(copy), hashlib.sha256(copy).hexdigest())
        assert (capture["payload"], capture["addresses"]) == ("cut", "kept")
        file = cutting.get(f"/v1/captures/{capture['id']}/file")
        assert file.content == copy
        assert (file.headers["Rewindow-Payload"], file.headers["Rewindow-Addresses"]) == ("cut", "kept")
        assert "a.headers.pcap" in file.headers["Content-Disposition"]


def told_of(who: TestClient, run_jobs: Run, path: Path) -> tuple[Any, Any, set[str]]:
    """What is found in a capture, and the addresses."""
    capture = upload(who, path)
    run_jobs()
    capture = who.get(f"/v1/captures/{capture['id']}").json()
    items = who.get(f"/v1/captures/{capture['id']}/connections").json()["items"]
    details = [who.get(f"/v1/connections/{c['id']}").json() for c in items]
    addresses = {s.pop(end) for d in details for s in d["subflows"] for end in ("src", "dst")}
    found = [
        {n: d[n] for n in ("number", "bytes", "goodput_bps", "verdict", "subflows", "completion_s")} for d in details
    ]
    for oddity in capture["summary"]["oddities"].values():
        del oddity["first_offset"]
    for member in (m for group in capture["fairness"] for m in group["members"]):
        del member["connection_id"]
        addresses |= {member.pop("src"), member.pop("dst")}
    return (capture["summary"], capture["fairness"]), found, addresses


def test_the_analysis_is_that_of_the_file(cutting: TestClient, client: TestClient, run_jobs: Run) -> None:
    for path in (SAMPLE, CAPTURES / "mptcp-two-subflows.pcap"):
        whole = told_of(client, run_jobs, path)
        cut = told_of(cutting, run_jobs, path)
        assert cut[:2] == whole[:2]
        assert (cut[2] == whole[2]) is (path == SAMPLE)
        assert len(cut[2]) == len(whole[2])
        assert bool(cut[2] & whole[2]) is (path == SAMPLE)
        set_to(cutting, addresses="replaced")


def test_a_key_of_the_team_replaces_addresses(cutting: TestClient, client_for: Client) -> None:
    other = client_for(make_token(["read", "write", "admin"], payload="cut"))
    copies = []
    for who in (cutting, other):
        set_to(who, addresses="replaced")
        capture = who.post("/v1/captures?filename=a.pcap", content=SAMPLE.read_bytes(), headers=PCAP).json()
        assert capture["addresses"] == "replaced"
        file = who.get(f"/v1/captures/{capture['id']}/file")
        assert "a.headers.other-addresses.pcap" in file.headers["Content-Disposition"]
        copies.append(file.content)
    assert len(copies[0]) == len(copies[1])
    assert copies[0] != copies[1]


def test_the_same_bytes_are_one_capture_whatever_is_kept(cutting: TestClient, client: TestClient) -> None:
    first = upload(cutting)
    set_to(cutting, addresses="replaced")
    again = upload(cutting)
    set_to(cutting, addresses="kept", payload="kept")
    third = upload(cutting)
    assert [c["already_here"] for c in (first, again, third)] == [False, True, True]
    assert {c["id"] for c in (again, third)} == {first["id"]}
    upload(client)
    with engine().connect() as connection:
        received = connection.execute(
            select(Capture.received, Capture.sha256).where(Capture.filename == SAMPLE.name)
        ).all()
    assert len({row.received for row in received}) == len(received), "each team's hash is its own"
    assert not {row.received for row in received} & {hashlib.sha256(SAMPLE.read_bytes()).digest()}


def test_of_what_is_no_capture_nothing_is_kept(cutting: TestClient, run_jobs: Run) -> None:
    other = b"iptrace 9" + SECRET * 100_000
    answer = cutting.post("/v1/captures?filename=x.trace", content=other, headers=PCAP)
    assert answer.status_code == 202
    run_jobs()
    capture = cutting.get(f"/v1/captures/{answer.json()['id']}").json()
    assert (capture["state"], capture["bytes"]) == ("failed", 0)
    assert "x.trace: not a capture: neither pcap nor pcapng nor snoop; tshark: " in capture["error"]
    assert "; payload is cut from this team's captures" in capture["error"]
    assert_problem(cutting.get(f"/v1/captures/{capture['id']}/file"), 404, "nothing of this capture is stored")
    assert_problem(cutting.post(f"/v1/captures/{capture['id']}/retry"), 409, "nothing of this capture is stored")
    again = cutting.post("/v1/captures?filename=x.trace", content=other, headers=PCAP).json()
    assert again["id"] == capture["id"]
    set_to(cutting, payload="kept")
    kept = cutting.post("/v1/captures?filename=x.trace", content=other, headers=PCAP).json()
    assert (kept["already_here"], kept["bytes"]) == (False, len(other))
    assert stored(kept) == other
    assert cutting.get(f"/v1/captures/{capture['id']}").status_code == 404


def transfer(payload: int) -> Trace:
    trace = Trace()
    trace.handshake(1.0, 0.1)
    for i in range(50):
        trace.packet(1.2 + i / 1000, True, 1 + i * payload, 1001, payload=payload)
        trace.packet(1.3 + i / 1000, False, 1001, 1 + payload + i * payload)
    trace.records.sort()
    return trace


@pytest.mark.parametrize("addresses", ["kept", "replaced"])
def test_what_tshark_finds_is_kept_of_other_formats(
    cutting: TestClient, client: TestClient, run_jobs: Run, tmp_path: Path, addresses: str
) -> None:
    set_to(cutting, addresses=addresses)
    path = tmp_path / "aix.trace"
    path.write_bytes(iptrace(transfer(100), SECRET))
    (whole, _), connections, _ = told_of(client, run_jobs, path)
    (summary, _), same_connections, _ = told_of(cutting, run_jobs, path)
    assert same_connections == connections
    assert (whole.pop("link_types"), list(whole.pop("decoded_by"))) == (["ethernet"], ["ethernet"])
    assert (summary.pop("link_types"), summary.pop("decoded_by")) == (["raw"], {})
    assert summary == whole
    (capture,) = cutting.get("/v1/captures").json()["items"]
    file = cutting.get(f"/v1/captures/{capture['id']}/file")
    assert file.content == stored(capture)
    assert SECRET[:4] not in file.content
    assert (b"\x0a\0\0\1" in file.content) is (addresses == "kept")
    assert (
        f"aix.{'headers' if addresses == 'kept' else 'headers.other-addresses'}.pcapng"
        in file.headers["Content-Disposition"]
    )


@pytest.fixture
def with_environment(application: TestClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Starts the service that cuts with other variables of the environment, and as before afterwards."""
    redactor = application.app.state.redactor  # type: ignore[attr-defined]

    def set_and_start(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        redactor.start()

    yield set_and_start
    monkeypatch.undo()
    redactor.start()


def test_while_tshark_is_away_the_upload_is_not_taken(
    cutting: TestClient, with_environment: Callable[..., None], tmp_path: Path
) -> None:
    with_environment(REWINDOW_TSHARK_SOCKET=str(tmp_path / "nobody"))
    answer = cutting.post("/v1/captures?filename=aix.trace", content=iptrace(transfer(100)), headers=PCAP)
    assert_problem(answer, 503, "its service is away (No such file or directory); try again")
    assert answer.headers["Retry-After"] == "10"
    assert cutting.get("/v1/captures").json()["items"] == []
    assert upload(cutting)["payload"] == "cut", "captures that do not need it are taken"


def test_without_tshark_nothing_is_kept(
    cutting: TestClient, with_environment: Callable[..., None], run_jobs: Run, tmp_path: Path
) -> None:
    with_environment(PATH=str(tmp_path))
    content = iptrace(transfer(100))
    capture = cutting.post("/v1/captures?filename=aix.trace", content=content, headers=PCAP).json()
    run_jobs()
    capture = cutting.get(f"/v1/captures/{capture['id']}").json()
    assert (capture["state"], capture["bytes"]) == ("failed", 0)
    assert "aix.trace: tshark is needed to read it and is not installed; payload is cut" in capture["error"]


def test_captures_from_before_are_recognised_as_before(services: Services) -> None:
    """The migration hashes them, more than it takes at a time, as an upload of the same bytes is hashed."""
    url = new_database(services)
    alembic(services, url, "upgrade 0019")
    database = create_engine(url)
    with database.begin() as connection:
        connection.execute(
            text("INSERT INTO teams (id, name) VALUES (gen_random_uuid(), 'a'), (gen_random_uuid(), 'b')")
        )
        connection.execute(
            text(
                "INSERT INTO captures (id, team_id, sha256, bytes, filename, object_key, state)"
                " SELECT gen_random_uuid(), teams.id, sha256(number::text::bytea), 1, number, '', 'done'"
                " FROM teams, generate_series(1, 600) AS number"
            )
        )
    alembic(services, url, "upgrade 0020")
    with database.connect() as connection:
        rows = connection.execute(
            text("SELECT filename, received, secret FROM captures JOIN teams ON teams.id = team_id")
        ).all()
    database.dispose()
    assert len(rows) == len({row.received for row in rows}) == 1200, "each team's hash is its own"
    for row in rows:
        uploaded = hashlib.sha256(row.filename.encode()).digest()
        assert Privacy("cut", "kept", row.secret).recognition_of(uploaded) == row.received


def test_an_upload_that_stops_leaves_nothing(cutting: TestClient) -> None:
    body = b"--b\r\nContent-Disposition: form-data; name=file; filename=a.pcap\r\n\r\n" + SAMPLE.read_bytes()[:300_000]
    form = {"Content-Type": "multipart/form-data; boundary=b"}
    assert_problem(cutting.post("/v1/captures", content=body, headers=form), 422, "stopped halfway")
    assert_problem(cutting.post("/v1/captures", content=b"", headers=PCAP), 422, "empty")
    assert cutting.get("/v1/captures").json()["items"] == []


def test_the_service_that_cuts_is_started_again(cutting: TestClient, application: TestClient) -> None:
    redactor = application.app.state.redactor  # type: ignore[attr-defined]
    os.kill(redactor._process.pid, signal.SIGKILL)
    redactor._process.wait()
    capture = upload(cutting)
    assert capture["payload"] == "cut"
    assert capture["sha256"] == hashlib.sha256(stored(capture)).hexdigest()


def test_originals_are_what_was_uploaded(client: TestClient) -> None:
    capture = upload(client)
    file = client.get(f"/v1/captures/{capture['id']}/file")
    assert file.content == SAMPLE.read_bytes()
    assert f"''{SAMPLE.name}" in file.headers["Content-Disposition"]


def test_settings_are_the_owners(cutting: TestClient, other: TestClient, client_for: Client) -> None:
    url = settings_url(cutting)
    asked = {"payload": "cut", "addresses": "kept", "downloads": "allowed", "audit_days": 365}
    assert cutting.get(url).json() == asked
    assert cutting.patch(url, json={"addresses": "replaced"}).json() == {**asked, "addresses": "replaced"}
    assert_problem(cutting.patch(url, json={"payload": "kept"}), 422, "only where payload is cut")
    assert cutting.get(url).json() == {**asked, "addresses": "replaced"}
    assert other.get(url).status_code == other.patch(url, json={}).status_code == 404
    with engine().connect() as connection:
        secret = connection.scalar(select(Team.secret).where(Team.id == uuid.UUID(url.split("/")[3])))
    assert secret is not None
    assert len(secret) == 32
    for path in (url, "/v1/teams/me"):
        assert secret.hex() not in cutting.get(path).text


def test_a_team_forbids_downloads(cutting: TestClient, other: TestClient) -> None:
    url = f"/v1/captures/{upload(cutting)['id']}"
    set_to(cutting, downloads="forbidden")
    assert cutting.get("/v1/teams/me").json()["downloads"] == "forbidden"
    assert_problem(cutting.get(f"{url}/file"), 403, "the team forbids downloads")
    assert_problem(other.get(f"{url}/file"), 404, "no such capture")
    assert cutting.get(f"{url}/connections").status_code == 200, "metrics are no captures"
    told = cutting.get(f"/v1/teams/{settings_url(cutting).split('/')[3]}/audit", params={"action": "export"}).json()
    assert not told["items"], "nobody got anything"
    set_to(cutting, downloads="allowed")
    assert cutting.get(f"{url}/file").status_code == 200


def test_the_copy_is_the_cores(cutting: TestClient, tmp_path: Any) -> None:
    with SAMPLE.open("rb") as source, (tmp_path / "copy").open("w+b") as target:
        redact(source.fileno(), target.fileno(), None, "sample")
        target.seek(0)
        assert stored(upload(cutting)) == target.read()
