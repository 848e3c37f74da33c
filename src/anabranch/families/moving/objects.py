"""What a home zone holds of its objects: names, the last report that went to a region, and the reports that
wait for their tick.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anabranch.families.moving.chunks import get_columns, put_columns, widened
from anabranch.families.moving.conditions import Conditions
from anabranch.families.moving.forwarding import ForwardingRequests
from anabranch.families.moving.names import HomeNames
from anabranch.kernels.moving_arrays import BLOCK
from anabranch.kernels.moving_home import KNOWN
from anabranch.zones.columns import Array
from anabranch.zones.state import Arrays, State

OBJECTS = "objects/"
PENDING = "pending/"

#: Columns of a report; `time` decides its tick once the origin is known.
COLUMNS = ("time", "index", "x", "y", "number", "truths")


class HomeObjects:
    """In memory between batches; built from the state where a worker takes a zone over."""

    def __init__(self, names: HomeNames, conditions: Conditions) -> None:
        self.names, self.conditions = names, conditions
        self.requests = ForwardingRequests()
        self.known = _unknown(64)
        self.dirty = np.zeros(1, np.uint8)  # one a block of `known` to be stored
        self.pending: list[Arrays] = []

    @staticmethod
    def load(state: State) -> HomeObjects:
        held = HomeObjects(HomeNames.load(state), Conditions.load(state))
        held.make_room(held.names.count)
        for key in state.keys(OBJECTS):
            chunk = state.get(key)
            assert chunk is not None
            first = int(key.removeprefix(OBJECTS)) * BLOCK
            for name in KNOWN.names or ():
                held.known[name][first : first + len(chunk[name])] = chunk[name]
        waiting = get_columns(state, PENDING)
        held.pending = [] if waiting is None else [waiting]
        return held

    def make_room(self, count: int) -> None:
        old = len(self.known)
        if count > old:
            self.known = np.concatenate([self.known, _unknown(max(old, count - old))])
            self.dirty = np.concatenate(
                [self.dirty, np.zeros(len(self.known) // BLOCK + 1 - len(self.dirty), np.uint8)]
            )

    def assign(self, server_of: Callable[[Array, Array], Array]) -> None:
        """Gives every object that has reported to the server that now has its position (of x, y)."""
        seen = np.flatnonzero(self.known["zone"] >= 0)
        there = self.known[seen]
        self.known["zone"][seen] = server_of(there["x"].copy(), there["y"].copy())
        self.dirty[seen // BLOCK] = 1

    def save(self, state: State) -> None:
        self.names.save(state)
        self.conditions.save(state)
        for block in np.flatnonzero(self.dirty).tolist():
            rows = slice(block * BLOCK, min((block + 1) * BLOCK, self.names.count))
            state.put(
                f"{OBJECTS}{block:08d}", {name: self.known[name][rows].copy() for name in KNOWN.names or ()}
            )
        self.dirty[:] = 0
        reports = self.taken_reports()
        put_columns(state, PENDING, reports)
        self.pending = [] if reports is None else [reports]

    def taken_reports(self) -> Arrays | None:
        """All reports that wait, in stream order, as one; none wait afterwards."""
        parts, self.pending = self.pending, []
        if not parts:
            return None
        width = max(part["truths"].shape[1] for part in parts)
        for part in parts:
            part["truths"] = widened(part["truths"], width)
        return {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}


def _unknown(size: int) -> Array:
    out = np.zeros(size, KNOWN)
    out["number"] = out["zone"] = -1
    return out
