"""What a running job shows: a line that is brought up to date, and a summary at its end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from anabranch.results.manifests import Manifest

if TYPE_CHECKING:
    from anabranch.spark.engine import Engine


class Progress:
    """One row per stream: batch, items per second, latency, what was late and rejected."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True)
        self.quiet = quiet
        self.begun = time.monotonic()
        self.subscriptions: Callable[[], int] = lambda: 0
        self.rows: dict[str, dict[str, Any]] = {}
        self._waits_for: tuple[str, ...] = ()
        self.live: Live | None = None

    def __enter__(self) -> Progress:
        if not self.quiet and self.console.is_terminal:
            self.live = Live(self._table(), console=self.console, refresh_per_second=4, transient=True)
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def batch(self, branch: str, manifest: Manifest) -> None:
        """Called after each batch, from Spark's thread."""
        now = time.monotonic()
        row = self.rows.setdefault(branch, {"at": self.begun, "processed": None, "rate": 0.0, "results": 0})
        processed = manifest.books.get("processed", 0)
        before = row["processed"]
        if before is None:
            before = 0 if manifest.batch == 0 else processed
        row["seconds"] = now - row["at"]
        row["rate"] = (processed - before) / max(row["seconds"], 1e-6)
        row.update(at=now, processed=processed, batch=manifest.batch, books=manifest.books)
        row["results"] += sum(manifest.rows.values())
        if self.live is not None:
            self.live.update(self._table())
        elif not self.quiet:
            print(self._line(branch, row), file=sys.stderr, flush=True)

    def knows(self, queries: Collection[str]) -> bool:
        """Whether each of these branches is through its first batch; of none there is nothing to know."""
        return bool(queries) and all(query in self.rows for query in queries)

    def waits_for(self, what: Sequence[str]) -> None:
        """Says once what a run for some seconds waits for before these count."""
        if tuple(what) == self._waits_for:
            return
        self._waits_for = tuple(what)
        if self.live is not None:
            self.live.update(self._table())
        elif what and not self.quiet:
            print(f"waiting for {', '.join(what)}", file=sys.stderr, flush=True)

    def _line(self, branch: str, row: dict[str, Any]) -> str:
        books = row["books"]
        return (
            f"{branch}: batch {row['batch']}, {row['processed']:,} items, "
            f"{row['rate']:,.0f} items/s, {row['seconds']:.2f} s per batch, "
            f"{self.subscriptions():,} subscriptions, {row['results']:,} result rows, "
            f"{books.get('late', 0):,} late, {books.get('rejected', 0):,} rejected"
        )

    def _table(self) -> Table:
        table = Table(
            "stream",
            "batch",
            "items",
            "items/s",
            "s per batch",
            "subscriptions",
            "result rows",
            "late",
            "rejected",
            caption=f"waiting for {', '.join(self._waits_for)}" if self._waits_for else None,
        )
        count = f"{self.subscriptions():,}"
        for branch, row in self.rows.items():
            books = row["books"]
            table.add_row(
                branch,
                str(row["batch"]),
                f"{row['processed']:,}",
                f"{row['rate']:,.0f}",
                f"{row['seconds']:.2f}",
                count,
                f"{row['results']:,}",
                f"{books.get('late', 0):,}",
                f"{books.get('rejected', 0):,}",
            )
        return table

    def summary(self, engine: Engine) -> None:
        """The books of every stream, and how to see more."""
        if self.quiet:
            return
        for name in engine.streams:
            books = engine.deliveries.books(name)
            if books:
                self.console.print(
                    f"{name}: {books['rows_in']:,} rows in = {books['processed']:,} processed + "
                    f"{books['late']:,} late + {books['rejected']:,} rejected"
                    + (f" ({books['waiting']:,} wait for their turn)" if books["waiting"] else "")
                )
        self.console.print(f"Results: anabranch results {engine.layout.root} NAME", soft_wrap=True)
