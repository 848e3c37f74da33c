"""Names as bytes: found again, in the order of names, shown as they came."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anabranch.chain.state import State
from anabranch.families.moving.kernels.object_names import (
    PIECE,
    HomeNames,
    ObjectNames,
    buckets,
    encoded,
    focal_bytes,
    less,
    sort_by_name,
)

_texts = st.lists(
    st.text(max_size=12) | st.sampled_from(["vehicle-1", "vehicle-10", "vehicle-2", "", "é"]), max_size=60
)
_integers = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), max_size=60)


def _column(names: list) -> pa.Array:
    return pa.array(names, pa.int64() if names and isinstance(names[0], int) else pa.string())


@given(_texts | _integers)
def test_found_again_in_order_and_as_they_came(names: list) -> None:
    table, column = HomeNames(), _column(names)
    found = table.find(encoded(column), add=True)
    distinct = list(dict.fromkeys(names))
    assert [distinct[index] for index in found] == names
    assert table.count == len(distinct)
    assert table.find(encoded(column)).tolist() == found.tolist()
    assert table.shown(found, isinstance(names[0], int) if names else False).to_pylist() == names
    for i in range(min(10, len(distinct))):
        for j in range(min(10, len(distinct))):
            assert less(table.arrays, i, j) == (distinct[i] < distinct[j])
    for name in distinct:
        key = focal_bytes(str(name), isinstance(name, int))
        assert key == bytes(encoded(_column([name]))[1])


def test_unknown_and_impossible_names() -> None:
    table = HomeNames()
    assert table.find(encoded(pa.array(["a"]))).tolist() == [-1]
    assert focal_bytes("a", integers=True) is None
    assert focal_bytes(str(2**63), integers=True) is None


def test_kept_over_a_restart() -> None:
    state, table = State(), HomeNames()
    for part in range(5):
        column = pa.array([f"{'x' * 200}{part}-{n}" for n in range(500)])
        table.find(encoded(column), add=True)
        table.save(state)
    assert len(state.keys("names/")) > 1
    again = HomeNames.load(state)
    assert again.count == 2500
    assert again.find(encoded(column)).tolist() == table.find(encoded(column)).tolist()
    copy = ObjectNames.load(state)
    who = np.array([2499, 0, -1])
    assert copy.shown(who, False).to_pylist() == [f"{'x' * 200}4-499", f"{'x' * 200}0-0", None]


def test_home_zones_do_not_depend_on_the_process() -> None:
    offsets, data = encoded(pa.array(["a", "b", "vehicle-1", ""]))
    assert buckets(offsets, data, 1000).tolist() == PINNED


#: Objects of a running job have these homes; another hash would lose them.
PINNED = [429, 508, 292, 458]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([0, 1]), st.integers(0, 5 * int(PIECE))),
        unique=True,
        max_size=200,
    )
)
def test_sorted_by_name_without_pairs(rows: list[tuple[int, int, int]]) -> None:
    table = HomeNames()
    words = [f"{'name' * (n % 3)}{n * 7 % 61}-{n}" for n in range(5 * int(PIECE) + 1)]
    table.find(encoded(pa.array(words)), add=True)
    key = np.array([2 * group + op for group, op, _ in rows], np.int64)
    who = np.array([w for _, _, w in rows], np.int64)
    order = sort_by_name(np.argsort(key), key, who, table.arrays)
    kept = [row for row in rows if (row[0], 1 - row[1], row[2]) not in rows]
    assert [rows[index] for index in order] == sorted(kept, key=lambda row: (row[0], row[1], words[row[2]]))
