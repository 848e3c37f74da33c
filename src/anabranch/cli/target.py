"""The target of a command: a job on this machine, or one behind a service.

    with open_target("http://127.0.0.1:8321") as job:     # or a job.toml, or the folder of its sink
        job.cancel("vela", None)

The commands do the same with either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer
from typer.core import TyperCommand

from anabranch.model.errors import JobError

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.model.stream import Stream
    from anabranch.model.subscription import Moment
    from anabranch.results.writing import ResultTables

URL = "--url"
SCHEMES = ("http://", "https://")

TargetOrAddress = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A job.toml or network.toml, the folder of a job's sink, or the address of a service (also as "
        "--url ADDRESS; ANABRANCH_TOKEN has the token).",
        show_default=False,
    ),
]

#: What is said of a subscription.
FIELDS = (
    *("number", "name", "label", "stream", "family", "kind", "state", "activate", "cancel"),
    *("origin", "created", "cancelled", "suspended", "owner", "query"),
)


class TargetJob(Protocol):
    """A job that has run, or runs."""

    def subscribe(
        self, name: str, query: str, activate: Moment | None, deliver: str | None = None
    ) -> dict[str, Any]:
        """Returns the FIELDS of the new subscription; with a webhook also its `secret`."""

    def new_secret(self, name: str) -> str:
        """Makes a new secret for the webhook of a subscription, and returns it."""

    def cancel(self, name: str, time: Moment | None) -> None: ...

    def subscriptions(self, every: bool, counts: bool = False) -> list[dict[str, Any]]:
        """Returns the FIELDS of all subscriptions by number, and `delivery`: how far sending has come. With
        `counts` also how many `results` each has.
        """

    def results(self, name: str) -> tuple[str, list[ResultTables]]:
        """Returns a subscription's query, and the results of each of its parts."""

    def streams(self) -> dict[str, Stream]: ...

    def dead_letters(self, stream: str) -> Iterator[pa.Table]: ...


@contextmanager
def open_target(target: str, site: str | None = None) -> Iterator[TargetJob]:
    """`site` is where a new subscription is read, if the target is a network."""
    if names_sites(target):
        from anabranch.cli.network import NetworkJob

        with NetworkJob(target, site) as network:
            yield network
        return
    if site is not None:
        raise JobError(f"--site goes with a network file; {target} names no sites")
    if target.startswith(SCHEMES):
        from anabranch.cli.remote import RemoteJob

        with RemoteJob(target) as remote:
            yield remote
        return
    from anabranch.cli.local import LocalJob

    with LocalJob(target) as local:
        yield local


def names_sites(target: str) -> bool:
    """Whether the target is the file of a network."""
    if not target.endswith(".toml"):
        return False
    from anabranch.sites.network_catalog import is_network

    return is_network(target)


class CommandWithAddress(TyperCommand):
    """A command whose TARGET may be given as --url ADDRESS."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, target_first(args))


def target_first(args: list[str]) -> list[str]:
    """`x --url http://a` is `http://a x`; what comes after -- is no option."""
    end = args.index("--") if "--" in args else len(args)
    for index, argument in enumerate(args[:end]):
        if argument == URL and index + 1 < end:
            return [args[index + 1], *args[:index], *args[index + 2 :]]
        if argument.startswith(f"{URL}="):
            return [argument.removeprefix(f"{URL}="), *args[:index], *args[index + 1 :]]
    return args
