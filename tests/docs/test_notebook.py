"""The notebook of examples/notebook runs, cell by cell, on the session that all tests share."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTEBOOK = ROOT / "examples" / "notebook" / "live.ipynb"


def cells() -> list[str]:
    found = json.loads(NOTEBOOK.read_text())["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


def test_it_is_short() -> None:
    lines = [line for cell in cells() for line in cell.splitlines() if line.strip()]
    assert len([line for line in lines if not line.startswith(("import ", "from "))]) <= 15


def test_it_runs(shared_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    shutil.copytree(ROOT / "examples" / "photons", tmp_path / "photons", ignore=shutil.ignore_patterns("out"))
    (tmp_path / "notebook").mkdir()
    monkeypatch.chdir(tmp_path / "notebook")
    display: Any = ModuleType("IPython.display")
    display.clear_output = lambda wait: plt.close("all")
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    plotted: list[int] = []
    monkeypatch.setattr(plt, "show", lambda: plotted.append(len(plt.gca().lines[0].get_xdata())))
    names: dict[str, Any] = {}
    for cell in cells():
        exec(compile(cell, str(NOTEBOOK), "exec"), names)
    assert len(plotted) == 4
    assert plotted == sorted(plotted)
    assert plotted[-1] > 20
    assert "mean_en" in names["mean"]._repr_html_()
    plt.close("all")
