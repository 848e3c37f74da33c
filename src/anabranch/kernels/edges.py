"""Where windows begin and end: window k (from 0) is [base + k step, base + k step + size), computed just so.

Integer windows (positions, integer times, microseconds) are exact. With floats the expressions are evaluated
from left to right as they stand and nowhere rearranged, so that everyone who follows the formula finds the
same edges; they never fall as k grows, which is all that the search below needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.jit import kernel

#: More windows than any stream has: the answer where no window begins or ends after a moment.
NEVER = np.int64(1) << np.int64(61)


@kernel
def first_after(base: Any, step: Any, size: Any, moment: Any) -> Any:
    """The least k >= 0 with base + k step + size > moment, all integers: of starts with size 0, of ends
    otherwise.
    """
    return max(np.int64(0), (moment - base - size) // step + np.int64(1))


@kernel
def first_after_float(base: Any, step: Any, size: Any, moment: Any) -> Any:
    """The least k >= 0 with base + k step + size > moment, all floats; NEVER if there is none.

    A division says about where, doubling steps and halving them find the exact place: the quotient may be off
    by many windows where step is small against base.
    """
    guess = (moment - base - size) / step
    k = np.int64(min(max(guess, 0.0), float(NEVER))) if guess == guess else np.int64(0)
    if base + k * step + size > moment:
        above, below, stride = k, k, np.int64(1)
        while below > 0:
            below = max(np.int64(0), below - stride)
            if not base + below * step + size > moment:
                break
            above, stride = below, stride * 2
        if above == 0:
            return above
    else:
        below, above, stride = k, k, np.int64(1)
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
