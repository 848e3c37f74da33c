"""examples/convoys, without Spark: its queries on the generator's reports, and the events in them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pyarrow as pa

from anabranch.catalog.registration import bind_subscription
from anabranch.chain.items import arrow_schema
from anabranch.job.generated_streams import targets
from anabranch.job.job_file import load_job
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from tests.laws.case import Asked, Case, run_local

FOLDER = Path(__file__).parents[3] / "examples" / "convoys"
COLUMNS = {
    "time": ColumnType.FLOAT,
    "target": ColumnType.INT,
    "latitude": ColumnType.FLOAT,
    "longitude": ColumnType.FLOAT,
}


def _story() -> ModuleType:
    spec = importlib.util.spec_from_file_location("story", FOLDER / "story.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_convoys_unite_and_split() -> None:
    job = load_job(FOLDER / "job.toml")
    stream = Stream("targets", tuple(Column(*pair) for pair in COLUMNS.items()), time="time", id="target")
    bindings = [bind_subscription(subscription, {"targets": stream}) for subscription in job.subscriptions]
    items = pa.record_batch(targets(0, 12_000), schema=arrow_schema(stream))
    queries = tuple(Asked(each.name, each.spec) for each in bindings)
    results = run_local(Case(stream, items, queries, "clusters"), cuts=[5000]).results
    assert all(results[each.name] for each in job.subscriptions)
    events = _story().told(results["convoys"])
    living: set[int] = set()
    for at in sorted({row["window_end"] for row in results["overview"]}):
        for event, change, cluster, _, _ in events:
            if event == at:
                (living.add if change in ("birth", "split") else living.remove)(cluster)
        here = [row for row in results["overview"] if row["window_end"] == at]
        assert len(living) == sum(row["cluster"] is not None for row in here)
    kinds = [change for _, change, *_ in events]
    assert kinds.count("union") > 3
    assert kinds.count("split") > 3
