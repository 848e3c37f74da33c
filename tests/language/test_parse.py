"""Text to syntax tree: spellings, spans, limits."""

from __future__ import annotations

from decimal import Decimal

import pytest

from anabranch.language import syntax as s
from anabranch.language.parse import keywords, parse
from anabranch.model.errors import QueryError
from anabranch.model.limits import DEFAULT_LIMITS, QueryLimits
from tests.language.refused import refused
from tests.language.streams import FREE, RESERVED


def where(text: str, limits: QueryLimits = DEFAULT_LIMITS) -> s.Expression:
    (clause,) = parse(f"SELECT * FROM s WHERE {text}", limits).clauses
    assert isinstance(clause, s.Where)
    return clause.condition


def written(tree: s.SqlQuery, node: s.Name | s.Expression | s.Head | s.Clause) -> str:
    return tree.text[node.span[0] : sum(node.span)]


def test_nodes_know_their_places() -> None:
    tree = parse(
        "SELECT a, max(b) AS c FROM s WHERE a + 1 < b AND NOT (c)  WINDOW ROWS 20 STEP 10 AT END cut"
    )
    assert isinstance(tree.head, s.Chosen)
    assert [written(tree, item.value) for item in tree.head.items] == ["a", "max(b)"]
    assert written(tree, tree.head) == "a, max(b) AS c"
    assert written(tree, tree.stream) == "s"
    assert [written(tree, clause) for clause in tree.clauses] == [
        "WHERE a + 1 < b AND NOT (c)",
        "WINDOW ROWS 20 STEP 10",
        "AT END cut",
    ]
    condition = tree.clauses[0]
    assert isinstance(condition, s.Where)
    assert isinstance(condition.condition, s.AndTerms)
    assert [written(tree, term) for term in condition.condition.terms] == ["a + 1 < b", "NOT (c)"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("007", 7),
        ("5.0", Decimal("5.0")),
        ("5.", Decimal(5)),
        (".5", Decimal("0.5")),
        ("1e3", Decimal(1000)),
        ("1.5E-3", Decimal("0.0015")),
        ("1e-400", Decimal(0)),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_numbers(text: str, value: int | Decimal) -> None:
    number = where(text)
    assert isinstance(number, s.Number)
    assert number.value == value
    assert type(number.value) is type(value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("coord.cel.ra", "coord.cel.ra"),
        ('"odd name"', "odd name"),
        ("`odd name`", "odd name"),
        ('coord."odd name".ra', "coord.odd name.ra"),
        ('"coord.cel".ra', "coord.cel.ra"),
        ('"say ""hi"""', 'say "hi"'),
        ("`tick``s`", "tick`s"),
        ("größe", "größe"),
        ("_a1", "_a1"),
    ],
)
def test_names(text: str, name: str) -> None:
    tree = where(text)
    assert isinstance(tree, s.Name)
    assert tree.text == name


@pytest.mark.parametrize(("text", "value"), [("''", ""), ("'it''s'", "it's"), ("'a\nb -- c'", "a\nb -- c")])
def test_strings(text: str, value: str) -> None:
    assert where(text) == s.String(value, (22, len(text)))


@pytest.mark.parametrize(
    "text",
    [
        "select * from s where a <> 1;",
        "SELECT * FROM s -- all of it\nWHERE a != 1 -- or nearly",
        "\n\tSeLeCt/* here */* FROM s WHERE a\n!=\n1 ;  -- done",
        "-- first\nSELECT * FROM s WHERE a != 1",
    ],
)
def test_spaces_comments_and_case_do_not_matter(text: str) -> None:
    tree = parse(text)
    (clause,) = tree.clauses
    assert isinstance(clause, s.Where)
    assert isinstance(clause.condition, s.Compare)
    assert clause.condition.op.value == "!="


def test_precedence() -> None:
    tree = where("a OR NOT b AND c")
    assert isinstance(tree, s.OrTerms)
    second = tree.terms[1]
    assert isinstance(second, s.AndTerms)
    assert isinstance(second.terms[0], s.Negation)


def test_units_are_made_alike() -> None:
    for unit in ("SECOND", "seconds", "Seconds"):
        (clause,) = parse(f"SELECT max(a) FROM s WINDOW RANGE 5 {unit}").clauses
        assert isinstance(clause, s.WindowClause)
        assert clause.size.unit == "SECONDS"


@pytest.mark.parametrize("word", FREE.split())
def test_free_keywords_are_names(word: str) -> None:
    for name in (word, word.upper(), f'"{word}"', f"`{word}`"):
        text = f"SELECT {name}, a AS {name} FROM {name} WHERE {name} < {name} + 1 AND {name} WINDOW RANGE 5"
        tree = parse(text)
        assert isinstance(tree.head, s.Chosen)
        assert tree.head.items[0].value == s.Name(name.strip('"`'), (7, len(name)), name[0] == '"')


@pytest.mark.parametrize("word", RESERVED.split())
def test_reserved_keywords_take_quotes(word: str) -> None:
    assert parse(f'SELECT "{word}" FROM s WHERE `{word}` < 5').stream.text == "s"
    with pytest.raises(QueryError):
        parse(f"SELECT a, {word} FROM s")


def test_every_keyword_is_free_or_reserved() -> None:
    assert keywords() <= {word.upper() for word in (FREE + " " + RESERVED).split()}


@pytest.mark.parametrize("open_", ["(", "NOT ", "NOT (", "- ", "- (", "+ "])
def test_nesting_is_limited(open_: str) -> None:
    close = ")" * open_.count("(")
    levels = 64 // len(open_.split())
    where(open_ * levels + "a" + close * levels)
    for depth in (levels + 1, 700):
        with pytest.raises(QueryError, match="nested more than 64 levels"):
            where(open_ * depth + "a" + close * depth)


def test_a_sign_of_a_number_is_no_nesting() -> None:
    where("(" * 64 + "-5" + ")" * 64)


def test_long_chains_are_not_deep() -> None:
    room = QueryLimits(query_words=20_000)  # as an operator may allow
    assert isinstance(where(" AND ".join(["a < 1"] * 3000), room), s.AndTerms)
    assert isinstance(where("a < " + " + ".join(["1"] * 3000), room), s.Compare)
    assert isinstance(where(f"a IN ({', '.join(['1'] * 3000)})", room), s.OneOf)


def test_length_is_limited_in_bytes() -> None:
    text = "SELECT * FROM s WHERE a = '{}'"
    room = QueryLimits().query_bytes - len(text) + 2
    parse(text.format("a" * room))
    for filling in ("a" * (room + 1), "é" * (room // 2 + 1)):
        with pytest.raises(QueryError, match=r"the query has 65,53[78] bytes \(limit: 65,536\)"):
            parse(text.format(filling))


@pytest.mark.parametrize("text", ["[[]]", "[[ ]] \n"])
def test_empty(text: str) -> None:
    refused(text, "the query is empty")


def test_broken_unicode() -> None:
    refused("SELECT * FROM s WHERE a = '[[\ud800]]'", "not valid Unicode")
