"""Cases for select: conditions over every type, projections, queries that come and go."""

from __future__ import annotations

from hypothesis import strategies as st

from anabranch.families.filters.spec import Output, Select
from anabranch.model.columns import ColumnType
from anabranch.predicates.terms import TRUE, And, Constant, Difference, Not, Op, Or, Term
from tests.laws.case import Case
from tests.laws.customers import Customer
from tests.laws.draw import asked, stream_and_items, values
from tests.oracles.select import select_oracle

COLUMNS = {
    "a": ColumnType.FLOAT,
    "b": ColumnType.FLOAT,
    "n": ColumnType.INT,
    "s": ColumnType.STRING,
    "ok": ColumnType.BOOL,
}


@st.composite
def _constant(draw: st.DrawFn) -> Constant:
    column = draw(st.sampled_from(sorted(COLUMNS)))
    kind = COLUMNS[column]
    op = draw(st.sampled_from([Op.EQ, Op.NE] if kind is ColumnType.BOOL else list(Op)))
    return Constant(column, op, draw(values(kind, missing=False)))


_difference = st.builds(
    Difference,
    st.sampled_from(["a", "n"]),
    st.sampled_from(list(Op)),
    st.just("b"),
    st.sampled_from([-1, 0, 0.5, 2]),
)

CONDITIONS: st.SearchStrategy[Term] = st.just(TRUE) | st.recursive(
    _constant() | _difference,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.tuples(inner, inner))
        | st.builds(Or, st.tuples(inner, inner))
    ),
    max_leaves=5,
)


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    stream, items = draw(stream_and_items(COLUMNS))
    queries = []
    for number in range(draw(st.integers(1, 6))):
        names = draw(st.lists(st.sampled_from(["t", *COLUMNS]), min_size=1, max_size=4, unique=True))
        outputs = tuple(Output(name, f"{name}_out" if draw(st.booleans()) else name) for name in names)
        spec = Select(outputs, draw(CONDITIONS))
        queries.append(draw(asked(f"q{number}", spec.to_json())))
    return Case(stream, items, tuple(queries))


CUSTOMER = Customer("select", _cases(), select_oracle)
