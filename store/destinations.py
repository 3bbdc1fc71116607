"""Where webhooks may go: to public addresses, and to those that the operator allows.

A team names an address, and this service sends there from inside the operator's network. Without these rules a team
could reach what only that network may reach (server-side request forgery).
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from store.settings import settings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""RFC 6052: a translator sends to the IPv4 address in the last 32 bits."""
_COMPATIBLE = ipaddress.ip_network("::/96")
"""RFC 4291, 2.5.5.1, deprecated: some systems send to the IPv4 address in the last 32 bits."""
_NEVER: tuple[Network, ...] = tuple(
    ipaddress.ip_network(n)
    for n in (
        "168.63.129.16/32",  # a public address that a cloud answers its own machines at
        "192.0.0.0/24",  # RFC 6890: addresses of protocols
        "192.88.99.0/24",  # RFC 7526: relays of 6to4
        "64:ff9b:1::/48",  # RFC 8215: translators of this network
        "100:0:0:1::/64",  # RFC 9780
        "2001::/23",  # RFC 2928: addresses of protocols; those of Teredo hold others
        "3fff::/20",  # RFC 9637: documentation
        "5f00::/16",  # RFC 9602
        "fec0::/10",  # RFC 3879: addresses of a site
    )
)
"""Addresses that some versions of Python's `ipaddress` take for public ones."""


class DestinationRefused(ValueError):
    """A webhook may not go there; the reason is the team's to read."""


def _embedded(address: Address) -> Address | None:
    """The IPv4 address that packets to this one may reach in the end."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


def is_public(address: Address) -> bool:
    inner = _embedded(address)
    if inner is not None:
        return is_public(inner)
    if address.is_multicast or address.is_reserved or address.is_link_local or address.is_unspecified:
        return False
    return address.is_global and not any(address in network for network in _NEVER)


@dataclass(frozen=True)
class Policy:
    """networks: may be reached though they are not public. has_http: also without TLS."""

    networks: tuple[Network, ...] = ()
    ports: frozenset[int] = frozenset({443})
    has_http: bool = False

    def may_reach(self, address: Address) -> bool:
        inner = _embedded(address)
        return is_public(address) or any(a in network for network in self.networks for a in (address, inner or address))

    def check_port(self, port: int) -> None:
        """Raises DestinationRefused."""
        if port not in self.ports:
            allowed = ", ".join(map(str, sorted(self.ports)))
            raise DestinationRefused(f"port {port} is not allowed; the operator allows {allowed}")

    def check_url(self, url: str) -> None:
        """What can be said of an address before its name is looked up. Raises DestinationRefused."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as e:
            raise DestinationRefused("this is no address of the form https://HOST/PATH") from e
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise DestinationRefused("this is no address of the form https://HOST/PATH")
        if parts.scheme == "http" and not self.has_http:
            raise DestinationRefused("the address must begin with https:, for what is sent there is the team's")
        if parts.username is not None or parts.password is not None:
            raise DestinationRefused("the address must hold no user and no password: the signature tells who sends")
        if parts.fragment:
            raise DestinationRefused("the part of the address from # on is never sent: leave it out")
        self.check_port({"https": 443, "http": 80}[parts.scheme] if port is None else port)
        try:
            literal = ipaddress.ip_address(parts.hostname)
        except ValueError:
            return
        if not self.may_reach(literal):
            raise DestinationRefused("this is not a public address")


@lru_cache
def policy() -> Policy:
    """That of the operator. Raises ValueError where a setting is malformed."""
    chosen = settings()
    return Policy(
        networks=tuple(ipaddress.ip_network(n.strip()) for n in chosen.webhook_networks.split(",") if n.strip()),
        ports=frozenset(int(p) for p in chosen.webhook_ports.split(",")),
        has_http=chosen.webhook_http,
    )
