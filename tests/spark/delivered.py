"""What a subscription has been answered, read from the sink as other processes would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.deliveries import Deliveries
from anabranch.catalog.layout import Layout
from anabranch.families.registry import family


def delivered(sink: Path, name: str) -> list[dict[str, Any]]:
    layout = Layout(sink)
    with Catalog.existing(layout.catalog) as catalog:
        entry = catalog.subscription(name)
        of = family(entry.family)
        table, shown = of.shown(catalog.stream(entry.stream), entry.spec)
    found = Deliveries(layout).results(entry.stream, entry.family, of.table(table), name, shown)
    return [row for part in found for row in part.to_pylist()]
