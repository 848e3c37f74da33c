"""From cores, trees and edges of windows to clusters and roles: where a group in one zone and one whose parts
were merged meet.

In: windows that are due, with their cores, trees and edges (kernels/cores, forest, nearest_core; merge).
Out: the cluster and the role of each point of each window. Never: a look at a coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anabranch.kernels import cores, nearest_core, roles
from anabranch.zones.columns import Array


class Grown(NamedTuple):
    """Windows that end with the same point. Points are counted from the first that the arrays hold."""

    due: cores.Due
    masks: Array  # int64[points, words]
    woods: roles.Woods
    edges: nearest_core.Edges


@dataclass(slots=True)
class Found:
    """The cluster and the role of each point of one window; clusters count from 1 by earliest member.

    It is looked at before the next windows are due.
    """

    start: int  # position of the window's first point
    clusters: Array  # int32[points], 0 for noise
    roles: Array  # uint8[points]
    count: int


class Labels:
    """Holds what was found last: memory that was never written to costs more than all that is written to
    it.
    """

    def __init__(self) -> None:
        self._clusters: Array = np.empty(0, np.int32)
        self._roles: Array = np.empty(0, np.uint8)

    def found(self, grown: Grown, stop: int, offset: int) -> list[Found]:
        """What the points before `stop` are in each window; that at 0 has the position `offset`."""
        starts = grown.due.starts[grown.due.group].astype(np.int64)
        ends = np.cumsum(stop - starts)
        at = ends - (stop - starts)
        if len(self._clusters) < ends[-1]:
            self._clusters, self._roles = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.uint8)
        clusters, kinds = self._clusters, self._roles
        numbers = np.empty(len(starts), np.int32)
        roles.roles_in(grown.masks, grown.woods, grown.edges, grown.due, stop, at, clusters, kinds, numbers)
        each = zip((starts + offset).tolist(), at.tolist(), ends.tolist(), numbers.tolist(), strict=True)
        return [Found(start, clusters[low:high], kinds[low:high], count) for start, low, high, count in each]


def distinct(ranges: Array, counts: Array, starts: Array) -> tuple[Array, Array]:
    """One of each kind of window, by range; and for each window which of these is its kind."""
    order = np.lexsort((starts, counts, ranges))
    sorted_ = [each[order] for each in (ranges, counts, starts)]
    fresh = np.concatenate([[True], np.any([each[1:] != each[:-1] for each in sorted_], axis=0)])
    which = np.empty(len(order), np.int64)
    which[order] = np.cumsum(fresh) - 1
    return order[fresh], which
