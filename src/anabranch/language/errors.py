"""How a refusal is worded: what was found, what would be right, where.

Comes in: a span and the names or tokens around it. Goes out: QueryErrors.
Never: a decision whether something is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from anabranch.language.syntax import Span
from anabranch.model.errors import QueryError
from anabranch.model.limits import LimitError
from anabranch.model.suggestions import closest

#: A list of what exists is cut after so many names.
MAX_LISTED = 20

#: A piece of the query is shown in an error up to so many characters.
MAX_SHOWN = 40


def refuse(message: str, span: Span) -> QueryError:
    """The error to raise; the text is added by `pointing_into`, where it is known."""
    return QueryError(message, offset=span[0], length=max(1, span[1]))


@contextmanager
def pointing_into(text: str) -> Iterator[None]:
    try:
        yield
    except QueryError as error:
        error.text = text
        raise


@contextmanager
def pointing_at(span: Span) -> Iterator[None]:
    """Errors of what knows no places point at this one."""
    try:
        yield
    except QueryError as error:
        if error.offset is None:
            error.offset, error.length = span[0], max(1, span[1])
        raise


def over_limit(what: str, limit: str, allowed: int, instead: str, span: Span) -> LimitError:
    """`it would open 1,000,000,000 windows per item (limit: 10,000)`, with the way out below the text."""
    error = LimitError(what, limit, allowed, instead)
    error.offset, error.length = span[0], max(1, span[1])
    return error


def short(text: str) -> str:
    """What somebody wrote, in one line and cut where it is too long for an error."""
    words = " ".join(text.split())
    return words if len(words) <= MAX_SHOWN else words[: MAX_SHOWN - 3] + "..."


def listed(names: Iterable[str]) -> str:
    """`a, b and 3 more`"""
    every = list(names)
    if len(every) <= MAX_LISTED:
        return ", ".join(every) if every else "none"
    return f"{', '.join(every[:MAX_LISTED])} and {len(every) - MAX_LISTED} more"


def one_of(words: Iterable[str]) -> str:
    """`a, b or c`"""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def counted(number: int, what: str) -> str:
    """`1 coordinate`, `2 coordinates`"""
    return f"{number} {what}{'' if number == 1 else 's'}"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """` did you mean 'en'?`, or nothing."""
    guess = closest(name, names)
    return "" if guess is None else f"; did you mean {guess!r}?"


def unknown(
    kind: str, name: str, names: Iterable[str], span: Span, where: str = "", hint: str = ""
) -> QueryError:
    """`unknown column 'enn' in stream photons; did you mean 'en'? There are: ra, dec, en`"""
    every = list(names)
    guess = did_you_mean(name, every)
    what = " ".join(filter(None, (kind, f"'{short(name)}'", where)))
    return refuse(f"unknown {what}{guess or '.'} There are: {listed(every)}{hint}", span)
