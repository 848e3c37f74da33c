"""A job whose sink is on this machine. Never Spark: results are read as they were delivered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from anabranch.catalog.entries import ACTIVE, Entry
from anabranch.cli.common import opened
from anabranch.cli.place import Found
from anabranch.model.stream import Stream
from anabranch.model.subscription import Moment, Subscription

if TYPE_CHECKING:
    import pyarrow as pa

#: What is said of a subscription.
FACTS = (
    *("number", "name", "label", "stream", "family", "kind", "state", "activate", "cancel"),
    *("origin", "created", "cancelled", "owner", "query"),
)


class Local:
    def __init__(self, target: str) -> None:
        self.layout, self.catalog = opened(Path(target))

    def __enter__(self) -> Local:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.catalog.close()

    def subscribe(
        self, name: str, query: str, activate: Moment | None, deliver: str | None = None
    ) -> dict[str, Any]:
        from anabranch.catalog.activation import settled
        from anabranch.catalog.deliveries import Deliveries
        from anabranch.catalog.job import check_name
        from anabranch.catalog.sync import bound

        check_name(name)
        made = bound(Subscription(name, query, activate, deliver=deliver), self.catalog.streams())
        (number,) = self.catalog.subscribe_many([settled(made, self.catalog, Deliveries(self.layout))])
        return {key: getattr(self.catalog.entry(number), key) for key in FACTS}

    def cancel(self, name: str, at: Moment | None) -> None:
        from anabranch.catalog.job import stored_time

        entry = self.catalog.subscription(name)
        self.catalog.cancel(name, stored_time(self.catalog.stream(entry.stream), at, "--at"))

    def subscriptions(self, every: bool, counts: bool = False) -> list[dict[str, Any]]:
        entries = self.catalog.subscriptions(state=None if every else ACTIVE)
        found = self._counts(entries) if counts else {}
        sent = self._sent()
        return [
            {key: getattr(entry, key) for key in FACTS}
            | {"delivery": sent(entry)}
            | ({"results": found[entry.label]} if counts else {})
            for entry in entries
        ]

    def _sent(self) -> Callable[[Entry], dict[str, Any] | None]:
        from anabranch.catalog.deliveries import Deliveries
        from anabranch.catalog.receivers import Receivers

        receivers = Receivers(self.layout.catalog)
        found, deliveries = receivers.all(), Deliveries(self.layout)
        receivers.close()
        return lambda entry: found[entry.number].facts(entry, deliveries) if entry.number in found else None

    def _counts(self, entries: list[Entry]) -> dict[str, int]:
        from anabranch.catalog.deliveries import Deliveries
        from anabranch.families.registry import family as family_of

        streams, deliveries = self.streams(), Deliveries(self.layout)
        counts: dict[tuple[str, str, str], dict[str, int]] = {}
        out = {}
        for entry in entries:
            table, _ = family_of(entry.family).shown(streams[entry.stream], entry.spec)
            place = (entry.stream, entry.family, table)
            if place not in counts:
                counts[place] = deliveries.counts(*place)
            out[entry.label] = counts[place].get(entry.label, 0)
        return out

    def asked(self, name: str) -> tuple[str, list[Found]]:
        entry = self.catalog.subscription(name)
        return entry.query, [self._part(each) for each in (entry, *self.catalog.parts(entry))]

    def _part(self, entry: Entry) -> Found:
        from anabranch.catalog.deliveries import Deliveries

        return Deliveries(self.layout).answers(entry, self.catalog.stream(entry.stream))

    def streams(self) -> dict[str, Stream]:
        return self.catalog.streams()

    def dead_letters(self, stream: str) -> Iterator[pa.Table]:
        from anabranch.catalog.deliveries import Deliveries

        return Deliveries(self.layout).dead_letters(stream)
