"""Arrays of records, made and grown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anabranch.kernels.moving_arrays import NEVER, OBJECT, QUERY
from anabranch.zones.columns import Array


def records(kind: np.dtype[Any], columns: Mapping[str, Array]) -> Array:
    """Records from columns of the same names; columns without a field are left out."""
    names = kind.names or ()
    out = np.empty(len(columns[names[0]]), kind)
    for name in names:
        out[name] = columns[name]
    return out


def new_objects(count: int) -> Array:
    """Objects that nobody has seen."""
    out = np.zeros(count, OBJECT)
    for name in ("number", "after", "before", "younger", "older", "moved", "mark"):
        out[name] = -1
    out["gone"] = NEVER
    return out


def new_queries(count: int) -> Array:
    """Places that no query has."""
    out = np.zeros(count, QUERY)
    for name in (
        "number",
        "focal",
        "condition",
        "younger",
        "older",
        "who",
        "old_who",
        "high_column",
        "high_row",
        "inner_high_column",
        "inner_high_row",
    ):
        out[name] = -1
    out["gone"] = NEVER
    out["centre_x"] = out["centre_y"] = np.nan
    out["reach"] = np.inf
    return out


def grown(array: Array, size: int, empty: Array) -> Array:
    """The array with at least `size` entries, doubled if it is too short; `empty` is a single entry that new
    ones are like.
    """
    if size <= len(array):
        return array
    more = max(size, 2 * len(array)) - len(array)
    return np.concatenate([array, np.repeat(empty, more, axis=0)])
