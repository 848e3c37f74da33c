"""Manifests: one per batch, it says which files of results and dead letters belong to the batch.

    results/<stream>/<table>/batch-000000000012-00001.parquet      written by the tasks of batch 12
    dead_letters/<stream>/...                                       likewise
    _anabranch/manifests/<branch>/000000000012.json                 written last, atomically

A batch exists once its manifest does. A batch that is repeated after a crash writes the same files again
under the same names, so readers that follow the manifests see every result exactly once.

Manifests are a chain: each has the checksum of its own content and that of the manifest before it. All files
that it names are on the disk before it is.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from anabranch.model import files
from anabranch.model.errors import FormatError
from anabranch.model.files import written_atomically
from anabranch.results.layout import Layout

#: What stages took is summed up over so many batches.
MEASURED = 100


@dataclass
class Manifest:
    """What one batch delivered. File names are relative to the sink's root. `before` is the checksum of the
    manifest before this one; both checksums are empty where there is none.
    """

    batch: int
    results: dict[str, list[str]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    dead: list[str] = field(default_factory=list)
    back: list[str] = field(default_factory=list)
    books: dict[str, Any] = field(default_factory=dict)
    notes: list[dict[str, Any]] = field(default_factory=list)
    cpu_s: float = 0.0  # what the stages took
    before: str = ""
    checksum: str = ""

    def to_bytes(self) -> bytes:
        """Returns it with its checksum, which is also set here."""
        content = asdict(self)
        self.checksum = _checksum(content)
        return json.dumps(content | {"checksum": self.checksum}).encode()


def _checksum(content: dict[str, Any]) -> str:
    return sha256(json.dumps(content | {"checksum": ""}).encode()).hexdigest()


def read_manifest(path: Path) -> Manifest:
    """Reads a manifest; FormatError if it is not as it was written. Earlier releases wrote no checksum."""
    content = path.read_bytes()
    try:
        values = json.loads(content)
        manifest = Manifest(**values)
    except (ValueError, TypeError):
        raise FormatError(f"the manifest {path} is damaged: {_damage(content)}") from None
    if manifest.checksum and manifest.checksum != _checksum(values):
        raise FormatError(f"the manifest {path} is damaged: its content does not fit its checksum")
    return manifest


def _damage(content: bytes) -> str:
    return "it is empty" if not content.strip(b"\0") else "it is no JSON object of a manifest"


class Manifests:
    """The manifests below one sink, to write and to read. deliveries.py reads the files that they name."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._checksums: dict[str, tuple[int, str]] = {}  # by branch, of the last one that was written here

    # writing

    def commit(self, branch: str, manifest: Manifest) -> None:
        """Makes a batch exist. The file `latest` saves readers that poll from listing a folder that grows; it
        may be lost, and is then found again.
        """
        folder, batch = self.layout.manifests(branch), manifest.batch
        manifest.before = self._checksum(branch, batch - 1)
        with written_atomically(folder / f"{batch:012d}.json") as file:
            file.write_bytes(manifest.to_bytes())
        self._checksums[branch] = batch, manifest.checksum
        if self.latest(branch) > batch:
            for later in self.numbers(branch):
                if later > batch:  # of a plan that Spark has lost
                    files.DISK.unlink(folder / f"{later:012d}.json")
        self.set_latest(branch, batch)

    def set_latest(self, branch: str, batch: int) -> None:
        with written_atomically(self.layout.manifests(branch) / "latest", durable=False) as file:
            file.write_text(str(batch))

    def _checksum(self, branch: str, batch: int) -> str:
        known, checksum = self._checksums.get(branch, (-1, ""))
        if known == batch and checksum:
            return checksum
        before = self.manifest(branch, batch)
        return before.checksum if before else ""

    # reading

    def latest(self, branch: str) -> int:
        """Returns the number of the last batch, or -1."""
        try:
            return int((self.layout.manifests(branch) / "latest").read_text())
        except (FileNotFoundError, ValueError):
            return max(self.numbers(branch), default=-1)

    def numbers(self, branch: str) -> list[int]:
        """Returns the numbers of all batches, in order."""
        return sorted(int(path.stem) for path in self.layout.manifests(branch).glob("[0-9]*.json"))

    def manifest(self, branch: str, batch: int) -> Manifest | None:
        try:
            return read_manifest(self.layout.manifests(branch) / f"{batch:012d}.json")
        except FileNotFoundError:
            return None

    def written(self, branch: str, batch: int) -> float:
        """Returns when a batch was delivered, in seconds since 1970."""
        return (self.layout.manifests(branch) / f"{batch:012d}.json").stat().st_mtime

    def ended(self, branch: str) -> bool:
        """Whether the finite stream has been read to its end, and no back packet is under way."""
        manifest = self.manifest(branch, self.latest(branch))
        return manifest is not None and bool(manifest.books.get("ended")) and not manifest.back

    def manifests(self, branch: str) -> Iterator[Manifest]:
        for batch in self.numbers(branch):
            yield read_manifest(self.layout.manifests(branch) / f"{batch:012d}.json")

    def books(self, stream: str) -> dict[str, Any]:
        """Returns the books of a stream after its last batch: rows_in, processed, late, rejected, last."""
        branch = self.furthest(stream)
        manifest = self.manifest(branch, self.latest(branch)) if branch else None
        return manifest.books if manifest else {}

    def messages(self, stream: str) -> dict[str, dict[str, int]]:
        """Returns how many messages of the papers the zones of each family have sent, by name: the sums of
        what the notes of all batches say (chain.packets.message_note).
        """
        out: dict[str, Counter[str]] = {}
        for branch in self.layout.branches(stream):
            for manifest in self.manifests(branch):
                for note in manifest.notes:
                    if "messages" in note:
                        out.setdefault(note["family"], Counter()).update(note["messages"])
        return {family: dict(counts) for family, counts in out.items()}

    def work(self, stream: str) -> tuple[int, dict[tuple[str, str], tuple[int, ...]]]:
        """Returns of how many batches it is, and what each stage took in them, by family and stage: rows in,
        bytes in, rows out, CPU in microseconds (spark/stages.py writes it). The last MEASURED batches count.
        """
        batches = 0
        out: dict[tuple[str, str], tuple[int, ...]] = {}
        for branch in self.layout.branches(stream):
            last = self.latest(branch)
            for batch in range(max(0, last - MEASURED + 1), last + 1):
                manifest = self.manifest(branch, batch)
                notes = [note for note in manifest.notes if "work" in note] if manifest else []
                batches += bool(notes)
                for family, stage, *numbers in (one for note in notes for one in note["work"]):
                    known = out.get((family, stage), (0,) * len(numbers))
                    out[family, stage] = tuple(map(sum, zip(known, numbers, strict=True)))
        return batches, dict(sorted(out.items()))

    def furthest(self, stream: str) -> str | None:
        """Returns the branch that has read most of a stream. Every branch reads it on its own."""
        furthest, most = None, -1
        for branch in self.layout.branches(stream):
            manifest = self.manifest(branch, self.latest(branch))
            if manifest and manifest.books.get("rows_in", 0) > most:
                furthest, most = branch, manifest.books.get("rows_in", 0)
        return furthest
