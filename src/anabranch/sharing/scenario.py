"""Networks with streams and queries attached to their sites, from a file.

In: TOML of ours, or the paper's scenario XML (appendix E). Out: a Scenario. Never: a look at a query's text;
it is bound when the streams are known.

    [site.SP0]                       # capacity = 1.0 (CPU seconds a second), index = 1.0
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

import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.model.errors import JobError
from anabranch.sharing.network import Link, Network, Pair, Site, pair

MBIT = 1_000_000 / 8  # bytes a second
BANDWIDTH = 100 * MBIT  # the paper's blades


@dataclass(frozen=True)
class Question:
    """A query and the site where its answer is wanted."""

    name: str
    site: str
    query: str


@dataclass(frozen=True)
class Scenario:
    name: str
    network: Network
    queries: tuple[Question, ...]


def read_scenario(path: Path) -> Scenario:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise JobError(f"scenario {path} cannot be read: {error.strerror}") from None
    try:
        return _from_xml(path, content) if path.suffix == ".xml" else _from_toml(path, content)
    except JobError as error:
        raise JobError(f"{path}: {error}") from None


# TOML


def _from_toml(path: Path, content: bytes) -> Scenario:
    try:
        given = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise JobError(f"this is not TOML: {error}") from None
    _only(given, "the file", "name", "site", "link", "stream", "query")
    sites = {}
    for name, settings in _tables(given, "site").items():
        _only(settings, f"site {name}", "capacity", "index")
        capacity, index = (_positive(settings, key, f"site {name}", 1.0) for key in ("capacity", "index"))
        sites[name] = Site(name, capacity, index)
    links: dict[Pair, Link] = {}
    for settings in given.get("link", []):
        _only(settings, "a link", "between", "bandwidth_mbit")
        ends = settings.get("between")
        if not isinstance(ends, list) or len(ends) != 2 or ends[0] == ends[1]:
            raise JobError(f'a link is between two sites, such as between = ["SP0", "SP1"], not {ends!r}')
        mbit = _positive(settings, "bandwidth_mbit", f"link {ends[0]} - {ends[1]}", BANDWIDTH / MBIT)
        links[pair(*ends)] = Link(pair(*ends), mbit * MBIT)
    streams = {}
    for name, settings in _tables(given, "stream").items():
        _only(settings, f"stream {name}", "site")
        streams[name] = _text(settings, "site", f"stream {name}")
    queries = []
    for place, settings in enumerate(given.get("query", []), 1):
        _only(settings, f"query {place}", "name", "site", "query")
        queries.append(
            Question(*(_text(settings, key, f"query {place}") for key in ("name", "site", "query")))
        )
    return _checked(str(given.get("name", path.stem)), Network(sites, links, streams), queries)


def _tables(given: Mapping[str, Any], key: str) -> dict[str, dict[str, Any]]:
    found = given.get(key, {})
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise JobError(f"a {key} has a name: write [{key}.NAME]")
    if not found:
        raise JobError(f"there is no {key}: write [{key}.NAME]")
    return found


def _only(settings: Mapping[str, Any], where: str, *known: str) -> None:
    for key in settings:
        if key not in known:
            raise JobError(f"{where} has no setting {key!r}; there are: {', '.join(known)}")


def _positive(settings: Mapping[str, Any], key: str, where: str, default: float) -> float:
    value = settings.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise JobError(f"{where}: {key} = {value!r} must be a number > 0")
    return float(value)


def _text(settings: Mapping[str, Any], key: str, where: str) -> str:
    value = settings.get(key)
    if not isinstance(value, str) or not value:
        raise JobError(f"{where}: {key} is missing")
    return value


# the paper's XML


def _from_xml(path: Path, content: bytes) -> Scenario:
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise JobError(f"this is not XML: {error}") from None
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
