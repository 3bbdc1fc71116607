"""Hosts: a network namespace for each, with the TUN devices of its interfaces, addresses, routes and options.

An interface with offload is one end of a veth; a namespace of its own routes between the other end and the TUN device,
so that the host's TCP hands super-segments to the veth, and the router cuts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.errors import LabFailed, LabUnavailable
from lab.machine import PREFIX
from lab.programs import inside, ip, run
from rewindow.scenarios import Host, Interface, Scenario

QUEUE_PACKETS = 5000
"""Length of the queue between the kernel and the emulator."""
FIRST_TABLE = 100
HOST_MAC, ROUTER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
SUBFLOWS_MAX = 8


def host_namespace(host: str) -> str:
    return f"{PREFIX}{host}"


def _bits(interface: Interface) -> int:
    return interface.address.max_prefixlen


def _family(interface: Interface) -> str:
    return f"-{interface.address.version}"


@dataclass(frozen=True)
class Announcement:
    """An MPTCP endpoint of a host (ip-mptcp(8)): the host announces a `signal`, and opens subflows from a `subflow`."""

    interface: Interface
    kind: str


def announcements(scenario: Scenario) -> dict[str, list[Announcement]]:
    """Host -> the endpoints with which the kernel's path manager opens the subflows of each MPTCP transfer, and no
    others.

    The receiver announces a path's end that differs from the first path's end; the sender's routes then choose where
    the subflow begins. For a path to the first path's end, the sender has an endpoint at the path's start.
    """
    found: dict[str, list[Announcement]] = {}
    seen: dict[str, tuple[str, ...]] = {}
    for transfer in scenario.transfers:
        if transfer.protocol != "mptcp":
            continue
        names = tuple(p.name for p in transfer.paths)
        for host in (transfer.sender, transfer.receiver):
            if seen.setdefault(host, names) != names:
                raise LabUnavailable(
                    f"transfer {transfer.name}: all MPTCP transfers of the host {host} must have the same paths, "
                    f"because the kernel's endpoints are the host's ({', '.join(seen[host])})"
                )
        first, ends = transfer.paths[0], set()
        for path in transfer.paths[1:]:
            if path.end == first.end:
                host, announced = transfer.sender, Announcement(path.start, "subflow")
            elif path.end not in ends:
                host, announced = transfer.receiver, Announcement(path.end, "signal")
            else:
                raise LabUnavailable(
                    f"transfer {transfer.name}: of the paths after the first one, two end at {path.end}; the kernel's "
                    "path manager opens one subflow to each announced address"
                )
            ends.add(path.end)
            if announced not in found.setdefault(host, []):
                found[host].append(announced)
    return found


def host_options(scenario: Scenario, host: Host) -> dict[str, str]:
    """sysctl(8) names and values of a host's namespace."""
    options = {
        "net.ipv4.tcp_sack": str(int(host.sack)),
        "net.ipv4.tcp_timestamps": str(int(host.timestamps)),
        "net.ipv4.tcp_ecn": str(int(host.ecn)),
        "net.ipv4.tcp_no_metrics_save": "1",
        "net.ipv4.conf.all.rp_filter": "0",
        "net.ipv4.conf.default.rp_filter": "0",
        "net.ipv6.conf.default.accept_ra": "0",
        "net.ipv6.conf.default.router_solicitations": "0",
    }
    if host.send_buffer_bytes is not None:
        limit = host.send_buffer_bytes
        options["net.ipv4.tcp_wmem"] = f"4096 {min(16384, limit)} {limit}"
    if host.receive_buffer_bytes is not None:
        limit = host.receive_buffer_bytes
        options["net.ipv4.tcp_rmem"] = f"4096 {min(131072, limit)} {limit}"
    if any(t.protocol == "mptcp" and host.name in (t.sender, t.receiver) for t in scenario.transfers):
        options["net.mptcp.enabled"] = "1"
    return options


def set_options(namespace: str, options: Mapping[str, str]) -> None:
    lines = "".join(f"/proc/sys/{name.replace('.', '/')} {value}\n" for name, value in options.items())
    script = 'while read -r file value; do printf "%s" "$value" >"$file" || exit 1; done'
    run(inside(namespace, "sh", "-c", script), lines)


def _device(interface: Interface, more: str = "") -> list[str]:
    return [
        f"link set dev {interface.name} mtu {interface.mtu_bytes} txqueuelen {QUEUE_PACKETS} {more}",
        f"link set dev {interface.name} up",
    ]


def _router(interface: Interface, device: str, host: str) -> str:
    """Makes the router of an interface with offload, and the veth to the host; returns the router's namespace."""
    name = f"{host}.{interface.name}"
    family = _family(interface)
    ip([f"netns add {name}", f"link set dev {device} netns {name} name {interface.name}"])
    set_options(name, {"net.ipv6.conf.all.forwarding": "1", "net.ipv4.ip_forward": "1"}
                | {f"net.ipv4.conf.{which}.rp_filter": "0" for which in ("all", "default")})  # fmt: skip
    ip([f"link add inside netns {name} address {ROUTER_MAC} type veth peer name {interface.name} netns {host} "
        f"address {HOST_MAC}"])  # fmt: skip
    ip(
        [
            *_device(interface, "addrgenmode none"),
            f"link set dev inside mtu {interface.mtu_bytes} addrgenmode none",
            "link set dev inside up",
        ],
        name,
    )
    run(["ip", "-n", name, family, "route", "add", "default", "dev", interface.name])
    run(["ip", "-n", name, family, "route", "add", f"{interface.address}/{_bits(interface)}", "dev", "inside"])
    run(
        [
            "ip",
            "-n",
            name,
            "neigh",
            "add",
            str(interface.address),
            "lladdr",
            HOST_MAC,
            "dev",
            "inside",
            "nud",
            "permanent",
        ]
    )
    return name


def _peers(scenario: Scenario, interface: Interface) -> list[Interface]:
    """The other ends of the interface's paths."""
    return [p.end if p.start == interface else p.start for p in scenario.paths if interface in (p.start, p.end)]


def _routes(scenario: Scenario, host: Host, by_veth: bool) -> Iterator[tuple[str, str]]:
    """Pairs of address family and command. The source address of a packet selects the interface; a packet without one
    takes the first path to the peer."""
    known: set[Interface] = set()
    for number, interface in enumerate(host.interfaces):
        family, table = _family(interface), FIRST_TABLE + number
        yield family, f"rule add from {interface.address} lookup {table}"
        for peer in _peers(scenario, interface):
            if by_veth:
                yield family, f"neigh add {peer.address} lladdr {ROUTER_MAC} dev {interface.name} nud permanent"
            route = f"route add {peer.address}/{_bits(peer)} dev {interface.name} src {interface.address}"
            yield family, f"{route} table {table}"
            if peer not in known:
                yield family, route
            known.add(peer)


Join = Callable[[], list[tuple[str, str]]]
"""Gives the hosts their interfaces; returns the namespace and name of each TUN device."""


def joined_by_the_emulator(scenario: Scenario, devices: Mapping[Interface, str]) -> list[tuple[str, str]]:
    """Join: each interface is a TUN device, or a veth to a router with one where the host has offload."""
    places = []
    for host in scenario.hosts:
        name = host_namespace(host.name)
        for interface in host.interfaces:
            if host.offload:
                places.append((_router(interface, devices[interface], name), interface.name))
            else:
                ip([f"link set dev {devices[interface]} netns {name} name {interface.name}"])
                places.append((name, interface.name))
    return places


def build(scenario: Scenario, join: Join, by_veth: bool = False) -> list[tuple[str, str]]:
    """Makes all hosts; returns the namespace and name of each TUN device. by_veth: every interface is a veth."""
    announced = announcements(scenario)
    for host in scenario.hosts:
        name = host_namespace(host.name)
        ip([f"netns add {name}"])
        set_options(name, host_options(scenario, host))
        ip(["link set lo up"], name)
    places = join()
    for host in scenario.hosts:
        name = host_namespace(host.name)
        ip(
            [
                command
                for interface in host.interfaces
                for command in (
                    *_device(interface, "addrgenmode none"),
                    f"addr add {interface.address}/{_bits(interface)} dev {interface.name}"
                    + (" nodad" if interface.address.version == 6 else ""),
                )
            ],
            name,
        )
        for family in ("-4", "-6"):
            commands = [command for of, command in _routes(scenario, host, by_veth or host.offload) if of == family]
            run(["ip", "-n", name, family, "-batch", "-"], "".join(f"{c}\n" for c in commands))
        if any(t.protocol == "mptcp" for t in scenario.transfers):
            ip(
                [
                    f"mptcp limits set subflows {SUBFLOWS_MAX} add_addr_accepted {SUBFLOWS_MAX}",
                    *(f"mptcp endpoint add {a.interface.address} dev {a.interface.name} {a.kind}"
                      for a in announced.get(host.name, [])),
                ],
                name,
            )  # fmt: skip
    return places


def counters(host: str) -> dict[str, int]:
    """Counters of the host's kernel (nstat's names), without zeros and values that are no counts."""
    text = run(inside(host_namespace(host), "cat", "/proc/net/snmp", "/proc/net/netstat"))
    found: dict[str, int] = {}
    lines = text.splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        group, _, row = names.partition(":")
        for key, value in zip(row.split(), values.partition(":")[2].split(), strict=True):
            if group in ("Tcp", "TcpExt", "MPTcpExt", "Ip", "IpExt"):
                found[group + key] = int(value)
    return found


def counted(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """The counters that changed, with the differences."""
    return {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}


def dropped_before_the_emulator(places: Sequence[tuple[str, str]]) -> int:
    """Packets that the kernel dropped because the emulator did not read them in time."""
    total = 0
    for namespace, device in places:
        lines = run(inside(namespace, "cat", "/proc/net/dev")).splitlines()
        fields = next((line.partition(":")[2].split() for line in lines if line.strip().startswith(f"{device}:")), None)
        if fields is None:
            raise LabFailed(f"the device {device} of {namespace} is gone")
        total += int(fields[11])
    return total
