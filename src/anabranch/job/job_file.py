"""A job file, read and checked. What may stand in it is in settings.py.

The TOML file becomes a Job with absolute paths, or a JobError that says what is wrong, where, and what would
be right. Queries are only looked at later (catalog/registration.py), when the columns of the streams are
known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from anabranch.job.declarations import utc
from anabranch.job.settings import (
    EngineTable,
    FormatTable,
    JobTables,
    OperatorTable,
    SinkTable,
    SourceTable,
    SubscriptionTable,
)
from anabranch.job.sources import absolute, is_url, reads_own_results
from anabranch.model.columns import ColumnType
from anabranch.model.errors import JobError
from anabranch.model.job import EngineSettings, Job, Sink, Source, StreamDeclaration
from anabranch.model.limits import QueryLimits
from anabranch.model.operators import Operator
from anabranch.model.settings_file import SettingsFile
from anabranch.model.subscription import MAX_NAME, Moment, Subscription
from anabranch.model.suggestions import shown

#: Names of streams are names of folders and stand in queries.
_STREAM_NAME = re.compile(r"[^\W\d][\w-]*")


def load_job(path: Path | str) -> Job:
    """Returns the job in a file, checked as far as that is possible without its data."""
    path = Path(path).absolute()
    file = SettingsFile(path, "job file")
    check_stream_names(file)
    tables = file.check(JobTables)
    operators = _operators(file, tables.operators)
    streams = {
        name: StreamDeclaration(
            name,
            source_of(table.source, path.parent),
            table.model_dump(exclude_unset=True, exclude={"source"}),
            operators,
            QueryLimits(**tables.limits.model_dump()),
        )
        for name, table in tables.stream.items()
    }
    subscriptions = subscriptions_of(file, tables.subscription)
    sink = _sink(file, tables.sink)
    _check_sink_apart(file, streams, sink)
    return Job(path, streams, subscriptions, sink, _engine(tables.engine, path.parent))


def check_stream_names(file: SettingsFile) -> None:
    """Refuses a [stream] without a name, and names that cannot be those of folders."""
    tables = file.values.get("stream")
    for name, values in tables.items() if isinstance(tables, dict) else ():
        if name == "source" or not isinstance(values, dict):
            raise file.error(
                ("stream", name),
                f"stream: {name} belongs to a stream with a name: write [stream.photons] instead of [stream]",
            )
        if not _STREAM_NAME.fullmatch(name) or len(name) > MAX_NAME:
            raise file.error(
                ("stream", name),
                f"a stream cannot be called {name!r}: "
                "a name begins with a letter and has only letters, digits, _ and -",
            )


def source_of(table: SourceTable, folder: Path) -> Source:
    """Returns a source, with paths that were relative to a folder."""
    options = _options(table)
    schema = options.pop("schema", None)
    for key in ("path", "dtd"):
        if getattr(table, key) is not None:
            options[key] = absolute(options[key], folder)
    return Source(table.format, options, schema)


def _options(table: FormatTable) -> dict[str, Any]:
    """Returns all but the format; what stands in `options` comes last."""
    values = table.written()
    inner: dict[str, Any] = values.pop("options", {})
    del values["format"]
    return values | inner


def _operators(file: SettingsFile, tables: dict[str, OperatorTable]) -> tuple[Operator, ...]:
    out = []
    for name, table in tables.items():
        kind = table.type and ColumnType(table.type)
        try:
            out.append(Operator(name, table.function, kind or None, str(file.path.parent)))
        except JobError as error:
            raise file.error(("operators", name), str(error)) from None
    return tuple(out)


def subscriptions_of(file: SettingsFile, tables: Sequence[SubscriptionTable]) -> tuple[Subscription, ...]:
    """Returns the subscriptions of a file; names must differ, and times must leave something to see."""
    out: dict[str, Subscription] = {}
    for index, table in enumerate(tables):
        what = f"subscription {table.name}"
        if table.name in out:
            first = list(out).index(table.name)
            line = file.line(("subscription", first, "name"))
            where = f"line {line}" if line else f"number {first + 1}"
            raise file.error(
                ("subscription", index, "name"),
                f"{what}: the name is taken by another subscription ({where}); names must differ",
            )
        activate, cancel = table.activate, table.cancel
        if activate is not None and cancel is not None and not _before(activate, cancel):
            raise file.error(
                ("subscription", index, "cancel"),
                f"{what}: activate = {activate} and cancel = {cancel}: it would see nothing; "
                "cancel must be greater than activate, and both numbers or both dates",
            )
        out[table.name] = Subscription(table.name, table.query, activate, cancel, table.deliver)
    return tuple(out.values())


def _before(activate: Moment, cancel: Moment) -> bool:
    if isinstance(activate, datetime) and isinstance(cancel, datetime):
        return utc(activate) < utc(cancel)
    return not isinstance(activate, datetime) and not isinstance(cancel, datetime) and activate < cancel


def _sink(file: SettingsFile, table: SinkTable) -> Sink:
    if table.path is None:
        return Sink(table.format, _options(table))
    if is_url(table.path) and not table.path.startswith("file:///"):
        raise file.error(
            ("sink", "path"),
            f"sink: path = {shown(table.path)} cannot be; it must be a folder, not a URL",
        )
    return Sink(table.format, {"path": absolute(table.path, file.path.parent)})


def _check_sink_apart(file: SettingsFile, streams: dict[str, StreamDeclaration], sink: Sink) -> None:
    if sink.path is None:
        return
    for declaration in streams.values():
        origin = declaration.source.path
        if origin is not None and reads_own_results(origin, sink.path):
            raise file.error(
                ("sink", "path"),
                f"sink: path {sink.path} is where stream {declaration.name} reads ({origin}); "
                "the job would read its own results: choose another folder",
            )


def _engine(table: EngineTable, folder: Path) -> EngineSettings:
    values = table.model_dump(exclude_unset=True)
    if table.checkpoint is not None:
        values["checkpoint"] = Path(absolute(table.checkpoint, folder))
    return EngineSettings(**values)
