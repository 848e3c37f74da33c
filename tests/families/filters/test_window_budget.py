"""A query that would get more windows of a batch than its budget allows is suspended; the others get what
they would have got without it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.chain.budget import Budget
from anabranch.families.filters.spec import Aggregate, Select
from anabranch.model.control_log import Cancel, Control, End
from anabranch.predicates.terms import Constant, Op
from tests.drawn import examples
from tests.families.filters.runs import Row, Run, aggregate, by_range, by_rows, items, select

ABSURD = aggregate(by_range(1, 1e-9), "count *")
SMALL = Budget(base=6, per_item=1)


def test_a_billion_windows_per_item_are_counted_and_not_composed() -> None:
    run = Run()
    bystander = aggregate(by_range(2, 1), "count *", "sum n")
    run.batch(items([0, 1, 2], n=[1, 2, 3]), run.activate(absurd=ABSURD, same=ABSURD, fair=bystander))
    run.batch(items([3], n=[4]))
    run.batch(None, [End()])
    assert run.results("absurd") == run.results("same") == []
    assert [row["v1"] for row in run.results("fair")] == [3, 5, 7, 4]
    assert [(note["suspended"], note["item"]) for note in run.runner.notes] == [("absurd", 0), ("same", 0)]
    reason = "for 3 items (limits: batch_work 1,000,000, item_work 100)"
    assert run.runner.notes[0]["reason"] == f"it would give 1,000,000,001 windows {reason}"


def test_who_was_within_the_budget_until_now_keeps_what_it_got() -> None:
    run = Run(budget=SMALL)
    control = run.activate(q=aggregate(by_range(8, 1), "count *"), other=aggregate(by_range(8, 8), "count *"))
    run.batch(items([0]), control)
    run.batch(items([1, 2, 3, 4]))
    run.batch(items([9]))
    assert run.windows("q") == [(0, 8, 5), (1, 9, 4)]
    run.batch(items([100]))  # the windows from 2 to 9 have items: eight, and seven are allowed
    run.batch(items([200]))
    assert run.windows("q") == [(0, 8, 5), (1, 9, 4)]
    assert run.windows("other") == [(0, 8, 5), (8, 16, 1), (96, 104, 1)]
    assert [(note["suspended"], note["item"]) for note in run.runner.notes] == [("q", 6)]


def test_windows_without_items_are_not_counted() -> None:
    run = Run(budget=SMALL)
    run.batch(items([0, 10**15, 2 * 10**15]), run.activate(q=aggregate(by_range(2, 1), "count *")))
    run.batch(None, [End()])
    assert run.runner.notes == []
    assert len(run.windows("q")) == 5


def test_a_query_that_came_later_and_shares_the_windows_is_judged_by_its_own() -> None:
    """Both have RANGE 8 STEP 1. At time 100 the first would get eight windows, the second two."""
    run = Run(budget=SMALL)
    query = aggregate(by_range(8, 1), "count *")
    run.batch(items([0, 5]), run.activate(first=query))
    run.batch(items([7]), run.activate(second=query))
    run.batch(items([100]))
    assert [note["suspended"] for note in run.runner.notes] == ["first"]
    alone = Run(budget=SMALL)
    alone.batch(items([0, 5]), alone.activate(other=select()))
    alone.batch(items([7]), alone.activate(second=query))
    alone.batch(items([100]))
    assert run.windows("second") == alone.windows("second") == [(6, 14, 1), (7, 15, 1)]


def test_who_is_cancelled_in_the_same_batch_is_gone() -> None:
    run = Run(budget=SMALL)
    run.batch(items([0]), run.activate(q=ABSURD, other=aggregate(by_rows(1, 1), "count *")))
    run.batch(items([5]), [Cancel(0)])
    run.batch(items([9]))
    run.batch(items([10]))
    assert run.results("q") == []
    assert len(run.windows("other")) == 4


def test_it_stays_suspended_after_a_stop() -> None:
    run = Run(budget=SMALL)
    run.batch(items([0, 1, 2]), run.activate(q=ABSURD, other=aggregate(by_range(1, 1), "count *")))
    assert len(run.runner.notes) == 1
    stopped = run.runner.stopped()
    again = Run(budget=SMALL)
    again.specs = run.specs
    again.runner.resume(stopped)
    again.batch(items([3]))
    again.batch(None, [End()])
    assert again.runner.notes == []
    assert run.windows("other") + again.windows("other") == [(start, start + 1, 1) for start in range(4)]


QUERIES = st.one_of(
    st.builds(by_range, st.sampled_from([1, 4, 8]), st.sampled_from([1, 2, 5])),
    st.builds(by_rows, st.sampled_from([1, 3]), st.sampled_from([1, 2])),
).map(lambda window: aggregate(window, "count *", "sum n", condition=Constant("n", Op.GT, 2)))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=4, max_size=24).map(sorted),
    st.lists(QUERIES | st.just(select()), min_size=1, max_size=4),
    st.integers(1, 2),
    st.integers(1, 5),
    st.sampled_from([1e-9, 1e-7, 0.001]),
)
def test_bystanders_get_what_they_would_have_got(
    times: list[int], queries: list[Aggregate | Select], zones: int, size: int, step: float
) -> None:
    """... from a run without the absurd queries, which share their condition."""
    absurd = {
        f"absurd {n}": aggregate(by_range(1, step), "max n", condition=Constant("n", Op.GT, n))
        for n in (0, 2)
    }
    bystanders = {f"q{n}": query for n, query in enumerate(queries)}

    def run(specs: dict[str, Any]) -> tuple[dict[str, list[Row]], list[dict[str, Any]]]:
        run = Run(zones=zones, budget=Budget(base=100, per_item=10))
        control: list[Control] = run.activate(**specs)
        for first in range(0, len(times), size):
            part = times[first : first + size]
            run.batch(items(part, n=[(time * 7) % 5 for time in part]), control)
            control = []
        run.batch(None, [End()])
        run.runner.settle()
        return {name: run.results(name) for name in bystanders}, run.runner.notes

    expected, none = run(bystanders)
    assert none == []
    found, notes = run(absurd | bystanders)
    assert found == expected
    assert {note["suspended"] for note in notes} <= set(absurd)
    assert run(absurd | bystanders)[1] == notes


@pytest.mark.parametrize("at_end", ["cut", "gather", "run"])
def test_at_the_end_of_the_stream(at_end: str) -> None:
    run = Run(budget=SMALL)
    query = aggregate(by_range(1, 1e-9, at_end), "count *")
    run.batch(items([0]), run.activate(q=query, other=aggregate(by_range(2, 1), "count *")))
    run.batch(None, [End()])
    run.runner.settle()
    assert run.windows("other") == [(0, 2, 1)]
