"""Binding: streams, select and aggregate, conditions that can never be true."""

from __future__ import annotations

import pytest

from anabranch.families.filters.spec import Aggregate, Aggregation, Function, Output, Select
from anabranch.language.bind import BoundQuery, bind, compile_query
from anabranch.language.parse import parse
from anabranch.model.errors import QueryError
from anabranch.model.window import Window
from anabranch.predicates.terms import TRUE, Constant, Op
from tests.language.refused import refused
from tests.language.streams import FREE, PHOTONS, RESERVED, STREAMS


def test_bound() -> None:
    tree = parse("SELECT en FROM photons WHERE en > 1")
    bound = BoundQuery("photons", "filters", Select((Output("en", "en"),), Constant("en", Op.GT, 1)))
    assert bind(tree, STREAMS) == bound
    assert bind(tree, {"photons": PHOTONS}) == bound


SELECTS = {
    "SELECT en FROM photons": [("en", "en")],
    "SELECT coord.cel.ra, en AS energy FROM photons": [("coord.cel.ra", "coord.cel.ra"), ("en", "energy")],
    'SELECT en AS "odd name", en FROM photons': [("en", "odd name"), ("en", "en")],
    "SELECT * FROM bare": [("v", "v")],
}


@pytest.mark.parametrize(("text", "outputs"), SELECTS.items())
def test_select(text: str, outputs: list[tuple[str, str]]) -> None:
    assert compile_query(text, STREAMS).spec == Select(tuple(Output(*pair) for pair in outputs))


@pytest.mark.parametrize("word", FREE.split())
def test_columns_called_like_keywords(word: str) -> None:
    spec = compile_query(f"SELECT {word} FROM words WHERE {word} > 5 AND 3 < {word}", STREAMS).spec
    assert isinstance(spec, Select)
    assert spec.outputs == (Output(word, word),)
    aggregate = compile_query(f"SELECT min({word}) FROM words WINDOW ROWS 5", STREAMS).spec
    assert isinstance(aggregate, Aggregate)
    assert aggregate.aggregations == (Aggregation(Function.MIN, word, f"min({word})"),)


@pytest.mark.parametrize("word", RESERVED.split())
def test_columns_called_like_reserved_words(word: str) -> None:
    spec = compile_query(f'SELECT "{word}" FROM words WHERE `{word}` > 5', STREAMS).spec
    assert spec == Select((Output(word, word),), Constant(word, Op.GT, 5))


AGGREGATES = {
    "max(price)": [(Function.MAX, "price", "max(price)")],
    "COUNT(*), Count(symbol) AS n": [(Function.COUNT, None, "count(*)"), (Function.COUNT, "symbol", "n")],
    "min(ts), max(ts), count(ok)": [
        (Function.MIN, "ts", "min(ts)"),
        (Function.MAX, "ts", "max(ts)"),
        (Function.COUNT, "ok", "count(ok)"),
    ],
    "sum(volume) AS price, avg(price)": [
        (Function.SUM, "volume", "price"),
        (Function.AVG, "price", "avg(price)"),
    ],
}


@pytest.mark.parametrize(("items", "aggregations"), AGGREGATES.items())
def test_aggregate(items: str, aggregations: list[tuple[Function, str | None, str]]) -> None:
    spec = compile_query(f"SELECT {items} FROM trades WINDOW ROWS 20 STEP 10", STREAMS).spec
    assert spec == Aggregate(tuple(Aggregation(*a) for a in aggregations), Window("rows", 20, 10))


BAD = [
    (
        "SELECT en FROM [[foton]]",
        "unknown stream 'foton'",
        "did you mean 'photons'?",
        "There are: photons, trades",
    ),
    ("SELECT [[enn]] FROM photons", "unknown column 'enn' in stream photons; did you mean 'en'?"),
    ("SELECT [[ra]] FROM photons", "did you mean 'coord.cel.ra'?"),
    ("SELECT [[coord]] FROM photons", "did you mean 'coord.cel.ra'?"),
    ("SELECT [[qqq]] FROM wide", "unknown column 'qqq' in stream wide. There are: c0, c1"),
    ("SELECT [[NEAREST]] FROM photons", "as a kind of query it goes on: NEAREST 10 TO"),
    ("SELECT en, [[en]] FROM photons", "two result columns are called 'en'", "AS"),
    ("SELECT en, [[phc AS en]] FROM photons", "two result columns are called 'en'"),
    ('SELECT [[en AS "#x"]] FROM photons', "must not begin with #"),
    ("SELECT max(price), [[price]] FROM trades WINDOW ROWS 5", "price is a column among aggregates"),
    ("SELECT [[price]], max(price) FROM trades WINDOW ROWS 5", "write for example max(price)"),
    ("SELECT [[prize]], max(price) FROM trades WINDOW ROWS 5", "unknown column 'prize'"),
    (
        "SELECT max(price), [[max(price)]] FROM trades WINDOW ROWS 5",
        "two result columns are called 'max(price)'",
    ),
    ("SELECT [[max(price) AS items]] FROM trades WINDOW ROWS 5", "the results have a column 'items' already"),
    ("SELECT [[max(price) AS window_end]] FROM trades WINDOW ROWS 5", "'window_end' already"),
    (
        "SELECT [[max(symbol)]] FROM trades WINDOW ROWS 5",
        "symbol is a string; max takes numbers and timestamps",
    ),
    ("SELECT [[sum(ts)]] FROM trades WINDOW ROWS 5", "ts is a timestamp; sum takes numbers"),
    ("SELECT [[avg(ts)]] FROM trades WINDOW ROWS 5", "ts is a timestamp; avg takes numbers"),
    ("SELECT [[min(ok)]] FROM trades WINDOW ROWS 5", "ok is true or false; min takes numbers and timestamps"),
    ("SELECT [[max(*)]] FROM trades WINDOW ROWS 5", "only count takes *"),
    ("SELECT [[maxi]](price) FROM trades WINDOW ROWS 5", "unknown function 'maxi'; did you mean 'max'?"),
    ("SELECT max([[prize]]) FROM trades WINDOW ROWS 5", "unknown column 'prize'"),
]


@pytest.mark.parametrize(("marked", "fragments"), [(bad, fragments) for bad, *fragments in BAD])
def test_refused(marked: str, fragments: list[str]) -> None:
    refused(marked, *fragments)


def test_long_lists_and_long_names_are_cut() -> None:
    streams = {f"s{i}": PHOTONS for i in range(25)}
    with pytest.raises(QueryError, match="s18, s19 and 5 more"):
        compile_query("SELECT * FROM nowhere", streams)
    with pytest.raises(QueryError, match="There are: none"):
        compile_query("SELECT * FROM s", {})
    with pytest.raises(QueryError, match=r"unknown column 'x{37}\.\.\.' in stream photons"):
        compile_query(f"SELECT {'x' * 50_000} FROM photons", STREAMS)


def test_what_can_never_be_true_is_refused() -> None:
    refused(
        "SELECT en FROM photons [[WHERE en < 1 AND en > 2]]",
        "this can never be true: en < 1 and en > 2 exclude each other",
    )
    aggregates = "SELECT avg(en), count(*) AS n, max(phc) FROM photons WINDOW ROWS 5"
    for never in ("n > 1 AND n < 2", "max(phc) > 1 AND max(phc) < 2", "items > 1 AND items < 2"):  # integers
        refused(f"{aggregates} [[HAVING {never}]] AT END cut", "exclude each other")
    compile_query(f"{aggregates} HAVING avg(en) > 1 AND avg(en) < 2", STREAMS)
    assert compile_query("SELECT en FROM photons", STREAMS).spec == Select((Output("en", "en"),), TRUE)


@pytest.mark.slow
def test_the_reason_is_found() -> None:
    refused("SELECT en FROM photons [[WHERE en < 1 AND en > 2]]", "en < 1 and en > 2 exclude each other")
    refused("SELECT count(*) AS n FROM bare WINDOW ROWS 5 [[HAVING n > 1 AND n < 2]]", "exclude each other")
    many = " AND ".join(f"(c{i} < 1 OR c{i} > 2)" for i in range(20))
    refused(f"SELECT * FROM wide [[WHERE {many}]]", "alternatives")
