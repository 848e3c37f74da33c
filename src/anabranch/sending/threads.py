"""Work in threads that may take longer than anybody waits for it.

A thread cannot be ended. Whoever waits for one gives up after a while, but the thread goes on; so its place
is free only when its work is done, and there are never more threads than places.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import anyio
from anyio import to_thread

T = TypeVar("T")


async def in_thread(work: Callable[[], T], places: anyio.CapacityLimiter) -> T:
    """Returns what `work` returns. May be cancelled: then the work goes on, and keeps its place."""
    borrower, loop, began = object(), asyncio.get_running_loop(), False

    def release() -> None:
        with suppress(RuntimeError):  # the thread began just when its caller gave up
            places.release_on_behalf_of(borrower)

    def run() -> T:
        nonlocal began
        began = True
        try:
            return work()
        finally:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(release)

    await places.acquire_on_behalf_of(borrower)
    try:
        return await to_thread.run_sync(run, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
    finally:
        if not began:
            release()
