"""How a job file is read: tables whose settings are checked one by one, and errors that say where.

In: the text of a file and what tomllib made of it. Out: settings that have the right type, or a JobError
such as

    job.toml:4: stream photons: lateness = -5 cannot be; it must be a number >= 0
    job.toml:9: unknown setting 'pat' in sink; did you mean 'path'? There are: format, path

Never: a guess at what a wrong setting was meant to be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from anabranch.model.errors import JobError

MAX_LISTED = 20

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]")


class Wrong(Exception):
    """What a setting must be, in words that follow 'it must be'."""


#: Returns the value as it is kept, or raises Wrong.
Check = Callable[[Any], Any]


@dataclass(frozen=True)
class JobText:
    """The file, to find the line of a setting; looked at only when something is wrong."""

    path: Path
    text: str

    def line(self, header: str, index: int = 0, key: str | None = None) -> int | None:
        """The line of a key below the index-th table called `header`, or of that header; from 1."""
        found, inside = None, False
        for number, line in enumerate(self.text.splitlines(), start=1):
            match = _HEADER.match(line)
            if match and inside:
                return found
            if match and match[2].replace('"', "").replace("'", "") == header:
                inside, index = index == 0, index - 1
                found = number if inside else found
            elif inside and key is not None and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
                return number
        return found


@dataclass(frozen=True)
class Section:
    """A table of the file. `header` and `index` say which, `what` is how people call it; one that may stand
    `inside` a setting (source = { ... }) is looked for there."""

    source: JobText
    what: str
    header: str
    values: Mapping[str, Any]
    index: int = 0
    inside: str | None = None

    def error(self, message: str, key: str | None = None) -> JobError:
        line = self.source.line(self.header, self.index, self.inside or key)
        if self.inside:
            line = self.source.line(f"{self.header}.{self.inside}", 0, key) or line
        place = f"{self.source.path.name}:{line}" if line else self.source.path.name
        return JobError(f"{place}: {self.what}: {message}" if self.what else f"{place}: {message}")

    def read(self, checks: Mapping[str, Check], needed: Iterable[str] = (), hint: str = "") -> dict[str, Any]:
        """Every setting that is there, checked, in the order of `checks`. Others are refused."""
        for key in self.values:
            if key not in checks:
                raise self.error(f"unknown setting {key!r}{suggestion(key, checks)}{hint}", key)
        for key in needed:
            if key not in self.values:
                raise self.error(f"{key} is missing; there must be {EXAMPLES.get(key, key + ' = ...')}")
        return {key: self.checked(key, check) for key, check in checks.items() if key in self.values}

    def checked(self, key: str, check: Check) -> Any:
        try:
            return check(self.values[key])
        except Wrong as wrong:
            raise self.error(
                f"{key} = {shown(self.values[key])} cannot be; it must be {wrong}", key
            ) from None


#: What a setting that is missing could look like.
EXAMPLES = {
    "source": 'source = { format = "parquet", path = "photons/*.parquet" }',
    "format": 'format = "parquet"',
    "path": 'path = "folder"',
    "bootstrap": 'bootstrap = "localhost:9092"',
    "topic": 'topic = "photons"',
    "name": 'name = "vela"',
    "query": 'query = "SELECT * FROM photons WHERE en > 1.3"',
    "rowTag": 'rowTag = "photon", the element that is one item',
    "schema": 'schema = "det_time double, en double": what comes from there does not say its own types',
}


def closest(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant, whatever its case."""
    by_lower = {one.lower(): one for one in names}
    close = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else None


def suggestion(name: str, names: Iterable[str]) -> str:
    """`; did you mean 'path'? There are: format, path`"""
    every = list(names)
    guess = closest(name, every)
    rest = f" and {len(every) - MAX_LISTED} more" if len(every) > MAX_LISTED else ""
    there = f"There are: {', '.join(every[:MAX_LISTED])}{rest}" if every else "There are none"
    return f"; did you mean {guess!r}? {there}" if guess else f". {there}"


def shown(value: Any) -> str:
    """A value as it would stand in the file, cut where it is long."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = f'"{value}"'
    elif isinstance(value, list):
        text = f"[{', '.join(map(shown, value))}]"
    elif isinstance(value, dict):
        text = "{ " + ", ".join(f"{key} = {shown(entry)}" for key, entry in value.items()) + " }"
    else:
        text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


# --- checks of single values ---


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Wrong("a text that is not empty")
    return value


def one_of(choices: tuple[str, ...]) -> Check:
    def check(value: Any) -> str:
        if isinstance(value, str) and value in choices:
            return value
        guess = closest(value, choices) if isinstance(value, str) else None
        raise Wrong(f"one of {', '.join(choices)}" + (f"; did you mean {guess!r}?" if guess else ""))

    return check


def number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Wrong("a number")
    return value


def at_least_zero(value: Any) -> int | float:
    return _within(value, lambda n: n >= 0, "a number >= 0")


def above_zero(value: Any) -> int | float:
    return _within(value, lambda n: n > 0, "a number > 0")


def _within(value: Any, allowed: Callable[[int | float], bool], wanted: str) -> int | float:
    try:
        good = number(value)
    except Wrong:
        raise Wrong(wanted) from None
    if not allowed(good):
        raise Wrong(wanted)
    return good


def count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Wrong("a whole number >= 1")
    return value


def moment(value: Any) -> int | float | datetime:
    """A number, or a date and time; without an offset it is taken as UTC."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime.combine(value, time())
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else number(value)
    except (Wrong, ValueError):
        raise Wrong(
            "a number in the units of the stream's time, or a date such as 2026-01-31T12:00:00Z"
        ) from None


def table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Wrong("a table { key = value }")
    return value


def scalar(value: Any) -> Any:
    if not isinstance(value, str | bool | int | float):
        raise Wrong("a text, a number, true or false")
    return value


def scalars(value: Any) -> dict[str, Any]:
    return {key: scalar(entry) for key, entry in table(value).items()}


def texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not value or len(set(map(str, value))) < len(value):
        raise Wrong('a list of different texts such as ["ra", "dec"]')
    return [_entry(entry) for entry in value]


def _entry(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Wrong('a list of different texts such as ["ra", "dec"]')
    return value
