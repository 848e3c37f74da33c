"""The paths that only the dashboard needs: progress of the streams, answers as they stand, positions, the
plan as boxes, the network; and a query that is checked while it is typed. None of them changes anything.
"""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from anabranch.chain.items import json_row
from anabranch.families.registry import family as family_of
from anabranch.model.subscription import Subscription
from anabranch.service.access import AnyCaller, Viewer
from anabranch.service.batch_history import DEFAULT_SPAN_S, LONGEST_SPAN_S, BatchHistory
from anabranch.service.current_results import CurrentResults
from anabranch.service.dashboard_models import (
    CallerFacts,
    CurrentPage,
    NetworkFacts,
    PlanPage,
    PositionPage,
    ProgressPage,
    QueryFacts,
    QueryRequest,
    Savings,
)
from anabranch.service.errors import Refused
from anabranch.service.models import ColumnFacts
from anabranch.service.plan_boxes import PlanBoxes
from anabranch.service.positions import Positions
from anabranch.service.routes import REFUSALS, Name, checks_of, service_of

api = APIRouter(prefix="/api", responses=REFUSALS)

MAX_POSITIONS = 20_000


@api.get("/caller", tags=["about"])
def who(caller: AnyCaller) -> CallerFacts:
    """Who asks, and as what."""
    return CallerFacts(owner=caller.owner, role=caller.role.value)


@api.post("/check", tags=["subscriptions"])
async def check(request: Request, caller: AnyCaller, given: QueryRequest) -> QueryFacts:
    """Whether a query would be taken, and what its results would look like. Nothing is registered."""
    service = service_of(request)
    new = await checks_of(request).bound(caller, Subscription("checked", given.query))
    _, shown = family_of(new.family).shown(service.stream(new.stream), new.spec)
    columns = [ColumnFacts(name=each.column.name, type=each.column.type.value) for each in shown]
    return QueryFacts(stream=new.stream, family=new.family, kind=new.kind, columns=columns)


@api.get("/progress", tags=["streams"])
def progress(
    request: Request,
    caller: AnyCaller,
    span: Annotated[
        float, Query(ge=10, le=LONGEST_SPAN_S, description="So many seconds back.")
    ] = DEFAULT_SPAN_S,
) -> ProgressPage:
    """How the streams went lately, as points for a chart: one per batch, or per several over a long span."""
    history: BatchHistory = request.app.state.history
    kinds = service_of(request).catalog.kinds(caller.only)
    now = time.time()
    return ProgressPage(now=now, branches=history.progress(now, span), subscriptions=kinds)


@api.get("/answers/{name:path}", tags=["results"])
def current(request: Request, caller: AnyCaller, name: Name) -> CurrentPage:
    """What is true of a subscription now."""
    service = service_of(request)
    results: CurrentResults = request.app.state.current_results
    known: Positions = request.app.state.positions
    entry = service.subscription(caller, name)
    rows, cursor, more = results.now(entry, service.results_of(caller, entry))
    positions = None
    if entry.kind == "clusters" and entry.spec["emit"] == "members":
        found = known.of(caller, service.stream(entry.stream), [row["id"] for row in rows])
        positions = [None if position is None else list(position) for position in found]
    return CurrentPage(
        name=entry.name,
        kind=entry.kind,
        stream=entry.stream,
        asked={key: value for key, value in entry.spec.items() if key not in ("kind", "condition")},
        rows=[json_row(row) for row in rows],
        positions=positions,
        next=str(cursor),
        more=more,
    )


@api.get("/positions/{stream}", tags=["streams"])
def positions(
    request: Request,
    caller: AnyCaller,
    stream: Annotated[str, Path(examples=["photons"])],
    limit: Annotated[int, Query(ge=1, le=MAX_POSITIONS, description="At most so many.")] = 1_000,
) -> PositionPage:
    """The last positions, newest first."""
    known: Positions = request.app.state.positions
    entry, found = known.last(caller, service_of(request).stream(stream), limit)
    return PositionPage(
        subscription=None if entry is None else entry.name,
        names=[name for name, _ in found],
        x=[x for _, (x, _) in found],
        y=[y for _, (_, y) in found],
    )


@api.get("/network", tags=["plan"])
def network(request: Request, caller: Viewer) -> NetworkFacts:
    """The network that selections and aggregates are planned on: load of sites, traffic of links."""
    return NetworkFacts(**service_of(request).network())


@api.get("/plan/boxes", tags=["plan"])
def plan_boxes(
    request: Request,
    caller: Viewer,
    stream: Annotated[str, Query(description="Of this stream; or of the one that is asked most.")] = "",
    opened: Annotated[
        list[str],
        Query(alias="open", max_length=100, description="KEY:NUMBER, to draw so many of what is folded."),
    ] = [],  # noqa: B006  FastAPI copies it
    way: Annotated[str, Query(description="Draw the way to this subscription.")] = "",
) -> PlanPage:
    """The plan of a stream as a few boxes, however many subscriptions there are."""
    boxes: PlanBoxes = request.app.state.plan_boxes
    return boxes.page(stream, dict(map(_opened, opened)), way)


def _opened(text: str) -> tuple[str, int]:
    key, _, many = text.rpartition(":")
    if not many.isascii() or not many.isdigit():
        raise Refused(422, "invalid", f"open {text[:100]!r} is not of the form KEY:NUMBER")
    return key, int(many[:9])


@api.get("/plan/savings", tags=["plan"])
def savings(request: Request, caller: Viewer) -> Savings:
    """What selections and aggregates share, in counts."""
    boxes: PlanBoxes = request.app.state.plan_boxes
    return boxes.tree().savings
