"""What a WXQuery makes of its results: XML elements, as a plan that knows the columns of a result row.

Comes in: nothing; `bind` makes it. Goes out: plain data, applied on delivery. Never: a value.

    <vela> { $p/en } { if ($p/en > 5) then <hot/> else () } </vela>

    Element("vela", (Subtree("en", "en"), When(en > 5, Element("hot"), EMPTY)))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from anabranch.predicates.terms import TRUE, Term, columns_of


@dataclass(frozen=True, slots=True)
class Element:
    """A new element; each part of its content is an element or one enclosed expression."""

    name: str
    content: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtree:
    """An element of the item: its value (`column`) and the elements in it. It is absent where all of them
    are."""

    name: str
    column: str | None = None
    parts: tuple[Subtree, ...] = ()


@dataclass(frozen=True, slots=True)
class Atom:
    """The value of an aggregate, without an element around it."""

    column: str


@dataclass(frozen=True, slots=True)
class Markup:
    """What was made of the items of a window: a column of `WindowContents`, which is XML already."""

    column: str


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class When:
    condition: Term
    then: Node
    otherwise: Node


Node = Element | Subtree | Atom | Markup | Sequence | When

EMPTY = Sequence()


@dataclass(frozen=True, slots=True)
class WindowContents:
    """Windows over the items of a part, of `size` items, `step` apart. `columns` are what is made of every
    item of a window, by name; the texts of its items one after the other are that column of the window.
    """

    size: int
    step: int
    columns: tuple[tuple[str, Node], ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """A `for` over streams: what is made of each row of its results.

    Over several streams it goes in nested loops over the results of all of them, a part each; the columns of
    a part are then called `variable.column`, and a row counts where the condition holds that no part could
    check alone. `prefixes` has the variables; that of a single part is empty. With `window`, the results are
    items, and a row is made per window of them.
    """

    row: Node
    prefixes: tuple[str, ...] = ("",)
    condition: Term = TRUE
    window: WindowContents | None = None


@dataclass(frozen=True, slots=True)
class Construction:
    """Loops, and the markup before, between and after them. Their parts are numbered through."""

    markup: tuple[str, ...]
    loops: tuple[Loop, ...]


def columns_in(node: Node) -> Iterator[str]:
    """The columns of a result that a construction reads, in order, with repetitions."""
    match node:
        case Atom(column=column):
            yield column
        case Subtree(column=own, parts=below):
            if own is not None:
                yield own
            for inner in below:
                yield from columns_in(inner)
        case Element(content=parts) | Sequence(parts=parts):
            for part in parts:
                yield from columns_in(part)
        case When(condition=condition, then=then, otherwise=otherwise):
            yield from columns_of(condition)
            yield from columns_in(then)
            yield from columns_in(otherwise)
