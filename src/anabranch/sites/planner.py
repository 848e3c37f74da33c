"""Plans subscriptions over the sites of a network, and keeps the plan in the network's catalog.

    planner = NetworkPlanner(load_network("network.toml"), columns_of)
    planner.sync()                                  # what the file says
    planner.subscribe(Subscription("hot", "SELECT ..."), "office")
    planner.deployments()                           # what every site runs

The optimizer is the one that `simulate sharing` runs. Whatever cannot be planned is refused before anything
is stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from anabranch.catalog.database import now
from anabranch.catalog.entries import (
    ACTIVE,
    CANCELLED,
    FROM_JOB,
    FROM_SUBSCRIBE,
    NewSubscription,
    dump_stream,
    load_stream,
)
from anabranch.catalog.registration import bind_subscription
from anabranch.job.declarations import declare
from anabranch.job.source_files import sample_of
from anabranch.model.columns import Column
from anabranch.model.errors import JobError
from anabranch.model.job import StreamDeclaration
from anabranch.model.settings_file import MOST_SHOWN
from anabranch.model.stream import Stream, Time
from anabranch.model.subscription import Moment, Subscription
from anabranch.model.suggestions import suggestion
from anabranch.planning.cost import CostModel
from anabranch.planning.installed import Installed, QueryPlan
from anabranch.planning.optimizer import Optimizer
from anabranch.planning.properties import Properties, source_properties
from anabranch.planning.statistics import Statistics
from anabranch.sites.deployment import FLOW_QUERY, Deployment, deployments
from anabranch.sites.network_catalog import NetworkCatalog, has_plan
from anabranch.sites.network_file import NetworkFile
from anabranch.sites.wanted import Wanted, origin_at_site, wanted_of

#: Returns the columns of a source.
ColumnsOf = Callable[[StreamDeclaration], tuple[Column, ...]]

#: Items per second where nothing is known; it counts only against what else is assumed.
ASSUMED_RATE = 100.0


@dataclass(frozen=True)
class Registered:
    """A subscription of the network; a query over several streams has several parts."""

    number: int
    name: str
    site: str
    query: str
    state: str
    origin: str
    created: str
    cancelled: str | None
    parts: tuple[Wanted, ...]

    @property
    def active(self) -> bool:
        return self.state == ACTIVE

    @property
    def origin_at_site(self) -> str:
        """How the engine of its site tells it from others that had the same name."""
        return origin_at_site(self.number)


class NetworkPlanner:
    """`rates` are the measured items per second of streams, as far as they are known."""

    def __init__(
        self, file: NetworkFile, columns_of: ColumnsOf, rates: Mapping[str, float] | None = None
    ) -> None:
        self.file, self.columns_of, self.rates = file, columns_of, dict(rates or {})
        self._model: CostModel | None = None

    # what is registered

    def catalog(self, create: bool = True) -> NetworkCatalog:
        return NetworkCatalog(self.file.path, create)

    def state(self) -> NetworkState:
        with self.catalog(create=False) as catalog:
            return self._state(catalog.state())

    def preview(self) -> NetworkState:
        """Returns what would be registered: the catalog's, and what is new in the file."""
        state = self.state() if has_plan(self.file.path) else self._state({})
        self._take_file(state)
        return state

    def sync(self) -> None:
        """Registers what the file has and the catalog has not: all of it, or nothing."""
        with self.catalog() as catalog, catalog.change() as stored:
            state = self._state(stored)
            self._take_file(state)
            stored |= state.to_json()

    def _take_file(self, state: NetworkState) -> None:
        wrong = []
        for subscription, site in self.file.subscriptions:
            try:
                known = state.latest(subscription.name)
                if known is None:
                    admit = self.file.planner.rate is None
                    state.register(subscription, site, FROM_JOB, admit=admit)
                else:
                    _check_same(known, subscription, site)
            except JobError as error:
                text = str(error).removeprefix(f"subscription {subscription.name}: ")
                wrong.append(f"{self.file.path.name}: subscription {subscription.name}: {text}")
        if wrong:
            more = [f"and {len(wrong) - MOST_SHOWN} more are wrong"] if len(wrong) > MOST_SHOWN else []
            raise JobError("\n".join([*wrong[:MOST_SHOWN], *more]))

    def subscribe(
        self, subscription: Subscription, site: str, last: Mapping[str, Time]
    ) -> tuple[Registered, list[QueryPlan]]:
        """Plans one more, for a network that may run: it sees the items after `last`, the time that each
        stream has reached.
        """
        self.file.site(site)
        with self.catalog(create=False) as catalog, catalog.change() as stored:
            state = self._state(stored)
            known = state.latest(subscription.name)
            if known is not None and known.active:
                raise JobError(
                    f"the name {subscription.name!r} is taken by an active subscription; cancel it first, or "
                    "choose another name"
                )
            registered, plans = state.register(subscription, site, FROM_SUBSCRIBE, last=last)
            stored |= state.to_json()
        return registered, plans

    def cancel(self, name: str, moment: Moment | None) -> None:
        """Cancels a subscription, and takes away all that only this one needed."""
        with self.catalog(create=False) as catalog, catalog.change() as stored:
            state = self._state(stored)
            state.cancel(name, moment)
            stored |= state.to_json()

    def _state(self, stored: Mapping[str, Any]) -> NetworkState:
        return NetworkState(self, stored)

    # what planning works on

    def streams(self, stored: Mapping[str, Any]) -> dict[str, Stream]:
        """Returns the streams: as they were when the network first ran, or as their sources are now."""
        out = {}
        for name, declaration in self.file.streams.items():
            known = stored.get("streams", {}).get(name)
            if known is not None:
                if known["site"] != self.file.network.streams[name]:
                    raise JobError(
                        f"stream {name} was registered at site {known['site']} and cannot move to "
                        f"{self.file.network.streams[name]}: undo the change, or start with other paths"
                    )
                out[name] = load_stream(name, known["columns"], known["settings"])
            else:
                out[name] = declare(declaration, self.columns_of(declaration))
        return out

    def model(self, streams: Mapping[str, Stream]) -> CostModel:
        """Returns what is known about the streams: a sample of their items, and measured rates."""
        if self._model is None:
            statistics = {}
            for name, stream in streams.items():
                known = statistics[name] = Statistics(stream)
                rows, _ = sample_of(self.file.streams[name], stream)
                rate = self.rates.get(name) or self.file.planner.rate or ASSUMED_RATE
                if rows is not None:
                    known.observe(rows, rows.num_rows / rate)
                known.rate = rate
            self._model = CostModel(statistics, gamma=self.file.planner.gamma)
        return self._model


class NetworkState:
    """What is registered and installed, as the catalog has it."""

    def __init__(self, planner: NetworkPlanner, stored: Mapping[str, Any]) -> None:
        file = planner.file
        self.file = file
        self.streams = planner.streams(stored)
        self.subscriptions = [_registered(each) for each in stored.get("subscriptions", ())]
        sources = [source_properties(stream) for stream in self.streams.values()]
        self.optimizer = Optimizer(
            file.network, planner.model(self.streams), sources, file.planner.strategy, compose=False
        )
        if "plan" in stored:
            _check_sites(file, stored["plan"])
            self.optimizer.installed = Installed.from_json(
                file.network, planner.model(self.streams), sources, stored["plan"]
            )

    def to_json(self) -> dict[str, Any]:
        streams = {
            name: {
                "site": self.file.network.streams[name],
                "columns": _columns_text(stream),
                "settings": _settings_text(stream),
            }
            for name, stream in self.streams.items()
        }
        return {
            "streams": streams,
            "subscriptions": [_stored(one) for one in self.subscriptions],
            "plan": self.optimizer.installed.to_json(),
        }

    @property
    def installed(self) -> Installed:
        return self.optimizer.installed

    def active(self) -> list[Registered]:
        return [one for one in self.subscriptions if one.active]

    def latest(self, name: str) -> Registered | None:
        """Returns the newest subscription of that name."""
        return next((one for one in reversed(self.subscriptions) if one.name == name), None)

    def subscription(self, name: str) -> Registered:
        found = self.latest(name)
        if found is None:
            names = dict.fromkeys(one.name for one in self.subscriptions)
            raise JobError(f"unknown subscription {name!r}{suggestion(name, names)}")
        return found

    def deployments(self) -> dict[str, Deployment]:
        wanted = [part for one in self.active() for part in one.parts]
        return deployments(self.installed, wanted, self.streams)

    def register(
        self,
        subscription: Subscription,
        site: str,
        origin: str,
        admit: bool = False,
        last: Mapping[str, Time] | None = None,
    ) -> tuple[Registered, list[QueryPlan]]:
        """Binds, plans and installs a subscription; nothing is changed where that cannot be done."""
        if subscription.name.startswith(FLOW_QUERY):
            raise JobError(f"a name cannot begin with {FLOW_QUERY}; those are the network's")
        bound = bind_subscription(subscription, self.streams)
        if subscription.deliver is not None:
            raise JobError("deliver is not there for networks yet; read the results at the site")
        number = len(self.subscriptions) + 1
        wanted = [
            replace(self._wanted(part, site, last or {}), number=number) for part in (bound, *bound.parts)
        ]
        self.optimizer.admit = admit
        plans = []
        for index, part in enumerate(wanted):
            try:
                plans.append(self.optimizer.register(part.name, part.properties, site))
            except JobError:
                for done in wanted[:index]:
                    self.optimizer.cancel(done.name)
                raise
        registered = Registered(
            number, subscription.name, site, subscription.query, ACTIVE, origin, now(), None, tuple(wanted)
        )
        self.subscriptions.append(registered)
        return registered, plans

    def _wanted(self, part: NewSubscription, site: str, last: Mapping[str, Time]) -> Wanted:
        reached = last.get(part.stream)
        if reached is not None:
            part = replace(part, activate=max(reached, part.activate or reached))
        return wanted_of(part, site, self.streams[part.stream], began=reached is not None)

    def cancel(self, name: str, moment: Moment | None) -> None:
        """Cancels now, or at a time of the stream: then it stays installed."""
        found = self.subscription(name)
        if not found.active:
            raise JobError(f"subscription {name!r} is cancelled already (at {found.cancelled})")
        index = self.subscriptions.index(found)
        if moment is not None:
            raise JobError("a subscription of a network is cancelled now; leave out --at")
        for part in found.parts:
            self.optimizer.cancel(part.name)
        self.subscriptions[index] = replace(found, state=CANCELLED, cancelled=now())


def _check_same(known: Registered, subscription: Subscription, site: str) -> None:
    if " ".join(known.query.split()) != " ".join(subscription.query.split()):
        raise JobError(
            f"it runs with another query: {' '.join(known.query.split())}; cancel it and choose another name"
        )
    if known.site != site:
        raise JobError(f"it is read at site {known.site}, and is now wanted at {site}; choose another name")


def _check_sites(file: NetworkFile, plan: Mapping[str, Any]) -> None:
    for node in plan["nodes"]:
        for site in node["path"]:
            if site not in file.network.sites:
                raise JobError(
                    f"site {site} is gone from {file.path.name}, and the plan uses it; put it back, or "
                    "cancel what needs it first"
                )


# --- as the catalog stores it ---


def _columns_text(stream: Stream) -> str:
    return json.dumps([[column.name, column.type.value] for column in stream.columns])


def _settings_text(stream: Stream) -> str:
    return json.dumps(dump_stream(stream))


def _stored(one: Registered) -> dict[str, Any]:
    parts = [vars(part) | {"properties": part.properties.to_json()} for part in one.parts]
    return vars(one) | {"parts": parts}


def _registered(stored: Mapping[str, Any]) -> Registered:
    parts = tuple(
        Wanted(**{**part, "properties": Properties.from_json(part["properties"])}) for part in stored["parts"]
    )
    return Registered(**{**stored, "parts": parts})
