"""The one stage of the clusters family: each zone answers some groups of queries that share.

In: ITEMS (all of them), ACTIVATE, CANCEL and PROGRESS from order. Out: RESULT rows of the tables clusters,
summary and changes. Never: a query of a group that belongs to another zone, but for its number (see
`dealing`).

A group is all queries over the same coordinates with the same condition. It lives in one zone, from its first
query to the end of its last. Its state:

    g/<group>/queries         for each query: the position it begins at, its next window, its next new
                              cluster; and the next position
    g/<group>/points/<n>      points that a window can still hold, 4096 positions a chunk
    g/<group>/past/<query>    the members of the last window of a query with EMIT CHANGES

All else follows from these: see `structure`.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from anabranch.families.clusters.changes import Past
from anabranch.families.clusters.dealing import deal, forget
from anabranch.families.clusters.group import Group
from anabranch.families.clusters.points import Points
from anabranch.families.clusters.spec import Clusters
from anabranch.families.clusters.window import Standing, exact
from anabranch.model.stream import Stream, Time
from anabranch.predicates.terms import to_json
from anabranch.zones import queries
from anabranch.zones.packets import Kind, Packet
from anabranch.zones.stage import Stage
from anabranch.zones.state import State

MEMO = "groups"
ENDED = "ended"

Groups = dict[str, Group]


def group_key(spec: Clusters) -> str:
    """Equal for queries that share: the same coordinates of the same items."""
    text = json.dumps([spec.by, to_json(spec.condition)], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class Neighbourhood(Stage):
    name = "neighbourhood"

    def __init__(self, stream: Stream, zones: int) -> None:
        self.stream, self.zones = stream, zones

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        if state.get(ENDED) is not None:
            return []
        progress = next(packet.facts for packet in reversed(packets) if packet.kind is Kind.PROGRESS)
        origin = progress["origin"]
        groups = self._groups(state, origin)
        out: list[Packet] = []
        for packet in packets:
            if packet.kind is Kind.ACTIVATE:
                self._begin(zone, state, groups, packet, origin)
            elif packet.kind is Kind.CANCEL:
                out += self._cease(state, groups, packet)
            elif packet.kind is Kind.ITEMS:
                for group in groups.values():
                    group.feed(packet.rows)
        for group in groups.values():
            if progress["last"] is not None:
                group.reach(progress["last"])
            if progress["ended"]:
                group.finish()
            out += group.packets()
        if progress["ended"]:
            _forget_all(state)
        else:
            self._save(state, groups)
            state.renew(MEMO, _depends(state), groups)
        return out

    def _begin(self, zone: int, state: State, groups: Groups, packet: Packet, origin: Time | None) -> None:
        """Takes up the queries that belong to this zone."""
        begun = [(query, self._spec(query)) for query in queries.begun(packet)]
        keys = [group_key(spec) for _, spec in begun]
        dealt = deal(state, self.zones, [query.number for query, _ in begun], keys)
        mine = [chosen == zone for chosen in dealt]
        for (query, spec), key, is_mine in zip(begun, keys, mine, strict=True):
            if is_mine:
                if key not in groups:
                    groups[key] = Group(self.stream, Points(self.stream, spec.by, spec.condition), origin)
                standing = Standing(query.number, query.name, spec, query.since, groups[key].points.stop)
                groups[key].begin(standing)
        if any(mine):
            queries.apply(
                state, [Packet(packet.stage, zone, packet.kind, packet.rows.filter(pa.array(mine)))]
            )

    def _cease(self, state: State, groups: Groups, packet: Packet) -> list[Packet]:
        """Ends queries, and with its last one a group; returns what groups that ended had still to say."""
        out: list[Packet] = []
        _, ended = queries.apply(state, [packet])
        forget(state, [query.number for query in ended])
        for query in ended:
            for key, group in list(groups.items()):
                if query.number in group.queries:
                    group.cease(query.number, query.until)
                    if not group.queries:
                        out += group.packets()
                        del groups[key]
        return out

    def _spec(self, query: queries.Active) -> Clusters:
        spec = Clusters.from_json(query.spec)
        return replace(spec, window=exact(spec.window, self.stream))

    # the state

    def _groups(self, state: State, origin: Time | None) -> Groups:
        """The groups of this zone, as the last step left them or built anew.

        Until this step renews it, nothing is remembered: if the step fails halfway, the next one builds anew.
        """
        groups = state.derived(MEMO, _depends(state), lambda: self._load(state, origin))
        state.renew(MEMO, (), None)
        for group in groups.values():
            group.learn(origin)
        return groups

    def _load(self, state: State, origin: Time | None) -> Groups:
        members: dict[str, list[tuple[queries.Active, Clusters]]] = defaultdict(list)
        for query in queries.active(state).values():
            spec = self._spec(query)
            members[group_key(spec)].append((query, spec))
        return {key: self._load_group(state, key, members[key], origin) for key in members}

    def _load_group(
        self, state: State, key: str, members: list[tuple[queries.Active, Clusters]], origin: Time | None
    ) -> Group:
        held = state.get(f"g/{key}/queries")
        assert held is not None
        points = Points(self.stream, members[0][1].by, members[0][1].condition)
        points.load(state, f"g/{key}/points/", int(held["stop"][0]))
        columns = zip(*(held[name].tolist() for name in ("number", "base", "index", "fresh")), strict=True)
        progress = {number: rest for number, *rest in columns}
        standing = [Standing(q.number, q.name, spec, q.since, *progress[q.number]) for q, spec in members]
        group = Group(self.stream, points, origin)
        group.restore(standing, _load_past(state, key))
        return group

    def _save(self, state: State, groups: Groups) -> None:
        for key in {key.split("/")[1] for key in state.keys("g/")} - groups.keys():
            for chunk in state.keys(f"g/{key}/"):
                state.drop(chunk)
        for key, group in groups.items():
            standing = [[q.number, q.base, q.index, q.fresh] for q in group.queries.values()]
            columns = np.array(standing, np.int64).T
            arrays = dict(zip(("number", "base", "index", "fresh"), columns, strict=True))
            arrays["stop"] = np.array([group.points.stop], np.int64)
            held = state.get(f"g/{key}/queries")
            if held is None or any(not np.array_equal(held[name], array) for name, array in arrays.items()):
                state.put(f"g/{key}/queries", arrays)
            group.points.drop_before(group.needed())
            group.points.save(state, f"g/{key}/points/")
            _save_past(state, key, group)


def _depends(state: State) -> list[str]:
    return [MEMO, *state.keys()]


def _forget_all(state: State) -> None:
    for key in state.keys(""):
        state.drop(key)
    state.put(ENDED, {"ended": np.ones(1, np.uint8)})


def _load_past(state: State, key: str) -> dict[int, Past]:
    prefix = f"g/{key}/past/"
    past = {}
    for chunk in state.keys(prefix):
        rows = state.rows(chunk)
        assert rows is not None
        position, cluster, role = (rows.column(name).to_numpy() for name in ("position", "cluster", "role"))
        past[int(chunk.removeprefix(prefix))] = Past(position, cluster, role, rows.column("id"))
    return past


def _save_past(state: State, key: str, group: Group) -> None:
    prefix = f"g/{key}/past/"
    for chunk in state.keys(prefix):
        if int(chunk.removeprefix(prefix)) not in group.past:
            state.drop(chunk)
    for number in sorted(group.changed):
        past = group.past[number]
        columns = {"position": past.positions, "cluster": past.clusters, "role": past.roles, "id": past.ids}
        state.put(f"{prefix}{number}", pa.record_batch(columns))
    group.changed.clear()
