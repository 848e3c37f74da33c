"""The normal form, the columnar evaluation and a naive one say the same about every row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from anabranch.model.errors import QueryError
from anabranch.model.limits import LimitError, QueryLimits
from anabranch.predicates.conjunction import EVERYTHING, NOTHING
from anabranch.predicates.evaluate import evaluate
from anabranch.predicates.normal import normal_form, unsatisfiable_reason
from anabranch.predicates.terms import TRUE, And, Constant, Difference, Not, Op, Or, Term
from anabranch.predicates.text import normal_text, term_text
from anabranch.predicates.work import Work
from tests.drawn import examples
from tests.predicates.generate import CONJUNCTIONS, ROWS, STREAM, TYPES, batch, terms
from tests.predicates.naive import holds, satisfies


@settings(max_examples=examples(400))
@given(terms() | CONJUNCTIONS, ROWS)
def test_three_ways_to_evaluate_agree(term: Term, rows: list[dict[str, Any]]) -> None:
    expected = [holds(term, row) for row in rows]
    assert evaluate(term, batch(rows)).tolist() == expected
    normal = normal_form(term, STREAM)
    assert [satisfies(normal, row, TYPES) for row in rows] == expected


@settings(max_examples=examples(150))
@given(terms(), ROWS)
def test_no_conjunction_is_needless_and_the_form_is_stable(term: Term, rows: list[dict[str, Any]]) -> None:
    normal = normal_form(term, STREAM)
    assert normal == normal_form(Or((term, term)), STREAM)
    assert normal == normal_form(Not(Not(term)), STREAM)
    assert list(normal.conjunctions) == sorted(set(normal.conjunctions))
    assert normal_text(normal)
    assert term_text(term)


@settings(max_examples=examples(200))
@given(terms() | CONJUNCTIONS, ROWS)
def test_a_refused_condition_is_true_nowhere_but_by_rounding(term: Term, rows: list[dict[str, Any]]) -> None:
    if not normal_form(term, STREAM).conjunctions:
        assert unsatisfiable_reason(term, STREAM)
        assert not any(holds(term, row) for row in rows)


def text_of(term: Term) -> str:
    return normal_text(normal_form(term, STREAM))


def less(column: str, value: Any) -> Constant:
    return Constant(column, Op.LT, value)


def more(column: str, value: Any) -> Constant:
    return Constant(column, Op.GT, value)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (less("a", 1.5), "a <= 1"),
        (Not(more("a", 5)), "(a missing or a <= 5)"),
        (Not(less("a", 5)), "a missing or a >= 5"),
        (Constant("a", Op.NE, 5), "a present and a != 5"),
        (Not(Constant("a", Op.EQ, 5)), "a != 5"),
        (And((Constant("a", Op.GE, 3), Constant("a", Op.NE, 3))), "a >= 4"),
        (less("x", 5), "x < 5.0"),
        (And((less("x", 5), more("x", 1))), "x > 1.0 and x < 5.0"),
        (Constant("a", Op.LE, 10**30), "a present"),
        (Constant("x", Op.LE, 2**53 + 1), "x <= 9007199254740992.0"),
        (Not(Constant("p", Op.EQ, True)), "(p missing or p <= false)"),
        (more("s", "it's"), "s > 'it''s'"),
        (And((Difference("a", Op.LE, "b", 2), less("b", 4))), "a <= 5 and b <= 3 and a <= b + 2"),
        (
            And((Difference("a", Op.LE, "b"), Difference("a", Op.NE, "b"))),
            "a present and b present and a <= b - 1",
        ),
        (And((Difference("b", Op.GE, "a", 1.5),)), "a present and b present and a <= b - 2"),
        (And((Difference("x", Op.LE, "y", 0.5), less("y", 1))), "x <= 1.5 and y < 1.0 and x <= y + 0.5"),
        (And((Difference("a", Op.EQ, "b"), Constant("a", Op.EQ, 7))), "a = 7 and b = 7"),
        (Or((less("a", 1), less("a", 2))), "a <= 1"),
    ],
)
def test_worked_examples(term: Term, expected: str) -> None:
    assert text_of(term) == expected


@pytest.mark.parametrize(
    ("term", "reason"),
    [
        (And((less("a", 1), more("a", 2))), "a < 1 and a > 2 exclude each other"),
        (And((more("x", 0), less("a", 1), more("a", 2))), "a < 1 and a > 2 exclude each other"),
        (Constant("a", Op.EQ, 1.5), "a = 1.5 can never be true"),
        (
            And((Difference("x", Op.GE, "y", 5), Difference("x", Op.LE, "y", 3))),
            "x >= y + 5 and x <= y + 3 exclude each other",
        ),
        (
            And((Difference("x", Op.LT, "y"), Difference("y", Op.LT, "x"))),
            "x < y and y < x exclude each other",
        ),
        (
            And((Difference("a", Op.LT, "b"), less("b", 3), more("a", 1))),
            "a < b, b < 3 and a > 1 exclude each other",
        ),
        (
            Or((Constant("a", Op.EQ, 0.5), Constant("b", Op.EQ, 0.5))),
            "a = 0.5 can never be true; b = 0.5 can never be true",
        ),
        (less("s", ""), "s < '' can never be true"),
        (
            And((Or((less("a", 1), less("a", 0))), more("a", 2))),
            "(a < 1 or a < 0) and a > 2 exclude each other",
        ),
    ],
)
def test_reasons(term: Term, reason: str) -> None:
    assert unsatisfiable_reason(term, STREAM) == reason


def test_what_can_be_true_has_no_reason() -> None:
    assert unsatisfiable_reason(TRUE, STREAM) is None
    assert unsatisfiable_reason(And((more("a", 1), less("a", 3))), STREAM) is None
    assert (
        unsatisfiable_reason(And((Difference("x", Op.LE, "y", -5), Difference("y", Op.LE, "x", 5))), STREAM)
        is None
    )


def test_everything_and_nothing() -> None:
    assert normal_form(TRUE, STREAM) == EVERYTHING
    assert normal_form(Or(()), STREAM) == NOTHING


def test_the_number_of_alternatives_is_limited() -> None:
    ors = tuple(Or((less("a", -i), more("b", 10 * i))) for i in range(40))
    assert len(normal_form(And(ors), STREAM).conjunctions) < 50  # most of the 2**40 imply each other
    limit = QueryLimits().conjunctions
    many = Or(tuple(Constant("a", Op.EQ, i) for i in range(limit)))
    assert len(normal_form(many, STREAM, Work(QueryLimits())).conjunctions) == limit
    with pytest.raises(LimitError, match=rf"unfolds into {limit + 1:,} alternatives \(limit: {limit:,}\)"):
        normal_form(Or((many, Constant("a", Op.EQ, -1))), STREAM, Work(QueryLimits()))
    both = And((many, Or(tuple(Constant("b", Op.EQ, i) for i in range(limit)))))
    with pytest.raises(LimitError, match=f"unfolds into {limit**2:,} alternatives"):  # before they are made
        normal_form(both, STREAM, Work(QueryLimits()))


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (Constant("nope", Op.EQ, 1), "unknown column 'nope' in stream all"),
        (Constant("s", Op.EQ, 1), "column 's' is a string and 1 is not"),
        (Constant("a", Op.EQ, "1"), "column 'a' is a int and cannot be compared with the string '1'"),
        (Constant("a", Op.EQ, True), "cannot be compared with true"),
        (Constant("p", Op.EQ, 1), "cannot be compared with 1"),
        (Difference("a", Op.EQ, "s"), "a is a int and s a string"),
        (Difference("a", Op.EQ, "u"), "they cannot be compared"),
        (Difference("a", Op.LE, "b", 2**64), "beyond the range of 64-bit integers"),
        (Difference("s", Op.LE, "t", 1), "nothing can be added"),
        (Difference("x", Op.LE, "y", float("inf")), "finite number"),
    ],
)
def test_refusals(term: Term, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        normal_form(term, STREAM)
