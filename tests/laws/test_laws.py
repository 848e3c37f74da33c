"""The four laws, for every customer, on the local runner.

1. the results equal a brute-force oracle's;
2. they do not depend on where the batches are cut;
3. nor on the number of zones, nor on a change of it on the way;
4. stopping anywhere and resuming from the stored state changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.drawn import examples
from tests.laws.case import Outcome, run_local
from tests.laws.customers import Customer, customers
from tests.oracles.stream_order import stream_order

CUSTOMERS = {customer.name: customer for customer in customers()}

relaxed = settings(
    max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def same(customer: Customer, left: dict, right: dict) -> None:
    assert left.keys() == right.keys()
    for name in left:
        assert customer.canonical(left[name]) == customer.canonical(right[name]), name


def books_balance(outcome: Outcome, rows: int) -> None:
    books = outcome.books
    assert books["rows_in"] == rows
    assert books["rows_in"] == books["processed"] + books["late"] + books["rejected"]
    assert len(outcome.dead) == books["late"] + books["rejected"]


@pytest.mark.parametrize("name", CUSTOMERS)
@relaxed
@given(data=st.data())
def test_equals_the_oracle(name: str, data: st.DataObject) -> None:
    customer = CUSTOMERS[name]
    case = data.draw(customer.cases)
    outcome = run_local(case)
    same(customer, outcome.results, customer.oracle(case))
    books_balance(outcome, case.items.num_rows)
    items, late = stream_order(case.stream, case.items.to_pylist())
    assert outcome.books["processed"] == len(items)
    assert outcome.books["late"] == len(late)


@pytest.mark.parametrize("name", CUSTOMERS)
@relaxed
@given(data=st.data())
def test_there_may_be_times_without_queries(name: str, data: st.DataObject) -> None:
    """One query begins late and ends early, another begins after that."""
    customer = CUSTOMERS[name]
    case = data.draw(customer.cases.filter(lambda case: case.stream.time is not None and case.queries))
    items, _ = stream_order(case.stream, case.items.to_pylist())
    assume(len(items) > 3)
    moments = st.lists(st.integers(0, len(items) - 1), min_size=3, max_size=3)
    begin, end, again = (items[index]["#time"] for index in sorted(data.draw(moments, label="moments")))
    first = replace(case.queries[0], after=begin, until=end)
    case = replace(case, queries=(first, replace(case.queries[-1], name="again", after=again, until=None)))
    plain = run_local(case)
    same(customer, plain.results, customer.oracle(case))
    cuts = data.draw(st.lists(st.integers(1, 40), max_size=8), label="cuts")
    zones = data.draw(st.integers(1, 5), label="zones")
    stops = data.draw(st.lists(st.integers(0, 10), max_size=3), label="stops")
    same(customer, run_local(case, cuts=cuts, zones=zones, stops=stops).results, plain.results)


@pytest.mark.parametrize("name", CUSTOMERS)
@relaxed
@given(data=st.data())
def test_cuts_zones_and_stops_change_nothing(name: str, data: st.DataObject) -> None:
    customer = CUSTOMERS[name]
    case = data.draw(customer.cases)
    cuts = data.draw(st.lists(st.integers(1, 40), max_size=8), label="cuts")
    zones = data.draw(st.integers(1, 5), label="zones")
    stops = data.draw(st.lists(st.integers(0, 10), max_size=3), label="stops")
    plain = run_local(case)
    same(customer, run_local(case, cuts=cuts).results, plain.results)
    same(customer, run_local(case, zones=zones).results, plain.results)
    disturbed = run_local(case, cuts=cuts, zones=zones, stops=stops)
    same(customer, disturbed.results, plain.results)
    books_balance(disturbed, case.items.num_rows)


@pytest.mark.parametrize("name", CUSTOMERS)
@relaxed
@given(data=st.data())
def test_another_number_of_zones_on_the_way_changes_nothing(name: str, data: st.DataObject) -> None:
    customer = CUSTOMERS[name]
    case = data.draw(customer.cases)
    cuts = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=6), label="cuts")
    zones = data.draw(st.integers(1, 4), label="zones")
    rescales = data.draw(
        st.dictionaries(st.integers(0, 6), st.integers(1, 5), min_size=1, max_size=4), label="rescales"
    )
    stops = data.draw(st.lists(st.integers(0, 6), max_size=2), label="stops")
    rescaled = run_local(case, cuts=cuts, zones=zones, rescales=rescales, stops=stops)
    same(customer, rescaled.results, run_local(case).results)
    books_balance(rescaled, case.items.num_rows)
