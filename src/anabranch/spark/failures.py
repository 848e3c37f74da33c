"""What a running job failed with: the cause in a line that a person can act on, where it happened, and a file
that has the whole trace.

    stream photons failed in batch 12: OverflowError: Python int too large to convert to C long
      in stage rendezvous of nearest, zone 0, in the batch in which subscription 'absurd' begins
      the whole trace is in out/_anabranch/failures/photons-000000000012.txt
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from anabranch.chain.stages import WHERE
from anabranch.model.errors import AnabranchError, RunError
from anabranch.model.files import written_atomically

#: Spark's message when a Python process did not answer within ten seconds.
TOO_SLOW = "Python worker failed to connect back"

_CAUSES = re.compile(r"^(?:Caused by: |)([\w.$]*(?:Error|Exception)): (.*)$", re.MULTILINE)
#: The last line of a Python traceback: what follows its indented lines.
_RAISED = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*([\w.]+)(?:: (.*))?$", re.MULTILINE
)
_WHERE = re.compile(rf"{re.escape(WHERE)}(\{{.*\}})")
#: Errors that only say that there was another one.
_WRAPPERS = ("PythonException", "Py4JJavaError", "SparkException", "StreamingQueryException", "Py4JError")
_OURS = ("FormatError", "JobError", "RunError", "QueryError", "SubscriptionError")


@dataclass(frozen=True)
class Failure:
    """What a trace says. `begins` are the subscriptions that the stage was just beginning with, `names` those
    that the error itself names.
    """

    cause: str
    where: str = ""
    begins: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def suspects(self) -> tuple[str, ...]:
        """The subscriptions that it may be because of: those that it names, or the only one that begins."""
        return self.names or (self.begins if len(self.begins) == 1 else ())

    def message(self, what: str, trace: Path | None) -> str:
        lines = [f"{what} failed: {self.cause}" if what else self.cause]
        if self.where:
            lines.append(f"  in {self.where}")
        if trace is not None:
            lines.append(f"  the whole trace is in {trace}")
        return "\n".join(lines)


def failure_of(text: str) -> Failure:
    """Returns what a trace of Spark says."""
    found = _WHERE.findall(text)
    if not found:
        return Failure(reason(text))
    facts = json.loads(found[-1])
    begins, names = tuple(facts.get("begins", ())), tuple(facts.get("names", ()))
    where = f"stage {facts['stage']}" + (f" of {facts['family']}" if facts["family"] else "")
    where += f", zone {facts['zone']}"
    if len(begins) == 1:
        where += f", in the batch in which subscription {begins[0]!r} begins"
    elif begins:
        where += f", in the batch in which {len(begins):,} subscriptions begin, {begins[0]!r} the first"
    return Failure(reason(text), where, begins, names)


@contextmanager
def as_run_errors(folder: Path | None = None, what: str = "") -> Iterator[None]:
    """Turns errors of Spark into ours. Traces go into the folder; `what` failed."""
    try:
        yield
    except AnabranchError:
        raise
    except (PySparkException, Py4JError) as error:
        raise run_error(error, folder, what) from error


def run_error(error: Exception, folder: Path | None, what: str = "") -> RunError:
    trace = None
    if folder is not None:
        trace = folder / f"{re.sub(r'[^A-Za-z0-9.]+', '-', what or 'job')}.txt"
        try:
            with written_atomically(trace) as file:
                file.write_text(trace_of(error))
        except OSError:  # a full disk, which may be what failed
            trace = None
    return RunError(failure_of(str(error)).message(what, trace))


def trace_of(error: Exception) -> str:
    """All that is known of an error, Java's stack included."""
    return f"{error}\n\n{getattr(error, '_stackTrace', None) or ''}\n"


def reason(text: str) -> str:
    """The innermost cause that a trace names; of a Python worker, what it raised."""
    causes = [(kind.rsplit(".", 1)[-1], said) for kind, said in _CAUSES.findall(text) if said.strip()]
    plain = [said for kind, said in causes if kind in _OURS]
    if plain:
        return str(plain[-1])
    if "No space left on device" in text:
        return "the disk is full; make room and run the job again, it goes on where it stopped"
    damaged = _damaged_checkpoint(text)
    if damaged:
        return damaged
    raised = [(kind.rsplit(".", 1)[-1], said) for kind, said in _RAISED.findall(text)]
    raised = [(kind, said) for kind, said in raised if kind not in _WRAPPERS]
    causes = raised or [(kind, said) for kind, said in causes if kind not in _WRAPPERS] or causes
    stated = re.search(r"terminated with exception: (.*?)(?: SQLSTATE|$)", text, re.MULTILINE)
    if stated and not causes:
        return stated[1]
    if causes:
        kind, said = causes[-1]
        return f"{kind}: {said}" if said else kind
    return text.strip().splitlines()[0] if text.strip() else "Spark failed without a message"


#: How Spark says that a file of its checkpoint is gone or cannot be read.
_CHECKPOINT = re.compile(
    r"(CANNOT_LOAD_STATE_STORE|StateStore\w*(?:Corrupt|Checksum|NotFound)\w*|MALFORMED_STATE|"
    r"Error reading delta file|Incomplete log file|Log file was malformed|Malformed log file|"
    r"[Bb]atch \d+ doesn't exist|checkpoint corrupted)"
)
_FILE = re.compile(r"(?:file:)?(/[^\s'\",()]*/(?:checkpoints?|offsets|commits|state|sources)/[^\s'\",()]*)")


def _damaged_checkpoint(text: str) -> str | None:
    said = _CHECKPOINT.search(text)
    if said is None:
        return None
    file = _FILE.search(text)
    what = file[1].rstrip(".:;]") if file else "a file of Spark's checkpoint"
    return (
        f"the checkpoint is damaged: {what} cannot be read ({said[1]}). Restore the whole folder of the sink "
        "from a backup, or start again with another sink path; results so far can still be read"
    )
