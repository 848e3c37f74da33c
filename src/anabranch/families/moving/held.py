"""What a zone holds in memory between batches: taken out for a step, changed in place, given back when its
chunks are stored.

It is built from the chunks again where it is missing or does not belong to them: on another worker, after a
restart, and after a step that failed halfway, since what is taken out and not given back counts as missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anabranch.zones.state import State

T = TypeVar("T")

#: No chunk has this key, so what depends on it never belongs to the chunks there are.
_NO_CHUNK = "#taken"


def take(state: State, name: str, load: Callable[[], T]) -> T:
    held = state.derived(name, state.keys(), load)
    state.derived(name, [_NO_CHUNK], lambda: None)
    return held


def give_back(state: State, name: str, held: object) -> None:
    """Call it when everything that changed has been put into the state."""
    state.derived(name, state.keys(), lambda: held)
