"""A case of the four laws: a stream, its items, and the queries asked of it; and how to run one locally."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

from anabranch.chain.runner import Runner
from anabranch.families.base import Family
from anabranch.families.registry import family
from anabranch.families.results import rows_of
from anabranch.model.control_log import Activate, Cancel, Control, End
from anabranch.model.stream import Stream, Time

Row = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A query of a case. It sees the items with after < time <= until."""

    name: str
    spec: dict[str, Any]
    after: Time | None = None
    until: Time | None = None


@dataclass(frozen=True)
class Case:
    """`items` are in source order, with the columns of the stream."""

    stream: Stream
    items: pa.RecordBatch
    queries: tuple[Asked, ...]
    family: str = "filters"

    def controls(self) -> list[Control]:
        out: list[Control] = []
        for number, asked in enumerate(self.queries):
            out.append(Activate(number, asked.name, asked.spec, asked.after))
            if asked.until is not None:
                out.append(Cancel(number, asked.until))
        return out


@dataclass
class Outcome:
    """What came out: rows a query in the order of delivery, dead letters, and the books."""

    results: dict[str, list[Row]] = field(default_factory=dict)
    dead: list[Row] = field(default_factory=list)
    books: dict[str, Any] = field(default_factory=dict)


def run_local(
    case: Case,
    cuts: Sequence[int] = (),
    zones: int = 1,
    stops: Sequence[int] = (),
    made: Family | None = None,
    rescales: Mapping[int, int] | None = None,
) -> Outcome:
    """Runs a case with batches cut before the items at `cuts`, stopping and resuming after the batches
    `stops`, and with another number of zones after the batches `rescales`; by the family of its name, or one
    that was made for a test.
    """
    by = made or family(case.family)
    edges = [0, *sorted(set(cuts) & set(range(1, case.items.num_rows))), case.items.num_rows]
    batches: list[tuple[pa.RecordBatch | None, Sequence[Control]]] = [
        (case.items.slice(low, high - low), case.controls() if low == 0 else ())
        for low, high in pairwise(edges)
    ]
    runners = [Runner(case.stream, by, zones)]
    for count, (items, control) in enumerate([*batches, (None, [End()])]):
        runners[-1].batch(items, control)
        if count in stops:
            chains = runners[-1].chains
            runners.append(Runner(case.stream, by, chains.zones, chains.kept))
            runners[-1].resume(runners[-2].stopped())
        if rescales and count in rescales:
            runners.append(runners[-1].rescaled(rescales[count]))
    runners[-1].settle()
    return _outcome(case, runners)


def _outcome(case: Case, runners: list[Runner]) -> Outcome:
    outcome = Outcome(books=next((runner.books for runner in reversed(runners) if runner.books), {}))
    for asked in case.queries:
        name, shown = family(case.family).shown(case.stream, asked.spec)
        table = family(case.family).table(name)
        rows: list[Row] = []
        for runner in runners:
            for batch in _by_batch(runner, name):
                rows += rows_of(batch, table, asked.name, shown).to_pylist()
        outcome.results[asked.name] = rows
    outcome.dead = [row for runner in runners for rows in runner.dead for row in rows.to_pylist()]
    return outcome


def _by_batch(runner: Runner, table: str) -> list[list[pa.RecordBatch]]:
    return list(runner.tables[table].values())
