"""What the tests of splits share: drawn disturbances, divisions by turns, crowds that drift."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anabranch.chain.balance import Division, Patience
from anabranch.chain.items import arrow_schema
from anabranch.model.stream import Stream
from tests.laws.case import Asked, Case


def disturbed(cases: st.SearchStrategy[Case], latest: int = 40) -> Callable[[Any], Any]:
    """Draws (case, cuts, zones, stops)."""
    return given(
        cases,
        st.lists(st.integers(1, latest), max_size=20),
        st.integers(2, 5),
        st.lists(st.integers(0, 20), max_size=3),
    )


def by_turns(told: dict[int, int], zones: int, splits: int, patience: Patience) -> Division | None:
    """Half of what a zone has to another, whoever has to do how much."""
    hot, other = splits % zones, (7 * splits + 1) % zones
    return Division(hot, other, 0.5) if hot != other and splits < 40 else Division(0, 1, 0.3)


def crowd_at(
    place: np.ndarray,
    random: np.random.Generator,
    stream: Stream,
    family: str,
    asked: Callable[[np.random.Generator, int, float], Asked],
    queries: int,
) -> Case:
    """Items with columns t, a and b at these places, now and then without a coordinate; `asked` makes each
    query, by its number and the time at which the stream ends.
    """
    place[random.random(len(place)) < 0.03, 0] = np.nan
    data = {"t": np.cumsum(random.exponential(0.1, len(place))), "a": place[:, 0], "b": place[:, 1]}
    rows = pa.record_batch({name: pa.array(values, from_pandas=True) for name, values in data.items()})
    made = tuple(asked(random, number, data["t"][-1]) for number in range(queries))
    return Case(stream, rows.cast(arrow_schema(stream)), made, family)
