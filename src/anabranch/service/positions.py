"""The last positions of the items of a stream, for the map.

They come from the results of a selection that the caller may see and that gives the position of every item:
the newest of every object where the stream has objects, else those of the newest items. The source is not
read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from anabranch.catalog.entries import Entry
from anabranch.families.base import Shown
from anabranch.families.filters.family import SELECT
from anabranch.families.registry import family as family_of
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import NUMBER, Stream
from anabranch.predicates.terms import TRUE, to_json
from anabranch.service.job_service import Caller, JobService

#: So many positions are kept of a stream; a cluster's member that is older is not drawn.
MOST_KEPT = 50_000
#: The positions of so many subscriptions are kept.
MOST_FOLLOWED = 16
#: So many batches back are read at first.
RECENT_BATCHES = 100

XY = tuple[float, float]


@dataclass
class FollowedPositions:
    """The positions from the results of one subscription."""

    entry: Entry
    read: int | None = None  # the last batch that was read
    items: OrderedDict[Any, XY] = field(default_factory=OrderedDict)  # id or number -> x, y
    objects: OrderedDict[Any, XY] = field(default_factory=OrderedDict)


class Positions:
    """One per service; may be used from several threads."""

    def __init__(self, service: JobService) -> None:
        self.service = service
        #: stream, whose -> version of the catalog, the subscription
        self._chosen: dict[tuple[str, str | None], tuple[int, Entry | None]] = {}
        self._followed: OrderedDict[int, FollowedPositions] = OrderedDict()
        self._lock = threading.Lock()

    def last(self, caller: Caller, stream: Stream, limit: int) -> tuple[Entry | None, list[tuple[Any, XY]]]:
        """Returns positions, the newest first, and the subscription they come from; None where none gives all
        positions.
        """
        with self._lock:
            followed = self._caught_up(caller, stream)
            if followed is None:
                return None, []
            shown = followed.items if stream.object is None else followed.objects
            return followed.entry, list(islice(reversed(shown.items()), limit))

    def of(self, caller: Caller, stream: Stream, names: list[Any]) -> list[XY | None]:
        """Returns positions of items by their ids; None where one is not known."""
        with self._lock:
            followed = self._caught_up(caller, stream)
            return [None if followed is None else followed.items.get(name) for name in names]

    def _caught_up(self, caller: Caller, stream: Stream) -> FollowedPositions | None:
        key, version = (stream.name, caller.only), self.service.catalog.version(stream.name, ["filters"])
        if key not in self._chosen or self._chosen[key][0] != version:
            self._chosen[key] = version, self._choice(caller, stream)
        entry = self._chosen[key][1]
        if entry is None:
            return None
        followed = self._followed.pop(entry.number, None) or FollowedPositions(entry)
        self._followed[entry.number] = followed
        if len(self._followed) > MOST_FOLLOWED:
            self._followed.popitem(last=False)
        self._read(followed, stream)
        return followed

    def _choice(self, caller: Caller, stream: Stream) -> Entry | None:
        """Returns the first selection of all items that has their positions and ids."""
        if len(stream.position) < 2:
            return None
        wanted = {shown.stored for shown in _shown(stream)} - {NUMBER}
        for entry in self.service.catalog.subscriptions(stream.name, owner=caller.only, kind=SELECT):
            if entry.spec["condition"] == to_json(TRUE):
                if wanted <= {shown.stored for shown in family_of("filters").shown(stream, entry.spec)[1]}:
                    return entry
        return None

    def _read(self, followed: FollowedPositions, stream: Stream) -> None:
        deliveries, entry = self.service.deliveries, followed.entry
        branch = deliveries.branch(entry)
        latest = deliveries.latest(branch)
        first = max(0, latest + 1 - RECENT_BATCHES) if followed.read is None else followed.read + 1
        table = family_of("filters").table(SELECT)
        for batch in range(first, latest + 1):
            manifest = deliveries.manifest(branch, batch)
            if manifest is not None:
                _add(followed, deliveries.rows(manifest, table, entry.label, _shown(stream)))
            followed.read = batch


def _shown(stream: Stream) -> list[Shown]:
    """Returns the columns under names of ours, whatever the subscriber calls them."""
    kind = ColumnType.INT if stream.id is None else stream.type_of(stream.id)
    x, y = stream.position[:2]
    shown = [
        Shown(stream.id or NUMBER, Column("id", kind)),
        *(Shown(one, Column(to, ColumnType.FLOAT)) for one, to in ((x, "x"), (y, "y"))),
    ]
    if stream.object is not None:
        shown.append(Shown(stream.object, Column("object", stream.type_of(stream.object))))
    return shown


def _add(followed: FollowedPositions, rows: pa.Table) -> None:
    rows = rows.slice(max(0, rows.num_rows - MOST_KEPT))
    positions = list(zip(rows.column("x").to_pylist(), rows.column("y").to_pylist(), strict=True))
    _put(followed.items, rows.column("id").to_pylist(), positions)
    if "object" in rows.schema.names:
        _put(followed.objects, rows.column("object").to_pylist(), positions)


def _put(known: OrderedDict[Any, XY], names: list[Any], positions: list[tuple[Any, Any]]) -> None:
    for name, (x, y) in zip(names, positions, strict=True):
        if x is not None and y is not None:
            known.pop(name, None)
            known[name] = (x, y)
    while len(known) > MOST_KEPT:
        known.popitem(last=False)
