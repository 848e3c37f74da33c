"""What compiled kernels on disk may do to a process that finds them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from numba.core.caching import IndexDataCacheFile

import anabranch.numeric.jit  # noqa: F401  makes numba lenient


def test_an_index_with_a_name_that_is_gone_counts_as_empty(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As after an upgrade in which a named tuple of a kernel got another name."""
    module = ModuleType("an_earlier_release")
    exec("class Renamed: pass", vars(module))
    monkeypatch.setitem(sys.modules, "an_earlier_release", module)
    IndexDataCacheFile(str(tmp_path), "kernel", "stamp").save("key", module.Renamed())
    written = IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
    written._save_index({module.Renamed: "kernel.1.nbc"})
    assert len(written._load_index()) == 1
    del module.Renamed
    assert written._load_index() == {}
