"""How subscriptions come into the catalog: all that are asked at once, or none.

In: bound queries, and a transaction that nobody else's overlaps. Out: their rows, and their activations in
the control log. Never: a number or a version that was used before; nothing is ever deleted from either.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

from anabranch.catalog.database import Database
from anabranch.catalog.entries import ACTIVE, NewSubscription
from anabranch.catalog.reading import suggestion
from anabranch.model.errors import JobError, TooManyError

#: So many names are looked up at once; both databases take more.
AT_ONCE = 500


class Asking:
    """Some subscriptions with their parts, on their way in."""

    def __init__(self, database: Database, asked: Sequence[NewSubscription]) -> None:
        self._database, self._asked = database, asked
        self._all = [each for new in asked for each in (new, *new.parts)]
        self._labels: set[str] = set()  # taken, as far as they could be wanted

    def added(self, most: int | None) -> list[int]:
        """Their numbers; those of the parts follow the number of each. `most`: so many active ones an owner
        may have.
        """
        if most is not None:
            for owner, more in Counter(new.owner for new in self._all).items():
                self._check_room(owner, more, most)
        self._check_streams()
        names = [new.name for new in self._all]
        latest = self._latest(names)
        ((last,),) = self._database.read("SELECT coalesce(max(number), 0) FROM subscriptions")
        first, moment = last + 1, now()
        rows, log, receivers = [], [], []
        for number, new in enumerate(self._all, start=first):
            label = self._label(new, number, latest.get(new.name))
            latest[new.name] = (ACTIVE, None)
            bound = (new.stream, new.family, new.kind, new.query, json.dumps(new.spec))
            times = (json.dumps(new.after), json.dumps(new.until))
            rows.append((number, new.name, label, *bound, ACTIVE, *times, new.origin, moment, new.owner))
            log.append((new.stream, new.family, "activate", number, times[0], moment))
            if new.until is not None:
                log.append((new.stream, new.family, "cancel", number, times[1], moment))
            if new.receiver is not None:
                receivers.append((number, new.receiver, new.place))
        self._database.write_many(f"INSERT INTO subscriptions VALUES ({', '.join('?' * 13)}, NULL, ?)", rows)
        logged(self._database, log)
        added = "INSERT INTO receivers VALUES (?, ?, ?, 0, NULL, NULL, NULL)"
        self._database.write_many(added, receivers)
        ends = accumulate((1 + len(new.parts) for new in self._asked), initial=first)
        return list(ends)[:-1]

    def _check_room(self, owner: str | None, wanted: int, most: int) -> None:
        ((count,),) = self._database.read(
            "SELECT count(*) FROM subscriptions WHERE state = ? AND coalesce(owner, '') = ?",
            *(ACTIVE, owner or ""),
        )
        if count + wanted > most:
            raise TooManyError(
                f"{owner or 'nobody in particular'} has {count:,} of {most:,} subscriptions; cancel one first"
            )

    def _check_streams(self) -> None:
        known = [name for (name,) in self._database.read("SELECT name FROM streams ORDER BY created, name")]
        for new in self._all:
            if new.stream not in known:
                raise JobError(f"subscription {new.name}: {unknown_stream(new.stream, known)}")

    def _latest(self, names: Sequence[str]) -> dict[str, tuple[str, str | None]]:
        """State and query of the newest subscription of each name; labels that are taken are noted."""
        out: dict[str, tuple[str, str | None]] = {}
        for start in range(0, len(names), AT_ONCE):
            some = names[start : start + AT_ONCE]
            marks = ", ".join("?" * len(some))
            found = self._database.read(
                f"SELECT name, state, query FROM subscriptions WHERE name IN ({marks}) ORDER BY number", *some
            )
            out |= {name: (state, query) for name, state, query in found}
            labels = self._database.read(f"SELECT label FROM subscriptions WHERE label IN ({marks})", *some)
            self._labels.update(label for (label,) in labels)
        return out

    def _label(self, new: NewSubscription, number: int, before: tuple[str, str | None] | None) -> str:
        """What the results are delivered under; JobError if the name is taken."""
        if before is not None and before[0] == ACTIVE:
            if before[1] is None:
                raise JobError(f"the name {new.name!r} is there twice; names must differ")
            raise JobError(
                f"the name {new.name!r} is taken by an active subscription ({' '.join(before[1].split())}); "
                "cancel it first, or choose another name"
            )
        label = new.name if before is None else f"{new.name}#{number}"
        while label in self._labels or (
            label != new.name and self._database.read("SELECT 1 FROM subscriptions WHERE label = ?", label)
        ):
            label += f"#{number}"
        self._labels.add(label)
        return label


def logged(database: Database, log: Sequence[tuple[Any, ...]]) -> int:
    """Appends to the control log; the version of the last entry."""
    ((last,),) = database.read("SELECT coalesce(max(version), 0) FROM control_log")
    rows = [(version, *entry) for version, entry in enumerate(log, start=last + 1)]
    database.write_many("INSERT INTO control_log VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    return int(last) + len(rows)


def unknown_stream(name: str, streams: Iterable[str]) -> str:
    return f"unknown stream {name!r}{suggestion(name, streams)}"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
