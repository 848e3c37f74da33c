"""What ties a sink to a catalog that is not below it.

In: a sink's hidden folder, and the URL that a job wants. Out: `catalog.json` with the URL, so that commands
that are given only the folder find the catalog; and an id that both sides keep, so that no two sinks use one
catalog and no sink goes on with an empty one. Never: a change of catalog under a sink that has state.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.database import shown
from anabranch.model.errors import JobError

SQLITE = "catalog.sqlite"
FILE = "catalog.json"
_KEY = "sink"


@dataclass(frozen=True)
class Bond:
    url: str
    id: str


def read_bond(hidden: Path) -> Bond | None:
    try:
        return Bond(**json.loads((hidden / FILE).read_text()))
    except FileNotFoundError:
        return None


def open_bonded(hidden: Path, url: str | None) -> Catalog:
    """The catalog of a sink for the job that runs it. `url` None: the SQLite file."""
    bond = read_bond(hidden)
    if url is None:
        if bond is not None:
            raise JobError(_changed(hidden, shown(bond.url), "a SQLite file, as engine names no catalog"))
        return Catalog(hidden / SQLITE)
    if bond is None and (hidden / SQLITE).exists():
        raise JobError(_changed(hidden, f"the SQLite file {hidden / SQLITE}", shown(url)))
    if bond is not None and bond.url != url:
        raise JobError(_changed(hidden, shown(bond.url), shown(url)))
    catalog = Catalog(url)
    try:
        _tie(catalog, hidden, url, bond)
    except BaseException:
        catalog.close()
        raise
    return catalog


def _tie(catalog: Catalog, hidden: Path, url: str, bond: Bond | None) -> None:
    kept = catalog.meta(_KEY)
    if bond is None and kept is not None:
        raise JobError(
            f"the catalog {shown(url)} belongs to another sink; every sink needs its own: another database, "
            "or a schema of its own in this one (?options=-csearch_path%3Dname at the end of the URL)"
        )
    if bond is None:
        bond = Bond(url, uuid.uuid4().hex)
        _write(hidden / FILE, bond)  # first: a claim in the catalog that no sink knows could not be undone
    elif kept is None and any((hidden / "manifests").glob("*/latest")):
        raise JobError(
            f"the catalog {shown(url)} is empty, and the sink {hidden.parent} has used it: restore it, or "
            "choose another sink"
        )
    if kept is None:
        catalog.set_meta(_KEY, bond.id)
    elif kept != bond.id:
        raise JobError(
            f"the catalog {shown(url)} is not the one that the sink {hidden.parent} has used: restore it, or "
            "choose another sink"
        )


def _write(path: Path, bond: Bond) -> None:
    """For its owner only: a URL may hold a password."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(bond), file)
    os.replace(beside, path)


def _changed(hidden: Path, before: str, now: str) -> str:
    return (
        f"the catalog of the sink {hidden.parent} is {before}, and is now wanted in {now}: undo the change, "
        f"or choose another sink (where the same catalog has moved, say so in {hidden / FILE})"
    )
