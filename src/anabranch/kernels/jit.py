"""The one way kernels are compiled: ahead of nothing, cached on disk, without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """A loop over arrays, compiled when it is first called and kept on disk for the next process."""
    compiled: Any = njit(cache=True, nogil=True)(function)
    made: F = compiled
    return made


def leaf(function: F) -> F:
    """A kernel for the innermost loop of another: inlined, and without counting references.

    By default a call counts two references for each array it passes, 5 ns each: more than a small loop takes.
    So may a loop that takes arrays out of a named tuple. Without counting, a leaf must not make arrays, not
    even slices: a kernel makes what a leaf needs.
    """
    options: dict[str, Any] = {"cache": True, "nogil": True, "forceinline": True, "_nrt": False}
    compiled: Any = njit(**options)(function)
    made: F = compiled
    return made


def twig(function: F) -> F:
    """A leaf for what is called seldom: not inlined, so that what it is called from stays small."""
    options: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
    compiled: Any = njit(**options)(function)
    made: F = compiled
    return made


@leaf
def zero() -> int:
    """0 that may change: what is called with a literal is compiled for that alone, and again for numbers."""
    return int(np.int64(0))
