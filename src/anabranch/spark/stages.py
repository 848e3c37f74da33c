"""A zone of one stage, or of all stages that an operator has, on Spark: its packets from rows, its state from
the store and back.

Handing a megabyte to or from Spark's store costs 15 to 25 ms. A worker therefore keeps the chunks of the
zones it served; when it is called again it compares tokens with the store's index and reads only the chunks
that another worker wrote meanwhile. A chunk that it holds under another token, whether older or from an
attempt that was never committed, is read again.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from anabranch.chain.stages import Inbox, Stage, in_order
from anabranch.chain.state import State
from anabranch.spark.rows import columns_of, frame, packets_of

#: The states of a zone, by the stage's depth.
States = dict[int, State]

#: What this worker process holds, the least recently used first: (query, first depth, zone) -> (states, when
#: they were used).
_HELD: OrderedDict[tuple[str, int, int], tuple[States, float]] = OrderedDict()
HELD_BYTES = 1 << 30
HELD_S = 600.0


class StageRunner:
    """The stages of one operator of one running query, by depth; `index` and `chunks` are its state variables
    in Spark's store, where the chunk `books` of stage 0 is called `0:books`.
    """

    def __init__(
        self,
        query: str,
        stages: Mapping[int, Stage],
        partitions: int,
        parcels: str | None,
        index: Any,
        chunks: Any,
    ) -> None:
        self.query, self.stages, self.partitions, self.parcels = query, stages, partitions, parcels
        self.index, self.chunks = index, chunks

    def rows(self, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """What the rows of one key give: packets for these stages go through a step, the others pass
        untouched.
        """
        inboxes: dict[int, Inbox] = defaultdict(list)
        zone = 0
        for part in rows:
            here = part["stage"].isin(self.stages)
            if not here.all():
                yield part[~here]
            for sender, packet in packets_of(part[here]):
                inboxes[packet.stage].append((sender, packet))
                zone = packet.zone
        if not inboxes:
            return
        states = self._take(zone)
        sent = self._sent(zone, states, inboxes)
        self._keep(zone, states)
        if sent:
            yield frame(columns_of(sent, self.partitions, self.parcels))

    def _sent(self, zone: int, states: States, inboxes: dict[int, Inbox]) -> Inbox:
        """What leaves the operator; packets from one of its stages to a later one never become bytes."""
        out: Inbox = []
        for depth, stage in self.stages.items():
            if depth not in inboxes:
                continue
            for count, packet in enumerate(stage.step(zone, states[depth], in_order(inboxes.pop(depth)))):
                stays = packet.stage > depth and packet.stage in self.stages
                (inboxes[packet.stage] if stays else out).append(((depth, zone, count), packet))
        return out

    def _take(self, zone: int) -> States:
        """The zone's states as the store has them; out of _HELD until the step is through, for it may fail
        half way.
        """
        states, _ = _HELD.pop((self.query, min(self.stages), zone), ({}, 0.0))
        stored = self.index.get()
        tokens: dict[str, str] = json.loads(stored[0]) if stored else {}
        for depth in self.stages:
            state = states.setdefault(depth, State())
            for key in [key for key in state.tokens if f"{depth}:{key}" not in tokens]:
                state.forget(key)
        for name, token in tokens.items():
            of, _, key = name.partition(":")
            state = states[int(of) if of.isdigit() else min(states)]  # an older release: load says so
            if state.tokens.get(key) != bytes.fromhex(token):
                state.load(key, bytes.fromhex(token), bytes(self.chunks.getValue((name,))[0]))
        return states

    def _keep(self, zone: int, states: States) -> None:
        """Stores what the steps changed, and forgets zones that are held for nothing or by too many."""
        touched = False
        for depth, state in states.items():
            changed, dropped = state.take_changes()
            for key in dropped:
                self.chunks.removeKey((f"{depth}:{key}",))
                touched = True
            for key, body in changed:
                self.chunks.updateValue((f"{depth}:{key}",), (body,))
                touched = True
        if touched:
            tokens = {
                f"{depth}:{key}": token.hex()
                for depth, state in states.items()
                for key, token in state.tokens.items()
            }
            self.index.update((json.dumps(tokens),))
        now = time.monotonic()
        _HELD[self.query, min(self.stages), zone] = states, now
        size = sum(_bytes_of(held) for held, _ in _HELD.values())
        while len(_HELD) > 1:
            oldest, used = next(iter(_HELD.values()))
            if size <= HELD_BYTES and now - used <= HELD_S:
                break
            _HELD.popitem(last=False)
            size -= _bytes_of(oldest)


def _bytes_of(states: States) -> int:
    return sum(state.nbytes for state in states.values())
