"""Hot regions split while the stream runs: a zone that has far more to do than the others gives a part of its
plane to the one that has least to do.

    batch b      regions --> home 0       work: moves taken and rows told in the last batches
    batch b + 1  home 0  --> hot region   divide: give this share of your objects to that zone
                 it cuts where the share lies beyond, and sends, all of it for the next batch,
                     --> homes, regions   splits: the table of all splits so far
                     --> other region     its objects there, and the queries it participates in
    batch b + 2  homes and regions go by the new table; the objects leave one server and enter the other in
                 the last tick of batch b + 1, so that what they leave and what they enter cancels out

Work is counted, not timed: stages are pure. Splits decide where work is done, never what comes out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.kernels.moving_arrays import Space
from anabranch.kernels.moving_home import crossed
from anabranch.kernels.regions import Layout
from anabranch.zones.columns import Array
from anabranch.zones.state import State

_SPLITS, _WORK = "splits", "work"

#: Splits that a table can hold: every report is compared with each.
MOST = 64


@dataclass(frozen=True)
class Patience:
    """Zones tell their work every so many batches; one with at least `least` of it, and more than `hot` times
    the mean, is divided.
    """

    batches: int = 8
    hot: float = 1.5
    least: int = 50_000


def layout_now(state: State, layout: Layout) -> Layout:
    """The layout with the splits that this zone has heard of."""
    held = state.get(_SPLITS)
    if held is None:
        return layout
    return layout._replace(splits=held["table"].copy())  # what a state lends is of another type to kernels


def adopt(state: State, table: Array) -> None:
    state.put(_SPLITS, {"table": table})


def note_work(state: State, patience: Patience, work: int, tick: int) -> int:
    """Adds the work of a batch, whose last tick is `tick`; returns what there was since it was told, if it
    is time to tell, else 0.
    """
    held = state.get(_WORK)
    batches, total = (0, 0) if held is None else held["n"][:2].tolist()
    batches, total = batches + 1, total + work
    due = batches >= patience.batches
    state.put(_WORK, {"n": np.array([0, 0, tick] if due else [batches, total, tick], np.int64)})
    return total if due else 0


def last_tick(state: State) -> int:
    """The last tick of the last batch in which work was noted."""
    held = state.get(_WORK)
    assert held is not None
    return int(held["n"][2])


def division(work: Array, splits: int, patience: Patience) -> tuple[int, int, float] | None:
    """(hot zone, zone with least work, the share of objects that would make them equal), if one is hot."""
    hot, cool = int(work.argmax()), int(work.argmin())
    if splits >= MOST or work[hot] < patience.least or work[hot] <= patience.hot * work.mean():
        return None
    return hot, cool, float((work[hot] - work[cool]) / (2 * work[hot]))


def cut(space: Space, x: Array, y: Array, share: float) -> tuple[int, float] | None:
    """(axis, where) so that about this share of positions lies at or beyond it; on the axis on which they lie
    farther apart, if they can be cut there.
    """
    if not len(x):
        return None
    axes = [crossed(space, x), y]
    spreads = [float(np.ptp(np.quantile(axis, [0.05, 0.95]))) for axis in axes]
    for axis in (0, 1) if spreads[0] >= spreads[1] else (1, 0):
        values = np.sort(axes[axis])
        beyond = values[values > values[int((1 - share) * (len(values) - 1))]]
        if len(beyond):
            return axis, float(beyond[0])
    return None
