"""Implication never says a wrong yes, and between conjunctions of integers it says every right one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.conjunction import EVERYTHING
from anabranch.predicates.implies import implies
from anabranch.predicates.normal import normal_form
from anabranch.predicates.terms import And, Constant, Difference, Not, Op, Or, Term
from tests.drawn import examples
from tests.predicates.generate import ATOMS, CONJUNCTIONS, ROWS, STREAM, terms
from tests.predicates.naive import holds

SMALL = Stream("small", tuple(Column(name, ColumnType.INT) for name in "abc"))
ORDER_OPS = [op for op in Op if op is not Op.NE]


def small_atoms(ops: list[Op]) -> st.SearchStrategy[Term]:
    column, op = st.sampled_from("abc"), st.sampled_from(ops)
    return st.builds(Constant, column, op, st.integers(-2, 2)) | st.builds(
        Difference, column, op, column, st.integers(-2, 2)
    )


def small_conjunctions(ops: list[Op]) -> st.SearchStrategy[Term]:
    return st.lists(small_atoms(ops), max_size=5).map(lambda parts: And(tuple(parts)))


#: Every column lies within -2 and 2, so that trying all rows proves what it finds.
INSIDE = tuple(Constant(name, op, value) for name in "abc" for op, value in ((Op.GE, -2), (Op.LE, 2)))
ALL_ROWS = [
    dict(zip("abc", row, strict=True)) for row in itertools.product((None, -2, -1, 0, 1, 2), repeat=3)
]


@settings(max_examples=examples(200))
@given(small_conjunctions(ORDER_OPS))
def test_satisfiable_agrees_with_trying_every_row(term: And) -> None:
    bounded = And((*term.terms, *INSIDE))
    found = any(holds(bounded, row) for row in ALL_ROWS)
    assert bool(normal_form(bounded, SMALL).conjunctions) == found


@settings(max_examples=examples(200))
@given(small_conjunctions(list(Op)))
def test_with_unequal_an_empty_form_is_never_wrong(term: And) -> None:
    bounded = And((*term.terms, *INSIDE))
    if not normal_form(bounded, SMALL).conjunctions:
        assert not any(holds(bounded, row) for row in ALL_ROWS)


@settings(max_examples=examples(300))
@given(small_conjunctions(ORDER_OPS), small_conjunctions(ORDER_OPS))
def test_implication_is_complete_between_conjunctions(narrow: And, wide: And) -> None:
    bounded = And((*narrow.terms, *INSIDE))
    expected = all(holds(wide, row) for row in ALL_ROWS if holds(bounded, row))
    assert implies(normal_form(bounded, SMALL), normal_form(wide, SMALL)) == expected


@settings(max_examples=examples(300))
@given(terms() | CONJUNCTIONS, terms() | CONJUNCTIONS, ROWS)
def test_implication_is_sound(narrow: Term, wide: Term, rows: list[dict[str, Any]]) -> None:
    if implies(normal_form(narrow, STREAM), normal_form(wide, STREAM)):
        assert all(holds(wide, row) for row in rows if holds(narrow, row))


@settings(max_examples=examples(300))
@given(CONJUNCTIONS, ATOMS, ATOMS, ROWS)
def test_implication_is_sound_where_it_says_yes_more_often(
    base: And, more: Term, other: Term, rows: list[dict[str, Any]]
) -> None:
    narrow, wide = And((*base.terms, more)), Or((base, other))
    forms = normal_form(narrow, STREAM), normal_form(wide, STREAM)
    assert implies(*forms)
    if implies(forms[1], forms[0]):
        assert all(holds(narrow, row) for row in rows if holds(wide, row))


@settings(max_examples=examples(200))
@given(terms() | CONJUNCTIONS)
def test_reflexive(term: Term) -> None:
    normal = normal_form(term, STREAM)
    assert implies(normal, normal)
    assert implies(normal, EVERYTHING)


@settings(max_examples=examples(300))
@given(
    st.lists(ATOMS, max_size=3),
    st.lists(ATOMS, max_size=2),
    st.lists(ATOMS, max_size=2),
    st.permutations([0, 1, 2]),
)
def test_transitive(first: list[Term], second: list[Term], third: list[Term], order: list[int]) -> None:
    """On chains made to imply each other, and on any three of their parts."""
    chain = [tuple(first), (*first, *second), (*first, *second, *third)]
    forms = [normal_form(And(chain[place]), STREAM) for place in order]
    forms.append(normal_form(Or((And(chain[0]), *third)), STREAM))
    for a, b, c in itertools.permutations(forms, 3):
        if implies(a, b) and implies(b, c):
            assert implies(a, c)


def form(*parts: Term) -> Any:
    return normal_form(And(parts), STREAM)


@pytest.mark.parametrize(
    ("narrow", "wide", "expected"),
    [
        ([Constant("a", Op.LT, 3)], [Constant("a", Op.LT, 4)], True),
        ([Constant("a", Op.LT, 4)], [Constant("a", Op.LT, 3)], False),
        ([Constant("a", Op.LT, 3)], [Not(Constant("a", Op.GE, 3))], True),
        (
            [Not(Constant("a", Op.GE, 3))],
            [Constant("a", Op.LT, 3)],
            False,
        ),  # the first holds where a is missing
        ([Difference("a", Op.LE, "b"), Constant("b", Op.LE, 3)], [Constant("a", Op.LE, 3)], True),
        ([Constant("a", Op.LE, 3), Constant("b", Op.GT, 3)], [Difference("a", Op.LT, "b")], True),
        ([Difference("x", Op.LT, "y", 3)], [Difference("x", Op.LT, "y", 5)], True),
        ([Difference("x", Op.LE, "y", 3)], [Difference("x", Op.LT, "y", 5)], False),  # not at 1e300
        ([Difference("x", Op.LE, "y", 3)], [Difference("y", Op.GE, "x", -3)], False),  # rounds elsewhere
        ([Difference("a", Op.LE, "b", 3)], [Difference("b", Op.GE, "a", -3)], True),
        ([Difference("s", Op.LT, "t"), Constant("t", Op.LE, "m")], [Constant("s", Op.LT, "m")], True),
        ([Constant("a", Op.EQ, 3)], [Constant("a", Op.NE, 4)], True),
        ([Constant("a", Op.NE, 4)], [Not(Constant("a", Op.EQ, 4))], True),
    ],
)
def test_worked_examples(narrow: list[Term], wide: list[Term], expected: bool) -> None:
    assert implies(form(*narrow), form(*wide)) == expected
