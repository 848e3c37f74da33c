"""RA, RAPF and PA over a batch of items, one query after the other (D-ZaLaPS, sections 4.1 to 4.4).

In: the candidates of a group of queries, the recent items and the new ones. Out: the candidates after the
batch, and what became or ceased to be one of the k nearest, in order. Queries of a group share
coordinates and clock.

RA keeps every item that is not dominated. RAPF delays: a query has a radius, and an item beyond it is not
inserted; it waits in the recent buffer, which all queries share. Two things make that exact. Let the
*guards* be `need` = k candidates within the radius.

1. While the guards are in the window, no item beyond the radius is among the k nearest. `outlives` checks
that before every stretch of
   items; where it fails, all that waits is recalled and the radius is infinite for that stretch.
2. What leaves the buffer while beyond the radius is dominated by guards that are younger. `settle` sees
to that after every stretch: at
   least k candidates are among the recent items, those the buffer will keep; if there are fewer, the
   radius grows until there are, and what waited within the new radius is inserted.

       numbers      ... 700 ........ 850 .............. 1000 | 1001 ...
                        |<- leave    |<- recent: buffer ->|    new
       radius r: k of 850..1000 are within r, so what is older than 850 and beyond r is dominated for good

The radius shrinks when there are more than `upper` recent candidates, grows when there are fewer than
`need`, and either way to `target`, so that it moves seldom. The number of items that a query looks at
does not depend on its window.

PA has no buffer: what is beyond the radius is gone, and so is a candidate whose chances have become small
(probable.py). Its `need` is the candidate limit of the probabilistic criterion, in items a window.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.boxes import BUNCH, BUNCHES, LEAF, Boxes
from anabranch.kernels.distances import SOME
from anabranch.kernels.follow import follow
from anabranch.kernels.jit import kernel, leaf, twig, zero
from anabranch.kernels.meeting import Met
from anabranch.kernels.nearest_arrays import PA, Array, Items, Queries, Scratch, Stock
from anabranch.kernels.pruning import NOBODY, holds_until, oldest_alive
from anabranch.kernels.skyband import Band, Log, move, new_band, new_log, wider_band, wider_log


@kernel
def _scratch(items: Items, most: int, held: int) -> Scratch:
    n = len(items.number)
    return Scratch(
        np.empty(n + LEAF, np.int64),
        np.empty(n + LEAF, np.float64),
        np.empty(n + LEAF, np.float64),
        np.empty(max(most, n + held) + LEAF, np.int64),
        np.empty(most, items.clock.dtype),
        np.empty(most, np.float64),
        np.empty(BUNCHES, np.float64),
        np.empty(BUNCH, np.float64),
        np.empty(SOME, np.float64),
    )


class _After(NamedTuple):
    """What a batch leaves behind, query by query."""

    first: Array  # int64[q + 1]: where its candidates begin in the new band
    until: Array  # moment[q]: until when its guards hold
    changed: Array  # bool[q]
    oldest: Array  # int64[2]: the numbers of the oldest item for the buffer and of the oldest candidate


@twig
def _as_many_as_fit(
    q: int, queries: Queries, stock: Stock, items: Items, boxes: Boxes, met: Met, never: Any, ask: bool,
    work: Scratch, band: Band, out: Band, log: Log, used: int, after: _After,
) -> tuple[int, int]:  # fmt: skip
    """Brings queries from this one on up to date, as far as there is room for candidates and log; the next
    query and how much of the log is used. A twig, so that references are counted once and not for each query.
    """
    n, filled = len(items.number), after.first[q]
    while q < len(queries.k):
        begin = stock.first[q]
        held = stock.first[q + 1] - begin
        if not (_fits(n, held, used, log) and filled + held + n <= len(out.dist)):
            break
        move(stock, begin, band, 0, held)
        radius, limit, seen, rows = stock.radius[q], stock.limit[q], stock.seen[q], used
        pace, known = stock.pace[q], stock.known[q]
        count, used = follow(
            queries, q, items, boxes, met, stock, band, held, log, used, never, work, after.oldest
        )
        move(band, 0, out, filled, count)
        same = (
            count == held
            and used == rows
            and radius == stock.radius[q]
            and limit == stock.limit[q]
            and seen == stock.seen[q]
            and pace == stock.pace[q]
            and known == stock.known[q]
        )
        alive = stock.seen[q] if queries.counted[q] else queries.bound[q]
        after.oldest[1] = min(after.oldest[1], oldest_alive(band, count, alive))
        place = 0
        while same and place < count:
            same = band.number[place] == stock.number[begin + place]
            place += 1
        after.changed[q] = not same
        if ask and queries.method[q] != PA and stock.radius[q] < math.inf:
            after.until[q] = holds_until(band, count, queries.need[q], work.moments)
        filled += count
        q += 1
        after.first[q] = filled
    return q, used


@leaf
def _fits(n: int, held: int, used: int, log: Log) -> bool:
    """Whether the log has room for a query with so many candidates: four rows an item, two a candidate."""
    return used + 4 * n + 2 * held + 16 <= len(log.op)


@kernel
def run(
    queries: Queries, stock: Stock, items: Items, boxes: Boxes, met: Met, never: Any, ask: bool
) -> tuple[Stock, Log, int, Array, Array, Array]:
    """One batch for a group of queries. met: what lies within their radii, if that is known already.

    Returns the stock after it (what a query remembers is changed in place), the log and how much of it is
    used, the numbers of the oldest item that must stay in the buffer and of the oldest that is a candidate
    and in the window, for each query until when its guards hold (if asked), and whether it changed.
    """
    total, n = len(queries.k), len(items.number)
    most = max(1, queries.target.max(), queries.need.max(), queries.k.max()) if total else 1
    held = zero()
    for q in range(total):
        held = max(held, stock.first[q + 1] - stock.first[q])
    work = _scratch(items, most, held)
    band = new_band(n + held, items.clock)
    out = new_band(len(stock.dist) + 8 * total + held + n, items.clock)
    log = new_log(4 * n + 2 * held + 8 * total + 16, items.clock)
    after = _After(
        np.zeros(total + 1, np.int64),
        np.full(total, never),
        np.zeros(total, np.bool_),
        np.full(2, NOBODY),
    )
    used = q = zero()
    while True:
        q, used = _as_many_as_fit(
            q, queries, stock, items, boxes, met, never, ask, work, band, out, log, used, after
        )
        filled = after.first[q]
        if q == total:
            break
        if not _fits(n, held, used, log):
            log = wider_log(log, used, 2 * len(log.op))
        else:
            out = wider_band(out, filled, 2 * len(out.dist))
    kept = Stock(
        after.first,
        out.dist[:filled],
        out.number[:filled],
        out.due[:filled],
        stock.radius,
        stock.limit,
        stock.seen,
        stock.pace,
        stock.known,
    )
    return kept, log, used, after.oldest, after.until, after.changed
