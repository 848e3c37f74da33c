"""The forwarding request table (FRT): which queries follow which object of a home zone."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from anabranch.families.moving.names import HomeNames
from anabranch.families.moving.plans import ENDLESS, Plan
from anabranch.kernels.moving_arrays import NEAREST
from anabranch.kernels.moving_home import FOLLOWER, ONE_ZONE, Followers


def forwarding_requests(plans: dict[int, Plan], last: dict[int, int], names: HomeNames) -> Followers:
    """The entries of all queries whose focal object this zone knows by now; `last` are the last ticks of
    those that end.
    """
    wanted = [plan for plan in plans.values() if plan.focal is not None]
    by_object: dict[int, list[Plan]] = defaultdict(list)
    lengths = [len(plan.focal or b"") for plan in wanted]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    data = np.frombuffer(b"".join(plan.focal or b"" for plan in wanted), np.uint8).copy()
    for plan, index in zip(wanted, names.find((offsets, data)).tolist(), strict=True):
        if index >= 0:
            by_object[index].append(plan)
    entries: list[tuple[float, ...]] = []
    count = np.zeros(names.count + 1, np.int64)
    for index in sorted(by_object):
        count[index + 1] = len(by_object[index])
        entries += [
            (
                p.number,
                p.start,
                last.get(p.number, ENDLESS),
                ONE_ZONE if p.mode == NEAREST else p.shape,
                p.a,
                p.b,
            )
            for p in by_object[index]
        ]
    return Followers(np.cumsum(count), np.array(entries, FOLLOWER))


class ForwardingRequests:
    """The table of a home zone, made anew only when a query or an object came or went."""

    def __init__(self) -> None:
        self._made_of: tuple[dict[int, Plan], dict[int, int], int] | None = None
        self._table: Followers | None = None

    def followers(self, plans: dict[int, Plan], last: dict[int, int], names: HomeNames) -> Followers:
        held = self._made_of
        if self._table is None or held is None or held[0] is not plans or held[1:] != (last, names.count):
            self._made_of = (plans, last, names.count)
            self._table = forwarding_requests(plans, last, names)
        return self._table
