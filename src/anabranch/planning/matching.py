"""Which streams can answer which subscriptions (StreamGlobe 4.2 to 4.5, algorithms 2 and 4).

    shareable(wide, narrow)      # the stream `wide` has every row and value that `narrow` asks for

The relation is a partial order that includes equality: an equal stream is the best one to share. It differs
from the paper in three points (papers/README, docs/sharing.md):

- a stream needs no column for a part of the selection that it has already applied in the same words;
- for windows of equal size only the steps must divide;
- aggregates that HAVING has filtered serve only windows of the same size that are filtered at least as much:
  a greater window is made of several, and one that is missing may have been left out or empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.model.window import AtEnd, Window
from anabranch.planning.properties import Aggregated, Properties
from anabranch.planning.selections import columns_of, match_predicates, residual
from anabranch.predicates.conjunction import EVERYTHING


def shareable(wide: Properties, narrow: Properties) -> bool:
    """MATCHPROPERTIES (algorithm 2): `narrow` can be made from the stream `wide`."""
    if wide.stream != narrow.stream or not wide.operators <= narrow.operators:
        return False
    if wide.aggregated is not None:
        return _match_aggregates(wide, narrow)
    return match_predicates(wide.selection, narrow.selection) and needs(narrow, wide) <= wide.columns


def needs(narrow: Properties, wide: Properties) -> frozenset[str]:
    """Returns the columns that are needed to make `narrow` from the items of `wide`."""
    wanted = narrow.columns | columns_of(residual(narrow.selection, wide.selection))
    aggregated = narrow.aggregated
    if aggregated is not None:
        wanted |= {part.column for part in aggregated.parts}
        if not aggregated.window.by_rows and narrow.time is not None:
            wanted |= {narrow.time}
    fresh = narrow.operators - wide.operators
    wanted |= {column for operator in fresh for column in operator.reads}
    return wanted - {operator.name for operator in fresh}


def _match_aggregates(wide: Properties, narrow: Properties) -> bool:
    """Equal items must have gone in; then windows, parts and HAVING decide."""
    assert wide.aggregated is not None
    if narrow.aggregated is None or wide.operators != narrow.operators:
        return False
    if not (
        match_predicates(wide.selection, narrow.selection)
        and match_predicates(narrow.selection, wide.selection)
    ):
        return False
    return match_aggregations(wide.aggregated, narrow.aggregated)


def match_aggregations(wide: Aggregated, narrow: Aggregated) -> bool:
    """MATCHAGGREGATIONS (algorithm 4)."""
    if not narrow.parts <= wide.parts or wide.activate != narrow.activate:
        return False
    if not windows_fit(wide.window, narrow.window):
        return False
    if wide.having == EVERYTHING:
        return True
    return wide.window.size == narrow.window.size and match_predicates(wide.having, narrow.having)


def windows_fit(wide: Window, narrow: Window) -> bool:
    """Whether each window of `narrow` is a window of `wide` or a sequence of them without gap or overlap.

    The three conditions of the paper; at equal size the second is not needed. The window that `gather` makes
    of what remains at the end is one of a kind: only equal windows have it in common.
    """
    if wide.unit != narrow.unit or wide.end is not narrow.end:
        return False
    if wide.end is AtEnd.GATHER and (wide.size, wide.step) != (narrow.size, narrow.step):
        return False
    if narrow.step % wide.step:
        return False
    return narrow.size == wide.size or (narrow.size % wide.size == 0 and wide.size % wide.step == 0)


def shareability_graph(streams: Sequence[Properties]) -> set[tuple[int, int]]:
    """Returns edges (from, to): `to` can share `from`; without those that follow from others (figure 17).

    Of equal streams the first stands for all; the others are below it.
    """
    indices = range(len(streams))
    below = {
        (a, b)
        for a in indices
        for b in indices
        if a != b and shareable(streams[a], streams[b]) and (a < b or not shareable(streams[b], streams[a]))
    }
    return {(a, b) for a, b in below if not any((a, c) in below and (c, b) in below for c in indices)}
