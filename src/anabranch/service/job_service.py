"""What the service of a job does for a caller: register, cancel, list, read results.

A caller sees only what it may see. Spark is not asked for anything: a running job follows the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.entries import (
    ANY_ADDRESS,
    PUBLIC_ADDRESS,
    Entry,
    NewSubscription,
    dump_stream,
)
from anabranch.catalog.receivers import Receivers
from anabranch.catalog.registration import bind_subscription, register_bound
from anabranch.catalog.tokens import Role, Tokens
from anabranch.job.declarations import stored_time
from anabranch.language.wxquery.recognise import is_wxquery
from anabranch.model.errors import JobError, NameTaken
from anabranch.model.stream import Stream, Time
from anabranch.model.subscription import Moment, Subscription
from anabranch.model.suggestions import suggestion
from anabranch.results import pages
from anabranch.results.deliveries import Deliveries
from anabranch.results.layout import Layout
from anabranch.sending.webhook import check_public
from anabranch.service.connections import MOST
from anabranch.service.errors import Refused, unknown
from anabranch.service.models import DeliveryFacts, StreamFacts, SubscriptionFacts

if TYPE_CHECKING:
    from anabranch.spark.measures import Measure


#: Times are stored in 64 bits.
LATEST = 2**63
#: What a user is told of a try that failed. The reason would say which machines and ports are there.
DELIVERY_FAILED = "the last try failed; it is tried again (the operator of the service sees the reason)"


@dataclass(frozen=True)
class Limits:
    """What an owner may have; how large a request may be; how many connections there may be in all."""

    subscriptions: int = 1_000
    requests_per_second: float = 50.0
    listeners: int = 100
    batches_kept: int = 1_000_000
    body_bytes: int = 256 << 10
    connections: int = MOST


@dataclass(frozen=True)
class Caller:
    """Who sends a request. Without tokens the service is open to this machine, and every caller may do
    everything.
    """

    owner: str | None = None
    role: Role = Role.ADMIN

    @property
    def sees_all(self) -> bool:
        return self.role is not Role.USER

    @property
    def only(self) -> str | None:
        """Whose subscriptions the caller sees; None: everybody's."""
        return None if self.sees_all else self.owner


@dataclass
class JobService:
    """The service of one job.

    `plan` computes who shares what, `network` the load of sites and links, `measured` asks Spark. They are
    given by the program that starts the service, and may be called by several threads.
    """

    layout: Layout
    plan: Callable[[], dict[str, Any]]
    network: Callable[[], dict[str, Any]]
    limits: Limits = field(default_factory=Limits)
    measured: Callable[[], Iterable[Measure]] = tuple
    local: bool = True  # it listens on loopback only
    private_receivers: bool = False  # results of users, too, may go to Kafka and to private addresses

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

    def bind(self, subscription: Subscription) -> NewSubscription:
        """Returns a query as it would be registered; JobError if it would be refused."""
        return bind_subscription(subscription, self.catalog.streams())

    def subscribe(self, caller: Caller, bound: NewSubscription) -> Entry:
        """Registers a query that is bound, with the refusals that the command line gives."""
        admin = caller.role is Role.ADMIN
        if bound.receiver is not None and not (admin or self.private_receivers):
            check_public(bound.receiver)
        limit, reach = (None, ANY_ADDRESS) if admin else (self.limits.subscriptions, PUBLIC_ADDRESS)
        streams = self.catalog.streams()
        try:
            (number,) = register_bound(
                self.catalog, self.deliveries, streams, [bound], caller.owner, limit, reach
            )
        except NameTaken as taken:
            raise self._name_taken(caller, taken) from None
        return self.catalog.entry(number)

    def _name_taken(self, caller: Caller, taken: NameTaken) -> Refused:
        """Says nothing about a query that the caller may not see."""
        seen = caller.sees_all or taken.owner == caller.owner
        message = str(taken) if seen else f"the name {taken.name!r} is taken; choose another name"
        return Refused(409, "taken", message)

    def subscription(self, caller: Caller, name: str) -> Entry:
        """Returns the newest subscription of that name that the caller may see."""
        try:
            return self.catalog.subscription(name, caller.only)
        except JobError as error:
            raise unknown(str(error)) from None

    def cancel(self, caller: Caller, name: str, moment: Moment | None) -> Entry:
        """Cancels a subscription: now, or once the stream has passed a time."""
        entry = self.subscription(caller, name)
        time = stored_time(self.catalog.stream(entry.stream), moment, "at")
        try:
            return self.catalog.cancel_entry(entry, time)
        except JobError as error:
            raise error if entry.active else Refused(409, "cancelled", str(error)) from None

    def new_secret(self, caller: Caller, name: str) -> str:
        """Makes a new secret for the webhook of a subscription."""
        entry = self.subscription(caller, name)
        return self.receivers.new_secret(entry.number, entry.name)

    def facts(self, caller: Caller, entry: Entry) -> SubscriptionFacts:
        return self.facts_of(caller, [entry])[0]

    def facts_of(self, caller: Caller, entries: Sequence[Entry]) -> list[SubscriptionFacts]:
        sent = self.receivers.all()
        out = []
        for entry in entries:
            parts = self.catalog.parts(entry) if is_wxquery(entry.query) else ()  # only these have several
            facts = SubscriptionFacts.of(entry, [part.address for part in parts])
            if entry.number in sent:
                latest = self.deliveries.latest(self.deliveries.branch(entry))
                facts.delivery = DeliveryFacts(**sent[entry.number].facts(latest))
                if facts.delivery.error is not None and not caller.sees_all:
                    facts.delivery.error = DELIVERY_FAILED
            out.append(facts)
        return out

    # what was delivered

    def results(self, caller: Caller, name: str) -> pages.PageReader:
        """Returns a reader of a subscription's results."""
        return self.results_of(caller, self.subscription(caller, name))

    def results_of(self, caller: Caller, entry: Entry) -> pages.PageReader:
        kept = None if caller.sees_all else self.limits.batches_kept
        reader = pages.result_reader(self.deliveries, entry, self.catalog.stream(entry.stream))
        return replace(reader, kept=kept)

    def dead_letters(self, stream: str) -> pages.PageReader:
        """Returns a reader of the rows of a stream that were late or rejected."""
        self.stream(stream)
        first = self.catalog.subscriptions(stream=stream, state=None)[:1]
        return pages.dead_letter_reader(self.deliveries, stream, first[0].family if first else None)


def moment_of(value: Time | str | None, what: str) -> Moment | None:
    """Returns a time as JSON or a query string has it: a number, or a date in a text."""
    if value is None:
        return value
    for read in (int, float, datetime.fromisoformat):
        try:
            moment = value if isinstance(value, int | float) else read(value)
        except ValueError:
            continue
        if isinstance(moment, datetime) or abs(moment) < LATEST:
            return moment
    shown = f"{value!s:.60}" if isinstance(value, str | float) else "so large a number"
    raise JobError(f"{what} {shown} is not a time: give a number, or a date such as 2026-01-31T12:00:00Z")
