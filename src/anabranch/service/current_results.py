"""What is true of a subscription now, computed from all of its results so far.

Where results are changes (`+` and `-`), that is the items or objects that are in; for clusters the last
window; for everything else the last rows. Each batch is read once.

    results    + a   + b   - a   + c           now: b, c
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from anabranch.catalog.entries import Entry
from anabranch.results.pages import Cursor, PageReader

#: How many rows are shown where all rows count: selections, aggregates, changes of clusters.
LAST_ROWS = 100
#: Rows that are read at once, and how long one request may read: a long history takes several requests.
ROWS = 20_000
BUDGET_S = 1.0
#: Where only the last rows are shown, so many batches back are enough.
RECENT_BATCHES = 50
#: So many subscriptions are kept in memory.
MOST_KEPT = 200

Row = dict[str, Any]


class CurrentRows:
    """The rows that are true after all rows so far, in the order in which they became true."""

    def __init__(self, spec: Row) -> None:
        self.kind = spec["kind"]
        self.changes = self.kind == "nearest" or (self.kind == "moving" and spec["value"] is None)
        self.windows = self.kind == "clusters" and spec["emit"] != "changes"
        self.needs_all = self.changes or self.windows  # it follows from all rows, not from the last ones
        self._in: dict[Any, list[Row]] = {}  # several where ids repeat: reports of one vehicle
        self._window: list[Row] = []
        self._last: deque[Row] = deque(maxlen=LAST_ROWS)

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if self.changes:
                self._change(row)
            elif self.windows:
                if self._window and self._window[0]["window_end"] != row["window_end"]:
                    self._window = []
                self._window.append(row)
            else:
                self._last.append(row)

    def _change(self, row: Row) -> None:
        name = (row["id"], row["distance"]) if self.kind == "nearest" else row["object"]
        here = self._in.setdefault(name, [])
        if row["op"] == "+":
            here.append(row)
        elif here:
            here.pop(0)
        if not here:
            del self._in[name]

    @property
    def rows(self) -> list[Row]:
        if self.changes:
            return [row for rows in self._in.values() for row in rows]
        return list(self._window if self.windows else self._last)


@dataclass
class FollowedResults:
    """The current rows of one subscription, and how far its results have been read."""

    current: CurrentRows
    cursor: Cursor
    lock: threading.Lock = field(default_factory=threading.Lock)


class CurrentResults:
    """One per service; may be used from several threads."""

    def __init__(self) -> None:
        #: by the number of the subscription, and how many batches back the caller sees
        self._followed: OrderedDict[tuple[int, int | None], FollowedResults] = OrderedDict()
        self._lock = threading.Lock()

    def now(self, entry: Entry, reader: PageReader) -> tuple[list[Row], Cursor, bool]:
        """Returns the rows, the cursor after what was read, and whether more results are there that were not
        read yet.
        """
        followed = self._follow(entry, reader)
        deadline = time.monotonic() + BUDGET_S
        with followed.lock:
            more = True
            while more and time.monotonic() < deadline:
                page = reader.page(followed.cursor, ROWS)
                for _, table in page.pieces:
                    followed.current.add(table.to_pylist())
                followed.cursor, more = page.next, page.more
            return followed.current.rows, followed.cursor, more

    def _follow(self, entry: Entry, reader: PageReader) -> FollowedResults:
        key = (entry.number, reader.kept)
        with self._lock:
            followed = self._followed.pop(key, None)
            if followed is None:
                current = CurrentRows(entry.spec)
                first = 0 if current.needs_all else max(0, reader.latest() + 1 - RECENT_BATCHES)
                followed = FollowedResults(current, Cursor(first))
            self._followed[key] = followed
            while len(self._followed) > MOST_KEPT:
                self._followed.popitem(last=False)
            return followed
