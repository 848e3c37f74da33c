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

import anabranch.kernels
from anabranch.kernels.warm import warm
from tests.laws.case import run_local
from tests.laws.customers import customers

CUSTOMERS = {customer.name: customer for customer in customers()}
ROOT = Path(__file__).resolve().parents[2]


def signatures() -> dict[str, list[Any]]:
    """What each kernel that stages call is compiled for. Those that only kernels call need no entry."""
    found = {}
    for module in pkgutil.iter_modules(anabranch.kernels.__path__, "anabranch.kernels."):
        for name, made in vars(importlib.import_module(module.name)).items():
            if hasattr(made, "signatures") and made.py_func.__module__ == module.name:
                found[f"{module.name}.{name}"] = list(made.signatures)
    return found


def met_cold(name: str) -> dict[str, list[Any]]:
    """The kernels that some runs of a family need and that the warm-up did not compile."""
    warm()
    before = signatures()

    @settings(
        max_examples=12,
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
    script = f"from tests.kernels.test_warm import met_cold\nassert not (cold := met_cold({name!r})), cold"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
