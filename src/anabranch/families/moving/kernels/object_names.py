"""Names of objects: kept as bytes, looked up, compared, sorted, and sent once to every region and assembler
that may need them; and the ranks that names decide at ties.

An object's number is index * zones + zone, where `index` counts the objects of its home zone. Numbers are
dense over the whole stream, so that arrays can be indexed by them, and zones need not agree on them.

The bytes of two names compare as the names do. A string is its UTF-8, whose order is that of code points. An
integer is its eight bytes, the highest first, with the sign bit turned.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain.state import State
from anabranch.families.moving.kernels.arrays import MAX_X, MIN_X, MIN_Y, ZERO, Int, NameArrays
from anabranch.model.arrays import Bools, Bytes, Ints, Ints32, Words
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.numeric.jit import kernel, leaf
from anabranch.numeric.slots import grown

_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(33)
_BYTE = np.uint64(8)
_SIGN = np.uint64(1 << 63)

PREFIX = "names/"
#: A chunk of names is closed when it holds about this many bytes: those of the names, and some for each.
CHUNK_BYTES = 1 << 18
_BYTES_PER_NAME = 12

#: Names in a piece that is sorted by insertion; longer runs are merged from such pieces.
PIECE: Int = np.int64(32)

Strings = tuple[Ints32, Bytes]  # offsets, bytes


@leaf
def hash_name(data: Bytes, low: Int, high: Int) -> np.uint64:
    """FNV-1a of data[low:high], mixed so that its low bits are good; the same on every machine and in every
    process.
    """
    code = _BASIS
    for index in range(low, high):
        code = (code ^ np.uint64(data[index])) * _PRIME
    code = (code ^ (code >> _HALF)) * _MIX
    return code ^ (code >> _HALF)


@kernel
def buckets(offsets: Ints32, data: Bytes, zones: Int) -> Ints:
    """int64[n]: the home zone of each name data[offsets[i]:offsets[i + 1]]."""
    out = np.empty(len(offsets) - 1, np.int64)
    for row in range(len(out)):
        out[row] = np.int64(
            hash_name(data, np.int64(offsets[row]), np.int64(offsets[row + 1])) % np.uint64(zones)
        )
    return out


@leaf
def _is_same(names: NameArrays, index: Int, data: Bytes, low: Int, high: Int) -> bool:
    if names.length[index] != high - low:
        return False
    start = names.start[index]
    for offset in range(high - low):
        if names.data[start + offset] != data[low + offset]:
            return False
    return True


@kernel
def fill_table(table: Ints32, names: NameArrays, count: Int) -> None:
    """Adds the first `count` names to an empty hash table (-1 is free; a power of two long, at most half
    full).
    """
    mask = np.uint64(len(table) - 1)
    for index in range(count):
        low = names.start[index]
        bucket = hash_name(names.data, low, low + np.int64(names.length[index])) & mask
        while table[np.int64(bucket)] >= 0:
            bucket = (bucket + np.uint64(1)) & mask
        table[np.int64(bucket)] = index


@kernel
def find_names(
    table: Ints32, names: NameArrays, count: Int, used: Int, offsets: Ints32, data: Bytes, add: bool
) -> tuple[Ints, Int, Int]:
    """Returns (indexes of the names, -1 where unknown; count; used). With `add`, unknown names are added and
    counted.

    `count` names use `used` bytes of `names.data`; the caller has made room for all that may be added.
    """
    mask = np.uint64(len(table) - 1)
    out = np.empty(len(offsets) - 1, np.int64)
    index: Int = np.int64(-1)
    for row in range(len(out)):
        low, high = np.int64(offsets[row]), np.int64(offsets[row + 1])
        # objects often report in the same order as before: the next name is then the next that was added
        if index + 1 < count and _is_same(names, index + 1, data, low, high):
            index += 1
            out[row] = index
            continue
        bucket = hash_name(data, low, high) & mask
        while table[np.int64(bucket)] >= 0 and not _is_same(names, table[np.int64(bucket)], data, low, high):
            bucket = (bucket + np.uint64(1)) & mask
        index = np.int64(table[np.int64(bucket)])
        if index < 0 and add:
            index = count
            table[np.int64(bucket)] = index
            names.start[index] = used
            names.length[index] = high - low
            _copy(data, low, names.data, used, high - low)
            used += high - low
            count += 1
        out[row] = index
    return out, count, used


@leaf
def less(names: NameArrays, left: Int, right: Int) -> bool:
    """Whether the name of object `left` comes before that of `right`."""
    a, b = names.start[left], names.start[right]
    for offset in range(min(names.length[left], names.length[right])):
        if names.data[a + offset] != names.data[b + offset]:
            return names.data[a + offset] < names.data[b + offset]
    return names.length[left] < names.length[right]


@leaf
def closer(names: NameArrays, who_distance: float, who: Int, other_distance: float, other: Int) -> bool:
    """Whether an object ranks before another by distance; at equal distance the smaller name does."""
    return who_distance < other_distance or (who_distance == other_distance and less(names, who, other))


@leaf
def coordinate(mode: Int, x: float, y: float) -> float:
    """Returns the coordinate whose extreme a query asks for."""
    return x if mode == MIN_X or mode == MAX_X else y


@leaf
def better(names: NameArrays, mode: Int, value: float, who: Int, other: float, other_who: Int) -> bool:
    """Whether an object has the more extreme coordinate; at equal ones the smaller name ranks first."""
    if value == other:
        return less(names, who, other_who)
    return value < other if mode == MIN_X or mode == MIN_Y else value > other


@leaf
def _shared_bytes(names: NameArrays, who: Ints) -> Int:
    """Returns how many bytes all these names begin with alike."""
    if len(who) == 0:
        return ZERO
    start, shared = names.start[who[0]], ZERO + names.length[who[0]]
    for row in range(1, len(who)):
        if who[row] == who[row - 1]:
            continue
        other, length = names.start[who[row]], np.int64(names.length[who[row]])
        same = ZERO
        while same < min(shared, length) and names.data[start + same] == names.data[other + same]:
            same += 1
        shared = same
        if shared == 0:
            break
    return shared


@leaf
def _key(names: NameArrays, who: Int, skip: Int) -> np.uint64:
    """Returns eight bytes of a name, after those that it shares with all others, as a number. Names in order
    have these in order, up to ties.
    """
    start, length = names.start[who] + skip, np.int64(names.length[who]) - skip
    code = np.uint64(0)
    for offset in range(8):
        code = code << _BYTE
        if offset < length:
            code |= np.uint64(names.data[start + offset])
    return code


@leaf
def _is_before(names: NameArrays, who: Ints, keys: Words, left: Int, right: Int) -> bool:
    """Whether the name of row `left` comes before that of row `right`."""
    if keys[left] != keys[right]:
        return keys[left] < keys[right]
    return who[left] != who[right] and less(names, who[left], who[right])


@leaf
def _merge(
    source: Ints, target: Ints, low: Int, middle: Int, high: Int, names: NameArrays, who: Ints, keys: Words
) -> None:
    """Merges source[low:middle] and source[middle:high], both sorted, into target[low:high]; rows of equal
    names keep their order.
    """
    left, right = low, middle
    for index in range(low, high):
        if left < middle and (right == high or not _is_before(names, who, keys, source[right], source[left])):
            target[index] = source[left]
            left += 1
        else:
            target[index] = source[right]
            right += 1


@leaf
def _insert(order: Ints, first: Int, last: Int, who: Ints, names: NameArrays, keys: Words) -> None:
    """Sorts order[first:last] by name, by insertion."""
    for start in range(first + 1, last):
        row, index = order[start], start
        while index > first and _is_before(names, who, keys, row, order[index - 1]):
            order[index] = order[index - 1]
            index -= 1
        order[index] = row


@leaf
def _sort_run(
    order: Ints, spare: Ints, keys: Words, first: Int, last: Int, who: Ints, names: NameArrays
) -> None:
    """Sorts order[first:last] by the names of who[...]: short pieces by insertion, then merged. `spare` is as
    long as `order`, `keys` has the key of every row.
    """
    for piece in range(first, last, PIECE):
        _insert(order, piece, min(piece + PIECE, last), who, names, keys)
    size = PIECE
    while size < last - first:
        for low in range(first, last, 2 * size):
            middle, high = min(low + size, last), min(low + 2 * size, last)
            _merge(order, spare, low, middle, high, names, who, keys)
        for index in range(first, last):
            order[index] = spare[index]
        size *= 2


@leaf
def _fill_keys(keys: Words, who: Ints, names: NameArrays) -> None:
    """Sets the key of every row. Rows of one object often follow each other."""
    skip = _shared_bytes(names, who)
    for row in range(len(who)):
        if row > 0 and who[row] == who[row - 1]:
            keys[row] = keys[row - 1]
        else:
            keys[row] = _key(names, who[row], skip)


@kernel
def sort_by_name(order: Ints, key: Ints, who: Ints, names: NameArrays) -> Ints:
    """Returns `order`, which sorts rows by `key`, with rows of equal key by name and without those that
    cancel out.

    A key is 2 * (query and tick) + (0 for a minus, 1 for a plus). An object that goes from one region to
    another within a range is a minus and a plus of one query and tick: neither is kept.
    """
    spare, keys = np.empty_like(order), np.empty(len(order), np.uint64)
    _fill_keys(keys, who, names)
    kept = ZERO
    first = ZERO
    while first < len(order):
        group = key[order[first]] >> 1
        middle = first
        while middle < len(order) and key[order[middle]] == 2 * group:
            middle += 1
        last = middle
        while last < len(order) and key[order[last]] == 2 * group + 1:
            last += 1
        _sort_run(order, spare, keys, first, middle, who, names)
        _sort_run(order, spare, keys, middle, last, who, names)
        kept = _keep_unpaired(order, first, middle, last, who, names, keys, kept)
        first = last
    return order[:kept]


@leaf
def _keep_unpaired(
    order: Ints, first: Int, middle: Int, last: Int, who: Ints, names: NameArrays, keys: Words, kept: Int
) -> Int:
    """Moves what is kept of the minus rows [first, middle) and plus rows [middle, last) to `kept` and
    after; both are by name.
    """
    plus = middle
    for minus in range(first, middle):
        while plus < last and _is_before(names, who, keys, order[plus], order[minus]):
            plus += 1
        if plus < last and who[order[plus]] == who[order[minus]]:
            order[plus] = -1 - order[plus]  # marked: its minus is gone
            plus += 1
        else:
            order[kept] = order[minus]
            kept += 1
    for plus in range(middle, last):
        if order[plus] >= 0:
            order[kept] = order[plus]
            kept += 1
    return kept


@kernel
def counting_order(key: Ints, size: Int) -> Ints:
    """Returns the order that sorts keys in [0, size); equal ones stay as they are. For a size that is not
    much larger than the number of keys.
    """
    first = np.zeros(size + 1, np.int32)
    for row in range(len(key)):
        first[key[row] + 1] += 1
    for value in range(size):
        first[value + 1] += first[value]
    order = np.empty(len(key), np.int64)
    for row in range(len(key)):
        order[first[key[row]]] = row
        first[key[row]] += 1
    return order


@kernel
def collect(names: NameArrays, who: Ints) -> tuple[Ints32, Bytes]:
    """Returns (offsets, bytes) of the names of `who`, one after the other."""
    offsets = np.zeros(len(who) + 1, np.int32)
    for row in range(len(who)):
        offsets[row + 1] = offsets[row] + (names.length[who[row]] if who[row] >= 0 else 0)
    data = np.empty(offsets[-1], np.uint8)
    for row in range(len(who)):
        if who[row] >= 0:
            start = np.int64(offsets[row])
            _copy(names.data, names.start[who[row]], data, start, np.int64(offsets[row + 1]) - start)
    return offsets, data


@leaf
def _copy(source: Bytes, low: Int, target: Bytes, start: Int, length: Int) -> None:
    for offset in range(length):
        target[start + offset] = source[low + offset]


@kernel
def add_names(names: NameArrays, who: Ints, offsets: Ints32, data: Bytes, used: Int) -> Int:
    """Adds names under the numbers `who`; returns how many bytes of `names.data` are used then."""
    for row in range(len(who)):
        low = np.int64(offsets[row])
        length = np.int64(offsets[row + 1]) - low
        names.start[who[row]] = used
        names.length[who[row]] = length
        _copy(data, low, names.data, used, length)
        used += length
    return used


# names as Arrow has them


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
