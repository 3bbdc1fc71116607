"""Where webhooks may go, how messages are signed, and when an alert fires."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
from datetime import timedelta

import httpcore2
import pytest

from alerts.delivery import pause
from alerts.network import Guarded, post
from alerts.transitions import Standing, follow, holds
from store import webhooks
from store.destinations import DestinationRefused, Policy

REFUSED = [
    "127.0.0.1", "127.255.0.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1",
    "100.100.100.200", "169.254.169.254", "169.254.0.1", "168.63.129.16", "192.0.0.192", "192.0.2.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "192.88.99.1", "224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255",
    "::", "::1", "fe80::1", "fe80::1%lo", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "ff0e::1", "2001:db8::1",
    "3fff::1", "100::1", "2001::1", "5f00::1", "64:ff9b:1::7f00:1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "::10.0.0.1", "64:ff9b::127.0.0.1",
    "64:ff9b::169.254.169.254", "2002:7f00:1::", "2002:a00:1::1", "2002:a9fe:a9fe::",
]  # fmt: skip
"""Loopback, private, shared, link-local, metadata, documentation, multicast, reserved, and such within others."""
PUBLIC = ["1.1.1.1", "8.8.8.8", "100.63.255.255", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]


def allowed(policy: Policy, *addresses: str, host: str = "hooks.example", port: int = 443) -> list[str]:
    """What a connection may be made to where the name has these addresses."""

    async def resolver(name: str, at: int) -> list[str]:
        assert (name, at) == (host, port)
        return list(addresses)

    return [str(a) for a in asyncio.run(Guarded(policy, resolver).allowed(host, port))]


@pytest.mark.parametrize("address", REFUSED)
def test_only_public_addresses_are_reached(address: str) -> None:
    with pytest.raises(DestinationRefused, match="not a public one") as refused:
        allowed(Policy(), address)
    assert address not in str(refused.value), "the team learns nothing of the operator's network"
    with pytest.raises(DestinationRefused):
        allowed(Policy(), "1.1.1.1", address)
    if "%" not in address:
        literal = f"[{address}]" if ":" in address else address
        with pytest.raises(DestinationRefused, match="not a public address"):
            Policy().check_url(f"https://{literal}/x")


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_reached(address: str) -> None:
    assert allowed(Policy(), address) == [str(ipaddress.ip_address(address))]
    Policy().check_url("https://" + (f"[{address}]" if ":" in address else address))


def test_the_operator_allows_networks_and_ports() -> None:
    own = Policy(networks=(ipaddress.ip_network("10.1.2.0/24"),), ports=frozenset({443, 8443}))
    assert allowed(own, "10.1.2.9", "8.8.8.8") == ["10.1.2.9", "8.8.8.8"]
    assert allowed(own, "::ffff:10.1.2.9", port=8443) == ["::ffff:a01:209"]
    for address in ("10.1.3.9", "127.0.0.1", "2002:a01:309::"):
        with pytest.raises(DestinationRefused):
            allowed(own, address)
    with pytest.raises(DestinationRefused, match=r"port 22 is not allowed; the operator allows 443, 8443"):
        allowed(own, "8.8.8.8", port=22)


@pytest.mark.parametrize("host", ["[::1]", "127.0.0.1"])
def test_the_header_host_is_that_of_the_address(host: str) -> None:
    """An IPv6 address stands in brackets (RFC 9110, 7.2)."""

    async def resolver(name: str, port: int) -> list[str]:
        return [name]

    async def posted() -> tuple[int, bytes, int]:
        heads = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            writer.close()

        receiver = await asyncio.start_server(answer, host.strip("[]"), 0)
        async with receiver:
            port = receiver.sockets[0].getsockname()[1]
            networks = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
            policy = Policy(networks=networks, ports=frozenset({port}), has_http=True)
            status = await post(Guarded(policy, resolver), f"http://{host}:{port}/x", {"content-type": "a/b"}, b"{}")
        return status, heads[0], port

    status, head, port = asyncio.run(posted())
    assert status == 204
    lines = head.decode().lower().split("\r\n")
    assert [line for line in lines if line.startswith("host:")] == [f"host: {host}:{port}"]
    assert "content-type: a/b" in lines


def test_a_name_that_is_not_known_is_no_refusal() -> None:
    async def resolver(name: str, port: int) -> list[str]:
        raise OSError("no such name")

    with pytest.raises(httpcore2.ConnectError, match="not known"):
        asyncio.run(Guarded(Policy(), resolver).allowed("hooks.example", 443))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://hooks.example/x", "must begin with https:"),
        ("ftp://hooks.example/x", "of the form https"),
        ("https:///x", "of the form https"),
        ("hooks.example", "of the form https"),
        ("https://hooks.example:x/", "of the form https"),
        ("https://[::1/", "of the form https"),
        ("https://eve@hooks.example/", "no user"),
        ("https://hooks.example/#x", "from # on"),
        ("https://hooks.example:22/", "port 22"),
        ("https://hooks.example:0/", "port 0"),
        ("https://127.0.0.1/", "not a public address"),
    ],
)
def test_addresses_are_refused_before_they_are_looked_up(url: str, reason: str) -> None:
    with pytest.raises(DestinationRefused, match=reason):
        Policy().check_url(url)


def test_the_signature_is_that_of_the_specifications_example() -> None:
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    message, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert webhooks.signature([secret], message, 1614265330, body) == expected
    assert webhooks.shown(secret) == "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    both = webhooks.signature([b"new", secret], message, 1614265330, body).split(" ")
    assert both[1] == expected
    assert len(set(both)) == 2


def test_pauses_grow_and_give_up_within_a_day() -> None:
    pauses = [pause(n, 0.5).total_seconds() for n in range(1, 9)]
    assert pauses == [5, 20, 80, 320, 1280, 5120, 14400, 14400]
    assert pause(3, 0.0) == timedelta(seconds=64)
    assert pause(3, 1.0) == timedelta(seconds=96)


@pytest.mark.parametrize(
    ("condition", "value", "before", "expected"),
    [
        ("above", 5.0, None, False), ("above", 5.1, None, True), ("below", 5.0, None, False),
        ("below", 4.9, None, True), ("above", None, None, None), ("rises", 1.0, None, None), ("rises", None, 1.0, None),
        ("rises", 1.06, 1.0, True), ("rises", 1.04, 1.0, False), ("rises", 0.5, 1.0, False),
        ("falls", 0.94, 1.0, True), ("falls", 1.06, 1.0, False),
        ("changes", 0.94, 1.0, True), ("changes", 1.06, 1.0, True), ("changes", 1.0, 1.0, False),
        ("rises", 0.1, 0.0, True), ("falls", 0.1, 0.0, False), ("changes", 0.0, 0.0, False),
        ("rises", -0.9, -1.0, True),
    ],
)  # fmt: skip
def test_conditions(condition: str, value: float | None, before: float | None, expected: bool | None) -> None:
    assert holds(condition, 5.0, value, before) is expected  # type: ignore[arg-type]


def test_an_alert_fires_once_and_is_over_once() -> None:
    """T: the condition holds; f: it does not; ?: too few values. Small letters: states; F, R: messages."""
    told = ""
    standing = Standing("new", False, 0)
    for letter in "TfTT?TfTff?T?TT":
        standing, message = follow(standing, {"T": True, "f": False, "?": None}[letter], 2)
        told += {None: standing.state[0], "firing": "F", "resolved": "R"}[message]
    assert told == "popFtffffRtptpF"
