"""The workers' collections stay short however much a worker holds, and no garbage stays for ever."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from anabranch.spark.daemon import Settler


class Node:
    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def settler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Settler]:
    """Every collection counts as slow."""
    monkeypatch.setattr(Settler, "SLOW_S", 0.0)
    made = Settler()
    gc.collect()
    gc.callbacks.append(made)
    yield made
    gc.callbacks.remove(made)
    gc.unfreeze()


def test_what_survived_a_collection_is_not_walked_through_again(settler: Settler) -> None:
    settler.whole_s = 1000.0
    held = [[number] for number in range(200_000)]
    gc.collect()
    assert gc.get_freeze_count() > 200_000
    del held


def test_garbage_in_cycles_goes_in_the_end(settler: Settler) -> None:
    settler.whole_s = 1000.0  # nothing that follows outweighs it
    gc.collect()
    node = Node()
    gone = weakref.ref(node)
    gc.collect()  # freezes it
    del node
    gc.collect()
    assert gone() is not None
    settler.whole_s = 0.0  # what came since outweighs it
    gc.collect()  # thaws
    gc.collect()
    assert gone() is None
