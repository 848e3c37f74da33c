"""`anabranch cancel`: ends a subscription."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.common import moment_of
from anabranch.cli.place import Where, place


def cancel(
    target: Where,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The subscription.", show_default=False)],
    at: Annotated[
        str | None,
        typer.Option(metavar="T", help="Let it see the items up to this time.", show_default=False),
    ] = None,
) -> None:
    """End a subscription: now, or at a time of the stream. Its results stay.

    Example: anabranch cancel out vela --at 5000
    """
    end = moment_of(at, "--at")
    with place(target) as job:
        job.cancel(name, end)
    typer.echo(f"{name} is cancelled" + ("" if at is None else f" at {at}"))
