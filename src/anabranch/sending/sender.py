"""Sends results to receivers, in a thread of the process that runs the streams.

Every row is sent at least once, in the order of the results, with a key by which repeats are recognised. How
far sending has come is saved after the receiver has acknowledged the rows. Neither the stream nor another
receiver waits for a receiver: each has its own task, which tries again for ever, at growing intervals.

A request is an open file, and one that hangs takes TRY_S seconds. So there are few at once: of one owner, and
in all (Tries). Receivers that failed last time have places of their own: however many hang, those that answer
are not kept waiting.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import anyio
from anyio import to_thread

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.entries import ANY_ADDRESS, Entry
from anabranch.catalog.receivers import Receivers
from anabranch.model.receiver import Topic, Webhook
from anabranch.results import pages
from anabranch.results.deliveries import Deliveries
from anabranch.results.layout import Layout
from anabranch.sending.outbox import Outbox, Shipment
from anabranch.sending.webhook import SendFailed, Webhooks

log = logging.getLogger("anabranch.sending")

#: How often it looks for new batches and receivers, and saves how far it has come.
LOOK_S = 0.5
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
#: So many batches after its cancellation a subscription may still have results: what was under way.
AFTER_CANCEL = 10
#: Threads that read results; few, as the stream needs the processor more.
READERS = 2
#: Requests under way at once: all, and those of one owner. First to receivers that answered, then to those
#: that failed last time.
TRIES, OWNER_TRIES = (96, 32), (16, 4)

#: Sends (key, value, id) to a topic of some servers and returns when all are acknowledged; raises where not.
Produce = Callable[[str, str, Sequence[tuple[str, str, str]]], None]


def wait_s(failures: int) -> float:
    """Returns 1, 2, 4 ... 60 s, less up to a half, so that those that failed together do not try together."""
    longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(failures - 1, 10))
    return float(longest * random.uniform(0.5, 1.0))


class Tries:
    """Places for requests. What the job file and local commands register may take all."""

    def __init__(self) -> None:
        self._all = [anyio.CapacityLimiter(many) for many in TRIES]
        self._by_owner: dict[tuple[str, bool], anyio.CapacityLimiter] = {}
        self._lookups: dict[str, anyio.CapacityLimiter] = {}

    @asynccontextmanager
    async def place(self, owner: str | None, failing: bool) -> AsyncIterator[None]:
        """Waits for a place, and keeps it while the context lasts."""
        if owner is None:
            async with self._all[failing]:
                yield
            return
        key = (owner, failing)
        own = self._by_owner.setdefault(key, anyio.CapacityLimiter(OWNER_TRIES[failing]))
        async with own, self._all[failing]:
            yield

    def lookups(self, owner: str | None) -> anyio.CapacityLimiter:
        """Returns the limit of threads that look up names for an owner: a lookup outlives a try."""
        most = TRIES[0] if owner is None else OWNER_TRIES[0]
        return self._lookups.setdefault(owner or "", anyio.CapacityLimiter(most))


class Sender:
    """Sends for all subscriptions of a job. `private`: also to addresses that are not public, and to Kafka,
    for callers of a service who may only reach public ones otherwise.
    """

    def __init__(self, layout: Layout, private: bool = False, produce: Produce | None = None) -> None:
        self.private, self.produce = private, produce
        self._deliveries = Deliveries(layout, pages.RECENT_BYTES)
        self._catalog, self._receivers = Catalog.existing(layout.catalog), Receivers(layout.catalog)
        self._boxes: dict[int, Outbox] = {}
        self._latest: dict[str, int] = {}  # by branch
        self._until: float | None = None  # when it is to stop at the latest
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: anyio.run(self._run), name="sender", daemon=True)
        self._sink = self._catalog.identity()

    def start(self) -> None:
        self._thread.start()

    def stop(self, patience_s: float) -> None:
        """Ends once all is sent, or after a while."""
        self._until = time.monotonic() + patience_s
        self._stopping.set()
        self._thread.join()
        self._receivers.close()
        self._catalog.close()
        left = sum(box.idle_since is None for box in self._boxes.values())
        if left:
            log.warning("%d receivers have not got everything; the next run goes on there", left)

    async def _run(self) -> None:
        self._webhooks, self._reading = Webhooks(), anyio.CapacityLimiter(READERS)
        self._tries = Tries()
        waiting = anyio.CapacityLimiter(1)
        started: set[int] = set()
        looked: float | None = None  # when it first looked after it was told to stop
        async with anyio.create_task_group() as tasks:
            while looked is None or not self._done(looked):
                stopping = self._until is not None
                try:
                    await to_thread.run_sync(self._look)
                except Exception as error:  # the catalog may be away for a while
                    log.warning("receivers cannot be looked up: %s", error)
                if stopping and looked is None:
                    looked = time.monotonic()
                for number in self._boxes.keys() - started:
                    started.add(number)
                    tasks.start_soon(self._follow, self._boxes[number])
                if stopping:
                    await self._pause()
                else:  # where there is nothing to send, a stop takes no time
                    await to_thread.run_sync(self._stopping.wait, LOOK_S, limiter=waiting)
            tasks.cancel_scope.cancel()
        await to_thread.run_sync(self._save)
        await self._webhooks.close()

    async def _pause(self) -> None:
        await anyio.sleep(LOOK_S if self._until is None else LOOK_S / 10)

    def _done(self, looked: float) -> bool:
        assert self._until is not None
        return time.monotonic() > self._until or all(
            box.idle_since is not None and box.idle_since > looked for box in self._boxes.values()
        )

    def _look(self) -> None:
        """Saves how far it has come; then looks for new batches, receivers and cancellations."""
        self._save()
        streams = None
        for entry, delivery in self._receivers.open():
            branch = self._deliveries.branch(entry)
            if entry.number not in self._boxes:
                streams = streams or self._catalog.streams()
                reader = pages.result_reader(self._deliveries, entry, streams[entry.stream])
                self._boxes[entry.number] = Outbox(entry, delivery, reader)
            self._latest.setdefault(branch, -1)
            box = self._boxes[entry.number]
            box.secret = delivery.secret
            if box.secret is None and isinstance(box.receiver, Webhook):  # registered by an earlier release
                box.secret = self._receivers.new_secret(entry.number, entry.name)
            if not entry.active and box.last is None and self._passed(entry):
                box.last = self._deliveries.latest(branch) + AFTER_CANCEL
        for branch in self._latest:
            self._latest[branch] = self._deliveries.latest(branch)

    def _save(self) -> None:
        changed = [box for box in self._boxes.values() if box.changed]
        for box in changed:
            box.changed = False  # before its progress is read: what changes meanwhile is saved next time
        progress = [box.progress() for box in changed]
        try:
            self._receivers.save(progress)
        except Exception:
            for box in changed:
                box.changed = True
            raise
        for each in progress:
            if each.ended is not None:
                del self._boxes[each.number]

    def _passed(self, entry: Entry) -> bool:
        """Whether the stream has passed the time of a cancellation."""
        last = self._deliveries.books(entry.stream).get("last")
        return entry.cancel is None or (last is not None and last > entry.cancel)

    async def _follow(self, box: Outbox) -> None:
        own = anyio.CapacityLimiter(1)  # for a topic whose servers hang
        while not box.finished():
            latest = self._latest[self._deliveries.branch(box.entry)]
            try:
                shipment = await to_thread.run_sync(box.next_shipment, latest, limiter=self._reading)
                if shipment is not None:
                    box.idle_since = None
                    async with self._tries.place(box.entry.owner, box.failures > 0):
                        await self._send(box, shipment, own)
                    box.acknowledged(shipment)
                elif box.cursor.batch > latest:
                    box.idle_since = time.monotonic()
                    await self._pause()
            except Exception as error:
                kind = "" if isinstance(error, SendFailed) else f"{type(error).__name__}: "
                box.failed(f"{kind}{error}")
                await anyio.sleep(wait_s(box.failures))

    async def _send(self, box: Outbox, shipment: Shipment, own: anyio.CapacityLimiter) -> None:
        number, allowed = box.entry.number, self.private or box.delivery.reach == ANY_ADDRESS
        receiver = box.receiver
        if not isinstance(receiver, Topic):
            key = f"{self._sink}-{number}-{shipment.start}-{shipment.end.row}"
            lookups, body = self._tries.lookups(box.entry.owner), box.body(shipment)
            await self._webhooks.post(receiver.url, body, key, allowed, lookups, box.secret)
            return
        if self.produce is None or not allowed:
            raise SendFailed("this service sends nothing to Kafka")
        ids = [f"{self._sink}-{number}-{id}" for id in shipment.ids()]
        messages = [(box.entry.label, row, id) for row, id in zip(shipment.rows, ids, strict=True)]
        work = partial(self.produce, receiver.servers, receiver.name, messages)
        await to_thread.run_sync(work, abandon_on_cancel=True, limiter=own)
