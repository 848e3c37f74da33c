"""A site: its engine, the flows that it sends, and those that it passes on.

    site = SiteEngine(spark, file, "office")
    site.install(deployment)       # streams and queries as planned; again whenever the plan has changed
    site.start()
    site.tend()                    # now and then: pieces that arrived go on

What runs is compared with what is planned. A query that is planned and does not run is registered, one that
runs and is not planned is cancelled: so an installation that was cut off is completed at the next start.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import groupby
from types import TracebackType
from typing import Any

from anabranch.catalog.entries import NewSubscription
from anabranch.model.columns import Column, ColumnType
from anabranch.model.job import EngineSettings, Source, StreamDeclaration
from anabranch.results.manifests import Manifest
from anabranch.sites.deployment import START, Deployment, SiteQuery, SiteStream
from anabranch.sites.flow_folder import FlowPassage, FlowSender, flow_folder, flow_has_ended
from anabranch.sites.network_file import NetworkFile
from anabranch.spark.engine import Engine
from anabranch.spark.sources import FLOW

#: So many streams are read at a time, where all of them are read to their end.
TOGETHER = 4

_DDL = {
    ColumnType.INT: "bigint",
    ColumnType.FLOAT: "double",
    ColumnType.STRING: "string",
    ColumnType.BOOL: "boolean",
    ColumnType.TIMESTAMP: "timestamp",
}


class SiteEngine:
    def __init__(self, spark: Any, file: NetworkFile, name: str) -> None:
        self.file, self.name = file, name
        self.engine = Engine(spark, file.site(name), settings=EngineSettings(zones=1), after=self._delivered)
        self.deployment = Deployment()
        self._lock = threading.Lock()  # batches are delivered while flows are installed
        self._senders: dict[str, FlowSender] = {}
        self._passages: dict[Any, FlowPassage] = {}

    def __enter__(self) -> SiteEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.engine.close()

    def install(self, deployment: Deployment) -> None:
        """Makes the engine run what is planned."""
        self.deployment = deployment
        for name, stream in deployment.streams.items():
            if name not in self.engine.streams:
                self.engine.declare(self._declaration(stream))
        catalog = self.engine.catalog
        planned = {(new.name, new.origin): new for new in new_subscriptions(deployment)}
        known = [entry for entry in catalog.subscriptions(state=None) if entry.part_of is None]
        for entry in known:
            if entry.active and (entry.name, entry.origin) not in planned:
                catalog.cancel(entry.name)
        there = {(entry.name, entry.origin) for entry in known}
        catalog.subscribe_many([new for key, new in planned.items() if key not in there])
        with self._lock:
            self._install_flows()

    def _install_flows(self) -> None:
        catalog, folders = self.engine.catalog, self.file.folders
        for gone in self._senders.keys() - self.deployment.exports.keys():
            del self._senders[gone]
        for name, hop in self.deployment.exports.items():
            if name not in self._senders:
                entry = catalog.subscription(name)
                stream = self.engine.streams[entry.stream]
                sender = FlowSender(
                    flow_folder(folders, hop),
                    self.engine.deliveries,
                    entry,
                    stream,
                    catalog.activation(entry.number),
                )
                sender.catch_up()
                self._senders[name] = sender
        for passage in self.deployment.passages:
            if passage not in self._passages:
                self._passages[passage] = FlowPassage(folders, passage)

    def _declaration(self, planned: SiteStream) -> StreamDeclaration:
        stream, hop = planned.stream, planned.hop
        if hop is None:
            return self.file.streams[stream.name]
        folder = flow_folder(self.file.folders, hop)
        folder.mkdir(parents=True, exist_ok=True)
        source = Source(FLOW, {"path": str(folder)}, _schema(stream.columns))
        settings: dict[str, Any] = {"time": START}
        if planned.properties.aggregated is None:
            given = self.file.streams[planned.properties.stream].settings
            left_out = ("lateness", "apart")
            settings = {key: value for key, value in given.items() if key not in left_out}
            for key in ("id", "object", "position", "bounds", "metric", "unit"):
                if not getattr(stream, key) or (key == "metric" and stream.metric == "euclidean"):
                    settings.pop(key, None)
        return StreamDeclaration(stream.name, source, settings | {"flow": True})

    # running

    def start(self) -> None:
        self.engine.start()

    def tend(self) -> None:
        """Passes on what has arrived; raises what a stream failed with."""
        self.engine.check()
        with self._lock:
            for passage in self._passages.values():
                passage.pass_on()

    def run_ready(self) -> bool:
        """Runs some streams to their end: registered ones, and flows that have arrived whole. Returns whether
        there were any. One after the other, they need no more of a machine than a job does.
        """
        left = self._unfinished()
        some = [name for name in left if self._is_ready(name)][:TOGETHER]
        if some:
            self.engine.start(some)
            self.engine.drain()
            self.engine.end([name for name in some if self.deployment.streams[name].hop is None])
            self.engine.drain()
            self.engine.release(some)
        return bool(some)

    def _unfinished(self) -> list[str]:
        """Returns the streams with queries that have not been read to their end."""
        asked = dict.fromkeys(query.stream for query in self.deployment.queries.values())
        return [name for name in asked if not self.engine.deliveries.ended(name)]

    def _is_ready(self, name: str) -> bool:
        hop = self.deployment.streams[name].hop
        return hop is None or flow_has_ended(flow_folder(self.file.folders, hop))

    def has_ended(self) -> bool:
        """Whether all its streams have been read to their end, and all that it passes on has gone."""
        return not self._unfinished() and all(passage.has_ended() for passage in self._passages.values())

    def _delivered(self, branch: str, manifest: Manifest) -> None:
        with self._lock:
            for sender in self._senders.values():
                if sender.branch == branch:
                    sender.send(manifest)


def new_subscriptions(deployment: Deployment) -> list[NewSubscription]:
    """Returns the queries of a site as its engine takes them: those of one subscription together."""
    out: list[NewSubscription] = []
    for _, some in groupby(deployment.queries.values(), key=lambda query: query.origin or query.name):
        first, *others = map(_new_subscription, some)
        out.append(replace(first, parts=tuple(others)))
    return out


def _new_subscription(query: SiteQuery) -> NewSubscription:
    return NewSubscription(
        query.name,
        query.stream,
        query.family,
        query.kind,
        query.query,
        query.spec,
        query.activate,
        query.cancel,
        query.origin,
    )


def _schema(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"`{column.name}` {_DDL[column.type]}" for column in columns)
