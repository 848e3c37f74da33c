"""What is sent to one receiver next, and how far sending has come.

Rows are sent in shipments: some rows of one batch each, in order. A batch does not change, and the first row
of a shipment decides which is its last; so a shipment that is sent again has the same rows under the same
key. Every row has a cursor of its own (`batch:row`), by which a receiver can recognise repeated rows. At most
AHEAD rows are in memory.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from itertools import islice

from anabranch.catalog.database import now
from anabranch.catalog.entries import Entry
from anabranch.catalog.receivers import Delivery, DeliveryProgress
from anabranch.chain.items import json_row
from anabranch.model.receiver import receiver_of
from anabranch.results.pages import MOST_BATCHES, Cursor, PageReader

#: Rows that are read at once; rows and bytes of a shipment. A row that is larger is sent alone.
AHEAD = 5_000
SHIPMENT_ROWS = 500
SHIPMENT_BYTES = 256 << 10
MAX_ERROR = 300


@dataclass(frozen=True)
class Shipment:
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
    """The rows for one receiver. `last` is the last batch of a subscription that was cancelled, once that is
    known.
    """

    entry: Entry
    delivery: Delivery
    reader: PageReader
    last: int | None = None
    failures: int = 0
    changed: bool = False
    idle_since: float | None = None  # when all that was there had been sent
    _ahead: deque[str] = field(default_factory=deque)
    _to_end: bool = False  # whether what is ahead reaches to the end of the batch

    def __post_init__(self) -> None:
        self.receiver, self.secret = receiver_of(self.delivery.address), self.delivery.secret
        self.cursor = Cursor.read(self.delivery.cursor)
        self.sent, self.tried, self.error = self.delivery.sent, self.delivery.tried, self.delivery.error
        self.ended: str | None = None

    def next_shipment(self, latest: int) -> Shipment | None:
        """Returns the next rows, None where there are none up to the latest batch."""
        stop = min(latest, self.cursor.batch + MOST_BATCHES)
        while len(self._ahead) < SHIPMENT_ROWS and not self._to_end and self.cursor.batch <= stop:
            whole = self.reader.rows(self.cursor.batch)
            rows = whole.slice(self.cursor.row, AHEAD).to_pylist()
            self._ahead = deque(json.dumps(json_row(row), ensure_ascii=False) for row in rows)
            self._to_end = self.cursor.row + len(rows) >= whole.num_rows
            self._next_batch()
        count, size = 0, 0
        for row in self._ahead:
            size += len(row.encode()) + 1
            if count and (size > SHIPMENT_BYTES or count == SHIPMENT_ROWS):
                break
            count += 1
        return Shipment(self.cursor, tuple(islice(self._ahead, count))) if count else None

    def _next_batch(self) -> None:
        """Goes to the next batch, where nothing of this one is left."""
        if self._to_end and not self._ahead:
            self.cursor, self._to_end, self.changed = Cursor(self.cursor.batch + 1), False, True

    def acknowledged(self, shipment: Shipment) -> None:
        for _ in shipment.rows:
            self._ahead.popleft()
        self.cursor, self.sent = shipment.end, self.sent + len(shipment.rows)
        self.tried, self.error, self.failures, self.changed = now(), None, 0, True
        self._next_batch()

    def failed(self, reason: str) -> None:
        self._to_end = False
        self._ahead.clear()  # a receiver that is away for days keeps nothing in memory
        self.tried, self.error, self.changed = now(), reason[:MAX_ERROR], True
        self.failures += 1

    def finished(self) -> bool:
        """Whether all of a subscription that has ended was sent."""
        if self.last is None or self.cursor.batch <= self.last:
            return False
        self.ended, self.changed = now(), True
        return True

    def progress(self) -> DeliveryProgress:
        return DeliveryProgress(
            self.entry.number, str(self.cursor), self.sent, self.tried, self.error, self.ended
        )

    def body(self, shipment: Shipment) -> bytes:
        """Returns the body of a webhook's request."""
        head = {"subscription": self.entry.name, "label": self.entry.label, "stream": self.entry.stream}
        facts = json.dumps(head | {"first": str(shipment.start)}, ensure_ascii=False)
        return f'{facts[:-1]}, "rows": [{",".join(shipment.rows)}]}}'.encode()
