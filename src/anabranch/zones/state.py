"""State of a zone: named arrays, in chunks, of which a batch stores only those that changed.

In: chunks as bytes from a store. Out: the chunks that a step put or dropped, as bytes.
Never: a decision about where bytes are kept; that is the runner's.

A chunk is a dictionary of numpy arrays or one Arrow record batch, at most about a megabyte of it: families
cut larger arrays into several chunks so that a small change writes little. A step treats the arrays it gets
as its own and calls `put` for each chunk it changed; what it does not put is not stored.

`derived` keeps what can be computed from chunks (an index, say) for as long as those chunks stay the same; it
is never stored, and a worker that takes a zone over builds it anew.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from anabranch.model.errors import FormatError
from anabranch.zones.packets import ipc_bytes

MAGIC = b"ANBS"
VERSION = 5
_HEADER = struct.Struct("<4sHH")
_ARRAYS, _ROWS = 1, 2

Arrays: TypeAlias = dict[str, np.ndarray[Any, Any]]
Chunk: TypeAlias = "Arrays | pa.RecordBatch"
T = TypeVar("T")


def encode_chunk(chunk: Chunk) -> bytes:
    """A chunk as bytes with a version in its header.

    Arrays: the names, types and shapes first, then the arrays one after the other, each at a multiple of 8.
    """
    if isinstance(chunk, pa.RecordBatch):
        return _HEADER.pack(MAGIC, VERSION, _ROWS) + ipc_bytes(chunk)
    index = json.dumps([[name, array.dtype.str, array.shape] for name, array in chunk.items()]).encode()
    parts = [_HEADER.pack(MAGIC, VERSION, _ARRAYS), struct.pack("<I", len(index)), index]
    size = sum(map(len, parts))
    for array in chunk.values():
        if array.dtype.hasobject:
            raise TypeError("state holds numbers; keep strings in a record batch")
        parts.append(b"\0" * (-size % 8))
        parts.append(np.ascontiguousarray(array).tobytes())
        size += len(parts[-2]) + len(parts[-1])
    return b"".join(parts)


def decode_chunk(body: bytes) -> Chunk:
    magic, version, form = _HEADER.unpack_from(body)
    if magic != MAGIC:
        raise FormatError(f"not a chunk of state of ours: it begins with {magic!r} instead of {MAGIC!r}")
    if version != VERSION:
        raise FormatError(
            f"this job's state has format version {version} and this release reads version {VERSION}: "
            "go on with the release that wrote it, or start the job anew with another sink path"
        )
    if form == _ROWS:
        with pa.ipc.open_stream(pa.py_buffer(body).slice(_HEADER.size)) as reader:
            return reader.read_next_batch()
    (index_size,) = struct.unpack_from("<I", body, _HEADER.size)
    place = _HEADER.size + 4 + index_size
    arrays: Arrays = {}
    for name, dtype, shape in json.loads(body[_HEADER.size + 4 : place]):
        place += -place % 8
        count = int(np.prod(shape, dtype=np.int64))
        flat = np.frombuffer(body, np.dtype(dtype), count, place)
        arrays[name] = flat.reshape(shape).copy()  # a step may write into its arrays; bytes are read-only
        place += flat.nbytes
    return arrays


def new_token() -> bytes:
    """Names one content of one chunk; two writes never share a token."""
    return os.urandom(8)


class State:
    """The chunks of one zone of one stage."""

    def __init__(self) -> None:
        self._chunks: dict[str, Chunk] = {}
        self._tokens: dict[str, bytes] = {}
        self._changed: set[str] = set()
        self._dropped: set[str] = set()
        self._derived: dict[str, tuple[tuple[bytes | None, ...], Any]] = {}

    # what a step uses

    def get(self, key: str) -> Arrays | None:
        """The arrays of a chunk, or None. Change them in place if you like, and then `put` them."""
        chunk = self._chunks.get(key)
        if isinstance(chunk, pa.RecordBatch):
            raise TypeError(f"chunk {key!r} holds rows, not arrays")
        return chunk

    def rows(self, key: str) -> pa.RecordBatch | None:
        """The record batch of a chunk, or None."""
        chunk = self._chunks.get(key)
        if isinstance(chunk, dict):
            raise TypeError(f"chunk {key!r} holds arrays, not rows")
        return chunk

    def put(self, key: str, chunk: Chunk) -> None:
        self._chunks[key] = chunk
        self._tokens[key] = new_token()
        self._changed.add(key)
        self._dropped.discard(key)

    def drop(self, key: str) -> None:
        if self._chunks.pop(key, None) is not None:
            del self._tokens[key]
            self._changed.discard(key)
            self._dropped.add(key)

    def keys(self, prefix: str = "") -> list[str]:
        """The keys that begin with `prefix`, in order."""
        return sorted(key for key in self._chunks if key.startswith(prefix))

    def derived(self, name: str, depends: Iterable[str], build: Callable[[], T]) -> T:
        """What `build` makes of the chunks `depends`, made again only when one of them changed."""
        tokens = tuple(self._tokens.get(key) for key in depends)
        held = self._derived.get(name)
        if held is None or held[0] != tokens:
            held = (tokens, build())
            self._derived[name] = held
        made: T = held[1]
        return made

    def renew(self, name: str, depends: Iterable[str], value: T) -> None:
        """Says that `value` is what `build` would make of the chunks `depends` as they are now.

        For something derived that is cheaper to bring up to date than to build anew (one query among ten
        thousand): get it from `derived`, put the chunks that changed, change it accordingly, renew it.
        Whoever changes it and does not renew it gets it built anew the next time.
        """
        self._derived[name] = (tuple(self._tokens.get(key) for key in depends), value)

    # what a runner uses

    @property
    def tokens(self) -> Mapping[str, bytes]:
        return self._tokens

    def load(self, key: str, token: bytes, body: bytes) -> None:
        """Takes a chunk over from the store."""
        self._chunks[key] = decode_chunk(body)
        self._tokens[key] = token

    def forget(self, key: str) -> None:
        """The store no longer has this chunk."""
        self._chunks.pop(key, None)
        self._tokens.pop(key, None)

    def take_changes(self) -> tuple[Iterator[tuple[str, bytes]], list[str]]:
        """(key, bytes) of what was put and the keys of what was dropped, since the last call."""
        changed, dropped = sorted(self._changed), sorted(self._dropped)
        self._changed, self._dropped = set(), set()
        return ((key, self.encoded(key)) for key in changed), dropped

    def encoded(self, key: str) -> bytes:
        return encode_chunk(self._chunks[key])

    @property
    def nbytes(self) -> int:
        return sum(
            chunk.nbytes if isinstance(chunk, pa.RecordBatch) else sum(a.nbytes for a in chunk.values())
            for chunk in self._chunks.values()
        )
