"""The filters family: select and aggregate, by data stream sharing (StreamGlobe).

    order --> share --> compose --> deliver
                 \\------------------^      select's results leave from share

A zone of `share` looks at a run of consecutive items, one by one, and finds the derived streams that each
item belongs to. A zone of `compose` has some of the derived streams that aggregates are computed on, by the
hash of their condition.
"""

from __future__ import annotations

from typing import Any, ClassVar

from anabranch.chain.budget import Budget
from anabranch.chain.stages import Chain, Slices
from anabranch.families.base import Family, Shown, Table
from anabranch.families.filters.computed_columns import made_of, widened
from anabranch.families.filters.spec import ITEMS, Aggregate, Select
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream

SELECT, AGGREGATE = "select", "aggregate"


class Filters(Family):
    name: ClassVar[str] = "filters"
    kinds: ClassVar[tuple[str, ...]] = (SELECT, AGGREGATE)
    tables: ClassVar[tuple[Table, ...]] = (Table(SELECT, order_by="#"), Table(AGGREGATE))

    def __init__(self, least: int = 1024, budget: Budget | None = None) -> None:
        """At least so many items go to a zone of `share` together; a query may get so many windows, by
        default what the stream's limits say.
        """
        self.least, self.budget = least, budget

    def chain(self, stream: Stream, zones: int) -> Chain:
        # here, so that whoever only reads results does not load the kernels
        from anabranch.families.filters.compose import Compose
        from anabranch.families.filters.share import Share

        compose = Compose(stream, zones, self.budget or Budget.of(stream))
        return Chain((Share(stream, zones), compose), Slices(zones, self.least))

    def shown(self, stream: Stream, spec: dict[str, Any]) -> tuple[str, tuple[Shown, ...]]:
        stream = widened(stream, made_of(spec))
        if spec["kind"] == AGGREGATE:
            return AGGREGATE, _aggregate_shown(Aggregate.from_json(spec), stream)
        outputs = Select.from_json(spec).outputs
        return SELECT, tuple(Shown(o.column, Column(o.name, stream.type_of(o.column))) for o in outputs)


def _aggregate_shown(spec: Aggregate, stream: Stream) -> tuple[Shown, ...]:
    from anabranch.chain.windows import edge_columns

    start, end, kind = edge_columns(spec.window, stream)
    return (
        Shown(start, Column("window_start", kind)),
        Shown(end, Column("window_end", kind)),
        Shown(ITEMS, Column(ITEMS, ColumnType.INT)),
        *(
            Shown(column.stored, Column(column.name, column.type))
            for column in spec.columns(stream)
            if column.aggregation.is_shown
        ),
    )
