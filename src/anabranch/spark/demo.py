"""`anabranch demo`: the main job on local Spark, on a generated stream, with some hundred subscriptions."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from anabranch.catalog.job import load_job
from anabranch.catalog.layout import layout_for
from anabranch.families.registry import family as family_of
from anabranch.spark.run import run_job

RATE = 20_000
SUBSCRIPTIONS = 300

_HEAD = """# The demonstration's job; run it yourself: anabranch run {path}
[stream.photons]
source = {{ format = "generator", name = "photons", rate = {rate} }}
time = "det_time"
position = ["ra", "dec"]

[engine]
trigger = 1

[sink]
format = "parquet"
path = "out"
"""


def demo_queries(count: int = SUBSCRIPTIONS) -> dict[str, str]:
    """A supernova remnant, energies, and windows onto the sky: some inside others, some alone."""
    vela = "SELECT ra, dec, en FROM photons WHERE ra BETWEEN 120 AND 138 AND dec BETWEEN -49 AND -40"
    queries = {
        "vela": vela,
        "vela_hot": f"{vela} AND en >= 1.3",
        "hot": "SELECT det_time, en FROM photons WHERE en > 20",
        "odd": "SELECT * FROM photons WHERE phc < 10 OR NOT (phc <= 4085)",
    }
    rng = np.random.default_rng(3)
    for number in range(count - len(queries)):
        ra, dec = rng.uniform(0, 350), rng.uniform(-80, 70)
        width = rng.uniform(2, 10)
        queries[f"sky_{number:03d}"] = (
            f"SELECT det_time, ra, dec, en FROM photons WHERE ra BETWEEN {ra:.2f} AND {ra + width:.2f} "
            f"AND dec BETWEEN {dec:.2f} AND {dec + width:.2f} AND en >= {rng.uniform(0.1, 1):.2f}"
        )
    return queries


def run_demo(seconds: float = 30, path: Path | None = None) -> None:
    folder = Path(path or "demo").resolve()
    console = Console()
    shutil.rmtree(folder / "out", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "job.toml"
    asked = "\n".join(
        f'[[subscription]]\nname = "{name}"\nquery = "{text}"\n' for name, text in demo_queries().items()
    )
    file.write_text(_HEAD.format(path=file, rate=RATE) + "\n" + asked)
    console.print(
        f"{RATE:,} photons a second, {SUBSCRIPTIONS} subscriptions, {seconds:g} seconds once Spark is up."
    )
    job = load_job(file)
    run_job(job, seconds=seconds)
    _show(console, folder)


def _show(console: Console, folder: Path) -> None:
    """A few results, and how to see more."""
    from anabranch.catalog.catalog import Catalog
    from anabranch.catalog.deliveries import Deliveries

    layout = layout_for(load_job(folder / "job.toml"))
    deliveries, catalog = Deliveries(layout), Catalog.existing(layout.catalog)
    counts = deliveries.counts("photons", "filters", "select")
    table = Table(
        "subscription",
        "results",
        "query",
        title=f"{sum(counts.values()):,} results for {len(counts)} subscriptions",
    )
    queries = demo_queries()
    for name, count in sorted(counts.items(), key=lambda pair: -pair[1])[:5]:
        table.add_row(name, f"{count:,}", queries[name])
    console.print(table)
    filters = family_of("filters")
    name, shown = filters.shown(catalog.stream("photons"), catalog.subscription("vela_hot").spec)
    first = next(deliveries.results("photons", "filters", filters.table(name), "vela_hot", shown), None)
    if first is not None:
        console.print("vela_hot, its first results:")
        for row in first.slice(0, 3).to_pylist():
            console.print(f"  {row}")
    console.print(f"More:  anabranch results {layout.root} vela_hot", soft_wrap=True)
    console.print(f"       anabranch explain {folder / 'job.toml'}", soft_wrap=True)
    console.print(
        f"       anabranch run {folder / 'job.toml'} and, meanwhile, anabranch subscribe {layout.root} mine "
        '"SELECT en FROM photons WHERE en > 50"',
        soft_wrap=True,
    )
