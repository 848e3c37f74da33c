"""What a page that watches the streams reads, over the wire, with examples; the rest is in `models`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from anabranch.service.models import MAX_QUERY, ColumnFacts


class Question(BaseModel):
    """A query to be checked."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"query": "SELECT ra FROM photons WHERE en > 1.3"}]}
    )

    query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY)]


class Understood(BaseModel):
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


class Point(BaseModel):
    """A batch: when it was there (seconds since 1970), the items up to it, the rows it delivered, how long it
    took where that is known."""

    batch: int
    at: float
    items: int
    results: int
    seconds: float | None


class Progress(BaseModel):
    """A family of a stream: its last batch, and those before it."""

    stream: str
    family: str
    batch: int
    age_seconds: float
    lag_seconds: Annotated[float | None, Field(description="Where the stream's time is a timestamp.")]
    batch_seconds: float | None
    state_bytes: int | None
    behind: Annotated[float | None, Field(description="Items in the source that are not read yet (Kafka).")]
    books: dict[str, Any]
    points: list[Point]


class ProgressPage(BaseModel):
    """All that runs, and the caller's active subscriptions by kind."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "families": [
                        {
                            "stream": "photons",
                            "family": "filters",
                            "batch": 1,
                            "age_seconds": 0.4,
                            "lag_seconds": None,
                            "batch_seconds": 0.45,
                            "state_bytes": 1048576,
                            "behind": None,
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

    families: list[Progress]
    subscriptions: dict[str, int]


class Answer(BaseModel):
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


class Positions(BaseModel):
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
    """`load` is CPU seconds a second, `part` what that is of the capacity."""

    name: str
    capacity: float
    load: float
    part: float
    streams: Annotated[list[str], Field(description="The streams that are registered here.")]
    makes: Annotated[int, Field(description="Derived streams that are made here.")]
    readers: Annotated[int, Field(description="Subscriptions whose answer is wanted here.")]


class LinkFacts(BaseModel):
    """`bandwidth` and `traffic` are bytes a second, `part` what traffic is of the bandwidth."""

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
                    "basis": ["photons: 1,000 items a second, as measured"],
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
