"""What is to be sent to one receiver next, and how far it has come.

In: a subscription's shelf and the place up to which all was acknowledged. Out: lots, in order: some rows of
one batch each. A batch does not change, and where a lot begins decides where it ends; so a lot that is sent
again has the same rows under the same key. Every row has a place of its own (`batch:row`), by which a
receiver can tell repeats one by one. Never: more than AHEAD rows in memory.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field

from anabranch.catalog.asking import now
from anabranch.catalog.entries import Entry
from anabranch.catalog.pages import MOST_BATCHES, Cursor, Shelf
from anabranch.catalog.receivers import Delivery, State
from anabranch.model.receiver import receiver_of
from anabranch.zones.jsonlines import json_row

#: Rows that are read at once; rows and bytes of a lot. A row that is larger is sent alone.
AHEAD = 5_000
LOT_ROWS = 500
LOT_BYTES = 256 << 10
MAX_ERROR = 300


@dataclass(frozen=True)
class Lot:
    """Rows `start` to `end` of a batch, as JSON."""

    start: Cursor
    rows: tuple[str, ...]

    @property
    def end(self) -> Cursor:
        return Cursor(self.start.batch, self.start.row + len(self.rows))

    def ids(self) -> list[str]:
        first = self.start.row
        return [f"{self.start.batch}:{row}" for row in range(first, first + len(self.rows))]


@dataclass
class Outbox:
    """`last` is the last batch of a subscription that was cancelled, once that is known."""

    entry: Entry
    delivery: Delivery
    shelf: Shelf
    last: int | None = None
    failures: int = 0
    changed: bool = False
    idle_since: float | None = None  # when all that was there had been sent
    _ahead: deque[str] = field(default_factory=deque)
    _rest: bool = False  # whether what is ahead reaches to the end of the batch

    def __post_init__(self) -> None:
        self.receiver = receiver_of(self.delivery.address)
        self.cursor = Cursor.read(self.delivery.place)
        self.sent, self.tried, self.error = self.delivery.sent, self.delivery.tried, self.delivery.error
        self.ended: str | None = None

    def lot(self, latest: int) -> Lot | None:
        """The next rows, None where there are none up to the latest batch."""
        stop = min(latest, self.cursor.batch + MOST_BATCHES)
        while len(self._ahead) < LOT_ROWS and not self._rest and self.cursor.batch <= stop:
            whole = self.shelf.rows(self.cursor.batch)
            rows = whole.slice(self.cursor.row, AHEAD).to_pylist()
            self._ahead = deque(json.dumps(json_row(row), ensure_ascii=False) for row in rows)
            self._rest = self.cursor.row + len(rows) >= whole.num_rows
            self._go_on()
        taken, size = 0, 0
        for row in self._ahead:
            size += len(row.encode()) + 1
            if taken and (size > LOT_BYTES or taken == LOT_ROWS):
                break
            taken += 1
        return Lot(self.cursor, tuple(self._ahead[place] for place in range(taken))) if taken else None

    def _go_on(self) -> None:
        """To the next batch, where nothing of this one is left."""
        if self._rest and not self._ahead:
            self.cursor, self._rest, self.changed = Cursor(self.cursor.batch + 1), False, True

    def acknowledged(self, lot: Lot) -> None:
        for _ in lot.rows:
            self._ahead.popleft()
        self.cursor, self.sent = lot.end, self.sent + len(lot.rows)
        self.tried, self.error, self.failures, self.changed = now(), None, 0, True
        self._go_on()

    def failed(self, reason: str) -> None:
        self._rest = False
        self._ahead.clear()  # a receiver that is away for days keeps nothing in memory
        self.tried, self.error, self.changed = now(), reason[:MAX_ERROR], True
        self.failures += 1

    def finished(self) -> bool:
        """Whether all of a subscription that has ended was sent."""
        if self.last is None or self.cursor.batch <= self.last:
            return False
        self.ended, self.changed = now(), True
        return True

    def state(self) -> State:
        return self.entry.number, str(self.cursor), self.sent, self.tried, self.error, self.ended

    def body(self, lot: Lot) -> bytes:
        """A webhook's request."""
        head = {"subscription": self.entry.name, "label": self.entry.label, "stream": self.entry.stream}
        facts = json.dumps(head | {"first": str(lot.start)}, ensure_ascii=False)
        return f'{facts[:-1]}, "rows": [{",".join(lot.rows)}]}}'.encode()
