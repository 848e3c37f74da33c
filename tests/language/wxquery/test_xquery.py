"""The law of WXQuery: what comes out is what XQuery would make of the items, evaluated one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import Element, SubElement, canonicalize, tostring

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.chain.items import arrow_schema
from anabranch.families.filters.spec import Select
from anabranch.families.registry import family
from anabranch.families.results import rows_of
from anabranch.language.bind import BoundQuery, compile_query
from anabranch.language.parse import parse
from anabranch.model.errors import QueryError
from anabranch.model.stream import Stream
from anabranch.results.combination import ResultTables, combine
from anabranch.results.constructed_xml import ConstructedXml
from tests.drawn import examples
from tests.language.streams import stream
from tests.laws.case import Asked, Case
from tests.oracles import xquery
from tests.oracles.aggregate import aggregate_oracle
from tests.oracles.select import select_oracle

STREAM = stream("s", "t:int a:float b:int c.d:float c.f.g:float c.f.h:int name:string", time="t")
OTHER = stream("r", "t:int u:float v.x:int", time="t")
STREAMS = {"s": STREAM, "r": OTHER}
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


ROWS = st.lists(st.fixed_dictionaries({"t": st.integers(0, 3), "u": FLOATS, "v.x": INTS}), max_size=4)


@st.composite
def comparisons(draw: st.DrawFn, numbers: list[str]) -> str:
    left, op = draw(st.sampled_from(numbers)), draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
    constant = draw(st.integers(-8, 8)) / 4
    match draw(st.integers(0, 3)):
        case 0:
            return left  # whether it is there
        case 1:
            return (
                f"{left} {op} {draw(st.sampled_from(numbers))} {draw(st.sampled_from(['+', '-']))} {constant}"
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


@st.composite
def contents(draw: st.DrawFn) -> str:
    """Windows whose items are returned: whole, elements of them, or something made of each."""
    text = 'for $w in stream("s")/s/item'
    text += draw(st.just("") | conditions(NUMBERS).map(lambda each: f"[{each}]"))
    size, step = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    text += draw(st.sampled_from([f"|count {size} step {step}|", f"|count {size}|"]))
    where = draw(st.just("") | conditions(below("$p", NUMBERS)).map(lambda each: f"where {each} "))
    parts = st.sampled_from(["$w", "<e/>", "($w/c, $w)", "$w/c[d > 0]/f", *below("$w", NODES)])
    loops = results(2).map(lambda result: f"for $p in $w {where}return {result}")
    made = draw(st.lists(parts | loops, max_size=3))
    content = " ".join(f"{{ {each} }}" for each in made)
    return f"{text} return {draw(st.sampled_from([f'<win> {content} </win>', '($w, <e/>)', '$w']))}"


@st.composite
def several(draw: st.DrawFn) -> str:
    """Two streams, in one loop or in two."""
    other = f"stream('r')/r/row{draw(st.just('') | conditions(['u', 'v/x']).map(lambda each: f'[{each}]'))}"
    if draw(st.booleans()):
        return f"<a>{{ {draw(selects())} }}<b/>{{ for $p in {other} return (<n/>, $p/v) }}</a>"
    text, numbers = f"for $p in stream('s')/s/item for $q in {other}", below("$p", NUMBERS)
    made = "<x> { $q } { $q/v/x } </x>"
    if draw(st.booleans()):
        text += "|count 2 step 1| let $n := sum($q/u) let $m := max($q/v/x)"
        numbers, made = [*numbers, "$n", "$m"], "<x> { $n, $m } </x>"
    else:
        numbers += below("$q", ["t", "u", "v/x"])
    where = draw(st.just("") | conditions(numbers).map(lambda each: f"where {each}"))
    return f"{text} {where} return ({draw(results(1))}, {made})"


@settings(max_examples=examples(250))
@given(selects() | aggregates() | contents() | several(), ITEMS, ROWS)
def test_what_xquery_would_make_of_it(
    text: str, items: list[dict[str, Any]], rows: list[dict[str, Any]]
) -> None:
    data = {"s": in_order(STREAM, items), "r": in_order(OTHER, rows)}
    try:
        made = constructed(text, data)
    except QueryError as error:
        if "can never be true" not in str(error):
            raise
        return
    root = Element("all")
    tags = {"s": "item", "r": "row"}
    trees = {name: [xquery.item(row, tags[name]) for row in found] for name, found in data.items()}
    query = parse(text)
    if len(query.mains) > 1:  # the generator's <a> { .. } <b/> { .. } </a>
        root = SubElement(root, "a")
    for span, main in enumerate(query.mains):
        if span:
            SubElement(root, "b")
        for answer in xquery.answers(replace(query, mains=(main,)), trees):
            xquery.add(root, answer)
    whole = tostring(root, "unicode")
    expected = f"<all>{whole}</all>" if root.tag == "a" else whole
    assert canonicalize(made.replace("\n", "")) == canonicalize(expected), text


def test_prefixes() -> None:
    """Columns have no namespaces, so that of a path is left out; constructed names keep theirs."""
    row = dict.fromkeys((column.name for column in STREAM.columns), None)
    data = {"s": [{**row, "t": 0, "a": 1.0, "b": 2}, {**row, "t": 1, "a": -1.0, "b": 3}]}
    text = """for $p in stream("s")/z:s/z:item where $p/z:a > 0 return <y:x> { $p/z:item/z:b } </y:x>"""
    assert constructed(text, data) == "<all><y:x><b>2</b></y:x>\n</all>"


def in_order(of: Stream, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = [column.name for column in of.columns]
    return [{name: row[name] for name in names} for row in sorted(rows, key=lambda row: int(row["t"]))]


def constructed(text: str, data: dict[str, list[dict[str, Any]]]) -> str:
    """What results --format xml writes, with the answers of the brute-force oracles."""
    bound = compile_query(text, STREAMS)
    assert bound.construction is not None
    parts = iter([answered(part, data[part.stream]) for part in (bound, *bound.parts)])
    made = b""
    for index, loop in enumerate(bound.construction.loops):
        schema, tables = combine([next(parts) for _ in loop.prefixes], loop)
        encoder = ConstructedXml(schema, bound.construction, index)
        rows = [encoder.rows(batch) for table in tables for batch in table.to_batches()]
        made += b"".join([encoder.begin(), *rows, encoder.end()])
    return f"<all>{made.decode()}</all>"


def answered(part: BoundQuery, rows: list[dict[str, Any]]) -> ResultTables:
    """The results of a part, in two batches."""
    of, spec = STREAMS[part.stream], part.spec.to_json()
    items = pa.RecordBatch.from_pylist(rows, arrow_schema(of))
    oracle = select_oracle if isinstance(part.spec, Select) else aggregate_oracle
    found = oracle(Case(of, items, (Asked("q", spec),)))["q"]
    table, shown = family("filters").shown(of, spec)
    schema = rows_of([], family("filters").table(table), "q", shown).schema
    return schema, iter([pa.Table.from_pylist(half, schema) for half in (found[:2], found[2:])])
