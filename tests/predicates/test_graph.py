"""Predicate graphs: satisfiable means some numbers satisfy all edges, minimal means no edge can go."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.predicates.graph import ZERO, Edges, Weight, closure, minimal, satisfiable
from tests.drawn import examples

NODES = [ZERO, "a", "b", "c"]
PAIRS = st.sampled_from([(x, y) for x in NODES for y in NODES if x != y])
LOOSE = st.dictionaries(PAIRS, st.tuples(st.integers(-3, 3), st.just(1)), max_size=7)
MIXED = st.dictionaries(PAIRS, st.tuples(st.integers(-2, 2), st.integers(0, 1)), max_size=7)


def _holds(edges: Edges, values: dict[str, float]) -> bool:
    return all(
        values[x] <= values[y] + weight[0] if weight[1] else values[x] < values[y] + weight[0]
        for (x, y), weight in edges.items()
    )


def _grid(step: float, reach: float) -> list[dict[str, float]]:
    places = [step * n for n in range(int(-reach / step), int(reach / step) + 1)]
    return [dict(zip(NODES, (0.0, *triple), strict=True)) for triple in itertools.product(places, repeat=3)]


_INTEGERS = _grid(1, 9)  # three edges of weight at most 3 lead from zero to any node
_QUARTERS = _grid(0.25, 2)


@settings(max_examples=examples(60))
@given(LOOSE)
def test_satisfiable_on_integers(edges: dict[tuple[str, str], Weight]) -> None:
    assert satisfiable(edges) == any(_holds(edges, values) for values in _INTEGERS)


@settings(max_examples=examples(40))
@given(MIXED)
def test_what_some_numbers_satisfy_is_satisfiable_and_so_is_its_closure(
    edges: dict[tuple[str, str], Weight],
) -> None:
    found = [values for values in _QUARTERS if _holds(edges, values)]
    closed = closure(edges)
    assert closed is not None or not found
    assert all(_holds(closed or {}, values) for values in found)


@settings(max_examples=examples(300))
@given(LOOSE | MIXED)
def test_minimal_says_the_same_and_no_edge_can_go(edges: dict[tuple[str, str], Weight]) -> None:
    closed = closure(edges)
    if closed is None:
        return
    kept = minimal(closed)
    connected = {pair: weight for pair, weight in closed.items() if pair[0] != pair[1]}

    def again(some: Edges) -> dict[tuple[str, str], Weight]:
        return {pair: weight for pair, weight in (closure(some) or {}).items() if pair[0] != pair[1]}

    assert again(kept) == connected
    for pair in kept:
        assert again({other: weight for other, weight in kept.items() if other != pair}) != connected


def test_worked_examples() -> None:
    assert not satisfiable({("a", "b"): (0, 1), ("b", "a"): (0, 0)})  # a <= b and b < a
    assert satisfiable({("a", "b"): (0, 1), ("b", "a"): (0, 1)})
    closed = closure({("a", "b"): (2, 1), ("b", ZERO): (3, 0)})  # a <= b + 2, b < 3
    assert closed is not None
    assert closed["a", ZERO] == (5, 0)
    assert minimal(closed) == {("a", "b"): (2, 1), ("b", ZERO): (3, 0)}
    equal = closure({("a", "b"): (0, 1), ("b", "c"): (0, 1), ("c", "a"): (0, 1), ("c", ZERO): (1, 1)})
    assert equal is not None
    assert minimal(equal) == {
        ("b", "a"): (0, 1), ("a", "b"): (0, 1), ("c", "a"): (0, 1), ("a", "c"): (0, 1), ("a", ZERO): (1, 1),
    }  # fmt: skip
