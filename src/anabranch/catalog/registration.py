"""How a query comes into the catalog: its name is checked, its text is bound, and its activation is settled.

Commands, the service and the engine call `register`; a job file goes through `sync_job`. Both add all or, if
one of them cannot be added, none.

    register(catalog, manifests, streams, [Subscription("vela", "SELECT ra FROM photons WHERE en > 1.3")])

`sync_job` never cancels: what was registered elsewhere stays, and what was cancelled stays cancelled.

    in the catalog              in the job file      then
    nothing                     a query              it is added
    active                      the same query       it stays
    active                      another query        JobError: cancel it first
    cancelled                   the same query       it stays cancelled
    cancelled                   another query        it is added, the name was free
    active, from a job          nothing              it stays; the caller is told
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.catalog.catalog import Catalog, unknown_stream
from anabranch.catalog.entries import ANY_ADDRESS, FROM_JOB, PUBLIC_ADDRESS, Entry, NewSubscription, part_name
from anabranch.job.declarations import stored_time
from anabranch.model.branch import branch_name
from anabranch.model.errors import JobError
from anabranch.model.job import Job
from anabranch.model.receiver import receiver_of
from anabranch.model.stream import Stream, Time
from anabranch.model.subscription import Subscription, check_name

if TYPE_CHECKING:
    from anabranch.language.bind import BoundQuery

#: So many wrong queries are shown at once.
MOST_SHOWN = 10


class Delivered(Protocol):
    """What has been delivered so far (Manifests, in results/manifests.py)."""

    def latest(self, branch: str) -> int:
        """Returns the number of the last batch, or -1."""

    def books(self, stream: str) -> dict[str, Any]:
        """Returns the books of the stream after its last batch."""


def register(
    catalog: Catalog,
    delivered: Delivered,
    streams: Mapping[str, Stream],
    subscriptions: Iterable[Subscription],
    owner: str | None = None,
    limit: int | None = None,
    reach: str | None = None,
) -> list[int]:
    """Adds all of them or, if one cannot be added, none. Returns their numbers.

    What `owner`, `limit` and `reach` are, `register_bound` says.
    """
    bound = [bind_subscription(subscription, streams) for subscription in subscriptions]
    return register_bound(catalog, delivered, streams, bound, owner, limit, reach)


def register_bound(
    catalog: Catalog,
    delivered: Delivered,
    streams: Mapping[str, Stream],
    bound: Iterable[NewSubscription],
    owner: str | None = None,
    limit: int | None = None,
    reach: str | None = None,
) -> list[int]:
    """Adds queries that are bound already, all of them or none. Returns their numbers.

    `owner` is whose token asks; `limit` is how many active subscriptions an owner may have; `reach` says
    where results may be sent to: those of an owner to public addresses, if nothing else is said.
    """
    reach = reach or (ANY_ADDRESS if owner is None else PUBLIC_ADDRESS)
    activation = _Activation(catalog, delivered, streams)
    return catalog.subscribe_many([activation.settled(_owned(one, owner, reach)) for one in bound], limit)


def bind_subscription(subscription: Subscription, streams: Mapping[str, Stream]) -> NewSubscription:
    """Checks the name, binds the query and brings the times into stored units."""
    from anabranch.language.bind import compile_query

    check_name(subscription.name)
    bound = compile_query(subscription.query, streams)
    first, *others = (
        _part(subscription, part_name(subscription.name, number), part, streams[part.stream])
        for number, part in enumerate((bound, *bound.parts), start=1)
    )
    return replace(first, parts=tuple(others))


def _part(subscription: Subscription, name: str, part: BoundQuery, stream: Stream) -> NewSubscription:
    spec = part.spec.to_json()
    return NewSubscription(
        name=name,
        stream=part.stream,
        family=part.family,
        kind=spec["kind"],
        query=subscription.query,
        spec=spec,
        activate=stored_time(stream, subscription.activate, "activate"),
        cancel=stored_time(stream, subscription.cancel, "cancel"),
        receiver=None if subscription.deliver is None else str(receiver_of(subscription.deliver)),
    )


def _owned(new: NewSubscription, owner: str | None, reach: str) -> NewSubscription:
    parts = tuple(_owned(part, owner, reach) for part in new.parts)
    return replace(new, owner=owner, reach=reach, parts=parts)


class _Activation:
    """When queries that are registered now are activated, on a job that may have been running for long.

    The first subscription of a branch (model/branch.py) starts a Spark query that reads the source from its
    beginning. It must not see what the other branches of the stream have behind them, so it is activated at
    the time of the last item they saw. An activation that lies ahead stays.
    """

    def __init__(self, catalog: Catalog, delivered: Delivered, streams: Mapping[str, Stream]) -> None:
        self._streams = streams
        # the same for thousands of queries that are registered at once
        self._families, self._books = cache(catalog.families), cache(delivered.books)
        self._latest = cache(delivered.latest)

    def settled(self, new: NewSubscription) -> NewSubscription:
        """Returns the subscription with its activation; JobError where it could never see an item."""
        books = self._books(new.stream)
        if books.get("ended"):
            raise JobError(
                f"stream {new.stream} has ended: a query that is activated now would see nothing; "
                "run the job with another sink path to run it on the whole stream"
            )
        last, activate = books.get("last"), new.activate
        apart = self._streams[new.stream].apart
        branch = branch_name(new.stream, new.family, apart)
        begun = {branch_name(new.stream, family, apart) for family in self._families(new.stream)}
        if last is not None and branch not in begun:
            activate = last if activate is None else max(activate, last)
        return replace(
            new,
            activate=activate,
            parts=tuple(map(self.settled, new.parts)),
            cursor=f"{self._latest(branch) + 1}:0",  # no earlier batch has a result of it
        )


# the subscriptions of a job file


@dataclass
class JobSync:
    """Names of subscriptions: those that were added, that stay, that stay cancelled, and that run on without
    being in the job file any more.
    """

    added: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)


def check_queries(job: Job) -> None:
    """Refuses what can be refused before the columns are known: syntax and names of streams."""
    from anabranch.language.parse import parse  # here: commands without a query start without the parser

    limits = next(iter(job.streams.values())).limits  # those of the job: every stream has the same

    def check(subscription: Subscription) -> None:
        for name in parse(subscription.query, limits).streams:
            if name.text not in job.streams:
                raise JobError(unknown_stream(name.text, job.streams))

    _check_each(job, check)


def bind_job(job: Job, streams: Mapping[str, Stream]) -> list[NewSubscription]:
    """Returns the bound subscriptions of a job file with their parts, without a look into a catalog."""
    out: list[NewSubscription] = []
    _check_each(job, lambda subscription: out.append(bind_subscription(subscription, streams)))
    return [each for new in out for each in (new, *new.parts)]


def sync_job(catalog: Catalog, job: Job, streams: Mapping[str, Stream]) -> JobSync:
    """Adds what is new in the job file. Its queries see the stream from the start, or from `activate` on."""
    latest = {entry.name: entry for entry in catalog.subscriptions(state=None) if entry.part_of is None}
    receivers = catalog.receivers()
    sync = JobSync()
    new: list[NewSubscription] = []

    def compare(subscription: Subscription) -> None:
        name, entry = subscription.name, latest.get(subscription.name)
        if entry is None or not _same_query(entry, subscription, streams):
            if entry is not None and entry.active:
                raise JobError(_name_taken(entry, subscription))
            new.append(replace(bind_subscription(subscription, streams), origin=FROM_JOB))
            sync.added.append(name)
        elif entry.active:
            _check_times(entry, subscription, streams[entry.stream])
            _check_same("deliver", receivers.get(entry.number), subscription.deliver, name)
            sync.kept.append(name)
        else:
            sync.cancelled.append(name)

    _check_each(job, compare)
    catalog.subscribe_many(new)
    names = {subscription.name for subscription in job.subscriptions}
    sync.absent = [
        entry.name
        for entry in latest.values()
        if entry.active and entry.origin == FROM_JOB and entry.name not in names
    ]
    return sync


def _same_query(entry: Entry, subscription: Subscription, streams: Mapping[str, Stream]) -> bool:
    """Another text may still be the same query: other blanks, other case. A WXQuery that constructs other XML
    from the same results is another query.
    """
    from anabranch.language.bind import compile_query

    return entry.query == subscription.query or (
        compile_query(subscription.query, streams) == compile_query(entry.query, streams)
    )


def _name_taken(entry: Entry, subscription: Subscription) -> str:
    return (
        "the name is taken by another query that runs:"
        f"\n  it runs    {_one_line(entry.query)}\n  now wanted {_one_line(subscription.query)}\n"
        f"cancel the one that runs first (anabranch cancel ... {subscription.name}), or choose another name"
    )


def _one_line(query: str) -> str:
    return " ".join(query.split())


def _check_times(entry: Entry, subscription: Subscription, stream: Stream) -> None:
    for what, old, moment in (
        ("activate", entry.activate, subscription.activate),
        ("cancel", entry.cancel, subscription.cancel),
    ):
        _check_same(what, old, stored_time(stream, moment, what), subscription.name)


def _check_same(what: str, old: Time | str | None, wanted: Time | str | None, name: str) -> None:
    if old != wanted:
        before, now = (
            f"without {what}" if value is None else f"with {what} = {value}" for value in (old, wanted)
        )
        raise JobError(
            f"it runs {before} and is now wanted {now}; cancel it first (anabranch cancel ... {name}), "
            "or undo the change"
        )


def _check_each(job: Job, check: Callable[[Subscription], None]) -> None:
    """Checks all subscriptions and says everything that is wrong, not only the first."""
    wrong = []
    for subscription in job.subscriptions:
        try:
            check(subscription)
        except JobError as error:
            wrong.append(f"{job.path.name}: subscription {subscription.name}: {error}")
    if wrong:
        more = [f"and {len(wrong) - MOST_SHOWN} more are wrong"] if len(wrong) > MOST_SHOWN else []
        raise JobError("\n".join([*wrong[:MOST_SHOWN], *more]))
