"""The one stage of the clusters family: each zone runs some groups of queries.

In: ITEMS (all of them), ACTIVATE, CANCEL and PROGRESS from order; from other zones of this stage, their
messages of the batch before (`group_zones`). Out: RESULT rows of the tables clusters, summary and changes.

A group is all queries over the same coordinates with the same condition (`cluster_group`). It lives in one
zone, from its first query to the end of its last, unless that zone has far more work than others. Then the
group is split over several zones in space, and its rows come from the first of them, its home, with the next
batch (`group_part`).
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.chain import control
from anabranch.chain.balance import Patience, forget_work
from anabranch.chain.packets import Kind, Packet
from anabranch.chain.stages import Stage
from anabranch.chain.state import Arrays, State
from anabranch.families.clusters import group_zones
from anabranch.families.clusters.cluster_group import ClusterGroup
from anabranch.families.clusters.group_query import GroupQuery, exact_spec
from anabranch.families.clusters.group_zones import ASSIGNED, CLOSING, Groups
from anabranch.families.clusters.point_store import PointStore
from anabranch.families.clusters.spec import Clusters
from anabranch.model.stream import Stream, Time
from anabranch.predicates.terms import to_json

ENDED = "ended"


def group_key(spec: Clusters) -> str:
    """Equal for queries of one group: the same coordinates of the same items."""
    text = json.dumps([spec.by, to_json(spec.condition)], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class Neighbourhood(Stage):
    name = "neighbourhood"

    def __init__(self, stream: Stream, zones: int, patience: Patience) -> None:
        self.stream, self.zones, self.patience = stream, zones, patience

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        reports = group_zones.received_reports(packets)
        if state.get(ENDED) is not None and not reports:
            return []
        facts = next(p.facts for p in reversed(packets) if p.kind in (Kind.PROGRESS, Kind.PARTIAL))
        origin = facts["origin"]
        groups = self._groups(zone, state, origin)
        out = _merge(groups, reports)
        if state.get(ENDED) is not None:
            _drop_all(state)
            return out
        group_zones.apply_splits(state, zone, self.stream, groups, packets)
        from_order = "ended" in facts
        ended = from_order and facts["ended"]
        if from_order:
            out += self._run(zone, state, groups, packets, origin)
            out += _reach(groups, facts["last"], ended)
        out += group_zones.send_reports(groups, origin)
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
        assigned = group_zones.assign(state, self.zones, [query.number for query, _ in new], keys)
        mine = [chosen == zone or key in groups for chosen, key in zip(assigned, keys, strict=True)]
        for (query, spec), key, is_mine in zip(new, keys, mine, strict=True):
            if is_mine:
                if key not in groups:
                    points = PointStore(self.stream, spec.by, spec.condition)
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
        group_zones.unassign(state, [query.number for query in cancelled])
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
        out = group_zones.choose_division(packets, self.zones, self.patience, origin)
        out += group_zones.split_groups(state, zone, groups, packets, origin)
        if state.get(ASSIGNED) is None:
            forget_work(state)
        elif from_order:
            out += group_zones.send_work(state, zone, groups, packets, self.patience, origin)
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
