"""What happens to the queries of a regional server in a batch, as events for kernels/moving_tick."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.families.moving import messages
from anabranch.families.moving.messages import FOCAL_UPDATES, IS_KNOWN, PARTICIPATES, REQUESTS
from anabranch.families.moving.plans import ENDLESS
from anabranch.families.moving.server import RegionalServer
from anabranch.families.moving.ticks import Ticks
from anabranch.kernels.moving_arrays import ENDS, EVENT, FOCAL, STARTS
from anabranch.zones import queries
from anabranch.zones.columns import Array
from anabranch.zones.packets import Packet
from anabranch.zones.state import State


def starts_of(
    state: State, server: RegionalServer, ticks: Ticks, final: int, last: dict[int, int]
) -> list[tuple[int, int]]:
    """(tick, place) of the queries whose first tick is final now."""
    out = []
    waiting = server.queries["number"][
        (server.queries["number"] >= 0) & (server.queries["started"] == 0)
    ].tolist()
    active = queries.active(state) if waiting else {}
    for number in waiting:
        first = ticks.after(active[number].since)
        if first <= min(final, last.get(number, ENDLESS)):
            out.append((first, server.places[number]))
    return out


def focal_updates(packets: Sequence[Packet], server: RegionalServer) -> Array:
    """Events (EVENT) of the queries whose focal objects reported, as the home zones request them."""
    focal, requests = messages.of_kind(packets, FOCAL_UPDATES), messages.of_kind(packets, REQUESTS)
    firsts = np.cumsum([0, *(packet.rows.num_rows for packet in focal)])[: len(focal)]
    row = messages.column(requests, "focal", np.int64)
    row += np.repeat(firsts, [packet.rows.num_rows for packet in requests])
    flags = messages.column(requests, "flags", np.uint8)
    updates = np.zeros(len(row), EVENT)
    for field, column in (("tick", "tick"), ("x", "x"), ("y", "y"), ("focal", "who"), ("gone", "gone")):
        updates[field] = messages.column(focal, column, EVENT[field])[row]
    updates["kind"] = FOCAL
    asked = messages.column(requests, "query", np.int64)
    updates["place"] = [server.places.get(number, -1) for number in asked.tolist()]
    updates["here"], updates["known"] = (flags & PARTICIPATES) != 0, (flags & IS_KNOWN) != 0
    return updates[updates["place"] >= 0]


def events_of(
    server: RegionalServer,
    updates: Array,
    starts: list[tuple[int, int]],
    last: dict[int, int],
    final: int,
) -> Array:
    """What happens to queries up to tick `final`, by tick and kind: ends, starts, focal updates."""
    ends = [
        (tick + 1, server.places[number])
        for number, tick in last.items()
        if tick < final and number in server.places
    ]
    few = np.zeros(len(ends) + len(starts), EVENT)
    few["tick"] = [tick for tick, _ in [*ends, *starts]]
    few["place"] = [place for _, place in [*ends, *starts]]
    few["kind"] = [ENDS] * len(ends) + [STARTS] * len(starts)
    events = np.concatenate([few, updates])
    # by `gone` as well: the list of queries by age is in order only if they come in order
    return events[np.lexsort((events["gone"], events["kind"], events["tick"]))]
