"""From the nodes that each row belongs to, to the users of those nodes, and back from nodes to rows.

All lists are CSR: entry i owns `values[offsets[i]:offsets[i + 1]]`.
"""

from __future__ import annotations

import numpy as np

from anabranch.model.arrays import Ints, Ints32
from anabranch.numeric.jit import kernel


@kernel
def fan_out(offsets: Ints, nodes: Ints32, user_offsets: Ints, users: Ints32) -> tuple[Ints, Ints32, Ints32]:
    """The users of every row: those of all its nodes, one after the other.

    offsets, nodes: row -> nodes (int64[n + 1], int32[...]); user_offsets, users: node -> users.
    Returns the rows that have users (int64[m]), and for these row -> users (int32[m + 1], int32[...]).
    """
    rows = len(offsets) - 1
    total = 0
    with_users = 0
    for row in range(rows):
        count = 0
        for index in range(offsets[row], offsets[row + 1]):
            node = nodes[index]
            count += user_offsets[node + 1] - user_offsets[node]
        total += count
        if count:
            with_users += 1
    kept = np.empty(with_users, np.int64)
    out_offsets = np.empty(with_users + 1, np.int32)
    out = np.empty(total, np.int32)
    out_offsets[0] = 0
    filled = 0
    at = 0
    for row in range(rows):
        before = at
        for index in range(offsets[row], offsets[row + 1]):
            node = nodes[index]
            for user in range(user_offsets[node], user_offsets[node + 1]):
                out[at] = users[user]
                at += 1
        if at > before:
            kept[filled] = row
            filled += 1
            out_offsets[filled] = at
    return kept, out_offsets, out


@kernel
def renumber(codes: Ints32, places: Ints32) -> Ints32:
    """Numbers codes anew, from 0 in the order in which they first come, in place; returns the old code of
    each new one.

    places int32[all codes], all -1 before and after.
    """
    count = 0
    old = np.empty(min(len(codes), len(places)), np.int32)
    for index in range(len(codes)):
        code = codes[index]
        if places[code] < 0:
            places[code] = count
            old[count] = code
            count += 1
        codes[index] = places[code]
    for index in range(count):
        places[old[index]] = -1
    return old[:count]


@kernel
def owners_of(offsets: Ints, nodes: Ints32, slot_of: Ints, peer: Ints) -> tuple[Ints, Ints]:
    """The slots of every row, row after row: those of all its nodes.

    slot_of: node -> its first slot or -1; peer: slot -> the next slot of the same node or -1.
    Returns a row (int64[...]) and a slot (int64[...]) for each pair of them, by ascending row.
    """
    total = 0
    for index in range(len(nodes)):
        slot = slot_of[nodes[index]]
        while slot >= 0:
            total += 1
            slot = peer[slot]
    rows = np.empty(total, np.int64)
    slots = np.empty(total, np.int64)
    at = 0
    for row in range(len(offsets) - 1):
        for index in range(offsets[row], offsets[row + 1]):
            slot = slot_of[nodes[index]]
            while slot >= 0:
                rows[at] = row
                slots[at] = slot
                at += 1
                slot = peer[slot]
    return rows, slots
