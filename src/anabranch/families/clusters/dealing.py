"""Which zone answers which group of queries.

In: queries that begin and end, in the same order in every zone. Out: whether a query is this zone's. Never: a
group in two zones, or in another one as long as it lives.

A group goes to the zone with the fewest queries when its first query begins, and stays there until its last
one ends. All zones see all queries and deal in the same way, so none has to ask another.

    zones     0          1           q1 begins a group, then q2, then q3 and q4 of q1's group, then q5
    groups    q1 q3 q4   q2 q5       a third group: zone 1 has fewer queries
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.zones.columns import Array
from anabranch.zones.state import State

DEALT = "dealt"  # number, group and zone of every query: int64, uint64, int32


def deal(state: State, zones: int, numbers: Sequence[int], groups: Sequence[str]) -> list[int]:
    """The zones of queries that begin, given by their numbers and the keys of their groups."""
    if zones == 1:
        return [0] * len(numbers)
    held = _dealt(state)
    keys = np.array([int(group[:16], 16) for group in groups], np.uint64)
    where = dict(zip(held["group"].tolist(), held["zone"].tolist(), strict=True))
    load = np.bincount(held["zone"], minlength=zones)
    chosen = []
    for key in keys.tolist():
        chosen.append(where.setdefault(key, int(load.argmin())))
        load[chosen[-1]] += 1
    new = {
        "number": np.array(numbers, np.int64),
        "group": keys,
        "zone": np.array(chosen, np.int32),
    }
    state.put(DEALT, {name: np.concatenate([held[name], array]) for name, array in new.items()})
    return chosen


def forget(state: State, numbers: Sequence[int]) -> None:
    """Queries have ended."""
    held = state.get(DEALT)
    if held is None:
        return
    kept = ~np.isin(held["number"], np.array(numbers, np.int64))
    if not kept.any():
        state.drop(DEALT)
    elif not kept.all():
        state.put(DEALT, {name: array[kept] for name, array in held.items()})


def _dealt(state: State) -> dict[str, Array]:
    held = state.get(DEALT)
    if held is not None:
        return held
    return {"number": np.empty(0, np.int64), "group": np.empty(0, np.uint64), "zone": np.empty(0, np.int32)}
