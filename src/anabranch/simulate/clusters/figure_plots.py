"""Plots like figures 18 to 32 of the Chandi paper: CPU time per tuple and bytes of cluster structures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Measured = dict[str, dict[int, dict[str, dict[str, float]]]]  # case -> queries -> strategy -> figures

#: One hue per strategy, the same in every plot; ours first.
_STYLE = {
    "anabranch": ("#1f6feb", "o"),
    "chandi": ("#8250df", "P"),
    "extra-n-rqs": ("#d1242f", "s"),
    "extra-n": ("#bf8700", "^"),
    "inc-dbscan-rqs": ("#1a7f37", "D"),
    "inc-dbscan": ("#57606a", "v"),
}
_FIGURES = {"cpu_us": "CPU time per tuple, µs", "bytes": "cluster structures, MB"}


def draw(measured: Measured, folder: Path) -> list[Path]:
    """A PNG per case that has several sizes: CPU on the left, memory on the right."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for case, sizes in measured.items():
        if len(sizes) == 1:
            continue
        figure, sides = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        for axes, (name, title) in zip(sides, _FIGURES.items(), strict=True):
            _lines(axes, sizes, name)
            axes.set_xlabel("queries")
            axes.set_title(title, fontsize=10, loc="left")
            axes.set_yscale("log")
            if max(sizes) > 100:
                axes.set_xscale("log")
            axes.set_xticks(list(sizes), [f"{size:,}" for size in sizes])
            axes.minorticks_off()
            axes.grid(True, color="#d0d7de", linewidth=0.5)
            axes.spines[["top", "right"]].set_visible(False)
        figure.legend(
            *sides[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False
        )
        figure.suptitle(f"arbitrary {case}" if case != "scaling" else "scaling", fontsize=11)
        files.append(folder / ("clusters-" + case.replace(",", "").replace(" ", "-") + ".png"))
        figure.savefig(files[-1], dpi=120)
        pyplot.close(figure)
    return files


def _lines(axes: Any, sizes: dict[int, dict[str, dict[str, float]]], name: str) -> None:
    for strategy, (colour, marker) in _STYLE.items():
        points = {size: each[strategy][name] for size, each in sizes.items() if strategy in each}
        if points:
            values = [value / 1e6 if name == "bytes" else value for value in points.values()]
            axes.plot(
                list(points), values, color=colour, marker=marker, markersize=4, linewidth=1.5, label=strategy
            )
