"""User-defined operators in plans: the same if name and arguments are, run on the columns they read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from anabranch.families.filters.spec import Output, Select
from anabranch.model.columns import ColumnType
from anabranch.model.operators import Made, Operator, Read
from anabranch.planning.matching import shareable
from anabranch.planning.properties import Properties, properties_of, source_properties
from anabranch.predicates.terms import Constant, Op
from anabranch.simulate.derive import derive
from tests.planning.draw import SCHEMA, STREAM, clock_of


def scaled(values: Any, factor: float) -> Any:
    return values * factor


OPERATORS = {"scaled": Operator("scaled", f"{__name__}:scaled")}
DOUBLE, TRIPLE = (Made("scaled", (Read("x"), factor), ColumnType.FLOAT) for factor in (2.0, 3.0))
AGAIN = Made("scaled", (Read(DOUBLE.name), 2.0), ColumnType.FLOAT)


def asked(least: float, *made: Made) -> Properties:
    name = made[-1].name
    return properties_of(Select((Output(name, "y"),), Constant(name, Op.GE, least), made), STREAM)


def test_equal_name_and_parameters_are_shared() -> None:
    wide, narrow = asked(1, DOUBLE), asked(2, DOUBLE)
    assert shareable(wide, narrow)
    assert not shareable(narrow, wide)
    assert not shareable(wide, asked(2, TRIPLE))
    assert shareable(source_properties(STREAM), wide)
    rows = pa.RecordBatch.from_pylist(
        [{"t": place, "x": value} for place, value in enumerate([0.0, 0.5, 1.0])], SCHEMA
    )
    clock = clock_of(rows)
    carried = derive(wide, source_properties(STREAM), rows, clock, OPERATORS)
    assert carried.to_pylist() == [{DOUBLE.name: 1.0}, {DOUBLE.name: 2.0}]
    assert derive(narrow, wide, carried, clock, OPERATORS).to_pylist() == [{DOUBLE.name: 2.0}]


def test_what_it_reads_must_be_there() -> None:
    without = properties_of(Select((Output("a", "a"),)), STREAM)
    assert not shareable(without, asked(1, DOUBLE))


def test_one_reads_what_another_made() -> None:
    rows = pa.RecordBatch.from_pylist([{"t": 0, "x": 1.5}], SCHEMA)
    wanted = asked(1, DOUBLE, AGAIN)
    made = derive(wanted, source_properties(STREAM), rows, clock_of(rows), OPERATORS)
    assert made.to_pylist() == [{AGAIN.name: 6.0}]
