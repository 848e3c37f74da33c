"""Where numbers are in an array of others."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.jit import kernel

Array = np.ndarray[Any, Any]

#: A table of all numbers between the least and the greatest is made if it is at most so many times as long as
#: the array.
_SPARSE = 16


@kernel
def places_of(held: Array, wanted: Array) -> Array:
    """places, int64, with held[places] == wanted. held: int64, not empty, each number once, in any order;
    wanted: int64, all of them held, in any order and as often as may be.
    """
    least, greatest = held[0], held[0]
    for number in held:
        least, greatest = min(least, number), max(greatest, number)
    if greatest - least >= _SPARSE * len(held):
        order = np.argsort(held)
        return order[np.searchsorted(held[order], wanted)]
    table = np.empty(greatest - least + 1, np.int32)
    for place in range(len(held)):
        table[held[place] - least] = place
    places = np.empty(len(wanted), np.int64)
    for place in range(len(wanted)):
        places[place] = table[wanted[place] - least]
    return places
