"""Where a job is, for the commands that ask it something: on this machine, or behind a service.

In: a job.toml, the folder of a sink, or the address of a service. Out: a Place; the commands do the same with
either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer
from typer.core import TyperCommand

from anabranch.model.stream import Stream
from anabranch.model.subscription import Moment

if TYPE_CHECKING:
    import pyarrow as pa

#: A schema, and tables that have it.
Found = tuple["pa.Schema", Iterator["pa.Table"]]

URL = "--url"
SCHEMES = ("http://", "https://")

Where = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A job.toml, the folder of its sink, or the address of a service (also as --url ADDRESS; "
        "ANABRANCH_TOKEN has the token).",
        show_default=False,
    ),
]


class Place(Protocol):
    """A job that has run, or runs."""

    def subscribe(
        self, name: str, query: str, activate: Moment | None, deliver: str | None = None
    ) -> dict[str, Any]: ...

    def cancel(self, name: str, at: Moment | None) -> None: ...

    def subscriptions(self, every: bool, counts: bool = False) -> list[dict[str, Any]]:
        """By number; with `counts`, how many `results` each has; `delivery`, how far sending has come."""

    def asked(self, name: str) -> tuple[str, list[Found]]:
        """A subscription's query, and the results of each of its parts."""

    def streams(self) -> dict[str, Stream]: ...

    def dead_letters(self, stream: str) -> Iterator[pa.Table]: ...


@contextmanager
def place(where: str) -> Iterator[Place]:
    if where.startswith(SCHEMES):
        from anabranch.cli.remote import Remote

        with Remote(where) as remote:
            yield remote
        return
    from anabranch.cli.local import Local

    with Local(where) as local:
        yield local


class Addressed(TyperCommand):
    """A command whose TARGET may be said as --url ADDRESS."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, target_first(args))


def target_first(args: list[str]) -> list[str]:
    """`x --url http://a` is `http://a x`; what comes after -- is no option."""
    end = args.index("--") if "--" in args else len(args)
    for at, argument in enumerate(args[:end]):
        if argument == URL and at + 1 < end:
            return [args[at + 1], *args[:at], *args[at + 2 :]]
        if argument.startswith(f"{URL}="):
            return [argument.removeprefix(f"{URL}="), *args[:at], *args[at + 1 :]]
    return args
