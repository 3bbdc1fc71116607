"""A real OpenID Connect provider as a process, and a browser that signs in there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from deploy.run import BIN, stop_process

SECRET = "the secret of rewindow: with a colon, %, +"
"""As provider.mjs has it."""


class RealProvider:
    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self._http = httpx2.Client(verify=False, timeout=60)  # of http: certificates need not be loaded

    def close(self) -> None:
        self._http.close()

    def control(self, **changes: Any) -> dict[str, int]:
        """Changes people, options or keys. Returns how often each path was asked for."""
        answer = self._http.post(f"{self.issuer}/control", json=changes)
        return dict(answer.raise_for_status().json())

    def sign_in(self, address: str, person: str) -> str:
        """What a browser does at the provider, by HTTP. Returns the address that it is sent back to."""
        with httpx2.Client(base_url=self.issuer, verify=False, timeout=60) as browser:
            answer = browser.get(address)
            while "location" in answer.headers:
                if not answer.headers["location"].startswith(("/", self.issuer)):
                    return answer.headers["location"]
                answer = browser.get(answer.headers["location"])
                if answer.status_code == 200:
                    form = {"prompt": "login", "login": person, "password": "any"}
                    answer = browser.post(answer.url, data=form)
            raise AssertionError(f"the provider shows {answer.status_code}: {answer.text[:2000]}")


@contextmanager
def provider(*redirect_uris: str) -> Iterator[RealProvider]:
    process = subprocess.Popen(
        [BIN / "node", "provider.mjs", json.dumps(redirect_uris)], cwd=Path(__file__).parent,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        # It may say first that its keys are kept in memory only.
        issuer = next(line for line in process.stdout if line.startswith(b"http")).decode().strip()
        started = RealProvider(issuer)
        yield started
        started.close()
    finally:
        stop_process(process)
        process.stdin.close()
        process.stdout.close()
