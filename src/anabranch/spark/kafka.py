"""Kafka as a sink: results that a batch has written to files go on to a topic before the batch is committed.

Every result is sent at least once: a batch that is repeated after a crash sends its results again, with the
same `id` header (stream, batch, file, row), by which a consumer tells repeats. The key is the subscription,
the value a JSON object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest
from anabranch.spark.lines import Subscribers, lines_of

_MESSAGES = "key string, value string, part string, row long"


def forward(
    spark: SparkSession,
    layout: Layout,
    stream: str,
    manifest: Manifest,
    options: Mapping[str, Any],
    subscribers: Subscribers,
) -> None:
    """Sends the results of a batch."""
    for files in manifest.results.values():
        for file in files:
            frame = spark.read.parquet(str(layout.root / file)).coalesce(1)
            messages = frame.mapInArrow(_messages(subscribers, f"{stream}/{file}"), _MESSAGES)
            identity = F.concat_ws(":", "part", F.col("row").cast("string")).cast("binary")
            header = F.struct(F.lit("id").alias("key"), identity.alias("value"))
            (
                messages.select("key", "value", F.array(header).alias("headers"))
                .write.format("kafka")
                .option("kafka.bootstrap.servers", str(options["bootstrap"]))
                .option("topic", str(options["topic"]))
                .option("includeHeaders", "true")
                .save()
            )


def _messages(
    subscribers: Subscribers, part: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def messages(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = 0
        for rows in batches:
            keys, values = [], []
            for name, line in lines_of(rows, subscribers):
                keys.append(name)
                values.append(line)
            numbers = range(count, count + len(keys))
            count += len(keys)
            yield pa.record_batch(
                {"key": keys, "value": values, "part": [part] * len(keys), "row": list(numbers)}
            )

    return messages
