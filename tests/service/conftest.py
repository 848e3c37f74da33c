from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from anabranch.catalog.tokens import Role, Tokens
from anabranch.results.layout import Layout
from anabranch.service.job_service import JobService, Limits
from anabranch.service.monitor import Monitor
from anabranch.service.server import serving
from tests.cli.sinks import make_sink


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return make_sink(tmp_path / "out")


@pytest.fixture
def service(layout: Layout) -> JobService:
    monitor = Monitor(layout)
    return JobService(layout, monitor.plan, monitor.network, Limits(requests_per_second=1000))


@pytest.fixture
def address(service: JobService) -> Iterator[str]:
    """A real server on a loopback port."""
    with serving(service, "127.0.0.1", 0) as address:
        yield address


@pytest.fixture
def http(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, trust_env=False, timeout=20) as client:
        yield client


@pytest.fixture
def tokens(layout: Layout) -> dict[str, dict[str, str]]:
    """Headers of an admin, a viewer and two users."""
    created = Tokens(layout.catalog)
    roles = {"root": Role.ADMIN, "eve": Role.VIEWER, "ann": Role.USER, "bob": Role.USER}
    out = {owner: {"Authorization": f"Bearer {created.create(owner, role)}"} for owner, role in roles.items()}
    created.close()
    return out
