"""Says in words what the parser of WXQuery could not read.

Comes in: the exception of lark and the text. Goes out: a QueryError that says what was found, what would be
right, and what other XQuery has and this has not. Never: the name of a terminal or a rule.
"""

from __future__ import annotations

from typing import cast

from lark import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from anabranch.language.errors import one_of, refuse, short
from anabranch.model.errors import QueryError
from anabranch.model.suggestions import closest

_WORDS = {
    "LT": "'<'",
    "GT": "'>'",
    "COMPARE": "a comparison such as >=",
    "CLOSE": "a closing tag",
    "EMPTY": "'/>'",
    "SLASH": "'/'",
    "DOLLAR": "a variable",
    "PIPE": "'|'",
    "DOT": "'.'",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "a condition in [ ]",
    "RSQB": "']'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "COMMA": "','",
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string",
    "FUNCTION": 'stream("photons")',
    "__ANON_0": "':='",
    "$END": "the end of the query",
}

#: Where all of these can stand, they are summed up.
_SUMS = (
    (frozenset({"FOR", "LET", "IF", "LT", "LPAR", "DOLLAR", "FUNCTION", "SLASH", "NAME", "DOT"}),
     "an expression such as $p/en, <vela> or for"),
    (frozenset({"DOLLAR", "FUNCTION", "SLASH", "NAME", "DOT"}),
     'a path such as stream("photons")/photons/photon'),
    (frozenset({"DOLLAR", "NAME", "NUMBER", "STRING", "PLUS", "MINUS"}), "a path, a number or a string"),
    (frozenset({"LT", "GT", "COMPARE"}), "a comparison such as >="),
    (frozenset({"NAME", "DOT"}), "the name of an element"),
)  # fmt: skip

#: What other XQuery has and this has not, by the word that is found.
_NOT_HERE = {
    "order": "there is no order by: results come in the order of the stream",
    "group": "there is no group by: ask one query a group",
    "some": "there is no some and no every",
    "every": "there is no some and no every",
    "not": "there is no not(): write the comparison the other way round",
    "at": "there is no position variable",
    "as": "variables have no types",
    "declare": "there are no declarations",
    "@": "there are no attributes: in a stream they are elements",
    "*": "there are no wildcards: name the elements",
    "//": "there is only the child axis: name every step between",
    "::": "there is only the child axis: name every step between",
    "<!--": "comments are written (: like this :)",
    "--": "comments are written (: like this :)",
}

_KEYWORDS = (
    "for",
    "let",
    "in",
    "where",
    "return",
    "if",
    "then",
    "else",
    "and",
    "or",
    "count",
    "diff",
    "step",
)


def explain(error: UnexpectedInput, text: str) -> QueryError:
    if isinstance(error, UnexpectedCharacters):
        span, accepted = cast(int, error.pos_in_stream), set(error.allowed or ())
        found = text[span]
        length = 1
    else:
        assert isinstance(error, UnexpectedToken)
        token, accepted = error.token, set(error.accepts or error.expected)
        if token.type == "$END":
            return refuse(f"the query ends here; expected {_expected(accepted)}", (len(text.rstrip()), 1))
        span, found, length = token.start_pos or 0, str(token), len(token)
    if found in "\"'":
        return refuse("this string has no closing quote; a quote inside a string is written twice", (span, 1))
    hint = _hint(text, span, found, accepted)
    return refuse(f"found '{short(found)}'; expected {_expected(accepted)}{hint}", (span, length))


def _expected(accepted: set[str]) -> str:
    rest, words = set(accepted), []
    for group, sum_up in _SUMS:
        if group <= rest:
            words.append(sum_up)
            rest -= group
    return one_of([*words, *sorted({_WORDS.get(name, name.strip("_").lower()) for name in rest}, key=_rank)])


def _rank(word: str) -> tuple[int, str]:
    """Words first, then signs, then the end."""
    return (2 if word.startswith("the end") else 0 if word[0].isalpha() else 1), word


def _hint(text: str, span: int, found: str, accepted: set[str]) -> str:
    for sign in ("<!--", "--", "//", "::", "@", "*"):
        if text.startswith(sign, span) or (len(sign) > 1 and text.startswith(sign, max(0, span - 1))):
            return f" ({_NOT_HERE[sign]})"
    if found.lower() in _NOT_HERE:
        return f" ({_NOT_HERE[found.lower()]})"
    if {"CLOSE", "LBRACE"} <= accepted and found not in "}])>":
        return " (an element holds elements and { expressions }; there is no text of its own)"
    if {"GT", "EMPTY"} <= accepted and found[:1].isalpha():
        return " (there are no attributes: write an element)"
    words = [word for word in _KEYWORDS if {word.upper(), f"_{word.upper()}"} & accepted]
    guess = closest(found, words) if found[:1].isalpha() else None
    return f"; did you mean {guess}?" if guess and guess != found else ""
