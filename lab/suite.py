"""The networks of the lab: one line for each, and the scenario that follows from it.

A network has an MPTCP or TCP sender `client` with one to four paths to `server`, and a TCP sender `rival` with a path
to `peer`. `shared`: all paths and the rival cross one bottleneck. Otherwise each path has its own, and the rival
crosses the first one. Each path begins with an access link. By default a queue holds a bandwidth-delay product, and at
least 20 packets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MTU = 1400


@dataclass(frozen=True)
class Network:
    """rate_mbps and delay_ms are those of each path's bottleneck: one value for all, or one for each.

    delay_ms is one way; an access link adds access_ms. rival: the congestion control of the rival; empty: no rival.
    Further keys in TOML: of each bottleneck (link), of the second bottleneck (second_link), of each host (hosts), of
    the client, of the client's transfer (transfer) and of the rival's (rival_transfer); and further tables.
    """

    name: str
    rate_mbps: tuple[float, ...] = (5,)
    delay_ms: tuple[float, ...] = (30,)
    access_ms: float = 5
    paths: int = 2
    shared: bool = False
    limit_packets: int = 0
    seconds: float = 12
    seed: int = 1
    ipv6: bool = False
    protocol: str = "mptcp"
    congestion_control: str = "reno"
    rival: str = "reno"
    link: str = ""
    second_link: str = ""
    hosts: str = ""
    client: str = ""
    transfer: str = ""
    rival_start: float = 0
    rival_transfer: str = ""
    at_receiver: bool = False
    more: str = ""

    def told(self) -> str:
        """A line that describes the network."""
        words: list[Any] = [
            self.protocol, self.congestion_control, f"{self.paths} path{'s' * (self.paths > 1)}",
            "shared" if self.shared else "", f"{'/'.join(f'{r:g}' for r in self.rate_mbps)} Mbit/s",
            f"{'/'.join(f'{d:g}' for d in self.delay_ms)}+{self.access_ms:g} ms", "IPv6" if self.ipv6 else "",
            f"beside {self.rival}" if self.rival else "", self.link, self.second_link, self.hosts, self.client,
            self.transfer, self.rival_transfer, self.more, "at the receiver" if self.at_receiver else "",
        ]  # fmt: skip
        return " ".join(str(w).replace("\n", ", ") for w in words if w)


N = Network


def _grid() -> Iterator[Network]:
    """Networks of different rates and round trips, with MPTCP on two paths and a TCP rival."""
    for shared in (True, False):
        kind = "shared" if shared else "disjoint"
        for rate, delay in ((1, 30), (2, 100), (5, 2), (5, 30), (10, 75), (20, 10), (50, 20)):
            yield N(f"{kind}-{rate}m-{delay:g}ms", (rate,), (delay,), 0 if delay < 5 else 5, shared=shared)
        yield N(f"{kind}-cubic-10m-40ms", (10,), (40,), shared=shared, congestion_control="cubic", rival="cubic")
        yield N(f"{kind}-v6-8m-25ms", (8,), (25,), shared=shared, ipv6=True)


def _controllers() -> Iterator[Network]:
    """The project's own, loaded into the kernel."""
    for name in ("css", "tccc", "tccc_plus", "lia", "olia", "balia", "enmcc"):
        kind, cc = f"kernel-{name.replace('_', '-')}", f"rw_{name}"
        yield N(f"{kind}-disjoint", (5, 3), (20, 35), congestion_control=cc)
        yield N(f"{kind}-shared", (6,), (25,), shared=True, congestion_control=cc, rival=cc)
        yield N(f"{kind}-four-paths", (3,), (20,), paths=4, congestion_control=cc)
        yield N(
            f"{kind}-ecn",
            (5,),
            (30,),
            limit_packets=100,
            congestion_control=cc,
            hosts="ecn = true",
            link='discipline = { kind = "ecn_threshold", threshold = 20 }',
        )
    for shared in (True, False):
        yield N(
            f"kernel-sbcc-{'shared' if shared else 'disjoint'}-ecn",
            (6,),
            (25,),
            shared=shared,
            limit_packets=100,
            congestion_control="rw_sbcc",
            hosts="ecn = true",
            link='discipline = { kind = "ecn_threshold", threshold = 20 }',
        )
    for name in ("westwood", "htcp", "illinois", "scalable", "vegas"):
        kind, cc = f"kernel-{name}", f"rw_{name}"
        yield N(f"{kind}-8m", (8,), (25,), paths=1, protocol="tcp", congestion_control=cc, rival="", seconds=14)
        yield N(f"{kind}-20m", (20,), (10,), paths=1, protocol="tcp", congestion_control=cc, rival="")
    for threshold in (10, 30):
        yield N(
            f"kernel-dctcp-{threshold}",
            (8,),
            (15,),
            paths=1,
            protocol="tcp",
            limit_packets=100,
            congestion_control="rw_dctcp",
            rival="",
            hosts="ecn = true",
            link=f'discipline = {{ kind = "ecn_threshold", threshold = {threshold} }}',
        )


NETWORKS: tuple[Network, ...] = (
    *_grid(),
    *_controllers(),
    # One path.
    N("tcp-reno-5m", paths=1, protocol="tcp", rival=""),
    N("tcp-cubic-20m", (20,), (40,), paths=1, protocol="tcp", congestion_control="cubic", rival=""),
    N("tcp-reno-beside-cubic", (10,), (20,), paths=1, protocol="tcp", rival="cubic"),
    N("tcp-v6-cubic-15m", (15,), (15,), paths=1, protocol="tcp", congestion_control="cubic", rival="", ipv6=True),
    N("mptcp-one-path", (8,), (20,), paths=1),
    # Fast and far.
    N("fast-100m", (100,), (10,), limit_packets=300, seconds=5, rival="",
      hosts='send_buffer = "4MB"\nreceive_buffer = "16MB"'),
    N("fast-200m", (200,), (5,), paths=1, limit_packets=400, seconds=4, rival="",
      hosts='send_buffer = "4MB"\nreceive_buffer = "16MB"'),
    N("far-300ms", (4,), (145,), seconds=20),
    N("far-cubic-200ms", (10,), (95,), seconds=20, congestion_control="cubic", rival="cubic",
      hosts='send_buffer = "2MB"'),
    N("near-5ms", (30,), (2,), access_ms=0.5, seconds=8),
    # More paths, and unequal ones.
    N("three-paths", (4,), (25,), paths=3),
    N("three-paths-shared", (8,), (25,), paths=3, shared=True),
    N("four-paths", (3,), (20,), paths=4),
    N("four-paths-cubic", (3,), (20,), paths=4, congestion_control="cubic", rival="cubic"),
    N("four-paths-v6-shared", (10,), (20,), paths=4, shared=True, ipv6=True),
    N("unequal-rates", (10, 2), (20, 20)),
    N("unequal-delays", (5, 5), (5, 100)),
    N("unequal-both-cubic", (12, 3), (15, 60), congestion_control="cubic", rival="cubic"),
    # Queues.
    N("shallow-queue", (10,), (30,), limit_packets=12),
    N("deep-queue", (5,), (20,), limit_packets=250),
    N("queue-in-bytes", (6,), (25,), link='limit = "40kB"'),
    N("red", (8,), (25,), limit_packets=120, link='discipline = { kind = "red", min = 10, max = 40 }'),
    N("codel", (8,), (25,), limit_packets=300, link='discipline = "codel"'),
    N("codel-shared-cubic", (12,), (20,), shared=True, limit_packets=300, congestion_control="cubic", rival="cubic",
      link='discipline = "codel"'),
    # ECN.
    N("ecn-threshold", (5,), (30,), limit_packets=100, hosts="ecn = true",
      link='discipline = { kind = "ecn_threshold", threshold = 20 }'),
    N("ecn-threshold-shared", (8,), (25,), shared=True, limit_packets=100, hosts="ecn = true",
      link='discipline = { kind = "ecn_threshold", threshold = 25 }'),
    N("ecn-red", (8,), (25,), limit_packets=150, hosts="ecn = true",
      link='discipline = { kind = "red", min = 10, max = 40, ecn = true }'),
    N("ecn-codel-cubic", (10,), (20,), limit_packets=300, hosts="ecn = true", congestion_control="cubic", rival="cubic",
      link='discipline = { kind = "codel", ecn = true }'),
    # Loss and reordering.
    N("loss-half-percent", (10,), (25,), link="loss = 0.005\nbackward = { loss = 0 }"),
    N("loss-2-percent", (10,), (25,), link="loss = 0.02\nbackward = { loss = 0 }"),
    N("loss-8-percent", (10,), (25,), link="loss = 0.08\nbackward = { loss = 0 }"),
    N("loss-both-ways", (8,), (20,), link="loss = 0.02"),
    N("loss-bursts", (8,), (25,),
      link="loss = { good_to_bad = 0.002, bad_to_good = 0.2, good_loss = 0, bad_loss = 0.5 }\nbackward = { loss = 0 }"),
    N("loss-2-percent-no-sack", (8,), (25,), link="loss = 0.02\nbackward = { loss = 0 }", hosts="sack = false"),
    N("loss-2-percent-cubic", (10,), (25,), link="loss = 0.02\nbackward = { loss = 0 }", congestion_control="cubic",
      rival="cubic"),
    N("reordering", (8,), (25,), link='reordering = { share = 0.01, delay = "15ms" }'),
    N("reordering-cubic", (12,), (15,), link='reordering = { share = 0.005, delay = "10ms" }',
      congestion_control="cubic", rival="cubic"),
    N("jitter", (8,), (25,), link='jitter = "2ms"'),
    # Options, offload, where it is captured.
    N("no-sack", (5,), (30,), hosts="sack = false"),
    N("no-timestamps", (8,), (25,), hosts="timestamps = false"),
    N("no-timestamps-no-sack", (8,), (25,), hosts="timestamps = false\nsack = false"),
    N("offload", (40,), (15,), client="offload = true", rival=""),
    N("offload-v6-cubic", (60,), (10,), client="offload = true", ipv6=True, congestion_control="cubic", rival="",
      seconds=8),
    N("receiver-side", (5,), (30,), at_receiver=True),
    N("receiver-side-cubic", (10,), (20,), at_receiver=True, congestion_control="cubic", rival="cubic"),
    # Applications and receivers that limit the sender.
    N("application-limited", (10,), (25,), transfer='write = "40kB"\npause = "100ms"'),
    N("application-idle", (10,), (25,), transfer='write = "300kB"\npause = "1500ms"'),
    N("receiver-limited", (20,), (25,), transfer='receive_buffer = "40kB"'),
    N("sender-limited", (20,), (25,), transfer='send_buffer = "48kB"'),
    N("short-140k", (5,), (30,), seconds=8, shared=True, transfer='bytes = "140kB"\nstart = "3s"'),
    N("short-560k", (5,), (30,), seconds=10, shared=True, transfer='bytes = "560kB"\nstart = "3s"'),
    N("short-980k-cubic", (10,), (20,), seconds=8, shared=True, transfer='bytes = "980kB"\nstart = "3s"',
      congestion_control="cubic", rival="cubic"),
    # Networks that change.
    N("path-fails", (6,), (25,), seconds=15, second_link='changes = [{ at = "5s", down = true }]'),
    N("path-fails-and-returns", (6,), (25,), seconds=15,
      second_link='changes = [{ at = "4s", down = true }, { at = "7s", down = false }]'),
    N("rate-falls-and-rises", (10,), (25,), seconds=15,
      link='changes = [{ at = "5s", rate = "3M" }, { at = "10s", rate = "12M" }]'),
    N("delay-rises", (8,), (20,), link='changes = [{ at = "6s", delay = "60ms" }]'),
    N("rate-trace", (8,), (25,), seconds=14,
      link='rate_trace = [[1, "4M"], [3, "9M"], [5, "2M"], [8, "12M"], [11, "6M"]]'),
    N("cross-traffic", (8,), (25,), more='[[traffic]]\nlink = "bottleneck1"\nkind = "on_off"\nrate = "4M"\non = "1s"\n'
      'off = "1s"'),
    # BBR, whose state is recorded too.
    N("bbr-20m-10ms", (20,), (10,), paths=1, protocol="tcp", congestion_control="bbr", rival="", seconds=14),
    N("bbr-2m-60ms", (2,), (60,), paths=1, protocol="tcp", congestion_control="bbr", rival="", seconds=20),
    N("bbr-loss-2-percent", (10,), (25,), paths=1, protocol="tcp", congestion_control="bbr", rival="",
      link="loss = 0.02\nbackward = { loss = 0 }"),
    N("bbr-shallow-queue", (10,), (30,), paths=1, protocol="tcp", congestion_control="bbr", rival="", limit_packets=12),
    # Its send buffer holds it back: it is limited by its application more often than the capture shows.
    N("bbr-send-buffer", (18,), (22,), paths=1, protocol="tcp", congestion_control="bbr", rival="", limit_packets=50),
    N("bbr-send-buffer-deep-queue", (25,), (18,), paths=1, protocol="tcp", congestion_control="bbr", rival="",
      limit_packets=300),
    N("bbr-rate-steps", (15,), (45,), paths=1, protocol="tcp", congestion_control="bbr", rival="", limit_packets=150,
      link='changes = [{ at = "4s", rate = "6M" }, { at = "7s", rate = "12M" }]'),
    N("bbr-pauses", (10,), (35,), paths=1, protocol="tcp", congestion_control="bbr", rival="", limit_packets=70,
      transfer='write = "90kB"\npause = "120ms"'),
    N("bbr-mptcp-ecn-shared", (7,), (25,), access_ms=8, shared=True, congestion_control="bbr", limit_packets=80,
      hosts="ecn = true", link='discipline = { kind = "ecn_threshold", threshold = 15 }', seconds=13),
    N("bbr-mptcp-beside-cubic", (8,), (25,), congestion_control="bbr", rival="cubic", seconds=14),
    N("beside-bbr", (10,), (25,), shared=True, rival="bbr"),
    N("rival-starts-late", (8,), (25,), shared=True, rival_start=5),
)  # fmt: skip


def _each(values: tuple[float, ...], count: int) -> list[float]:
    return [values[k if len(values) > 1 else 0] for k in range(count)]


def _limit(network: Network, rate_mbps: float, delay_ms: float) -> int:
    product = rate_mbps * 1e6 * 2 * (delay_ms + network.access_ms) / 1e3 / 8 / MTU
    return network.limit_packets or max(20, round(product))


def text_of(network: Network) -> str:
    """The scenario as TOML."""
    count = network.paths
    bottlenecks = 1 if network.shared else count
    rates, delays = _each(network.rate_mbps, count), _each(network.delay_ms, count)
    lines = [f'name = "{network.name}"', f"seconds = {network.seconds:g}", f"seed = {network.seed}"]

    def address(path: int, end: int) -> str:
        return f"fd00:{path}::{end}" if network.ipv6 else f"10.0.{path}.{end}"

    def host(name: str, interfaces: dict[str, str], more: str) -> None:
        buffers = "" if "_buffer" in network.hosts else 'send_buffer = "512kB"'
        lines.extend(("", f"[hosts.{name}]", *filter(None, (network.hosts, buffers, more))))
        lines.extend(f'interfaces.{i} = {{ address = "{a}", mtu = {MTU} }}' for i, a in interfaces.items())

    host("client", {f"p{k}": address(k, 1) for k in range(1, count + 1)}, network.client)
    host("server", {f"p{k}": address(k, 2) for k in range(1, count + 1)}, "")
    if network.rival:
        host("rival", {"p": address(11, 1)}, "")
        host("peer", {"p": address(11, 2)}, "")
    for k in range(1, bottlenecks + 1):
        lines += ["", f"[links.bottleneck{k}]", f"rate = {rates[k - 1] * 1e6:.0f}", f'delay = "{delays[k - 1]:g}ms"']
        if "limit = " not in network.link:
            lines.append(f"limit = {_limit(network, rates[k - 1], delays[k - 1])}")
        lines += filter(None, (network.link, network.second_link if k == 2 else ""))
    lines += ["", "[links.access]", f'delay = "{network.access_ms:g}ms"']
    for k in range(1, count + 1):
        lines += ["", "[[paths]]", f'name = "path{k}"', f'from = "client.p{k}"', f'to = "server.p{k}"',
                  f'links = ["access", "bottleneck{1 if network.shared else k}"]']  # fmt: skip
    if network.rival:
        lines += ["", "[[paths]]", 'name = "rival"', 'from = "rival.p"', 'to = "peer.p"']
        lines.append('links = ["access", "bottleneck1"]')
    lines += ["", "[[transfers]]", 'name = "client"', f'protocol = "{network.protocol}"', 'from = "client"']
    lines += ['to = "server"', f'congestion_control = "{network.congestion_control}"']
    if network.transfer:
        lines.append(network.transfer)
    if network.rival:
        lines += ["", "[[transfers]]", 'name = "rival"', 'protocol = "tcp"', 'from = "rival"', 'to = "peer"']
        lines += [f'congestion_control = "{network.rival}"', f"start = {network.rival_start:g}"]
        lines += filter(None, (network.rival_transfer,))
    if network.more:
        lines += ["", network.more]
    if network.at_receiver:
        receivers = [f"server.p{k}" for k in range(1, count + 1)] + ["peer.p"] * bool(network.rival)
        lines += ["", "[[captures]]", f"interfaces = {receivers}"]
    return "\n".join(lines) + "\n"
