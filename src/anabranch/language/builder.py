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


def place_of(token: Token) -> s.Place:
    start = token.start_pos or 0
    return start, len(token)


def deepest(parts: tuple[s.Expression, ...]) -> int:
    return max(part.depth for part in parts)


def deeper(depth: int, place: s.Place) -> int:
    """One level more than `depth`, if there may be one more."""
    if depth >= MAX_DEPTH:
        raise refuse(
            f"this is nested more than {MAX_DEPTH} levels deep; split the query or take out parentheses",
            place,
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
        return s.Detect(by, s.span(place_of(first), place_of(last))), stream, clauses

    # --- heads ---

    def all_columns(self, star: Token) -> s.Chosen:
        return s.Chosen((), place_of(star))

    def chosen(self, *items: s.Item) -> s.Chosen:
        return s.Chosen(items, s.span(items[0].place, items[-1].place))

    def item(self, value: s.Name | s.Call, alias: s.Name | None) -> s.Item:
        return s.Item(value, alias, s.span(value.place, (alias or value).place))

    def call(self, function: Token, _left: Token, *rest: Any) -> s.Call:
        *given, right = rest
        arguments = tuple(each for each in given if not isinstance(each, Token))  # the star is a token
        place = s.span(place_of(function), place_of(right))
        nested = any(isinstance(each, s.Call) or each.depth for each in arguments)
        return s.Call(function.lower(), arguments, place, deeper(deepest(arguments), place) if nested else 0)

    def nearest(self, first: Token, k: s.Expression, point: s.Point, by: s.By | None) -> s.NearestItems:
        return s.NearestItems(k, point, by, s.span(place_of(first), (by or point).place))

    def nearest_objects(self, first: Token, k: s.Expression, focal: s.Focal) -> s.NearestObjects:
        return s.NearestObjects(k, focal, s.span(place_of(first), focal.place))

    def clusters(
        self, first: Token, radius: s.Expression, count: s.Expression, by: s.By | None
    ) -> s.ClustersWithin:
        return s.ClustersWithin(radius, count, by, s.span(place_of(first), (by or count).place))

    def objects(self, first: Token, area: s.Area) -> s.Objects:
        return s.Objects(area, s.span(place_of(first), area.place))

    def value(self, call: s.Call, area: s.Area) -> s.ObjectsValue:
        return s.ObjectsValue(call, area, s.span(call.place, area.place))

    def within(self, first: Token, radius: s.Expression, focal: s.Focal) -> s.Within:
        return s.Within(radius, focal, s.span(place_of(first), focal.place))

    def box(
        self, first: Token, _box: Token, width: s.Expression, height: s.Expression, focal: s.Focal
    ) -> s.InBox:
        return s.InBox(width, height, focal, s.span(place_of(first), focal.place))

    def object_name(self, first: Token, name: s.Expression) -> s.ObjectName:
        return s.ObjectName(name, s.span(place_of(first), name.place))

    def point(self, left: Token, *rest: Any) -> s.Point:
        *coordinates, right = rest
        return s.Point(tuple(coordinates), s.span(place_of(left), place_of(right)))

    # --- clauses ---

    def by(self, first: Token, _left: Token, *rest: Any) -> s.By:
        *columns, right = rest
        return s.By(tuple(columns), s.span(place_of(first), place_of(right)))

    def where(self, first: Token, condition: s.Expression) -> s.Where:
        return s.Where(condition, s.span(place_of(first), condition.place))

    def having(self, first: Token, condition: s.Expression) -> s.Having:
        return s.Having(condition, s.span(place_of(first), condition.place))

    def window(self, first: Token, unit: Token, size: s.Length, step: s.Length | None) -> s.WindowClause:
        return s.WindowClause(unit.type.lower(), size, step, s.span(place_of(first), (step or size).place))

    def length(self, value: s.Expression, unit: Token | None) -> s.Length:
        if unit is None:
            return s.Length(value, None, value.place)
        return s.Length(value, unit.type.rstrip("S") + "S", s.span(value.place, place_of(unit)))

    def unit(self, word: Token) -> Token:
        return word

    def at_end(self, first: Token, _end: Token, word: s.Name) -> s.AtEndClause:
        return s.AtEndClause(word, s.span(place_of(first), word.place))

    def method(
        self, first: Token, word: s.Name, _left: Token | None, sigma: s.Expression | None, right: Token | None
    ) -> s.Method:
        last = word.place if right is None else place_of(right)
        return s.Method(word, sigma, s.span(place_of(first), last))

    def setting(self, name: s.Name, value: s.Expression) -> s.Setting:
        return s.Setting(name, value, s.span(name.place, value.place))

    def using(self, first: Token, *settings: s.Setting) -> s.UsingSettings:
        return s.UsingSettings(settings, s.span(place_of(first), settings[-1].place))

    def windows(self, first: Token, _with: Token, *settings: s.Setting) -> s.InWindows:
        return s.InWindows(settings, s.span(place_of(first), settings[-1].place))

    def emit(self, first: Token, word: s.Name) -> s.EmitClause:
        return s.EmitClause(word, s.span(place_of(first), word.place))

    def issuer(self, first: Token, _object: Token, name: s.Expression) -> s.Issuer:
        return s.Issuer(name, s.span(place_of(first), name.place))

    # --- conditions ---

    def disjunction(self, *terms: s.Expression) -> s.Disjunction:
        return s.Disjunction(terms, s.span(terms[0].place, terms[-1].place), deepest(terms))

    def conjunction(self, *terms: s.Expression) -> s.Conjunction:
        return s.Conjunction(terms, s.span(terms[0].place, terms[-1].place), deepest(terms))

    def negated(self, first: Token, term: s.Expression) -> s.Negation:
        place = s.span(place_of(first), term.place)
        return s.Negation(term, place, deeper(term.depth, place))

    def compare(self, left: s.Expression, op: Token, right: s.Expression) -> s.Compare:
        return s.Compare(
            left, _OPERATORS[op], right, s.span(left.place, right.place), max(left.depth, right.depth)
        )

    def between(
        self, value: s.Expression, negated: Token | None, low: s.Expression, high: s.Expression
    ) -> s.Between:
        place = s.span(value.place, high.place)
        return s.Between(
            value, low, high, negated is not None, place, deeper(deepest((value, low, high)), place)
        )

    def one_of(
        self, value: s.Expression, negated: Token | None, _in: Token, _left: Token, *rest: Any
    ) -> s.OneOf:
        *options, right = rest
        place = s.span(value.place, place_of(right))
        return s.OneOf(
            value, tuple(options), negated is not None, place, deeper(deepest((value, *options)), place)
        )

    # --- values ---

    def sum(self, *parts: Any) -> s.Sum:
        signs = [1, *(-1 if sign == "-" else 1 for sign in parts[1::2])]
        return s.Sum(
            tuple(zip(signs, parts[::2], strict=True)),
            s.span(parts[0].place, parts[-1].place),
            deepest(parts[::2]),
        )

    def product(self, *parts: Any) -> s.Product:
        operators = ["*", *map(str, parts[1::2])]
        return s.Product(
            tuple(zip(operators, parts[::2], strict=True)),
            s.span(parts[0].place, parts[-1].place),
            deepest(parts[::2]),
        )

    def signed(self, sign: Token, value: s.Expression) -> s.Signed:
        place = s.span(place_of(sign), value.place)
        depth = 0 if isinstance(value, s.Number) else deeper(value.depth, place)
        return s.Signed(-1 if sign == "-" else 1, value, place, depth)

    def group(self, left: Token, inner: s.Expression, right: Token) -> s.Group:
        place = s.span(place_of(left), place_of(right))
        return s.Group(inner, place, deeper(inner.depth, place))

    def name(self, token: Token) -> s.Name:
        return s.Name(unquote(token), place_of(token), token.startswith('"'))

    def number(self, token: Token) -> s.Number:
        place = place_of(token)
        return s.Number(number_literal(token, place), place)

    def string(self, token: Token) -> s.String:
        return s.String(token[1:-1].replace("''", "'"), place_of(token))

    def timestamp(self, first: Token, token: Token) -> s.Timestamp:
        return s.Timestamp(token[1:-1].replace("''", "'"), s.span(place_of(first), place_of(token)))

    def true(self, token: Token) -> s.Truth:
        return s.Truth(True, place_of(token))

    def false(self, token: Token) -> s.Truth:
        return s.Truth(False, place_of(token))
