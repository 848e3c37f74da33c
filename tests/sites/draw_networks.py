"""Networks of a few sites, and the queries of a case spread over them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from anabranch.catalog.entries import NewSubscription
from anabranch.planning.cost import CostModel
from anabranch.planning.network import Link, Network, Site, pair
from anabranch.planning.optimizer import Optimizer, SharingStrategy
from anabranch.planning.properties import source_properties
from anabranch.planning.statistics import Statistics
from anabranch.sites.wanted import Wanted, wanted_of
from tests.laws.case import Case

SITES = ("A", "B", "C", "D")


@st.composite
def networks(draw: st.DrawFn, streams: Sequence[str]) -> Network:
    """A tree, and sometimes one more link."""
    names = SITES[: draw(st.integers(1, len(SITES)))]
    ends = [(draw(st.sampled_from(names[:place])), names[place]) for place in range(1, len(names))]
    if len(names) > 2 and draw(st.booleans()):
        ends.append((names[0], names[-1]))
    links = {pair(*each): Link(pair(*each), 1e6) for each in ends}
    placed = {name: draw(st.sampled_from(names)) for name in streams}
    return Network({name: Site(name) for name in names}, links, placed)


@st.composite
def planned(draw: st.DrawFn, case: Case) -> tuple[Optimizer, list[Wanted]]:
    """A plan for all queries of a case, registered in a drawn order."""
    network = draw(networks([case.stream.name]), label="network")
    strategy = draw(st.sampled_from(list(SharingStrategy)), label="strategy")
    known = Statistics(case.stream)
    model = CostModel({case.stream.name: known}, gamma=0.9)
    optimizer = Optimizer(
        network, model, [source_properties(case.stream)], strategy, admit=True, compose=False
    )
    if case.items.num_rows and draw(st.booleans()):
        known.observe(case.items, case.items.num_rows / 100)
    wanted = []
    for asked in draw(st.permutations(case.queries), label="order"):
        kind = asked.spec["kind"]
        new = NewSubscription(
            asked.name, case.stream.name, case.family, kind, "", asked.spec, asked.after, asked.until
        )
        site = draw(st.sampled_from(sorted(network.sites)), label=asked.name)
        one = wanted_of(new, site, case.stream)
        optimizer.register(one.name, one.properties, site)
        wanted.append(one)
    return optimizer, wanted
