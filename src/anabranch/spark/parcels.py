"""Bodies of packets on their way through Spark: a large one waits in a file, and its row only names it.

Spark hands a row from the JVM to Python and back at every stage and writes it to disk at every shuffle; for a
million items of 40 bytes that is half a second a stage. A file is written once, and whoever gets the row maps
it. The folder lies below the sink, which every task can reach. It is emptied when a batch has been delivered
and when a query starts: a batch that is repeated writes its parcels again.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pyarrow as pa

from anabranch.zones.packets import Packet, decode, encode, header_of

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


def unpack(body: bytes, stage: int, zone: int) -> Packet:
    return decode(content(body), stage, zone)


def clear(folder: Path) -> None:
    """Parcels that are still mapped somewhere keep their memory."""
    shutil.rmtree(folder, ignore_errors=True)
