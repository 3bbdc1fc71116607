"""Links whose rate and queue are the kernel's, as a second way beside the emulator's: tc-tbf(8) with a tc-pfifo(8).

Every host has a veth to one namespace, the routers. There each rated direction of a link is a TUN device with a token
bucket: packets of all paths that cross the link are routed into it. It has no link-layer header, so that the bucket
counts IP packets as the emulator does. From there the emulator takes them, which only delays them.

A bucket of one packet lets a packet go when its time of transmission begins, the emulator's link when it ends.
Directions that carry data are therefore longer here by the time of a full packet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lab.errors import LabUnavailable
from lab.machine import DEVICE, PREFIX
from lab.namespaces import HOST_MAC, QUEUE_PACKETS, ROUTER_MAC, host_namespace, set_options
from lab.programs import ip, run
from rewindow.scenarios import Bernoulli, Direction, DropTail, Interface, Path, Scenario

ROUTERS = f"{PREFIX}.routers"
"""No host has this name, which begins with a point."""
FIRST_TABLE = 1000
SLACK_BYTES = 16
"""The kernel keeps the bucket's size as a time, rounded down; a packet larger than the bucket would be dropped."""


@dataclass(frozen=True)
class Queue:
    """A rated direction of a link. device: the TUN device that is its queue; address: the emulator asks for one."""

    link: Direction
    device: str
    address: str


def _lacks(link: Direction) -> str:
    """What the kernel's queue cannot do of it; empty: nothing."""
    if not isinstance(link.discipline, DropTail):
        return "a queue discipline that is not drop-tail"
    if link.limit_packets is None or link.limit_bytes is not None:
        return "a queue that is not limited in packets"
    if link.loss != Bernoulli(0) or link.reordering.share:
        return "loss or reordering"
    others = any(c.rate_bps is not None or c.loss is not None or c.down is not None for c in link.changes)
    return "a change of anything but the delay" if others else ""


def _rated(path: Path) -> list[Direction]:
    return [link for link in path.links if link.rate_bps is not None]


def _both_ways(scenario: Scenario) -> list[Path]:
    return [way for path in scenario.paths for way in (path, path.seen_from(path.end.host))]


def queues(scenario: Scenario) -> list[Queue]:
    """LabUnavailable where the kernel cannot carry the scenario's links so."""
    for link in scenario.links:
        if link.rate_bps is not None and (lacks := _lacks(link)):
            raise LabUnavailable(f"link {link.link}: the kernel's queues here do not have {lacks}")
    if scenario.traffic:
        raise LabUnavailable("cross traffic is the emulator's, and does not meet the kernel's queues")
    if host := next((h for h in scenario.hosts if h.offload), None):
        raise LabUnavailable(f"host {host.name}: the kernel's queues count packets, not the super-segments of offload")
    for path in _both_ways(scenario):
        if len(_rated(path)) > 1:
            raise LabUnavailable(
                f"path {path.name}: at most one link of a path may have a rate with the kernel's queues"
            )
    rated = [link for link in scenario.links if link.rate_bps is not None]
    return [Queue(link, f"{DEVICE}q{n}", f"192.0.2.{n + 1}") for n, link in enumerate(rated)]


def _mtu(scenario: Scenario) -> int:
    return max(i.mtu_bytes for host in scenario.hosts for i in host.interfaces)


def delays_only(scenario: Scenario) -> Scenario:
    """What is left to the emulator."""
    data = {link.name for t in scenario.transfers for path in t.paths for link in path.links}

    def rest(link: Direction) -> Direction:
        if link.rate_bps is None:
            return link
        packet_ns = _mtu(scenario) * 8 * 10**9 // link.rate_bps if link.name in data else 0
        return replace(
            link, rate_bps=None, limit_packets=None, delay_ns=link.delay_ns + packet_ns,
            changes=tuple(replace(c, delay_ns=c.delay_ns + packet_ns) if c.delay_ns is not None else c
                          for c in link.changes),
        )  # fmt: skip

    links = {link.name: rest(link) for link in scenario.links}
    paths = tuple(
        replace(p, links=tuple(links[x.name] for x in p.links), links_back=tuple(links[x.name] for x in p.links_back))
        for p in scenario.paths
    )
    return replace(scenario, links=tuple(links.values()), paths=paths)


def _bucket(queue: Queue, mtu_bytes: int) -> None:
    tc = ["tc", "-n", ROUTERS, "qdisc", "add", "dev", queue.device]
    burst = str(mtu_bytes + SLACK_BYTES)
    run([*tc, "root", "handle", "1:", "tbf", "rate", f"{queue.link.rate_bps}bit", "burst", burst, "limit", burst])
    run([*tc, "parent", "1:1", "handle", "10:", "pfifo", "limit", str(queue.link.limit_packets)])


def build(scenario: Scenario, devices: Mapping[Interface, str]) -> list[tuple[str, str]]:
    """Makes the routers, and a veth from them into the namespace of each host, which must be there. devices: the TUN
    device of each interface. Returns the namespace and name of each TUN device."""
    made, mtu_bytes = queues(scenario), _mtu(scenario)
    ip([f"netns add {ROUTERS}"])
    set_options(ROUTERS, {"net.ipv6.conf.all.forwarding": "1", "net.ipv4.ip_forward": "1"}
                | {f"net.ipv4.conf.{which}.rp_filter": "0" for which in ("all", "default")})  # fmt: skip
    names = [*devices.values(), *(q.device for q in made)]
    ip([f"link set dev {name} netns {ROUTERS}" for name in names])
    ip(
        [
            command
            for name in names
            for command in (f"link set dev {name} mtu {mtu_bytes} txqueuelen {QUEUE_PACKETS} addrgenmode none",
                            f"link set dev {name} up")
        ],
        ROUTERS,
    )  # fmt: skip
    for queue in made:
        _bucket(queue, mtu_bytes)
    inside = {interface: f"h{n}" for n, interface in enumerate(devices)}
    for interface, name in inside.items():
        ip([f"link add {name} netns {ROUTERS} address {ROUTER_MAC} type veth peer name {interface.name} "
            f"netns {host_namespace(interface.host)} address {HOST_MAC} gso_max_segs 1"])  # fmt: skip
        ip([f"link set dev {name} mtu {interface.mtu_bytes} addrgenmode none", f"link set dev {name} up"], ROUTERS)
    _route(scenario, devices, inside, {q.link.name: q.device for q in made})
    return [(ROUTERS, name) for name in names]


def _route(
    scenario: Scenario, devices: Mapping[Interface, str], inside: Mapping[Interface, str], queue: Mapping[str, str]
) -> None:
    """From a host's veth into the queue of its path, or into the emulator; from the emulator to the host's veth."""
    rules: list[tuple[int, str, str]] = []
    for interface, name in inside.items():
        rules.append((interface.address.version, f"iif {devices[interface]}", name))
    for way in _both_ways(scenario):
        crossed = [queue[link.name] for link in _rated(way)]
        ends = f"iif {inside[way.start]} from {way.start.address} to {way.end.address}"
        rules.append((way.start.address.version, ends, crossed[0] if crossed else devices[way.start]))
    for table, (version, chosen, device) in enumerate(rules, FIRST_TABLE):
        run(["ip", "-n", ROUTERS, f"-{version}", "rule", "add", *chosen.split(), "lookup", str(table)])
        run(["ip", "-n", ROUTERS, f"-{version}", "route", "add", "default", "dev", device, "table", str(table)])
    ip(
        [f"neigh add {i.address} lladdr {HOST_MAC} dev {name} nud permanent" for i, name in inside.items()],
        ROUTERS,
    )


def counted(scenario: Scenario) -> list[dict[str, Any]]:
    """Per rated direction: packets and bytes that entered it, and drops. Ask before the emulator ends."""
    found = []
    for queue in queues(scenario):
        told: list[dict[str, Any]] = json.loads(
            run(["tc", "-n", ROUTERS, "-j", "-s", "qdisc", "show", "dev", queue.device])
        )
        root = next(q for q in told if q["kind"] == "tbf")
        found.append({
            "link": queue.link.name, "packets": root["packets"], "bytes": root["bytes"], "dropped": root["drops"],
            "waiting": root["qlen"],
        })  # fmt: skip
    return found
