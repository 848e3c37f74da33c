"""moving: objects within a range of, or nearest to, a moving or fixed focal point; or their count, min, max
(PLACE*).

    order --> home --------> region ------> assemble --> results
              by object      by position    by the issuer's position

Choices that docs/queries.md leaves open:
- Objects are shown as strings, or as integers where the stream's object column is one.
- An item without a name, or with a coordinate that is missing or not finite, is no report: the object's last
  report stays.
- Within a tick, rows of a subscription come `-` before `+`, each by object name.
- A focal object that is silent for longer than `expire` leaves its queries without a result: the members
  leave, with no distance, and a value becomes missing. When it reports again, the whole result comes again.
- A min or max is a coordinate and the object that has it: it comes out when either changes. A count comes
  out at the first tick at which the focal point is known, 0 included; a min or max when there is one.
- A query that is cancelled at a time between two reports of one time still sees the second at a tick at
  that time.
- Results are assembled in the region that the issuer is in, else in that of the focal point. That decides
  where work is done, and changes no result.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from anabranch.chain.balance import Patience
from anabranch.chain.stages import ByZone, Chain
from anabranch.families.base import Family, Shown, Table
from anabranch.families.moving.assemble import MOVING, VALUES, Assemble
from anabranch.families.moving.kernels.object_names import has_integers
from anabranch.families.moving.object_home import ObjectHome, home_zones
from anabranch.families.moving.region import Region
from anabranch.families.moving.servers import at_type
from anabranch.families.moving.spec import KNearest, Moving
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError
from anabranch.model.stream import Stream


class MovingFamily(Family):
    name: ClassVar[str] = "moving"
    kinds: ClassVar[tuple[str, ...]] = ("moving",)
    tables: ClassVar[tuple[Table, ...]] = (Table(MOVING), Table(VALUES))

    def __init__(self, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()

    def chain(self, stream: Stream, zones: int) -> Chain:
        _check(stream)
        stages = tuple(stage(stream, zones, self.patience) for stage in (ObjectHome, Region, Assemble))
        return Chain(stages, ByZone(partial(home_zones, stream, zones)))

    def shown(self, stream: Stream, spec: dict[str, Any]) -> tuple[str, tuple[Shown, ...]]:
        query = Moving.from_json(spec)
        names = ColumnType.INT if has_integers(stream) else ColumnType.STRING
        types = {"at": at_type(stream), "op": ColumnType.STRING, "object": names, "complete": ColumnType.BOOL}
        if query.value is not None:
            types["value"] = ColumnType.INT if query.value == "count" else ColumnType.FLOAT
            return VALUES, tuple(Shown(name, Column(name, types[name])) for name in ("at", "value", "object"))
        columns = ["at", "op", "object", "x", "y", "distance"]
        if isinstance(query.shape, KNearest):
            columns.append("complete")
        return MOVING, tuple(Shown(name, Column(name, types.get(name, ColumnType.FLOAT))) for name in columns)


def _check(stream: Stream) -> None:
    """Refuses streams on which no moving query can be answered."""
    for setting in ("time", "object"):
        if getattr(stream, setting) is None:
            raise JobError(
                f"stream {stream.name}: moving objects need the setting `{setting}`, the name of a column"
            )
    if len(stream.position) != 2:
        raise JobError(
            f"stream {stream.name}: queries for moving objects need `position`, the names of two columns"
        )
    if not stream.tick > 0:
        raise JobError(f"stream {stream.name}: tick = {stream.tick}; it must be greater than 0")
    if stream.bounds and len(stream.bounds) != 2:
        raise JobError(
            f"stream {stream.name}: `bounds` has {len(stream.bounds)} pairs; moving objects need two: x and y"
        )
