"""The receivers in a catalog: where the results of a subscription are sent besides being kept.

In: how far sending has come. Out: what is to be sent, and from which place. Never: the sending itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from anabranch.catalog.database import Address, Database
from anabranch.catalog.deliveries import Deliveries
from anabranch.catalog.entries import Entry, entry_of


@dataclass(frozen=True)
class Delivery:
    """How far sending has come: the next row is at `place`. `error` is what the last try failed with."""

    address: str
    place: str
    sent: int
    tried: str | None
    error: str | None
    ended: str | None

    def facts(self, entry: Entry, deliveries: Deliveries) -> dict[str, Any]:
        """`behind`: so many batches have not been sent yet."""
        latest = deliveries.latest(entry.stream, entry.family)
        behind = 0 if self.ended else max(0, latest + 1 - int(self.place.partition(":")[0]))
        return {
            "receiver": self.address,
            "place": self.place,
            "sent": self.sent,
            "behind": behind,
            "tried": self.tried,
            "error": self.error,
        }


#: number, place, rows sent, when tried, error, when ended
State = tuple[int, str, int, str | None, str | None, str | None]


class Receivers:
    """The receivers in a catalog. May be used from several threads."""

    def __init__(self, address: Address) -> None:
        self._database = Database(address)

    def close(self) -> None:
        self._database.close()

    def all(self) -> dict[int, Delivery]:
        """By the number of the subscription."""
        rows = self._database.read(
            "SELECT subscription, address, place, sent, tried, error, ended FROM receivers"
        )
        return {number: Delivery(*rest) for number, *rest in rows}

    def open(self) -> list[tuple[Entry, Delivery]]:
        """Those to which something may still be sent."""
        rows = self._database.read(
            "SELECT s.*, r.address, r.place, r.sent, r.tried, r.error, r.ended FROM receivers r "
            "JOIN subscriptions s ON s.number = r.subscription WHERE r.ended IS NULL ORDER BY s.number"
        )
        return [(entry_of(row[:-6]), Delivery(*row[-6:])) for row in rows]

    def note(self, states: Iterable[State]) -> None:
        """How far it has come, of several at once."""
        rows = [(*rest, number) for number, *rest in states]
        if rows:
            with self._database.writing() as database:
                database.write_many(
                    "UPDATE receivers SET place = ?, sent = ?, tried = ?, error = ?, ended = ? "
                    "WHERE subscription = ?",
                    rows,
                )
