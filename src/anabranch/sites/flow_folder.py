"""A link that is a folder: pieces of a flow as files, each there whole or not at all.

    sites/plant1/links/office/3/000000000000.piece       flow 3 on its way from plant1 to office
                                000000000001.piece

A piece is made from a batch that is committed, so it is the same whenever it is made, and it is made once:
its facts name the batch, and after a crash sending goes on behind the last piece that is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from anabranch.catalog.entries import Entry
from anabranch.chain.flows import PieceFacts, facts_in_bytes, facts_of, next_piece, piece_bytes
from anabranch.families.base import Shown
from anabranch.families.registry import family as family_of
from anabranch.model.columns import Column, ColumnType
from anabranch.model.files import written_atomically
from anabranch.model.stream import NUMBER, Stream
from anabranch.results.deliveries import Deliveries
from anabranch.results.manifests import Manifest
from anabranch.sites.deployment import FlowHop, Passage

LINKS, SUFFIX = "links", ".piece"


def flow_folder(folders: Mapping[str, Path], hop: FlowHop) -> Path:
    """Returns where the pieces of a flow on a link are: below the folder of the sending site."""
    return folders[hop.sender] / LINKS / hop.receiver / str(hop.node)


def pieces(folder: Path) -> list[Path]:
    """Returns the pieces that are there, in order."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def link_bytes(folders: Mapping[str, Path], sender: str, receiver: str) -> int:
    """Returns what has been sent from one site to another."""
    below = folders[sender] / LINKS / receiver
    return sum(path.stat().st_size for path in below.glob(f"*/*{SUFFIX}"))


def flow_has_ended(folder: Path) -> bool:
    """Whether the last piece of a flow has arrived."""
    there = pieces(folder)
    return bool(there) and facts_in_bytes(there[-1].read_bytes()).ended


class FlowSender:
    """Writes what one query of an engine delivers as pieces of a flow. `activation` is the version of the
    control log that activates the query.
    """

    def __init__(
        self, folder: Path, deliveries: Deliveries, entry: Entry, stream: Stream, activation: int
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.deliveries, self.activation = folder, deliveries, activation
        self.branch = deliveries.branch(entry)
        self._rows = _reader(deliveries, entry, stream)
        there = pieces(folder)
        self.sent: PieceFacts | None = facts_in_bytes(there[-1].read_bytes()) if there else None

    def catch_up(self) -> None:
        """Sends the batches that were delivered and not sent: the process may have died between the two."""
        first = 0 if self.sent is None else self.sent.batch + 1
        for batch in range(first, self.deliveries.latest(self.branch) + 1):
            manifest = self.deliveries.manifest(self.branch, batch)
            if manifest is not None:
                self.send(manifest)

    def send(self, manifest: Manifest) -> None:
        """Sends what a batch has delivered, unless that was done before."""
        if self.sent is not None and manifest.batch <= self.sent.batch:
            return
        if not manifest.books or manifest.books["version"] < self.activation:
            return
        before = self.deliveries.manifest(self.branch, manifest.batch - 1)
        piece = next_piece(
            self.sent,
            self._rows(manifest),
            before.books if before else {},
            manifest.books,
            manifest.batch,
            bool(manifest.books["ended"]) and not manifest.back,
        )
        if piece is None:
            return
        facts = facts_of(piece)
        with written_atomically(self.folder / f"{facts.sequence:012d}{SUFFIX}") as file:
            file.write_bytes(piece_bytes(piece))
        self.sent = facts


def _reader(deliveries: Deliveries, entry: Entry, stream: Stream) -> Callable[[Manifest], pa.Table]:
    """Returns a function that reads the rows of a batch, items with their numbers."""
    family = family_of(entry.family)
    name, shown = family.shown(stream, entry.spec)
    table = family.table(name)
    if entry.kind == "select":
        shown = (Shown(NUMBER, Column(NUMBER, ColumnType.INT)), *shown)
    return lambda manifest: deliveries.rows(manifest, table, entry.label, shown)


class FlowPassage:
    """Passes a flow on, piece by piece, without a look inside."""

    def __init__(self, folders: Mapping[str, Path], passage: Passage) -> None:
        self.arrives, self.leaves = (flow_folder(folders, hop) for hop in (passage.arrives, passage.leaves))
        self.leaves.mkdir(parents=True, exist_ok=True)
        self._next = len(pieces(self.leaves))

    def pass_on(self) -> None:
        while (source := self.arrives / f"{self._next:012d}{SUFFIX}").exists():
            with written_atomically(self.leaves / source.name) as file:
                file.write_bytes(source.read_bytes())
            self._next += 1

    def has_ended(self) -> bool:
        """Whether the last piece of the flow has been passed on."""
        return flow_has_ended(self.leaves)
