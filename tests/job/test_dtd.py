"""DTDs: which element is an item, and what is in it."""

from __future__ import annotations

import pytest

from anabranch.job.dtd import read_dtd
from anabranch.model.errors import JobError

#: Figure 2 of the paper, as appendix C prints it.
PHOTONS = """
<!ELEMENT photons (photon)* >
<!ELEMENT photon (coord, phc, en, det_time)>
<!ELEMENT coord (cel, det)>
<!ELEMENT cel (ra, dec)>
<!ELEMENT ra (#PCDATA)>
<!ELEMENT dec (#PCDATA)>
<!ELEMENT det (dx, dy)>
<!ELEMENT dx (#PCDATA)>
<!ELEMENT dy (#PCDATA)>
<!ELEMENT phc (#PCDATA)>
<!ELEMENT en (#PCDATA)>
<!ELEMENT det_time (#PCDATA)>
"""


def test_the_paper() -> None:
    dtd = read_dtd(PHOTONS, "photons.dtd")
    assert dtd.item == "photon"
    assert list(dtd.elements) == ["coord", "phc", "en", "det_time"]
    assert dtd.elements["coord"] == {"cel": {"ra": {}, "dec": {}}, "det": {"dx": {}, "dy": {}}}


@pytest.mark.parametrize(
    ("model", "once"),
    [
        ("(a, b?, c)", "abc"),
        ("(a | (b, c))", "abc"),
        ("(a*, b+, c)", "c"),
        ("((a, b)*, c)", "c"),
        ("((a, (b | c)+)?)", "a"),
        ("(a, b, a)", "b"),
        ("(#PCDATA | a | b)*", ""),
        ("( #PCDATA )", ""),
        ("EMPTY", ""),
        ("ANY", ""),
    ],
)
def test_what_is_there_once(model: str, once: str) -> None:
    text = f"<!-- <!ELEMENT x (y)> --><!ELEMENT s (i+)><!ELEMENT i {model}>"
    assert read_dtd(text, "s.dtd").elements == {name: {} for name in once}


def test_attributes() -> None:
    text = """<!ELEMENT s (i*)> <!ELEMENT i (a, b)> <!ATTLIST i id ID #REQUIRED kind (x | y) "x">
              <!ELEMENT a (#PCDATA)> <!ATTLIST a unit CDATA #FIXED 'km > m' note CDATA #IMPLIED>"""
    elements = read_dtd(text, "s.dtd").elements
    assert elements == {"a": {"_VALUE": {}, "_unit": {}, "_note": {}}, "b": {}, "_id": {}, "_kind": {}}


def test_the_item_can_be_named() -> None:
    text = "<!ELEMENT s (i*, j*)> <!ELEMENT i (a)> <!ELEMENT j (b)>"
    assert read_dtd(text, "s.dtd", "j").elements == {"b": {}}
    for wrong, why in (
        (text, "one kind of element, the items"),
        ("<!ELEMENT s (i)*> <!ELEMENT i (a)> <!ELEMENT a (i)>", "element i is inside itself"),
        ("<!ELEMENT s (i)*> <!ELEMENT i (a, (b)>", "element i: its content .* cannot be read"),
        ("<!ENTITY % x '(a)'> <!ELEMENT s %x;>", "parameter entities"),
        ("nothing", "no <!ELEMENT ...> is declared"),
        ("<!ELEMENT s (i)*>", "element i is not declared; there are s"),
    ):
        with pytest.raises(JobError, match=f"s.dtd: .*{why}"):
            read_dtd(wrong, "s.dtd")
