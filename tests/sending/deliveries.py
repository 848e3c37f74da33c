"""Subscriptions whose results are sent, batches that have some, and a sender, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.receivers import Receivers
from anabranch.catalog.registration import register
from anabranch.model.subscription import Subscription
from anabranch.results.deliveries import Deliveries
from anabranch.results.layout import Layout
from anabranch.sending.sender import Produce, Sender
from tests.cli.sinks import deliver


def subscribe(layout: Layout, name: str, address: str, owner: str | None = None) -> int:
    with Catalog(layout.catalog) as catalog:
        new = Subscription(name, "SELECT det_time, ra FROM photons", deliver=address)
        return register(catalog, Deliveries(layout), catalog.streams(), [new], owner)[0]


def batch(layout: Layout, number: int, names: list[str], rows: int = 3) -> list[dict[str, Any]]:
    """Delivers a batch whose rows are for all of the names. Returns what each is to get."""
    numbers = [1_000 * number + row for row in range(rows)]
    deliver(layout, number, numbers, [names] * rows, dead=[("late", "{}")])
    return [{"det_time": float(n), "ra": 120.5 + n} for n in numbers]


def progress(layout: Layout, number: int) -> dict[str, Any]:
    """How far sending the results of a subscription has come."""
    receivers = Receivers(layout.catalog)
    facts = receivers.all()[number].facts(Deliveries(layout).latest("photons"))
    receivers.close()
    return facts


@contextmanager
def sending(
    layout: Layout, private: bool = False, produce: Produce | None = None, patience_s: float = 2.0
) -> Iterator[None]:
    """Sends while the context lasts, and for a while longer what is left."""
    sender = Sender(layout, private, produce)
    sender.start()
    try:
        yield
    finally:
        sender.stop(patience_s)
