"""The sites of a network in one process, without Spark: a runner per stream and site, flows in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from anabranch.chain.flows import PieceFacts, facts_of, next_piece, piece_bytes, piece_of
from anabranch.chain.packets import Packet
from anabranch.chain.runner import Runner
from anabranch.families.base import Shown
from anabranch.families.registry import NAMES, family
from anabranch.families.results import rows_of
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate, Cancel, Control, End
from anabranch.model.stream import NUMBER
from anabranch.sites.deployment import Deployment, FlowHop, SiteQuery, SiteStream

Row = dict[str, Any]


class LocalStream:
    """A stream at a site, with its queries. `results` are the rows of each query, batch by batch."""

    def __init__(self, source: SiteStream, queries: Iterable[SiteQuery], zones: int = 1) -> None:
        self.source, self.queries, self.zones = source, list(queries), zones
        self.runner = self._runner()
        self.control = [control for number in range(len(self.queries)) for control in self._controls(number)]
        self.before: dict[str, Any] = {}
        self.batches = 0
        self.results: dict[str, list[pa.Table]] = defaultdict(list)

    def _runner(self) -> Runner:
        return Runner(self.source.stream, [family(name) for name in NAMES], self.zones)

    def _controls(self, number: int) -> list[Control]:
        query = self.queries[number]
        out: list[Control] = [Activate(number, query.name, query.spec, query.activate, query.family)]
        if query.cancel is not None:
            out.append(Cancel(number, query.cancel, query.family))
        return out

    def add(self, query: SiteQuery) -> None:
        """Registers one more query while it runs."""
        self.queries.append(query)
        self.control += self._controls(len(self.queries) - 1)

    def batch(
        self, items: pa.RecordBatch | None = None, pieces: Iterable[Packet] = (), end: bool = False
    ) -> None:
        self.before = dict(self.runner.books)
        control, self.control = self.control, []
        self.runner.batch(items, [*control, *([End()] if end else [])], pieces=list(pieces))
        self._take()
        while self.runner.back:  # results that are under way
            self.runner.batch()
            self._take()

    def _take(self) -> None:
        for query in self.queries:
            name, shown = family(query.family).shown(self.source.stream, query.spec)
            table = family(query.family).table(name)
            if query.name.startswith("flow:") and query.kind == "select":
                shown = (Shown(NUMBER, Column(NUMBER, ColumnType.INT)), *shown)
            rows = [row for batch in self.runner.tables[name].values() for row in batch]
            self.results[query.name].append(rows_of(rows, table, query.name, shown))
        self.runner.tables.clear()
        self.batches += 1

    def stop_and_resume(self) -> None:
        stopped, books = self.runner.stopped(), self.runner.books
        self.runner = self._runner()
        self.runner.resume(stopped)
        self.runner.books = books


class LocalSites:
    def __init__(self, sites: Mapping[str, Deployment], zones: int = 1) -> None:
        self.sites, self.zones = sites, zones
        self.streams: dict[tuple[str, str], LocalStream] = {}
        self.pieces: dict[FlowHop, list[bytes]] = defaultdict(list)
        self.read: dict[tuple[str, str], int] = defaultdict(int)
        self.sent: dict[FlowHop, PieceFacts] = {}
        self.install(sites)

    def install(self, sites: Mapping[str, Deployment]) -> None:
        """Brings what runs in line with a plan that has more than before."""
        self.sites = sites
        for site, deployment in sites.items():
            for query in deployment.queries.values():
                key = (site, query.stream)
                if key not in self.streams:
                    self.streams[key] = LocalStream(deployment.streams[query.stream], [query], self.zones)
                elif all(query.name != other.name for other in self.streams[key].queries):
                    self.streams[key].add(query)
            for passage in deployment.passages:
                if not self.pieces[passage.leaves]:
                    self.pieces[passage.leaves] += self.pieces[passage.arrives]

    def feed(self, site: str, name: str, items: pa.RecordBatch | None, end: bool = False) -> None:
        """A batch of a registered stream, if anybody asks anything of it."""
        if (site, name) in self.streams:
            self.streams[site, name].batch(items, end=end)
            self._export(site, name)

    def arrive(self, site: str, name: str, most: int) -> bool:
        """Gives a stream the next pieces that have come; whether there were any."""
        stream = self.streams[site, name]
        assert stream.source.hop is not None
        first = self.read[site, name]
        come = self.pieces[stream.source.hop][first : first + most]
        if not come:
            return False
        self.read[site, name] += len(come)
        stream.batch(pieces=[piece_of(body) for body in come])
        self._export(site, name)
        return True

    def settle(self, most: int = 1000) -> None:
        """Until every piece has arrived everywhere."""
        flows = [key for key, stream in self.streams.items() if stream.source.hop is not None]
        while sum(self.arrive(*key, most) for key in flows):
            pass

    def _export(self, site: str, name: str) -> None:
        stream = self.streams[site, name]
        for query, hop in self.sites[site].exports.items():
            if self.sites[site].queries[query].stream != name:
                continue
            rows = stream.results.pop(query)
            books = stream.runner.books
            piece = next_piece(
                self.sent.get(hop),
                pa.concat_tables(rows),
                stream.before,
                books,
                stream.batches,
                bool(books["ended"]),
            )
            if piece is not None:
                self.sent[hop] = facts_of(piece)
                self._send(hop, piece_bytes(piece))

    def _send(self, hop: FlowHop, body: bytes) -> None:
        self.pieces[hop].append(body)
        for passage in self.sites[hop.receiver].passages:
            if passage.arrives == hop:
                self._send(passage.leaves, body)

    def rows(self, name: str) -> list[Row]:
        for stream in self.streams.values():
            if name in stream.results and any(query.name == name for query in stream.queries):
                return pa.concat_tables(stream.results[name]).to_pylist()
        return []
