"""The law of WXQuery: what comes out is what XQuery would make of the items, evaluated one by one."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element, canonicalize, tostring

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.cli.construct import Constructed
from anabranch.families.filters.spec import Select
from anabranch.families.registry import family
from anabranch.families.results import rows_of
from anabranch.language.bind import compile_query
from anabranch.language.wxquery.parse import parse_wxquery
from anabranch.model.errors import QueryError
from anabranch.zones.columns import arrow_schema
from tests.language.streams import stream
from tests.laws.case import Asked, Case
from tests.oracles import xquery
from tests.oracles.aggregate import aggregate_oracle
from tests.oracles.select import select_oracle

STREAM = stream("s", "t:int a:float b:int c.d:float c.f.g:float c.f.h:int name:string", time="t")
STREAMS = {"s": STREAM}
NUMBERS = ["t", "a", "b", "c/d", "c/f/g", "c/f/h"]
NODES = [*NUMBERS, "c", "c/f", "name"]

FLOATS = st.none() | st.integers(-8, 8).map(lambda value: value / 4)
INTS = st.none() | st.integers(-3, 3)
ITEMS = st.lists(
    st.fixed_dictionaries(
        {
            "t": st.integers(0, 3),
            "a": FLOATS,
            "b": INTS,
            "c.d": FLOATS,
            "c.f.g": FLOATS,
            "c.f.h": INTS,
            "name": st.none() | st.sampled_from(["", "x", "<&>"]),
        }
    ),
    max_size=10,
)


@st.composite
def comparisons(draw: st.DrawFn, numbers: list[str]) -> str:
    left, op = draw(st.sampled_from(numbers)), draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
    constant = draw(st.integers(-8, 8)) / 4
    match draw(st.integers(0, 3)):
        case 0:
            return left  # whether it is there
        case 1:
            return (
                f"{left} {op} {draw(st.sampled_from(numbers))} {'-' if constant < 0 else '+'} {abs(constant)}"
            )
    return f"{left} {op} {constant}"


@st.composite
def conditions(draw: st.DrawFn, numbers: list[str]) -> str:
    some = draw(st.lists(comparisons(numbers), min_size=1, max_size=3))
    return draw(st.sampled_from([" and ", " or "])).join([*some[:1], *(f"({each})" for each in some[1:])])


def below(before: str, names: list[str]) -> list[str]:
    return [f"{before}/{name}" for name in names]


@st.composite
def results(draw: st.DrawFn, depth: int = 3) -> str:
    """What a return can be, with $p an item."""
    numbers = below("$p", NUMBERS)
    inner = results(depth - 1)
    match draw(st.integers(0, 7 if depth else 1)):
        case 0:
            return draw(st.sampled_from(["$p", "()", "<e/>", *below("$p", NODES)]))
        case 1:
            return f"$p/c[{draw(conditions(['d', 'f/g', 'f/h']))}]/{draw(st.sampled_from(['d', 'f', 'f/g']))}"
        case 2 | 3:
            parts = draw(st.lists(inner, max_size=3))
            return "<x>" + "".join(f" {{ {part} }}" for part in parts) + "</x>"
        case 4:
            return f"({', '.join(draw(st.lists(inner, max_size=3)))})"
        case 5 | 6:
            return f"if ({draw(conditions(numbers))}) then {draw(inner)} else {draw(inner)}"
    where = draw(st.just("") | conditions([*numbers, "$q/f/g"]).map(lambda text: f"where {text} "))
    return f"for $q in $p/c[{draw(conditions(['d', 'f/g']))}] {where}return ({draw(inner)}, $q/f)"


@st.composite
def selects(draw: st.DrawFn) -> str:
    text = 'for $p in stream("s")/s/item'
    text += draw(st.just("") | conditions(NUMBERS).map(lambda each: f"[{each}]"))
    where = below("$p", NUMBERS)
    if draw(st.booleans()):
        text += f" for $q in $p/c{draw(st.just('') | st.just('[d > 0]'))}"
        where += ["$q/d", "$q/f/h"]
    text += draw(st.just("") | conditions(where).map(lambda each: f" where {each}"))
    return f"{text} return {draw(results())}"


@st.composite
def aggregates(draw: st.DrawFn) -> str:
    text = 'for $w in stream("s")/s/item'
    text += draw(st.just("") | conditions(NUMBERS).map(lambda each: f"[{each}]"))
    size, step = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    text += draw(
        st.sampled_from([f"|count {size} step {step}|", f"|t diff {size} step {step}|", f"|count {size}|"])
    )
    for variable in ("$x", "$y", "$z"):
        function = draw(st.sampled_from(["min", "max", "sum", "count", "avg"]))
        path = draw(
            st.sampled_from(below("$w", NUMBERS) + (["$w", "$w/name"] if function == "count" else []))
        )
        text += f" let {variable} := {function}({path})"
    numbers = ["$x", "$y", "$z"]
    text += draw(st.just("") | conditions(numbers).map(lambda each: f" where {each}"))
    made = draw(
        st.permutations(["$x, $y", "$z", f"if ({draw(conditions(numbers))}) then $x else (<e/>, $y)"])
    )
    return f"{text} return <r> {{ {made[0]} }} {{ {made[1]}, {made[2]} }} </r>"


@settings(max_examples=250, deadline=None)
@given(selects() | aggregates(), ITEMS)
def test_what_xquery_would_make_of_it(text: str, rows: list[dict[str, Any]]) -> None:
    names = [column.name for column in STREAM.columns]
    rows = [{name: row[name] for name in names} for row in sorted(rows, key=lambda row: int(row["t"]))]
    try:
        made = constructed(text, rows)
    except QueryError as error:
        if "can never be true" not in str(error):
            raise
        return
    root = Element("all")
    for answer in xquery.answers(parse_wxquery(text), [xquery.item(row) for row in rows]):
        xquery.add(root, answer)
    assert canonicalize(made.replace("\n", "")) == canonicalize(tostring(root, "unicode")), text


def constructed(text: str, rows: list[dict[str, Any]]) -> str:
    """What results --format xml writes, with the answers of the brute-force oracles."""
    bound = compile_query(text, STREAMS)
    assert bound.construction is not None
    items = pa.RecordBatch.from_pylist(rows, arrow_schema(STREAM))
    spec = bound.spec.to_json()
    oracle = select_oracle if isinstance(bound.spec, Select) else aggregate_oracle
    found = oracle(Case(STREAM, items, (Asked("q", spec),)))["q"]
    table, shown = family("filters").shown(STREAM, spec)
    schema = rows_of([], family("filters").table(table), "q", shown).schema
    encoder = Constructed(schema, bound.construction)
    return f"<all>{encoder.rows(pa.RecordBatch.from_pylist(found, schema)).decode()}</all>"
