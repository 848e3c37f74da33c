"""When a query that somebody asks now begins, on a job that may have been running for long.

In: a bound subscription and what has been delivered so far. Out: the subscription with its beginning settled,
or a JobError where it could never see an item. Never: a change of a beginning that lies ahead.
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.deliveries import Deliveries
from anabranch.catalog.entries import NewSubscription
from anabranch.model.errors import JobError


def settled(new: NewSubscription, catalog: Catalog, deliveries: Deliveries) -> NewSubscription:
    """The first subscription of its family starts a Spark query that reads the source from its beginning; it
    must not see what the other families of the stream have behind them, so it begins after the last item they
    saw.
    """
    new = replace(
        new,
        parts=tuple(settled(part, catalog, deliveries) for part in new.parts),
        place=f"{deliveries.latest(new.stream, new.family) + 1}:0",  # no earlier batch has a result of it
    )
    books = deliveries.books(new.stream)
    if books.get("ended"):
        raise JobError(
            f"stream {new.stream} has ended: a query that begins now would see nothing; "
            "run the job with another sink path to ask it of the whole stream"
        )
    last = books.get("last")
    if last is None or new.family in catalog.families(new.stream):
        return new
    return replace(new, after=last if new.after is None else max(new.after, last))
