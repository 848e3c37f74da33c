"""What the cases of all families have in common: small streams with ties, gaps, missing values and late
items.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.chain.items import arrow_schema
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream, Time
from tests.laws.case import Asked

#: Values that are exact in binary, so that sums and distances do not depend on their order.
EXACT = [n / 4 for n in range(-12, 13)]

_VALUES: dict[ColumnType, st.SearchStrategy[Any]] = {
    ColumnType.INT: st.integers(-4, 4),
    ColumnType.FLOAT: st.sampled_from(EXACT),
    ColumnType.STRING: st.sampled_from(["", "a", "b", "ibm", "é"]),
    ColumnType.BOOL: st.booleans(),
}


def values(kind: ColumnType, missing: bool = True) -> st.SearchStrategy[Any]:
    return st.none() | _VALUES[kind] if missing else _VALUES[kind]


@st.composite
def times(draw: st.DrawFn, count: int, lateness: Time) -> list[int]:
    """Ascending with ties and gaps, or shaken so that some come late."""
    steps = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    shaken = draw(st.booleans())
    out, now = [], draw(st.integers(-5, 5))
    for step in steps:
        now += step
        out.append(now - (draw(st.integers(0, int(lateness) + 2)) if shaken else 0))
    return out


@st.composite
def stream_and_items(
    draw: st.DrawFn, columns: dict[str, ColumnType], most: int = 30, missing: bool = True, **settings: Any
) -> tuple[Stream, pa.RecordBatch]:
    """A stream `s` with integer time `t` and the given columns, and up to `most` of its items."""
    count = draw(st.integers(0, most))
    lateness = draw(st.sampled_from([0, 0, 2]))
    stream = Stream(
        "s",
        (Column("t", ColumnType.INT), *(Column(name, kind) for name, kind in columns.items())),
        time="t",
        lateness=lateness,
        **settings,
    )
    data: dict[str, list[Any]] = {"t": draw(times(count, lateness))}
    for name, kind in columns.items():
        data[name] = draw(st.lists(values(kind, missing), min_size=count, max_size=count))
    return stream, pa.record_batch(data, schema=arrow_schema(stream))


@st.composite
def asked(draw: st.DrawFn, name: str, spec: dict[str, Any]) -> Asked:
    """A query that may come later than the stream's start and go before its end."""
    after = draw(st.none() | st.integers(-6, 20))
    until = draw(st.none() | st.integers(-6, 40))
    return Asked(name, spec, after, until)
