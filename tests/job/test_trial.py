"""A query tried on files gives what oracles and a runner give on the same items, for every kind of query."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from anabranch.families.clusters.spec import Clusters
from anabranch.families.filters.spec import Aggregate, Select
from anabranch.families.moving.spec import Moving
from anabranch.families.nearest.spec import Nearest
from anabranch.job.trial import Trial
from anabranch.language.unparse import unparse
from anabranch.model.columns import ColumnType
from anabranch.model.errors import QueryError
from anabranch.model.job import Source, StreamDeclaration
from anabranch.model.stream import MICROSECONDS, Stream
from tests.drawn import examples
from tests.laws.case import Asked, Case, run_local
from tests.laws.customers import customers

SPECS: dict[str, Any] = {
    "select": Select,
    "aggregate": Aggregate,
    "nearest": Nearest,
    "clusters": Clusters,
    "moving": Moving,
}
CUSTOMERS = {customer.name: customer for customer in customers() if customer.name in SPECS}

DDL = {
    ColumnType.INT: "long",
    ColumnType.FLOAT: "double",
    ColumnType.STRING: "string",
    ColumnType.BOOL: "boolean",
    ColumnType.TIMESTAMP: "timestamp",
}


def declaration(stream: Stream, form: str, folder: Path) -> StreamDeclaration:
    """Returns the declaration of a stream whose files are in a folder."""
    names = ("time", "id", "position", "object", "regions", "bounds", "metric", "unit")
    own = {name: getattr(stream, name) for name in names if getattr(stream, name) not in (None, ())}
    lengths = {"lateness": stream.lateness, "tick": stream.tick, "expire": stream.expire}
    unit = MICROSECONDS if stream.time_type is ColumnType.TIMESTAMP else 1
    own |= {name: length / unit for name, length in lengths.items() if length is not None and unit > 1}
    own |= {name: length for name, length in lengths.items() if length is not None and unit == 1}
    columns = (f"`{column.name}` {DDL[column.type]}" for column in stream.columns)
    schema = None if form == "parquet" else ", ".join(columns)
    return StreamDeclaration(stream.name, Source(form, {"path": str(folder)}, schema), own)


def write(folder: Path, form: str, items: pa.RecordBatch, cuts: Sequence[int]) -> None:
    """Writes files of which the order of modification is the order of the items, and the names are not."""
    edges = [0, *sorted(set(cuts) & set(range(1, items.num_rows))), items.num_rows]
    for number, (low, high) in enumerate(pairwise(edges)):
        path = folder / f"{len(edges) - number:03d}.{form}"
        rows = items.slice(low, high - low)
        if form == "parquet":
            pq.write_table(pa.Table.from_batches([rows]), path)
        elif form == "json":
            path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows.to_pylist()))
        else:
            lines = [",".join(map(_field, row.values())) for row in rows.to_pylist()]
            path.write_text("\n".join([",".join(rows.schema.names), *lines]) + "\n")
        os.utime(path, (1_700_000_000, 1_700_000_000 + number / 100))


def _field(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def rows_of(trial: Trial) -> list[dict[str, Any]]:
    ((_, tables),) = trial.parts()
    return [row for table in tables for row in table.to_pylist()]


@pytest.mark.parametrize("name", CUSTOMERS)
@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
@settings(max_examples=examples(15), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_as_the_oracle_and_a_runner(name: str, form: str, data: st.DataObject) -> None:
    customer = CUSTOMERS[name]
    drawn = data.draw(customer.cases)
    assume(drawn.queries)
    query = drawn.queries[0]
    case: Case = replace(drawn, queries=(Asked("try", query.spec),))
    cuts = data.draw(st.lists(st.integers(1, 30), max_size=3), label="cuts")
    text = unparse(SPECS[name].from_json(query.spec), case.stream)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), form, case.items, cuts)
        try:
            trial = Trial(text, [declaration(case.stream, form, Path(folder))])
        except QueryError:  # laws also hold for queries that nobody can register
            assume(False)
        assert trial.streams[case.stream.name].columns == case.stream.columns
        found = rows_of(trial)
    outcome = run_local(case)
    assert customer.canonical(found) == customer.canonical(outcome.results["try"])
    assert customer.canonical(found) == customer.canonical(customer.oracle(case)["try"])
    books = trial.books[case.stream.name]
    assert {key: books[key] for key in ("rows_in", "late")} == {
        key: outcome.books.get(key, 0) for key in ("rows_in", "late")
    }
