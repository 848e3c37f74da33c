"""Files that are there whole or not at all, after a power cut too."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path


class Disk:
    """The calls that decide what is left after a power cut. A file keeps its content once it is synced; a
    name is in its folder once the folder is synced.
    """

    def sync_file(self, path: Path) -> None:
        _sync(path, os.O_RDONLY)

    def sync_folder(self, path: Path) -> None:
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def sync_files(self, paths: Sequence[Path]) -> None:
        """Syncs many files at once, which takes hardly longer than one; those that are gone are left out."""
        list(_threads().map(self._sync_if_there, paths))

    def sync_folders(self, paths: Sequence[Path]) -> None:
        list(_threads().map(self.sync_folder, paths))

    def _sync_if_there(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            self.sync_file(path)

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(8, thread_name_prefix="anabranch sync")


#: What is used; a test has one that loses what was not synced.
DISK = Disk()


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def written_atomically(path: Path, mode: int = 0o666, durable: bool = True) -> Iterator[Path]:
    """Gives a file beside `path` to write to, and moves it to `path` when the block ends without an error.

    Readers see the old file or the new one, never a part; with `durable`, after a power cut too, and when the
    block has ended it is the new one. Folders above `path` are created if needed. `mode` is who may read it,
    less the umask.

        with written_atomically(Path("out/latest")) as file:
            file.write_bytes(b"12")
    """
    _create_folder(path.parent, durable)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode))
        yield beside
        if durable:
            DISK.sync_file(beside)
        DISK.replace(beside, path)
        if durable:
            DISK.sync_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def _create_folder(path: Path, durable: bool) -> None:
    if path.is_dir():
        return
    _create_folder(path.parent, durable)
    path.mkdir(exist_ok=True)
    if durable:
        DISK.sync_folder(path.parent)
