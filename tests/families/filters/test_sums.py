"""Sums of floats that are not exact in binary: the same bits for any cuts, zones and neighbours."""

from __future__ import annotations

import math
import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.model.control_log import End
from tests.drawn import examples
from tests.families.filters.runs import Run, aggregate, by_range, by_rows, items

_SEEDED = random.Random(26)
VALUES = [_SEEDED.uniform(-1, 1) * 10 ** _SEEDED.randint(-6, 6) for _ in range(60)]
QUERIES = {
    "time": aggregate(by_range(7, 3), "sum a", "avg a"),
    "rows": aggregate(by_rows(11, 4), "sum a", "avg a"),
}
#: Others on the same derived stream, with edges of their own.
OTHERS = {"other": aggregate(by_range(2, 1), "sum a"), "another": aggregate(by_rows(3, 2), "sum a")}


def _run(cuts: list[int], zones: int, others: bool) -> dict[str, list[tuple[float, float]]]:
    run = Run(zones=zones)
    control = run.activate(**QUERIES, **(OTHERS if others else {}))
    edges = [0, *sorted(set(cuts)), len(VALUES)]
    for first, stop in pairwise(edges):
        run.batch(items(range(first, stop), a=VALUES[first:stop]), control)
        control = []
    run.batch(None, [End()])
    return {name: [(row["v0"], row["v1"]) for row in run.results(name)] for name in QUERIES}


def test_the_exact_sum_rounded_once() -> None:
    sums = [math.fsum(VALUES[start : start + 7]) for start in range(0, 60, 3)]
    assert [value for value, _ in _run([], 1, False)["time"]] == sums


@settings(max_examples=examples(30))
@given(st.lists(st.integers(1, 59), max_size=6), st.integers(1, 4), st.booleans())
def test_the_same_bits_in_any_case(cuts: list[int], zones: int, others: bool) -> None:
    assert _run(cuts, zones, others) == _run([], 1, False)


def test_what_floats_cannot_say() -> None:
    run = Run()
    values = [1e308, 1e308, math.inf, -math.inf, math.inf, 1.0]
    query = aggregate(by_rows(2, 2), "sum a", "avg a", "max a")
    run.batch(items(range(6), a=values), run.activate(q=query))
    assert [tuple(row[f"v{n}"] for n in range(3)) for row in run.results("q")] == [
        (math.inf, math.inf, 1e308),
        (None, None, math.inf),
        (math.inf, math.inf, math.inf),
    ]


def test_a_sum_that_is_no_integer_of_64_bits_is_missing() -> None:
    run = Run()
    most = 2**63 - 1
    run.batch(
        items(range(4), n=[most, 1, most, -1]), run.activate(q=aggregate(by_rows(2, 2), "sum n", "avg n"))
    )
    assert [(row["v0"], row["v1"]) for row in run.results("q")] == [(None, 2.0**62), (most - 1, 2.0**62)]
