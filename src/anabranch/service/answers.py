"""The answer of a subscription as it stands now.

In: a subscription's results from the first batch on. Out: for `+` and `-` the objects or items that are in;
for clusters the last window; for the rest the last rows. Never: a batch twice; what was folded is kept.

    results    + a   + b   - a   + c           the answer now: b, c
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from anabranch.catalog.entries import Entry
from anabranch.catalog.pages import Cursor, Shelf

#: Rows of an answer that has no end: selections, aggregates, changes.
LAST_ROWS = 100
#: Rows that are read at once, and how long one request folds in: a long history comes in several.
ROWS = 20_000
BUDGET_S = 1.0
#: For rows that are only shown, so many batches back are enough.
RECENT_BATCHES = 50
#: So many answers are kept.
MOST_KEPT = 200

Row = dict[str, Any]


class Standing:
    """What holds after the rows so far; in the order in which it began to hold."""

    def __init__(self, spec: Row) -> None:
        self.kind = spec["kind"]
        self.changes = self.kind == "nearest" or (self.kind == "moving" and spec["value"] is None)
        self.windows = self.kind == "clusters" and spec["emit"] != "changes"
        self.whole = self.changes or self.windows  # it follows from all rows, not from the last ones
        self._in: dict[Any, list[Row]] = {}  # several where ids repeat: reports of one vehicle
        self._window: list[Row] = []
        self._last: deque[Row] = deque(maxlen=LAST_ROWS)

    def take(self, rows: Iterable[Row]) -> None:
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
class Kept:
    standing: Standing
    cursor: Cursor
    lock: threading.Lock = field(default_factory=threading.Lock)


class Answers:
    """One for a service; may be used from several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._lock = threading.Lock()

    def now(self, entry: Entry, shelf: Shelf) -> tuple[list[Row], Cursor, bool]:
        """(rows, place behind what was read, whether more is there already: then they are not the answer
        yet).
        """
        kept = self._find(entry, shelf)
        deadline = time.monotonic() + BUDGET_S
        with kept.lock:
            more = True
            while more and time.monotonic() < deadline:
                page = shelf.page(kept.cursor, ROWS)
                for _, table in page.pieces:
                    kept.standing.take(table.to_pylist())
                kept.cursor, more = page.next, page.more
            return kept.standing.rows, kept.cursor, more

    def _find(self, entry: Entry, shelf: Shelf) -> Kept:
        with self._lock:
            kept = self._kept.pop(entry.label, None)
            if kept is None:
                standing = Standing(entry.spec)
                first = 0 if standing.whole else max(0, shelf.latest() + 1 - RECENT_BATCHES)
                kept = Kept(standing, Cursor(first))
            self._kept[entry.label] = kept
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            return kept
