"""One Structured Streaming query a (stream, family): source and control, route, order, the family's stages,
deliver.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.catalog.deliveries import Manifest
from anabranch.catalog.layout import Layout
from anabranch.families.base import Family
from anabranch.model.stream import Stream
from anabranch.spark.control import FORMAT, ControlSource
from anabranch.spark.deliver import Destination, deliver
from anabranch.spark.operator import StageOperator
from anabranch.spark.parcels import clear
from anabranch.spark.route import router
from anabranch.spark.rows import DDL
from anabranch.spark.session import shuffled
from anabranch.zones.order import Order
from anabranch.zones.stage import Stage


def start(
    spark: SparkSession,
    source: DataFrame,
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
    clear(folder)
    parcels = str(folder.absolute())
    rows = source.mapInArrow(router(stream, partitions, parcels), DDL).unionAll(
        _control(spark, stream, family, to.layout, partitions)
    )
    query = uuid.uuid4().hex
    for stages in _operators([Order(stream, chain), *chain.stages]):
        operator = StageOperator(query, stages, partitions, parcels)
        rows = rows.groupBy(F.col("key")).transformWithStateInPandas(operator, DDL, "Append", "None")
    writer = (
        rows.writeStream.queryName(f"{stream.name}.{family.name}.{query[:8]}")
        .option("checkpointLocation", str(to.layout.checkpoint(stream.name, family.name)))
        .foreachBatch(deliver(to, len(chain.stages), after))
    )
    with shuffled(spark, partitions):
        return writer.trigger(processingTime=f"{trigger_s} seconds").start()


def _operators(stages: Sequence[Stage]) -> list[dict[int, Stage]]:
    """The stages of each operator, by place. A chain with one zone is one operator: each costs a batch a
    shuffle, a Python process and a commit of its state.
    """
    by_place = dict(enumerate(stages))
    if all(stage.zones == 1 for stage in stages):
        return [by_place]
    return [{place: stage} for place, stage in by_place.items()]


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
