"""Heaps in arrays, the least value on top."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.jit import leaf

Array = np.ndarray[Any, Any]


@leaf
def push(heap: Array, size: int, value: Any) -> None:
    """Adds a value to a heap of `size` values."""
    place = size
    while place > 0 and heap[(place - 1) // 2] > value:
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = value


@leaf
def raise_least(heap: Array, size: int, value: Any) -> None:
    """Replaces the least of a heap of `size` values by one that is not less."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = value
