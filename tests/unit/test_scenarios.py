"""Scenarios: what is read, and what is said of each mistake."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Iterator
from fractions import Fraction
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewindow.scenarios import (
    Bernoulli,
    Change,
    CoDel,
    EcnThreshold,
    GilbertElliott,
    Red,
    Scenario,
    ScenarioUnreadable,
    load,
    parse,
)
from rewindow.scenarios.quantities import PACKETS, RATE, SIZE, TIME, Kind, quantity, shown

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "scenarios.md").read_text()
EXAMPLE = next(re.finditer(r"```toml\n(.*?)```", PAGE, re.DOTALL))[1]


def mistakes_of(text: str) -> tuple[tuple[str, str, str], ...]:
    with pytest.raises(ScenarioUnreadable) as caught:
        parse(text, "x.toml")
    return caught.value.mistakes


def changed(old: str, new: str) -> str:
    """The page's example with the first place of `old` replaced."""
    assert old in EXAMPLE
    return EXAMPLE.replace(old, new, 1)


def test_the_pages_example_is_read_into_base_units() -> None:
    scenario = parse(EXAMPLE, "x.toml")
    assert (scenario.name, scenario.duration_ns, scenario.grace_ns, scenario.seed) == (
        "two-paths",
        10**10,
        3 * 10**10,
        1,
    )
    first, back = scenario.links[:2]
    assert (first.name, first.rate_bps, first.delay_ns, first.limit_packets) == (
        "bottleneck.forward",
        5_000_000,
        30_000_000,
        47,
    )
    assert back == dataclasses.replace(first, forward=False)
    (transfer,) = scenario.transfers
    assert [p.name for p in transfer.paths] == ["first", "second"]
    assert [link.name for link in transfer.paths[0].links] == ["access.forward", "bottleneck.forward"]
    assert [link.name for link in transfer.paths[0].links_back] == ["bottleneck.backward", "access.backward"]
    assert (transfer.duration_ns, transfer.port, transfer.congestion_control) == (10**10, 5001, "reno")
    (capture,) = scenario.captures
    assert [str(i) for i in capture.interfaces] == ["client.a", "client.b"]
    assert scenario.bottlenecks(transfer.paths[0]) == {"bottleneck.forward"}


def test_the_long_example_uses_every_kind() -> None:
    scenario = load(DOCS / "examples" / "scenario-phone.toml")
    links = {link.name: link for link in scenario.links}
    assert links["wifi.forward"].discipline == CoDel(5_000_000, 100_000_000, True)
    assert links["wifi.backward"].loss == GilbertElliott(0.001, 0.2, 0.0, 0.3)
    assert links["wifi.forward"].limit_bytes == 64_000
    assert scenario.files == ("scenario-cell.csv",)
    cell = links["cell.forward"]
    assert [c.rate_bps for c in cell.changes if c.rate_bps] == [8_000_000, 5_000_000, 9_000_000, 1_500_000, 6_000_000]
    assert cell.changes[-1] == Change(14 * 10**9, down=False)
    # The backward direction has a rate of its own and says that nothing changes it.
    assert (links["cell.backward"].rate_bps, links["cell.backward"].changes) == (2_000_000, ())
    assert [(t.link.name, t.on_ns) for t in scenario.traffic] == [("wifi.forward", 10**9)]
    assert [(c.name, len(c.interfaces)) for c in scenario.captures] == [("capture", 2), ("at-the-server", 2)]


def test_the_model_is_immutable() -> None:
    def parts(value: object) -> Iterator[object]:
        yield value
        if dataclasses.is_dataclass(value):
            for f in dataclasses.fields(value):
                yield from parts(getattr(value, f.name))
        elif isinstance(value, tuple):
            for item in value:
                yield from parts(item)

    scenario = load(DOCS / "examples" / "scenario-phone.toml")
    assert hash(scenario) == hash(load(DOCS / "examples" / "scenario-phone.toml"))
    assert {type(p) for p in parts(scenario)} & {list, dict, set} == set()


DISCIPLINES = [
    ('{ kind = "red", min = 5, max = "15 packets" }', Red(5, 15, 0.1, 9, True, False)),
    ('{ kind = "red", min = 5, max = 15, probability = "2%", weight_shift = 4, gentle = false, ecn = true }',
     Red(5, 15, 0.02, 4, False, True)),
    ('{ kind = "ecn_threshold", threshold = 20 }', EcnThreshold(20)),
    ('"codel"', CoDel(5_000_000, 100_000_000, False)),
]  # fmt: skip


@pytest.mark.parametrize(("written", "read"), DISCIPLINES)
def test_disciplines(written: str, read: object) -> None:
    scenario = parse(changed('limit = "47 packets"', f"limit = 47\ndiscipline = {written}"), "x.toml")
    assert scenario.links[0].discipline == read


MISTAKES = [
    ('rate = "5M"', 'rate = "5X"', "links.bottleneck.rate", "a rate in bit/s, as in", "'5X'"),
    ('rate = "5M"', 'rate = "5ms"', "links.bottleneck.rate", "a rate in bit/s, as in", "'5ms'"),
    ('rate = "5M"', "rate = 1e30", "links.bottleneck.rate", "from 1k to 100G", "1e+30"),
    ('rate = "5M"', "rate = nan", "links.bottleneck.rate", "a rate in bit/s", "nan"),
    ('rate = "5M"', "rate = 0x" + "f" * 5000, "links.bottleneck.rate", "from 1k to 100G", "a number of many digits"),
    ('rate = "5M"\n', "", "links.bottleneck.rate", "a rate: without one", "none"),
    ('rate = "5M"', 'rate = "5M"\nrate_trace = [[0, 1000, 3]]',
     "links.bottleneck.rate_trace[0]", "a pair", "a list of 3"),
    ('rate = "5M"', 'rate = "5M"\nrate_trace = [[1, "1M"], [1, "2M"]]',
     "links.bottleneck.rate_trace[1]", "after the one", "1s"),
    ('rate = "5M"', 'rate = "5M"\nrate_trace = "../secret"',
     "links.bottleneck.rate_trace", "without a folder", "'../secret'"),
    ('rate = "5M"', 'rate = "5M"\nrate_trace = [[1, "1M"]]\nchanges = [{ at = 1, rate = "1M" }]',
     "links.bottleneck.rate_trace", "no changes of the rate", "both"),
    ('delay = "30ms"', 'delay = "30 Mbit/s"', "links.bottleneck.delay", "a time in seconds, as in", "'30 Mbit/s'"),
    ('delay = "30ms"', "delay = -1", "links.bottleneck.delay", "from 0 to 10s", "-1"),
    ('delay = "30ms"', "delay = true", "links.bottleneck.delay", "a time", "true"),
    ('delay = "30ms"', 'dely = "30ms"', "links.bottleneck.dely", "the key delay", "an unknown key"),
    ('limit = "47 packets"', 'limit = "47 ms"', "links.bottleneck.limit", "the queue's limit", "'47 ms'"),
    ('limit = "47 packets"', "limit = 0", "links.bottleneck.limit", "from 1 to 1000000 packets", "0"),
    ('limit = "47 packets"', 'limit = 47\nloss = "101%"', "links.bottleneck.loss", "a share", "'101%'"),
    ('limit = "47 packets"', "limit = 47\nloss = [1]", "links.bottleneck.loss", "a share", "a list of 1"),
    ('limit = "47 packets"', "limit = 47\nloss = { good_to_bad = 1 }",
     "links.bottleneck.loss.bad_to_good", "a value", "none"),
    ('limit = "47 packets"', 'limit = 47\ndiscipline = "pie"',
     "links.bottleneck.discipline", "one of drop_tail", "'pie'"),
    ('limit = "47 packets"', 'limit = 47\ndiscipline = { kind = "red", min = 9, max = 9 }',
     "links.bottleneck.discipline.max", "more than min (9)", "9"),
    ('limit = "47 packets"', 'limit = 47\ndiscipline = { kind = "red", min = "x", max = 9 }',
     "links.bottleneck.discipline.min", "a number of packets", "'x'"),
    ('limit = "47 packets"', "limit = 47\nchanges = [{ at = 1 }]",
     "links.bottleneck.changes[0]", "at least one of", "a table of 1"),
    ('limit = "47 packets"', "limit = 47\nchanges = [{ at = 11, down = true }]",
     "links.bottleneck.changes[0].at", "within", "11s"),
    ('limit = "47 packets"', "limit = 47\nbackward = { rate = 5 }", "links.bottleneck.backward.rate", "from 1k", "5"),
    ('limit = "47 packets"', "limit = 47\nbackward = 5", "links.bottleneck.backward", "a table", "5"),
    ('address = "10.0.1.1"', 'address = "10.0.1.1/24"',
     "hosts.client.interfaces.a.address", "an IPv4 or IPv6", "'10.0.1.1/24'"),
    ('address = "10.0.1.1"', "address = 167772161",
     "hosts.client.interfaces.a.address", "an IPv4 or IPv6", "167772161"),
    ('address = "10.0.1.1"', 'address = "127.0.0.1"',
     "hosts.client.interfaces.a.address", "of one host", "'127.0.0.1'"),
    ('address = "10.0.1.1"', 'address = "10.0.2.2"',
     "hosts.server.interfaces.b.address", "client.a does not have", "'10.0.2.2'"),
    ('address = "10.0.1.1"', 'address = "fd00::1"', "paths[0].to", "an IPv6 address", "'10.0.1.2'"),
    ("a = { address", "A = { address", "hosts.client.interfaces.A", "an interface's name", "'A'"),
    ("a = { address", "lo = { address", "hosts.client.interfaces.lo", "an interface's name", "'lo'"),
    ('from = "client.a"', 'from = "client.c"', "paths[0].from", "client.a, client.b, server.a", "'client.c'"),
    ('to = "server.a"', 'to = "client.b"', "paths[0].to", "another host", "'client.b'"),
    ('links = ["access", "bottleneck"]', 'links = ["acces"]',
     "paths[0].links[0]", "a link: bottleneck, access", "'acces'"),
    ('links = ["access", "bottleneck"]', 'links = ["access", "access"]',
     "paths[0].links", "each link once", "'access, access'"),
    ('name = "second"', 'name = "first"', "paths[1].name", "no path before", "'first'"),
    ('from = "client.b"\nto = "server.b"', 'from = "server.a"\nto = "client.a"',
     "paths[1]", "other ends", "server.a and client.a"),
    ('protocol = "mptcp"', 'protocol = "sctp"', "transfers[0].protocol", "'tcp' or 'mptcp'", "'sctp'"),
    ('protocol = "mptcp"', 'protocol = "tcp"\npaths = ["first", "second"]',
     "transfers[0].paths", "one path", "2 paths"),
    ('protocol = "mptcp"', 'protocol = "mptcp"\npaths = ["third"]',
     "transfers[0].paths[0]", "first, second", "'third'"),
    ('protocol = "mptcp"', 'protocol = "mptcp"\nbytes = 9\nseconds = 1', "transfers[0].seconds", "either", "both"),
    ('protocol = "mptcp"', 'protocol = "mptcp"\nstart = 10', "transfers[0].start", "before the end at 10s", "10s"),
    ('protocol = "mptcp"', 'protocol = "mptcp"\nport = 80', "transfers[0].port", "greater than or equal to 1024", "80"),
    ('to = "server"', 'to = "servr"', "transfers[0].to", "a host: client, server", "'servr'"),
    ('to = "server"', 'to = "client"', "transfers[0]", "a path between client and client", "none"),
    ("seconds = 10", "seconds = 1e9", "seconds", "to 3600s", "1000000000.0"),
    ("seconds = 10", "seconds = 2050-01-01", "seconds", "a time", "2050-01-01"),
    ("seconds = 10", "seconds = 10\nseed = -1", "seed", "greater than or equal to 0", "-1"),
    ("seconds = 10", "seconds = 10\nx = " + "[" * 5000, "", "a file of TOML", "too many levels of brackets"),
    ("seconds = 10", "seconds = 10\n" + ".".join("a" * 20000) + " = 1", "", "a file of TOML", "more than 100 dots"),
    ("seconds = 10", "seconds = 1" + "0" * 5000, "", "a file of TOML", "Exceeds the limit"),
    ('name = "two-paths"', 'name = "../x"', "name", "letters, digits", "'../x'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "place", "expected", "actual"), MISTAKES)
def test_each_mistake_is_told_with_its_place(old: str, new: str, place: str, expected: str, actual: str) -> None:
    began = time.process_time()  # of the processor: other processes do not count
    found = mistakes_of(changed(old, new))
    assert time.process_time() - began < 2
    assert found[0][0] == place
    assert expected in found[0][1]
    assert found[0][2].startswith(actual) or actual in found[0][2]


def test_lists_that_are_too_long_are_refused() -> None:
    hosts = "".join(f'[hosts.h{i}.interfaces]\na = {{ address = "10.1.0.{i + 1}" }}\n' for i in range(17))
    assert "hosts" in [m[0] for m in mistakes_of(EXAMPLE + hosts)]
    transfer = EXAMPLE[EXAMPLE.index("[[transfers]]") :]
    assert [m[0] for m in mistakes_of(EXAMPLE + transfer * 64)] == ["transfers"]
    points = ",\n".join(f'[{i / 10000:.4f}, "1M"]' for i in range(2000))
    assert len(parse(changed('rate = "5M"', f'rate = "5M"\nrate_trace = [{points}]'), "x").links[0].changes) == 2000


def test_transfers_without_a_port_get_free_ones() -> None:
    transfer = EXAMPLE[EXAMPLE.index("[[transfers]]") :]
    second = transfer + "port = 5001\n"
    scenario = parse(EXAMPLE + second + transfer, "x.toml")
    assert [t.port for t in scenario.transfers] == [5002, 5001, 5003]
    assert [m[0] for m in mistakes_of(EXAMPLE + second + second)] == ["transfers[2].port"]


def test_a_transfer_against_a_paths_direction_takes_its_links_back() -> None:
    swapped = EXAMPLE.replace('from = "client"\nto = "server"', 'from = "server"\nto = "client"')
    (transfer,) = parse(swapped, "x.toml").transfers
    first = transfer.paths[0]
    assert (str(first.start), str(first.end)) == ("server.a", "client.a")
    assert [link.name for link in first.links] == ["bottleneck.backward", "access.backward"]
    assert first.seen_from("client").links == transfer.paths[0].links_back


def test_backward_replaces_what_it_names() -> None:
    text = changed(
        'limit = "47 packets"', 'limit = 47\nloss = 0.01\nrate_trace = [[1, "2M"]]\nbackward = { rate = "1M" }'
    )
    forward, backward = parse(text, "x.toml").links[:2]
    assert (forward.loss, backward.loss) == (Bernoulli(0.01), Bernoulli(0.01))
    assert forward.changes == (Change(10**9, 2_000_000),)
    assert (backward.rate_bps, backward.limit_packets, backward.changes) == (1_000_000, 47, ())


@pytest.mark.parametrize("kind", [RATE, TIME, SIZE, PACKETS])
@settings(deadline=None)
@given(st.data())
def test_what_is_shown_is_read_again(kind: Kind, data: st.DataObject) -> None:
    amount = data.draw(st.integers(0, 10**12))
    assert quantity(shown(amount, kind), kind, 0, 10**12) == amount


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 999), st.sampled_from(sorted(TIME.units)))
def test_decimals_are_exact(whole: int, thousandths: int, unit: str) -> None:
    exact = (whole + Fraction(thousandths, 1000)) * TIME.units[unit]
    assert abs(quantity(f"{whole}.{thousandths:03}{unit}", TIME, 0, 10**16) - exact) <= Fraction(1, 2)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_file_that_was_damaged_is_read_or_refused(data: st.DataObject) -> None:
    """Words of the example in each other's place, lines left out: a scenario or a mistake, and nothing else."""
    lines = EXAMPLE.splitlines()
    words = sorted(
        set(re.findall(r'[\w."]+', EXAMPLE)) | {"-1", "1e400", "nan", "true", "[]", "{}", '""', "0x" + "f" * 500}
    )
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        found = re.findall(r'[\w."]+', lines[at])
        if found and data.draw(st.booleans()):
            lines[at] = lines[at].replace(data.draw(st.sampled_from(found)), data.draw(st.sampled_from(words)))
        else:
            del lines[at]
    found: Scenario | ScenarioUnreadable
    try:
        found = parse("\n".join(lines), "x.toml")
    except ScenarioUnreadable as e:
        found = e
    texts = [part for m in found.mistakes for part in m[1:]] if isinstance(found, ScenarioUnreadable) else []
    assert all(len(text) < 500 for text in texts)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "two-paths"', '"KEY" = 1'),
        ('delay = "30ms"', '"KEY" = 1'),
        ("a = { address", '"KEY" = { address'),
        ("[hosts.client.interfaces]", '[hosts."KEY".interfaces]'),
        ('limit = "47 packets"', 'limit = 47\ndiscipline = { kind = "KEY" }'),
        ('limit = "47 packets"', 'limit = 47\ndiscipline = { kind = "red", "KEY" = 1 }'),
    ],
)
def test_keys_that_a_terminal_would_follow(old: str, new: str) -> None:
    key = "\\u001b[2J\\n\\u202e" + 200 * "x"
    for mistake in mistakes_of(changed(old, new.replace("KEY", key))):
        assert all(part.isascii() and part.isprintable() for part in mistake)
        assert "x" * 100 not in "".join(mistake)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    def refused(path: Path) -> str:
        with pytest.raises(ScenarioUnreadable) as caught:
            load(path)
        return str(caught.value)

    assert refused(tmp_path / "none.toml").endswith(
        "expected a readable file of TOML; there is No such file or directory"
    )
    assert "Is a directory" in refused(tmp_path) or "no regular file" in refused(tmp_path)
    os.mkfifo(tmp_path / "pipe.toml")
    assert "no regular file" in refused(tmp_path / "pipe.toml")
    (tmp_path / "long.toml").write_bytes(b"#" * (1 << 17))
    assert "longer than 65536 bytes" in refused(tmp_path / "long.toml")
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    assert "no UTF-8 at byte 8" in refused(tmp_path / "latin.toml")
    traced = tmp_path / "traced.toml"
    traced.write_text(changed('rate = "5M"', 'rate = "5M"\nrate_trace = "t.csv"'))
    assert "links.bottleneck.rate_trace: expected a file beside" in refused(traced)
    (tmp_path / "t.csv").write_text("# s, bit/s\n0, 1M\n\n1, fast\n")
    assert "(t.csv line 4): expected a rate in bit/s" in refused(traced)
    (tmp_path / "t.csv").write_text("0,1M\n1.5,2M\n")
    assert [c.rate_bps for c in load(traced).links[0].changes] == [1_000_000, 2_000_000]


def test_addresses_are_those_of_the_file() -> None:
    text = EXAMPLE.replace("10.0.1.", "fd00:1::").replace("10.0.2.", "fd00:2::")
    assert parse(text, "x.toml").hosts[0].interfaces[0].address == ip_address("fd00:1::1")
