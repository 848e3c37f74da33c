"""Which kind of query takes which clauses.

Comes in: the head and the clauses of a query. Goes out: its kind, and each clause at most once.
Never: what a clause says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from anabranch.language import syntax as s
from anabranch.language.errors import one_of, refuse

AnyClause = TypeVar("AnyClause", bound=s.Clause)

WORDS: dict[type[object], str] = {
    s.Where: "WHERE",
    s.Having: "HAVING",
    s.WindowClause: "WINDOW",
    s.AtEndClause: "AT END",
    s.Method: "USING",
    s.UsingSettings: "USING",
    s.InWindows: "IN WINDOWS",
    s.EmitClause: "EMIT",
    s.Issuer: "FOR OBJECT",
    s.By: "BY",
}

TAKES: dict[str, tuple[type[s.Clause], ...]] = {
    "a query that selects columns": (s.Where,),
    "an aggregate query": (s.Where, s.WindowClause, s.AtEndClause, s.Having),
    "a nearest query": (s.Where, s.WindowClause, s.Method, s.By),
    "a clusters query": (s.Where, s.WindowClause, s.AtEndClause, s.EmitClause, s.By),
    "DETECT CLUSTERS": (s.Where, s.UsingSettings, s.InWindows, s.AtEndClause, s.EmitClause, s.By),
    "a query on moving objects": (s.Where, s.Issuer),
}
SELECT, AGGREGATE, NEAREST, CLUSTERS, DETECT, MOVING = TAKES

_HINTS: dict[tuple[str, type[s.Clause]], str] = {
    (SELECT, s.WindowClause): "a window needs aggregates such as max(price)",
    (SELECT, s.Having): "use WHERE",
    (NEAREST, s.AtEndClause): "nothing leaves its window because the input ended",
    (NEAREST, s.Having): "use WHERE",
    (MOVING, s.WindowClause): "its answers follow the last report of every object",
    (MOVING, s.By): "its coordinates are the stream's position",
    (DETECT, s.WindowClause): "write IN WINDOWS WITH win = 5000 AND slide = 1000",
    (DETECT, s.Method): "write USING range = 0.01 AND count = 10",
    (CLUSTERS, s.UsingSettings): "write CLUSTERS WITHIN 0.01 MIN 10",
    (CLUSTERS, s.InWindows): "write WINDOW ROWS 5000 STEP 1000",
}


def kind_of(head: s.Head, is_operator: Callable[[str], bool]) -> str:
    match head:
        case s.Chosen(items=items):
            calls = (item.value for item in items if isinstance(item.value, s.Call))
            return AGGREGATE if any(not is_operator(call.function) for call in calls) else SELECT
        case s.NearestItems():
            return NEAREST
        case s.ClustersWithin():
            return CLUSTERS
        case s.Detect():
            return DETECT
    return MOVING


class Clauses:
    """The clauses of one query, by their class. Functions that are no operators are aggregates."""

    def __init__(self, query: s.SqlQuery, is_operator: Callable[[str], bool]) -> None:
        self.kind = kind_of(query.head, is_operator)
        self._by_class: dict[type[object], s.Clause] = {}
        for clause in query.clauses:
            self._add(clause)

    def _add(self, clause: s.Clause) -> None:
        which = type(clause)
        if which not in TAKES[self.kind]:
            hint = (
                _HINTS.get((self.kind, which))
                or f"it takes {one_of(WORDS[taken] for taken in TAKES[self.kind])}"
            )
            raise refuse(f"{self.kind} takes no {WORDS[which]}; {hint}", clause.span)
        if which in self._by_class:
            raise refuse(f"{WORDS[which]} is there twice; join them into one", clause.span)
        self._by_class[which] = clause

    def get(self, which: type[AnyClause]) -> AnyClause | None:
        return cast("AnyClause | None", self._by_class.get(which))

    def need(self, which: type[AnyClause], head: s.Head, example: str) -> AnyClause:
        clause = self.get(which)
        if clause is None:
            raise refuse(f"{self.kind} needs {WORDS[which]}, for example {example}", head.span)
        return clause
