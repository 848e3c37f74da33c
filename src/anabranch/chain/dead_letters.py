"""Dead letters: the rows that are no items or came late, each with a reason and its original content.

`checked` finds the rows that can be no items. Which items are late is known only in stream order; the stage
`order` finds those.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain.json_rows import json_lines
from anabranch.model.arrays import Array
from anabranch.model.stream import Stream

SCHEMA = pa.schema([("reason", pa.string()), ("content", pa.string())])

LATE, MALFORMED = "late", "malformed"
LEAP = "leap: its time is more than max_step ahead of the greatest time before it"
AHEAD = "leap: its time is more than max_step ahead of the clock"

#: A column beside those of the stream: the time on the clock, in microseconds since 1970. Spark keeps it with
#: the batch, so that it is the same when the batch is repeated.
NOW = "#now"

#: Columns beside those of the stream: the text of a row that its format could not read, null for all others;
#: and why it could not, null where that is not known.
CORRUPT, REASON = "#corrupt", "#reason"


def dead_letters(rows: pa.RecordBatch, stream: Stream, reason: str) -> pa.RecordBatch:
    """Returns rows for the dead letters; the content is the row as JSON. Slow: for the few rows that are
    wrong.
    """
    names = [column.name for column in stream.columns if column.name in rows.schema.names]
    return _letters(reason, pa.array(json_lines(rows.select(names)), pa.string()))


def dead_letter(reason: str, content: str) -> pa.RecordBatch:
    """Returns one row for the dead letters: something that is no row, such as a file."""
    return pa.record_batch([[reason], [content]], schema=SCHEMA)


def checked(batch: pa.RecordBatch, stream: Stream) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Returns the rows that are items, and dead letters of the others."""
    dead: list[pa.RecordBatch] = []
    names = batch.schema.names
    if CORRUPT in names:
        corrupt = batch.column(CORRUPT)
        if corrupt.null_count < batch.num_rows:
            wrong = pc.is_valid(corrupt)
            known = REASON in names
            reasons = batch.column(REASON).filter(wrong).fill_null(MALFORMED) if known else MALFORMED
            dead.append(_letters(reasons, corrupt.filter(wrong).cast(pa.string())))
            batch = batch.filter(pc.invert(wrong))
    timeless = _timeless(batch, stream)
    if timeless is not None and timeless.any():
        reason = f"no time: column {stream.time!r} is missing or not finite"
        dead.append(dead_letters(batch.filter(pa.array(timeless)), stream, reason))
        batch = batch.filter(pa.array(~timeless))
    if stream.max_ahead is not None and NOW in names and batch.num_rows:
        ahead = pc.greater(
            batch.column(stream.time).cast(pa.int64()), pc.add(batch.column(NOW), stream.max_ahead)
        )
        if pc.any(ahead).as_py():
            dead.append(dead_letters(batch.filter(ahead), stream, AHEAD))
            batch = batch.filter(pc.invert(ahead))
    return batch, pa.concat_batches(dead) if dead else pa.record_batch([[], []], schema=SCHEMA)


def kind_of(reason: str) -> str:
    """Returns a reason without the value that it names: `O3: 'abc' is not a number` is `O3: not a number`."""
    return re.sub(r"^(.*?): '.*' is not ", r"\1: not ", reason, flags=re.DOTALL)


def _letters(reason: str | pa.Array, contents: pa.Array) -> pa.RecordBatch:
    reasons = pa.array([reason] * len(contents), pa.string()) if isinstance(reason, str) else reason
    return pa.record_batch([reasons, contents], schema=SCHEMA)


def _timeless(batch: pa.RecordBatch, stream: Stream) -> Array | None:
    """Returns for each row whether its time is missing; None if no row's is."""
    if stream.time is None or not batch.num_rows:
        return None
    column = batch.column(stream.time)
    if pa.types.is_floating(column.type):
        finite = pc.fill_null(pc.is_finite(column), False)
        return np.asarray(~finite.to_numpy(zero_copy_only=False))
    return np.asarray(column.is_null()) if column.null_count else None
