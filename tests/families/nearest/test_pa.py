"""PA's criterion beside plain probability, and its error and memory beside the exact results."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from anabranch.chain.runner import Runner
from anabranch.families.nearest import query_groups
from anabranch.families.nearest.query_groups import candidate_limits, chance, missed, paces
from anabranch.families.registry import family
from anabranch.simulate.dzalaps.workload import Workload, uniform
from tests.oracles.skyband import skyband

Reports = set[tuple[str, int]]


def run(
    work: Workload, k: int, window: int, method: str, sigma: float | None = None
) -> tuple[Reports, float]:
    """(subscription, item) of all that was ever reported, and the candidates per query at the end."""
    runner = Runner(work.stream, family("nearest"))
    for first in range(0, len(work.items), 500):
        control = work.activations(k, window, method, sigma) if first == 0 else ()
        runner.batch(work.rows(first, first + 500), control)
    reports = set()
    for parts in runner.tables["nearest"].values():
        for rows in parts:
            plus = rows.filter(rows.column("op").cast("string").to_numpy(zero_copy_only=False) == "+")
            reports.update(zip(plus["subscription"].to_pylist(), plus["id"].to_pylist(), strict=True))
    state = runner.state(2, 0)
    total = sum(len((state.get(key) or {})["number"]) for key in state.keys(query_groups.CANDIDATES))
    return reports, total / len(work.queries)


def walked(rank: int, k: int) -> Fraction:
    """Toss by toss: a head lets one of the rank - 1 closer older items go, a tail brings a new closer one.
    The item is among the k nearest once fewer than k are closer, and it leaves after all of the older ones.
    """
    alive = {(rank - 1, 0): Fraction(1)}  # (older ones left, new ones) -> probability
    reached = Fraction(0)
    while alive:
        after: dict[tuple[int, int], Fraction] = {}
        for (older, new), weight in alive.items():
            if older + new < k:
                reached += weight
            elif older and new < k:  # with k new ones it never comes back
                for step in ((older - 1, new), (older, new + 1)):
                    after[step] = after.get(step, Fraction(0)) + weight / 2
        alive = after
    return reached


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
def test_the_chance_is_that_of_the_walk(k: int) -> None:
    for rank in range(1, 25):
        assert chance(rank, k) == pytest.approx(float(walked(rank, k)), rel=1e-9)


def test_the_chance_is_that_of_a_random_stream() -> None:
    """Items of random rank in windows of 200: how often does one of rank r come to be among the 3 nearest?"""
    window, k = 200, 3
    far = np.random.default_rng(5).random(40 * window)
    came = dict.fromkeys((4, 5, 6, 8), (0, 0))
    for item in range(window, len(far) - window):
        rank = int((far[item - window : item] < far[item]).sum()) + 1
        if rank not in came:
            continue
        closer = far[item - window : item + window] < far[item]
        sums = np.r_[0, np.cumsum(closer)]
        ever = bool((sums[window + 1 :] - sums[1 : window + 1] < k).any())  # after each arrival of its life
        came[rank] = (came[rank][0] + 1, came[rank][1] + ever)
    for rank, (all_of_them, those) in came.items():
        expected = chance(rank, k)
        tolerance = 4 * (expected * (1 - expected) * 2 / all_of_them) ** 0.5  # neighbours are not independent
        assert those / all_of_them == pytest.approx(expected, abs=tolerance), rank


@pytest.mark.parametrize("sigma", [1e-2, 1e-3, 1e-4])
def test_the_limit_is_the_least_that_holds(sigma: float) -> None:
    for k, limit in enumerate(candidate_limits(40, sigma), start=1):
        assert chance(limit + 1, k) <= sigma < chance(limit, k)


@pytest.mark.parametrize(("k", "pace"), [(1, 5), (3, 8)])
def test_a_radius_misses_as_much_as_it_should(k: int, pace: int) -> None:
    """A radius within which 8 windows brought 8 * pace items: who is reported beyond it in the next one?"""
    window, reports, beyond = 100, 0, 0
    rng = np.random.default_rng(k)
    for _ in range(600):
        far = rng.random(10 * window)
        radius = np.sort(far[: 8 * window])[8 * pace - 1]
        nearest = [
            first + np.argpartition(far[first : first + window], k - 1)[:k]
            for first in range(8 * window, 9 * window + 1)
        ]
        new = np.setdiff1d(np.concatenate(nearest[1:]), nearest[0])
        reports += len(new)
        beyond += int((far[new] > radius).sum())
    assert beyond > 20
    assert beyond / reports == pytest.approx(missed(pace, k), rel=0.4)


@pytest.mark.parametrize("sigma", [1e-2, 1e-3, 1e-4])
def test_the_paces_are_the_least_that_hold(sigma: float) -> None:
    for k in (1, 2, 3, 9, 27, 81, 1000):
        band = paces(k, sigma)
        assert k < band.target
        assert band.least <= band.target <= band.most
        assert missed(band.most, k) <= sigma / 2 <= missed(band.least - 2, k)


@pytest.mark.parametrize("k", [1, 3, 27])
@pytest.mark.slow
def test_errors_stay_below_sigma_in_random_order(k: int) -> None:
    work = uniform(30_000, 100, seed=k)
    exact, _ = run(work, k, 3000, "RAPF")
    for sigma in (1e-2, 1e-3, 1e-4):
        found, _ = run(work, k, 3000, "PA", sigma)
        assert len(found ^ exact) <= sigma * len(exact), sigma


@pytest.mark.parametrize("k", [3, 27])
@pytest.mark.slow
def test_candidates_in_memory(k: int) -> None:
    """Besides the k nearest: RA within 1.3 of the true k-skyband, PA below a fifth of it."""
    window = 20_000
    work = uniform(50_000, 20, seed=1)
    true = (
        sum(skyband(work, query, k, len(work.items) - window, len(work.items)) for query in range(20)) / 20
        - k
    )
    _, count = run(work, k, window, "RA")
    assert true <= count - k <= 1.3 * true
    _, count = run(work, k, window, "PA", 1e-3)
    assert 0 < count - k <= true / 5


def test_a_pa_query_with_few_items_is_exact() -> None:
    work = uniform(120, 10, seed=2)
    assert run(work, 5, 20, "PA", 1e-3)[0] == run(work, 5, 20, "RAPF")[0]
