"""Text in, the tree of a WXQuery out.

Comes in: what somebody typed. Goes out: a Query in which the expressions that go over streams are found, or a
QueryError that points at what could not be read. Never: a look at a stream; a text always gives the same
tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import cast

from lark import Lark, UnexpectedInput

from anabranch.language.errors import refuse
from anabranch.language.syntax import Name
from anabranch.language.wxquery import syntax as w
from anabranch.language.wxquery.builder import Builder
from anabranch.language.wxquery.complaints import explain

#: Outside a comment a string hides the signs of comments, inside it does not.
_OUTSIDE = re.compile(r"\"[^\"]*\"|'[^']*'|\(:")
_INSIDE = re.compile(r"\(:|:\)")

EXAMPLE = 'for $p in stream("photons")/photons/photon'

#: The variable of `stream("photons")/photons/photon` where it stands without a for; nobody can write it.
_NAMELESS = "."


def parse_wxquery(text: str) -> w.Query:
    parser = _parser()
    try:
        body = cast(w.Expression, parser.parse(without_comments(text)))
    except UnexpectedInput as error:
        raise explain(error, text) from None
    found = list(_over_streams(body))
    if not found:
        raise refuse(f"this query goes over no stream; it needs a for, such as {EXAMPLE}", body.place)
    streams = tuple(_stream_of(clause) for main in found for clause in over_streams(main))
    return w.Query(text, body, tuple(found), streams)


@lru_cache(maxsize=1)
def _parser() -> Lark:
    """Built at the first query; it takes a tenth of a second."""
    return Lark.open(
        "wxquery.lark", rel_to=__file__, parser="lalr", lexer="contextual", transformer=Builder()
    )


def without_comments(text: str) -> str:
    """The text with blanks in place of (: comments (: which nest :) :), so that places stay."""
    out, at = [], 0
    while match := _OUTSIDE.search(text, at):
        end = _end_of_comment(text, match.start()) if match[0] == "(:" else match.end()
        kept = match.end() if match[0] != "(:" else match.start()
        out += [text[at:kept], re.sub(r"\S", " ", text[kept:end])]
        at = end
    return "".join([*out, text[at:]])


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
        case w.Path(origin=w.Source(), place=place):
            variable = w.Variable(_NAMELESS, place)
            clause = w.For(variable, expression, None, place)
            yield w.Flwr((clause,), None, w.Path(variable, (), place), place, 1)
        case w.Path(origin=w.Variable(name=name), place=place):
            raise refuse(f"unknown variable ${name}; a for binds one, such as {EXAMPLE}", place)
        case w.Path(place=place):
            raise refuse(f"this path begins nowhere; it needs a for, such as {EXAMPLE}", place)
        case w.If(place=place):
            raise refuse("an if outside of for: there is nothing yet that it could look at", place)
        case w.Element(content=parts) | w.Sequence(parts=parts):
            for part in parts:
                yield from _over_streams(part)


def over_streams(flwr: w.Flwr) -> Iterator[w.For]:
    """The `for` clauses that go over streams; the first clause must be one."""
    first, *others = flwr.clauses
    if isinstance(first, w.Let):
        raise refuse(
            f"a let before the for: an aggregate needs a window, such as {EXAMPLE}|count 20|", first.place
        )
    yield first
    for clause in others:
        if isinstance(clause, w.For) and isinstance(clause.path.origin, w.Source):
            yield clause


def _stream_of(clause: w.For) -> Name:
    match clause.path.origin:
        case w.Source(function="stream", argument=str(name), place=place):
            return Name(name, place)
        case w.Source(function="/"):
            return Name(clause.path.steps[0].name, clause.path.steps[0].place)
        case w.Source(function="stream", place=place):
            raise refuse('stream() without a name; write stream("photons")', place)
        case w.Source(function=function, place=place):
            raise refuse(f'{function}(): a query reads streams; write stream("photons")', place)
        case w.Variable(name=name, place=place):
            raise refuse(f"unknown variable ${name}; the first for goes over a stream: {EXAMPLE}", place)
    raise refuse(f"this path begins nowhere; the first for goes over a stream: {EXAMPLE}", clause.path.place)
