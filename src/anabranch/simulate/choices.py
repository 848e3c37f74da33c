"""The names of the paper's scenarios, for commands that must not load them to show their options."""

from __future__ import annotations

from enum import StrEnum


class Name(StrEnum):
    EXAMPLE = "example"
    EXTENDED = "extended"
    SMALL = "small"
    GRID = "grid"


#: How many streams each needs.
STREAMS = {Name.EXAMPLE: 1, Name.EXTENDED: 1, Name.SMALL: 1, Name.GRID: 2}
