"""Nearest and clusters."""

from __future__ import annotations

import pytest

from anabranch.families.clusters.spec import Clusters, Emit
from anabranch.families.nearest.spec import Nearest
from anabranch.language.bind import BoundQuery, Spec, compile_query
from anabranch.model.window import AtEnd, Window
from anabranch.predicates.terms import Constant, Op
from tests.language.refused import refused
from tests.language.streams import STREAMS

ABC = ("a", "b", "c")
ROWS_5 = Window("rows", 5, 5)
KIND = Constant("kind", Op.EQ, "tank")

GOOD: dict[str, Spec] = {
    "SELECT NEAREST 3 TO (1, -2.5, 1e1) FROM sensors WINDOW ROWS 5": Nearest(
        3, (1.0, -2.5, 10.0), ABC, ROWS_5
    ),
    "SELECT NEAREST 3 TO (1) BY (d) FROM sensors WINDOW RANGE 1 HOUR": Nearest(
        3, (1.0,), ("d",), Window("range", 3_600_000_000, 3_600_000_000)
    ),
    "SELECT NEAREST 3 TO (1, 2) FROM sensors BY (a, b) USING RA WINDOW ROWS 5": Nearest(
        3, (1.0, 2.0), ("a", "b"), ROWS_5, method="RA"
    ),
    "SELECT NEAREST 3 TO (1, 2, 3) FROM sensors WHERE a > 1 WINDOW ROWS 5 USING pa(0.001)": Nearest(
        3, (1.0, 2.0, 3.0), ABC, ROWS_5, Constant("a", Op.GT, 1), "PA", 0.001
    ),
    "SELECT NEAREST 3 TO (1, 2, 3) FROM sensors WINDOW ROWS 5 USING RAPF": Nearest(
        3, (1.0, 2.0, 3.0), ABC, ROWS_5
    ),
    "SELECT CLUSTERS WITHIN 1 MIN 2 FROM targets WINDOW ROWS 5": Clusters(1.0, 2, ("x", "y"), ROWS_5),
    "SELECT CLUSTERS WITHIN 1 MIN 2 BY (x) FROM targets WHERE kind = 'tank' WINDOW ROWS 5 "
    "EMIT Summary": Clusters(1.0, 2, ("x",), ROWS_5, KIND, Emit.SUMMARY),
    "SELECT CLUSTERS WITHIN 1 MIN 2 FROM sensors EMIT changes WINDOW RANGE 2 STEP 1 AT END run": Clusters(
        1.0, 2, ABC, Window("range", 2_000_000, 1_000_000, AtEnd.RUN), emit=Emit.CHANGES
    ),
    "SELECT CLUSTERS WITHIN 0 MIN 2 FROM targets WINDOW ROWS 5": Clusters(0.0, 2, ("x", "y"), ROWS_5),
    "detect density-based clusters from targets using range = 0 and count = 2 in windows with win = 5 "
    "and slide = 5": (Clusters(0.0, 2, ("x", "y"), ROWS_5)),
    "detect density-based clusters from targets using range = 1 and count = 2 in windows with win = 5 "
    "and slide = 5": (Clusters(1.0, 2, ("x", "y"), ROWS_5)),
    "DETECT DENSITY-BASED CLUSTERS BY (x) FROM targets WHERE kind = 'tank' USING Count = 2 AND Range = 1"
    " IN\n WINDOWS WITH slide = 3 AND win = 5 EMIT CHANGES AT END cut": Clusters(
        1.0, 2, ("x",), Window("rows", 5, 3, AtEnd.CUT), KIND, Emit.CHANGES
    ),
    "DETECT DENSITY - BASED CLUSTERS FROM targets IN WINDOWS WITH win = 5 AND slide = 5 "
    "USING range = 1 AND count = 2 BY (x) WHERE kind = 'tank'": Clusters(1.0, 2, ("x",), ROWS_5, KIND),
}


@pytest.mark.parametrize(("text", "spec"), GOOD.items())
def test_what_it_is_bound_to(text: str, spec: Spec) -> None:
    family = "nearest" if isinstance(spec, Nearest) else "clusters"
    stream = "sensors" if "sensors" in text else "targets"
    assert compile_query(text, STREAMS) == BoundQuery(stream, family, spec)


def test_as_many_coordinates_as_allowed() -> None:
    for count, head in ((16, f"NEAREST 1 TO ({', '.join(['0'] * 16)})"), (8, "CLUSTERS WITHIN 1 MIN 2")):
        columns = ", ".join(f"c{i}" for i in range(count))
        compile_query(f"SELECT {head} BY ({columns}) FROM wide WINDOW ROWS 5", STREAMS)


COLUMNS = [f"c{i}" for i in range(17)]
POINT = ", ".join(["0"] * 17)
NEAREST = "SELECT NEAREST 3 TO (1, 2, 3) FROM sensors WINDOW ROWS 5"
DETECT = "DETECT DENSITY-BASED CLUSTERS FROM targets USING"
WINDOWS = "IN WINDOWS WITH win = 5 AND slide = 5"

BAD = [
    (
        "SELECT NEAREST [[0]] TO (1, 2, 3) FROM sensors WINDOW ROWS 5",
        "the number after NEAREST",
        "at least 1; this is 0",
    ),
    ("SELECT NEAREST [[-1]] TO (1, 2, 3) FROM sensors WINDOW ROWS 5", "this is -1"),
    ("SELECT NEAREST [[1.5]] TO (1, 2, 3) FROM sensors WINDOW ROWS 5", "whole number"),
    (
        "SELECT NEAREST 3 TO [[(1, 2)]] FROM sensors WINDOW ROWS 5",
        "2 coordinates; the columns are 3: a, b, c",
    ),
    (
        "SELECT NEAREST 3 TO [[(1)]] BY (a, b) FROM sensors WINDOW ROWS 5",
        "1 coordinate; the columns are 2: a, b",
    ),
    ("SELECT NEAREST 3 TO (1, [[a]], 2) FROM sensors WINDOW ROWS 5", "a number is needed here; a is a name"),
    ("SELECT NEAREST 3 TO (1, [['x']], 2) FROM sensors WINDOW ROWS 5", "'x' is a string"),
    ("SELECT NEAREST 3 TO (1, [[1e999]], 2) FROM sensors WINDOW ROWS 5", "too great"),
    (
        "SELECT [[NEAREST 3 TO (1)]] FROM bare WINDOW ROWS 5",
        "BY is missing, and stream bare declares no position",
    ),
    ("SELECT NEAREST 3 TO (1) BY ([[e]]) FROM sensors WINDOW ROWS 5", "unknown column 'e'"),
    (
        "SELECT NEAREST 3 TO (1) BY ([[name]]) FROM sensors WINDOW ROWS 5",
        "name is a string; a coordinate must be a number",
    ),
    ("SELECT NEAREST 3 TO (1) BY ([[at]]) FROM sensors WINDOW ROWS 5", "at is a timestamp; a coordinate"),
    ("SELECT NEAREST 3 TO (1, 2) [[BY (a, a)]] FROM sensors WINDOW ROWS 5", "a is there twice"),
    ("SELECT NEAREST 3 TO (1) BY (a) FROM sensors [[BY (a)]] WINDOW ROWS 5", "BY is there twice"),
    (
        f"SELECT NEAREST 1 TO ({POINT}) [[BY ({', '.join(COLUMNS)})]] FROM wide WINDOW ROWS 5",
        "17",
        "at most 16",
    ),
    (f"{NEAREST} USING [[KD]]", "the method is RAPF, RA or PA, not 'KD'"),
    (f"{NEAREST} [[USING PA]]", "PA needs the error that it may make"),
    (f"{NEAREST} USING PA([[0]])", "between 0 and 1; this is 0"),
    (f"{NEAREST} USING PA([[1]])", "between 0 and 1; this is 1"),
    (f"{NEAREST} USING PA([[-0.5]])", "between 0 and 1"),
    (f"{NEAREST} USING RA([[0.5]])", "RA is exact and takes no number"),
    (
        "SELECT CLUSTERS WITHIN [[-1]] MIN 2 FROM targets WINDOW ROWS 5",
        "the range after WITHIN must not be negative; this is -1",
    ),
    ("SELECT CLUSTERS WITHIN 1 MIN [[0]] FROM targets WINDOW ROWS 5", "the count after MIN", "at least 1"),
    (
        "SELECT CLUSTERS WITHIN 1 MIN 2 FROM targets WINDOW ROWS 5 EMIT [[all]]",
        "EMIT is members, summary or changes",
    ),
    (
        f"SELECT CLUSTERS WITHIN 1 MIN 2 [[BY ({', '.join(COLUMNS[:9])})]] FROM wide WINDOW ROWS 5",
        "at most 8",
    ),
    ("SELECT CLUSTERS WITHIN 1 MIN 2 FROM targets [[WINDOW RANGE 5]]", "RANGE needs a time"),
    (f"{DETECT} [[rnge]] = 1 AND count = 2 {WINDOWS}", "unknown setting 'rnge'; did you mean 'range'?"),
    (f"{DETECT} range = 1 AND [[range = 2]] {WINDOWS}", "range is there twice"),
    (f"{DETECT[:-5]}[[USING range = 1]] {WINDOWS}", "count is missing here; add AND count = .."),
    (f"{DETECT} range = [[-1]] AND count = 2 {WINDOWS}", "range must not be negative; this is -1"),
    (f"{DETECT} range = 1 AND count = [[0]] {WINDOWS}", "count must be a whole number of at least 1"),
    (f"{DETECT} range = 1 AND count = 2 [[IN WINDOWS WITH win = 5]]", "slide is missing"),
    (
        f"{DETECT} range = 1 AND count = 2 IN WINDOWS WITH win = [[0]] AND slide = 1",
        "win must be a whole number",
    ),
    (
        f"{DETECT} range = 1 AND count = 2 IN WINDOWS WITH win = 60 [[SECONDS]] AND slide = 1",
        "found 'SECONDS'",
    ),
    ("[[DETECT DENSITY-BASED CLUSTERS]] FROM targets USING range = 1 AND count = 2", "needs IN WINDOWS"),
    ("[[DETECT DENSITY-BASED CLUSTERS]] FROM bare USING range = 1 AND count = 2 " + WINDOWS, "no position"),
]


@pytest.mark.parametrize(("marked", "fragments"), [(bad, fragments) for bad, *fragments in BAD])
def test_refused(marked: str, fragments: list[str]) -> None:
    refused(marked, *fragments)
