"""The families there are, by name and by the kind of query they answer."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from anabranch.families.base import Family

_FAMILIES = {
    "filters": "anabranch.families.filters.family:Filters",
    "nearest": "anabranch.families.nearest.family:NearestFamily",
    "clusters": "anabranch.families.clusters.family:ClustersFamily",
    "moving": "anabranch.families.moving.family:MovingFamily",
}


#: In the order in which a batch goes through them.
NAMES = tuple(_FAMILIES)


@cache
def family(name: str) -> Family:
    module, _, attribute = _FAMILIES[name].partition(":")
    made: Family = getattr(import_module(module), attribute)()
    return made
