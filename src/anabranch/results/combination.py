"""The results of a WXQuery over several streams: the results of its parts, combined when they are read.

Rows are those of nested loops over the parts, in order, where the loop's condition is true; columns are
called `variable.column`. All parts but the first are read into memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from anabranch.language.wxquery.construction import Loop, WindowContents
from anabranch.predicates.evaluate import evaluate
from anabranch.results.constructed_xml import item_texts
from anabranch.results.encoding import ROWS

#: The schema of results, and the results, one table per batch of the stream.
ResultTables = tuple[pa.Schema, Iterator[pa.Table]]


def combine(parts: Sequence[ResultTables], loop: Loop) -> ResultTables:
    """Returns the results of a loop over these parts."""
    if loop.window is not None:
        return windows_of(parts[0][1], loop.window)
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


def windows_of(items: Iterator[pa.Table], window: WindowContents) -> ResultTables:
    """Returns windows over items, a row each: where it begins and ends among them, and what is made of its
    items. Only full windows count; items are kept as long as a window may still need them.

        |count 4 step 2|    items 0 1 2 3 | 4 5    ->    [0, 4) [2, 6)
    """
    numbers = [(name, pa.int64()) for name in ("window_start", "window_end", "items")]
    schema = pa.schema([*numbers, *((name, pa.string()) for name, _ in window.columns)])
    return schema, _windows(items, window, schema)


def _windows(items: Iterator[pa.Table], window: WindowContents, schema: pa.Schema) -> Iterator[pa.Table]:
    texts: list[list[str]] = [[] for _ in window.columns]
    first = came = start = 0  # the first item that is kept, how many came, where the next window begins
    for table in items:
        for batch in table.to_batches(max_chunksize=ROWS):
            came += batch.num_rows
            for kept, (_, node) in zip(texts, window.columns, strict=True):
                kept += item_texts(node, batch).to_pylist()
            starts = np.arange(start, came - window.size + 1, window.step)
            if len(starts):
                ends = starts + window.size
                contents = [
                    ["".join(kept[at - first : at - first + window.size]) for at in starts.tolist()]
                    for kept in texts
                ]
                counts = np.full(len(starts), window.size)
                yield pa.table([starts, ends, counts, *contents], schema=schema)
                start = int(starts[-1]) + window.step
            gone = min(start, came) - first
            first += gone
            for kept in texts:
                del kept[:gone]
