"""`anabranch cancel`: ends a subscription."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.common import Target, moment_of, opened


def cancel(
    target: Target,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The subscription.", show_default=False)],
    at: Annotated[
        str | None,
        typer.Option(metavar="T", help="Let it see the items up to this time.", show_default=False),
    ] = None,
) -> None:
    """End a subscription: now, or at a time of the stream. Its results stay.

    Example: anabranch cancel out vela --at 5000
    """
    from anabranch.catalog.job import stored_time

    end = moment_of(at, "--at")
    _, catalog = opened(target)
    with catalog:
        entry = catalog.subscription(name)
        catalog.cancel(name, stored_time(catalog.stream(entry.stream), end, "--at"))
    typer.echo(f"{name} is cancelled" + ("" if at is None else f" at {at}"))
