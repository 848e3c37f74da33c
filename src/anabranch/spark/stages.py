"""The stages that an operator has, on Spark: their packets from rows, their states from the store and back.

Handing a megabyte to or from Spark's store costs 15 to 25 ms. A worker therefore keeps the chunks of the
zones it served; when it is called again it compares tokens with the store's index and reads only the chunks
that another worker wrote meanwhile. A chunk that it holds under another token, whether older or from an
attempt that was never committed, is read again. Stages that get no packets are not looked at.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd

from anabranch.chain.flows import order_of
from anabranch.chain.packets import DELIVER, ORDER, Kind, Packet
from anabranch.chain.stages import Address, Chains, Inbox, Inboxes, Stage, run_stages
from anabranch.chain.state import State
from anabranch.families.warm_up import ready
from anabranch.spark.rows import CPU, columns_of, frame, packets_of

States = dict[Address, State]

#: What this worker process holds, the least recently used first: (query, first depth, key) -> (states, when
#: they were used).
_HELD: OrderedDict[tuple[str, int, int], tuple[States, float]] = OrderedDict()
HELD_BYTES = 1 << 30
HELD_S = 600.0


class StageRunner:
    """The stages of some depths, of all families of a branch. `index` and `chunks` are state variables in
    Spark's store. The chunk `books` of order (depth 0, zone 0) is called `/0/0:books`, the chunk `clock` of
    depth 2 of the filters in zone 1 `filters/2/1:clock`. `back` gives the packets that the batch before left
    for this one.
    """

    def __init__(
        self,
        query: str,
        chains: Chains,
        depths: Sequence[int],
        partitions: int,
        parcels: str | None,
        index: Any,
        chunks: Any,
        back: Callable[[], Inbox] = list,
    ) -> None:
        self.query, self.chains, self.depths = query, chains, depths
        self.partitions, self.parcels, self.back = partitions, parcels, back
        self.index, self.chunks = index, chunks
        self._order = order_of(chains)
        self._ready: set[str] = set()
        self._cpu_s = 0.0  # not yet said

    def rows(self, key: int, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """What the rows of one key give: packets for these stages go through a step, the others pass
        untouched.
        """
        inboxes: Inboxes = defaultdict(list)
        began = time.thread_time()
        for part in rows:
            here = part["stage"].isin(self.depths)
            if not here.all():
                yield part[~here]
            for sender, packet in packets_of(part[here]):
                inboxes[packet.family, packet.stage, packet.zone].append((sender, packet))
        if not inboxes:
            return
        out: Inbox = []
        if ("", ORDER, 0) in inboxes:
            for sender, packet in self.back():
                here = packet.stage in self.depths
                (inboxes[packet.family, packet.stage, packet.zone] if here else out).append((sender, packet))
        held = _Held(self.query, self.depths[0], key, self.index, self.chunks)
        self._take_states(inboxes, held)
        work = StageWork(self._stage)
        out += run_stages(work.stage, self.depths, inboxes, held.state)
        held.keep()
        self._cpu_s += time.thread_time() - began
        if out:
            note = Packet(DELIVER, 0, Kind.NOTE, facts={CPU: round(self._cpu_s, 6), "work": work.entries()})
            out.append(((max(self.depths), key, len(out)), note))
            self._cpu_s = 0.0
            yield frame(columns_of(out, self.partitions, self.parcels))

    def _take_states(self, inboxes: Inboxes, held: _Held) -> None:
        """Zones that were rescaled begin with the states that are sent to them."""
        for address, inbox in list(inboxes.items()):
            for _, packet in inbox:
                if packet.kind is Kind.STATE:
                    held.state(address).unpack(packet.rows)
            inbox[:] = [pair for pair in inbox if pair[1].kind is not Kind.STATE]
            if not inbox:
                del inboxes[address]

    def _stage(self, family: str, depth: int) -> Stage:
        if depth == ORDER:
            return self._order
        if family not in self._ready:
            ready(family)
            self._ready.add(family)
        return self.chains[family].stages[depth - 1]


class StageWork:
    """What the stages of one call take: rows and bytes in, rows out, and CPU, by family and stage. A note
    carries it to the manifest of the batch, where `explain` finds it.
    """

    def __init__(self, stage_of: Callable[[str, int], Stage]) -> None:
        self._stage_of = stage_of
        self.taken: dict[tuple[str, str], list[int]] = {}

    def stage(self, family: str, depth: int) -> Stage:
        return _Measured(self._stage_of(family, depth), self.taken, family)

    def entries(self) -> list[list[str | int]]:
        """Returns [family, stage, rows in, bytes in, rows out, CPU in microseconds] per stage."""
        return [[*names, *numbers] for names, numbers in self.taken.items()]


class _Measured(Stage):
    def __init__(self, stage: Stage, taken: dict[tuple[str, str], list[int]], family: str) -> None:
        self.name, self._stage, self._taken, self._family = stage.name, stage, taken, family

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        begun = time.thread_time_ns()
        out = list(self._stage.step(zone, state, packets))
        cpu_us = (time.thread_time_ns() - begun) // 1000
        came = [packet.rows for packet in packets]
        now = (
            sum(rows.num_rows for rows in came),
            sum(rows.nbytes for rows in came),
            sum(packet.rows.num_rows for packet in out),
            cpu_us,
        )
        known = self._taken.setdefault((self._family, self.name), [0] * len(now))
        known[:] = map(sum, zip(known, now, strict=True))
        return out


class _Held:
    """The states of one key: as the store has them, out of _HELD until the steps are through, for one of them
    may fail half way.
    """

    def __init__(self, query: str, depth: int, key: int, index: Any, chunks: Any) -> None:
        self.name, self.index, self.chunks = (query, depth, key), index, chunks
        self.states, _ = _HELD.pop(self.name, ({}, 0.0))
        stored = index.get()
        self.tokens: dict[str, dict[str, str]] = json.loads(stored[0]) if stored else {}
        self._used: set[Address] = set()

    def state(self, address: Address) -> State:
        """The state of a zone of a stage, brought up to date with the store when it is first asked for."""
        state = self.states.setdefault(address, State())
        if address in self._used:
            return state
        self._used.add(address)
        name = _name(address)
        tokens = self.tokens.get(name, {})
        for key in [key for key in state.tokens if key not in tokens]:
            state.forget(key)
        for key, token in tokens.items():
            if state.tokens.get(key) != bytes.fromhex(token):
                state.load(key, bytes.fromhex(token), bytes(self.chunks.getValue((f"{name}:{key}",))[0]))
        return state

    def keep(self) -> None:
        """Stores what the steps changed, and forgets zones that are held for nothing or by too many."""
        touched = False
        for address in self._used:
            name, state = _name(address), self.states[address]
            changed, dropped = state.take_changes()
            for key in dropped:
                self.chunks.removeKey((f"{name}:{key}",))
                touched = True
            for key, body in changed:
                self.chunks.updateValue((f"{name}:{key}",), (body,))
                touched = True
            self.tokens[name] = {key: token.hex() for key, token in state.tokens.items()}
        if touched:
            self.index.update((json.dumps(self.tokens),))
        now = time.monotonic()
        _HELD[self.name] = self.states, now
        size = sum(_bytes_of(states) for states, _ in _HELD.values())
        while len(_HELD) > 1:
            oldest, used = next(iter(_HELD.values()))
            if size <= HELD_BYTES and now - used <= HELD_S:
                break
            _HELD.popitem(last=False)
            size -= _bytes_of(oldest)


def _name(address: Address) -> str:
    family, depth, zone = address
    return f"{family}/{depth}/{zone}"


def _bytes_of(states: States) -> int:
    return sum(state.nbytes for state in states.values())
