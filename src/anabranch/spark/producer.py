"""Messages to Kafka from the driver, by the client that comes with Spark's connector.

In: servers, a topic and messages. Out: nothing once the servers have acknowledged all of them; RunError where
they have not. Never: a Spark job; the executors have the stream to work on.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from anabranch.model.errors import RunError

#: How long a server that is away is waited for.
BLOCK_MS, DELIVERY_MS = 5_000, 10_000


class Producers:
    """One producer for each set of servers. May be used from several threads."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._made: dict[str, Any] = {}
        self._lock = threading.Lock()

    def send(self, servers: str, topic: str, messages: Sequence[tuple[str, str, str]]) -> None:
        """Messages are key, value, id; the id is a header."""
        try:
            producer = self._producer(servers)
            producer.partitionsFor(topic)  # where servers are away, every send would wait for them in turn
            record = self._jvm.org.apache.kafka.clients.producer.ProducerRecord
            waiting = []
            for key, value, id in messages:
                made = record(topic, key, value)
                made.headers().add("id", id.encode())
                waiting.append(producer.send(made))
            for answer in waiting:
                answer.get()
        except Py4JJavaError as error:
            raise RunError(_reason(error.java_exception)) from None
        except Py4JError as error:
            raise RunError(str(error)) from None

    def close(self) -> None:
        with self._lock:
            for producer in self._made.values():
                producer.close(self._jvm.java.time.Duration.ofSeconds(1))
            self._made = {}

    def _producer(self, servers: str) -> Any:
        with self._lock:
            if servers not in self._made:
                client = self._jvm.org.apache.kafka.clients.producer.KafkaProducer
                if isinstance(client, JavaPackage):
                    raise RunError("this job has no Kafka client: give it one (docs/kafka.md)")
                settings = self._jvm.java.util.HashMap()
                settings.put("bootstrap.servers", servers)
                settings.put("max.block.ms", str(BLOCK_MS))
                settings.put("delivery.timeout.ms", str(DELIVERY_MS))
                settings.put("request.timeout.ms", str(BLOCK_MS))
                text = self._jvm.org.apache.kafka.common.serialization.StringSerializer
                self._made[servers] = client(settings, text(), text())
            return self._made[servers]


def _reason(error: Any) -> str:
    """`TimeoutException: Topic x not present in metadata after 5000 ms.`"""
    while error.getCause() is not None:
        error = error.getCause()
    return f"{error.getClass().getSimpleName()}: {error.getMessage()}"
