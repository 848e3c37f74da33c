"""`anabranch rebalance`: moves work from busy zones of a running job to others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

#: The families whose zones can give work to each other.
FAMILIES = ("nearest", "clusters", "moving")


def rebalance(
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="A job.toml that has run, or its sink's folder.")
    ],
) -> None:
    """Move work from zones that have more of it than others, now. Results do not change.

    A zone that has far more work than the others gives some away by itself.

    Example: anabranch rebalance job.toml
    """
    from anabranch.cli.common import opened
    from anabranch.model.errors import JobError

    _, catalog = opened(target)
    with catalog:
        found = [
            (stream, family)
            for stream in catalog.streams()
            for family in catalog.families(stream)
            if family in FAMILIES
        ]
        if not found:
            raise JobError(
                f"{target}: there are no nearest, cluster or moving queries; "
                "the zones of other kinds share their work evenly"
            )
        for stream, family in found:
            catalog.rebalance(stream, family)
            typer.echo(f"{stream}: the zones of {family} will share their work again")
