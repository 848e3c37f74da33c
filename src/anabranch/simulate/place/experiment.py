"""The experiment of section 6, setting by setting, with tables and curves like figures 8 to 13: ranges on the
left, nearest objects on the right. Every number in them was measured in this run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from anabranch.simulate.place.costs import FIGURES, PlaceOutcome
from anabranch.simulate.place.nearest import NearestExperiment
from anabranch.simulate.place.ranges import VALUES, RangeExperiment
from anabranch.simulate.place.world import Size, World

SHARES = (0.01, 0.04, 0.07, 0.10)
NEIGHBOURS = (50, 200, 350, 500)

COLOURS = {"objects": "#2b6a99", "count": "#e0995e", "max": "#7a9a4f", "nearest": "#2b6a99"}
MARKS = {"objects": "o", "count": "s", "max": "^", "nearest": "o"}

FigureTable = tuple[str, list[str], list[list[float]]]  # title, columns, rows


def outcomes(
    size: Size,
    seconds: int,
    seed: int = 0,
    shares: Sequence[float] | None = None,
    ks: Sequence[int] | None = None,
) -> Iterator[PlaceOutcome]:
    for kind in VALUES:
        for share in shares or SHARES:
            yield RangeExperiment(World(size, seed), kind, share).run(seconds)
    for k in ks or NEIGHBOURS:
        yield NearestExperiment(World(size, seed), k).run(seconds)


def tables(found: Sequence[PlaceOutcome]) -> Iterator[FigureTable]:
    """Returns two per figure: (a) ranges, one column per kind; (b) nearest objects."""
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


def slowest(found: Sequence[PlaceOutcome]) -> float:
    """Returns the longest mean response time of all settings, in seconds."""
    names = [name for name in FIGURES.values() if name.endswith(", s")]
    return max(one.figures[name] for one in found for name in names)


def draw(found: Sequence[FigureTable], folder: Path) -> list[Path]:
    """Writes one PNG file per figure and returns the files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    by_figure: dict[str, list[FigureTable]] = {}
    for table in found:
        by_figure.setdefault(table[0].split(" (")[0], []).append(table)
    files = []
    for name, shown in by_figure.items():
        figure, axes = pyplot.subplots(1, len(shown), figsize=(4.6 * len(shown), 3.4), squeeze=False)
        for axis, (title, columns, rows) in zip(axes[0], shown, strict=True):
            for column, kind in enumerate(columns[1:], 1):
                x, y = [row[0] for row in rows], [row[column] for row in rows]
                axis.plot(x, y, color=COLOURS[kind], marker=MARKS[kind], label=kind)
            axis.set_xlabel(columns[0])
            axis.set_ylim(bottom=0)
            axis.set_title(title.split(": ")[1], fontsize=10)
            axis.spines[["top", "right"]].set_visible(False)
            if len(columns) > 2:
                axis.legend(frameon=False, fontsize=8)
        figure.suptitle(name, fontsize=11)
        figure.tight_layout()
        files.append(folder / f"{name.replace(' ', '-')}.png")
        figure.savefig(files[-1], dpi=120)
        pyplot.close(figure)
    return files
