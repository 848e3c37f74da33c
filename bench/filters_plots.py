"""A plot of bench.filters: items a second of CPU over the number of subscriptions."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

#: Blue is shared, red is each on its own; the paper's templates are solid, queries hardly alike dashed.
_STYLE = {
    "templates, shared": ("#1f6feb", "o", "-"),
    "templates, each on its own": ("#d1242f", "o", "-"),
    "hardly two alike, shared": ("#1f6feb", "s", "--"),
    "hardly two alike, each on its own": ("#d1242f", "s", "--"),
}
#: Green is one job of ours on Spark, ochre a Spark query each; by the format that the source has.
_ON_SPARK = {"one job on Spark": ("#1a7f37", "^"), "a Spark query each": ("#bf8700", "v")}
_FORMATS = {"parquet": ":", "json": "-.", "xml": "--"}


def draw(measured: dict[str, dict[int, float]], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for name, points in measured.items():
        colour, marker, line = _style(name)
        axes.plot(
            list(points), list(points.values()), line, color=colour, marker=marker, markersize=5, label=name
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("subscriptions")
    axes.set_title("items a second of CPU", fontsize=10, loc="left")
    axes.grid(True, color="#d0d7de", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    file = folder / "filters.png"
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
    return file


def _style(name: str) -> tuple[str, str, str]:
    """Colour, marker and line of a contestant."""
    if name in _STYLE:
        return _STYLE[name]
    contestant, source = name.split(", from ")
    return (*_ON_SPARK[contestant], _FORMATS[source])
