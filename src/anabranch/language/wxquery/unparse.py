"""From a spec to WXQuery.

Comes in: a Select or an Aggregate and its stream. Goes out: WXQuery such that compile(unparse(spec)) == spec,
or a JobError that says what WXQuery cannot say. Never: a query that means almost the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from anabranch.families.filters.spec import Aggregate, Select
from anabranch.language.bind import Spec
from anabranch.language.numbers import time_text
from anabranch.language.scopes import default_name
from anabranch.language.unparse import Terms, gives_timestamp, length_text, number_text
from anabranch.language.wxquery.parts import plain_variable
from anabranch.model.columns import ColumnType
from anabranch.model.errors import JobError
from anabranch.model.stream import Stream
from anabranch.predicates.terms import TRUE, Term

_NAME = re.compile(r"[^\W\d][\w.-]*(?::[^\W\d][\w.-]*)?")
_TAG = re.compile(r"[^\W\d][\w.-]*")


def unparse_wxquery(spec: Spec, stream: Stream) -> str:
    match spec:
        case Select(made=made) | Aggregate(made=made) if made:
            raise _cannot(f"it has no operators of users, such as {made[0].name}")
        case Select():
            return _select(spec, stream)
        case Aggregate():
            return _aggregate(spec, stream)
    raise _cannot(f"it has no {type(spec).__name__.lower()} queries, only select and aggregate")


def _cannot(why: str) -> JobError:
    return JobError(f"this query has no counterpart in WXQuery: {why}")


def _select(spec: Select, stream: Stream) -> str:
    item = _item(stream)
    outputs = []
    for output in spec.outputs:
        if output.name != output.column:
            raise _cannot(f"it cannot rename an element, so take out AS {output.name}")
        if any(column.name.startswith(f"{output.column}.") for column in stream.columns):
            raise _cannot(f"{output.column} has a value of its own and elements below it")
        outputs.append(f"{{ $p/{_path(output.column)} }}")
    lines = [f"for $p in {_source(stream)}/{item}"]
    if spec.condition != TRUE:
        lines.append(f"where {_Terms(stream, '$p/').text(spec.condition)}")
    lines.append(f"return <{item}> {' '.join(outputs)} </{item}>")
    return _enclosed(stream, lines)


def _aggregate(spec: Aggregate, stream: Stream) -> str:
    if spec.window.at_end is not None:
        raise _cannot("its windows have no AT END")
    variables = dict(_variables(spec))
    window = next(name for name in _spare("w") if name not in variables.values())
    condition = "" if spec.condition == TRUE else f"[{_Terms(stream, '').text(spec.condition)}]"
    lines = [f"for ${window} in {_source(stream)}/{_item(stream)}{condition}", f"  |{_window(spec, stream)}|"]
    for a in spec.aggregations:
        path = "" if a.column is None else f"/{_path(a.column)}"
        lines.append(f"let ${variables[a.name]} := {a.function.value}(${window}{path})")
    if spec.having != TRUE:
        lines.append(f"where {_Results(spec, stream, variables).text(spec.having)}")
    tags = {name: name.replace(":", "_") for name in variables.values()}
    made = " ".join(f"<{tag}> {{ ${name} }} </{tag}>" for name, tag in tags.items())
    return _enclosed(stream, [*lines, f"return <window> {made} </window>"])


def _variables(spec: Aggregate) -> Iterator[tuple[str, str]]:
    """For each aggregate the variable that gives it its name."""
    taken = set()
    for a in spec.aggregations:
        if not a.is_shown:
            call = default_name(a.function.value, a.column)
            raise _cannot(f"{call} is only in HAVING; put it into the select list")
        plain = plain_variable(a.function.value, a.column)
        variable = plain if a.name == default_name(a.function.value, a.column) else a.name
        if not _NAME.fullmatch(variable) or (variable == plain and variable == a.name) or variable in taken:
            raise _cannot(f"{a.name} cannot be the name of a variable; give it another with AS")
        taken.add(variable)
        yield a.name, variable


def _window(spec: Aggregate, stream: Stream) -> str:
    window = spec.window
    what = "count" if window.by_rows else f"{_path(stream.time or '')} diff"
    step = "" if window.step == window.size else f" step {length_text(window.step, window, stream)}"
    return f"{what} {length_text(window.size, window, stream)}{step}"


def _source(stream: Stream) -> str:
    return f"stream({_string(stream.name)})/{_root(stream)}"


def _root(stream: Stream) -> str:
    return stream.name if _TAG.fullmatch(stream.name) else "stream"


def _item(stream: Stream) -> str:
    """photon for photons, unless a part of the item is called that."""
    parts = {column.name.split(".")[0] for column in stream.columns}
    single = [stream.name[:-1]] if _TAG.fullmatch(stream.name) and stream.name[1:].endswith("s") else []
    return next(name for name in (*single, *_spare("item", len(parts) + 1)) if name not in parts)


def _spare(name: str, most: int = 1000) -> Iterator[str]:
    """`w`, `w_`, `w__` and so on."""
    return (name + "_" * more for more in range(most))


def _enclosed(stream: Stream, lines: list[str]) -> str:
    root = _root(stream)
    inner = "\n    ".join(lines)
    return f"<{root}>\n  {{ {inner} }}\n</{root}>"


def _path(column: str) -> str:
    steps = column.split(".")
    if not all(map(_NAME.fullmatch, steps)):
        raise _cannot(f"the column {column!r} cannot be written as a path")
    return "/".join(steps)


def _string(value: str) -> str:
    return '"' + value.replace("&", "&amp;").replace('"', '""') + '"'


class _Terms(Terms):
    """Conditions on items; `before` stands before every path."""

    words = ("and", "or")

    def __init__(self, stream: Stream, before: str) -> None:
        super().__init__({column.name for column in stream.columns if column.type is ColumnType.TIMESTAMP})
        self.before = before

    def name(self, column: str) -> str:
        return f"{self.before}{_path(column)}"

    def negated(self, inner: Term) -> str:
        raise _cannot("it has no NOT; write the comparison the other way round")

    def constant(self, column: str, value: int | float | str | bool) -> str:
        if isinstance(value, bool):
            return '"true"' if value else '"false"'
        if isinstance(value, str):
            return _string(value)
        if column not in self.stamps:
            return number_text(value)
        moment = time_text(int(value))
        if moment is None:
            raise _cannot("a time beyond the years 1 to 9999 cannot be written")
        return _string(moment)


class _Results(_Terms):
    """Conditions on aggregates, which are variables."""

    def __init__(self, spec: Aggregate, stream: Stream, variables: Mapping[str, str]) -> None:
        super().__init__(stream, "$")
        self.variables = variables
        self.stamps = {
            a.name for a in spec.aggregations if gives_timestamp(a.function.value, a.column, stream)
        }

    def name(self, column: str) -> str:
        if column not in self.variables:
            raise _cannot(f"{column} is no aggregate of the query; select count(*) AS n and compare that")
        return f"${self.variables[column]}"
