"""Uploads that go on after an interruption (tus 1.0.0): they end as a plain upload of the same bytes does."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import json
import os
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select, update

from api.resumable import pieces, service
from store import uploads_folder
from store.database import engine
from store.models import AuditEvent, Incoming, ResumableUpload
from store.settings import settings as of_services
from tests.conftest import make_token
from tests.packets import Trace
from tests.service.conftest import Client
from tests.service.test_api import PCAP, SAMPLE, assert_problem, objects
from tests.service.test_limits import refused, run
from worker.collector import forget_resumable_uploads

CONTENT = SAMPLE.read_bytes()
TUS = {"Tus-Resumable": "1.0.0"}
OF_CAPTURE = ("sha256", "bytes", "payload", "addresses", "filename", "tags", "error")


def metadata(**values: str) -> str:
    return ",".join(f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in values.items())


def begin(client: TestClient, length: int, **told: str) -> str:
    """Its address."""
    headers = {**TUS, "Upload-Length": str(length), **({"Upload-Metadata": metadata(**told)} if told else {})}
    response = client.post("/v1/uploads", headers=headers)
    assert response.status_code == 201, response.text
    assert response.headers["Tus-Resumable"] == "1.0.0"
    return str(response.headers["Location"])


def patch(client: TestClient, address: str, offset: object, content: Any, **headers: str) -> Any:
    of_body = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": str(offset)}
    return client.patch(address, content=content, headers={**TUS, **of_body, **headers})


def offset(client: TestClient, address: str) -> int:
    response = client.head(address, headers=TUS)
    assert response.status_code == 200, response.headers
    assert response.headers["Cache-Control"] == "no-store"
    return int(response.headers["Upload-Offset"])


def sent(client: TestClient, content: bytes, **told: str) -> dict[str, Any]:
    """The capture that a resumable upload in one request becomes."""
    address = begin(client, len(content), **told)
    response = patch(client, address, 0, content)
    assert (response.status_code, response.headers["Upload-Offset"]) == (204, str(len(content))), response.text
    return dict(client.get(address).json()["capture"])


Message = dict[str, Any]


def part(content: bytes) -> Message:
    return {"type": "http.request", "body": content, "more_body": True}


BROKEN: Message = {"type": "http.disconnect"}


def patch_in_pieces(
    application: TestClient, token: str, address: str, offset: int, messages: AsyncIterator[Message], **headers: str
) -> tuple[int, dict[str, Any]]:
    """A request whose body comes as these messages of ASGI. Returns status and problem."""
    of_body = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": str(offset)}
    named = {**TUS, **of_body, "Authorization": f"Bearer {token}", **headers}
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "PATCH", "scheme": "http",
        "path": address, "raw_path": address.encode(), "query_string": b"", "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in named.items()],
        "client": ("127.0.0.1", 1), "server": ("testserver", 80), "state": {},
    }  # fmt: skip
    answered: list[Message] = []

    async def receive() -> Message:
        return await anext(messages, BROKEN)

    async def send(message: Message) -> None:
        answered.append(message)

    async def ask() -> None:
        await application.app(scope, receive, send)

    run(application, ask)
    body = b"".join(m.get("body", b"") for m in answered)
    return answered[0]["status"], json.loads(body or b"{}")


async def breaking(content: bytes) -> AsyncIterator[Message]:
    """The connection breaks after these bytes."""
    yield part(content)
    yield BROKEN


async def silent(content: bytes) -> AsyncIterator[Message]:
    """Nothing comes after these bytes, and the connection stays open."""
    yield part(content)
    await asyncio.Event().wait()


def row_of(address: str) -> Any:
    with engine().connect() as connection:
        of_it = ResumableUpload.secret_hash == hashlib.sha256(address.rsplit("/", 1)[1].encode()).digest()
        return connection.execute(select(ResumableUpload.__table__).where(of_it)).one_or_none()


def changed(address: str, **values: Any) -> None:
    with engine().begin() as connection:
        connection.execute(update(ResumableUpload).where(ResumableUpload.id == row_of(address).id).values(**values))


def is_left(upload: uuid.UUID) -> bool:
    """Is there a file, or room taken?"""
    with engine().connect() as connection:
        room = connection.scalar(select(func.count()).select_from(Incoming).where(Incoming.id == upload))
    return bool(room) or uploads_folder.path_of(upload).exists()


def test_what_the_server_can_do(application: TestClient) -> None:
    response = application.options("/v1/uploads")
    assert response.status_code == 204
    assert {name: response.headers[name] for name in ("Tus-Resumable", "Tus-Version", "Tus-Extension")} == {
        "Tus-Resumable": "1.0.0", "Tus-Version": "1.0.0", "Tus-Extension": "creation,expiration,checksum,termination",
    }  # fmt: skip
    assert response.headers["Tus-Max-Size"] == str(of_services().upload_bytes_max)
    assert response.headers["Tus-Checksum-Algorithm"] == "sha1,sha256"


@pytest.mark.parametrize("payload", ["kept", "cut"])
def test_it_ends_as_a_plain_upload(client_for: Client, payload: str) -> None:
    plainly, resumably = (client_for(make_token(["read", "write", "admin"], payload=payload)) for _ in range(2))
    query = "filename=a%20%C3%A9.pcap&tag=site%3Da%2Cb&tag=run%3D7"
    expected = plainly.post(f"/v1/captures?{query}", content=CONTENT, headers=PCAP).json()
    found = sent(resumably, CONTENT, filename="x/a é.pcap", tags='["site=a,b", "run=7"]', filetype="any")
    assert {name: found[name] for name in OF_CAPTURE} == {name: expected[name] for name in OF_CAPTURE}
    assert (found["already_here"], found["restored"]) == (False, False)
    stored = [c.get(f"/v1/captures/{which['id']}/file") for c, which in ((plainly, expected), (resumably, found))]
    assert stored[0].content == stored[1].content
    assert (stored[0].content == CONTENT) == (payload == "kept")
    events = [c.get("/v1/teams/me").json()["id"] for c in (plainly, resumably)]
    with engine().connect() as connection:
        noted = [
            connection.execute(
                select(AuditEvent.action, AuditEvent.object_name, AuditEvent.detail).where(
                    AuditEvent.team_id == uuid.UUID(team), AuditEvent.action == "upload"
                )
            ).all()
            for team in events
        ]
    assert noted[0] == noted[1] != []


def test_the_same_bytes_are_one_capture(client: TestClient) -> None:
    first = client.post("/v1/captures?tag=a%3D1", content=CONTENT, headers=PCAP).json()
    before = objects()
    second = sent(client, CONTENT, tags='["b=2"]')
    assert (second["id"], second["already_here"], second["tags"]) == (first["id"], True, {"a": "1", "b": "2"})
    again = client.post("/v1/captures", content=CONTENT, headers=PCAP).json()
    assert (again["id"], again["already_here"]) == (first["id"], True)
    assert objects() == before


def test_no_capture_is_refused_as_a_plain_upload_is(client_for: Client) -> None:
    """Nothing is kept of what cannot be read, where payload is cut."""
    plainly, resumably = (client_for(make_token(["read", "write"], payload="cut")) for _ in range(2))
    expected = plainly.post("/v1/captures", content=b"no capture", headers=PCAP).json()
    assert sent(resumably, b"no capture")["bytes"] == expected["bytes"] == 0


def reads_nothing_of(content: bytes) -> bool:
    """Is none of it in the folder of uploads?"""
    kept = b"".join(path.read_bytes() for path in uploads_folder.folder().iterdir())
    return all(content[i : i + 16] not in kept for i in range(0, len(content) - 16, 16))


def test_what_arrives_is_unreadable_and_goes(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(5000)
    address = begin(client, len(content))
    assert patch(client, address, 0, content[:4000]).status_code == 204
    upload = row_of(address).id
    path = uploads_folder.path_of(upload)
    assert path.stat().st_size >= 4000
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert reads_nothing_of(content)
    assert address.rsplit("/", 1)[1] not in repr(row_of(address)), "the key does not follow from the database"
    assert patch(client, address, 4000, content[4000:]).status_code == 204
    assert not is_left(upload)
    client.delete(address, headers=TUS)
    assert client.get(f"/v1/captures/{client.get('/v1/captures').json()['items'][0]['id']}/file").content == content


@given(data=st.data())
@settings(
    max_examples=12, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
def test_any_way_to_cut_it_ends_in_the_same_capture(
    application: TestClient, client: TestClient, token: str, data: st.DataObject
) -> None:
    """With parts that are sent twice, that end before their time, or that arrive at the wrong place."""
    content = data.draw(st.binary(min_size=1, max_size=300).map(lambda b: b * 4), "content")
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(pieces, "PIECE_BYTES", data.draw(st.sampled_from([20, 100, 1 << 20]), "piece"))
        patches.setattr(service, "STEP_BYTES", data.draw(st.sampled_from([1, 50, 1 << 20]), "step"))
        address, at = begin(client, len(content)), 0
        while at < len(content):
            some = content[at : at + data.draw(st.integers(1, len(content)), "size")]
            how = data.draw(st.sampled_from(["whole", "again", "broken", "wrong"]), "how")
            if how == "broken":
                some = some[: data.draw(st.integers(0, len(some) - 1), "keeps")]
                assert patch_in_pieces(application, token, address, at, breaking(some))[0] == 422
                at += len(some)
                assert offset(client, address) == at
                continue
            if how == "wrong":
                assert_problem(patch(client, address, at + 1, some), 409, f"goes on at byte {at}, not at {at + 1}")
                assert offset(client, address) == at
                continue
            added = patch(client, address, at, some)
            assert (added.status_code, added.headers["Upload-Offset"]) == (204, str(at + len(some)))
            if how == "again":
                assert patch(client, address, at, some).status_code == 409
            at += len(some)
            assert offset(client, address) == at
    found = client.get(address).json()["capture"]
    assert found["sha256"] == hashlib.sha256(content).hexdigest()
    plainly = client.post("/v1/captures", content=content, headers=PCAP).json()
    assert (plainly["id"], plainly["already_here"]) == (found["id"], True)


@pytest.mark.parametrize(
    ("headers", "status", "detail"),
    [
        ({}, 400, "Upload-Length must be a number"),
        ({"Upload-Defer-Length": "1"}, 400, "Upload-Length must be a number"),
        *(({"Upload-Length": n}, 400, "must be a number") for n in ("-1", "+1", "1.5", "0x10", "", "1" * 40, "\u0661")),
        ({"Upload-Length": "0"}, 422, "the upload is empty"),
        ({"Upload-Length": str(10**17)}, 413, "a capture may have at most"),
        *(
            ({"Upload-Length": "9", "Upload-Metadata": told}, 400, detail)
            for told, detail in (
                ("filename a", "no text in base64"), ("filename %%%%", "no text in base64"),
                ("filename /w==", "no text in base64"), ("filename YQ==,filename YQ==", "given twice"),
                (",", "no key"), ("filename YQ== YQ==", "no text in base64"), ("f\u00e9 YQ==", "no key"),
                ("filename " + "YQ" * 9000, "16384 characters"),
                (metadata(tags="[1]"), "tags must be"), (metadata(tags="{}"), "tags must be"),
                (metadata(tags="[" * 9000), "tags must be"), (metadata(tags='["x"]'), "not of the form key=value"),
            )
        ),
        ({"Upload-Length": "9", "Upload-Metadata": "tag YQ=="}, 422, "unknown key 'tag'"),
        ({"Upload-Length": "9", "Upload-Metadata": metadata(filename="x" * 501)}, 422, "500 characters"),
        ({"Upload-Length": "9", "Tus-Resumable": "0.2.2"}, 412, "must be 1.0.0"),
    ],
)  # fmt: skip
def test_beginnings_that_are_refused(client: TestClient, headers: dict[str, str], status: int, detail: str) -> None:
    raw = {name: value.encode("latin-1" if "\u0661" not in value else "utf-8") for name, value in headers.items()}
    response = client.post("/v1/uploads", headers={**TUS, **raw})
    assert_problem(response, status, detail)
    assert response.headers["Tus-Resumable"] == "1.0.0"
    assert response.headers.get("Tus-Version") == ("1.0.0" if status == 412 else None)


@pytest.mark.parametrize(
    ("headers", "status", "detail"),
    [
        *(({"Upload-Offset": n}, 400, "must be a number") for n in ("-1", "x", "", "1" * 40)),
        ({"Upload-Offset": str(10**17)}, 409, "goes on at byte 0"),
        ({"Content-Type": "application/octet-stream"}, 415, "application/offset+octet-stream"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415, "application/offset+octet-stream"),
        ({"Tus-Resumable": "2.0.0"}, 412, "must be 1.0.0"),
        ({"Upload-Checksum": "md5 YQ=="}, 400, "there are: sha1,sha256"),
        ({"Upload-Checksum": "sha1"}, 460, "another checksum"),
        ({"Upload-Checksum": "sha1 ???"}, 400, "no base64"),
    ],
)
def test_parts_that_are_refused(client: TestClient, headers: dict[str, str], status: int, detail: str) -> None:
    address = begin(client, 100)
    assert_problem(patch(client, address, 0, b"x" * 50, **headers), status, detail)
    assert offset(client, address) == 0


def test_more_than_is_missing(application: TestClient, client: TestClient, token: str) -> None:
    async def in_two(first: int, second: int) -> AsyncIterator[Message]:
        """Without a length."""
        yield part(b"x" * first)
        yield part(b"x" * second)

    address = begin(client, 100)
    assert_problem(patch(client, address, 0, b"x" * 101), 413, "100 bytes of the upload are missing")
    assert offset(client, address) == 0
    status, problem = patch_in_pieces(application, token, address, 0, in_two(60, 60))
    assert (status, problem["detail"]) == (413, "40 bytes of the upload are missing, and more were sent")
    assert offset(client, address) == 60
    status, problem = patch_in_pieces(application, token, address, 60, in_two(40, 1))
    assert (status, problem["detail"]) == (413, "0 bytes of the upload are missing, and more were sent")
    assert offset(client, address) == 60
    assert client.get("/v1/captures").json()["items"] == []


def test_the_end_that_arrives_without_being_told(application: TestClient, client: TestClient, token: str) -> None:
    """The connection breaks behind the last byte of a body without a length: there might have been more."""
    address = begin(client, 100)
    assert patch_in_pieces(application, token, address, 0, breaking(b"x" * 100))[0] == 422
    assert offset(client, address) == 0
    assert client.get("/v1/captures").json()["items"] == []


def test_a_client_that_falls_silent(
    application: TestClient, client: TestClient, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "IDLE_S", 0.05)
    address = begin(client, 100)
    status, problem = patch_in_pieces(application, token, address, 0, silent(b"x" * 60))
    assert (status, problem["detail"]) == (408, "no data arrived for 0 s; what has arrived is kept")
    assert offset(client, address) == 60
    monkeypatch.setattr(service, "IDLE_S", 10.0)
    assert patch(client, address, 60, b"x" * 40).status_code == 204


def test_checksums(application: TestClient, client: TestClient, token: str) -> None:
    address = begin(client, 100)
    for name, made in (("sha1", hashlib.sha1), ("sha256", hashlib.sha256)):
        at = offset(client, address)
        right = f"{name} {base64.b64encode(made(b'y' * 50).digest()).decode()}"
        wrong = patch(client, address, at, b"x" * 50, **{"Upload-Checksum": right})
        assert_problem(wrong, 460, "another checksum")
        assert wrong.json()["title"] == "Checksum Mismatch"
        pieces_of_it = breaking(b"y" * 9)
        status, problem = patch_in_pieces(application, token, address, at, pieces_of_it, **{"Upload-Checksum": right})
        assert (status, problem["detail"]) == (422, "the body stopped halfway; what has arrived was discarded")
        assert offset(client, address) == at, "nothing is kept before it was compared"
        assert patch(client, address, at, b"y" * 50, **{"Upload-Checksum": right}).status_code == 204
    assert client.get(address).json()["capture"]["sha256"] == hashlib.sha256(b"y" * 100).hexdigest()


def test_who_may(client_for: Client, client: TestClient, other: TestClient, application: TestClient) -> None:
    address = begin(client, len(CONTENT))
    reader = client_for(make_token(["read"]))
    requests = {
        "HEAD": lambda who: who.head(address, headers=TUS),
        "GET": lambda who: who.get(address),
        "PATCH": lambda who: patch(who, address, 0, CONTENT),
        "DELETE": lambda who: who.delete(address, headers=TUS),
    }
    for name, request in requests.items():
        assert request(other).status_code == 404
        assert request(reader).status_code == (404 if name == "GET" else 403)
        assert request(application).status_code == 401
    assert reader.post("/v1/uploads", headers={**TUS, "Upload-Length": "1"}).status_code == 403
    assert application.post("/v1/uploads", headers={**TUS, "Upload-Length": "1"}).status_code == 401
    assert offset(client, address) == 0
    assert not uploads_folder.path_of(row_of(address).id).exists()
    assert patch(client, address, 0, CONTENT).status_code == 204
    for name, request in requests.items():
        if name != "DELETE":
            assert request(other).status_code == 404


@pytest.mark.parametrize(
    "name",
    ["x", "..", "%2e%2e", "..%2f..%2fetc%2fpasswd", "../../etc/passwd", "a/b", "id", "%00", "\u00e9", "x" * 5000,
     str(uuid.UUID(int=1)), "%ed%a0%80"],
)  # fmt: skip
def test_ids_that_are_none(client: TestClient, name: str) -> None:
    before = sorted(uploads_folder.folder().iterdir())
    for method in ("head", "patch", "delete", "get"):
        response = getattr(client, method)(f"/v1/uploads/{name}", headers={
            **TUS, "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"
        })  # fmt: skip
        assert response.status_code in ((404, 405) if "." in name or "/" in name else (404,)), (method, response.text)
    assert sorted(uploads_folder.folder().iterdir()) == before


def test_one_of_two_at_a_time_wins(application: TestClient, client: TestClient, token: str) -> None:
    address = begin(client, len(CONTENT))
    second: list[Any] = []

    async def slowly() -> AsyncIterator[Message]:
        """The other requests come while this one has brought half of its body."""
        yield part(CONTENT[:5000])
        second.append(await asyncio.to_thread(patch, client, address, 0, CONTENT))
        second.append(await asyncio.to_thread(client.delete, address, headers=TUS))
        assert await asyncio.to_thread(offset, client, address) == 0
        yield {"type": "http.request", "body": CONTENT[5000:], "more_body": False}

    assert patch_in_pieces(application, token, address, 0, slowly())[0] == 204
    for response in second:
        assert_problem(response, 423, "another request is adding")
        assert response.headers["Retry-After"] == "1"
    assert client.get(address).json()["capture"]["sha256"] == hashlib.sha256(CONTENT).hexdigest()
    assert patch(client, address, len(CONTENT), b"").status_code == 204, "it is complete"
    assert_problem(patch(client, address, 0, CONTENT), 409, f"goes on at byte {len(CONTENT)}")


def test_too_much_is_refused(client: TestClient, other: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upload that has begun takes its room until it ends."""
    monkeypatch.setattr(of_services(), "team_bytes_max", 30_000)
    address = begin(client, 20_000)
    asked = {**TUS, "Upload-Length": "20000"}
    assert refused(client.post("/v1/uploads", headers=asked), "this needs 20000") == 60
    assert refused(client.post("/v1/captures", content=CONTENT[:20_000], headers=PCAP), "this needs 20000") == 60
    assert other.post("/v1/uploads", headers=asked).status_code == 201
    assert client.delete(address, headers=TUS).status_code == 204
    assert client.head(address, headers=TUS).status_code == 404
    address = begin(client, 20_000)
    with monkeypatch.context() as patches:
        patches.setattr(service, "UNFINISHED_MAX", 1)
        one = client.post("/v1/uploads", headers={**asked, "Upload-Length": "1"})
        assert refused(one, "1 uploads that are not") == 60
    assert patch(client, address, 0, CONTENT[:20_000]).status_code == 204
    monkeypatch.setattr(of_services(), "team_jobs_max", 1)
    assert refused(client.post("/v1/uploads", headers={**asked, "Upload-Length": "1"}), "jobs that wait") == 10


def test_the_last_part_is_sent_again_when_nothing_could_be_stored(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = begin(client, 5000), begin(client, 6000)
    assert patch(client, first, 0, CONTENT[:5000]).status_code == 204
    monkeypatch.setattr(of_services(), "team_jobs_max", 1)
    before = objects()
    assert patch(client, second, 0, CONTENT[:4000]).status_code == 204
    assert refused(patch(client, second, 4000, CONTENT[4000:6000]), "jobs that wait or run") == 10
    assert offset(client, second) == 4000, "who asks sends the end again"
    assert client.get(second).json()["capture"] is None
    assert objects() == before
    monkeypatch.setattr(of_services(), "team_jobs_max", 2)
    assert patch(client, second, 4000, CONTENT[4000:6000]).status_code == 204
    assert client.get(second).json()["capture"]["sha256"] == hashlib.sha256(CONTENT[:6000]).hexdigest()


def test_a_copy_that_would_be_too_large(client_for: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace()
    for i in range(1000):
        trace.packet(1 + i / 1000, True, i, 1)
    compressed = gzip.compress(trace.bytes())
    cutting = client_for(make_token(["read", "write"], payload="cut"))
    monkeypatch.setattr(of_services(), "upload_bytes_max", len(trace.bytes()) - 1)
    before = objects()
    expected = cutting.post("/v1/captures", content=compressed, headers=PCAP)
    address = begin(cutting, len(compressed))
    upload = row_of(address).id
    found = patch(cutting, address, 0, compressed)
    assert (found.status_code, found.json()) == (expected.status_code, expected.json())
    assert found.status_code == 413
    assert not is_left(upload)
    assert cutting.head(address, headers=TUS).status_code == 404
    assert objects() == before


def test_an_upload_that_is_given_up(client: TestClient) -> None:
    kept, dead = begin(client, 100), begin(client, 100)
    for address in (kept, dead):
        assert patch(client, address, 0, b"x" * 60).status_code == 204
    until = client.head(dead, headers=TUS).headers["Upload-Expires"]
    lasts = parsedate_to_datetime(until) - row_of(dead).created_at
    assert timedelta(hours=23) < lasts < timedelta(hours=25)
    changed(dead, expires_at=func.clock_timestamp())
    for response in (patch(client, dead, 60, b"x"), client.get(dead), client.delete(dead, headers=TUS)):
        assert_problem(response, 410, "was given up")
        assert parsedate_to_datetime(response.headers["Upload-Expires"]) <= parsedate_to_datetime(until)
    ids = {address: row_of(address).id for address in (kept, dead)}
    assert forget_resumable_uploads() >= 1
    assert not uploads_folder.path_of(ids[dead]).exists()
    assert client.head(dead, headers=TUS).status_code == 410
    changed(dead, expires_at=func.clock_timestamp() - timedelta(seconds=of_services().stray_after_s + 1))
    stray = uploads_folder.path_of(uuid.uuid4())
    stray.touch()
    assert forget_resumable_uploads() == 1
    assert not stray.exists()
    assert client.head(dead, headers=TUS).status_code == 404
    assert offset(client, kept) == 60
    assert patch(client, kept, 60, b"x" * 40).status_code == 204


def test_parts_that_a_dead_process_wrote_do_not_count(client: TestClient) -> None:
    address = begin(client, 5000)
    assert patch(client, address, 0, CONTENT[:2000]).status_code == 204
    with open(uploads_folder.path_of(row_of(address).id), "ab") as file:
        file.write(os.urandom(700))
    assert offset(client, address) == 2000
    assert patch(client, address, 2000, CONTENT[2000:5000]).status_code == 204
    assert client.get(address).json()["capture"]["sha256"] == hashlib.sha256(CONTENT[:5000]).hexdigest()


def shorter(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def other_bytes(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1]))


@pytest.mark.parametrize(("damage", "end"), [(shorter, 3000), (Path.unlink, 3000), (other_bytes, 5000)])
def test_damage_on_the_disk_is_noticed(client: TestClient, damage: Callable[[Path], None], end: int) -> None:
    """What is missing, at once; what is another, when it is read."""
    address = begin(client, 5000)
    assert patch(client, address, 0, CONTENT[:2000]).status_code == 204
    upload = row_of(address).id
    damage(uploads_folder.path_of(upload))
    assert_problem(patch(client, address, 2000, CONTENT[2000:end]), 410, "damaged on the server's disk: begin anew")
    assert client.head(address, headers=TUS).status_code == 404
    assert not is_left(upload)
    assert client.get("/v1/captures").json()["items"] == []


def test_disks_that_take_nothing(client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = begin(client, 5000)
    assert patch(client, address, 0, CONTENT[:2000]).status_code == 204
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o755)
    link = tmp_path / "link"
    link.symlink_to(uploads_folder.folder())
    for place, detail in (
        (open_to_all, "takes nothing"), (link, "takes nothing"), (tmp_path / "new", "another machine"),
    ):  # fmt: skip
        with monkeypatch.context() as patches:
            patches.setattr(of_services(), "uploads_folder", str(place))
            response = patch(client, address, 2000, CONTENT[2000:5000])
            assert_problem(response, 503, detail)
            assert int(response.headers["Retry-After"]) > 0
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 99}))
    response = client.post("/v1/uploads", headers={**TUS, "Upload-Length": "100"})
    assert_problem(response, 503, "no room for 100 bytes")
    assert offset(client, address) == 2000


def test_another_method_in_a_header(client: TestClient) -> None:
    """For clients that can send nothing but POST."""
    address = begin(client, 100)
    of_body = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": "0"}
    override = {**TUS, **of_body, "X-HTTP-Method-Override": "PATCH"}
    assert client.post(address, content=b"x" * 50, headers=override).status_code == 204
    assert offset(client, address) == 50
    assert client.post(address, headers={**TUS, "X-HTTP-Method-Override": "TRACE"}).status_code == 405


def test_what_was_told_is_told_again(client: TestClient) -> None:
    told = metadata(filename="a é.pcap", tags='["a=b"]')
    location = client.post("/v1/uploads", headers={**TUS, "Upload-Length": "9", "Upload-Metadata": told})
    head = client.head(location.headers["Location"], headers=TUS).headers
    assert (head["Upload-Metadata"], head["Upload-Length"]) == (told, "9")


def test_a_capture_that_was_deleted_since(client: TestClient) -> None:
    address = begin(client, 100)
    assert patch(client, address, 0, b"x" * 100).status_code == 204
    assert client.delete(f"/v1/captures/{client.get(address).json()['capture']['id']}").status_code == 204
    assert client.get(address).json()["capture"] is None
    assert offset(client, address) == 100
