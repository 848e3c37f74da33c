"""What the service works with, and what it does for a caller.

In: a sink whose catalog exists, and a caller. Out: subscriptions, shelves of results, streams: only what the
caller may see. Never: Spark; what a subscription starts there follows from the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import isfinite
from typing import TYPE_CHECKING, Any

from anabranch.catalog import pages
from anabranch.catalog.activation import settled
from anabranch.catalog.catalog import Catalog
from anabranch.catalog.deliveries import Deliveries
from anabranch.catalog.entries import ACTIVE, Entry, NewSubscription, dump_stream
from anabranch.catalog.job import check_name, stored_time
from anabranch.catalog.layout import Layout
from anabranch.catalog.reading import suggestion
from anabranch.catalog.receivers import Receivers
from anabranch.catalog.sync import bound
from anabranch.catalog.tokens import Role, Tokens
from anabranch.language.wxquery.recognise import is_wxquery
from anabranch.model.errors import JobError
from anabranch.model.stream import Stream, Time
from anabranch.model.subscription import Moment, Subscription
from anabranch.sending.webhook import check_public
from anabranch.service.errors import Refused, unknown
from anabranch.service.models import DeliveryFacts, StreamFacts, SubscriptionFacts

if TYPE_CHECKING:
    from anabranch.spark.measures import Measure


@dataclass(frozen=True)
class Limits:
    """What an owner may have, and how large a request may be."""

    subscriptions: int = 1_000
    requests_a_second: float = 50.0
    listeners: int = 100
    batches_kept: int = 1_000_000
    body_bytes: int = 256 << 10


@dataclass(frozen=True)
class Caller:
    """Who asks. Without tokens the service is open to this machine, and whoever asks may do everything."""

    owner: str | None = None
    role: Role = Role.ADMIN

    @property
    def sees_all(self) -> bool:
        return self.role is not Role.USER

    @property
    def only(self) -> str | None:
        """Whose subscriptions are seen; None: everybody's."""
        return None if self.sees_all else self.owner

    def may_see(self, entry: Entry) -> bool:
        return self.sees_all or entry.owner == self.owner


@dataclass
class Desk:
    """`plan` computes who shares what, `network` what that loads, `measured` asks Spark; all are given by who
    starts the service, and may be called by several threads.
    """

    layout: Layout
    plan: Callable[[], dict[str, Any]]
    network: Callable[[], dict[str, Any]]
    limits: Limits = field(default_factory=Limits)
    measured: Callable[[], Iterable[Measure]] = tuple
    local: bool = True  # it listens on loopback only
    private_receivers: bool = False  # elsewhere, too, results may go to Kafka and to private addresses

    def __post_init__(self) -> None:
        self.catalog = Catalog.existing(self.layout.catalog)
        self.tokens = Tokens(self.layout.catalog)
        self.receivers = Receivers(self.layout.catalog)
        self.deliveries = Deliveries(self.layout, pages.RECENT_BYTES)

    def close(self) -> None:
        self.catalog.close()
        self.tokens.close()
        self.receivers.close()

    # streams

    def stream(self, name: str) -> Stream:
        streams = self.catalog.streams()
        if name not in streams:
            raise unknown(f"unknown stream {name!r}{suggestion(name, streams)}")
        return streams[name]

    def stream_facts(self, stream: Stream) -> StreamFacts:
        return StreamFacts.of(stream, dump_stream(stream), self.deliveries.books(stream.name))

    # subscriptions

    def understood(self, query: str) -> NewSubscription:
        """A query as it would be registered, under a name that does not matter; or the refusal."""
        return bound(Subscription("checked", query), self.catalog.streams())

    def subscribe(
        self, caller: Caller, name: str, query: str, activate: Moment | None, deliver: str | None = None
    ) -> Entry:
        """Registers a query, with the refusals that the command line gives."""
        check_name(name)
        if deliver is not None and not (self.local or self.private_receivers):
            check_public(deliver)
        asked = Subscription(name, query, activate, deliver=deliver)
        new = settled(bound(asked, self.catalog.streams()), self.catalog, self.deliveries)
        self._check_free(caller, name)
        most = None if caller.role is Role.ADMIN else self.limits.subscriptions
        (number,) = self.catalog.subscribe_many([_owned(new, caller.owner)], most)
        return self.catalog.entry(number)

    def _check_free(self, caller: Caller, name: str) -> None:
        for entry in self.catalog.subscriptions(name=name):
            ours = f" by an active subscription ({' '.join(entry.query.split())}); cancel it first, or"
            said = ours if caller.may_see(entry) else ";"
            raise Refused(409, "taken", f"the name {name!r} is taken{said} choose another name")

    def subscription(self, caller: Caller, name: str) -> Entry:
        """The newest subscription of that name that the caller may see."""
        try:
            entry = self.catalog.subscription(name)
            if caller.may_see(entry):
                return entry
        except JobError:
            pass
        own = [entry for entry in self.subscriptions(caller, None) if name in (entry.name, entry.label)]
        if own:
            return own[-1]
        names = dict.fromkeys(entry.name for entry in self.subscriptions(caller, None))
        raise unknown(f"unknown subscription {name!r}{suggestion(name, names)}")

    def subscriptions(self, caller: Caller, state: str | None = ACTIVE) -> list[Entry]:
        return self.catalog.subscriptions(state=state, owner=caller.only)

    def cancel(self, caller: Caller, name: str, at: Moment | None) -> Entry:
        entry = self.subscription(caller, name)
        until = stored_time(self.catalog.stream(entry.stream), at, "at")
        if self.catalog.subscription(entry.name).number != entry.number:  # somebody else has the name now
            ended = f"subscription {name!r} is cancelled already (at {entry.cancelled})"
            raise Refused(409, "cancelled", ended)
        try:
            return self.catalog.cancel(entry.name, until)
        except JobError as error:
            raise error if entry.active else Refused(409, "cancelled", str(error)) from None

    def facts(self, entry: Entry) -> SubscriptionFacts:
        return self.facts_of([entry])[0]

    def facts_of(self, entries: Sequence[Entry]) -> list[SubscriptionFacts]:
        sent = self.receivers.all()
        out = []
        for entry in entries:
            parts = self.catalog.parts(entry) if is_wxquery(entry.query) else ()  # only these have several
            facts = SubscriptionFacts.of(entry, [part.label for part in parts])
            if entry.number in sent:
                facts.delivery = DeliveryFacts(**sent[entry.number].facts(entry, self.deliveries))
            out.append(facts)
        return out

    # what was delivered

    def results(self, caller: Caller, name: str) -> pages.Shelf:
        entry = self.subscription(caller, name)
        kept = None if caller.sees_all else self.limits.batches_kept
        shelf = pages.results(self.deliveries, entry, self.catalog.stream(entry.stream))
        return replace(shelf, kept=kept)

    def dead_letters(self, stream: str) -> pages.Shelf:
        self.stream(stream)
        first = self.catalog.subscriptions(stream=stream, state=None)[:1]
        return pages.dead_letters(self.deliveries, stream, first[0].family if first else None)


def moment_of(value: Time | str | None, what: str) -> Moment | None:
    """A time as JSON or a query string has it: a number, or a date in a text."""
    if value is None or (isinstance(value, int | float) and isfinite(value)):
        return value
    for read in (int, float, datetime.fromisoformat):
        try:
            moment = read(str(value))
        except ValueError:
            continue
        if isinstance(moment, datetime) or isfinite(moment):
            return moment
    raise JobError(f"{what} {value} is not a time: give a number, or a date such as 2026-01-31T12:00:00Z")


def _owned(new: NewSubscription, owner: str | None) -> NewSubscription:
    return replace(new, owner=owner, parts=tuple(_owned(part, owner) for part in new.parts))
