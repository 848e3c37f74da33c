"""Cases for clusters on few distinct points: duplicates, ties, chains, noise, big clusters are frequent."""

from __future__ import annotations

from hypothesis import strategies as st

from anabranch.families.clusters.spec import Clusters, Emit
from anabranch.model.columns import ColumnType
from anabranch.model.window import AtEnd, Window
from anabranch.predicates.terms import TRUE, Constant, Op
from tests.laws.case import Case
from tests.laws.customers import Customer
from tests.laws.draw import asked, stream_and_items
from tests.oracles.clusters import clusters_oracle

COLUMNS = {"x": ColumnType.FLOAT, "y": ColumnType.FLOAT, "n": ColumnType.INT, "name": ColumnType.STRING}

#: Distances between quarters: 0 finds duplicates only, 100 finds all, 5 / 4 is a corner of 3, 4, 5.
_RANGES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.25, 2.0, 100.0])
_BY = st.sampled_from(
    [("x",), ("n",), ("x", "y"), ("x", "y"), ("n", "x"), ("x", "y", "n"), ("x", "y", "n", "t")]
)
_CONDITIONS = st.sampled_from([TRUE, TRUE, TRUE, Constant("n", Op.GE, 0), Constant("x", Op.LT, 1.0)])


@st.composite
def _windows(draw: st.DrawFn) -> Window:
    unit = draw(st.sampled_from(["rows", "rows", "range"]))
    size = draw(st.integers(1, 12) | st.just(50))
    step = draw(st.integers(1, 8))
    return Window(unit, size, step, draw(st.none() | st.sampled_from(list(AtEnd))))


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    settings = {"id": "name"} if draw(st.booleans()) else {}
    stream, items = draw(stream_and_items(COLUMNS, most=40, missing=draw(st.booleans()), **settings))
    groups = draw(st.lists(st.tuples(_BY, _CONDITIONS), min_size=1, max_size=3))
    queries = []
    for number in range(draw(st.integers(1, 6))):
        by, condition = draw(st.sampled_from(groups))
        spec = Clusters(
            draw(_RANGES),
            draw(st.integers(0, 5)),
            by,
            draw(_windows()),
            condition,
            draw(st.sampled_from(list(Emit))),
        )
        queries.append(draw(asked(f"q{number}", spec.to_json())))
    return Case(stream, items, tuple(queries), "clusters")


CUSTOMER = Customer("clusters", _cases(), clusters_oracle)
