"""The one stage of the clusters family: each zone runs some groups of queries.

In: ITEMS (all of them), ACTIVATE, CANCEL and PROGRESS from order; from other zones of this stage, their
messages of the batch before. Out: RESULT rows of the tables clusters, summary and changes.

A group is all queries over the same coordinates with the same condition (`cluster_group`). It lives in one
zone, from its first query to the end of its last, unless that zone has far more work than others. Then the
group is split over several zones in space (chain/balance), and its rows come from the first of them, its
home, with the next batch (`group_part`).

**Assignment.** A group goes to the zone with the fewest queries when its first query is activated, and stays
there until its last one is cancelled. All zones see all queries and assign them in the same way, so none has
to ask another.

    zones     0          1           q1 is the first of a group, then q2, then q3 and q4 of q1's group, then
    groups    q1 q3 q4   q2 q5       q5 of a third group: zone 1 has fewer queries

**Splits.** What zones tell each other are PARTIAL packets of the stage to itself, which the next batch
brings. The fact `message` says which of these it is:

| message | from     | to         | rows and facts                                                          |
|---------|----------|------------|-------------------------------------------------------------------------|
| report  | a part   | home       | what it knows of windows that were due, one row per moment (group_part) |
| work    | a zone   | zone 0     | `work` in the last batches; `urgent`: whether somebody asked for it     |
| divide  | zone 0   | the hot    | `other`, `share`: give that zone this share of your work                |
| area    | the hot  | all parts  | `area`: the table of splits from now on                                 |
| queries | the hot  | a new part | the queries of the group, how far they have got, the table of splits    |
| points  | the hot  | a new part | the points that a window can still hold                                 |

All have `origin`, the time of the stream's first item, and `group`, its key, where they are about one.

All zones of a group see all its points, so nothing is lost or doubled between two batches: a new part adds
the points that it is given, and the others build their structures again by the new table.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain import control
from anabranch.chain.balance import HURRY, MOST, Patience, asked, cut, division, forget_work, note_work
from anabranch.chain.packets import DELIVER, EMPTY, Kind, Packet
from anabranch.chain.stages import RescalableStage
from anabranch.chain.state import Arrays, State, decode_chunk, encode_chunk
from anabranch.families.clusters.cluster_group import ClusterGroup, GroupQuery, PointStore, with_progress
from anabranch.families.clusters.group_part import GroupArea
from anabranch.families.clusters.kernels.neighbour_lists import cell_side
from anabranch.families.clusters.spec import Clusters, exact_spec
from anabranch.model.stream import Stream, Time
from anabranch.predicates.terms import to_json

STAGE = 1
ENDED = "ended"
ASSIGNED = "assigned"  # number, group and zone of every query: int64, uint64, int32
REPORT, WORK, DIVIDE, AREA, QUERIES, POINTS = "report", "work", "divide", "area", "queries", "points"

#: Behind the key of a group without queries whose windows wait for reports.
CLOSING = "~"

#: A split must leave the zone with at most this part of the points that it had in its structure: where ranges
#: are wide, both sides would need nearly all of them.
WORTH = 0.9

Groups = dict[str, ClusterGroup]  # by key


def group_key(spec: Clusters) -> str:
    """Equal for queries of one group: the same coordinates of the same items."""
    text = json.dumps([spec.by, to_json(spec.condition)], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class Neighbourhood(RescalableStage):
    name = "neighbourhood"

    def __init__(self, stream: Stream, zones: int, patience: Patience) -> None:
        self.stream, self.zones, self.patience = stream, zones, patience

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        reports = _received_reports(packets)
        if state.get(ENDED) is not None and not reports:
            return []
        facts = next(p.facts for p in reversed(packets) if p.kind in (Kind.PROGRESS, Kind.PARTIAL))
        origin = facts["origin"]
        groups = self._groups(zone, state, origin)
        out = _merge(groups, reports)
        if state.get(ENDED) is not None:
            _drop_all(state)
            return out
        _apply_splits(state, zone, self.stream, groups, packets)
        from_order = "ended" in facts
        ended = from_order and facts["ended"]
        if from_order:
            out += self._run(zone, state, groups, packets, origin)
            out += _reach(groups, facts["last"], ended)
        out += _send_reports(groups, origin)
        for key in [key for key, group in groups.items() if not group.queries and not group.unmerged]:
            del groups[key]
        if ended and not any(group.unmerged for group in groups.values()):
            _drop_all(state)
            return out
        if ended:
            state.put(ENDED, {"ended": np.ones(1, np.uint8)})
        elif self.zones > 1:
            out += self._balance(zone, state, groups, packets, from_order, origin)
        _save(state, groups)
        state.cache("groups", state.keys(), groups)
        return out

    def rezoned(self, zone: int, before: Sequence[State]) -> State:
        """Groups are assigned anew, and none of them is split any more: its home has all that is needed."""
        state = State()
        if any(old.get(ENDED) is not None for old in before):
            _drop_all(state)
            return state
        homes: dict[int, tuple[str, State]] = {}  # query -> its group, and the state of the group's home
        for index, old in enumerate(before):
            for query in control.queries(old).values():
                key = group_key(exact_spec(self.stream, query.spec))
                area = old.get_json(f"g/{key}/area")
                if area is None or GroupArea.from_json(area, index).home == index:
                    homes[query.number] = (key, old)
        numbers = sorted(homes)
        assigned = _assign(state, self.zones, numbers, [homes[number][0] for number in numbers])
        mine = [number for number, chosen in zip(numbers, assigned, strict=True) if chosen == zone]
        for key, old in {homes[number][0]: homes[number][1] for number in mine}.items():
            members = [number for number in mine if homes[number][0] == key]
            control.copy(old, state, np.array(members, np.int64))
            state.unpack(old.packed(f"g/{key}/"))
            state.drop(f"g/{key}/area")
        return state

    def _run(
        self, zone: int, state: State, groups: Groups, packets: Sequence[Packet], origin: Time | None
    ) -> list[Packet]:
        """Carries out what order sent; returns the rows of groups that have no more queries."""
        out: list[Packet] = []
        for packet in packets:
            if packet.kind is Kind.ACTIVATE:
                self._activate(zone, state, groups, packet, origin)
            elif packet.kind is Kind.CANCEL:
                out += self._cancel(state, groups, packet)
            elif packet.kind is Kind.ITEMS:
                for group in groups.values():
                    if group.queries:
                        group.add_items(packet.rows)
        return out

    def _activate(self, zone: int, state: State, groups: Groups, packet: Packet, origin: Time | None) -> None:
        """Adds the queries that belong to this zone, or to a group of which it has a part."""
        new = [(query, exact_spec(self.stream, query.spec)) for query in control.activated(packet)]
        keys = [group_key(spec) for _, spec in new]
        assigned = _assign(state, self.zones, [query.number for query, _ in new], keys)
        mine = [chosen == zone or key in groups for chosen, key in zip(assigned, keys, strict=True)]
        for (query, spec), key, is_mine in zip(new, keys, mine, strict=True):
            if is_mine:
                if key not in groups:
                    points = PointStore(self.stream, spec)
                    groups[key] = ClusterGroup(self.stream, points, origin)
                first = groups[key].points.stop
                groups[key].add_query(GroupQuery(query.number, query.name, spec, query.activate, first))
        if any(mine):
            control.apply(
                state, [Packet(packet.stage, zone, packet.kind, packet.rows.filter(pa.array(mine)))]
            )

    def _cancel(self, state: State, groups: Groups, packet: Packet) -> list[Packet]:
        """Removes queries, and with its last one a group; returns the last rows of such groups."""
        out: list[Packet] = []
        _, cancelled = control.apply(state, [packet])
        _unassign(state, [query.number for query in cancelled])
        for query in cancelled:
            for key, group in list(groups.items()):
                if query.number in group.queries:
                    group.remove_query(query.number, query.cancel)
                    if not group.queries:
                        out += group.packets()
                        del groups[key]
                        if group.unmerged or group.reports:
                            group.close()
                            groups[key + CLOSING] = group
        return out

    def _balance(
        self,
        zone: int,
        state: State,
        groups: Groups,
        packets: Sequence[Packet],
        from_order: bool,
        origin: Time | None,
    ) -> list[Packet]:
        """The messages by which zones share the work. All zones count the same batches: those in which order
        sent something, while any zone has a query.
        """
        out = _choose_division(packets, self.zones, self.patience, origin)
        out += _split_groups(state, zone, groups, packets, origin)
        if state.get(ASSIGNED) is None:
            forget_work(state)
        elif from_order:
            out += _send_work(state, zone, groups, packets, self.patience, origin)
        return out

    def _groups(self, zone: int, state: State, origin: Time | None) -> Groups:
        """The groups of this zone, as the last step left them or built again."""
        groups = state.cached("groups", state.keys(), lambda: self._load(zone, state, origin))
        for group in groups.values():
            group.set_origin(origin)
            group.work = 0
        return groups

    def _load(self, zone: int, state: State, origin: Time | None) -> Groups:
        queries: dict[str, list[control.Query]] = defaultdict(list)
        for query in control.queries(state).values():
            queries[group_key(exact_spec(self.stream, query.spec))].append(query)
        queries |= {key: [] for key in sorted(_stored_keys(state)) if key.endswith(CLOSING)}
        return {
            key: ClusterGroup.load(state, f"g/{key}/", self.stream, queries[key], zone, origin)
            for key in queries
        }


def _reach(groups: Groups, last: Time | None, ended: bool) -> list[Packet]:
    """The rows of all groups when time has reached `last`, the time of the newest item."""
    out: list[Packet] = []
    for group in groups.values():
        if last is not None and group.queries:
            group.reach_time(last)
        if ended:
            group.end_stream()
        out += group.packets()
    return out


def _merge(groups: Groups, reports: dict[str, list[list[Arrays]]]) -> list[Packet]:
    """The rows of windows that waited, now that all parts have reported on them."""
    out: list[Packet] = []
    for key, of_parts in reports.items():
        home = key + CLOSING if key + CLOSING in groups else key
        groups[home].merge(of_parts)
        out += groups[home].packets()
        if home != key:
            del groups[home]
    return out


def _stored_keys(state: State) -> set[str]:
    return {key.split("/")[1] for key in state.keys("g/")}


def _save(state: State, groups: Groups) -> None:
    for key in _stored_keys(state) - groups.keys():
        for chunk in state.keys(f"g/{key}/"):
            state.drop(chunk)
    for key, group in groups.items():
        group.save(state, f"g/{key}/")


def _drop_all(state: State) -> None:
    for key in state.keys(""):
        state.drop(key)
    state.put(ENDED, {"ended": np.ones(1, np.uint8)})


# assignment


def _assign(state: State, zones: int, numbers: Sequence[int], groups: Sequence[str]) -> list[int]:
    """The zones of queries that are activated, given by their numbers and the keys of their groups."""
    if zones == 1:
        return [0] * len(numbers)
    assigned = state.get(ASSIGNED) or {
        "number": np.empty(0, np.int64),
        "group": np.empty(0, np.uint64),
        "zone": np.empty(0, np.int32),
    }
    keys = np.array([int(group[:16], 16) for group in groups], np.uint64)
    zone_of = dict(zip(assigned["group"].tolist(), assigned["zone"].tolist(), strict=True))
    load = np.bincount(assigned["zone"], minlength=zones)
    chosen = []
    for key in keys.tolist():
        chosen.append(zone_of.setdefault(key, int(load.argmin())))
        load[chosen[-1]] += 1
    new = {"number": np.array(numbers, np.int64), "group": keys, "zone": np.array(chosen, np.int32)}
    state.put(ASSIGNED, {name: np.concatenate([assigned[name], array]) for name, array in new.items()})
    return chosen


def _unassign(state: State, numbers: Sequence[int]) -> None:
    """Removes queries that are cancelled."""
    assigned = state.get(ASSIGNED)
    if assigned is None:
        return
    kept = ~np.isin(assigned["number"], np.array(numbers, np.int64))
    if not kept.any():
        state.drop(ASSIGNED)
    elif not kept.all():
        state.put(ASSIGNED, {name: array[kept] for name, array in assigned.items()})


# messages


def _message(
    what: str, zone: int, origin: Time | None, rows: pa.RecordBatch = EMPTY, /, **facts: Any
) -> Packet:
    return Packet(STAGE, zone, Kind.PARTIAL, rows, {"message": what, "origin": origin, **facts})


def _messages(packets: Sequence[Packet], what: str) -> list[Packet]:
    return [packet for packet in packets if packet.kind is Kind.PARTIAL and packet.facts["message"] == what]


def _send_reports(groups: Groups, origin: Time | None) -> list[Packet]:
    """The reports of the parts here, for their homes."""
    out = []
    for key, group in groups.items():
        if group.area is not None and group.reports:
            bodies = pa.array([encode_chunk(report) for report in group.reports], pa.binary())
            rows = pa.record_batch({"body": bodies})
            out.append(_message(REPORT, group.area.home, origin, rows, group=key.removesuffix(CLOSING)))
            group.reports = []
    return out


def _received_reports(packets: Sequence[Packet]) -> dict[str, list[list[Arrays]]]:
    """By group the reports of each part, moment by moment."""
    by_group: dict[str, list[list[Arrays]]] = {}
    for packet in _messages(packets, REPORT):
        chunks = [decode_chunk(body.as_py()) for body in packet.column("body")]
        reports = [chunk for chunk in chunks if isinstance(chunk, dict)]
        by_group.setdefault(packet.facts["group"], []).append(reports)
    return by_group


def _send_work(
    state: State,
    zone: int,
    groups: Groups,
    packets: Sequence[Packet],
    patience: Patience,
    origin: Time | None,
) -> list[Packet]:
    """The work of this zone, when it is time to report it; too little to be divided is not reported."""
    urgent = asked(packets)
    due = note_work(state, HURRY if urgent else patience, sum(group.work for group in groups.values()))
    if due < (1 if urgent else patience.least):
        return []
    return [_message(WORK, 0, origin, zone=zone, work=due, urgent=urgent)]


# splits


def _choose_division(
    packets: Sequence[Packet], zones: int, patience: Patience, origin: Time | None
) -> list[Packet]:
    """Zone 0 decides which zone gives what share of its work to which other."""
    messages = _messages(packets, WORK)
    if not messages:
        return []
    work = {packet.facts["zone"]: packet.facts["work"] for packet in messages}
    urgent = any(packet.facts["urgent"] for packet in messages)
    chosen = division(work, zones, 0, HURRY if urgent else patience)
    if chosen is None:
        return []
    return [_message(DIVIDE, chosen.hot, origin, other=chosen.other, share=chosen.share)]


def _split_groups(
    state: State, zone: int, groups: Groups, packets: Sequence[Packet], origin: Time | None
) -> list[Packet]:
    """Sends what another zone needs to have a part of this zone's largest group from the next batch on, and a
    note of it; nothing if that would not help.
    """
    out: list[Packet] = []
    for packet in _messages(packets, DIVIDE):
        sizes = {key: _size(group) for key, group in groups.items() if group.queries}
        key = max(sizes, key=lambda key: sizes[key], default=None)
        if key is None or not sizes[key]:
            continue
        share = min(0.9, packet.facts["share"] * sum(sizes.values()) / sizes[key])
        area = _split_area(groups[key], zone, packet.facts["other"], share)
        if area is not None:
            out += _send_split(state, key, groups[key], area, packet.facts["other"], origin)
    return out


def _size(group: ClusterGroup) -> int:
    return (group.points.stop - min(group.needed(), group.points.stop)) * len(group.queries)


def _split_area(group: ClusterGroup, zone: int, other: int, share: float) -> GroupArea | None:
    """The group's area with one more split, which gives about this share of this zone's points to another."""
    area = group.area or GroupArea(zone, zone, ())
    points = group.points.places(group.needed(), group.points.stop)
    own = points[(area.owners(points) == zone) & np.isfinite(points).all(axis=1)]
    if len(area.splits) >= MOST or not len(own):
        return None
    chosen = cut(list(own.T), share)
    if chosen is None:
        return None
    smaller = area.split(*chosen, other)
    width = cell_side(max(group.pattern(query)[0] for query in group.queries.values()))
    after = int(np.count_nonzero(smaller.is_within(points, width)))
    return smaller if after <= WORTH * np.count_nonzero(area.is_within(points, width)) else None


def _send_split(
    state: State, key: str, group: ClusterGroup, area: GroupArea, other: int, origin: Time | None
) -> list[Packet]:
    table, parts = area.to_json(), {area.zone} if group.area is None else set(group.area.zones)
    out = [_message(AREA, zone, origin, group=key, area=table) for zone in sorted(parts)]
    if other not in parts:
        chunks = [state.rows(chunk) for chunk in state.keys(control.PREFIX)]
        here = pa.concat_batches([chunk for chunk in chunks if chunk is not None])
        mine = np.isin(here.column("number").to_numpy(), list(group.queries))
        progress = [query.progress for query in group.queries.values()]
        facts = {"group": key, "area": table, "stop": group.points.stop, "progress": progress}
        out.append(_message(QUERIES, other, origin, here.filter(pa.array(mine)), **facts))
        rows = group.points.rows()
        if rows is not None:
            out.append(_message(POINTS, other, origin, rows, group=key))
    split = area.splits[-1]
    facts = {
        "axis": group.points.axes[split.axis],
        "at": split.cut,
        "to": other,
        "queries": len(group.queries),
    }
    note = {"family": "clusters", "stage": "neighbourhood", "zone": area.zone, "split": facts}
    return [*out, Packet(DELIVER, 0, Kind.NOTE, facts=note)]


def _apply_splits(state: State, zone: int, stream: Stream, groups: Groups, packets: Sequence[Packet]) -> None:
    """Adds the parts that other zones give, and sets the areas of groups that were split."""
    points = {packet.facts["group"]: packet.rows for packet in _messages(packets, POINTS)}
    for packet in _messages(packets, QUERIES):
        key, facts = packet.facts["group"], packet.facts
        activate = Packet(STAGE, zone, Kind.ACTIVATE, packet.rows)
        control.apply(state, [activate])
        queries = with_progress(stream, control.activated(activate), facts["progress"])
        mine = PointStore(stream, queries[0].spec)
        mine.restore(points.get(key), facts["stop"])
        groups[key] = ClusterGroup(stream, mine, facts["origin"], GroupArea.from_json(facts["area"], zone))
        groups[key].restore(queries, {})
    for packet in _messages(packets, AREA):
        groups[packet.facts["group"]].set_area(GroupArea.from_json(packet.facts["area"], zone))
