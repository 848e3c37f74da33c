"""The laws once more, with a zone of `share` for every item: else their small streams would stay in one."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.families.filters.family import Filters
from tests.drawn import examples
from tests.laws import case as cases
from tests.laws import draw_aggregate, draw_select
from tests.laws.customers import Customer

CUSTOMERS = {customer.name: customer for customer in (draw_select.CUSTOMER, draw_aggregate.CUSTOMER)}


@pytest.fixture(autouse=True)
def _an_item_a_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    family = Filters(least=1)
    monkeypatch.setattr(cases, "family", lambda name: family)


@pytest.mark.parametrize("name", CUSTOMERS)
@settings(
    max_examples=examples(60),
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
@given(data=st.data())
def test_items_in_many_zones(name: str, data: st.DataObject) -> None:
    customer: Customer = CUSTOMERS[name]
    case = data.draw(customer.cases)
    cuts = data.draw(st.lists(st.integers(1, 40), max_size=8), label="cuts")
    zones = data.draw(st.integers(2, 5), label="zones")
    stops = data.draw(st.lists(st.integers(0, 10), max_size=3), label="stops")
    assert cases.run_local(case, cuts=cuts, zones=zones, stops=stops).results == customer.oracle(case)
