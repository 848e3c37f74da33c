"""Results live, as server-sent events: one event per row.

The id of an event is the cursor after its row, so a listener that names the last id it saw gets the next row,
none twice and none left out. `event: gap` says that some are no longer shown. Rows for a slow listener are
not kept in memory: they are read when it has received what came before.

Every CHECK_S seconds a listener is checked, whether rows come or not: one whose token was revoked is let go.
"""

from __future__ import annotations

import errno
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from anabranch.chain.items import json_row
from anabranch.model.errors import RunError
from anabranch.results.pages import Cursor, Page, PageReader

log = logging.getLogger("anabranch.service")

T = TypeVar("T")

#: Rows that are read at once; so many are in memory per listener.
ROWS = 500
#: How often a new batch is looked for, how often a listener is checked, and how often it gets a sign of life.
LOOK_S = 0.2
CHECK_S = 5.0
ALIVE_S = 15.0
#: How long a listener waits where the machine has no file or memory left for it.
SHORT_S = 1.0
#: Threads that read for all listeners together: each has a batch in memory, and requests need threads, too.
READERS = 4

_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("readers of events")


class EventResponse(StreamingResponse):
    """`ended` is called when the listener has gone, also if it went before the first event."""

    media_type = "text/event-stream"

    def __init__(self, content: AsyncIterator[bytes], ended: Callable[[], None]) -> None:
        super().__init__(content, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


async def events(reader: PageReader, cursor: Cursor, may_stay: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Gives events until the stream ends or the listener goes away or `may_stay` says no."""
    yield b"retry: 1000\n\n"
    last_sent = last_checked = time.monotonic()
    checked: Cursor | None = None  # an end comes with a batch: without a new batch there is no new end
    while True:
        if time.monotonic() - last_checked > CHECK_S:
            if not await _patiently(may_stay):
                return
            last_checked = time.monotonic()
        if await _latest(reader) >= cursor.batch:
            page = await _patiently(reader.page, cursor, ROWS)
            if page.skipped:
                yield f'event: gap\ndata: {{"kept_from": "{page.kept_from}"}}\n\n'.encode()
            if page.pieces:
                yield text_of(page)
                last_sent = time.monotonic()
            cursor = page.next
            continue
        if checked != cursor and await _patiently(reader.ended):
            if await _latest(reader) >= cursor.batch:  # the batch that brought the end came just now
                continue
            yield f"event: end\nid: {cursor}\ndata: {{}}\n\n".encode()
            return
        checked = cursor
        if time.monotonic() - last_sent > ALIVE_S:
            yield b": alive\n\n"
            last_sent = time.monotonic()
        await anyio.sleep(LOOK_S)


async def _latest(reader: PageReader) -> int:
    """Returns the number of the last batch; it is read here, as a thread would take longer than that."""
    try:
        return reader.latest()
    except OSError as error:
        if error.errno not in _SHORTAGES:
            raise
        return await _patiently(reader.latest)


async def _patiently(read: Callable[..., T], *values: object) -> T:
    """Reads in a thread. Where the machine has no file left, it waits: the listener is not to blame."""
    while True:
        try:
            return await to_thread.run_sync(read, *values, limiter=_reading())
        except (OSError, RunError) as error:  # RunError: the catalog
            cause = error.__cause__ if isinstance(error, RunError) else error
            if isinstance(error, OSError) and error.errno not in _SHORTAGES:
                raise
            log.warning("a listener waits: %s", cause or error)
        await anyio.sleep(SHORT_S)


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
