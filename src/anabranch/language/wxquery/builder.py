"""From the reductions of wxquery.lark to the nodes of `syntax`, one method a rule, while the text is parsed.

Comes in: tokens and nodes of smaller parts. Goes out: a node. Never: state, nor a look at a stream.
"""

from __future__ import annotations

import re
from typing import Any

from lark import Token, Transformer, v_args

from anabranch.language.builder import deeper, span_of
from anabranch.language.errors import refuse
from anabranch.language.numbers import number_literal
from anabranch.language.syntax import Name, Number, Signed, Span, String, covering
from anabranch.language.wxquery import syntax as w
from anabranch.predicates.terms import Op

_REFERENCE = re.compile(r"(\"\"|'')|&(?:(\w+)|#([0-9]{1,7})|#x([0-9a-fA-F]{1,6}));|&")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def _deepest(parts: tuple[Any, ...]) -> int:
    return max((part.depth for part in parts), default=0)


def _around(parts: tuple[Any, ...]) -> Span:
    return covering(parts[0].span, parts[-1].span)


@v_args(inline=True)
class WXQueryBuilder(Transformer[Token, w.Expression]):
    """Method names are the rules and aliases of wxquery.lark."""

    def start(self, body: w.Expression) -> w.Expression:
        return body

    def sequence(self, *parts: w.Expression) -> w.SequenceExpression:
        return w.SequenceExpression(parts, _around(parts), _deepest(parts))

    def parentheses(self, left: Token, inner: w.Expression | None, right: Token) -> w.SequenceExpression:
        span = covering(span_of(left), span_of(right))
        parts = () if inner is None else (inner,)
        return w.SequenceExpression(parts, span, deeper(_deepest(parts), span))

    def conditional(
        self,
        first: Token,
        _left: Token,
        condition: w.Condition,
        _right: Token,
        then: w.Expression,
        otherwise: w.Expression,
    ) -> w.If:
        span = covering(span_of(first), otherwise.span)
        depth = deeper(_deepest((condition, then, otherwise)), span)
        return w.If(condition, then, otherwise, span, depth)

    # --- for, let, where, return ---

    def flwr(self, *parts: Any) -> w.Flwr:
        *clauses, where, result = parts
        depths = [clause.path for clause in clauses] + ([where] if where else []) + [result]
        span = covering(clauses[0].span, result.span)
        return w.Flwr(tuple(clauses), where, result, span, deeper(_deepest(tuple(depths)), span))

    def for_clause(
        self, first: Token, variable: w.Variable, path: w.Path, window: w.WindowExpression | None
    ) -> w.For:
        return w.For(variable, path, window, covering(span_of(first), (window or path).span))

    def let_clause(
        self, first: Token, variable: w.Variable, function: Token, _left: Token, path: w.Path, right: Token
    ) -> w.Let:
        name = Name(function.lower(), span_of(function))
        return w.Let(variable, name, path, covering(span_of(first), span_of(right)))

    def where(self, _first: Token, condition: w.Condition) -> w.Condition:
        return condition

    def variable(self, dollar: Token, name: Token) -> w.Variable:
        return w.Variable(str(name), covering(span_of(dollar), span_of(name)))

    # --- paths and windows ---

    def path(self, first: Any, *steps: w.Step) -> w.Path:
        origin: w.Variable | w.StreamPath | None = None
        if isinstance(first, w.Step):
            steps = (first, *steps)
        elif isinstance(first, tuple):  # `/photons`: the root and its first step
            origin, steps = first[0], (first[1], *steps)
        else:
            origin = first
        parts = steps if origin is None else (origin, *steps)
        return w.Path(origin, steps, _around(parts), _deepest(steps))

    def source(self, function: Token, _left: Token, argument: Token | None, right: Token) -> w.StreamPath:
        name = None if argument is None else _decoded(argument)
        return w.StreamPath(function.lower(), name, covering(span_of(function), span_of(right)))

    def root(self, slash: Token, step: w.Step) -> tuple[w.StreamPath, w.Step]:
        return w.StreamPath("/", None, span_of(slash)), step

    def step(
        self,
        name: Token,
        left: Token | None = None,
        condition: w.Condition | None = None,
        right: Token | None = None,
    ) -> w.Step:
        if condition is None or right is None:
            return w.Step(str(name), None, span_of(name))
        span = covering(span_of(name), span_of(right))
        return w.Step(str(name), condition, span, deeper(condition.depth, span))

    def plain_path(self, *names: Token) -> w.Path:
        steps = tuple(w.Step(str(name), None, span_of(name)) for name in names)
        return w.Path(None, steps, _around(steps))

    def value_path(self, first: w.Variable | Token, *names: Token) -> w.Path:
        if isinstance(first, Token):
            return self.plain_path(first, *names)
        steps = tuple(w.Step(str(name), None, span_of(name)) for name in names)
        return w.Path(first, steps, _around((first, *steps)))

    def count_window(self, left: Token, _count: Token, *rest: Any) -> w.WindowExpression:
        return self._window(None, left, *rest)

    def diff_window(self, left: Token, reference: w.Path, _diff: Token, *rest: Any) -> w.WindowExpression:
        return self._window(reference, left, *rest)

    def _window(
        self,
        reference: w.Path | None,
        left: Token,
        size: Token,
        _step: Token | None,
        step: Token | None,
        right: Token,
    ) -> w.WindowExpression:
        span = covering(span_of(left), span_of(right))
        return w.WindowExpression(
            reference, self.number(size), None if step is None else self.number(step), span
        )

    # --- conditions ---

    def any_of(self, *terms: w.Condition) -> w.AnyOf:
        return w.AnyOf(terms, _around(terms), _deepest(terms))

    def all_of(self, *terms: w.Condition) -> w.AllOf:
        return w.AllOf(terms, _around(terms), _deepest(terms))

    def group(self, left: Token, inner: w.Condition, right: Token) -> w.Parentheses:
        span = covering(span_of(left), span_of(right))
        return w.Parentheses(inner, span, deeper(inner.depth, span))

    def compare(self, left: w.Value, op: Token, right: w.Value) -> w.Comparison:
        return w.Comparison(left, Op(str(op)), right, covering(left.span, right.span))

    def number(self, token: Token) -> Number:
        return Number(number_literal(token, span_of(token)), span_of(token))

    def string(self, token: Token) -> String:
        return String(_decoded(token), span_of(token))

    def signed(self, sign: Token, token: Token) -> Signed:
        value = self.number(token) if token.type == "NUMBER" else self.string(token)
        return Signed(-1 if sign == "-" else 1, value, covering(span_of(sign), value.span), 0)

    def shifted(self, path: w.Path, sign: Token, second: Token | None, token: Token) -> w.Shifted:
        number = self.number(token)
        minus = (sign == "-") is not (second == "-")
        return w.Shifted(path, -1 if minus else 1, number, covering(path.span, number.span))

    # --- elements ---

    def empty_element(self, left: Token, name: Token, right: Token) -> w.ElementExpression:
        return w.ElementExpression(str(name), (), covering(span_of(left), span_of(right)), 1)

    def element(self, left: Token, name: Token, _open: Token, *rest: Any) -> w.ElementExpression:
        *content, _close, last, right = rest
        if last != name:
            raise refuse(f"</{last}> closes <{name}>; write </{name}>", span_of(last))
        span = covering(span_of(left), span_of(right))
        return w.ElementExpression(str(name), tuple(content), span, deeper(_deepest(tuple(content)), span))

    def enclosed(self, _left: Token, inner: w.Expression, _right: Token) -> w.Expression:
        return inner


def _decoded(token: Token) -> str:
    """The text of a string: doubled quotes are one, `&lt;` and `&#60;` are `<`."""
    start = span_of(token)[0] + 1

    def character(match: re.Match[str]) -> str:
        quotes, name, decimal, hexadecimal = match.groups()
        if quotes:
            return quotes[0] if quotes[0] == token[0] else quotes
        if name in _ENTITIES:
            return _ENTITIES[name]
        code = int(decimal) if decimal else int(hexadecimal, 16) if hexadecimal else 0
        if not 0 < code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            span = (start + match.start(), match.end() - match.start())
            raise refuse("no character is called this; & itself is written &amp;", span)
        return chr(code)

    return _REFERENCE.sub(character, token[1:-1])
