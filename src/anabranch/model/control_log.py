"""What the control log says to a running stream, between two of its items.

`family` is the family of the query; it may be left out where a stream has only one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anabranch.model.stream import Time


@dataclass(frozen=True)
class Activate:
    """A query is activated. With a time, it sees the items with a greater one; without, all that follow."""

    number: int
    name: str
    spec: dict[str, Any]
    time: Time | None = None
    family: str = ""


@dataclass(frozen=True)
class Cancel:
    """A query is cancelled. With a time, it still sees the items up to that time."""

    number: int
    time: Time | None = None
    family: str = ""


@dataclass(frozen=True)
class End:
    """The stream is finite and all of it has been read."""


@dataclass(frozen=True)
class Rebalance:
    """Zones of a family that have more to do than others shall give some of it away, now."""

    family: str = ""


Control = Activate | Cancel | End | Rebalance
