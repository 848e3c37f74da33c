"""The paper's queries, as they are printed: what they ask and what they make of the results."""

from __future__ import annotations

import pytest

from anabranch.language.bind import compile_query
from anabranch.language.wxquery.construction import Atom, Construction, Element, Loop, Subtree
from tests.language.wxquery.paper import APPENDIX_C, FIGURE_4, FIGURE_7, PHOTONS, QUERIES

STREAMS = {"photons": PHOTONS}


@pytest.mark.parametrize("name", QUERIES)
def test_asks_the_same_as_sql(name: str) -> None:
    wxquery, sql = QUERIES[name]
    made, same = compile_query(wxquery, STREAMS), compile_query(sql, STREAMS)
    assert (made.stream, made.family, made.spec) == (same.stream, same.family, same.spec)
    assert made.construction is not None
    assert same.construction is None


def leaf(path: str) -> Subtree:
    return Subtree(path.rsplit(".", maxsplit=1)[-1], path)


def test_what_is_made_of_the_results() -> None:
    rxj = [leaf(path) for path in ("coord.cel.ra", "coord.cel.dec", "en", "det_time")]
    nested = Element("coord", (Element("cel", tuple(rxj[:2])),))
    for text, row in (
        (FIGURE_4, Element("rxj", tuple(rxj))),
        (FIGURE_7, Element("avg_en", (Atom("a"),))),
        (APPENDIX_C, Element("photon", (nested, *rxj[2:]))),
    ):
        made = Construction(("<photons>", "</photons>"), (Loop(row),))
        assert compile_query(text, STREAMS).construction == made
