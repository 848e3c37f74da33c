"""Bars like figures 24 to 27: a group per site or link, a bar per strategy."""

from __future__ import annotations

from pathlib import Path

from anabranch.simulate.report import StrategyTable

COLOURS = ("#b8c4ce", "#e0995e", "#2b6a99")


def draw(tables: list[StrategyTable], title: str, file: Path) -> None:
    """Draws the tables side by side. Rows that add up others (`all ...`) are left out."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(tables), figsize=(6.5 * len(tables), 3.6), squeeze=False)
    for axis, table in zip(axes[0], tables, strict=True):
        rows = [row for row in table.rows if len(table.rows) == 1 or not str(row[0]).startswith("all ")]
        width = 0.8 / len(table.strategies)
        for index, strategy in enumerate(table.strategies):
            left = [group + (index - (len(table.strategies) - 1) / 2) * width for group in range(len(rows))]
            axis.bar(left, [row[index + 1] for row in rows], width, label=strategy, color=COLOURS[index % 3])
        axis.set_xticks(range(len(rows)), [str(row[0]).replace("SP", "") for row in rows], fontsize=8)
        if table.first == "link":
            axis.tick_params(axis="x", rotation=60)
        axis.set_xlabel(table.first)
        axis.set_title(table.title, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
