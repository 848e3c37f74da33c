"""Operators of users, by brute force: a plain function of one item's values, missing where one of them is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from anabranch.chain.items import arrow_schema
from anabranch.families.filters.computed_columns import made_of, widened
from anabranch.model.operators import Read
from tests.laws.case import Case, Row
from tests.oracles.aggregate import aggregate_oracle
from tests.oracles.select import select_oracle


def operators_oracle(plain: Mapping[str, Callable[..., Any]]) -> Callable[[Case], dict[str, list[Row]]]:
    """`plain` are the operators, one item at a time."""

    def oracle(case: Case) -> dict[str, list[Row]]:
        made = {each.name: each for asked in case.queries for each in made_of(asked.spec)}
        rows = case.items.to_pylist()
        for row in rows:
            for each in made.values():
                given = [row[one.column] if isinstance(one, Read) else one for one in each.arguments]
                row[each.name] = None if None in given else plain[each.operator](*given)
        stream = widened(case.stream, made.values())
        items = pa.RecordBatch.from_pylist(rows, arrow_schema(stream))
        out = {}
        for asked in case.queries:
            by_kind = select_oracle if asked.spec["kind"] == "select" else aggregate_oracle
            out |= by_kind(Case(stream, items, (asked,)))
        return out

    return oracle
