"""A job: streams and where they come from, subscriptions, and where the results go.

Plain immutable data with absolute paths; `anabranch.job.job_file` reads it from a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.model.limits import DEFAULT_LIMITS, QueryLimits
from anabranch.model.operators import Operator
from anabranch.model.stream import Time
from anabranch.model.subscription import Subscription

#: Sources that are files below a path, those whose items come as they happen, and all sources.
FILE_FORMATS = ("parquet", "json", "csv", "xml")
LIVE_FORMATS = ("kafka", "rate", "generator")
SOURCE_FORMATS = (*FILE_FORMATS, *LIVE_FORMATS)

SINK_FORMATS = ("parquet", "json", "kafka")

#: Sinks that are files below a path.
FILE_SINKS = ("parquet", "json")

#: How the URL of a catalog in PostgreSQL begins.
CATALOG_SCHEMES = ("postgresql://", "postgres://")


@dataclass(frozen=True)
class Source:
    """Where a stream comes from. `options` are those of Spark's reader of that format, plus

    - files: `path`, absolute or a URL, with or without wildcards;
    - xml: `dtd`, a file that says which element is an item and which elements are in it;
    - kafka: `bootstrap` and `topic`;
    - generator: `name`, and whatever that generator takes.

    `schema` is Spark's DDL (`"a double, b string"`); without it the schema is taken from the files.
    """

    format: str
    options: Mapping[str, Any] = field(default_factory=dict)
    schema: str | None = None

    @property
    def path(self) -> str | None:
        path = self.options.get("path")
        return None if path is None else str(path)


@dataclass(frozen=True)
class StreamDeclaration:
    """A stream as the job declares it. `settings` are those of docs/queries.md, lengths in the units of
    `time` (seconds for a timestamp); what they say about columns is checked once the columns are known.
    `operators` are all that the job has, `limits` are those of the job.
    """

    name: str
    source: Source
    settings: Mapping[str, Any] = field(default_factory=dict)
    operators: tuple[Operator, ...] = ()
    limits: QueryLimits = DEFAULT_LIMITS


@dataclass(frozen=True)
class Sink:
    """Where results go. `options`: `path` for files; `bootstrap`, `topic` and Spark's own for kafka."""

    format: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Path | None:
        path = self.options.get("path")
        return None if path is None else Path(path)


@dataclass(frozen=True)
class EngineSettings:
    """How the job runs; nothing here changes a result. None leaves the choice to the engine."""

    zones: int | None = None
    trigger: Time | None = None  # seconds from the start of a batch to the start of the next
    shuffle_partitions: int | None = None
    max_files_per_batch: int | None = None
    max_bytes_per_batch: int | None = None
    checkpoint: Path | None = None
    catalog: str | None = None  # the URL of a PostgreSQL database; None: a SQLite file below the sink
    spark: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    path: Path
    streams: Mapping[str, StreamDeclaration]
    subscriptions: tuple[Subscription, ...]
    sink: Sink
    engine: EngineSettings = field(default_factory=EngineSettings)
