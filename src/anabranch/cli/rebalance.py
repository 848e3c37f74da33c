"""`anabranch rebalance`: has the zones of a running job share their work anew."""

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
    """Have a zone that has more to do than the others give some of it away, now. Results do not change.

    A zone with far more to do than the others does so by itself.

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
                f"{target}: no nearest, cluster or moving queries; "
                "the zones of other kinds share their work evenly"
            )
        for stream, family in found:
            catalog.rebalance(stream, family)
            typer.echo(f"{stream}: the zones of {family} share their work anew")
