"""`anabranch cancel`: cancels a subscription."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.common import moment_of
from anabranch.cli.target import TargetOrAddress, open_target


def cancel(
    target: TargetOrAddress,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The subscription.", show_default=False)],
    at: Annotated[
        str | None,
        typer.Option(metavar="T", help="Let it see the items up to this time.", show_default=False),
    ] = None,
) -> None:
    """Cancel a subscription: now, or at a time of the stream. Its results stay.

    Example: anabranch cancel out vela --at 5000
    """
    time = moment_of(at, "--at")
    with open_target(target) as job:
        job.cancel(name, time)
    typer.echo(f"{name} is cancelled" + ("" if at is None else f" at {at}"))
