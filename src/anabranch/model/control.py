"""What the control log says to a running stream, between two of its items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anabranch.model.stream import Time


@dataclass(frozen=True)
class Activate:
    """A query begins. With `after`, it sees the items with time > after; without, all that follow."""

    number: int
    name: str
    spec: dict[str, Any]
    after: Time | None = None


@dataclass(frozen=True)
class Cancel:
    """A query ends. With `until`, it still sees the items with time <= until."""

    number: int
    until: Time | None = None


@dataclass(frozen=True)
class End:
    """The stream is finite and all of it has been read."""


@dataclass(frozen=True)
class Rebalance:
    """Zones that have more to do than others shall give some of it away, now."""


Control = Activate | Cancel | End | Rebalance
