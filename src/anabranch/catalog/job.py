"""A job file, read and checked (semantics.md, A job, from the command line).

In: a TOML file. Out: a Job with absolute paths, or a JobError that says what is wrong, where, and what would
be right. Never: Spark, or a query's text beyond its being there; queries are bound when the columns of the
streams are known.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from anabranch.catalog import reading
from anabranch.catalog.declare import STREAM_CHECKS, declare, stored_time, utc
from anabranch.catalog.postgres import SCHEMES
from anabranch.catalog.reading import JobText, Section, Wrong
from anabranch.catalog.sources import absolute, is_url, read_source, reads_own_results
from anabranch.catalog.sync import check_queries, sync_job
from anabranch.model.columns import ColumnType
from anabranch.model.errors import JobError
from anabranch.model.job import FILE_SINKS, SINK_FORMATS, Engine, Job, Sink, StreamDeclaration
from anabranch.model.operators import Operator
from anabranch.model.receiver import receiver_of
from anabranch.model.subscription import Moment, Subscription

__all__ = ["check_name", "check_queries", "declare", "load_job", "stored_time", "sync_job"]

TABLES = ("stream", "subscription", "sink", "engine", "operators")

#: Names of streams are names of folders and stand in queries.
_STREAM_NAME = re.compile(r"[^\W\d][\w-]*")
MAX_NAME = 200
_NOT_IN_NAMES = ("Cc", "Cs", "Zl", "Zp")  # control characters, halves of characters, ends of lines


def load_job(path: Path | str) -> Job:
    """The job in a file, checked as far as that goes without its data."""
    path = Path(path).absolute()
    text = _text_of(path)
    source = JobText(path, text)
    top = Section(source, "", "", _parsed(path, text))
    for name in top.values:
        if name not in TABLES:
            raise JobError(f"{path.name}: unknown table {name!r}{reading.suggestion(name, TABLES)}")
    operators = _operators(source, top.values.get("operators", {}), path.parent)
    declared = _streams(source, top.values.get("stream"), path.parent)
    streams = {name: replace(each, operators=operators) for name, each in declared.items()}
    subscriptions = _subscriptions(source, top.values.get("subscription", []))
    sink = _sink(source, top.values.get("sink"), path.parent)
    engine = _engine(source, top.values.get("engine", {}), path.parent)
    _check_sink_apart(path, streams, sink)
    return Job(path, streams, subscriptions, sink, engine)


def _text_of(path: Path) -> str:
    if not path.exists():
        beside = [other.name for other in path.parent.glob("*.toml")] if path.parent.is_dir() else []
        guess = reading.closest(path.name, beside)
        raise JobError(f"there is no job file {path}" + (f"; did you mean {guess!r}?" if guess else ""))
    if not path.is_file():
        raise JobError(f"{path} is not a file; a job is a TOML file such as job.toml")
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise JobError(f"the job file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise JobError(f"{path.name}: not UTF-8 (byte {error.start}); a job file is TOML, in UTF-8") from None


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        found = re.search(r"\(at line (\d+), column (\d+)\)", message)
        if found is None:
            raise JobError(f"{path.name}: not valid TOML: {message}") from None
        line, column = int(found[1]), int(found[2])
        shown = text.splitlines()[line - 1] if line <= len(text.splitlines()) else ""
        what = message.replace(found[0], "").strip()
        raise JobError(
            f"{path.name}:{line}: not valid TOML: {what}\n  {shown}\n  {' ' * (column - 1)}^"
        ) from None


# --- streams ---


def _streams(source: JobText, tables: Any, folder: Path) -> dict[str, StreamDeclaration]:
    example = '[stream.photons] with source = { format = "parquet", path = "photons/*.parquet" }'
    if not tables:
        raise JobError(
            f"{source.path.name}: there is no stream; a job needs at least one, for example {example}"
        )
    if not isinstance(tables, dict):
        raise JobError(f"{source.path.name}: stream must be tables, one a stream: {example}")
    nameless = next(
        (name for name, values in tables.items() if name == "source" or not isinstance(values, dict)), None
    )
    if nameless is not None:
        raise Section(source, "stream", "stream", {}).error(
            f"{nameless} belongs to a stream with a name: write [stream.photons] instead of [stream]",
            nameless,
        )
    return {name: _stream(source, name, values, folder) for name, values in tables.items()}


def _stream(source: JobText, name: str, values: dict[str, Any], folder: Path) -> StreamDeclaration:
    section = Section(source, f"stream {name}", f"stream.{name}", values)
    if not _STREAM_NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise section.error(
            f"a stream cannot be called {name!r}: "
            "a name begins with a letter and has only letters, digits, _ and -"
        )
    settings = section.read({"source": reading.table, **STREAM_CHECKS}, ["source"])
    inner = Section(
        source, f"stream {name}, source", f"stream.{name}", settings.pop("source"), inside="source"
    )
    _check_settings(section, settings)
    return StreamDeclaration(name, read_source(inner, folder), settings)


def _check_settings(section: Section, settings: dict[str, Any]) -> None:
    """What two settings say about each other."""
    for key in ("lateness", "tick", "expire"):
        if key in settings and "time" not in settings:
            raise section.error(f"{key} needs a time: say which column orders the stream, time = ...", key)
    position, bounds = settings.get("position"), settings.get("bounds")
    if position and bounds and len(position) != len(bounds):
        raise section.error(
            f"bounds has {len(bounds)} pairs and position {len(position)} columns; there must be one a "
            "column",
            "bounds",
        )


# --- operators ---


_TYPES = tuple(kind.value for kind in ColumnType if kind is not ColumnType.POINT)


def _operators(source: JobText, table: Any, folder: Path) -> tuple[Operator, ...]:
    """`scale = "module:function"`, or `scale = { function = "module:function", type = "float" }`."""
    example = '[operators] with for example scale = "mymodule:scale"'
    if not isinstance(table, dict):
        raise JobError(f"{source.path.name}: operators must be a table: {example}")
    out = []
    for name, value in table.items():
        values = {"function": value} if isinstance(value, str) else value
        section = Section(source, f"operator {name}", "operators", values, inside=name)
        if not isinstance(values, dict):
            raise section.error(f"{name} must be text, module:function; write {example}", name)
        read = section.read({"function": reading.text, "type": reading.one_of(_TYPES)}, ["function"])
        if not re.fullmatch(r"[\w.]+:[\w.]+", read["function"]):
            raise section.error(f"{read['function']!r} must be module:function; write {example}", name)
        kind = read.get("type")
        try:
            out.append(Operator(name, read["function"], kind and ColumnType(kind), str(folder)))
        except JobError as error:
            raise JobError(f"{source.path.name}: {error}") from None
    return tuple(out)


# --- subscriptions ---


def _subscriptions(source: JobText, tables: Any) -> tuple[Subscription, ...]:
    if not isinstance(tables, list) or not all(isinstance(values, dict) for values in tables):
        raise JobError(
            f"{source.path.name}: subscriptions are written [[subscription]], with two brackets, one a query"
        )
    out: dict[str, Subscription] = {}
    for index, values in enumerate(tables):
        named = values.get("name")
        what = f"subscription {named}" if isinstance(named, str) and named else f"subscription {index + 1}"
        section = Section(source, what, "subscription", values, index)
        made = _subscription(section)
        if made.name in out:
            first = source.line("subscription", list(out).index(made.name), "name")
            there = f"line {first}" if first else f"number {list(out).index(made.name) + 1}"
            raise section.error(
                f"the name is taken by another subscription ({there}); names must differ", "name"
            )
        out[made.name] = made
    return tuple(out.values())


def _subscription(section: Section) -> Subscription:
    checks = {
        "name": _name,
        "query": reading.text,
        "activate": reading.moment,
        "cancel": reading.moment,
        "deliver": _receiver,
    }
    values = section.read(checks, ["name", "query"])
    begin, end = values.get("activate"), values.get("cancel")
    if begin is not None and end is not None and not _before(begin, end):
        raise section.error(
            f"activate = {begin} and cancel = {end}: it would see nothing; "
            "cancel must be greater than activate, and both numbers or both dates",
            "cancel",
        )
    return Subscription(values["name"], values["query"], begin, end, values.get("deliver"))


def _receiver(value: Any) -> str:
    try:
        return str(receiver_of(reading.text(value)))
    except JobError as error:
        raise Wrong(f"the address of a receiver; {error}") from None


def _before(begin: Moment, end: Moment) -> bool:
    if isinstance(begin, datetime) and isinstance(end, datetime):
        return utc(begin) < utc(end)
    return not isinstance(begin, datetime) and not isinstance(end, datetime) and begin < end


def check_name(name: str) -> str:
    """The name, if a subscription can be called so."""
    try:
        return _name(name)
    except Wrong as wrong:
        raise JobError(f"a subscription cannot be called {name!r}; its name must be {wrong}") from None


def _name(value: Any) -> str:
    wrong = Wrong(
        f"a text of 1 to {MAX_NAME} characters without control characters, with no blank at its ends"
    )
    if not isinstance(value, str) or not value or value != value.strip() or len(value) > MAX_NAME:
        raise wrong
    if any(unicodedata.category(letter) in _NOT_IN_NAMES for letter in value):
        raise wrong
    return value


# --- sink and engine ---


def _sink(source: JobText, values: Any, folder: Path) -> Sink:
    if not values or not isinstance(values, dict):
        raise JobError(
            f"{source.path.name}: there is no sink; say where results go: "
            '[sink] with format = "parquet" and path = "out"'
        )
    section = Section(source, "sink", "sink", values)
    if "format" not in values:
        raise section.error(f"format is missing; it must be one of {', '.join(SINK_FORMATS)}")
    form = section.checked("format", reading.one_of(SINK_FORMATS))
    if form in FILE_SINKS:
        read = section.read({"format": reading.text, "path": reading.text}, ["path"])
        if is_url(read["path"]) and not read["path"].startswith("file:///"):
            raise section.error(
                f"path = {reading.shown(read['path'])} cannot be; it must be a folder, not a URL", "path"
            )
        return Sink(form, {"path": absolute(read["path"], folder)})
    checks = {
        "format": reading.text,
        "bootstrap": reading.text,
        "topic": reading.text,
        "options": reading.scalars,
    }
    read = section.read(checks, ["bootstrap", "topic"], "; Kafka's own settings go into options = { ... }")
    return Sink(form, {"bootstrap": read["bootstrap"], "topic": read["topic"], **read.get("options", {})})


def _check_sink_apart(path: Path, streams: dict[str, StreamDeclaration], sink: Sink) -> None:
    if sink.path is None:
        return
    for declaration in streams.values():
        origin = declaration.source.path
        if origin is not None and reads_own_results(origin, sink.path):
            raise JobError(
                f"{path.name}: sink: path {sink.path} is where stream {declaration.name} reads ({origin}); "
                "the job would read its own results: choose another folder"
            )


def _catalog_url(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith(SCHEMES):
        raise Wrong(
            "the URL of a PostgreSQL database: postgresql://user@host/database; without it the catalog is a "
            "SQLite file below the sink"
        )
    return value


_ENGINE_CHECKS: dict[str, reading.Check] = {
    "zones": reading.count,
    "trigger": reading.at_least_zero,
    "shuffle_partitions": reading.count,
    "max_files_per_batch": reading.count,
    "max_bytes_per_batch": reading.count,
    "checkpoint": reading.text,
    "catalog": _catalog_url,
    "spark": reading.table,
}


def _engine(source: JobText, values: Any, folder: Path) -> Engine:
    if not isinstance(values, dict):
        raise JobError(f"{source.path.name}: engine must be a table: [engine] with for example zones = 8")
    section = Section(source, "engine", "engine", values)
    read = section.read(_ENGINE_CHECKS)
    if "checkpoint" in read:
        read["checkpoint"] = Path(absolute(read["checkpoint"], folder))
    if "spark" in read:
        read["spark"] = _spark_settings(section, read["spark"])
    return Engine(**read)


def _spark_settings(section: Section, values: dict[str, Any]) -> dict[str, str]:
    out = {}
    for key, value in _flat(values):
        if not key.startswith("spark.") or not isinstance(value, str | bool | int | float):
            raise section.error(
                f'spark: {key} = {reading.shown(value)} cannot be; write "spark.<setting>" = "<value>"',
                "spark",
            )
        out[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return out


def _flat(values: dict[str, Any], above: str = "") -> list[tuple[str, Any]]:
    """spark.ui.enabled without quotes is a table in a table to TOML; it means the same."""
    out: list[tuple[str, Any]] = []
    for key, value in values.items():
        out += _flat(value, f"{above}{key}.") if isinstance(value, dict) else [(f"{above}{key}", value)]
    return out
