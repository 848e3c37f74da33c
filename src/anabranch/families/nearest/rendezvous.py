"""Second stage: the queries whose points lie in this zone's cells, and the candidates of each.

In: from order, queries that begin and end, and progress; from the homes, the items that this zone is
interested in, and how many passed by. Out: rows of the result table for delivery; for the homes, the
cells of interest as they changed (back packets, which take effect in the next batch). Never: a look at an
item that no ball of its queries reaches, except to count it.

Departures happen up to the time of the last item, not up to the progress of time: with lateness the two
differ, and a query's end that lies between them is announced only with the first item after it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from anabranch.families.nearest import answers, candidates, clocks, interest, rebalance, space
from anabranch.families.nearest import messages as m
from anabranch.families.nearest.batch import Batch, Known
from anabranch.families.nearest.groups import Group, groups
from anabranch.families.nearest.mail import Mail, Progress
from anabranch.families.nearest.owners import disown, keep_own
from anabranch.families.nearest.shelf import Shelf
from anabranch.model.stream import Stream
from anabranch.zones import queries
from anabranch.zones.balance import HURRY, Patience, asked, note_work
from anabranch.zones.columns import Array
from anabranch.zones.packets import Kind, Packet
from anabranch.zones.stage import Stage
from anabranch.zones.state import State


class Rendezvous(Stage):
    name = "rendezvous"

    def __init__(self, stream: Stream, zones: int, patience: Patience) -> None:
        self.stream, self.zones, self.patience = stream, zones, patience

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        mail = Mail.sorted(packets)
        out, where = self._space(zone, state, mail)
        if where is None:  # no item yet: whose queries they are is open
            queries.apply(state, mail.controls)
            return out
        where, brought = self._resettled(zone, state, where, packets)
        begun = keep_own(state, mail.controls, where, zone)
        known = Known.load(state)
        ended = {query.number: query for query in _ceased(mail) if query.number in queries.active(state)}
        progress = mail.progress or known.progress
        counters = {m.QUERY_ACTIVATION: begun, m.QUERY_CANCELLATION: len(ended)}
        if known.progress != progress or mail.items or begun or ended or brought:
            out += self._moved(zone, state, where, mail, progress, known, ended, counters)
        queries.apply(state, [packet for packet in mail.controls if packet.kind is Kind.CANCEL])
        out += self._balanced(zone, state, where, mail, counters, packets)
        return out + m.note(self.name, zone, counters)

    def _resettled(
        self, zone: int, state: State, where: space.Space, packets: Sequence[Packet]
    ) -> tuple[space.Space, int]:
        """The space with a new table of splits, if one came, and how many queries this zone got by it."""
        if not rebalance.heard(state, packets):
            return where, 0
        now = space.load(state, self.stream, self.zones)
        assert now is not None
        disown(state, now, zone)
        return now, rebalance.received(state, packets)

    def _balanced(
        self,
        zone: int,
        state: State,
        where: space.Space,
        mail: Mail,
        counters: dict[str, int],
        packets: Sequence[Packet],
    ) -> list[Packet]:
        """What this zone had to do, when it is time to tell; and what it gives away, if it is asked to."""
        if self.zones == 1:
            return []
        out: list[Packet] = []
        if mail.progress is not None:
            items = sum(rows.num_rows for rows in mail.items)
            work = items + len(queries.active(state)) + counters.get(m.NOTIFY_OWNER, 0)
            hurry = asked(packets)
            if due := note_work(state, HURRY if hurry else self.patience, work):
                out.append(m.say(m.WORK, m.HOME, 0, zone=zone, work=due, asked=hurry))
        for packet in packets:
            if m.said(packet, m.DIVIDE):
                out += rebalance.given(state, where, zone, packet.facts["other"], packet.facts["share"])
        return out

    def _space(self, zone: int, state: State, mail: Mail) -> tuple[list[Packet], space.Space | None]:
        """The space, as soon as there are items; zone 0 tells the homes."""
        where = space.load(state, self.stream, self.zones)
        if where is not None or not mail.extents:
            return [], where
        space.save(state, space.space_of(self.stream, mail.extents, self.zones))
        where = space.load(state, self.stream, self.zones)
        assert where is not None
        disown(state, where, zone)
        if zone != 0:
            return [], where
        bounds = {name: list(pair) for name, pair in where.bounds.items()}
        return [m.say(m.SPACE, m.HOME, home, bounds=bounds) for home in range(self.zones)], where

    def _moved(
        self,
        zone: int,
        state: State,
        where: space.Space,
        mail: Mail,
        progress: Progress,
        known: Known,
        ended: dict[int, queries.Ceased],
        counters: dict[str, int],
    ) -> list[Packet]:
        """The queries brought up to date with what arrived.

        `low` is the oldest item that may still be inserted when a ball grows. Homes hear of it in the
        next batch; until then they send items as old as the `low` they know, if a ball that grew just now
        reaches them, so this zone's buffer is kept that long.
        """
        here = groups(state, self.stream)
        batch = Batch(self.stream, state, mail, progress, known, here)
        bys = dict.fromkeys([*(group.by for group in here), *interest.told(state)])
        own = {by: interest.Own(state, by, where.overlay(by), progress.number) for by in bys}
        rows: list[answers.Answers] = []
        moved: list[tuple[Group, candidates.Moved]] = []
        low = progress.number
        for group in here:
            boxes, bound, ending = batch.boxes(group.by), batch.bound(group), batch.ending(group, ended)
            meetings = candidates.meetings(state, group, batch.place(group.by), boxes, batch.fresh)
            for part, met in zip(group.parts, meetings, strict=True):
                items, asks = batch.items(group, part), own[group.by].asks
                change = candidates.move(state, group, part, items, boxes, met, bound, ending, asks)
                moved.append((group, change))
                low = min(low, change.low)
                if len(change.log.op):
                    at = batch.at(group, change.log.moment)
                    rows.append(answers.Answers(part.names, change.log, at, group.unit == "fraction"))
        out = [answers.packet(self.stream, rows, batch.shelf)] if rows else []
        counters[m.NOTIFY_OWNER] = answers.begun(rows)
        counters[m.MERGER_UPDATE] = 0
        low = max(low, known.low)
        kept = min([low, *(mine.told.low for mine in own.values() if mine.told.want == interest.CELLS)])
        for by, mine in own.items():
            members = [(group, change) for group, change in moved if group.by == by]
            if members and not ended and not mine.asks:
                continue
            wanted, balls = _wanted(by, members, batch, progress, low, ended)
            update = mine.update(wanted, balls, batch.arrived, batch.soon())
            if update is not None:
                homes = where.overlay(by).zone_of
                counters[m.MERGER_UPDATE] += interest.informed(mine.told, *update, homes, zone)
                out += self._told(zone, *update)
        self._tidy(state, batch.shelf, moved, kept)
        batch.keep_clocks(kept)
        clocks.forget(state, {group.by for group in here if group.by_rows})
        Known(progress, kept).save(state)
        return out

    def _told(self, zone: int, merger: interest.Merger, toggled: Array) -> list[Packet]:
        """What this zone tells the homes about one of its mergers."""
        rows, facts = interest.toggled_rows(toggled), merger.facts() | {"zone": zone}
        return [m.say(m.MERGER, m.HOME, home, rows, **facts) for home in range(self.zones)]

    def _tidy(
        self, state: State, shelf: Shelf, moved: list[tuple[Group, candidates.Moved]], low: int
    ) -> None:
        candidates.forget(state, {change.part.key for _, change in moved})
        shelf.drop_before(min([low, *(change.oldest for _, change in moved)]))
        shelf.tidy(low, lambda: candidates.numbers(state))


def _ceased(mail: Mail) -> list[queries.Ceased]:
    return [
        query for packet in mail.controls if packet.kind is Kind.CANCEL for query in queries.ceased(packet)
    ]


def _wanted(
    by: space.By,
    members: list[tuple[Group, candidates.Moved]],
    batch: Batch,
    progress: Progress,
    low: int,
    ended: Collection[int],
) -> tuple[interest.Merger, interest.Balls]:
    """The merger of the queries that go on: their balls, and until when all of them have their guards."""
    numbers, points, radii = [], [], []
    last_number: int | None = None
    last_time: float | int | None = None
    counts = False
    for group, change in members:
        stays = (
            ~np.isin(change.part.numbers, list(ended))
            if ended
            else np.ones(len(change.part.numbers), np.bool_)
        )
        if not stays.any():
            continue
        numbers.append(change.part.numbers[stays])
        points.append(change.part.point[stays])
        radii.append(change.radius[stays])
        until = change.until[stays & (change.radius < math.inf) & (change.until < group.never)]
        if not len(until):
            continue
        soonest = until.min().item()
        if group.by_rows:
            spare = progress.number + soonest - batch.ordinals(by).stop
            last_number = spare if last_number is None else min(last_number, spare)
            counts = True
        else:
            last_time = soonest if last_time is None else min(last_time, soonest)
    if not numbers:
        return interest.Merger(by), interest.Balls(np.empty(0, np.int64), np.empty((0, len(by))), np.empty(0))
    order = np.argsort(np.concatenate(numbers))
    balls = interest.Balls(
        np.concatenate(numbers)[order], np.concatenate(points)[order], np.concatenate(radii)[order]
    )
    return interest.Merger(by, interest.CELLS, low, last_number, last_time, counts), balls
