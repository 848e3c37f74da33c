"""What a subscription has been answered, read from the sink as the command line does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anabranch.cli.local import LocalJob


def delivered(sink: Path, name: str) -> list[dict[str, Any]]:
    with LocalJob(str(sink)) as job:
        _, [(_, parts)] = job.results(name)
        return [row for part in parts for row in part.to_pylist()]
