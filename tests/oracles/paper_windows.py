"""The paper's windows at the end of a stream, as its XQuery functions build them (figures 10, 12, 28 to 31).

`data` is what is left of the stream; each call gives the next window and goes on with the tail. Windows
without items, which the functions of time give, too, are left to the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def cwin(count: int, step: int, data: list[T], at_end: str) -> list[list[T]]:
    """Item-based: figure 10 (cut), 28 (gather), 29 (run)."""
    window, tail = data[:count], data[step:]
    match at_end:
        case "cut" if len(data) < count:
            return []
        case "cut" if len(data) == count:
            return [window]
        case "gather" if len(data) <= count:
            return [window]
        case "run" if not tail:
            return [window]
    return [window, *cwin(count, step, tail, at_end)]


def dwin(
    start: int, diff: int, step: int, data: list[T], reference: Callable[[T], int], at_end: str
) -> list[list[T]]:
    """Time-based: figure 12 (cut), 30 (gather), 31 (run)."""
    window = [item for item in data if start <= reference(item) < start + diff]
    tail = [item for item in data if reference(item) >= start + step]
    match at_end:
        case "cut" if len(window) == len(data):
            return []
        case "gather" if len(window) == len(data):
            return [window]
        case "run" if not tail:
            return [window]
    return [window, *dwin(start + step, diff, step, tail, reference, at_end)]
