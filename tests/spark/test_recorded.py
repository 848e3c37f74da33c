"""Two hundred random subscriptions on recorded photons and trades: what SQL, Spark and results give is what
pandas gives.

ANABRANCH_RECORDED is the number of items of each stream that are read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SUBSCRIPTIONS = 100  # a stream
ITEMS = int(os.environ.get("ANABRANCH_RECORDED", "80000"))

#: stream -> the file, its columns that are numbers, and one that is text
STREAMS = {
    "photons": ("photons_hess.parquet", ["ra", "dec", "energy", "obs_id"], "object"),
    "trades": ("trades_us_equity.parquet", ["price", "volume"], "symbol"),
}
FUNCTIONS: dict[str, Callable[[pd.Series], Any]] = {
    "min": lambda values: values.min(),
    "max": lambda values: values.max(),
    "sum": lambda values: math.fsum(values) if values.dtype.kind == "f" else int(values.sum()),
    "avg": lambda values: math.fsum(values) / len(values),
    "count": len,
}


@dataclass(frozen=True)
class Asked:
    text: str
    answer: Callable[[pd.DataFrame], list[dict[str, Any]]]


def _condition(rng: np.random.Generator, items: pd.DataFrame, stream: str) -> tuple[str, pd.Series]:
    """A condition as SQL, and as the items that satisfy it."""
    _, numbers, text = STREAMS[stream]
    parts, kept = [], pd.Series(True, items.index)
    for column in rng.choice(numbers, rng.integers(1, len(numbers)), replace=False):
        low, high = np.sort(rng.choice(items[column].to_numpy(), 2)).tolist()
        match rng.integers(0, 4):
            case 0:
                parts.append(f"{column} BETWEEN {low!r} AND {high!r}")
                kept &= (items[column] >= low) & (items[column] <= high)
            case 1:
                parts.append(f"{column} > {low!r}")
                kept &= items[column] > low
            case 2:
                parts.append(f"NOT {column} = {low!r}")
                kept &= items[column] != low
            case _:
                parts.append(f"({column} < {low!r} OR {column} >= {high!r})")
                kept &= (items[column] < low) | (items[column] >= high)
    if rng.random() < 0.5:
        name = rng.choice(items[text].to_numpy())
        parts.append(f"{text} = '{name}'")
        kept &= items[text] == name
    return " AND ".join(parts), kept


def _select(rng: np.random.Generator, items: pd.DataFrame, stream: str) -> Asked:
    condition, kept = _condition(rng, items, stream)
    columns = rng.permutation(items.columns)[: rng.integers(1, len(items.columns) + 1)].tolist()
    text = f"SELECT {', '.join(columns)} FROM {stream} WHERE {condition}"
    return Asked(text, lambda items: items[kept][columns].to_dict("records"))


def _aggregate(rng: np.random.Generator, items: pd.DataFrame, stream: str) -> Asked:
    condition, kept = _condition(rng, items, stream)
    function, column = rng.choice(list(FUNCTIONS)), rng.choice(STREAMS[stream][1])
    by_rows = bool(rng.random() < 0.5)
    size = int(rng.integers(50, 2000) if by_rows else rng.integers(10**8, 10**10))
    step = max(1, int(size * rng.uniform(0.3, 1.7)))
    most = int(rng.integers(1, 2000))
    text = (
        f"SELECT {function}({column}) AS v FROM {stream} WHERE {condition} "
        f"WINDOW {'ROWS' if by_rows else 'RANGE'} {size} STEP {step} HAVING items <= {most}"
    )

    def answer(items: pd.DataFrame) -> list[dict[str, Any]]:
        origin = int(items["time_us"].iloc[0])
        passed = items[kept]
        place = np.arange(len(passed)) if by_rows else passed["time_us"].to_numpy() - origin
        rows: list[dict[str, Any]] = []
        first = np.maximum(0, -(-(place - size + 1) // step))  # the windows that an item is in
        windows = [range(low, high + 1) for low, high in zip(first, place // step, strict=True)]
        spread = pd.DataFrame({"at": passed.index, "window": windows}).explode("window").dropna()
        for window, members in spread.groupby("window"):
            start = int(window) * step + (0 if by_rows else origin)
            values = passed.loc[members["at"], column]
            whole = not by_rows or len(values) == size
            if whole and len(values) <= most:
                value = FUNCTIONS[function](values)
                rows.append(
                    {"window_start": start, "window_end": start + size, "items": len(values), "v": value}
                )
        return rows

    return Asked(text, answer)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-12)
    return bool(left == right)


@pytest.mark.parametrize("name", STREAMS)
def test_pandas_agrees(spark: SparkSession, shared_data: Path, tmp_path: Path, name: str) -> None:
    from anabranch.spark.engine import Engine

    table = pq.read_table(shared_data / STREAMS[name][0])
    table = table.slice(max(0, min(table.num_rows // 3, table.num_rows - ITEMS)), ITEMS)
    pq.write_table(table, tmp_path / "items.parquet", row_group_size=max(1, table.num_rows // 4))
    items = table.to_pandas()
    kinds = {"f": "float64", "i": "int64"}  # as ours are read
    items = items.astype({column: kinds.get(items[column].dtype.kind, object) for column in items})
    rng = np.random.default_rng(2)
    asked = {
        f"q{number}": (_select if number % 2 else _aggregate)(rng, items, name)
        for number in range(SUBSCRIPTIONS)
    }
    with Engine(spark, tmp_path / "out") as engine:
        engine.stream(name, "parquet", path=str(tmp_path / "items.parquet"), time="time_us")
        engine.subscribe_many({subscription: query.text for subscription, query in asked.items()})
        engine.run_once()
        found = {subscription: engine.results(subscription).to_pylist() for subscription in asked}
    rows = 0
    for subscription, query in asked.items():
        wanted = query.answer(items)
        rows += len(wanted)
        assert len(found[subscription]) == len(wanted), query.text
        for left, right in zip(found[subscription], wanted, strict=True):
            assert left.keys() == right.keys(), query.text
            assert all(_same(left[key], right[key]) for key in right), (query.text, left, right)
    assert rows > 1000
