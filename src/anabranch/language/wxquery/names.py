"""What variables and paths stand for: items and elements of them, the contents of windows, aggregates.

Comes in: paths of the syntax tree. Goes out: columns. Never: a path to what is not there; that is refused
with what is.

A path `coord/cel/ra` is the column `coord.cel.ra`. A step is also found with _ in span of its hyphens: the
paper's appendix E asks for det-time where the stream has det_time. The first step after a variable may be the
item itself: `$w/photon/en` and `$w/en` are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from anabranch.language import syntax as s
from anabranch.language.errors import listed, refuse
from anabranch.language.wxquery import syntax as w
from anabranch.language.wxquery.construction import Node
from anabranch.model.columns import Column
from anabranch.model.errors import QueryError
from anabranch.model.stream import Stream
from anabranch.model.suggestions import closest


@dataclass(frozen=True, slots=True)
class Tree:
    """An item, or the element of it at `path`, which is empty for the item itself."""

    path: str


@dataclass(frozen=True, slots=True)
class Contents:
    """The trees in a window."""

    path: str


@dataclass(frozen=True, slots=True)
class Result:
    """The value of an aggregate."""

    column: Column


Meaning = Tree | Contents | Result


@dataclass(frozen=True)
class Names:
    """The variables in scope. `items` is how the query calls an item, by its path: "" in a stream."""

    stream: Stream
    items: Mapping[str, str]
    variables: Mapping[str, Meaning]
    #: What is made of each item of a window, by the name of its column; None where nothing can be.
    contents: dict[str, Node] | None = None

    def having(self, variable: w.Variable, meaning: Meaning) -> Names:
        return replace(self, variables={**self.variables, variable.name: meaning})

    def meaning(self, variable: w.Variable) -> Meaning:
        found = self.variables.get(variable.name)
        if found is None:
            there = listed(f"${name}" for name in self.variables)
            raise refuse(f"unknown variable ${variable.name}. There are: {there}", variable.span)
        return found

    def start(self, path: w.Path, context: str | None) -> Tree | Contents | Result:
        """What a path begins at; `context` is the element that a path without a variable is about."""
        match path.origin:
            case w.Variable():
                return self.meaning(path.origin)
            case w.StreamPath(span=span):
                raise refuse(
                    "a stream inside of a for: it belongs into a for of its own, before the return", span
                )
        if context is None:
            raise refuse("this path begins nowhere; it needs a variable, such as $p/en", path.span)
        return Tree(context)

    def follow(self, base: str, step: w.Step, first: bool) -> str:
        """The path of an element of the element at `base`."""
        if step.name == ".":
            return base
        local = step.name.rpartition(":")[2]  # columns have no namespaces
        for name in (step.name, step.name.replace("-", "_"), local, local.replace("-", "_")):
            path = f"{base}.{name}" if base else name
            if any(self.below(path)):
                return path
        if first and self.items.get(base) in (step.name, local):
            return base
        raise self._unknown(f"{base}.{step.name}" if base else step.name, step.span)

    def below(self, path: str) -> Iterator[Column]:
        """The columns of an element: itself, or what is in it."""
        for column in self.stream.columns:
            if not path or column.name == path or column.name.startswith(f"{path}."):
                yield column

    def leaf(self, base: str, path: w.Path) -> Column:
        """The one column at the end of a path without conditions."""
        end = base
        for span, step in enumerate(path.steps):
            end = self.follow(end, step, span == 0)
        column = self.stream.column(end)
        if column is None:
            inside = listed(shown(column.name) for column in self.below(end))
            what = self.items.get(end) or shown(end)
            raise refuse(f"{what} is no value but holds elements; take one of them: {inside}", path.span)
        return column

    def operand(self, path: w.Path, context: str | None) -> s.Name:
        """The column or the aggregate that a condition compares."""
        return s.Name(self.value(path, context).name, path.span)

    def value(self, path: w.Path, context: str | None) -> Column:
        match self.start(path, context):
            case Result(column=column):
                check_value(path)
                return column
            case Contents():
                raise contents(path)
            case Tree(path=base):
                return self.leaf(base, path)

    def _unknown(self, path: str, span: s.Span) -> QueryError:
        names = [column.name for column in self.stream.columns]
        guess = closest(path, names)
        hint = f"; did you mean {shown(guess)}?" if guess else "."
        there = listed(map(shown, names))
        return refuse(
            f"unknown path {shown(path)} in stream {self.stream.name}{hint} There are: {there}", span
        )


def shown(path: str) -> str:
    return path.replace(".", "/")


def check_value(path: w.Path) -> None:
    """An aggregate has no elements."""
    for step in path.steps:
        if step.name != ".":
            raise refuse("the value of an aggregate has no elements; write the variable alone", path.span)


def contents(path: w.Path) -> QueryError:
    return refuse(
        "the contents of a window can be returned where the window counts items and no let aggregates them "
        "($w, $w/en, for $p in $w); conditions on items belong into the path of the for, photon[en > 1.3]",
        path.span,
    )
