"""Statistics are measured, keep themselves up to date, and the cost model follows the paper's formulas."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import Window
from anabranch.planning.cost import CostModel, Loads
from anabranch.planning.properties import Aggregated, Properties, source_properties
from anabranch.planning.statistics import Histogram, Statistics
from anabranch.predicates.conjunction import EVERYTHING
from anabranch.predicates.normal import normal_form
from anabranch.predicates.terms import And, Constant, Op
from tests.predicates import generate

STREAM = Stream(
    "s",
    (
        Column("t", ColumnType.INT),
        Column("x", ColumnType.FLOAT),
        Column("y", ColumnType.FLOAT),
        Column("k", ColumnType.STRING),
    ),
    time="t",
)


def rows(count: int, seed: int = 0, shift: float = 0.0) -> pa.RecordBatch:
    """y is x, but for a little; every second k is missing."""
    random = np.random.default_rng(seed)
    x = random.normal(shift, 1, count)
    return pa.record_batch(
        {
            "t": np.arange(count) * 2,
            "x": x,
            "y": x + random.normal(0, 0.01, count),
            "k": pa.array([None if place % 2 else "abcd" for place in range(count)]),
        }
    )


def below(column: str, value: float) -> Constant:
    return Constant(column, Op.LE, value)


@given(st.lists(st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1.0, 1.0]), min_size=1, max_size=300))
def test_a_histogram_says_where_values_lie(values: list[float]) -> None:
    """Within the bins it keeps: of few values it is exact to a bin."""
    histogram = Histogram()
    for _ in range(5):
        histogram.observe(np.array(values))
    assert histogram.part(min(values), max(values)) == pytest.approx(1)
    assert histogram.part(max(values) + 1, math.inf) == 0
    middle = float(np.median(values))
    whole = histogram.part(-math.inf, middle) + histogram.part(math.nextafter(middle, math.inf), math.inf)
    assert whole == pytest.approx(1, abs=0.1)


def test_a_histogram_follows_the_stream() -> None:
    random = np.random.default_rng(1)
    histogram = Histogram(memory=5_000)
    for _ in range(10):
        histogram.observe(random.normal(0, 1, 2_000))
    assert histogram.part(-1, 1) == pytest.approx(0.683, abs=0.03)
    for _ in range(20):
        histogram.observe(random.normal(100, 1, 2_000))
    assert histogram.part(99, 101) == pytest.approx(0.683, abs=0.05)
    assert histogram.part(-5, 5) < 0.01


def test_rate_sizes_occurrences_and_time() -> None:
    known = Statistics(STREAM)
    known.observe(rows(1_000), seconds=10)
    assert known.rate == pytest.approx(100)
    assert known.increment == pytest.approx(2)
    assert known.size("x") == pytest.approx(8, rel=0.05)
    assert known.occurrence("k") == pytest.approx(0.5)
    assert 4 <= known.size("k") <= 16  # four letters and an offset for each that is there
    known.observe(rows(1_000), seconds=5)
    assert 100 < known.rate < 200


def test_columns_that_depend_on_each_other() -> None:
    known = Statistics(STREAM)
    known.observe(rows(20_000), seconds=1)
    both = normal_form(And((below("x", -1), below("y", -1))), STREAM)
    assert known.selectivity(both) == pytest.approx(0.159, abs=0.03)  # not its square
    rare = normal_form(below("x", -3), STREAM)
    assert known.selectivity(rare) == pytest.approx(0.00135, abs=0.002)
    assert known.selectivity(EVERYTHING) == 1


@given(generate.ROWS, generate.terms(), st.integers(1, 3))
def test_whatever_comes(drawn: list[dict[str, object]], term: generate.Term, times: int) -> None:
    """Infinities, NaN, missing values, the ends of int64: a part is a part."""
    known = Statistics(generate.STREAM)
    condition = normal_form(term, generate.STREAM)
    assert 0 <= known.selectivity(condition) <= 1
    for _ in range(times):
        known.observe(generate.batch(drawn), seconds=1)
        assert 0 <= known.selectivity(condition) <= 1
    assert all(0 <= known.occurrence(column.name) <= 1 + 1e-9 for column in generate.STREAM.columns)


def test_nan_is_missing() -> None:
    known = Statistics(STREAM)
    known.observe(pa.record_batch({"t": [1, 2], "x": [math.nan, 1.0], "y": [1.0, 2.0], "k": ["a", "b"]}), 1)
    assert known.occurrence("x") == 0.5


def test_the_sample_follows_the_stream() -> None:
    known = Statistics(STREAM, memory=5_000)
    known.observe(rows(5_000), seconds=1)
    for seed in range(8):
        known.observe(rows(5_000, seed, shift=10), seconds=1)
    assert known.selectivity(normal_form(below("x", 5), STREAM)) < 0.02


def model() -> CostModel:
    known = Statistics(STREAM)
    known.observe(rows(10_000), seconds=100)  # 100 a second
    return CostModel({"s": known}, gamma=0.5)


def test_sizes_and_frequencies() -> None:
    costs, source = model(), source_properties(STREAM)
    half = Properties("s", normal_form(below("x", 0), STREAM), frozenset({"x", "y"}), time="t")
    assert costs.size(half) == pytest.approx(16, rel=0.05)
    assert costs.frequency(half) == pytest.approx(50, rel=0.1)
    assert costs.traffic(source) == pytest.approx(100 * costs.size(source))
    by_time = Aggregated(Window("range", 40, 20), frozenset())
    windows = Properties("s", EVERYTHING, frozenset(), aggregated=by_time, time="t")
    assert costs.frequency(windows) == pytest.approx(100 * 2 / 20)  # time runs at 200 a second
    by_rows = Aggregated(Window("rows", 40, 25), frozenset())
    assert costs.frequency(Properties("s", EVERYTHING, frozenset(), aggregated=by_rows)) == pytest.approx(4)


def test_work() -> None:
    costs, source, loads = model(), source_properties(STREAM), Loads()
    half = Properties("s", normal_form(below("x", 0), STREAM), source.columns, time="t")
    assert costs.work(half, source) == pytest.approx(100 * loads.select)
    assert costs.work(half, half) == 0
    fewer = Properties("s", half.selection, frozenset({"x"}), time="t")
    assert costs.work(fewer, half) == pytest.approx(costs.frequency(half) * loads.project)


def test_the_cost_function() -> None:
    costs = model()
    assert costs.cost([(0.2, 0.5)], [(0.1, 1.0)]) == pytest.approx(0.5 * 0.2 + 0.5 * 0.1)
    over = 0.2 + 0.15 * math.exp(0.15)
    assert costs.cost([(0.2, 0.05)], []) == pytest.approx(0.5 * over)
    with pytest.raises(ValueError, match="gamma"):
        CostModel({}, gamma=1.5)
