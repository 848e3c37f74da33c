"""Operators of users: deterministic functions of an item's columns, known by name (StreamGlobe 4.5).

In: a function, or where to find it. Out: the function; and what a query makes of it: a column named like the
call, `scale(en, 2.5)`. Never: a look inside; two calls are the same if name and arguments are.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from typing import Any

from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError

Constant = int | float | str | bool

_NAME = re.compile(r"[a-z_][a-z0-9_]*")
#: What aggregates are called; an operator cannot be called so.
_TAKEN = ("min", "max", "sum", "count", "avg")
_PLAIN = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


@dataclass(frozen=True)
class Operator:
    """`function(*arrays and constants)` gives a value an item. `target` is where it is, "module:function", to
    be imported from `folder` or the path of Python; `function` itself, if it is known, is taken instead.
    Without `type`, the type of its results is what it gives for no items.
    """

    name: str
    target: str
    type: ColumnType | None = None
    folder: str | None = field(default=None, compare=False)
    function: Callable[..., Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in _TAKEN:
            raise JobError(
                f"an operator cannot be called {self.name!r}; names have small letters, digits and _, "
                f"and are not {', '.join(_TAKEN)}"
            )
        if self.type is ColumnType.POINT:
            raise JobError(f"operator {self.name}: a column of a stream cannot be a point")

    def __call__(self, *arguments: Any) -> Any:
        return (self.function or _found(self.name, self.target, self.folder))(*arguments)


@lru_cache(maxsize=1024)
def _found(name: str, target: str, folder: str | None) -> Callable[..., Any]:
    module, _, attribute = target.partition(":")
    if folder is not None and folder not in sys.path:
        sys.path.append(folder)
    try:
        found = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise JobError(
            f"operator {name}: {target!r} cannot be found: {error}; "
            "write module:function, with the module beside the job file or installed"
        ) from error
    if not callable(found):
        raise JobError(f"operator {name}: {target!r} is {type(found).__name__}, not a function")
    return found


@dataclass(frozen=True, slots=True)
class Read:
    """An argument that is a column."""

    column: str


@dataclass(frozen=True, slots=True)
class Made:
    """The column that an operator makes of an item: `operator(arguments)`."""

    operator: str
    arguments: tuple[Read | Constant, ...]
    type: ColumnType

    @property
    def name(self) -> str:
        """The call as text, the same for equal calls only."""
        return f"{self.operator}({', '.join(map(_text, self.arguments))})"

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(each.column for each in self.arguments if isinstance(each, Read))

    @property
    def column(self) -> Column:
        return Column(self.name, self.type)

    def to_json(self) -> list[Any]:
        given = [[each.column] if isinstance(each, Read) else each for each in self.arguments]
        return [self.operator, given, self.type.value]

    @staticmethod
    def from_json(parts: list[Any]) -> Made:
        operator, given, kind = parts
        arguments = tuple(Read(each[0]) if isinstance(each, list) else each for each in given)
        return Made(operator, arguments, ColumnType(kind))


def _text(argument: Read | Constant) -> str:
    match argument:
        case Read(column=column) if _PLAIN.fullmatch(column):
            return column
        case Read(column=column):
            return '"' + column.replace('"', '""') + '"'
        case bool():
            return "TRUE" if argument else "FALSE"
        case str():
            return "'" + argument.replace("'", "''") + "'"
    return repr(argument)


def with_made(columns: tuple[Column, ...], made: Iterable[Made]) -> tuple[Column, ...]:
    """The columns, and those of `made` that are not among them."""
    known = {column.name for column in columns}
    more = {each.name: each.column for each in made if each.name not in known}
    return (*columns, *more.values())


def operators_to_json(operators: Iterable[Operator]) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "target": each.target, "type": each.type, "folder": each.folder}
        for each in operators
    ]


def operators_from_json(given: Iterable[dict[str, Any]]) -> tuple[Operator, ...]:
    made = (Operator(**each) for each in given)
    return tuple(replace(each, type=each.type and ColumnType(each.type)) for each in made)
