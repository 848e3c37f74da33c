"""The paths of a job's sources: relative and absolute ones, URLs and wildcards.

Only `missing_paths` looks at the disk.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from anabranch.model.errors import JobError
from anabranch.model.job import Job

_WILDCARDS = set("*?[{")


def absolute(path: str, folder: Path) -> str:
    """Returns the path below `folder`, unless it is absolute; URLs stay as they are, but file: is a path."""
    path = path.removeprefix("file://") if path.startswith("file:///") else path
    if is_url(path):
        return path
    return os.path.abspath(os.path.join(folder, os.path.expanduser(path)))


def is_url(path: str) -> bool:
    return "://" in path


def has_wildcards(path: str) -> bool:
    return bool(_WILDCARDS & set(path))


def fixed_part(path: str) -> Path:
    """Returns what is above the first part with a wildcard: /data/photons of /data/photons/*.parquet."""
    parts = Path(path).parts
    fixed = next((index for index, part in enumerate(parts) if has_wildcards(part)), len(parts))
    return Path(*parts[:fixed])


def reads_own_results(path: str, sink: Path) -> bool:
    """Whether what is written below `sink` would be read from `path`.

    sink /d/out     path /d/out, /d/out/*, /d (all below it), /d/*, /d/out/results/x     yes
                    path /d/in, /d/*.parquet                                             no
    """
    if is_url(path):
        return False
    fixed = fixed_part(path)
    if fixed == sink or sink / "results" in (fixed, *fixed.parents):
        return True
    above = (sink, *sink.parents)
    if not has_wildcards(path):
        return fixed in above
    return any(len(Path(path).parts) == len(one.parts) and fnmatch(str(one), path) for one in above)


def missing_paths(job: Job) -> Iterator[JobError]:
    """Gives an error for every stream whose schema should come from files when there are none.

    With a schema in the job file, a stream may run before its first file is there.
    """
    for declaration in job.streams.values():
        path = declaration.source.path
        if path is None or declaration.source.schema is not None or is_url(path):
            continue
        if os.path.exists(path) or (has_wildcards(path) and _matches(path)):
            continue
        fixed = fixed_part(path)
        there = next(one for one in (fixed, *fixed.parents) if one.exists())
        what = "nothing matches" if has_wildcards(path) else "there is no"
        yield JobError(
            f"{job.path.name}: stream {declaration.name}: {what} {path} (there is {there}); "
            f"paths are relative to the folder of {job.path.name}"
        )


def _matches(path: str) -> bool:
    if "{" in path:  # Spark's wildcards know {a,b}, Python's do not: leave it to Spark
        return True
    return next(glob.iglob(path), None) is not None
