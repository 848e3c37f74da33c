from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from anabranch.catalog.layout import Layout
from anabranch.catalog.tokens import Role, Tokens
from anabranch.cli.monitor import Monitor
from anabranch.service.desk import Desk, Limits
from anabranch.service.server import serving
from tests.cli.sinks import make_sink


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return make_sink(tmp_path / "out")


@pytest.fixture
def desk(layout: Layout) -> Desk:
    monitor = Monitor(layout)
    return Desk(layout, monitor.plan, monitor.network, Limits(requests_a_second=1000))


@pytest.fixture
def address(desk: Desk) -> Iterator[str]:
    """A real server on a loopback port."""
    with serving(desk, "127.0.0.1", 0) as address:
        yield address


@pytest.fixture
def http(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, trust_env=False, timeout=20) as client:
        yield client


@pytest.fixture
def tokens(layout: Layout) -> dict[str, dict[str, str]]:
    """Headers of an admin, a viewer and two users."""
    made = Tokens(layout.catalog)
    roles = {"root": Role.ADMIN, "eve": Role.VIEWER, "ann": Role.USER, "bob": Role.USER}
    out = {owner: {"Authorization": f"Bearer {made.create(owner, role)}"} for owner, role in roles.items()}
    made.close()
    return out
