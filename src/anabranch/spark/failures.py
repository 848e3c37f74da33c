"""What Spark failed with, in one line that a person can act on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from anabranch.model.errors import AnabranchError, RunError

_CAUSES = re.compile(r"^(?:Caused by: |)([\w.$]*(?:Error|Exception)): (.*)$", re.MULTILINE)


@contextmanager
def as_run_errors() -> Iterator[None]:
    """Turns errors of Spark into ours."""
    try:
        yield
    except AnabranchError:
        raise
    except (PySparkException, Py4JError) as error:
        raise RunError(reason(str(error))) from error


def reason(text: str) -> str:
    """The innermost cause that a trace names; of a Python worker, its last line."""
    causes = [(kind.rsplit(".", 1)[-1], said) for kind, said in _CAUSES.findall(text) if said.strip()]
    plain = [said for kind, said in causes if kind in ("FormatError", "JobError", "RunError", "QueryError")]
    if plain:
        return str(plain[-1])
    if "No space left on device" in text:
        return "the disk is full; make room and run the job again, it goes on where it stopped"
    stated = re.search(r"terminated with exception: (.*?)(?: SQLSTATE|$)", text, re.MULTILINE)
    if stated and not causes:
        return stated[1]
    if causes:
        kind, said = causes[-1]
        return f"{kind}: {said}"
    return text.strip().splitlines()[0] if text.strip() else "Spark failed without a message"
