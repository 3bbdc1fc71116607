"""Parts of uploads to a bucket whose process died: the sweeper's collector aborts them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from bench.chaos.bucket import Held, serve
from deploy.run import CHECKOUT, Services, wait_for

KEY = "captures/1/capture"
UPLOAD = f"""
import time, obstore
from store import objects
def body():
    yield bytes(17 << 20)
    time.sleep(60)
obstore.put(objects.object_store(), "{KEY}", body(), chunk_size=objects.CHUNK_BYTES)
"""


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """A bucket that the settings and AWS's variables name."""
    from store.settings import settings

    found = Held()
    with serve(found) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        given = {
            "AWS_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
        }  # fmt: skip
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(settings(), "store_url", "s3://bucket/place")
        yield found
        server.shutdown()
        thread.join()


def test_an_upload_whose_process_died_is_aborted(held: Held, services: Services) -> None:
    from store.unfinished import remove_unfinished

    environment = {**os.environ, "REWINDOW_STORE_URL": "s3://bucket/place"}
    with subprocess.Popen([sys.executable, "-c", UPLOAD], cwd=CHECKOUT, env=environment) as api:
        wait_for("two parts", lambda: any(len(u.parts) == 2 for u in held.unfinished.values()), [api])
        api.kill()
    (upload,) = held.unfinished.values()
    assert upload.key == f"place/{KEY}"
    hour = timedelta(hours=1)
    assert remove_unfinished(datetime.now(UTC) - hour) == 0, "its upload may go on"
    upload.began -= 2 * hour
    assert remove_unfinished(datetime.now(UTC) - hour) == 0, "a part came a moment ago"
    upload.parts = {n: (data, stored - 2 * hour) for n, (data, stored) in upload.parts.items()}
    other = "place/elsewhere/x"
    held.unfinished["other"] = type(upload)(other, upload.began)
    assert remove_unfinished(datetime.now(UTC) - hour) == 1
    assert [u.key for u in held.unfinished.values()] == [other], "what is not ours stays"
