"""The syntax tree of a query: what was written and where, before anybody knows what it means.

Comes in: nothing. Goes out: frozen nodes, each with its `span` in the text, so that errors can point.
Never: a check against a stream, or a meaning; that is `bind`.

`depth` counts how deep an expression is nested in parentheses, NOT, signs, BETWEEN and IN; it is limited when
the tree is built, so that whoever walks the tree may recurse.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from anabranch.predicates.terms import Op

#: Offset of the first character in the text, and the number of characters.
Span = tuple[int, int]

#: A number as it was written: no rounding before it is known what it is for.
Exact = int | Decimal


def covering(first: Span, last: Span) -> Span:
    return first[0], last[0] + last[1] - first[0]


# --- expressions: conditions and values ---


@dataclass(frozen=True, slots=True)
class Name:
    """`coord.cel.ra`, `"odd name"`; `quoted` when it was written with double quotes."""

    text: str
    span: Span
    quoted: bool = False
    depth: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class Number:
    value: Exact
    span: Span
    depth: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class String:
    value: str
    span: Span
    depth: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class Truth:
    value: bool
    span: Span
    depth: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class Timestamp:
    """`TIMESTAMP '2026-01-01 00:00:00'`"""

    value: str
    span: Span
    depth: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class Call:
    """`max(price)`, `scale(en, 2.5)`; no argument is `count(*)`."""

    function: str
    arguments: tuple[Expression, ...]
    span: Span
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Signed:
    sign: int
    value: Expression
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Sum:
    """The parts with the sign before each: `a - b + 1` is ((1, a), (-1, b), (1, 1))."""

    parts: tuple[tuple[int, Expression], ...]
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Product:
    """The factors with the operator before each: `60 * 4 / 2` is (("*", 60), ("*", 4), ("/", 2))."""

    parts: tuple[tuple[str, Expression], ...]
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class InParentheses:
    """An expression in parentheses."""

    inner: Expression
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Compare:
    left: Expression
    op: Op
    right: Expression
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Between:
    value: Expression
    low: Expression
    high: Expression
    negated: bool
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class OneOf:
    """`value IN (options)`"""

    value: Expression
    options: tuple[Expression, ...]
    negated: bool
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Negation:
    term: Expression
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class AndTerms:
    terms: tuple[Expression, ...]
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class OrTerms:
    terms: tuple[Expression, ...]
    span: Span
    depth: int


Expression = (
    Name | Number | String | Truth | Timestamp | Call | Signed | Sum | Product | InParentheses
    | Compare | Between | OneOf | Negation | AndTerms | OrTerms
)  # fmt: skip


# --- heads: what stands between SELECT and FROM ---


@dataclass(frozen=True, slots=True)
class Item:
    value: Name | Call
    alias: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class Chosen:
    """`SELECT items`; no items is `SELECT *`."""

    items: tuple[Item, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Point:
    coordinates: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ObjectName:
    """`OBJECT 'f'`"""

    name: Expression
    span: Span


Focal = Point | ObjectName


@dataclass(frozen=True, slots=True)
class Within:
    radius: Expression
    focal: Focal
    span: Span


@dataclass(frozen=True, slots=True)
class InBox:
    width: Expression
    height: Expression
    focal: Focal
    span: Span


Area = Within | InBox


@dataclass(frozen=True, slots=True)
class NearestItems:
    """`NEAREST k TO (..) BY (..)`"""

    k: Expression
    point: Point
    by: By | None
    span: Span


@dataclass(frozen=True, slots=True)
class NearestObjects:
    """`NEAREST k OBJECTS TO focal`"""

    k: Expression
    focal: Focal
    span: Span


@dataclass(frozen=True, slots=True)
class ClustersWithin:
    """`CLUSTERS WITHIN range MIN count BY (..)`"""

    range: Expression
    count: Expression
    by: By | None
    span: Span


@dataclass(frozen=True, slots=True)
class Detect:
    """`DETECT DENSITY-BASED CLUSTERS`; its numbers come in the clauses USING and IN WINDOWS."""

    by: By | None
    span: Span


@dataclass(frozen=True, slots=True)
class Objects:
    area: Area
    span: Span


@dataclass(frozen=True, slots=True)
class ObjectsValue:
    """`count(*) WITHIN ..`"""

    value: Call
    area: Area
    span: Span


Head = Chosen | NearestItems | NearestObjects | ClustersWithin | Detect | Objects | ObjectsValue


# --- clauses: what comes after FROM, in any order ---


@dataclass(frozen=True, slots=True)
class Where:
    condition: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Having:
    condition: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Length:
    """A number and perhaps a unit, in capitals and plural: SECONDS, MINUTES, HOURS, DAYS."""

    value: Expression
    unit: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class WindowClause:
    unit: str  # "rows" or "range"
    size: Length
    step: Length | None
    span: Span


@dataclass(frozen=True, slots=True)
class AtEndClause:
    word: Name
    span: Span


@dataclass(frozen=True, slots=True)
class Method:
    """`USING PA(0.001)`"""

    word: Name
    sigma: Expression | None
    span: Span


@dataclass(frozen=True, slots=True)
class Setting:
    """`range = 0.01`"""

    name: Name
    value: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class UsingSettings:
    settings: tuple[Setting, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class InWindows:
    settings: tuple[Setting, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class EmitClause:
    word: Name
    span: Span


@dataclass(frozen=True, slots=True)
class Issuer:
    """`FOR OBJECT 'i'`"""

    name: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class By:
    columns: tuple[Name, ...]
    span: Span


Clause = (
    Where
    | Having
    | WindowClause
    | AtEndClause
    | Method
    | UsingSettings
    | InWindows
    | EmitClause
    | Issuer
    | By
)


@dataclass(frozen=True, slots=True)
class SqlQuery:
    text: str
    head: Head
    stream: Name
    clauses: tuple[Clause, ...]

    @property
    def streams(self) -> tuple[Name, ...]:
        return (self.stream,)
