"""Dead letters: what was late or rejected, why, and its original content."""

from __future__ import annotations

import pyarrow as pa

from anabranch.model.stream import Stream
from anabranch.zones.jsonlines import json_lines

SCHEMA = pa.schema([("reason", pa.string()), ("content", pa.string())])

LATE = "late"


def dead_letters(rows: pa.RecordBatch, stream: Stream, reason: str) -> pa.RecordBatch:
    """Rows for the dead letters; the content is the row as JSON. For the few rows that are wrong, not for the
    many.
    """
    names = [column.name for column in stream.columns if column.name in rows.schema.names]
    contents = json_lines(rows.select(names))
    return pa.record_batch(
        [pa.array([reason] * rows.num_rows, pa.string()), pa.array(contents, pa.string())], schema=SCHEMA
    )
