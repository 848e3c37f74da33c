"""Binds nearest and clusters: queries on points whose coordinates are columns.

Comes in: the head, the clauses, the stream and the bound condition. Goes out: a Nearest or Clusters spec.
Never: a stream without the columns that the spec names.
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.families.clusters.spec import Clusters, Emit
from anabranch.families.nearest.spec import METHODS, Nearest, is_on_globe
from anabranch.language import syntax as s
from anabranch.language.clauses import Clauses
from anabranch.language.constants import at_most, choice, not_negative, real
from anabranch.language.errors import counted, refuse, unknown
from anabranch.language.scopes import TYPE_WORDS, ItemScope
from anabranch.language.windows import bind_at_end, bind_window, rows_window
from anabranch.predicates.terms import Term

MAX_NEAREST_DIMENSIONS = 16
MAX_CLUSTERS_DIMENSIONS = 8

WINDOW_EXAMPLE = "WINDOW ROWS 5000 STEP 1000"


def bind_nearest(head: s.NearestItems, clauses: Clauses, scope: ItemScope, condition: Term) -> Nearest:
    text = scope.text
    k = nearest_k(head.k, scope)
    by = _coordinates(head.by, head, clauses, scope, MAX_NEAREST_DIMENSIONS)
    point = tuple(real(coordinate, text) for coordinate in head.point.coordinates)
    if len(point) != len(by):
        raise refuse(
            f"the point has {counted(len(point), 'coordinate')}; the columns are {len(by)}: {', '.join(by)}",
            head.point.span,
        )
    _check_latitude(point, by, head, scope)
    clause = clauses.need(s.WindowClause, head, "WINDOW RANGE 3600")
    if clause.step is not None:
        raise refuse("a nearest query takes no STEP; its window slides with every item", clause.step.span)
    window = bind_window(clause, None, scope.stream, text)
    method, sigma = _method(clauses.get(s.Method), text, scope.stream.nearest_sigma)
    return Nearest(k, point, by, window, condition, method, sigma)


def _check_latitude(
    point: tuple[float, ...], by: tuple[str, ...], head: s.NearestItems, scope: ItemScope
) -> None:
    """A point beyond a pole names no place on the globe."""
    if not is_on_globe(scope.stream, by):
        return
    latitude = point[by.index(scope.stream.position[1])]
    if abs(latitude) > 90:
        raise refuse(
            f"the latitude of the point is {latitude:g}; it must lie between -90 and 90", head.point.span
        )


def bind_clusters(head: s.ClustersWithin, clauses: Clauses, scope: ItemScope, condition: Term) -> Clusters:
    radius = not_negative(head.range, scope.text, "the range after WITHIN")
    count = _count(head.count, scope, "the count after MIN")
    clause = clauses.need(s.WindowClause, head, WINDOW_EXAMPLE)
    window = bind_window(clause, clauses.get(s.AtEndClause), scope.stream, scope.text)
    by = _coordinates(head.by, head, clauses, scope, MAX_CLUSTERS_DIMENSIONS)
    return Clusters(radius, count, by, window, condition, _emit(clauses))


def bind_detect(head: s.Detect, clauses: Clauses, scope: ItemScope, condition: Term) -> Clusters:
    """The papers' spelling: its windows count items."""
    using = clauses.need(s.UsingSettings, head, "USING range = 0.01 AND count = 10")
    windows = clauses.need(s.InWindows, head, "IN WINDOWS WITH win = 5000 AND slide = 1000")
    numbers = _settings(using, ("range", "count"))
    sizes = _settings(windows, ("win", "slide"))
    window = rows_window(sizes["win"], sizes["slide"], scope, ("win", "slide"))
    window = replace(window, at_end=bind_at_end(clauses.get(s.AtEndClause)))
    return Clusters(
        not_negative(numbers["range"], scope.text, "range"),
        _count(numbers["count"], scope, "count"),
        _coordinates(head.by, head, clauses, scope, MAX_CLUSTERS_DIMENSIONS),
        window,
        condition,
        _emit(clauses),
    )


def nearest_k(k: s.Expression, scope: ItemScope) -> int:
    return at_most(k, scope.text, "the number after NEAREST", "nearest_k", scope.stream.limits.nearest_k)


def _count(count: s.Expression, scope: ItemScope, what: str) -> int:
    return at_most(count, scope.text, what, "cluster_count", scope.stream.limits.cluster_count)


def _settings(clause: s.UsingSettings | s.InWindows, names: tuple[str, str]) -> dict[str, s.Expression]:
    """`range = 0.01 AND count = 10`, in any order, all of them, once each."""
    found: dict[str, s.Expression] = {}
    for setting in clause.settings:
        name = setting.name.text.lower()
        if name not in names:
            raise unknown("setting", setting.name.text, names, setting.name.span)
        if name in found:
            raise refuse(f"{name} is there twice", setting.span)
        found[name] = setting.value
    for name in names:
        if name not in found:
            raise refuse(f"{name} is missing here; add AND {name} = ..", clause.span)
    return found


def _coordinates(
    by: s.By | None, head: s.Head, clauses: Clauses, scope: ItemScope, limit: int
) -> tuple[str, ...]:
    """The columns after BY, or the stream's position."""
    late = clauses.get(s.By)
    if by is not None and late is not None:
        raise refuse("BY is there twice; join them into one", late.span)
    clause = by or late
    if clause is None:
        columns, span = scope.stream.position, head.span
        if not columns:
            name = scope.stream.name
            raise refuse(
                f"BY is missing, and stream {name} declares no position; add the columns: BY (x, y)", span
            )
    else:
        columns, span = tuple(_coordinate(name, scope) for name in clause.columns), clause.span
    for column in columns:
        if columns.count(column) > 1:
            raise refuse(f"{column} is there twice", span)
    if len(columns) > limit:
        raise refuse(f"{len(columns)} coordinates are too many; {clauses.kind} takes at most {limit}", span)
    return columns


def _coordinate(name: s.Name, scope: ItemScope) -> str:
    column = scope.column(name)
    if not column.type.is_number:
        raise refuse(f"{column.name} is {TYPE_WORDS[column.type]}; a coordinate must be a number", name.span)
    return column.name


def _method(clause: s.Method | None, text: str, usual: float | None) -> tuple[str, float | None]:
    """`usual` is the error of PA where the query names none."""
    if clause is None:
        return METHODS[0], None
    method = choice(clause.word, METHODS, "the method")
    if method != "PA":
        if clause.sigma is not None:
            raise refuse(f"{method} is exact and takes no number; only PA(0.001) does", clause.sigma.span)
        return method, None
    if clause.sigma is None and usual is not None:
        return method, usual
    if clause.sigma is None:
        raise refuse("PA needs the error that it may make, for example PA(0.001)", clause.span)
    sigma = real(clause.sigma, text)
    if not 0 < sigma < 1:
        raise refuse(f"the error of PA must lie between 0 and 1; this is {sigma:g}", clause.sigma.span)
    return method, sigma


def _emit(clauses: Clauses) -> Emit:
    clause = clauses.get(s.EmitClause)
    return Emit.MEMBERS if clause is None else Emit(choice(clause.word, tuple(Emit), "EMIT"))
