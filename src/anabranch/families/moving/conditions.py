"""Conditions of queries as bits of a report: each distinct condition is evaluated once a report, at home,
and travels as one bit.

A query sees only reports that come after its activation, so a condition never has to be evaluated on an
older one. Home zones and regions number conditions alike because they see the same activations and
cancellations in the same order; nothing is exchanged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from anabranch.model.stream import Time
from anabranch.predicates.terms import TRUE, Term, from_json, to_json
from anabranch.zones.queries import Active, Ceased
from anabranch.zones.state import State

KEY = "conditions"
_ALWAYS = json.dumps(to_json(TRUE))


@lru_cache(100_000)
def _parsed(text: str) -> Term:
    return from_json(json.loads(text))


@dataclass
class _Bit:
    text: str
    users: int
    freed: Time | None = None  # when its last user ended


@dataclass
class Conditions:
    bits: list[_Bit] = field(default_factory=list)
    of_query: dict[int, int] = field(default_factory=dict)
    changed: bool = False

    @staticmethod
    def load(state: State) -> Conditions:
        arrays = state.get(KEY)
        if arrays is None:
            return Conditions()
        held: dict[str, Any] = json.loads(bytes(arrays["json"]))
        return Conditions(
            [_Bit(*bit) for bit in held["bits"]], {int(n): bit for n, bit in held["of_query"].items()}
        )

    def save(self, state: State) -> None:
        if not self.changed:
            return
        self.changed = False
        held = {"bits": [[b.text, b.users, b.freed] for b in self.bits], "of_query": self.of_query}
        state.put(KEY, {"json": np.frombuffer(json.dumps(held).encode(), np.uint8)})

    @property
    def words(self) -> int:
        """How many 64-bit words hold the bits of a report."""
        return max(1, -(-len(self.bits) // 64))

    def begin(self, query: Active) -> int:
        """The bit of a query's condition; -1 for the one that always holds."""
        text = json.dumps(query.spec["condition"])
        if text == _ALWAYS:
            return -1
        self.changed = True
        bit = self._place(text, query.since)
        self.bits[bit] = _Bit(text, self.bits[bit].users + 1)
        self.of_query[query.number] = bit
        return bit

    def _place(self, text: str, since: Time | None) -> int:
        """The bit that a condition has already, one that is free, or a new one.

        A bit is free when every tick of its last user is older than every report that a new user sees;
        until then old and new meanings could meet in one report.
        """
        for place, bit in enumerate(self.bits):
            if bit.text == text:
                return place
        for place, bit in enumerate(self.bits):
            if bit.users == 0 and (bit.freed is None or (since is not None and bit.freed < since)):
                return place
        self.bits.append(_Bit(text, 0))
        return len(self.bits) - 1

    def cease(self, query: Ceased) -> None:
        place = self.of_query.pop(query.number, None)
        if place is None:
            return
        self.changed = True
        bit = self.bits[place]
        bit.users -= 1
        if bit.users == 0:
            bit.freed = query.until

    def wanted(self, time: Time) -> list[tuple[int, Term]]:
        """(bit, condition) of those that a report at this time needs: in use, or with a user whose last
        tick is not past.
        """
        return [
            (place, _parsed(bit.text))
            for place, bit in enumerate(self.bits)
            if bit.users > 0 or (bit.freed is not None and bit.freed >= time)
        ]
