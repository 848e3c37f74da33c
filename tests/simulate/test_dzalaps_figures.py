"""The findings of section 6, on small data."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from anabranch.cli.simulate_dzalaps import dzalaps
from anabranch.families.nearest import interest
from anabranch.families.nearest.space import CellGrid
from anabranch.model.errors import JobError
from anabranch.simulate.dzalaps.experiments import Figure, Laboratory, Scale
from anabranch.simulate.dzalaps.network import PeerNetwork
from anabranch.simulate.dzalaps.workload import clustered, recorded, uniform

pytestmark = pytest.mark.slow

#: Mergers unmark cells after 32 batches, so the warm-up is longer than that.
SMALL = Scale(2000, 10_000, 4000, 250, 40, 32, 250, ks=(1, 9, 27), networks=(8, 32, 128))


@pytest.fixture(scope="module")
def laboratory() -> Laboratory:
    return Laboratory(SMALL, progress=lambda line: None)


def test_about_one_notify_owner_message_per_item() -> None:
    """Section 6.1: k = 81, 400 queries, 40,000 items per window."""
    work = uniform(60_000, 400, seed=1)
    net = PeerNetwork(work.items, CellGrid(((0.0, 1.0),) * 4, 12))
    net.activate(work.activations(81, 40_000, "PA", 1e-3))
    net.run(50_000, 2500)
    before = net.counts[interest.NOTIFY_OWNER]
    net.run(60_000, 2500)
    assert 0.5 <= (net.counts[interest.NOTIFY_OWNER] - before) / 10_000 <= 2


def test_owner_messages_do_not_depend_on_data_or_method(laboratory: Laboratory) -> None:
    series = laboratory.figure(8).series
    for k in SMALL.ks:
        values = [line[k] for line in series.values()]
        assert max(values) <= 1.5 * min(values)
    assert all(line[27] > line[9] > line[1] for line in series.values())


def test_pa_needs_fewer_messages(laboratory: Laboratory) -> None:
    """Up to about six times fewer in the paper."""
    every = laboratory.figure(11).series
    for data in ("uniform", "clustered"):
        ratios = [every[f"{data} RAPF"][k] / every[f"{data} PA"][k] for k in SMALL.ks]
        assert min(ratios) > 1
        assert 2 <= max(ratios) <= 10
    for number in (9, 10):
        series = laboratory.figure(number).series
        assert sum(series["uniform PA"].values()) < sum(series["uniform RAPF"].values())


def test_a_central_processor_needs_fewer_messages(laboratory: Laboratory) -> None:
    assert all(y > 0 for line in laboratory.figure(12).series.values() for y in line.values())


def test_rapf_does_not_depend_on_the_window_and_pa_gains_from_it(laboratory: Laboratory) -> None:
    series = laboratory.figure(13).series
    rapf, pa = list(series["uniform RAPF"].values()), list(series["uniform PA"].values())
    assert max(rapf) <= 1.25 * min(rapf)
    assert pa == sorted(pa, reverse=True)
    assert pa[0] > 1.5 * pa[-1]


def test_messages_grow_with_the_dimensions(laboratory: Laboratory) -> None:
    for line in laboratory.figure(14).series.values():
        assert line[2] < line[4] < line[8]


def growths(figure: Figure, name: str) -> list[tuple[float, float]]:
    """(times as large, times as many messages) from each size to the next."""
    line = list(figure.series[name].items())
    return [(b[0] / a[0], b[1] / a[1]) for a, b in pairwise(line)]


def test_growth_with_queries_and_peers_is_sub_linear(laboratory: Laboratory) -> None:
    for number in (15, 16):
        figure = laboratory.figure(number)
        for method in ("PA", "RAPF"):
            assert all(1 < more < larger for larger, more in growths(figure, f"{method} all"))
    peers = list(laboratory.figure(16).series["PA all"].values())
    assert peers[2] - peers[1] <= 1.3 * (peers[1] - peers[0]), "logarithmic: the same step for each fourfold"


def test_a_tenth_of_the_peers_fails_departs_and_joins(laboratory: Laboratory) -> None:
    outcome = laboratory.churn()
    assert outcome["peers that failed"] == 3
    assert outcome["rows of results"] > 1000
    assert [outcome[name] for name in ("queries lost", "rows lost", "rows too many")] == [0, 0, 0]


def test_workloads_lie_in_the_space_and_recorded_ones_skip_what_is_missing(tmp_path: Path) -> None:
    for work in (uniform(500, 5), clustered(500, 5)):
        assert ((work.items >= 0) & (work.items <= 1)).all()
        assert ((work.queries >= 0) & (work.queries <= 1)).all()
    file = tmp_path / "sensors.parquet"
    pq.write_table(pa.table({"a": [1.0, None, 3.0, 5.0], "b": [1.0, 2.0, float("nan"), 7.0]}), file)
    work = recorded(file, ["a", "b"], 50, 3)
    assert {tuple(np.round(row)) for row in work.items} == {(0.0, 0.0), (1.0, 1.0)}
    with pytest.raises(JobError, match="no column 'c'; it has: a, b"):
        recorded(file, ["a", "c"], 50, 3)


def test_the_command_writes_tables_plots_and_json(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(dzalaps)
    options = ["--figures", "16", "--items", "500", "--window", "500", "--queries", "20", "--peers", "8"]
    done = CliRunner().invoke(app, [*options, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "figure 16: messages per item" in done.stdout
    assert (tmp_path / "dzalaps-figure-16.png").stat().st_size > 1000
    written = json.loads((tmp_path / "dzalaps.json").read_text())
    assert list(written["figures"][0]["series"]["PA all"]) == ["16", "64", "256", "1024"]
    assert written["churn"]["rows lost"] == 0


def test_unknown_figures_are_refused() -> None:
    app = typer.Typer()
    app.command()(dzalaps)
    for text, said in (("7", "no figure 7"), ("all", "names no figures")):
        failed = CliRunner().invoke(app, ["--figures", text])
        assert isinstance(failed.exception, JobError)
        assert said in str(failed.exception)
