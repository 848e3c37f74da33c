"""Results live, as server-sent events: one event per row.

The id of an event is the cursor after its row, so a listener that names the last id it saw gets the next row,
none twice and none left out. `event: gap` says that some are no longer shown. Rows for a slow listener are
not kept in memory: they are read when it has received what came before.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar

from anabranch.chain.json_rows import json_row
from anabranch.results.pages import Cursor, Page, PageReader

#: Rows that are read at once; so many are in memory per listener.
ROWS = 500
#: How often a new batch is looked for, and how often a listener gets a sign of life.
LOOK_S = 0.2
ALIVE_S = 15.0
#: Threads that read for all listeners together: each has a batch in memory, and requests need threads, too.
READERS = 4

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("readers of events")


async def events(reader: PageReader, cursor: Cursor, may_stay: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Gives events until the stream ends or the listener goes away; `may_stay` is called now and then."""
    yield b"retry: 1000\n\n"
    last_sent = time.monotonic()
    checked: Cursor | None = None  # an end comes with a batch: without a new batch there is no new end
    while True:
        if reader.latest() >= cursor.batch:
            page = await to_thread.run_sync(reader.page, cursor, ROWS, limiter=_reading())
            if page.skipped:
                yield f'event: gap\ndata: {{"kept_from": "{page.kept_from}"}}\n\n'.encode()
            if page.pieces:
                yield text_of(page)
                last_sent = time.monotonic()
            cursor = page.next
            continue
        if checked != cursor and await to_thread.run_sync(reader.ended):
            if reader.latest() >= cursor.batch:  # the batch that brought the end came just now
                continue
            yield f"event: end\nid: {cursor}\ndata: {{}}\n\n".encode()
            return
        checked = cursor
        if time.monotonic() - last_sent > ALIVE_S:
            if not await to_thread.run_sync(may_stay):
                return
            yield b": alive\n\n"
            last_sent = time.monotonic()
        await anyio.sleep(LOOK_S)


def _reading() -> anyio.CapacityLimiter:
    """Returns the limiter of all listeners of a service."""
    try:
        return _limiter.get()
    except LookupError:
        _limiter.set(limiter := anyio.CapacityLimiter(READERS))
        return limiter


def text_of(page: Page) -> bytes:
    out: list[str] = []
    for start, table in page.pieces:
        for next_row, row in enumerate(table.to_pylist(), start=start.row + 1):
            data = json.dumps(json_row(row), ensure_ascii=False)
            out.append(f"id: {start.batch}:{next_row}\ndata: {data}\n\n")
    return "".join(out).encode()
