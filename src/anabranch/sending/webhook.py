"""A webhook: a request with a few rows, and whether it arrived.

In: an address, a body and its key. Out: nothing when the receiver answered 2xx, Failed with the reason when
it did not. Never: a redirect that is followed; a proxy; an address that is not public, where only such are
allowed: the name is looked up here, and the connection goes to the very address that was looked at.
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
#: One try from its beginning to the answer.
TRY_S = 15.0
#: As much of an answer is read, so that the connection can be used again.
ANSWER_BYTES = 64 << 10

KEY = "Idempotency-Key"

_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class Failed(Exception):
    """A try that did not arrive; another will follow."""


def is_public(text: str) -> bool:
    """Whether an address is one of the whole internet, also where it wraps another one."""
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
    """One for a process. A receiver has one request under way at most, so connections need no limit."""

    def __init__(self) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
        timeout = httpx.Timeout(TRY_S, connect=CONNECT_S)
        self._http = httpx.AsyncClient(
            trust_env=False, follow_redirects=False, limits=limits, timeout=timeout
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def post(
        self, url: str, body: bytes, key: str, private: bool, looking: anyio.CapacityLimiter
    ) -> None:
        """`looking` bounds the threads that look up this receiver's name; a lookup can hang for long."""
        try:
            with anyio.fail_after(TRY_S):
                await self._posted(httpx.URL(url), body, key, await _found(url, private, looking))
        except TimeoutError:
            raise Failed(f"no answer within {TRY_S:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise Failed(f"{type(error).__name__}: {error}".removesuffix(": ")) from None

    async def _posted(self, url: httpx.URL, body: bytes, key: str, addresses: list[str]) -> None:
        for place, address in enumerate(addresses, start=1):
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
                if place == len(addresses):
                    raise
                continue
            try:
                await _judged(answer)
            finally:
                await answer.aclose()
            return


async def _judged(answer: httpx.Response) -> None:
    if answer.is_redirect:
        raise Failed(f"it answered {answer.status_code}, a redirect; give the address that it leads to")
    if not answer.is_success:
        raise Failed(f"it answered {answer.status_code}")
    read = 0
    async for some in answer.aiter_raw():
        read += len(some)
        if read > ANSWER_BYTES:
            return


async def _found(url: str, private: bool, looking: anyio.CapacityLimiter) -> list[str]:
    """The addresses of the host."""
    target = httpx.URL(url)
    try:
        found = [str(ipaddress.ip_address(target.host))]
    except ValueError:
        answers = await to_thread.run_sync(
            lambda: socket.getaddrinfo(target.host, None, type=socket.SOCK_STREAM),
            abandon_on_cancel=True,
            limiter=looking,
        )
        found = list(dict.fromkeys(str(answer[4][0]) for answer in answers))
    if not private and not all(map(is_public, found)):
        raise Failed(_not_public(target.host))
    return found


def _not_public(host: str) -> str:
    return f"{host} is not an address of the public internet; results are sent to those only"
