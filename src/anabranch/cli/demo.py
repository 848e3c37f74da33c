"""`anabranch demo`: thousands of queries on a generated stream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    seconds: Annotated[float, typer.Option(min=1, help="How long it lasts.")] = 30,
    path: Annotated[
        Path | None, typer.Option(help="Where results are kept; a new folder without it.", show_default=False)
    ] = None,
) -> None:
    """Watch it work: queries of several kinds come and go on a generated stream.

    Example: anabranch demo --seconds 30
    """
    from anabranch.spark.demo import run_demo

    run_demo(seconds, path)
