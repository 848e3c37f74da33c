"""The experiment of section 6, setting by setting, and its tables.

In: a size, seconds, shares of the space and values of k. Out: outcomes, and tables like figures 8 to 13.
Never: a number that was not measured in this run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anabranch.simulate.place.nearest import NearestExperiment
from anabranch.simulate.place.outcome import FIGURES, Outcome
from anabranch.simulate.place.ranges import VALUES, RangeExperiment
from anabranch.simulate.place.world import Size, World

SHARES = (0.01, 0.04, 0.07, 0.10)
NEIGHBOURS = (50, 200, 350, 500)

Table = tuple[str, list[str], list[list[float]]]  # title, columns, rows


def outcomes(
    size: Size,
    seconds: int,
    seed: int = 0,
    shares: Sequence[float] | None = None,
    ks: Sequence[int] | None = None,
) -> Iterator[Outcome]:
    for kind in VALUES:
        for share in shares or SHARES:
            yield RangeExperiment(World(size, seed), kind, share).run(seconds)
    for k in ks or NEIGHBOURS:
        yield NearestExperiment(World(size, seed), k).run(seconds)


def tables(found: Sequence[Outcome]) -> Iterator[Table]:
    """Two a figure: (a) ranges, a column a kind; (b) nearest objects."""
    ranges = [one for one in found if one.kind != "nearest"]
    kinds = list(dict.fromkeys(one.kind for one in ranges))
    for figure, name in FIGURES.items():
        by_share: dict[float, list[float]] = {}
        for one in ranges:
            by_share.setdefault(one.at, [100 * one.at]).append(one.figures[name])
        if by_share:
            yield f"figure {figure} (a): {name}", ["% of the space", *kinds], list(by_share.values())
        rows = [[one.at, one.figures[name]] for one in found if one.kind == "nearest"]
        if rows:
            yield f"figure {figure} (b): {name}", ["k", "nearest"], rows


def slowest(found: Sequence[Outcome]) -> float:
    """The longest mean response time of all settings, in seconds."""
    names = [name for name in FIGURES.values() if name.endswith(", s")]
    return max(one.figures[name] for one in found for name in names)
