"""From what became and ceased to be one of the k nearest to rows of the result table.

In: the log of each part and the rows on the shelf. Out: one packet for delivery. The rows of a subscription
are in order: moment after moment; at one moment first those that stop, nearest first, then those that become,
nearest first.

The table has `subscription, at, op, id, distance` and the item's columns as `item.<name>`. `at` is the time
of the arrival that caused it or the moment at which the window let an item go; where the stream has no time,
the number of the arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.families.base import Shown
from anabranch.families.nearest.groups import unit_of
from anabranch.families.nearest.shelf import Shelf
from anabranch.families.nearest.spec import Nearest
from anabranch.families.results import SUBSCRIPTION
from anabranch.kernels.skyband import PLUS, Log
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.zones.columns import ARROW_TYPES, Array, subscription_column
from anabranch.zones.packets import DELIVER, Kind, Packet

TABLE = "nearest"
#: Moments that no integer can say, of windows like RANGE 2.5 over an integer time; `at` is then rounded down.
EXACT_AT = "at.exact"
ITEM = "item."

_OWN = ("at", "op", "id", "distance")
_OPS = pa.array(["-", "+"], pa.string())


@dataclass(frozen=True)
class Answers:
    """The log of one part; `at` are its moments as times, `names` its subscriptions."""

    names: pa.StringArray
    log: Log
    at: Array
    exact: bool = False  # `at` are fractions where the stream's time has none


def at_type(stream: Stream) -> ColumnType:
    return ColumnType.INT if stream.time_type is None else stream.time_type


def packet(stream: Stream, answers: Sequence[Answers], shelf: Shelf) -> Packet:
    """The rows of all parts; there must be at least one."""
    codes, before = [], 0
    for part in answers:
        codes.append(part.log.query + before)
        before += len(part.names)
    names = pa.concat_arrays([part.names for part in answers])
    numbers = _joined([part.log.number for part in answers])
    items = shelf.take(numbers)
    columns = {
        SUBSCRIPTION: subscription_column(names, _joined(codes)),
        "at": _times(
            stream, _joined([np.floor(a.at).astype(np.int64) if a.exact else a.at for a in answers])
        ),
        "op": pa.DictionaryArray.from_arrays(pa.array(_joined([part.log.op for part in answers])), _OPS),
        "id": pa.array(numbers) if stream.id is None else items.column(stream.id),
        "distance": pa.array(_joined([part.log.dist for part in answers])),
    }
    if any(part.exact for part in answers):
        columns[EXACT_AT] = pa.array(_joined([part.at.astype(np.float64) for part in answers]))
    for column in stream.columns:
        columns[ITEM + column.name] = items.column(column.name)
    return Packet(DELIVER, 0, Kind.RESULT, pa.record_batch(columns), {"table": TABLE})


def begun(answers: Sequence[Answers]) -> int:
    """How many items became one of the k nearest."""
    return int(np.count_nonzero(_joined([part.log.op for part in answers]) == PLUS)) if answers else 0


def _joined(parts: list[Array]) -> Array:
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def _times(stream: Stream, at: Array) -> pa.Array:
    kind = ARROW_TYPES[at_type(stream)]
    if pa.types.is_timestamp(kind):
        return pa.array(at, pa.int64()).cast(kind)
    return pa.array(at, kind)


def shown(stream: Stream, spec: Nearest) -> tuple[Shown, ...]:
    """What a subscriber sees. An item's column whose name is taken is shown as `item.<name>`."""
    at = Shown("at", Column("at", at_type(stream)))
    if unit_of(stream, spec) == "fraction" and stream.time_type is ColumnType.INT:
        at = Shown(EXACT_AT, Column("at", ColumnType.FLOAT))
    id_type = ColumnType.INT if stream.id is None else stream.type_of(stream.id)
    out = [
        at,
        Shown("op", Column("op", ColumnType.STRING)),
        Shown("id", Column("id", id_type)),
        Shown("distance", Column("distance", ColumnType.FLOAT)),
    ]
    for column in stream.columns:
        if column.name == "id" == stream.id:
            continue  # it is there already
        name = ITEM + column.name if column.name in _OWN else column.name
        out.append(Shown(ITEM + column.name, Column(name, column.type)))
    return tuple(out)
