"""One query tried on files, without Spark: what `run --once` and `results` would give.

    trial = Trial("SELECT en FROM photons WHERE en > 1", [trial_stream("photons", "photons/*.parquet")])
    for schema, tables in trial.parts():       # a query in SQL is one part
        for table in tables:                   # the results, batch by batch, as the files are read
            ...
    trial.books["photons"]                     # rows_in = processed + late + rejected

The files go through the same stages that a job runs, in this process.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch.chain.items import checked, kind_of
from anabranch.chain.runner import Runner
from anabranch.families.base import Shown, Table
from anabranch.families.registry import family as family_of
from anabranch.families.results import rows_of
from anabranch.job.declarations import STREAM_SETTINGS, declare
from anabranch.job.source_files import SourceFiles, format_of
from anabranch.job.sources import absolute
from anabranch.language.bind import BoundQuery, compile_query
from anabranch.model.control_log import Activate, Control, End
from anabranch.model.errors import JobError, RunError
from anabranch.model.job import FILE_FORMATS, Source, StreamDeclaration
from anabranch.model.suggestions import shown, suggestion

NAME = "try"

#: Settings that are those of the files; all others are the stream's.
SOURCE_SETTINGS = ("schema", "header", "sep", "quote", "missing", "row", "rowTag", "dtd")


@dataclass(frozen=True)
class TrialQuery:
    name: str
    stream: str
    family: str
    kind: str
    spec: dict[str, Any]


class Trial:
    """Whatever is wrong with the files or the query is said by a JobError when it is created."""

    def __init__(self, query: str, declarations: Iterable[StreamDeclaration]) -> None:
        declared = {one.name: one for one in declarations}
        self.files = {name: SourceFiles(one) for name, one in declared.items()}
        self.streams = {name: declare(one, self.files[name].columns()) for name, one in declared.items()}
        self.query, self.bound = query, compile_query(query, self.streams)
        #: stream -> its books, and -> how many dead letters there are by reason; known at the end
        self.books: dict[str, dict[str, Any]] = {}
        self.dead: dict[str, Counter[str]] = {}

    @property
    def bound_parts(self) -> tuple[BoundQuery, ...]:
        return (self.bound, *self.bound.parts)

    def parts(self) -> list[tuple[pa.Schema, Iterator[pa.Table]]]:
        """Returns the columns and the results of every part of the query; files are read as results are
        asked for.
        """
        return [self._part(part) for part in self.bound_parts]

    def queries(self) -> list[TrialQuery]:
        """Returns the parts as planning takes queries."""
        return [
            TrialQuery(NAME, part.stream, part.family, part.spec.to_json()["kind"], part.spec.to_json())
            for part in self.bound_parts
        ]

    def samples(self) -> dict[str, tuple[pa.RecordBatch | None, str]]:
        """Returns a few thousand items of each stream, as planning takes them."""
        return {name: files.sample(self.streams[name]) for name, files in self.files.items()}

    def _part(self, part: BoundQuery) -> tuple[pa.Schema, Iterator[pa.Table]]:
        family = family_of(part.family)
        name, columns = family.shown(self.streams[part.stream], part.spec.to_json())
        table = family.table(name)
        return rows_of([], table, NAME, columns).schema, self._tables(part, table, columns)

    def _tables(self, part: BoundQuery, table: Table, columns: tuple[Shown, ...]) -> Iterator[pa.Table]:
        stream = self.streams[part.stream]
        runner, dead = Runner(stream, family_of(part.family)), Counter[str]()
        control: list[Control] = [Activate(0, NAME, part.spec.to_json())]

        def delivered() -> Iterator[pa.Table]:
            for batches in runner.tables[table.name].values():
                yield rows_of(batches, table, NAME, columns)
            for note in runner.notes:
                if "suspended" in note:
                    where = f"was suspended at item {note['item']:,} of stream {stream.name}"
                    raise RunError(f"the query {where}: {note['reason']}")
            for letters in runner.dead:
                dead.update(map(kind_of, letters.column("reason").to_pylist()))
            runner.tables.clear()
            runner.dead.clear()

        names = [column.name for column in stream.columns]
        for rows in self.files[part.stream].batches(stream):
            items, rejected = checked(rows, stream)
            runner.batch(items.select(names), control, rejected)
            control = []
            yield from (found for found in delivered() if found.num_rows)
        runner.batch(None, [*control, End()])
        runner.settle()
        yield from (found for found in delivered() if found.num_rows)
        self.books[stream.name], self.dead[stream.name] = runner.books, dead


def trial_stream(
    name: str, path: str, time: str | None = None, settings: Mapping[str, str] | None = None
) -> StreamDeclaration:
    """Returns the declaration of a stream that is read from files. Settings are texts, as a person types
    them: those of a stream in a job file, and of its source.
    """
    texts = dict(settings or {}) | ({} if time is None else {"time": time})
    path = absolute(path, Path.cwd())
    form = texts.pop("format", None) or format_of(path)
    _checked("format", form)
    source = {key: _value(texts.pop(key)) for key in SOURCE_SETTINGS if key in texts}
    if "dtd" in source:
        source["dtd"] = absolute(str(source["dtd"]), Path.cwd())
    schema = source.pop("schema", None)
    own = {key: _checked(key, _setting(key, text)) for key, text in texts.items()}
    return StreamDeclaration(name, Source(form, {"path": path, **source}, schema), own)


def _checked(key: str, value: Any) -> Any:
    if key == "format":
        if value not in FILE_FORMATS:
            raise JobError(f"format = {shown(value)}: it must be one of {', '.join(FILE_FORMATS)}")
        return value
    if key not in STREAM_SETTINGS:
        raise JobError(f"unknown setting {key!r}{suggestion(key, [*STREAM_SETTINGS, *SOURCE_SETTINGS])}")
    from anabranch.job.settings import StreamTable  # pydantic takes its time to load
    from anabranch.model.settings_file import checked_value

    return checked_value(StreamTable, key, value)


def _setting(key: str, text: str) -> Any:
    """Returns what a text says: `position=ra,dec` is a list of names, `bounds=[[0, 1]]` one of numbers."""
    value = _value(text)
    if key in ("time", "id", "object"):
        return text
    return text.split(",") if key == "position" and isinstance(value, str) else value


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
