"""`anabranch results --format xml` of a WXQuery: the XML that it constructs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.registration import bind_subscription
from anabranch.model.subscription import Subscription
from anabranch.results.layout import Layout
from tests.catalog.streams import photons, registered
from tests.cli.conftest import Command
from tests.cli.sinks import deliver

FOR = 'for $p in stream("photons")/photons/photon'

#: Items 0, 1 and 2, of which 1 has no ra; and what is made of them.
MADE = {
    f"<sky> <from><here/></from> {{ {FOR} return <s> {{ $p/ra }} <t/> {{ $p/name }} </s> }} </sky>": """\
<sky><from><here/></from>
<s><ra>120.5</ra><t/><name>"s", &lt;0&gt;</name></s>
<s><t/><name>"s", &lt;1&gt;</name></s>
<s><ra>122.5</ra><t/><name>"s", &lt;2&gt;</name></s>
</sky>
""",
    f"{FOR} return $p/ra": "<ra>120.5</ra>\n<ra>122.5</ra>\n",
    f"{FOR} return <e>{{ $p/ra }}</e>": "<e><ra>120.5</ra></e>\n<e/>\n<e><ra>122.5</ra></e>\n",
    f"<a>{{ {FOR} return if ($p/ra) then <yes/> else if ($p/det_time > 0) then <no/> else () }}</a>": (
        "<a>\n<yes/>\n<no/>\n<yes/>\n</a>\n"
    ),
    f"{FOR} return (<a/>, (), (<b>{{ $p/det_time }}</b>))": (
        "<a/><b><det_time>0.0</det_time></b>\n"
        "<a/><b><det_time>1.0</det_time></b>\n"
        "<a/><b><det_time>2.0</det_time></b>\n"
    ),
    f"{FOR} return <x>{{ for $r in $p/ra where $p/ra > 121 return <r>{{ $r }}</r> }}</x>": (
        "<x/>\n<x/>\n<x><r><ra>122.5</ra></r></x>\n"
    ),
}


@pytest.mark.parametrize("query", MADE)
def test_constructed(anabranch: Command, tmp_path: Path, query: str) -> None:
    sink = delivered(tmp_path / "out", query)
    assert anabranch("results", sink, "q", "--format", "xml").out == MADE[query]


def delivered(root: Path, query: str) -> Path:
    """Items 0, 1 and 2 for the query; 0 and 2 for its second part, if it has one."""
    layout = Layout(root)
    with Catalog(layout.catalog) as catalog:
        registered(catalog).subscribe_many(
            [bind_subscription(Subscription("q", query), {"photons": photons()})]
        )
    deliver(layout, 0, [0, 1], [["q", "q/2"], ["q"]], dead=[("late", "x")])
    deliver(layout, 1, [2], [["q", "q/2"]], dead=[("late", "x")])
    return layout.root


def test_two_loops(anabranch: Command, tmp_path: Path) -> None:
    sink = delivered(tmp_path / "out", f"<a>{{ {FOR} return $p/det_time }}<b/>{{ {FOR} return $p/ra }}</a>")
    done = anabranch("results", sink, "q", "--format", "xml")
    times = "<det_time>0.0</det_time>\n<det_time>1.0</det_time>\n<det_time>2.0</det_time>\n"
    assert done.out == f"<a>\n{times}<b/>\n<ra>120.5</ra>\n<ra>122.5</ra>\n</a>\n"
    limited = anabranch("results", sink, "q", "--format", "xml", "--limit", "4").out
    assert limited == f"<a>\n{times}<b/>\n<ra>120.5</ra>\n</a>\n"
    refused = anabranch("results", sink, "q")
    assert (refused.code, refused.out) == (2, "")
    assert "write them with --format xml, or one of them (q/2 is the second)" in refused.err
    assert anabranch("results", sink, "q/2").out == '{"ra": 120.5}\n{"ra": 122.5}\n'


def test_one_loop_over_two_streams(anabranch: Command, tmp_path: Path) -> None:
    where = "where $p/det_time > $q/det_time"
    query = f"{FOR} for $q in /photons/photon {where} return <x>{{ $p/ra }} {{ $q/ra }}</x>"
    sink = delivered(tmp_path / "out", query)
    assert anabranch("results", sink, "q", "--format", "xml").out == (
        "<x><ra>120.5</ra></x>\n<x><ra>122.5</ra><ra>120.5</ra></x>\n"
    )
    assert anabranch("results", sink, "q", "--format", "csv").out == (
        "p.ra,p.det_time,q.ra,q.det_time\n,1.0,120.5,0.0\n122.5,2.0,120.5,0.0\n"
    )
    untranslated = anabranch("translate", query, "--target", sink)
    assert (untranslated.code, "it goes over several streams" in untranslated.err) == (2, True)
    assert anabranch("cancel", sink, "q").code == 0
    assert anabranch("list", sink).out.count("active") == 0


def test_other_formats_have_the_columns(anabranch: Command, tmp_path: Path) -> None:
    sink = delivered(tmp_path / "out", f"{FOR} return <s><n>{{ $p/name }}</n> {{ $p/ra }} </s>")
    lines = anabranch("results", sink, "q").out.splitlines()
    assert [list(json.loads(line)) for line in lines] == [["name", "ra"]] * 3


def test_a_limit(anabranch: Command, tmp_path: Path) -> None:
    sink = delivered(tmp_path / "out", f"<a>{{ {FOR} return $p/det_time }}</a>")
    done = anabranch("results", sink, "q", "--format", "xml", "--limit", "1")
    assert done.out == "<a>\n<det_time>0.0</det_time>\n</a>\n"
