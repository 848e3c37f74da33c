"""Text in, the tree of a WXQuery out.

Comes in: what somebody typed. Goes out: a Query in which the expressions that go over streams are found, or a
QueryError that points at what could not be read. Never: a look at a stream; a text always gives the same
tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import cast

from lark import Lark, UnexpectedInput

from anabranch.language.errors import over_limit, refuse
from anabranch.language.grammar import parser_of
from anabranch.language.syntax import Name, Span
from anabranch.language.wxquery import syntax as w
from anabranch.language.wxquery.builder import WXQueryBuilder
from anabranch.language.wxquery.syntax_errors import explain
from anabranch.model.limits import DEFAULT_LIMITS, LimitError, QueryLimits

#: Outside a comment a string hides the signs of comments, inside it does not.
_OUTSIDE = re.compile(r"\"[^\"]*\"|'[^']*'|\(:")
_INSIDE = re.compile(r"\(:|:\)")

EXAMPLE = 'for $p in stream("photons")/photons/photon'

#: The variable of `stream("photons")/photons/photon` where it stands without a for; nobody can write it.
_NAMELESS = "."


def parse_wxquery(text: str, plain: str, limits: QueryLimits) -> w.WXQuery:
    """`plain` is the text without its comments."""
    parser = _parser()
    try:
        body = cast(w.Expression, parser.parse(plain))
    except UnexpectedInput as error:
        raise explain(error, text) from None
    found = list(_over_streams(body))
    if not found:
        raise refuse(f"this query goes over no stream; it needs a for, such as {EXAMPLE}", body.span)
    streams = tuple(_stream_of(clause) for main in found for clause in over_streams(main))
    if len(streams) > limits.query_streams:
        raise over_limit(
            f"the query goes over {len(streams)} streams",
            "query_streams",
            limits.query_streams,
            "split the query",
            streams[limits.query_streams].span,
        )
    return w.WXQuery(text, body, tuple(found), streams)


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return parser_of(Path(__file__).with_name("wxquery.lark"), "contextual", WXQueryBuilder())


def without_comments(text: str, limits: QueryLimits = DEFAULT_LIMITS) -> str:
    """The text with blanks in span of (: comments (: which nest :) :), so that spans stay."""
    out: list[str] = []
    at = 0
    while match := _OUTSIDE.search(text, at):
        end = _end_of_comment(text, match.start()) if match[0] == "(:" else match.end()
        kept = match.end() if match[0] != "(:" else match.start()
        if len(out) > 2 * limits.query_words:
            raise too_many_words(limits, (match.start(), len(match[0])))
        out += [text[at:kept], " " * (end - kept)]
        at = end
    return "".join([*out, text[at:]])


def too_many_words(limits: QueryLimits, span: Span) -> LimitError:
    return over_limit(
        "the query has too many words and signs", "query_words", limits.query_words, "split the query", span
    )


def _end_of_comment(text: str, start: int) -> int:
    depth = 0
    for match in _INSIDE.finditer(text, start):
        depth += 1 if match[0] == "(:" else -1
        if depth == 0:
            return match.end()
    raise refuse("this comment has no end; it ends with :)", (start, 2))


def _over_streams(expression: w.Expression) -> Iterator[w.Flwr]:
    """The expressions outside any other for that go over a stream."""
    match expression:
        case w.Flwr():
            yield expression
        case w.Path(origin=w.StreamPath(), span=span):
            variable = w.Variable(_NAMELESS, span)
            clause = w.For(variable, expression, None, span)
            yield w.Flwr((clause,), None, w.Path(variable, (), span), span, 1)
        case w.Path(origin=w.Variable(name=name), span=span):
            raise refuse(f"unknown variable ${name}; a for binds one, such as {EXAMPLE}", span)
        case w.Path(span=span):
            raise refuse(f"this path begins nowhere; it needs a for, such as {EXAMPLE}", span)
        case w.If(span=span):
            raise refuse("an if outside of for: there is nothing yet that it could look at", span)
        case w.ElementExpression(content=parts) | w.SequenceExpression(parts=parts):
            for part in parts:
                yield from _over_streams(part)


def over_streams(flwr: w.Flwr) -> Iterator[w.For]:
    """The `for` clauses that go over streams; the first clause must be one."""
    first, *others = flwr.clauses
    if isinstance(first, w.Let):
        raise refuse(
            f"a let before the for: an aggregate needs a window, such as {EXAMPLE}|count 20|", first.span
        )
    yield first
    for clause in others:
        if isinstance(clause, w.For) and isinstance(clause.path.origin, w.StreamPath):
            yield clause


def _stream_of(clause: w.For) -> Name:
    match clause.path.origin:
        case w.StreamPath(function="stream", argument=str(name), span=span):
            return Name(name, span)
        case w.StreamPath(function="/"):
            return Name(clause.path.steps[0].name, clause.path.steps[0].span)
        case w.StreamPath(function="stream", span=span):
            raise refuse('stream() without a name; write stream("photons")', span)
        case w.StreamPath(function=function, span=span):
            raise refuse(f'{function}(): a query reads streams; write stream("photons")', span)
        case w.Variable(name=name, span=span):
            raise refuse(f"unknown variable ${name}; the first for goes over a stream: {EXAMPLE}", span)
    raise refuse(f"this path begins nowhere; the first for goes over a stream: {EXAMPLE}", clause.path.span)
