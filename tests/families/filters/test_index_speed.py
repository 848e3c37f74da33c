"""How fast many selections are matched; `python -m tests.families.filters.test_index_speed` prints the table.

CPU time of one thread, best of five, warm. Matching includes coding the columns; `plan` is the index, made
once after selections came or went; `add` is one selection more, `build` all of them from their normal forms.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.families.filters.forest import Forest
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.evaluate import evaluate
from anabranch.predicates.normal import normal_form
from anabranch.predicates.terms import And, Constant, Op, Term

ROWS, COLUMNS = 200_000, 5
STREAM = Stream(
    "bench", (*(Column(f"c{i}", ColumnType.FLOAT) for i in range(COLUMNS)), Column("s", ColumnType.STRING))
)
Make = Callable[[np.random.Generator, int], list[Term]]


def box(sides: dict[int, tuple[float, float]]) -> Term:
    parts = [
        Constant(f"c{i}", op, end)
        for i, ends in sides.items()
        for op, end in zip((Op.GE, Op.LE), ends, strict=True)
    ]
    return And(tuple(parts))


def boxes(columns: int, part: float, fixed: bool = False) -> Make:
    """Selections of `part` of the rows each, by so many columns: any of the five, or the first."""

    def make(rng: np.random.Generator, count: int) -> list[Term]:
        width = part ** (1 / columns)
        made = []
        for _ in range(count):
            chosen = range(columns) if fixed else rng.choice(COLUMNS, columns, replace=False).tolist()
            starts = rng.random(columns) * (1 - width)
            made.append(box({i: (s, s + width) for i, s in zip(chosen, starts.tolist(), strict=True)}))
        return made

    return make


def nested(families: int) -> Make:
    """Ranges of one column that share it out, and boxes of two columns within them."""

    def make(rng: np.random.Generator, count: int) -> list[Term]:
        made = [box({0: (i / families, (i + 0.999) / families)}) for i in range(families)]
        for _ in range(count - families):
            family, x, y = rng.integers(families), rng.random() * 0.8, rng.random() * 0.9
            made.append(box({0: ((family + x) / families, (family + x + 0.1) / families), 1: (y, y + 0.1)}))
        return made

    return make


def thresholds(rng: np.random.Generator, count: int) -> list[Term]:
    return [Constant("c0", Op.GT, value) for value in rng.random(count).tolist()]


def words(rng: np.random.Generator, count: int) -> list[Term]:
    return [Constant("s", Op.EQ, f"station-{i:05d}") for i in range(count)]


CASES: list[tuple[str, int, Make]] = [
    *(("0.1 % by 1 column of 5", count, boxes(1, 0.001)) for count in (1, 1_000, 10_000)),
    *(("0.1 % by 2 columns of 5", count, boxes(2, 0.001)) for count in (1, 1_000, 10_000)),
    *(("0.1 % by the same column", count, boxes(1, 0.001, True)) for count in (1_000, 10_000)),
    *(("0.1 % by the same 2 columns", count, boxes(2, 0.001, True)) for count in (1_000, 10_000)),
    ("0.1 % by 3 columns of 5", 1_000, boxes(3, 0.001)),
    ("0.1 % by 5 columns", 1_000, boxes(5, 0.001)),
    ("ranges of 0.1 %", 5_000, boxes(1, 0.001)),
    ("ranges of 1 %, the same column", 5_000, boxes(1, 0.01, True)),
    ("thresholds, a chain", 1_000, thresholds),
    ("in 10 others", 1_010, nested(10)),
    ("in 100 others", 10_100, nested(100)),
    ("string equalities", 1_000, words),
    ("string equalities", 10_000, words),
]


def items(rng: np.random.Generator, rows: int = ROWS) -> pa.RecordBatch:
    texts = pa.array([f"station-{i:05d}" for i in range(20_000)]).take(
        pa.array(rng.integers(0, 20_000, rows))
    )
    columns = [pa.array(rng.random(rows)) for _ in range(COLUMNS)]
    return pa.record_batch([*columns, texts], names=[column.name for column in STREAM.columns])


def cpu(work: Callable[[], Any], times: int = 1) -> float:
    """Seconds of CPU time, the best of `times`."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def measure(make: Make, count: int, rows: pa.RecordBatch, rng: np.random.Generator) -> dict[str, float]:
    normals = [normal_form(term, STREAM) for term in make(rng, count)]
    forests: list[Forest] = []
    build = cpu(lambda: forests.append(Forest.build(normals, STREAM)))
    forest = forests[0]
    first = cpu(lambda: forest.match(rows.slice(0, 2_000)))
    answer = forest.match(rows)
    match = cpu(lambda: forest.match(rows), 5)
    more = [normal_form(term, STREAM) for term in boxes(2, 0.0005)(rng, 20)]
    add = cpu(lambda: [forest.add(normal) for normal in more]) / len(more)
    return {
        "build s": build,
        "plan ms": first * 1e3,
        "add ms": add * 1e3,
        "matches a row": len(answer[1]) / rows.num_rows,
        "ns a row": match / rows.num_rows * 1e9,
        "M rows/s": rows.num_rows / match / 1e6,
    }


def main() -> None:
    rng = np.random.default_rng(1)
    rows = items(rng)
    measure(boxes(1, 0.001), 100, rows, rng)  # compiles, or loads
    measure(words, 100, rows, rng)
    for number, (name, count, make) in enumerate(CASES):
        figures = measure(make, count, rows, rng)
        if not number:
            print(f"{'selections':>10}  {'':32}", *(f"{title:>13}" for title in figures))
        print(f"{count:>10}  {name:32}", *(f"{figure:13.3f}" for figure in figures.values()), flush=True)


@pytest.mark.slow
def test_an_index_is_much_faster_than_one_by_one() -> None:
    """Side by side, so that a loaded machine slows both: a thousand selections in the time of a few dozen."""
    rng = np.random.default_rng(2)
    rows, conditions = items(rng, 50_000), boxes(2, 0.001)(rng, 1_000)
    forest = Forest.build([normal_form(term, STREAM) for term in conditions], STREAM)
    forest.match(rows)
    together = cpu(lambda: forest.match(rows), 3)
    one_by_one = cpu(lambda: [evaluate(term, rows) for term in conditions[:20]]) * 50
    assert together < one_by_one / 10


if __name__ == "__main__":
    main()
