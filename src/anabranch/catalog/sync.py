"""Brings the subscriptions of a job file into the catalog.

In: a job, and the catalog with what earlier runs and people left there. Out: new subscriptions in the
catalog. Never: the end of one; what was added with `subscribe` stays, and what was cancelled stays cancelled.

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
from typing import TYPE_CHECKING

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.declare import stored_time
from anabranch.catalog.entries import FROM_JOB, FROM_SUBSCRIBE, Entry, NewSubscription, part_name
from anabranch.catalog.reading import suggestion
from anabranch.model.errors import JobError
from anabranch.model.job import Job
from anabranch.model.receiver import receiver_of
from anabranch.model.stream import Stream, Time
from anabranch.model.subscription import Subscription

if TYPE_CHECKING:
    from anabranch.language.bind import Bound

#: So many wrong queries are shown at once.
MOST_SHOWN = 10


@dataclass
class Synced:
    """Names: what was added, what stays, what stays cancelled, and what runs on without being in the file
    any more.
    """

    added: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)


def check_queries(job: Job) -> None:
    """Refuses what can be refused before the columns are known: syntax and names of streams."""
    from anabranch.language.parse import (
        parse,
    )  # here, so that commands without a query start without the parser

    def check(asked: Subscription) -> None:
        for name in parse(asked.query).streams:
            if name.text not in job.streams:
                raise JobError(f"unknown stream {name.text!r}{suggestion(name.text, job.streams)}")

    _each(job, job.subscriptions, check)


def sync_job(catalog: Catalog, job: Job, streams: Mapping[str, Stream]) -> Synced:
    """Adds what is new, all of it or, if one cannot be, nothing."""
    latest = {entry.name: entry for entry in catalog.subscriptions(state=None)}
    receivers = catalog.receivers()
    synced = Synced()
    new: list[NewSubscription] = []

    def take(asked: Subscription) -> None:
        entry = latest.get(asked.name)
        made = None if entry is not None and entry.query == asked.query else bound(asked, streams)
        if made is not None and not _same_meaning(entry, made, streams):
            if entry is not None and entry.active:
                raise JobError(_taken(entry, asked))
            new.append(replace(made, origin=FROM_JOB))
            synced.added.append(asked.name)
            return
        assert entry is not None
        if entry.active:
            _check_times(entry, asked, streams[entry.stream])
            _check_same("deliver", receivers.get(entry.number), asked.deliver, asked.name)
        (synced.kept if entry.active else synced.cancelled).append(asked.name)

    _each(job, job.subscriptions, take)
    catalog.subscribe_many(new)
    names = {asked.name for asked in job.subscriptions}
    synced.absent = [
        e.name for e in latest.values() if e.active and e.origin == FROM_JOB and e.name not in names
    ]
    return synced


def bound_all(job: Job, streams: Mapping[str, Stream]) -> list[NewSubscription]:
    """The subscriptions of a job file, understood; the catalog is not asked."""
    out: list[NewSubscription] = []
    _each(job, job.subscriptions, lambda asked: out.append(bound(asked, streams)))
    return [each for made in out for each in (made, *made.parts)]


def bound(asked: Subscription, streams: Mapping[str, Stream]) -> NewSubscription:
    """A subscription with its query understood and its times in stored units."""
    from anabranch.language.bind import compile_query

    made = compile_query(asked.query, streams)
    first, *others = (
        _part(asked, part_name(asked.name, place), part, streams[part.stream])
        for place, part in enumerate((made, *made.parts), start=1)
    )
    return replace(first, parts=tuple(others))


def _part(asked: Subscription, name: str, part: Bound, stream: Stream) -> NewSubscription:
    spec = part.spec.to_json()
    after = stored_time(stream, asked.activate, "activate")
    until = stored_time(stream, asked.cancel, "cancel")
    receiver = None if asked.deliver is None else str(receiver_of(asked.deliver))
    bound = (name, part.stream, part.family, spec["kind"], asked.query, spec)
    return NewSubscription(*bound, after, until, FROM_SUBSCRIBE, receiver=receiver)


def _same_meaning(entry: Entry | None, made: NewSubscription, streams: Mapping[str, Stream]) -> bool:
    """Another text may still be the same query: other blanks, other case; but a WXQuery that makes other XML
    of the same results is another.
    """
    from anabranch.language.bind import compile_query

    return entry is not None and compile_query(entry.query, streams) == compile_query(made.query, streams)


def _taken(entry: Entry, asked: Subscription) -> str:
    return (
        "the name is taken by another query that runs:"
        f"\n  it runs    {_line(entry.query)}\n  now wanted {_line(asked.query)}\n"
        f"cancel the one that runs first (anabranch cancel ... {asked.name}), or choose another name"
    )


def _check_times(entry: Entry, asked: Subscription, stream: Stream) -> None:
    for what, old, moment in (
        ("activate", entry.activate, asked.activate),
        ("cancel", entry.cancel, asked.cancel),
    ):
        _check_same(what, old, stored_time(stream, moment, what), asked.name)


def _check_same(what: str, old: Time | str | None, wanted: Time | str | None, name: str) -> None:
    if old != wanted:
        before, now = (
            f"without {what}" if value is None else f"with {what} = {value}" for value in (old, wanted)
        )
        raise JobError(
            f"it runs {before} and is now wanted {now}; cancel it first (anabranch cancel ... {name}), "
            "or undo the change"
        )


def _line(query: str) -> str:
    return " ".join(query.split())


def _each(job: Job, asked: Iterable[Subscription], check: Callable[[Subscription], None]) -> None:
    """Checks all subscriptions and says everything that is wrong, not only the first."""
    wrong = []
    for subscription in asked:
        try:
            check(subscription)
        except JobError as error:
            wrong.append(f"{job.path.name}: subscription {subscription.name}: {error}")
    if wrong:
        more = [f"and {len(wrong) - MOST_SHOWN} more are wrong"] if len(wrong) > MOST_SHOWN else []
        raise JobError("\n".join([*wrong[:MOST_SHOWN], *more]))
