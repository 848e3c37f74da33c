"""The four laws on Spark, for a drawn case of every customer (ANABRANCH_LAWS_ON_SPARK: more of them); the
local runner does the many. Zones that can share their work do so after every batch.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from anabranch.chain.balance import HURRY
from anabranch.families.registry import family
from tests.laws.test_laws import CUSTOMERS, books_balance, same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: One zone is one operator, several are one a stage; those that share their work need several.
SHARING = ("clusters", "moving", "nearest")
ZONES = dict.fromkeys(SHARING, st.integers(2, 3)) | {"select": st.just(1), "aggregate": st.just(1)}


@pytest.fixture(autouse=True)
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SHARING:
        monkeypatch.setattr(family(name), "patience", HURRY)


@pytest.mark.parametrize("name", CUSTOMERS)
@settings(
    max_examples=int(os.environ.get("ANABRANCH_LAWS_ON_SPARK", "1")),
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_spark_equals_the_oracle(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    from tests.laws.on_spark import run_on_spark

    customer = CUSTOMERS[name]
    case = data.draw(customer.cases.filter(lambda case: case.items.num_rows >= 6))
    cuts = data.draw(st.lists(st.integers(1, case.items.num_rows - 1), min_size=1, max_size=3), label="cuts")
    zones = data.draw(ZONES.get(name, st.integers(1, 3)), label="zones")
    stops = data.draw(st.lists(st.integers(0, 2), max_size=1), label="stops")
    folder: Path = tmp_path_factory.mktemp(name)
    outcome = run_on_spark(spark, folder, case, cuts, zones, stops)
    same(customer, outcome.results, customer.oracle(case))
    books_balance(outcome, case.items.num_rows)
