"""Tells the story of clusters from the results of an EMIT CHANGES query, as JSON lines on standard input.

anabranch results out convoys | python story.py [picture.png]
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from typing import Any

Row = dict[str, Any]


def told(rows: list[Row]) -> list[tuple[float, str, int, int | None, int]]:
    """(time, change, cluster, the other cluster, how many members), for births, unions, splits and deaths.

    A union is told by the cluster that ends, a split by the one that is new; the other cluster is the one
    that most members go to or come from.
    """
    others: dict[tuple[float, str, int], Counter[int | None]] = defaultdict(Counter)
    for row in rows:
        ends = row["change"] == "death" or (row["change"] == "union" and row["role"] is None)
        begins = row["change"] == "birth" or (row["change"] == "split" and row["role"] is not None)
        if begins or ends:
            others[row["window_end"], row["change"], row["cluster"]][row["other"]] += 1
    out = []
    for event, counted in others.items():
        known = Counter({other: count for other, count in counted.items() if other is not None})
        if event[1] in ("birth", "death") or not known:
            out.append((*event, None, counted.total()))
        else:
            out.append((*event, *known.most_common(1)[0]))
    return sorted(out, key=lambda event: event[0])


def main() -> None:
    events = told([json.loads(line) for line in sys.stdin])
    for at, change, cluster, other, count in events:
        match change:
            case "birth":
                print(f"{at:8.0f} s  convoy {cluster} appears with {count} reports")
            case "union" if other is not None:
                print(f"{at:8.0f} s  convoy {cluster} unites with convoy {other}: {count} reports go over")
            case "split" if other is not None:
                print(f"{at:8.0f} s  convoy {cluster} splits off from convoy {other} with {count} reports")
            case "death":
                print(f"{at:8.0f} s  convoy {cluster} is gone")
    if len(sys.argv) > 1:
        draw(events, sys.argv[1])


def draw(events: list[tuple[float, str, int, int | None, int]], file: str) -> None:
    """A line for the life of each convoy, and where it came from or went to."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    last = max(event[0] for event in events)
    begun: dict[int, float] = {}
    ended: dict[int, float] = {}
    figure, axes = pyplot.subplots(figsize=(9, 5), layout="constrained")
    for at, change, cluster, other, _ in events:
        if change in ("birth", "split"):
            begun.setdefault(cluster, at)
        if change in ("union", "death"):
            ended[cluster] = at
        if other is not None:
            colour = "#1f6feb" if change == "union" else "#d1242f"
            axes.plot([at, at], [cluster, other], color=colour, linewidth=1, marker=".", markersize=4)
    for cluster, at in begun.items():
        axes.plot([at, ended.get(cluster, last)], [cluster, cluster], color="#57606a", linewidth=1.5)
    for name, colour in (("life", "#57606a"), ("union", "#1f6feb"), ("split", "#d1242f")):
        axes.plot([], [], color=colour, label=name)
    axes.set_xlabel("seconds")
    axes.set_ylabel("convoy")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main()
