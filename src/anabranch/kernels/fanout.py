"""From the nodes that each row belongs to, to the users of those nodes, and back from nodes to rows.

All lists are CSR: entry i owns `values[offsets[i]:offsets[i + 1]]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.jit import kernel

Array = np.ndarray[Any, Any]


@kernel
def fan_out(offsets: Array, nodes: Array, user_offsets: Array, users: Array) -> tuple[Array, Array, Array]:
    """The users of every row: those of all its nodes, one after the other.

    offsets, nodes: row -> nodes (int64[n + 1], int32[...]); user_offsets, users: node -> users.
    Out: the rows that have users (int64[m]), and for these row -> users (int32[m + 1], int32[...]).
    """
    rows = len(offsets) - 1
    total = 0
    answered = 0
    for row in range(rows):
        count = 0
        for place in range(offsets[row], offsets[row + 1]):
            node = nodes[place]
            count += user_offsets[node + 1] - user_offsets[node]
        total += count
        if count:
            answered += 1
    kept = np.empty(answered, np.int64)
    out_offsets = np.empty(answered + 1, np.int32)
    out = np.empty(total, np.int32)
    out_offsets[0] = 0
    filled = 0
    at = 0
    for row in range(rows):
        before = at
        for place in range(offsets[row], offsets[row + 1]):
            node = nodes[place]
            for user in range(user_offsets[node], user_offsets[node + 1]):
                out[at] = users[user]
                at += 1
        if at > before:
            kept[filled] = row
            filled += 1
            out_offsets[filled] = at
    return kept, out_offsets, out


@kernel
def owners_of(offsets: Array, nodes: Array, slot_of: Array, peer: Array) -> tuple[Array, Array]:
    """The slots of every row, row after row: those of all its nodes.

    slot_of: node -> its first slot or -1; peer: slot -> the next slot of the same node or -1.
    Out: a row (int64[...]) and a slot (int64[...]) for each pair of them, by ascending row.
    """
    total = 0
    for place in range(len(nodes)):
        slot = slot_of[nodes[place]]
        while slot >= 0:
            total += 1
            slot = peer[slot]
    rows = np.empty(total, np.int64)
    slots = np.empty(total, np.int64)
    at = 0
    for row in range(len(offsets) - 1):
        for place in range(offsets[row], offsets[row + 1]):
            slot = slot_of[nodes[place]]
            while slot >= 0:
                rows[at] = row
                slots[at] = slot
                at += 1
                slot = peer[slot]
    return rows, slots
