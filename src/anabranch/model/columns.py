"""The types a column can have, and how each lies in memory.

| type      | Arrow                 | as numbers (numpy)              | missing   |
|-----------|-----------------------|---------------------------------|-----------|
| int       | int64                 | int64                           | null      |
| float     | float64               | float64                         | null, NaN |
| string    | string                | codes of a dictionary           | null      |
| bool      | bool                  | uint8                           | null      |
| timestamp | timestamp[us, UTC]    | int64, microseconds since 1970  | null      |

Results can have points, too: lists of float64, which no stream has.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ColumnType(StrEnum):
    INT = "int"
    FLOAT = "float"
    STRING = "string"
    BOOL = "bool"
    TIMESTAMP = "timestamp"
    POINT = "point"

    @property
    def is_number(self) -> bool:
        return self in (ColumnType.INT, ColumnType.FLOAT)

    @property
    def is_ordered_in_time(self) -> bool:
        """Whether a column of this type can be a stream's `time`."""
        return self.is_number or self is ColumnType.TIMESTAMP


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a stream. `name` is a path: `coord.cel.ra`."""

    name: str
    type: ColumnType
