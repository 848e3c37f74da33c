"""Moving objects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.families.moving.spec import Box, Circle, KNearest, Moving
from anabranch.language.bind import BoundQuery, compile_query
from anabranch.predicates.terms import Constant, Op
from tests.language.refused import refused
from tests.language.streams import STREAMS, stream

FRIEND = Constant("side", Op.EQ, "friend")

GOOD = {
    "SELECT OBJECTS WITHIN 10 OF OBJECT 'f' FROM units": Moving(Circle(10.0), "f"),
    "SELECT OBJECTS WITHIN 10 OF OBJECT 17 FROM units": Moving(Circle(10.0), "17"),
    "SELECT OBJECTS WITHIN 10 OF OBJECT -17 FROM units": Moving(Circle(10.0), "-17"),
    "SELECT OBJECTS WITHIN 10 OF OBJECT 1.5 FROM units": Moving(Circle(10.0), "1.5"),
    "SELECT OBJECTS WITHIN 10 OF OBJECT '017' FROM units": Moving(Circle(10.0), "017"),
    "SELECT OBJECTS WITHIN 10 OF OBJECT '017' FROM police": Moving(Circle(10.0), "17"),
    "SELECT OBJECTS WITHIN 10 OF OBJECT 17.0 FROM police": Moving(Circle(10.0), "17"),
    "SELECT OBJECTS WITHIN 10 OF OBJECT '1.7e1' FROM police FOR OBJECT 1.0": Moving(
        Circle(10.0), "17", issuer="1"
    ),
    "SELECT OBJECTS WITHIN 0 OF (-1, 2.5) FROM units": Moving(Circle(0.0), (-1.0, 2.5)),
    "SELECT OBJECTS IN BOX 4 BY 2 AROUND (3.5, 1.0) FROM units": Moving(Box(4.0, 2.0), (3.5, 1.0)),
    "SELECT OBJECTS IN BOX 4 BY 2 AROUND OBJECT 'f' FROM units": Moving(Box(4.0, 2.0), "f"),
    "SELECT NEAREST 3 OBJECTS TO OBJECT 'i' FROM units": Moving(KNearest(3), "i"),
    "SELECT NEAREST 3 OBJECTS TO (1, 2) FROM units": Moving(KNearest(3), (1.0, 2.0)),
    "SELECT count(*) WITHIN 10 OF OBJECT 'f' FROM units": Moving(Circle(10.0), "f", value="count"),
    "SELECT COUNT(*) IN BOX 1 BY 2 AROUND (1, 2) FROM units": Moving(
        Box(1.0, 2.0), (1.0, 2.0), value="count"
    ),
    "SELECT MIN(x) WITHIN 1 OF (1, 2) FROM units": Moving(Circle(1.0), (1.0, 2.0), value="min(x)"),
    "SELECT max(y) WITHIN 1 OF (1, 2) FROM units": Moving(Circle(1.0), (1.0, 2.0), value="max(y)"),
    "SELECT max(lon) WITHIN 1 OF (1, 2) FROM police": Moving(Circle(1.0), (1.0, 2.0), value="max(x)"),
    "SELECT min(lat) WITHIN 1 OF (1, 2) FROM police": Moving(Circle(1.0), (1.0, 2.0), value="min(y)"),
    "SELECT max(x) WITHIN 1 OF (1, 2) FROM police": Moving(Circle(1.0), (1.0, 2.0), value="max(x)"),
    "SELECT OBJECTS WITHIN 1 OF (1, 2) FROM units WHERE side = 'friend' FOR OBJECT 'i'": Moving(
        Circle(1.0), (1.0, 2.0), FRIEND, issuer="i"
    ),
    "SELECT OBJECTS WITHIN 1 OF (1, 2) FROM units FOR OBJECT 5 WHERE side = 'friend';": Moving(
        Circle(1.0), (1.0, 2.0), FRIEND, issuer="5"
    ),
}


@pytest.mark.parametrize(("text", "spec"), GOOD.items())
def test_what_it_is_bound_to(text: str, spec: Moving) -> None:
    assert compile_query(text, STREAMS) == BoundQuery(
        "police" if "police" in text else "units", "moving", spec
    )


BAD = [
    (
        "SELECT OBJECTS WITHIN [[-5]] OF (1, 2) FROM units",
        "the distance after WITHIN must not be negative; this is -5",
    ),
    ("SELECT OBJECTS WITHIN [['a']] OF (1, 2) FROM units", "a number is needed here; 'a' is a string"),
    (
        "SELECT OBJECTS IN BOX [[-1]] BY 2 AROUND (1, 2) FROM units",
        "the width of the box must not be negative",
    ),
    (
        "SELECT OBJECTS IN BOX 1 BY [[-2]] AROUND (1, 2) FROM units",
        "the height of the box must not be negative",
    ),
    ("SELECT OBJECTS WITHIN 5 OF [[(1)]] FROM units", "the point has 1 coordinate; it needs two: (x, y)"),
    ("SELECT NEAREST 3 OBJECTS TO [[(1, 2, 3)]] FROM units", "the point has 3 coordinates"),
    ("SELECT NEAREST [[0]] OBJECTS TO OBJECT 'i' FROM units", "at least 1"),
    ("SELECT OBJECTS WITHIN 5 OF OBJECT [[f]] FROM units", "the name of an object takes single quotes: 'f'"),
    ("SELECT OBJECTS WITHIN 5 OF OBJECT [[TRUE]] FROM units", "a number is needed here"),
    (
        "SELECT OBJECTS WITHIN 5 OF OBJECT [['f']] FROM police",
        "objects of stream police are whole numbers; 'f' is not",
    ),
    ("SELECT OBJECTS WITHIN 5 OF (1, 2) FROM police FOR OBJECT [[1.5]]", "whole numbers"),
    ("SELECT OBJECTS WITHIN 5 OF OBJECT [['1e99999999']] FROM police", "whole numbers"),
    (
        "SELECT OBJECTS WITHIN 5 OF [[(1, 90.5)]] FROM globe",
        "the point is beyond a pole: its latitude is 90.5, and latitudes are from -90 to 90",
    ),
    (
        "SELECT [[sum(x)]] WITHIN 5 OF (1, 2) FROM units",
        "count(*), min(x), max(x), min(y) and max(y)",
        "not sum(x)",
    ),
    ("SELECT [[count(x)]] WITHIN 5 OF (1, 2) FROM units", "not count(x)"),
    ("SELECT [[max(*)]] WITHIN 5 OF (1, 2) FROM units", "not max(*)"),
    ("SELECT [[max(t)]] WITHIN 5 OF (1, 2) FROM police", "lon as x, lat as y; not max(t)"),
    ("SELECT OBJECTS WITHIN 5 OF (1, 2) FROM [[photons]]", "stream photons declares no object"),
    ("SELECT OBJECTS WITHIN 5 OF (1, 2) FROM [[targets]]", "declares no object and no time"),
    (
        "SELECT OBJECTS WITHIN 5 OF (1, 2) FROM [[flat]]",
        "position of stream flat has 1 coordinate",
        "need two",
    ),
    ("SELECT OBJECTS WITHIN 5 OF (1, 2) FROM [[lost]]", "the position of stream lost is not declared"),
    ("SELECT OBJECTS WITHIN 5 OF (1, 2) FROM units WHERE [[sides]] = 'a'", "did you mean 'side'?"),
    (
        "SELECT OBJECTS WITHIN 5 OF (1, 2) FROM units FOR OBJECT 'i' [[FOR OBJECT 'j']]",
        "FOR OBJECT is there twice",
    ),
]


@pytest.mark.parametrize(("marked", "fragments"), [(bad, fragments) for bad, *fragments in BAD])
def test_refused(marked: str, fragments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    flat = stream("flat", "id:string x:float t:int", time="t", object="id", position=("x",))
    monkeypatch.setitem(STREAMS, "flat", flat)
    monkeypatch.setitem(STREAMS, "globe", replace(STREAMS["units"], name="globe", metric="haversine"))
    monkeypatch.setitem(STREAMS, "lost", stream("lost", "id:string t:int", time="t", object="id"))
    refused(marked, *fragments)


def test_objects_of_a_column_of_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = "id:float x:float y:float t:int"
    monkeypatch.setitem(STREAMS, "f", stream("f", columns, time="t", object="id", position=("x", "y")))
    for written, name in (("1", "1"), ("1.0", "1"), ("0.5", "0.5"), ("'1.50'", "1.5")):
        bound = compile_query(f"SELECT OBJECTS WITHIN 1 OF OBJECT {written} FROM f", STREAMS)
        assert bound.spec == Moving(Circle(1.0), name)
