"""What the parser's complaints say, and where they point."""

from __future__ import annotations

import pytest

from tests.language.refused import refused

BAD = [
    ("[[hello]]", "found 'hello'", "expected SELECT or DETECT"),
    ("SELECT[[]]", "the query ends here", "expected columns, *, an aggregate such as max(price)"),
    ("SELECT [[FROM]] photons", "found 'FROM'", "NEAREST, CLUSTERS or OBJECTS"),
    ("SELECT en, [[FROM]] photons", "expected a column", "FROM is a reserved word"),
    ("SELECT [[window]] FROM words", "found 'window'", 'it takes quotes: "window"'),
    ("SELECT en [[FORM]] photons", "expected AS, FROM or ','", "did you mean FROM?"),
    ("SELECT en [[energy]] FROM photons", "expected AS, FROM or ','"),
    ("SELECT *[[,]] en FROM photons", "expected FROM"),
    ("SELECT en FROM [[5]]", "expected the name of a stream"),
    ("SELECT en FROM[[]]", "the query ends here", "the name of a stream"),
    ("SELECT en AS [[5]] FROM photons", "a name for the result column"),
    ("SELECT max([[5]]) FROM photons", "found '5'", "expected one column"),
    (
        "SELECT en FROM photons [[WERE]] en > 1",
        "a clause such as WHERE",
        "the end of the query",
        "did you mean WHERE?",
    ),
    ("SELECT en FROM photons WHERE[[]]", "a condition, for example WHERE en >= 1.3"),
    ("SELECT en FROM photons WHERE en >[[]]  ", "the query ends here", "a column or a number"),
    ("SELECT en FROM photons WHERE en =[[=]] 1", "equality is written with one ="),
    ("SELECT en FROM photons WHERE (en > 1[[]]", "expected ')'"),
    ("SELECT en FROM photons WHERE en > 1[[)]]", "found ')'"),
    ("SELECT en FROM photons WHERE en [[1]]", "a comparison such as < or BETWEEN"),
    ("SELECT en FROM photons WHERE en BETWEEN 1 [[OR]] 2", "expected AND"),
    ("SELECT en FROM photons WHERE en IN [[5]]", "expected '('"),
    ("SELECT en FROM photons WHERE en IN ([[)]]", "a column or a number"),
    ("SELECT en FROM photons WHERE en [[LIKE]] 'a'", "there is no LIKE"),
    ("SELECT en FROM photons WHERE en [[IS]] NULL", "missing value makes every comparison false"),
    ("SELECT en FROM photons; [[SELECT]] en", "found 'SELECT'", "expected the end of the query"),
    ("SELECT en FROM photons WHERE en < 1 [[<]] 2", "expected a clause such as WHERE, AND, OR"),
    ("SELECT max(en) FROM photons [[GROUP]] BY phc", "there is no GROUP BY"),
    ("SELECT max(en) FROM photons WINDOW[[]]", "ROWS or RANGE, for example WINDOW ROWS 20 STEP 10"),
    ("SELECT max(en) FROM photons WINDOW [[20]]", "found '20'", "ROWS or RANGE"),
    ("SELECT max(en) FROM photons WINDOW ROWS[[]]", "a number of items"),
    ("SELECT max(en) FROM photons WINDOW RANGE 20 [[STP]] 10", "did you mean STEP?"),
    ("SELECT max(en) FROM photons WINDOW ROWS 20 AT END[[]]", "cut, gather or run"),
    ("SELECT max(en) FROM photons WINDOW ROWS 20 AT [[cut]]", "expected END"),
    ("SELECT NEAREST 3 [[OF]] (1, 2) FROM sensors", "expected OBJECTS or TO"),
    ("SELECT NEAREST 3 TO [[5]] FROM sensors", "a point such as (0.1, 0.4)"),
    ("SELECT NEAREST 3 TO (5, 6[[]]", "expected ')' or ','"),
    ("SELECT NEAREST 3 TO (5, 6) BY [[a]] FROM sensors", "columns in parentheses, for example BY (x, y)"),
    ("SELECT NEAREST 3 TO (5, 6) FROM sensors WINDOW ROWS 5 USING[[]]", "RAPF, RA or PA(0.001)"),
    ("SELECT CLUSTERS [[MIN]] 10 FROM targets", "WITHIN, for example CLUSTERS WITHIN 0.01 MIN 10"),
    ("SELECT CLUSTERS WITHIN 0.1 [[BY]] (x, y) FROM targets", "expected MIN"),
    ("SELECT CLUSTERS WITHIN 0.1 MIN 2 FROM targets EMIT[[]]", "MEMBERS, SUMMARY or CHANGES"),
    ("DETECT [[CLUSTERS]] FROM targets", "expected DENSITY"),
    ("SELECT OBJECTS [[OF]] 5 FROM units", "WITHIN or IN BOX"),
    ("SELECT OBJECTS WITHIN 5 OF [[5]] FROM units", "a point such as (3.5, 1.0), or OBJECT 'f'"),
    ("SELECT OBJECTS WITHIN 5 OF OBJECT [[FROM]] units", "OBJECT 'f'"),
    ("SELECT OBJECTS IN BOX 5 [[AROUND]] (1, 2) FROM units", "expected BY"),
    ("SELECT count(*) AS n [[WITHIN]] 5 OF (1, 2) FROM units", "expected FROM or ','"),
    ("SELECT OBJECTS WITHIN 5 OF (1, 2) FROM units FOR [['f']]", "FOR OBJECT 'i'"),
    ("SELECT en FROM photons WHERE a = [[']]IBM", "no closing quote"),
    ('SELECT [["]]en FROM photons', "empty or has no closing quote"),
    ("SELECT [[`]]` FROM photons", "empty or has no closing quote"),
    ("SELECT en FROM photons WHERE en [[!]] 1", "unequal is written !="),
    ("SELECT en FROM photons WHERE en > 1 [[&]]& en < 2", "write AND"),
    ("SELECT en FROM photons WHERE en > 1 [[|]]| en < 2", "write OR"),
    ("SELECT en FROM photons WHERE en > [[@]]", "'@' has no meaning here"),
    ("SELECT NEAREST 3 TO [[[]]1, 2] FROM sensors", "parentheses"),
]


@pytest.mark.parametrize(("marked", "fragments"), [(bad, fragments) for bad, *fragments in BAD])
def test_what_is_said_and_where(marked: str, fragments: list[str]) -> None:
    refused(marked, *fragments)


def test_the_query_is_shown() -> None:
    with pytest.raises(AssertionError) as caught:
        refused("SELECT en\nFROM photons\nWHERE [[en]] == 1", "")
    assert "(line 3)\n  WHERE en == 1\n            ^" in str(caught.value)
