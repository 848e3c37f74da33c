"""Windows at the end of a stream, beside the paper's own functions (appendix A)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.families.filters.spec import Aggregate
from anabranch.model.control_log import End
from tests.drawn import examples
from tests.families.filters.runs import Run, aggregate, by_range, by_rows, items
from tests.oracles.paper_windows import cwin, dwin

AT_END = ["cut", "gather", "run"]
COUNTS = st.integers(1, 8)


@pytest.mark.parametrize("at_end", AT_END)
@settings(max_examples=examples(60))
@given(size=COUNTS, step=COUNTS, count=st.integers(0, 20))
def test_item_based(at_end: str, size: int, step: int, count: int) -> None:
    spec = aggregate(by_rows(size, step, at_end), "count *", "min n", "max n")
    expected = cwin(size, step, list(range(count)), at_end)
    assert answered(spec, list(range(count))) == [(len(w), w[0], w[-1]) for w in expected if w]


@pytest.mark.parametrize("at_end", AT_END)
@settings(max_examples=examples(60))
@given(size=COUNTS, step=COUNTS, gaps=st.lists(st.integers(0, 5), max_size=15), first=st.integers(-3, 3))
def test_time_based(at_end: str, size: int, step: int, gaps: list[int], first: int) -> None:
    times = [first + sum(gaps[:index]) for index in range(len(gaps))]
    spec = aggregate(by_range(size, step, at_end), "count *", "min n", "max n")
    expected = dwin(first, size, step, times, int, at_end)
    assert answered(spec, times) == [(len(w), w[0], w[-1]) for w in expected if w]


def answered(spec: Aggregate, times: list[int]) -> list[tuple[int, int, int]]:
    """How many items each window has, its first and its last; items are their times."""
    run = Run()
    run.batch(items(times, n=times), run.activate(q=spec))
    run.batch(None, [End()])
    return [(row["v0"], row["v1"], row["v2"]) for row in run.results("q")]
