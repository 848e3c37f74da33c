"""The paper's findings, on small data: least traffic, no peak at the source, fewest rejections by far."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.model.errors import JobError
from anabranch.planning.optimizer import Bypass, SharingStrategy
from anabranch.simulate.derive import answer
from anabranch.simulate.photons import Photons, generated, recorded
from anabranch.simulate.report import graphs
from anabranch.simulate.scenarios import STREAMS, ScenarioName, scenario
from anabranch.simulate.sharing import Settings, StrategyOutcome, bound, compare, scarce
from anabranch.simulate.windows import StreamSpan
from tests.laws.case import Asked, Case
from tests.oracles.aggregate import aggregate_oracle
from tests.oracles.select import select_oracle

COUNT = 3_000


def photons(count: int) -> list[Photons]:
    return [generated(f"photons{place}", COUNT, seed=place) for place in range(count)]


def total(outcome: StrategyOutcome) -> float:
    assert outcome.measured is not None
    return sum(outcome.measured.traffic.values())


@pytest.mark.parametrize("name", list(ScenarioName))
@pytest.mark.slow
def test_findings(name: ScenarioName) -> None:
    streams = photons(STREAMS[name])
    data, query, sharing = compare(scenario(name, streams), streams, Settings())
    assert data.measured is not None
    assert query.measured is not None
    assert sharing.measured is not None
    assert [one.rejected for one in (data, query, sharing)] == [[], [], []]
    # least traffic: in all, and on the busiest link
    assert total(sharing) < total(query) < total(data)
    busiest = [max(one.measured.traffic.values()) for one in (sharing, query, data) if one.measured]
    assert busiest[0] <= busiest[1] < busiest[2]
    # query shipping has its peak where the stream is registered, sharing has less than half of it
    for site in sharing.optimizer.network.streams.values():
        others = [load for other, load in query.measured.loads.items() if other not in ("SP4", "SP3", site)]
        assert query.measured.loads[site] > 3 * sum(others) / len(others)
        assert sharing.measured.loads[site] < query.measured.loads[site] / 2
    assert sum(sharing.measured.loads.values()) < sum(query.measured.loads.values())
    assert sum(sharing.measured.loads.values()) < sum(data.measured.loads.values())


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("bypass", list(Bypass))
@pytest.mark.slow
def test_fewest_rejections_by_far(seed: int, bypass: Bypass) -> None:
    """The paper: 47 with data shipping, 35 with query shipping, 2 with stream sharing."""
    streams = photons(1)
    outcomes = scarce(scenario(ScenarioName.EXTENDED, streams, 100, seed), streams, Settings(bypass=bypass))
    rejected = {one.strategy: len(one.rejected) for one in outcomes}
    assert rejected[SharingStrategy.STREAM_SHARING] <= 2
    assert min(rejected[SharingStrategy.QUERY_SHIPPING], rejected[SharingStrategy.DATA_SHIPPING]) >= 20


@pytest.mark.parametrize("widen", [False, True])
def test_every_strategy_gives_every_subscriber_his_answer(widen: bool) -> None:
    streams = [generated("photons", 800, seed=5)]
    asked = scenario(ScenarioName.EXTENDED, streams, seed=3)
    rows = streams[0].rows
    span = StreamSpan(rows.column("det_time")[0].as_py(), rows.column("det_time")[-1].as_py())
    outcomes = compare(asked, streams, Settings(widen=widen))
    for question in asked.queries:
        spec, _ = bound(question, streams)
        case = Case(streams[0].stream, rows, (Asked("q", spec.to_json()),))
        right = (select_oracle if spec.to_json()["kind"] == "select" else aggregate_oracle)(case)["q"]
        for outcome in outcomes:
            assert outcome.measured is not None
            node = outcome.optimizer.installed.reads[question.name]
            found = answer(spec, outcome.measured.rows[node], span)
            assert len(found) == len(right)
            for row, wanted in zip(found, right, strict=True):
                assert row == pytest.approx(wanted)


def test_graphs_of_the_papers_example() -> None:
    """Figure 17: queries 2 and 3 are made from query 1, query 4 from query 3."""
    streams = photons(1)
    outcome = compare(scenario(ScenarioName.EXAMPLE, streams), streams, Settings())[2]
    found = graphs(outcome)
    assert found["shareable"] == [["q1", "q2"], ["q1", "q3"], ["q3", "q4"]]
    read = outcome.optimizer.installed.reads
    edges = [(0, read["q1"]), (read["q1"], read["q2"]), (read["q1"], read["q3"]), (read["q3"], read["q4"])]
    assert found["dependencies"] == edges
    assert [node["read_by"] for node in found["nodes"]] == [[], ["q1"], ["q2"], ["q3"], ["q4"]]


def test_estimates_are_near_what_is_measured() -> None:
    """Statistics from the first tenth of the stream say what the rest will bring."""
    streams = [generated("photons", 10_000)]
    outcome = compare(scenario(ScenarioName.EXTENDED, streams), streams, Settings())[2]
    assert outcome.measured is not None
    installed = outcome.optimizer.installed
    assert sum(installed.traffic.values()) == pytest.approx(total(outcome), rel=0.25)
    assert sum(installed.loads.values()) == pytest.approx(sum(outcome.measured.loads.values()), rel=0.25)


def test_recorded_photons(shared_data: Path) -> None:
    streams = [recorded("photons", shared_data / "photons_hess.parquet", 20_000)]
    data, query, sharing = compare(scenario(ScenarioName.EXAMPLE, streams), streams, Settings())
    assert total(sharing) < total(query) < total(data)
    assert sharing.measured is not None
    read = sharing.optimizer.installed.reads
    assert all(sharing.measured.rows[node].num_rows for node in read.values())


def test_photons_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="cannot be read as photons"):
        recorded("photons", tmp_path / "none.parquet", 10)
