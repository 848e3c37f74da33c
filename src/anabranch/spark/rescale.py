"""Another number of zones for a branch that does not run.

    1. The states of all zones are read from Spark's state store, as they were after the last batch.
    2. The stages run here, in this process, until no back packet is under way; what they deliver is kept.
    3. The states of the new zones are made from them (chain/rescale.py) and written to files.
    4. A new checkpoint is made: an empty batch of the new plan, with the offsets of the old checkpoint.
    5. The catalog is told of the new division. From now on the branch is what the new checkpoint says.

The first batch after that reads the states from the files, as it would read back packets. A crash before step
5 changes nothing, and leaves a folder that the next attempt overwrites. A batch that was planned and not
committed runs again over the same rows. All states of the branch are in memory at once.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from anabranch.catalog.catalog import Catalog
from anabranch.chain.packets import DELIVER, ORDER, Kind, Packet
from anabranch.chain.rescale import rezoned, with_zones
from anabranch.chain.runner import Runner
from anabranch.chain.stages import BACK, Address, Chains, Inbox
from anabranch.chain.state import State
from anabranch.model.branch import Branch
from anabranch.model.errors import RunError
from anabranch.model.files import written_atomically
from anabranch.model.stream import Stream
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifests
from anabranch.spark.back import packets_in
from anabranch.spark.control import control_rows, write_control
from anabranch.spark.division import BranchDivision, known_division, new_division, save_division
from anabranch.spark.operator import Run
from anabranch.spark.query import chains_of, through_stages
from anabranch.spark.rows import DDL, FILE_NAMES, SCHEMA, columns_of, record_batch
from anabranch.spark.session import shuffled

#: The log of a checkpoint that says what each batch reads, and the one that says which are done.
OFFSETS, COMMITS, SOURCES = "offsets", "commits", "sources"


def rescale_branch(
    spark: SparkSession, layout: Layout, catalog: Catalog, stream: Stream, branch: Branch, zones: int
) -> None:
    """Changes the number of zones of a branch. Its rows stay the same."""
    old = known_division(catalog, branch.name)
    if old is None or old.zones == zones:
        return
    checkpoint = layout.checkpoint(old.checkpoint(branch.name))
    done = _last(checkpoint / COMMITS)
    new = replace(new_division(zones, None, spark), rescaled=old.rescaled + 1, first_batch=old.first_batch)
    target = layout.checkpoint(new.checkpoint(branch.name))
    shutil.rmtree(target, ignore_errors=True)
    if done >= 0:
        runner = _Settling(chains_of(stream, branch, old))
        runner.resume_from(*_stored(spark, layout, branch, old, checkpoint, done))
        runner.settle()
        chains = with_zones(runner.chains, zones, runner.states)
        packets = runner.kept + _state_packets(rezoned(runner.chains, chains, runner.states))
        file = layout.back(branch.name) / f"rescaled-{new.rescaled:06d}.arrow"
        _write_packets(file, packets, new.shuffle_partitions)
        moved = (str(file.relative_to(layout.root)),)
        new = replace(new, first_batch=old.first_batch + done, moved=moved, kept=chains.kept)
        _run_empty_batch(spark, chains, new, target)
    _copy_offsets(checkpoint, target, done, new.shuffle_partitions)
    save_division(catalog, branch.name, new)
    shutil.rmtree(checkpoint, ignore_errors=True)
    for name in old.moved:
        (layout.root / name).unlink(missing_ok=True)


def _last(log: Path) -> int:
    """Returns the number of the last batch in a log of a checkpoint, or -1."""
    return max((int(path.name) for path in log.glob("*") if path.name.isdigit()), default=-1)


# the states as they are


class _Settling(Runner):
    """Stages with the states of a branch. Keeps what they deliver."""

    def __init__(self, chains: Chains) -> None:
        super().__init__(chains.stream, list(chains.families.values()), chains.zones, chains.kept)
        self.kept: Inbox = []

    def resume_from(self, states: dict[Address, State], packets: Inbox) -> None:
        self.states.update(states)
        for sender, packet in packets:
            (self.kept if packet.stage == DELIVER else self.back).append((sender, packet))

    def _deliver(self, packet: Packet) -> None:
        self.kept.append(((ORDER - BACK, packet.zone, len(self.kept)), packet))


def _stored(
    spark: SparkSession, layout: Layout, branch: Branch, division: BranchDivision, checkpoint: Path, done: int
) -> tuple[dict[Address, State], Inbox]:
    """Returns the states of all zones after the batch `done`, and the packets that it left for the next."""
    states: dict[Address, State] = defaultdict(State)
    if division.moved and done == 0:  # nothing has run since it was rescaled
        packets = packets_in(layout, division.moved)
        for _, packet in packets:
            if packet.kind is Kind.STATE:
                states[packet.family, packet.stage, packet.zone].unpack(packet.rows)
        return states, [pair for pair in packets if pair[1].kind is not Kind.STATE]
    for operator in sorted(path.name for path in (checkpoint / "state").iterdir() if path.name.isdigit()):
        reader = spark.read.format("statestore").option("operatorId", operator)
        chunks = reader.option("stateVarName", "chunks").option("batchId", done).load(str(checkpoint))
        table = chunks.selectExpr("user_map_key.key AS key", "user_map_value.body AS body").toArrow()
        for key, body in zip(table.column("key").to_pylist(), table.column("body"), strict=True):
            address, chunk = _address(key)
            states[address].load(chunk, b"", bytes(body.as_py()))
    number = division.first_batch + done
    manifest = Manifests(layout).manifest(branch.name, number)
    if manifest is None:
        raise RunError(
            f"batch {number} of {branch.name} is in {checkpoint}, but its manifest is missing below "
            f"{layout.manifests(branch.name)}: restore that folder, or start again with another sink path"
        )
    sent = packets_in(layout, manifest.back)
    return states, [((stage + BACK, zone, count), packet) for (stage, zone, count), packet in sent]


def _address(name: str) -> tuple[Address, str]:
    """`filters/2/1:clock` is the chunk `clock` of depth 2 of the filters in zone 1."""
    where, _, chunk = name.partition(":")
    family, depth, zone = where.split("/")
    return (family, int(depth), int(zone)), chunk


# the states as they will be


def _state_packets(states: dict[Address, State]) -> Inbox:
    return [
        ((ORDER - BACK, zone, 0), Packet(depth, zone, Kind.STATE, state.packed(), family=family))
        for (family, depth, zone), state in states.items()
        if state.tokens
    ]


def _write_packets(path: Path, packets: Inbox, partitions: int) -> None:
    with written_atomically(path) as file, pa.ipc.new_file(file, SCHEMA) as writer:
        for pair in packets:
            writer.write_batch(record_batch(columns_of([pair], partitions)))


# the new checkpoint


def _run_empty_batch(spark: SparkSession, chains: Chains, division: BranchDivision, checkpoint: Path) -> None:
    """Lets Spark make a checkpoint of the new plan, with empty states, by a batch that does nothing."""
    with TemporaryDirectory(prefix="anabranch") as name:
        folder = Path(name)
        for each in ("source", "control"):
            (folder / each).mkdir()
        run = Run(uuid.uuid4().hex, name, "", division.shuffle_partitions, name)
        files = spark.readStream.format("binaryFile").schema(FILE_NAMES).load(str(folder / "source"))
        nothing = files.select("path").mapInArrow(_no_rows, DDL)
        write_control(folder / "control" / "empty.arrow", [((0, 0, 0), Packet(DELIVER, 0, Kind.WAKE))])
        packets = nothing.unionAll(control_rows(spark, folder / "control", run.partitions))
        rows = through_stages(packets, run, chains)
        with shuffled(spark, run.partitions):
            query = rows.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(_drop).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()


def _drop(rows: DataFrame, batch: int) -> None:
    """Runs the plan and writes nothing."""
    rows.write.format("noop").mode("overwrite").save()


def _no_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    return iter(())


def _copy_offsets(old: Path, new: Path, done: int, partitions: int) -> None:
    """Gives the new checkpoint the place of the old one in the sources. The old batch `done` becomes its
    batch 0, which is done; a batch that was planned after it becomes the next.
    """
    if (old / SOURCES).is_dir():
        shutil.rmtree(new / SOURCES, ignore_errors=True)
        shutil.copytree(old / SOURCES, new / SOURCES)
    first = max(done, 0)
    for batch in range(first, _last(old / OFFSETS) + 1):
        version, facts, *places = (old / OFFSETS / str(batch)).read_text().splitlines()
        known = json.loads(facts)
        known["conf"]["spark.sql.shuffle.partitions"] = str(partitions)
        path = new / OFFSETS / str(batch - first)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Spark's checksum of what was there
        path.write_text("\n".join([version, json.dumps(known, separators=(",", ":")), *places]))
