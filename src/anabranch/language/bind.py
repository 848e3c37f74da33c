"""Gives a syntax tree its meaning: names become columns, numbers get units, the query gets its family.

    bind(parse("SELECT en FROM photons WHERE en > 1"), streams)     # BoundQuery: stream, family, spec

A query that names what is not there, compares the wrong types or can never be true is refused with a
QueryError that points into the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from anabranch.families.clusters.spec import Clusters
from anabranch.families.filters.spec import Aggregate, Select
from anabranch.families.moving.spec import Moving
from anabranch.families.nearest.spec import Nearest
from anabranch.language import syntax as s
from anabranch.language.bind_filters import Condition, bind_aggregate, bind_select, possible
from anabranch.language.bind_moving import bind_moving
from anabranch.language.bind_points import bind_clusters, bind_detect, bind_nearest
from anabranch.language.clauses import AGGREGATE, Clauses
from anabranch.language.conditions import condition
from anabranch.language.errors import pointing_into, refuse, unknown
from anabranch.language.parse import parse
from anabranch.language.scopes import ItemScope
from anabranch.language.wxquery.bind import bind_wxquery
from anabranch.language.wxquery.construction import Construction
from anabranch.language.wxquery.syntax import WXQuery
from anabranch.model.limits import DEFAULT_LIMITS, QueryLimits
from anabranch.model.stream import Stream
from anabranch.predicates.work import Work

Spec = Select | Aggregate | Nearest | Clusters | Moving


@dataclass(frozen=True)
class BoundQuery:
    """A query ready for the optimizer. `family` is filters, nearest, clusters or moving.

    `construction` is what a WXQuery makes of its results on delivery; SQL makes nothing of them. A WXQuery
    over several streams has a part for each: this is the first, `parts` are the others.
    """

    stream: str
    family: str
    spec: Spec
    construction: Construction | None = None
    parts: tuple[BoundQuery, ...] = ()


def compile_query(text: str, streams: Mapping[str, Stream]) -> BoundQuery:
    """Parse and bind; whatever is wrong comes as a QueryError."""
    return bind(parse(text, limits_of(streams)), streams)


def limits_of(streams: Mapping[str, Stream]) -> QueryLimits:
    """The limits of the job; all its streams have the same."""
    return next((stream.limits for stream in streams.values()), DEFAULT_LIMITS)


def bind(tree: s.SqlQuery | WXQuery, streams: Mapping[str, Stream]) -> BoundQuery:
    with pointing_into(tree.text):
        for name in tree.streams:
            if name.text not in streams:
                raise unknown("stream", name.text, streams, name.span)
        work = Work(limits_of(streams))
        if isinstance(tree, WXQuery):
            return _bind_wxquery(tree, streams, work)
        spec = _bind_kind(tree, ItemScope(tree.text, streams[tree.stream.text], work))
        return BoundQuery(tree.stream.text, family_of(tree), spec)


def family_of(tree: s.SqlQuery | WXQuery) -> str:
    """The name of the family that answers a query; it is known before the columns of the stream are."""
    if isinstance(tree, WXQuery):
        return "filters"
    match tree.head:
        case s.Chosen():
            return "filters"
        case s.NearestItems():
            return "nearest"
        case s.ClustersWithin() | s.Detect():
            return "clusters"
    return "moving"


def _bind_wxquery(tree: WXQuery, streams: Mapping[str, Stream], work: Work) -> BoundQuery:
    specs, construction = bind_wxquery(tree, streams, work)
    first, *others = (
        BoundQuery(name.text, "filters", spec) for name, spec in zip(tree.streams, specs, strict=True)
    )
    return replace(first, construction=construction, parts=tuple(others))


def _bind_kind(tree: s.SqlQuery, scope: ItemScope) -> Spec:
    clauses, head = Clauses(tree, scope.is_operator), tree.head
    where = _where(clauses, scope)
    if scope.called is not None and not isinstance(head, s.Chosen):
        raise refuse("operators work in select and aggregate queries only", scope.called)
    match head:
        case s.Chosen() if clauses.kind == AGGREGATE:
            return bind_aggregate(head, clauses, scope, where)
        case s.Chosen():
            return bind_select(head, scope, where)
        case s.NearestItems():
            return bind_nearest(head, clauses, scope, where.term)
        case s.ClustersWithin():
            return bind_clusters(head, clauses, scope, where.term)
        case s.Detect():
            return bind_detect(head, clauses, scope, where.term)
    return bind_moving(head, tree.stream, clauses, scope, where.term)


def _where(clauses: Clauses, scope: ItemScope) -> Condition:
    where = clauses.get(s.Where)
    if where is None:
        return Condition()
    return possible(condition(where.condition, scope), scope.stream, where.span, scope.work)
