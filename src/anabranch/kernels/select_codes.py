"""Values as order-preserving int64 codes, as `predicates.codes` defines them; strings by their rank.

In: the arrays behind an Arrow column. Out: int64 codes, MISSING for NaN. Never: nulls; the caller knows them.

The code of a string is 2i + 1 if it is constant i of a sorted list, and 2i if it lies between i - 1 and i.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel
from anabranch.kernels.select import MISSING, bucket_of
from anabranch.kernels.select_build import search_tree

Array = np.ndarray[Any, Any]

_MAGNITUDE = 2**63 - 1
_INFINITY = 0x7FF0000000000000
_HEAD = 8  # so many bytes of a string make an integer


class Constants(NamedTuple):
    """Sorted strings, searched by their first eight bytes and compared in full only where these are equal."""

    start: Array  # int32[n + 1]
    bytes: Array  # uint8[...]
    tree: Array  # int64[...]: the distinct heads
    levels: int
    head: Array  # int64[h]
    first: Array  # int64[h + 1]: the first constant with that head


@kernel
def float_codes(bits: Array, codes: Array) -> None:
    """bits int64[n], the float64 values as they lie in memory; codes int64[n] (float_codes_plain)."""
    for place in range(len(bits)):
        magnitude = bits[place] & _MAGNITUDE
        code = magnitude if bits[place] >= 0 else -magnitude
        codes[place] = code if magnitude <= _INFINITY else MISSING


@kernel
def _head_of(start: int, end: int, data: Array) -> int:
    """The first eight bytes as a number in the same order: filled up with zeros, the top bit turned."""
    head = np.uint64(0)
    for place in range(start, start + _HEAD):
        head = (head << np.uint64(8)) | (np.uint64(data[place]) if place < end else np.uint64(0))
    return int(np.int64(head ^ np.uint64(1 << 63)))


@kernel
def _compare(start: int, end: int, data: Array, other: int, other_end: int, others: Array) -> int:
    """-1, 0 or 1: bytes by bytes, the shorter one first."""
    while start < end and other < other_end:
        if data[start] != others[other]:
            return -1 if data[start] < others[other] else 1
        start += 1
        other += 1
    return int(start < end) - int(other < other_end)


@kernel
def text_codes(start: Array, data: Array, constants: Constants, codes: Array) -> None:
    """start int32[n + 1] and data uint8[...] of an Arrow string column; codes int64[n] (text_codes_plain)."""
    for row in range(len(codes)):
        begin, end = start[row], start[row + 1]
        head = _head_of(begin, end, data)
        place = bucket_of(constants.tree, 0, constants.levels, head)
        low = constants.first[place]
        codes[row] = 2 * low
        if place > 0 and constants.head[place - 1] == head:
            high = low
            low = constants.first[place - 1]
            while low < high:  # the first constant that is not less
                middle = (low + high) // 2
                sign = _compare(
                    begin, end, data, constants.start[middle], constants.start[middle + 1], constants.bytes
                )
                if sign == 0:
                    codes[row] = 2 * middle + 1
                    break
                if sign > 0:
                    low = middle + 1
                else:
                    high = middle
            else:
                codes[row] = 2 * low


def constants_of(texts: list[bytes]) -> Constants:
    """`texts` sorted by their bytes, each once."""
    data = np.frombuffer(b"".join(texts) + b"\0" * _HEAD, np.uint8)
    start = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int32)
    heads = np.array([int.from_bytes(text[:_HEAD].ljust(_HEAD, b"\0")) - 2**63 for text in texts], np.int64)
    head, first = np.unique(heads, return_index=True)
    tree, levels = search_tree(head)
    return Constants(start, data, tree, levels, head, np.append(first, len(texts)).astype(np.int64))
