"""The one stage of the clusters family: each zone answers some groups of queries that share.

In: ITEMS (all of them), ACTIVATE, CANCEL and PROGRESS from order; from other zones of this stage, what was
said in the batch before (`splits`). Out: RESULT rows of the tables clusters, summary and changes. Never: a
query of a group that belongs to another zone, but for its number (see `dealing`).

A group is all queries over the same coordinates with the same condition. It lives in one zone, from its first
query to the end of its last, unless that zone has far more to do than others: then the group is split over
several in space, and results come from the first of them, its home, with the next batch (`splits`, `part`,
`merge`). How groups are kept: `stored`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.families.clusters import splits, stored
from anabranch.families.clusters.dealing import DEALT, deal, forget
from anabranch.families.clusters.group import Group
from anabranch.families.clusters.points import Points
from anabranch.families.clusters.spec import Clusters
from anabranch.families.clusters.stored import CLOSING, Groups, spec_of
from anabranch.families.clusters.window import Standing
from anabranch.model.stream import Stream, Time
from anabranch.predicates.terms import to_json
from anabranch.zones import queries
from anabranch.zones.balance import Patience, forget_work
from anabranch.zones.packets import Kind, Packet
from anabranch.zones.stage import Stage
from anabranch.zones.state import Arrays, State

MEMO = "groups"
ENDED = "ended"


def group_key(spec: Clusters) -> str:
    """Equal for queries that share: the same coordinates of the same items."""
    text = json.dumps([spec.by, to_json(spec.condition)], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class Neighbourhood(Stage):
    name = "neighbourhood"

    def __init__(self, stream: Stream, zones: int, patience: Patience) -> None:
        self.stream, self.zones, self.patience = stream, zones, patience

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        known = splits.heard(packets)
        if state.get(ENDED) is not None and not known:
            return []
        facts = next(p.facts for p in reversed(packets) if p.kind in (Kind.PROGRESS, Kind.PARTIAL))
        origin = facts["origin"]
        groups = self._groups(zone, state, origin)
        out = self._merged(groups, known)
        if state.get(ENDED) is not None:
            _forget_all(state)
            return out
        splits.adopt(state, zone, self.stream, groups, packets)
        ended = False
        if "ended" in facts:
            out += self._taken(zone, state, groups, packets, facts["last"], facts["ended"], origin)
            ended = facts["ended"]
        out += splits.told(groups, origin)
        for key in [key for key, group in groups.items() if not group.queries and not group.waiting]:
            del groups[key]
        if ended and not any(group.waiting for group in groups.values()):
            _forget_all(state)
            return out
        if ended:
            state.put(ENDED, {"ended": np.ones(1, np.uint8)})
        elif self.zones > 1:
            out += self._balanced(zone, state, groups, packets, "ended" in facts, origin)
        stored.save(state, groups)
        state.renew(MEMO, _depends(state), groups)
        return out

    def _merged(self, groups: Groups, known: dict[str, list[list[Arrays]]]) -> list[Packet]:
        """The rows of windows that waited, now that all parts have said what they know of them."""
        out: list[Packet] = []
        for key, parts in known.items():
            home = key + CLOSING if key + CLOSING in groups else key
            groups[home].merge(parts)
            out += groups[home].packets()
            if home != key:
                del groups[home]
        return out

    def _taken(
        self,
        zone: int,
        state: State,
        groups: Groups,
        packets: Sequence[Packet],
        last: Time | None,
        ended: bool,
        origin: Time | None,
    ) -> list[Packet]:
        """What order sent, and the rows that it led to."""
        out: list[Packet] = []
        for packet in packets:
            if packet.kind is Kind.ACTIVATE:
                self._begin(zone, state, groups, packet, origin)
            elif packet.kind is Kind.CANCEL:
                out += self._cease(state, groups, packet)
            elif packet.kind is Kind.ITEMS:
                for group in groups.values():
                    if group.queries:
                        group.feed(packet.rows)
        for group in groups.values():
            if last is not None and group.queries:
                group.reach(last)
            if ended:
                group.finish()
            out += group.packets()
        return out

    def _begin(self, zone: int, state: State, groups: Groups, packet: Packet, origin: Time | None) -> None:
        """Takes up the queries that belong to this zone, or to a group of which it has a part."""
        begun = [(query, spec_of(self.stream, query.spec)) for query in queries.begun(packet)]
        keys = [group_key(spec) for _, spec in begun]
        dealt = deal(state, self.zones, [query.number for query, _ in begun], keys)
        mine = [chosen == zone or key in groups for chosen, key in zip(dealt, keys, strict=True)]
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
                        if group.waiting or group.known:
                            group.close()
                            groups[key + CLOSING] = group
        return out

    def _balanced(
        self,
        zone: int,
        state: State,
        groups: Groups,
        packets: Sequence[Packet],
        told: bool,
        origin: Time | None,
    ) -> list[Packet]:
        """What is said so that zones share the work. All count the same batches: those that order had a part
        in while anybody has a query.
        """
        out = splits.decided(packets, self.zones, self.patience, origin)
        out += splits.divided(state, zone, groups, packets, origin)
        if state.get(DEALT) is None:
            forget_work(state)
        elif told:
            out += splits.worked(state, zone, groups, packets, self.patience, origin)
        return out

    def _groups(self, zone: int, state: State, origin: Time | None) -> Groups:
        """The groups of this zone, as the last step left them or built anew.

        Until this step renews it, nothing is remembered: if the step fails halfway, the next one builds anew.
        """
        groups = state.derived(
            MEMO, _depends(state), lambda: stored.load(state, zone, self.stream, group_key, origin)
        )
        state.renew(MEMO, (), None)
        for group in groups.values():
            group.learn(origin)
            group.work = 0
        return groups


def _depends(state: State) -> list[str]:
    return [MEMO, *state.keys()]


def _forget_all(state: State) -> None:
    for key in state.keys(""):
        state.drop(key)
    state.put(ENDED, {"ended": np.ones(1, np.uint8)})
