"""Windows over a stream (docs/queries.md, Windows)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from anabranch.model.stream import Time


class AtEnd(StrEnum):
    """What becomes of windows that are not full when a finite stream ends."""

    CUT = "cut"
    GATHER = "gather"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Window:
    """`ROWS size STEP step` counts items, `RANGE size STEP step` measures time.

    RANGE sizes are in the stored units of the stream's `time` (microseconds for a timestamp).
    """

    unit: str  # "rows" or "range"
    size: Time
    step: Time
    at_end: AtEnd | None = None

    @property
    def by_rows(self) -> bool:
        return self.unit == "rows"

    @property
    def end(self) -> AtEnd:
        if self.at_end is not None:
            return self.at_end
        return AtEnd.CUT if self.by_rows else AtEnd.RUN

    def to_json(self) -> list[Any]:
        return [self.unit, self.size, self.step, self.at_end and self.at_end.value]

    @staticmethod
    def from_json(parts: list[Any]) -> Window:
        unit, size, step, at_end = parts
        return Window(unit, size, step, at_end and AtEnd(at_end))
