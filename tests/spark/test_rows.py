"""Keys that put zones where we want them: our hash must be Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from anabranch.spark.rows import murmur3, zone_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_hash_is_sparks(spark: SparkSession) -> None:
    numbers = [0, 1, 2, 7, 1000, 2**31 - 1, -1, -(2**31)]
    rows = spark.createDataFrame([(n,) for n in numbers], "n int").selectExpr("n", "hash(n) AS h").collect()
    assert {row.n: row.h for row in rows} == {n: murmur3(n) for n in numbers}


@pytest.mark.parametrize("partitions", [1, 2, 3, 8])
def test_zones_are_spread_evenly(partitions: int) -> None:
    keys = [zone_key(zone, partitions) for zone in range(40)]
    assert len(set(keys)) == 40
    assert [murmur3(key) % partitions for key in keys] == [zone % partitions for zone in range(40)]
