"""Sums that do not depend on the order in which values are added.

They are kept in pieces, so that partial sums combine without rounding.

A sum is a few int64 words; all zeros is the empty sum.

Integers: two words, the sum as a 128-bit number, low word first.

Floats: six words. A float is an integer of 53 bits times a power of two: its bits lie somewhere on a ruler
that begins at the least float, 2^-1074, and is marked every 26 bits. Three pieces of 26 bits, at the marks q,
q + 1 and q + 2, hold them:

    ruler   | ... | q+2 | q+1 |  q  | ... | 0 |        x = sign (p2 2^26(q+2) + p1 2^26(q+1) + p0 2^26q)
    2^-1074 words   top = q+2, then the sums of the pieces at top-4, top-3, top-2, top-1, top

`top` is the highest mark of any float in the sum; pieces below top-4 are dropped. Pieces are added up mark by
mark and never carried, so what is dropped does not depend on when `top` rose: the words are the same in
whatever order floats come and partial sums are combined. What is dropped is less than 2^-104 of the largest
float. The sum is rounded once, when it is read. A word has room for 2^36 floats. An infinity is a float above
all others: `top` is INFINITE, the number of +inf is at top and that of -inf at top-1.
"""

from __future__ import annotations

import math

import numpy as np

from anabranch.model.arrays import Ints
from anabranch.numeric.jit import int64, kernel, leaf

INT_WORDS = 2
FLOAT_WORDS = 6

_INFINITE = 1000
_MASK = int64((1 << 26) - 1)
_LEAST = int64(-(2**63))


@leaf
def add_int(words: Ints, at: int, value: int) -> None:
    """Adds an int64 to the integer sum at words[at:at + 2]."""
    add_wide(words, at, value, value >> int64(63))


@leaf
def add_wide(words: Ints, at: int, low: int, high: int) -> None:
    """Adds the 128-bit number (high, low) to the integer sum at words[at:at + 2]."""
    before = words[at]
    words[at] = before + low
    carry = int64((words[at] ^ _LEAST) < (before ^ _LEAST))  # the low words compared without their signs
    words[at + 1] += high + carry


@leaf
def add_float(words: Ints, at: int, bits: int) -> None:
    """Adds the float with these bits (not NaN) to the float sum at words[at:at + 6]."""
    exponent = (bits >> int64(52)) & int64(0x7FF)
    if exponent == 0x7FF:
        _raise(words, at, _INFINITE)
        words[at + (5 if bits > 0 else 4)] += 1
        return
    mantissa = bits & int64((1 << 52) - 1)
    if exponent > 0:
        mantissa |= int64(1 << 52)
        exponent -= int64(1)
    mark = (exponent * int64(2521)) >> int64(16)  # exponent // 26, for exponents up to 2046
    shift = exponent - mark * int64(26)
    low = (mantissa & _MASK) << shift
    high = (mantissa >> int64(26)) << shift
    sign = int64(-1) if bits < 0 else int64(1)
    if words[at] < mark + 2:
        _raise(words, at, mark + 2)
    piece = 3 - (words[at] - (mark + 2))  # the lowest piece, among the five
    if piece >= 1:
        words[at + piece] += sign * (low & _MASK)
    if piece >= 0:
        words[at + piece + 1] += sign * ((low >> int64(26)) + (high & _MASK))
    if piece >= -1:
        words[at + piece + 2] += sign * (high >> int64(26))


@leaf
def _raise(words: Ints, at: int, top: int) -> None:
    """Moves the pieces of a float sum down so that the highest is at `top`; those that fall out are
    dropped.
    """
    distance = top - words[at]
    if distance <= 0:
        return
    for piece in range(1, 6):
        source = piece + distance
        words[at + piece] = words[at + source] if source <= 5 else int64(0)
    words[at] = top


@leaf
def add_floats(words: Ints, at: int, other: Ints, other_at: int) -> None:
    """Adds the float sum at other[other_at:other_at + 6] to the one at words[at:at + 6]."""
    if words[at] == other[other_at]:  # so it is for most long runs of values, and it is much faster
        for piece in range(1, 6):
            words[at + piece] += other[other_at + piece]
        return
    _raise(words, at, other[other_at])
    distance = words[at] - other[other_at]
    for piece in range(1 + distance, 6):
        words[at + piece - distance] += other[other_at + piece]


@kernel
def read_int(words: Ints, at: int) -> tuple[int, bool]:
    """Returns the integer sum and whether it fits into an int64."""
    return words[at], words[at + 1] == words[at] >> int64(63)


@kernel
def wide_to_float(words: Ints, at: int) -> float:
    """The integer sum as a float."""
    if words[at + 1] == words[at] >> int64(63):
        return float(words[at])
    low = float(words[at] & int64(0x7FFFFFFFFFFFFFFF)) + (2.0**63 if words[at] < 0 else 0.0)
    return float(words[at + 1]) * 2.0**64 + low


@kernel
def read_float(words: Ints, at: int) -> float:
    """The float sum, rounded once to the nearest float, ties to even; NaN if both infinities are in it."""
    if words[at] == _INFINITE:
        if words[at + 4] > 0 and words[at + 5] > 0:
            return np.nan
        return np.inf if words[at + 5] > 0 else -np.inf
    digits = np.empty(9, np.int64)
    sign = 1.0
    if _carry(words, at, 1, digits) < 0:
        sign = -1.0
        _carry(words, at, -1, digits)
    highest = 8
    while highest >= 0 and digits[highest] == 0:
        highest -= 1
    if highest < 0:
        return 0.0
    # Four digits are 79 to 104 bits: two exact floats, whose sum the machine rounds correctly. A one in the
    # last bit stands for all that is below; it is too low to be anything but the tie-breaker.
    upper = (digits[highest] << int64(26)) | _digit(digits, highest - 1)
    lower = (_digit(digits, highest - 2) << int64(26)) | _digit(digits, highest - 3)
    for index in range(highest - 3):
        if digits[index]:
            lower |= int64(1)
    rounded = float(upper) * 2.0**52 + float(lower)
    exponent = 26 * (words[at] - 4 + highest - 3) - 1074
    return sign * math.ldexp(rounded, exponent)


@kernel
def _digit(digits: Ints, index: int) -> int:
    return digits[index] if index >= 0 else int64(0)


@kernel
def _carry(words: Ints, at: int, sign: int, digits: Ints) -> int:
    """The pieces times `sign` as nine digits of 26 bits, lowest first; what is carried out of the highest."""
    carry = int64(0)
    for index in range(9):
        total = carry + (int64(sign) * words[at + 1 + index] if index < 5 else int64(0))
        digits[index] = total & _MASK
        carry = total >> int64(26)
    return carry
