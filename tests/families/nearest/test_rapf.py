"""RAPF beside RA, which looks at every item: batches so long that they have many stretches and blocks."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from anabranch.chain.runner import Runner
from anabranch.families.registry import family
from anabranch.simulate.dzalaps.workload import Workload, uniform


def rows(work: Workload, k: int, window: int, method: str, batch: int) -> pa.Table:
    """All results, the rows of a subscription in their order."""
    runner = Runner(work.stream, family("nearest"))
    for first in range(0, len(work.items), batch):
        runner.batch(
            work.rows(first, first + batch), work.activations(k, window, method) if first == 0 else ()
        )
    parts = [part for batches in runner.tables["nearest"].values() for part in batches]
    table = pa.Table.from_batches(parts).unify_dictionaries()
    return table.select(["subscription", "at", "op", "id", "distance"])


@pytest.mark.parametrize(
    ("window", "batch"), [(1_000, 5_000), (10_000, 5_000), (4_000, 17_000), (30_000, 700)]
)
def test_rapf_gives_what_ra_gives(window: int, batch: int) -> None:
    plain = uniform(34_000, 12, seed=window)
    ties = replace(plain, items=(plain.items * 8).round() / 8, queries=(plain.queries * 8).round() / 8)
    for work in (plain, ties):
        found, exact = (rows(work, 5, window, method, batch) for method in ("RAPF", "RA"))
        for name in ("q0", "q7", "q11"):
            mine, true = (table.filter(pc.equal(table["subscription"], name)) for table in (found, exact))
            assert mine.equals(true)
        assert found.num_rows == exact.num_rows
