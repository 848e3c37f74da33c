"""Batches that exist: when a stream has ended, and files that many readers read at the same time."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.results.deliveries import Deliveries, RecentFiles
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest


def write(path: Path, count: int) -> Path:
    pq.write_table(pa.table({"n": pa.array(range(count), pa.int64())}), path)
    return path


def test_kept_up_to_a_bound(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{n}.parquet", 100) for n in range(6)]  # a little more than 800 bytes each
    recent = RecentFiles(2_500)
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
    for recent in (RecentFiles(15_000), RecentFiles(0)):
        assert recent.table(large).num_rows == recent.table(large).num_rows == 1_000
        assert recent.bytes() == 0


def test_a_stream_has_ended_once_no_back_packet_is_under_way(tmp_path: Path) -> None:
    """Results of nearest moving objects may come one batch after the end; a restart goes on until then."""
    deliveries = Deliveries(Layout(tmp_path))
    assert not deliveries.ended("units")
    for batch, back, books, ended in ((0, [], {}, False), (1, ["x"], {"ended": True}, False)):
        deliveries.commit("units", Manifest(batch, back=back, books=books))
        assert deliveries.ended("units") == ended
    deliveries.commit("units", Manifest(2, books={"ended": True}))
    assert deliveries.ended("units")
