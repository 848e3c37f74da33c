"""What a zone of `compose` keeps: no more than windows to come need, and no more written than changed."""

from __future__ import annotations

import time

from anabranch.chain.runner import Runner
from anabranch.chain.state import State
from anabranch.families.filters.slice_store import CLOSED, SLICES_PER_CHUNK
from anabranch.model.control_log import Cancel, End
from anabranch.predicates.terms import Constant, Op
from tests.families.filters.runs import STREAM, Run, aggregate, by_range, by_rows, items


def _state(run: Run) -> State:
    return run.runner.state(2, 0)


def _closed(run: Run) -> int:
    return sum(len(_state(run).get(key)["number"]) for key in _state(run).keys(CLOSED))  # type: ignore[index]


def test_slices_are_dropped_when_no_window_needs_them() -> None:
    """RANGE 10 STEP 1 needs ten slices; at most as many dead ones lie about until they are cleared away."""
    run = Run()
    run.batch(None, run.activate(q=aggregate(by_range(10, 1), "sum n"), r=aggregate(by_rows(5, 2), "sum n")))
    sizes = []
    for first in range(0, 2000, 20):
        run.batch(items(range(first, first + 20), n=[1] * 20))
        sizes.append(_closed(run))
    assert max(sizes) <= 2 * (10 + 20)
    assert len(run.results("q")) == 1990
    assert {row["v0"] for row in run.results("q")} == {10}


def test_a_derived_stream_is_removed_with_its_last_query() -> None:
    run = Run()
    condition = Constant("n", Op.GT, 0)
    specs = run.activate(
        a=aggregate(by_range(10, 1), "sum n", condition=condition), b=aggregate(by_rows(5, 2), "max a")
    )
    run.batch(items(range(50), n=[1] * 50), specs)
    assert _closed(run)
    run.batch(items([50], n=[1]), [Cancel(0)])
    run.batch(items([51], n=[1]), [Cancel(1)])
    kept = [key for key in _state(run).keys("") if not key.startswith(("clock", "layouts", "members"))]
    assert kept == []


def test_the_same_condition_again_is_a_new_derived_stream() -> None:
    """Positions begin at 0; slices of the removed one must not come up again, not after a stop either."""
    run = Run()
    query = aggregate(by_rows(4, 1), "sum n")
    run.batch(items(range(6), n=[100] * 6), run.activate(a=query))
    run.batch(items([6], n=[100]), [Cancel(0)])
    run.batch(items(range(7, 10), n=[1] * 3), run.activate(b=query))
    resumed = Run()
    resumed.specs = run.specs
    resumed.runner.resume(run.runner.stopped())
    for going_on in (run, resumed):
        going_on.batch(items([10], n=[1]))
        assert [row["v0"] for row in going_on.results("b")] == [4]


def test_closed_slices_are_written_once() -> None:
    run = Run()
    run.batch(
        None,
        run.activate(q=aggregate(by_range(10_000, 10_000), "sum n"), r=aggregate(by_range(1, 1), "sum n")),
    )
    tokens: dict[str, bytes] = {}
    written = 0
    for first in range(0, 5000, 100):
        run.batch(items(range(first, first + 100), n=[1] * 100))
        now = {key: token for key, token in _state(run).tokens.items() if key.startswith(CLOSED)}
        written += sum(tokens.get(key) != token for key, token in now.items())
        tokens = now
    assert len(tokens) == -(-4999 // SLICES_PER_CHUNK)
    assert written <= 50 + len(tokens)  # the chunk that grows, and now and then the next


def test_windows_without_items_cost_nothing() -> None:
    """A trillion empty windows between two items."""
    run = Run()
    run.batch(
        items([0]),
        run.activate(q=aggregate(by_range(2, 1), "count *"), r=aggregate(by_range(0.5, 0.25), "count *")),
    )
    began = time.perf_counter()
    run.batch(items([10**12, 10**12 + 5]))
    run.batch(None, [End()])
    assert time.perf_counter() - began < 5
    assert run.windows("q") == [(0, 2, 1), *((10**12 + k, 10**12 + k + 2, 1) for k in (-1, 0, 4, 5))]
    assert len(run.windows("r")) == 5


def test_another_worker_goes_on_with_a_new_query_of_other_columns() -> None:
    """A later query brings columns that the slices so far do not have; another worker takes over."""
    run = Run(zones=2)
    run.batch(items(range(7), n=[1] * 7, a=[0.5] * 7), run.activate(a=aggregate(by_range(5, 5), "sum n")))
    run.batch(
        items(range(7, 9), n=[1] * 2, a=[0.5] * 2),
        run.activate(b=aggregate(by_range(5, 5), "sum a", "min n")),
    )
    other = Run(zones=2)
    other.specs = run.specs
    other.runner = Runner(STREAM, other.family, 2)
    other.runner.resume(run.runner.stopped())
    other.batch(items(range(9, 16), n=[1] * 7, a=[0.5] * 7), [Cancel(0)])
    assert other.results("a") == []  # [5, 10) was not full when it was cancelled
    assert [(row["window_start"], row["v0"], row["v1"]) for row in other.results("b")] == [(10, 2.5, 1)]


def test_queries_on_one_condition_share_one_derived_stream() -> None:
    """Written in another way it is still the same condition."""
    run = Run()
    between = {"a": Constant("n", Op.GT, 3), "b": Constant("n", Op.GE, 4)}
    specs = {
        name: aggregate(by_range(5, 5), "sum n", condition=condition) for name, condition in between.items()
    }
    run.batch(items(range(12), n=range(12)), run.activate(**specs))
    chunk = _state(run).get("streams/00000000")
    assert chunk is not None
    assert len(chunk["slot"]) == 1
    assert run.results("a") == run.results("b") != []
