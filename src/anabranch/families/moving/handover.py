"""How objects pass from one regional server to another that got a part of its plane (splits.py).

In: a server and the table of splits. Out: from the one that gives, messages for the next batch; from both, in
that batch, the fragments of a tick that is over: objects leave here and enter there where they are, which
changes no answer. A query whose range reaches into that part is one that the giver participates in, so it
knows its focal point. Never: a change of what a server holds before the batch in which all zones change.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.families.moving import messages
from anabranch.families.moving.arrays import records
from anabranch.families.moving.server import RegionalServer
from anabranch.kernels.moving_arrays import EVENT, FOCAL, MOVE
from anabranch.kernels.moving_home import crossed, participates, servers_of
from anabranch.kernels.regions import Layout
from anabranch.zones.balance import cut
from anabranch.zones.columns import Array
from anabranch.zones.packets import DELIVER, Kind, Packet

_OF_QUERY = ("x", "y", "focal", "gone", "known")


def moves_of(packets: Sequence[Packet], server: RegionalServer) -> tuple[Array, Array]:
    """The moves of all home zones in stream order, and their truths; the server gets room for them."""
    columns = {name: messages.column(packets, name, MOVE[name]) for name in MOVE.names or ()}
    server.make_room(max(len(server.names.arrays.start), int(columns["who"].max(initial=-1)) + 1))
    moves, truths = records(MOVE, columns), messages.words(packets, server.truths.shape[1])
    if len(packets) > 1:
        order = np.argsort(moves["number"], kind="stable")
        moves, truths = moves[order], truths[order]
    return moves, truths


def prepared(
    server: RegionalServer, layout: Layout, zone: int, other: int, share: float, tick: int
) -> list[Packet]:
    """What is sent so that another zone takes over this share of the objects after this batch, and a note of
    it; nothing if they cannot be cut. All is final up to `tick`.
    """
    present = server.objects[server.objects["present"] != 0]
    found = cut([crossed(server.space, present["x"].copy()), present["y"].copy()], share)
    if found is None:
        return []
    table = np.vstack([layout.splits, (zone, *found, other)])
    columns = {name: table[:, place].copy() for place, name in enumerate(messages.SPLIT)}
    out = [
        messages.message(stage, every, messages.SPLITS, columns, zone, tick=tick)
        for stage in (1, 2)
        for every in range(layout.zones)
    ]
    leaving = _leaving(server, layout._replace(splits=table), zone, tick)
    moves = {name: leaving[name].copy() for name in MOVE.names or ()}
    moves["leaves"][:] = 0
    for word in range(server.truths.shape[1]):
        moves[f"t{word}"] = server.truths[leaving["who"], word]
    asked = server.queries[(server.queries["number"] >= 0) & (server.queries["here"] != 0)]
    local = {"query": asked["number"].copy()} | {name: asked[name].copy() for name in _OF_QUERY}
    out.append(messages.message(2, other, messages.ARRIVALS, moves, zone))
    out.append(messages.message(2, other, messages.LOCAL_PLANS, local, zone))
    split = {"axis": "xy"[found[0]], "at": found[1], "to": other, "objects": len(leaving)}
    facts = {"family": "moving", "stage": "region", "zone": zone, "split": split}
    return [*out, Packet(DELIVER, 0, Kind.NOTE, facts=facts)]


def carried_out(
    server: RegionalServer, layout: Layout, zone: int, tick: int, packets: Sequence[Packet]
) -> Array:
    """The rows (ROW) of objects that leave and enter this server because of a new layout, in a tick that is
    over.
    """
    leaving = _leaving(server, layout, zone, tick)
    arriving, truths = moves_of(messages.of_kind(packets, messages.ARRIVALS), server)
    moves = np.concatenate([leaving, arriving])
    events = _joined(server, layout, zone, tick, messages.of_kind(packets, messages.LOCAL_PLANS))
    rows = server.run(moves, np.concatenate([server.truths[leaving["who"]], truths]), events, tick)
    server.list_by_age()  # who arrived need not be younger than who was here
    return rows


def _leaving(server: RegionalServer, layout: Layout, zone: int, tick: int) -> Array:
    """Moves (MOVE) of the objects whose positions belong to other zones."""
    who = np.flatnonzero(server.objects["present"])
    there = server.objects[who]
    zones = servers_of(server.space, layout, there["x"].copy(), there["y"].copy())
    who, there = who[zones != zone], there[zones != zone]
    columns = {name: there[name] for name in ("x", "y", "number", "gone")}
    columns |= {"tick": np.full(len(who), tick), "who": who, "leaves": np.ones(len(who), np.uint8)}
    return records(MOVE, columns)


def _joined(server: RegionalServer, layout: Layout, zone: int, tick: int, packets: Sequence[Packet]) -> Array:
    """Events (EVENT) of the queries that this server participates in from now on."""
    told = {
        name: messages.column(packets, name, kind)
        for name, kind in (("query", np.int64), *((name, EVENT[name]) for name in _OF_QUERY))
    }
    events = np.zeros(len(told["query"]), EVENT)
    for name in _OF_QUERY:
        events[name] = told[name]
    events["tick"], events["kind"], events["here"] = tick, FOCAL, 1
    events["place"] = [server.places.get(number, -1) for number in told["query"].tolist()]
    joins = np.zeros(len(events), bool)
    for row, event in enumerate(events):
        query = server.queries[event["place"]]
        if event["place"] < 0 or query["here"]:
            continue
        where = (query["a"], query["b"], event["x"], event["y"])
        joins[row] = participates(server.space, layout, zone, int(query["shape"]), *where)
    return events[joins]
