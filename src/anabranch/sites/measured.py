"""What the sites of a network have measured: items, time, bytes on links, CPU. Read from their folders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from anabranch.model.stream import Time
from anabranch.planning.network import Pair
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifests
from anabranch.sites.flow_folder import link_bytes
from anabranch.sites.network_file import NetworkFile


class SiteMeasures:
    def __init__(self, file: NetworkFile) -> None:
        self.file = file

    def books(self, stream: str) -> dict[str, Any]:
        """Returns the books of a registered stream; empty before its first batch."""
        return self._manifests(self.file.network.streams[stream]).books(stream)

    def last(self) -> dict[str, Time]:
        """Returns the time that each stream has reached, where it has begun."""
        reached = {name: self.books(name).get("last") for name in self.file.streams}
        return {name: time for name, time in reached.items() if time is not None}

    def rates(self) -> dict[str, float]:
        """Returns the items per second of each stream that has run for two batches or more."""
        out = {}
        for name in self.file.streams:
            manifests = self._manifests(self.file.network.streams[name])
            branch = manifests.furthest(name)
            if branch is None or (last := manifests.latest(branch)) < 1:
                continue
            first, final = manifests.manifest(branch, 0), manifests.manifest(branch, last)
            seconds = manifests.written(branch, last) - manifests.written(branch, 0)
            if first and final and seconds > 0:
                items = final.books.get("processed", 0) - first.books.get("processed", 0)
                out[name] = items / seconds
        return {name: rate for name, rate in out.items() if rate > 0}

    def bytes(self, ends: Pair) -> int:
        """Returns what has travelled over a link, in both directions."""
        one, other = ends
        return link_bytes(self.file.folders, one, other) + link_bytes(self.file.folders, other, one)

    def cpu_seconds(self, site: str) -> float:
        """Returns the CPU time that the stages at a site took."""
        manifests = self._manifests(site)
        return sum(
            manifest.cpu_s for branch in _branches(manifests) for manifest in manifests.manifests(branch)
        )

    def _manifests(self, site: str) -> Manifests:
        return Manifests(Layout(self.file.folders[site]))


def _branches(manifests: Manifests) -> Iterable[str]:
    folder: Path = manifests.layout.manifests("x").parent
    return sorted(path.name for path in folder.glob("*") if path.is_dir())
