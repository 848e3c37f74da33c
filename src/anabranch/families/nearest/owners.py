"""Whose a query is: every zone hears of every query, and keeps those that are its own."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.families.nearest.space import By, Space
from anabranch.zones import queries
from anabranch.zones.columns import Array
from anabranch.zones.packets import Kind, Packet
from anabranch.zones.state import State


def owners(specs: Sequence[str], space: Space) -> Array:
    """The zones of queries, given their specs as JSON. int64[n]"""
    places: dict[By, list[int]] = {}
    points: dict[By, list[list[float]]] = {}
    for place, text in enumerate(specs):
        spec = json.loads(text)
        by = tuple(spec["by"])
        places.setdefault(by, []).append(place)
        points.setdefault(by, []).append(spec["point"])
    zones = np.zeros(len(specs), np.int64)
    for by, members in places.items():
        zones[members] = space.owners(by, np.array(points[by], np.float64))
    return zones


def keep_own(state: State, controls: Sequence[Packet], space: Space, zone: int) -> int:
    """Takes up the queries of this zone among those that begin; how many."""
    begun = 0
    for packet in controls:
        if packet.kind is Kind.ACTIVATE:
            mine = owners(packet.column("spec").to_pylist(), space) == zone
            if mine.any():
                begun += int(mine.sum())
                own = packet.rows.filter(pa.array(mine))
                queries.apply(state, [Packet(packet.stage, zone, Kind.ACTIVATE, own)])
    return begun


def disown(state: State, space: Space, zone: int) -> None:
    """Gives up the queries of other zones, once it is known, or has changed, whose they are."""
    for key in state.keys(queries.PREFIX):
        rows = state.rows(key)
        assert rows is not None
        mine = owners(rows.column("spec").to_pylist(), space) == zone
        if mine.all():
            continue
        if mine.any():
            state.put(key, rows.filter(pa.array(mine)))
        else:
            state.drop(key)
