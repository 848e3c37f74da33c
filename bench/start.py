"""How long a short job takes: `python -m bench.start`.

A job with one selection over 3,000 rows, run with `--once`, beside a Spark job that reads, filters and writes
the same parquet with Spark's defaults. Each is a command of its own; all its processes are counted.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import Report
from bench.processes import Spent, spent

ROWS = 3_000
PLAIN = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.read.parquet(sys.argv[1]).filter("en > 1.3").select("ra", "dec", "en").write.parquet(sys.argv[2])
spark.stop()
"""
STREAM = """
[stream.photons]
source = { format = "parquet", path = "photons/*.parquet" }
time = "det_time"
position = ["ra", "dec"]
object = "phc"
bounds = [[0, 360], [-90, 90]]

[sink]
format = "parquet"
path = "out"
"""
SELECTION = "SELECT ra, dec, en FROM photons WHERE en > 1.3"


def subscription(name: str, query: str) -> str:
    return f'\n[[subscription]]\nname = "{name}"\nquery = "{query}"\n'


def four_kinds(count: int) -> list[str]:
    """Subscriptions of every kind, `count` in all, most of them selections."""
    queries = [
        "SELECT avg(en) AS e, count(*) AS n FROM photons WINDOW RANGE 60 STEP 20",
        "SELECT NEAREST 3 TO (100, 0) BY (ra, dec) FROM photons WINDOW RANGE 500",
        "SELECT CLUSTERS WITHIN 5 MIN 3 BY (ra, dec) FROM photons WINDOW ROWS 500 STEP 250",
        "SELECT OBJECTS WITHIN 10 OF (100, 0) FROM photons",
    ]
    more = count - len(queries)
    return queries + [f"SELECT ra, en FROM photons WHERE en > {1 + n / more:.5f}" for n in range(more)]


def write_photons(folder: Path) -> None:
    random = np.random.default_rng(7)
    columns = {
        "det_time": np.sort(random.random(ROWS) * 1000),
        "ra": random.random(ROWS) * 360,
        "dec": random.random(ROWS) * 180 - 90,
        "en": random.exponential(1.0, ROWS),
        "phc": random.integers(0, 100, ROWS),
    }
    (folder / "photons").mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "photons" / "0.parquet")


class Runs:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_photons(folder)
        (folder / "plain.py").write_text(PLAIN)
        (folder / "job.toml").write_text(STREAM + subscription("hot", SELECTION))
        kinds = [subscription(f"q{number}", query) for number, query in enumerate(four_kinds(1000))]
        (folder / "kinds.toml").write_text(STREAM + "".join(kinds))

    def plain(self) -> Spent:
        shutil.rmtree(self.folder / "plain", ignore_errors=True)
        return spent([sys.executable, "plain.py", "photons", "plain"], self.folder)

    def ours(self, job: str) -> Spent:
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        return spent([sys.executable, "-m", "anabranch", "run", job, "--once"], self.folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    options = parser.parse_args()
    report = Report("a short job")
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder))
        runs.ours("job.toml")  # once per machine: the class archive and the compiled kernels
        taken: dict[str, list[Spent]] = {"Spark alone": [], "one selection": [], "four kinds": []}
        for _ in range(options.rounds):
            taken["Spark alone"].append(runs.plain())
            taken["one selection"].append(runs.ours("job.toml"))
            taken["four kinds"].append(runs.ours("kinds.toml"))
            print({name: each[-1] for name, each in taken.items()}, file=sys.stderr, flush=True)
    cpu = {name: min(one.cpu_s for one in each) for name, each in taken.items()}
    clock = {name: min(one.clock_s for one in each) for name, each in taken.items()}
    for name in taken:
        report.figure(f"{name}: CPU seconds", cpu[name])
        report.figure(f"{name}: seconds", clock[name])
    report.ratio(
        "CPU of one selection over 3,000 rows, of Spark's own job",
        cpu["one selection"] / cpu["Spark alone"],
        at_most=1.3,
    )
    report.ratio("the same by the clock", clock["one selection"] / clock["Spark alone"], at_most=1.3)
    report.ratio(
        "1,000 subscriptions of every kind to their end, of Spark's own job, by the clock",
        clock["four kinds"] / clock["Spark alone"],
        at_most=1.6,
    )
    report.show(options.json)


if __name__ == "__main__":
    main()
