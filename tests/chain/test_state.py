"""State: chunks survive the way through bytes, only what changed is stored, and another version is
refused.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest

from anabranch.chain.state import VERSION, State, decode_chunk, encode_chunk
from anabranch.model.errors import FormatError


@pytest.mark.parametrize(
    "array",
    [
        np.arange(5),
        np.zeros((2, 3), np.float32),
        np.array([], np.uint8),
        np.array([[True], [False]]),
        np.arange(10)[::2],
        np.array(7),
    ],
)
def test_arrays_survive(array: np.ndarray) -> None:
    back = decode_chunk(encode_chunk({"first": np.ones(1, np.uint8), "a": array}))
    assert isinstance(back, dict)
    np.testing.assert_array_equal(back["a"], array)
    assert back["a"].dtype == array.dtype
    assert back["a"].shape == array.shape
    back["a"][...] = 0  # a step may write into its arrays


def test_rows_survive() -> None:
    rows = pa.record_batch({"s": ["a", None]})
    assert decode_chunk(encode_chunk(rows)).equals(rows)


def test_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="strings"):
        encode_chunk({"o": np.array(["a", None], object)})


@pytest.mark.parametrize(
    ("magic", "version", "said"), [(b"XXXX", VERSION, "not a chunk"), (b"ANBS", 99, "version 99")]
)
def test_other_versions_are_refused(magic: bytes, version: int, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        decode_chunk(struct.pack("<4sHH", magic, version, 1) + b"\0" * 8)


def test_only_changes_are_stored() -> None:
    state = State()
    state.put("a", {"x": np.arange(3)})
    state.put("b", {"x": np.arange(4)})
    changed, dropped = state.take_changes()
    assert [key for key, _ in changed] == ["a", "b"]
    assert dropped == []
    state.put("b", {"x": np.arange(5)})
    state.drop("a")
    state.drop("never there")
    changed, dropped = state.take_changes()
    assert [key for key, _ in changed] == ["b"]
    assert dropped == ["a"]
    assert state.keys() == ["b"]


def test_derived_follows_its_chunks() -> None:
    state = State()
    built: list[int] = []

    def build() -> int:
        arrays = state.get("a")
        assert arrays is not None
        built.append(1)
        return int(arrays["x"].sum())

    state.put("a", {"x": np.arange(3)})
    assert state.cached("sum", ["a"], build) == 3
    assert state.cached("sum", ["a"], build) == 3
    state.put("other", {"x": np.arange(9)})
    assert state.cached("sum", ["a"], build) == 3
    assert len(built) == 1
    state.put("a", {"x": np.arange(4)})
    assert state.cached("sum", ["a"], build) == 6
    state.load("a", b"another", encode_chunk({"x": np.arange(5)}))
    assert state.cached("sum", ["a"], build) == 10
