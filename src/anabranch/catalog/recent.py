"""Files of results that were read lately: many readers of one batch come at about the same time.

In: paths of parquet files that a manifest names; they do not change. Out: their tables, at most so many bytes
of them kept. Never: a file that alone is larger than half of that.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


class Recent:
    """May be used from several threads. With no bytes it keeps nothing."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._kept: dict[Path, pa.Table] = {}  # the one that was used last comes last
        self._lock = threading.Lock()

    def table(self, path: Path) -> pa.Table:
        with self._lock:
            found = self._kept.pop(path, None)
            if found is not None:
                self._kept[path] = found
                return found
        table = pq.read_table(path)
        if table.nbytes <= self.most_bytes // 2:
            with self._lock:
                self._kept[path] = table
                while self.bytes() > self.most_bytes:
                    del self._kept[next(iter(self._kept))]
        return table

    def bytes(self) -> int:
        return sum(table.nbytes for table in self._kept.values())
