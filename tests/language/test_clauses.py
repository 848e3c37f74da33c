"""Which kind of query takes which clauses, and windows."""

from __future__ import annotations

import pytest

from anabranch.families.clusters.spec import Clusters
from anabranch.families.filters.spec import Aggregate
from anabranch.language.bind import compile_query
from anabranch.model.window import AtEnd, Window
from tests.language.refused import refused
from tests.language.streams import STREAMS

MINUTE_US = 60_000_000

WINDOWS = {
    # stream photons has a number for time, trades a timestamp
    "photons WINDOW ROWS 20": Window("rows", 20, 20),
    "photons WINDOW ROWS 20 STEP 30": Window("rows", 20, 30),
    "photons WINDOW ROWS 2 * 10 STEP 1e1": Window("rows", 20, 10),
    "photons WINDOW RANGE 60 STEP 40": Window("range", 60, 40),
    "photons WINDOW RANGE 0.5": Window("range", 0.5, 0.5),
    "trades WINDOW RANGE 60 STEP 0.25": Window("range", MINUTE_US, 250_000),
    "trades WINDOW RANGE 1.5 MINUTES": Window("range", 90_000_000, 90_000_000),
    "trades WINDOW RANGE 1 day STEP 1 hour": Window("range", 1440 * MINUTE_US, 60 * MINUTE_US),
    "trades WINDOW RANGE 2 SECONDS STEP 1": Window("range", 2_000_000, 1_000_000),
    "photons WINDOW ROWS 5 AT END gather": Window("rows", 5, 5, AtEnd.GATHER),
    "photons WINDOW ROWS 5 AT END Run HAVING n > 1": Window("rows", 5, 5, AtEnd.RUN),
    "photons WINDOW ROWS 5 HAVING n > 1 AT END cut": Window("rows", 5, 5, AtEnd.CUT),
    "photons AT END cut HAVING n > 1 WINDOW ROWS 5 WHERE TRUE": Window("rows", 5, 5, AtEnd.CUT),
}


@pytest.mark.parametrize(("text", "window"), WINDOWS.items())
def test_windows(text: str, window: Window) -> None:
    spec = compile_query(f"SELECT count(*) AS n FROM {text}", STREAMS).spec
    assert isinstance(spec, Aggregate)
    assert spec.window == window
    assert type(spec.window.size) is type(window.size)


def test_clusters_take_at_end() -> None:
    spec = compile_query("SELECT CLUSTERS WITHIN 1 MIN 2 FROM targets WINDOW ROWS 9 AT END run", STREAMS).spec
    assert isinstance(spec, Clusters)
    assert spec.window == Window("rows", 9, 9, AtEnd.RUN)


SELECT = "SELECT en FROM photons"
AGGREGATE = "SELECT max(en) FROM photons"
NEAREST = "SELECT NEAREST 1 TO (1, 2, 3) FROM sensors"
CLUSTERS = "SELECT CLUSTERS WITHIN 1 MIN 2 FROM targets"
DETECT = "DETECT DENSITY-BASED CLUSTERS FROM targets"
MOVING = "SELECT OBJECTS WITHIN 1 OF (1, 2) FROM units"

BAD = [
    # the wrong clause for the kind
    (f"{SELECT} [[WINDOW ROWS 5]]", "selects columns takes no WINDOW", "aggregates such as max(price)"),
    (f"{SELECT} [[HAVING en > 1]]", "takes no HAVING; use WHERE"),
    (f"{SELECT} [[AT END cut]]", "takes no AT END; it takes WHERE"),
    (
        f"{AGGREGATE} WINDOW ROWS 5 [[EMIT MEMBERS]]",
        "an aggregate query takes no EMIT; it takes WHERE, WINDOW",
    ),
    (f"{AGGREGATE} WINDOW ROWS 5 [[BY (en)]]", "takes no BY"),
    (f"{NEAREST} WINDOW ROWS 5 [[AT END cut]]", "a nearest query takes no AT END"),
    (f"{NEAREST} WINDOW ROWS 5 STEP [[5]]", "takes no STEP"),
    (f"{CLUSTERS} WINDOW ROWS 5 [[USING RA]]", "a clusters query takes no USING"),
    (f"{CLUSTERS} [[IN WINDOWS WITH win = 5]]", "write WINDOW ROWS 5000 STEP 1000"),
    (f"{DETECT} [[WINDOW ROWS 5]]", "write IN WINDOWS WITH win = 5000 AND slide = 1000"),
    (f"{DETECT} [[USING RA]]", "write USING range = 0.01 AND count = 10"),
    (f"{MOVING} [[WINDOW ROWS 5]]", "moving objects takes no WINDOW", "last report"),
    (f"{MOVING} [[BY (x, y)]]", "the stream's position"),
    (f"{AGGREGATE} WINDOW ROWS 5 [[FOR OBJECT 'i']]", "takes no FOR OBJECT"),
    # missing and doubled
    (
        "SELECT [[max(en)]] FROM photons",
        "an aggregate query needs WINDOW, for example WINDOW ROWS 20 STEP 10",
    ),
    ("SELECT [[max(en)]] FROM photons WHERE en > 1 AT END cut", "needs WINDOW"),
    ("SELECT [[NEAREST 1 TO (1, 2, 3)]] FROM sensors", "a nearest query needs WINDOW"),
    ("SELECT [[CLUSTERS WITHIN 1 MIN 2]] FROM targets", "a clusters query needs WINDOW"),
    (
        "[[DETECT DENSITY-BASED CLUSTERS]] FROM targets",
        "DETECT CLUSTERS needs USING",
        "for example USING range = 0.01",
    ),
    (f"{SELECT} WHERE en > 1 [[WHERE en < 2]]", "WHERE is there twice"),
    (f"{AGGREGATE} WINDOW ROWS 5 [[WINDOW ROWS 5]]", "WINDOW is there twice"),
    # sizes
    (f"{AGGREGATE} WINDOW ROWS [[0]]", "ROWS of a window must be a whole number of at least 1; this is 0"),
    (f"{AGGREGATE} WINDOW ROWS [[-5]]", "this is -5"),
    (f"{AGGREGATE} WINDOW ROWS [[2.5]]", "this is 2.5"),
    (f"{AGGREGATE} WINDOW ROWS 5 STEP [[0]]", "STEP of a window must be a whole number"),
    (f"{AGGREGATE} WINDOW ROWS [['5']]", "a number is needed here; '5' is a string"),
    (f"{AGGREGATE} WINDOW ROWS [[en]]", "a number is needed here; en is a name"),
    (f"{AGGREGATE} WINDOW ROWS [[max(en)]]", "max(en) is an aggregate"),
    (f"{AGGREGATE} WINDOW ROWS [[9223372036854775808]]", "limit: 100,000,000"),
    (f"{AGGREGATE} WINDOW ROWS [[5 SECONDS]]", "ROWS counts items and takes no unit"),
    (f"{AGGREGATE} WINDOW RANGE [[0]]", "RANGE of a window must be greater than 0; this is 0"),
    (f"{AGGREGATE} WINDOW RANGE [[-1.5]]", "this is -1.5"),
    (f"{AGGREGATE} WINDOW RANGE 5 STEP [[0]]", "STEP of a window must be greater than 0"),
    (f"{AGGREGATE} WINDOW RANGE [[60 SECONDS]]", "SECONDS need a timestamp; det_time", "is a number"),
    ("SELECT max(price) FROM trades WINDOW RANGE [[0.0000001]]", "not a whole number of microseconds"),
    ("SELECT max(price) FROM trades WINDOW RANGE [[9e12 DAYS]]", "64 bits"),
    ("SELECT count(*) FROM bare [[WINDOW RANGE 5]]", "RANGE needs a time and stream bare declares none"),
    ("SELECT max(price) FROM trades WINDOW RANGE [[TIMESTAMP '2026-01-01']]", "is a timestamp"),
    (f"{AGGREGATE} WINDOW ROWS 5 AT END [[now]]", "AT END is cut, gather or run, not 'now'"),
    (f"{AGGREGATE} WINDOW ROWS 5 AT END [[gathr]]", "did you mean gather?"),
]


@pytest.mark.parametrize(("marked", "fragments"), [(bad, fragments) for bad, *fragments in BAD])
def test_refused(marked: str, fragments: list[str]) -> None:
    refused(marked, *fragments)
