"""Long columns in the state: cut into chunks that are not too large to be written."""

from __future__ import annotations

import numpy as np

from anabranch.zones.columns import Array
from anabranch.zones.state import Arrays, State

#: Rows a chunk.
ROWS = 8192


def put_columns(state: State, prefix: str, columns: Arrays | None) -> None:
    """Stores columns of equal length in place of those that were there; none where there are none."""
    length = 0 if columns is None else len(next(iter(columns.values())))
    count = -(-length // ROWS)
    for chunk in range(count):
        assert columns is not None
        rows = slice(chunk * ROWS, (chunk + 1) * ROWS)
        state.put(f"{prefix}{chunk:08d}", {name: column[rows].copy() for name, column in columns.items()})
    for key in state.keys(prefix)[count:]:
        state.drop(key)


def get_columns(state: State, prefix: str) -> Arrays | None:
    parts = [state.get(key) or {} for key in state.keys(prefix)]
    if not parts:
        return None
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def widened(truths: Array, words: int) -> Array:
    """The truths of reports with at least so many words; the bits of conditions that came later are 0."""
    if truths.shape[1] >= words:
        return truths
    out = np.zeros((len(truths), words), np.uint64)
    out[:, : truths.shape[1]] = truths
    return out
