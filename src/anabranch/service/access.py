"""Who may send which requests, and how many.

Every request gets a Caller, or a refusal: 401 without a valid token, 403 where its role is not enough, 429
for too many requests or too many wrong tokens. No refusal says anything about what others own. A caller is
known before the body of its request is read (admission.py).

Without any token the service is for this machine alone: it answers only requests that name it by a loopback
address, so that a web page from elsewhere cannot reach it through the browser under a name of its own.
"""

from __future__ import annotations

import hashlib
import ipaddress
import threading
import time
from collections import Counter, OrderedDict
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from anabranch.catalog.tokens import Role, Token
from anabranch.service.connections import connections_allowed
from anabranch.service.errors import Refused
from anabranch.service.job_service import Caller, JobService

#: A burst may have as many requests as are allowed in so many seconds.
BURST_SECONDS = 2.0
#: So many wrong tokens per second may come from one address; a burst may have WRONG_BURST.
WRONG_TOKENS_PER_SECOND, WRONG_BURST = 5.0, 50.0
#: So many owners, addresses and tokens are remembered, those that were seen last.
REMEMBERED = 10_000


def is_loopback(host: str) -> bool:
    """Whether an address, or the name of this machine for itself, is reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class RateBuckets:
    """Rates by key. A bucket fills with time, and every request takes one out."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and when that was
        self._lock = threading.Lock()

    def take(self, key: str, rate: float, most: float, count: float = 1.0) -> float:
        """Takes some out if there is one, and returns how many there were; `count` 0 only looks."""
        now = time.monotonic()
        with self._lock:
            left, since = self._left.pop(key, (most, now))
            left = min(most, left + (now - since) * rate)
            self._left[key] = (left - count if left >= 1 else left, now)
            if len(self._left) > REMEMBERED:
                self._left.popitem(last=False)
        return left


class Access:
    """One per service; may be used from several threads."""

    def __init__(self, service: JobService) -> None:
        self.service = service
        self.listeners: Counter[str] = Counter()
        self.most_listeners = connections_allowed(service.limits.connections) // 2  # requests need some, too
        self._requests, self._wrong = RateBuckets(), RateBuckets()
        self._right: OrderedDict[bytes, None] = OrderedDict()  # hashes of tokens that were right
        self._needs_tokens = False
        self._lock = threading.Lock()

    def admit(self, request: Request) -> Caller:
        """Returns who sends a request, and counts it; Refused if it may not be sent."""
        caller = self.caller(request)
        self._check_rate(caller)
        return caller

    def caller(self, request: Request) -> Caller:
        """Returns who sends a request; Refused without a valid token, where one is needed."""
        self._needs_tokens = self._needs_tokens or not self.service.local or self.service.tokens.exist()
        if not self._needs_tokens:
            if not is_loopback(request.url.hostname or ""):
                raise Refused(403, "role", "without tokens the service answers only to a loopback address")
            return Caller()
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        token = self._token(text.strip(), _network(request)) if scheme.lower() == "bearer" else None
        if token is None:
            raise Refused(
                401,
                "token",
                "this needs a valid token: send Authorization: Bearer TOKEN "
                "(anabranch token create makes one)",
                {"WWW-Authenticate": "Bearer"},
            )
        return Caller(token.owner, token.role)

    def _token(self, text: str, network: str) -> Token | None:
        """Returns a token that is right. Where too many wrong ones came, only those that were right before
        are looked up.
        """
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        if digest not in self._right and self._wrong.take(network, *_WRONG, 0) < 1:
            raise Refused(429, "limit", "too many wrong tokens; come again in 10 s", {"Retry-After": "10"})
        token = self.service.tokens.known(text)
        with self._lock:
            self._right.pop(digest, None)
            if token is not None:
                self._right[digest] = None
            if len(self._right) > REMEMBERED:
                self._right.popitem(last=False)
        if token is None:
            self._wrong.take(network, *_WRONG)
        return token

    def _check_rate(self, caller: Caller) -> None:
        rate = self.service.limits.requests_per_second
        left = self._requests.take(caller.owner or "", rate, max(1.0, rate * BURST_SECONDS))
        if left < 1:
            wait = max(1, round((1 - left) / rate))
            raise Refused(
                429,
                "limit",
                f"more than {rate:g} requests per second; come again in {wait} s",
                {"Retry-After": str(wait)},
            )

    def add_listener(self, caller: Caller) -> None:
        """Counts a listener until `remove_listener`; Refused where there are too many."""
        key, most = caller.owner or "", self.service.limits.listeners
        with self._lock:
            if self.listeners[key] >= most:
                raise Refused(429, "limit", f"there are {most} listeners already; end one first")
            if self.listeners.total() >= self.most_listeners:
                raise Refused(429, "limit", "the service has as many listeners as it can take; come later")
            self.listeners[key] += 1

    def remove_listener(self, caller: Caller) -> None:
        key = caller.owner or ""
        with self._lock:
            self.listeners[key] -= 1
            if not self.listeners[key]:
                del self.listeners[key]


_WRONG = (WRONG_TOKENS_PER_SECOND, WRONG_BURST)


def _network(request: Request) -> str:
    """Returns the address of a client; of IPv6 the half that names its network, as a client has all of it."""
    host = request.client.host if request.client else ""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 4:
        return host
    return str(ipaddress.ip_network((address, 64), strict=False))


_bearer = HTTPBearer(
    auto_error=False,  # admission.py has decided already, and without tokens none is needed
    scheme_name="token",
    description="A token that `anabranch token create` made.",
)


def _any_caller(
    request: Request, described: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
) -> Caller:
    """`described` is there for OpenAPI, so that generated clients send a token."""
    caller: Caller = request.scope["caller"]
    return caller


#: Whoever may send requests at all; who sees everybody's queries; who may change something.
AnyCaller = Annotated[Caller, Depends(_any_caller)]


def _viewer(caller: AnyCaller) -> Caller:
    if not caller.sees_all:
        raise Refused(
            403, "role", f"this shows everybody's queries; a token of role {caller.role} is not enough"
        )
    return caller


def _editor(caller: AnyCaller) -> Caller:
    if caller.role is Role.VIEWER:
        raise Refused(403, "role", "a token of role viewer changes nothing")
    return caller


Viewer = Annotated[Caller, Depends(_viewer)]
Editor = Annotated[Caller, Depends(_editor)]
