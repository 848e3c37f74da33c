"""Measures how easy it is to find one's way in src: `python -m tools.house` prints a table.

- modules and lines of src, blank lines and comments included;
- modules with a single importer: is each a room of its own?
- names that several public classes have;
- the walk of one batch per kind of query, from route over order and the family's stages to deliver: the files
  whose functions run while a third batch passes through (kernels that Python calls included), and how often
  the package changes in the order in which the files are first met.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parents[1] / "src"
QUERIES = {
    "select": "SELECT x, t FROM s WHERE x > 0.2",
    "aggregate": "SELECT avg(x) AS a, count(*) AS n FROM s WHERE x > 0.2 WINDOW RANGE 4 STEP 2",
    "nearest": "SELECT NEAREST 3 TO (0.5, 0.5) BY (x, y) FROM s WINDOW RANGE 5",
    "clusters": "SELECT CLUSTERS WITHIN 0.1 MIN 3 BY (x, y) FROM s WINDOW RANGE 4 STEP 2",
    "moving": "SELECT OBJECTS WITHIN 0.4 OF OBJECT 'o1' FROM s",
}


def modules() -> dict[str, Path]:
    """The modules of src by their dotted names."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def importers(found: dict[str, Path]) -> dict[str, set[str]]:
    """Who imports each module."""
    users: dict[str, set[str]] = defaultdict(set)
    for name, path in found.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    users[whole if whole in found else node.module].add(name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    users[alias.name].add(name)
    return {module: users[module] - {module} for module in found}


def shared_class_names(found: dict[str, Path]) -> dict[str, int]:
    """Names of public classes that stand in several modules."""
    count: Counter[str] = Counter()
    for path in found.values():
        tree = ast.parse(path.read_text())
        count.update(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return {name: times for name, times in count.items() if times > 1 and not name.startswith("_")}


# the walk of a batch


class StoredValue:
    """What Spark gives an operator as value state."""

    def __init__(self) -> None:
        self.value: Any = None

    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = value


class StoredMap(dict[Any, Any]):
    """What Spark gives an operator as map state."""

    getValue = dict.__getitem__
    updateValue = dict.__setitem__
    removeKey = dict.__delitem__


@contextmanager
def files_met() -> Iterator[list[str]]:
    """The files of src whose functions run, in the order in which they are first met."""
    met: dict[str, None] = {}

    def call(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            met.setdefault(frame.f_code.co_filename)

    wrapped = list(_wrap_kernels(met))
    files: list[str] = []
    sys.setprofile(call)
    try:
        yield files
    finally:
        sys.setprofile(None)
        for module, name, kernel in wrapped:
            setattr(module, name, kernel)
        files += [str(Path(file).relative_to(ROOT / "anabranch")) for file in met]


def _wrap_kernels(met: dict[str, None]) -> Iterator[tuple[Any, str, Any]]:
    """A profiler does not see compiled kernels: those that Python can call say themselves that they were."""

    def wrap(kernel: Any) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            met.setdefault(kernel.py_func.__code__.co_filename)
            return kernel(*args)

        return called

    for module in [module for name, module in sys.modules.items() if name.startswith("anabranch.")]:
        for name, value in list(vars(module).items()):
            if hasattr(value, "py_func"):
                yield module, name, value
                setattr(module, name, wrap(value))


def walk(kind: str) -> list[str]:
    """The files that a batch of a query of this kind passes through on Spark, in order."""
    from anabranch.chain.control import control_packets
    from anabranch.chain.stages import CONTROL, MOST_DEPTHS, ROUTE, Chains
    from anabranch.families.registry import family as family_of
    from anabranch.language.bind import compile_query
    from anabranch.model.columns import Column, ColumnType
    from anabranch.model.control_log import Activate
    from anabranch.model.stream import Stream
    from anabranch.spark.deliver import Task
    from anabranch.spark.route import packed
    from anabranch.spark.rows import columns_of, frame, record_batch
    from anabranch.spark.stages import StageRunner

    columns = [("t", ColumnType.FLOAT), ("x", ColumnType.FLOAT), ("y", ColumnType.FLOAT)]
    columns.append(("o", ColumnType.STRING))
    stream = Stream(
        "s",
        tuple(Column(*column) for column in columns),
        time="t",
        position=("x", "y"),
        object="o",
        bounds=((0.0, 1.0), (0.0, 1.0)),
    )
    bound = compile_query(QUERIES[kind], {"s": stream})
    chains = Chains(stream, [family_of(bound.family)], 1)
    runner = StageRunner("walk", chains, range(MOST_DEPTHS + 1), 1, None, StoredValue(), StoredMap())

    def batch(number: int, controls: list[Any], folder: str) -> None:
        control = control_packets(controls) if controls else []
        packets = [((CONTROL, 0, count), packet) for count, packet in enumerate(control)]
        routed = packed(items(number), stream, 0, 0)
        packets += [((ROUTE, 0, count), packet) for count, packet in enumerate(routed)]
        out = list(runner.rows(0, iter([frame(columns_of(packets, 1))])))
        rows = [record_batch(part.to_dict("list")) for part in out]
        list(Task(folder, "s", "s", None).writer(number)(iter(rows)))

    with tempfile.TemporaryDirectory() as folder:
        batch(0, [Activate(0, "q", bound.spec.to_json())], folder)
        batch(1, [], folder)
        with files_met() as files:
            batch(2, [], folder)
    return files


def items(number: int, count: int = 200) -> pa.RecordBatch:
    random = np.random.default_rng(number)
    return pa.record_batch(
        {
            "t": number * 10 + np.arange(count) * 10 / count,
            "x": random.random(count),
            "y": random.random(count),
            "o": [f"o{index % 20}" for index in range(count)],
        }
    )


def package_changes(files: list[str]) -> int:
    packages = [str(Path(file).parent) for file in files]
    return sum(here != there for here, there in pairwise(packages))


def measured() -> dict[str, Any]:
    found = modules()
    users = importers(found)
    out: dict[str, Any] = {
        "modules": len(found),
        "lines": sum(len(path.read_text().splitlines()) for path in found.values()),
        "modules with a single importer": sum(len(who) == 1 for who in users.values()),
        "shared class names": len(shared_class_names(found)),
    }
    for kind in QUERIES:
        files = walk(kind)
        out[f"files on the walk of {kind}"] = len(files)
        out[f"package changes on the walk of {kind}"] = package_changes(files)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures how easy it is to find one's way in src.")
    parser.add_argument("--json", action="store_true", help="print an object instead of a table")
    parser.add_argument("--walk", choices=QUERIES, help="print the files on the walk of this kind of query")
    options = parser.parse_args()
    if options.walk:
        print("\n".join(walk(options.walk)))
    elif options.json:
        print(json.dumps(measured(), indent=2))
    else:
        for name, value in measured().items():
            print(f"{value:>8,}  {name}")


if __name__ == "__main__":
    main()
