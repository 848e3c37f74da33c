"""EMIT CHANGES: each kind of change by hand, then busy streams against the oracle."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from anabranch.families.clusters.spec import Clusters, Emit
from tests.families.clusters.runs import line_items, line_stream, query, results_of, rows
from tests.laws.case import Asked, Case, Row, run_local
from tests.oracles.clusters import clusters_oracle

Changes = list[tuple[int, str, int, str | None, int | None]]


def _changes(xs: list[float], size: int, step: int, count: int = 1) -> dict[int, Changes]:
    """By the first row of the window: (cluster, change, id, role, other). Points on a line, range 1."""
    stream = line_stream()
    items = line_items(stream, list(range(len(xs))), list(xs))
    out: dict[int, Changes] = {}
    for row in results_of(stream, items, query(rows(size, step), count=count, emit=Emit.CHANGES)):
        line = (row["cluster"], row["change"], row["id"], row["role"], row["other"])
        out.setdefault(row["window_start"], []).append(line)
    return out


def test_birth_and_death() -> None:
    assert _changes([0, 1, 50, 60], 2, 2) == {
        0: [(1, "birth", 0, "core", None), (1, "birth", 1, "core", None)],
        2: [(1, "death", 0, None, None), (1, "death", 1, None, None)],
    }


def test_expansion_and_shrinking() -> None:
    """Window [0, 4): 0 1 1.5 and noise; [1, 5): 0 leaves and 2 comes."""
    assert _changes([0, 1, 1.5, 50, 2], 4, 1)[1] == [
        (1, "shrinking", 0, None, None),
        (1, "expansion", 4, "core", None),
    ]


def test_roles_that_change() -> None:
    """With count 2, the ends of a row of three are edges; a fourth point makes one of them core."""
    changes = _changes([50, 0, 1, 2, 3], 4, 1, count=2)
    assert changes[0] == [
        (1, "birth", 1, "edge", None),
        (1, "birth", 2, "core", None),
        (1, "birth", 3, "edge", None),
    ]
    assert changes[1] == [(1, "expansion", 3, "core", None), (1, "expansion", 4, "edge", None)]


def test_a_member_that_stops_being_core_shrinks_the_cluster() -> None:
    changes = _changes([0, 1, 2, 3, 50], 4, 1, count=2)
    assert changes[1] == [(1, "shrinking", 0, None, None), (1, "shrinking", 1, "edge", None)]


def test_union_keeps_the_lower_number() -> None:
    """Two pairs, and a point that joins them: the second cluster ends in the first."""
    changes = _changes([50, 0, 1, 3, 4, 2], 5, 1)
    assert changes[0] == [
        (1, "birth", 1, "core", None),
        (1, "birth", 2, "core", None),
        (2, "birth", 3, "core", None),
        (2, "birth", 4, "core", None),
    ]
    assert changes[1] == [
        (1, "union", 3, "core", 2),
        (1, "union", 4, "core", 2),
        (1, "expansion", 5, "core", None),
        (2, "union", 3, None, 1),
        (2, "union", 4, None, 1),
    ]


def test_split_gives_the_smaller_part_a_new_number() -> None:
    """The point in the middle leaves: three on the right stay cluster 1, two on the left become cluster 2."""
    changes = _changes([2, 0, 1, 3, 4, 5, 90], 6, 1)
    assert changes[1] == [
        (1, "shrinking", 0, None, None),
        (1, "split", 1, None, 2),
        (1, "split", 2, None, 2),
        (2, "split", 1, "core", 1),
        (2, "split", 2, "core", 1),
    ]


def test_equal_parts_of_a_split_the_one_with_the_earlier_member_goes_on() -> None:
    changes = _changes([2, 3, 4, 0, 1, 90], 5, 1)
    assert [line for line in changes[1] if line[0] == 2] == [
        (2, "split", 3, "core", 1),
        (2, "split", 4, "core", 1),
    ]


def test_numbers_are_not_used_again() -> None:
    changes = _changes([0, 0, 50, 50, 0, 0], 2, 2)
    assert {line[0] for line in changes[4]} == {2, 3}


def _busy_case(seed: int) -> Case:
    """Points on few xs of a line: clusters meet and part all the time."""
    rng = np.random.default_rng(seed)
    stream = line_stream()
    xs = np.round(rng.random(150) * 30 + 5 * np.sin(np.arange(150) / 20)) / rng.choice([1, 2])
    items = line_items(stream, list(range(150)), xs.tolist())
    queries = []
    for number in range(4):
        window = rows(int(rng.integers(10, 40)), int(rng.integers(1, 6)))
        spec = Clusters(1.0, int(rng.integers(1, 4)), ("x",), window, emit=Emit.CHANGES)
        queries += [
            Asked(f"q{number}", spec.to_json()),
            Asked(f"m{number}", Clusters(1.0, spec.count, ("x",), window).to_json()),
        ]
    return Case(stream, items, tuple(queries), "clusters")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.slow
def test_busy_streams_match_the_oracle(seed: int) -> None:
    case = _busy_case(seed)
    expected = clusters_oracle(case)
    assert run_local(case).results == expected
    disturbed = run_local(case, cuts=list(range(0, 150, 7 + seed)), zones=3, stops=[1, 4, 9])
    assert disturbed.results == expected
    kinds = Counter(row["change"] for name in expected if name[0] == "q" for row in expected[name])
    assert set(kinds) == {"birth", "expansion", "shrinking", "union", "split", "death"}


@pytest.mark.parametrize("seed", range(6))
def test_changes_applied_in_order_give_the_members(seed: int) -> None:
    results = run_local(_busy_case(seed)).results
    for number in range(4):
        members = _members_by_window(results[f"m{number}"])
        state: dict[int, dict[int, str]] = {}
        changes: dict[int, list[Row]] = {}
        for row in results[f"q{number}"]:
            changes.setdefault(row["window_start"], []).append(row)
        for start in sorted({*members, *changes}):
            for row in changes.get(start, []):
                members_now = state.setdefault(row["cluster"], {})
                if row["role"] is None:
                    del members_now[row["id"]]
                else:
                    members_now[row["id"]] = row["role"]
            state = {cluster: members_now for cluster, members_now in state.items() if members_now}
            assert sorted(map(sorted, map(dict.items, state.values()))) == members.get(start, [])


def _members_by_window(found: list[Row]) -> dict[int, list[list[tuple[int, str]]]]:
    windows: dict[int, dict[int, list[tuple[int, str]]]] = {}
    for row in found:
        clusters = windows.setdefault(row["window_start"], {})
        clusters.setdefault(row["cluster"], []).append((row["id"], row["role"]))
    return {start: sorted(map(sorted, clusters.values())) for start, clusters in windows.items()}
