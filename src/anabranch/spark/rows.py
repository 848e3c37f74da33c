"""Packets as rows of a Spark DataFrame: an address, a sender and a body. A large body waits in a file (a
parcel), and its row only names it.

`key` decides the partition: zone z goes to partition z modulo the number of partitions, which plain hashing
of few keys would not give. The stage's operator is keyed by it. What leaves the chain stays where its sender
is, so that all partitions write results.

Spark hands a row from the JVM to Python and back at every stage and writes it to disk at every shuffle; for a
million items of 40 bytes that is half a second per stage. A file is written once, and whoever gets the row
maps it. The folder lies below the sink, which every task can reach. It is emptied when a batch has been
delivered and when a query starts: a batch that is repeated writes its parcels again.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from anabranch.chain.packets import DELIVER, Packet, decode, encode, header_of
from anabranch.chain.stages import Sender

_NUMBERS = ("key", "stage", "zone", "from_stage", "from_zone", "from_count")
DDL = ", ".join([*(f"{name} int" for name in _NUMBERS), "family string", "body binary"])
SCHEMA = pa.schema(
    [*((name, pa.int32()) for name in _NUMBERS), ("family", pa.string()), ("body", pa.binary())]
)

#: What Spark's source `binaryFile` says of a file. Columns that are not selected are not read.
FILE_NAMES = "path string, modificationTime timestamp, length long, content binary"

#: The fact of a note that says how many CPU seconds stages took.
CPU = "cpu_s"

Columns = dict[str, list[Any]]


@cache
def zone_key(zone: int, partitions: int) -> int:
    """The least key >= 0, not used by a smaller zone, that Spark's hash puts into partition zone %
    partitions.
    """
    taken = zone_key(zone - partitions, partitions) + 1 if zone >= partitions else 0
    wanted = zone % partitions
    while murmur3(taken) % partitions != wanted:
        taken += 1
    return taken


def murmur3(number: int, seed: int = 42) -> int:
    """Spark's hash of an int: Murmur3 x86 32 bit of its four bytes. Signed, as Java has it."""
    mask = 0xFFFFFFFF
    k = (number & mask) * 0xCC9E2D51 & mask
    k = ((k << 15 | k >> 17) & mask) * 0x1B873593 & mask
    h = seed ^ k
    h = ((h << 13 | h >> 19) & mask) * 5 + 0xE6546B64 & mask
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


def columns_of(
    packets: Iterable[tuple[Sender, Packet]], partitions: int, parcels: str | None = None
) -> Columns:
    """Packets as columns of rows. Packets that share their rows and facts share one body; large ones lie in
    the folder `parcels`, if there is one.
    """
    out: Columns = {name: [] for name in SCHEMA.names}
    bodies: dict[tuple[int, int, int], bytes] = {}
    for sender, packet in packets:
        content = (packet.kind, id(packet.rows), id(packet.facts) if packet.facts else 0)
        body = bodies.get(content)
        if body is None:
            body = bodies[content] = pack(packet, parcels)
        near = sender[1] if packet.stage == DELIVER else packet.zone
        values = (zone_key(near, partitions), packet.stage, packet.zone, *sender, packet.family, body)
        for column, value in zip(out.values(), values, strict=True):
            column.append(value)
    return out


def record_batch(columns: Columns) -> pa.RecordBatch:
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def frame(columns: Columns) -> pd.DataFrame:
    out = pd.DataFrame(columns)
    return out.astype(dict.fromkeys(_NUMBERS, "int32"))


def packets_of(frame: pd.DataFrame) -> list[tuple[Sender, Packet]]:
    """The packets of rows, each with its sender."""
    return [
        ((row.from_stage, row.from_zone, row.from_count), unpack(row.body, row.stage, row.zone, row.family))
        for row in frame.itertuples(index=False)
    ]


def local_path(path: str) -> Path:
    """The path of a file on local disks, as Hadoop writes it: file:/a b/c.parquet"""
    return Path(path.removeprefix("file:"))


# parcels

MAGIC = b"ANBF"
#: Bodies of fewer bytes travel in their rows.
LARGE = 1 << 17


def pack(packet: Packet, folder: str | None) -> bytes:
    """The body of the packet's row. Without a folder it holds everything."""
    if folder is None or packet.rows.nbytes < LARGE:
        return encode(packet)
    path = Path(folder) / uuid.uuid4().hex
    path.parent.mkdir(parents=True, exist_ok=True)  # it goes with every batch
    with pa.OSFile(str(path), "wb") as file:
        file.write(header_of(packet))
        with pa.ipc.new_stream(file, packet.rows.schema) as writer:
            writer.write_batch(packet.rows)
    return MAGIC + str(path).encode()


def content(body: bytes) -> bytes | pa.Buffer:
    """What `encode` made, wherever it is."""
    if body[:4] != MAGIC:
        return body
    with pa.memory_map(body[4:].decode()) as file:
        return file.read_buffer()


def unpack(body: bytes, stage: int, zone: int, family: str = "") -> Packet:
    return decode(content(body), stage, zone, family)


def clear_parcels(folder: Path) -> None:
    """Parcels that are still mapped somewhere keep their memory."""
    shutil.rmtree(folder, ignore_errors=True)
