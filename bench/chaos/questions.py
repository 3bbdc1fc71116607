"""What-ifs that a second team asks while things break, and what becomes of each."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.chaos.load import BROKEN, Answer, Client, capture

ALGORITHMS = ("cubic", "lia", "balia")
"""Asked of each capture, of which the first also begins the fit; the last is cancelled every other time."""
REPEAT = 24
"""Runs of each world: a prediction is then several parts."""
AT_ONCE = 2
"""What-ifs that wait or run."""
FIRST_NUMBER = 1 << 31
"""Numbers of captures that no upload of the first team has."""
_ENDED = ("done", "failed")


@dataclass(frozen=True)
class Asked:
    algorithm: str
    is_cancelled: bool


@dataclass
class Questions:
    """Uploads captures of its own, with the same packets in each, and asks the same what-ifs of each."""

    client: Client
    accepted: dict[str, Asked] = field(default_factory=dict)
    """Ids of what-ifs that were answered with 202."""
    ended: dict[str, str] = field(default_factory=dict)
    """Their last state: done, failed, cancelled, or gone (404 without a DELETE)."""
    errors: list[str] = field(default_factory=list)
    """Of those that failed."""
    captures: set[str] = field(default_factory=set)
    """Ids of those that were uploaded for the questions."""
    answers: dict[str, set[str]] = field(default_factory=dict)
    """For each algorithm the distinct results; captures are alike, so each has one."""
    _deleting: set[str] = field(default_factory=set)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self, seconds: float) -> bool:
        """Asks no more. Have all ended within this time?"""
        self._stop.set()
        assert self._thread is not None
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def count(self, state: str) -> int:
        return [*self.ended.values()].count(state)

    def _run(self) -> None:
        next_ones = self._wanted()
        waiting = next(next_ones)
        while True:
            for whatif in [i for i in self.accepted if i not in self.ended]:
                self._look(whatif)
            if len(self.accepted) - len(self.ended) < AT_ONCE:
                if self._stop.is_set():
                    if len(self.accepted) == len(self.ended):
                        return
                elif self._ask(*waiting):
                    waiting = next(next_ones)
            time.sleep(0.2)

    def _wanted(self) -> Iterator[tuple[str, Asked]]:
        """The connections of captures, one after the other, and what is asked of them."""
        number = FIRST_NUMBER
        while True:
            connection = self._connection(number)
            for algorithm in ALGORITHMS:
                yield connection, Asked(algorithm, algorithm == ALGORITHMS[-1] and number % 2 == 1)
            number += 1

    def _connection(self, number: int) -> str:
        """Uploads a capture and waits until it is analysed. The id of its first connection; empty: told to stop."""
        while not self._stop.is_set():
            uploaded = self._request("POST", "/v1/captures", capture(number))
            if uploaded.status in (200, 202):
                self.captures.add(uploaded.body["id"])
                found = self._request("GET", f"/v1/captures/{uploaded.body['id']}/connections?limit=1")
                if found.status == 200 and found.body["items"]:
                    return str(found.body["items"][0]["id"])
            self._stop.wait(0.3)
        return ""

    def _ask(self, connection: str, asked: Asked) -> bool:
        """False: it was refused, or nobody answered, so that it has to be asked again."""
        question = json.dumps({"algorithm": asked.algorithm, "repeat": REPEAT}).encode()
        answer = self._request("POST", f"/v1/connections/{connection}/whatifs", question, "application/json")
        if answer.status == 202:
            self.accepted[answer.body["id"]] = asked
        return answer.status == 202

    def _look(self, whatif: str) -> None:
        answer = self._request("GET", f"/v1/whatifs/{whatif}")
        asked = self.accepted[whatif]
        if answer.status == 404:
            self.ended[whatif] = "cancelled" if whatif in self._deleting else "gone"
        elif answer.status == 200:
            if asked.is_cancelled and answer.body["progress"] > 0:
                self._deleting.add(whatif)
                self._request("DELETE", f"/v1/whatifs/{whatif}")
            elif answer.body["state"] in _ENDED:
                self.ended[whatif] = answer.body["state"]
                if answer.body["state"] == "done":
                    result = json.dumps(answer.body["result"], sort_keys=True)
                    self.answers.setdefault(asked.algorithm, set()).add(result)
                else:
                    self.errors.append(str(answer.body["error"]))

    def _request(self, method: str, path: str, body: bytes | None = None, kind: str | None = None) -> Answer:
        """Status 0: nobody answered."""
        try:
            return self.client.ask(method, path, body, content_type=kind)
        except BROKEN:
            return Answer(0, {}, 0.0)

    def totals(self, has_ended: bool) -> list[tuple[str, str, bool]]:
        """What was counted, how many, and was it as promised?"""
        unexplained = [e for e in self.errors if not e.startswith("given up")]
        lost = len(self.accepted) - len(self.ended) + self.count("gone")
        differing = sum(len(found) - 1 for found in self.answers.values())
        return [
            ("what-ifs accepted", str(len(self.accepted)), True),
            ("what-ifs answered", str(self.count("done")), True),
            ("what-ifs cancelled on request", str(self.count("cancelled")), True),
            (
                "what-ifs that failed with a reason that a team can act on",
                str(len(self.errors) - len(unexplained)),
                True,
            ),
            ("what-ifs that failed with another reason", "; ".join(unexplained) or "0", not unexplained),
            ("what-ifs accepted and lost, or not ended", str(lost), lost == 0 and has_ended),
            ("answers that differ from another one to the same question", str(differing), differing == 0),
        ]
