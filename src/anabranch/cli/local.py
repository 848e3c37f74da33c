"""A job whose sink is on this machine. Never Spark: results are read as they were delivered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from anabranch.catalog.entries import ACTIVE, Entry
from anabranch.cli.common import opened
from anabranch.cli.target import FIELDS
from anabranch.model.stream import Stream
from anabranch.model.subscription import Moment, Subscription

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.results.writing import ResultTables


class LocalJob:
    def __init__(self, target: str) -> None:
        self.layout, self.catalog = opened(Path(target))

    def __enter__(self) -> LocalJob:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.catalog.close()

    def subscribe(
        self, name: str, query: str, activate: Moment | None, deliver: str | None = None
    ) -> dict[str, Any]:
        from anabranch.catalog.registration import register
        from anabranch.results.manifests import Manifests

        subscription = Subscription(name, query, activate, deliver=deliver)
        streams = self.catalog.streams()
        (number,) = register(self.catalog, Manifests(self.layout), streams, [subscription])
        facts = {key: getattr(self.catalog.entry(number), key) for key in FIELDS}
        return facts if deliver is None else facts | {"secret": self._secret(number)}

    def _secret(self, number: int) -> str | None:
        from anabranch.catalog.receivers import Receivers

        with closing(Receivers(self.layout.catalog)) as receivers:
            return receivers.secret(number)

    def new_secret(self, name: str) -> str:
        from anabranch.catalog.receivers import Receivers

        with closing(Receivers(self.layout.catalog)) as receivers:
            return receivers.new_secret(self.catalog.subscription(name).number, name)

    def cancel(self, name: str, time: Moment | None) -> None:
        from anabranch.job.declarations import stored_time

        entry = self.catalog.subscription(name)
        self.catalog.cancel(name, stored_time(self.catalog.stream(entry.stream), time, "--at"))

    def subscriptions(self, every: bool, counts: bool = False) -> list[dict[str, Any]]:
        entries = self.catalog.subscriptions(state=None if every else ACTIVE)
        results = self._counts(entries) if counts else {}
        delivery = self._delivery(entries)
        return [
            {key: getattr(entry, key) for key in FIELDS}
            | {"delivery": delivery.get(entry.number)}
            | ({"results": results[entry.label]} if counts else {})
            for entry in entries
        ]

    def _delivery(self, entries: list[Entry]) -> dict[int, dict[str, Any]]:
        """Returns how far sending has come, for the subscriptions that have a receiver."""
        if not self.catalog.receivers():
            return {}
        from anabranch.catalog.receivers import Receivers
        from anabranch.results.manifests import Manifests

        receivers = Receivers(self.layout.catalog)
        known, manifests = receivers.all(), Manifests(self.layout)
        receivers.close()
        return {
            entry.number: known[entry.number].facts(
                manifests.latest(self.layout.branch(entry.stream, entry.family))
            )
            for entry in entries
            if entry.number in known
        }

    def _counts(self, entries: list[Entry]) -> dict[str, int]:
        from anabranch.families.registry import family as family_of
        from anabranch.results.deliveries import Deliveries

        streams, deliveries = self.streams(), Deliveries(self.layout)
        counts: dict[tuple[str, str], dict[str, int]] = {}
        out = {}
        for entry in entries:
            table, _ = family_of(entry.family).shown(streams[entry.stream], entry.spec)
            address = (deliveries.branch(entry), table)
            if address not in counts:
                counts[address] = deliveries.counts(*address)
            out[entry.label] = counts[address].get(entry.label, 0)
        return out

    def results(self, name: str) -> tuple[str, list[ResultTables]]:
        entry = self.catalog.subscription(name)
        return entry.query, [self._part(each) for each in (entry, *self.catalog.parts(entry))]

    def _part(self, entry: Entry) -> ResultTables:
        from anabranch.results.deliveries import Deliveries

        return Deliveries(self.layout).results(entry, self.catalog.stream(entry.stream))

    def streams(self) -> dict[str, Stream]:
        return self.catalog.streams()

    def dead_letters(self, stream: str) -> Iterator[pa.Table]:
        from anabranch.results.deliveries import Deliveries

        return Deliveries(self.layout).dead_letters(stream)
