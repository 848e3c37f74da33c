"""Words for messages: what was probably meant, what there is, and values as a file has them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

MAX_LISTED = 20
MAX_SHOWN = 80


def closest(name: str, names: Iterable[str]) -> str | None:
    """Returns the name that was probably meant: other case, a path with this part, or a typing mistake."""
    lower, candidates = name.lower(), list(names)
    for candidate in candidates:
        other = candidate.lower()
        if other == lower or other.endswith("." + lower) or other.startswith(lower + "."):
            return candidate
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    close = get_close_matches(lower, by_lower, n=1)
    return by_lower[close[0]] if close else None


def suggestion(name: str, names: Iterable[str]) -> str:
    """`; did you mean 'path'? There are: format, path`"""
    every = list(names)
    guess = closest(name, every)
    rest = f" and {len(every) - MAX_LISTED} more" if len(every) > MAX_LISTED else ""
    there = f"There are: {', '.join(every[:MAX_LISTED])}{rest}" if every else "There are none"
    return f"; did you mean {guess!r}? {there}" if guess else f". {there}"


def shown(value: Any) -> str:
    """Returns a value as it would stand in a TOML file, cut where it is long."""
    text = toml_value(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def toml_value(value: Any) -> str:
    """Returns a value as it would stand in a TOML file."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case list() | tuple():
            return f"[{', '.join(map(toml_value, value))}]"
        case dict():
            inside = ", ".join(f"{toml_key(key)} = {toml_value(entry)}" for key, entry in value.items())
            return f"{{ {inside} }}"
    return str(value)


def toml_key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key, re.ASCII) else f'"{key}"'
