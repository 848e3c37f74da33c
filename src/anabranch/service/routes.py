"""The paths of the service.

Names of subscriptions may have any letter, also slashes: they stand last in a path.
"""

from __future__ import annotations

import io
from typing import Annotated, Any

import pyarrow as pa
from anyio import to_thread
from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from anabranch.catalog.entries import ACTIVE
from anabranch.chain.items import json_row
from anabranch.model.subscription import Subscription
from anabranch.results.pages import Cursor, Page
from anabranch.service.access import Access, AnyCaller, Editor, Viewer
from anabranch.service.errors import Refused
from anabranch.service.events import EventResponse, events
from anabranch.service.job_service import JobService, moment_of
from anabranch.service.metrics import Metrics
from anabranch.service.models import (
    DeadPage,
    ErrorEnvelope,
    Health,
    ResultPage,
    SecretFacts,
    StreamFacts,
    SubscriptionFacts,
    SubscriptionPage,
    SubscriptionRequest,
)
from anabranch.service.query_checks import QueryChecks

ARROW = "application/vnd.apache.arrow.stream"
#: Headers of a page in Arrow, for what JSON says in its body.
NEXT, MORE, KEPT_FROM = "Anabranch-Next", "Anabranch-More", "Anabranch-Kept-From"

MAX_ROWS = 10_000

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorEnvelope, "description": text}
    for status, text in {
        400: "The request says something that cannot be done.",
        401: "A token is needed.",
        403: "The token's role is not enough.",
        404: "There is no such thing, or it is somebody else's.",
        409: "The name is taken, or the subscription has ended.",
        408: "The request came too slowly.",
        413: "The request is too large.",
        422: "The query is refused, with the position; or a value has the wrong form.",
        429: "A limit of the owner.",
    }.items()
}

api = APIRouter(prefix="/api", responses=REFUSALS)
about = APIRouter()

Name = Annotated[str, Path(description="The subscription.", examples=["vela"])]
After = Annotated[
    str | None, Query(description="A page's `next`, or an event's id.", examples=["12:3"], max_length=40)
]
Rows = Annotated[int, Query(ge=1, le=MAX_ROWS, description="At most so many rows.")]


def service_of(request: Request) -> JobService:
    service: JobService = request.app.state.service
    return service


def checks_of(request: Request) -> QueryChecks:
    checks: QueryChecks = request.app.state.checks
    return checks


# --- streams ---


@api.get("/streams", tags=["streams"])
def list_streams(request: Request, caller: AnyCaller) -> list[StreamFacts]:
    """All streams: columns, settings in stored units, books."""
    service = service_of(request)
    return [service.stream_facts(stream) for stream in service.catalog.streams().values()]


@api.get("/streams/{name}", tags=["streams"])
def show_stream(
    request: Request, caller: AnyCaller, name: Annotated[str, Path(examples=["photons"])]
) -> StreamFacts:
    service = service_of(request)
    return service.stream_facts(service.stream(name))


@api.get("/dead-letters/{stream}", tags=["streams"], responses={200: {"content": {ARROW: {}}}})
def dead_letters(
    request: Request,
    caller: AnyCaller,
    stream: Annotated[str, Path(examples=["photons"])],
    after: After = None,
    limit: Rows = 100,
    accept: Annotated[str | None, Header()] = None,
) -> DeadPage:
    """Rows that were late or rejected, and why."""
    page = service_of(request).dead_letters(stream).page(Cursor.read(after), limit)
    return _page_response(page, accept)  # type: ignore[return-value]


# --- subscriptions ---


@api.get("/subscriptions", tags=["subscriptions"])
def list_subscriptions(
    request: Request,
    caller: AnyCaller,
    every: Annotated[bool, Query(alias="all", description="Also those that were cancelled.")] = False,
    counts: Annotated[bool, Query(description="Say how many results each has.")] = False,
    search: Annotated[
        str,
        Query(max_length=200, description="Only those with this text in the name or the query, in any case."),
    ] = "",
    kind: Annotated[str | None, Query(max_length=20, description="Only those of this kind.")] = None,
    stream: Annotated[str | None, Query(max_length=200, description="Only those of this stream.")] = None,
    after: Annotated[int, Query(ge=0, le=2**62, description="A page's `next`.")] = 0,
    limit: Rows = 1_000,
) -> SubscriptionPage:
    """The caller's subscriptions, by number; viewers and admins see everybody's."""
    service = service_of(request)
    state = None if every else ACTIVE
    found = service.catalog.page(after, limit + 1, state, caller.only, kind, search, stream)
    shown = service.facts_of(caller, found[:limit])
    if counts:
        metrics: Metrics = request.app.state.metrics
        for facts, count in zip(shown, metrics.counts(found[:limit]), strict=True):
            facts.results = count
    return SubscriptionPage(subscriptions=shown, next=shown[-1].number if len(found) > limit else None)


@api.post("/subscriptions", tags=["subscriptions"], status_code=201)
async def register(request: Request, caller: Editor, new: SubscriptionRequest) -> SubscriptionFacts:
    """Registers a query. On a stream that runs, it takes effect within two batches."""
    service = service_of(request)
    activate = moment_of(new.activate, "activate")
    subscription = Subscription(new.name, new.query, activate, deliver=new.deliver)
    bound = await checks_of(request).bound(caller, subscription)

    def added() -> SubscriptionFacts:
        entry = service.subscribe(caller, bound)
        facts = service.facts(caller, entry)
        if facts.delivery is not None:
            facts.delivery.secret = service.receivers.secret(entry.number)
        return facts

    return await to_thread.run_sync(added)


@api.get("/subscriptions/{name:path}", tags=["subscriptions"])
def show(request: Request, caller: AnyCaller, name: Name) -> SubscriptionFacts:
    service = service_of(request)
    return service.facts(caller, service.subscription(caller, name))


@api.delete("/subscriptions/{name:path}", tags=["subscriptions"])
def cancel(
    request: Request,
    caller: Editor,
    name: Name,
    at: Annotated[str | None, Query(description="Let it see the items up to this time.")] = None,
) -> SubscriptionFacts:
    """Cancels a subscription: now, or at a time of the stream. Its results stay."""
    service = service_of(request)
    return service.facts(caller, service.cancel(caller, name, moment_of(at, "at")))


@api.post("/secrets/{name:path}", tags=["subscriptions"], status_code=201)
def new_secret(request: Request, caller: Editor, name: Name) -> SecretFacts:
    """Makes a new secret for the webhook of a subscription; the old one signs nothing any more."""
    return SecretFacts(secret=service_of(request).new_secret(caller, name))


# --- results ---


@api.get("/results/{name:path}", tags=["results"], responses={200: {"content": {ARROW: {}}}})
def results(
    request: Request,
    caller: AnyCaller,
    name: Name,
    after: After = None,
    limit: Rows = 100,
    accept: Annotated[str | None, Header()] = None,
) -> ResultPage:
    """A page of results in order, as JSON or, where `Accept` says so, as an Arrow stream."""
    page = service_of(request).results(caller, name).page(Cursor.read(after), limit)
    return _page_response(page, accept)  # type: ignore[return-value]


@api.get(
    "/events/{name:path}",
    tags=["results"],
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"example": 'id: 12:1\ndata: {"ra": 128.8}\n\n'}}}},
)
def live(
    request: Request,
    caller: AnyCaller,
    name: Name,
    after: After = None,
    last_event_id: Annotated[str | None, Header(description="The last event that was seen.")] = None,
) -> EventResponse:
    """Results live, one event per row, from the beginning or from after the last event seen. `event: end`
    comes when the stream has ended, `event: gap` where rows are left out that are no longer shown to the
    caller.
    """
    access: Access = request.app.state.access
    reader = service_of(request).results(caller, name)
    cursor = Cursor.read(last_event_id or after)

    def may_stay() -> bool:
        try:
            return access.caller(request) == caller
        except Refused:
            return False

    access.add_listener(caller)
    return EventResponse(events(reader, cursor, may_stay), lambda: access.remove_listener(caller))


def _page_response(page: Page, accept: str | None) -> Response | dict[str, Any]:
    if ARROW not in (accept or ""):
        rows = [json_row(row) for row in page.table.to_pylist()]
        kept_from = None if page.kept_from is None else str(page.kept_from)
        return {"rows": rows, "next": str(page.next), "more": page.more, "kept_from": kept_from}
    out = io.BytesIO()
    with pa.ipc.new_stream(out, page.schema) as writer:
        writer.write_table(page.table)
    headers = {NEXT: str(page.next), MORE: "true" if page.more else "false"}
    if page.kept_from is not None:
        headers[KEPT_FROM] = str(page.kept_from)
    return Response(out.getvalue(), media_type=ARROW, headers=headers)


# --- plan, metrics, health ---

PLAN = {
    "summary": ["photons, filters: 1 subscription, 1 condition: 1 looked at for every item"],
    "groups": [
        {
            "group": 0,
            "stream": "photons",
            "family": "filters",
            "shared": "en > 20.0",
            "parent": None,
            "rows": 333.3,
            "bytes": 2666.7,
            "subscriptions": [{"name": "hot", "kind": "select"}],
        }
    ],
    "measured": [
        {
            "stream": "photons",
            "family": "filters",
            "stage": "share",
            "rows_in": 20000,
            "bytes_in": 640000,
            "rows_out": 6100,
            "cpu_us": 5120,
        }
    ],
    "messages": {"photons": {"nearest": {"forwarded": 12}}},
}
METRICS = 'anabranch_items_total{stream="photons"} 20000\n'


@api.get("/plan", tags=["plan"], responses={200: {"content": {"application/json": {"example": PLAN}}}})
def plan(request: Request, caller: Viewer) -> dict[str, Any]:
    """Who shares what with whom; rows and bytes for 1,000 items, estimated from a sample of the source; and
    what the stages took, as measured.
    """
    return service_of(request).plan()


@about.get(
    "/metrics",
    tags=["about"],
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"example": METRICS}}},
        **{status: REFUSALS[status] for status in (401, 403, 408, 429)},
    },
)
def metrics(request: Request, caller: Viewer) -> Response:
    """For Prometheus."""
    collected: Metrics = request.app.state.metrics
    access: Access = request.app.state.access
    text = collected.text(sum(access.listeners.values()))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@about.get("/health", tags=["about"])
def health(request: Request) -> Health:
    """Whether the service answers and can read its catalog; needs no token."""
    service = service_of(request)
    batches = {
        branch: service.deliveries.latest(branch)
        for name in service.catalog.streams()
        for branch in service.layout.branches(name)
    }
    return Health(status="ok", batches=batches)
