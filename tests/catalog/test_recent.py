"""Files that were read lately are not read again, and what is kept is bounded."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.catalog.recent import Recent


def write(path: Path, count: int) -> Path:
    pq.write_table(pa.table({"n": pa.array(range(count), pa.int64())}), path)
    return path


def test_kept_up_to_a_bound(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{n}.parquet", 100) for n in range(6)]  # a little more than 800 bytes each
    recent = Recent(2_500)
    tables = [recent.table(file) for file in files]
    assert recent.bytes() == sum(table.nbytes for table in tables[3:])
    assert recent.table(files[3]) is tables[3]
    recent.table(files[0])
    assert recent.table(files[3]) is tables[3]  # used lately, so another had to go
    assert recent.table(files[4]) is not tables[4]
    assert recent.table(files[1]).equals(tables[1])
    assert recent.bytes() <= 2_500


def test_large_ones_and_none(tmp_path: Path) -> None:
    large = write(tmp_path / "large.parquet", 1_000)
    for recent in (Recent(15_000), Recent(0)):
        assert recent.table(large).num_rows == recent.table(large).num_rows == 1_000
        assert recent.bytes() == 0
