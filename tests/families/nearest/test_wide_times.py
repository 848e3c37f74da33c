"""Integer times that no float64 holds exactly: results are those of the same stream at small times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.chain.runner import Runner
from anabranch.families.nearest.query_groups import EXACT
from anabranch.families.nearest.spec import Nearest
from anabranch.families.registry import family
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate
from anabranch.model.stream import Stream
from anabranch.model.window import Window

STREAM = Stream("s", (Column("t", ColumnType.INT), Column("a", ColumnType.FLOAT)), time="t", position=("a",))


def results(shift: int, sizes: list[int], batch: int) -> list[tuple[Any, ...]]:
    """(subscription, at - shift, op, id, distance) of all results of a stream that begins at `shift`."""
    random = np.random.default_rng(7)
    times, values = np.sort(random.integers(0, 400, 300)), random.random(300)
    specs = [Nearest(3, (0.5,), ("a",), Window("range", size, size)).to_json() for size in sizes]
    queries = [Activate(number, f"q{number}", spec, None) for number, spec in enumerate(specs)]
    runner = Runner(STREAM, family("nearest"))
    for first in range(0, 300, batch):
        rows = pa.record_batch(
            {"t": times[first : first + batch] + shift, "a": values[first : first + batch]}
        )
        runner.batch(rows, queries if first == 0 else ())
    out = []
    for parts in runner.tables["nearest"].values():
        for part in parts:
            names = ("subscription", "at", "op", "id", "distance")
            columns = [part.column(name).to_pylist() for name in names]
            columns[1] = [at - shift for at in columns[1]]
            out += list(zip(*columns, strict=True))
    return sorted(out)


@pytest.mark.parametrize("shift", [2**60 + 1, -(2**60) - 301, EXACT - 200, -EXACT - 100])
@pytest.mark.slow
def test_large_times(shift: int) -> None:
    """The last two become, and cease to be, too large for a float64 on the way."""
    assert results(shift, [5, 40, 150], 30) == results(0, [5, 40, 150], 30)


def test_windows_that_are_too_long_for_a_float() -> None:
    expected = [(name, *rest) for name, *rest in results(0, [1000, 1000], 30)]
    assert results(0, [EXACT, 2**61], 30) == expected
