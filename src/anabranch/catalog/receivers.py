"""The receivers in a catalog: where the results of a subscription are sent besides being kept, and how far
sending has come. sending/ does the sending.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from anabranch.catalog.database import Address, Database, Row
from anabranch.catalog.entries import ENTRY_COLUMNS, Entry, entry_of


@dataclass(frozen=True)
class Delivery:
    """How far sending has come: the next row is at `cursor`. `error` is what the last try failed with."""

    address: str
    cursor: str
    sent: int
    tried: str | None
    error: str | None
    ended: str | None

    def facts(self, latest: int) -> dict[str, Any]:
        """Returns what is shown to users. `latest` is the number of the last batch; `behind` so many batches
        have not been sent yet.
        """
        behind = 0 if self.ended else max(0, latest + 1 - int(self.cursor.partition(":")[0]))
        return {
            "receiver": self.address,
            "place": self.cursor,
            "sent": self.sent,
            "behind": behind,
            "tried": self.tried,
            "error": self.error,
        }


@dataclass(frozen=True)
class DeliveryProgress:
    """How far sending to the receiver of a subscription has come, by the subscription's number."""

    number: int
    cursor: str
    sent: int
    tried: str | None
    error: str | None
    ended: str | None


_COLUMNS = "r.subscription, r.address, r.place, r.sent, r.tried, r.error, r.ended"


class Receivers:
    """The receivers in a catalog. May be used from several threads."""

    def __init__(self, address: Address) -> None:
        self._database = Database(address)

    def close(self) -> None:
        self._database.close()

    def all(self) -> dict[int, Delivery]:
        """Returns all of them by the number of the subscription."""
        rows = self._database.read(f"SELECT {_COLUMNS} FROM receivers r")
        return {row["subscription"]: _delivery(row) for row in rows}

    def open(self) -> list[tuple[Entry, Delivery]]:
        """Returns those to which something may still be sent."""
        columns = ", ".join(f"s.{column}" for column in ENTRY_COLUMNS)
        rows = self._database.read(
            f"SELECT {columns}, {_COLUMNS} FROM receivers r "
            "JOIN subscriptions s ON s.number = r.subscription WHERE r.ended IS NULL ORDER BY s.number"
        )
        return [(entry_of(row), _delivery(row)) for row in rows]

    def save(self, progress: Iterable[DeliveryProgress]) -> None:
        """Keeps how far sending has come, of several at once."""
        rows = [(one.cursor, one.sent, one.tried, one.error, one.ended, one.number) for one in progress]
        if rows:
            with self._database.writing() as database:
                database.write_many(
                    "UPDATE receivers SET place = ?, sent = ?, tried = ?, error = ?, ended = ? "
                    "WHERE subscription = ?",
                    rows,
                )


def _delivery(row: Row) -> Delivery:
    return Delivery(row["address"], row["place"], row["sent"], row["tried"], row["error"], row["ended"])
