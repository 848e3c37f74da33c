"""The `source` of a stream in a job file: formats, paths and options.

In: the table as it was written. Out: a Source with absolute paths. Never: a look into the files; only
`missing_paths` asks whether they are there.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from anabranch.catalog import reading
from anabranch.catalog.reading import Check, Section, Wrong
from anabranch.model.errors import JobError
from anabranch.model.job import FILE_FORMATS, SOURCE_FORMATS, Job, Source

#: Options of Spark's readers that stand beside `format`; any other goes into `options = { ... }` unchecked.
_FILES = "maxFilesPerTrigger maxBytesPerTrigger latestFirst maxFileAge fileNameOnly pathGlobFilter"
_PARSED = f"{_FILES} encoding timestampFormat timestampNTZFormat dateFormat locale mode samplingRatio"
_OPTIONS = {
    "parquet": f"{_FILES} recursiveFileLookup mergeSchema datetimeRebaseMode int96RebaseMode",
    "json": f"{_PARSED} recursiveFileLookup multiLine lineSep primitivesAsString prefersDecimal "
    "allowComments allowSingleQuotes allowUnquotedFieldNames allowNumericLeadingZeros "
    "allowNonNumericNumbers",
    "csv": f"{_PARSED} recursiveFileLookup header sep delimiter quote escape comment inferSchema "
    "enforceSchema multiLine lineSep nullValue nanValue positiveInf negativeInf emptyValue "
    "ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace",
    "xml": f"{_PARSED} recursiveFileLookup row rowTag attributePrefix valueTag nullValue excludeAttribute "
    "ignoreNamespace ignoreSurroundingSpaces rowValidationXSDPath wildcardColName",
    "kafka": "startingOffsets startingTimestamp maxOffsetsPerTrigger minPartitions failOnDataLoss",
    "rate": "rowsPerSecond rampUpTime numPartitions",
}
_NEEDED = {**dict.fromkeys(FILE_FORMATS, ("path",)), "kafka": ("bootstrap", "topic", "schema")}
_WILDCARDS = set("*?[{")


def read_source(section: Section, folder: Path) -> Source:
    """The source of a stream; relative paths are below `folder`."""
    if "format" not in section.values:
        found = reading.closest("format", section.values)
        hint = f"; did you mean format instead of {found!r}?" if found else ""
        raise section.error(
            f"source has no format{hint}; it must be one of {', '.join(SOURCE_FORMATS)}", "source"
        )
    form = section.checked("format", reading.one_of(SOURCE_FORMATS))
    values = section.read(_checks(section, form, folder), _NEEDED.get(form, ()), _HINT)
    options = {key: value for key, value in values.items() if key not in ("format", "schema", "options")}
    for key, value in values.get("options", {}).items():
        if key in options or key in ("format", "schema"):
            raise section.error(f"{key} stands both in source and in its options; write it once", "source")
        options[key] = value
    return Source(form, options, values.get("schema"))


_HINT = "; Spark's other options go into options = { ... }"


def _checks(section: Section, form: str, folder: Path) -> dict[str, Check]:
    checks: dict[str, Check] = {"format": reading.text}
    if form == "generator":  # it knows best what it takes
        return {
            **checks,
            **dict.fromkeys(section.values, _anything),
            "name": reading.text,
            "schema": reading.text,
        }
    if form in FILE_FORMATS:
        checks["path"] = lambda value: absolute(_path(value), folder)
    if form == "xml":
        checks["dtd"] = lambda value: absolute(_path(value), folder)
    if form == "kafka":
        checks |= {"bootstrap": reading.text, "topic": reading.text}
    checks |= {"schema": reading.text, "options": reading.scalars}
    return checks | dict.fromkeys(_OPTIONS[form].split(), reading.scalar)


def _anything(value: Any) -> Any:
    return value


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise Wrong('a path such as "photons/*.parquet"')
    return value


def absolute(path: str, folder: Path) -> str:
    """The path below `folder` unless it is absolute; URLs stay as they are, but file: is a path."""
    path = path.removeprefix("file://") if path.startswith("file:///") else path
    if is_url(path):
        return path
    return os.path.abspath(os.path.join(folder, os.path.expanduser(path)))


def is_url(path: str) -> bool:
    return "://" in path


def has_wildcards(path: str) -> bool:
    return bool(_WILDCARDS & set(path))


def fixed_part(path: str) -> Path:
    """The folder or file above the first part with a wildcard: /data/photons of /data/photons/*.parquet."""
    parts = Path(path).parts
    fixed = next((place for place, part in enumerate(parts) if has_wildcards(part)), len(parts))
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
    """An error for every stream whose schema should come from files when there are none.

    With a schema of its own a stream may begin before its first file is there.
    """
    for declaration in job.streams.values():
        path = declaration.source.path
        if path is None or declaration.source.schema is not None or is_url(path):
            continue
        if os.path.exists(path) or (has_wildcards(path) and _matches(path)):
            continue
        found = fixed_part(path)
        there = next(one for one in (found, *found.parents) if one.exists())
        what = "nothing matches" if has_wildcards(path) else "there is no"
        yield JobError(
            f"{job.path.name}: stream {declaration.name}: {what} {path} (there is {there}); "
            f"paths are relative to the folder of {job.path.name}"
        )


def _matches(path: str) -> bool:
    if "{" in path:  # Spark's wildcards know {a,b}, Python's do not: leave it to Spark
        return True
    return next(glob.iglob(path), None) is not None
