"""Groups that are split over zones while the stream runs (zones/balance), and what their parts say to each
other: PARTIAL packets of the stage to itself, which the next batch brings, told apart by the fact `say`.

| say     | from     | to         | rows and facts                                                          |
|---------|----------|------------|-------------------------------------------------------------------------|
| known   | a part   | home       | what it knows of windows that were due, a row a moment (`part`)         |
| work    | a zone   | zone 0     | `work` in the last batches; whether somebody `asked` for it             |
| divide  | zone 0   | the hot    | `other`, `share`: give that zone this share of your work                |
| area    | the hot  | all parts  | `area`: the table of splits from now on                                 |
| queries | the hot  | a new part | the queries of the group, how they stand, the table, the next position  |
| points  | the hot  | a new part | the points that a window can still hold                                 |

All say `group`, its key, where it is about one, and `origin`, the time of the stream's first item.

All zones of a group see all its points, so nothing is lost or doubled between two batches: a new part enters
the points it is given, and the others enter anew what is theirs by the new table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.families.clusters.areas import Area
from anabranch.families.clusters.group import Group
from anabranch.families.clusters.points import Points
from anabranch.families.clusters.stored import CLOSING, Groups, progress_of, standing
from anabranch.kernels.searchgrid import cell_side
from anabranch.model.stream import Stream, Time
from anabranch.zones import queries
from anabranch.zones.balance import HURRY, MOST, Patience, asked, cut, division, note_work
from anabranch.zones.packets import DELIVER, EMPTY, Kind, Packet
from anabranch.zones.state import Arrays, State, decode_chunk, encode_chunk

STAGE = 1
KNOWN, WORK, DIVIDE, AREA, QUERIES, POINTS = "known", "work", "divide", "area", "queries", "points"

#: A split must leave the zone with at most this part of the points that it had in its structure: where ranges
#: are wide, both sides would need nearly all of them.
WORTH = 0.9


def say(what: str, zone: int, origin: Time | None, rows: pa.RecordBatch = EMPTY, /, **facts: Any) -> Packet:
    return Packet(STAGE, zone, Kind.PARTIAL, rows, {"say": what, "origin": origin, **facts})


def said(packets: Sequence[Packet], what: str) -> list[Packet]:
    return [packet for packet in packets if packet.kind is Kind.PARTIAL and packet.facts["say"] == what]


# what parts know


def told(groups: Groups, origin: Time | None) -> list[Packet]:
    """What the parts here know of windows that were due, for their homes."""
    out = []
    for key, group in groups.items():
        if group.area is not None and group.known:
            bodies = pa.array([encode_chunk(known) for known in group.known], pa.binary())
            rows = pa.record_batch({"body": bodies})
            out.append(say(KNOWN, group.area.home, origin, rows, group=key.removesuffix(CLOSING)))
            group.known = []
    return out


def heard(packets: Sequence[Packet]) -> dict[str, list[list[Arrays]]]:
    """By group what each part knows, moment by moment."""
    by_group: dict[str, list[list[Arrays]]] = {}
    for packet in said(packets, KNOWN):
        chunks = [decode_chunk(body.as_py()) for body in packet.column("body")]
        known = [chunk for chunk in chunks if isinstance(chunk, dict)]
        by_group.setdefault(packet.facts["group"], []).append(known)
    return by_group


# splits


def worked(
    state: State,
    zone: int,
    groups: Groups,
    packets: Sequence[Packet],
    patience: Patience,
    origin: Time | None,
) -> list[Packet]:
    """What this zone had to do, when it is time to tell; too little to be divided is not told."""
    hurry = asked(packets)
    due = note_work(state, HURRY if hurry else patience, sum(group.work for group in groups.values()))
    if due < (1 if hurry else patience.least):
        return []
    return [say(WORK, 0, origin, zone=zone, work=due, asked=hurry)]


def decided(packets: Sequence[Packet], zones: int, patience: Patience, origin: Time | None) -> list[Packet]:
    """Zone 0: who is to give what share of its work to whom."""
    work = {packet.facts["zone"]: packet.facts["work"] for packet in said(packets, WORK)}
    if not work:
        return []
    hurry = any(packet.facts["asked"] for packet in said(packets, WORK))
    found = division(work, zones, 0, HURRY if hurry else patience)
    if found is None:
        return []
    return [say(DIVIDE, found.hot, origin, other=found.other, share=found.share)]


def divided(
    state: State, zone: int, groups: Groups, packets: Sequence[Packet], origin: Time | None
) -> list[Packet]:
    """What is sent so that another zone has a part of this zone's largest group from the next batch on, and a
    note of it; nothing if that would not help.
    """
    out: list[Packet] = []
    for packet in said(packets, DIVIDE):
        sizes = {key: _size(group) for key, group in groups.items() if group.queries}
        key = max(sizes, key=lambda key: sizes[key], default=None)
        if key is None or not sizes[key]:
            continue
        share = min(0.9, packet.facts["share"] * sum(sizes.values()) / sizes[key])
        area = _cut(groups[key], zone, packet.facts["other"], share)
        if area is not None:
            out += _sent(state, key, groups[key], area, packet.facts["other"], origin)
    return out


def _size(group: Group) -> int:
    return (group.points.stop - min(group.needed(), group.points.stop)) * len(group.queries)


def _cut(group: Group, zone: int, other: int, share: float) -> Area | None:
    """The group's table with one more split: about this share of this zone's points is another's by it."""
    area = group.area or Area(zone, zone, ())
    points = group.points.coordinates(group.needed(), group.points.stop)
    own = points[(area.owners(points) == zone) & np.isfinite(points).all(axis=1)]
    if len(area.splits) >= MOST or not len(own):
        return None
    found = cut(list(own.T), share)
    if found is None:
        return None
    wider = area.split(*found, other)
    width = cell_side(max(query.spec.range for query in group.queries.values()))
    after = int(np.count_nonzero(wider.takes(points, width)))
    return wider if after <= WORTH * np.count_nonzero(area.takes(points, width)) else None


def _sent(state: State, key: str, group: Group, area: Area, other: int, origin: Time | None) -> list[Packet]:
    table, known = area.to_json(), {area.zone} if group.area is None else set(group.area.zones)
    out = [say(AREA, zone, origin, group=key, area=table) for zone in sorted(known)]
    if other not in known:
        chunks = [state.rows(chunk) for chunk in state.keys(queries.PREFIX)]
        here = pa.concat_batches([chunk for chunk in chunks if chunk is not None])
        mine = np.isin(here.column("number").to_numpy(), list(group.queries))
        facts = {"group": key, "area": table, "stop": group.points.stop, "standing": progress_of(group)}
        out.append(say(QUERIES, other, origin, here.filter(pa.array(mine)), **facts))
        rows = group.points.rows()
        if rows is not None:
            out.append(say(POINTS, other, origin, rows, group=key))
    split = area.splits[-1]
    facts = {"axis": group.points.by[split.axis], "at": split.cut, "to": other, "queries": len(group.queries)}
    note = {"family": "clusters", "stage": "neighbourhood", "zone": area.zone, "split": facts}
    return [*out, Packet(DELIVER, 0, Kind.NOTE, facts=note)]


def adopt(state: State, zone: int, stream: Stream, groups: Groups, packets: Sequence[Packet]) -> None:
    """Takes up the parts that others give, and goes by new tables of splits."""
    points = {packet.facts["group"]: packet.rows for packet in said(packets, POINTS)}
    for packet in said(packets, QUERIES):
        key, facts = packet.facts["group"], packet.facts
        begun = Packet(STAGE, zone, Kind.ACTIVATE, packet.rows)
        queries.apply(state, [begun])
        here = standing(stream, queries.begun(begun), facts["standing"])
        mine = Points(stream, here[0].spec.by, here[0].spec.condition)
        mine.take_over(points.get(key), facts["stop"])
        groups[key] = Group(stream, mine, facts["origin"], Area.from_json(facts["area"], zone))
        groups[key].restore(here, {})
    for packet in said(packets, AREA):
        groups[packet.facts["group"]].settle(Area.from_json(packet.facts["area"], zone))
