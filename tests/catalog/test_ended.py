"""When a finite stream has ended."""

from __future__ import annotations

from pathlib import Path

from anabranch.catalog.deliveries import Deliveries, Manifest
from anabranch.catalog.layout import Layout


def test_a_stream_has_ended_once_no_back_packet_is_under_way(tmp_path: Path) -> None:
    """Answers for nearest moving objects may come a batch after the end; a restart goes on until then."""
    deliveries = Deliveries(Layout(tmp_path))
    assert not deliveries.ended("units", "moving")
    for batch, back, books, ended in ((0, [], {}, False), (1, ["x"], {"ended": True}, False)):
        deliveries.commit("units", "moving", Manifest(batch, back=back, books=books))
        assert deliveries.ended("units", "moving") == ended
    deliveries.commit("units", "moving", Manifest(2, books={"ended": True}))
    assert deliveries.ended("units", "moving")
