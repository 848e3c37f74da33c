"""Whatever is typed: a plan whose XML can be written, or a QueryError that points into the text.

ANABRANCH_FUZZ is how many mutations are tried.
"""

from __future__ import annotations

import os
import random
import xml.etree.ElementTree as ET

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.families.registry import family
from anabranch.families.results import rows_of
from anabranch.language.bind import BoundQuery, compile_query
from anabranch.language.unparse import unparse
from anabranch.model.errors import QueryError
from anabranch.results.combination import ResultTables, combine
from anabranch.results.constructed_xml import ConstructedXml
from tests.drawn import examples
from tests.language.streams import STREAMS
from tests.language.test_fuzz import check_error, mutated
from tests.language.wxquery.paper import QUERIES

EXAMPLES = int(os.environ.get("ANABRANCH_FUZZ", "1000"))

TRADES = 'for $p in stream("trades")/trades/trade'
SEEDS = [
    *(wxquery for wxquery, _ in QUERIES.values()),
    f'<a> <b/> {{ {TRADES} [ok and ts > "2026-01-01"] where $p/price < $p/high - 2.5 and ( $p/ok = "true" or '
    "$p/symbol ) return ( if ( $p/volume != 5 ) then <x> { $p/price , $p/low } </x> else () , $p ) } </a>",
    f"{TRADES} |count 20 step 10| let $a := sum($p/volume) let $b := max($p/ts) let $n := count($p) "
    "where $n >= 2 or $a = -1 return <w> { $a , $b } { if ( $n ) then $n else <none/> } </w> (: done :)",
    f"{TRADES} for $q in $p/price return <x> {{ for $r in $p/low where $r return $r }} </x>",
    f'<a> {{ {TRADES} for $w in stream("photons")/photons/photon [en > 1.5] |det_time diff 5| '
    "let $a := avg($w/en) where $a > $p/price and $p/ok and ( $a or $p/low ) return <x> { $p , $a } </x> } "
    f"<b/> {{ {TRADES} return $p/ts }} </a>",
    'stream("trades")/t/trade[price > 1.5e3 and symbol = "a&amp;""b"]/price',
]
WORDS = """
    for let in where return if then else and or count diff step stream doc collection avg max min sum ( ) [ ]
    { } < > </ /> <a> </a> <b/> | / // . , := $ $p $w $a $. $p/ok $p/. $a/b = != <= >= + - * @ 0 -1 1e400 .5
    5.     99999999999999999999 "a" "true" "2026-01-01" " ' &amp; & (: :) -- <!-- price ts ok trade trades
    photons photon stream("trades") stream("photons") en det-time é ٣ a:b : :: |count |ts [en] ()
"""
PIECES = [*WORDS.split(), "\0", "\ud800", "\u2028", "\n", ""]


def check(text: str) -> bool:
    try:
        bound = compile_query(text, STREAMS)
    except QueryError as error:
        return check_error(error, text)
    for part in (bound, *bound.parts):
        assert compile_query(unparse(part.spec, STREAMS[part.stream]), STREAMS).spec == part.spec
    assert bound.construction is not None
    assert well_formed(bound)
    return True


def well_formed(bound: BoundQuery) -> bool:
    """Whether the XML of results with nothing in them can be read."""
    assert bound.construction is not None
    parts = iter([missing(part) for part in (bound, *bound.parts)])
    text = b""
    for index, loop in enumerate(bound.construction.loops):
        schema, tables = combine([next(parts) for _ in loop.prefixes], loop)
        made = ConstructedXml(schema, bound.construction, index)
        rows = [made.rows(batch) for table in tables for batch in table.to_batches()]
        text += b"".join([made.begin(), *rows, made.end()])
    return ET.fromstring(b"<all>" + text + b"</all>") is not None


def missing(part: BoundQuery) -> ResultTables:
    of, stream = family(part.family), STREAMS[part.stream]
    table, shown = of.shown(stream, part.spec.to_json())
    schema = rows_of([], of.table(table), "q", shown).schema
    return schema, iter([pa.table([pa.nulls(2, kind) for kind in schema.types], schema=schema)])


def test_the_seeds_compile() -> None:
    assert all(check(seed) for seed in SEEDS)


def test_mutations() -> None:
    random_ = random.Random(20260101)
    compiled = sum(check(mutated(random_.choice(SEEDS).split(), PIECES, random_)) for _ in range(EXAMPLES))
    assert EXAMPLES // 50 < compiled < EXAMPLES * 9 // 10


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=15))
def test_any_return(pieces: list[str]) -> None:
    check(f"{TRADES} return {' '.join(pieces)}")


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=30))
def test_pieces_in_any_order(pieces: list[str]) -> None:
    check("<a>" + " ".join(pieces))
