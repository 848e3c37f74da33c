"""What became of clusters from one window to the next, by the table in docs/decisions/cluster-changes.md."""

from __future__ import annotations

from typing import Any

Member = tuple[int, str]  # cluster, role
Row = dict[str, Any]


def changes(
    past: dict[int, Member], found: dict[int, Member], next_number: int
) -> tuple[list[Row], dict[int, Member], int]:
    """(rows by cluster and arrival, the members with their lasting numbers, the next new number).

    `past` has lasting numbers, `found` has the numbers of this window by itself.
    """
    olds = sorted({cluster for cluster, _ in past.values()})
    nows = sorted({cluster for cluster, _ in found.values()})
    shared = {(old, now): _common_cores(past, found, old, now) for old in olds for now in nows}
    related = {pair for pair, count in shared.items() if count}
    heir = {}
    for old in olds:
        heirs = [now for now in nows if (old, now) in related]
        if heirs:
            heir[old] = max(heirs, key=lambda now: (shared[old, now], -now))
    lasting = {}
    for now in nows:
        claims = [old for old in olds if heir.get(old) == now]
        if claims:
            lasting[now] = min(claims)
        else:
            lasting[now] = next_number
            next_number += 1
    present = {number: (lasting[cluster], role) for number, (cluster, role) in found.items()}
    kin = {(old, lasting[now]) for old, now in related}
    alive = set(lasting.values())
    rows = []
    for cluster in sorted({*olds, *alive}):
        for number in sorted({*past, *present}):
            before, after = past.get(number), present.get(number)
            was = before is not None and before[0] == cluster
            is_now = after is not None and after[0] == cluster
            if (not was and not is_now) or (was and is_now and before == after):
                continue
            other = None
            if is_now and not was and before is not None:
                other = before[0]
            if was and not is_now and after is not None:
                other = after[0]
            rows.append(
                {
                    "cluster": cluster,
                    "change": _change(cluster, before, after, was, is_now, olds, alive, kin),
                    "id": number,
                    "role": after[1] if is_now and after is not None else None,
                    "other": other,
                }
            )
    return rows, present, next_number


def _common_cores(past: dict[int, Member], found: dict[int, Member], old: int, now: int) -> int:
    return sum(1 for number in past if past[number] == (old, "core") and found.get(number) == (now, "core"))


def _change(
    cluster: int,
    before: Member | None,
    after: Member | None,
    was: bool,
    is_now: bool,
    olds: list[int],
    alive: set[int],
    kin: set[tuple[int, int]],
) -> str:
    if cluster not in olds:
        return "split" if any((old, cluster) in kin for old in olds) else "birth"
    if cluster not in alive:
        return "union" if any((cluster, now) in kin for now in alive) else "death"
    if was and is_now:
        assert after is not None
        return "expansion" if after[1] == "core" else "shrinking"
    if is_now:
        united = before is not None and before[0] not in alive and (before[0], cluster) in kin
        return "union" if united else "expansion"
    split = after is not None and after[0] not in olds and (cluster, after[0]) in kin
    return "split" if split else "shrinking"
