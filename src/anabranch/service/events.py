"""Results live, as server-sent events.

In: a shelf and a place on it. Out: an event a row, its id the place behind it, so that a listener who names
the last id it saw gets the next row, none twice and none left out; `event: gap` where some are no longer
shown. Never: a row that is kept for a slow listener: it is read when the listener has taken what came before.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar

from anabranch.catalog.pages import Cursor, Page, Shelf
from anabranch.zones.jsonlines import json_row

#: Rows that are read at once; what one listener holds in memory.
ROWS = 500
#: How often a listener looks for a new batch, and how often it hears that the connection lives.
LOOK_S = 0.2
ALIVE_S = 15.0
#: Threads that read for all listeners together: each holds a batch in memory, and requests need threads, too.
READERS = 4

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("readers of events")


async def events(shelf: Shelf, cursor: Cursor, welcome: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Until the stream ends or the listener leaves; `welcome` is asked now and then whether it may stay."""
    yield b"retry: 1000\n\n"
    told = time.monotonic()
    seen: Cursor | None = None  # an end comes with a batch: where no new one came, there is none
    while True:
        if shelf.latest() >= cursor.batch:
            page = await to_thread.run_sync(shelf.page, cursor, ROWS, limiter=_reading())
            if page.skipped:
                yield f'event: gap\ndata: {{"kept_from": "{page.kept_from}"}}\n\n'.encode()
            if page.pieces:
                yield text_of(page)
                told = time.monotonic()
            cursor = page.next
            continue
        if seen != cursor and await to_thread.run_sync(shelf.ended):
            if shelf.latest() >= cursor.batch:  # the batch that brought the end came just now
                continue
            yield f"event: end\nid: {cursor}\ndata: {{}}\n\n".encode()
            return
        seen = cursor
        if time.monotonic() - told > ALIVE_S:
            if not await to_thread.run_sync(welcome):
                return
            yield b": alive\n\n"
            told = time.monotonic()
        await anyio.sleep(LOOK_S)


def _reading() -> anyio.CapacityLimiter:
    """One for all listeners of a service."""
    try:
        return _limiter.get()
    except LookupError:
        _limiter.set(made := anyio.CapacityLimiter(READERS))
        return made


def text_of(page: Page) -> bytes:
    out: list[str] = []
    for start, table in page.pieces:
        for place, row in enumerate(table.to_pylist(), start=start.row + 1):
            data = json.dumps(json_row(row), ensure_ascii=False)
            out.append(f"id: {start.batch}:{place}\ndata: {data}\n\n")
    return "".join(out).encode()
