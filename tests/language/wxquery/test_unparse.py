"""The law of translation: what can be written in the other language compiles to the same spec."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.families.filters.spec import Aggregate, Aggregation, Output, Select
from anabranch.language.bind import Spec, compile_query
from anabranch.language.bind_filters import Condition
from anabranch.language.conditions import conjunction, disjunction
from anabranch.language.scopes import default_name
from anabranch.language.unparse import unparse
from anabranch.language.wxquery.unparse import unparse_wxquery
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError
from anabranch.model.stream import Stream
from anabranch.model.window import Window
from anabranch.predicates.terms import TRUE, Constant, Op, Term
from tests.drawn import examples
from tests.language.specs import (
    UNLIMITED,
    aggregates,
    aggregation,
    constants,
    differences,
    odd_stream,
    result_columns,
    selects,
    windows,
)
from tests.language.streams import STREAMS
from tests.language.wxquery.paper import PHOTONS, QUERIES


@pytest.fixture(autouse=True, scope="module")
def everything_is_satisfiable() -> Iterator[None]:
    """Drawn conditions are compared as they are written; most cannot be true, or only with much work."""

    def possible(term: Term, *_: object) -> Condition:
        return Condition(term)

    with pytest.MonkeyPatch.context() as patch:
        for module in ("bind", "bind_filters", "wxquery.parts"):
            patch.setattr(f"anabranch.language.{module}.possible", possible)
        yield


def filters(stream: Stream) -> st.SearchStrategy[Spec]:
    return st.one_of(selects(stream), aggregates(stream))


@pytest.mark.parametrize("time", [ColumnType.INT, ColumnType.FLOAT, ColumnType.TIMESTAMP])
@settings(max_examples=examples(150))
@given(data=st.data())
def test_odd_names_are_refused_or_come_back(time: ColumnType, data: st.DataObject) -> None:
    stream = odd_stream(time)
    spec = data.draw(filters(stream))
    try:
        text = unparse_wxquery(spec, stream)
    except JobError:
        return
    bound = compile_query(text, {stream.name: stream})
    assert (bound.family, bound.spec) == ("filters", spec)
    assert {**bound.spec.to_json(), "normal": None} == {**spec.to_json(), "normal": None}
    assert compile_query(unparse(bound.spec, stream), {stream.name: stream}).spec == spec


TRADES = STREAMS["trades"]


def conditions(columns: tuple[Column, ...]) -> st.SearchStrategy[Term]:
    """Without NOT, and with times that have a year of four digits."""
    plain = [column for column in columns if column.type is not ColumnType.TIMESTAMP]
    times = [column.name for column in columns if column.type is ColumnType.TIMESTAMP]
    leaves: st.SearchStrategy[Term] = st.nothing()
    if plain:
        leaves = st.sampled_from(plain).flatmap(lambda c: constants(c) | differences(c, columns))
    if times:
        moments = st.integers(0, 4 * 10**15)
        leaves |= st.builds(Constant, st.sampled_from(times), st.sampled_from(Op), moments)
    lists = st.lists(leaves, min_size=2, max_size=3)
    return (
        st.just(TRUE)
        | leaves
        | lists.map(conjunction)
        | st.lists(lists.map(conjunction) | leaves, min_size=2, max_size=3).map(disjunction)
        | st.lists(lists.map(disjunction) | leaves, min_size=2, max_size=3).map(conjunction)
    )


@st.composite
def plain_specs(draw: st.DrawFn) -> Spec:
    condition = draw(conditions(TRADES.columns))
    if draw(st.booleans()):
        names = draw(st.lists(st.sampled_from(TRADES.columns), min_size=1, unique=True))
        return Select(tuple(Output(column.name, column.name) for column in names), condition)
    drawn = draw(
        st.lists(aggregation(TRADES), min_size=1, max_size=3, unique_by=lambda a: (a.function, a.column))
    )
    names = draw(st.permutations(["n", "w", "count", "for", "a-b", "x.y"]))
    default = [default_name(a.function.value, a.column) for a in drawn]
    plain = draw(st.booleans())
    made = tuple(
        Aggregation(a.function, a.column, default[span] if plain else names[span])
        for span, a in enumerate(drawn)
    )
    columns = tuple(column for column in result_columns(made, TRADES) if column.name != "items")
    window = draw(windows(TRADES))
    return Aggregate(
        made, Window(window.unit, window.size, window.step), condition, draw(conditions(columns))
    )


@settings(max_examples=examples(150))
@given(plain_specs())
def test_all_that_can_be_said_is_said(spec: Spec) -> None:
    text = unparse_wxquery(spec, TRADES)
    assert compile_query(text, {"trades": replace(TRADES, limits=UNLIMITED)}).spec == spec


@pytest.mark.parametrize("name", QUERIES)
def test_the_paper_in_sql(name: str) -> None:
    wxquery, _ = QUERIES[name]
    streams = {"photons": PHOTONS}
    spec = compile_query(wxquery, streams).spec
    assert compile_query(unparse(spec, PHOTONS), streams).spec == spec
    assert compile_query(unparse_wxquery(spec, PHOTONS), streams).spec == spec


CANONICAL = {
    "SELECT coord.cel.ra, en FROM photons WHERE en >= 1.3 AND (phc = 1 OR phc > en + 5)": """\
<photons>
  { for $p in stream("photons")/photons/photon
    where $p/en >= 1.3 and ($p/phc = 1 or $p/phc > $p/en + 5)
    return <photon> { $p/coord/cel/ra } { $p/en } </photon> }
</photons>""",
    "SELECT avg(en) AS a, count(*) FROM photons WHERE en > 0 WINDOW RANGE 60 STEP 40 HAVING a >= 1.3": """\
<photons>
  { for $w in stream("photons")/photons/photon[en > 0]
      |det_time diff 60 step 40|
    let $a := avg($w/en)
    let $count.items := count($w)
    where $a >= 1.3
    return <window> <a> { $a } </a> <count.items> { $count.items } </count.items> </window> }
</photons>""",
    "SELECT max(ts) FROM trades WHERE ok AND ts > '2026-01-01' AND venue = 'a\"&' WINDOW ROWS 5": """\
<trades>
  { for $w in stream("trades")/trades/trade[ok = "true" and ts > "2026-01-01 00:00:00" and venue = "a""&amp;"]
      |count 5|
    let $max.ts := max($w/ts)
    return <window> <max.ts> { $max.ts } </max.ts> </window> }
</trades>""",
}  # fmt: skip


@pytest.mark.parametrize("sql", CANONICAL)
def test_canonical(sql: str) -> None:
    bound = compile_query(sql, STREAMS)
    text = unparse_wxquery(bound.spec, STREAMS[bound.stream])
    assert text == CANONICAL[sql]
    assert compile_query(text, STREAMS).spec == bound.spec


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT en AS e FROM photons", "it cannot rename an element, so take out AS e"),
        ("SELECT en FROM photons WHERE NOT en > 1", "it has no NOT"),
        ("SELECT max(en) FROM photons WINDOW ROWS 5 AT END cut", "its windows have no AT END"),
        ("SELECT max(en) FROM photons WINDOW ROWS 5 HAVING items > 2", "items is no aggregate of the query"),
        ('SELECT max(en) AS "a b" FROM photons WINDOW ROWS 5', "a b cannot be the name of a variable"),
        ("SELECT CLUSTERS WITHIN 0.01 MIN 10 FROM targets WINDOW ROWS 5", "it has no clusters queries"),
        ("SELECT NEAREST 3 TO (5, 6, 7) FROM sensors WINDOW ROWS 5", "it has no nearest queries"),
        ("SELECT OBJECTS WITHIN 5 OF OBJECT 'f' FROM units", "it has no moving queries"),
    ],
)
def test_no_counterpart(sql: str, why: str) -> None:
    bound = compile_query(sql, STREAMS)
    with pytest.raises(JobError, match=f"this query has no counterpart in WXQuery: {why}"):
        unparse_wxquery(bound.spec, STREAMS[bound.stream])
