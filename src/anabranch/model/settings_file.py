"""Settings files: TOML that pydantic models check, with errors that say where, and what would be right.

A table of the file is a SettingsTable. Every key has a type, a default, a description and an example, so the
same models check a file and document it (job/reference.py).

    class SiteTable(SettingsTable):
        capacity: Annotated[AboveZero, Field(description="CPU seconds per second.", examples=[0.5])] = 1.0

    file = SettingsFile(Path("job.toml"), "job file")
    tables = file.check(JobTables)

    job.toml:4: stream photons: lateness = -5 cannot be; it must be a number >= 0
    job.toml:9: sink: unknown setting 'pat'; did you mean 'path'? There are: format, path
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from anabranch.model.errors import JobError
from anabranch.model.limits import INT64_GREATEST, INT64_LEAST
from anabranch.model.suggestions import closest, shown, suggestion, toml_value

#: So many mistakes are shown at once.
MOST_SHOWN = 10


@dataclass(frozen=True)
class Must:
    """What a value must be, in words that follow "it must be"; and the message where a key is missing that
    has to be there.
    """

    be: str
    missing: str | None = None


class SettingsTable(BaseModel):
    """A table of a settings file. `strict`: true is no number, and 5 is no text."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @classmethod
    def fields_by_key(cls) -> dict[str, FieldInfo]:
        return {field.alias or name: field for name, field in cls.model_fields.items()}


def refuse(message: str, key: str | None = None) -> NoReturn:
    """Raises what a validator of ours says. `key` is the setting that is wrong, where a table is checked."""
    raise PydanticCustomError("setting", "{message}", {"message": message, "key": key})


# --- types of values ---


def _not_blank(value: str) -> str:
    if not value.strip() or "\0" in value:
        raise ValueError
    return value


def _different(values: list[str]) -> list[str]:
    if len(set(values)) < len(values):
        raise ValueError
    return values


def _moment(value: Any) -> Any:
    """Dates and texts with dates become datetimes; without an offset they are meant in UTC."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time())
    return datetime.fromisoformat(value) if isinstance(value, str) else value


FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]
#: A whole number of 64 bits; TOML has longer ones, which nothing behind it can hold.
Int64 = Annotated[int, Field(ge=INT64_LEAST, le=INT64_GREATEST)]
Text = Annotated[str, AfterValidator(_not_blank), Must("a text that is not empty")]
Texts = Annotated[
    list[Text],
    Field(min_length=1),
    AfterValidator(_different),
    Must('a list of different texts such as ["ra", "dec"]'),
]
AtLeastZero = Annotated[Int64 | FiniteFloat, Field(ge=0), Must("a number >= 0")]
AboveZero = Annotated[Int64 | FiniteFloat, Field(gt=0), Must("a number > 0")]
Count = Annotated[Int64, Field(ge=1), Must("a whole number >= 1")]
Scalars = Annotated[dict[str, str | bool | Int64 | float], Must("a table { key = value }")]
Moment = Annotated[
    Int64 | FiniteFloat | datetime,
    BeforeValidator(_moment),
    Must("a number in the units of the stream's time, or a date such as 2026-01-31T12:00:00Z"),
]


def must_of(field: FieldInfo) -> Must:
    """Returns what the value of a field must be, as its type says."""
    if choices := choices_of(field):
        return Must(f"one of {', '.join(choices)}")
    annotations = [*reversed(field.metadata), *_annotations(field.annotation)]
    return next((each for each in annotations if isinstance(each, Must)), Must("something else"))


def choices_of(field: FieldInfo) -> tuple[str, ...]:
    """Returns the texts that are allowed, empty where there are others."""
    for one in (field.annotation, *get_args(field.annotation)):
        if get_origin(one) is Literal:
            return get_args(one)
    return ()


def _annotations(annotation: Any) -> Iterator[Any]:
    """Gives what is annotated in a type, the outermost first, and after that in the types inside it."""
    yield from reversed(getattr(annotation, "__metadata__", ()))
    for inner in get_args(annotation):
        yield from _annotations(inner)


def table_of(field: FieldInfo) -> tuple[type[SettingsTable] | None, bool]:
    """Returns the table in a field, None where it is a plain value; and whether there are several of them,
    by name or in a list.
    """
    several = get_origin(field.annotation) in (dict, list)
    inner = get_args(field.annotation)[-1] if several else field.annotation
    inner = get_args(inner)[0] if get_origin(inner) is Annotated else inner
    return (inner if isinstance(inner, type) and issubclass(inner, SettingsTable) else None), several


# --- files ---

TablesT = TypeVar("TablesT", bound=SettingsTable)
Keys = tuple[str | int, ...]

_KEY_PART = r"(?:\"[^\"]*\"|'[^']*'|[\w-]+)"
_KEYS = rf"({_KEY_PART}(?:\s*\.\s*{_KEY_PART})*)"
_HEADER = re.compile(rf"\s*(\[\[?)\s*{_KEYS}\s*\]")
_SETTING = re.compile(rf"\s*{_KEYS}\s*=")


class SettingsFile:
    """A TOML file, read. `what` is how messages call it."""

    def __init__(self, path: Path, what: str) -> None:
        self.path, self.what = path, what
        self.text = self._read()
        self.values = self._parse()

    def _read(self) -> str:
        path, what = self.path, self.what
        if not path.exists():
            guess = closest(path.stem, (other.stem for other in path.parent.glob("*.toml")))
            hint = "" if guess is None else f"; did you mean '{guess}.toml'?"
            raise JobError(f"there is no {what} {path}{hint}")
        if not path.is_file():
            raise JobError(f"{path} is not a file; a {what} is a TOML file such as job.toml")
        try:
            return path.read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise JobError(f"the {what} {path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            message = f"not UTF-8 (byte {error.start}); a {what} is TOML, in UTF-8"
            raise JobError(f"{path.name}: {message}") from None

    def _parse(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            message = str(error)
            match = re.search(r"\(at line (\d+), column (\d+)\)", message)
            if match is None:
                raise JobError(f"{self.path.name}: not valid TOML: {message}") from None
            line, column = int(match[1]), int(match[2])
            lines = self.text.splitlines()
            shown_line = lines[line - 1] if line <= len(lines) else ""
            what = message.replace(match[0], "").strip()
            raise JobError(
                f"{self.path.name}:{line}: not valid TOML: {what}\n  {shown_line}\n  {' ' * (column - 1)}^"
            ) from None

    def line(self, keys: Keys) -> int | None:
        """Returns the line of a key or, where it is not there, of the table above it; from 1."""
        lengths = range(len(keys), 0, -1)
        return next((self._lines[keys[:size]] for size in lengths if keys[:size] in self._lines), None)

    @cached_property
    def _lines(self) -> dict[Keys, int]:
        """The first line of every key, and of every table that has it."""
        lines: dict[Keys, int] = {}
        for number, keys in _keys_of_lines(self.text):
            for size in range(1, len(keys) + 1):
                lines.setdefault(keys[:size], number)
        return lines

    def error(self, keys: Keys, message: str) -> JobError:
        """Returns an error about a key: where it is, whose it is, and what is wrong."""
        line = self.line(keys)
        where = f"{self.path.name}:{line}" if line else self.path.name
        return JobError(f"{where}: {message}")

    def check(self, model: type[TablesT]) -> TablesT:
        """Returns the tables of the file; JobError with all that is wrong."""
        try:
            return model.model_validate(self.values)
        except ValidationError as error:
            mistakes: dict[Keys, _Mistake] = {}
            for each in error.errors(include_url=False):
                mistake = _Mistake(model, self.values, each)
                mistakes.setdefault(mistake.keys, mistake)
            raise self._refusal(list(mistakes.values())) from None

    def _refusal(self, mistakes: list[_Mistake]) -> JobError:
        unknown = {mistake.keys for mistake in mistakes if mistake.kind == "extra_forbidden"}
        relevant = []
        for mistake in mistakes:
            beside = [str(keys[-1]) for keys in unknown if keys[:-1] == mistake.keys[:-1]]
            if mistake.kind != "missing" or not closest(str(mistake.keys[-1]), beside):
                relevant.append(mistake)  # a key that is misspelt is not reported as missing, too
        relevant.sort(key=lambda mistake: self.line(mistake.keys) or 0)
        texts = [str(self.error(each.keys, each.message())) for each in relevant[:MOST_SHOWN]]
        more = len(relevant) - MOST_SHOWN
        return JobError("\n".join([*texts, *([f"and {more} more are wrong"] if more > 0 else [])]))


def _keys_of_lines(text: str) -> Iterator[tuple[int, Keys]]:
    """Gives the lines that have a header or a key, with the keys that lead there. A [[table]] counts:
    ("subscription", 0, "name").
    """
    table: Keys = ()
    counts: dict[Keys, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _split(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield number, table
        elif setting := _SETTING.match(line):
            yield number, (*table, *_split(setting[1]))


def _split(keys: str) -> Keys:
    return tuple(part.strip("\"'") for part in re.findall(_KEY_PART, keys))


class _Mistake:
    """An error of pydantic's in our words. `keys` leads to what is wrong."""

    def __init__(self, model: type[SettingsTable], values: Any, error: Any) -> None:
        self.kind, self.error = error["type"], error
        self.keys: Keys = ()
        self.table: type[SettingsTable] = model
        self.field: FieldInfo | None = None
        self.titles: list[str] = []  # of the tables around it: stream photons, source
        self.value = values
        key = error.get("ctx", {}).get("key")
        self._follow([*error["loc"], *([] if key is None else [key])])

    def _follow(self, location: list[str | int]) -> None:
        """Goes down the tables along pydantic's location, which goes on inside of values."""
        while location:
            key = location.pop(0)
            self._go_to(key)
            self.field = self.table.fields_by_key().get(str(key))
            table, several = (None, False) if self.field is None else table_of(self.field)
            if table is None or not location:
                return
            title = str(key)
            if several:
                entry = location.pop(0)
                self._go_to(entry)
                title = f"{title.removesuffix('s')} {self._entry_name(entry)}"
            if not location and self.kind != "setting":
                return  # the table itself is wrong, not a key in it
            self.titles.append(title)
            self.table = table

    def _entry_name(self, entry: str | int) -> str | int:
        """Returns how people call an entry of a [[table]]: its name, or its number from 1."""
        if isinstance(entry, str):
            return entry
        name = self.value.get("name") if isinstance(self.value, dict) else None
        return name if isinstance(name, str) and name else entry + 1

    def _go_to(self, key: str | int) -> None:
        self.keys = (*self.keys, key)
        try:
            self.value = self.value[key]
        except (KeyError, IndexError, TypeError):
            self.value = self.error["input"]

    def message(self) -> str:
        text = self._text()
        return f"{', '.join(self.titles)}: {text}" if self.titles else text

    def _text(self) -> str:
        key = next((key for key in reversed(self.keys) if isinstance(key, str)), "")
        if self.kind == "setting":
            return str(self.error["ctx"]["message"])
        if self.kind == "extra_forbidden":
            what = "setting" if self.titles else "table"
            return f"unknown {what} {key!r}{suggestion(key, self.table.fields_by_key())}"
        assert self.field is not None
        if self.kind == "missing":
            return missing(key, self.field)
        return wrong(key, self.value, self.field)


def checked_value(model: type[SettingsTable], key: str, value: Any) -> Any:
    """Returns the value of one key of a table, checked as in a file."""
    field = model.fields_by_key()[key]
    kind: Any = field.annotation
    for note in field.metadata:
        kind = Annotated[kind, note]
    adapter: TypeAdapter[Any] = TypeAdapter(kind, config=ConfigDict(strict=True))
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        (first, *_) = error.errors()
        said = first["ctx"]["message"] if first["type"] == "setting" else wrong(key, value, field)
        raise JobError(said) from None


def missing(key: str, field: FieldInfo) -> str:
    """`path is missing; there must be path = "out"`"""
    must = must_of(field)
    example = toml_value(field.examples[0]) if field.examples else "..."
    return must.missing or f"{key} is missing; there must be {key} = {example}"


def wrong(key: str, value: Any, field: FieldInfo) -> str:
    """`lateness = -5 cannot be; it must be a number >= 0`"""
    guess = closest(value, choices_of(field)) if isinstance(value, str) else None
    hint = f"; did you mean {guess!r}?" if guess else ""
    return f"{key} = {shown(value)} cannot be; it must be {must_of(field).be}{hint}"
