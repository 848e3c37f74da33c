"""A webhook: a request with some rows, and whether it arrived.

A request has arrived when the receiver answers 2xx. No redirect is followed and no proxy is used.

The name of a receiver is looked up here, once per request, and a connection goes to one of the very addresses
that were checked. The connection still belongs to the name: TLS asks for a certificate of that name, and a
connection that is kept is used for that name only, also where two names have one address.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpcore
import httpx

from anabranch.model.errors import JobError
from anabranch.model.receiver import Topic, receiver_of
from anabranch.sending.signature import HEADER, signature
from anabranch.sending.threads import in_thread

CONNECT_S = 5.0
#: How long one try may take, up to the answer.
TRY_S = 15.0
#: So much of an answer is read, so that the connection can be used again.
ANSWER_BYTES = 64 << 10
#: Connections that are kept for the next request, and for how long.
KEPT, KEPT_S = 50, 5.0

KEY = "Idempotency-Key"

_NAT64 = ipaddress.ip_network("64:ff9b::/96")

#: Returns the addresses of a host.
Lookup = Callable[[str], list[str]]


class SendFailed(Exception):
    """A request that did not arrive; another will follow."""


def is_public(text: str) -> bool:
    """Whether an address belongs to the public internet, also where it contains another one."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(str(address.ipv4_mapped))
        if address.sixtofour is not None or address.teredo is not None or address in _NAT64:
            return False
    return address.is_global and not address.is_multicast


def check_public(address: str) -> None:
    """Refuses at once what would be refused at every try; a name is looked up when something is sent."""
    receiver = receiver_of(address)
    if isinstance(receiver, Topic):
        raise JobError("this service sends nothing to Kafka; its operator can allow it (--private-receivers)")
    host = urlsplit(receiver.url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        raise JobError(_not_public(host))
    with suppress(ValueError):
        if not is_public(host):
            raise JobError(_not_public(host))


def addresses_of(host: str) -> list[str]:
    infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in infos))


class Webhooks:
    """The client of a process. How many requests are under way at once is the sender's business."""

    def __init__(self, lookup: Lookup = addresses_of, tls: ssl.SSLContext | None = None) -> None:
        self._lookup = lookup
        context = tls or httpx.create_ssl_context(trust_env=False)
        # what may go to private addresses has connections of its own: none that was made for it is used
        # for a receiver that must be public
        self._pools = {
            private: httpcore.AsyncConnectionPool(
                context,
                max_connections=None,
                max_keepalive_connections=KEPT,
                keepalive_expiry=KEPT_S,
                network_backend=_CheckedBackend(),
            )
            for private in (False, True)
        }

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()

    async def post(
        self,
        url: str,
        body: bytes,
        key: str,
        private: bool,
        lookups: anyio.CapacityLimiter,
        secret: str | None = None,
    ) -> None:
        """Sends a request; SendFailed if it does not arrive. `private`: its address need not be public.
        `lookups` limits the threads that look up names for this receiver; a lookup can take long.
        """
        try:
            with anyio.fail_after(TRY_S):
                addresses = await self._addresses(url, private, lookups)
                await self._post(url, body, key, private, secret, addresses)
        except TimeoutError:
            raise SendFailed(f"no answer within {TRY_S:g} s") from None
        except (*_FAILURES, OSError) as error:
            raise SendFailed(f"{type(error).__name__}: {error}".removesuffix(": ")) from None

    async def _post(
        self, url: str, body: bytes, key: str, private: bool, secret: str | None, addresses: list[str]
    ) -> None:
        headers = {"Content-Type": "application/json", KEY: key, "Content-Length": str(len(body))}
        if secret is not None:
            headers[HEADER] = signature(secret, int(time.time()), body)
        target = httpx.URL(url)
        host = [("Host", target.netloc.decode())]
        _checked.set(addresses)
        async with self._pools[private].stream(
            "POST",
            httpcore.URL(
                scheme=target.raw_scheme, host=target.raw_host, port=target.port, target=target.raw_path
            ),
            headers=[*host, *headers.items()],
            content=body,
            extensions={"timeout": dict.fromkeys(("read", "write", "pool"), TRY_S) | {"connect": CONNECT_S}},
        ) as answer:
            await _check(answer)

    async def _addresses(self, url: str, private: bool, lookups: anyio.CapacityLimiter) -> list[str]:
        """Returns the addresses of the host; SendFailed where one must be public and is not."""
        host = httpx.URL(url).host
        try:
            addresses = [str(ipaddress.ip_address(host))]
        except ValueError:
            addresses = await in_thread(lambda: self._lookup(host), lookups)
        if not private and not all(map(is_public, addresses)):
            raise SendFailed(_not_public(host))
        return addresses


#: What httpcore raises: there is no class above them all.
_FAILURES = (
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
    httpcore.ProxyError,
    httpx.InvalidURL,
)

#: The addresses that were checked for the request under way, in its task.
_checked: ContextVar[list[str]] = ContextVar("checked addresses")


class _CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connects to the addresses that were checked, whatever the name of the host would lead to now."""

    def __init__(self) -> None:
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in _checked.get():
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


async def _check(answer: httpcore.Response) -> None:
    if 300 <= answer.status < 400:
        raise SendFailed(f"it answered {answer.status}, a redirect; give the address that it leads to")
    if not 200 <= answer.status < 300:
        raise SendFailed(f"it answered {answer.status}")
    read = 0
    async for some in answer.aiter_stream():
        read += len(some)
        if read > ANSWER_BYTES:
            return


def _not_public(host: str) -> str:
    return f"{host} is not an address of the public internet; results are sent to those only"
