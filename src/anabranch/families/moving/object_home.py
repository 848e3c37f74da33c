"""The first stage of moving: the home servers. A zone is a bucket of object names.

In: reports in stream order, activations and cancellations between them, the progress of time. Out, per final
tick: a move for the region that an object is in, a departure for the region it left, and a focal update for
every region that the range of a query that follows the object touched or touches now, with what it means for
each of these queries. Also moves in the search regions of queries for nearest objects (object_reports), names
of new objects, and from zone 0, which region has to give objects away (regions). Never: a look at another
object.

A report waits here until its tick is final, so that regions get whole ticks and only the last report of an
object in each:

    ticks        0         1         2          time 2.3 is announced: ticks 0 to 2 are final
    a reports    0   .4       1.5 1.9   2.2     sent: (0, at 0), (1, at .4), (2, at 1.9); 2.2 waits for tick 3
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.chain.arrow_columns import floats_of, numbers_of, times_of
from anabranch.chain.balance import HURRY, Patience, division
from anabranch.chain.packets import Kind, Packet
from anabranch.chain.stages import Stage
from anabranch.chain.state import Arrays, State
from anabranch.families.moving import regions
from anabranch.families.moving import server_messages as messages
from anabranch.families.moving.kernels.arrays import NEAREST, NEVER, Metric, records
from anabranch.families.moving.kernels.home_moves import REPORT, route_reports
from anabranch.families.moving.kernels.name_table import buckets
from anabranch.families.moving.kernels.region_layout import RegionLayout, zones_of
from anabranch.families.moving.nearest_server import raster_in
from anabranch.families.moving.object_names import encoded, has_integers
from anabranch.families.moving.object_reports import ObjectReports, SearchedObjects
from anabranch.families.moving.query_plans import apply_control, finish, has_nearest, last_ticks, plans
from anabranch.families.moving.ticks import Ticks, final_tick, progress_of, ticks_of
from anabranch.model.arrays import Floats, Ints
from anabranch.model.stream import Stream
from anabranch.predicates.evaluate import evaluate

OBJECTS = "home objects"


def home_zones(stream: Stream, zones: int, items: pa.RecordBatch) -> Ints:
    """Returns the home zone of each item, by its object's name."""
    if zones == 1:
        return np.zeros(items.num_rows, np.int64)
    assert stream.object is not None
    return np.asarray(buckets(*encoded(items.column(stream.object)), zones))


class ObjectHome(Stage):
    name = "home"

    def __init__(
        self, stream: Stream, zones: int, layout: RegionLayout, metric: Metric, patience: Patience
    ) -> None:
        self.stream, self.zones, self.layout, self.metric = stream, zones, layout, metric
        self.patience = patience
        self.integers = has_integers(stream)

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        reports, searched = state.cached(OBJECTS, state.keys(), lambda: self._loaded(state))
        for packet in messages.of_kind(packets, messages.SPLITS):
            self._adopt_splits(reports, state, messages.splits_in(packet))
        new_queries: list[int] = []
        for packet in packets:
            if packet.kind is Kind.ITEMS:
                self._add_items(reports, packet.rows)
            elif packet.kind in (Kind.ACTIVATE, Kind.CANCEL):
                new_queries += self._apply_control(reports, state, packet)
        out = self._new_names(reports, zone) + self._divide(zone, state, packets)
        if searched is not None:
            out += self._adopt_searches(searched, zone, state, new_queries, packets)
        progress = progress_of(packets)
        ticks = ticks_of(self.stream, progress)
        if ticks is not None:
            final, last = final_tick(ticks, progress), last_ticks(state, ticks)
            due = self._due(reports, ticks, final)
            if due is not None:
                due["who"] = due["index"] * self.zones + zone
                out += self._moves(reports, zone, state, due, last)
            if searched is not None and searched.is_needed:
                out += searched.add(due, reports.names.count, zone)
            finish(state, final, last)
        reports.save(state)
        if searched is not None:
            searched.save(state)
        state.cache(OBJECTS, state.keys(), (reports, searched))
        return out

    def _loaded(self, state: State) -> tuple[ObjectReports, SearchedObjects | None]:
        searched = SearchedObjects.load(state, self.metric, self.zones) if self.zones > 1 else None
        return ObjectReports.load(state), searched

    def _apply_control(self, reports: ObjectReports, state: State, packet: Packet) -> list[int]:
        """Returns the numbers of the queries that are activated."""
        activated, cancelled = apply_control(state, packet)
        for query in activated:
            reports.conditions.add(query)
        for gone in cancelled:
            reports.conditions.remove(gone)
        return [query.number for query in activated]

    def _adopt_splits(self, reports: ObjectReports, state: State, table: Floats) -> None:
        """From now on objects belong to servers as this table of splits says."""
        regions.put_splits(state, table)
        layout = regions.layout_now(state, self.layout)
        reports.assign(lambda x, y: zones_of(self.metric, layout, x, y))

    def _adopt_searches(
        self,
        searched: SearchedObjects,
        zone: int,
        state: State,
        new_queries: list[int],
        packets: Sequence[Packet],
    ) -> list[Packet]:
        """Returns what zones get because their search regions changed, or because they have new queries for
        nearest objects.
        """
        sent = {
            packet.facts["from"]: (raster_in(packet), packet.facts["late"])
            for packet in messages.of_kind(packets, messages.SEARCH)
        }
        nearest = [n for n in new_queries if plans(state, self.integers)[n].mode == NEAREST]
        searched.is_needed = bool(sent) or has_nearest(state, self.integers) or not searched.is_idle
        if not searched.is_needed:
            searched.clear(state)
        return searched.adopt(sent, {number % self.zones for number in nearest}, zone)

    def _divide(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        """Tells the region that has far more to do than the others to give some of it away."""
        sent = messages.of_kind(packets, messages.WORK)
        if not sent:
            return []
        work = {packet.facts["from"]: packet.facts["work"] for packet in sent}
        splits = len(regions.layout_now(state, self.layout).splits)
        patience = HURRY if any(packet.facts["asked"] for packet in sent) else self.patience
        found = division(work, self.zones, splits, patience)
        if found is None:
            return []
        facts = {"other": found.other, "share": found.share}
        return [messages.message(messages.REGION, found.hot, messages.DIVIDE, {}, zone, **facts)]

    def _add_items(self, reports: ObjectReports, items: pa.RecordBatch) -> None:
        """Adds items as reports. One without a name or a position is none."""
        assert self.stream.object is not None
        x, y = (floats_of(items, column) for column in self.stream.position)
        objects = items.column(self.stream.object)
        good = np.isfinite(x) & np.isfinite(y)
        if self.metric.globe:
            good &= np.abs(y) <= 90
        if objects.null_count:
            good &= objects.is_valid().to_numpy(zero_copy_only=False)
        if not good.all():
            items = items.filter(pa.array(good))
            x, y = x[good], y[good]
        if not items.num_rows:
            return
        times = times_of(items, self.stream)
        truths = np.zeros((items.num_rows, reports.conditions.words), np.uint64)
        for bit, condition in reports.conditions.needed(times[0].item()):
            truths[:, bit >> 6] |= evaluate(condition, items).astype(np.uint64) << np.uint64(bit & 63)
        index = reports.names.find(encoded(items.column(self.stream.object)), add=True)
        reports.make_room(reports.names.count)
        reports.pending.append(
            {"time": times, "index": index, "x": x, "y": y, "number": numbers_of(items), "truths": truths}
        )

    def _new_names(self, reports: ObjectReports, zone: int) -> list[Packet]:
        new = reports.names.new_names()
        if new is None:
            return []
        who, strings = new[0] * self.zones + zone, new[1]
        return [
            messages.names_message(depth, other, who, strings, zone)
            for depth in (messages.REGION, messages.ASSEMBLE)
            for other in range(self.zones)
        ]

    def _due(self, reports: ObjectReports, ticks: Ticks, final: int) -> Arrays | None:
        """Returns the reports of the ticks that are final now, each object's last in a tick; those of later
        ticks go on waiting.
        """
        report = reports.pending.take_due(ticks, final, reports.names.count)
        if report is None:
            return None
        report["expires"] = np.full(len(report["tick"]), NEVER)
        if self.stream.expire is not None:
            report["expires"] = ticks.first_beyond(report["time"], self.stream.expire)
        return report

    def _moves(
        self, reports: ObjectReports, zone: int, state: State, report: Arrays, last: dict[int, int]
    ) -> list[Packet]:
        """Returns the moves and focal updates of reports for every region."""
        followers = reports.requests.followers(plans(state, self.integers), last, reports.names)
        layout, rows = regions.layout_now(state, self.layout), records(REPORT, report)
        moves, updates = route_reports(self.metric, layout, rows, reports.known, reports.dirty, followers)
        out: list[Packet] = []
        for server in range(self.zones):
            mine = moves[moves[:, 0] == server] if self.zones > 1 else moves
            if len(mine):
                columns = messages.move_columns(report, mine[:, 1], mine[:, 2])
                out.append(messages.message(messages.REGION, server, messages.MOVES, columns, zone))
            mine = updates[updates[:, 0] == server] if self.zones > 1 else updates
            if len(mine):
                out += self._focal_messages(server, report, mine, zone)
        return out

    def _focal_messages(self, server: int, report: Arrays, updates: Ints, zone: int) -> list[Packet]:
        """Returns the focal objects that a server gets, once each, and what they mean for its queries."""
        rows, focal = np.unique(updates[:, 1], return_inverse=True)
        objects = {name: report[name][rows] for name in ("tick", "who", "x", "y", "expires")}
        requests: Arrays = {"focal": focal, "query": updates[:, 2], "flags": updates[:, 3].astype(np.uint8)}
        return [
            messages.message(messages.REGION, server, messages.FOCAL_UPDATES, objects, zone),
            messages.message(messages.REGION, server, messages.REQUESTS, requests, zone),
        ]
