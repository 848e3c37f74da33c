"""What is wrong with a WXQuery, or cannot be done, and where the error points."""

from __future__ import annotations

import pytest

from anabranch.language.bind import compile_query
from anabranch.language.wxquery.recognise import is_wxquery
from anabranch.model.errors import QueryError
from tests.language.refused import refused
from tests.language.streams import STREAMS

FOR = 'for $p in stream("photons")/photons/photon'
WINDOW = f"{FOR}|count 20 step 10|".replace("$p", "$w")

SYNTAX = [
    ("<a>[[hello]]</a>", "found 'hello'", "there is no text of its own"),
    ("<a [[x]]='1'/>", "'/>' or '>'", "there are no attributes"),
    ("<a><b></[[a]]></b>", "</a> closes <b>; write </b>"),
    ("<a:b></[[a:c]]>", "</a:c> closes <a:b>"),
    ("<[[!]]-- hi --><a/>", "comments are written (: like this :)"),
    (f"[[-]]- hm\n{FOR} return $p", "comments are written (: like this :)"),
    (f"{FOR} [[(:]] hm return $p", "this comment has no end"),
    (f"{FOR}/[[/]]en return $p", "only the child axis"),
    (f"{FOR} return $p/[[*]]", "no wildcards"),
    (f"{FOR} return $p/[[@]]en", "no attributes: in a stream they are elements"),
    (f"{FOR} [[order]] by $p/en return $p", "there is no order by"),
    (f"{FOR} [[wher]] $p/en > 1 return $p", "did you mean where?"),
    (f"{FOR} where $p/en =[[=]] 1 return $p", "a path, a number or a string"),
    (f"{FOR} where $p/en = [[']]x return $p", "no closing quote"),
    (f'{FOR} where $p/en = "a[[&]]b" return $p', "& itself is written &amp;"),
    (f'{FOR} where $p/en = "[[&#0;]]" return $p', "no character is called this"),
    (f"{FOR} where $p/en > 1 return[[]]", "the query ends here", "an expression such as $p/en"),
    (f"<a>{{ {FOR} return $p }}[[]]", "a closing tag"),
    ("for $p in[[]]", "a path such as stream"),
    (f"{FOR}|det_time [[20]]|", "diff or '/'"),
    (f"{FOR} return if ($p/en > 1) then $p[[]]", "else"),
    (f"{FOR} where not[[(]]$p/en > 1) return $p", "found '('"),
]

MEANING = [
    ("[[<a/>]]", "goes over no stream"),
    ("<a>{ [[$p/en]] }</a>", "unknown variable $p"),
    ("<a>{ [[en]] }</a>", "begins nowhere"),
    (f"<a>{{ [[if (1 = 1) then {FOR} return $p else ()]] }}</a>", "an if outside of for"),
    ("[[let $a := avg(stream('photons')/photons/photon/en)]] return $a", "a let before the for"),
    ("for $p in [[doc('data.xml')]]/a/b return $p", "doc(): a query reads streams"),
    ("for $p in [[stream()]]/a/b return $p", "without a name"),
    ("for $p in [[stream('photon')]]/a/b return $p", "unknown stream 'photon'", "did you mean 'photons'?"),
    ("for $p in [[stream('photons')/photon]] return $p", "names the root and the item"),
    ("for $p in stream('photons')/photon/[[en]] return $p", "en is a part of the items", "/root/item"),
    (f"{FOR} where $p/[[enn]] > 1 return $p", "unknown path enn", "did you mean en?", "coord/cel/ra"),
    (f"{FOR} where $p/coord/cel/[[raa]] > 1 return $p", "did you mean coord/cel/ra?"),
    (f"{FOR} where [[$p/coord]] > 1 return $p", "holds elements", "coord/cel/dec"),
    (f"{FOR} where [[$p/en > 'x']] return $p", "$p/en is a number; 'x' is a string"),
    (f"{FOR} where [[$p/en > 1 and $p/en < 0]] return $p", "can never be true", "exclude each other"),
    (f"{FOR} where [[en]] > 1 return $p", "begins nowhere"),
    (f"{FOR} where [[5]] return $p", "not a condition"),
    (f"{FOR} return [[$q]]", "unknown variable $q", "$p"),
    (f"{FOR} [[let $a := avg($p/en)]] return $a", "a let without a window"),
    (f"{FOR} return <a>{{ [[stream('photons')]]/photons/photon }}</a>", "a stream inside of a for"),
    (f"{FOR} for [[$p]] in stream('trades')/a/b return $p", "bound twice"),
    (f"{FOR} for $t in stream('trades')/a/b return $p/[[price]]", "unknown path"),
    (f"{FOR} for $t in stream('trades')/a/b where [[$p/en = $t/symbol]] return $p", "is a string"),
    (f"{FOR} for $t in stream('trades')/a/b where $p/en = [[$q]] return $p", "unknown variable $q", "$p, $t"),
    (f"{FOR} for $q in [[$t]]/price for $t in stream('trades')/a/b return $p", "unknown variable $t"),
    (f"{FOR} for $t in stream('trades')/a/b[price > [[$p]]/en] return $p", "unknown variable $p"),
    (f"{FOR} for $q in $p/coord[[|count 5|]] return $p", "a window over a part of an item"),
    (f"{FOR.replace('$p', '$w')} [[|det_time diff 10|]] return $w", "a window without a let"),
    (f"{WINDOW} where [[$w/en]] > 1 return $w", "the contents of a window"),
    (f"{WINDOW} let $a := count($w) return [[$w]]", "the contents of a window"),
    (f"{WINDOW} let $a := count($w) where [[$w/en]] > 1 return $a", "photon[en > 1.3]"),
    (f"{WINDOW} for $p in [[$w/coord]] return $p", "the contents of a window"),
    (f"{WINDOW} let $a := avg([[$w]]) return $a", "name the element"),
    (f"{WINDOW} let $a := [[mean]]($w/en) return $a", "unknown function 'mean'", "min, max, sum, count, avg"),
    (f"{WINDOW} let $a := avg($w/en) let $b := avg([[$a]]) return $b", "no window"),
    (f"{WINDOW} let $a := avg($w/en) let [[$a]] := min($w/en) return $a", "bound twice"),
    (f"{WINDOW} let [[$items]] := count($w) return $items", "a column items already"),
    (f"{WINDOW} let $a := avg($w/en) return [[$a/en]]", "has no elements"),
    (f"{WINDOW} let $a := avg($w/en) where [[$a > 1 and $a < 0]] return $a", "can never be true"),
    (f"{FOR}|[[phc]] diff 20| let $a := count($p) return $a", "declares: det_time"),
    (f"{FOR}|count [[0]]| let $a := count($p) return $a", "at least 1"),
    (f"{FOR}|count [[1.5]]| let $a := count($p) return $a", "whole number"),
    (f"{FOR}|det_time diff [[0]]| let $a := count($p) return $a", "greater than 0"),
]


@pytest.mark.parametrize("bad", SYNTAX + MEANING, ids=lambda bad: bad[0])
def test_refused(bad: tuple[str, ...]) -> None:
    refused(*bad)


def test_a_condition_inside_an_aggregate() -> None:
    """`refused` would take the end of the condition for the end of its mark."""
    with pytest.raises(QueryError, match="a condition inside an aggregate") as caught:
        compile_query(f"{WINDOW} let $a := avg($w/en[en > 1]) return $a", STREAMS)
    assert (caught.value.offset, caught.value.length) == (
        len(f"{WINDOW} let $a := avg($w/"),
        len("en[en > 1]"),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<a/>", True),
        ("  for $p", True),
        ("FOR", True),
        ("-- hm\n (: hm :) <a/>", True),
        ("(for $p", True),
        ("let $a", True),
        ("if (", True),
        ("stream ('x')", True),
        ("/a/b", True),
        ("SELECT en FROM photons FOR OBJECT 'x'", False),
        ("(SELECT en FROM photons)", False),
        ("-- for\nSELECT", False),
        ("/* for $p */ SELECT", False),
        ("forum", False),
        ("", False),
    ],
)
def test_recognised_by_how_it_begins(text: str, expected: bool) -> None:
    assert is_wxquery(text) is expected


def test_too_deep() -> None:
    deep = "<a>" * 70 + "{" + FOR + " return $p}" + "</a>" * 70
    with pytest.raises(QueryError, match="nested more than 64 levels deep"):
        compile_query(deep, STREAMS)
