"""The syntax tree of a WXQuery: what was written and where.

Comes in: nothing. Goes out: frozen nodes, each with its `span` in the text and the `depth` of what is nested
in it. Never: a check against a stream, or a meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.language.syntax import Name, Number, Signed, Span, String
from anabranch.predicates.terms import Op


@dataclass(frozen=True, slots=True)
class Variable:
    """`$p`; `name` is without the sign."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class StreamPath:
    """`stream("photons")`; `/photons` is the function `/` without an argument."""

    function: str
    argument: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class Step:
    """`photon[en > 1]`; the name `.` is the node itself."""

    name: str
    condition: Condition | None
    span: Span
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Path:
    """Steps from a variable, a source or, where there is no origin, the node that the path is about."""

    origin: Variable | StreamPath | None
    steps: tuple[Step, ...]
    span: Span
    depth: int = 0


# --- conditions ---


@dataclass(frozen=True, slots=True)
class Shifted:
    """`$p/a + 5`, `$p/a - 5`"""

    path: Path
    sign: int
    number: Number
    span: Span
    depth: int = 0


Value = Number | String | Signed | Path | Shifted


@dataclass(frozen=True, slots=True)
class Comparison:
    left: Value
    op: Op
    right: Value
    span: Span
    depth: int = 0


@dataclass(frozen=True, slots=True)
class AllOf:
    terms: tuple[Condition, ...]
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class AnyOf:
    terms: tuple[Condition, ...]
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Parentheses:
    inner: Condition
    span: Span
    depth: int


#: A value alone is a condition, too: a path asks whether the element is there.
Condition = Value | Comparison | AllOf | AnyOf | Parentheses


# --- expressions ---


@dataclass(frozen=True, slots=True)
class ElementExpression:
    """`<vela> { $p/en } </vela>`; an enclosed expression stands for itself."""

    name: str
    content: tuple[Expression, ...]
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class SequenceExpression:
    parts: tuple[Expression, ...]
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class If:
    condition: Condition
    then: Expression
    otherwise: Expression
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class WindowExpression:
    """`|count 4 step 2|`, or with a reference `|det_time diff 20 step 10|`."""

    reference: Path | None
    size: Number
    step: Number | None
    span: Span


@dataclass(frozen=True, slots=True)
class For:
    variable: Variable
    path: Path
    window: WindowExpression | None
    span: Span


@dataclass(frozen=True, slots=True)
class Let:
    """`let $a := avg($w/en)`"""

    variable: Variable
    function: Name
    path: Path
    span: Span


@dataclass(frozen=True, slots=True)
class Flwr:
    """For, let, where, return."""

    clauses: tuple[For | Let, ...]
    where: Condition | None
    result: Expression
    span: Span
    depth: int


Expression = Path | ElementExpression | SequenceExpression | If | Flwr


@dataclass(frozen=True, slots=True)
class WXQuery:
    """`mains` are the expressions in `body` that go over streams, `streams` the names of those, in order."""

    text: str
    body: Expression
    mains: tuple[Flwr, ...]
    streams: tuple[Name, ...]
