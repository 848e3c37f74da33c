"""The normal form of a condition: computed when a query is bound, and read in every zone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from anabranch.chain.runner import Runner
from anabranch.families.filters import spec as specs
from anabranch.families.filters.derived_streams import stream_key
from anabranch.families.filters.family import Filters
from anabranch.families.filters.spec import normal_of, spec_of
from anabranch.language.bind import compile_query
from anabranch.model.control_log import Activate
from anabranch.predicates.conjunction import Normal
from anabranch.predicates.normal import normal_form
from anabranch.predicates.terms import Constant, Difference, Op, Term
from tests.drawn import examples
from tests.families.filters.runs import STREAM, items
from tests.predicates.generate import CONJUNCTIONS, terms
from tests.predicates.generate import STREAM as WIDE

SUM = "SELECT sum(n) FROM s WHERE n > 3 AND s = 'x' OR a < 0.5 WINDOW RANGE 5 STEP 5"
SELECT = "SELECT t FROM s WHERE n > 3 AND s != 'y'"


@settings(max_examples=examples(100))
@given(terms(3) | CONJUNCTIONS)
def test_json_and_back(condition: Term) -> None:
    normal = normal_form(condition, WIDE)
    again = Normal.from_json(json.loads(json.dumps(normal.to_json())))
    assert again == normal
    assert stream_key(again) == stream_key(normal)
    assert repr(again) == repr(normal)  # of which keys are made: 1 and 1.0 are equal, their texts are not


def test_keys_are_the_same_in_every_process_and_release() -> None:
    """State names derived streams by their keys: a job goes on only while this number stays."""
    assert stream_key(normal_form(Constant("n", Op.GT, 3), STREAM)) == 7466528037043330493


def test_both_zeros_have_one_key() -> None:
    zeros = [normal_form(Difference("x", Op.LE, "a", zero), WIDE) for zero in (0.0, -0.0)]
    assert repr(zeros[0]) == repr(zeros[1])


@pytest.mark.parametrize("query", [SUM, SELECT])
def test_zones_do_not_compute_it_again(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = compile_query(query, {"s": STREAM}).spec.to_json()
    assert bound["normal"]

    def refuse(*_: Any) -> Normal:
        raise AssertionError("computed in a zone")

    monkeypatch.setattr(specs, "normal_form", refuse)
    specs._computed_normal.cache_clear()
    runner = Runner(STREAM, Filters(1), 3)
    runner.batch(items(range(20), n=range(20), a=[1.0] * 20, s=["x"] * 20), [Activate(0, "q", bound)])
    assert runner.tables


@pytest.mark.parametrize("query", [SUM, SELECT])
def test_specs_of_older_catalogs_go_on(query: str) -> None:
    """Without the normal form, a spec shares derived streams with those that have it, and gives the same."""
    bound = compile_query(query, {"s": STREAM}).spec.to_json()
    old = {name: value for name, value in bound.items() if name != "normal"}
    assert normal_of(spec_of(old), STREAM) == normal_of(spec_of(bound), STREAM)
    tables = []
    for spec in (bound, old):
        runner = Runner(STREAM, Filters(1), 2)
        runner.batch(items(range(20), n=range(20), a=[1.0] * 20, s=["x"] * 20), [Activate(0, "q", spec)])
        tables.append([rows.to_pylist() for table in runner.tables.values() for rows in table[0]])
    assert tables[0] == tables[1] != []
