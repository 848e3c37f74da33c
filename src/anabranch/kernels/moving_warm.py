"""Calls the moving kernels once on tiny arrays of the types that the stages use."""

from __future__ import annotations

import numpy as np

from anabranch.kernels.moving_arrays import (
    AGED_OBJECTS,
    AGED_QUERIES,
    EVENT,
    MOVE,
    NEVER,
    OBJECT,
    QUERY,
    Grid,
    Names,
    Server,
    Space,
)
from anabranch.kernels.moving_assemble import (
    CANDIDATE,
    FRAGMENT,
    Candidates,
    Locals,
    assemble_nearest,
    assemble_values,
)
from anabranch.kernels.moving_grid import attach_all, forget_one, remember_all, unwatch_one, watch_all
from anabranch.kernels.moving_home import (
    FOLLOWER,
    KNOWN,
    REPORT,
    Followers,
    crossed,
    forward,
    last_of_tick,
    participates,
    servers_of,
)
from anabranch.kernels.moving_names import arrange, buckets, collect, enter, fill_table, find
from anabranch.kernels.moving_search import (
    RECORD,
    Raster,
    adjust,
    begin,
    bounds,
    enlarge,
    follow,
    inside,
    learn,
    let_go,
    mark,
    take_in,
)
from anabranch.kernels.moving_tick import run
from anabranch.kernels.regions import GRID, Layout

_SPACE = Space(False, 0.0)
_RASTER = Raster(0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1, 1, np.ones(1, np.uint64))
_LAYOUT = Layout(GRID, 2, 2, 1, 0.0, 0.0, 2.0, 1.0, np.zeros((0, 4)), np.zeros((0, 4)))


def warm_moving() -> None:
    names = _warm_names()
    _warm_home()
    _warm_region(names)
    _warm_assemble(names)


def _warm_names() -> Names:
    names = Names(np.zeros(4, np.int64), np.zeros(4, np.int32), np.zeros(16, np.uint8))
    offsets, data = np.array([0, 1, 2], np.int32), np.array([97, 98], np.uint8)
    buckets(offsets, data, 2)
    table = np.full(8, -1, np.int32)
    found, count, _ = find(table, names, 0, 0, offsets, data, True)
    fill_table(np.full(8, -1, np.int32), names, count)
    arrange(np.array([1, 0]), np.array([1, 0]), found, names)
    collect(names, found)
    enter(names, found, offsets, data, 0)
    return names


def _warm_home() -> None:
    last_of_tick(np.zeros(1, np.int64), np.zeros(1, np.int64), 1)
    followers = Followers(np.array([0, 1]), np.zeros(1, FOLLOWER))
    forward(_SPACE, _LAYOUT, np.zeros(1, REPORT), np.zeros(1, KNOWN), np.zeros(1, np.uint8), followers)
    truths, dirty = np.zeros((1, 1), np.uint64), np.zeros(1, np.uint8)
    prior = follow(np.zeros(1, REPORT), truths, np.zeros(1, RECORD), truths.copy(), dirty)
    inside(_SPACE, _RASTER, prior[0].copy(), prior[1].copy())


def _warm_region(names: Names) -> None:
    participates(_SPACE, _LAYOUT, 0, 0, 1.0, 0.0, 0.0, 0.0)
    servers_of(_SPACE, _LAYOUT, crossed(_SPACE, np.zeros(1)), np.zeros(1))
    objects, queries = np.zeros(4, OBJECT), np.zeros(64, QUERY)
    for name in ("younger", "older", "moved", "mark"):
        objects[name] = -1
    queries["younger"] = queries["older"] = -1
    objects["gone"] = queries["gone"] = NEVER
    ends, bytes_ = np.full((2, 2), -1, np.int64), np.zeros(1, np.uint8)
    grid = Grid(0.0, 0.0, 1.0, 1.0, 1, 1, np.full(1, -1, np.int32), *np.zeros((2, 1, 1), np.uint64))
    server = Server(
        objects, np.zeros((4, 1), np.uint64), queries, np.zeros(4, np.int64), ends, bytes_, bytes_.copy()
    )
    attach_all(_SPACE, objects, grid)
    watch_all(_SPACE, queries, grid)
    unwatch_one(queries, 0, grid)
    forget_one(queries, ends, AGED_QUERIES, 0)
    remember_all(queries, ends, AGED_QUERIES, np.zeros(0, np.int64))
    remember_all(objects, ends, AGED_OBJECTS, np.zeros(0, np.int64))
    run(_SPACE, server, grid, names, np.zeros(1, MOVE), np.zeros((1, 1), np.uint64), np.zeros(0, EVENT), 0)
    _warm_search(server, grid)


def _warm_search(server: Server, grid: Grid) -> None:
    begin(_SPACE, server.queries)
    learn(server)
    adjust(_SPACE, server)
    enlarge(_SPACE, server.queries)
    bounds(_SPACE, server.queries)
    mark(_SPACE, server.queries, _RASTER)
    let_go(_SPACE, server, grid, _RASTER)
    take_in(_SPACE, server, grid, np.zeros(0, np.int64), np.zeros(0, RECORD), np.zeros((0, 1), np.uint64))


def _warm_assemble(names: Names) -> None:
    ints, bytes_ = np.zeros(1, np.int64), np.zeros(1, np.uint8)
    local = Locals(
        bytes_,
        np.zeros((1, 1), np.uint8),
        np.zeros((1, 1)),
        np.zeros((1, 1), np.int64),
        np.zeros(1),
        ints,
        bytes_.copy(),
    )
    assemble_values(np.zeros(0, FRAGMENT), local, names)
    lists = Candidates(ints, ints.copy(), ints.copy(), bytes_, np.zeros(1, CANDIDATE))
    assemble_nearest(np.zeros(0, FRAGMENT), lists, names)
