"""Search regions of queries for nearest objects: zones get the objects in them alone, a batch for which they
were too small is answered a batch later, and no row changes.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.chain.runner import Runner
from anabranch.families.moving.kernels.arrays import Metric, new_queries
from anabranch.families.moving.kernels.object_names import ObjectNames
from anabranch.families.moving.kernels.search_circles import (
    ALPHA,
    adjust_circles,
    enlarge_circles,
    in_raster,
    reset_needs,
    update_slack,
)
from anabranch.families.moving.kernels.shapes import distance
from anabranch.families.moving.nearest_server import (
    EVERYTHING,
    LATE,
    NOTHING,
    raster_arrays,
    raster_from,
    raster_of,
)
from anabranch.families.moving.query_plans import ConditionBits
from anabranch.families.moving.regional_server import RegionalServer
from anabranch.families.moving.spec import KNearest, Moving
from anabranch.families.registry import family
from anabranch.model.control_log import End
from anabranch.model.stream import Stream
from tests.drawn import examples
from tests.families.moving.runs import GLOBE, PLANE, crowd, rows_of
from tests.laws.case import Asked, Case, run_local
from tests.laws.draw_moving import nearest_cases
from tests.oracles.moving import moving_oracle

FLAT, ROUND = Metric(False, 0.0), Metric(True, 6371.0)


class Watched:
    """Runs a case in batches of `every`, and counts what homes send for nearest objects and which batches
    were late.
    """

    def __init__(self, case: Case, zones: int, every: int) -> None:
        self.rows: Counter[str] = Counter()
        self.late = 0
        runner = self.runner = Runner(case.stream, family("moving"), zones)
        home = runner.stage(1)
        step = home.step

        def counted(zone, state, packets):
            out = step(zone, state, packets)
            for packet in out:
                self.rows[packet.facts.get("what", "")] += packet.rows.num_rows
            return out

        home.step = counted  # type: ignore[method-assign]
        for first in range(0, case.items.num_rows, every):
            runner.batch(case.items.slice(first, every), case.controls() if first == 0 else ())
            self._look()
        runner.batch(None, [End()])
        self._look()
        runner.settle()

    def _look(self) -> None:
        self.late += sum(bool(state.keys(LATE)) for state in self.runner.states.values())

    def held(self) -> list[int]:
        """Objects that each zone keeps for nearest objects."""
        zones = sorted((zone, state) for (_, stage, zone), state in self.runner.states.items() if stage == 2)
        return [
            sum(len((state.get(key) or {})["who"]) for key in state.keys("nearest/objects/"))
            for _, state in zones
        ]


# laws, with shortages


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(
    nearest_cases(),
    st.lists(st.integers(1, 50), max_size=20),
    st.integers(2, 5),
    st.lists(st.integers(0, 20), max_size=4),
)
def test_drawn_cases(case: Case, cuts: list[int], zones: int, stops: list[int]) -> None:
    assert run_local(case, cuts=cuts, zones=zones, stops=stops).results == moving_oracle(case)


@pytest.mark.parametrize(
    ("stream", "jumps"),
    [(PLANE, 0.0), (PLANE, 0.1), (GLOBE, 0.1), (replace(PLANE, expire=1.5), 0.1)],
    ids=["plane", "jumps", "globe", "expire"],
)
@pytest.mark.slow
def test_crowds_are_late_and_right(stream: Stream, jumps: float) -> None:
    case = crowd(3, stream, jumps=jumps)
    watched = Watched(case, 4, 60)
    assert watched.late > 2
    told = moving_oracle(case)
    every = range(0, 1200, 60)
    assert run_local(case, cuts=every, zones=4, stops=range(30)).results == told
    assert run_local(case, cuts=every, zones=4).results == told


def _case(rows: list[tuple[float, str, float, float]], *queries: Asked) -> Case:
    return Case(PLANE, rows_of(PLANE, rows), queries, "moving")


def _asked(k: int, focal: str = "f", until: float | None = None) -> Asked:
    return Asked("q", Moving(KNearest(k), focal).to_json(), None, until)


def _town(x: float, count: int, at: float) -> list[tuple[float, str, float, float]]:
    return [(at, f"{x:g}-{n}", x + 0.1 * n, 0.0) for n in range(count)]


def test_a_focal_object_that_jumps_to_another_town() -> None:
    """Its search region is around the first town, and the objects of the second have been silent since."""
    rows = [*_town(0, 5, 0), *_town(1000, 5, 0), (0.0, "f", 0.0, 1.0), (1.0, "f", 0.0, 1.0)]
    rows += [(2.0, "f", 0.0, 1.0), (3.0, "f", 1000.0, 1.0), (4.0, "f", 1000.0, 1.0), (5.0, "f", 0.0, 1.0)]
    case = _case(rows, _asked(3))
    watched = Watched(case, 3, 1)
    assert watched.late
    assert run_local(case, cuts=range(20), zones=3).results == moving_oracle(case)


def test_a_group_that_leaves() -> None:
    rows = [*_town(0, 6, 0), *_town(50, 6, 0), (0.0, "f", 0.0, 0.0), (1.0, "f", 0.0, 0.0)]
    rows += [(2.0 + n / 10, f"0-{n}", 900.0 + n, 0.0) for n in range(6)] + [(4.0, "f", 0.0, 0.0)]
    case = _case(rows, _asked(4))
    assert Watched(case, 2, 7).late
    assert run_local(case, cuts=range(0, 40, 7), zones=2).results == moving_oracle(case)


def test_the_last_batch_is_late_and_its_query_over() -> None:
    """A query that ends within a batch that is late, which is the stream's last."""
    rows = [*_town(0, 4, 0), *_town(70, 4, 0), (0.0, "f", 0.0, 0.0), (1.0, "f", 0.0, 0.0)]
    rows += [(2.0, "f", 70.0, 0.0), (2.5, "f", 71.0, 0.0), (3.0, "x", 70.0, 0.0)]
    for until in (None, 2.0, 2.5, 3.0):
        case = _case(rows, _asked(3, until=until))
        runner = Watched(case, 2, 10)
        assert runner.late
        assert run_local(case, cuts=[10], zones=2, stops=[0, 1, 2, 3]).results == moving_oracle(case)


def test_a_focal_object_that_comes_late() -> None:
    """Nothing is searched before it is there; what was reported since the query began counts."""
    rows = [
        *_town(0, 5, 0),
        (1.0, "a", 3.0, 0.0),
        (2.0, "b", 4.0, 0.0),
        (9.0, "f", 0.0, 0.0),
        (10.0, "a", 0.0, 0.0),
    ]
    case = _case(rows, _asked(3))
    watched = Watched(case, 2, 1)
    assert watched.late
    assert run_local(case, cuts=range(10), zones=2).results == moving_oracle(case)


# what it saves


def test_zones_get_and_hold_what_their_queries_search() -> None:
    """1,000 objects that report 10 times, 4 queries in 4 zones."""
    random = np.random.default_rng(5)
    places = random.uniform(0, 10, (1000, 2))
    rows = []
    for second in range(10):
        places += random.normal(0, 0.02, places.shape)
        rows += [(float(second), f"o{n}", *places[n].tolist()) for n in range(1000)]
    queries = tuple(Asked(f"q{n}", Moving(KNearest(5), f"o{n}").to_json()) for n in range(4))
    case = Case(PLANE, rows_of(PLANE, rows), queries, "moving")
    watched = Watched(case, 4, 1000)
    sent = watched.rows["nearest moves"] + watched.rows["records"]
    assert sent < 1.4 * 4 * 1000  # the first batch is everything; then next to nothing, where it was 40,000
    assert max(watched.held()) < 100
    assert run_local(case, cuts=range(0, 10_000, 1000), zones=4).results == run_local(case).results


def test_nothing_is_kept_when_the_last_query_is_over() -> None:
    case = crowd(2, PLANE)
    end = 12.0
    queries = tuple(replace(asked, until=end, after=None) for asked in case.queries)
    watched = Watched(replace(case, queries=queries), 3, 50)
    for (_, stage, _), state in watched.runner.states.items():
        if stage == 1:
            assert not state.keys("search/")
        elif stage == 2:
            assert not state.keys("nearest/")


# CalcSearchRegion


def _server(metric: Metric, **fields: float) -> RegionalServer:
    """A server with one query for nearest objects, live at (0, 0)."""
    server = RegionalServer(metric, ObjectNames(), ConditionBits())
    server.query_slots.take()
    query = server.queries[0]
    known = {"number": 7, "live": 1, "started": 1, "k": 3, "centre_x": 0.0, "centre_y": 0.0}
    for name, value in (known | fields).items():
        query[name] = value
    return server


def _adjusted(metric: Metric = FLAT, **fields: float) -> tuple[float, float, float]:
    server = _server(metric, **fields)
    reset_needs(metric, server.queries)
    update_slack(server.arrays())
    adjust_circles(metric, server.arrays())
    query = server.queries[0]
    return float(query["centre_x"]), float(query["centre_y"]), float(query["reach"])


def test_surplus_shrinks_it_to_the_answer_and_the_expanding_factor() -> None:
    assert _adjusted(a=2.0, reach=10.0) == (0.0, 0.0, (1 + ALPHA) * 2.0)


def test_it_grows_before_objects_run_short() -> None:
    assert _adjusted(a=2.0, reach=2.05) == (0.0, 0.0, (1 + ALPHA) * 2.0)


def test_with_fewer_than_k_it_is_everything() -> None:
    assert _adjusted(a=math.inf, reach=3.0)[2] == math.inf


def test_it_stays_while_it_fits() -> None:
    assert _adjusted(a=2.0, reach=2.5, x=0.01) == (0.0, 0.0, 2.5)


def test_it_follows_the_focal_object() -> None:
    x, _, reach = _adjusted(a=2.0, reach=2.5, x=0.4)
    assert (x, reach) == (0.4, (1 + ALPHA) * 2.0)


def test_what_a_batch_came_to_need_is_remembered() -> None:
    server = _server(FLAT, a=2.0, reach=4.0)
    reset_needs(FLAT, server.queries)
    server.queries["need"][0] = 3.0  # 1 more than at its start
    for batches in range(3):
        update_slack(server.arrays())
        adjust_circles(FLAT, server.arrays())
        assert server.queries["reach"][0] >= (1 + ALPHA) * (2 + 0.9**batches)
        reset_needs(FLAT, server.queries)


def test_a_batch_that_is_run_again_and_the_one_after_it_have_enough() -> None:
    server = _server(FLAT, a=2.0, reach=2.4, slack=0.5, x=0.3)
    reset_needs(FLAT, server.queries)
    server.queries["need"][0] = 2.9
    enlarge_circles(FLAT, server.queries)
    assert (server.queries["centre_x"][0], server.queries["reach"][0]) == (0.0, 0.3 + (1 + ALPHA) * 2.5)
    server.queries["need"][0] = 9.0
    enlarge_circles(FLAT, server.queries)
    assert server.queries["reach"][0] == 9.0


def test_without_a_focal_point_it_is_nothing_and_before_the_start_everything() -> None:
    assert _adjusted(live=0, reach=3.0)[2] == -math.inf
    assert _adjusted(live=0, started=0, reach=3.0)[2] == math.inf


def test_half_the_globe_is_everything() -> None:
    assert _adjusted(ROUND, a=18_000.0, reach=30_000.0)[2] == math.inf


# rasters

_DEGREES = st.floats(-179.9, 179.9), st.floats(-90, 90)
_PLANE = st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)


@settings(max_examples=examples(200))
@given(st.data(), st.booleans())
def test_a_raster_holds_every_point_of_its_circles(data: st.DataObject, globe: bool) -> None:
    metric, axes = (ROUND, _DEGREES) if globe else (FLAT, _PLANE)
    circles = data.draw(st.lists(st.tuples(*axes, st.floats(0, 3000)), min_size=1, max_size=4))
    queries = new_queries(64)
    for place, (x, y, reach) in enumerate(circles):
        queries["number"][place] = place
        queries["centre_x"][place], queries["centre_y"][place], queries["reach"][place] = x, y, reach
    raster = raster_of(metric, queries)
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    spread = 40.0 if globe else 4000.0
    points = [(x + dx, y + dy) for x, y, _ in circles for dx, dy in random.normal(0, spread, (50, 2))]
    points += [(x, y) for x, y, _ in circles]
    xs, ys = np.array(points).T.copy()
    if globe:
        ys = np.clip(ys, -90, 90)
    found = in_raster(metric, raster, xs, ys)
    again = raster_from(raster_arrays(raster))
    assert (in_raster(metric, again, xs, ys) == found).all()
    for x, y, is_in in zip(xs, ys, found, strict=True):
        near = [distance(metric, x, y, c_x, c_y) <= reach for c_x, c_y, reach in circles]
        assert is_in or not any(near)


def test_everything_and_nothing() -> None:
    queries = new_queries(64)
    assert raster_of(FLAT, queries) is NOTHING
    queries["number"][0] = 0
    assert raster_of(FLAT, queries) is EVERYTHING
    queries["reach"][0] = -math.inf
    assert raster_of(FLAT, queries) is NOTHING
    xs, ys = np.array([0.0, -1e300, math.nan]), np.array([0.0, 1e300, math.nan])
    assert in_raster(FLAT, EVERYTHING, xs, ys).tolist() == [True, True, False]
    assert not in_raster(FLAT, NOTHING, xs, ys).any()
