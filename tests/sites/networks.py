"""A network of three sites in a row, with a stream of photons at the first."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.job.source_files import SourceFiles
from anabranch.model.columns import Column
from anabranch.model.job import StreamDeclaration

NETWORK = """
[site.plant]
path = "sites/plant"
[site.hub]
[site.office]
capacity = 2
[[link]]
between = ["plant", "hub"]
bandwidth = 1000000
[[link]]
between = ["hub", "office"]
bandwidth = 1000000
[stream.photons]
site = "plant"
source = { format = "parquet", path = "photons/*.parquet" }
time = "det_time"
"""


def subscription(name: str, site: str, query: str, more: str = "") -> str:
    return f'[[subscription]]\nname = "{name}"\nsite = "{site}"\nquery = "{query}"\n{more}\n'


def write_network(folder: Path, *subscriptions: str, network: str = NETWORK) -> Path:
    """Writes a network file and the files of its stream: 60 photons, one per second, in two files."""
    photons = folder / "photons"
    photons.mkdir(exist_ok=True)
    for part in range(2):
        times = [float(time) for time in range(30 * part, 30 * part + 30)]
        rows = {
            "det_time": times,
            "ra": [(7 * time) % 360 for time in times],
            "dec": [(11 * time) % 90 for time in times],
            "en": [(time * 13 % 50) / 10 for time in times],
        }
        pq.write_table(pa.table(rows), photons / f"{part}.parquet")
    path = folder / "network.toml"
    path.write_text(network + "".join(subscriptions))
    return path


def columns_of(declaration: StreamDeclaration) -> tuple[Column, ...]:
    return SourceFiles(declaration).columns()
