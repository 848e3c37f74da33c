"""The optimizer: the cheapest plan, books that balance, and subscribers who notice nothing of each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from anabranch.families.filters.spec import Output, Select
from anabranch.model.errors import QueryError
from anabranch.planning.cost import CostModel
from anabranch.planning.index import StreamIndex
from anabranch.planning.installed import Added, PlanStep, Rejected
from anabranch.planning.matching import shareable
from anabranch.planning.network import Link, Network, Site, pair
from anabranch.planning.optimizer import Bypass, Optimizer, SharingStrategy
from anabranch.planning.properties import Properties, source_properties
from anabranch.planning.statistics import Statistics
from anabranch.predicates.terms import And, Constant, Op
from anabranch.simulate.derive import answer
from anabranch.simulate.execute import execute
from anabranch.simulate.photons import Photons
from tests.planning.draw import STREAM, Spec, asked, clock_of, items, oracle, related

SITES = ("A", "B", "C", "D")
RING = (("A", "B"), ("B", "C"), ("C", "D"), ("A", "D"))


def statistics() -> Statistics:
    """100 items a second; a, b and x are even over 0..4."""
    random = np.random.default_rng(3)
    count = 2_000
    rows = pa.record_batch(
        {
            "t": np.arange(count),
            "a": random.integers(0, 5, count),
            "b": random.integers(0, 5, count),
            "x": random.uniform(0, 4, count),
            "s": pa.array(random.choice(["", "p", "q"], count).tolist()),
        }
    )
    known = Statistics(STREAM)
    known.observe(rows, count / 100)
    return known


KNOWN = statistics()


def ring(bandwidth: float = 1e6, **capacity: float) -> Network:
    sites = {name: Site(name, capacity.get(name, 1.0)) for name in SITES}
    links = {pair(*ends): Link(pair(*ends), bandwidth) for ends in RING}
    return Network(sites, links, {"drawn": "A"})


def optimizer(network: Network | None = None, **settings: Any) -> Optimizer:
    return Optimizer(network or ring(), CostModel({"drawn": KNOWN}), [source_properties(STREAM)], **settings)


def select(low: int, high: int, *columns: str) -> Select:
    within = And((Constant("a", Op.GE, low), Constant("a", Op.LE, high)))
    return Select(tuple(Output(column, column) for column in columns or ("a", "x")), within)


# --- laws ---


@given(st.lists(related(3), min_size=1, max_size=3), related(2))
def test_the_index_leaves_no_match_out(groups: list[list[Spec]], queries: list[Spec]) -> None:
    index, there = StreamIndex(), list[Properties]()
    for stream in (asked(spec) for group in groups for spec in group):
        if stream not in there:
            index.add(stream)
            there.append(stream)
    for stream in there[::3]:
        index.remove(stream)
    there = [stream for place, stream in enumerate(there) if place % 3]
    for query in [*map(asked, queries), *there]:
        assert index.matching(query) == [stream for stream in there if shareable(stream, query)]


@st.composite
def lives(draw: st.DrawFn) -> list[tuple[Spec, str, bool]]:
    """Queries, the sites where they are wanted, and whether each is cancelled later."""
    specs = draw(related(draw(st.integers(1, 7))))
    return [(spec, draw(st.sampled_from(SITES)), draw(st.booleans())) for spec in specs]


@given(lives(), items(), st.sampled_from(SharingStrategy), st.sampled_from(Bypass), st.booleans())
def test_what_runs_is_right_and_no_more_than_needed(
    queries: list[tuple[Spec, str, bool]],
    rows: pa.RecordBatch,
    strategy: SharingStrategy,
    bypass: Bypass,
    widen: bool,
) -> None:
    planner = optimizer(strategy=strategy, bypass=bypass, widen=widen)
    for place, (spec, site, _) in enumerate(queries):
        plan = planner.register(f"q{place}", asked(spec), site)
        event("widened" if plan.widening else "as it is")
    _check(planner, {f"q{place}": (spec, site) for place, (spec, site, _) in enumerate(queries)}, rows)
    for place, (_, _, leaves) in enumerate(queries):
        if leaves:
            planner.cancel(f"q{place}")
    left = {f"q{place}": (spec, site) for place, (spec, site, leaves) in enumerate(queries) if not leaves}
    _check(planner, left, rows)
    for name in left:
        planner.cancel(name)
    installed = planner.installed
    assert list(installed.nodes) == list(installed.sources.values())
    assert [*installed.loads.values(), *installed.traffic.values()] == pytest.approx([0] * 8, abs=1e-9)


RANGES = st.builds(
    select, st.integers(0, 4), st.integers(0, 4), st.sampled_from(["a", "b"]), st.sampled_from(["x", "s"])
).filter(lambda spec: spec.condition.terms[0].value <= spec.condition.terms[1].value)


@given(st.lists(st.tuples(RANGES, st.sampled_from("CD"), st.booleans()), min_size=2, max_size=7), items())
def test_who_reads_a_widened_stream_notices_nothing(
    queries: list[tuple[Spec, str, bool]], rows: pa.RecordBatch
) -> None:
    """Traffic alone counts here, so that streams are loosened often."""
    planner = Optimizer(
        ring(), CostModel({"drawn": KNOWN}, gamma=1.0), [source_properties(STREAM)], widen=True
    )
    widened, there = False, dict[str, tuple[Spec, str]]()
    for place, (spec, site, leaves) in enumerate(queries):
        widened |= planner.register(f"q{place}", asked(spec), site).widening is not None
        there[f"q{place}"] = (spec, site)
        if leaves and place:
            planner.cancel(f"q{place - 1}")
            there.pop(f"q{place - 1}")
        _check(planner, there, rows)
    event("widened" if widened else "as it is")


def _check(planner: Optimizer, wanted: dict[str, tuple[Spec, str]], rows: pa.RecordBatch) -> None:
    installed = planner.installed
    added = Added(installed.network, installed.model)
    for node in installed.nodes.values():
        if node.parent is None:
            continue
        parent = installed.nodes[node.parent]
        assert shareable(parent.properties, node.properties)
        assert node.path[0] in parent.path
        ends = {installed.nodes[child].path[0] for child in node.children}
        assert node.subscribers or node.path[-1] in ends, "nobody needs it so far"
        model = installed.model
        added.charge(
            node.path,
            model.work(node.properties, parent.properties),
            model.frequency(node.properties),
            model.traffic(node.properties),
        )
    assert dict.fromkeys(SITES, 0.0) | added.loads == pytest.approx(installed.loads)
    assert dict.fromkeys(installed.network.links, 0.0) | added.traffic == pytest.approx(installed.traffic)
    assert installed.reads.keys() == wanted.keys()
    done = execute(installed, {"drawn": Photons(STREAM, rows, (0, 0))}, 1.0)
    for name, (spec, site) in wanted.items():
        node = installed.nodes[installed.reads[name]]
        assert node.path[-1] == site
        assert answer(spec, done.rows[node.number], clock_of(rows)) == oracle(spec, rows)


@given(lives())
def test_no_plan_is_cheaper(queries: list[tuple[Spec, str, bool]]) -> None:
    """Against every stream at every site that carries it, evaluated anywhere on the shortest way."""
    planner = optimizer(bypass=Bypass.NONE)
    for place, (spec, site, _) in enumerate(queries):
        wanted = asked(spec)
        plan = planner.plan("new", wanted, site)
        assert plan.cost <= min(_every_cost(planner, wanted, site)) + 1e-12
        planner.register(f"q{place}", wanted, site)


def _every_cost(planner: Optimizer, wanted: Properties, site: str) -> list[float]:
    out = []
    for node in planner.installed.nodes.values():
        if not shareable(node.properties, wanted):
            continue
        for tap in node.path:
            way = planner.network.way(tap, site)
            assert way is not None
            for place in range(len(way)):
                steps = (PlanStep(node.properties, way[: place + 1]), PlanStep(wanted, way[place:]))
                out.append(planner._priced(node, steps if place else steps[1:]).cost)
    return out


# --- examples ---


def test_a_contained_query_takes_the_stream_where_it_passes() -> None:
    """Example 4.2: not from the source, but from where the wider stream comes by."""
    planner = optimizer()
    planner.register("wide", asked(select(1, 3)), "C")  # A -> B -> C
    plan = planner.register("narrow", asked(select(2, 3)), "B")
    assert [step.path for step in plan.steps] == [("B",)]
    assert plan.traffic == {}
    assert planner.visited == 3  # D carries nothing and is not looked at


def test_an_equal_query_at_the_same_site_costs_nothing() -> None:
    planner = optimizer()
    planner.register("one", asked(select(1, 3)), "C")
    plan = planner.register("other", asked(select(1, 3)), "C")
    assert (plan.steps, plan.cost) == ((), 0)
    planner.cancel("one")
    assert planner.installed.reads == {"other": plan.parent}


def test_cancelling_frees_the_way_that_nobody_needs() -> None:
    planner = optimizer()
    planner.register("wide", asked(select(1, 3)), "C")
    planner.register("narrow", asked(select(2, 3)), "B")
    assert planner.installed.traffic["B", "C"] > 0
    planner.cancel("wide")
    assert planner.installed.traffic["B", "C"] == 0
    assert planner.installed.traffic["A", "B"] > 0


def test_the_dependency_graph_lies_within_shareability() -> None:
    planner = optimizer()
    for name, spec in (("wide", select(1, 3)), ("narrow", select(2, 3)), ("other", select(4, 4))):
        planner.register(name, asked(spec), "B")
    nodes, read = planner.installed.nodes, planner.installed.reads
    edges = planner.installed.dependencies()
    assert all(shareable(nodes[a].properties, nodes[b].properties) for a, b in edges)
    assert edges == {(0, read["wide"]), (read["wide"], read["narrow"]), (0, read["other"])}


def test_costs_follow_the_statistics() -> None:
    known = statistics()
    planner = Optimizer(ring(), CostModel({"drawn": known}), [source_properties(STREAM)])
    planner.register("one", asked(select(1, 3)), "C")
    before = dict(planner.installed.traffic)
    known.rate *= 2
    planner.installed.refresh()
    assert planner.installed.traffic == pytest.approx({ends: 2 * old for ends, old in before.items()})
    planner.cancel("one")
    assert sum(planner.installed.traffic.values()) == pytest.approx(0, abs=1e-9)


def test_strategies() -> None:
    paths = {}
    for strategy in SharingStrategy:
        planner = optimizer(strategy=strategy)
        planner.register("one", asked(select(1, 2)), "B")
        plan = planner.register("two", asked(select(1, 2)), "B")
        paths[strategy] = [step.path for step in plan.steps]
    assert paths[SharingStrategy.DATA_SHIPPING] == [("A", "B"), ("B",)]
    assert paths[SharingStrategy.QUERY_SHIPPING] == [("A", "B")]
    assert paths[SharingStrategy.STREAM_SHARING] == []


@pytest.mark.parametrize("bypass", [Bypass.REDUCED, Bypass.WEIGHTED])
def test_a_full_link_is_gone_around(bypass: Bypass) -> None:
    """The way A - B - C has room for one stream; the second goes A - D - C."""
    plain = CostModel({"drawn": KNOWN})
    one = plain.traffic(asked(select(0, 1)))
    planner = optimizer(ring(bandwidth=1.5 * one), strategy=SharingStrategy.QUERY_SHIPPING, bypass=bypass)
    ways = [planner.register(f"q{n}", asked(select(n, n + 1)), "C").steps[0].path for n in (0, 1)]
    assert ways == [("A", "B", "C"), ("A", "D", "C")]
    with pytest.raises(Rejected, match=r"subscription q2: no plan without overload; .*link A - "):
        planner.register("q2", asked(select(2, 3)), "C")
    assert "q2" not in planner.installed.reads
    assert max(planner.installed.traffic.values()) <= 1.5 * one


def test_a_full_site_is_gone_around_or_the_query_rejected() -> None:
    planner = optimizer(ring(B=1e-9))
    assert planner.register("around", asked(select(1, 3)), "C").steps[0].path == ("A", "D", "C")
    with pytest.raises(Rejected, match="overload site B"):
        planner.register("there", asked(select(0, 1)), "B")
    assert optimizer(ring(B=1e-9), admit=True).register("there", asked(select(0, 1)), "B").full == ("B",)


def test_refused() -> None:
    planner = optimizer()
    planner.register("one", asked(select(1, 3)), "C")
    with pytest.raises(QueryError, match="'one' is registered already"):
        planner.register("one", asked(select(1, 3)), "C")
    with pytest.raises(QueryError, match="there is no site 'E'"):
        planner.register("two", asked(select(1, 3)), "E")
    with pytest.raises(QueryError, match="there is no subscription 'two'"):
        planner.cancel("two")
    strange = replace(asked(select(1, 3)), columns=frozenset({"a", "zz"}))
    with pytest.raises(QueryError, match="subscription two: stream drawn has no column zz"):
        planner.register("two", strange, "C")
    lonely = Network({"A": Site("A"), "B": Site("B")}, {}, {"drawn": "A"})
    with pytest.raises(QueryError, match="no way from site A to site B"):
        optimizer(lonely).register("one", asked(select(1, 3)), "B")


def test_a_little_loosening_is_cheaper_than_a_second_stream() -> None:
    planner = optimizer(widen=True)
    planner.register("left", asked(select(0, 3)), "C")
    before = sum(planner.installed.traffic.values())
    plan = planner.register("right", asked(select(1, 4)), "C")
    assert plan.widening is not None
    after = sum(planner.installed.traffic.values())
    second = sum(optimizer().register("right", asked(select(1, 4)), "C").traffic.values())
    assert after < before + second
    left = planner.installed.nodes[planner.installed.reads["left"]]
    assert left.properties == asked(select(0, 3))
    planner.cancel("right")
    assert sum(planner.installed.traffic.values()) == pytest.approx(before)
    far = optimizer(widen=True)
    far.register("left", asked(select(0, 0)), "B")
    assert far.register("right", asked(select(4, 4)), "D").widening is None


def test_a_widened_stream_gets_the_columns_it_needs() -> None:
    """`left` carries no `a`, which the filter behind the wider stream needs; `right` wants `x`, too."""
    network, costs = ring(), CostModel({"drawn": KNOWN}, gamma=1.0)
    planner = Optimizer(network, costs, [source_properties(STREAM)], widen=True)
    planner.register("left", asked(select(0, 3, "b")), "C")
    plan = planner.register("right", asked(select(1, 4, "a", "b", "x")), "C")
    assert plan.widening is not None
    assert plan.widening.properties.columns == {"a", "b", "x"}
