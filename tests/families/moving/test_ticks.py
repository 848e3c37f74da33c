"""Ticks are where origin + n * tick says, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.families.moving.servers import MOST_TICKS, Ticks, final_tick

_whole = st.tuples(st.integers(-50, 50), st.integers(1, 7))
_real = st.tuples(st.floats(-50, 50), st.sampled_from([0.1, 0.25, 0.3, 1.0, 1 / 3, 7.7]))


@given(_whole | _real, st.integers(0, 400) | st.floats(0, 400), st.sampled_from([0, 1, 2.5, 0.1]))
def test_first_ticks(settings: tuple, ahead: float, by: float) -> None:
    ticks = Ticks(*settings)
    time = ticks.origin + ahead
    at = [ticks.origin + n * ticks.tick for n in range(int((ahead + by) / ticks.tick) + 4)]
    times = np.array([time])
    assert ticks.first_at(times)[0] == next(n for n, moment in enumerate(at) if moment >= time)
    assert ticks.first_beyond(times, by)[0] == next(n for n, moment in enumerate(at) if moment - time > by)
    assert ticks.first_after(time) == next(n for n, moment in enumerate(at) if moment > time)
    assert ticks.last_before(time) == max((n for n, moment in enumerate(at) if moment <= time), default=-1)


def test_ticks_that_times_cannot_tell_apart() -> None:
    """Ticks far shorter than the least difference of two times are found by halving, not one by one."""
    ticks = Ticks(1e9, 1e-12)
    times = np.array([1e9, 1e9 + 1e-6, 1e9 + 5e4])
    found = ticks.first_at(times)
    assert (ticks.times(found) == times).all()
    assert (ticks.times(found[1:] - 1) < times[1:]).all()
    assert [ticks.first_after(time) for time in times] == [ticks.last_before(time) + 1 for time in times]
    assert Ticks(0, 1e-12).first_after(1e20) == MOST_TICKS


def test_before_the_origin() -> None:
    ticks = Ticks(10, 3)
    assert ticks.first_after(None) == 0
    assert ticks.first_after(4) == 0
    assert ticks.last_before(9) == -1


@pytest.mark.parametrize(
    ("time", "last", "ended", "final"),
    [
        (14, 14, False, 1),  # 10 and 13 are past; a report at 14 may come
        (13, 13, False, 0),  # a report at 13 may come
        (17, 14, False, 1),  # controls between 14 and the next item are not announced yet
        (13, 13, True, 1),  # the last item's tick, and no later one
        (12, 12, True, 0),
    ],
)
def test_final_ticks(time: int, last: int, ended: bool, final: int) -> None:
    progress = {"time": time, "last": last, "ended": ended, "origin": 10}
    assert final_tick(Ticks(10, 3), progress) == final
