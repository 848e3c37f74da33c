"""The columns that the queries of a zone of `share` have operators make, and for whom.

In: queries that begin and end; items. Out: the items with the columns that somebody asks for, each made once.
Never: a column that nobody asks for any more.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from anabranch.families.filters.made import widened, with_columns
from anabranch.model.operators import Made
from anabranch.model.stream import Stream


class Making:
    def __init__(self, stream: Stream, asked: Iterable[Iterable[Made]]) -> None:
        """`asked` is for the queries that will begin soon; `stream` has their columns, too."""
        self._made = {made.name: made for query in asked for made in query}
        self.stream = widened(stream, self._made.values())
        self._operators = {operator.name: operator for operator in stream.operators}
        self._users: dict[str, dict[int, str]] = {}  # column -> numbers and names of queries

    def knows(self, made: Iterable[Made]) -> bool:
        return all(each.name in self._made for each in made)

    def begin(self, number: int, name: str, made: Iterable[Made]) -> None:
        for each in made:
            self._users.setdefault(each.name, {})[number] = name

    def cease(self, number: int, made: Iterable[Made]) -> None:
        for each in made:
            del self._users[each.name][number]

    def with_columns(self, items: pa.RecordBatch) -> pa.RecordBatch:
        wanted = [made for name, made in self._made.items() if self._users.get(name)]
        return with_columns(items, wanted, self._operators, lambda name: self._users[name].values())
