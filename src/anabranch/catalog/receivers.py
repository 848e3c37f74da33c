"""The receivers in a catalog: where the results of a subscription are sent besides being kept, and how far
sending has come. sending/ does the sending.

Each webhook has a secret, which signs what is sent to it. It is made when the receiver is registered and
shown once, to whoever registers it; a new one can be made at any time. It is kept as it is: a signature
needs it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from anabranch.catalog.database import Address, Database, Row
from anabranch.catalog.entries import ENTRY_COLUMNS, PUBLIC_ADDRESS, Entry, NewSubscription, entry_of
from anabranch.model.errors import JobError
from anabranch.model.receiver import Webhook, receiver_of

SECRET_PREFIX = "whsec_"


@dataclass(frozen=True)
class Delivery:
    """How far sending has come: the next row is at `cursor`. `error` is what the last try failed with."""

    address: str
    cursor: str
    sent: int
    tried: str | None
    error: str | None
    ended: str | None
    secret: str | None
    reach: str

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


_COLUMNS = "r.subscription, r.address, r.place, r.sent, r.tried, r.error, r.ended, r.secret, r.reach"


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

    def secret(self, number: int) -> str | None:
        """Returns the secret of a subscription's webhook, None where results are not sent to one."""
        found = self._database.read_value("SELECT secret FROM receivers WHERE subscription = ?", number)
        return None if found is None else str(found)

    def new_secret(self, number: int, name: str) -> str:
        """Makes a new secret for a webhook; from the next request on it signs."""
        known = self.all().get(number)
        if known is None or not isinstance(receiver_of(known.address), Webhook):
            raise JobError(f"the results of {name!r} are not sent to a webhook, so there is nothing to sign")
        secret = new_secret()
        with self._database.writing() as database:
            database.write(
                "UPDATE receivers SET secret = ? WHERE subscription = ? "
                "OR subscription IN (SELECT number FROM subscriptions WHERE part_of = ?)",
                *(secret, number, number),
            )
        return secret

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


def receiver_row(number: int, new: NewSubscription, secret: str) -> Row:
    """Returns the row of a receiver that is registered."""
    assert new.receiver is not None
    webhook = isinstance(receiver_of(new.receiver), Webhook)
    row: Row = {"subscription": number, "address": new.receiver, "place": new.cursor, "sent": 0}
    return row | {"secret": secret if webhook else None, "reach": new.reach}


def new_secret() -> str:
    return SECRET_PREFIX + secrets.token_urlsafe(32)


def _delivery(row: Row) -> Delivery:
    how_far = (row["place"], row["sent"], row["tried"], row["error"], row["ended"])
    return Delivery(row["address"], *how_far, row["secret"], row["reach"] or PUBLIC_ADDRESS)
