"""Networks from TOML and from the paper's XML, and ways through them."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.model.errors import JobError
from anabranch.planning.network import Network
from anabranch.planning.scenario import MBIT, read_scenario

TOML = """
name = "two"
[site.A]
capacity = 0.5
[site.B]
index = 2
[[link]]
between = ["B", "A"]
bandwidth_mbit = 8
[stream.photons]
site = "A"
[[query]]
name = "vela"
site = "B"
query = "SELECT ra FROM photons"
"""

XML = """<?xml version="1.0" encoding="UTF-8"?>
<scenario name="example" xmlns="http://www.in.tum.de/projects/StreamGlobe/scenario">
  <statistix dbPath="x" reportType="file" />
  <graph>
    <vertex vid="0" label="010" /> <vertex vid="1" label="100" /> <vertex vid="2" label="110" />
    <edge source="1" target="0" /> <edge source="1" target="2" />
  </graph>
  <streams>
    <stream sid="photons" type="file"><dtd filename="vela.dtd" /><param name="a"> 100 </param></stream>
  </streams>
  <queries>
    <query qid="1"><![CDATA[ <photons> { for $p in stream("photons")/photons/photon
      where $p/en >= 1.3 return <p> { $p/en } </p> } </photons> ]]></query>
  </queries>
  <injectorMapping><mapping peer="2" stream="photons" /></injectorMapping>
  <queryMapping><mapping peer="0" query="1" /></queryMapping>
</scenario>
"""


def written(tmp_path: Path, text: str, name: str = "n.toml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_toml(tmp_path: Path) -> None:
    found = read_scenario(written(tmp_path, TOML))
    assert found.name == "two"
    assert (found.network.sites["A"].capacity, found.network.sites["B"].index) == (0.5, 2)
    assert found.network.links["A", "B"].bandwidth == 8 * MBIT == 1_000_000
    assert found.network.streams == {"photons": "A"}
    assert [(one.name, one.site) for one in found.queries] == [("vela", "B")]


def test_the_papers_xml(tmp_path: Path) -> None:
    found = read_scenario(written(tmp_path, XML, "example.xml"))
    assert list(found.network.sites) == ["SP0", "SP1", "SP2"]
    assert found.network.way("SP2", "SP0") == ("SP2", "SP1", "SP0")
    assert found.network.streams == {"photons": "SP2"}
    (query,) = found.queries
    assert (query.name, query.site) == ("q1", "SP0")
    assert query.query.startswith("<photons> { for $p in stream")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('site = "B"', 'site = "C"', "query vela: there is no site 'C'; there are: A, B"),
        (
            "bandwidth_mbit = 8",
            "bandwidth_mbit = 0",
            "n.toml:9: link 1: bandwidth_mbit = 0 cannot be; it must be a number > 0",
        ),
        ("index = 2", "speed = 2", "n.toml:6: site B: unknown setting 'speed'. There are: capacity, index"),
        ('["B", "A"]', '["B", "D"]', "there is no site 'D'"),
        (
            '["B", "A"]',
            '["B", "B"]',
            'n.toml:8: link 1: between = ["B", "B"] cannot be; it must be two different sites',
        ),
        ('name = "vela"', "", "n.toml:12: query 1: name is missing"),
        ("[site.A]", "[site.A", "n.toml:3: not valid TOML"),
        ('[stream.photons]\nsite = "A"', "", "there is no stream: write [stream.NAME]"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, before: str, after: str, said: str) -> None:
    path = written(tmp_path, TOML.replace(before, after))
    with pytest.raises(JobError) as refused:
        read_scenario(path)
    assert str(refused.value).startswith("n.toml:")
    assert said in str(refused.value)


def test_wrong_xml(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="not XML"):
        read_scenario(written(tmp_path, "<a>", "a.xml"))
    with pytest.raises(JobError, match="names query 7"):
        read_scenario(written(tmp_path, XML.replace('query="1"', 'query="7"'), "b.xml"))
    with pytest.raises(JobError, match="there is no scenario"):
        read_scenario(tmp_path / "none.toml")


def test_ways_around() -> None:
    from anabranch.simulate.scenarios import GRID, _network

    network = _network(16, GRID, {})
    assert len(network.links) == 24
    way = network.way("SP0", "SP3")
    assert way == ("SP0", "SP1", "SP2", "SP3")
    around = network.way_around("SP0", "SP3", frozenset({"SP1"}))
    assert around is not None
    assert len(around) == 6
    assert "SP1" not in around
    assert network.way_around("SP0", "SP3", frozenset({"SP1", "SP4"})) is None
    assert Network.single(["s"]).way("here", "here") == ("here",)
