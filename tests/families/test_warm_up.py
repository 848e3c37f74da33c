"""After the warm-up, no batch of any family has to compile or load a kernel."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba.core.dispatcher import Dispatcher

import anabranch
from anabranch.families import warm_up as warm_up_module
from anabranch.families.warm_up import REHEARSALS, start_compiling, warm_up
from tests.drawn import examples
from tests.laws.case import run_local
from tests.laws.customers import customers

pytestmark = pytest.mark.slow

CUSTOMERS = {customer.name: customer for customer in customers()}
ROOT = Path(__file__).resolve().parents[2]


def signatures() -> dict[str, list[Any]]:
    """What each kernel that stages call is compiled for. Those that only kernels call need no entry."""
    found = {}
    for module in pkgutil.walk_packages(anabranch.__path__, "anabranch."):
        if ".kernels." not in module.name and ".numeric." not in module.name:
            continue
        for name, made in vars(importlib.import_module(module.name)).items():
            if isinstance(made, Dispatcher) and made.py_func.__module__ == module.name:
                found[f"{module.name}.{name}"] = list(made.signatures)
    return found


def met_cold(name: str) -> dict[str, list[Any]]:
    """The kernels that some runs of a family need and that the warm-up did not compile."""
    for family in REHEARSALS:
        warm_up(family)
    before = signatures()

    @settings(
        max_examples=examples(12),
        deadline=None,  # a process of its own, without conftest
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def runs(data: st.DataObject) -> None:
        run_local(data.draw(CUSTOMERS[name].cases))

    runs()
    return {
        kernel: new
        for kernel, all_ in signatures().items()
        if (new := [s for s in all_ if s not in before[kernel]])
    }


@pytest.mark.parametrize("name", CUSTOMERS)
def test_no_kernel_is_met_cold(name: str) -> None:
    """In a process of its own: other tests call kernels too."""
    script = (
        f"from tests.families.test_warm_up import met_cold\nassert not (cold := met_cold({name!r})), cold"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def compiled() -> int:
    """How many functions a process that loads all families has to compile."""
    from numba.core import event

    with event.install_recorder("numba:compile") as recorder:
        for family in REHEARSALS:
            warm_up(family)
    return len(recorder.buffer)


def test_a_warm_process_compiles_nothing() -> None:
    """In processes of their own: the first may have to compile, the second finds everything on disk."""
    script = f"from {__name__} import compiled\nprint(compiled())"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) == 0


def test_compiling_is_started_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that runs looks again and again whether there is something to start."""
    started: list[list[str]] = []

    class Process:
        def __init__(self, command: list[str], **_: Any) -> None:
            started.append(command[-2:])

        def wait(self) -> None:
            pass

    monkeypatch.setattr(warm_up_module.subprocess, "Popen", Process)
    monkeypatch.setattr(warm_up_module, "is_warm", lambda name: name == "nearest")
    monkeypatch.setattr(warm_up_module, "_started", set())
    for _ in range(3):
        start_compiling(["moving", "filters", "nearest"])
    assert started == [["filters", "moving"]]
