"""One Structured Streaming query per stream and family: source and control, route, order, the stages of the
family, deliver.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from anabranch.chain.order import Order
from anabranch.chain.stages import Stage
from anabranch.families.base import Family
from anabranch.model.job import StreamDeclaration
from anabranch.model.stream import Stream
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest
from anabranch.spark.control import FORMAT, ControlSource
from anabranch.spark.deliver import Destination, deliver
from anabranch.spark.operator import StageOperator
from anabranch.spark.rows import DDL, clear_parcels
from anabranch.spark.session import shuffled
from anabranch.spark.sources import packets


def start(
    spark: SparkSession,
    declaration: StreamDeclaration,
    schema: StructType,
    stream: Stream,
    family: Family,
    to: Destination,
    zones: int,
    partitions: int,
    trigger_s: float = 0.0,
    after: Callable[[Manifest], None] = lambda manifest: None,
) -> StreamingQuery:
    """Starts the query of one family on one stream; its checkpoint decides where it goes on. Zones and
    partitions must be those that it began with.
    """
    chain = family.chain(stream, zones)
    folder = to.layout.parcels(stream.name, family.name)
    clear_parcels(folder)
    parcels = str(folder.absolute())
    rows = packets(spark, declaration, schema, stream, partitions, parcels).unionAll(
        _control(spark, stream, family, to.layout, partitions)
    )
    query = uuid.uuid4().hex
    for stages in _operators([Order(stream, chain), *chain.stages]):
        operator = StageOperator(query, family.name, stages, partitions, parcels)
        rows = rows.groupBy(F.col("key")).transformWithStateInPandas(operator, DDL, "Append", "None")
    writer = (
        rows.writeStream.queryName(f"{stream.name}.{family.name}.{query[:8]}")
        .option("checkpointLocation", str(to.layout.checkpoint(stream.name, family.name)))
        .foreachBatch(deliver(to, len(chain.stages), after))
    )
    with shuffled(spark, partitions):
        return writer.trigger(processingTime=f"{trigger_s} seconds").start()


def _operators(stages: Sequence[Stage]) -> list[dict[int, Stage]]:
    """The stages of each operator, by depth. A chain with one zone is one operator: each adds a
    shuffle, a Python process and a commit of its state to every batch.
    """
    by_depth = dict(enumerate(stages))
    if all(stage.zones == 1 for stage in stages):
        return [by_depth]
    return [{depth: stage} for depth, stage in by_depth.items()]


def _control(
    spark: SparkSession, stream: Stream, family: Family, layout: Layout, partitions: int
) -> DataFrame:
    spark.dataSource.register(ControlSource)
    options = {
        "root": str(layout.root),
        "stream": stream.name,
        "family": family.name,
        "partitions": str(partitions),
    }
    return spark.readStream.format(FORMAT).options(**options).load()
