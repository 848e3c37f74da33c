"""The catalog in several processes at once: everybody's changes are there, versions appear in their order."""

from __future__ import annotations

import multiprocessing
import threading

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.database import Address
from anabranch.model.control_log import Activate, Cancel
from tests.catalog.streams import registered

EACH = 40


def _subscribe(address: Address, who: str) -> None:
    with Catalog(address) as catalog:
        registered(catalog)
        for count in range(EACH):
            catalog.subscribe(f"{who}{count}", "photons", "filters", "select", "", {"kind": "select"})
            if count % 2:
                catalog.cancel(f"{who}{count}")


def _follow(address: Address, wanted: int) -> list[tuple[str, int]]:
    """Reads the log as a running job does: from the version it has seen to the newest."""
    seen: list[tuple[str, int]] = []
    version = 0
    with Catalog(address) as catalog:
        while len(seen) < wanted:
            newest = catalog.version("photons", ["filters"])
            for control in catalog.log("photons", ["filters"], version, newest):
                assert isinstance(control, Activate | Cancel)
                seen.append((type(control).__name__, control.number))
            version = newest
    return seen


def test_two_processes_write_while_a_third_follows(address: Address) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_subscribe, args=(address, who)) for who in ("a", "b")]
    for writer in writers:
        writer.start()
    wanted = 2 * (EACH + EACH // 2)
    followed: list[tuple[str, int]] = []
    follower = threading.Thread(target=lambda: followed.extend(_follow(address, wanted)), daemon=True)
    follower.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    follower.join(60)
    with Catalog(address) as catalog:
        whole = catalog.log("photons", ["filters"], 0, catalog.version("photons", ["filters"]))
        assert len(catalog.subscriptions(state=None)) == 2 * EACH
        assert len(catalog.subscriptions()) == EACH
    assert followed == [(type(control).__name__, control.number) for control in whole]  # type: ignore[union-attr]


def test_several_threads_share_one(address: Address) -> None:
    with Catalog(address) as catalog:
        registered(catalog)

        def work(who: int) -> None:
            for count in range(20):
                catalog.subscribe(f"{who}-{count}", "photons", "filters", "select", "", {})
                catalog.subscriptions()

        threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert catalog.count() == 80
