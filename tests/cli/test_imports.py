"""What commands import: those that people run all day must not wait for packages that they do not need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

#: Each takes a tenth of a second of CPU or much more.
HEAVY = {"fastapi", "matplotlib", "numba", "pandas", "pyspark", "rich", "scipy", "uvicorn"}

CODE = """
import json, sys
from anabranch.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as left:
    assert not left.code, left.code
print(json.dumps(sorted(name for name in sys.modules if "." not in name)), file=sys.stderr)
"""


def imported(*arguments: str | Path) -> set[str]:
    """Returns the top-level packages that a command imports in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["results"],
        ["results", "vela"],
        ["results", "vela", "--format", "csv"],
        ["results", "--dead-letters"],
        ["subscribe", "more", "SELECT ra FROM photons WHERE en > 5"],
        ["cancel", "vela"],
    ],
)
def test_nothing_heavy(arguments: list[str], sink: Path) -> None:
    command, *rest = arguments
    assert not HEAVY & imported(command, sink, *rest)


def test_a_list_needs_no_arrow(sink: Path) -> None:
    assert not {"lark", "numpy", "pyarrow"} & imported("list", sink)


def test_try_needs_kernels_only(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("t,v\n1,2\n")
    heavy = HEAVY & imported("try", "SELECT v FROM s", f"s={tmp_path / 's.csv'}")
    assert heavy <= {"numba", "scipy"}  # numba looks whether scipy is there
