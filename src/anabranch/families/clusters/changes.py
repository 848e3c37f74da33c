"""EMIT CHANGES: what became of each cluster since the window before (docs/decisions/cluster-changes.md).

The members of the last window that held points, with the numbers of their clusters, are compared with the
clusters of this one. There is one row for every member that joined a cluster, left it or changed its role in
it, and none for a member that stayed what it was.

A cluster A of the window before and a cluster B of this one are related if some point is a core of both.
- The heir of A is the related B with which it shares the most cores; among equals the one whose first member
  came earlier.
- B goes on under the least number among the clusters it is heir of. If there is none, B gets a new number.

| the cluster | a member | change |
|---|---|---|
| is new, related to none | is there | birth |
| is new, related to an earlier one | is there | split |
| goes on | came from a related cluster that ended | union |
| goes on | came from elsewhere, or turned from edge to core | expansion |
| goes on | went to a new cluster that is related | split |
| goes on | left in another way, or turned from core to edge | shrinking |
| ended, related to one of now | was there | union |
| ended, related to none | was there | death |

`role` is the role after the change, missing for a member that left. `other` is the cluster it came from or
went to. So the rows of a cluster, applied one window after the other, always give its members.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.families.clusters.kernels.point_roles import CORE, NOISE
from anabranch.families.clusters.structure import WindowClusters
from anabranch.model.arrays import Array, Bytes, Ints

CHANGES = ("birth", "expansion", "shrinking", "union", "split", "death")
BIRTH, EXPANSION, SHRINKING, UNION, SPLIT, DEATH = range(6)
_NONE = np.iinfo(np.int64).max


@dataclass(frozen=True)
class WindowMembers:
    """The members of a window, in order of arrival: positions, numbers of clusters, roles and ids."""

    positions: Ints
    clusters: Ints
    roles: Bytes
    ids: pa.Array

    def to_rows(self) -> pa.RecordBatch:
        names = ["position", "cluster", "role", "id"]
        return pa.record_batch([self.positions, self.clusters, self.roles, self.ids], names)

    @staticmethod
    def from_rows(rows: pa.RecordBatch) -> WindowMembers:
        position, cluster, role = (rows.column(name).to_numpy() for name in ("position", "cluster", "role"))
        return WindowMembers(position, cluster, role, rows.column("id"))


@dataclass(frozen=True)
class ChangedMembers:
    """Rows by cluster, then by arrival. `other` 0 is none, `roles` NOISE is none."""

    clusters: Ints
    changes: Array
    roles: Bytes
    others: Ints
    ids: pa.Array


@dataclass(frozen=True)
class _Kinship:
    """Who is related to whom. Clusters before are indexes in `olds`, those of this window count from 0."""

    olds: Array  # numbers of the clusters before, ascending
    numbers: Array  # number of each cluster of this window
    new: Array  # bool, a cluster of this window: its number is new
    ended: Array  # bool, a cluster before: its number is no longer there
    related: Array  # bool[before, now]
    parents: Array  # bool, a cluster before: related to one of this window
    children: Array  # bool, a cluster of this window: related to one before


def compare(
    past: WindowMembers | None, window: WindowClusters, ids: pa.Array, next_cluster: int
) -> tuple[ChangedMembers, WindowMembers, int]:
    """Returns (what changed, the members of this window, the number of the next new cluster).

    `ids` are those of the points of this window.
    """
    if past is None:
        past = WindowMembers(
            np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8), ids.slice(0, 0)
        )
    members = np.flatnonzero(window.clusters)
    positions = window.start + members
    local = window.clusters[members].astype(np.int64) - 1
    roles = window.roles[members]
    was = _indexes_in(past.positions, positions)  # of each member in the past, or -1
    now = _indexes_in(positions, past.positions)  # of each one of the past among the members, or -1
    kin = _kinship(past, local, roles, was, window.count, next_cluster)
    present = WindowMembers(positions, kin.numbers[local], roles, ids.take(pa.array(members)))
    staying = _of_members(past, present, local, was, kin)
    leaving = _of_leavers(past, present, local, now, kin)
    rows = [np.concatenate(pair) for pair in zip(staying, leaving, strict=True)]
    clusters, changes, after, others, arrivals, sources = rows
    order = np.lexsort((arrivals, clusters))
    sources[len(staying[0]) :] += len(present.ids)
    both = pa.concat_arrays([present.ids, past.ids]).take(pa.array(sources[order]))
    changed = ChangedMembers(clusters[order], changes[order], after[order], others[order], both)
    return changed, present, next_cluster + int(np.count_nonzero(kin.new))


def _chosen(otherwise: int, *cases: tuple[Array, int]) -> Array:
    """A code for each row: that of the last case that applies."""
    codes = np.full(len(cases[0][0]), otherwise, np.int8)
    for applies, code in cases:
        codes[applies] = code
    return codes


def _indexes_in(haystack: Array, needles: Array) -> Array:
    """The index of each needle in the ascending haystack, or -1."""
    if not len(haystack):
        return np.full(len(needles), -1, np.int64)
    indexes = np.minimum(np.searchsorted(haystack, needles), len(haystack) - 1)
    return np.where(haystack[indexes] == needles, indexes, -1)


def _kinship(
    past: WindowMembers, local: Array, roles: Array, was: Array, count: int, next_cluster: int
) -> _Kinship:
    olds = np.unique(past.clusters)
    shared = np.zeros((len(olds), count), np.int64)
    common = np.flatnonzero((was >= 0) & (roles == CORE))
    common = common[past.roles[was[common]] == CORE]
    np.add.at(shared, (np.searchsorted(olds, past.clusters[was[common]]), local[common]), 1)
    related = shared > 0
    parents, children = np.asarray(related.any(axis=1)), np.asarray(related.any(axis=0))
    numbers = np.full(count, _NONE)
    heirs = shared[parents].argmax(axis=1) if count else []  # the first of equals: the earlier first member
    np.minimum.at(numbers, heirs, olds[parents])
    new = numbers == _NONE
    numbers[new] = next_cluster + np.arange(np.count_nonzero(new))
    return _Kinship(olds, numbers, new, ~np.isin(olds, numbers), related, parents, children)


def _of_members(
    past: WindowMembers, present: WindowMembers, local: Array, was: Array, kin: _Kinship
) -> list[Array]:
    """(clusters, changes, roles, others, positions, indexes) of members that joined or changed their role."""
    before = was >= 0
    others = np.where(before, past.clusters[was] if len(past.clusters) else 0, 0)
    same = others == present.clusters
    old_roles = np.where(before, past.roles[was] if len(past.roles) else 0, NOISE)
    changed = np.flatnonzero(~same | (old_roles != present.roles))
    others, same, cluster = others[changed], same[changed], local[changed]
    old = np.searchsorted(kin.olds, others)
    united = np.zeros(len(changed), bool)
    moved = others > 0
    united[moved] = kin.ended[old[moved]] & kin.related[old[moved], cluster[moved]]
    grown = present.roles[changed] == CORE
    new, related = kin.new[cluster], kin.children[cluster]
    changes = _chosen(
        EXPANSION,
        (united, UNION),
        (new, BIRTH),
        (new & related, SPLIT),
        (same, SHRINKING),
        (same & grown, EXPANSION),
    )
    others = np.where(same, 0, others)
    return [
        present.clusters[changed],
        changes,
        present.roles[changed],
        others,
        present.positions[changed],
        changed,
    ]


def _of_leavers(
    past: WindowMembers, present: WindowMembers, local: Array, now: Array, kin: _Kinship
) -> list[Array]:
    """The same for the members of the past that are no longer in their cluster."""
    after = now >= 0
    others = np.where(after, present.clusters[now] if len(present.clusters) else 0, 0)
    left = np.flatnonzero(others != past.clusters)
    others, old = others[left], np.searchsorted(kin.olds, past.clusters[left])
    split = np.zeros(len(left), bool)
    moved = others > 0
    there = local[now[left[moved]]]
    split[moved] = kin.new[there] & kin.related[old[moved], there]
    ended = kin.ended[old]
    changes = _chosen(SHRINKING, (split, SPLIT), (ended, DEATH), (ended & kin.parents[old], UNION))
    roles = np.full(len(left), NOISE, np.uint8)
    return [past.clusters[left], changes, roles, others, past.positions[left], left]
