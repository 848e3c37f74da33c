"""The querying server's work: one answer from the fragments of its participating servers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel
from anabranch.kernels.moving_arrays import (
    COUNT,
    DROPPED,
    MINUS,
    PLUS,
    QUERY_BLOCK,
    VALUE,
    ZERO,
    Int,
    Names,
    emit,
    new_rows,
)
from anabranch.kernels.moving_nearest import closer
from anabranch.kernels.moving_values import better

Array = np.ndarray[Any, Any]


#: A row of a fragment as an assembler gets it: `place` is the query's place here, `zone` who sent it.
FRAGMENT = np.dtype(
    [
        ("tick", np.int64),
        ("place", np.int64),
        ("zone", np.int64),
        ("op", np.int64),
        ("who", np.int64),
        ("x", np.float64),  # or a local value
        ("y", np.float64),
        ("distance", np.float64),
    ],
    align=True,
)

#: An entry of a list of nearest objects.
CANDIDATE = np.dtype(
    [
        ("who", np.int64),
        ("zone", np.int64),
        ("x", np.float64),
        ("y", np.float64),
        ("distance", np.float64),
        ("chosen", np.int64),  # 1: it is one of the k
    ],
    align=True,
)


class Locals(NamedTuple):
    """The participating server table of queries for a value: the latest local result of every server, and
    what was last told.
    """

    mode: Array  # uint8, by place
    joined: Array  # uint8[:, zones]
    value: Array  # float64[:, zones]
    who: Array  # int64[:, zones]
    told: Array  # float64, NaN for missing
    told_who: Array  # int64
    dirty: Array  # uint8


class Candidates(NamedTuple):
    """The participating server table of nearest queries: every server's list, as one list in rank (the
    paper's objList).
    """

    k: Array  # int64, by place
    first: Array  # int64: where its list begins
    held: Array  # int64
    dirty: Array  # uint8
    entries: Array  # CANDIDATE


@kernel
def _combined(names: Names, local: Locals, place: Int) -> tuple[float, Int]:
    """(value, who has it) over all servers that participate; NaN if there is none."""
    mode, value, who = local.mode[place], math.nan, np.int64(-1)
    for zone in range(local.joined.shape[1]):
        if not local.joined[place, zone]:
            continue
        if mode == COUNT:
            value = local.value[place, zone] + (0.0 if math.isnan(value) else value)
        elif local.who[place, zone] >= 0 and (
            who < 0 or better(names, mode, local.value[place, zone], local.who[place, zone], value, who)
        ):
            value, who = local.value[place, zone], local.who[place, zone]
    return value, who


@kernel
def assemble_values(fragments: Array, local: Locals, names: Names) -> Array:
    """Rows (tick, place, VALUE, who; value) where a count or an extreme changed. Fragments are by place and
    tick.
    """
    rows, count = new_rows(64), ZERO
    row, end = ZERO, len(fragments)
    while row < end:
        place, tick = fragments[row].place, fragments[row].tick
        while row < end and fragments[row].place == place and fragments[row].tick == tick:
            told = fragments[row]
            local.joined[place, told.zone] = told.op != DROPPED
            local.value[place, told.zone] = told.x
            local.who[place, told.zone] = told.who
            row += 1
        local.dirty[place // QUERY_BLOCK] = 1
        value, who = _combined(names, local, place)
        last = local.told[place]
        if (value == last or (math.isnan(value) and math.isnan(last))) and who == local.told_who[place]:
            continue
        local.told[place] = value
        local.told_who[place] = who
        rows = emit(rows, count, tick, place, VALUE, who, value, 0.0, 0.0)
        count += 1
    return rows[:count]


@kernel
def _sort(names: Names, entries: Array, first: Int, held: Int) -> None:
    """Brings a list into rank; it is nearly in rank already, so by insertion. Entry 0 belongs to no list
    and holds what moves.
    """
    spare = entries[0:1]
    for spot in range(first + 1, first + held):
        spare[0] = entries[spot]
        that = spare[0]
        place = spot
        while place > first and closer(
            names, that.distance, that.who, entries[place - 1].distance, entries[place - 1].who
        ):
            entries[place] = entries[place - 1]
            place -= 1
        entries[place] = spare[0]


@kernel
def _take_row(fragments: Array, row: Int, lists: Candidates, place: Int, left: Array, left_count: Int) -> Int:
    """Carries out one row; returns how many chosen ones have been taken out so far (their rows are in
    `left`).
    """
    told, entries = fragments[row], lists.entries
    spot, end = lists.first[place], lists.first[place] + lists.held[place]
    while spot < end and not (entries[spot].who == told.who and entries[spot].zone == told.zone):
        spot += 1
    if told.op == MINUS:
        if spot == end:
            return left_count
        if entries[spot].chosen:
            left[left_count] = row
            left_count += 1
        for place_of in range(spot, end - 1):
            entries[place_of] = entries[place_of + 1]
        lists.held[place] -= 1
        return left_count
    entry = entries[spot]
    if spot == end:
        lists.held[place] += 1
        entry.who = told.who
        entry.zone = told.zone
        entry.chosen = 0
        for other in range(left_count):
            if fragments[left[other]].who == told.who:  # it only went from one server to another
                entry.chosen = 1
                left_count -= 1
                left[other] = left[left_count]
                break
    entry.x = told.x
    entry.y = told.y
    entry.distance = told.distance
    return left_count


@kernel
def assemble_nearest(fragments: Array, lists: Candidates, names: Names) -> Array:
    """Rows (tick, place, MINUS or PLUS, who; x, y, distance) where one of the k nearest changed.

    Fragments are by place and tick, minus rows first.
    """
    rows, count = new_rows(64), ZERO
    left = np.empty(len(fragments) + 1, np.int64)
    row, end = ZERO, len(fragments)
    while row < end:
        place, tick, left_count = fragments[row].place, fragments[row].tick, ZERO
        while row < end and fragments[row].place == place and fragments[row].tick == tick:
            left_count = _take_row(fragments, row, lists, place, left, left_count)
            row += 1
        first, held = lists.first[place], lists.held[place]
        lists.dirty[place // QUERY_BLOCK] = 1
        _sort(names, lists.entries, first, held)
        for other in range(left_count):
            gone = fragments[left[other]]
            rows = emit(rows, count, tick, place, MINUS, gone.who, gone.x, gone.y, gone.distance)
            count += 1
        for spot in range(first, first + held):
            entry = lists.entries[spot]
            chosen = 1 if spot < first + lists.k[place] else 0
            if chosen != entry.chosen:
                op = PLUS if chosen else MINUS
                rows = emit(rows, count, tick, place, op, entry.who, entry.x, entry.y, entry.distance)
                count += 1
            entry.chosen = chosen
    return rows[:count]
