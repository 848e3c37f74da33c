"""Control on its way to a running stream: numbered files, which Spark's own file source lists.

    catalog's log --> control/<branch>/000000000003-000000000007.arrow --> route --> order
                      (entries 4 to 7 of the log)

Spark writes the names of the files of a batch to its log before the batch runs, so a replay sees the same
control at the same place. Files of one batch come in any order; their senders are numbered by the version of
the log, and order takes no version twice. Spark deletes a file when its batch is done.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from anabranch.catalog.catalog import Catalog
from anabranch.chain.control import control_packets
from anabranch.chain.packets import ORDER, Kind, Packet
from anabranch.chain.stages import CONTROL, Inbox
from anabranch.model.branch import Branch
from anabranch.model.files import written_atomically
from anabranch.spark.rows import DDL, FILE_NAMES, SCHEMA, columns_of, local_path, record_batch, zone_key

#: Spark ignores files that are much older than the newest; ours wait for as long as a job is stopped.
_MAX_AGE = "36500d"


class ControlFiles:
    """Writes what is new in the log of a branch. May be used from several threads."""

    def __init__(self, folder: Path, catalog: Catalog, branch: Branch) -> None:
        self.folder, self.catalog, self.branch = folder, catalog, branch
        self._lock = threading.Lock()
        self._marker = folder / ".written"
        folder.mkdir(parents=True, exist_ok=True)
        marked = int(self._marker.read_text()) if self._marker.exists() else 0
        self._written = max([marked, *(int(path.stem.partition("-")[2]) for path in folder.glob("*.arrow"))])

    def write(self) -> None:
        """Writes a file if there is something new."""
        with self._lock:
            families, before = self.branch.logged, self._written
            version = self.catalog.version(self.branch.stream, families)
            if version <= before:
                return
            controls = self.catalog.log(self.branch.stream, families, before, version)
            self._write(f"{before:012d}-{version:012d}", version, control_packets(controls, version))
            self._written = version
            with written_atomically(self._marker) as file:
                file.write_text(str(version))

    def wake(self, batch: int) -> None:
        """Makes a batch run after this one: its back packets wait for it."""
        with self._lock:
            name = f"wake.{batch:012d}-{self._written:012d}"
            self._write(name, self._written, [Packet(ORDER, 0, Kind.WAKE)])

    def _write(self, name: str, version: int, packets: Sequence[Packet]) -> None:
        sent = [((CONTROL, version, count), packet) for count, packet in enumerate(packets)]
        write_control(self.folder / f"{name}.arrow", sent)


def write_control(path: Path, packets: Inbox) -> None:
    """Writes a control file. How many partitions there are is known only when it is read."""
    with written_atomically(path) as file, pa.ipc.new_file(file, SCHEMA) as out:
        out.write_batch(record_batch(columns_of(packets, 1)))


def control_rows(spark: SparkSession, folder: Path, partitions: int) -> DataFrame:
    """The rows of the packets in control files, as a stream."""
    reader = spark.readStream.format("binaryFile").schema(FILE_NAMES)
    reader = reader.option("pathGlobFilter", "*.arrow").option("maxFileAge", _MAX_AGE)
    names = reader.option("cleanSource", "delete").load(str(folder)).select("path")
    return names.mapInArrow(partial(_read, zone_key(0, partitions)), DDL)


def _read(key: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All of it is for order, whose only zone has this key."""
    for batch in batches:
        for path in batch.column("path").to_pylist():
            with pa.ipc.open_file(local_path(path)) as reader:
                for index in range(reader.num_record_batches):
                    rows = reader.get_batch(index)
                    yield rows.set_column(0, SCHEMA.field("key"), pa.array([key] * rows.num_rows, pa.int32()))
