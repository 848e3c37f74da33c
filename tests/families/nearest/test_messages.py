"""What is counted is what is sent: merger updates go to the homes of the cells that changed, and every
message between two zones is counted once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from anabranch.chain.packets import Packet
from anabranch.chain.runner import Runner
from anabranch.chain.state import State
from anabranch.families.nearest import interest
from anabranch.families.nearest.rendezvous import Rendezvous
from anabranch.families.nearest.space import load_space
from anabranch.families.registry import family
from anabranch.model.control_log import Activate, Cancel
from anabranch.simulate.dzalaps.workload import Workload, uniform

ZONES = 6
ITEMS, BATCH = 3000, 150

Sent = list[tuple[int, Packet]]  # by zone of rendezvous


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """All that rendezvous tells the homes about its mergers."""
    out: Sent = []
    step = Rendezvous.step

    def recorded(self: Rendezvous, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        told = step(self, zone, state, packets)
        out.extend((zone, packet) for packet in told if interest.is_message(packet, interest.MERGER))
        return told

    monkeypatch.setattr(Rendezvous, "step", recorded)
    return out


def run(work: Workload, **settings: Any) -> tuple[Runner, Counter[str]]:
    runner = Runner(replace(work.stream, **settings), family("nearest"), ZONES)
    control: list[Any] = work.activations(3, 1000, "RAPF", None)
    for first in range(0, ITEMS, BATCH):
        runner.batch(work.rows(first, first + BATCH), control)
        control = [Cancel(0)] if first == 10 * BATCH else []
    counted = Counter[str]()
    for note in runner.notes:
        counted.update(note["messages"])
    return runner, counted


def kinds(sent: Sent) -> Counter[str]:
    """The messages to other zones: with cells of interest, or with limits alone."""
    wants: dict[tuple[int, int], str] = {}
    out = Counter[str]()
    for zone, packet in sent:
        before, want = wants.get((zone, packet.zone), interest.NONE), packet.facts["want"]
        wants[zone, packet.zone] = want
        update = packet.rows.num_rows > 0 or before != want
        if zone != packet.zone:
            out[interest.MERGER_UPDATE if update else interest.LIMIT_RENEWAL] += 1
    return out


def test_each_message_between_zones_is_counted(sent: Sent) -> None:
    work = uniform(ITEMS, 12, dimensions=2, seed=5)
    _, counted = run(work)
    assert kinds(sent) == {name: counted[name] for name in (interest.MERGER_UPDATE, interest.LIMIT_RENEWAL)}
    assert counted[interest.MERGER_UPDATE] > 0
    assert counted[interest.NOTIFY_RENDEZVOUS] == ITEMS
    assert counted[interest.QUERY_ACTIVATION] == 12
    assert counted[interest.QUERY_CANCELLATION] == 1


def test_a_home_hears_of_its_own_cells_only(sent: Sent) -> None:
    work = uniform(ITEMS, 12, dimensions=2, seed=5)
    runner, _ = run(work)
    space = load_space(runner.state(1, 0), work.stream, ZONES)
    assert space is not None
    zone_of = space.grid(work.stream.position).zone_of
    cells = 0
    for _, packet in sent:
        if packet.rows.num_rows:
            assert set(zone_of[packet.column("cell").to_numpy()]) == {packet.zone}
            cells += packet.rows.num_rows
    assert cells > 0


def test_where_homes_have_any_items_all_of_them_hear(sent: Sent) -> None:
    """Without bounds items have no home of their own, so that every home needs every cell."""
    _, counted = run(uniform(ITEMS, 12, dimensions=2, seed=5), bounds=())
    assert kinds(sent) == {name: counted[name] for name in (interest.MERGER_UPDATE, interest.LIMIT_RENEWAL)}
    told = Counter(home.zone for _, home in sent)
    assert len(set(told.values())) == 1


def test_queries_that_wait_for_the_first_item_are_counted() -> None:
    work = uniform(300, 7, dimensions=2, seed=1)
    runner = Runner(work.stream, family("nearest"), 3)
    activations: list[Activate] = work.activations(2, 100, "RAPF", None)
    runner.batch(None, activations)
    runner.batch(work.rows(0, 300), ())
    counted = sum((Counter(note["messages"]) for note in runner.notes), Counter[str]())
    assert counted[interest.QUERY_ACTIVATION] == 7


def test_one_zone_sends_nothing_to_itself() -> None:
    work = uniform(600, 4, dimensions=2, seed=2)
    runner = Runner(work.stream, family("nearest"), 1)
    runner.batch(work.rows(0, 300), work.activations(2, 100, "RAPF", None))
    runner.batch(work.rows(300, 600), ())
    counted = sum((Counter(note["messages"]) for note in runner.notes), Counter[str]())
    parts = [rows for parts in runner.tables["nearest"].values() for rows in parts]
    pluses = sum(rows.column("op").to_pylist().count("+") for rows in parts)
    assert counted[interest.NOTIFY_OWNER] == pluses > 0
    assert not counted[interest.NOTIFY_INTERESTED] + counted[interest.MERGER_UPDATE]
