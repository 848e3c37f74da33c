"""The tour: four generated streams, queries of every kind, the service beside them.

It writes a job file that people can read and run again, runs it, and shows a few results of each kind. The
job is an ordinary one: nothing here can do what a job file cannot.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from anabranch.spark.engine import Engine
    from anabranch.spark.run import Beside

SELECTIONS = 280

JOB = """# The tour's job; run it yourself: anabranch serve {path}
[stream.photons]              # X-ray photons over the sky, a third from a supernova remnant in Vela
source = {{ format = "generator", name = "photons", rate = 20000 }}
time = "det_time"
position = ["ra", "dec"]

[stream.sensors]              # 400 sites that measure the air
source = {{ format = "generator", name = "sensors", rate = 400 }}
time = "time"
id = "site"
position = ["no2", "so2", "pm10", "o3"]
bounds = [[0, 200], [0, 120], [0, 150], [0, 250]]

[stream.targets]              # vehicles in convoys that meet and part
source = {{ format = "generator", name = "targets", rate = 1000 }}
time = "time"
id = "target"
position = ["latitude", "longitude"]

[stream.flights]              # aircraft around Paris
source = {{ format = "generator", name = "flights", rate = 1000 }}
time = "time"
object = "icao24"
position = ["longitude", "latitude"]
metric = "haversine"
tick = 5
expire = 60
bounds = [[1.0, 4.0], [47.5, 50.0]]
regions = [3, 3]

[engine]
trigger = 2

[sink]
format = "parquet"
path = "out"
"""

#: What the end of the tour shows, in this order: name -> (query, what it asks).
SHOWN: dict[str, tuple[str, str]] = {
    "vela_hot": (
        "SELECT ra, dec, en FROM photons WHERE ra BETWEEN 120 AND 138 AND dec BETWEEN -49 AND -40 "
        "AND en >= 1.3",
        "photons of high energy from the remnant",
    ),
    "vela_flux": (
        "SELECT count(*) AS photons, avg(en) AS mean FROM photons WHERE ra BETWEEN 120 AND 138 "
        "AND dec BETWEEN -49 AND -40 WINDOW RANGE 10 STEP 5",
        "how bright the remnant is",
    ),
    "smog": (
        "SELECT NEAREST 5 TO (60, 10, 50, 150) BY (no2, so2, pm10, o3) FROM sensors WINDOW RANGE 3600",
        "the five readings nearest to summer smog, in the last hour",
    ),
    "convoys": (
        "SELECT CLUSTERS WITHIN 0.01 MIN 10 BY (latitude, longitude) FROM targets WINDOW RANGE 600 STEP 60 "
        "EMIT CHANGES",
        "convoys that form, meet and part",
    ),
    "close": ("SELECT OBJECTS WITHIN 10 OF OBJECT '390001' FROM flights", "aircraft within 10 km of another"),
    "three": ("SELECT NEAREST 3 OBJECTS TO OBJECT '390001' FROM flights", "the three nearest to it"),
}


def tour_queries(selections: int = SELECTIONS) -> dict[str, str]:
    """Some of every kind; windows onto the sky, some inside others, make up the number."""
    queries = {name: query for name, (query, _) in SHOWN.items()}
    queries |= {
        "vela": "SELECT ra, dec, en FROM photons WHERE ra BETWEEN 120 AND 138 AND dec BETWEEN -49 AND -40",
        "hot": "SELECT det_time, en FROM photons WHERE en > 20",
        "odd": "SELECT * FROM photons WHERE phc < 10 OR NOT (phc <= 4085)",
        "traffic": "SELECT NEAREST 10 TO (120, 10, 80, 40) BY (no2, so2, pm10, o3) FROM sensors "
        "WINDOW RANGE 3600",
        "smelter": "SELECT NEAREST 10 TO (40, 80, 70, 60) BY (no2, so2, pm10, o3) FROM sensors "
        "WINDOW ROWS 4000",
        "formations": "SELECT CLUSTERS WITHIN 0.05 MIN 20 BY (latitude, longitude) FROM targets "
        "WINDOW RANGE 600 STEP 300 EMIT SUMMARY",
        "members": "SELECT CLUSTERS WITHIN 0.02 MIN 15 BY (latitude, longitude) FROM targets "
        "WINDOW RANGE 300 STEP 300 EMIT MEMBERS",
        "airport": "SELECT count(*) WITHIN 15 OF (2.55, 49.01) FROM flights WHERE altitude < 3000",
        "paris": "SELECT OBJECTS IN BOX 60 BY 40 AROUND (2.35, 48.85) FROM flights",
    }
    for seconds in (1, 2, 5, 10, 30, 60):
        for function in ("min", "max", "avg"):
            queries[f"en_{function}_{seconds}s"] = (
                f"SELECT {function}(en) FROM photons WHERE en >= 0.5 WINDOW RANGE {seconds}"
            )
    rng = np.random.default_rng(3)
    for number in range(selections):
        ra, dec = rng.uniform(0, 350), rng.uniform(-80, 70)
        width = rng.uniform(2, 10)
        queries[f"sky_{number:03d}"] = (
            f"SELECT det_time, ra, dec, en FROM photons WHERE ra BETWEEN {ra:.2f} AND {ra + width:.2f} "
            f"AND dec BETWEEN {dec:.2f} AND {dec + width:.2f} AND en >= {rng.uniform(0.1, 1):.2f}"
        )
    return queries


def run_tour(seconds: float, folder: Path, beside: Beside) -> None:
    from anabranch.job.job_file import load_job
    from anabranch.spark.run import run_job

    console = Console()
    shutil.rmtree(folder / "out", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    file, queries = folder / "job.toml", tour_queries()
    subscriptions = "\n".join(
        f'[[subscription]]\nname = "{name}"\nquery = "{text}"\n' for name, text in queries.items()
    )
    file.write_text(JOB.format(path=file) + "\n" + subscriptions)
    console.print(
        f"Photons, sensors, convoys and aircraft: 4 streams, {len(queries)} subscriptions, "
        f"{seconds:g} seconds from when every kind of query has answered (half a minute or more)."
    )
    unanswered = set(SHOWN)

    def missing(engine: Engine) -> list[str]:
        unanswered.difference_update([name for name in unanswered if engine.count(name)])
        return [f"the first answer of {name}" for name in SHOWN if name in unanswered]

    run_job(load_job(file), seconds=seconds, beside=beside, missing=missing)
    _show(console, folder)


def _show(console: Console, folder: Path) -> None:
    """Shows the last result of a few queries, and how to see more."""
    from anabranch.cli.local import LocalJob

    table = Table("subscription", "what it asks", "results", "one of them", title="A few of the results")
    with LocalJob(str(folder / "out")) as job:
        for name, (_, meaning) in SHOWN.items():
            _, [(_, parts)] = job.results(name)
            tables = [part for part in parts if part.num_rows]
            rows = tables[-1].slice(tables[-1].num_rows - 1).to_pylist() if tables else []
            last = ", ".join(f"{key} {_short(value)}" for row in rows for key, value in row.items())
            table.add_row(name, meaning, f"{sum(part.num_rows for part in tables):,}", last)
    console.print(table)
    for command in (
        f"anabranch results {folder / 'out'} convoys",
        f"anabranch explain {folder / 'job.toml'}",
        f"anabranch serve {folder / 'job.toml'}      # on and on, with the dashboard",
    ):
        console.print(f"More:  {command}", soft_wrap=True)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
