"""Operators of users in the engine: once a batch for all who ask, and what is said when one is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.families.filters.spec import Aggregate, Select
from anabranch.language.bind import compile_query
from anabranch.model.columns import ColumnType
from anabranch.model.control_log import Cancel
from anabranch.model.errors import RunError
from anabranch.model.operators import Made, Operator
from tests.families.filters.runs import STREAM, Run, items


def running(function: Callable[..., Any], kind: ColumnType | None = ColumnType.FLOAT) -> Run:
    operator = Operator("scale", "somewhere:scale", kind, function=function)
    return Run(replace(STREAM, operators=(operator,)))


def ask(run: Run, **queries: str) -> list[Any]:
    specs: dict[str, Select | Aggregate] = {}
    for name, text in queries.items():
        spec = compile_query(text, {"s": run.runner.stream}).spec
        assert isinstance(spec, Select | Aggregate)
        specs[name] = spec
    return run.activate(**specs)


class Counted:
    """`values * factor`, and how it was called."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, float]] = []

    def __call__(self, values: Any, factor: float) -> Any:
        self.calls.append((len(values), factor))
        return values * factor


def test_it_is_called_once_a_batch_whoever_asks() -> None:
    scale = Counted()
    run = running(scale)
    many = {f"q{n}": f"SELECT scale(a, 2.5) AS e FROM s WHERE scale(a, 2.5) > {n}" for n in range(20)}
    run.batch(
        items([1, 2, 3], a=[1.0, None, 2.0]),
        ask(
            run,
            **many,
            mean="SELECT avg(scale(a, 2.5)) AS e FROM s WINDOW ROWS 2",
            other="SELECT scale(a, 3) FROM s WHERE t > 2",
        ),
    )
    assert sorted(scale.calls) == [(2, 2.5), (2, 3)]
    assert run.results("q0") == [{"e": 2.5}, {"e": 5.0}]
    assert run.results("q3") == [{"e": 5.0}]
    assert [row["e"] for row in run.results("mean")] == [2.5]
    assert run.results("other") == [{"scale(a, 3)": 6.0}]


def test_nobody_asks_any_more() -> None:
    scale = Counted()
    run = running(scale)
    run.batch(items([1], a=[1.0]), ask(run, x="SELECT scale(a, 2) FROM s", y="SELECT t FROM s"))
    run.batch(items([2], a=[1.0]), [Cancel(0)])
    assert len(scale.calls) == 1
    assert run.results("y") == [{"t": 1}, {"t": 2}]


def test_windows_go_on_when_a_new_column_comes_and_when_its_query_has_gone() -> None:
    """`compose` is made anew for a column that is new; slices of one that has gone stay readable."""
    run = running(Counted())
    run.batch(items([0, 1], a=[1.0, 2.0]), ask(run, old="SELECT sum(a) AS v FROM s WINDOW RANGE 6"))
    run.batch(items([2, 3], a=[3.0, 4.0]), ask(run, new="SELECT sum(scale(a, 2)) AS v FROM s WINDOW RANGE 2"))
    run.batch(items([4, 5], a=[5.0, 6.0]), [Cancel(1)])
    for state in run.runner.states.values():
        state.cache("composer", ["another worker has no memo"], None)
    run.batch(items([6], a=[7.0]))
    assert [row["v"] for row in run.results("old")] == [21.0]
    assert [row["v"] for row in run.results("new")] == []


def test_a_type_that_was_not_declared_is_that_of_nothing() -> None:
    run = running(lambda values, factor: np.round(values).astype(np.int32) * factor, None)
    (begin,) = ask(run, x="SELECT scale(a, 2) AS v FROM s WHERE scale(a, 2) >= 4")
    assert Made.from_json(begin.spec["made"][0]).type is ColumnType.INT
    run.batch(items([1, 2], a=[1.2, 2.2]), [begin])
    assert run.results("x") == [{"v": 4}]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda values, factor: values[:1], "gave 1 values for 2 items; it must give one per item"),
        (lambda values, factor: ["a", "b"], "gave string, and its results are float"),
        (lambda values, factor: values / [], "failed with ValueError"),
        (lambda values: values, "failed with TypeError"),
    ],
)
def test_what_is_wrong_names_operator_and_subscription(function: Callable[..., Any], said: str) -> None:
    run = running(function)
    begin = ask(run, x="SELECT scale(a, 2) FROM s", y="SELECT scale(a, 2) AS v FROM s")
    with pytest.raises(RunError) as caught:
        run.batch(items([1, 2], a=[1.0, 2.0]), begin)
    assert str(caught.value).startswith("operator scale(a, 2), used by x, y: it ")
    assert said in str(caught.value)


def test_it_may_give_an_arrow_array_and_read_every_type() -> None:
    seen: list[Any] = []

    def joined(*columns: Any) -> pa.Array:
        seen.extend(column.dtype for column in columns)
        return pa.array([" ".join(map(str, row)) for row in zip(*columns, strict=True)])

    run = running(joined, ColumnType.STRING)
    run.batch(
        items([1, 2], a=[1.5, 2.5], n=[3, None], s=["x", "y"]),
        ask(run, q="SELECT t, scale(a, n, s) AS v FROM s"),
    )
    assert run.results("q") == [{"t": 1, "v": "1.5 3 x"}, {"t": 2, "v": None}]
    assert seen[-3:] == [np.float64, np.int64, object]
