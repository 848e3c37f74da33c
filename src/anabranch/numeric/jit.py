"""The one way kernels are compiled: ahead of nothing, cached on disk, without the interpreter's lock.

    kernel   called from Python; may make arrays
    loop     called from Python; makes nothing, so it need not count references
    inner    called from kernels only; may make arrays
    leaf     called from the innermost loop of a kernel; inlined, makes nothing
    twig     as a leaf, not inlined

The last three are compiled without the code that a call from Python needs, which for a small function is
much of its compile time. A test may call them nevertheless: that compiles a kernel around them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numba.core import event
from numba.core.caching import IndexDataCacheFile
from numba.core.registry import CPUDispatcher

F = TypeVar("F", bound=Callable[..., Any])

#: np.int64 for kernels, in which it is what `int` means; mypy takes the two for different types.
int64: Any = np.int64

_load_index = IndexDataCacheFile._load_index


def _load_index_or_nothing(self: IndexDataCacheFile) -> Any:
    """Of kernels that an earlier release compiled with named tuples that have another name now, or are
    elsewhere, numba cannot read the index: they are compiled again.
    """
    try:
        return _load_index(self)
    except (AttributeError, ImportError):
        return {}


IndexDataCacheFile._load_index = _load_index_or_nothing  # type: ignore[method-assign]  # numba has no hook

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}


class _InnerDispatcher(CPUDispatcher):
    """A compiled function without an entry for calls from Python: such a call goes through a kernel around
    it. Without this the call would end the process.
    """

    def __call__(self, *arguments: Any) -> Any:
        return self._outer(*arguments)

    @cached_property
    def _outer(self) -> Any:
        inner = self

        def outer(*given: Any) -> Any:
            return inner(*given)

        return njit(nogil=True)(outer)


def _inner(function: F, **options: Any) -> F:
    options |= _OPTIONS | {"no_cpython_wrapper": True}
    compiled: Any = njit(**options)(function)
    compiled.__class__ = _InnerDispatcher
    result: F = compiled
    return result


def kernel(function: F) -> F:
    """A loop over arrays, compiled when it is first called and kept on disk for the next process."""
    compiled: Any = njit(**_OPTIONS)(function)
    result: F = compiled
    return result


def loop(function: F) -> F:
    """A kernel that makes no arrays, not even slices, and so counts no references (see `leaf`)."""
    options = _OPTIONS | {"_nrt": False}
    compiled: Any = njit(**options)(function)
    result: F = compiled
    return result


def inner(function: F) -> F:
    """A kernel that only other kernels call."""
    return _inner(function)


def leaf(function: F) -> F:
    """A kernel for the innermost loop of another: inlined, and without counting references.

    By default a call counts two references for each array it passes, 5 ns each: more than a small loop takes.
    So may a loop that takes arrays out of a named tuple. Without counting, a leaf must not make arrays, not
    even slices: a kernel makes what a leaf needs.
    """
    return _inner(function, forceinline=True, _nrt=False)


def twig(function: F) -> F:
    """A leaf for what is called seldom: not inlined, so that what it is called from stays small."""
    return _inner(function, _nrt=False)


def inline(function: F) -> F:
    """A piece of one kernel, written as a function of its own to be read: it is copied into its caller before
    that is compiled, and so costs no compilation of its own.
    """
    options: dict[str, Any] = {"nogil": True, "inline": "always", "_nrt": False}
    compiled: Any = njit(**options)(function)
    made: F = compiled
    return made


@leaf
def zero() -> int:
    """0 that may change: what is called with a literal is compiled for that alone, and again for numbers."""
    return int(np.int64(0))


class _FirstCompilation(event.Listener):
    def __init__(self, say: Callable[[], None]) -> None:
        self.say: Callable[[], None] | None = say

    def on_start(self, event: Any) -> None:
        say, self.say = self.say, None
        if say is not None:
            say()

    def on_end(self, event: Any) -> None:
        pass


def on_compile(say: Callable[[], None]) -> None:
    """Calls `say` before the first kernel that this process has to compile, if it has to compile any."""
    event.register("numba:compile", _FirstCompilation(say))
