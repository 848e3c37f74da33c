"""A webhook: a request with some rows, and whether it arrived.

A request has arrived when the receiver answers 2xx. No redirect is followed and no proxy is used. Where only
public addresses are allowed, the name is looked up here, and the connection goes to the very address that was
checked.
"""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from urllib.parse import urlsplit

import anyio
import httpx
from anyio import to_thread

from anabranch.model.errors import JobError
from anabranch.model.receiver import Topic, receiver_of

CONNECT_S = 5.0
#: How long one try may take, up to the answer.
TRY_S = 15.0
#: So much of an answer is read, so that the connection can be used again.
ANSWER_BYTES = 64 << 10

KEY = "Idempotency-Key"

_NAT64 = ipaddress.ip_network("64:ff9b::/96")


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
    with suppress(ValueError):
        if not is_public(host):
            raise JobError(_not_public(host))


class Webhooks:
    """The client of a process. A receiver has at most one request under way, so connections need no limit."""

    def __init__(self) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
        timeout = httpx.Timeout(TRY_S, connect=CONNECT_S)
        self._http = httpx.AsyncClient(
            trust_env=False, follow_redirects=False, limits=limits, timeout=timeout
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def post(
        self, url: str, body: bytes, key: str, private: bool, lookups: anyio.CapacityLimiter
    ) -> None:
        """Sends a request; SendFailed if it does not arrive. `lookups` limits the threads that look up this
        receiver's name; a lookup can take long.
        """
        try:
            with anyio.fail_after(TRY_S):
                await self._post(httpx.URL(url), body, key, await _addresses(url, private, lookups))
        except TimeoutError:
            raise SendFailed(f"no answer within {TRY_S:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise SendFailed(f"{type(error).__name__}: {error}".removesuffix(": ")) from None

    async def _post(self, url: httpx.URL, body: bytes, key: str, addresses: list[str]) -> None:
        for number, address in enumerate(addresses, start=1):
            request = self._http.build_request(
                "POST",
                url.copy_with(host=address),
                content=body,
                headers={"Host": url.netloc.decode(), "Content-Type": "application/json", KEY: key},
                extensions={"sni_hostname": url.host},
            )
            try:
                answer = await self._http.send(request, stream=True)
            except httpx.ConnectError:
                if number == len(addresses):
                    raise
                continue
            try:
                await _check(answer)
            finally:
                await answer.aclose()
            return


async def _check(answer: httpx.Response) -> None:
    if answer.is_redirect:
        raise SendFailed(f"it answered {answer.status_code}, a redirect; give the address that it leads to")
    if not answer.is_success:
        raise SendFailed(f"it answered {answer.status_code}")
    read = 0
    async for some in answer.aiter_raw():
        read += len(some)
        if read > ANSWER_BYTES:
            return


async def _addresses(url: str, private: bool, lookups: anyio.CapacityLimiter) -> list[str]:
    """Returns the addresses of the host."""
    target = httpx.URL(url)
    try:
        addresses = [str(ipaddress.ip_address(target.host))]
    except ValueError:
        infos = await to_thread.run_sync(
            lambda: socket.getaddrinfo(target.host, None, type=socket.SOCK_STREAM),
            abandon_on_cancel=True,
            limiter=lookups,
        )
        addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
    if not private and not all(map(is_public, addresses)):
        raise SendFailed(_not_public(target.host))
    return addresses


def _not_public(host: str) -> str:
    return f"{host} is not an address of the public internet; results are sent to those only"
