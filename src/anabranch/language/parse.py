"""Text in, syntax tree out.

Comes in: what somebody typed, in SQL or WXQuery. Goes out: a `SqlQuery` whose nodes know their spans, or a
QueryError that points at the first thing that could not be read. Never: a look at a stream; a text always
gives the same tree.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import cast

from lark import Lark, UnexpectedInput
from lark.lexer import PatternStr

from anabranch.language.builder import Builder, Parts
from anabranch.language.errors import over_limit, pointing_into, refuse
from anabranch.language.grammar import parser_of
from anabranch.language.syntax import SqlQuery
from anabranch.language.syntax_errors import explain
from anabranch.language.wxquery.parse import parse_wxquery, too_many_words, without_comments
from anabranch.language.wxquery.recognise import is_wxquery
from anabranch.language.wxquery.syntax import WXQuery
from anabranch.model.limits import DEFAULT_LIMITS, QueryLimits

#: What a parser reads as one, in either language: comments, strings, quoted names, names and numbers, signs.
_WORD = re.compile(
    r"--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|'[^']*'|\"[^\"]*\"|`[^`]*`|\w+(?:\.\w+)*|[<>!:]=|<>|</|/>|\S"
)


def parse(text: str, limits: QueryLimits = DEFAULT_LIMITS) -> SqlQuery | WXQuery:
    """The syntax tree of a query in one of the two languages."""
    with pointing_into(text):
        _check(text, limits)
        if not is_wxquery(text):
            _check_words(text, limits)
            return _parse_sql(text)
        plain = without_comments(text, limits)
        _check_words(plain, limits)
        return parse_wxquery(text, plain, limits)


def _check_words(text: str, limits: QueryLimits) -> None:
    """Counted before they are parsed, which takes a hundred times as long."""
    beyond = next(islice(_WORD.finditer(text), limits.query_words, None), None)
    if beyond is not None:
        raise too_many_words(limits, (beyond.start(), len(beyond[0])))


def _check(text: str, limits: QueryLimits) -> None:
    """Refuse what no parser should have to look at."""
    if not text.strip():
        raise refuse("the query is empty; write for example SELECT * FROM photons WHERE en > 1.3", (0, 1))
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise refuse("this character is not valid Unicode", (error.start, 1)) from None
    if size > limits.query_bytes:
        raise over_limit(
            f"the query has {size:,} bytes", "query_bytes", limits.query_bytes, "split the query", (0, 1)
        )


def _parse_sql(text: str) -> SqlQuery:
    parser = _sql()
    try:
        head, stream, clauses = cast(Parts, parser.parse(text))
    except UnexpectedInput as error:
        raise explain(error, text, parser) from None
    return SqlQuery(text, head, stream, clauses)


@lru_cache(maxsize=1)
def _sql() -> Lark:
    return parser_of(Path(__file__).with_name("sql.lark"), "basic", Builder())


@lru_cache(maxsize=1)
def keywords() -> frozenset[str]:
    """Every keyword of the language, in capitals."""
    words = (
        terminal.pattern.value for terminal in _sql().terminals if isinstance(terminal.pattern, PatternStr)
    )
    return frozenset(word.upper() for word in words if word.isalpha())
