"""The findings of PLACE*, section 6, on a small world; and its pieces beside brute force."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from anabranch.cli.simulate_place import place
from anabranch.simulate.place import costs, experiment
from anabranch.simulate.place.costs import PlaceOutcome
from anabranch.simulate.place.experiment import outcomes, slowest, tables
from anabranch.simulate.place.nearest import ALPHA, NearestExperiment, ObjectCells, search_radius
from anabranch.simulate.place.ranges import RangeExperiment
from anabranch.simulate.place.world import PAPER, REPORT_SECONDS, SERVERS, Size, World, server_of

pytestmark = pytest.mark.slow

SMALL = Size(local=1500, roaming=1500, queries=15)


@pytest.fixture(scope="module")
def found() -> list[PlaceOutcome]:
    return list(outcomes(SMALL, 6, shares=(0.01, 0.1), ks=(20, 100)))


def _of(found: list[PlaceOutcome], kind: str) -> tuple[dict[str, float], dict[str, float]]:
    small, large = (one.figures for one in found if one.kind == kind)
    return small, large


def test_aggregates_ship_and_send_far_less(found: list[PlaceOutcome]) -> None:
    objects = _of(found, "objects")[1]
    for kind in ("count", "max"):
        aggregate = _of(found, kind)[1]
        assert aggregate["handoff bytes"] < objects["handoff bytes"] / 5
        assert aggregate["handoff packets"] < objects["handoff packets"] / 2
        assert aggregate["local result packets per second"] < objects["local result packets per second"]


def test_handoff_grows_with_the_range_and_with_k(found: list[PlaceOutcome]) -> None:
    for kind in ("objects", "nearest"):
        small, large = _of(found, kind)
        for name in ("handoff bytes", "handoff packets", "handoff, s"):
            assert large[name] > small[name], (kind, name)
    small, large = _of(found, "objects")
    assert large["handoff bytes"] > 4 * small["handoff bytes"]


def test_every_response_within_a_second(found: list[PlaceOutcome]) -> None:
    assert 0 < slowest(found) < 1
    assert len(list(tables(found))) == 12


def test_the_table_of_participating_servers_is_what_lies_in_the_range() -> None:
    world = World(SMALL)
    ranges = RangeExperiment(world, "objects", 0.04)
    ranges.run(3)
    # the last second's reports wait for the next; go back to the second before
    again = World(SMALL)
    pairs = again.pairs()
    for _ in range(REPORT_SECONDS + 3):
        again.step()
    server = server_of(again.positions)
    for number, (focal, _) in enumerate(pairs.tolist()):
        inside = (np.abs(again.positions - again.positions[focal]) <= 0.1).all(axis=1)
        inside[focal] = False
        assert np.array_equal(ranges.sent_objects[number], np.bincount(server[inside], minlength=SERVERS)), (
            number
        )


def test_search_regions_hold_the_nearest() -> None:
    world = World(SMALL)
    nearest = NearestExperiment(world, 10)
    nearest.run(4)
    for query, (focal, _) in zip(nearest.queries, nearest.pairs, strict=True):
        far = np.hypot(*(world.positions - world.positions[focal]).T)
        far[focal] = np.inf
        held = set(query.objects.tolist())
        assert set(np.argsort(far)[:10].tolist()) <= held
        assert far[list(held)].max() <= query.radius
    assert nearest.outcome.enough > 0.5


def test_circles() -> None:
    places = np.random.default_rng(1).uniform(0, 1, (500, 2))
    for centre, radius in (((0.5, 0.5), 0.2), ((0.0, 1.0), 0.1), ((0.9, 0.1), 2.0), ((0.3, 0.3), 0.0)):
        near, far = ObjectCells(places).within(np.array(centre), radius)
        wanted = np.hypot(*(places - centre).T)
        assert sorted(near.tolist()) == np.flatnonzero(wanted <= radius).tolist()
        assert np.array_equal(np.sort(far), np.sort(wanted[wanted <= radius]))


def test_search_radius_is_table_3() -> None:
    far = np.arange(1.0, 101.0)
    assert search_radius(5.0, far[:0], 10, 7.0) == 7.0
    assert search_radius(0.1, far[:5], 20, 0.0) == (1 + ALPHA) * 0.1 * math.sqrt(20 / 5)
    assert search_radius(1.0, far[:5], 20, 0.0) == math.sqrt(2)
    assert search_radius(100.0, far, 10, 0.0) == (1 + ALPHA) * 10.0
    assert search_radius(11.0, far[:11], 10, 0.0) == 11.0


def test_packets_of_a_pair_of_servers() -> None:
    size = np.zeros((SERVERS, SERVERS))
    size[0, 0], size[0, 1], size[2, 1], size[3, 4] = 5000, 1, 1024, 1025
    assert costs.packets(size) == 1 + 1 + 2
    assert costs.handoff(3, 2048).packets == 1 + 8 + 2


def test_the_papers_size() -> None:
    assert PAPER.objects == 500_000
    world = World(PAPER.scaled(0.01))
    first = world.positions.copy()
    for _ in range(3 * REPORT_SECONDS):
        world.step()
    local = slice(world.size.roaming, None)
    assert np.array_equal(server_of(world.positions[local]), server_of(first[local]))
    moved = server_of(world.positions) != server_of(first)
    assert 0 < np.count_nonzero(moved) < world.size.roaming / 5
    drawn = server_of(world.positions[world.pairs()[:, 0]])
    assert np.array_equal(drawn, np.repeat(np.arange(SERVERS), world.size.queries))


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "SHARES", (0.05,))
    monkeypatch.setattr(experiment, "NEIGHBOURS", (10, 600))  # more than there are objects
    app = typer.Typer()
    app.command()(place)
    done = CliRunner().invoke(app, ["--scale", "0.001", "--seconds", "2", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "figure 13 (b)" in done.output
    assert len(list(tmp_path.glob("figure-*.png"))) == 6
    assert (tmp_path / "place.json").is_file()
