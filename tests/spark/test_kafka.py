"""Kafka as source and sink, against a real broker."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anabranch.model.job import Sink
from anabranch.spark.engine import Engine
from anabranch.spark.producer import Producers
from tests.cli.sinks import make_sink
from tests.sending.deliveries import batch, progress, sending, subscribe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def produce(spark: SparkSession, kafka: str, topic: str, values: list[str]) -> None:
    frame = spark.createDataFrame([(value,) for value in values], "value string").coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", kafka).option("topic", topic).save()


def consume(spark: SparkSession, kafka: str, topic: str) -> list[tuple[str, dict, bytes]]:
    reader = (
        spark.read.format("kafka").option("kafka.bootstrap.servers", kafka).option("includeHeaders", "true")
    )
    rows = (
        reader.option("subscribe", topic)
        .load()
        .selectExpr("cast(key AS string) k", "cast(value AS string) v", "headers")
        .collect()
    )
    return [(row.k, json.loads(row.v), row.headers[0].value) for row in rows]


def test_from_topic_to_topic(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    rows = [{"t": n, "v": n / 4} for n in range(50)]
    produce(spark, kafka, "in", [*map(json.dumps, rows), "{broken", '{"v": 1}'])
    sink = Sink("kafka", {"bootstrap": kafka, "topic": "out"})
    with Engine(spark, tmp_path / "out", sink) as engine:
        engine.stream("s", "kafka", bootstrap=kafka, topic="in", schema="t long, v double", time="t")
        engine.subscribe("high", "SELECT t, v AS value FROM s WHERE v >= 10")
        engine.subscribe("one", "SELECT t FROM s WHERE t = 44")
        engine.start()
        engine.drain()
        produce(spark, kafka, "in", [json.dumps({"t": 60, "v": 11.5})])
        engine.run_once()
    expected = [{"t": row["t"], "value": row["v"]} for row in [*rows, {"t": 60, "v": 11.5}] if row["v"] >= 10]
    assert engine.results("high").to_pylist() == expected
    books = engine.deliveries.books("s")
    assert books["rows_in"] == 53 == books["processed"] + books["late"] + books["rejected"]
    assert books["rejected"] == 2
    contents = [row["content"] for table in engine.deliveries.dead_letters("s") for row in table.to_pylist()]
    assert "{broken" in contents

    sent = consume(spark, kafka, "out")
    mine = sorted(
        ({k: v for k, v in value.items() if k in ("t", "value")} for key, value, _ in sent if key == "high"),
        key=lambda r: r["t"],
    )
    assert mine == expected
    assert [value["t"] for key, value, _ in sent if key == "one"] == [44]
    identities = [identity for _, _, identity in sent]
    assert len(set(identities)) == len(identities) == len(expected) + 1


def test_a_subscription_sent_to_a_topic(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """By the sender beside a job: a message a row, in order; servers that are away are said."""
    layout = make_sink(tmp_path / "out")
    high, lost = (
        subscribe(layout, "high", f"kafka:sent@{kafka}"),
        subscribe(layout, "lost", "kafka:sent@127.0.0.1:1"),
    )
    wanted = batch(layout, 2, ["high", "lost"], rows=600) + batch(layout, 3, ["high"])
    producers = Producers(spark)
    with sending(layout, produce=producers.send, patience_s=0):
        until = time.monotonic() + 60
        while progress(layout, high)["sent"] < 603 or progress(layout, lost)["error"] is None:
            assert time.monotonic() < until, (progress(layout, high), progress(layout, lost))
            time.sleep(0.1)
    producers.close()
    sent = consume(spark, kafka, "sent")
    assert [(key, value) for key, value, _ in sent] == [("high", row) for row in wanted]
    assert len({identity for _, _, identity in sent}) == 603
    assert (progress(layout, high)["error"], progress(layout, lost)["sent"]) == (None, 0)
    assert "TimeoutException" in progress(layout, lost)["error"]
