"""From a spec back to canonical text.

Comes in: a spec and its stream. Goes out: SQL such that compile(unparse(spec)) == spec for every spec that a
query can be bound to. Never: shorthands; BETWEEN, IN and the DETECT spelling come out as what they stand for.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import ClassVar

from anabranch.families.clusters.spec import Clusters, Emit
from anabranch.families.filters.computed_columns import widened
from anabranch.families.filters.spec import Aggregate, Select
from anabranch.families.moving.spec import Box, Circle, KNearest, Moving
from anabranch.families.nearest.spec import METHODS, Nearest
from anabranch.language.bind import Spec
from anabranch.language.numbers import time_text
from anabranch.language.parse import keywords
from anabranch.language.scopes import default_name
from anabranch.model.columns import ColumnType
from anabranch.model.operators import Made, Read
from anabranch.model.stream import MICROSECONDS, Stream
from anabranch.model.window import Window
from anabranch.predicates.terms import TRUE, And, Constant, Difference, Not, Or, Term

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


def unparse(spec: Spec, stream: Stream) -> str:
    """The text of a query on `stream` that is bound to `spec`."""
    match spec:
        case Select():
            calls = _calls(spec.made)
            outputs = ", ".join(
                _as(calls.get(one.column) or _name(one.column), one.column, one.name) for one in spec.outputs
            )
            return f"SELECT {outputs} {_from(widened(stream, spec.made), spec.condition, calls)}"
        case Aggregate():
            return _aggregate(spec, stream)
        case Nearest():
            return _nearest(spec, stream)
        case Clusters():
            emit = "" if spec.emit is Emit.MEMBERS else f" EMIT {spec.emit.value.upper()}"
            head = f"SELECT CLUSTERS WITHIN {number_text(spec.range)} MIN {spec.count} BY ({_names(spec.by)})"
            return f"{head} {_from(stream, spec.condition)} {_window(spec.window, stream)}{emit}"
        case Moving():
            return _moving(spec, stream)


def _aggregate(spec: Aggregate, stream: Stream) -> str:
    stream, made = widened(stream, spec.made), _calls(spec.made)
    calls, written = [], {}
    for a in spec.aggregations:
        column = "*" if a.column is None else made.get(a.column) or _name(a.column)
        call = f"{a.function.value}({column})"
        default = default_name(a.function.value, a.column)
        if a.is_shown:
            calls.append(_as(call, default, a.name))
        written[a.name] = call if a.name == default or not a.is_shown else _name(a.name)
    source = _from(stream, spec.condition, made)
    text = f"SELECT {', '.join(calls)} {source} {_window(spec.window, stream)}"
    if spec.having == TRUE:
        return text
    stamps = {a.name for a in spec.aggregations if gives_timestamp(a.function.value, a.column, stream)}
    return f"{text} HAVING {_Terms(stamps, written).text(spec.having)}"


def gives_timestamp(function: str, column: str | None, stream: Stream) -> bool:
    return (
        function in ("min", "max") and column is not None and stream.type_of(column) is ColumnType.TIMESTAMP
    )


def _nearest(spec: Nearest, stream: Stream) -> str:
    point = ", ".join(map(number_text, spec.point))
    using = "" if spec.method == METHODS[0] else f" USING {spec.method}"
    sigma = "" if spec.sigma is None else f"({number_text(spec.sigma)})"
    head = f"SELECT NEAREST {spec.k} TO ({point}) BY ({_names(spec.by)})"
    window = f"WINDOW {spec.window.unit.upper()} {length_text(spec.window.size, spec.window, stream)}"
    return f"{head} {_from(stream, spec.condition)} {window}{using}{sigma}"


def _moving(spec: Moving, stream: Stream) -> str:
    focal = (
        f"OBJECT {_string(spec.focal)}"
        if isinstance(spec.focal, str)
        else f"({', '.join(map(number_text, spec.focal))})"
    )
    what = {None: "OBJECTS", "count": "count(*)"}.get(spec.value, spec.value)
    match spec.shape:
        case KNearest(k=k):
            head = f"NEAREST {k} OBJECTS TO {focal}"
        case Circle(radius=radius):
            head = f"{what} WITHIN {number_text(radius)} OF {focal}"
        case Box(width=width, height=height):
            head = f"{what} IN BOX {number_text(width)} BY {number_text(height)} AROUND {focal}"
    issuer = "" if spec.issuer is None else f" FOR OBJECT {_string(spec.issuer)}"
    return f"SELECT {head} {_from(stream, spec.condition)}{issuer}"


def _calls(made: tuple[Made, ...]) -> dict[str, str]:
    """How the columns that operators make are written."""
    written: dict[str, str] = {}
    for one in made:
        arguments = (
            written.get(each.column) or _name(each.column) if isinstance(each, Read) else _constant(each)
            for each in one.arguments
        )
        written[one.name] = f"{one.operator}({', '.join(arguments)})"
    return written


def _constant(value: int | float | str | bool) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return _string(value) if isinstance(value, str) else number_text(value)


def _from(stream: Stream, condition: Term, written: Mapping[str, str] = MappingProxyType({})) -> str:
    text = f"FROM {_name(stream.name)}"
    if condition == TRUE:
        return text
    stamps = {column.name for column in stream.columns if column.type is ColumnType.TIMESTAMP}
    return f"{text} WHERE {_Terms(stamps, written).text(condition)}"


def _window(window: Window, stream: Stream) -> str:
    text = f"WINDOW {window.unit.upper()} {length_text(window.size, window, stream)}"
    if window.step != window.size:
        text += f" STEP {length_text(window.step, window, stream)}"
    return text if window.at_end is None else f"{text} AT END {window.at_end.value}"


def length_text(length: int | float, window: Window, stream: Stream) -> str:
    in_seconds = not window.by_rows and stream.time_type is ColumnType.TIMESTAMP
    return seconds_text(int(length)) if in_seconds else number_text(length)


class Terms(ABC):
    """Conditions over names of which some are timestamps, in the words of a language."""

    #: its words for AND and OR, and what stands for one of nothing
    words: ClassVar[tuple[str, str]]
    empty: ClassVar[tuple[str, str]] = ("", "")

    def __init__(self, stamps: set[str]) -> None:
        self.stamps = stamps

    def text(self, term: Term) -> str:
        match term:
            case Constant(column=column, op=op, value=value):
                return f"{self.name(column)} {op.value} {self.constant(column, value)}"
            case Difference(column=column, op=op, other=other, offset=offset):
                return f"{self.name(column)} {op.value} {self.name(other)}{self.offset(column, offset)}"
            case And(terms=terms):
                parts = (f"({self.text(t)})" if isinstance(t, Or) else self.text(t) for t in terms)
                return f" {self.words[0]} ".join(parts) or self.empty[0]
            case Or(terms=terms):
                return f" {self.words[1]} ".join(map(self.text, terms)) or self.empty[1]
            case Not(term=inner):
                return self.negated(inner)

    def offset(self, column: str, offset: int | float) -> str:
        if not offset:
            return ""
        size = abs(offset)
        number = seconds_text(int(size)) if column in self.stamps else number_text(size)
        return f" {'-' if offset < 0 else '+'} {number}"

    @abstractmethod
    def name(self, column: str) -> str: ...

    @abstractmethod
    def constant(self, column: str, value: int | float | str | bool) -> str: ...

    @abstractmethod
    def negated(self, inner: Term) -> str: ...


class _Terms(Terms):
    """In SQL; `written` are the names that are not written as they are."""

    words = ("AND", "OR")
    empty = ("TRUE", "FALSE")

    def __init__(self, stamps: set[str], written: Mapping[str, str]) -> None:
        super().__init__(stamps)
        self.written = written

    def negated(self, inner: Term) -> str:
        text = self.text(inner)
        return f"NOT ({text})" if isinstance(inner, And | Or) else f"NOT {text}"

    def name(self, column: str) -> str:
        return self.written.get(column) or _name(column)

    def constant(self, column: str, value: int | float | str | bool) -> str:
        if column in self.stamps and isinstance(value, int | float):
            return _timestamp(int(value))
        return _constant(value)


def _timestamp(stamp_us: int) -> str:
    text = time_text(stamp_us)
    if text is not None:
        return f"TIMESTAMP '{text}'"
    sign = "-" if stamp_us < 0 else "+"
    return f"TIMESTAMP '1970-01-01 00:00:00' {sign} {seconds_text(abs(stamp_us))}"


def seconds_text(length_us: int) -> str:
    whole, rest = divmod(length_us, MICROSECONDS)
    return str(whole) if not rest else format(Decimal(length_us) / MICROSECONDS, "f")


def number_text(value: int | float) -> str:
    return repr(value + 0)  # the two zeros are one number


def _string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _as(written: str, default: str, name: str) -> str:
    return written if name == default else f"{written} AS {_name(name)}"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(_name, names))


def _name(name: str) -> str:
    """As it is where that is safe, in double quotes otherwise."""
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in keywords():
        return name
    return '"' + name.replace('"', '""') + '"'
