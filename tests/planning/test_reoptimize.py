"""A fresh plan for all queries at once: never dearer, nobody lost, and the same rows for everybody."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.model.control_log import Activate, Cancel, Control
from anabranch.planning.cost import CostModel
from anabranch.planning.network import Link, Network, Site, pair
from anabranch.planning.optimizer import Optimizer
from anabranch.planning.properties import properties_of, source_properties
from anabranch.planning.reoptimize import changes, fresh, replayed, running, total
from anabranch.planning.statistics import Statistics
from anabranch.simulate.execute import execute
from anabranch.simulate.photons import Photons, generated
from anabranch.simulate.scenarios import ScenarioName, scenario
from anabranch.simulate.sharing import Settings, SharingStrategy, register_all
from tests.drawn import examples
from tests.planning.draw import SCHEMA, STREAM, Spec, related

SITES = ("A", "B", "C", "D")
LINKS = (("A", "B"), ("B", "C"), ("C", "D"), ("A", "D"))

relaxed = settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def rows(count: int = 24) -> pa.RecordBatch:
    values = [
        {"t": place // 2, "a": place % 5, "b": (3 * place) % 4, "x": place / 4 % 3, "s": "pq"[place % 2]}
        for place in range(count)
    ]
    return pa.RecordBatch.from_pylist(values, SCHEMA)


def network() -> Network:
    ends = [pair(*both) for both in LINKS]
    return Network(
        {name: Site(name) for name in SITES},
        {both: Link(both, 1e6) for both in ends},
        {STREAM.name: "A"},
    )


@relaxed
@given(specs=related(6), data=st.data())
def test_never_dearer_and_the_same_rows(specs: list[Spec], data: st.DataObject) -> None:
    known = Statistics(STREAM)
    known.observe(rows(), 1.0)
    widen = data.draw(st.booleans(), label="widen")
    optimizer = Optimizer(
        network(), CostModel({STREAM.name: known}), [source_properties(STREAM)], widen=widen, admit=True
    )
    for number, spec in enumerate(specs):
        site = data.draw(st.sampled_from(SITES))
        optimizer.register(f"q{number}", properties_of(spec, STREAM), site)
    for number in data.draw(st.sets(st.integers(0, len(specs) - 1)), label="cancelled"):
        optimizer.cancel(f"q{number}")
    best = fresh(optimizer)
    assert total(best.installed) <= total(optimizer.installed)
    wanted = {one.name: (one.properties, one.site) for one in running(optimizer.installed)}
    assert {one.name: (one.properties, one.site) for one in running(best.installed)} == wanted
    photons = {STREAM.name: Photons(STREAM, rows(), (0.0, 0.0))}
    before, after = (execute(one.installed, photons, 1.0) for one in (optimizer, best))
    for name, number in optimizer.installed.reads.items():
        # equal rows in equal order: wherever a subscriber is handed over, nothing is lost or doubled
        assert after.rows[best.installed.reads[name]].to_pylist() == before.rows[number].to_pylist()
    assert bool(changes(optimizer.installed, best.installed)) <= (best is not optimizer)


def test_what_came_first_can_be_made_from_what_came_later() -> None:
    """A narrow query, and then wide ones at its site: afresh, it is made from one of them."""
    streams = [generated("photons", 3_000)]
    run = scenario(ScenarioName.EXTENDED, streams)
    outcome = register_all(SharingStrategy.STREAM_SHARING, run.network, run.queries, streams, Settings())
    best = fresh(outcome.optimizer)
    assert total(best.installed) < total(outcome.optimizer.installed)
    assert changes(outcome.optimizer.installed, best.installed)
    assert total(fresh(best).installed) == pytest.approx(total(best.installed), rel=0.2)


@relaxed
@given(specs=related(8), data=st.data())
def test_the_engine_is_at_its_fresh_plan(specs: list[Spec], data: st.DataObject) -> None:
    """Whatever came and went in whatever order, a condition hangs below the tightest that contains it."""
    log: list[Control] = [Activate(number, f"q{number}", spec.to_json()) for number, spec in enumerate(specs)]
    for number in data.draw(st.sets(st.integers(0, len(specs) - 1)), label="cancelled"):
        begun = log.index(Activate(number, f"q{number}", specs[number].to_json()))
        log.insert(data.draw(st.integers(begun + 1, len(log))), Cancel(number))
    plans = replayed(STREAM, log)
    assert plans.running == plans.fresh
    assert not plans.moved
