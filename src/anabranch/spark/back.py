"""Back packets: what a batch leaves for the next one, in files below the sink.

    batch 7: deliver writes back/<branch>/batch-000000000007-00000.arrow, and the manifest of batch 7 names it
    batch 8: the operator of order reads the files of batch 7, and sends the packets on

Order runs in every batch, and before all other stages. A batch that is repeated reads the same files again.
When nothing new arrives, a control file makes a batch run (spark/control.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from anabranch.chain.stages import BACK, Inbox
from anabranch.model.files import written_atomically
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifests
from anabranch.spark.operator import Run
from anabranch.spark.rows import SCHEMA, content, packets_of
from anabranch.spark.without import without_packets

#: Spark repeats at most the last batch; files of batches that are so much older go.
KEPT = 100


def write_back(path: Path, parts: Sequence[pa.RecordBatch]) -> Path:
    """Writes rows of back packets, whole, with senders that sort before all that the next batch sends."""
    rows = pa.concat_batches(parts)
    bodies = pa.array([bytes(content(body)) for body in rows.column("body").to_pylist()], pa.binary())
    rows = rows.set_column(rows.schema.get_field_index("body"), "body", bodies)
    sender = pa.compute.subtract(rows.column("from_stage"), pa.scalar(BACK, pa.int32()))
    rows = rows.set_column(rows.schema.get_field_index("from_stage"), "from_stage", sender)
    with written_atomically(path) as file, pa.ipc.new_file(file, SCHEMA) as writer:
        writer.write_batch(rows.cast(SCHEMA))
    return path


def back_packets(run: Run) -> Inbox:
    """Returns the packets that the batch before the one that this task belongs to left for it. For the first
    batch after the zones were rescaled these are their states. Cancellations of what the branch goes on
    without (without.py) are among them.
    """
    context = TaskContext.get()
    number = context.getLocalProperty("streaming.sql.batchId") if context else None
    if number is None:
        raise RuntimeError("Spark does not say which batch this task belongs to")
    layout = Layout(Path(run.root))
    batch = run.first_batch + int(number)
    cancelled = without_packets(run.root, run.branch, batch)
    if run.moved and int(number) == 1:
        return packets_in(layout, run.moved) + cancelled
    manifest = Manifests(layout).manifest(run.branch, batch - 1)
    return packets_in(layout, manifest.back if manifest else ()) + cancelled


def packets_in(layout: Layout, files: Sequence[str]) -> Inbox:
    """Returns the packets in files of packets; their names are relative to the sink's root."""
    out: Inbox = []
    for file in files:
        with pa.ipc.open_file(layout.root / file) as reader:
            out += packets_of(reader.read_all().to_pandas())
    return out


def forget_back(manifests: Manifests, branch: str, batch: int) -> None:
    """Removes the back packets of a batch that lies long before this one."""
    manifest = manifests.manifest(branch, batch - KEPT) if batch >= KEPT else None
    for file in manifest.back if manifest else ():
        (manifests.layout.root / file).unlink(missing_ok=True)
