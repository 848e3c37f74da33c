"""Families of properties that are likely to contain each other, and items to try them on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.families.filters.spec import Aggregate, Aggregation, Function, Output, Select
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import AtEnd, Window
from anabranch.planning.properties import Properties, properties_of
from anabranch.predicates.terms import TRUE, And, Constant, Difference, Not, Op, Or, Term
from anabranch.simulate.windows import StreamSpan
from tests.laws.case import Asked, Case
from tests.oracles.aggregate import aggregate_oracle
from tests.oracles.select import select_oracle

TYPES = {"t": ColumnType.INT, "a": ColumnType.INT, "b": ColumnType.INT, "x": ColumnType.FLOAT}
TYPES |= {"s": ColumnType.STRING}
STREAM = Stream("drawn", tuple(Column(name, kind) for name, kind in TYPES.items()), time="t")
SCHEMA = pa.schema(
    [("t", pa.int64()), ("a", pa.int64()), ("b", pa.int64()), ("x", pa.float64()), ("s", pa.string())]
)
Spec = Select | Aggregate

SMALL = st.integers(0, 4)
OPS = st.sampled_from(list(Op))
NUMBERS = st.builds(Constant, st.sampled_from(["a", "b", "x"]), OPS, SMALL)
TEXTS = st.builds(Constant, st.just("s"), OPS, st.sampled_from(["", "p", "q"]))
GAPS = st.builds(Difference, st.sampled_from(["a", "b"]), OPS, st.sampled_from(["a", "b", "x"]), SMALL)
ATOMS: st.SearchStrategy[Term] = NUMBERS | TEXTS | GAPS | st.builds(Not, NUMBERS)
ALTERNATIVES: st.SearchStrategy[Term] = ATOMS | st.builds(lambda a, b: Or((a, b)), ATOMS, ATOMS)

FUNCTIONS = st.builds(
    lambda function, column: (function, column),
    st.sampled_from(list(Function)),
    st.sampled_from(["a", "x"]),
)
WINDOWS = st.builds(
    Window,
    st.sampled_from(["rows", "range"]),
    st.sampled_from([1, 2, 3, 4, 6, 8]),
    st.sampled_from([1, 2, 3, 4, 6]),
    st.sampled_from([None, None, *AtEnd]),
)


@st.composite
def related(draw: st.DrawFn, count: int) -> list[Spec]:
    """Queries of one family: each takes some of the same conditions, columns, aggregates and windows."""
    atoms = draw(st.lists(ALTERNATIVES, max_size=3))
    functions = draw(st.lists(FUNCTIONS, min_size=1, max_size=3, unique=True))
    windows = draw(st.lists(WINDOWS, min_size=1, max_size=2))
    limits = draw(st.lists(SMALL, min_size=1, max_size=2))
    return [draw(_one(atoms, functions, windows, limits)) for _ in range(count)]


@st.composite
def _one(
    draw: st.DrawFn, atoms: list[Term], functions: list[Any], windows: list[Window], limits: list[int]
) -> Spec:
    condition = And(tuple(atom for atom in atoms if draw(st.booleans())))
    if draw(st.booleans()):
        chosen = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, unique=True))
        chosen = list(TYPES) if draw(st.booleans()) else chosen
        return Select(tuple(Output(column, column) for column in chosen), condition)
    used = draw(st.lists(st.sampled_from(functions), min_size=1, unique=True))
    aggregations = [Aggregation(f, column, f"v{place}") for place, (f, column) in enumerate(used)]
    having: Term = TRUE
    if draw(st.booleans()):
        name = draw(st.sampled_from([*(one.name for one in aggregations), "items"]))
        having = Constant(name, draw(st.sampled_from([Op.GE, Op.LE, Op.GT])), draw(st.sampled_from(limits)))
    aggregations.append(Aggregation(Function.COUNT, None, "n"))
    return Aggregate(tuple(aggregations), draw(st.sampled_from(windows)), condition, having)


ROW = st.fixed_dictionaries(
    {
        "gap": st.integers(0, 3),
        "a": st.none() | SMALL,
        "b": st.none() | SMALL,
        "x": st.none() | st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5, 4.0]),
        "s": st.none() | st.sampled_from(["", "o", "p", "pp", "q"]),
    }
)


@st.composite
def items(draw: st.DrawFn) -> pa.RecordBatch:
    """In order of time."""
    rows, now = [], draw(st.integers(0, 2))
    for row in draw(st.lists(ROW, min_size=1, max_size=16)):
        now += row.pop("gap")
        rows.append({"t": now, **row})
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def clock_of(rows: pa.RecordBatch) -> StreamSpan:
    return StreamSpan(rows.column("t")[0].as_py(), rows.column("t")[-1].as_py())


def asked(spec: Spec) -> Properties:
    return properties_of(spec, STREAM)


def oracle(spec: Spec, rows: pa.RecordBatch) -> list[dict[str, Any]]:
    case = Case(STREAM, rows, (Asked("q", spec.to_json()),))
    return (select_oracle if isinstance(spec, Select) else aggregate_oracle)(case)["q"]
