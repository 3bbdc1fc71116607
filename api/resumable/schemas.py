from __future__ import annotations

from datetime import datetime

from api.captures.schemas import CaptureReceived
from api.schemas import Schema


class UploadOut(Schema):
    length: int
    """Bytes that it will have."""
    received: int
    """Bytes of it that are safe: it goes on there."""
    expires_at: datetime
    """When it is given up, unless something is added to it before."""
    capture: CaptureReceived | None
    """What it has become; null while it is not complete, and when the capture was deleted since."""
