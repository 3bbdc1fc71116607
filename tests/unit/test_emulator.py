"""What the emulator says of a configuration that is wrong; its devices need root, so tests/lab carries packets."""

from __future__ import annotations

import subprocess

import pytest

from lab import machine

EMULATOR = machine.emulator_program()
LINK = "link name=a"
ENDS = "interface name=t0 address=10.0.0.1\ninterface name=t1 address=10.0.0.2"
ROUTE = "route from=10.0.0.1 to=10.0.0.2 links=a"


def refused(text: str) -> str:
    done = subprocess.run([EMULATOR], input=text, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("\n")
    return done.stderr.removeprefix("rewindow-emulator: ").rstrip("\n")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nothing x=1", "unknown word: nothing"),
        ("seed value=1", "the seed comes first, once"),
        ("link", "a link needs a name of its own"),
        (LINK, "a link needs a name of its own: a"),
        ("link name=b/c", "bad value: b/c"),
        (f"link name={'b' * 64}", f"bad value: {'b' * 64}"),
        ("link name=b rate_bps", "key=value is expected: rate_bps"),
        ("link name=b colour=1", "unknown key: colour"),
        ("link name=b rate_bps=-1", "bad value: -1"),
        ("link name=b rate_bps=1e6", "bad value: 1e6"),
        ("link name=b rate_bps=99999999999999999999", "bad value: 99999999999999999999"),
        (f"link name=b delay_ns={2**50 + 1}", f"bad value: {2**50 + 1}"),
        ("link name=b discipline=fq", "bad value: fq"),
        ("link name=b ecn=2", "bad value: 2"),
        ("link name=b discipline=red red_min_packets=5 red_max_packets=5",
         "RED needs 0 < red_min_packets < red_max_packets, and red_max_p_q32 below 2^32"),
        ("link name=b discipline=codel codel_interval_ns=0", "CoDel needs an interval"),
        ("change link=b at_ns=1", "a change needs a link and at_ns: b"),
        ("change link=a down=1", "a change needs a link and at_ns: a"),
        ("change link=a at_ns=5\nchange link=a at_ns=4", "a link's changes are in order of time: a"),
        ("traffic link=a kind=constant packet_bytes=100", "traffic needs a link, rate_bps and packet_bytes: a"),
        ("traffic link=a kind=on_off rate_bps=1 packet_bytes=100",
         "on_off, and nothing else, has on_ns and off_ns: a"),
        ("traffic link=a kind=constant rate_bps=1 packet_bytes=100 on_ns=1 off_ns=1",
         "on_off, and nothing else, has on_ns and off_ns: a"),
        ("interface name=a-name-of-sixteen address=10.0.0.3",
         "an interface has a name of at most 15 letters, and an address"),
        ("interface name=t2 address=10.0.0", "not an address: 10.0.0"),
        ("route from=10.0.0.1 to=fd00::1 links=a", "a route has two addresses of one family, and links"),
        ("route from=10.0.0.1 to=10.0.0.2 links=b", "no such link: b"),
        ("route from=10.0.0.1 to=10.0.0.9 links=a", "no interface has this address: 10.0.0.9"),
        ("route from=10.0.0.1 to=10.0.0.2 links=,", "a route without links, too many routes, or out of memory"),
        (f"route from=10.0.0.1 to=10.0.0.2 links={','.join('a' * 17)}", "a route has too many links: a"),
        ("x" * 5000, "a line is too long, or not whole"),
        ("x " * 100, "too many words"),
        ("go", "there is no route"),
    ],
)  # fmt: skip
def test_a_wrong_line(line: str, reason: str) -> None:
    """It is refused with its number, before any device is opened."""
    before = f"{LINK}\n{ENDS}\n"
    number = before.count("\n") + line.count("\n") + 1
    assert refused(f"{before}{line}\ngo\n") == f"line {number}: {reason}"


def test_an_end_without_go() -> None:
    assert refused(f"{LINK}\n{ENDS}\n{ROUTE}\n") == "line 4: the input ends before `go`"
    assert refused("") == "line 0: the input ends before `go`"
