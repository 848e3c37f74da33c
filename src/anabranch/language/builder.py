"""From the reductions of sql.lark to the nodes of `syntax`, one method a rule, while the text is parsed.

Comes in: tokens and nodes of smaller parts. Goes out: a node. Never: state (one builder serves every
parse, in every thread), nor a look at a stream.
"""

from __future__ import annotations

import re
from typing import Any

from lark import Token, Transformer, v_args

from anabranch.language import syntax as s
from anabranch.language.errors import refuse
from anabranch.language.numbers import number_literal
from anabranch.predicates.terms import Op

MAX_DEPTH = 64

#: Head, stream and clauses; `parse` adds the text.
Parts = tuple[s.Head, s.Name, tuple[s.Clause, ...]]

_NAME_PART = re.compile(r'"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|([^."`]+)')
_OPERATORS = {op.value: op for op in Op} | {"<>": Op.NE}


def span_of(token: Token) -> s.Span:
    start = token.start_pos or 0
    return start, len(token)


def deepest(parts: tuple[s.Expression, ...]) -> int:
    return max(part.depth for part in parts)


def deeper(depth: int, span: s.Span) -> int:
    """One level more than `depth`, if there may be one more."""
    if depth >= MAX_DEPTH:
        raise refuse(
            f"this is nested more than {MAX_DEPTH} levels deep; split the query or take out parentheses",
            span,
        )
    return depth + 1


def unquote(path: str) -> str:
    """The column's name behind `coord."odd name".ra`."""
    if '"' not in path and "`" not in path:
        return str(path)
    parts = _NAME_PART.findall(path)
    return ".".join(
        double.replace('""', '"') or back.replace("``", "`") or plain for double, back, plain in parts
    )


@v_args(inline=True)
class Builder(Transformer[Token, Parts]):
    """Method names are the rules and aliases of sql.lark."""

    def start(self, parts: Parts) -> Parts:
        return parts

    def select(self, _select: Token, head: s.Head, stream: s.Name, *clauses: s.Clause) -> Parts:
        return head, stream, clauses

    def detect(self, first: Token, last: Token, by: s.By | None, stream: s.Name, *clauses: s.Clause) -> Parts:
        return s.Detect(by, s.covering(span_of(first), span_of(last))), stream, clauses

    # --- heads ---

    def all_columns(self, star: Token) -> s.Chosen:
        return s.Chosen((), span_of(star))

    def chosen(self, *items: s.Item) -> s.Chosen:
        return s.Chosen(items, s.covering(items[0].span, items[-1].span))

    def item(self, value: s.Name | s.Call, alias: s.Name | None) -> s.Item:
        return s.Item(value, alias, s.covering(value.span, (alias or value).span))

    def call(self, function: Token, _left: Token, *rest: Any) -> s.Call:
        *given, right = rest
        arguments = tuple(each for each in given if not isinstance(each, Token))  # the star is a token
        span = s.covering(span_of(function), span_of(right))
        nested = any(isinstance(each, s.Call) or each.depth for each in arguments)
        return s.Call(function.lower(), arguments, span, deeper(deepest(arguments), span) if nested else 0)

    def nearest(self, first: Token, k: s.Expression, point: s.Point, by: s.By | None) -> s.NearestItems:
        return s.NearestItems(k, point, by, s.covering(span_of(first), (by or point).span))

    def nearest_objects(self, first: Token, k: s.Expression, focal: s.Focal) -> s.NearestObjects:
        return s.NearestObjects(k, focal, s.covering(span_of(first), focal.span))

    def clusters(
        self, first: Token, radius: s.Expression, count: s.Expression, by: s.By | None
    ) -> s.ClustersWithin:
        return s.ClustersWithin(radius, count, by, s.covering(span_of(first), (by or count).span))

    def objects(self, first: Token, area: s.Area) -> s.Objects:
        return s.Objects(area, s.covering(span_of(first), area.span))

    def value(self, call: s.Call, area: s.Area) -> s.ObjectsValue:
        return s.ObjectsValue(call, area, s.covering(call.span, area.span))

    def within(self, first: Token, radius: s.Expression, focal: s.Focal) -> s.Within:
        return s.Within(radius, focal, s.covering(span_of(first), focal.span))

    def box(
        self, first: Token, _box: Token, width: s.Expression, height: s.Expression, focal: s.Focal
    ) -> s.InBox:
        return s.InBox(width, height, focal, s.covering(span_of(first), focal.span))

    def object_name(self, first: Token, name: s.Expression) -> s.ObjectName:
        return s.ObjectName(name, s.covering(span_of(first), name.span))

    def point(self, left: Token, *rest: Any) -> s.Point:
        *coordinates, right = rest
        return s.Point(tuple(coordinates), s.covering(span_of(left), span_of(right)))

    # --- clauses ---

    def by(self, first: Token, _left: Token, *rest: Any) -> s.By:
        *columns, right = rest
        return s.By(tuple(columns), s.covering(span_of(first), span_of(right)))

    def where(self, first: Token, condition: s.Expression) -> s.Where:
        return s.Where(condition, s.covering(span_of(first), condition.span))

    def having(self, first: Token, condition: s.Expression) -> s.Having:
        return s.Having(condition, s.covering(span_of(first), condition.span))

    def window(self, first: Token, unit: Token, size: s.Length, step: s.Length | None) -> s.WindowClause:
        return s.WindowClause(unit.type.lower(), size, step, s.covering(span_of(first), (step or size).span))

    def length(self, value: s.Expression, unit: Token | None) -> s.Length:
        if unit is None:
            return s.Length(value, None, value.span)
        return s.Length(value, unit.type.rstrip("S") + "S", s.covering(value.span, span_of(unit)))

    def unit(self, word: Token) -> Token:
        return word

    def at_end(self, first: Token, _end: Token, word: s.Name) -> s.AtEndClause:
        return s.AtEndClause(word, s.covering(span_of(first), word.span))

    def method(
        self, first: Token, word: s.Name, _left: Token | None, sigma: s.Expression | None, right: Token | None
    ) -> s.Method:
        last = word.span if right is None else span_of(right)
        return s.Method(word, sigma, s.covering(span_of(first), last))

    def setting(self, name: s.Name, value: s.Expression) -> s.Setting:
        return s.Setting(name, value, s.covering(name.span, value.span))

    def using(self, first: Token, *settings: s.Setting) -> s.UsingSettings:
        return s.UsingSettings(settings, s.covering(span_of(first), settings[-1].span))

    def windows(self, first: Token, _with: Token, *settings: s.Setting) -> s.InWindows:
        return s.InWindows(settings, s.covering(span_of(first), settings[-1].span))

    def emit(self, first: Token, word: s.Name) -> s.EmitClause:
        return s.EmitClause(word, s.covering(span_of(first), word.span))

    def issuer(self, first: Token, _object: Token, name: s.Expression) -> s.Issuer:
        return s.Issuer(name, s.covering(span_of(first), name.span))

    # --- conditions ---

    def disjunction(self, *terms: s.Expression) -> s.OrTerms:
        return s.OrTerms(terms, s.covering(terms[0].span, terms[-1].span), deepest(terms))

    def conjunction(self, *terms: s.Expression) -> s.AndTerms:
        return s.AndTerms(terms, s.covering(terms[0].span, terms[-1].span), deepest(terms))

    def negated(self, first: Token, term: s.Expression) -> s.Negation:
        span = s.covering(span_of(first), term.span)
        return s.Negation(term, span, deeper(term.depth, span))

    def compare(self, left: s.Expression, op: Token, right: s.Expression) -> s.Compare:
        return s.Compare(
            left, _OPERATORS[op], right, s.covering(left.span, right.span), max(left.depth, right.depth)
        )

    def between(
        self, value: s.Expression, negated: Token | None, low: s.Expression, high: s.Expression
    ) -> s.Between:
        span = s.covering(value.span, high.span)
        return s.Between(
            value, low, high, negated is not None, span, deeper(deepest((value, low, high)), span)
        )

    def one_of(
        self, value: s.Expression, negated: Token | None, _in: Token, _left: Token, *rest: Any
    ) -> s.OneOf:
        *options, right = rest
        span = s.covering(value.span, span_of(right))
        return s.OneOf(
            value, tuple(options), negated is not None, span, deeper(deepest((value, *options)), span)
        )

    # --- values ---

    def sum(self, *parts: Any) -> s.Sum:
        signs = [1, *(-1 if sign == "-" else 1 for sign in parts[1::2])]
        return s.Sum(
            tuple(zip(signs, parts[::2], strict=True)),
            s.covering(parts[0].span, parts[-1].span),
            deepest(parts[::2]),
        )

    def product(self, *parts: Any) -> s.Product:
        operators = ["*", *map(str, parts[1::2])]
        return s.Product(
            tuple(zip(operators, parts[::2], strict=True)),
            s.covering(parts[0].span, parts[-1].span),
            deepest(parts[::2]),
        )

    def signed(self, sign: Token, value: s.Expression) -> s.Signed:
        span = s.covering(span_of(sign), value.span)
        depth = 0 if isinstance(value, s.Number) else deeper(value.depth, span)
        return s.Signed(-1 if sign == "-" else 1, value, span, depth)

    def group(self, left: Token, inner: s.Expression, right: Token) -> s.InParentheses:
        span = s.covering(span_of(left), span_of(right))
        return s.InParentheses(inner, span, deeper(inner.depth, span))

    def name(self, token: Token) -> s.Name:
        return s.Name(unquote(token), span_of(token), token.startswith('"'))

    def number(self, token: Token) -> s.Number:
        span = span_of(token)
        return s.Number(number_literal(token, span), span)

    def string(self, token: Token) -> s.String:
        return s.String(token[1:-1].replace("''", "'"), span_of(token))

    def timestamp(self, first: Token, token: Token) -> s.Timestamp:
        return s.Timestamp(token[1:-1].replace("''", "'"), s.covering(span_of(first), span_of(token)))

    def true(self, token: Token) -> s.Truth:
        return s.Truth(True, span_of(token))

    def false(self, token: Token) -> s.Truth:
        return s.Truth(False, span_of(token))
