"""A regional server's state: which of its arrays are kept in which chunks, and how it is built from them
again.

| chunk        | holds                                                                            |
|--------------|----------------------------------------------------------------------------------|
| objects/n    | the present objects with numbers in block n                                      |
| locals/n     | the changing part of the queries at places in block n, with their lists          |
| names/n      | names of objects                                                                 |
| conditions   | which bit is which condition                                                     |
| near/...     | objects and locals of the server for nearest objects, its cells, and what is late |
| queries/n, ceasing | the queries and those that are about to end                                |
"""

from __future__ import annotations

import numpy as np

from anabranch.families.moving.conditions import Conditions
from anabranch.families.moving.names import NameTable
from anabranch.families.moving.plans import Plan
from anabranch.families.moving.server import RegionalServer
from anabranch.kernels.moving_arrays import BLOCK, NEAREST, QUERY_BLOCK, Space
from anabranch.zones.columns import Array
from anabranch.zones.state import State

OBJECTS, LOCALS, NEAR = "objects/", "locals/", "near/"

_OF_OBJECT = ("x", "y", "number", "gone")
_OF_QUERY = (
    "condition",
    "started",
    "known",
    "here",
    "live",
    "x",
    "y",
    "focal",
    "gone",
    "value",
    "who",
    "held",
    "centre_x",
    "centre_y",
    "reach",
    "slack",
)


def load(state: State, space: Space, plans: dict[int, Plan]) -> RegionalServer:
    server = RegionalServer(space, NameTable.load(state), Conditions.load(state))
    _fill(state, server, plans, "")
    return server


def load_near(state: State, server: RegionalServer, plans: dict[int, Plan]) -> RegionalServer:
    """The server of all objects; names and conditions are those of the other one."""
    near = RegionalServer(server.space, server.names, server.conditions)
    _fill(state, near, plans, NEAR)
    return near


def _fill(state: State, server: RegionalServer, plans: dict[int, Plan], prefix: str) -> None:
    for key in state.keys(prefix + OBJECTS):
        chunk = state.get(key)
        assert chunk is not None
        who = chunk["who"]
        server.make_room(int(who.max()) + 1)
        for name in _OF_OBJECT:
            server.objects[name][who] = chunk[name]
        server.objects["present"][who] = 1
        server.truths[who, : chunk["truths"].shape[1]] = chunk["truths"]
    for key in state.keys(prefix + LOCALS):
        _load_queries(state, key, server, plans)
    server.find_free_places()
    server.make_grid()
    server.list_by_age()


def _load_queries(state: State, key: str, server: RegionalServer, plans: dict[int, Plan]) -> None:
    chunk = state.get(key)
    assert chunk is not None
    server.reserve(int(chunk["place"].max()) + 1)
    taken = 0
    for row, (place, number) in enumerate(
        zip(chunk["place"].tolist(), chunk["number"].tolist(), strict=True)
    ):
        server.add(plans[number], -1, False, place)
        query = server.queries[place]
        for name in _OF_QUERY:
            query[name] = chunk[name][row]
        if query["mode"] == NEAREST:
            query["a"] = chunk["a"][row]
            first, held = int(query["first"]), int(query["held"])
            server.lists[first : first + held] = chunk["lists"][taken : taken + held]
            taken += held
    server.dirty_queries[:] = 0


def save(state: State, server: RegionalServer) -> None:
    """Stores what changed since the last call."""
    server.names.save(state)
    server.conditions.save(state)
    _store(state, server, "")


def save_near(state: State, near: RegionalServer) -> None:
    _store(state, near, NEAR)


def _store(state: State, server: RegionalServer, prefix: str) -> None:
    for block in np.flatnonzero(server.dirty_objects).tolist():
        first = block * BLOCK
        who = first + np.flatnonzero(server.objects["present"][first : first + BLOCK])
        there = server.objects[who]
        chunk = {"who": who, "truths": server.truths[who]} | {name: there[name] for name in _OF_OBJECT}
        _put(state, f"{prefix}{OBJECTS}{block:08d}", chunk, len(who))
    for block in np.flatnonzero(server.dirty_queries).tolist():
        first = block * QUERY_BLOCK
        place = first + np.flatnonzero(server.queries["number"][first : first + QUERY_BLOCK] >= 0)
        asked = server.queries[place]
        lists = [
            server.lists[f : f + h]
            for f, h in zip(asked["first"].tolist(), asked["held"].tolist(), strict=True)
        ]
        chunk = {"place": place, "lists": np.concatenate([*lists, np.zeros(0, np.int64)])}
        chunk |= {name: asked[name] for name in ("number", "a", *_OF_QUERY)}
        _put(state, f"{prefix}{LOCALS}{block:08d}", chunk, len(place))
    server.dirty_objects[:] = 0
    server.dirty_queries[:] = 0


def _put(state: State, key: str, chunk: dict[str, Array], entries: int) -> None:
    if entries:
        state.put(key, chunk)
    else:
        state.drop(key)
