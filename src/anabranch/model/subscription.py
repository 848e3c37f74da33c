"""A subscription: a query that somebody asked, under a name of their choice."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from anabranch.model.stream import Time

#: A time as a person gives it: in the units of the stream's `time`, or a date and time where that is a
#: timestamp.
Moment = Time | datetime


@dataclass(frozen=True, slots=True)
class Subscription:
    name: str
    query: str
    activate: Moment | None = None
    cancel: Moment | None = None
    deliver: str | None = None  # where its results are sent, too: a receiver's address
