"""Whatever is typed: a BoundQuery or a QueryError that points into the text, never another exception."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.language.bind import BoundQuery, compile_query
from anabranch.language.unparse import unparse
from anabranch.model.errors import QueryError
from tests.drawn import examples
from tests.language.streams import STREAMS
from tests.language.test_examples import SEMANTICS

SEEDS = [
    *SEMANTICS.strip().splitlines(),
    "SELECT max(ts), count(*) AS n FROM trades WHERE NOT (ts - seen < 0.5 OR ok) AND symbol IN ('A', 'B') "
    "AND price NOT BETWEEN low - 1 AND high + 2 WINDOW RANGE 1.5 MINUTES STEP 0.25 "
    "HAVING max(ts) > '2026-01-01' AT END gather;",
    'SELECT "window", `from`, count AS c FROM words WHERE count > min + 5 * 2 / 3 AND time < end -- done',
    "DETECT DENSITY-BASED CLUSTERS BY (x) FROM targets WHERE kind = 'a' USING range = 1 AND count = 2 "
    "IN WINDOWS WITH win = 5 AND slide = 3 EMIT CHANGES AT END cut",
]
WORDS = """
    SELECT FROM WHERE WINDOW ROWS RANGE STEP AT END cut HAVING NEAREST TO BY OBJECTS OBJECT CLUSTERS
    WITHIN MIN USING EMIT DETECT DENSITY BASED IN WINDOWS WITH OF BOX AROUND FOR AS AND OR NOT
    BETWEEN TRUE FALSE TIMESTAMP SECONDS mİnutes PA ſum ( ) , ; * + - / = != <> <= < > 0 -1 1e400
    1e-400 99999999999999999999 5. .5 'a' '2026-01-01' '9999-12-31' 0001-01-01 ' " ` "a" -- /* */ é
    ٣ price ts ok symbol en x max(price) count(*) max(*) a.b . 1.5.2 1e 9223372036854775808 for <
"""
PIECES = [*WORDS.split(), "\0", "\ud800", "\u2028", "\n", ""]


def check(text: str) -> bool:
    """Whether the query compiled; if so, it also comes back from its canonical text."""
    try:
        bound = compile_query(text, STREAMS)
    except QueryError as error:
        return check_error(error, text)
    assert isinstance(bound, BoundQuery)
    assert compile_query(unparse(bound.spec, STREAMS[bound.stream]), STREAMS) == bound
    return True


def check_error(error: QueryError, text: str) -> bool:
    assert error.offset is not None
    assert 0 <= error.offset <= len(text)
    assert error.length >= 1
    assert error.text == text
    assert error.message in str(error)
    return False


def mutated(words: list[str], pieces: Sequence[str], random_: random.Random) -> str:
    """One to three changes to the words of a query."""
    words = list(words)
    for _ in range(random_.randint(1, 3)):
        at = random_.randrange(len(words))
        match random_.randrange(6):
            case 0:
                del words[at]
            case 1:
                words.insert(at, random_.choice(pieces))
            case 2:
                words[at] = random_.choice(pieces)
            case 3:
                other = random_.randrange(len(words))
                words[at], words[other] = words[other], words[at]
            case 4:
                letter = random_.randrange(len(words[at]) + 1)
                words[at] = words[at][:letter] + random_.choice(pieces) + words[at][letter:]
            case _:
                words[at] = words[at][: random_.randrange(len(words[at]) + 1)]
        words = words or [""]
    return " ".join(words)


def test_a_thousand_mutations() -> None:
    random_ = random.Random(20260101)
    compiled = sum(check(mutated(random_.choice(SEEDS).split(" "), PIECES, random_)) for _ in range(1000))
    assert 20 < compiled < 900


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=30))
def test_pieces_in_any_order(pieces: list[str]) -> None:
    check(" ".join(pieces))


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(PIECES), max_size=15))
def test_any_condition(pieces: list[str]) -> None:
    check("SELECT * FROM trades WHERE " + " ".join(pieces))
