"""What a family is: a kind of query, its chain of stages, and the tables its results come in.

To add a family: a `spec` that a query is bound to, one file per stage, a subclass of Family, an entry in
`anabranch.families.registry`, a grammar rule, and an entry in tests/laws/customers.py with its oracle. The
laws, the runners, the command line and the results need nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from anabranch.chain.stages import Chain
from anabranch.model.columns import Column
from anabranch.model.stream import Stream


@dataclass(frozen=True)
class Table:
    """A result table of a family: RESULT packets with `facts["table"] == name` carry its rows.

    Every row has a column `subscription` (a name) or, where one row answers many subscriptions,
    `subscriptions` (a list of names). Where a subscription's rows come from several zones, `order_by` is the
    column that puts those of one batch in order; otherwise they are in order as they were sent.
    """

    name: str
    order_by: str | None = None


@dataclass(frozen=True)
class Shown:
    """A column that a subscriber sees: the column `stored` of the table under the name and type of
    `column`.
    """

    stored: str
    column: Column


class Family(ABC):
    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    tables: ClassVar[tuple[Table, ...]]

    @abstractmethod
    def chain(self, stream: Stream, zones: int) -> Chain:
        """The stages for this stream, with `zones` zones where a stage can have any number."""

    @abstractmethod
    def shown(self, stream: Stream, spec: dict[str, Any]) -> tuple[str, tuple[Shown, ...]]:
        """The table that holds a subscription's results and the columns that its subscriber sees, in
        order.
        """

    def table(self, name: str) -> Table:
        return next(table for table in self.tables if table.name == name)
