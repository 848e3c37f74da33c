"""Cases for operators of users: in the select list, in conditions, below aggregates, and of one another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from anabranch.families.filters.spec import Aggregate, Aggregation, Function, Output, Select
from anabranch.model.columns import ColumnType
from anabranch.model.operators import Made, Operator, Read
from anabranch.model.window import Window
from anabranch.predicates.terms import TRUE, And, Constant, Op, Term
from tests.laws.case import Case
from tests.laws.customers import Customer
from tests.laws.draw import asked, stream_and_items
from tests.oracles.operators import operators_oracle

COLUMNS = {"a": ColumnType.FLOAT, "n": ColumnType.INT, "s": ColumnType.STRING}


def scaled(values: Any, factor: float) -> Any:
    return values * factor


def repeated(words: Any, times: Any) -> Any:
    return [word * int(count) for word, count in zip(words, times, strict=True)]


def halved(numbers: Any) -> Any:
    """Nothing of odd numbers."""
    return [None if number % 2 else number // 2 for number in numbers.tolist()]


def is_long(words: Any, least: int) -> Any:
    return np.array([len(word) >= least for word in words], bool)


OPERATORS = (
    Operator("scaled", f"{__name__}:scaled"),
    Operator("repeated", f"{__name__}:repeated", ColumnType.STRING),
    Operator("halved", f"{__name__}:halved", ColumnType.INT),
    Operator("is_long", f"{__name__}:is_long", function=is_long),
)
PLAIN = {
    "scaled": lambda value, factor: value * factor,
    "repeated": lambda word, count: word * count,
    "halved": lambda number: None if number % 2 else number // 2,
    "is_long": lambda word, least: len(word) >= least,
}

SCALED = [Made("scaled", (Read("a"), factor), ColumnType.FLOAT) for factor in (2.0, -0.5)]
TWICE = Made("scaled", (Read(SCALED[0].name), 3), ColumnType.FLOAT)
REPEATED = Made("repeated", (Read("s"), Read("n")), ColumnType.STRING)
HALVED = Made("halved", (Read("n"),), ColumnType.INT)
LONG = Made("is_long", (Read("s"), 2), ColumnType.BOOL)

#: A condition, and what it needs made; what it reads comes first.
CONDITIONS: list[tuple[Term, tuple[Made, ...]]] = [
    (TRUE, ()),
    (Constant(SCALED[0].name, Op.GE, 0.5), (SCALED[0],)),
    (Constant(SCALED[0].name, Op.GE, 2.0), (SCALED[0],)),
    (And((Constant(TWICE.name, Op.LT, 6.0), Constant(HALVED.name, Op.NE, 1))), (SCALED[0], TWICE, HALVED)),
    (Constant(LONG.name, Op.EQ, True), (LONG,)),
]
WINDOWS = [Window("rows", 3, 2), Window("rows", 4, 4), Window("range", 6, 4), Window("range", 3, 3)]


def _needed(*made: Made) -> tuple[Made, ...]:
    return tuple({each.name: each for each in made}.values())


@st.composite
def _spec(draw: st.DrawFn) -> Select | Aggregate:
    condition, needs = draw(st.sampled_from(CONDITIONS))
    if draw(st.booleans()):
        made = draw(st.lists(st.sampled_from([*SCALED, REPEATED, HALVED, LONG]), max_size=3, unique=True))
        outputs = tuple(Output(each.name, f"v{place}") for place, each in enumerate(made))
        return Select((Output("t", "t"), *outputs), condition, _needed(*needs, *made))
    function = draw(st.sampled_from(list(Function)))
    column = draw(st.sampled_from([SCALED[1], HALVED]))
    aggregations = (Aggregation(function, column.name, "v"), Aggregation(Function.MAX, "n", "w"))
    return Aggregate(aggregations, draw(st.sampled_from(WINDOWS)), condition, made=_needed(*needs, column))


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    stream, items = draw(stream_and_items(COLUMNS))
    specs = draw(st.lists(_spec(), min_size=1, max_size=6))
    queries = [draw(asked(f"q{number}", spec.to_json())) for number, spec in enumerate(specs)]
    return Case(replace(stream, operators=OPERATORS), items, tuple(queries))


CUSTOMER = Customer("operators", _cases(), operators_oracle(PLAIN))
