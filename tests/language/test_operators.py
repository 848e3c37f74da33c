"""Operators of users in SQL: what they are bound to, how they are written back, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anabranch.families.filters.spec import Aggregate, Function, Select
from anabranch.language.bind import compile_query
from anabranch.language.unparse import unparse
from anabranch.language.wxquery.unparse import unparse_wxquery
from anabranch.model.columns import ColumnType
from anabranch.model.errors import JobError, QueryError
from anabranch.model.operators import Made, Operator, Read
from anabranch.predicates.terms import Constant, Op
from tests.families.filters.runs import STREAM


def scale(values: Any, *factors: float) -> Any:
    return values * sum(factors)


def vague(values: Any) -> Any:
    return []


STREAMS = {
    "s": replace(
        STREAM,
        operators=(
            Operator("scale", f"{__name__}:scale"),
            Operator("vague", f"{__name__}:vague"),
            Operator("gone", "no_such_module:gone"),
            Operator("kind_of", f"{__name__}:vague", ColumnType.STRING),
        ),
        position=("a", "n"),
    )
}


def test_a_call_is_a_column_with_the_name_of_the_call() -> None:
    bound = compile_query("SELECT Scale(a, 2.5) AS e, scale(n, -1) FROM s WHERE scale(a,2.5) > 3", STREAMS)
    spec = bound.spec
    assert isinstance(spec, Select)
    assert spec.made == (
        Made("scale", (Read("a"), 2.5), ColumnType.FLOAT),
        Made("scale", (Read("n"), -1), ColumnType.INT),
    )
    assert [(one.column, one.name) for one in spec.outputs] == [
        ("scale(a, 2.5)", "e"),
        ("scale(n, -1)", "scale(n, -1)"),
    ]
    assert spec.condition == Constant("scale(a, 2.5)", Op.GT, 3)
    assert Select.from_json(spec.to_json()) == spec


def test_aggregates_of_it_and_operators_of_operators() -> None:
    text = "SELECT avg(scale(scale(a, 2), 3)) FROM s WINDOW ROWS 2 HAVING max(scale(n, 2)) > 1"
    spec = compile_query(text, STREAMS).spec
    assert isinstance(spec, Aggregate)
    assert [(one.function, one.column) for one in spec.aggregations] == [
        (Function.AVG, 'scale("scale(a, 2)", 3)'),
        (Function.MAX, "scale(n, 2)"),
    ]
    assert [made.name for made in spec.made] == ["scale(a, 2)", 'scale("scale(a, 2)", 3)', "scale(n, 2)"]
    assert Aggregate.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    "text",
    [
        "SELECT scale(a, 2.5) AS e, t FROM s WHERE scale(n, 2, 1e300) > 3 AND kind_of(s) = 'it''s'",
        "SELECT avg(scale(scale(a, 2), 3)) AS v FROM s WINDOW ROWS 2 HAVING max(scale(n, -2)) > 1",
        "SELECT * FROM s WHERE scale(a, 2) < scale(n, 1) + 5",
    ],
)
def test_written_back_it_is_the_same(text: str) -> None:
    spec = compile_query(text, STREAMS).spec
    assert compile_query(unparse(spec, STREAMS["s"]), STREAMS).spec == spec
    with pytest.raises(JobError, match="no operators of users"):
        unparse_wxquery(spec, STREAMS["s"])


def test_all_columns_are_those_of_the_stream() -> None:
    spec = compile_query("SELECT * FROM s WHERE scale(a, 2) > 1", STREAMS).spec
    assert isinstance(spec, Select)
    assert [output.column for output in spec.outputs] == ["t", "a", "n", "s"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT skale(a, 2) FROM s WINDOW ROWS 2", "unknown function 'skale'"),
        ("SELECT t FROM s WHERE skale(a, 2) > 1", "did you mean 'scale'?"),
        ("SELECT scale(b, 2) FROM s", "unknown column 'b'"),
        ("SELECT scale(*) FROM s", "an operator takes columns"),
        ("SELECT scale(1, 2) FROM s", "reads no column"),
        ("SELECT scale(a + 1, 2) FROM s", "takes columns, constants, and what operators make"),
        ("SELECT scale(a, 2), max(a) FROM s WINDOW ROWS 2", "a value per item among aggregates"),
        ("SELECT max(a, n) FROM s WINDOW ROWS 2", "expected one column"),
        ("SELECT sum(kind_of(s)) FROM s WINDOW ROWS 2", "kind_of(s) is a string; sum takes numbers"),
        ("SELECT vague(a) FROM s", "gives null for no items; declare the type of its results"),
        ("SELECT gone(a) FROM s", "'no_such_module:gone' cannot be found"),
        ("SELECT vague(a, 2) FROM s", "tried with no items, it failed with TypeError"),
        ("SELECT t FROM s WHERE scale(a, 2) > 'x'", "scale(a, 2) is a number; 'x' is a string"),
        ("SELECT t FROM s WHERE scale(a, 2) > 2 AND scale(a, 2) < 1", "this can never be true"),
        ("SELECT NEAREST 2 TO (0, 0) FROM s WHERE scale(a, 2) > 1 WINDOW ROWS 5", "select and aggregate"),
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(QueryError) as caught:
        compile_query(text, STREAMS)
    assert said in caught.value.message
    assert caught.value.offset is not None


@pytest.mark.parametrize("name", ["Scale", "max", "2nd", "a b", ""])
def test_names(name: str) -> None:
    with pytest.raises(JobError, match="cannot be called"):
        Operator(name, "m:f")
