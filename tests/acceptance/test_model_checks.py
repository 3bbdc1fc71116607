"""Model checks by REST alone, with a worker and TLC as processes."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from typing import Any

from deploy.run import Services, alive, wait_for
from tests.acceptance.test_stack import answered, get
from tests.conftest import CAPTURES, steps_taken
from tests.processes import tlc_below

ENDLESS = {"Subflows": 6, "Limit": 60}


def post(stack: Services, token: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        stack.address + path, data=json.dumps(body).encode(), method="POST",
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )  # fmt: skip
    with answered(request) as response:
        return json.load(response)


def ended(stack: Services, token: str, **wanted: Any) -> Any:
    asked = post(stack, token, "/v1/model-checks", {"spec": "Windows", **wanted})
    url = f"/v1/model-checks/{asked['id']}"
    wait_for("the check", lambda: get(stack, token, url)["verdict"] is not None)
    return get(stack, token, url)


def test_holds_and_is_violated(stack: Services, token: str) -> None:
    holds = ended(stack, token)
    assert (holds["verdict"], holds["distinct"], holds["as_pinned"]) == ("holds", 16, True)
    violated = ended(stack, token, configuration="asprinted", constants={"Limit": 6})
    assert (violated["verdict"], violated["violated"]) == ("violated", "Bounded")
    assert [s["state"]["cwnd"]["s1"] + s["state"]["cwnd"]["s2"] for s in violated["counterexample"]] == [2, 4, 6, 8]
    late = ended(stack, token, constants=ENDLESS, seconds_max=10)
    assert late["verdict"] == "failed"
    assert late["error"].startswith("limit: not finished in 10 s; reached ")


def test_a_connection_is_followed_also_after_kill(stack: Services, token: str) -> None:
    """kill -9 while TLC follows a log: TLC ends with its worker, and the next worker comes to the verdict."""
    request = urllib.request.Request(
        f"{stack.address}/v1/captures?filename=long.pcap", data=(CAPTURES / "mptcp-three-subflows.pcap").read_bytes(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/vnd.tcpdump.pcap"},
    )  # fmt: skip
    with answered(request) as response:
        capture = f"/v1/captures/{json.load(response)['id']}"
    wait_for("the capture", lambda: get(stack, token, capture)["state"] == "done")
    followed = get(stack, token, f"{capture}/connections")["items"][1]
    connection, steps = followed["id"], steps_taken("mptcp-three-subflows.pcap", followed["number"], "tccc")
    asked = post(stack, token, "/v1/model-checks", {"connection": connection, "algorithm": "tccc"})
    checker = stack.processes["checker"].pid
    wait_for("TLC", lambda: tlc_below(checker) != [])
    (tlc,) = tlc_below(checker)
    kill_checker(stack)
    wait_for("TLC's end", lambda: not alive(tlc))
    stack.start_checker()
    url = f"/v1/model-checks/{asked['id']}"
    wait_for("the verdict", lambda: get(stack, token, url)["verdict"] is not None)
    found = get(stack, token, url)
    assert (found["verdict"], found["events"], found["followed"]) == ("conforms", steps, steps)
    assert get(stack, token, f"/v1/model-checks?connection={connection}")["items"][0]["id"] == asked["id"]


def kill_checker(stack: Services) -> None:
    checker = stack.processes.pop("checker")
    os.killpg(checker.pid, signal.SIGKILL)
    checker.wait()


def running(stack: Services, token: str) -> tuple[str, int]:
    """A check that would run for long: its address, and TLC's process."""
    asked = post(stack, token, "/v1/model-checks", {"spec": "Windows", "constants": ENDLESS})
    url = f"/v1/model-checks/{asked['id']}"
    wait_for("progress", lambda: (get(stack, token, url)["distinct"] or 0) > 0)
    (tlc,) = tlc_below(stack.processes["checker"].pid)
    return url, tlc


def test_cancel_kills_tlc(stack: Services, token: str) -> None:
    url, tlc = running(stack, token)
    capture = urllib.request.Request(
        f"{stack.address}/v1/captures", data=bytes(24), headers={"Authorization": f"Bearer {token}"}
    )
    with answered(capture) as response:
        uploaded = json.load(response)["id"]
    wait_for("a capture beside it", lambda: get(stack, token, f"/v1/captures/{uploaded}")["state"] == "failed")
    assert get(stack, token, url)["state"] == "running"
    assert post(stack, token, f"{url}/cancel")["verdict"] == "cancelled"
    wait_for("TLC's end", lambda: not alive(tlc))
    assert ended(stack, token, constants={"Limit": 5})["verdict"] == "holds", "the worker goes on with the next"
    assert get(stack, token, url)["state"] == "cancelled"


def test_tlc_does_not_outlive_a_killed_worker(stack: Services, token: str) -> None:
    """kill -9: TLC ends with its worker, and the next worker takes the check up again."""
    url, tlc = running(stack, token)
    kill_checker(stack)
    wait_for("TLC's end", lambda: not alive(tlc))
    stack.start_checker()
    wait_for("TLC, again", lambda: tlc_below(stack.processes["checker"].pid) not in ([], [tlc]))
    post(stack, token, f"{url}/cancel")
    wait_for("no TLC", lambda: tlc_below(stack.processes["checker"].pid) == [])
