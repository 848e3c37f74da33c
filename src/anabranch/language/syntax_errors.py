"""Says in words what the parser could not read.

Comes in: the exception of lark and the text. Goes out: a QueryError that says what was found, what would be
right, and often an example. Never: the name of a terminal or a rule.
"""

from __future__ import annotations

from typing import cast

from lark import Lark, Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from anabranch.language.errors import one_of, refuse
from anabranch.model.errors import QueryError
from anabranch.model.suggestions import closest

RESERVED = frozenset(
    {
        "SELECT",
        "FROM",
        "WHERE",
        "WINDOW",
        "HAVING",
        "AS",
        "AND",
        "OR",
        "NOT",
        "IN",
        "BETWEEN",
        "TRUE",
        "FALSE",
    }
)

#: What is expected after a word, where the accepted tokens include the one named first.
_AFTER: dict[str, tuple[str, str]] = {
    "SELECT": ("NAME", "columns, *, an aggregate such as max(price), NEAREST, CLUSTERS or OBJECTS"),
    "FROM": ("NAME", "the name of a stream"),
    "AS": ("NAME", "a name for the result column"),
    "WHERE": ("NAME", "a condition, for example WHERE en >= 1.3"),
    "HAVING": ("NAME", "a condition, for example HAVING count(*) > 5"),
    "WINDOW": ("ROWS", "ROWS or RANGE, for example WINDOW ROWS 20 STEP 10"),
    "ROWS": ("NUMBER", "a number of items, for example ROWS 20"),
    "RANGE": ("NUMBER", "a length of time, for example RANGE 60"),
    "STEP": ("NUMBER", "a number, for example STEP 10"),
    "END": ("NAME", "cut, gather or run"),
    "EMIT": ("NAME", "MEMBERS, SUMMARY or CHANGES"),
    "USING": ("NAME", "RAPF, RA or PA(0.001), or for DETECT range = 0.01 AND count = 10"),
    "BY": ("LPAR", "columns in parentheses, for example BY (x, y)"),
    "NEAREST": ("NUMBER", "a number, for example NEAREST 10 TO (0.1, 0.4)"),
    "TO": ("LPAR", "a point such as (0.1, 0.4), or OBJECT 'f' after OBJECTS"),
    "OF": ("LPAR", "a point such as (3.5, 1.0), or OBJECT 'f'"),
    "AROUND": ("LPAR", "a point such as (3.5, 1.0), or OBJECT 'f'"),
    "CLUSTERS": ("WITHIN", "WITHIN, for example CLUSTERS WITHIN 0.01 MIN 10 BY (x, y)"),
    "OBJECTS": ("WITHIN", "WITHIN or IN BOX, for example OBJECTS WITHIN 10 OF OBJECT 'f'"),
    "OBJECT": ("STRING", "the name of an object in quotes, for example OBJECT 'f'"),
    "FOR": ("OBJECT", "OBJECT and a name, for example FOR OBJECT 'i'"),
    "WITH": ("NAME", "win = 5000 AND slide = 1000"),
}

#: How single tokens are called; keywords are called by themselves.
_WORDS = {
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "EQUAL": "'='",
    "STAR": "'*'",
    "SLASH": "'/'",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "NUMBER": "a number",
    "STRING": "a string",
    "IN_WINDOWS": "IN WINDOWS",
    "$END": "the end of the query",
}

#: A value can begin with any of these; they are summed up as one.
_VALUE = frozenset(
    {"NAME", "QUOTED", "NUMBER", "STRING", "TRUE", "FALSE", "TIMESTAMP", "LPAR", "PLUS", "MINUS", "NOT"}
)
_COMPARISON = frozenset({"EQUAL", "COMPARE", "BETWEEN", "IN", "NOT"})
_ARITHMETIC = frozenset({"PLUS", "MINUS", "STAR", "SLASH"})
_CLAUSES = frozenset({"WHERE", "WINDOW", "AT", "HAVING", "USING", "IN_WINDOWS", "EMIT", "FOR", "BY"})
_UNITS = frozenset({"SECOND", "SECONDS", "MINUTE", "MINUTES", "HOUR", "HOURS", "DAY", "DAYS"})

_SUMS = (
    (_COMPARISON, "a comparison such as < or BETWEEN"),
    (_UNITS, "a unit such as SECONDS"),
    (_CLAUSES, "a clause such as WHERE"),
)

#: What other SQL has and this has not.
_NOT_HERE = {
    "GROUP": "there is no GROUP BY: ask one query a group, with the group in WHERE",
    "ORDER": "there is no ORDER BY: results come in the order of the stream",
    "LIMIT": "there is no LIMIT: a standing query has no end",
    "JOIN": "there is no JOIN: a query reads one stream",
    "LIKE": "there is no LIKE: strings are compared with =, !=, <, <=, >, >= and IN",
    "IS": "there is no IS NULL: a missing value makes every comparison false",
    "NULL": "there is no NULL: a missing value makes every comparison false",
    "DISTINCT": "there is no DISTINCT",
    "UNION": "there is no UNION: ask two queries",
}

_CHARACTERS = {
    "'": "this string has no closing quote; a quote inside a string is written twice ('it''s')",
    '"': "this quoted name is empty or has no closing quote",
    "`": "this quoted name is empty or has no closing quote",
    "!": "'!' has no meaning alone; unequal is written !=, and not is written NOT",
    "&": "'&' has no meaning here; write AND",
    "|": "'|' has no meaning here; write OR",
    "[": "'[' has no meaning here; lists and points take parentheses ( )",
}


def explain(error: UnexpectedInput, text: str, parser: Lark) -> QueryError:
    if isinstance(error, UnexpectedCharacters):
        return _strange_character(cast(int, error.pos_in_stream), text)
    assert isinstance(error, UnexpectedToken)
    token, accepted = error.token, set(error.accepts or error.expected)
    span = _place(token, text)
    before = list(parser.lex(text[: span[0]]))
    found = "the query ends here" if token.type == "$END" else f"found {_shown(token)}"
    hint = _hint(token, accepted, before[-1].type if before else "")
    return refuse(f"{found}; expected {_expected(before, accepted)}{hint}", span)


def _place(token: Token, text: str) -> tuple[int, int]:
    if token.type == "$END":
        return len(text.rstrip()), 1
    return token.start_pos or 0, len(token)


def _shown(token: Token) -> str:
    text = str(token) if len(token) <= 30 else token[:27] + "..."
    return text if token.type in ("STRING", "QUOTED") else f"'{text}'"


def _strange_character(offset: int, text: str) -> QueryError:
    character = text[offset]
    fallback = f"{character!r} has no meaning here; names with such characters take double quotes"
    return refuse(_CHARACTERS.get(character, fallback), (offset, 1))


def _expected(before: list[Token], accepted: set[str]) -> str:
    if not before:
        return "SELECT or DETECT, for example SELECT * FROM photons WHERE en > 1.3"
    last = before[-1].type
    sign, words = _AFTER.get(last, ("", ""))
    if sign in accepted:
        return words
    return one_of(_words(accepted, "a column" if last in ("COMMA", "LPAR") else "a name"))


def _words(accepted: set[str], name: str) -> list[str]:
    """The accepted tokens, summed up: the shortest true list."""
    rest, words = set(accepted), []
    if "NAME" in rest:
        words.append("a column or a number" if "NUMBER" in rest else name)
        rest = {word for word in rest if word in RESERVED or word in _WORDS or word == "SEMICOLON"} - _VALUE
    for group, sum_up in _SUMS:
        if group <= rest:
            words.append(sum_up)
            rest -= group
    for unneeded in (_ARITHMETIC, {"LPAR"}, {"SEMICOLON"}):
        rest = rest - unneeded if words or rest - unneeded else rest
    return words + sorted((_WORDS.get(word, word) for word in rest), key=_rank)


def _rank(word: str) -> tuple[int, str]:
    """Keywords first, then signs, then the end."""
    return (2 if word.startswith("the end") else 0 if word.isupper() else 1), word


def _hint(token: Token, accepted: set[str], before: str) -> str:
    word = token.upper()
    if token.type in RESERVED and "NAME" in accepted and not (before == "SELECT" and word == "FROM"):
        return f'; {word} is a reserved word, as a name it takes quotes: "{token}"'
    if word in _NOT_HERE:
        return f" ({_NOT_HERE[word]})"
    if token.type == "EQUAL" and before == "EQUAL":
        return "; equality is written with one ="
    if token.type == "NAME":
        keywords = [name.replace("_", " ") for name in accepted if name.replace("_", "").isalpha()]
        guess = closest(str(token), [name for name in keywords if name != "NAME"])
        return f"; did you mean {guess}?" if guess else ""
    return ""
