"""The querying server's work: one result from the fragments of its participating servers."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from anabranch.families.moving.kernels.arrays import (
    COUNT,
    DROPPED,
    MINUS,
    MINUS_OF_K,
    PLUS,
    PLUS_OF_K,
    QUERY_BLOCK,
    VALUE,
    ZERO,
    Int,
    NameArrays,
    emit,
    new_rows,
)
from anabranch.families.moving.kernels.object_names import better, closer
from anabranch.model.arrays import Array, Bytes, Floats, Ints
from anabranch.numeric.jit import inner, kernel

#: A row of a fragment as an assembler gets it: `slot` is the query's slot here, `zone` who sent it.
FRAGMENT = np.dtype(
    [
        ("tick", np.int64),
        ("slot", np.int64),
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


class LocalValues(NamedTuple):
    """The participating server table of queries for a value: the latest local value of every server, and the
    last result.
    """

    mode: Bytes  # by slot
    joined: Bytes  # [slots, zones]: whether a server participates
    value: Floats  # [slots, zones]
    who: Ints  # [slots, zones]
    result: Floats  # NaN for missing
    result_who: Ints
    dirty: Bytes


class CandidateLists(NamedTuple):
    """The participating server table of nearest queries: every server's list, as one list in rank (the
    paper's objList).
    """

    k: Ints  # by slot
    first: Ints  # where its list begins
    size: Ints
    dirty: Bytes
    entries: Array  # CANDIDATE


@inner
def _combined(names: NameArrays, local: LocalValues, slot: Int) -> tuple[float, Int]:
    """Returns (value, who has it) over all servers that participate; NaN if there is none."""
    mode, value, who = np.int64(local.mode[slot]), math.nan, np.int64(-1)
    for zone in range(local.joined.shape[1]):
        if not local.joined[slot, zone]:
            continue
        if mode == COUNT:
            value = local.value[slot, zone] + (0.0 if math.isnan(value) else value)
        elif local.who[slot, zone] >= 0 and (
            who < 0 or better(names, mode, local.value[slot, zone], local.who[slot, zone], value, who)
        ):
            value, who = local.value[slot, zone], local.who[slot, zone]
    return value, who


@kernel
def assemble_values(fragments: Array, local: LocalValues, names: NameArrays) -> Array:
    """Returns rows (tick, slot, VALUE, who; value) where a count or an extreme changed. Fragments are by slot
    and tick.
    """
    rows, count = new_rows(), ZERO
    row, end = ZERO, len(fragments)
    while row < end:
        slot, tick = fragments[row].slot, fragments[row].tick
        while row < end and fragments[row].slot == slot and fragments[row].tick == tick:
            said = fragments[row]
            local.joined[slot, said.zone] = said.op != DROPPED
            local.value[slot, said.zone] = said.x
            local.who[slot, said.zone] = said.who
            row += 1
        local.dirty[slot // QUERY_BLOCK] = 1
        value, who = _combined(names, local, slot)
        last = local.result[slot]
        if (value == last or (math.isnan(value) and math.isnan(last))) and who == local.result_who[slot]:
            continue
        local.result[slot] = value
        local.result_who[slot] = who
        rows = emit(rows, count, tick, slot, VALUE, who, value, 0.0, 0.0)
        count += 1
    return rows[:count]


@inner
def _sort(names: NameArrays, entries: Array, first: Int, size: Int) -> None:
    """Sorts a list by rank, by insertion, because it is nearly sorted already. Entry 0 belongs to no list
    and holds the entry that moves.
    """
    for start in range(first + 1, first + size):
        entries[0] = entries[start]
        that = entries[0]
        index = start
        while index > first and closer(
            names, that.distance, that.who, entries[index - 1].distance, entries[index - 1].who
        ):
            entries[index] = entries[index - 1]
            index -= 1
        entries[index] = entries[0]


@inner
def _apply_row(
    fragments: Array, row: Int, lists: CandidateLists, slot: Int, left: Ints, left_count: Int
) -> Int:
    """Carries out one row; returns how many chosen objects have been removed so far (their rows are in
    `left`).
    """
    said, entries = fragments[row], lists.entries
    index, end = lists.first[slot], lists.first[slot] + lists.size[slot]
    while index < end and not (entries[index].who == said.who and entries[index].zone == said.zone):
        index += 1
    if said.op == MINUS:
        if index == end:
            return left_count
        if entries[index].chosen:
            left[left_count] = row
            left_count += 1
        for later in range(index, end - 1):
            entries[later] = entries[later + 1]
        lists.size[slot] -= 1
        return left_count
    entry = entries[index]
    if index == end:
        lists.size[slot] += 1
        entry.who = said.who
        entry.zone = said.zone
        entry.chosen = 0
        for other in range(left_count):
            if fragments[left[other]].who == said.who:  # it only went from one server to another
                entry.chosen = 1
                left_count -= 1
                left[other] = left[left_count]
                break
    entry.x = said.x
    entry.y = said.y
    entry.distance = said.distance
    return left_count


@kernel
def assemble_nearest(fragments: Array, lists: CandidateLists, names: NameArrays) -> Array:
    """Returns rows (tick, slot, op, who; x, y, distance) where one of the k nearest changed. `op` also says
    whether the answer holds k objects then.

    Fragments are by slot and tick, minus rows first.
    """
    rows, count = new_rows(), ZERO
    left = np.empty(len(fragments) + 1, np.int64)
    row, end = ZERO, len(fragments)
    while row < end:
        slot, tick, left_count = fragments[row].slot, fragments[row].tick, ZERO
        while row < end and fragments[row].slot == slot and fragments[row].tick == tick:
            left_count = _apply_row(fragments, row, lists, slot, left, left_count)
            row += 1
        first, size = lists.first[slot], lists.size[slot]
        lists.dirty[slot // QUERY_BLOCK] = 1
        _sort(names, lists.entries, first, size)
        minus, plus = (MINUS_OF_K, PLUS_OF_K) if size >= lists.k[slot] else (MINUS, PLUS)
        for other in range(left_count):
            lost = fragments[left[other]]
            rows = emit(rows, count, tick, slot, minus, lost.who, lost.x, lost.y, lost.distance)
            count += 1
        for index in range(first, first + size):
            entry = lists.entries[index]
            chosen = 1 if index < first + lists.k[slot] else 0
            if chosen != entry.chosen:
                op = plus if chosen else minus
                rows = emit(rows, count, tick, slot, op, entry.who, entry.x, entry.y, entry.distance)
                count += 1
            entry.chosen = chosen
    return rows[:count]
