"""Every query of docs/queries.md compiles, as it is written there."""

from __future__ import annotations

import pytest

from anabranch.language.bind import compile_query
from anabranch.language.unparse import unparse
from tests.language.streams import STREAMS, stream

SEMANTICS = """
SELECT coord.cel.ra, coord.cel.dec, en FROM photons WHERE en >= 1.3 AND coord.cel.ra BETWEEN 130.5 AND 135.5
SELECT avg(en) AS avg_en, count(*) AS n FROM photons WHERE en > 0 WINDOW RANGE 60 STEP 40 HAVING avg_en >= 1.3
SELECT max(price) FROM trades WHERE symbol = 'IBM' WINDOW ROWS 20 STEP 10
SELECT NEAREST 10 TO (0.1, 0.4, 0.5, 0.9) BY (a, b, c, d) FROM sensors WINDOW RANGE 3600     -- USING RAPF | RA | PA(0.001)
SELECT CLUSTERS WITHIN 0.01 MIN 10 BY (x, y) FROM targets WINDOW ROWS 5000 STEP 1000         -- EMIT MEMBERS | SUMMARY | CHANGES
DETECT DENSITY-BASED CLUSTERS FROM targets USING range = 0.01 AND count = 10 IN WINDOWS WITH win = 5000 AND slide = 1000
SELECT OBJECTS WITHIN 10 OF OBJECT 'f' FROM units WHERE side = 'friend' FOR OBJECT 'i'       -- FOR: the issuer, who may move too
SELECT OBJECTS IN BOX 4 BY 2 AROUND (3.5, 1.0) FROM units
SELECT count(*) WITHIN 10 OF OBJECT 'f' FROM units                                           -- also min(x), max(x), min(y), max(y)
SELECT NEAREST 3 OBJECTS TO OBJECT 'i' FROM patrol
SELECT ra, dec, en FROM sky WHERE ra BETWEEN 120 AND 138 AND dec BETWEEN -49 AND -40
"""  # noqa: E501

MORE = {
    "patrol": stream("patrol", "id:string x:float y:float t:int", time="t", object="id", position=("x", "y")),
    "sky": stream("sky", "ra:float dec:float en:float det_time:int", time="det_time", position=("ra", "dec")),
}


@pytest.mark.parametrize("text", SEMANTICS.strip().splitlines())
def test_compiles_and_comes_back(text: str) -> None:
    streams = STREAMS | MORE
    bound = compile_query(text, streams)
    assert compile_query(unparse(bound.spec, streams[bound.stream]), streams) == bound


@pytest.mark.parametrize("ending", ["USING RAPF", "USING RA", "USING PA(0.001)"])
def test_methods(ending: str) -> None:
    compile_query(
        f"SELECT NEAREST 10 TO (0.1, 0.4) BY (a, b) FROM sensors WINDOW RANGE 3600 {ending}", STREAMS
    )


@pytest.mark.parametrize("emit", ["MEMBERS", "SUMMARY", "CHANGES"])
def test_emits(emit: str) -> None:
    compile_query(f"SELECT CLUSTERS WITHIN 0.01 MIN 10 FROM targets WINDOW ROWS 5 EMIT {emit}", STREAMS)
