"""A small run of the load test (tests/service/load.py): nothing lost, nothing twice, memory that stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.load import ROWS, SHARE, Load, run


@pytest.mark.slow
def test_listeners_get_every_row_once(tmp_path: Path) -> None:
    load = Load(listeners=20, subscriptions=200, batches=12, pause_s=0.1)
    outcome = run(load, tmp_path / "out")
    assert outcome.wrong == []
    assert outcome.events == load.listeners * load.batches * ROWS // SHARE
    assert outcome.resumed >= 2  # connections that were cut and went on
    assert outcome.listed == load.subscriptions + 1
    assert max(outcome.memory_mb) < 700  # about 300, most of it code
