"""The queries that a zone answers now: every stage that keeps queries keeps them this way.

In: ACTIVATE and CANCEL packets, whose rows have the columns of BEGIN and CEASE. Out: `Active` records, in the
order of activation. Kept in chunks of a thousand, so that one activation among ten thousand writes little.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.stream import Time
from anabranch.zones.packets import Kind, Packet
from anabranch.zones.state import State

PREFIX = "queries/"
PER_CHUNK = 1000

#: Rows of an ACTIVATE packet. `spec` and `since` are JSON.
BEGIN = pa.schema(
    [
        ("number", pa.int64()),
        ("name", pa.string()),
        ("spec", pa.string()),
        ("start", pa.int64()),
        ("since", pa.string()),
    ]
)
#: Rows of a CANCEL packet. `until` is JSON: the moment the query ends.
CEASE = pa.schema([("number", pa.int64()), ("until", pa.string()), ("stop", pa.int64())])


@dataclass(frozen=True, slots=True)
class Active:
    """A query that runs. `start` is the number of the first item it can see; `since` is the moment of its
    activation: the time it was given, or the time of the last item before it, or None at the very start."""

    number: int
    name: str
    spec: dict[str, Any]
    start: int
    since: Time | None


@dataclass(frozen=True, slots=True)
class Ceased:
    """A query that ends. `until` is the time it was given, or that of the last item before its end, or None;
    `stop` is the number of the first item it does not see any more. A later stage gets CANCEL before the
    items that an earlier one still sends from before it, so it needs `stop` to tell which of them the query
    saw.
    """

    number: int
    until: Time | None
    stop: int


def begun(packet: Packet) -> list[Active]:
    """The queries that an ACTIVATE packet begins."""
    return [
        Active(row["number"], row["name"], json.loads(row["spec"]), row["start"], json.loads(row["since"]))
        for row in packet.rows.to_pylist()
    ]


def ceased(packet: Packet) -> list[Ceased]:
    """The queries that a CANCEL packet ends."""
    return [Ceased(row["number"], json.loads(row["until"]), row["stop"]) for row in packet.rows.to_pylist()]


def active(state: State) -> dict[int, Active]:
    """The queries of this zone by number, in order of activation (numbers ascend); do not change it."""
    chunks = state.keys(PREFIX)
    return state.derived(
        "queries", chunks, lambda: {q.number: q for key in chunks for q in _parsed(state, key)}
    )


def apply(state: State, packets: Iterable[Packet]) -> tuple[list[Active], list[Ceased]]:
    """Carries out the ACTIVATE and CANCEL packets among `packets`, in their order, and returns what began and
    what ended.

    A query that begins and ends in the same call is in both lists.
    """
    began: list[Active] = []
    ended: list[Ceased] = []
    for packet in packets:
        if packet.kind is Kind.ACTIVATE:
            began.extend(begun(packet))
            _add(state, packet.rows)
        elif packet.kind is Kind.CANCEL:
            ended.extend(ceased(packet))
            _remove(state, packet.rows.column("number"))
    return began, ended


def _key(number: int) -> str:
    return f"{PREFIX}{number // PER_CHUNK:08d}"


def _parsed(state: State, key: str) -> list[Active]:
    def parse() -> list[Active]:
        rows = state.rows(key)
        assert rows is not None
        return begun(Packet(0, 0, Kind.ACTIVATE, rows))

    return state.derived(f"parsed {key}", [key], parse)


def _add(state: State, rows: pa.RecordBatch) -> None:
    chunk_of = pc.divide(rows.column("number"), PER_CHUNK)
    for chunk in pc.unique(chunk_of).to_pylist():
        new = rows.filter(pc.equal(chunk_of, chunk))
        key = _key(chunk * PER_CHUNK)
        held = state.rows(key)
        state.put(key, new if held is None else _by_number(pa.concat_batches([held, new])))


def _by_number(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Queries in order of activation; those that come from another zone may be older than those here."""
    numbers = rows.column("number").to_numpy()
    return rows if (numbers[1:] > numbers[:-1]).all() else rows.take(pa.array(np.argsort(numbers)))


def _remove(state: State, numbers: pa.Array) -> None:
    for chunk in pc.unique(pc.divide(numbers, PER_CHUNK)).to_pylist():
        key = _key(chunk * PER_CHUNK)
        held = state.rows(key)
        if held is None:
            continue
        kept = held.filter(pc.invert(pc.is_in(held.column("number"), value_set=numbers)))
        if kept.num_rows:
            state.put(key, kept)
        else:
            state.drop(key)
