"""From nodes to users, against lists in Python."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anabranch.families.filters.kernels.fanout import fan_out, owners_of, renumber

NODES = 5
ROWS = st.lists(st.lists(st.integers(0, NODES - 1), unique=True).map(sorted), max_size=8)
USERS = st.lists(st.lists(st.integers(0, 99), max_size=3), min_size=NODES, max_size=NODES)


def _csr(lists: list[list[int]], kind: type) -> tuple[np.ndarray, np.ndarray]:
    return np.cumsum([0, *map(len, lists)]), np.array([entry for part in lists for entry in part], kind)


@given(ROWS, USERS)
def test_fan_out(rows: list[list[int]], users: list[list[int]]) -> None:
    kept, offsets, found = fan_out(*_csr(rows, np.int32), *_csr(users, np.int32))
    plain = [[user for node in nodes for user in users[node]] for nodes in rows]
    assert kept.tolist() == [row for row, names in enumerate(plain) if names]
    parts = [found[a:b].tolist() for a, b in pairwise(offsets)]
    assert parts == [names for names in plain if names]


@given(ROWS, st.lists(st.integers(-1, NODES - 1), max_size=6))
def test_owners_of(rows: list[list[int]], node_of_slot: list[int]) -> None:
    """Slots of one node are chained, the youngest first."""
    first, peer = np.full(NODES, -1), np.full(len(node_of_slot), -1)
    chains: dict[int, list[int]] = {}
    for slot, node in enumerate(node_of_slot):
        if node >= 0:
            peer[slot], first[node] = first[node], slot
            chains.setdefault(node, []).insert(0, slot)
    found_rows, found_slots = owners_of(*_csr(rows, np.int32), first, peer)
    plain = [(row, slot) for row, nodes in enumerate(rows) for node in nodes for slot in chains.get(node, [])]
    assert list(zip(found_rows.tolist(), found_slots.tolist(), strict=True)) == plain


@given(st.lists(st.integers(0, 19), max_size=30))
def test_renumber(codes: list[int]) -> None:
    new, places = np.array(codes, np.int32), np.full(20, -1, np.int32)
    old = renumber(new, places)
    assert old.tolist() == list(dict.fromkeys(codes))
    assert old[new].tolist() == codes
    assert (places == -1).all()
