"""The results of a WXQuery over several streams: the results of its parts, combined when they are read.

Rows are those of nested loops over the parts, in order, where the loop's condition is true; columns are
called `variable.column`. All parts but the first are read into memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from anabranch.language.wxquery.construction import Loop
from anabranch.predicates.evaluate import evaluate
from anabranch.results.encoding import ROWS

#: The schema of results, and the results, one table per batch of the stream.
ResultTables = tuple[pa.Schema, Iterator[pa.Table]]


def combine(parts: Sequence[ResultTables], loop: Loop) -> ResultTables:
    """Returns the results of a loop over these parts."""
    if len(parts) == 1:
        return parts[0]
    schemas = [_named(schema, prefix) for (schema, _), prefix in zip(parts, loop.prefixes, strict=True)]
    schema = pa.schema([field for each in schemas for field in each])
    return schema, _rows(parts, schemas, schema, loop)


def _named(schema: pa.Schema, prefix: str) -> pa.Schema:
    return pa.schema([field.with_name(f"{prefix}.{field.name}") for field in schema])


def _rows(
    parts: Sequence[ResultTables], schemas: Sequence[pa.Schema], schema: pa.Schema, loop: Loop
) -> Iterator[pa.Table]:
    (_, outer), *inner = parts
    whole = [pa.concat_tables([given.empty_table(), *tables]).combine_chunks() for given, tables in inner]
    for table in outer:
        for columns in _nested([table.combine_chunks(), *whole]):
            rows = pa.record_batch(columns, schema=schema)
            yield pa.Table.from_batches([rows.filter(pa.array(evaluate(loop.condition, rows)))], schema)


def _nested(tables: Sequence[pa.Table]) -> Iterator[list[pa.Array]]:
    """Gives the columns of all tables, for every combination of their rows; the last changes fastest."""
    sizes = tuple(table.num_rows for table in tables)
    for start in range(0, math.prod(sizes), ROWS):
        numbers = np.arange(start, min(start + ROWS, math.prod(sizes)))
        indices = np.unravel_index(numbers, sizes)
        taken = [table.take(pa.array(index)) for table, index in zip(tables, indices, strict=True)]
        yield [column.combine_chunks() for table in taken for column in table.columns]
