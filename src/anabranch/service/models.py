"""The JSON of requests and answers, with examples; OpenAPI is made from it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from anabranch.catalog.entries import Entry
from anabranch.model.receiver import MAX_ADDRESS
from anabranch.model.stream import Stream
from anabranch.model.subscription import MAX_NAME

#: Fields of a subscription that its entry in the catalog does not have.
DERIVED = ("parts", "results", "delivery")

#: The longest text of a query; the language itself takes less, and explains its refusal better.
MAX_QUERY = 128 << 10

Moment = Annotated[
    int | float | str,
    Field(description="In the units of the stream's time; or a date and time where that is a timestamp."),
]


class SubscriptionRequest(BaseModel):
    """A query to be registered."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"name": "vela", "query": "SELECT ra, dec FROM photons WHERE en > 1.3"}]
        },
    )

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY)]
    activate: Annotated[Moment | None, Field(description="See only the items after this time.")] = None
    deliver: Annotated[
        str | None,
        Field(
            description="Send its results, too: to a webhook, or to a Kafka topic.",
            max_length=MAX_ADDRESS,
            examples=["https://example.org/hook", "kafka:photons@broker:9092"],
        ),
    ] = None


class DeliveryFacts(BaseModel):
    """How far sending has come. `place` is the cursor of the next row; `behind` batches have not been sent
    yet; `error` is what the last try failed with: users learn only that it failed. `secret` signs what is
    sent to a webhook; it is shown once, when the subscription is registered."""

    receiver: str
    place: str
    sent: int
    behind: int
    tried: str | None
    error: str | None
    secret: str | None = None


class SecretFacts(BaseModel):
    """What signs requests to a webhook. It is not shown again."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"secret": "whsec_h8Jq0l5cS2kz1vN4xT7yR9wE3uB6mP0a"}]}
    )

    secret: str


class SubscriptionFacts(BaseModel):
    """A subscription. `label` is what its results are delivered under."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "number": 1,
                    "name": "hot",
                    "label": "hot",
                    "stream": "photons",
                    "family": "filters",
                    "kind": "select",
                    "state": "active",
                    "activate": None,
                    "cancel": None,
                    "origin": "subscribe",
                    "created": "2026-01-31T12:00:00.000Z",
                    "cancelled": None,
                    "suspended": None,
                    "owner": "ann",
                    "query": "SELECT en FROM photons WHERE en > 20",
                    "results": None,
                    "delivery": None,
                    "parts": [],
                }
            ]
        }
    )

    number: int
    name: str
    label: str
    stream: str
    family: str
    kind: str
    state: str
    activate: int | float | None
    cancel: int | float | None
    origin: str
    created: str
    cancelled: str | None
    suspended: Annotated[
        str | None, Field(description="Since when and why it gets no results, if it asked for too much.")
    ]
    owner: str | None
    query: str
    results: Annotated[int | None, Field(description="Rows delivered, if the request has `counts`.")] = None
    delivery: DeliveryFacts | None = None
    parts: Annotated[
        list[str],
        Field(
            description="The other parts of a query over several streams, as `#number`, for their results."
        ),
    ]

    @staticmethod
    def of(entry: Entry, parts: list[str]) -> SubscriptionFacts:
        names = [name for name in SubscriptionFacts.model_fields if name not in DERIVED]
        return SubscriptionFacts(parts=parts, **{name: getattr(entry, name) for name in names})


class SubscriptionPage(BaseModel):
    subscriptions: list[SubscriptionFacts]
    next: Annotated[int | None, Field(description="Give this as `after` for the next page.")]


class ColumnFacts(BaseModel):
    name: str
    type: str


class StreamFacts(BaseModel):
    """A stream, what it declares in stored units, and its books."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "photons",
                    "columns": [{"name": "det_time", "type": "float"}, {"name": "en", "type": "float"}],
                    "settings": {"time": "det_time", "lateness": 0},
                    "books": {"rows_in": 20000, "processed": 19990, "late": 8, "rejected": 2},
                }
            ]
        }
    )

    name: str
    columns: list[ColumnFacts]
    settings: dict[str, Any]
    books: dict[str, Any]

    @staticmethod
    def of(stream: Stream, settings: dict[str, Any], books: dict[str, Any]) -> StreamFacts:
        columns = [ColumnFacts(name=column.name, type=column.type.value) for column in stream.columns]
        return StreamFacts(name=stream.name, columns=columns, settings=settings, books=books)


class ResultPage(BaseModel):
    """Rows in order. There is more while `more` is true; `next` goes on where this page ends, also later."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"rows": [{"ra": 128.8, "dec": -45.2}], "next": "12:1", "more": False}]
        }
    )

    rows: list[dict[str, Any]]
    next: str
    more: bool
    kept_from: Annotated[
        str | None,
        Field(description="Where earlier rows are no longer shown to the caller: the first that is."),
    ] = None


class DeadLetter(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "late", "content": '{"det_time": 12.5, "en": 1.3}'}]}
    )

    reason: str
    content: str


class DeadPage(BaseModel):
    rows: list[DeadLetter]
    next: str
    more: bool


class ErrorPosition(BaseModel):
    offset: int
    length: int
    line: int
    column: int


class ErrorFacts(BaseModel):
    """`text` is what the command line shows, `place` the position in the query."""

    code: str
    message: str
    text: str
    place: ErrorPosition | None


class ErrorEnvelope(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "error": {
                        "code": "query",
                        "message": "unknown column 'enn' in stream photons; did you mean 'en'?",
                        "text": "unknown column 'enn' in stream photons; did you mean 'en'?\n"
                        "  SELECT enn FROM photons\n         ^^^",
                        "place": {"offset": 7, "length": 3, "line": 1, "column": 8},
                    }
                }
            ]
        }
    )

    error: ErrorFacts


class Health(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"status": "ok", "batches": {"photons": 12, "photons.clusters": 7}}]}
    )

    status: str
    batches: Annotated[dict[str, int], Field(description="The last batch of every branch.")]
