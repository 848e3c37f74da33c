"""Budgets: how much work one subscription may ask of one batch, and what happens to one that asks for more.

    budget = Budget.of(stream)                              # [limits] batch_work and item_work of the job
    if budget.exceeded(windows, items):                     # counted before the work is done
        packets += suspended("filters", query, item, budget.reason("windows", windows, items))

Work is counted (rows, windows, pairs), never measured by a clock: a batch that is run again suspends the same
subscription at the same item. What is allowed grows with the items of the batch, so that a large batch is no
reason to suspend anybody.

A subscription that is suspended gets nothing from item `item` on. The stage that found it sends three
packets: CANCEL, a back packet for order, which cancels the query in all zones of its family before the next
batch; a NOTE for the manifest, from which the catalog takes the reason; and a dead letter. In the batch
itself, the stage leaves the work out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa

from anabranch.chain.control import Query, cancel_rows
from anabranch.chain.items import DEAD_LETTERS
from anabranch.chain.packets import DELIVER, ORDER, Kind, Packet
from anabranch.model.limits import DEFAULT_LIMITS
from anabranch.model.stream import Stream


@dataclass(frozen=True)
class Budget:
    """What a subscription may ask for: `base` per batch, and `per_item` more for each item that it sees."""

    base: int = DEFAULT_LIMITS.batch_work
    per_item: int = DEFAULT_LIMITS.item_work

    @staticmethod
    def of(stream: Stream) -> Budget:
        """Returns the budget that the operator of a stream allows."""
        return Budget(stream.limits.batch_work, stream.limits.item_work)

    def allowed(self, items: int) -> int:
        return self.base + self.per_item * items

    def exceeded(self, count: int, items: int) -> bool:
        return count > self.allowed(items)

    def reason(self, what: str, count: int, items: int) -> str:
        """`it would give 5,000,000 windows for 10 items (limits: batch_work 1,000,000, item_work 100)`"""
        limits = f"limits: batch_work {self.base:,}, item_work {self.per_item:,}"
        return f"it would give {count:,} {what} for {items:,} {'item' if items == 1 else 'items'} ({limits})"


def suspended(family: str, query: Query, item: int, reason: str) -> list[Packet]:
    """Returns the packets that suspend a query between item `item` and the one before.

    Dead letters may be read by others than its owner: there it has its number, as in `anabranch list`, and no
    name.
    """
    known = {"query": query.number, "item": item, "reason": reason}
    facts = {"suspended": query.name, **known}
    why = f"subscription #{query.number} was suspended at item {item:,}: {reason}"
    letter = pa.record_batch([[why], [json.dumps(known)]], schema=DEAD_LETTERS)
    return [
        Packet(ORDER, 0, Kind.CANCEL, cancel_rows([query.number], family)),
        Packet(DELIVER, 0, Kind.NOTE, facts=facts),
        Packet(DELIVER, 0, Kind.DEAD, letter),
    ]
