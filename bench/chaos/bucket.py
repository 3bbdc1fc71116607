"""A bucket that breaks on demand, over as much of S3's REST API as the service uses.

Objects and unfinished multipart uploads are in memory. `Held.mode` says how it behaves:
`well`; `full` (nothing can be written, as a store of one's own without room answers: 507); `readonly` (403); `slow`
(each request takes SLOW_S longer); `away` (each connection is closed without an answer).
"""

from __future__ import annotations

import hashlib
import re
import sys
import threading
import time
import urllib.parse
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape, unescape

SLOW_S = 1.0
_NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


@dataclass
class Unfinished:
    """A multipart upload under way."""

    key: str
    began: datetime
    parts: dict[int, tuple[bytes, datetime]] = field(default_factory=dict)


@dataclass
class Held:
    mode: str = "well"
    objects: dict[str, tuple[bytes, datetime]] = field(default_factory=dict)
    unfinished: dict[str, Unfinished] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    held: Held

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _handle(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        _, _, *rest = urllib.parse.unquote(url.path).split("/", 2)
        key = rest[0] if rest else ""
        body = self._body()
        mode = self.held.mode
        if mode == "away":
            self.close_connection = True
            return
        if mode == "slow":
            time.sleep(SLOW_S)
        deletes = self.command == "DELETE" or "delete" in query
        writes = self.command in ("PUT", "POST") and not deletes
        if writes and mode == "full":
            self._refuse(507, "InsufficientStorage")
        elif (writes or deletes) and mode == "readonly":
            self._refuse(403, "AccessDenied")
        else:
            with self.held.lock:
                getattr(self, f"_{self.command.lower()}")(key, query, body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle  # names of http.server

    def _put(self, key: str, query: dict[str, str], body: bytes) -> None:
        if "uploadId" in query:
            upload = self.held.unfinished.get(query["uploadId"])
            if upload is None:
                self._refuse(404, "NoSuchUpload")
                return
            upload.parts[int(query["partNumber"])] = (body, datetime.now(UTC))
        else:
            self.held.objects[key] = (body, datetime.now(UTC))
        self._answer(200, ETag=f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"')

    def _post(self, key: str, query: dict[str, str], body: bytes) -> None:
        if "uploads" in query:
            name = uuid.uuid4().hex
            self.held.unfinished[name] = Unfinished(key, datetime.now(UTC))
            self._answer(
                200, f"<InitiateMultipartUploadResult {_NAMESPACE}><UploadId>{name}</UploadId>"
                f"<Key>{escape(key)}</Key><Bucket>b</Bucket></InitiateMultipartUploadResult>".encode(),
            )  # fmt: skip
            return
        if "delete" in query:
            names = [name.decode() for name in re.findall(rb"<Key>([^<]*)</Key>", body)]
            for name in names:
                self.held.objects.pop(unescape(name), None)
            deleted = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
            self._answer(200, f"<DeleteResult {_NAMESPACE}>{deleted}</DeleteResult>".encode())
            return
        upload = self.held.unfinished.pop(query["uploadId"], None)
        if upload is None:
            self._refuse(404, "NoSuchUpload")
            return
        numbers = [int(n) for n in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
        self.held.objects[key] = (b"".join(upload.parts[n][0] for n in numbers), datetime.now(UTC))
        self._answer(
            200,
            f'<CompleteMultipartUploadResult {_NAMESPACE}><ETag>"x"</ETag></CompleteMultipartUploadResult>'.encode(),
        )

    def _get(self, key: str, query: dict[str, str], _: bytes) -> None:
        if "uploads" in query:
            self._list_uploads(query)
        elif "uploadId" in query:
            self._list_parts(query["uploadId"])
        elif not key:
            self._list(query)
        elif key not in self.held.objects:
            self._refuse(404, "NoSuchKey")
        else:
            self._send(*self.held.objects[key])

    def _send(self, data: bytes, changed: datetime) -> None:
        headers = {"Last_Modified": format_datetime(changed, usegmt=True), "ETag": '"x"'}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            self._answer(200, data, **headers)
            return
        first = int(asked[1])
        last = min(int(asked[2]) if asked[2] else len(data) - 1, len(data) - 1)
        self._answer(206, data[first : last + 1], Content_Range=f"bytes {first}-{last}/{len(data)}", **headers)

    def _list(self, query: dict[str, str]) -> None:
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{changed.isoformat()}</LastModified>"
            f'<ETag>"x"</ETag><Size>{len(data)}</Size></Contents>'
            for key, (data, changed) in sorted(self.held.objects.items())
            if key.startswith(query.get("prefix", ""))
        )
        head = f"<Name>b</Name><IsTruncated>false</IsTruncated><KeyCount>{found.count('<Key>')}</KeyCount>"
        self._answer(200, f"<ListBucketResult {_NAMESPACE}>{head}{found}</ListBucketResult>".encode())

    def _list_uploads(self, query: dict[str, str]) -> None:
        found = "".join(
            f"<Upload><Key>{escape(u.key)}</Key><UploadId>{name}</UploadId>"
            f"<Initiated>{u.began.isoformat()}</Initiated></Upload>"
            for name, u in self.held.unfinished.items()
            if u.key.startswith(query.get("prefix", ""))
        )
        text = f"<ListMultipartUploadsResult {_NAMESPACE}><IsTruncated>false</IsTruncated>{found}"
        self._answer(200, f"{text}</ListMultipartUploadsResult>".encode())

    def _list_parts(self, name: str) -> None:
        if name not in self.held.unfinished:
            self._refuse(404, "NoSuchUpload")
            return
        found = "".join(
            f"<Part><PartNumber>{n}</PartNumber><LastModified>{stored.isoformat()}</LastModified></Part>"
            for n, (_, stored) in sorted(self.held.unfinished[name].parts.items())
        )
        text = f"<ListPartsResult {_NAMESPACE}><IsTruncated>false</IsTruncated>{found}</ListPartsResult>"
        self._answer(200, text.encode())

    def _head(self, key: str, _: dict[str, str], __: bytes) -> None:
        if key in self.held.objects:
            data, changed = self.held.objects[key]
            self._answer(
                200, Content_Length=str(len(data)), ETag='"x"', Last_Modified=format_datetime(changed, usegmt=True)
            )
        else:
            self._answer(404, Content_Length="0")

    def _delete(self, key: str, query: dict[str, str], _: bytes) -> None:
        if "uploadId" in query:
            self.held.unfinished.pop(query["uploadId"], None)
        else:
            self.held.objects.pop(key, None)
        self._answer(204)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # the client was killed
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def serve(held: Held) -> ThreadingHTTPServer:
    """A server on a free port of the loopback interface."""
    return _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"held": held}))
