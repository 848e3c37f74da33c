"""Shareability is a partial order that includes equality, and what it calls shareable suffices."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from anabranch.families.filters.spec import Aggregate, Aggregation, Function
from anabranch.language.bind import compile_query
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import Window
from anabranch.planning.matching import shareability_graph, shareable
from anabranch.planning.properties import Properties, properties_of, source_properties
from anabranch.planning.selections import hull, match_predicates, residual, term_of
from anabranch.predicates.normal import normal_form
from anabranch.simulate.derive import answer, derive
from tests.drawn import examples
from tests.planning.draw import ALTERNATIVES, STREAM, WINDOWS, Spec, asked, clock_of, items, oracle, related
from tests.predicates import generate


@given(related(1))
def test_reflexive(specs: list[Spec]) -> None:
    assert shareable(asked(specs[0]), asked(specs[0]))


@given(related(3))
def test_transitive(specs: list[Spec]) -> None:
    wide, middle, narrow = map(asked, specs)
    if shareable(wide, middle) and shareable(middle, narrow):
        event("a chain")
        assert shareable(wide, narrow)


@given(related(2), items())
def test_antisymmetric_up_to_what_the_streams_hold(specs: list[Spec], rows: pa.RecordBatch) -> None:
    first, second = map(asked, specs)
    if shareable(first, second) and shareable(second, first):
        event("equal")
        source, clock = source_properties(STREAM), clock_of(rows)
        held = [derive(one, source, rows, clock) for one in (first, second)]
        assert held[0].to_pylist() == held[1].to_pylist()


@given(related(2), items())
def test_sound(specs: list[Spec], rows: pa.RecordBatch) -> None:
    """What is made from a shareable stream, and from nothing else, is what the oracle says."""
    source, clock = source_properties(STREAM), clock_of(rows)
    wide, narrow = map(asked, specs)
    assert shareable(source, wide)
    carried = derive(wide, source, rows, clock)
    assert answer(specs[0], carried, clock) == oracle(specs[0], rows)
    if shareable(wide, narrow):
        event("made from another")
        assert answer(specs[1], derive(narrow, wide, carried, clock), clock) == oracle(specs[1], rows)


@given(st.lists(WINDOWS, min_size=2, max_size=2), items())
@settings(max_examples=examples(400))
def test_sound_for_windows(windows: list[Window], rows: pa.RecordBatch) -> None:
    """The same on windows alone, so that pairs that nearly fit are drawn often."""
    summed = (Aggregation(Function.SUM, "a", "v"), Aggregation(Function.COUNT, None, "n"))
    specs = [Aggregate(summed, window) for window in windows]
    wide, narrow = map(asked, specs)
    source, clock = source_properties(STREAM), clock_of(rows)
    if shareable(wide, narrow):
        event(f"of a kind: {wide == narrow}")
        carried = derive(wide, source, rows, clock)
        assert answer(specs[1], derive(narrow, wide, carried, clock), clock) == oracle(specs[1], rows)


@given(generate.terms(), generate.ROWS)
def test_terms_come_back_from_normal_forms(term: generate.Term, rows: list[dict[str, object]]) -> None:
    from anabranch.predicates.evaluate import evaluate

    normal = normal_form(term, generate.STREAM)
    batch = generate.batch(rows)
    assert evaluate(term_of(normal), batch).tolist() == evaluate(term, batch).tolist()


@given(ALTERNATIVES, ALTERNATIVES)
def test_a_hull_contains_both(one: generate.Term, other: generate.Term) -> None:
    first, second = normal_form(one, STREAM), normal_form(other, STREAM)
    around = hull(first, second)
    if around is not None:
        assert match_predicates(around, first)
        assert match_predicates(around, second)


# --- the paper's queries ---

PHOTONS = Stream(
    "photons",
    tuple(Column(name, ColumnType.FLOAT) for name in ("ra", "dec", "phc", "en"))
    + (Column("det_time", ColumnType.INT),),
    time="det_time",
)
VELA = "ra BETWEEN 120 AND 138 AND dec BETWEEN -49 AND -40"
Q1 = f"SELECT ra, dec, phc, en, det_time FROM photons WHERE {VELA}"
Q2 = (
    "SELECT ra, dec, en, det_time FROM photons "
    "WHERE en >= 1.3 AND ra BETWEEN 130.5 AND 135.5 AND dec BETWEEN -48 AND -45"
)
Q3 = f"SELECT avg(en) AS a FROM photons WHERE {VELA} WINDOW RANGE 20 STEP 10"
Q4 = f"SELECT avg(en) AS a FROM photons WHERE {VELA} WINDOW RANGE 60 STEP 40 HAVING a >= 1.3"


def of(query: str) -> Properties:
    spec = compile_query(query, {"photons": PHOTONS}).spec
    assert isinstance(spec, Spec)
    return properties_of(spec, PHOTONS)


def test_the_graph_of_figure_17() -> None:
    q1, q2, q3, q4 = map(of, (Q1, Q2, Q3, Q4))
    assert shareability_graph([q1, q2, q3, q4]) == {(0, 1), (0, 2), (2, 3)}
    assert shareable(q1, q4)  # follows from the others, so it is not drawn
    assert not shareable(q2, q3)
    assert not shareable(q3, q2)


AVG = f"SELECT avg(en) AS v FROM photons WHERE {VELA} WINDOW RANGE {{}} STEP {{}}"


@pytest.mark.parametrize(
    ("wide", "narrow", "fits"),
    [
        ((20, 10), (60, 40), True),  # example 4.3
        ((40, 10), (80, 20), True),  # example 4.4
        ((20, 10), (50, 40), False),  # sizes do not divide
        ((20, 15), (60, 30), False),  # no sequence of windows without overlap
        ((20, 10), (60, 15), False),  # no result when one is due
        ((20, 15), (20, 30), True),  # equal size: every other result is the answer
        ((20, 15), (20, 15), True),
        ((60, 40), (20, 10), False),
    ],
)
def test_three_conditions_on_windows(wide: tuple[int, int], narrow: tuple[int, int], fits: bool) -> None:
    assert shareable(of(AVG.format(*wide)), of(AVG.format(*narrow))) is fits


def test_an_average_serves_sums_and_counts() -> None:
    average = of(AVG.format(20, 10))
    for function, served in (("sum(en)", True), ("count(en)", True), ("count(*)", True), ("max(en)", False)):
        query = AVG.format(20, 10).replace("avg(en)", function)
        assert shareable(average, of(query)) is served
        assert not shareable(of(query), average) or function == "avg(en)"


def test_filtered_aggregates_serve_only_their_own_windows() -> None:
    hot = of(AVG.format(20, 10) + " HAVING v >= 1.3")
    assert shareable(of(AVG.format(20, 10)), hot)
    assert shareable(hot, of(AVG.format(20, 10) + " HAVING v >= 2"))
    assert shareable(hot, of(AVG.format(20, 20) + " HAVING v >= 2"))  # every other window
    assert not shareable(hot, of(AVG.format(20, 10) + " HAVING v >= 1"))
    assert not shareable(hot, of(AVG.format(60, 40) + " HAVING v >= 2"))  # one of three may be missing


def test_another_selection_before_the_aggregate_is_another_aggregate() -> None:
    narrow = AVG.format(20, 10).replace("138", "130")
    assert not shareable(of(AVG.format(20, 10)), of(narrow))


@given(st.sampled_from([0.5, 1.0]), st.sampled_from([0.5, 1.0]))
def test_only_what_is_not_settled_needs_its_columns(low: float, high: float) -> None:
    inside = of(f"SELECT en FROM photons WHERE {VELA}")
    hot = of(f"SELECT en FROM photons WHERE {VELA} AND en > {low}")
    assert shareable(inside, hot)  # ra and dec are settled and need not travel
    assert not shareable(inside, of(f"SELECT en FROM photons WHERE {VELA} AND phc > {high}"))
    assert [bound.column for bound in residual(hot.selection, inside.selection).conjunctions[0].bounds] == [
        "en"
    ]
