"""The forest of conditions: the results of each condition by itself, the same shape in any order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from anabranch.families.filters.forest import ROOT, Forest
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.conjunction import EVERYTHING, NOTHING, Normal
from anabranch.predicates.evaluate import evaluate
from anabranch.predicates.implies import implies
from anabranch.predicates.normal import normal_form
from anabranch.predicates.terms import TRUE, And, Constant, Difference, Not, Op, Or, Term
from tests.drawn import examples
from tests.predicates.generate import CONJUNCTIONS, ROWS, STREAM, batch, terms

SMALL = Stream(
    "small", (Column("a", ColumnType.INT), Column("b", ColumnType.INT), Column("s", ColumnType.STRING))
)


def between(column: str, low: Any, high: Any) -> Term:
    return And((Constant(column, Op.GE, low), Constant(column, Op.LE, high)))


@st.composite
def small_terms(draw: st.DrawFn) -> Term:
    """Conditions that often contain each other, or are equal in other words."""
    start, width = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    box = between(draw(st.sampled_from("ab")), start, start + width)
    text = Constant("s", draw(st.sampled_from(list(Op))), draw(st.sampled_from(["", "k", "kk", "m"])))
    gap = Difference("a", draw(st.sampled_from([Op.LE, Op.EQ, Op.NE])), "b", draw(st.integers(-2, 2)))
    hole = Constant("a", Op.NE, draw(st.integers(0, 6)))
    parts = draw(st.lists(st.sampled_from([box, text, gap, hole, Not(box)]), max_size=2, unique=True))
    term: Term = And((box, *parts)) if draw(st.booleans()) else And(tuple(parts))
    return Or((term, draw(small_terms()))) if draw(st.integers(0, 5)) == 0 else term


def small_rows() -> pa.RecordBatch:
    values = [None, *range(0, 13, 2), 1]
    rows = [
        (a, b, s) for a in values for b in values for s in (None, "", "j", "k", "ka", "kk", "l", "m", "n")
    ]
    columns = list(zip(*rows, strict=True))
    return pa.record_batch(
        [
            pa.array(columns[0], pa.int64()),
            pa.array(columns[1], pa.int64()),
            pa.array(columns[2], pa.string()),
        ],
        names=["a", "b", "s"],
    )


ITEMS = small_rows()


def found(forest: Forest, rows: pa.RecordBatch) -> dict[int, list[int]]:
    """Node -> rows, after looking whether the CSR is what it should be."""
    offsets, nodes = forest.match(rows)
    assert offsets.dtype == np.int64
    assert nodes.dtype == np.int32
    assert len(offsets) == rows.num_rows + 1
    answer: dict[int, list[int]] = {node: [] for node in forest.nodes}
    for row in range(rows.num_rows):
        mine = nodes[offsets[row] : offsets[row + 1]].tolist()
        assert mine == sorted(set(mine))
        for node in mine:
            answer[node].append(row)
    return answer


def shape(forest: Forest) -> dict[Normal, tuple[Normal | None, int]]:
    """Each node's normal form, with its parent's and its members."""
    return {
        forest.normal(node): (
            None if forest.parent(node) == ROOT else forest.normal(forest.parent(node)),
            forest.members(node),
        )
        for node in forest.nodes
    }


@settings(max_examples=examples(60))
@given(st.lists(terms(4) | CONJUNCTIONS, max_size=30), ROWS)
def test_matches_what_each_condition_says(conditions: list[Term], rows: list[dict[str, Any]]) -> None:
    normals = [normal_form(term, STREAM) for term in conditions]
    forest = Forest.build(normals, STREAM)
    items = batch(rows)
    answer = found(forest, items)
    for term, normal in zip(conditions, normals, strict=True):
        assert answer[forest.node_of(normal)] == np.flatnonzero(evaluate(term, items)).tolist()


@settings(max_examples=examples(60))
@given(st.lists(small_terms(), max_size=25), st.randoms(use_true_random=False))
def test_the_order_of_adding_does_not_matter(conditions: list[Term], random: Any) -> None:
    normals = [normal_form(term, SMALL) for term in conditions]
    forest = Forest(SMALL)
    for normal in normals:
        forest.add(normal)
    shuffled = random.sample(normals, len(normals))
    assert (
        _comparable(forest)
        == _comparable(Forest.build(normals, SMALL))
        == _comparable(Forest.build(shuffled, SMALL))
    )


def _comparable(forest: Forest) -> set[tuple[str, str, int]]:
    """By what the nodes select: equal selections may be written down in the form that came first."""
    answer = {node: str(rows) for node, rows in found(forest, ITEMS).items()}
    return {
        (
            answer[node],
            "" if forest.parent(node) == ROOT else answer[forest.parent(node)],
            forest.members(node),
        )
        for node in forest.nodes
    }


@settings(max_examples=examples(60))
@given(st.lists(small_terms(), max_size=25))
def test_a_parent_is_a_tightest_container(conditions: list[Term]) -> None:
    forest = Forest.build([normal_form(term, SMALL) for term in conditions], SMALL)
    for node in forest.nodes:
        mine = forest.normal(node)
        others = [forest.normal(other) for other in forest.nodes if other != node]
        containers = [other for other in others if implies(mine, other)]
        assert not any(implies(other, mine) for other in containers), "two nodes for equal selections"
        parent = forest.parent(node)
        assert (parent == ROOT) == (not containers)
        if parent != ROOT:
            assert forest.normal(parent) in containers
            assert not any(
                implies(other, forest.normal(parent))
                for other in containers
                if other != forest.normal(parent)
            )
            assert node in forest.children(parent)


class ComingAndGoing(RuleBasedStateMachine):
    """Selections are added and removed; at any time the forest is what building it afresh would give."""

    def __init__(self) -> None:
        super().__init__()
        self.forest = Forest(SMALL)
        self.added: list[tuple[int, Term, Normal]] = []

    @rule(term=small_terms())
    def add(self, term: Term) -> None:
        normal = normal_form(term, SMALL)
        node = self.forest.add(normal)
        assert self.forest.node_of(normal) == node
        self.added.append((node, term, normal))

    @precondition(lambda self: self.added)
    @rule(index=st.integers(0, 1000))
    def remove(self, index: int) -> None:
        node, _, _ = self.added.pop(index % len(self.added))
        self.forest.remove(node)

    @invariant()
    def results_are_right(self) -> None:
        answer = found(self.forest, ITEMS)
        assert set(answer) == {node for node, _, _ in self.added}
        for node, term, _ in self.added:
            assert answer[node] == np.flatnonzero(evaluate(term, ITEMS)).tolist()

    @invariant()
    def as_if_built_again(self) -> None:
        fresh = Forest.build([normal for _, _, normal in self.added], SMALL)
        assert _comparable(self.forest) == _comparable(fresh)


TestComingAndGoing = ComingAndGoing.TestCase
TestComingAndGoing.settings = settings(max_examples=examples(25), stateful_step_count=25)


def number(forest: Forest, term: Term) -> int:
    return forest.node_of(normal_form(term, SMALL))


def test_a_worked_example() -> None:
    wide, inner, innermost, text = (
        between("a", 0, 100),
        between("a", 10, 20),
        between("a", 12, 15),
        Constant("s", Op.EQ, "x"),
    )
    forest = Forest.build([normal_form(term, SMALL) for term in (wide, text, inner, innermost, wide)], SMALL)
    assert len(forest) == 4
    assert forest.members(number(forest, wide)) == 2
    assert forest.parent(number(forest, wide)) == forest.parent(number(forest, text)) == ROOT
    assert forest.parent(number(forest, innermost)) == number(forest, inner)
    forest.remove(number(forest, inner))
    assert forest.parent(number(forest, innermost)) == number(forest, wide)
    everything = forest.add(normal_form(TRUE, SMALL))
    assert forest.children(ROOT) == [everything]
    assert sorted(forest.children(everything)) == sorted([number(forest, wide), number(forest, text)])


def test_equal_selections_in_other_words_share_a_node() -> None:
    forest = Forest(SMALL)
    first = forest.add(normal_form(Or((between("a", 0, 5), Constant("b", Op.EQ, 1))), SMALL))
    again = Or((Constant("b", Op.EQ, 1), And((Constant("a", Op.LT, 6), Constant("a", Op.GT, -1)))))
    assert forest.add(normal_form(again, SMALL)) == first
    assert forest.members(first) == 2


def test_everything_and_nothing() -> None:
    forest = Forest.build([EVERYTHING, NOTHING], SMALL)
    assert forest.parent(forest.node_of(NOTHING)) == forest.node_of(EVERYTHING)
    offsets, nodes = forest.match(ITEMS)
    assert nodes.tolist() == [forest.node_of(EVERYTHING)] * ITEMS.num_rows
    assert offsets[-1] == ITEMS.num_rows


def test_no_rows_and_no_selections() -> None:
    forest = Forest(SMALL)
    assert forest.match(ITEMS)[0].tolist() == [0] * (ITEMS.num_rows + 1)
    forest.add(EVERYTHING)
    offsets, nodes = forest.match(ITEMS.slice(0, 0))
    assert (offsets.tolist(), nodes.tolist()) == ([0], [])


def test_the_ends_of_what_a_column_can_hold() -> None:
    """Where the greatest value is asked for by name, it is not an open end."""
    conditions = [
        Constant("p", op, flag) for op in (Op.EQ, Op.NE, Op.GE, Op.LT) for flag in (True, False)
    ] + [
        Constant(column, op, end)
        for column in ("x", "a")
        for op in (Op.EQ, Op.NE)
        for end in (math.inf, 2**63 - 1)
    ]
    forest = Forest.build([normal_form(term, STREAM) for term in conditions], STREAM)
    blank: dict[str, Any] = dict.fromkeys(column.name for column in STREAM.columns)
    values = [
        {"p": p, "x": x, "a": a} for p in (None, True, False) for x in (1.0, math.inf) for a in (0, 2**63 - 1)
    ]
    items = batch([{**blank, **row} for row in values])
    answer = found(forest, items)
    for term in conditions:
        node = forest.node_of(normal_form(term, STREAM))
        assert answer[node] == np.flatnonzero(evaluate(term, items)).tolist()


def test_slices_and_other_arrow_types() -> None:
    """Items come as slices of larger batches; a dictionary or a large string is still a string."""
    forest = Forest(SMALL)
    terms_ = [between("a", 2, 4), Constant("s", Op.GE, "k"), Difference("a", Op.LT, "b")]
    nodes = [forest.add(normal_form(term, SMALL)) for term in terms_]
    part = ITEMS.slice(37, 300)
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        recast = part.set_column(2, "s", part.column("s").cast(kind))
        answer = found(forest, recast)
        for node, term in zip(nodes, terms_, strict=True):
            assert answer[node] == np.flatnonzero(evaluate(term, part)).tolist()


@pytest.mark.parametrize("kind", ["chain", "nested", "words"])
def test_many_conditions(kind: str) -> None:
    """Shapes that make hubs, deep chains and long lists of constants."""
    rng = np.random.default_rng(5)
    if kind == "chain":
        conditions: list[Term] = [Constant("a", Op.GT, i) for i in range(600)]
    elif kind == "nested":
        conditions = [between("a", 100 * i, 100 * i + 99) for i in range(8)]
        starts = rng.integers(0, 790, 600).tolist()
        conditions += [between("a", start, min(start + 9, start // 100 * 100 + 99)) for start in starts]
    else:
        conditions = [Constant("s", Op.EQ, f"station-{i:04d}") for i in range(600)]
    normals = [normal_form(term, SMALL) for term in conditions]
    forest = Forest.build(normals, SMALL)
    numbers = rng.integers(-10, 810, 400)
    items = pa.record_batch(
        [pa.array(numbers), pa.array(numbers), pa.array([f"station-{i:04d}" for i in numbers])],
        names=["a", "b", "s"],
    )
    answer = found(forest, items)
    for term, normal in zip(conditions, normals, strict=True):
        assert answer[forest.node_of(normal)] == np.flatnonzero(evaluate(term, items)).tolist()
