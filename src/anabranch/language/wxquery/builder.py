"""From the reductions of wxquery.lark to the nodes of `syntax`, one method a rule, while the text is parsed.

Comes in: tokens and nodes of smaller parts. Goes out: a node. Never: state, nor a look at a stream.
"""

from __future__ import annotations

import re
from typing import Any

from lark import Token, Transformer, v_args

from anabranch.language.builder import deeper, place_of
from anabranch.language.errors import refuse
from anabranch.language.numbers import number_literal
from anabranch.language.syntax import Name, Number, Place, Signed, String, span
from anabranch.language.wxquery import syntax as w
from anabranch.predicates.terms import Op

_REFERENCE = re.compile(r"(\"\"|'')|&(?:(\w+)|#([0-9]{1,7})|#x([0-9a-fA-F]{1,6}));|&")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def _deepest(parts: tuple[Any, ...]) -> int:
    return max((part.depth for part in parts), default=0)


def _around(parts: tuple[Any, ...]) -> Place:
    return span(parts[0].place, parts[-1].place)


@v_args(inline=True)
class Builder(Transformer[Token, w.Expression]):
    """Method names are the rules and aliases of wxquery.lark."""

    def start(self, body: w.Expression) -> w.Expression:
        return body

    def sequence(self, *parts: w.Expression) -> w.Sequence:
        return w.Sequence(parts, _around(parts), _deepest(parts))

    def parentheses(self, left: Token, inner: w.Expression | None, right: Token) -> w.Sequence:
        place = span(place_of(left), place_of(right))
        parts = () if inner is None else (inner,)
        return w.Sequence(parts, place, deeper(_deepest(parts), place))

    def conditional(
        self,
        first: Token,
        _left: Token,
        condition: w.Condition,
        _right: Token,
        then: w.Expression,
        otherwise: w.Expression,
    ) -> w.If:
        place = span(place_of(first), otherwise.place)
        depth = deeper(_deepest((condition, then, otherwise)), place)
        return w.If(condition, then, otherwise, place, depth)

    # --- for, let, where, return ---

    def flwr(self, *parts: Any) -> w.Flwr:
        *clauses, where, result = parts
        depths = [clause.path for clause in clauses] + ([where] if where else []) + [result]
        place = span(clauses[0].place, result.place)
        return w.Flwr(tuple(clauses), where, result, place, deeper(_deepest(tuple(depths)), place))

    def for_clause(self, first: Token, variable: w.Variable, path: w.Path, window: w.Window | None) -> w.For:
        return w.For(variable, path, window, span(place_of(first), (window or path).place))

    def let_clause(
        self, first: Token, variable: w.Variable, function: Token, _left: Token, path: w.Path, right: Token
    ) -> w.Let:
        name = Name(function.lower(), place_of(function))
        return w.Let(variable, name, path, span(place_of(first), place_of(right)))

    def where(self, _first: Token, condition: w.Condition) -> w.Condition:
        return condition

    def variable(self, dollar: Token, name: Token) -> w.Variable:
        return w.Variable(str(name), span(place_of(dollar), place_of(name)))

    # --- paths and windows ---

    def path(self, first: Any, *steps: w.Step) -> w.Path:
        origin: w.Variable | w.Source | None = None
        if isinstance(first, w.Step):
            steps = (first, *steps)
        elif isinstance(first, tuple):  # `/photons`: the root and its first step
            origin, steps = first[0], (first[1], *steps)
        else:
            origin = first
        parts = steps if origin is None else (origin, *steps)
        return w.Path(origin, steps, _around(parts), _deepest(steps))

    def source(self, function: Token, _left: Token, argument: Token | None, right: Token) -> w.Source:
        name = None if argument is None else _decoded(argument)
        return w.Source(function.lower(), name, span(place_of(function), place_of(right)))

    def root(self, slash: Token, step: w.Step) -> tuple[w.Source, w.Step]:
        return w.Source("/", None, place_of(slash)), step

    def step(
        self,
        name: Token,
        left: Token | None = None,
        condition: w.Condition | None = None,
        right: Token | None = None,
    ) -> w.Step:
        if condition is None or right is None:
            return w.Step(str(name), None, place_of(name))
        place = span(place_of(name), place_of(right))
        return w.Step(str(name), condition, place, deeper(condition.depth, place))

    def plain_path(self, *names: Token) -> w.Path:
        steps = tuple(w.Step(str(name), None, place_of(name)) for name in names)
        return w.Path(None, steps, _around(steps))

    def value_path(self, first: w.Variable | Token, *names: Token) -> w.Path:
        if isinstance(first, Token):
            return self.plain_path(first, *names)
        steps = tuple(w.Step(str(name), None, place_of(name)) for name in names)
        return w.Path(first, steps, _around((first, *steps)))

    def count_window(self, left: Token, _count: Token, *rest: Any) -> w.Window:
        return self._window(None, left, *rest)

    def diff_window(self, left: Token, reference: w.Path, _diff: Token, *rest: Any) -> w.Window:
        return self._window(reference, left, *rest)

    def _window(
        self,
        reference: w.Path | None,
        left: Token,
        size: Token,
        _step: Token | None,
        step: Token | None,
        right: Token,
    ) -> w.Window:
        place = span(place_of(left), place_of(right))
        return w.Window(reference, self.number(size), None if step is None else self.number(step), place)

    # --- conditions ---

    def any_of(self, *terms: w.Condition) -> w.AnyOf:
        return w.AnyOf(terms, _around(terms), _deepest(terms))

    def all_of(self, *terms: w.Condition) -> w.AllOf:
        return w.AllOf(terms, _around(terms), _deepest(terms))

    def group(self, left: Token, inner: w.Condition, right: Token) -> w.Group:
        place = span(place_of(left), place_of(right))
        return w.Group(inner, place, deeper(inner.depth, place))

    def compare(self, left: w.Value, op: Token, right: w.Value) -> w.Compare:
        return w.Compare(left, Op(str(op)), right, span(left.place, right.place))

    def number(self, token: Token) -> Number:
        return Number(number_literal(token, place_of(token)), place_of(token))

    def string(self, token: Token) -> String:
        return String(_decoded(token), place_of(token))

    def signed(self, sign: Token, token: Token) -> Signed:
        value = self.number(token) if token.type == "NUMBER" else self.string(token)
        return Signed(-1 if sign == "-" else 1, value, span(place_of(sign), value.place), 0)

    def shifted(self, path: w.Path, sign: Token, token: Token) -> w.Shifted:
        number = self.number(token)
        return w.Shifted(path, -1 if sign == "-" else 1, number, span(path.place, number.place))

    # --- elements ---

    def empty_element(self, left: Token, name: Token, right: Token) -> w.Element:
        return w.Element(_tag(name), (), span(place_of(left), place_of(right)), 1)

    def element(self, left: Token, name: Token, _open: Token, *rest: Any) -> w.Element:
        *content, _close, last, right = rest
        if last != name:
            raise refuse(f"</{last}> closes <{name}>; write </{name}>", place_of(last))
        place = span(place_of(left), place_of(right))
        return w.Element(_tag(name), tuple(content), place, deeper(_deepest(tuple(content)), place))

    def enclosed(self, _left: Token, inner: w.Expression, _right: Token) -> w.Expression:
        return inner


def _tag(name: Token) -> str:
    if ":" in name:
        raise refuse("the prefix of a name has no meaning here: there are no namespaces", place_of(name))
    return str(name)


def _decoded(token: Token) -> str:
    """The text of a string: doubled quotes are one, `&lt;` and `&#60;` are `<`."""
    start = place_of(token)[0] + 1

    def character(match: re.Match[str]) -> str:
        quotes, name, decimal, hexadecimal = match.groups()
        if quotes:
            return quotes[0] if quotes[0] == token[0] else quotes
        if name in _ENTITIES:
            return _ENTITIES[name]
        code = int(decimal) if decimal else int(hexadecimal, 16) if hexadecimal else 0
        if not 0 < code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            place = (start + match.start(), match.end() - match.start())
            raise refuse("no character is called this; & itself is written &amp;", place)
        return chr(code)

    return _REFERENCE.sub(character, token[1:-1])
