"""Tables for notebooks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from anabranch.catalog.catalog import Catalog
from anabranch.results.notebook import engine_html, subscription_html
from tests.catalog.streams import photons
from tests.cli.sinks import make_sink


def test_what_is_shown_is_escaped() -> None:
    from anabranch.model.html import html_table

    assert "<td>&lt;b&gt;</td><td></td>" in html_table("a & b", ("x", "y"), [("<b>", None)])
    assert "<caption>a &amp; b</caption>" in html_table("a & b", ("x",), [])


def test_a_stream_shows_its_columns() -> None:
    found = photons(position=["ra", "dec"])._repr_html_()
    assert "<tr><td>det_time</td><td>float</td><td>time</td></tr>" in found
    assert "<tr><td>ra</td><td>float</td><td>position</td></tr>" in found


def test_an_engine_and_a_subscription(tmp_path: Path) -> None:
    layout = make_sink(tmp_path / "out")
    with Catalog(layout.catalog) as catalog:
        entry = catalog.subscription("vela")
        shown = engine_html([photons()], catalog.subscriptions())
    assert "<td>vela</td><td>photons</td><td>select</td>" in shown
    assert "en &gt; 1.3" in shown
    many = subscription_html(entry, pa.table({"n": list(range(30))}))
    assert "30 rows, the last 20" in many
    assert "<td>9</td>" not in many
    assert "<td>29</td>" in many
