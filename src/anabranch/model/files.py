"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_atomically(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """Gives a file beside `path` to write to, and moves it to `path` when the block ends without an error.

    Readers see the old file or the new one, never a part. Folders above `path` are created if needed. `mode`
    is who may read it, less the umask.

        with written_atomically(Path("out/latest")) as file:
            file.write_bytes(b"12")
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode))
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
