"""A zone of a stage on Spark: its packets from rows, its state from the store and back.

Handing a megabyte to or from Spark's store costs 15 to 25 ms. A worker therefore keeps the chunks of the
zones it served; when it is called again it compares tokens with the store's index and reads only the chunks
that another worker wrote meanwhile. A chunk that it holds under another token, whether older or from an
attempt that was never committed, is read again.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pandas as pd

from anabranch.spark.rows import columns_of, frame, packets_of
from anabranch.zones.stage import Stage, in_order
from anabranch.zones.state import State

#: Zones' states that this worker process holds, the least recently used first: (query, place, zone) ->
#: (state, when it was used).
_HELD: OrderedDict[tuple[str, int, int], tuple[State, float]] = OrderedDict()
HELD_BYTES = 1 << 30
HELD_S = 600.0


class StageRunner:
    """One stage of one running query; `index` and `chunks` are its state variables in Spark's store."""

    def __init__(
        self,
        query: str,
        place: int,
        stage: Stage,
        partitions: int,
        parcels: str | None,
        index: Any,
        chunks: Any,
    ) -> None:
        self.query, self.place, self.stage, self.partitions = query, place, stage, partitions
        self.parcels = parcels
        self.index, self.chunks = index, chunks

    def rows(self, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """What the rows of one key give: the packets for this stage go through a step, the others pass
        untouched.
        """
        mine = []
        for part in rows:
            here = part["stage"] == self.place
            if not here.all():
                yield part[~here]
            if here.any():
                mine += packets_of(part[here])
        if not mine:
            return
        zone = mine[0][1].zone
        state = self._take(zone)
        sent = self.stage.step(zone, state, in_order(mine))
        self._keep(zone, state)
        if sent:
            senders = ((self.place, zone, count) for count in range(len(sent)))
            yield frame(columns_of(zip(senders, sent, strict=True), self.partitions, self.parcels))

    def _take(self, zone: int) -> State:
        """The zone's state as the store has it; out of _HELD until the step is through, for it may fail half
        way.
        """
        state, _ = _HELD.pop((self.query, self.place, zone), (State(), 0.0))
        stored = self.index.get()
        tokens: dict[str, str] = json.loads(stored[0]) if stored else {}
        for key in [key for key in state.tokens if key not in tokens]:
            state.forget(key)
        for key, token in tokens.items():
            if state.tokens.get(key) != bytes.fromhex(token):
                state.load(key, bytes.fromhex(token), bytes(self.chunks.getValue((key,))[0]))
        return state

    def _keep(self, zone: int, state: State) -> None:
        """Stores what the step changed, and forgets zones that are held for nothing or by too many."""
        changed, dropped = state.take_changes()
        touched = bool(dropped)
        for key in dropped:
            self.chunks.removeKey((key,))
        for key, body in changed:
            self.chunks.updateValue((key,), (body,))
            touched = True
        if touched:
            self.index.update((json.dumps({key: token.hex() for key, token in state.tokens.items()}),))
        now = time.monotonic()
        _HELD[self.query, self.place, zone] = state, now
        size = sum(held.nbytes for held, _ in _HELD.values())
        while len(_HELD) > 1:
            oldest, used = next(iter(_HELD.values()))
            if size <= HELD_BYTES and now - used <= HELD_S:
                break
            _HELD.popitem(last=False)
            size -= oldest.nbytes
