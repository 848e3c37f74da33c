"""What may stand in a job file: every table and key with its type, default, description and an example.

`job_file.py` checks files with these models, `reference.py` makes the reference of job.toml from them. Keys
that two formats share (path, topic) are written once; which keys a format has is in KEYS and NEEDED.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, Strict, model_validator

from anabranch.model.columns import ColumnType
from anabranch.model.errors import JobError
from anabranch.model.job import CATALOG_SCHEMES, FILE_FORMATS, SOURCE_FORMATS
from anabranch.model.limits import DEFAULT_LIMITS
from anabranch.model.receiver import receiver_of
from anabranch.model.settings_file import (
    AboveZero,
    AtLeastZero,
    Count,
    FiniteFloat,
    Moment,
    Must,
    Scalars,
    SettingsTable,
    Text,
    Texts,
    missing,
    refuse,
)
from anabranch.model.subscription import NAME, is_name
from anabranch.model.suggestions import closest, shown, suggestion

#: Options of Spark's readers that may stand beside `format`; others go into `options = { ... }`, unchecked.
_FILES = "maxFilesPerTrigger maxBytesPerTrigger latestFirst maxFileAge fileNameOnly pathGlobFilter"
_PARSED = f"{_FILES} encoding timestampFormat timestampNTZFormat dateFormat locale mode samplingRatio"
SPARK_OPTIONS = {
    "parquet": f"{_FILES} recursiveFileLookup mergeSchema datetimeRebaseMode int96RebaseMode",
    "json": f"{_PARSED} recursiveFileLookup multiLine lineSep primitivesAsString prefersDecimal "
    "allowComments allowSingleQuotes allowUnquotedFieldNames allowNumericLeadingZeros "
    "allowNonNumericNumbers",
    "csv": f"{_PARSED} recursiveFileLookup header sep delimiter quote escape comment inferSchema "
    "enforceSchema multiLine lineSep nullValue nanValue positiveInf negativeInf emptyValue "
    "ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace",
    "xml": f"{_PARSED} recursiveFileLookup row rowTag attributePrefix valueTag nullValue excludeAttribute "
    "ignoreNamespace ignoreSurroundingSpaces rowValidationXSDPath wildcardColName",
    "kafka": "startingOffsets startingTimestamp maxOffsetsPerTrigger minPartitions failOnDataLoss",
    "rate": "rowsPerSecond rampUpTime numPartitions",
}

FilePath = Annotated[Text, Must('a path such as "photons/*.parquet"')]


class FormatTable(SettingsTable):
    """A table whose `format` decides which other keys it has, and which of them it needs."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    KEYS: ClassVar[dict[str, tuple[str, ...]]]
    NEEDED: ClassVar[dict[str, tuple[str, ...]]]
    HINT: ClassVar[dict[str, str]] = {}

    format: str

    @model_validator(mode="before")
    @classmethod
    def _check_format(cls, values: Any) -> Any:
        if isinstance(values, dict) and "format" not in values:
            guess = closest("format", values)
            hint = f"; did you mean format instead of {guess!r}?" if guess else ""
            refuse(f"format is missing{hint}; it must be one of {', '.join(cls.KEYS)}", "format")
        return values

    @model_validator(mode="after")
    def _check_keys(self) -> FormatTable:
        known = ("format", *self.KEYS[self.format])
        values = self.written()
        for key in values:
            if key not in known and self.format != "generator":  # a generator knows best what it takes
                hint = self.HINT.get(self.format, "")
                refuse(f"unknown setting {key!r}{suggestion(key, known)}{hint}", key)
        for key in self.NEEDED.get(self.format, ()):
            if key not in values:
                refuse(missing(key, self.fields_by_key()[key]), key)
        return self

    def written(self) -> dict[str, Any]:
        """Returns what the file has, by key."""
        return self.model_dump(exclude_unset=True, by_alias=True)


class SourceTable(FormatTable):
    """Where a stream comes from."""

    KEYS: ClassVar = {
        **{form: ("path", "schema", "options", *SPARK_OPTIONS[form].split()) for form in FILE_FORMATS},
        "csv": ("path", "schema", "missing", "options", *SPARK_OPTIONS["csv"].split()),
        "xml": ("path", "dtd", "schema", "options", *SPARK_OPTIONS["xml"].split()),
        "kafka": ("bootstrap", "topic", "schema", "options", *SPARK_OPTIONS["kafka"].split()),
        "rate": ("schema", "options", *SPARK_OPTIONS["rate"].split()),
        "generator": ("name", "schema"),
    }
    NEEDED: ClassVar = {**dict.fromkeys(FILE_FORMATS, ("path",)), "kafka": ("bootstrap", "topic", "schema")}
    HINT: ClassVar = dict.fromkeys(SOURCE_FORMATS, "; Spark's other options go into options = { ... }")

    format: Annotated[
        Literal["parquet", "json", "csv", "xml", "kafka", "rate", "generator"],
        Field(description="What kind of source it is.", examples=["parquet"]),
    ]
    path: Annotated[
        FilePath | None,
        Field(
            description="Files: a file, a folder or a pattern, relative to the job file, or a URL.",
            examples=["photons/*.parquet"],
        ),
    ] = None
    dtd: Annotated[
        FilePath | None,
        Field(
            description="xml: a DTD that says which element is an item and which elements it has.",
            examples=["photons.dtd"],
        ),
    ] = None
    missing: Annotated[
        list[str] | None,
        Field(
            description="csv: texts, in any case, that are missing values in columns of numbers, booleans "
            'and timestamps; without it "", "NA", "N/A", "null" and "NaN". An empty field is always missing.',
            examples=[["", "-999"]],
        ),
        Must('a list of texts such as ["", "NA", "-999"]'),
    ] = None
    bootstrap: Annotated[
        Text | None, Field(description="kafka: the servers.", examples=["localhost:9092"])
    ] = None
    topic: Annotated[Text | None, Field(description="kafka: the topic.", examples=["photons"])] = None
    name: Annotated[
        Text | None,
        Field(
            description="generator: its name; its own settings stand beside it.",
            examples=["photons"],
        ),
    ] = None
    schema_: Annotated[
        Text | None,
        Field(
            alias="schema",
            description="The columns, as Spark's DDL; without it they are taken from the files.",
            examples=["det_time double, en double"],
        ),
        Must(
            "a text that is not empty",
            missing='schema is missing; there must be schema = "det_time double, en double": what comes '
            "from there does not say its own types",
        ),
    ] = None
    options: Annotated[
        Scalars | None,
        Field(description="Further options of Spark's reader, unchecked.", examples=[{"header": True}]),
    ] = None

    @model_validator(mode="after")
    def _check_options(self) -> SourceTable:
        values = self.written()
        for key, value in (self.model_extra or {}).items():
            if self.format != "generator" and not isinstance(value, str | bool | int | float):
                refuse(f"{key} = {shown(value)} cannot be; it must be a text, a number, true or false", key)
        for key in self.options or ():
            if key in values:
                refuse(f"{key} stands both in source and in its options; write it once", "options")
        return self


def _ascending(pair: tuple[float, float]) -> tuple[float, float]:
    if pair[0] >= pair[1]:
        raise ValueError
    return pair


def _is_box(box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    _ascending((box[0], box[2]))
    _ascending((box[1], box[3]))
    return box


Pair = Annotated[tuple[FiniteFloat, FiniteFloat], Strict(False), AfterValidator(_ascending)]
Box = Annotated[
    tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat], Strict(False), AfterValidator(_is_box)
]
Bounds = Annotated[
    tuple[Pair, ...],
    Strict(False),
    Field(min_length=1),
    Must("a pair [least, greatest] per coordinate, such as [[0, 360], [-90, 90]]"),
]
Regions = Annotated[
    Annotated[tuple[Count, Count], Strict(False)]
    | Annotated[tuple[Box, ...], Strict(False), Field(min_length=1)],
    Must(
        "[columns, rows] such as [3, 3], or a list of rectangles [least x, least y, greatest x, greatest y]"
    ),
]


class StreamTable(SettingsTable):
    """[stream.NAME]: a stream, and what its columns mean."""

    source: Annotated[
        SourceTable,
        Field(
            description="Where it comes from.",
            examples=[{"format": "parquet", "path": "photons/*.parquet"}],
        ),
        Must('a table { format = "parquet", path = "photons/*.parquet" }'),
    ]
    time: Annotated[
        Text | None,
        Field(
            description="The column that orders it, a number or a timestamp; needed for windows over time "
            "and for moving objects.",
            examples=["det_time"],
        ),
    ] = None
    lateness: Annotated[
        AtLeastZero,
        Field(
            description="How far behind the greatest time seen an item may come, in units of `time`.",
            examples=[5],
        ),
    ] = 0
    id: Annotated[
        Text | None,
        Field(
            description="The column that names an item in results; without it, its number in the stream.",
            examples=["name"],
        ),
    ] = None
    position: Annotated[
        Texts | None,
        Field(
            description="The coordinate columns that are used where a query names none.",
            examples=[["ra", "dec"]],
        ),
    ] = None
    object: Annotated[
        Text | None,
        Field(
            description="The column that names a moving object; needed for moving objects.",
            examples=["flight"],
        ),
    ] = None
    tick: Annotated[
        AboveZero,
        Field(
            description="How often results of moving objects are brought up to date, in units of `time`.",
            examples=[5],
        ),
    ] = 1
    regions: Annotated[
        Regions,
        Field(
            description="The regional servers of moving objects: a grid over `bounds`, or rectangles that "
            "may overlap.",
            examples=[[3, 3]],
        ),
    ] = (3, 3)
    bounds: Annotated[
        Bounds | None,
        Field(
            description="The least and greatest value of each coordinate; without it, taken from the first "
            "batch.",
            examples=[[[0, 360], [-90, 90]]],
        ),
    ] = None
    metric: Annotated[
        Literal["euclidean", "haversine"],
        Field(
            description="How distances are measured; haversine: on the globe, positions are longitude and "
            "latitude.",
            examples=["haversine"],
        ),
    ] = "euclidean"
    unit: Annotated[
        Literal["km", "m", "miles"],
        Field(description="The unit of haversine distances.", examples=["m"]),
    ] = "km"
    nearest_buffer: Annotated[
        Count | None,
        Field(
            description="How many items are recent at most, for nearest queries with RAPF (D-ZaLaPS, b).",
            examples=[2000],
        ),
    ] = None
    nearest_gamma: Annotated[
        AtLeastZero,
        Field(
            description="How many candidates of a nearest query may be there beyond those needed, as a share "
            "(D-ZaLaPS, gamma).",
            examples=[0.5],
        ),
    ] = 0.2
    nearest_resolution: Annotated[
        Count | None,
        Field(
            description="Cells along each dimension of the space of nearest queries (D-ZaLaPS, rho); without "
            "it, so many that there are about 65,536.",
            examples=[12],
        ),
    ] = None
    nearest_sigma: Annotated[
        AboveZero | None,
        Must("a number between 0 and 1"),
        Field(
            lt=1,
            description="The error that USING PA may make where it names none (D-ZaLaPS, sigma).",
            examples=[0.001],
        ),
    ] = None
    expire: Annotated[
        AboveZero | None,
        Field(
            description="A moving object without a report for so long is forgotten, in units of `time`.",
            examples=[600],
        ),
    ] = None
    on_bad_file: Annotated[
        Literal["reject", "stop"],
        Field(
            description="What becomes of a file that cannot be read: it is a dead letter, or the job stops.",
            examples=["stop"],
        ),
    ] = "reject"
    max_step: Annotated[
        AboveZero | Literal["none"] | None,
        Field(
            description="An item that is further ahead is rejected, in units of `time`. For timestamps of "
            "kafka, rate and generator it is ahead of the machine's clock, and a day unless this says "
            'otherwise; for all others it is ahead of the greatest time seen, and "none".',
            examples=[3600],
        ),
        Must('a number > 0, or "none"'),
    ] = None
    apart: Annotated[
        tuple[Literal["filters", "nearest", "clusters", "moving"], ...],
        Strict(False),
        Must("a list of families: filters, nearest, clusters, moving"),
        Field(
            description="Families of queries that get a Spark query of their own. It reads the stream once "
            "more, and cannot slow down the others.",
            examples=[["clusters"]],
        ),
    ] = ()

    @model_validator(mode="after")
    def _check_settings(self) -> StreamTable:
        """What two settings say about each other."""
        for key in ("lateness", "tick", "expire", "max_step"):
            if key in self.model_fields_set and self.time is None:
                refuse(f"{key} needs a time: say which column orders the stream, time = ...", key)
        if self.position and self.bounds and len(self.position) != len(self.bounds):
            refuse(
                f"bounds has {len(self.bounds)} pairs and position {len(self.position)} columns; there must "
                "be one pair per column",
                "bounds",
            )
        return self


def _is_subscription_name(name: str) -> str:
    if not is_name(name):
        raise ValueError
    return name


def _is_receiver(address: str) -> str:
    try:
        return str(receiver_of(address))
    except JobError as error:
        refuse(f"deliver = {shown(address)} cannot be; it must be the address of a receiver; {error}")


class SubscriptionTable(SettingsTable):
    """[[subscription]]: a query, under a name."""

    name: Annotated[
        str,
        AfterValidator(_is_subscription_name),
        Must(NAME),
        Field(description="Its name; no two are the same.", examples=["vela"]),
    ]
    query: Annotated[
        Text,
        Field(
            description="The query: SQL as in docs/queries.md, or WXQuery.",
            examples=["SELECT * FROM photons WHERE en > 1.3"],
        ),
    ]
    activate: Annotated[
        Moment | None,
        Field(
            description="It sees only items with a greater time; without it, all from the start.",
            examples=[1000],
        ),
    ] = None
    cancel: Annotated[
        Moment | None,
        Field(description="It sees items up to this time; without it, all.", examples=[5000]),
    ] = None
    deliver: Annotated[
        Annotated[Text, AfterValidator(_is_receiver), Must("the address of a receiver")] | None,
        Field(
            description="Where its results are sent, besides being kept: a webhook or a Kafka topic.",
            examples=["https://example.org/hook"],
        ),
    ] = None


class SinkTable(FormatTable):
    """[sink]: where results go."""

    KEYS: ClassVar = {
        "parquet": ("path",),
        "json": ("path",),
        "kafka": ("bootstrap", "topic", "options"),
    }
    NEEDED: ClassVar = {"parquet": ("path",), "json": ("path",), "kafka": ("bootstrap", "topic")}
    HINT: ClassVar = {"kafka": "; Kafka's own settings go into options = { ... }"}

    format: Annotated[
        Literal["parquet", "json", "kafka"],
        Field(description="How results are written.", examples=["parquet"]),
    ]
    path: Annotated[
        Text | None,
        Field(description="parquet, json: the folder, relative to the job file.", examples=["out"]),
    ] = None
    bootstrap: Annotated[
        Text | None, Field(description="kafka: the servers.", examples=["localhost:9092"])
    ] = None
    topic: Annotated[Text | None, Field(description="kafka: the topic.", examples=["results"])] = None
    options: Annotated[
        Scalars | None,
        Field(description="kafka: further settings of its producer.", examples=[{"kafka.acks": "all"}]),
    ] = None


def _is_catalog_url(url: str) -> str:
    if not url.startswith(CATALOG_SCHEMES):
        raise ValueError
    return url


def _spark_settings(values: dict[str, Any]) -> dict[str, str]:
    out = {}
    for key, value in _flat(values):
        if not key.startswith("spark.") or not isinstance(value, str | bool | int | float):
            refuse(f'spark: {key} = {shown(value)} cannot be; write "spark.<setting>" = "<value>"')
        out[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return out


def _flat(values: dict[str, Any], above: str = "") -> list[tuple[str, Any]]:
    """spark.ui.enabled without quotes is a table in a table to TOML; it means the same."""
    out: list[tuple[str, Any]] = []
    for key, value in values.items():
        out += _flat(value, f"{above}{key}.") if isinstance(value, dict) else [(f"{above}{key}", value)]
    return out


class EngineTable(SettingsTable):
    """[engine]: how the job runs; nothing here changes a result."""

    zones: Annotated[
        Count | None,
        Field(
            description="Into how many zones each stage is divided; without it, one on up to three cores, "
            "else as many as shuffle partitions. Fixed by the first run.",
            examples=[8],
        ),
    ] = None
    trigger: Annotated[
        AtLeastZero | None,
        Field(
            description="Seconds from the start of a batch to the start of the next; without it, the next "
            "starts at once.",
            examples=[0.5],
        ),
    ] = None
    shuffle_partitions: Annotated[
        Count | None,
        Field(
            description="Spark's shuffle partitions; without it, chosen from the number of cores. Fixed by "
            "the first run.",
            examples=[4],
        ),
    ] = None
    max_files_per_batch: Annotated[
        Count | None,
        Field(
            description="At most so many files per batch; without it, max_bytes_per_batch counts.",
            examples=[100],
        ),
    ] = None
    max_bytes_per_batch: Annotated[
        Count | None,
        Field(
            description="At most so many bytes of files per batch; without it, 128 MiB.",
            examples=[67108864],
        ),
    ] = None
    checkpoint: Annotated[
        Text | None,
        Field(
            description="The folder of Spark's checkpoints; without it, below the sink.",
            examples=["checkpoints"],
        ),
    ] = None
    catalog: Annotated[
        Annotated[
            str,
            AfterValidator(_is_catalog_url),
            Must(
                "the URL of a PostgreSQL database: postgresql://user@host/database; without it the catalog "
                "is a SQLite file below the sink"
            ),
        ]
        | None,
        Field(
            description="The PostgreSQL database that holds the catalog; without it, a SQLite file below the "
            "sink.",
            examples=["postgresql://user@host/database"],
        ),
    ] = None
    spark: Annotated[
        dict[str, Any] | None,
        AfterValidator(lambda values: None if values is None else _spark_settings(values)),
        Must("a table { key = value }"),
        Field(
            description="Settings of the Spark session.",
            examples=[{"spark.executor.memory": "4g"}],
        ),
    ] = None


def _limit(name: str, description: str) -> Any:
    return Field(default=getattr(DEFAULT_LIMITS, name), description=description, examples=[1000])


class LimitsTable(SettingsTable):
    """[limits]: what a query may ask for at most; one that asks for more is refused when it is registered, or
    suspended.
    """

    query_bytes: Count = _limit("query_bytes", "Bytes of a query's text.")
    query_words: Count = _limit("query_words", "Names, numbers, strings, signs and comments in a query.")
    query_streams: Count = _limit("query_streams", "Streams that a WXQuery goes over.")
    conjunctions: Count = _limit("conjunctions", "Alternatives (ORs) of a condition, after unfolding.")
    condition_steps: Count = _limit(
        "condition_steps", "Work to compare and simplify the conditions of a query; a step is about 1 us."
    )
    nearest_k: Count = _limit("nearest_k", "The number after NEAREST.")
    cluster_count: Count = _limit("cluster_count", "The count after MIN of CLUSTERS.")
    window_rows: Count = _limit("window_rows", "ROWS of a window.")
    windows_per_item: Count = _limit(
        "windows_per_item", "Windows that an item is in, and that are open at a time: size / step."
    )
    batch_work: Count = _limit(
        "batch_work",
        "Windows, rows or pairs that a query may ask of one batch; one that asks for more is suspended.",
    )
    item_work: Count = _limit("item_work", "So many more for each item of the batch.")


OPERATOR_TYPES = tuple(kind.value for kind in ColumnType if kind is not ColumnType.POINT)
_FUNCTION = re.compile(r"[\w.]+:[\w.]+")


def _is_function(text: str) -> str:
    if not _FUNCTION.fullmatch(text):
        raise ValueError
    return text


def _is_column_type(text: str) -> str:
    if text not in OPERATOR_TYPES:
        raise ValueError
    return text


class OperatorTable(SettingsTable):
    """[operators]: functions of yours that queries may call; `scale = "mymodule:scale"` says only the
    function.
    """

    function: Annotated[
        str,
        AfterValidator(_is_function),
        Must('module:function, such as "mymodule:scale"'),
        Field(description="The function, in a module beside the job file.", examples=["mymodule:scale"]),
    ]
    type: Annotated[
        Annotated[str, AfterValidator(_is_column_type), Must(f"one of {', '.join(OPERATOR_TYPES)}")] | None,
        Field(
            description="The type of its results; without it, the type of what it returns for no items.",
            examples=["float"],
        ),
    ] = None


def _as_operator_table(value: Any) -> Any:
    return {"function": value} if isinstance(value, str) else value


_STREAM = '[stream.photons] with source = { format = "parquet", path = "photons/*.parquet" }'


class JobTables(SettingsTable):
    """A job file."""

    stream: Annotated[
        dict[str, StreamTable],
        Field(min_length=1, description="Streams, by name."),
        Must(
            f"tables, one per stream: {_STREAM}",
            missing=f"there is no stream; a job needs at least one, for example {_STREAM}",
        ),
    ]
    subscription: Annotated[
        list[SubscriptionTable],
        Field(description="Queries.", default_factory=list),
        Must("written [[subscription]], with two brackets, one per query"),
    ]
    sink: Annotated[
        SinkTable,
        Field(description="Where results go."),
        Must(
            'a table: [sink] with format = "parquet" and path = "out"',
            missing='there is no sink; say where results go: [sink] with format = "parquet" and path = "out"',
        ),
    ]
    engine: Annotated[
        EngineTable,
        Field(description="How the job runs."),
        Must("a table: [engine] with for example zones = 8"),
    ] = EngineTable()
    limits: Annotated[
        LimitsTable,
        Field(description="What a query may ask for at most."),
        Must("a table: [limits] with for example nearest_k = 1000"),
    ] = LimitsTable()
    operators: Annotated[
        dict[str, Annotated[OperatorTable, BeforeValidator(_as_operator_table)]],
        Field(description="Functions that queries may call, by name.", default_factory=dict),
        Must('a text module:function, for example [operators] with scale = "mymodule:scale"'),
    ]
