"""What the catalog keeps, as plain data, and how it is written down.

Streams, declarations and subscriptions become JSON and come back; `differences` says in words how two streams
differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from anabranch.catalog.database import Row
from anabranch.model.columns import Column, ColumnType
from anabranch.model.job import Source, StreamDeclaration
from anabranch.model.limits import DEFAULT_LIMITS, QueryLimits
from anabranch.model.operators import operators_from_json, operators_to_json
from anabranch.model.stream import Stream, Time
from anabranch.model.suggestions import shown

ACTIVE = "active"
CANCELLED = "cancelled"

#: Where results may be sent: anywhere, or to addresses of the public internet.
ANY_ADDRESS, PUBLIC_ADDRESS = "any", "public"

FROM_JOB = "job"
FROM_SUBSCRIBE = "subscribe"


@dataclass(frozen=True)
class NewSubscription:
    """A bound query on its way into the catalog; times in stored units. It sees the items with
    activate < time <= cancel.

    A query over several streams has one part per stream: this is the first, `parts` are the others.
    `receiver` is the address that results are sent to, from `cursor` on (results/pages.py); `reach` says
    where that may lead to when something is sent.
    """

    name: str
    stream: str
    family: str
    kind: str
    query: str
    spec: dict[str, Any]
    activate: Time | None = None
    cancel: Time | None = None
    origin: str = FROM_SUBSCRIBE
    owner: str | None = None
    parts: tuple[NewSubscription, ...] = ()
    receiver: str | None = None
    reach: str = ANY_ADDRESS
    cursor: str = "0:0"


def part_name(name: str, number: int) -> str:
    """Returns the name of a part of a query over several streams: `q` itself is 1, then `q/2`, `q/3`."""
    return name if number == 1 else f"{name}/{number}"


@dataclass(frozen=True)
class Entry:
    """A subscription of the catalog.

    `label` is what its results are delivered under: its name or, where an earlier subscription had the name
    and was cancelled, `name#number`, so that the results of the two stay apart. `owner` is whose token
    registered it through the service; None for what a job file or a local command registered. `part_of` is
    the number of the subscription that it is a further part of: its name is only shown, and anybody may have
    a subscription of that name. `suspended` says since when and why it gets no results, though nobody has
    cancelled it; None where that is not so.
    """

    number: int
    name: str
    label: str
    stream: str
    family: str
    kind: str
    query: str
    spec: dict[str, Any]
    state: str
    activate: Time | None
    cancel: Time | None
    origin: str
    created: str
    cancelled: str | None
    owner: str | None
    part_of: int | None = None
    suspended: str | None = None

    @property
    def address(self) -> str:
        """What names it and nothing else: no subscription can be called so."""
        return f"#{self.number}"

    @property
    def active(self) -> bool:
        return self.state == ACTIVE


#: The columns of the table of subscriptions, and those that hold JSON.
ENTRY_COLUMNS = tuple(field.name for field in fields(Entry))
_JSON_COLUMNS = ("spec", "activate", "cancel")


def entry_of(row: Row) -> Entry:
    """Returns the entry in a row with ENTRY_COLUMNS; others are ignored."""
    values = {column: row[column] for column in ENTRY_COLUMNS}
    return Entry(**values | {column: json.loads(row[column]) for column in _JSON_COLUMNS})


def entry_row(entry: Entry) -> Row:
    """Returns the row of an entry; the other way round is `entry_of`."""
    values = {column: getattr(entry, column) for column in ENTRY_COLUMNS}
    return values | {column: json.dumps(values[column]) for column in _JSON_COLUMNS}


def dump_stream(stream: Stream) -> dict[str, Any]:
    """Returns everything but the name and the columns, in stored units."""
    out = asdict(replace(stream, operators=()))
    del out["name"], out["columns"]
    out["operators"] = operators_to_json(stream.operators)
    settings: dict[str, Any] = json.loads(json.dumps(out))  # tuples become lists, as they will be when read
    return settings


def load_stream(name: str, columns: str, settings: str) -> Stream:
    parts = json.loads(settings)
    for key in ("position", "regions", "bounds", "apart"):
        parts[key] = tuple(tuple(entry) if isinstance(entry, list) else entry for entry in parts.get(key, ()))
    parts["operators"] = operators_from_json(parts.get("operators", ()))
    parts["limits"] = QueryLimits.from_json(parts.get("limits"))
    return Stream(name, tuple(Column(n, ColumnType(t)) for n, t in json.loads(columns)), **parts)


def dump_declaration(declaration: StreamDeclaration) -> str:
    """Returns it without its operators and limits, which are kept with the stream."""
    parts = asdict(replace(declaration, operators=()))
    del parts["operators"], parts["limits"]
    return json.dumps(parts, default=str)


def load_declaration(text: str) -> StreamDeclaration:
    parts = json.loads(text)
    return StreamDeclaration(parts["name"], Source(**parts["source"]), parts["settings"])


#: Settings of a stream that no state depends on: a job may go on with other ones.
_NO_STATE = ("on_bad_file", "max_step", "max_ahead")


def differences(old: Stream, new: Stream) -> Iterator[str]:
    """`column en was float, is string now`, `lateness was 0, is 5 now`"""
    before = {column.name: column.type for column in old.columns}
    after = {column.name: column.type for column in new.columns}
    for name in before.keys() - after.keys():
        yield f"column {name} is gone"
    for name in after.keys() - before.keys():
        yield f"column {name} is new"
    for name in before.keys() & after.keys():
        if before[name] is not after[name]:
            yield f"column {name} was {before[name]}, is {after[name]} now"
    if before == after and list(before) != list(after):
        yield f"the columns were in the order {', '.join(before)}, are {', '.join(after)} now"
    operators = {operator.name: operator for operator in new.operators}
    for operator in old.operators:  # more of them may come, but none may change
        now = operators.get(operator.name)
        if now != operator:
            yield f"operator {operator.name} was {operator.target}, is {now.target if now else 'gone'} now"
    old_settings, new_settings = (
        dump_stream(replace(stream, operators=(), limits=DEFAULT_LIMITS))  # limits may change
        for stream in (old, new)
    )
    for key, value in old_settings.items():
        if value != new_settings[key] and key not in _NO_STATE:
            yield f"{key} was {_in_words(value)}, is {_in_words(new_settings[key])} now"


def source_differences(old: StreamDeclaration, new: StreamDeclaration) -> Iterator[str]:
    """Where a stream comes from decides what it is; how it is read (options of Spark) does not."""
    for key, before, after in (
        ("format", old.source.format, new.source.format),
        *(
            (key, old.source.options.get(key), new.source.options.get(key))
            for key in ("path", "topic", "name")
        ),
    ):
        if before != after:
            yield f"source {key} was {_in_words(before)}, is {_in_words(after)} now"


def _in_words(value: Any) -> str:
    return "not set" if value is None or value == [] else shown(value)
