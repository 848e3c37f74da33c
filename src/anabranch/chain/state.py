"""State of a zone: named arrays, in chunks, of which a batch stores only those that changed.

In: chunks as bytes from a store. Out: the chunks that a step put or dropped, as bytes.
Never: a decision about where bytes are kept; that is the runner's.

A chunk is a dictionary of numpy arrays or one Arrow record batch, at most about a megabyte of it: families
cut larger arrays into several chunks so that a small change writes little. A step treats the arrays it gets
as its own and calls `put` for each chunk it changed; what it does not put is not stored.

`cached` keeps in memory what can be computed from chunks (an index, say) for as long as those chunks stay the
same; it is never stored, and a worker that takes a zone over builds it again. Small facts are kept as JSON.
"""

from __future__ import annotations

import json
import os
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from anabranch.chain.packets import ipc_bytes
from anabranch.model.arrays import Bytes
from anabranch.model.errors import FormatError

MAGIC = b"ANBS"
VERSION = 8
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
    offset = _HEADER.size + 4 + index_size
    arrays: Arrays = {}
    for name, dtype, shape in json.loads(body[_HEADER.size + 4 : offset]):
        offset += -offset % 8
        count = int(np.prod(shape, dtype=np.int64))
        flat = np.frombuffer(body, np.dtype(dtype), count, offset)
        arrays[name] = flat.reshape(shape).copy()  # a step may write into its arrays; bytes are read-only
        offset += flat.nbytes
    return arrays


def to_json(value: Any) -> Bytes:
    """A value as the bytes of its JSON, for a chunk of arrays."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def from_json(body: Bytes) -> Any:
    return json.loads(bytes(body))


def new_token() -> bytes:
    """Names one content of one chunk; two writes never share a token."""
    return os.urandom(8)


class State:
    """The chunks of one zone of one stage."""

    def __init__(self) -> None:
        self._chunks: dict[str, Chunk] = {}
        self._keys: list[str] | None = []  # in order; None when chunks have come or gone
        self._tokens: dict[str, bytes] = {}
        self._changed: set[str] = set()
        self._dropped: set[str] = set()
        self._cache: dict[str, tuple[tuple[bytes | None, ...], Any]] = {}

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

    def get_json(self, key: str) -> Any:
        """What `put_json` put, or None."""
        arrays = self.get(key)
        return None if arrays is None else from_json(arrays["json"])

    def put_json(self, key: str, value: Any) -> None:
        """Keeps a small value that JSON can hold; puts it only if it has changed."""
        body = to_json(value)
        old = self.get(key)
        if old is None or old["json"].tobytes() != body.tobytes():
            self.put(key, {"json": body})

    def put(self, key: str, chunk: Chunk) -> None:
        if key not in self._chunks:
            self._keys = None
        self._chunks[key] = chunk
        self._tokens[key] = new_token()
        self._changed.add(key)
        self._dropped.discard(key)

    def drop(self, key: str) -> None:
        if self._chunks.pop(key, None) is not None:
            self._keys = None
            del self._tokens[key]
            self._changed.discard(key)
            self._dropped.add(key)

    def keys(self, prefix: str = "") -> list[str]:
        """The keys that begin with `prefix`, in order."""
        if self._keys is None:
            self._keys = sorted(self._chunks)
        if not prefix:
            return self._keys.copy()
        first = last = bisect_left(self._keys, prefix)
        while last < len(self._keys) and self._keys[last].startswith(prefix):
            last += 1
        return self._keys[first:last]

    def cached(self, name: str, depends: Iterable[str], build: Callable[[], T]) -> T:
        """What `build` makes of the chunks `depends`. It is kept in memory and built again only when one of
        these chunks has changed, or on another worker.
        """
        tokens = self._tokens_of(depends)
        found = self._cache.get(name)
        if found is None or found[0] != tokens:
            found = (tokens, build())
            self._cache[name] = found
        value: T = found[1]
        return value

    def cache(self, name: str, depends: Iterable[str], value: object) -> None:
        """Says that `value` is what `build` would make of the chunks `depends` as they are now.

        For an object that is cheaper to bring up to date than to build again (one query among ten thousand):

            groups = state.cached("groups", state.keys(), load)
            groups.add(query)
            groups.save(state)  # puts the chunks that changed
            state.cache("groups", state.keys(), groups)

        Without the last line it would be built again. A runner forgets what is cached when a step fails.
        """
        self._cache[name] = (self._tokens_of(depends), value)

    def forget_cache(self) -> None:
        """For a step that failed halfway: what it changed in memory may not fit the chunks any more."""
        self._cache.clear()

    def _tokens_of(self, keys: Iterable[str]) -> tuple[bytes | None, ...]:
        return tuple(map(self._tokens.get, keys))

    # what a runner uses

    @property
    def tokens(self) -> Mapping[str, bytes]:
        return self._tokens

    def load(self, key: str, token: bytes, body: bytes) -> None:
        """Takes a chunk over from the store."""
        self._chunks[key] = decode_chunk(body)
        self._keys = None
        self._tokens[key] = token

    def copy(self) -> State:
        out = State()
        out.unpack(self.packed())
        return out

    def packed(self, prefix: str = "") -> pa.RecordBatch:
        """The chunks whose keys begin with `prefix`, as rows: key, body."""
        keys = self.keys(prefix)
        bodies = pa.array([self.encoded(key) for key in keys], pa.binary())
        return pa.record_batch({"key": pa.array(keys, pa.string()), "body": bodies})

    def unpack(self, rows: pa.RecordBatch) -> None:
        """Puts the chunks that another state has packed."""
        for key, body in zip(rows.column("key").to_pylist(), rows.column("body"), strict=True):
            self.put(key, decode_chunk(body.as_py()))

    def forget(self, key: str) -> None:
        """The store no longer has this chunk."""
        self._chunks.pop(key, None)
        self._keys = None
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
