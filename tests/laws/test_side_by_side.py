"""Families that share a stream do not notice each other: each gives what it gives alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.chain.runner import Runner
from anabranch.families.registry import NAMES, family
from anabranch.families.results import rows_of
from anabranch.language.bind import compile_query
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate, Cancel, Control, End
from anabranch.model.stream import Stream
from tests.drawn import examples

STREAM = Stream(
    "s",
    (*(Column(name, ColumnType.FLOAT) for name in ("t", "x", "y")), Column("o", ColumnType.STRING)),
    time="t",
    lateness=2,
    position=("x", "y"),
    object="o",
    bounds=((0.0, 1.0), (0.0, 1.0)),
)
QUERIES = {
    "select": "SELECT t, x FROM s WHERE x > 0.3",
    "aggregate": "SELECT avg(x) AS m, count(*) AS n FROM s WINDOW RANGE 6 STEP 3",
    "rows": "SELECT max(y) AS m FROM s WHERE x < 0.8 WINDOW ROWS 7 STEP 2",
    "nearest": "SELECT NEAREST 2 TO (0.5, 0.5) BY (x, y) FROM s WINDOW RANGE 9",
    "nearest rows": "SELECT NEAREST 3 TO (0.2, 0.5) BY (x, y) FROM s WINDOW ROWS 12",
    "clusters": "SELECT CLUSTERS WITHIN 0.3 MIN 2 BY (x, y) FROM s WINDOW ROWS 10 STEP 5",
    "range": "SELECT OBJECTS WITHIN 0.4 OF OBJECT 'o1' FROM s",
    "knn": "SELECT NEAREST 2 OBJECTS TO OBJECT 'o2' FROM s",
}
BOUND = {name: compile_query(text, {"s": STREAM}) for name, text in QUERIES.items()}
#: When a query begins and ends, in the time of the stream; None: from the start, to the end.
moments = st.tuples(st.none() | st.integers(0, 30), st.none() | st.integers(1, 40))


def _items(seed: int, count: int) -> pa.RecordBatch:
    random = np.random.default_rng(seed)
    columns = {"t": np.arange(count) / 2 - random.integers(0, 3, count), "x": random.random(count)}
    names = [f"o{n}" for n in random.integers(0, 5, count)]
    return pa.record_batch(columns | {"y": random.random(count).round(2), "o": names})


def _run(
    names: Sequence[str], items: pa.RecordBatch, controls: Sequence[Control], cut: int, zones: int
) -> Runner:
    runner = Runner(STREAM, [family(name) for name in names], zones)
    runner.batch(items.slice(0, cut), controls)
    runner.batch(items.slice(cut))
    runner.batch(None, [End()])
    runner.settle()
    return runner


@settings(max_examples=examples(40))
@given(
    st.integers(0, 1000),
    st.integers(0, 80),
    st.integers(1, 3),
    st.dictionaries(st.sampled_from(sorted(QUERIES)), moments, min_size=2),
)
def test_each_family_gives_what_it_gives_alone(
    seed: int, cut: int, zones: int, chosen: dict[str, tuple[int | None, int | None]]
) -> None:
    items = _items(seed, 80)
    controls: list[Activate | Cancel] = []
    for number, (name, (begin, length)) in enumerate(chosen.items()):
        bound = BOUND[name]
        controls.append(Activate(number, name, bound.spec.to_json(), begin, bound.family))
        if length is not None:
            controls.append(Cancel(number, (begin or 0) + length, bound.family))
    together = _run(NAMES, items, controls, cut, zones)
    for name in {BOUND[name].family for name in chosen}:
        own = [control for control in controls if control.family == name]
        alone = _run([name], items, own, cut, zones)
        assert _results(alone, chosen, name) == _results(together, chosen, name)
        assert alone.books == together.books


def _results(runner: Runner, chosen: Iterable[str], of: str) -> dict[str, list[dict[str, object]]]:
    """The rows of the queries of one family."""
    by, out = family(of), {}
    for name in (name for name in chosen if BOUND[name].family == of):
        table, shown = by.shown(STREAM, BOUND[name].spec.to_json())
        batches = [rows_of(batch, by.table(table), name, shown) for batch in runner.tables[table].values()]
        out[name] = [row for batch in batches for row in batch.to_pylist()]
    return out
