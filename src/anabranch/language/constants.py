"""The numbers and words outside conditions: how many, how far, how long, which of a few words.

Comes in: an expression and the text it stands in. Goes out: a checked value.
Never: a column; a name where a number is needed is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.language import syntax as s
from anabranch.language.errors import one_of, over_limit, refuse, short
from anabranch.language.numbers import stored
from anabranch.language.operands import Quantity, Word, described, operand
from anabranch.language.scopes import ConstantScope
from anabranch.model.suggestions import closest


def exact(expression: s.Expression, text: str) -> s.Exact:
    """A number, not rounded."""
    scope = ConstantScope(text)
    value = operand(expression, scope)
    if not isinstance(value, Quantity) or not value.is_plain:
        raise refuse(f"a number is needed here; {described(value, scope)}", expression.span)
    return value.number


def real(expression: s.Expression, text: str) -> float:
    return float(stored(exact(expression, text), expression.span))


def whole(expression: s.Expression, text: str, what: str) -> int:
    """A whole number of at least 1; `what` it counts is said in the error."""
    value = exact(expression, text)
    if value != int(value) or value < 1:
        raise refuse(f"{what} must be a whole number of at least 1; this is {value}", expression.span)
    return int(stored(int(value), expression.span))


def at_most(expression: s.Expression, text: str, what: str, limit: str, allowed: int) -> int:
    """A whole number of at least 1 and at most what a limit allows."""
    value = exact(expression, text)
    if value > allowed:
        shown = f"{value:,}" if value < 10**20 else f"{value:.3g}"
        raise over_limit(f"{what} is {shown}", limit, allowed, "use a smaller number", expression.span)
    return whole(expression, text, what)


def not_negative(expression: s.Expression, text: str, what: str) -> float:
    value = real(expression, text)
    if value < 0:
        raise refuse(f"{what} must not be negative; this is {value:g}", expression.span)
    return value


def word_or_number(expression: s.Expression, text: str) -> str | int | float:
    """The name of an object: a string or a number."""
    if isinstance(expression, s.Name):
        raise refuse(
            f"the name of an object takes single quotes: '{short(expression.text)}'", expression.span
        )
    value = operand(expression, ConstantScope(text))
    if isinstance(value, Word):
        return value.value
    return stored(exact(expression, text), expression.span)


def choice(word: s.Name, words: Sequence[str], what: str) -> str:
    """One of a few words, found in any case."""
    for each in words:
        if each.lower() == word.text.lower():
            return each
    guess = closest(word.text, words)
    hint = f"; did you mean {guess}?" if guess else ""
    raise refuse(f"{what} is {one_of(words)}, not '{short(word.text)}'{hint}", word.span)
