"""Curves like figures 8 to 13: ranges on the left, nearest objects on the right.

In: tables. Out: a PNG file a figure. Never: a number that is not in the tables that are printed beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anabranch.simulate.place.experiment import Table

COLOURS = {"objects": "#2b6a99", "count": "#e0995e", "max": "#7a9a4f", "nearest": "#2b6a99"}
MARKS = {"objects": "o", "count": "s", "max": "^", "nearest": "o"}


def draw(found: Sequence[Table], folder: Path) -> list[Path]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    by_figure: dict[str, list[Table]] = {}
    for table in found:
        by_figure.setdefault(table[0].split(" (")[0], []).append(table)
    files = []
    for name, shown in by_figure.items():
        figure, axes = pyplot.subplots(1, len(shown), figsize=(4.6 * len(shown), 3.4), squeeze=False)
        for axis, (title, columns, rows) in zip(axes[0], shown, strict=True):
            for place, kind in enumerate(columns[1:], 1):
                x, y = [row[0] for row in rows], [row[place] for row in rows]
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
