"""The law of unparse: compile(unparse(spec)) == spec."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.families.filters.spec import Output, Select
from anabranch.language.bind import compile_query
from anabranch.language.bind_filters import Condition
from anabranch.language.unparse import unparse
from anabranch.model.columns import ColumnType
from anabranch.model.errors import QueryError
from anabranch.predicates.terms import Constant, Not, Op, Term
from tests.drawn import examples
from tests.language.specs import odd_stream, specs
from tests.language.streams import STREAMS


@pytest.fixture(autouse=True, scope="module")
def everything_is_satisfiable() -> Iterator[None]:
    """Drawn conditions are compared as they are written; most cannot be true, or only with much work."""

    def possible(term: Term, *_: object) -> Condition:
        return Condition(term)

    with pytest.MonkeyPatch.context() as patch:
        for module in ("bind", "bind_filters", "wxquery.parts"):
            patch.setattr(f"anabranch.language.{module}.possible", possible)
        yield


@pytest.mark.parametrize("time", [ColumnType.INT, ColumnType.FLOAT, ColumnType.TIMESTAMP])
@settings(max_examples=examples(120))
@given(data=st.data())
def test_compile_undoes_unparse(time: ColumnType, data: st.DataObject) -> None:
    stream = odd_stream(time)
    spec = data.draw(specs(stream))
    text = unparse(spec, stream)
    bound = compile_query(text, {stream.name: stream})
    assert bound.spec == spec
    assert {**bound.spec.to_json(), "normal": None} == {**spec.to_json(), "normal": None}
    assert unparse(bound.spec, stream) == text


CANONICAL = {
    "select en from photons where not en between 1 and 2": (
        "SELECT en FROM photons WHERE NOT (en >= 1 AND en <= 2)"
    ),
    "SELECT en AS e FROM photons WHERE (en > 1 OR phc IN (1, 2)) AND 3 > en - phc": (
        "SELECT en AS e FROM photons WHERE (en > 1 OR phc = 1 OR phc = 2) AND en < phc + 3"
    ),
    "SELECT COUNT(*) AS n FROM trades WHERE ok WINDOW RANGE 1 MINUTE STEP 0.5 AT END run HAVING n > 1": (
        "SELECT count(*) AS n FROM trades WHERE ok = TRUE WINDOW RANGE 60 STEP 0.5 AT END run HAVING n > 1"
    ),
    "SELECT max(ts) FROM trades WINDOW ROWS 5 HAVING max(ts) > '2026-01-01'": (
        "SELECT max(ts) FROM trades WINDOW ROWS 5 HAVING max(ts) > TIMESTAMP '2026-01-01 00:00:00'"
    ),
    "SELECT count FROM words WHERE range < `from`": ('SELECT count FROM words WHERE "range" < "from"'),
    "DETECT DENSITY-BASED CLUSTERS FROM targets USING count = 2 AND range = 1 "
    "IN WINDOWS WITH win = 5 AND slide = 2": (
        "SELECT CLUSTERS WITHIN 1.0 MIN 2 BY (x, y) FROM targets WINDOW ROWS 5 STEP 2"
    ),
    "SELECT max(lat) WITHIN 5 OF OBJECT 3 FROM police FOR OBJECT 4": (
        "SELECT max(y) WITHIN 5.0 OF OBJECT '3' FROM police FOR OBJECT '4'"
    ),
}


@pytest.mark.parametrize(("text", "canonical"), CANONICAL.items())
def test_canonical(text: str, canonical: str) -> None:
    bound = compile_query(text, STREAMS)
    assert unparse(bound.spec, STREAMS[bound.stream]) == canonical


def test_as_deep_as_a_query_may_be() -> None:
    text = "en > -1"
    for level in range(63):
        text = f"({text}) OR phc = 1" if level % 2 else f"({text}) AND phc = 2"
    text = f"NOT {text}"
    bound = compile_query(f"SELECT en FROM photons WHERE {text}", STREAMS)
    assert compile_query(unparse(bound.spec, STREAMS["photons"]), STREAMS) == bound


def test_no_deeper_than_a_query_may_be() -> None:
    term: Term = Constant("en", Op.GT, 1)
    for _ in range(65):
        term = Not(term)
    with pytest.raises(QueryError, match="nested more than 64 levels"):
        compile_query(unparse(Select((Output("en", "en"),), term), STREAMS["photons"]), STREAMS)
