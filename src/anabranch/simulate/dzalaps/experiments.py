"""The experiments of section 6: figures 8 to 16, and what the paper leaves out, peers that come, go and fail.

A figure is a table of messages per item by series, and can be drawn. Every setting is run once, however many
figures show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from anabranch.families.nearest import interest
from anabranch.families.nearest.space import CellGrid
from anabranch.simulate.dzalaps.network import CENTRAL, NEIGHBOUR_INFORM, REPLICA, PeerNetwork
from anabranch.simulate.dzalaps.workload import Workload, clustered, recorded, uniform

METHODS = ("PA", "RAPF")
FIGURES = tuple(range(8, 17))
#: Cells along each dimension: table 1, and with about 2^16 cells for figure 14.
RESOLUTION = 12
RESOLUTIONS = {2: 256, 4: 16, 8: 4}

Progress = Callable[[str], None]

_COLOURS = ("#2b6a99", "#e0995e", "#5d8a4a", "#8a5d8a")


@dataclass(frozen=True)
class Scale:
    """A quarter of table 1 by default, and as many items as half a window after one window to warm up."""

    items: int = 5_000
    warm_up: int = 10_000
    window: int = 10_000
    buffer: int = 500
    queries: int = 100
    peers: int = 64
    batch: int = 250
    sigma: float = 1e-3
    gamma: float = 0.2
    resolution: int = RESOLUTION
    ks: tuple[int, ...] = (1, 3, 9, 27, 81)
    k: int = 9  # where something else varies
    networks: tuple[int, ...] = (16, 64, 256, 1024)
    seed: int = 0

    @staticmethod
    def full() -> Scale:
        """Table 1."""
        return Scale(1_000_000, 100_000, 40_000, 2_000, 400, 256, 500)


@dataclass(frozen=True)
class RunSetting:
    """One run. `dimensions` and `resolution` are of the space of the items."""

    data: str
    method: str
    k: int
    window: int
    queries: int
    peers: int
    dimensions: int = 4
    resolution: int = RESOLUTION


@dataclass(frozen=True)
class Figure:
    number: int
    title: str
    along: str
    series: dict[str, dict[int, float]]  # name -> x -> y
    logarithmic: bool = True


@dataclass
class Laboratory:
    scale: Scale
    file: Path | None = None
    columns: Sequence[str] = ()
    progress: Progress = print
    _done: dict[RunSetting, Counter[str]] = field(default_factory=dict)

    @property
    def data(self) -> list[str]:
        return ["uniform", "clustered", *(["recorded"] if self.file else [])]

    def setting(self, data: str, method: str, k: int | None = None) -> RunSetting:
        scale = self.scale
        dimensions = len(self.columns) if data == "recorded" else 4
        return RunSetting(
            data,
            method,
            k or scale.k,
            scale.window,
            scale.queries,
            scale.peers,
            dimensions,
            scale.resolution,
        )

    def counts(self, setting: RunSetting) -> Counter[str]:
        """The messages of one run after its warm-up."""
        if setting not in self._done:
            self.progress(
                f"{setting.data}, {setting.method}, k {setting.k}, window {setting.window:,}, "
                f"{setting.queries} queries, {setting.peers} peers, {setting.dimensions}-d"
            )
            net = self.network(setting)
            warm_up = max(self.scale.warm_up, setting.window)
            net.run(warm_up, self.scale.batch)
            before = net.counts.copy()
            net.run(warm_up + self.scale.items, self.scale.batch)
            self._done[setting] = net.counts - before
        return self._done[setting]

    def network(self, setting: RunSetting, replicate: bool = False) -> PeerNetwork:
        scale = self.scale
        work = self._workload(setting)
        grid = CellGrid(((0.0, 1.0),) * setting.dimensions, setting.resolution)
        net = PeerNetwork(work.items, grid, scale.buffer, replicate, scale.seed, scale.gamma)
        most = min(setting.peers, grid.count)
        while len(net.can.peers) < most:
            net.join()
        sigma = scale.sigma if setting.method == "PA" else None
        net.activate(work.activations(setting.k, setting.window, setting.method, sigma))
        return net

    def _workload(self, setting: RunSetting) -> Workload:
        items = max(self.scale.warm_up, setting.window) + self.scale.items
        if setting.data == "recorded":
            assert self.file is not None
            return recorded(self.file, self.columns, items, setting.queries, self.scale.seed)
        make = {"uniform": uniform, "clustered": clustered}[setting.data]
        return make(items, setting.queries, setting.dimensions, self.scale.seed)

    # the figures

    def figure(self, number: int) -> Figure:
        figures: dict[int, Callable[[], Figure]] = {
            8: partial(self._by_k, 8, "notify owner messages per item", (interest.NOTIFY_OWNER,)),
            9: partial(self._by_k, 9, "notify interested messages per item", (interest.NOTIFY_INTERESTED,)),
            10: partial(self._by_k, 10, "merger update messages per item", (interest.MERGER_UPDATE,)),
            11: partial(self._by_k, 11, "all messages per item", interest.COUNTERS),
            12: self._beside_central,
            13: self._by_window,
            14: self._by_dimensions,
            15: self._by_queries,
            16: self._by_peers,
        }
        return figures[number]()

    def _per_item(self, setting: RunSetting, names: Sequence[str] = interest.COUNTERS) -> float:
        counts = self.counts(setting)
        return sum(counts[name] for name in names) / self.scale.items

    def _by_k(self, number: int, title: str, names: Sequence[str]) -> Figure:
        series = {
            f"{data} {method}": {
                k: self._per_item(self.setting(data, method, k), names) for k in self.scale.ks
            }
            for data in self.data
            for method in METHODS
        }
        return Figure(number, title, "k", series)

    def _beside_central(self) -> Figure:
        series = {}
        for data in self.data:
            for method in METHODS:
                settings = {k: self.setting(data, method, k) for k in self.scale.ks}
                series[f"{data} {method}"] = {
                    k: 100 * (self._per_item(setting) / self._per_item(setting, CENTRAL) - 1)
                    for k, setting in settings.items()
                }
        return Figure(12, "percent more messages than a central processor", "k", series)

    def _by_window(self) -> Figure:
        windows = [self.scale.window * part // 4 for part in (1, 2, 4, 8)]
        series = {
            f"{data} {method}": {
                window: self._per_item(replace(self.setting(data, method), window=window))
                for window in windows
            }
            for data in self.data
            for method in METHODS
        }
        return Figure(13, f"all messages per item, k = {self.scale.k}", "window", series)

    def _by_dimensions(self) -> Figure:
        series = {}
        for data in ("uniform", "clustered"):
            for method in METHODS:
                start = self.setting(data, method)
                series[f"{data} {method}"] = {
                    d: self._per_item(replace(start, dimensions=d, resolution=resolution))
                    for d, resolution in RESOLUTIONS.items()
                }
        return Figure(14, f"all messages per item, k = {self.scale.k}", "dimensions", series)

    def _by_queries(self) -> Figure:
        counts = [max(1, self.scale.queries * part // 4) for part in (1, 2, 4, 8, 16)]
        return self._growth(15, "queries", counts, lambda setting, n: replace(setting, queries=n))

    def _by_peers(self) -> Figure:
        return self._growth(16, "peers", self.scale.networks, lambda setting, n: replace(setting, peers=n))

    def _growth(
        self, number: int, along: str, sizes: Sequence[int], change: Callable[[RunSetting, int], RunSetting]
    ) -> Figure:
        """Returns the growth of the two kinds of messages that distribution costs, and of all."""
        kinds = {
            "interested": (interest.NOTIFY_INTERESTED,),
            "merger": (interest.MERGER_UPDATE,),
            "all": interest.COUNTERS,
        }
        series = {
            f"{method} {kind}": {
                size: self._per_item(change(self.setting("uniform", method), size), names) for size in sizes
            }
            for method in METHODS
            for kind, names in kinds.items()
        }
        return Figure(number, f"messages per item, uniform, k = {self.scale.k}", along, series)

    # what the paper leaves out

    def churn(self, method: str = "RAPF") -> dict[str, float]:
        """Peers that join, depart and fail, each a tenth of them one after another, beside peers that stay:
        what that changes in the results, and what it costs.
        """
        setting = self.setting("uniform", method)
        self.progress(f"{setting.peers} peers, a tenth of them fails, departs, joins")
        still, moving = self.network(setting), self.network(setting, replicate=True)
        rng = np.random.default_rng([self.scale.seed, 5])
        stop = max(self.scale.warm_up, setting.window) + self.scale.items
        batches = stop // self.scale.batch
        events = max(1, setting.peers // 10)
        due = Counter(np.linspace(batches // 4, batches - 2, events).astype(int).tolist())
        for count in range(batches):
            still.batch(self.scale.batch)
            moving.batch(self.scale.batch)
            for _ in range(due[count]):
                moving.fail(int(rng.choice(sorted(moving.can.peers))))
                moving.depart(int(rng.choice(sorted(moving.can.peers))))
                moving.join()
        lost, added = _differences(still, moving)
        more = {name: (moving.counts[name] - still.counts[name]) / stop for name in interest.COUNTERS}
        return {
            "peers that failed": events,
            "peers that departed": events,
            "peers that joined": events,
            "queries lost": len(still.active - moving.active),
            "rows of results": sum(len(part[0]) for part in still.reports),
            "rows lost": lost,
            "rows too many": added,
            **{f"{name}, more per item": value for name, value in more.items()},
            f"{REPLICA} messages per item": moving.counts[REPLICA] / stop,
            f"{NEIGHBOUR_INFORM} messages per item": moving.counts[NEIGHBOUR_INFORM] / stop,
        }


def _differences(left: PeerNetwork, right: PeerNetwork) -> tuple[int, int]:
    """Rows of the left that the right does not have, and the other way round."""
    rows = [
        Counter(row for part in net.reports for row in zip(*(c.tolist() for c in part), strict=True))
        for net in (left, right)
    ]
    return (rows[0] - rows[1]).total(), (rows[1] - rows[0]).total()


def draw(figure: Figure, file: Path) -> None:
    """Draws a figure as PNG: PA in full lines, RAPF in broken ones; a colour for what else tells series
    apart.
    """
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
            color=_COLOURS[words.index(_other_word(name)) % len(_COLOURS)],
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
    """Returns what a series is about besides its method."""
    return " ".join(word for word in name.split() if word not in ("PA", "RAPF"))
