"""How groups are kept in the state of a zone.

    g/<group>/queries         for each query: the position it begins at, its next window, its next new
                              cluster; and the next position
    g/<group>/points/<n>      points that a window can still hold, 4096 positions a chunk
    g/<group>/past/<query>    the members of the last window of a query with EMIT CHANGES
    g/<group>/area            where the group is split: the table of splits
    g/<group>/waiting         there, at home: windows that wait for what the parts know of them

All else follows from these: see `structure`. A group whose last query has ended while windows wait is kept as
<group>~ until the next batch.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.families.clusters.areas import Area
from anabranch.families.clusters.changes import Past
from anabranch.families.clusters.group import Group, Moment
from anabranch.families.clusters.points import Points
from anabranch.families.clusters.spec import Clusters
from anabranch.families.clusters.window import Standing, exact
from anabranch.model.stream import Stream, Time
from anabranch.zones import queries
from anabranch.zones.state import State

#: Behind the key of a group without queries.
CLOSING = "~"

Groups = dict[str, Group]
Progress = Sequence[int]  # number of a query, the position it begins at, its next window, its next cluster


def spec_of(stream: Stream, spec: dict[str, Any]) -> Clusters:
    bound = Clusters.from_json(spec)
    return replace(bound, window=exact(bound.window, stream))


def standing(stream: Stream, asked: Sequence[queries.Active], progress: Sequence[Progress]) -> list[Standing]:
    """Queries as they stand, in the order of `asked`."""
    of = {number: rest for number, *rest in progress}
    return [Standing(q.number, q.name, spec_of(stream, q.spec), q.since, *of[q.number]) for q in asked]


def progress_of(group: Group) -> list[list[int]]:
    return [[q.number, q.base, q.index, q.fresh] for q in group.queries.values()]


def load(
    state: State, zone: int, stream: Stream, key_of: Callable[[Clusters], str], origin: Time | None
) -> Groups:
    """The groups of a zone; `key_of` gives the key of a query's group."""
    members: dict[str, list[queries.Active]] = defaultdict(list)
    for query in queries.active(state).values():
        members[key_of(spec_of(stream, query.spec))].append(query)
    keys = {key.split("/")[1] for key in state.keys("g/")}
    members |= {key: [] for key in sorted(keys) if key.endswith(CLOSING)}
    return {key: _load_group(state, zone, stream, key, members[key], origin) for key in members}


def _load_group(
    state: State, zone: int, stream: Stream, key: str, asked: list[queries.Active], origin: Time | None
) -> Group:
    held = state.get(f"g/{key}/queries")
    assert held is not None
    area, body = _load_json(state, f"g/{key}/area"), _load_json(state, f"g/{key}/waiting")
    columns = zip(*(held[name].tolist() for name in ("number", "base", "index", "fresh")), strict=True)
    here = standing(stream, asked, list(columns))
    left = [
        Standing(number, name, spec_of(stream, spec), *rest)
        for number, name, spec, *rest in (body["left"] if body else ())
    ]
    spec = (here or left)[0].spec
    points = Points(stream, spec.by, spec.condition)
    points.load(state, f"g/{key}/points/", int(held["stop"][0]))
    group = Group(stream, points, origin, Area.from_json(area, zone) if area else None)
    group.restore(here, _load_past(state, key))
    if body:
        of = {query.number: query for query in (*here, *left)}
        group.waiting = [
            Moment([(of[number], *window) for number, *window in windows], stop)
            for stop, windows in body["moments"]
        ]
    return group


def save(state: State, groups: Groups) -> None:
    for key in {key.split("/")[1] for key in state.keys("g/")} - groups.keys():
        for chunk in state.keys(f"g/{key}/"):
            state.drop(chunk)
    for key, group in groups.items():
        columns = np.array(progress_of(group), np.int64).reshape(-1, 4).T
        arrays = dict(zip(("number", "base", "index", "fresh"), columns, strict=True))
        arrays["stop"] = np.array([group.points.stop], np.int64)
        held = state.get(f"g/{key}/queries")
        if held is None or any(not np.array_equal(held[name], array) for name, array in arrays.items()):
            state.put(f"g/{key}/queries", arrays)
        group.points.drop_before(group.kept)
        group.points.save(state, f"g/{key}/points/")
        _save_past(state, key, group)
        _save_json(state, f"g/{key}/area", group.area.to_json() if group.area else None)
        _save_json(state, f"g/{key}/waiting", _waiting(group) if group.waiting else None)


def _waiting(group: Group) -> dict[str, Any]:
    """The windows that wait, and those of their queries that have ended meanwhile."""
    moments = [
        [moment.stop, [[query.number, *rest] for query, *rest in moment.windows]] for moment in group.waiting
    ]
    asked = {query.number: query for moment in group.waiting for query, *_ in moment.windows}
    left = [
        [q.number, q.name, q.spec.to_json(), q.since, q.base, q.index, q.fresh]
        for q in asked.values()
        if q.number not in group.queries
    ]
    return {"moments": moments, "left": left}


def _load_json(state: State, key: str) -> Any:
    held = state.get(key)
    return json.loads(bytes(held["json"])) if held is not None else None


def _save_json(state: State, key: str, value: Any) -> None:
    if value is None:
        state.drop(key)
        return
    body, held = json.dumps(value).encode(), state.get(key)
    if held is None or bytes(held["json"]) != body:
        state.put(key, {"json": np.frombuffer(body, np.uint8)})


def _load_past(state: State, key: str) -> dict[int, Past]:
    prefix = f"g/{key}/past/"
    past = {}
    for chunk in state.keys(prefix):
        rows = state.rows(chunk)
        assert rows is not None
        position, cluster, role = (rows.column(name).to_numpy() for name in ("position", "cluster", "role"))
        past[int(chunk.removeprefix(prefix))] = Past(position, cluster, role, rows.column("id"))
    return past


def _save_past(state: State, key: str, group: Group) -> None:
    prefix = f"g/{key}/past/"
    for chunk in state.keys(prefix):
        if int(chunk.removeprefix(prefix)) not in group.past:
            state.drop(chunk)
    for number in sorted(group.changed):
        past = group.past[number]
        columns = {"position": past.positions, "cluster": past.clusters, "role": past.roles, "id": past.ids}
        state.put(f"{prefix}{number}", pa.record_batch(columns))
    group.changed.clear()
