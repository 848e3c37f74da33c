"""What the dashboard reads over the wire, with examples; everything else is in `models`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from anabranch.service.models import MAX_QUERY, ColumnFacts


class QueryRequest(BaseModel):
    """A query to be checked."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"query": "SELECT ra FROM photons WHERE en > 1.3"}]}
    )

    query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY)]


class QueryFacts(BaseModel):
    """What a query would be, and the columns of its results."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "stream": "photons",
                    "family": "filters",
                    "kind": "select",
                    "columns": [{"name": "ra", "type": "float"}],
                }
            ]
        }
    )

    stream: str
    family: str
    kind: str
    columns: list[ColumnFacts]


class CallerFacts(BaseModel):
    """Who asks: the owner and the role of the token; without tokens nobody in particular, an admin."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"owner": "ann", "role": "user"}]})

    owner: str | None
    role: str


class BatchPoint(BaseModel):
    """One batch, or several that came close to each other: when the last was there (seconds since 1970), the
    items up to it, the rows they delivered, how long the slowest took where that is known."""

    batch: int
    at: float
    items: int
    results: int
    seconds: float | None


class BranchProgress(BaseModel):
    """A branch of a stream: its last batch, the rates of the last seconds, and the batches of the span."""

    stream: str
    branch: Annotated[
        str, Field(description="`photons`; or `photons.clusters`, for a family that the job sets apart.")
    ]
    batch: int
    age_seconds: float
    lag_seconds: Annotated[float | None, Field(description="Where the stream's time is a timestamp.")]
    batch_seconds: float | None
    state_bytes: int | None
    behind: Annotated[float | None, Field(description="Items in the source that are not read yet (Kafka).")]
    items_per_second: float
    results_per_second: float
    books: dict[str, Any]
    points: list[BatchPoint]


class ProgressPage(BaseModel):
    """All that runs, and the caller's active subscriptions by kind. `now` is the service's clock."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "now": 1.7e9 + 1.4,
                    "branches": [
                        {
                            "stream": "photons",
                            "branch": "photons",
                            "batch": 1,
                            "age_seconds": 0.4,
                            "lag_seconds": None,
                            "batch_seconds": 0.45,
                            "state_bytes": 1048576,
                            "behind": None,
                            "items_per_second": 10000.0,
                            "results_per_second": 9.0,
                            "books": {"rows_in": 20000, "processed": 20000, "late": 0, "rejected": 0},
                            "points": [
                                {"batch": 0, "at": 1.7e9, "items": 10000, "results": 12, "seconds": 0.5},
                                {"batch": 1, "at": 1.7e9 + 1, "items": 20000, "results": 9, "seconds": 0.45},
                            ],
                        }
                    ],
                    "subscriptions": {"select": 2},
                }
            ]
        }
    )

    now: float
    branches: list[BranchProgress]
    subscriptions: dict[str, int]


class CurrentPage(BaseModel):
    """The answer as it stands: the items or objects that are in, the last window of clusters, the last rows
    of anything else. `asked` is the query as it is understood. Where `more` is true, results are there that
    are not folded in yet: ask again."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "close",
                    "kind": "moving",
                    "stream": "flights",
                    "asked": {"shape": ["circle", 10.0], "focal": "390001", "value": None, "issuer": None},
                    "rows": [{"at": 5, "op": "+", "object": "390007", "x": 2.5, "y": 49.0, "distance": 3.1}],
                    "positions": None,
                    "next": "12:0",
                    "more": False,
                }
            ]
        }
    )

    name: str
    kind: str
    stream: str
    asked: dict[str, Any]
    rows: list[dict[str, Any]]
    positions: Annotated[
        list[list[float] | None] | None,
        Field(description="Where each row's item is, for members of clusters; None where that is not known."),
    ]
    next: str
    more: bool


class PositionPage(BaseModel):
    """The last positions of a stream, newest first: of its objects, or of its items. They come from a
    subscription that selects the positions of all items; without one there are none."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"subscription": "map-flights", "names": ["390001"], "x": [2.5], "y": [49.0]},
            ]
        }
    )

    subscription: str | None
    names: list[Any]
    x: list[float]
    y: list[float]


class SiteFacts(BaseModel):
    """`load` is CPU seconds per second, `part` what that is of the capacity."""

    name: str
    capacity: float
    load: float
    part: float
    streams: Annotated[list[str], Field(description="The streams that are registered here.")]
    makes: Annotated[int, Field(description="Derived streams that are made here.")]
    readers: Annotated[int, Field(description="Subscriptions whose answer is wanted here.")]


class LinkFacts(BaseModel):
    """`bandwidth` and `traffic` are bytes per second, `part` what traffic is of the bandwidth."""

    ends: list[str]
    bandwidth: float
    traffic: float
    part: float


class NetworkFacts(BaseModel):
    """The network that the selections and aggregates are planned on, with the load of the plan."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "basis": ["photons: 1,000 items per second, as measured"],
                    "sites": [
                        {
                            "name": "here",
                            "capacity": 1.0,
                            "load": 0.02,
                            "part": 0.02,
                            "streams": ["photons"],
                            "makes": 1,
                            "readers": 2,
                        }
                    ],
                    "links": [],
                }
            ]
        }
    )

    basis: Annotated[list[str], Field(description="What the numbers rest on.")]
    sites: list[SiteFacts]
    links: list[LinkFacts]


class PlanStream(BaseModel):
    name: str
    subscriptions: int


class PlanBox(BaseModel):
    """A box of the plan: the stream itself (no parent), a condition that is computed once for all that need
    it, or conditions below the same parent that are `folded` into one box.

    `low` and `high` are how many of 1,000 items pass; they differ where several conditions are folded.
    """

    key: str
    parent: str | None
    family: str
    title: Annotated[str, Field(description="The condition; empty where conditions are folded.")]
    low: float | None
    high: float | None
    subscriptions: Annotated[int, Field(description="That ask for it; folded: that depend on any of them.")]
    names: Annotated[list[str], Field(description="The first of these subscriptions.")]
    on_way: Annotated[bool, Field(description="It is on the way to the subscription asked for.")] = False
    folded: Annotated[int, Field(description="So many conditions are folded here.")] = 0
    below: Annotated[int, Field(description="And so many further ones below those.")] = 0
    opens: Annotated[int, Field(description="`open=KEY:OPENS` draws the next of them.")] = 0


class PlanPage(BaseModel):
    """The plan of one stream, as boxes to draw; each comes after its parent."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "streams": [{"name": "photons", "subscriptions": 280}],
                    "stream": "photons",
                    "summary": ["photons, filters: 280 subscriptions, 280 conditions"],
                    "boxes": [
                        {
                            "key": "",
                            "parent": None,
                            "family": "",
                            "title": "photons",
                            "low": 1000.0,
                            "high": 1000.0,
                            "subscriptions": 280,
                            "names": [],
                        },
                        {
                            "key": ".filters",
                            "parent": "",
                            "family": "filters",
                            "title": "",
                            "low": 4.0,
                            "high": 4.0,
                            "subscriptions": 280,
                            "names": ["sky_000", "sky_001"],
                            "folded": 280,
                            "opens": 20,
                        },
                    ],
                    "way": [],
                }
            ]
        }
    )

    streams: list[PlanStream]
    stream: str
    summary: Annotated[list[str], Field(description="What `anabranch explain` says of the whole plan.")]
    boxes: list[PlanBox]
    way: Annotated[list[str], Field(description="Keys from the stream to the subscription asked for.")]


class Savings(BaseModel):
    """What selections and aggregates share, in counts: conditions are tested once for all subscriptions that
    need them, and most of them only on what passed another one.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"subscriptions": 300, "conditions": 280, "tested_on_every_item": 12}]
        }
    )

    subscriptions: int
    conditions: int
    tested_on_every_item: int
