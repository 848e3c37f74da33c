"""Where windows begin and end: window k (from 0) is [base + k step, base + k step + size), computed just so.

Integer windows (rows, integer times, microseconds) are exact. With floats the expressions are evaluated from
left to right as they stand and are nowhere rearranged, so that everyone who follows the formula finds the
same edges. Edges never fall as k grows, which is all that the search below needs.

Windows are counted up to NEVER. Those beyond, and those that would begin after the last time that an int64
can hold, do not exist: an item at such a time is in no window.

`chain/windows.py` has the same for plain numbers.
"""

from __future__ import annotations

import numpy as np

from anabranch.numeric.jit import int64, kernel

#: More windows than any stream has: the result where no window begins or ends after a moment.
NEVER = int64(1) << int64(61)

_unsigned = np.uint64  # the distance of two int64 may be as large as 2^64 - 1
_NEVER = np.uint64(1 << 61)


@kernel
def first_after(base: int, step: int, size: int, moment: int) -> int:
    """Returns the least k >= 0 with base + k step + size > moment, all int64: the first window that begins
    after the moment if size is 0, the first that ends after it otherwise. At most NEVER.
    """
    if moment < base:
        return int64(0)
    distance = _unsigned(moment) - _unsigned(base)
    if distance < _unsigned(size):
        return int64(0)
    k = (distance - _unsigned(size)) // _unsigned(step)
    return int64(k) + int64(1) if k < _NEVER else NEVER


@kernel
def first_after_float(base: float, step: float, size: float, moment: float) -> int:
    """Returns the least k >= 0 with base + k step + size > moment, all float64; NEVER if there is none.

    The quotient may be off by many windows where step is small against base. So it is only where the search
    starts: doubling strides find a k on either side, halving finds the exact one between them.
    """
    guess = (moment - base - size) / step
    k = int64(min(max(guess, 0.0), float(NEVER))) if guess == guess else int64(0)
    if base + k * step + size > moment:
        above, below, stride = k, k, int64(1)
        while below > 0:
            below = max(int64(0), below - stride)
            if not base + below * step + size > moment:
                break
            above, stride = below, stride * 2
        if above == 0:
            return above
    else:
        below, above, stride = k, k, int64(1)
        while not base + above * step + size > moment:
            if above >= NEVER:
                return NEVER
            below = above
            above = min(NEVER, above + stride)
            stride *= 2
    while above - below > 1:
        middle = below + (above - below) // 2
        if base + middle * step + size > moment:
            above = middle
        else:
            below = middle
    return above
