"""Windows: their JSON, and what becomes of those that are not full at the end."""

from __future__ import annotations

import pytest

from anabranch.model.window import AtEnd, Window


@pytest.mark.parametrize(
    "window",
    [Window("rows", 20, 10), Window("range", 1.5, 1.5, AtEnd.GATHER), Window("range", 60, 40, AtEnd.CUT)],
)
def test_there_and_back(window: Window) -> None:
    assert Window.from_json(window.to_json()) == window


def test_ends() -> None:
    assert Window("rows", 1, 1).end is AtEnd.CUT
    assert Window("range", 1, 1).end is AtEnd.RUN
    assert Window("rows", 1, 1, AtEnd.GATHER).end is AtEnd.GATHER
