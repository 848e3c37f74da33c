"""What the benchmarks share: runs side by side, ratios from one run, a table for people and JSON for
machines.

The machines this runs on are shared and noisy: contestants take turns (A B A B ...), and a ratio compares the
best of each one's turns.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.figures import record


@dataclass
class Report:
    """Measured figures and the ratios between them, each with the least (or most) that is asked of it."""

    name: str
    figures: dict[str, float] = field(default_factory=dict)
    ratios: list[dict[str, Any]] = field(default_factory=list)

    def figure(self, name: str, value: float) -> None:
        self.figures[name] = value
        print(f"  {name}: {value:,.4g}", file=sys.stderr, flush=True)

    def ratio(
        self, what: str, value: float, at_least: float | None = None, at_most: float | None = None
    ) -> None:
        met = (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
        self.ratios.append(
            {"what": what, "value": value, "at_least": at_least, "at_most": at_most, "met": met}
        )

    def show(self, file: Path | None) -> None:
        console = Console(width=140)
        figures = Table("figure", "value", title=self.name)
        for name, value in self.figures.items():
            figures.add_row(name, f"{value:,.4g}")
        console.print(figures)
        ratios = Table("claim", "measured", "target", "met")
        for entry in self.ratios:
            asked = (
                f">= {entry['at_least']:g}" if entry["at_least"] is not None else f"<= {entry['at_most']:g}"
            )
            ratios.add_row(entry["what"], f"{entry['value']:.3g}", asked, "yes" if entry["met"] else "NO")
        console.print(ratios)
        if os.environ.get("ANABRANCH_RECORD"):
            reported = self.figures | {entry["what"]: entry["value"] for entry in self.ratios}
            print(f"recorded {record(reported)} figures in docs/figures.json", file=sys.stderr)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(
                json.dumps({"name": self.name, "figures": self.figures, "ratios": self.ratios}, indent=1)
            )


def turns(contestants: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Each contestant's figures, taken in turns."""
    out: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            out[name].append(run())
            print(f"  {name}: {out[name][-1]:,.0f}", file=sys.stderr, flush=True)
    return out


def best(values: Iterable[float]) -> float:
    return max(values)
