from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from api.changes import service
from api.events import STREAM, Events, as_events
from api.security import Reader
from store.changes import parsed

router = APIRouter(prefix="/v1/events", tags=["events"])

_CURSOR_MAX = 4000
"""Characters: a cursor names the transactions that were running, of which PostgreSQL has at most some hundreds."""


@router.get("", response_class=StreamingResponse, responses=STREAM)
async def events(
    caller: Reader,
    poller: Events,
    since: Annotated[
        str | None, Query(max_length=_CURSOR_MAX, description="the id of the last event that was received")
    ] = None,
    last_event_id: Annotated[
        str | None, Header(max_length=_CURSOR_MAX, description="as `since`; a browser sends it when it comes again")
    ] = None,
) -> StreamingResponse:
    """Server-sent events of all that the team works on: captures, replays, segments, what-ifs, sweeps and checks.

    `changes` has a list of what has changed since the event before, each object once, as it is now: `kind` (capture,
    replay, segments, whatif, sweep, check), `id`, `connection_id` where it is of one, `state` (`deleted`: it is not
    there any more), and the progress, as the streams of single objects tell it. `refresh` is the first event without
    `since`, and comes where more has changed than is told one by one, or where it is no longer known: what was read
    before may be old, and is to be read again. The stream ends when the token or the session does, and after ten
    minutes; who comes again with the id of the last event misses nothing. Ids are known for five minutes.
    """
    given = last_event_id if last_event_id is not None else since
    cursor = None if given is None else parsed(given)
    return as_events(poller.changes_of_team(service.look, caller, cursor))
