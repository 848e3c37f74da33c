"""Base loads of this machine: how long numpy and Arrow take per item, in place of the reference values.

They are only the unit in which the work of strategies is counted.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from anabranch.families.filters.spec import Function
from anabranch.model.window import Window
from anabranch.planning.cost import Loads
from anabranch.planning.properties import Aggregated, AggregatePart
from anabranch.predicates.evaluate import evaluate
from anabranch.predicates.terms import And, Constant, Op
from anabranch.simulate.photons import DEC, EN, RA, TIME, Photons
from anabranch.simulate.windows import StreamSpan, from_items, from_windows

#: The best of so many runs counts.
RUNS = 5


def calibrated(photons: Photons) -> Loads:
    rows = photons.rows
    ra, dec = photons.centre
    box = And(
        (
            Constant(RA, Op.GE, ra - 9),
            Constant(RA, Op.LE, ra + 9),
            Constant(DEC, Op.GE, dec - 5),
            Constant(DEC, Op.LE, dec + 5),
        )
    )
    parts = frozenset({AggregatePart(Function.SUM, EN), AggregatePart(Function.COUNT, EN)})
    fine, coarse = (Aggregated(Window("range", size, size), parts) for size in (1, 4))
    span = StreamSpan(rows.column(TIME)[0].as_py(), rows.column(TIME)[-1].as_py())
    windows = from_items(fine, rows, TIME, span)
    items, results = rows.num_rows, max(windows.num_rows, 1)
    every = pa.array(np.arange(items))
    scale = rows.column(EN).to_numpy(zero_copy_only=False)
    return Loads(
        select=_best(lambda: rows.filter(pa.array(evaluate(box, rows)))) / items,
        project=_best(lambda: rows.select([RA, DEC, EN]).take(every)) / items,
        aggregate=_best(lambda: from_items(fine, rows, TIME, span)) / items,
        combine=_best(lambda: from_windows(fine.window, coarse, windows, span)) / results,
        operate=_best(lambda: scale * 2.0) / items,
        forward=_best(lambda: _sent(rows)) / items / 2,
    )


def _best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def _sent(rows: pa.RecordBatch) -> object:
    """Writes rows to a wire and reads them from it."""
    wire = io.BytesIO()
    with pa.ipc.new_stream(wire, rows.schema) as out:
        out.write_batch(rows)
    return pa.ipc.open_stream(wire.getvalue()).read_all()
