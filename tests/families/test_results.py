"""A subscriber's rows come in order, however zones and files cut them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from anabranch.families.base import Shown, Table
from anabranch.families.results import rows_of
from anabranch.model.columns import Column, ColumnType

TABLE = Table("select", order_by="#")
SHOWN = (Shown("v", Column("v", ColumnType.INT)),)


def part(numbers: list[int], names: list[list[str]]) -> pa.RecordBatch:
    return pa.record_batch(
        {"#": pa.array(numbers, pa.int64()), "subscriptions": names, "v": pa.array([10 * n for n in numbers])}
    )


@pytest.mark.parametrize("seed", range(5))
def test_runs_that_were_dealt_out_to_zones_come_back_in_order(seed: int) -> None:
    """Two runs of items over two zones: each zone sends a piece of each run, and one file has both."""
    rng = np.random.default_rng(seed)
    mine = np.sort(rng.choice(40, 25, replace=False))
    first, second = mine[mine < 20], mine[mine >= 20]
    zone = [[*half(first, 0), *half(second, 0)], [*half(first, 1), *half(second, 1)]]
    parts = [part(numbers, [["a"]] * len(numbers)) for numbers in zone]
    for files in (parts, parts[::-1], [pa.concat_batches(parts)]):
        assert rows_of(files, TABLE, "a", SHOWN).column("v").to_pylist() == (10 * mine).tolist()


def half(run: np.ndarray, which: int) -> list[int]:
    middle = len(run) // 2
    return (run[:middle] if which == 0 else run[middle:]).tolist()


def test_only_its_own_rows() -> None:
    rows = part([3, 1, 2], [["a", "b"], ["b"], ["a"]])
    assert rows_of([rows], TABLE, "a", SHOWN).column("v").to_pylist() == [20, 30]
    assert rows_of([rows], TABLE, "c", SHOWN).num_rows == 0
