"""Another number of zones for a stream that stands still.

    states of 2 zones --settle--> no back packet under way --rezoned--> states of 5 zones

Results do not depend on the number of zones, so it may change between two batches. First the stages run with
their own zones until no back packet is under way. Then each new zone makes its state from the states of all
old zones of its stage (`RescalableStage.rezoned`). A family with a stage that cannot do that keeps its zones.
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.chain.packets import ORDER
from anabranch.chain.stages import Address, Chains, RescalableStage
from anabranch.chain.state import State

States = Mapping[Address, State]


def with_zones(before: Chains, zones: int, states: States) -> Chains:
    """Returns chains with so many zones, but for families that have states and must keep theirs."""
    families = {family for family, depth, _ in states if depth != ORDER}
    kept = {name: before.zones_at(name, 1) for name in sorted(families) if not before[name].is_rescalable}
    return Chains(before.stream, before.families.values(), zones, kept)


def rezoned(before: Chains, after: Chains, states: States) -> dict[Address, State]:
    """Returns the states of the zones of `after`, given those of the zones of `before`."""
    out: dict[Address, State] = {}
    for family, depth in sorted({(family, depth) for family, depth, _ in states}):
        zones = before.zones_at(family, depth)
        olds = [states.get((family, depth, zone)) or State() for zone in range(zones)]
        stage = after[family].stages[depth - 1] if depth != ORDER else None
        if isinstance(stage, RescalableStage) and stage.zones != zones:
            for zone in range(stage.zones):
                out[family, depth, zone] = stage.rezoned(zone, olds)
        else:
            out |= {(family, depth, zone): old for zone, old in enumerate(olds)}
    return out
