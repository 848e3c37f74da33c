"""Absurd queries are refused when they are registered, before any work is done for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, takewhile

import pytest

from anabranch.language.bind import compile_query
from anabranch.model.errors import QueryError
from anabranch.model.limits import DEFAULT_LIMITS, LimitError, QueryLimits
from tests.language.streams import stream

COLUMNS = [f"i{k}:int" for k in range(60)] + [f"s{k}:string" for k in range(8)] + ["a:float", "b:float"]
STREAM = stream("s", " ".join([*COLUMNS, "t:int"]), time="t", position=("a", "b"), object="s0")
GIANT = 9223372036854775807


def compiled(query: str, limits: QueryLimits = DEFAULT_LIMITS) -> None:
    compile_query(query, {"s": replace(STREAM, limits=limits)})


def test_the_message_names_the_limit_the_place_and_the_way_out() -> None:
    with pytest.raises(LimitError) as caught:
        compiled("SELECT count(*) FROM s WINDOW RANGE 1 STEP 0.000000001")
    assert str(caught.value) == (
        "it would open 1,000,000,000 windows per item (limit: 10,000)\n"
        "  SELECT count(*) FROM s WINDOW RANGE 1 STEP 0.000000001\n"
        "                                             ^^^^^^^^^^^\n"
        "  use a larger STEP, or raise windows_per_item in [limits] of the job"
    )


#: A query with a number, the limit, what it is by default, and how many times as much it then is.
NUMBERS = [
    ("SELECT NEAREST {} TO (1, 2) FROM s WINDOW ROWS 5", "nearest_k"),
    ("SELECT NEAREST {} OBJECTS TO (1, 2) FROM s", "nearest_k"),
    ("SELECT CLUSTERS WITHIN 1 MIN {} FROM s WINDOW ROWS 5", "cluster_count"),
    (
        "DETECT DENSITY-BASED CLUSTERS FROM s USING range = 1 AND count = {} IN WINDOWS WITH win = 5 "
        "AND slide = 5",
        "cluster_count",
    ),
    ("SELECT count(*) FROM s WINDOW ROWS {}", "window_rows"),
    ("SELECT count(*) FROM s WINDOW ROWS 5 STEP {}", "window_rows"),
    ("SELECT count(*) FROM s WINDOW ROWS {} STEP 1", "windows_per_item"),
    ("SELECT count(*) FROM s WINDOW RANGE {} STEP 1", "windows_per_item"),
    ("SELECT CLUSTERS WITHIN 1 MIN 5 FROM s WINDOW ROWS {} STEP 1", "windows_per_item"),
    ("for $w in stream('s')/r/i |count {} step 1| let $n := count($w) return $n", "windows_per_item"),
    ("for $w in stream('s')/r/i |t diff {} step 1| let $n := count($w) return $n", "windows_per_item"),
    ("for $w in stream('s')/r/i |count {}| let $n := count($w) return $n", "window_rows"),
]


@pytest.mark.parametrize(("query", "limit"), NUMBERS)
def test_a_number_up_to_the_limit(query: str, limit: str) -> None:
    allowed = getattr(DEFAULT_LIMITS, limit)
    compiled(query.format(allowed))
    with pytest.raises(LimitError) as caught:
        compiled(query.format(allowed + 1))
    assert caught.value.limit == limit
    assert f"(limit: {allowed:,})" in str(caught.value)
    compiled(query.format(allowed + 1), replace(DEFAULT_LIMITS, **{limit: allowed + 1}))


@pytest.mark.parametrize("number", [GIANT, GIANT + 1, "4000000000", "1e18", "1e300", "9" * 400])
@pytest.mark.parametrize("query", [query for query, _ in NUMBERS])
def test_giants_are_refused(query: str, number: object) -> None:
    with pytest.raises(QueryError):
        compiled(query.format(number))


def test_windows_that_cannot_be_numbered() -> None:
    with pytest.raises(QueryError, match="too small"):
        compiled("SELECT count(*) FROM s WINDOW RANGE 1e-300")


def test_raised_limits_hold_for_text_and_conditions() -> None:
    long = "SELECT a FROM s WHERE i0 IN (" + ", ".join(map(str, range(1500))) + ")"
    with pytest.raises(LimitError, match="words and signs"):
        compiled(long)
    with pytest.raises(LimitError, match="1,500 alternatives"):
        compiled(long, QueryLimits(query_words=10_000))
    compiled(long, QueryLimits(query_words=10_000, conjunctions=2_000, condition_steps=50_000))
    with pytest.raises(LimitError, match="words and signs"):
        compiled("SELECT a FROM s", QueryLimits(query_words=3))
    with pytest.raises(LimitError, match="goes over 17 streams"):
        compiled(", ".join(["stream('s')/r/i"] * 17))


def ored(count_: int, column: str) -> str:
    return "(" + " OR ".join(f"{column} = {value}" for value in range(count_)) + ")"


def filled(part: Callable[[int], str], between: str, most: int = 10**9, size: int = 65_000) -> str:
    """As many parts as fit into a query."""

    def parts() -> Iterator[str]:
        sizes = 0
        for number in takewhile(lambda number: number < most, count()):
            sizes += len(part(number)) + len(between)
            if sizes > size:
                return
            yield part(number)

    return between.join(parts())


#: What keeps a parser, a normal form or an explanation busy, up to what the service takes: 64 KiB.
CONDITIONS = {
    "64 x 64 ORs": f"{ored(64, 'i0')} AND {ored(64, 'i1')}",
    "64 x 64 ORs on a column": f"{ored(64, 'i0')} AND {ored(64, 'i0')}",
    "60 terms": " AND ".join(f"(i{k} = 1 OR i{k + 30} = 2)" for k in range(30)),
    "1,024 alternatives": " AND ".join(f"(i{k} = 1 OR i{k + 30} = 2)" for k in range(10)),
    "not between": filled(lambda k: f"i{k % 60} NOT BETWEEN {k} AND {k + 1}", " AND ", 300),
    "not between, few": filled(lambda k: f"i{k} NOT BETWEEN {k} AND {k + 1}", " AND ", 10),
    "a chain": " AND ".join(f"i{k} < i{k + 1}" for k in range(59)),
    "a cycle": " AND ".join(f"i{k} < i{(k + 1) % 60} + {k}" for k in range(60)),
    "floats": filled(lambda k: f"a < b + {k}", " AND ", 350),
    "floats in alternatives": filled(lambda k: f"(a > b + {k} AND b > a + {k})", " OR ", 150),
    "columns in alternatives": filled(lambda k: f"(i{k % 59} > i{k % 59 + 1} AND a < b)", " OR ", 200),
    "unequal columns": filled(lambda k: f"i{k % 60} != i{(k * 7 + 1) % 60} + {k}", " AND ", 300),
    "a negated chain": "NOT (" + filled(lambda k: f"i{k % 60} < i{(k + 1) % 60} + {k}", " AND ", 300) + ")",
    "a list": "i0 IN (" + filled(str, ", ", 1000) + ")",
    "no list": "i0 NOT IN (" + filled(str, ", ", 1000) + ")",
    "lists of strings": filled(lambda k: f"s{k % 8} > 'x{k}'", " OR ", 550),
    "boxes": filled(lambda k: f"(i{k % 60} > {k} AND i{(k + 7) % 60} < {k * 3 % 1000})", " OR ", 240),
    "nested boxes": filled(lambda k: f"(i0 > {k} AND i1 > {k * 7 % 240} AND i2 > {240 - k})", " OR ", 180),
    "a contradiction": filled(lambda k: f"i{k % 60} > {k}", " AND ", 580) + " AND i0 < 0",
    "a contradiction in alternatives": " AND ".join(f"(i{k} = 1 OR i{k + 30} = 2)" for k in range(9))
    + " AND i0 < 0 AND i0 > 1",
    "impossible alternatives": filled(lambda k: f"(i{k % 60} < 0 AND i{k % 60} > 1)", " OR ", 240),
    "full of lists": "i0 IN (" + filled(str, ",") + ")",
    "full of ranges": filled(lambda k: f"i{k % 60} > {k}", " OR "),
    "full of boxes": filled(lambda k: f"(i{k % 60} > {k} AND i{(k + 1) % 60} < {k})", " OR "),
    "full of columns": filled(lambda k: f"i{k % 60} < i{(k * 7 + 1) % 60} + {k}", " AND "),
    "full of one": filled(lambda k: "a < 1", " AND "),
    "full of sums": "a < " + filled(lambda k: "1", "+"),
    "parentheses": "(" * 65_000,
    "some parentheses": "(" * 2_400,
    "full of NOT": "NOT " * 16_000 + "a < 1",
    "calls": "f(" * 30_000,
    "a long name": "x" * 65_000 + " < 1",
    "a long path": "x." * 30_000 + "x < 1",
    "a long string": "s0 = '" + "x" * 65_000 + "'",
    "an open string": "s0 = '" + "x" * 65_000,
    "a long number": "a < " + "1" * 65_000,
    "an open comment": "a < 1 /*" + "*" * 60_000,
    "comments": "a < 1 " + "/**/" * 16_000,
    "lines": "a < 1 " + "--\n" * 20_000,
    "blanks": "a < 1 " + " " * 65_000,
    "quotes": '"' * 65_001,
}
OTHERS = {
    "columns": "SELECT " + filled(lambda k: "a", ",", 1200) + " FROM s",
    "renamed": "SELECT " + filled(lambda k: f"a AS b{k}", ",", 600) + " FROM s",
    "aggregates": "SELECT " + filled(lambda k: f"max(a) AS b{k}", ",", 300) + " FROM s WINDOW ROWS 5",
    "a point": "SELECT NEAREST 1 TO (" + filled(lambda k: "1", ",", 1200) + ") FROM s WINDOW ROWS 5",
    "a long stream": f"SELECT a FROM {'p' * 65_000}",
    "elements": "<a>" * 21_000,
    "some elements": "<a>" * 800,
    "enclosed": "<a>{" * 600,
    "open comments": "(:" * 32_000,
    "closed comments": "for $p in " + "(::)" * 16_000,
    "loops": filled(lambda k: f"for $p{k} in stream('s')/r/i", " ", 150) + " return $p0",
    "a sequence": filled(lambda k: "stream('s')/r/i", ",", 200),
    "a path": "for $p in stream('s')/r/i return $p" + "/a" * 1100,
    "ifs": "for $p in stream('s')/r/i return " + "if ($p/a < 1) then () else " * 150 + "()",
    "wheres": "for $p in stream('s')/r/i where " + filled(lambda k: "$p/a < 1", " and ", 350) + " return $p",
    "ors": f"for $p in stream('s')/r/i[{filled(lambda k: 'i0 = 1', ' or ', 550)}] return $p",
}
NASTY = {name: f"SELECT a FROM s WHERE {text}" for name, text in CONDITIONS.items()} | OTHERS


def test_no_query_takes_long() -> None:
    """Each takes less than 50 ms on an idle machine; the margin is for a busy one."""
    compiled("SELECT a FROM s WHERE a < b OR i0 IN (1, 2)")
    compiled("for $p in stream('s')/r/i return $p")
    slow = {}
    for name, query in NASTY.items():
        assert len(query) < 65_536 + 100
        times = []
        for _ in range(2):
            begun = time.process_time()
            try:
                compiled(query)
            except QueryError as error:
                str(error)
            times.append(time.process_time() - begun)
        if min(times) > 0.15:
            slow[name] = min(times)
    assert not slow
