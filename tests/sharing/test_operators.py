"""User-defined operators: known by name and parameters, run on the columns they read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from anabranch.families.filters.spec import Output, Select
from anabranch.model.columns import ColumnType
from anabranch.model.errors import QueryError
from anabranch.predicates.terms import Constant, Op
from anabranch.sharing.operators import Registry
from anabranch.sharing.properties import Operator, Properties, properties_of, source_properties
from anabranch.sharing.shareability import shareable
from anabranch.simulate.derive import derive
from tests.sharing.draw import SCHEMA, STREAM, clock_of


def scaled(parameters: tuple[Any, ...], columns: Sequence[Any]) -> Sequence[Any]:
    return [columns[0] * parameters[0]]


@pytest.fixture
def registry() -> Registry:
    known = Registry()
    known.register("scaled", scaled, {"y": ColumnType.FLOAT})
    known.register("again", scaled, {"z": ColumnType.FLOAT})
    return known


def asked(registry: Registry, least: float, *operators: Operator) -> Properties:
    spec = Select((Output("y", "y"),), Constant("y", Op.GE, least))
    return properties_of(spec, STREAM, operators, registry.types(operators))


def test_equal_name_and_parameters_are_shared(registry: Registry) -> None:
    double, triple = (registry.operator("scaled", (factor,), ("x",)) for factor in (2.0, 3.0))
    wide, narrow = asked(registry, 1, double), asked(registry, 2, double)
    assert shareable(wide, narrow)
    assert not shareable(narrow, wide)
    assert not shareable(wide, asked(registry, 2, triple))
    assert shareable(source_properties(STREAM), wide)
    rows = pa.RecordBatch.from_pylist(
        [{"t": place, "x": value} for place, value in enumerate([0.0, 0.5, 1.0])], SCHEMA
    )
    clock = clock_of(rows)
    carried = derive(wide, source_properties(STREAM), rows, clock, registry)
    assert carried.to_pylist() == [{"y": 1.0}, {"y": 2.0}]
    assert derive(narrow, wide, carried, clock, registry).to_pylist() == [{"y": 2.0}]


def test_what_it_reads_must_be_there(registry: Registry) -> None:
    double = registry.operator("scaled", (2.0,), ("x",))
    without = properties_of(Select((Output("a", "a"),)), STREAM)
    assert not shareable(without, asked(registry, 1, double))


def test_one_reads_what_another_made(registry: Registry) -> None:
    double, again = registry.operator("scaled", (2.0,), ("x",)), registry.operator("again", (2.0,), ("y",))
    rows = pa.RecordBatch.from_pylist([{"t": 0, "x": 1.5}], SCHEMA)
    assert registry.apply([again, double], rows).column("z").to_pylist() == [6.0]
    with pytest.raises(QueryError, match="operator 'again' reads y, and the items have t, a, b, x, s"):
        registry.apply([again], rows)


def test_unknown_and_taken_names(registry: Registry) -> None:
    with pytest.raises(QueryError, match="there is no operator 'scale'; registered are: scaled, again"):
        registry.operator("scale")
    with pytest.raises(QueryError, match="registered already"):
        registry.register("again", scaled, {})
