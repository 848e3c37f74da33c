"""When one zone of a stage has far more to do than the others, and where it could be cut.

In: the work that zones count, batch by batch. Out: which zone shall give what share of its work to which
other; a cut through points that has this share beyond it. Work is counted, not timed: stages are pure. Never:
a change of what comes out; how a part goes from zone to zone without one is the family's matter.

A family that balances a stage does it like this:

    batch b      zones   --> zone 0 of its first stage    their work: now and then, or because somebody asked
    batch b + 1  zone 0  --> the hot zone                 give this share to that zone
                 the hot zone --> all                     the table of splits, for the next batch
                              --> the other zone          what it takes over, for the next batch
    batch b + 2  all zones go by the new table
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.chain.packets import Kind, Packet
from anabranch.chain.state import State
from anabranch.model.arrays import Array

_WORK = "work"

#: Splits that a table can hold: all that arrives is compared with each.
MOST = 64


@dataclass(frozen=True)
class Patience:
    """Zones tell their work every so many batches; one with at least `least` of it, and more than `hot` times
    the mean, is divided.
    """

    batches: int = 8
    hot: float = 1.5
    least: int = 50_000


#: Of somebody who asks for it.
HURRY = Patience(batches=1, hot=1.1, least=1)


@dataclass(frozen=True)
class Division:
    """The hot zone, the zone with the least work, and the share that would make the two equal."""

    hot: int
    other: int
    share: float


def asked(packets: Sequence[Packet]) -> bool:
    """Whether somebody wants the work to be shared anew."""
    return any(packet.kind is Kind.REBALANCE for packet in packets)


def note_work(state: State, patience: Patience, work: int) -> int:
    """Adds the work of a batch; returns what there was since it was told, if it is time to tell, else 0."""
    held = state.get(_WORK)
    batches, total = (0, 0) if held is None else held["n"].tolist()
    batches, total = batches + 1, total + work
    due = batches >= patience.batches
    state.put(_WORK, {"n": np.array([0, 0] if due else [batches, total], np.int64)})
    return total if due else 0


def forget_work(state: State) -> None:
    """Nothing is left to do here."""
    state.drop(_WORK)


def division(told: Mapping[int, int], zones: int, splits: int, patience: Patience) -> Division | None:
    """Who is to be divided, given the work of those zones that had any and how many splits there are."""
    work = np.zeros(zones, np.int64)
    work[list(told)] = list(told.values())
    hot, other = int(work.argmax()), int(work.argmin())
    if splits >= MOST or work[hot] < patience.least or work[hot] <= patience.hot * work.mean():
        return None
    return Division(hot, other, float((work[hot] - work[other]) / (2 * work[hot])))


def cut(
    axes: Sequence[Array], share: float, widths: Sequence[float] | None = None
) -> tuple[int, float] | None:
    """(axis, where) so that about this share of points lies at or beyond it; on the axis on which they lie
    farthest apart, by the axes' widths, of those on which they can be cut.
    """
    if not len(axes[0]):
        return None
    spreads = np.array([np.ptp(np.quantile(axis, [0.05, 0.95])) for axis in axes])
    for axis in np.argsort(-spreads / (1.0 if widths is None else widths), kind="stable").tolist():
        values = np.sort(axes[axis])
        beyond = values[values > values[int((1 - share) * (len(values) - 1))]]
        if len(beyond):
            return axis, float(beyond[0])
    return None
