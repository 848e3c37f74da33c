"""Remembers in a job's folder which catalog it uses, when that catalog is in another place (PostgreSQL).

The folder and the catalog keep the same id. A job refuses to start when they differ: two jobs must not share
a catalog, and a job must not go on with an empty one.

    out/_anabranch/catalog.json        {"url": "postgresql://...", "id": "3f9c..."}
    the catalog, key "sink"            "3f9c..."
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.database import Address, shown
from anabranch.model.errors import JobError
from anabranch.model.files import written_atomically

SQLITE = "catalog.sqlite"
FILE = "catalog.json"
_KEY = "sink"


@dataclass(frozen=True)
class CatalogLink:
    url: str
    id: str


def read_link(hidden: Path) -> CatalogLink | None:
    """Returns the link in the hidden folder of a sink, None where there is none."""
    try:
        return CatalogLink(**json.loads((hidden / FILE).read_text()))
    except FileNotFoundError:
        return None


def catalog_address(hidden: Path) -> Address:
    """Returns where the catalog of a sink is: where its link says, or in a SQLite file beside it."""
    link = read_link(hidden)
    return hidden / SQLITE if link is None else link.url


def open_linked(hidden: Path, url: str | None) -> Catalog:
    """Opens the catalog of a sink for the job that runs it. `url` None: the SQLite file."""
    link = read_link(hidden)
    if url is None:
        if link is not None:
            raise JobError(_changed(hidden, shown(link.url), "a SQLite file, as engine names no catalog"))
        if not (hidden / SQLITE).exists() and any((hidden / "manifests").glob("*/*.json")):
            raise JobError(
                f"the catalog {hidden / SQLITE} is gone, and the sink {hidden.parent} holds results of its "
                "subscriptions: restore it, or choose another sink"
            )
        return Catalog(hidden / SQLITE)
    if link is None and (hidden / SQLITE).exists():
        raise JobError(_changed(hidden, f"the SQLite file {hidden / SQLITE}", shown(url)))
    if link is not None and link.url != url:
        raise JobError(_changed(hidden, shown(link.url), shown(url)))
    catalog = Catalog(url)
    try:
        _check_or_link(catalog, hidden, url, link)
    except BaseException:
        catalog.close()
        raise
    return catalog


def _check_or_link(catalog: Catalog, hidden: Path, url: str, link: CatalogLink | None) -> None:
    id = catalog.meta(_KEY)
    if link is None and id is not None:
        raise JobError(
            f"the catalog {shown(url)} belongs to another sink; every sink needs its own: another database, "
            "or a schema of its own in this one (?options=-csearch_path%3Dname at the end of the URL)"
        )
    if link is None:
        link = CatalogLink(url, uuid.uuid4().hex)
        _write(hidden / FILE, link)  # first: an id in the catalog that no sink knows could not be removed
    elif id is None and any((hidden / "manifests").glob("*/latest")):
        raise JobError(
            f"the catalog {shown(url)} is empty, and the sink {hidden.parent} has used it: restore it, or "
            "choose another sink"
        )
    if id is None:
        catalog.set_meta(_KEY, link.id)
    elif id != link.id:
        raise JobError(
            f"the catalog {shown(url)} is not the one that the sink {hidden.parent} has used: restore it, or "
            "choose another sink"
        )


def _write(path: Path, link: CatalogLink) -> None:
    """For its owner only: a URL may hold a password."""
    with written_atomically(path, mode=0o600) as file:
        file.write_text(json.dumps(asdict(link)))


def _changed(hidden: Path, before: str, now: str) -> str:
    return (
        f"the catalog of the sink {hidden.parent} is {before}, and is now wanted in {now}: undo the change, "
        f"or choose another sink (where the same catalog has moved, write its new URL into {hidden / FILE})"
    )
