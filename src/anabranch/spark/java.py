"""The options of the JVM that a local session starts: to start fast, and not to fail on a long trace.

Loading Spark's classes takes seconds. Java can keep them in an archive that it maps the next time (AppCDS).
The first session on a machine writes the archive when it ends; those that follow use it:

    ~/.cache/anabranch/spark-3f2a90c1.jsa             for this Java and these jars; about 190 MB
    ~/.cache/anabranch/spark-3f2a90c1.jsa.new         is written by the session that has claimed it
    ~/.cache/anabranch/spark-3f2a90c1.jsa.claim       there is such a session, or it was killed

The name is made from the Java installation and the jars of Spark, so an archive that does not fit is never
used. It is removed when another one has been written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from pathlib import Path

import pyspark

#: A trace of several hundred lines makes a regular expression of Spark recurse so deep that Java's usual
#: stacks are too small.
_ALWAYS = ("-Xss64m",)
#: For runs of seconds: the second compiler does not pay any more, nor do several threads for the garbage.
_SHORT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
#: An archive that has not grown for so long is complete: a JVM writes it in a few seconds when it ends.
_WRITTEN_S = 60.0
#: A claim that is older belongs to a session that will not write any more.
_CLAIMED_S = 24 * 3600.0


def java_options(short: bool) -> str:
    """Returns the options, for spark.driver.extraJavaOptions. `short`: for a run of seconds."""
    log4j = Path(__file__).with_name("log4j2.properties")
    options = [f"-Dlog4j2.configurationFile=file:{log4j}", *_ALWAYS, *(_SHORT if short else ())]
    with contextlib.suppress(OSError):  # no folder to write to: it starts without an archive
        options += _archive_options(cache_folder())
    return " ".join(options)


def cache_folder() -> Path:
    """Returns the folder of this user's caches."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "anabranch"


def _archive_options(folder: Path) -> list[str]:
    name = _archive_name()
    if name is None or " " in str(folder):  # options are separated by blanks
        return []
    archive = folder / name
    _adopt_written(archive)
    quiet = ["-Xlog:disable", "-Xlog:all=error:stderr"]  # warnings of an archive would go to standard output
    if archive.exists():
        return [*quiet, f"-XX:SharedArchiveFile={archive}"]
    if _is_claimed(archive.with_name(f"{name}.claim")):
        return []
    return [*quiet, f"-XX:ArchiveClassesAtExit={archive}.new"]


def _adopt_written(archive: Path) -> None:
    """Gives an archive that an earlier session wrote its name; archives of other versions go."""
    new = archive.with_name(f"{archive.name}.new")
    if not new.exists() or time.time() - new.stat().st_mtime < _WRITTEN_S:
        return
    new.replace(archive)
    for other in archive.parent.glob("spark-*.jsa*"):
        if other != archive:
            other.unlink(missing_ok=True)


def _is_claimed(claim: Path) -> bool:
    """Whether another session writes the archive; if not, this one does from now on."""
    claim.parent.mkdir(parents=True, exist_ok=True)
    if claim.exists() and time.time() - claim.stat().st_mtime > _CLAIMED_S:
        claim.unlink(missing_ok=True)
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        return True
    return False


def _archive_name() -> str | None:
    """Returns a name for the archive of this Java and these jars, or None where they are not found."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    jars = Path(pyspark.__file__).with_name("jars")
    if java is None or not jars.is_dir():
        return None
    modules = Path(java).resolve().parents[1] / "lib" / "modules"
    facts = [pyspark.__version__]
    for path in [modules, *sorted(jars.iterdir())]:
        found = path.stat()
        facts.append(f"{path} {found.st_size} {found.st_mtime_ns}")
    digest = hashlib.blake2b("\n".join(facts).encode(), digest_size=8).hexdigest()
    return f"spark-{digest}.jsa"
