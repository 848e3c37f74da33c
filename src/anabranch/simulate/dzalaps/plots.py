"""The figures as PNG: lines over k, windows, dimensions, queries or peers.

In: figures. Out: one file each. Never: a number that is not in the table that is printed beside it.
"""

from __future__ import annotations

from pathlib import Path

from anabranch.simulate.dzalaps.experiments import Figure

COLOURS = ("#2b6a99", "#e0995e", "#5d8a4a", "#8a5d8a")


def draw(figure: Figure, file: Path) -> None:
    """PA in full lines, RAPF in broken ones; a colour for what else tells series apart."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sheet, axis = pyplot.subplots(figsize=(5.6, 3.8))
    words = list(dict.fromkeys(_other_word(name) for name in figure.series))
    for name, line in figure.series.items():
        axis.plot(
            list(line),
            list(line.values()),
            label=name,
            color=COLOURS[words.index(_other_word(name)) % len(COLOURS)],
            linestyle="--" if "RAPF" in name else "-",
            marker="s" if "RAPF" in name else "o",
            markersize=4,
        )
    axis.set_xscale("log")
    ticks = sorted({x for line in figure.series.values() for x in line})
    axis.set_xticks(ticks, [f"{x:,}" for x in ticks])
    axis.minorticks_off()
    if all(y > 0 for line in figure.series.values() for y in line.values()):
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("{x:g}")
    axis.set_xlabel(figure.along)
    axis.set_title(f"Figure {figure.number}: {figure.title}", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8)
    sheet.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    sheet.savefig(file, dpi=120)
    pyplot.close(sheet)


def _other_word(name: str) -> str:
    """What a series is about besides its method."""
    return " ".join(word for word in name.split() if word not in ("PA", "RAPF"))
