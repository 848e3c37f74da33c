"""The paths that a page reads to watch the streams: what goes on, answers as they stand, positions, the
network; and a query checked while it is written.

In: requests of callers that the gate let through. Out: what the caller may see. Never: a change.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from anabranch.families.registry import family as family_of
from anabranch.service.answers import Answers
from anabranch.service.gate import Known, SeesAll
from anabranch.service.history import History
from anabranch.service.models import ColumnFacts
from anabranch.service.positions import Positions
from anabranch.service.routes import REFUSALS, Name, desk_of
from anabranch.service.views import Answer, CallerFacts, NetworkFacts, ProgressPage, Question, Understood
from anabranch.service.views import Positions as PositionPage
from anabranch.zones.jsonlines import json_row

api = APIRouter(prefix="/api", responses=REFUSALS)

MAX_POSITIONS = 20_000


@api.get("/caller", tags=["about"])
def who(caller: Known) -> CallerFacts:
    """Who asks, and as what."""
    return CallerFacts(owner=caller.owner, role=caller.role.value)


@api.post("/check", tags=["subscriptions"])
def check(request: Request, caller: Known, asked: Question) -> Understood:
    """Whether a query would be taken, and what its results would look like. Nothing is registered."""
    desk = desk_of(request)
    new = desk.understood(asked.query)
    _, shown = family_of(new.family).shown(desk.stream(new.stream), new.spec)
    columns = [ColumnFacts(name=each.column.name, type=each.column.type.value) for each in shown]
    return Understood(stream=new.stream, family=new.family, kind=new.kind, columns=columns)


@api.get("/progress", tags=["streams"])
def progress(request: Request, caller: Known) -> ProgressPage:
    """How the streams went lately, a point a batch."""
    history: History = request.app.state.history
    kinds = desk_of(request).catalog.kinds(caller.only)
    return ProgressPage(families=history.progress(), subscriptions=kinds)


@api.get("/answers/{name:path}", tags=["results"])
def answer(request: Request, caller: Known, name: Name) -> Answer:
    """The answer as it stands now."""
    desk = desk_of(request)
    answers: Answers = request.app.state.answers
    places: Positions = request.app.state.positions
    entry = desk.subscription(caller, name)
    rows, cursor, more = answers.now(entry, desk.results(caller, entry.label))
    positions = None
    if entry.kind == "clusters" and entry.spec["emit"] == "members":
        found = places.of(caller, desk.stream(entry.stream), [row["id"] for row in rows])
        positions = [None if place is None else list(place) for place in found]
    return Answer(
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
    caller: Known,
    stream: Annotated[str, Path(examples=["photons"])],
    limit: Annotated[int, Query(ge=1, le=MAX_POSITIONS, description="At most so many.")] = 1_000,
) -> PositionPage:
    """The last positions, newest first."""
    known: Positions = request.app.state.positions
    entry, found = known.last(caller, desk_of(request).stream(stream), limit)
    return PositionPage(
        subscription=None if entry is None else entry.name,
        names=[name for name, _ in found],
        x=[x for _, (x, _) in found],
        y=[y for _, (_, y) in found],
    )


@api.get("/network", tags=["plan"])
def network(request: Request, caller: SeesAll) -> NetworkFacts:
    """The network that selections and aggregates are planned on: load of sites, traffic of links."""
    return NetworkFacts(**desk_of(request).network())
