"""Networks with streams and queries attached to their sites, from a file: TOML of ours, or the paper's
scenario XML (appendix E). Queries are bound later, when the columns of the streams are known.

    [site.SP0]                       # capacity = 1.0 (CPU seconds per second), index = 1.0
    [[link]]
    between = ["SP0", "SP1"]         # bandwidth_mbit = 100.0
    [stream.photons]
    site = "SP0"
    [[query]]
    name = "vela"
    site = "SP1"
    query = "SELECT ra FROM photons WHERE ra BETWEEN 120 AND 138"
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, Strict

from anabranch.model.errors import JobError
from anabranch.model.settings_file import AboveZero, Must, SettingsFile, SettingsTable, Text
from anabranch.planning.network import Link, Network, Site, pair

MBIT = 1_000_000 / 8  # bytes per second
BANDWIDTH = 100 * MBIT  # the paper's blades


@dataclass(frozen=True)
class Question:
    """A query and the site that its results go to."""

    name: str
    site: str
    query: str


@dataclass(frozen=True)
class Scenario:
    name: str
    network: Network
    queries: tuple[Question, ...]


def read_scenario(path: Path) -> Scenario:
    """Returns the scenario in a file: the paper's XML, or TOML of ours."""
    return _from_xml(path) if path.suffix == ".xml" else _from_toml(path)


# --- TOML ---


class SiteTable(SettingsTable):
    """[site.NAME]"""

    capacity: Annotated[
        AboveZero, Field(description="What it can compute, in CPU seconds per second.", examples=[0.5])
    ] = 1.0
    index: Annotated[
        AboveZero, Field(description="How long work takes here, compared with the reference.", examples=[2.0])
    ] = 1.0


def two_sites(ends: tuple[str, str]) -> tuple[str, str]:
    """Returns the ends of a link; ValueError if they are one site."""
    if ends[0] == ends[1]:
        raise ValueError
    return ends


class LinkTable(SettingsTable):
    """[[link]]"""

    between: Annotated[
        tuple[Text, Text],
        Strict(False),
        AfterValidator(two_sites),
        Must('two different sites such as ["SP0", "SP1"]'),
        Field(description="The sites at its ends.", examples=[["SP0", "SP1"]]),
    ]
    bandwidth_mbit: Annotated[
        AboveZero, Field(description="Megabits per second, in both directions together.", examples=[100])
    ] = 100.0


class SiteStreamTable(SettingsTable):
    """[stream.NAME]"""

    site: Annotated[Text, Field(description="The site that it is registered at.", examples=["SP0"])]


class SiteQueryTable(SettingsTable):
    """[[query]]"""

    name: Annotated[Text, Field(description="Its name; no two are the same.", examples=["vela"])]
    site: Annotated[Text, Field(description="The site that its results go to.", examples=["SP1"])]
    query: Annotated[Text, Field(description="The query.", examples=["SELECT ra FROM photons"])]


class ScenarioTables(SettingsTable):
    """A scenario file."""

    name: Annotated[
        Text | None,
        Field(description="Its name; without it, that of the file.", examples=["two"]),
    ] = None
    site: Annotated[
        dict[str, SiteTable],
        Field(min_length=1, description="Sites, by name."),
        Must("tables with names: [site.NAME]", missing="there is no site: write [site.NAME]"),
    ]
    link: Annotated[
        list[LinkTable],
        Field(description="Links.", default_factory=list),
        Must("written [[link]], with two brackets, one per link"),
    ]
    stream: Annotated[
        dict[str, SiteStreamTable],
        Field(min_length=1, description="Streams, by name."),
        Must("tables with names: [stream.NAME]", missing="there is no stream: write [stream.NAME]"),
    ]
    query: Annotated[
        list[SiteQueryTable],
        Field(description="Queries.", default_factory=list),
        Must("written [[query]], with two brackets, one per query"),
    ]


def _from_toml(path: Path) -> Scenario:
    tables = SettingsFile(path, "scenario").check(ScenarioTables)
    try:
        network = _network(tables)
        queries = [Question(each.name, each.site, each.query) for each in tables.query]
        return _checked(tables.name or path.stem, network, queries)
    except JobError as error:
        raise JobError(f"{path.name}: {error}") from None


def _network(tables: ScenarioTables) -> Network:
    sites = {name: Site(name, float(each.capacity), float(each.index)) for name, each in tables.site.items()}
    links = {pair(*each.between): each.bandwidth_mbit * MBIT for each in tables.link}
    streams = {name: each.site for name, each in tables.stream.items()}
    return Network(sites, {ends: Link(ends, bandwidth) for ends, bandwidth in links.items()}, streams)


# --- the paper's XML ---


def _from_xml(path: Path) -> Scenario:
    try:
        return _of_element(ElementTree.fromstring(path.read_bytes()), path)
    except OSError as error:
        raise JobError(f"the scenario {path} cannot be read: {error.strerror}") from None
    except ElementTree.ParseError as error:
        raise JobError(f"{path.name}: not XML: {error}") from None
    except JobError as error:
        raise JobError(f"{path.name}: {error}") from None


def _of_element(root: ElementTree.Element, path: Path) -> Scenario:
    names = [_site_name(_attribute(one, "vid")) for one in _all(root, "vertex")]
    links = {}
    for edge in _all(root, "edge"):
        ends = pair(_site_name(_attribute(edge, "source")), _site_name(_attribute(edge, "target")))
        links[ends] = Link(ends, BANDWIDTH)
    texts = {_attribute(one, "qid"): "".join(one.itertext()).strip() for one in _all(root, "query")}
    streams: dict[str, str] = {}
    queries = []
    for mapping in _all(root, "mapping"):
        site = _site_name(_attribute(mapping, "peer"))
        if mapping.get("stream") is not None:
            streams[_attribute(mapping, "stream")] = site
            continue
        number = _attribute(mapping, "query")
        if number not in texts:
            raise JobError(f"queryMapping names query {number}, and there is no <query qid={number!r}>")
        queries.append(Question(f"q{number}", site, texts[number]))
    network = Network({name: Site(name) for name in names}, links, streams)
    return _checked(root.get("name", path.stem), network, queries)


def _site_name(vertex: str) -> str:
    return f"SP{vertex}"


def _all(root: ElementTree.Element, tag: str) -> Iterator[ElementTree.Element]:
    """The elements of this name, in whatever namespace."""
    return (one for one in root.iter() if one.tag.split("}")[-1] == tag)


def _attribute(element: ElementTree.Element, name: str) -> str:
    value = element.get(name)
    if value is None:
        raise JobError(f"<{element.tag.split('}')[-1]}> needs the attribute {name}")
    return value


def _checked(name: str, network: Network, queries: list[Question]) -> Scenario:
    for query in queries:
        if query.site not in network.sites:
            there_are = ", ".join(network.sites)
            raise JobError(f"query {query.name}: there is no site {query.site!r}; there are: {there_are}")
    double = {one.name for one in queries if [other.name for other in queries].count(one.name) > 1}
    if double:
        raise JobError(f"query {sorted(double)[0]} is there twice")
    return Scenario(name, network, tuple(queries))
