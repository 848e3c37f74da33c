"""A stream: a named, ordered sequence of items with a schema (docs/queries.md, Streams)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError
from anabranch.model.html import html_table
from anabranch.model.limits import DEFAULT_LIMITS, QueryLimits
from anabranch.model.operators import Operator

#: The column that carries an item's number in the stream, from 0; no user column can be called this.
NUMBER = "#"

#: Timestamps are kept in microseconds; a query's lengths of time are in seconds.
MICROSECONDS = 1_000_000

Time = int | float


@dataclass(frozen=True)
class Stream:
    """What a stream declares. Lengths (`lateness`, `tick`, `expire`) are in the units of `time`;
    for a timestamp these are seconds, kept here in microseconds like the timestamps themselves. `unit` is
    that of distances where `metric` is haversine: km, m or miles; None is km. `apart` are the families that
    have a Spark query of their own (model/branch.py), `operators` the functions of users that queries may
    call, `limits` what queries may ask for at most. A `flow` is a part of another stream, which comes from
    another site (chain/flows.py). `on_bad_file` says what becomes of a file that cannot be read: "reject" it,
    or "stop".

    `nearest_...` are parameters of D-ZaLaPS, table 1: how many items are recent at most, the pruning
    coefficient, cells along each dimension, and the error that PA may make where a query does not say it.

    An item may be `max_step` ahead of the greatest time seen or, where the source is live and its times are
    timestamps, `max_ahead` of the machine's clock; None is no limit. A job says both as `max_step`.
    """

    name: str
    columns: tuple[Column, ...]
    time: str | None = None
    lateness: Time = 0
    id: str | None = None
    position: tuple[str, ...] = ()
    object: str | None = None
    tick: Time = 1
    regions: tuple[int, int] | tuple[tuple[float, float, float, float], ...] = (3, 3)
    bounds: tuple[tuple[float, float], ...] = ()
    metric: str = "euclidean"
    expire: Time | None = None
    unit: str | None = None
    nearest_buffer: int | None = None
    nearest_gamma: float = 0.2
    nearest_resolution: int | None = None
    nearest_sigma: float | None = None
    apart: tuple[str, ...] = ()
    on_bad_file: str = "reject"
    max_step: Time | None = None
    max_ahead: Time | None = None
    operators: tuple[Operator, ...] = ()
    flow: bool = False
    limits: QueryLimits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        there_are = f"is not one of its columns ({', '.join(names)})"
        for name in names:
            if name.startswith(NUMBER):
                raise JobError(
                    f"stream {self.name}: a column cannot be called '{name}'; names must not begin with #"
                )
        if len(set(names)) != len(names):
            double = sorted({name for name in names if names.count(name) > 1})
            raise JobError(f"stream {self.name}: column {double[0]!r} is there twice")
        for setting, wanted in (("time", self.time), ("id", self.id), ("object", self.object)):
            if wanted is not None and wanted not in names:
                raise JobError(f"stream {self.name}: {setting} = {wanted!r} {there_are}")
        for name in self.position:
            if name not in names:
                raise JobError(f"stream {self.name}: position column {name!r} {there_are}")
            if not self.type_of(name).is_number:
                raise JobError(
                    f"stream {self.name}: position column {name!r} is a {self.type_of(name)}, not a number"
                )
        if self.time is not None and not self.type_of(self.time).is_ordered_in_time:
            raise JobError(
                f"stream {self.name}: time = {self.time!r} is a {self.type_of(self.time)}; "
                "it must be a number or a timestamp"
            )
        if self.lateness < 0:
            raise JobError(f"stream {self.name}: lateness must not be negative")

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def column(self, name: str) -> Column | None:
        return self._by_name.get(name)

    def type_of(self, name: str) -> ColumnType:
        column = self.column(name)
        if column is None:
            raise KeyError(name)
        return column.type

    @property
    def time_type(self) -> ColumnType | None:
        return None if self.time is None else self.type_of(self.time)

    @property
    def time_unit(self) -> int:
        """What a length of 1 in a query is in the stored units of `time`."""
        return MICROSECONDS if self.time_type is ColumnType.TIMESTAMP else 1

    def _repr_html_(self) -> str:
        """What a notebook shows: the columns, and which settings name them."""
        uses = {"time": (self.time,), "id": (self.id,), "position": self.position, "object": (self.object,)}
        rows = [
            (column.name, column.type, ", ".join(use for use, names in uses.items() if column.name in names))
            for column in self.columns
        ]
        return html_table(f"stream {self.name}", ("column", "type", "used as"), rows)
