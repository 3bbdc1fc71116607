"""Compares one capture's numbers with tshark's, and gives each difference its reasons."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from bench.corpus.flows import Flow, connections_of, flows_of
from bench.corpus.reasons import Comparison, Difference
from bench.corpus.repeats import Read, compare_bytes, compare_retransmissions
from bench.corpus.round_trips import compare_round_trips
from bench.corpus.sender import Sender
from bench.corpus.tshark import HEADER_BYTES_MIN, Endpoint, Seen


def compare(ours: dict[str, Any], seen: Seen) -> Comparison:
    found, summary = Comparison(), ours["summary"]
    found.add(
        "packets", summary["packets"], seen.frames, seen.frames - seen.blocks, Counter({"no packet": -seen.blocks})
    )
    _compare_tcp(found, summary["tcp_packets"], seen)
    flows = flows_of(seen.packets)
    connections = connections_of(flows)
    subflows = [s for c in ours["connections"] for s in c["subflows"]]
    _compare_streams(found, len(subflows), flows, seen)
    _compare_mptcp(found, sum(c["kind"] == "mptcp" for c in ours["connections"]), connections, seen)
    senders = list(_senders(flows, subflows))
    if len(senders) == len(subflows) == len(flows):
        compare_bytes(found, senders)
        compare_retransmissions(found, senders)
        compare_round_trips(found, senders, bad_time=bool(seen.bad_time))
        if "window_too_large" in summary["oddities"]:
            _give_up(found)
    _compare_oddities(found, summary["oddities"], flows, connections, [s for s, _ in senders], seen)
    _leave_undecoded(found)
    return found


def _leave_undecoded(found: Comparison) -> None:
    """Where the core has TCP packets that tshark does not decode, numbers that depend on them are not compared."""
    if any(d.what == "TCP packets" and d.reasons["undecoded"] for d in found.differences):
        for difference in found.differences:
            if difference.unexplained and difference.what != "TCP packets":
                difference.reasons, difference.unexplained = Counter({"undecoded": 1}), ""


def _give_up(found: Comparison) -> None:
    """The core could not follow a flow, as its oddity says, so that it counts less of the flow's data."""
    for difference in found.differences:
        if difference.unexplained and difference.what in ("bytes", "retransmissions", "median RTT"):
            difference.reasons, difference.unexplained = Counter({"not followed": 1}), ""


def _compare_tcp(found: Comparison, ours: int, seen: Seen) -> None:
    reasons = Counter({"ICMP error": -seen.frames_in_icmp, "broken header": -seen.frames_broken})
    reasons["passed over"] = -seen.frames_passed_over
    reasons["aggregate"] = seen.aggregated
    reasons["cut tunnel"] = len(seen.packets) - seen.tcp_frames - sum(reasons.values())
    expected = len(seen.packets)
    if expected < ours <= expected + seen.undecoded:
        reasons["undecoded"] = ours - expected
        expected = ours
    detail = (
        "" if 0 <= reasons["cut tunnel"] <= max(seen.tunnel_starts, 0) else "TCP packets that tshark shows only in part"
    )
    found.add("TCP packets", ours, seen.tcp_frames, expected if not detail else -1, reasons, detail)


def _components(pairs: Iterable[tuple[int, int]]) -> list[tuple[set[int], set[int]]]:
    """Connected components of a graph between rewindow's numbers and tshark's."""
    part_of: dict[tuple[str, int], tuple[set[int], set[int]]] = {}
    for mine, theirs in pairs:
        nodes = ("ours", mine), ("tshark", theirs)
        one, other = (part_of.get(node, (set(), set())) for node in nodes)
        joined = (one[0] | other[0] | {mine}, one[1] | other[1] | {theirs})
        part_of |= {("ours", m): joined for m in joined[0]} | {("tshark", t): joined for t in joined[1]}
    return list({id(part): part for part in part_of.values()}.values())


def _compare_streams(found: Comparison, ours: int, flows: Sequence[Flow], seen: Seen) -> None:
    reasons: Counter[str] = Counter()
    detail = ""
    for mine, theirs in _components((i, s) for i, f in enumerate(flows) for s in {p.stream for p in f.packets}):
        later = sorted(mine)[len(theirs) :]
        reasons["port reuse"] += len(later)
        for place in later:
            flows[place].goes_on = True
        if len(theirs) > len(mine) or not all(flows[place].begins_with_syn for place in later):
            detail = f"TCP streams: {len(mine)} flows of ours are {len(theirs)} of tshark's"
    whole = {p.stream for p in seen.packets}
    reasons["ICMP error"] -= len(seen.icmp_errors - whole)
    reasons["passed over"] -= len(seen.passed_over - seen.icmp_errors - whole)
    reasons["broken header"] -= len(seen.broken_headers - seen.passed_over - seen.icmp_errors - whole)
    found.add("TCP streams", ours, len(seen.streams | whole), len(flows), reasons, detail)


def _compare_mptcp(found: Comparison, ours: int, connections: Sequence[Sequence[Flow]], seen: Seen) -> None:
    multipath = [c for c in connections if any(f.is_mptcp for f in c)]
    shown = [{s for f in c for p in f.packets for s in p.mptcp_streams} for c in multipath]
    reasons: Counter[str] = Counter()
    for mine, theirs in _components((i, s) for i, streams in enumerate(shown) for s in streams):
        reasons["join by token"] -= max(len(theirs) - len(mine), 0)
        tokens = [{token for f in multipath[i] if not f.joined for token in f.tokens()} for i in mine]
        again = sum(len(t) for t in tokens) > len(set().union(*tokens))
        more = max(len(mine) - len(theirs), 0)
        if again or seen.options_cut:
            reasons["token again" if again else "cut option"] += more
    plain = [f for c in connections if not any(f.is_mptcp for f in c) for f in c]
    offered = {s for f in plain if f.capable for p in f.packets for s in p.mptcp_streams}
    reasons["no number"] += sum(not streams for streams in shown)
    reasons["offered only"] -= len(offered.difference(*shown))
    other = {s for f in plain if not f.capable for p in f.packets for s in p.mptcp_streams}
    reasons["no subtype"] -= len(other.difference(offered, *shown))
    found.add("MPTCP streams", ours, len(seen.mptcp_streams), len(multipath), reasons)


def _senders(flows: Sequence[Flow], subflows: Sequence[dict[str, Any]]) -> Iterable[Read]:
    """Each flow, read by the rules, with the core's row. Flows of one four-tuple are in the same order in both."""
    rows: dict[frozenset[Endpoint], list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(subflows, key=lambda r: r["first_ns"]):
        rows[frozenset(((row["src"], row["sport"]), (row["dst"], row["dport"])))].append(row)
    for flow in flows:
        if waiting := rows[frozenset(flow.ends)]:
            row = waiting.pop(0)
            yield Sender(flow, (row["src"], row["sport"]), row["vantage"], row["send_times"]), row


def _compare_oddities(
    found: Comparison, oddities: dict[str, Any], flows: Sequence[Flow], connections: Sequence[Sequence[Flow]],
    senders: Sequence[Sender], seen: Seen,
) -> None:  # fmt: skip
    broken = sum(
        p.mptcp_broken or (o.broken and len(p.options) >= p.header_bytes - HEADER_BYTES_MIN)
        for f in flows for p, o in zip(f.packets, f.options, strict=True)
    )  # fmt: skip
    theirs: dict[str, int | None] = {
        "cut_capture": int(seen.ending == "cut"),
        "corrupt_record": int(seen.ending == "corrupt"),
        "backward_timestamp": None if seen.bad_time else seen.backward,
        "late_record": None if seen.bad_time else seen.late,
        "bad_timestamp": seen.bad_time,
        "no_timestamp": seen.without_time,
        "ip_fragment": seen.fragments,
        "lost_fragment": seen.lost_fragments,
        "captured_twice": sum(len(f.copies) for f in flows),
        "header": seen.frames_broken + seen.options_cut + seen.headers_cut,
        "bad_option_length": broken,
        "no_handshake": sum(f.isn == [None, None] for f in flows),
        "unmatched_join": sum(c[0].joined and all(f.joined for f in c) for c in connections),
        "unseen_data": sum(s.unseen_acks for s in senders),
    }
    ours = Counter({name: value["count"] for name, value in oddities.items()})
    ours["header"] = ours.pop("truncated_header", 0) + ours.pop("bad_length", 0)
    for name in sorted(set(ours) | set(theirs)):
        mine, tshark = ours[name], theirs.get(name)
        if mine or tshark:
            found.oddities[name] = (mine, tshark)
        if name == "header" and tshark is not None and abs(mine - tshark) <= 2 * seen.aggregates_cut:
            # It is unknown how many frames a cut aggregate had: one oddity for the last header, one for the rest.
            reasons = Counter({"cut aggregate": mine - tshark})
            found.differences += [Difference(name, str(mine), str(tshark), reasons)] if mine != tshark else []
        elif tshark is not None and mine != tshark:
            text = f"{name}: {mine}, tshark's packets have {tshark}"
            found.differences.append(Difference(name, str(mine), str(tshark), unexplained=text))
