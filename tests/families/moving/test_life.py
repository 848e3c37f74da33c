"""Queries that come and go while the stream runs, long silences, steps that fail, and what a batch stores."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.chain.runner import Runner
from anabranch.families.moving.regional_server import RegionalServer
from anabranch.families.moving.spec import Box, Circle, KNearest, Moving
from anabranch.families.registry import family
from anabranch.families.results import rows_of as own_rows
from anabranch.model.control_log import Activate, Cancel, Control, End
from anabranch.model.errors import JobError
from anabranch.model.stream import Stream
from anabranch.predicates.terms import Constant, Op
from tests.families.moving.runs import PLANE, crowd, rows_of
from tests.laws.case import Asked, Case, run_local
from tests.oracles.moving import moving_oracle

WHOLE = replace(PLANE, tick=1)


def _answers(runner: Runner, name: str, spec: dict[str, Any]) -> list[tuple[Any, ...]]:
    kind = family("moving")
    table, shown = kind.shown(runner.stream, spec)
    batches = runner.tables[table].values()
    found = [row for batch in batches for row in own_rows(batch, kind.table(table), name, shown).to_pylist()]
    return [tuple(row.values()) for row in found]


def _run(
    stream: Stream, batches: list[tuple[list[tuple[Any, ...]], list[Control]]], zones: int = 1
) -> Runner:
    runner = Runner(stream, family("moving"), zones)
    for rows, control in batches:
        runner.batch(rows_of(stream, rows), control)
    runner.batch(None, [End()])
    return runner


NEAR = Moving(Circle(2), (0.0, 0.0)).to_json()
COUNT = Moving(Circle(2), (0.0, 0.0), value="count").to_json()


@pytest.mark.parametrize("zones", [1, 3])
def test_what_comes_before_the_first_query_is_not_seen(zones: int) -> None:
    """
    time      0    1    2    3    4
    a         in             in
    b              in   in        out
    query          ^ begins here: a is not seen before 3
    """
    runner = _run(
        WHOLE,
        [
            ([(0.0, "a", 0.0, 0.0), (1.0, "b", 1.0, 0.0)], []),
            ([(2.0, "b", 1.0, 1.0), (3.0, "a", 0.0, 1.0), (4.0, "b", 5.0, 5.0)], [Activate(0, "near", NEAR)]),
        ],
        zones,
    )
    assert [row[:3] for row in _answers(runner, "near", NEAR)] == [
        (2.0, "+", "b"),
        (3.0, "+", "a"),
        (4.0, "-", "b"),
    ]


#: Queries that begin at 10, long after everybody but b has parked.
LATE = {
    "range": (Moving(Circle(2), (0.0, 0.0)), [("+", "a"), ("+", "b")]),
    "condition": (Moving(Circle(2), (0.0, 0.0), Constant("x", Op.GT, 0.5)), [("+", "b")]),
    "focal": (Moving(Circle(2), "a"), [("+", "b")]),
    "nearest": (Moving(KNearest(2), "b"), [("+", "a"), ("+", "c")]),
    "some nearest": (Moving(KNearest(1), "b", Constant("y", Op.GE, 9.0)), [("+", "c")]),
    "box": (Moving(Box(30, 30), "c"), [("+", "a"), ("+", "b")]),
    "old focal": (Moving(Circle(9), "gone"), []),
}


@pytest.mark.parametrize("zones", [1, 3])
@pytest.mark.parametrize("name", LATE)
def test_a_query_starts_from_the_last_reports_of_all_objects(name: str, zones: int) -> None:
    """At its first tick, as a moving query ran when they came; without those that have expired."""
    spec, wanted = LATE[name][0].to_json(), LATE[name][1]
    other = Moving(Circle(1), (50.0, 50.0), Constant("x", Op.GT, 7.0)).to_json()
    parked = [(0.0, "gone", 0.5, 0.0), (4.0, "a", 0.0, 0.0), (5.0, "c", 9.0, 9.0), (9.0, "b", 1.0, 0.0)]
    runner = _run(
        replace(WHOLE, expire=8.0),
        [
            (parked[:2], [Activate(0, "other", other)]),
            (parked[2:], []),
            ([(10.0, "z", 99.0, 99.0)], []),
            ([(10.5, "z", 99.0, 99.0), (11.0, "z", 99.0, 99.0)], [Activate(1, "late", spec)]),
        ],
        zones,
    )
    assert [row[:3] for row in _answers(runner, "late", spec)] == [(11.0, op, who) for op, who in wanted]


@pytest.mark.parametrize("zones", [1, 3])
def test_a_hundred_conditions_come_and_go(zones: int) -> None:
    """More than there are bits in a word, of which those that nobody uses get other meanings."""
    crowded = crowd(3, PLANE, objects=40, reports=600)
    end = crowded.items.column("t")[-1].as_py()
    shapes = [Circle(4.0), KNearest(3), Box(6.0, 6.0)]
    queries = [Asked("always", Moving(Circle(1.0), (5.0, 5.0)).to_json())]
    for number in range(100):
        condition = Constant("x", Op.GT, number / 10)
        after = end * number / 110
        spec = Moving(shapes[number % 3], "object-1" if number % 2 else (5.0, 5.0), condition)
        queries.append(Asked(f"q{number}", spec.to_json(), after, after + end / 20))
    case = replace(crowded, queries=tuple(queries))
    outcome = run_local(case, cuts=range(0, 600, 7), zones=zones, stops=[20, 50])
    assert outcome.results == moving_oracle(case)


def test_a_report_at_the_moment_of_activation_counts_at_the_next_tick() -> None:
    """The query begins between two reports at 1; its first tick is 2, though nothing comes in (1, 2]."""
    runner = _run(
        WHOLE,
        [
            ([(0.0, "a", 0.0, 0.0), (1.0, "b", 1.0, 0.0)], []),
            (
                [(1.0, "c", 1.0, 1.0), (3.0, "d", 9.0, 9.0)],
                [Activate(0, "near", NEAR), Activate(1, "count", COUNT)],
            ),
        ],
    )
    assert [row[:3] for row in _answers(runner, "near", NEAR)] == [(2.0, "+", "c")]
    assert _answers(runner, "count", COUNT) == [(2.0, 1, None)]


def test_nothing_comes_after_a_cancellation() -> None:
    runner = _run(
        WHOLE,
        [
            ([(0.0, "a", 0.0, 0.0), (1.0, "b", 9.0, 0.0)], [Activate(0, "near", NEAR)]),
            ([(2.0, "a", 9.0, 0.0), (3.0, "b", 0.0, 0.0)], [Cancel(0), Cancel(77)]),
        ],
    )
    assert [row[:3] for row in _answers(runner, "near", NEAR)] == [(0.0, "+", "a")]
    for place, state in runner.states.items():
        assert not state.keys("queries/"), place
        assert not state.keys("cancelled"), place
        assert not state.keys("locals/"), place


def test_a_count_of_nobody() -> None:
    runner = _run(WHOLE, [([(0.0, "a", 9.0, 9.0), (2.0, "a", 0.0, 0.0)], [Activate(0, "count", COUNT)])])
    assert _answers(runner, "count", COUNT) == [(0.0, 0, None), (2.0, 1, None)]


@pytest.mark.parametrize("expire", [None, 900_000.0])
def test_a_silence_of_a_million_ticks_costs_nothing(expire: float | None) -> None:
    stream = replace(WHOLE, expire=expire)
    rows = [
        (0.0, "a", 0.0, 0.0),
        (1.0, "b", 1.0, 0.0),
        (1e6, "a", 0.0, 0.0),
        (2e6, "c", 0.0, 0.0),
        (3e6, "b", 0.0, 0.0),
    ]
    _run(stream, [(rows, [Activate(0, "near", NEAR)])])  # compiles
    start = time.process_time()
    runner = _run(stream, [(rows, [Activate(0, "near", NEAR)])])
    assert time.process_time() - start < 1
    wanted = [(0.0, "+", "a"), (1.0, "+", "b"), (2e6, "+", "c")]
    if expire is not None:
        gone = [(900_001.0, "-", "a"), (900_002.0, "-", "b"), (1e6, "+", "a"), (1_900_001.0, "-", "a")]
        wanted = [*wanted[:2], *gone, wanted[2], (2_900_001.0, "-", "c"), (3e6, "+", "b")]
    assert [row[:3] for row in _answers(runner, "near", NEAR)] == wanted


def test_a_step_that_fails_halfway_is_not_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server in memory has moved on when the step fails; the state has not, and it is what counts."""
    batches = [
        ([(0.0, "a", 0.0, 0.0), (1.0, "b", 1.0, 0.0)], [Activate(0, "near", NEAR)]),
        ([(2.0, "a", 9.0, 0.0), (3.0, "b", 0.0, 0.0), (4.0, "a", 0.0, 0.0)], []),
    ]
    wanted = _answers(_run(WHOLE, batches), "near", NEAR)
    runner = Runner(WHOLE, family("moving"), 1)
    runner.batch(rows_of(WHOLE, batches[0][0]), batches[0][1])
    before = runner.stopped()

    def fails(*_: Any) -> None:
        raise RuntimeError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(RegionalServer, "save", fails)
        with pytest.raises(RuntimeError):
            runner.batch(rows_of(WHOLE, batches[1][0]))
    for address in before[
        "states"
    ]:  # what a replay finds: the tokens of the batch before, and what a worker holds
        state = runner.states[address]
        for key in set(state.tokens) - set(before["states"][address]):
            state.forget(key)
        for key, (token, body) in before["states"][address].items():
            if state.tokens.get(key) != token:
                state.load(key, token, body)
    runner.batch(rows_of(WHOLE, batches[1][0]))
    runner.batch(None, [End()])
    assert _answers(runner, "near", NEAR) == wanted


def test_chunks_stay_small_and_only_what_changed_is_stored() -> None:
    random = np.random.default_rng(5)
    count = 20_000
    first = [
        (0.0, f"object {n:05d}", float(x), float(y))
        for n, (x, y) in enumerate(random.uniform(0, 10, (count, 2)))
    ]
    queries: list[Control] = [
        Activate(n, f"q{n}", Moving(KNearest(10), f"object {n:05d}").to_json()) for n in range(600)
    ]
    runner = Runner(WHOLE, family("moving"), 1)
    runner.batch(rows_of(WHOLE, first), queries)
    runner.batch(rows_of(WHOLE, [(2.0, "object 19999", 5.0, 5.0)]))  # now the first tick is final
    for state in runner.states.values():
        changed, _ = state.take_changes()
        assert max((len(body) for _, body in changed), default=0) < 1 << 20
    runner.batch(rows_of(WHOLE, [(3.0, "object 19999", 5.0, 6.0), (4.0, "object 19999", 5.0, 5.0)]))
    stored = sum(len(body) for state in runner.states.values() for _, body in state.take_changes()[0])
    whole = sum(state.nbytes for state in runner.states.values())
    assert stored < whole / 4


def test_names_that_are_numbers() -> None:
    columns = tuple(
        replace(column, type=type(column.type).INT) if column.name == "o" else column
        for column in WHOLE.columns
    )
    stream = replace(WHOLE, columns=columns)
    items = rows_of(
        stream, [(0.0, 10, 0.0, 0.0), (0.0, 9, 1.0, 0.0), (0.0, -1, 0.0, 1.0), (1.0, 10, 0.0, 0.0)]
    )
    spec = Moving(KNearest(1), "10").to_json()
    case = Case(
        stream, items, (Asked("one", spec), Asked("none", Moving(Circle(9), "ten").to_json())), "moving"
    )
    wanted = {"at": 0.0, "op": "+", "object": -1, "x": 0.0, "y": 1.0, "distance": 1.0, "complete": True}
    assert run_local(case, zones=2).results == {"one": [wanted], "none": []}


def test_a_crowd_at_one_place_ranks_by_name() -> None:
    rows = [(0.0, f"object-{n}", 1.0, 1.0) for n in range(300)]
    asked = (
        Asked("ten", Moving(KNearest(10), (0.0, 0.0)).to_json()),
        Asked("x", {**COUNT, "value": "min(x)"}),
    )
    case = Case(WHOLE, rows_of(WHOLE, rows), asked, "moving")
    assert run_local(case, zones=3).results == moving_oracle(case)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"object": None}, "object"),
        ({"time": None}, "time"),
        ({"position": ("x",)}, "position"),
        ({"tick": 0}, "tick"),
        ({"metric": "manhattan"}, "metric"),
        ({"metric": "haversine", "unit": "feet"}, "unit"),
        ({"regions": ((1.0, 1.0, 0.0, 0.0),)}, "region"),
        ({"regions": (0, 3)}, "regions"),
        ({"bounds": ((0, 1),)}, "bounds"),
    ],
)
def test_streams_that_cannot_be_answered(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(JobError, match=said):
        family("moving").chain(replace(PLANE, **settings), 2)


def test_an_empty_stream() -> None:
    case = Case(
        PLANE, pa.RecordBatch.from_pylist([], schema=rows_of(PLANE, []).schema), (Asked("q", NEAR),), "moving"
    )
    assert run_local(case, zones=2).results == {"q": []}


@pytest.mark.parametrize("zones", [1, 3])
def test_a_query_for_more_nearest_objects_than_there_can_be(zones: int) -> None:
    """Lists are as long as there are objects, not as k; they grow with the objects."""
    rows = [(float(n // 50), f"o{n % 150}", n % 150 / 10.0, 0.0) for n in range(450)]
    queries = (Asked("all", Moving(KNearest(4_000_000_000), "o0").to_json()),)
    case = Case(WHOLE, rows_of(WHOLE, rows), queries, "moving")
    outcome = run_local(case, cuts=[60, 130, 300], zones=zones, stops=[2])
    assert outcome.results == moving_oracle(case)
    assert not any(row["complete"] for row in outcome.results["all"])


def test_a_tick_that_is_far_shorter_than_the_time_between_reports() -> None:
    tiny = replace(PLANE, tick=1e-12, expire=2.0)
    spec = Moving(Circle(2), "f").to_json()
    rows = [(0.0, "f", 0.0, 0.0), (1.5, "a", 1.0, 0.0), (4.0, "f", 0.5, 0.0), (5.0, "b", 9.0, 9.0)]
    runner = _run(tiny, [(rows, [Activate(0, "q", spec)])], 2)
    found = [(round(row[0], 9), *row[1:3]) for row in _answers(runner, "q", spec)]
    assert found == [(1.5, "+", "a"), (2.0, "-", "a")]


@pytest.mark.parametrize("zones", [1, 4])
def test_regions_without_bounds_lie_over_the_first_batch(zones: int) -> None:
    """All is at the first server until then; a line says what the bounds are."""
    stream = replace(WHOLE, bounds=(), regions=(2, 2))
    batches = [
        ([(0.0, "a", 10.0, 0.0), (0.0, "b", 20.0, 8.0), (1.0, "c", 12.0, 7.0)], [Activate(0, "q", NEAR)]),
        ([(2.0, "d", 99.0, 99.0)], []),
        ([(3.0, "a", 19.0, 1.0), (4.0, "d", 0.0, 0.0)], []),
    ]
    runner = _run(stream, batches, zones)
    (line,) = [note["warning"] for note in runner.notes if "warning" in note]
    assert "stream units has regions and no bounds" in line
    assert "bounds = [[10.0, 20.0], [0.0, 8.0]]" in line
    held = [
        sum(len((state.get(key) or {})["who"]) for key in state.keys("objects/"))
        for (_, stage, _), state in sorted(runner.states.items())
        if stage == 2
    ]
    assert held == ([4] if zones == 1 else [1, 1, 1, 1])
