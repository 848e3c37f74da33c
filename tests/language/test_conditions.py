"""Conditions: what they are bound to, and which are refused."""

from __future__ import annotations

import pytest

from anabranch.families.filters.spec import Aggregate, Select
from anabranch.language.bind import compile_query
from anabranch.language.unparse import unparse
from anabranch.predicates.terms import TRUE, And, Constant, Difference, Not, Op, Or, Term
from tests.language.refused import refused
from tests.language.streams import STREAMS

HOUR_US = 3_600_000_000
NEW_YEAR_US = 1_767_225_600_000_000  # 2026-01-01 00:00:00 UTC


def condition(text: str) -> Term:
    spec = compile_query(f"SELECT * FROM trades WHERE {text}", STREAMS).spec
    assert isinstance(spec, Select)
    return spec.condition


def const(column: str, op: str, value: int | float | str | bool) -> Constant:
    return Constant(column, Op(op), value)


def diff(column: str, op: str, other: str, offset: int | float = 0) -> Difference:
    return Difference(column, Op(op), other, offset)


A, B, C = const("price", ">", 1), const("volume", "<", 2), const("low", "=", 3)

GOOD = {
    # a column and a constant
    "price = 5": const("price", "=", 5),
    "price <> 5": const("price", "!=", 5),
    "price >= -1.5e1": const("price", ">=", -15.0),
    "volume > 2.5": const("volume", ">", 2.5),
    "5 < price": const("price", ">", 5),
    "5 = price": const("price", "=", 5),
    "-price < 5": const("price", ">", -5),
    "price + 1 < 6": const("price", "<", 5),
    "10 - price >= 4": const("price", "<=", 6),
    "price < 60 * 60": const("price", "<", 3600),
    "price < 2 * (3 + 4) - 1": const("price", "<", 13),
    "price < 7 / 2": const("price", "<", 3.5),
    "price < 6 / 2": const("price", "<", 3),
    "price < 0.1 + 0.2": const("price", "<", 0.3),
    "price > -9223372036854775808": const("price", ">", -(2**63)),
    "symbol = 'IBM'": const("symbol", "=", "IBM"),
    "'it''s' <= symbol": const("symbol", ">=", "it's"),
    # two columns
    "low <= high": diff("low", "<=", "high"),
    "low <= high + 5": diff("low", "<=", "high", 5),
    "low - high <= 5": diff("low", "<=", "high", 5),
    "low + 1 < high": diff("low", "<", "high", -1),
    "low < high - 0.5": diff("low", "<", "high", -0.5),
    "-low < -high": diff("low", ">", "high"),
    "3 - low < 1 - high": diff("low", ">", "high", 2),
    "(low + 1) < (high + 2)": diff("low", "<", "high", 1),
    "symbol != venue": diff("symbol", "!=", "venue"),
    "price = price": diff("price", "=", "price"),
    # truth values
    "ok": const("ok", "=", True),
    "NOT ok": Not(const("ok", "=", True)),
    "(ok)": const("ok", "=", True),
    "ok = FALSE": const("ok", "=", False),
    "TRUE != ok": const("ok", "!=", True),
    "ok = late": diff("ok", "=", "late"),
    # times
    "ts >= '2026-01-01'": const("ts", ">=", NEW_YEAR_US),
    "TIMESTAMP '2026-01-01 00:00:00' <= ts": const("ts", ">=", NEW_YEAR_US),
    "ts >= '2026-01-01T00:00:00.5Z'": const("ts", ">=", NEW_YEAR_US + 500_000),
    "ts >= '2026-01-01 01:00:00+01:00'": const("ts", ">=", NEW_YEAR_US),
    "ts < TIMESTAMP '2026-01-01' + 3600": const("ts", "<", NEW_YEAR_US + HOUR_US),
    "ts - 0.000001 < '2026-01-01'": const("ts", "<", NEW_YEAR_US + 1),
    "seen - ts <= 1.5": diff("seen", "<=", "ts", 1_500_000),
    "seen <= ts + 60": diff("seen", "<=", "ts", 60_000_000),
    "price < TIMESTAMP '2026-01-02' - TIMESTAMP '2026-01-01'": const("price", "<", 86400),
    # BETWEEN and IN
    "price BETWEEN 1 AND 2": And((const("price", ">=", 1), const("price", "<=", 2))),
    "price NOT BETWEEN 1 AND 2": Or((const("price", "<", 1), const("price", ">", 2))),
    "NOT price BETWEEN 1 AND 2": Not(And((const("price", ">=", 1), const("price", "<=", 2)))),
    "price BETWEEN low - 1 AND high": And((diff("price", ">=", "low", -1), diff("price", "<=", "high"))),
    "5 BETWEEN low AND high": And((const("low", "<=", 5), const("high", ">=", 5))),
    "symbol IN ('a', 'b')": Or((const("symbol", "=", "a"), const("symbol", "=", "b"))),
    "symbol IN ('a')": const("symbol", "=", "a"),
    "symbol NOT IN ('a', 'b')": And((const("symbol", "!=", "a"), const("symbol", "!=", "b"))),
    "price IN (1, low)": Or((const("price", "=", 1), diff("price", "=", "low"))),
    # AND, OR, NOT
    "price > 1 AND volume < 2 AND low = 3": And((A, B, C)),
    "price > 1 AND (volume < 2 AND low = 3)": And((A, B, C)),
    "price > 1 OR volume < 2 AND low = 3": Or((A, And((B, C)))),
    "(price > 1 OR volume < 2) AND low = 3": And((Or((A, B)), C)),
    "NOT NOT price > 1": Not(Not(A)),
    "NOT (price > 1 OR volume < 2)": Not(Or((A, B))),
    # constants are worked out
    "TRUE": TRUE,
    "1 = 1 AND price > 1": A,
    "1 > 2 OR price > 1": A,
    "price > 1 OR NOT 'a' = 'b'": TRUE,
    "NOT FALSE": TRUE,
}


@pytest.mark.parametrize(("text", "term"), GOOD.items())
def test_what_it_is_bound_to(text: str, term: Term) -> None:
    assert condition(text) == term


def test_numbers_keep_their_type() -> None:
    for text, kind in (("price > 5", int), ("price > 5.0", float), ("ts > '2026-01-01'", int)):
        term = condition(text)
        assert isinstance(term, Constant)
        assert type(term.value) is kind


BAD = [
    (
        "[[prize]] > 1",
        "unknown column 'prize' in stream trades",
        "did you mean 'price'?",
        "There are: symbol, venue",
    ),
    ("[[Price]] > 1", "did you mean 'price'?"),
    ('symbol = [["IBM"]]', "unknown column 'IBM'", "a string takes single quotes: 'IBM'"),
    ("price < [[inf]]", "constants are finite numbers"),
    ("price < [[NaN]]", "constants are finite numbers"),
    ("[[price > 'abc']]", "price is a number; 'abc' is a string"),
    ("[[symbol > 5]]", "symbol is a string; 5 is a number"),
    ("[[symbol = price]]", "symbol is a string; price is a number"),
    ("[[ok = 1]]", "ok is true or false; 1 is a number"),
    ("[[price = TRUE]]", "price is a number; TRUE is true or false"),
    ("[[ok < TRUE]]", "ok is true or false; compare it with = or !=, not <"),
    ("[[ok BETWEEN FALSE]] AND TRUE", "compare it with = or !="),
    ("[[ts > 5]]", "ts is a timestamp; 5 is a number", "TIMESTAMP '2026-01-01 00:00:00'"),
    ("ts > [['yesterday']]", "ts is a timestamp; 'yesterday' is not a time"),
    ("ts > [[TIMESTAMP 'noon']]", "'noon' is not a time"),
    ("[[ts > price]]", "ts is a timestamp; price is a number"),
    ("[[ts - price < TIMESTAMP '2026-01-01']]", "ts is a timestamp; price is a number"),
    ("[[ts + seen > '2026-01-01']]", "neither a time nor a length of time"),
    ("[[ts < seen + 0.0000001]]", "not a whole number of microseconds"),
    ("[['2026-01-01']] + 5 < ts", "only numbers and times can be added"),
    ("[[symbol]] + 1 = 'a'", "symbol is a string; only numbers and times can be added"),
    ("[[price]]", "price is a number, not a condition", "for example price > 0"),
    ("ok AND [[symbol]]", "symbol is a string, not a condition"),
    ("[[5]]", "5 is a number, not a condition"),
    ("2 * [[price]] < 5", "price cannot be multiplied"),
    ("price < 1 / [[ts]]", "ts cannot be multiplied or divided"),
    ("price < [[1 / 0]]", "division by zero"),
    ("[[low + high < 5]]", "too much for one comparison"),
    ("[[price < low + high]]", "a <= b + 5"),
    ("([[low < high]]) = TRUE", "a condition stands here where a column or a constant is needed"),
    ("[[max(price)]] > 5", "conditions on aggregates belong in HAVING"),
    ("[[median]](price) > 5", "unknown function 'median'", "There are: min, max, sum, count, avg"),
    ("price < [[99999999999999999999]]", "beyond a whole number of 64 bits"),
    ("[[price < 9223372036854775808]]", "beyond a whole number of 64 bits"),
    ("[[price < 9223372036854775807 + 1]]", "beyond a whole number of 64 bits"),
    ("price < [[1e309]]", "too great"),
    ("price < [[1e308 * 10]]", "too great"),
    ("price < [[1e308 + 1e308]]", "too great"),
    (f"price < [[{' * '.join(['9223372036854775807'] * 20)}]]", "too great"),
    (f"price < [[0.{'1' * 500}]]", "too many digits"),
]


@pytest.mark.parametrize(("marked", "fragments"), [(bad, fragments) for bad, *fragments in BAD])
def test_refused(marked: str, fragments: list[str]) -> None:
    refused(f"SELECT * FROM trades WHERE {marked}", *fragments)


@pytest.mark.parametrize(
    "text", ["FALSE", "1 > 2", "price > 1 AND 'a' = 'b'", "NOT TRUE", "1 BETWEEN 2 AND 3"]
)
def test_what_comes_down_to_false_is_refused(text: str) -> None:
    refused(f"SELECT * FROM trades [[WHERE {text}]]", "can never be true")


HAVING = {
    "m > 1": const("m", ">", 1),
    "avg(price) > 1": const("m", ">", 1),
    "AVG(price) > 1": const("m", ">", 1),
    "count(*) > 3": const("count(*)", ">", 3),
    '"count(*)" > 3': const("count(*)", ">", 3),
    "items >= 2": const("items", ">=", 2),
    "m < count(*) + 1": diff("m", "<", "count(*)", 1),
    "max(ts) > '2026-01-01'": const("max(ts)", ">", NEW_YEAR_US),
}


@pytest.mark.parametrize(("text", "term"), HAVING.items())
def test_having(text: str, term: Term) -> None:
    query = f"SELECT avg(price) AS m, count(*), max(ts) FROM trades WINDOW ROWS 9 HAVING {text}"
    spec = compile_query(query, STREAMS).spec
    assert isinstance(spec, Aggregate)
    assert spec.having == term


BAD_HAVING = [
    (
        "[[price]] > 1",
        "price is a column of the items; HAVING takes the aggregates: m, count(*), max(ts), items",
    ),
    ("sum([[prize]]) > 1", "unknown column 'prize' in stream trades", "did you mean 'price'?"),
    ("[[mm]] > 1", "unknown column 'mm' in the results", "did you mean 'm'?"),
    ("[[med]](price) > 1", "unknown function 'med'"),
    ("[[m > 'a']]", "m is a number; 'a' is a string"),
    ("[[max(ts) > 5]]", "max(ts) is a timestamp; 5 is a number"),
]


def test_having_can_ask_for_more_than_is_shown() -> None:
    text = "SELECT avg(price) AS m FROM trades WINDOW ROWS 9 HAVING max(price) > 3 AND avg(price) < 2"
    spec = compile_query(text, STREAMS).spec
    assert isinstance(spec, Aggregate)
    assert [(a.function, a.column, a.is_shown) for a in spec.aggregations] == [
        ("avg", "price", True),
        ("max", "price", False),
    ]
    assert unparse(spec, STREAMS["trades"]) == text.replace("avg(price) < 2", "m < 2")
    impossible = "[[HAVING sum(price) > 1 AND sum(price) < 0]]"
    refused(
        f"SELECT avg(price) AS m FROM trades WINDOW ROWS 9 {impossible}",
        "sum(price) > 1 and sum(price) < 0 exclude each other",
    )


@pytest.mark.parametrize(("marked", "fragments"), [(bad, fragments) for bad, *fragments in BAD_HAVING])
def test_having_refused(marked: str, fragments: list[str]) -> None:
    refused(
        f"SELECT avg(price) AS m, count(*), max(ts) FROM trades WINDOW ROWS 9 HAVING {marked}", *fragments
    )
