"""`anabranch translate`"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.cli.conftest import Command

SQL = "SELECT ra FROM photons WHERE en > 1.3"
WXQUERY = """\
<photons>
  { for $p in stream("photons")/photons/photon
    where $p/en > 1.3
    return <photon> { $p/ra } </photon> }
</photons>
"""


def test_both_ways(anabranch: Command, sink: Path, tmp_path: Path) -> None:
    assert anabranch("translate", SQL, "--target", sink).out == WXQUERY
    file = tmp_path / "query.xq"
    file.write_text(f"(: the same :) {WXQUERY}")
    assert anabranch("translate", file, "--target", sink).out == f"{SQL}\n"


def test_of_a_job_that_has_not_run(anabranch: Command, tmp_path: Path) -> None:
    pq.write_table(pa.table({"ra": [1.0], "en": [2.0]}), tmp_path / "in.parquet")
    job = tmp_path / "job.toml"
    source = json.dumps(str(tmp_path / "in.parquet"))
    job.write_text(
        f'[stream.photons]\nsource = {{ format = "parquet", path = {source} }}\n'
        '[sink]\nformat = "parquet"\npath = "out"\n'
    )
    assert anabranch("translate", SQL, "--target", job).out == WXQUERY
    refused = anabranch("translate", "SELECT a FROM trades", "--target", job)
    assert (refused.code, refused.err) == (2, "anabranch: job.toml has no stream trades; it has photons\n")


def test_refused(anabranch: Command, sink: Path, tmp_path: Path) -> None:
    refused = anabranch("translate", "SELECT ra AS r FROM photons", "--target", sink)
    assert (refused.code, refused.out) == (2, "")
    assert "no counterpart in WXQuery: it cannot rename an element" in refused.err
    absent = anabranch("translate", SQL, "--target", tmp_path / "job.toml")
    assert absent.code == 2
    assert "--target" in absent.err
