"""Uploads that go on after an interruption: tus 1.0.0 (https://tus.io/protocols/resumable-upload)."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, BackgroundTasks, Header, Path, Request, Response

from api import wakeups
from api.errors import UPLOADS, problem
from api.resumable import protocol, service
from api.resumable.schemas import UploadOut
from api.security import Reader, Session
from store.models import JobKind
from store.settings import settings

router = APIRouter(prefix=UPLOADS, tags=["uploads"])

UploadId = Annotated[str, Path(description="The end of the address that POST /v1/uploads has answered.")]


Problems: TypeAlias = dict[int | str, dict[str, Any]]


def _header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


_OFFSET = {"Upload-Offset": _header("Bytes that are safe: the upload goes on there.")}
_EXPIRES = {"Upload-Expires": _header("When it is given up, unless something is added to it before.")}
_VERSION: Problems = {412: problem(f"The header Tus-Resumable is not {protocol.VERSION}.")}
_OVER: Problems = {410: problem("Nothing was added to it for too long; Upload-Expires says until when it was kept.")}
_IN_USE: Problems = {423: problem("Another request is adding to the upload; Retry-After says when to ask again.")}


@router.options(
    "",
    status_code=204,
    responses={
        204: {
            "description": "What the server can do.",
            "headers": {
                "Tus-Version": _header(protocol.VERSION),
                "Tus-Extension": _header(protocol.EXTENSIONS),
                "Tus-Max-Size": _header("Bytes that an upload may have."),
                "Tus-Checksum-Algorithm": _header(protocol.CHECKSUMS),
            },
        }
    },
)
async def options() -> Response:
    """What the server can do."""
    told = {
        "Tus-Version": protocol.VERSION,
        "Tus-Extension": protocol.EXTENSIONS,
        "Tus-Max-Size": str(settings().upload_bytes_max),
        "Tus-Checksum-Algorithm": protocol.CHECKSUMS,
    }
    return Response(status_code=204, headers=told)


@router.post(
    "",
    status_code=201,
    response_class=Response,
    responses={
        201: {
            "description": "It has begun.",
            "headers": {
                "Location": _header("Its address, which is a secret: whoever has a token of the team can add to it."),
                **_EXPIRES,
            },
        },
        400: problem("Upload-Length is missing or no number; Upload-Metadata is broken; a tag is not key=value."),
        **_VERSION,
        413: problem("The capture is larger than the server takes."),
        422: problem("The upload would be empty; Upload-Metadata has a key that is unknown."),
        429: problem(
            "The team has too many jobs that wait or run, or uploads that are not complete, or stores too many bytes,"
            " or sends too many requests; Retry-After says when to try again."
        ),
    },
)
async def begin(
    session: Session,
    caller: protocol.TusWriter,
    upload_length: Annotated[
        str | None, Header(description="Bytes that it will have.", json_schema_extra=protocol.NUMBER)
    ] = None,
    upload_metadata: Annotated[
        str | None,
        Header(
            description="`filename`, and `tags`: a JSON list of texts key=value. Each key is followed by its value in"
            " base64; commas stand between them. `filetype` is ignored."
        ),
    ] = None,
) -> Response:
    """Begins an upload that goes on after an interruption (tus 1.0.0). When it is complete it is a capture, the same
    as POST /v1/captures makes of these bytes."""
    length = protocol.number("Upload-Length", upload_length)
    begun = await service.begin(session, caller, length, protocol.metadata(upload_metadata))
    told = {"Location": f"{UPLOADS}/{begun.secret}", "Upload-Expires": protocol.date(begun.expires_at)}
    return Response(status_code=201, headers=told)


@router.head(
    "/{upload_id}",
    response_class=Response,
    responses={
        200: {
            "description": "How much of it is safe.",
            "headers": {
                **_OFFSET,
                "Upload-Length": _header("Bytes that it will have."),
                "Upload-Metadata": _header("As it was given."),
                **_EXPIRES,
            },
        },
        **_OVER,
        **_VERSION,
    },
)
async def ask(session: Session, caller: protocol.TusWriter, upload_id: UploadId) -> Response:
    """Where an upload goes on."""
    upload = await service.find(session, caller, upload_id)
    headers = {
        "Upload-Offset": str(upload.received),
        "Upload-Length": str(upload.length),
        "Upload-Expires": protocol.date(upload.expires_at),
        "Cache-Control": "no-store",
    }
    return Response(headers=headers | ({"Upload-Metadata": upload.told} if upload.told else {}))


@router.get("/{upload_id}", responses=_OVER)
async def get(session: Session, caller: Reader, upload_id: UploadId) -> UploadOut:
    """How far an upload is, and the capture that it has become."""
    return await service.told(session, caller, upload_id)


@router.patch(
    "/{upload_id}",
    status_code=204,
    response_class=Response,
    responses={
        204: {"description": "It was added.", "headers": {**_OFFSET, **_EXPIRES}},
        400: problem("Upload-Offset or Upload-Checksum is missing where it must be, or broken."),
        408: problem("No data arrived for a while; what had arrived is kept."),
        409: problem("The upload goes on at another byte, which Upload-Offset tells; or it has just ended."),
        **_OVER,
        **_VERSION,
        413: problem("More was sent than is missing; or the capture, no longer compressed, is larger than may be."),
        415: problem(f"Content-Type is not {protocol.MEDIA_TYPE}."),
        422: problem("The body stopped halfway; what had arrived is kept. A parameter is unknown."),
        **_IN_USE,
        429: problem(
            "The team has too many jobs that wait or run, or stores too many bytes, or sends too many requests;"
            " Retry-After says when to send the rest."
        ),
        460: problem("The body has another checksum than Upload-Checksum says; it was discarded."),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {protocol.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def append(
    request: Request,
    background: BackgroundTasks,
    caller: protocol.TusWriter,
    upload_id: UploadId,
    upload_offset: Annotated[
        str | None, Header(description="Where the body belongs: what HEAD tells.", json_schema_extra=protocol.NUMBER)
    ] = None,
    upload_checksum: Annotated[
        str | None, Header(description=f"Of the body: {protocol.CHECKSUMS}, then base64. None of it is kept before.")
    ] = None,
) -> Response:
    """Adds the body to an upload. What arrives is kept even if the connection breaks. With the last byte the capture is
    stored, which may take a while; GET tells it."""
    protocol.require_media_type(request.headers.get("content-type"))
    offset = protocol.number("Upload-Offset", upload_offset)
    checksum = None if upload_checksum is None else protocol.Checksum(upload_checksum)
    done = await service.append(caller, upload_id, request, offset, checksum, request.app.state.redactor)
    if done.job_id:
        background.add_task(wakeups.wake, done.job_id, JobKind.analyze)
    told = {"Upload-Offset": str(done.received), "Upload-Expires": protocol.date(done.expires_at)}
    return Response(status_code=204, headers=told, background=background)


@router.delete("/{upload_id}", status_code=204, responses={**_OVER, **_VERSION, **_IN_USE})
async def end(caller: protocol.TusWriter, upload_id: UploadId) -> None:
    """Gives an upload up. A capture that it has become stays."""
    await service.end(caller, upload_id)
