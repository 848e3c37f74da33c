"""Compiles the kernels of a family ahead, by running tiny streams through its stages.

    python -m anabranch.families.warm_up              # all families, on all cores
    python -m anabranch.families.warm_up moving       # one

Kernels are compiled when they are first called, which takes up to half a minute per family, and kept on disk
for later processes. A rehearsal calls them as a job would, with the types of arrays that jobs have, so that
no batch has to wait for the compiler afterwards.

Where several processes want the kernels of a family at the same time, one compiles them and the others wait.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain.items import arrow_schema
from anabranch.chain.runner import Runner
from anabranch.families.base import Family
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate, Cancel, Control, End, Rebalance
from anabranch.model.stream import MICROSECONDS, Stream
from anabranch.model.window import Window
from anabranch.predicates.terms import TRUE, And, Constant, Difference, Op, Or, Term

_ITEMS = 60  # per batch
_COLUMNS = {
    "o": ColumnType.STRING,
    "x": ColumnType.FLOAT,
    "y": ColumnType.FLOAT,
    "n": ColumnType.INT,
    "ok": ColumnType.BOOL,
}


@dataclass(frozen=True)
class Rehearsal:
    """A tiny stream and the queries that are asked of it."""

    family: Family
    stream: Stream
    specs: Sequence[dict[str, Any]]
    zones: int = 1

    def run(self) -> None:
        """Queries come and go; the runner stops and goes on from its state; the stream ends."""
        early = [Activate(number, f"q{number}", spec) for number, spec in enumerate(self.specs)]
        late = [replace(each, number=each.number + len(early), name=f"late {each.name}") for each in early]
        controls: list[list[Control]] = [[*early], [*late], [], [], []]
        controls[2] = [Cancel(0), Rebalance()]
        controls[3] = [Cancel(each.number) for each in (*early[1::2], *late[1::2])]
        runner = Runner(self.stream, self.family, self.zones)
        for number, control in enumerate(controls):
            runner.batch(_items(self.stream, number), control)
            resumed = Runner(self.stream, self.family, self.zones)
            resumed.resume(runner.stopped())
            runner = resumed
        runner.batch(None, [End()])
        runner.settle()


def _stream(time: ColumnType, **settings: Any) -> Stream:
    columns = (Column("t", time), *(Column(name, kind) for name, kind in _COLUMNS.items()))
    bounds = ((0.0, 1.0), (0.0, 1.0))
    return Stream("s", columns, time="t", object="o", position=("x", "y"), bounds=bounds, **settings)


def _items(stream: Stream, batch: int) -> pa.RecordBatch:
    """Items of one second each, ascending in time; one value in ten is missing."""
    random = np.random.default_rng(batch)
    unit = MICROSECONDS if stream.time_type is ColumnType.TIMESTAMP else 1
    columns = {
        "t": (np.arange(_ITEMS) + batch * _ITEMS) * unit,
        "o": np.array([f"object {number % 11}" for number in range(_ITEMS)], object),
        "x": random.random(_ITEMS).round(2),
        "y": random.random(_ITEMS).round(2),
        "n": random.integers(0, 9, _ITEMS),
        "ok": random.random(_ITEMS) < 0.5,
    }
    schema = arrow_schema(stream)
    missing = {name: random.random(_ITEMS) < (0.1 if name != "t" else 0.0) for name in columns}
    arrays = [pa.array(columns[field.name], mask=missing[field.name]).cast(field.type) for field in schema]
    return pa.record_batch(arrays, schema=schema)


# what each family rehearses


def _filters() -> Iterator[Rehearsal]:
    from anabranch.chain.budget import Budget
    from anabranch.families.filters.family import Filters
    from anabranch.families.filters.spec import Aggregate, Aggregation, Function, Output, Select

    conditions: list[Term] = [
        TRUE,
        Constant("x", Op.GE, 0.3),
        And((Constant("x", Op.GE, 0.3), Constant("n", Op.LT, 5), Difference("x", Op.LE, "y", 0.2))),
        Or((Constant("o", Op.EQ, "object 1"), Constant("o", Op.LT, "object 3"), Constant("ok", Op.NE, True))),
        Or((Constant("n", Op.EQ, 3), Constant("y", Op.LT, 0.2))),
    ]
    boxes = [  # so many that they are worth an index
        And((Constant("x", Op.GE, low), Constant("x", Op.LT, low + 0.1), Constant("y", Op.GE, low)))
        for low in (number / 40 for number in range(40))
    ]
    outputs = tuple(Output(name, name) for name in ("t", *_COLUMNS))
    aggregations = tuple(
        Aggregation(function, column, f"{function.value} {column}")
        for function in Function
        for column in (("n", "x") if function is not Function.COUNT else (None, "x", "o"))
    )
    for time in (ColumnType.INT, ColumnType.FLOAT, ColumnType.TIMESTAMP):
        stream = _stream(time)
        windows = [Window("rows", 9, 4), Window("range", 8 * stream.time_unit, 3 * stream.time_unit)]
        specs = [Select(outputs, condition).to_json() for condition in (*conditions, *boxes)]
        for window, some in zip(windows, (conditions[:3], conditions[3:]), strict=True):
            specs += [Aggregate(aggregations, window, condition).to_json() for condition in some]
        yield Rehearsal(Filters(), stream, specs)
    counted = Filters(least=8, budget=Budget(base=0))  # so that windows are counted before they are composed
    yield Rehearsal(counted, _stream(ColumnType.INT, lateness=3), specs, zones=2)


def _nearest() -> Iterator[Rehearsal]:
    from anabranch.chain.balance import HURRY
    from anabranch.families.nearest.family import NearestFamily
    from anabranch.families.nearest.spec import Nearest

    for time in (ColumnType.INT, ColumnType.FLOAT):
        specs = [
            Nearest(k, point, by, window, condition, method, 0.01 if method == "PA" else None).to_json()
            for k, condition in ((1, TRUE), (3, Constant("n", Op.GE, 2)))
            for by, point in ((("x", "y"), (0.4, 0.5)), (("n",), (3.0,)))
            for window in (Window("rows", 40, 40), Window("range", 50, 50))
            for method in ("RAPF", "RA", "PA")
        ]
        yield Rehearsal(NearestFamily(), _stream(time), specs)
    long = [Nearest(3, (x / 9, 0.5), ("x", "y"), Window("range", 900, 900)).to_json() for x in range(9)]
    yield Rehearsal(NearestFamily(HURRY), _stream(ColumnType.INT), long * 20, zones=2)
    yield Rehearsal(NearestFamily(), _stream(ColumnType.INT, metric="haversine"), specs[:1])


def _clusters() -> Iterator[Rehearsal]:
    from anabranch.chain.balance import HURRY
    from anabranch.families.clusters.family import ClustersFamily
    from anabranch.families.clusters.spec import Clusters, Emit

    specs = [
        Clusters(within, count, by, window, emit=emit).to_json()
        for by in (("x", "y"), ("x",), ("x", "y", "n"))
        for within, count in ((0.1, 2), (0.3, 4), (0.0, 1))
        for window in (Window("rows", 40, 20), Window("range", 30, 10))
        for emit in Emit
    ]
    yield Rehearsal(ClustersFamily(), _stream(ColumnType.INT), specs)
    yield Rehearsal(ClustersFamily(HURRY), _stream(ColumnType.INT), specs, zones=2)
    yield Rehearsal(ClustersFamily(), _stream(ColumnType.INT, metric="haversine"), specs[:3])


def _moving() -> Iterator[Rehearsal]:
    from anabranch.chain.balance import HURRY
    from anabranch.families.moving.family import MovingFamily
    from anabranch.families.moving.spec import Box, Circle, KNearest, Moving

    values = (None, "count", "min(x)", "max(y)")
    specs = [
        Moving(shape, focal, condition, value).to_json()
        for shape in (Circle(0.3), Box(0.4, 0.2), KNearest(2))
        for focal in ("object 1", (0.5, 0.5))
        for value in (values if not isinstance(shape, KNearest) else values[:1])
        for condition in (TRUE, Constant("n", Op.GE, 2))
    ]
    for metric in ("euclidean", "haversine"):
        yield Rehearsal(MovingFamily(), _stream(ColumnType.INT, metric=metric), specs)
    yield Rehearsal(MovingFamily(), _stream(ColumnType.FLOAT, expire=20.0, lateness=2), specs)
    yield Rehearsal(MovingFamily(HURRY), _stream(ColumnType.INT), specs, zones=3)


#: Families by name, in the order in which they are compiled: what most jobs need comes first.
REHEARSALS: dict[str, Callable[[], Iterator[Rehearsal]]] = {
    "filters": _filters,
    "nearest": _nearest,
    "moving": _moving,
    "clusters": _clusters,
}


# who compiles, and who waits


def warm_up(name: str) -> None:
    """Calls all kernels of a family once in this process; what is not on disk yet is compiled first."""
    ready(name)
    _rehearse(name)


@cache
def ready(name: str) -> None:
    """Returns when the kernels of a family are on disk: one process compiles them, others wait for it.
    Loading them is left to their first calls.
    """
    if name not in REHEARSALS or is_warm(name):
        return
    with _alone(name):
        if is_warm(name):
            return
        _forget_compiled(name)
        _rehearse(name)
        for old in _folder().glob(f"{name}-*.warm"):
            old.unlink(missing_ok=True)
        _mark(name).touch()


def _forget_compiled(name: str) -> None:
    """numba compiles a kernel again when its own file has changed, but not when a function that is inlined
    into it has: so all kernels of a family whose sources have changed are compiled again.
    """
    for index in (Path(__file__).parent / name / "kernels" / "__pycache__").glob("*.nbi"):
        index.unlink(missing_ok=True)


def _rehearse(name: str) -> None:
    for rehearsal in REHEARSALS[name]():
        rehearsal.run()


def is_warm(name: str) -> bool:
    return _mark(name).exists()


#: The families that this process has had compiled.
_started: set[str] = set()


def start_compiling(names: Iterable[str]) -> list[str]:
    """Starts to compile what is not on disk yet, and returns the names of these families. It may be called
    again and again. One family is compiled after the other: Spark starts meanwhile, and the first is there
    sooner.
    """
    wanted = set(names) - _started
    cold = [name for name in REHEARSALS if name in wanted and not is_warm(name)]
    if cold:
        _started.update(cold)
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, "--processes", "1", *cold], stdout=subprocess.DEVNULL
        )
        threading.Thread(target=process.wait, daemon=True).start()
    return cold


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Only one process compiles a family's kernels; the others find them on disk afterwards."""
    with (_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def _mark(name: str) -> Path:
    """A file that is there when the kernels of a family, as their sources are now, have been compiled."""
    package = Path(__file__).parent
    sources = [*(package / name / "kernels").glob("*.py"), *(package.parent / "numeric").glob("*.py")]
    facts = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(sources)]
    return _folder() / f"{name}-{hashlib.blake2b(repr(facts).encode(), digest_size=8).hexdigest()}.warm"


@cache
def _folder() -> Path:
    """Beside the compiled kernels, which numba keeps below the sources, or in NUMBA_CACHE_DIR, or where the
    sources cannot be written in the user's folder of caches.
    """
    beside = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent / "__pycache__")
    try:
        beside.mkdir(parents=True, exist_ok=True)
        if os.access(beside, os.W_OK):
            return beside
    except OSError:
        pass
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "anabranch"
    home.mkdir(parents=True, exist_ok=True)
    return home


def main() -> None:
    parser = argparse.ArgumentParser(description="Compiles the kernels of families ahead.")
    parser.add_argument("names", nargs="*", metavar="FAMILY", help=f"some of {', '.join(REHEARSALS)}")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="at most so many")
    given = parser.parse_args()
    if unknown := set(given.names) - set(REHEARSALS):
        parser.error(f"unknown family {sorted(unknown)[0]!r}; there are {', '.join(REHEARSALS)}")
    with ProcessPoolExecutor(min(len(given.names or REHEARSALS), given.processes)) as pool:
        list(pool.map(ready, given.names or REHEARSALS))


if __name__ == "__main__":
    main()
