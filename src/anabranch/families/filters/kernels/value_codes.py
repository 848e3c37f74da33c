"""Values as int64 codes in the same order, as `predicates/codes.py` defines them; strings by their rank.

They are computed from the arrays behind an Arrow column. NaN is MISSING; the caller knows the nulls.

The code of a string is 2i + 1 if it is constant i of a sorted list, and 2i if it lies between i - 1 and i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anabranch.families.filters.kernels.interval_index import MISSING, bucket_of
from anabranch.families.filters.kernels.interval_index_build import search_tree
from anabranch.model.arrays import Bytes, Ints, Ints32
from anabranch.numeric.jit import kernel, twig, zero

_MAGNITUDE = 2**63 - 1
_INFINITY = 0x7FF0000000000000
_HEAD = 8  # so many bytes of a string make an integer


class TextConstants(NamedTuple):
    """Sorted strings, searched by their first eight bytes and compared in full only where these are equal."""

    start: Ints32  # int32[n + 1]
    bytes: Bytes  # uint8[...]
    tree: Ints  # int64[...]: the distinct heads
    levels: int
    head: Ints  # int64[h]
    first: Ints  # int64[h + 1]: the first constant with that head


@kernel
def float_codes(bits: Ints, codes: Ints) -> None:
    """bits int64[n], the float64 values as they lie in memory; codes int64[n]."""
    for row in range(len(bits)):
        magnitude = bits[row] & _MAGNITUDE
        code = magnitude if bits[row] >= 0 else -magnitude
        codes[row] = code if magnitude <= _INFINITY else MISSING


@twig
def _head_of(start: int, end: int, data: Bytes) -> int:
    """The first eight bytes as a number in the same order: filled up with zeros, the top bit inverted."""
    head = np.uint64(0)
    for index in range(start, start + _HEAD):
        head = (head << np.uint64(8)) | (np.uint64(data[index]) if index < end else np.uint64(0))
    return int(np.int64(head ^ np.uint64(1 << 63)))


@twig
def _compare(start: int, end: int, data: Bytes, other: int, other_end: int, others: Bytes) -> int:
    """-1, 0 or 1: byte by byte, the shorter one first."""
    while start < end and other < other_end:
        if data[start] != others[other]:
            return -1 if data[start] < others[other] else 1
        start += 1
        other += 1
    return int(start < end) - int(other < other_end)


@kernel
def text_codes(start: Ints32, data: Bytes, constants: TextConstants, codes: Ints) -> None:
    """start int32[n + 1] and data uint8[...] of an Arrow string column; codes int64[n]."""
    for row in range(len(codes)):
        begin, end = start[row], start[row + 1]
        head = _head_of(begin, end, data)
        bucket = bucket_of(constants.tree, zero(), constants.levels, head)
        low = constants.first[bucket]
        codes[row] = 2 * low
        if bucket > 0 and constants.head[bucket - 1] == head:
            high = low
            low = constants.first[bucket - 1]
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


def constants_of(texts: list[bytes]) -> TextConstants:
    """`texts` sorted by their bytes, each once."""
    data = np.frombuffer(b"".join(texts) + b"\0" * _HEAD, np.uint8)
    start = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int32)
    heads = np.array([int.from_bytes(text[:_HEAD].ljust(_HEAD, b"\0")) - 2**63 for text in texts], np.int64)
    head, first = np.unique(heads, return_index=True)
    tree, levels = search_tree(head)
    return TextConstants(start, data, tree, levels, head, np.append(first, len(texts)).astype(np.int64))
