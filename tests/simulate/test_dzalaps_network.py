"""The network of peers beside the stages: the same reports and the same messages, whatever peers do."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from anabranch.chain.runner import Runner
from anabranch.families.nearest import interest
from anabranch.families.nearest.kernels.arrays import PLUS
from anabranch.families.nearest.space import CellGrid
from anabranch.families.registry import family
from anabranch.simulate.dzalaps.network import TAKE_OVER, PeerNetwork
from anabranch.simulate.dzalaps.workload import Workload, uniform

ITEMS, BATCH, WINDOW, K = 6000, 250, 2000, 4

Reports = set[tuple[str, str, int, int]]


def network(work: Workload, peers: int, method: str = "RAPF", replicate: bool = False) -> PeerNetwork:
    """Peers that have the zones of the stages, and all queries."""
    net = PeerNetwork(work.items, CellGrid.over(work.stream.bounds), replicate=replicate)
    while len(net.can.boxes) < peers:
        largest = max(range(len(net.can.boxes)), key=lambda zone: (net.can.boxes[zone].cells, -zone))
        split = net.can.join(int(np.flatnonzero(net.can.zone_of == largest)[0]))
        assert split is not None
        net.zones.append(net.zones[0].emptied())
    net.activate(work.activations(K, WINDOW, method, 1e-3 if method == "PA" else None))
    return net


def reports(net: PeerNetwork) -> Reports:
    out = set()
    for part in net.reports:
        for query, op, at, item in zip(*(column.tolist() for column in part), strict=True):
            out.add((f"q{query}", "+" if op == PLUS else "-", at, item))
    return out


def stages(work: Workload, zones: int, method: str) -> tuple[Reports, list[Counter[str]]]:
    """What the stages report, and their counters, batch by batch."""
    runner = Runner(work.stream, family("nearest"), zones)
    counted = []
    for first in range(0, len(work.items), BATCH):
        control = work.activations(K, WINDOW, method, 1e-3 if method == "PA" else None)
        runner.batch(work.rows(first, first + BATCH), control if first == 0 else ())
        counted.append(Counter[str]())
        for note in runner.notes:
            counted[-1].update(note["messages"])
        runner.notes.clear()
    found = set()
    for parts in runner.tables["nearest"].values():
        for rows in parts:
            columns = (rows.column(name).to_pylist() for name in ("subscription", "op", "at", "id"))
            found.update(zip(*columns, strict=True))
    return found, counted


@pytest.mark.parametrize("method", ["RAPF", "PA", "RA"])
def test_the_messages_are_those_of_the_stages(method: str) -> None:
    """Batch after batch, from the second on: in the first the stages do not know the space yet."""
    work = uniform(ITEMS, 30, dimensions=2, seed=3)
    expected, counted = stages(work, 6, method)
    net = network(work, 6, method)
    for index, counters in enumerate(counted):
        before = net.counts.copy()
        net.batch(BATCH)
        if index:
            now = net.counts - before
            names = (*interest.COUNTERS, interest.LIMIT_RENEWAL)
            assert {name: now[name] for name in names} == {name: counters[name] for name in names}
    assert reports(net) == expected
    assert counted[-1][interest.NOTIFY_INTERESTED] > 0


def test_joins_and_departures_change_no_report() -> None:
    work = uniform(ITEMS, 30, dimensions=2, seed=4)
    still, moving = network(work, 8), network(work, 8)
    rng = np.random.default_rng(1)
    for _ in range(ITEMS // BATCH):
        still.batch(BATCH)
        moving.batch(BATCH)
        moving.join()
        moving.depart(int(rng.choice(sorted(moving.can.peers))))
        moving.join()
    assert len(moving.can.peers) > 20
    assert moving.active == still.active
    assert reports(moving) == reports(still)


@pytest.mark.slow
def test_with_copies_failures_lose_nothing_and_without_them_they_do() -> None:
    work = uniform(ITEMS, 40, dimensions=2, seed=5)
    still = network(work, 32)
    safe, unsafe = network(work, 32, replicate=True), network(work, 32)
    rng = np.random.default_rng(2)
    for count in range(ITEMS // BATCH):
        for net in (still, safe, unsafe):
            net.batch(BATCH)
        if count >= 4 and count % 5 == 0:  # one after the other, a tenth of them
            victim = int(rng.choice(sorted(safe.can.peers & unsafe.can.peers)))
            safe.fail(victim)
            unsafe.fail(victim)
    assert safe.counts[TAKE_OVER] >= 3
    assert safe.active == still.active
    assert reports(safe) == reports(still)
    assert unsafe.active < still.active
    assert reports(unsafe) != reports(still)


def test_a_cancelled_query_has_no_more_results_and_its_cells_are_unmarked() -> None:
    work = uniform(4000, 5, dimensions=2, seed=6)
    net = network(work, 16)
    net.run(2000, BATCH)
    for number in range(5):
        net.cancel(number)
    before = len(reports(net))
    net.run(2500, BATCH)
    assert net.counts[interest.QUERY_CANCELLATION] == 5
    assert not net.homes.mergers
    interested = net.counts[interest.NOTIFY_INTERESTED]
    net.run(4000, BATCH)
    assert len(reports(net)) == before
    assert net.counts[interest.NOTIFY_INTERESTED] == interested
