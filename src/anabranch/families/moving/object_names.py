"""Names of objects: kept as bytes whose order is that of the names, and sent once to every region and
assembler that may need them.

An object's number is index * zones + zone, where `index` counts the objects of its home zone. Numbers are
dense over the whole stream, so that arrays can be indexed by them, and zones need not agree on them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain.state import State
from anabranch.families.moving.kernels.arrays import NameArrays
from anabranch.families.moving.kernels.name_table import add_names, collect, fill_table, find_names
from anabranch.model.arrays import Bools, Bytes, Ints, Ints32
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.numeric.slots import grown

PREFIX = "names/"
#: A chunk of names is closed when it holds about this many bytes: those of the names, and some for each.
CHUNK_BYTES = 1 << 18
_BYTES_PER_NAME = 12

_SIGN = np.uint64(1 << 63)

Strings = tuple[Ints32, Bytes]  # offsets, bytes


def has_integers(stream: Stream) -> bool:
    """Whether objects are named by integers; all other names are shown as strings."""
    return stream.object is not None and stream.type_of(stream.object) is ColumnType.INT


def encoded(column: pa.Array) -> Strings:
    """Returns the names of a column as bytes. A missing name becomes an empty string or 0; the caller leaves
    it out.
    """
    if pa.types.is_integer(column.type):
        filled = pc.fill_null(column, 0) if column.null_count else column
        return integer_bytes(filled.to_numpy(zero_copy_only=False))
    column = column.cast(pa.string())
    if column.null_count:
        column = pc.fill_null(column, "")
    _, offsets, data = column.buffers()
    edges = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    # copies, because a kernel is compiled once for arrays that can be written to, and Arrow's cannot
    return edges.copy(), np.frombuffer(data, np.uint8).copy() if data is not None else np.zeros(0, np.uint8)


def integer_bytes(values: Ints) -> Strings:
    turned = (values.astype(np.int64).view(np.uint64) ^ _SIGN).astype(">u8")
    return np.arange(0, 8 * len(values) + 1, 8, dtype=np.int32), turned.view(np.uint8).copy()


def decoded(strings: Strings, missing: Bools, integers: bool) -> pa.Array:
    """Returns names as they are shown: integers or strings; null where `missing`."""
    offsets, data = strings
    if integers:
        values = np.zeros(len(missing), np.int64)
        values[~missing] = (data.view(">u8").astype(np.uint64) ^ _SIGN).view(np.int64)
        return pa.array(values, pa.int64(), mask=missing)
    column = pa.StringArray.from_buffers(len(missing), pa.py_buffer(offsets), pa.py_buffer(data))
    return pc.if_else(pa.array(~missing), column, None) if missing.any() else column


def focal_bytes(text: str, integers: bool) -> bytes | None:
    """Returns the bytes of a name in a query's text; None if no object can have that name."""
    if not integers:
        return text.encode()
    try:
        value = int(text)
    except ValueError:
        return None
    return bytes(integer_bytes(np.array([value]))[1]) if -(1 << 63) <= value < 1 << 63 else None


class ObjectNames:
    """Names by object number, as regions and assemblers keep them; stored in the order in which they came."""

    def __init__(self) -> None:
        self.arrays = NameArrays(np.zeros(64, np.int64), np.zeros(64, np.int32), np.zeros(1024, np.uint8))
        self.used = 0  # bytes
        self._new: list[tuple[Ints, Strings]] = []

    @staticmethod
    def load(state: State) -> ObjectNames:
        table = ObjectNames()
        for key in state.keys(PREFIX):
            chunk = state.get(key)
            assert chunk is not None
            table._insert(chunk["who"], (_offsets(chunk["length"]), chunk["data"]))
        return table

    def add(self, who: Ints, strings: Strings) -> None:
        if len(who):
            self._insert(who, strings)
            self._new.append((who, strings))

    def _insert(self, who: Ints, strings: Strings) -> None:
        self._make_room(int(who.max(initial=-1)) + 1, len(strings[1]))
        self.used = int(add_names(self.arrays, who, *strings, self.used))

    def _make_room(self, count: int, more: int) -> None:
        start, length, data = self.arrays
        if count > len(start):
            room = max(2 * len(start), count)
            start, length = grown(start, room, len(start)), grown(length, room, len(length))
        if self.used + more > len(data):
            data = grown(data, max(2 * len(data), self.used + more), self.used)
        self.arrays = NameArrays(start, length, data)

    def save(self, state: State) -> None:
        """Stores what was added since the last call."""
        if not self._new:
            return
        who = np.concatenate([who for who, _ in self._new])
        length = np.concatenate([np.diff(offsets).astype(np.int32) for _, (offsets, _) in self._new])
        data = np.concatenate([data[offsets[0] : offsets[-1]] for _, (offsets, data) in self._new])
        self._new = []
        keys = state.keys(PREFIX)
        last, position = state.get(keys[-1]) if keys else None, len(keys)
        if last is not None and _size(last["length"]) < CHUNK_BYTES:  # it is not full yet
            who, length = np.concatenate([last["who"], who]), np.concatenate([last["length"], length])
            data, position = np.concatenate([last["data"], data]), position - 1
        ends = np.cumsum(length)
        chunk_of = (ends + _BYTES_PER_NAME * np.arange(len(who))) // CHUNK_BYTES
        for chunk in range(int(chunk_of[-1]) + 1):
            low, high = np.searchsorted(chunk_of, [chunk, chunk + 1]).tolist()
            if high > low:
                body = data[ends[low] - length[low] : ends[high - 1]]
                rows = {"who": who[low:high].copy(), "length": length[low:high].copy(), "data": body.copy()}
                state.put(f"{PREFIX}{position:08d}", rows)
                position += 1

    def shown(self, who: Ints, integers: bool) -> pa.Array:
        """Returns the names of objects as they are shown, null for -1."""
        if integers and (who >= 0).all():
            return pa.array(self.integers(who))
        return decoded(collect(self.arrays, who), who < 0, integers)

    def integers(self, who: Ints) -> Ints:
        """Returns the names of objects that are named by integers."""
        words = self.arrays.data[: self.used].view(np.uint64)  # each name has eight bytes
        values: Ints = (words[self.arrays.start[who] >> 3].byteswap() ^ _SIGN).view(np.int64)
        return values


class HomeNames(ObjectNames):
    """The names of a home zone by index, which can also be looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._table = np.full(256, -1, np.int32)

    @staticmethod
    def load(state: State) -> HomeNames:
        names = HomeNames()
        for key in state.keys(PREFIX):
            chunk = state.get(key)
            assert chunk is not None
            names._insert(chunk["who"], (_offsets(chunk["length"]), chunk["data"]))
            names.count += len(chunk["who"])
        names._fill_buckets(names.count)
        return names

    def find(self, strings: Strings, add: bool = False) -> Ints:
        """Returns the index of each name, -1 where it is unknown; with `add`, unknown names get the next
        ones.
        """
        offsets, data = strings
        before = self.count
        if add:
            self._make_room(before + len(offsets) - 1, len(data))
            self._make_buckets(before + len(offsets) - 1)
        found, count, used = find_names(self._table, self.arrays, before, self.used, offsets, data, add)
        self.count, self.used = int(count), int(used)
        if self.count > before:
            new = np.arange(before, self.count)
            self._new.append((new, collect(self.arrays, new)))
        return found

    def _make_buckets(self, count: int) -> None:
        if 2 * count > len(self._table):
            self._fill_buckets(count)

    def _fill_buckets(self, count: int) -> None:
        """Builds the hash table for `count` names, at most half full."""
        self._table = np.full(1 << max(8, (4 * count).bit_length()), -1, np.int32)
        fill_table(self._table, self.arrays, self.count)

    def new_names(self) -> tuple[Ints, Strings] | None:
        """Returns what was added since the last `save`."""
        if not self._new:
            return None
        new = np.arange(self._new[0][0][0], self.count)
        return new, collect(self.arrays, new)


def _size(length: Ints32) -> int:
    """Returns the bytes that names of these lengths take in a chunk."""
    return int(length.sum()) + _BYTES_PER_NAME * len(length)


def _offsets(lengths: Ints32) -> Ints32:
    out = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=out[1:])
    return out
