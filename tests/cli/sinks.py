"""A sink as a job leaves it, made without Spark: a catalog, two batches of results, dead letters."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.registration import bind_subscription
from anabranch.chain.items import DEAD_LETTERS as SCHEMA
from anabranch.model.subscription import Subscription
from anabranch.results.deliveries import Deliveries
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest
from tests.catalog.streams import declaration, photons

VELA = "SELECT ra, name AS star FROM photons WHERE en > 1.3"
ALL = "SELECT det_time, ra FROM photons"


def make_sink(root: Path) -> Layout:
    """vela has the items 0 and 2, all has 0, 1 and 2; one item was late, one rejected."""
    layout = Layout(root)
    with Catalog(layout.catalog) as catalog:
        settings = {"position": ["ra", "dec"]}
        streams = {"photons": photons(**settings)}
        catalog.register_stream(streams["photons"], declaration(**settings))
        catalog.subscribe_many(
            [bind_subscription(Subscription(n, q), streams) for n, q in (("vela", VELA), ("all", ALL))]
        )
    deliver(layout, 0, [0, 1], [["vela", "all"], ["all"]], dead=[("late", '{"det_time": -1.0}')])
    deliver(layout, 1, [2], [["all", "vela"]], dead=[("malformed", "x,y,z")])
    return layout


def deliver(
    layout: Layout, batch: int, numbers: list[int], names: list[list[str]], dead: list[tuple[str, str]]
) -> None:
    rows = pa.table(
        {
            "#": pa.array(numbers, pa.int64()),
            "subscriptions": pa.array(names, pa.list_(pa.string())),
            "det_time": pa.array([float(number) for number in numbers]),
            "ra": pa.array([120.5 + number if number != 1 else None for number in numbers], pa.float64()),
            "dec": pa.array([-float(number) for number in numbers]),
            "name": pa.array([f'"s", <{number}>' for number in numbers], pa.string()),
        }
    )
    file = _write(layout.results("photons", "select") / f"batch-{batch:012d}-00000.parquet", rows)
    letters = pa.table([list(column) for column in zip(*dead, strict=True)], schema=SCHEMA)
    lost = _write(layout.dead_letters("photons") / "photons" / f"batch-{batch:012d}-00000.parquet", letters)
    books = {"rows_in": 3 * (batch + 1), "processed": 2 + batch, "late": 1, "rejected": batch, "waiting": 0}
    manifest = Manifest(
        batch,
        results={"select": [str(file.relative_to(layout.root))]},
        dead=[str(lost.relative_to(layout.root))],
        books=books,
    )
    Deliveries(layout).commit("photons", manifest)


def _write(path: Path, table: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path
