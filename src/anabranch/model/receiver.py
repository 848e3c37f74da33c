"""Receivers: where the results of a subscription are sent besides being kept.

https://example.org/hook            a webhook: one request for some rows
kafka:photons@broker:9092           a Kafka topic: one message per row
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from anabranch.model.errors import JobError

MAX_ADDRESS = 2_000
_TOPIC = re.compile(r"kafka:([A-Za-z0-9._-]{1,249})@([^\s,:@/]+:[0-9]{1,5}(?:,[^\s,:@/]+:[0-9]{1,5})*)")


@dataclass(frozen=True)
class Webhook:
    url: str

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class Topic:
    name: str
    servers: str

    def __str__(self) -> str:
        return f"kafka:{self.name}@{self.servers}"


def receiver_of(text: str) -> Webhook | Topic:
    """Returns the receiver with this address; JobError where it is none."""
    topic = _TOPIC.fullmatch(text)
    if topic and len(text) <= MAX_ADDRESS:
        return Topic(topic[1], topic[2])
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    plain = text.isascii() and text.isprintable() and " " not in text and len(text) <= MAX_ADDRESS
    if not host or not plain or parts.scheme not in ("http", "https"):
        raise JobError(
            f"results cannot be sent to {text[:100]!r}; give an address such as https://example.org/hook or "
            "kafka:topic@broker:9092"
        )
    if "@" in parts.netloc or parts.fragment:
        raise JobError(f"results cannot be sent to {text[:100]!r}: it must have no user, password or #")
    return Webhook(text)
