"""What a subscription asks of the network: the properties of the stream that must reach its site.

    SELECT ra, en FROM photons WHERE en > 1.3        all of it can be made elsewhere: it is `planned` whole
    SELECT NEAREST 3 TO (0, 0) ... WHERE en > 1.3    runs at its site, on a flow of the items with en > 1.3

A select or an aggregate is planned whole, unless something in it must be seen where the subscriber is: times
of activation and cancellation of a window, computed columns, or a clause that properties do not know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from anabranch.catalog.entries import NewSubscription
from anabranch.families.filters.spec import Aggregate, spec_of
from anabranch.model.stream import Stream, Time
from anabranch.model.window import Window
from anabranch.planning.properties import Properties, properties_of
from anabranch.predicates.conjunction import EVERYTHING, Normal
from anabranch.predicates.normal import normal_form
from anabranch.predicates.terms import columns_of, from_json

#: The parts of a spec of the filters that properties describe.
_DESCRIBED = {
    "select": {"kind", "outputs", "condition", "normal"},
    "aggregate": {"kind", "aggregations", "window", "condition", "having", "normal"},
}


@dataclass(frozen=True)
class Wanted:
    """A bound query (of a query over several streams: one part of it) and where it is read. `whole`:
    `properties` say all that it asks for; else they say which items it needs.
    """

    name: str
    site: str
    stream: str
    family: str
    kind: str
    query: str
    spec: dict[str, Any]
    activate: Time | None
    cancel: Time | None
    properties: Properties
    whole: bool
    number: int = 0  # of the subscription


def origin_at_site(number: int) -> str:
    """Returns how the engine of a site tells registrations of one name apart."""
    return f"network {number}"


def wanted_of(new: NewSubscription, site: str, stream: Stream, began: bool = False) -> Wanted:
    """Returns what one bound query asks for. `began`: its activation is the time that the stream has reached,
    so that windows which begin after it can be shared.
    """
    whole = _is_whole(new, began)
    return Wanted(
        new.name,
        site,
        new.stream,
        new.family,
        new.kind,
        new.query,
        new.spec,
        new.activate,
        new.cancel,
        _whole_properties(new, stream) if whole else _needed(new, stream),
        whole,
    )


def _is_whole(new: NewSubscription, began: bool) -> bool:
    described = _DESCRIBED.get(new.kind)
    if described is None or {key for key, value in new.spec.items() if value} - described:
        return False
    if new.kind == "select" or (new.activate is None and new.cancel is None):
        return True
    return began and new.cancel is None and not Window.from_json(new.spec["window"]).by_rows


def _whole_properties(new: NewSubscription, stream: Stream) -> Properties:
    """Items travel with their time, so that queries can be activated between them anywhere."""
    found = properties_of(spec_of(new.spec), stream)
    if found.aggregated is None and stream.time is not None:
        found = replace(found, columns=found.columns | {stream.time})
    return found


def _needed(new: NewSubscription, stream: Stream) -> Properties:
    """Returns the properties of the items that a query needs at its site."""
    every = frozenset(column.name for column in stream.columns)
    columns, selection = every, EVERYTHING
    described = _DESCRIBED.get(new.kind, set())
    match new.kind:
        case "aggregate" if not {key for key, value in new.spec.items() if value} - described:
            spec = spec_of(new.spec)
            assert isinstance(spec, Aggregate)
            used = {one.column for one in spec.aggregations if one.column is not None}
            columns, selection = frozenset(used), _selection(new, stream)
        case "nearest":
            selection = _selection(new, stream)
        case "clusters":
            columns, selection = frozenset(new.spec["by"]), _selection(new, stream)
        case "moving":  # the focal object is seen whatever the condition says
            assert stream.object is not None
            columns = frozenset([stream.object, *stream.position])
    columns |= {name for name in (stream.time, stream.id) if name is not None}
    if columns != every:
        columns |= frozenset(columns_of(from_json(new.spec["condition"])))
    return Properties(stream.name, selection, columns & every, time=stream.time)


def _selection(new: NewSubscription, stream: Stream) -> Normal:
    return normal_form(from_json(new.spec["condition"]), stream)
