"""Draws docs/pictures/sites.svg: three sites, the flow between them, and who reads it.

python -m tools.sites_picture
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

OUT = Path(__file__).parents[1] / "docs" / "pictures" / "sites.svg"

BLUE, GREY = "#2b6cb0", "#4a5568"
SITES = {
    "plant1": (0.0, ["stream photons", "query flow:1", "  photons with en > 1.3"]),
    "hub": (4.0, ["passes flow 1 on,", "as it is"]),
    "office": (8.0, ["stream photons-1 = flow 1", "subscription hot", "subscription hotter"]),
}
LINKS = (("plant1", "hub"), ("hub", "office"))


def main() -> None:
    mpl.rcParams["svg.hashsalt"] = "anabranch"  # the same picture is the same file
    figure, axes = plt.subplots(figsize=(9.2, 2.3))
    for name, (left, lines) in SITES.items():
        axes.add_patch(
            FancyBboxPatch(
                (left, 0), 2.6, 1.6, boxstyle="round,pad=0.12", facecolor="#ebf4ff", edgecolor=BLUE
            )
        )
        axes.text(left, 1.42, name, weight="bold", size=11, color=BLUE, va="top")
        axes.text(left, 1.0, "\n".join(lines), size=8.5, color=GREY, va="top", linespacing=1.5)
    for one, other in LINKS:
        start, end = SITES[one][0] + 2.75, SITES[other][0] - 0.15
        axes.add_patch(
            FancyArrowPatch((start, 0.8), (end, 0.8), arrowstyle="-|>", mutation_scale=14, color=BLUE, lw=1.6)
        )
        axes.text((start + end) / 2, 0.95, "flow 1", size=8.5, color=BLUE, ha="center")
    axes.set_xlim(-0.3, 11.0)
    axes.set_ylim(-0.3, 1.9)
    axes.axis("off")
    figure.savefig(OUT, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
