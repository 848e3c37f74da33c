"""The CAN overlay: whatever joins, leaves or fails, zones partition the torus and messages arrive."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.families.nearest.space import CellGrid, zone_boxes, zones_of_cells
from anabranch.simulate.dzalaps.can import Can
from tests.drawn import examples

Grids = st.sampled_from([(1, 9), (2, 4), (2, 7), (3, 3), (3, 4), (4, 3)])


def cells_of(dimensions: int, resolution: int) -> CellGrid:
    return CellGrid(((0.0, 1.0),) * dimensions, resolution)


@st.composite
def networks(draw: st.DrawFn) -> Can:
    """A history of joins, departures and failures; for the overlay the last two are alike."""
    cells = cells_of(*draw(Grids))
    can = Can(cells)
    for joins in draw(st.lists(st.booleans(), max_size=40)):
        if joins or len(can.peers) < 2:
            can.join(draw(st.integers(0, cells.count - 1)))
        else:
            peer = draw(st.sampled_from(sorted(can.peers)))
            can.remove(peer, can.heir(peer))
    return can


def owned(can: Can, zone: int) -> set[tuple[int, ...]]:
    box = can.boxes[zone]
    return set(product(*(range(low, high) for low, high in zip(box.low, box.high, strict=True))))


def touching(can: Can, left: int, right: int) -> bool:
    """By every cell's steps to either side, around the torus."""
    side = can.grid.resolution
    for cell in owned(can, left):
        for along in range(len(cell)):
            for step in (-1, 1):
                there = (*cell[:along], (cell[along] + step) % side, *cell[along + 1 :])
                if there in owned(can, right):
                    return True
    return False


@settings(max_examples=examples(80))
@given(can=networks())
def test_zones_partition_the_torus(can: Can) -> None:
    side, dimensions = can.grid.resolution, can.grid.dimensions
    counts = np.zeros((side,) * dimensions, int)
    for zone in range(len(can.boxes)):
        cells = owned(can, zone)
        assert cells, "never smaller than a cell"
        for cell in cells:
            counts[cell] += 1
            assert can.zone_of[np.ravel_multi_index(cell, counts.shape)] == zone
    assert (counts == 1).all()
    assert set(can.peer_of) == can.peers, "every peer has a zone, every zone a peer that is there"
    assert sum(can.volume(peer) for peer in can.peers) == can.grid.count


@settings(max_examples=examples(40))
@given(can=networks())
def test_neighbours_share_a_face_and_know_each_other(can: Can) -> None:
    zones = range(len(can.boxes))
    for zone in zones:
        assert can.neighbours(zone) == [
            other for other in zones if other != zone and touching(can, zone, other)
        ]
        for other in can.neighbours(zone):
            assert zone in can.neighbours(other)
    for peer in can.peers:
        for other in can.neighbour_peers(peer):
            assert peer in can.neighbour_peers(other)
    assert can.links == sum(len(can.neighbour_peers(peer)) for peer in can.peers)


@settings(max_examples=examples(80))
@given(can=networks(), data=st.data())
def test_greedy_routing_arrives_and_never_turns_back(can: Can, data: st.DataObject) -> None:
    zone = data.draw(st.integers(0, len(can.boxes) - 1))
    cell = data.draw(st.integers(0, can.grid.count - 1))
    way = can.route(zone, cell)
    assert way[0] == zone
    assert way[-1] == can.zone_of[cell]
    gaps = [can.gap(passed, cell) for passed in way]
    assert gaps == sorted(set(gaps), reverse=True)
    for here, there in pairwise(way):
        assert there in can.neighbours(here)
    assert can.hops(zone, cell) <= len(way) - 1


@settings(max_examples=examples(80))
@given(can=networks(), data=st.data())
def test_a_join_halves_one_zone_and_leaves_the_others(can: Can, data: st.DataObject) -> None:
    before = {zone: owned(can, zone) for zone in range(len(can.boxes))}
    cell = data.draw(st.integers(0, can.grid.count - 1))
    zone = int(can.zone_of[cell])
    split = can.join(cell)
    if split is None:
        assert len(before[zone]) == 1
        return
    assert split.zone == zone
    kept, given_away = owned(can, split.zone), owned(can, split.new)
    assert kept | given_away == before[zone]
    assert not kept & given_away
    assert len(given_away) <= len(kept) <= 2 * len(given_away), "halves, but for a middle row"
    assert all(owned(can, other) == cells for other, cells in before.items() if other != zone)
    assert can.zones_of(split.peer) == [split.new]


@settings(max_examples=examples(80))
@given(can=networks(), data=st.data())
def test_what_a_peer_leaves_goes_to_a_neighbour(can: Can, data: st.DataObject) -> None:
    if len(can.peers) < 2:
        return
    peer = data.draw(st.sampled_from(sorted(can.peers)))
    zones, near = can.zones_of(peer), can.neighbour_peers(peer)
    heir = can.heir(peer)
    assert heir in near
    assert can.volume(heir) == min(can.volume(other) for other in near)
    held = can.volume(heir) + can.volume(peer)
    assert can.remove(peer, heir) == zones
    assert can.volume(heir) == held
    assert peer not in can.peers


def test_the_splits_of_a_chain_are_joins_at_the_largest_zone() -> None:
    """zones_of_cells, which the stages use, makes the zones that joins would make."""
    cells = cells_of(2, 8)
    can = Can(cells)
    while len(can.boxes) < 11:
        largest = max(range(len(can.boxes)), key=lambda zone: (can.boxes[zone].cells, -zone))
        can.join(int(np.flatnonzero(can.zone_of == largest)[0]))
    assert can.boxes == zone_boxes(cells, 11)
    assert (can.zone_of == zones_of_cells(cells, 11)).all()
