"""An issuer and a focal object criss-cross the regions while the process crashes again and again.

Two kinds of crash, at random batches: between two batches, and within one, after the first stages of it have
run; the batch then comes again. Both go on from the stored bytes alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anabranch.chain.runner import Runner
from anabranch.families.moving.spec import Circle, KNearest, Moving
from anabranch.families.registry import family
from anabranch.families.results import rows_of as own_rows
from anabranch.model.control_log import Activate, Control, End
from tests.families.moving.runs import PLANE, rows_of

TICKS, OTHERS, ZONES = 1000, 40, 9
STREAM = replace(PLANE, tick=1, regions=(3, 3))
RADIUS, K = 2.0, 5
QUERIES = {
    "near": Moving(Circle(RADIUS), "focal", issuer="issuer"),
    "five": Moving(KNearest(K), "focal", issuer="issuer"),
    "own": Moving(KNearest(K), "issuer", issuer="issuer"),
    "count": Moving(Circle(RADIUS), "focal", value="count", issuer="issuer"),
    "east": Moving(Circle(RADIUS), "focal", value="max(x)", issuer="issuer"),
}

Point = tuple[float, float]


def _walk(seed: int) -> tuple[list[list[tuple[Any, ...]]], list[dict[str, Point]]]:
    """The reports of every tick, and where everybody is at it. Issuer and focal object sweep the map on
    diagonals, so that they change regions every other tick; the others wander.
    """
    random = np.random.default_rng(seed)
    names = [f"o{n}" for n in range(OTHERS)]
    places = {name: random.uniform(0, 10, 2) for name in names}
    reports, positions = [], []
    for tick in range(TICKS):
        moved = {
            "focal": np.abs((np.array([1.7, 2.3]) * tick + (1, 7)) % 20 - 10),
            "issuer": np.abs((np.array([2.9, 1.3]) * tick + (9, 2)) % 20 - 10),
        }
        for name in random.choice(names, 6, replace=False).tolist():
            moved[name] = np.clip(places[name] + random.normal(0, 1.5, 2), 0, 10)
        places |= moved
        reports.append([(float(tick), name, float(x), float(y)) for name, (x, y) in moved.items()])
        known = positions[-1] if positions else {}
        positions.append(known | {name: (float(x), float(y)) for name, (x, y) in moved.items()})
    return reports, positions


def _answers(places: dict[str, Point]) -> dict[str, Any]:
    """By brute force: what every query answers when everybody is there."""

    def near(focal: str) -> list[tuple[float, str]]:
        x, y = places[focal]
        far = ((math.sqrt((a - x) ** 2 + (b - y) ** 2), name) for name, (a, b) in places.items())
        return sorted(pair for pair in far if pair[1] != focal)

    within = {name for distance, name in near("focal") if distance <= RADIUS}
    east = min(((-places[name][0], name) for name in within), default=None)
    return {
        "near": within,
        "five": {name for _, name in near("focal")[:K]},
        "own": {name for _, name in near("issuer")[:K]},
        "count": (len(within), None),
        "east": (None, None) if east is None else (-east[0], east[1]),
    }


class _Crash(RuntimeError):
    pass


def _lose_batch(stored: dict[str, Any], stage: int, *batch: Any) -> bool:
    """A process that dies when a batch comes to this stage; all it leaves is what was stored before. Returns
    whether it died: a batch without items or control comes to no stage.
    """
    runner = Runner(STREAM, family("moving"), ZONES)
    runner.resume(stored)
    stage_of = runner._stage

    def dies(family: str, depth: int) -> Any:
        if depth == stage:
            raise _Crash
        return stage_of(family, depth)

    runner._stage = dies  # type: ignore[method-assign]
    try:
        runner.batch(*batch)
    except _Crash:
        return True
    assert not batch[0].num_rows
    return False


def _run(seed: int, reports: Sequence[list[tuple[Any, ...]]]) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """What came out, and how often it crashed."""
    random = np.random.default_rng(seed)
    control: list[Control] = [
        Activate(number, name, spec.to_json()) for number, (name, spec) in enumerate(QUERIES.items())
    ]
    runners, crashes, tick = [Runner(STREAM, family("moving"), ZONES)], 0, 0
    while tick < len(reports):
        length = int(random.integers(1, 9))
        rows = [row for reported in reports[tick : tick + length] for row in reported]
        if random.random() < 0.8 and tick + length < len(reports):  # a cut in the middle of a tick
            rows, reports[tick + length - 1][:] = rows[:-1], rows[-1:]
            length -= 1
        batch = (rows_of(STREAM, rows), control)
        fate = random.random()
        if fate < 0.2:
            stored = runners[-1].stopped()
            crashes += _lose_batch(stored, int(random.integers(1, 4)), *batch)
            runners.append(Runner(STREAM, family("moving"), ZONES))
            runners[-1].resume(stored)
        runners[-1].batch(*batch)
        if fate > 0.8:
            stored = runners[-1].stopped()
            runners.append(Runner(STREAM, family("moving"), ZONES))
            runners[-1].resume(stored)
            crashes += 1
        control, tick = [], tick + length
    runners[-1].batch(None, [End()])
    return {name: _rows(runners, name) for name in QUERIES}, crashes


def _rows(runners: list[Runner], name: str) -> list[dict[str, Any]]:
    kind = family("moving")
    table, shown = kind.shown(STREAM, QUERIES[name].to_json())
    return [
        row
        for runner in runners
        for batch in runner.tables[table].values()
        for row in own_rows(batch, kind.table(table), name, shown).to_pylist()
    ]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.slow
def test_the_assembled_answer_is_right_at_every_tick(seed: int) -> None:
    reports, positions = _walk(seed)
    found, crashes = _run(seed, [list(reported) for reported in reports])
    assert crashes > 50
    members: dict[str, set[str]] = {name: set() for name in ("near", "five", "own")}
    values: dict[str, tuple[Any, Any]] = {"count": (None, None), "east": (None, None)}
    due = {name: list(reversed(rows)) for name, rows in found.items()}
    for tick in range(TICKS):
        wanted = _answers(positions[tick])
        for name, now in members.items():
            while due[name] and due[name][-1]["at"] == tick:
                row = due[name].pop()
                if row["op"] == "+":
                    assert row["object"] not in now, (tick, name, row)
                    now.add(row["object"])
                else:
                    now.remove(row["object"])
                assert row.get("complete", True)
            assert now == wanted[name], (tick, name)
        for name in values:
            while due[name] and due[name][-1]["at"] == tick:
                row = due[name].pop()
                values[name] = (row["value"], row["object"])
            assert values[name] == wanted[name], (tick, name)
    assert not any(due.values())  # nothing at another tick, nothing out of order
