"""Posts a message: only to addresses that the operator's rules allow, without redirects, within a bounded time.

The rules are applied where the connection is made: the name is looked up once, every address that it has is checked,
and the connection goes to one of these. TLS and the header Host keep the name.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httpcore2
import structlog

from store.destinations import Address, DestinationRefused, Policy

log = structlog.get_logger()

POST_S = 10.0
"""From looking up the name to the answer's header."""
_STEP_S = 5.0
"""To connect, and each wait for the receiver."""

Resolver = Callable[[str, int], Awaitable[list[str]]]


async def resolve(host: str, port: int) -> list[str]:
    """All addresses of a name. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Guarded(httpcore2.AsyncNetworkBackend):
    """Connects to allowed addresses only."""

    def __init__(self, policy: Policy, resolver: Resolver = resolve) -> None:
        self._policy, self._resolve, self._network = policy, resolver, httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # as the library has it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Raises DestinationRefused, httpcore2.ConnectError, httpcore2.ConnectTimeout."""
        addresses = await self.allowed(host, port)
        for place, address in enumerate(addresses, 1):
            try:
                return await self._network.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                if place == len(addresses):
                    raise
        raise httpcore2.ConnectError("the name has no address")

    async def allowed(self, host: str, port: int) -> list[Address]:
        """The addresses of the name, if every one of them is allowed. Raises DestinationRefused, ConnectError."""
        self._policy.check_port(port)
        try:
            addresses = [ipaddress.ip_address(a) for a in await self._resolve(host, port)]
        except (OSError, UnicodeError) as e:
            raise httpcore2.ConnectError("the name is not known") from e
        for address in addresses:
            if not self._policy.may_reach(address):
                # The team is not told the address: names of the operator's network are not its business.
                log.warning("webhook.refused", host=host, address=str(address))
                raise DestinationRefused("the name has an address that is not a public one")
        return addresses

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Raises DestinationRefused."""
        raise DestinationRefused("a webhook goes to no socket of this machine")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@lru_cache
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


async def post(backend: Guarded, url: str, headers: Mapping[bytes | str, bytes | str], body: bytes) -> int:
    """The answer's status; its body is not read. Raises DestinationRefused, OSError, TimeoutError, and what httpcore2
    raises."""
    told = {"Host": urlsplit(url).netloc, **headers}  # the library leaves out the brackets of IPv6 addresses
    waits = {name: _STEP_S for name in ("connect", "read", "write", "pool")}
    async with asyncio.timeout(POST_S):
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=_certificates(), max_connections=1, max_keepalive_connections=0, network_backend=backend
        )
        async with (
            pool,
            pool.stream("POST", url, headers=told, content=body, extensions={"timeout": waits}) as answer,
        ):
            return int(answer.status)
