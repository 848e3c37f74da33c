"""Queries that callers send are parsed and bound within limits of time, one of each owner at a time.

The language bounds the work of a query by itself (language/); this is what holds if it should not: a caller
is answered after CHECK_S seconds, and keeps one thread busy at most, so that others are checked as always.
"""

from __future__ import annotations

import anyio

from anabranch.catalog.entries import NewSubscription
from anabranch.model.subscription import Subscription
from anabranch.sending.threads import in_thread
from anabranch.service.errors import Refused
from anabranch.service.job_service import Caller, JobService

CHECK_S = 5.0


class QueryChecks:
    """One per service; used in its event loop."""

    def __init__(self, service: JobService) -> None:
        self.service = service
        self._threads: dict[str, anyio.CapacityLimiter] = {}  # by owner; there are as many as have tokens

    async def bound(self, caller: Caller, subscription: Subscription) -> NewSubscription:
        """Returns a query as it would be registered; Refused where that takes too long."""
        threads = self._threads.setdefault(caller.owner or "", anyio.CapacityLimiter(1))
        try:
            with anyio.fail_after(CHECK_S):
                return await in_thread(lambda: self.service.bind(subscription), threads)
        except TimeoutError:
            raise Refused(
                400,
                "time",
                f"the query was not checked within {CHECK_S:g} s: it is too complex, or too many were sent",
            ) from None
