"""The control source: a streaming source whose offset is a version of the catalog's log.

In: the control log of one (stream, family), and the back packets of the last batch. Out: rows of packets.
Spark writes the offsets of a batch to its log before the batch runs, so a replay sees the same control at the
same place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from anabranch.catalog.catalog import Catalog
from anabranch.chain.control import control_packets
from anabranch.chain.stages import CONTROL
from anabranch.results.deliveries import Deliveries
from anabranch.results.layout import Layout
from anabranch.spark.rows import DDL, columns_of, record_batch

FORMAT = "anabranch_control"


class ControlSource(DataSource):
    """Options: root (the sink's layout), stream, family, partitions."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return DDL

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return ControlReader(dict(self.options))


class Piece(InputPartition):
    def __init__(self, start: dict[str, int], end: dict[str, int]) -> None:
        self.start, self.end = start, end


class ControlReader(DataSourceStreamReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.layout = Layout(Path(options["root"]))
        self.stream, self.family = options["stream"], options["family"]
        self.partition_count = int(options["partitions"])

    def initialOffset(self) -> dict[str, int]:
        return {"version": 0, "back": -1}

    def latestOffset(self, start: dict[str, int], limit: Any = None) -> dict[str, int]:
        deliveries = Deliveries(self.layout)
        batch = deliveries.latest(self.stream, self.family)
        back = start["back"]
        if batch > back:
            manifest = deliveries.manifest(self.stream, self.family, batch)
            if manifest is not None and manifest.back:
                back = batch
        return {
            "version": max(start["version"], self._version()),
            "back": back,
        }

    def _version(self) -> int:
        with Catalog(self.layout.catalog) as catalog:
            return catalog.version(self.stream, self.family)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [Piece(start, end)] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        start, end = partition.start, partition.end
        if end["back"] > start["back"]:
            yield from self._back_packets(end["back"])
        with Catalog(self.layout.catalog) as catalog:
            controls = catalog.log(self.stream, self.family, start["version"], end["version"])
        packets = [((CONTROL, 0, count), packet) for count, packet in enumerate(control_packets(controls))]
        if packets:
            yield record_batch(columns_of(packets, self.partition_count))

    def _back_packets(self, batch: int) -> Iterator[pa.RecordBatch]:
        manifest = Deliveries(self.layout).manifest(self.stream, self.family, batch)
        for file in manifest.back if manifest else ():
            with pa.ipc.open_file(self.layout.root / file) as reader:
                for index in range(reader.num_record_batches):
                    yield reader.get_batch(index)
