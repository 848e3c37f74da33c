"""A search region that is too small for the last batch of a stream: the answer comes with the back packets,
after the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anabranch.families.moving.spec import KNearest, Moving
from anabranch.results.deliveries import Deliveries
from anabranch.results.layout import Layout
from tests.families.moving.runs import PLANE, rows_of
from tests.laws.case import Asked, Case
from tests.oracles.moving import moving_oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_answer_comes_after_the_end(spark: SparkSession, tmp_path: Path) -> None:
    """The focal object jumps to a town whose objects have long been silent; the tick of that is the last."""
    from tests.laws.on_spark import run_on_spark

    towns = [(0.0, f"{x:g}-{n}", x + 0.1 * n, 0.0) for x in (0.0, 70.0) for n in range(4)]
    rows = [*towns, (0.0, "f", 0.0, 1.0), (1.0, "f", 0.0, 1.0), (2.0, "f", 0.0, 1.0), (3.0, "f", 70.0, 1.0)]
    asked = Asked("q", Moving(KNearest(3), "f").to_json())
    case = Case(PLANE, rows_of(PLANE, rows), (asked,), "moving")
    outcome = run_on_spark(spark, tmp_path, case, cuts=[10, 11], zones=2)
    assert outcome.results == moving_oracle(case)
    deliveries = Deliveries(Layout(tmp_path / "out"))
    after = [batch for batch in deliveries.manifests("units") if batch.books.get("ended")]
    assert after[0].back
    assert not after[0].rows.get("moving")
    assert sum(batch.rows.get("moving", 0) for batch in after) == 6
    assert deliveries.ended("units")
