"""The emulator: writes a scenario's links in the emulator's input language, and runs lab/emulator/emulator.c."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from lab.errors import LabFailed
from rewindow.scenarios import (
    Bernoulli,
    CoDel,
    Direction,
    EcnThreshold,
    Interface,
    Red,
    Scenario,
    q32,
)

ANSWER_S = 30
END_S = 5
LATENESS_MIN_NS = 500_000


def devices(scenario: Scenario, prefix: str) -> dict[Interface, str]:
    """The TUN device of each interface."""
    interfaces = [i for host in scenario.hosts for i in host.interfaces]
    return {interface: f"{prefix}{n}" for n, interface in enumerate(interfaces)}


def _words(**values: int | str | None) -> str:
    return " ".join(f"{key}={value}" for key, value in values.items() if value is not None)


def _discipline(link: Direction) -> str:
    match link.discipline:
        case EcnThreshold(packets):
            return _words(discipline="ecn_threshold", ecn_threshold_packets=packets)
        case Red() as red:
            return _words(
                discipline="red", red_min_packets=red.min_packets, red_max_packets=red.max_packets,
                red_max_p_q32=q32(red.probability), red_weight_shift=red.weight_shift, red_gentle=int(red.gentle),
                ecn=int(red.ecn),
            )  # fmt: skip
        case CoDel() as codel:
            return _words(
                discipline="codel", codel_target_ns=codel.target_ns, codel_interval_ns=codel.interval_ns,
                ecn=int(codel.ecn),
            )  # fmt: skip
    return _words(discipline="drop_tail")


def _link(link: Direction) -> str:
    queue = _words(
        name=link.name, rate_bps=link.rate_bps or 0, delay_ns=link.delay_ns, jitter_ns=link.jitter_ns,
        limit_packets=link.limit_packets or 0, limit_bytes=link.limit_bytes or 0,
    )  # fmt: skip
    if isinstance(link.loss, Bernoulli):
        loss = _words(loss_q32=q32(link.loss.share) or None)
    else:
        loss = _words(
            ge_good_to_bad_q32=q32(link.loss.good_to_bad), ge_bad_to_good_q32=q32(link.loss.bad_to_good),
            ge_loss_good_q32=q32(link.loss.good_loss), ge_loss_bad_q32=q32(link.loss.bad_loss),
        )  # fmt: skip
    late = link.reordering
    reordering = _words(reorder_q32=q32(late.share), reorder_ns=late.delay_ns) if late.share else ""
    return " ".join(filter(None, ("link", queue, _discipline(link), loss, reordering)))


def configuration(
    scenario: Scenario, seed: int, names: dict[Interface, str], entrances: Iterable[tuple[str, str]] = ()
) -> Iterator[str]:
    """The emulator's lines, up to `go`. entrances: names and addresses of further devices that packets come from."""
    yield f"seed value={seed}"
    for link in scenario.links:
        yield _link(link)
    for link in scenario.links:
        for change in link.changes:
            words = _words(
                link=link.name, at_ns=change.at_ns, rate_bps=change.rate_bps, delay_ns=change.delay_ns,
                loss_q32=None if change.loss is None else q32(change.loss),
                down=None if change.down is None else int(change.down),
            )  # fmt: skip
            yield f"change {words}"
    for traffic in scenario.traffic:
        kind: Literal["constant", "on_off"] = "constant" if traffic.on_ns is None else "on_off"
        words = _words(
            link=traffic.link.name, kind=kind, rate_bps=traffic.rate_bps, packet_bytes=traffic.packet_bytes,
            from_ns=traffic.start_ns, to_ns=traffic.end_ns, on_ns=traffic.on_ns, off_ns=traffic.off_ns,
        )  # fmt: skip
        yield f"traffic {words}"
    for interface, name in names.items():
        yield f"interface {_words(name=name, address=str(interface.address))}"
    for name, address in entrances:
        yield f"interface {_words(name=name, address=address)}"
    for path in scenario.paths:
        for start, end, links in ((path.start, path.end, path.links), (path.end, path.start, path.links_back)):
            way = ",".join(link.name for link in links)
            yield f"route from={start.address} to={end.address} links={way}"
    yield "go"


def lateness_bound_ns(scenario: Scenario) -> int:
    """Half a millisecond, or the time that the slowest link needs for one packet, whichever is larger."""
    largest = max(i.mtu_bytes for host in scenario.hosts for i in host.interfaces)
    rates = [link.rate_bps for link in scenario.links if link.rate_bps]
    return max(LATENESS_MIN_NS, largest * 8 * 10**9 // min(rates)) if rates else LATENESS_MIN_NS


class Emulator:
    """The process. It holds the devices; when it ends, they are gone."""

    def __init__(self, program: Path, errors: Path) -> None:
        self._errors = errors
        with open(errors, "wb") as f:
            self._process = subprocess.Popen(
                [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=f, bufsize=0
            )
        self.pid = self._process.pid

    def _failed(self, what: str) -> LabFailed:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(END_S)  # it ends with its input; its own exit status says more than a signal's
        except subprocess.TimeoutExpired:
            self._process.kill()
        self.kill()
        said = self._errors.read_text(errors="replace").strip().splitlines()
        return LabFailed(
            f"the emulator {what} (exit status {self._process.returncode}): {said[-1] if said else 'no message'}"
        )

    def _say(self, text: str) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(text.encode())
        except OSError as e:
            raise self._failed("ended") from e

    def _line(self) -> str:
        """Its next line. It writes one line at a time, so no further line is buffered."""
        assert self._process.stdout
        deadline, data = time.monotonic() + ANSWER_S, b""
        while not data.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise self._failed("does not answer")
            if not (more := self._process.stdout.read(4096)):
                raise self._failed("ended")
            data += more
        return data.decode(errors="replace").strip()

    def configure(self, lines: Iterator[str]) -> None:
        """Sends the configuration and waits until the devices exist."""
        self._say("".join(f"{line}\n" for line in lines))
        if (said := self._line()) != "ready":
            raise self._failed(f"said {said!r}, not ready")

    def start(self) -> int:
        """Starts it; returns the zero of all its times, on the monotonic clock."""
        self._say("start\n")
        word, _, value = self._line().partition(" ")
        if word != "started" or not value.isdecimal():
            raise self._failed(f"said {word!r}, not started")
        return int(value)

    def stop(self) -> dict[str, Any]:
        """Ends its input, and so the emulator; returns its counts."""
        try:
            printed, _ = self._process.communicate(timeout=ANSWER_S)
            counted: dict[str, Any] = json.loads(printed)
            for word in ("median", "p99", "max", "packets"):
                int(counted["lateness_ns"][word])
        except (subprocess.TimeoutExpired, OSError, ValueError, KeyError, TypeError) as e:
            raise self._failed("counted nothing") from e
        if self._process.returncode:
            raise self._failed("failed")
        return counted

    def kill(self) -> None:
        with self._process:
            self._process.kill()
