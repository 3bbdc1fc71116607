"""The two ends of each transfer of a scenario, as processes in the namespaces of their hosts."""

from __future__ import annotations

import contextlib
import json
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lab.errors import LabFailed
from lab.namespaces import host_namespace
from lab.programs import inside
from rewindow.scenarios import Scenario, Transfer

PROGRAM = Path(__file__).parent / "transfer.py"
ANSWER_S = 60
"""To start, and to end after the last time that a scenario gives."""


class _End:
    """One end of a transfer."""

    def __init__(self, host: str, config: dict[str, Any]) -> None:
        self.name = f"{config['role']} at {host}, port {config['port']}"
        words = [sys.executable, "-I", "-S", str(PROGRAM), json.dumps(config)]
        self.process = subprocess.Popen(
            inside(host_namespace(host), *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self._said = b""

    def lines(self, deadline: float, wanted: int) -> list[dict[str, Any]]:
        """What it has said so far: at least so many lines, or fewer at the deadline (monotonic, seconds)."""
        assert self.process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while self._said.count(b"\n") < wanted and (left := deadline - time.monotonic()) > 0:
                if selector.select(left):
                    more = self.process.stdout.read(1 << 16)
                    if not more:
                        break
                    self._said += more
        return [json.loads(line) for line in self._said.split(b"\n")[:-1]]

    def begin(self, zero_ns: int) -> None:
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):  # its end says more
            self.process.stdin.write(f"start {zero_ns}\n".encode())

    def failed(self) -> LabFailed:
        self.process.kill()
        _, errors = self.process.communicate()
        said = errors.decode(errors="replace").strip().splitlines()
        return LabFailed(f"transfer ({self.name}): {said[-1] if said else 'no answer'}")

    def kill(self) -> None:
        with self.process:
            self.process.kill()


class Transfers:
    """All transfers of a scenario: ready, then begun together, then awaited."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._ends: list[_End] = []
        self._pairs: list[tuple[Transfer, _End, _End]] = []
        try:
            for transfer in scenario.transfers:
                receiver = self._start(transfer.receiver, self._receiving(transfer))
                self._pairs.append((transfer, self._start(transfer.sender, self._sending(transfer)), receiver))
            deadline = time.monotonic() + ANSWER_S
            for end in self._ends:
                if end.lines(deadline, 1) != [{"ready": True}]:
                    raise end.failed()
        except BaseException:
            self.kill()
            raise

    def _start(self, host: str, config: dict[str, Any]) -> _End:
        end = _End(host, config)
        self._ends.append(end)
        return end

    def _both(self, transfer: Transfer) -> dict[str, Any]:
        end = transfer.paths[0].end.address
        return {
            "family": end.version, "mptcp": transfer.protocol == "mptcp", "address": str(end), "port": transfer.port,
            "congestion_control": transfer.congestion_control,
        }  # fmt: skip

    def _receiving(self, transfer: Transfer) -> dict[str, Any]:
        return self._both(transfer) | {"role": "receive", "buffer_bytes": transfer.receive_buffer_bytes}

    def _sending(self, transfer: Transfer) -> dict[str, Any]:
        scenario = self._scenario
        left_ns = scenario.duration_ns - transfer.start_ns
        return self._both(transfer) | {
            "role": "send", "buffer_bytes": transfer.send_buffer_bytes, "bind": str(transfer.paths[0].start.address),
            "bytes": transfer.bytes, "duration_ns": left_ns if transfer.duration_ns is None else transfer.duration_ns,
            "start_ns": transfer.start_ns, "write_bytes": transfer.write_bytes, "pause_ns": transfer.pause_ns,
            "end_ns": scenario.duration_ns + scenario.grace_ns,
        }  # fmt: skip

    def begin(self, zero_ns: int) -> None:
        for _, sender, _ in self._pairs:
            sender.begin(zero_ns)

    def wait(self, zero_ns: int) -> list[dict[str, Any]]:
        """What each transfer did. LabFailed where a socket had another congestion control than the scenario says."""
        last = (zero_ns + self._scenario.duration_ns + self._scenario.grace_ns) / 1e9 + ANSWER_S
        results = []
        for transfer, sender, receiver in self._pairs:
            said = sender.lines(last, 2)
            if len(said) < 2:
                raise sender.failed()
            sent = said[1]
            if "bytes" not in sent:
                raise LabFailed(f"transfer {transfer.name} cannot connect: {sent.get('error')}")
            received = receiver.lines(last if sent["complete"] else time.monotonic(), 2)[1:]
            result = {
                "name": transfer.name, "protocol": transfer.protocol, "from": transfer.sender, "to": transfer.receiver,
                "port": transfer.port, **sent, "received_bytes": received[0]["bytes"] if received else None,
            }  # fmt: skip
            used = {result["congestion_control"], *(f["congestion_control"] for f in result["subflows"])} - {""}
            if transfer.congestion_control and used - {transfer.congestion_control}:
                raise LabFailed(
                    f"transfer {transfer.name} ran {', '.join(sorted(used))}, not {transfer.congestion_control}"
                )
            if result["complete"] and result["received_bytes"] != result["bytes"]:
                raise LabFailed(
                    f"transfer {transfer.name}: {result['bytes']} bytes sent, {result['received_bytes']} arrived"
                )
            results.append(result)
        return results

    def kill(self) -> None:
        for end in self._ends:
            end.kill()
