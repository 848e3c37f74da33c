"""Strategies: every spec that a query can be bound to, over streams with odd names."""

from __future__ import annotations

from hypothesis import strategies as st

from anabranch.families.clusters.spec import Clusters, Emit
from anabranch.families.filters.spec import Aggregate, Aggregation, Function, Output, Select
from anabranch.families.moving.spec import Box, Circle, KNearest, Moving, Shape
from anabranch.families.nearest.spec import Nearest
from anabranch.language.bind import Spec
from anabranch.language.bind_filters import WINDOW_COLUMNS
from anabranch.language.conditions import conjunction, disjunction, negation
from anabranch.language.scopes import default_name
from anabranch.language.windows import LEAST_LENGTH
from anabranch.model.columns import Column, ColumnType
from anabranch.model.limits import DEFAULT_LIMITS, QueryLimits
from anabranch.model.stream import Stream
from anabranch.model.window import AtEnd, Window
from anabranch.predicates.terms import TRUE, Constant, Difference, Op, Term

NAMES = (
    "a",
    "coord.cel.ra",
    "from",
    "COUNT",
    "odd name",
    'say "hi"',
    "tick`s",
    "a.b c",
    "é",
    "5",
    "x'y",
    "x\ny",
    "İn",
)


def odd_stream(time: ColumnType) -> Stream:
    """Three columns or so of every type, with names that need care."""
    types = [time, ColumnType.INT, ColumnType.FLOAT, ColumnType.STRING, ColumnType.BOOL, ColumnType.TIMESTAMP]
    columns = [Column(name, types[i % len(types)]) for i, name in enumerate(NAMES)]
    columns += [
        Column("x", ColumnType.FLOAT),
        Column("y", ColumnType.FLOAT),
        Column("who", ColumnType.STRING),
    ]
    return Stream(
        "odd stream", tuple(columns), time="a", object="who", position=("x", "y"), limits=UNLIMITED
    )  # fmt: skip


#: Numbers are drawn from all of 64 bits.
UNLIMITED = QueryLimits(**dict.fromkeys(DEFAULT_LIMITS.to_json(), 2**63 - 1) | {"windows_per_item": 2**2000})

INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=1e-300, allow_nan=False, allow_infinity=False)
COUNTS = st.integers(1, 2**63 - 1)
STRINGS = st.text(max_size=8)
ALIASES = st.text(min_size=1, max_size=6).filter(
    lambda name: not name.startswith("#") and name not in WINDOW_COLUMNS
)


def constants(column: Column) -> st.SearchStrategy[Term]:
    ops = st.sampled_from(Op)
    match column.type:
        case ColumnType.BOOL:
            return st.builds(Constant, st.just(column.name), st.sampled_from([Op.EQ, Op.NE]), st.booleans())
        case ColumnType.STRING:
            return st.builds(Constant, st.just(column.name), ops, STRINGS)
        case ColumnType.TIMESTAMP:
            return st.builds(Constant, st.just(column.name), ops, INT64)
    return st.builds(Constant, st.just(column.name), ops, INT64 | FLOATS)


def differences(column: Column, columns: tuple[Column, ...]) -> st.SearchStrategy[Term]:
    alike = [
        other.name
        for other in columns
        if other.type is column.type or (other.type.is_number and column.type.is_number)
    ]
    ops = [Op.EQ, Op.NE] if column.type is ColumnType.BOOL else list(Op)
    offsets = {ColumnType.TIMESTAMP: INT64, ColumnType.STRING: st.just(0), ColumnType.BOOL: st.just(0)}
    offset = offsets.get(column.type, INT64 | FLOATS)
    return st.builds(Difference, st.just(column.name), st.sampled_from(ops), st.sampled_from(alike), offset)


def terms(columns: tuple[Column, ...]) -> st.SearchStrategy[Term]:
    """Conditions as `bind` leaves them: no AND in an AND, no OR in an OR, no constants."""
    leaves = st.sampled_from(columns).flatmap(lambda c: constants(c) | differences(c, columns))
    some = st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, min_size=2, max_size=3).map(conjunction)
            | st.lists(inner, min_size=2, max_size=3).map(disjunction)
            | inner.map(negation)
        ),
        max_leaves=8,
    )
    return st.just(TRUE) | some


def windows(stream: Stream) -> st.SearchStrategy[Window]:
    ends = st.none() | st.sampled_from(AtEnd)
    shortest = st.floats(min_value=LEAST_LENGTH, allow_nan=False, allow_infinity=False)
    lengths = COUNTS if stream.time_type is ColumnType.TIMESTAMP else COUNTS | shortest
    rows = st.builds(Window, st.just("rows"), COUNTS, COUNTS, ends)
    return rows | st.builds(Window, st.just("range"), lengths, lengths, ends)


def coordinates(stream: Stream, most: int) -> st.SearchStrategy[tuple[str, ...]]:
    numbers = [column.name for column in stream.columns if column.type.is_number]
    return st.lists(st.sampled_from(numbers), min_size=1, max_size=most, unique=True).map(tuple)


def selects(stream: Stream) -> st.SearchStrategy[Select]:
    names = st.sampled_from([column.name for column in stream.columns])
    same = names.map(lambda name: Output(name, name))
    outputs = st.lists(
        same | st.builds(Output, names, ALIASES), min_size=1, max_size=4, unique_by=lambda o: o.name
    )
    return st.builds(Select, outputs.map(tuple), terms(stream.columns))


def aggregation(stream: Stream) -> st.SearchStrategy[Aggregation]:
    pairs: list[tuple[Function, str | None]] = [(Function.COUNT, None)]
    for column in stream.columns:
        takes = [Function.COUNT]
        takes += [Function.MIN, Function.MAX] if column.type.is_ordered_in_time else []
        takes += [Function.SUM, Function.AVG] if column.type.is_number else []
        pairs += [(function, column.name) for function in takes]
    names = st.none() | ALIASES
    return st.builds(
        lambda pair, alias: Aggregation(*pair, alias or default_name(pair[0].value, pair[1])),
        st.sampled_from(pairs),
        names,
    )


def result_columns(aggregations: tuple[Aggregation, ...], stream: Stream) -> tuple[Column, ...]:
    def type_of(it: Aggregation) -> ColumnType:
        if it.function in (Function.COUNT, Function.AVG) or it.column is None:
            return ColumnType.INT
        return stream.type_of(it.column)

    return tuple(Column(it.name, type_of(it)) for it in aggregations) + (Column("items", ColumnType.INT),)


@st.composite
def aggregates(draw: st.DrawFn, stream: Stream) -> Aggregate:
    some = st.lists(aggregation(stream), min_size=1, max_size=3, unique_by=lambda it: it.name)
    aggregations = tuple(draw(some))
    having = draw(terms(result_columns(aggregations, stream)))
    return Aggregate(aggregations, draw(windows(stream)), draw(terms(stream.columns)), having)


@st.composite
def nearest(draw: st.DrawFn, stream: Stream) -> Nearest:
    by = draw(coordinates(stream, 16))
    point = tuple(draw(FLOATS) for _ in by)
    window = draw(windows(stream))
    window = Window(window.unit, window.size, window.size)
    method = draw(st.sampled_from(["RAPF", "RA", "PA"]))
    sigma = draw(st.floats(1e-9, 0.999)) if method == "PA" else None
    return Nearest(draw(COUNTS), point, by, window, draw(terms(stream.columns)), method, sigma)


def clusters(stream: Stream) -> st.SearchStrategy[Clusters]:
    by, condition = coordinates(stream, 8), terms(stream.columns)
    return st.builds(Clusters, POSITIVE, COUNTS, by, windows(stream), condition, st.sampled_from(Emit))


def moving(stream: Stream) -> st.SearchStrategy[Moving]:
    focal = STRINGS | st.tuples(FLOATS, FLOATS)
    sizes = st.floats(0, allow_infinity=False)
    areas: st.SearchStrategy[Shape] = st.builds(Circle, sizes) | st.builds(Box, sizes, sizes)
    values = st.sampled_from([None, "count", "min(x)", "max(x)", "min(y)", "max(y)"])
    condition, issuer = terms(stream.columns), st.none() | STRINGS
    return st.builds(Moving, areas, focal, condition, values, issuer) | st.builds(
        Moving, st.builds(KNearest, COUNTS), focal, condition, st.none(), issuer
    )


def specs(stream: Stream) -> st.SearchStrategy[Spec]:
    return st.one_of(selects(stream), aggregates(stream), nearest(stream), clusters(stream), moving(stream))
