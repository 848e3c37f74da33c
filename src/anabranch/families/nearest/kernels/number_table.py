"""A table from item numbers to indices."""

from __future__ import annotations

from anabranch.model.arrays import Ints, Ints32
from anabranch.numeric.jit import loop


@loop
def look_up(numbers: Ints, least: int, wanted: Ints, table: Ints32, indices: Ints) -> None:
    """indices[i] = where wanted[i] is among the numbers. table: room for all numbers from `least` on"""
    for index in range(len(numbers)):
        table[numbers[index] - least] = index
    for index in range(len(wanted)):
        indices[index] = table[wanted[index] - least]
