"""The first stage of moving: the home servers. A zone is a bucket of object names.

In: reports in stream order, activations and cancellations between them, the progress of time. Out: for each
final tick, a move for the region that an object is in, a departure for the region it left, and one focal
update for every region that the range of a query that follows the object touched or touches now, with what it
means for each of these; moves in the search regions of queries for nearest objects (search.py); names of new
objects; from zone 0, who has to divide its objects (splits.py). Never: a look at another object.

A report waits here until its tick is final, so that regions get whole ticks and only the last report of an
object in each:

    ticks        0         1         2          time 2.3 is announced: ticks 0 to 2 are final
    a reports    0   .4       1.5 1.9   2.2     sent: (0, at 0), (1, at .4), (2, at 1.9); 2.2 waits for tick 3
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.families.moving import messages, rasters, splits
from anabranch.families.moving.arrays import records
from anabranch.families.moving.held import give_back, take
from anabranch.families.moving.names import Strings, encoded, has_integers
from anabranch.families.moving.objects import HomeObjects
from anabranch.families.moving.plans import ask_nearest, finish, last_ticks, note_control, plans
from anabranch.families.moving.search import Interest
from anabranch.families.moving.ticks import Ticks, final_tick, progress_of, ticks_of
from anabranch.kernels.moving_arrays import NEAREST, NEVER, Space
from anabranch.kernels.moving_home import REPORT, forward, last_of_tick, servers_of
from anabranch.kernels.moving_names import buckets
from anabranch.kernels.regions import Layout
from anabranch.model.stream import Stream
from anabranch.predicates.evaluate import evaluate
from anabranch.zones.balance import HURRY, Patience, division
from anabranch.zones.columns import Array, floats_of, numbers_of, times_of
from anabranch.zones.packets import Kind, Packet
from anabranch.zones.stage import Stage
from anabranch.zones.state import Arrays, State

HELD = "home objects"


def home_zones(stream: Stream, zones: int, items: pa.RecordBatch) -> Array:
    """The home zone of each item, by its object's name."""
    if zones == 1:
        return np.zeros(items.num_rows, np.int64)
    assert stream.object is not None
    return np.asarray(buckets(*encoded(items.column(stream.object)), zones))


class Home(Stage):
    name = "home"

    def __init__(self, stream: Stream, zones: int, layout: Layout, space: Space, patience: Patience) -> None:
        self.stream, self.zones, self.layout, self.space = stream, zones, layout, space
        self.patience = patience
        self.integers = has_integers(stream)

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        held, interest = take(state, HELD, lambda: self._loaded(state))
        for packet in messages.of_kind(packets, messages.SPLITS):
            self._adopt(held, state, messages.splits_of(packet))
        begun: list[int] = []
        for packet in packets:
            if packet.kind is Kind.ITEMS:
                self._take_items(held, packet.rows)
            elif packet.kind in (Kind.ACTIVATE, Kind.CANCEL):
                began, ceased = note_control(state, packet)
                for query in began:
                    held.conditions.begin(query)
                    begun.append(query.number)
                for end in ceased:
                    held.conditions.cease(end)
        out = self._introduced(held, zone) + self._divide(zone, state, packets)
        if interest is not None:
            out += self._searched(interest, zone, state, begun, packets)
        progress = progress_of(packets)
        ticks = ticks_of(self.stream, progress)
        if ticks is not None:
            final, last = final_tick(ticks, progress), last_ticks(state, ticks)
            due = self._due(held, ticks, final)
            if due is not None:
                due["who"] = due["index"] * self.zones + zone
                out += self._sent(held, zone, state, due, last)
            if interest is not None and interest.is_needed:
                out += interest.share(due, held.names.count, zone)
            finish(state, final, last)
        held.save(state)
        if interest is not None:
            interest.save(state)
        give_back(state, HELD, (held, interest))
        return out

    def _loaded(self, state: State) -> tuple[HomeObjects, Interest | None]:
        interest = Interest.load(state, self.space, self.zones) if self.zones > 1 else None
        return HomeObjects.load(state), interest

    def _adopt(self, held: HomeObjects, state: State, table: Array) -> None:
        """From now on objects belong to servers as this table of splits says."""
        splits.adopt(state, table)
        held.assign(lambda x, y: servers_of(self.space, splits.layout_now(state, self.layout), x, y))

    def _searched(
        self, interest: Interest, zone: int, state: State, begun: list[int], packets: Sequence[Packet]
    ) -> list[Packet]:
        """What zones get because their search regions changed, or because queries for nearest objects begin
        there.
        """
        told = {
            packet.facts["from"]: (rasters.told(packet), packet.facts["late"])
            for packet in messages.of_kind(packets, messages.SEARCH)
        }
        nearest = [number for number in begun if plans(state, self.integers)[number].mode == NEAREST]
        interest.is_needed = bool(told) or ask_nearest(state, self.integers) or not interest.is_idle
        if not interest.is_needed:
            interest.forget(state)
        return interest.adopt(told, {number % self.zones for number in nearest}, zone)

    def _divide(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        """Tells the region that has far more to do than the others to give some of it away."""
        told = messages.of_kind(packets, messages.WORK)
        if not told:
            return []
        work = {packet.facts["from"]: packet.facts["work"] for packet in told}
        known = len(splits.layout_now(state, self.layout).splits)
        patience = HURRY if any(packet.facts["asked"] for packet in told) else self.patience
        found = division(work, self.zones, known, patience)
        if found is None:
            return []
        facts = {"other": found.other, "share": found.share}
        return [messages.message(2, found.hot, messages.DIVIDE, {}, zone, **facts)]

    def _take_items(self, held: HomeObjects, items: pa.RecordBatch) -> None:
        """Items become reports. One without a name or a position is none."""
        assert self.stream.object is not None
        x, y = (floats_of(items, column) for column in self.stream.position)
        named = items.column(self.stream.object)
        good = np.isfinite(x) & np.isfinite(y)
        if self.space.globe:
            good &= np.abs(y) <= 90
        if named.null_count:
            good &= named.is_valid().to_numpy(zero_copy_only=False)
        if not good.all():
            items = items.filter(pa.array(good))
            x, y = x[good], y[good]
        if not items.num_rows:
            return
        times = times_of(items, self.stream)
        truths = np.zeros((items.num_rows, held.conditions.words), np.uint64)
        for bit, condition in held.conditions.wanted(times[0].item()):
            truths[:, bit >> 6] |= evaluate(condition, items).astype(np.uint64) << np.uint64(bit & 63)
        index = held.names.find(encoded(items.column(self.stream.object)), add=True)
        held.make_room(held.names.count)
        held.pending.append(
            {
                "time": times.copy(),
                "index": index,
                "x": x,
                "y": y,
                "number": numbers_of(items).copy(),
                "truths": truths,
            }
        )

    def _introduced(self, held: HomeObjects, zone: int) -> list[Packet]:
        news = held.names.news()
        if news is None:
            return []
        who = news[0] * self.zones + zone
        strings: Strings = news[1]
        return [
            messages.names_message(stage, other, who, strings, zone)
            for stage in (2, 3)
            for other in range(self.zones)
        ]

    def _due(self, held: HomeObjects, ticks: Ticks, final: int) -> Arrays | None:
        """The reports of the ticks that are final now, each object's last in a tick; those of later ticks go
        on waiting.
        """
        waiting = held.taken_reports()
        if waiting is None:
            return None
        tick = ticks.first_at(waiting["time"])
        kept = last_of_tick(tick, waiting["index"], held.names.count)
        due = kept & (tick <= final)
        rest = kept & ~due
        if rest.any():
            held.pending = [{name: column[rest] for name, column in waiting.items()}]
        if not due.any():
            return None
        report = {name: column[due] for name, column in waiting.items()} | {"tick": tick[due]}
        report["gone"] = np.full(len(report["tick"]), NEVER)
        if self.stream.expire is not None:
            report["gone"] = ticks.first_beyond(report["time"], self.stream.expire)
        return report

    def _sent(
        self, held: HomeObjects, zone: int, state: State, report: Arrays, last: dict[int, int]
    ) -> list[Packet]:
        followers = held.requests.followers(plans(state, self.integers), last, held.names)
        reports = records(REPORT, report)
        layout = splits.layout_now(state, self.layout)
        moves, updates = forward(self.space, layout, reports, held.known, held.dirty, followers)
        out: list[Packet] = []
        for server in range(self.zones):
            mine = moves[moves[:, 0] == server] if self.zones > 1 else moves
            if len(mine):
                columns = messages.moves(report, mine[:, 1], mine[:, 2])
                out.append(messages.message(2, server, messages.MOVES, columns, zone))
            mine = updates[updates[:, 0] == server] if self.zones > 1 else updates
            if len(mine):
                told, focal = np.unique(mine[:, 1], return_inverse=True)
                columns = {name: report[name][told] for name in ("tick", "who", "x", "y", "gone")}
                out.append(messages.message(2, server, messages.FOCAL_UPDATES, columns, zone))
                columns = {"focal": focal, "query": mine[:, 2], "flags": mine[:, 3].astype(np.uint8)}
                out.append(messages.message(2, server, messages.REQUESTS, columns, zone))
        return out
