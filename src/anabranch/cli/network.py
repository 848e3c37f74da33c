"""A network of sites as the target of a command. Never Spark: results are read at the subscriber's site."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from anabranch.cli.common import columns_of
from anabranch.cli.local import LocalJob
from anabranch.model.errors import JobError
from anabranch.model.stream import Stream
from anabranch.model.subscription import Moment, Subscription
from anabranch.results.layout import HIDDEN
from anabranch.sites.measured import SiteMeasures
from anabranch.sites.network_file import load_network
from anabranch.sites.planner import NetworkPlanner, Registered

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.results.writing import ResultTables


class NetworkJob:
    """The site that a subscription is read at is asked for where it is subscribed; `said` is what the planner
    says about it.
    """

    def __init__(self, target: str, site: str | None = None) -> None:
        self.file, self.site = load_network(target), site
        self.measured = SiteMeasures(self.file)
        self.planner = NetworkPlanner(self.file, columns_of, self.measured.rates())
        self.said: list[str] = []

    def __enter__(self) -> NetworkJob:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def subscribe(
        self, name: str, query: str, activate: Moment | None, deliver: str | None = None
    ) -> dict[str, Any]:
        from anabranch.sites.explain import chosen

        if self.site is None:
            there = ", ".join(self.file.folders)
            raise JobError(f"say which site reads it: --site NAME. There are: {there}")
        subscription = Subscription(name, query, activate, deliver=deliver)
        registered, plans = self.planner.subscribe(subscription, self.site, self.measured.last())
        installed = self.planner.state().installed
        self.said = [line for plan in plans for line in chosen(plan, installed)]
        return _facts(registered)

    def new_secret(self, name: str) -> str:
        raise JobError("subscriptions of a network have no receivers, so there is no secret")

    def cancel(self, name: str, time: Moment | None) -> None:
        self.planner.cancel(name, time)

    def subscriptions(self, every: bool, counts: bool = False) -> list[dict[str, Any]]:
        known = [one for one in self.planner.state().subscriptions if every or one.active]
        rows = self._counts() if counts else {}
        return [
            _facts(one)
            | ({"results": rows.get((one.site, one.name, one.origin_at_site), 0)} if counts else {})
            for one in known
        ]

    def _counts(self) -> dict[tuple[str, str, str], int]:
        """Returns how many results each query of a site has."""
        out = {}
        for site in self.file.folders:
            if (self.file.folders[site] / HIDDEN).is_dir():
                with LocalJob(str(self.file.folders[site])) as job:
                    for facts in job.subscriptions(every=True, counts=True):
                        out[site, facts["name"], facts["origin"]] = facts["results"]
        return out

    def results(self, name: str) -> tuple[str, list[ResultTables]]:
        registered = self.planner.state().subscription(name)
        folder = self.file.folders[registered.site]
        if not (folder / HIDDEN).is_dir():
            raise JobError(
                f"site {registered.site} has not run yet; there are no results of {name} in {folder}"
            )
        with LocalJob(str(folder)) as job:
            return job.results(name)

    def streams(self) -> dict[str, Stream]:
        return self.planner.state().streams

    def dead_letters(self, stream: str) -> Iterator[pa.Table]:
        folder = self.file.folders[self.file.network.streams[stream]]
        if (folder / HIDDEN).is_dir():
            with LocalJob(str(folder)) as job:
                yield from job.dead_letters(stream)


def _facts(one: Registered) -> dict[str, Any]:
    """Returns what is said of a subscription; it has the keys of a job's, and its site."""
    first = one.parts[0]
    return {
        "number": one.number,
        "name": one.name,
        "label": one.name,
        "stream": first.stream,
        "family": first.family,
        "kind": first.kind,
        "state": one.state,
        "activate": first.activate,
        "cancel": first.cancel,
        "origin": one.origin,
        "created": one.created,
        "cancelled": one.cancelled,
        "suspended": None,
        "owner": None,
        "query": one.query,
        "site": one.site,
        "delivery": None,
    }
