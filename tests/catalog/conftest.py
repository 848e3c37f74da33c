from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anabranch.catalog.database import Address


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Address:
    """Where a new catalog may be: everything holds for both databases."""
    if request.param == "sqlite":
        return tmp_path / "below" / "catalog.sqlite"
    found: Any = request.getfixturevalue("postgres_catalog")
    return str(found)
