"""Runs a scenario in the core's simulator."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.core import Choice, check, choices_for, ffi, lib
from rewindow.errors import BadOption
from rewindow.scenarios import (
    Bernoulli,
    Change,
    CoDel,
    Direction,
    EcnThreshold,
    Path,
    Red,
    Scenario,
    Traffic,
    Transfer,
    q32,
)

KERNEL_NAMES = {"reno": "newreno"}
"""What Linux calls its congestion control, where the registry has another name for it."""
LOADED = "rw_"
"""How the names of the registry's controllers begin in a kernel."""
KERNEL_SCHEDULER = "kernel"
"""Linux's packet scheduler: a burst of data goes to the subflow that drains first. It is not in the registry."""
FIRST_PORT = 40_000
SEND_BUFFER_BYTES = 4 << 20
"""Linux's tcp_wmem: what the tuning of a send buffer may reach."""
CLOCKS_HZ = (100, 250, 1000)


_APART_NS = 100_000
"""Between transfers that start at the same time: in the lab, too, the bursts of one come before those of the next."""
HOST_JITTER_NS, HOST_STALL_SHARE, HOST_STALL_NS = 15_000, 0.01, 500_000
"""The mean time that a host needs to hand a packet on, and how often it is late by how much: no two hosts stay in step
for long, and bandwidth samples of a long transfer are not all alike. Measured between the ACKs of a busy link."""

ROW = np.dtype(
    [("time_ns", "i8"), ("cwnd_q16", "u8"), ("ssthresh_q16", "u8"), ("srtt_ns", "u8"), ("rtt_ns", "u8"),
     ("subflow", "u4"), ("in_flight", "u4"), ("una", "u4"), ("next", "u4"), ("delivered", "u4"), ("flags", "u4")]
)  # fmt: skip


@dataclass(frozen=True)
class Kernel:
    """The kernel of all hosts.

    hz: ticks of its clock a second (Linux's CONFIG_HZ), one of CLOCKS_HZ. Timers fire at ticks, so that it moves
    timeouts and delayed ACKs; CUBIC computes its growth once a tick.
    version: of Linux, major and minor. It decides how far the tuning of receive buffers may go.
    Raises BadOption at another hz.
    """

    hz: int = 250
    version: tuple[int, int] = (6, 18)

    def __post_init__(self) -> None:
        if self.hz not in CLOCKS_HZ:
            raise BadOption(f"a kernel's clock has {', '.join(map(str, CLOCKS_HZ))} Hz, not {self.hz}")

    @property
    def tick_ns(self) -> int:
        return 1_000_000_000 // self.hz

    @property
    def receive_buffer_bytes(self) -> int:
        """The largest of Linux's tcp_rmem: 6 MiB, and 32 MiB since 6.16."""
        return (32 if self.version >= (6, 16) else 6) << 20


KERNEL = Kernel()
"""Debian's clock, and the Linux that the lab's measurements were made on."""


@dataclass(frozen=True)
class SimulatedSubflow:
    """One subflow at the end. cwnd in segments; ssthresh None: never set; established_s None: never.

    handshake_s, closing_s: the round trips of the handshake, and of a FIN that would have left when the last data was
    acknowledged; None: not known.
    """

    path: str
    bytes: int
    segments: int
    retransmitted: int
    timeouts: int
    fast_retransmits: int
    cwnd: float
    ssthresh: float | None
    srtt_s: float
    established_s: float | None
    handshake_s: float | None
    closing_s: float | None


@dataclass(frozen=True)
class SimulatedTransfer:
    """goodput_bps: acknowledged bytes over the time from the first data to its last acknowledgement; None: no data."""

    name: str
    algorithm: str
    bytes: int
    complete: bool
    first_data_s: float | None
    last_acked_s: float | None
    subflows: tuple[SimulatedSubflow, ...]
    scheduler: str | None = None
    """Of an MPTCP transfer's packets."""

    @property
    def completion_s(self) -> float | None:
        """Between the first data and its last acknowledgement; None where not all arrived."""
        if not self.complete or self.first_data_s is None or self.last_acked_s is None:
            return None
        return self.last_acked_s - self.first_data_s

    @property
    def goodput_bps(self) -> float | None:
        if self.first_data_s is None or self.last_acked_s is None or self.last_acked_s <= self.first_data_s:
            return None
        return 8 * self.bytes / (self.last_acked_s - self.first_data_s)

    @property
    def retransmitted(self) -> int:
        return sum(subflow.retransmitted for subflow in self.subflows)


@dataclass(frozen=True)
class LinkCounts:
    """Packets of one direction of a link: sent, and dropped by the full queue, its discipline, loss, and while down."""

    name: str
    forwarded: int
    bytes: int
    dropped_full: int
    dropped_early: int
    dropped_loss: int
    dropped_down: int
    marked: int
    reordered: int
    queue_packets_max: int
    queue_bytes_max: int


@dataclass(frozen=True)
class Simulation:
    """What came of one run. rows: the window after each ACK (the fields of ROW), or None where nobody asked."""

    scenario: str
    seed: int
    seconds: float
    transfers: tuple[SimulatedTransfer, ...]
    links: tuple[LinkCounts, ...]
    rows: npt.NDArray[Any] | None


class _Core:
    """The core's simulation; closed at the end of a `with`."""

    def __init__(self, seed: int, rows: bool, kernel: Kernel) -> None:
        self.error = ffi.new("rw_error *")
        handle = ffi.new("rw_simulation **")
        check(lib.rw_simulation_open(handle, seed, kernel.tick_ns, int(rows), self.error), self.error)
        self.handle = handle[0]

    def __enter__(self) -> _Core:
        return self

    def __exit__(self, *_: object) -> None:
        lib.rw_simulation_close(self.handle)

    def call(self, function: Any, *arguments: Any) -> None:
        check(function(self.handle, *arguments, self.error), self.error)


def _link_values(link: Direction) -> dict[str, int]:
    values = {
        "rate_bps": link.rate_bps or 0,
        "delay_ns": link.delay_ns,
        "jitter_ns": link.jitter_ns,
        "limit_packets": link.limit_packets or 0,
        "limit_bytes": link.limit_bytes or 0,
        "reorder_q32": q32(link.reordering.share),
        "reorder_ns": link.reordering.delay_ns,
    }
    match link.discipline:
        case EcnThreshold(packets):
            values |= {"discipline": lib.RW_MARKS_FROM_THRESHOLD, "threshold_packets": packets}
        case Red() as red:
            values |= {
                "discipline": lib.RW_DROPS_BY_RED, "red_min_packets": red.min_packets,
                "red_max_packets": red.max_packets, "red_probability_q32": q32(red.probability),
                "red_weight_shift": red.weight_shift, "red_gentle": int(red.gentle), "ecn": int(red.ecn),
            }  # fmt: skip
        case CoDel() as codel:
            values |= {
                "discipline": lib.RW_DROPS_BY_CODEL, "codel_target_ns": codel.target_ns,
                "codel_interval_ns": codel.interval_ns, "ecn": int(codel.ecn),
            }  # fmt: skip
    if isinstance(link.loss, Bernoulli):
        values["loss_q32"] = q32(link.loss.share)
    else:
        values |= {
            "good_to_bad_q32": q32(link.loss.good_to_bad), "bad_to_good_q32": q32(link.loss.bad_to_good),
            "loss_good_q32": q32(link.loss.good_loss), "loss_bad_q32": q32(link.loss.bad_loss),
        }  # fmt: skip
    return values


def _change_values(change: Change) -> dict[str, int]:
    values = {"at_ns": change.at_ns, "has": 0}
    for name, value, bit in (
        ("rate_bps", change.rate_bps, lib.RW_HAS_RATE),
        ("delay_ns", change.delay_ns, lib.RW_HAS_DELAY),
        ("loss_q32", None if change.loss is None else q32(change.loss), lib.RW_HAS_LOSS),
        ("down", None if change.down is None else int(change.down), lib.RW_HAS_DOWN),
    ):
        if value is not None:
            values[name] = value
            values["has"] |= bit
    return values


def _traffic_values(traffic: Traffic) -> dict[str, int]:
    return {
        "rate_bps": traffic.rate_bps, "packet_bytes": traffic.packet_bytes, "from_ns": traffic.start_ns,
        "to_ns": traffic.end_ns, "on_ns": traffic.on_ns or 0, "off_ns": traffic.off_ns or 0,
    }  # fmt: skip


def _begin_ns(scenario: Scenario, transfer: Transfer) -> int:
    """Of those that start at the same time, the ones that stand before it in the scenario begin first."""
    before = itertools.takewhile(lambda other: other is not transfer, scenario.transfers)
    return transfer.start_ns + _APART_NS * sum(other.start_ns == transfer.start_ns for other in before)


def _transfer_values(scenario: Scenario, transfer: Transfer, kernel: Kernel) -> dict[str, int]:
    sender, receiver = scenario.host(transfer.sender), scenario.host(transfer.receiver)
    stop_ns = scenario.duration_ns
    if transfer.duration_ns is not None:
        stop_ns = min(stop_ns, transfer.start_ns + transfer.duration_ns)
    return {
        "bytes": transfer.bytes or 0,
        "start_ns": _begin_ns(scenario, transfer),
        "stop_ns": stop_ns,
        "write_bytes": transfer.write_bytes,
        "pause_ns": transfer.pause_ns,
        "send_buffer_bytes": transfer.send_buffer_bytes or sender.send_buffer_bytes or SEND_BUFFER_BYTES,
        "receive_buffer_bytes": (
            transfer.receive_buffer_bytes or receiver.receive_buffer_bytes or kernel.receive_buffer_bytes
        ),
        "receive_buffer_first_bytes": transfer.receive_buffer_first_bytes or 0,
        "sack": int(sender.sack and receiver.sack),
        "timestamps": int(sender.timestamps and receiver.timestamps),
        "ecn": int(sender.ecn and receiver.ecn),
        "multipath": int(transfer.protocol == "mptcp"),
    }


def registry_name(congestion_control: str) -> str:
    """The registry's name of what a kernel calls a congestion control: `rw_tccc_plus` is `tccc+`, loaded into it."""
    if congestion_control.startswith(LOADED):
        name = congestion_control.removeprefix(LOADED)
        return (name.removesuffix("_plus") + "+" if name.endswith("_plus") else name).replace("_", "-")
    return KERNEL_NAMES.get(congestion_control, congestion_control)


def choice_of(transfer: Transfer) -> Choice:
    """The controller that stands for a transfer's congestion control; Linux's default is CUBIC."""
    return Choice(registry_name(transfer.congestion_control or "cubic"))


def scheduler_of(transfer: Transfer) -> Choice | None:
    """Linux's own packet scheduler for MPTCP; TCP has none."""
    return Choice(KERNEL_SCHEDULER) if transfer.protocol == "mptcp" else None


def _host(core: _Core, number: Any) -> int:
    """What a host needs to send a packet is a link of its own, whose times vary."""
    values = {"jitter_ns": HOST_JITTER_NS, "stall_q32": q32(HOST_STALL_SHARE), "stall_ns": HOST_STALL_NS}
    core.call(lib.rw_simulation_add_link, ffi.new("rw_link_values *", values), number)
    return int(number[0])


def _ends(path: Path, from_port: int, to_port: int) -> dict[str, Any]:
    return {
        "mtu_bytes": min(path.start.mtu_bytes, path.end.mtu_bytes), "family": path.start.address.version,
        "from": path.start.address.packed, "to": path.end.address.packed, "from_port": from_port, "to_port": to_port,
    }  # fmt: skip


def _set_scheduler(core: _Core, chosen: Choice | None) -> None:
    if chosen is None:
        return
    if chosen.name == KERNEL_SCHEDULER:
        if chosen.options:
            raise BadOption(f"{KERNEL_SCHEDULER}, the kernel's own scheduler, has no options")
        return
    array, keep = choices_for([chosen])
    core.call(lib.rw_simulation_set_scheduler, array)
    del keep


def _build(
    core: _Core,
    scenario: Scenario,
    choices: dict[str, Choice],
    schedulers: dict[str, Choice | None],
    kernel: Kernel,
) -> None:
    numbers: dict[str, int] = {}
    subflows = 0
    number = ffi.new("uint32_t *")
    for link in scenario.links:
        core.call(lib.rw_simulation_add_link, ffi.new("rw_link_values *", _link_values(link)), number)
        numbers[link.name] = number[0]
        for change in link.changes:
            core.call(
                lib.rw_simulation_add_change, number[0], ffi.new("rw_link_change_values *", _change_values(change))
            )
    for traffic in scenario.traffic:
        values = ffi.new("rw_traffic_values *", _traffic_values(traffic))
        core.call(lib.rw_simulation_add_traffic, numbers[traffic.link.name], values)
    for transfer in scenario.transfers:
        array, keep = choices_for([choices[transfer.name]])
        settings = ffi.new("rw_transfer_settings *", _transfer_values(scenario, transfer, kernel))
        core.call(lib.rw_simulation_add_transfer, settings, array, number)
        del keep
        _set_scheduler(core, schedulers[transfer.name])
        if transfer.writes:
            writes = [(w.bytes, w.after_ns, int(w.after_acknowledged)) for w in transfer.writes]
            core.call(lib.rw_simulation_set_writes, ffi.new("rw_write_values[]", writes), len(writes))
        for path in transfer.paths:
            forward = [_host(core, number), *(numbers[link.name] for link in path.links)]
            back = [_host(core, number), *(numbers[link.name] for link in path.links_back)]
            subflows += 1
            ends = ffi.new("rw_path_ends *", _ends(path, FIRST_PORT + subflows, transfer.port))
            core.call(lib.rw_simulation_add_path, forward, len(forward), back, len(back), ends)


def _seconds(time_ns: int) -> float | None:
    return None if time_ns < 0 else time_ns / 1e9


def _subflow(core: _Core, number: int, path: str) -> SimulatedSubflow:
    row = ffi.new("rw_simulated_row *")
    lib.rw_simulation_subflow(core.handle, number, row)
    return SimulatedSubflow(
        path=path, bytes=row.bytes, segments=row.segments, retransmitted=row.retransmitted, timeouts=row.timeouts,
        fast_retransmits=row.fast_retransmits, cwnd=row.cwnd_q16 / 65536,
        ssthresh=None if row.ssthresh_q16 == 2**64 - 1 else row.ssthresh_q16 / 65536, srtt_s=row.srtt_ns / 1e9,
        established_s=_seconds(row.established_ns),
        handshake_s=row.handshake_ns / 1e9 or None, closing_s=row.closing_ns / 1e9 or None,
    )  # fmt: skip


def _transfers(
    core: _Core, scenario: Scenario, choices: dict[str, Choice], schedulers: dict[str, Choice | None]
) -> list[SimulatedTransfer]:
    found, first, row = [], 0, ffi.new("rw_transfer_row *")
    for number, transfer in enumerate(scenario.transfers):
        scheduler = schedulers[transfer.name]
        lib.rw_simulation_transfer(core.handle, number, row)
        subflows = tuple(_subflow(core, first + i, path.name) for i, path in enumerate(transfer.paths))
        first += len(subflows)
        found.append(
            SimulatedTransfer(
                name=transfer.name,
                algorithm=choices[transfer.name].name,
                bytes=row.bytes,
                complete=bool(row.complete),
                first_data_s=_seconds(row.first_data_ns),
                last_acked_s=_seconds(row.last_acked_ns),
                subflows=subflows,
                scheduler=None if scheduler is None else scheduler.name,
            )
        )
    return found


def _links(core: _Core, scenario: Scenario) -> list[LinkCounts]:
    row, found = ffi.new("rw_link_counts_row *"), []
    for number, link in enumerate(scenario.links):
        lib.rw_simulation_link(core.handle, number, row)
        fields = [name for name in LinkCounts.__dataclass_fields__ if name != "name"]
        found.append(LinkCounts(link.name, *(getattr(row, field) for field in fields)))
    return found


def check_choice(choice: Choice) -> None:
    """Raises UnknownAlgorithm or BadOption where a transfer cannot be given this algorithm with these options."""
    with _Core(0, False, KERNEL) as core:
        array, keep = choices_for([_in_kernel_mode(choice, KERNEL)])
        values = {"start_ns": 0, "stop_ns": 1, "write_bytes": 1, "send_buffer_bytes": 1, "receive_buffer_bytes": 1}
        core.call(
            lib.rw_simulation_add_transfer, ffi.new("rw_transfer_settings *", values), array, ffi.new("uint32_t *")
        )
        del keep


def _in_kernel_mode(choice: Choice, kernel: Kernel) -> Choice:
    """Linux's machinery around the window is simulated; mode=paper has none. CUBIC counts the kernel's ticks."""
    clock: dict[str, object] = {"hz": str(kernel.hz)} if choice.name == "cubic" else {}
    return Choice(choice.name, clock | {**choice.options, "mode": "kernel"})


def simulate(
    scenario: Scenario,
    seed: int | None = None,
    algorithms: dict[str, Choice] | None = None,
    rows: bool = False,
    capture: int | None = None,
    beside_receivers: bool = False,
    schedulers: dict[str, Choice] | None = None,
    kernel: Kernel = KERNEL,
) -> Simulation:
    """One run. seed None: the scenario's. algorithms: by a transfer's name, in place of its congestion control.
    schedulers: by the name of an MPTCP transfer, in place of Linux's own packet scheduler ("kernel").

    capture: a file descriptor that packets are written to as pcapng, as seen beside the senders of data, or beside
    their receivers.

    The same scenario, seed, algorithms, schedulers and kernel give the same result on every machine.
    """
    chosen = {t.name: choice_of(t) for t in scenario.transfers} | (algorithms or {})
    choices = {name: _in_kernel_mode(c, kernel) for name, c in chosen.items()}
    seed = scenario.seed if seed is None else seed
    scheduled = {t.name: scheduler_of(t) for t in scenario.transfers}
    for name, chosen_scheduler in (schedulers or {}).items():
        if scheduled.get(name) is None:
            raise BadOption(f"{name} is no MPTCP transfer of the scenario: its packets need no scheduler")
        scheduled[name] = chosen_scheduler
    with _Core(seed, rows, kernel) as core:
        _build(core, scenario, choices, scheduled, kernel)
        if capture is not None:
            core.call(lib.rw_simulation_capture, capture, int(beside_receivers))
        core.call(lib.rw_simulation_run, scenario.duration_ns + scenario.grace_ns)
        core.call(lib.rw_simulation_finish_capture)
        kept = None
        if rows:
            count = ffi.new("uint64_t *")
            at = lib.rw_simulation_rows(core.handle, count)
            kept = (
                np.frombuffer(ffi.buffer(at, count[0] * ROW.itemsize), dtype=ROW).copy()
                if count[0]
                else np.empty(0, ROW)
            )
        return Simulation(
            scenario=scenario.name, seed=seed, seconds=lib.rw_simulation_now_ns(core.handle) / 1e9,
            transfers=tuple(_transfers(core, scenario, choices, scheduled)), links=tuple(_links(core, scenario)),
            rows=kept,
        )  # fmt: skip
