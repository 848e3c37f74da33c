"""`anabranch demo`: every kind of query at once on generated streams, with the service and its dashboard."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def demo(
    seconds: Annotated[float, typer.Option(min=1, help="How long it lasts.")] = 30,
    path: Annotated[Path, typer.Option(help="Where the job and its results are kept.")] = Path("demo"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The service's; 0 takes a free one.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the dashboard, where there is a terminal.")
    ] = True,
) -> None:
    """Take the tour: queries of every kind on generated streams, and a dashboard to watch them.

    Example: anabranch demo --seconds 30
    """
    from anabranch.cli.serve import beside
    from anabranch.cli.tour import run_tour

    opened = browser and sys.stdout.isatty()
    run_tour(seconds, path.resolve(), beside("127.0.0.1", port, opened=opened))
