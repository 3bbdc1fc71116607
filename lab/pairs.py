"""Networks on which what-ifs are compared with runs that really happened: the same network under several algorithms.

A run's folder is NETWORK-ALGORITHM-NUMBER, where NUMBER is its seed. **Predictions are tuned on the networks of
TUNED only.** Those of JUDGED are only judged: nobody looks at a single one of them to change the code, and no constant
or table comes from them. docs/validation.md has the figures of both, apart.

Each network has an effect that lets the algorithms differ: random loss on a long path, a short or a long queue, ECN,
few bytes to send, unequal paths, neighbours that come and go, rates that change, an application that pauses, a
capture at the receiver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lab.suite import Network

RUNS = 3
_BIG = 'send_buffer = "4MB"\nreceive_buffer = "8MB"'
_LATE_RIVAL = """[[transfers]]
name = "late"
protocol = "tcp"
from = "rival"
to = "peer"
"""


@dataclass(frozen=True)
class Pairs:
    """A network, and the algorithms that its client runs, by the names of what-ifs."""

    network: Network
    algorithms: tuple[str, ...]
    judged: bool

    def networks(self) -> Iterator[Network]:
        """One network of the lab for each algorithm."""
        for algorithm in self.algorithms:
            kernel_name = f"rw_{algorithm}" if algorithm == "tccc" else algorithm
            name = f"{self.network.name}-{algorithm}"
            yield replace(self.network, name=name, congestion_control=kernel_name)


def _tcp(name: str, rate_mbps: float, delay_ms: float, rival: str = "", **more: object) -> Network:
    base = Network(name, (rate_mbps,), (delay_ms,), paths=1, protocol="tcp", rival=rival, seconds=7)
    return replace(base, **more)  # type: ignore[arg-type]


def _mptcp(name: str, rates_mbps: tuple[float, ...], delays_ms: tuple[float, ...], rival: str = "",
           **more: object) -> Network:  # fmt: skip
    return replace(Network(name, rates_mbps, delays_ms, rival=rival, seconds=8), **more)  # type: ignore[arg-type]


_BBR = ("reno", "cubic", "bbr")
_TCCC = ("reno", "cubic", "tccc")


def _lossy(share: float) -> str:
    return f"loss = {share:g}\nbackward = {{ loss = 0 }}"


def _marking(threshold: int) -> str:
    return f'discipline = {{ kind = "ecn_threshold", threshold = {threshold} }}'


TUNED: tuple[Pairs, ...] = tuple(
    Pairs(network, algorithms, False)
    for network, algorithms in (
        (_tcp("tune-lossy-far", 30, 40, link=_lossy(0.003), hosts=_BIG), _BBR),
        (_mptcp("tune-deep", (6,), (20,), "cubic", shared=True, limit_packets=180), _TCCC),
        (_tcp("tune-shallow", 20, 30, limit_packets=15, hosts=_BIG), _BBR),
        (_mptcp("tune-ecn", (9,), (25,), "reno", shared=True, limit_packets=100, hosts="ecn = true",
                link=_marking(20)), _TCCC),
        (_tcp("tune-short-400k", 10, 40, "cubic", limit_packets=120, transfer='bytes = "400kB"\nstart = "3s"'), _BBR),
        (_mptcp("tune-unequal", (12, 3), (15, 60)), _TCCC),
        (_tcp("tune-neighbours", 10, 25, "cubic", rival_start=2.5, rival_transfer="seconds = 2.5"), _BBR),
        (_tcp("tune-rate-steps", 10, 25, seconds=9,
              link='changes = [{ at = "3s", rate = "4M" }, { at = "6s", rate = "9M" }]'), _BBR),
        (_tcp("tune-application", 8, 30, "reno", transfer='write = "120kB"\npause = "200ms"'), _BBR),
        (_mptcp("tune-receiver", (8, 5), (25, 25), at_receiver=True, link=_lossy(0.002)), _TCCC),
        (_tcp("tune-lossy-45m", 45, 35, link=_lossy(0.002), hosts=_BIG), _BBR),
        (_mptcp("tune-lossy-14m", (14,), (25,), link=_lossy(0.008)), _TCCC),
        (_mptcp("tune-deep-5m", (5,), (15,), "reno", shared=True, limit_packets=220), _TCCC),
        (_tcp("tune-deep-alone", 12, 20, limit_packets=300, hosts=_BIG), _BBR),
        (_tcp("tune-shallow-15m", 15, 50, limit_packets=10, hosts=_BIG), _BBR),
        (_mptcp("tune-ecn-12m", (12,), (30,), "cubic", shared=True, limit_packets=120, hosts="ecn = true",
                link=_marking(15)), _TCCC),
        (_tcp("tune-short-150k", 8, 45, "reno", seconds=6, transfer='bytes = "150kB"\nstart = "3s"'), _BBR),
        (_mptcp("tune-short-3m", (10, 6), (30, 30), transfer='bytes = "3MB"\nstart = "0.5s"'), _TCCC),
        (_mptcp("tune-unequal-16m", (16, 4), (10, 45)), _TCCC),
        (_mptcp("tune-unequal-beside", (6, 12), (15, 40), "cubic"), _TCCC),
        (_tcp("tune-neighbours-14m", 14, 20, "reno", seconds=9, rival_start=1.5, rival_transfer="seconds = 2.5",
              more=f'{_LATE_RIVAL}congestion_control = "cubic"\nstart = 5.5\nseconds = 2'), _BBR),
        (_tcp("tune-rate-steps-12m", 12, 30, seconds=9,
              link='changes = [{ at = "2.5s", rate = "5M" }, { at = "5.5s", rate = "10M" }]'), _BBR),
        (_tcp("tune-application-10m", 10, 25, "cubic", transfer='write = "80kB"\npause = "120ms"'), _BBR),
        (_tcp("tune-receiver-12m", 12, 35, "reno", at_receiver=True, limit_packets=60), _BBR),
        (_tcp("tune-lossy-36m", 36, 55, link=_lossy(0.0015), hosts=_BIG), _BBR),
        (_mptcp("tune-lossy-v6", (10, 7), (20, 30), link=_lossy(0.004), ipv6=True), _TCCC),
        (_mptcp("tune-deep-7m", (7,), (25,), "cubic", paths=3, shared=True, limit_packets=160), _TCCC),
        (_tcp("tune-deep-9m", 9, 30, limit_packets=200, hosts=_BIG), _BBR),
        (_tcp("tune-shallow-25m", 25, 20, limit_packets=12, hosts=_BIG), _BBR),
        (_mptcp("tune-ecn-10m", (10,), (20,), "reno", shared=True, limit_packets=90, hosts="ecn = true",
                link=_marking(25)), _TCCC),
        (_tcp("tune-short-60k", 5, 35, "reno", seconds=6, transfer='bytes = "60kB"\nstart = "2.5s"'), _BBR),
        (_tcp("tune-short-1m", 16, 30, "cubic", limit_packets=70, transfer='bytes = "1MB"\nstart = "2s"'), _BBR),
        (_mptcp("tune-short-5m", (7, 9), (20, 40), transfer='bytes = "5MB"\nstart = "0.3s"'), _TCCC),
        (_mptcp("tune-unequal-15m", (5, 15), (50, 15)), _TCCC),
        (_mptcp("tune-four-paths", (4,), (20,), "reno", paths=4), _TCCC),
        (_tcp("tune-neighbours-8m", 8, 30, "cubic", seconds=9, rival_start=1, rival_transfer="seconds = 2",
              more=f'{_LATE_RIVAL}congestion_control = "reno"\nstart = 4.5\nseconds = 2.5'), _BBR),
        (_tcp("tune-rate-steps-16m", 16, 20, seconds=9,
              link='changes = [{ at = "3s", rate = "7M" }, { at = "6s", rate = "11M" }]'), _BBR),
        (_tcp("tune-application-6m", 6, 35, "reno", transfer='write = "60kB"\npause = "150ms"'), _BBR),
        (_mptcp("tune-receiver-9m", (9, 6), (30, 15), at_receiver=True), _TCCC),
        (_tcp("tune-short-2m", 12, 35, "reno", transfer='bytes = "2MB"\nstart = "1.5s"'), _BBR),
        (_tcp("tune-short-90k", 9, 30, limit_packets=80, seconds=5, transfer='bytes = "90kB"\nstart = "1s"'), _BBR),
        (_mptcp("tune-short-4m", (11, 8), (25, 35), transfer='bytes = "4MB"\nstart = "0.5s"'), _TCCC),
        (_tcp("tune-lossy-24m", 24, 45, link=_lossy(0.0025), hosts=_BIG), _BBR),
        (_tcp("tune-deep-8m", 8, 25, limit_packets=160, hosts=_BIG), _BBR),
        (_tcp("tune-shallow-18m", 18, 25, limit_packets=20, hosts=_BIG), _BBR),
        (_mptcp("tune-ecn-8m", (8,), (30,), "cubic", shared=True, limit_packets=100, hosts="ecn = true",
                link=_marking(18)), _TCCC),
        (_mptcp("tune-unequal-13m", (4, 13), (40, 20)), _TCCC),
        (_tcp("tune-neighbours-11m", 11, 30, "reno", rival_start=2, rival_transfer="seconds = 3"), _BBR),
        (_tcp("tune-application-9m", 9, 20, "cubic", transfer='write = "100kB"\npause = "160ms"'), _BBR),
        (_mptcp("tune-receiver-7m", (7, 7), (20, 35), at_receiver=True), _TCCC),
        (_tcp("tune-rate-steps-14m", 14, 25, seconds=9,
              link='changes = [{ at = "3.5s", rate = "6M" }, { at = "6.5s", rate = "10M" }]'), _BBR),
    )
)  # fmt: skip

JUDGED: tuple[Pairs, ...] = tuple(
    Pairs(network, algorithms, True)
    for network, algorithms in (
        (_tcp("judge-short-700k", 14, 25, "cubic", seconds=6, transfer='bytes = "700kB"\nstart = "1.5s"'), _BBR),
        (_tcp("judge-short-50k", 6, 40, "reno", seconds=5, transfer='bytes = "50kB"\nstart = "2s"'), _BBR),
        (_mptcp("judge-short-2m", (9, 6), (35, 20), transfer='bytes = "2.5MB"\nstart = "0.4s"'), _TCCC),
        (_tcp("judge-lossy-28m", 28, 50, link=_lossy(0.002), hosts=_BIG), _BBR),
        (_mptcp("judge-deep-10m", (10,), (25,), "reno", shared=True, limit_packets=200), _TCCC),
        (_tcp("judge-shallow-22m", 22, 30, limit_packets=16, hosts=_BIG), _BBR),
        (_mptcp("judge-ecn-11m", (11,), (25,), "reno", shared=True, limit_packets=110, hosts="ecn = true",
                link=_marking(22)), _TCCC),
        (_mptcp("judge-unequal-14m", (14, 5), (20, 50)), _TCCC),
        (_tcp("judge-neighbours-12m", 12, 35, "cubic", rival_start=3, rival_transfer="seconds = 2.5"), _BBR),
        (_tcp("judge-application-7m", 7, 30, "reno", transfer='write = "90kB"\npause = "180ms"'), _BBR),
        (_mptcp("judge-receiver-10m", (10, 5), (15, 40), at_receiver=True, link=_lossy(0.003)), _TCCC),
        (_tcp("judge-rate-steps-18m", 18, 30, seconds=9,
              link='changes = [{ at = "3s", rate = "8M" }, { at = "6.5s", rate = "13M" }]'), _BBR),
    )
)  # fmt: skip

ALL = (*TUNED, *JUDGED)
