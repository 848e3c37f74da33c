"""Who is divided, and where it is cut."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.chain.balance import MOST, Division, Patience, cut, division, note_work
from anabranch.chain.state import State

CALM = Patience(batches=3, hot=1.5, least=100)


def test_the_hot_zone_is_divided() -> None:
    found = division({0: 300, 1: 100, 2: 100}, 3, 0, CALM)
    assert found == Division(0, 1, pytest.approx(1 / 3))
    assert division({0: 300, 2: 100}, 3, 0, CALM) == Division(0, 1, 0.5)  # who says nothing had no work


def test_who_is_left_alone() -> None:
    assert division({0: 100, 1: 100, 2: 100}, 3, 0, CALM) is None
    assert division({0: 90}, 3, 0, CALM) is None  # too little to matter
    assert division({0: 300, 1: 100, 2: 100}, 3, MOST, CALM) is None


def test_work_is_told_now_and_then() -> None:
    state = State()
    assert [note_work(state, CALM, work) for work in (1, 2, 3, 0, 5, 0)] == [0, 0, 6, 0, 0, 5]


def test_cuts() -> None:
    line, dot = np.arange(100.0), np.zeros(100)
    assert cut([line, dot], 0.25) == (0, 75.0)
    assert cut([dot, line], 0.25) == (1, 75.0)
    assert cut([np.ones(5), np.ones(5)], 0.5) is None
    assert cut([np.array([1.0, 1.0, 2.0]), np.ones(3)], 0.5) == (0, 2.0)
    assert cut([np.array([0.0, 9.0, 9.0, 9.0]), np.arange(4.0)], 0.5) == (1, 2.0)  # not between equal ones
    assert cut([np.empty(0), np.empty(0)], 0.5) is None
