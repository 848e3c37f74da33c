"""The nearest family: k-NN queries over sliding windows, after D-ZaLaPS.

order -> home (recent items, who is interested in which cells) -> rendezvous (candidates of the queries) ->
deliver
                ^                                                      |
                +------------- merger updates: cells of interest ------+
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.families.base import Family, Shown, Table
from anabranch.families.nearest import answers
from anabranch.families.nearest.home import Home
from anabranch.families.nearest.rendezvous import Rendezvous
from anabranch.families.nearest.space import Overlay, points_of
from anabranch.families.nearest.spec import Nearest
from anabranch.model.stream import Stream
from anabranch.zones.balance import Patience
from anabranch.zones.cells import Cells
from anabranch.zones.columns import Array, numbers_of
from anabranch.zones.spread import ByZone, Slices, Spread
from anabranch.zones.stage import Chain


class NearestFamily(Family):
    name = "nearest"
    kinds = ("nearest",)
    tables = (Table(answers.TABLE),)

    def __init__(self, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()

    def chain(self, stream: Stream, zones: int) -> Chain:
        home, rendezvous = Home(stream, zones, self.patience), Rendezvous(stream, zones, self.patience)
        return Chain((home, rendezvous), self.spread(stream, zones))

    def spread(self, stream: Stream, zones: int) -> Spread:
        """Items go home to the zone of their cell where the stream declares position and bounds; else any
        zone will do.
        """
        if zones == 1 or not stream.position or len(stream.bounds) != len(stream.position):
            return Slices(zones)
        return ByZone(ZoneOfPosition(stream, zones))

    def shown(self, stream: Stream, spec: dict[str, Any]) -> tuple[str, tuple[Shown, ...]]:
        return answers.TABLE, answers.shown(stream, Nearest.from_json(spec))


class ZoneOfPosition:
    """The home zone of items by the stream's position; where a coordinate is missing, by their number."""

    def __init__(self, stream: Stream, zones: int) -> None:
        self.position, self.zones = stream.position, zones
        self.overlay = Overlay(Cells.over(stream.bounds), zones)

    def __call__(self, items: pa.RecordBatch) -> Array:
        zones = self.overlay.zones(points_of(items, self.position))
        return np.where(zones >= 0, zones, numbers_of(items) % self.zones)
