"""network.toml: sites, the links between them, and which site streams and subscriptions belong to.

    [site.plant1]
    path = "sites/plant1"
    [site.office]
    path = "sites/office"
    [[link]]
    between = ["plant1", "office"]
    bandwidth = 1000000                        # bits per second
    [stream.photons]                           # as in a job, with a site
    site = "plant1"
    source = { format = "parquet", path = "photons/*.parquet" }
    time = "det_time"
    [[subscription]]                           # as in a job, with the site that reads it
    name = "hot"
    site = "office"
    query = "SELECT ra, en FROM photons WHERE en > 1.3"

The file becomes a NetworkFile with absolute paths, or a JobError that says what is wrong, where, and what
would be right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, Strict

from anabranch.job.job_file import check_stream_names, source_of, subscriptions_of
from anabranch.job.settings import StreamTable, SubscriptionTable
from anabranch.job.sources import absolute, is_url, reads_own_results
from anabranch.model.errors import JobError
from anabranch.model.job import StreamDeclaration
from anabranch.model.settings_file import AboveZero, Keys, Must, SettingsFile, SettingsTable, Text
from anabranch.model.subscription import Subscription
from anabranch.model.suggestions import shown, suggestion
from anabranch.planning.network import Link, Network, Pair, Site, pair
from anabranch.planning.optimizer import SharingStrategy
from anabranch.planning.scenario import two_sites
from anabranch.sites.deployment import FLOW_QUERY

#: Names of sites are names of folders and of topics.
_SITE_NAME = re.compile(r"[\w-]+")

BITS = 8


class NetworkSiteTable(SettingsTable):
    """[site.NAME]: a place that runs an engine."""

    capacity: Annotated[AboveZero, Field(description="What it can compute, in cores.", examples=[2])] = 1.0
    index: Annotated[
        AboveZero,
        Field(description="How long work takes there, compared with this machine.", examples=[2.0]),
    ] = 1.0
    path: Annotated[
        Text | None,
        Field(
            description="Its folder for results, checkpoints and flows, relative to the network file; "
            "without it sites/NAME.",
            examples=["sites/plant1"],
        ),
    ] = None


class NetworkLinkTable(SettingsTable):
    """[[link]]: a connection between two sites, in both directions."""

    between: Annotated[
        tuple[Text, Text],
        Strict(False),
        AfterValidator(two_sites),
        Must('two different sites such as ["plant1", "office"]'),
        Field(description="The sites at its ends.", examples=[["plant1", "office"]]),
    ]
    bandwidth: Annotated[
        AboveZero, Field(description="Bits per second, in both directions together.", examples=[1_000_000])
    ] = 100_000_000


class NetworkStreamTable(StreamTable):
    """[stream.NAME]: as in a job, with the site that it is registered at."""

    site: Annotated[Text, Field(description="The site that it is registered at.", examples=["plant1"])]


class NetworkSubscriptionTable(SubscriptionTable):
    """[[subscription]]: as in a job, with the site that reads it."""

    site: Annotated[Text, Field(description="The site that reads it.", examples=["office"])]


class BrokerTable(SettingsTable):
    """[broker]: Kafka, for links that are no folders."""

    address: Annotated[Text, Field(description="HOST:PORT of a Kafka broker.", examples=["127.0.0.1:9092"])]


class PlannerTable(SettingsTable):
    """[planner]: how subscriptions are placed."""

    strategy: Annotated[
        Literal["stream-sharing", "data-shipping", "query-shipping"],
        Field(description="Where queries are evaluated.", examples=["query-shipping"]),
    ] = "stream-sharing"
    rate: Annotated[
        AboveZero | None,
        Field(
            description="Items per second of each stream, as planned for. With it, a subscription that would "
            "overload a site or a link is refused; without it only measured rates count.",
            examples=[150],
        ),
    ] = None
    gamma: Annotated[
        float,
        Field(ge=0, le=1, description="How much links count against sites.", examples=[0.5]),
        Must("a number from 0 to 1"),
    ] = 0.9


class NetworkTables(SettingsTable):
    """A network file."""

    site: Annotated[
        dict[str, NetworkSiteTable],
        Field(min_length=1, description="Sites, by name."),
        Must("tables with names: [site.NAME]", missing="there is no site: write [site.NAME]"),
    ]
    link: Annotated[
        list[NetworkLinkTable],
        Field(description="Links.", default_factory=list),
        Must("written [[link]], with two brackets, one per link"),
    ]
    stream: Annotated[
        dict[str, NetworkStreamTable],
        Field(min_length=1, description="Streams, by name."),
        Must("tables with names: [stream.NAME]", missing="there is no stream: write [stream.NAME]"),
    ]
    subscription: Annotated[
        list[NetworkSubscriptionTable],
        Field(description="Queries.", default_factory=list),
        Must("written [[subscription]], with two brackets, one per query"),
    ]
    broker: Annotated[
        BrokerTable | None,
        Field(description="A Kafka broker."),
        Must('a table: [broker] with address = "127.0.0.1:9092"'),
    ] = None
    planner: Annotated[
        PlannerTable,
        Field(description="How subscriptions are placed."),
        Must('a table: [planner] with for example strategy = "query-shipping"'),
    ] = PlannerTable()


@dataclass(frozen=True)
class PlannerSettings:
    strategy: SharingStrategy
    rate: float | None
    gamma: float


@dataclass(frozen=True)
class NetworkFile:
    """A network as its file says. `folders` are those of the sites; subscriptions are in the order of the
    file, each with its site; `between` has the ends of links in the order of the file.
    """

    path: Path
    network: Network
    folders: Mapping[str, Path]
    streams: Mapping[str, StreamDeclaration]
    subscriptions: tuple[tuple[Subscription, str], ...]
    planner: PlannerSettings
    between: Mapping[Pair, tuple[str, str]]

    def site(self, name: str) -> Path:
        """Returns the folder of a site; JobError where there is no such site."""
        if name not in self.folders:
            raise JobError(f"unknown site {name!r}{suggestion(name, self.folders)}")
        return self.folders[name]


def load_network(path: Path | str) -> NetworkFile:
    """Returns the network in a file, checked as far as that is possible without its data."""
    path = Path(path).absolute()
    file = SettingsFile(path, "network file")
    check_stream_names(file)
    tables = file.check(NetworkTables)
    if tables.broker is not None:
        raise file.error(("broker",), "broker: links over Kafka are not there yet; links are folders")
    _check_names(file, tables)
    network = _network(file, tables)
    folders = _folders(file, tables)
    streams = {
        name: StreamDeclaration(
            name,
            source_of(table.source, path.parent),
            table.model_dump(exclude_unset=True, exclude={"source", "site"}),
        )
        for name, table in tables.stream.items()
    }
    _check_folders(file, streams, folders)
    subscriptions = subscriptions_of(file, tables.subscription)
    planner = tables.planner
    return NetworkFile(
        path,
        network,
        folders,
        streams,
        tuple(zip(subscriptions, (one.site for one in tables.subscription), strict=True)),
        PlannerSettings(SharingStrategy(planner.strategy), planner.rate, float(planner.gamma)),
        {pair(*link.between): link.between for link in tables.link},
    )


def _check_names(file: SettingsFile, tables: NetworkTables) -> None:
    for name in tables.site:
        if not _SITE_NAME.fullmatch(name):
            raise file.error(
                ("site", name), f"a site cannot be called {name!r}: a name has only letters, digits, _ and -"
            )
    for index, one in enumerate(tables.subscription):
        if one.name.startswith(FLOW_QUERY):
            raise file.error(
                ("subscription", index, "name"),
                f"subscription {one.name}: a name cannot begin with {FLOW_QUERY}; those are the network's",
            )


def _network(file: SettingsFile, tables: NetworkTables) -> Network:
    def known(site: str, keys: Keys, what: str) -> str:
        if site not in tables.site:
            raise file.error(keys, f"{what}: unknown site {site!r}{suggestion(site, tables.site)}")
        return site

    links: dict[tuple[str, str], Link] = {}
    for index, link in enumerate(tables.link):
        keys: Keys = ("link", index, "between")
        ends = pair(*(known(site, keys, f"link {index + 1}") for site in link.between))
        if ends in links:
            raise file.error(keys, f"there is a link between {ends[0]} and {ends[1]} already")
        links[ends] = Link(ends, link.bandwidth / BITS)
    streams = {
        name: known(table.site, ("stream", name, "site"), f"stream {name}")
        for name, table in tables.stream.items()
    }
    for index, one in enumerate(tables.subscription):
        known(one.site, ("subscription", index, "site"), f"subscription {one.name}")
    sites = {name: Site(name, float(one.capacity), float(one.index)) for name, one in tables.site.items()}
    return Network(sites, links, streams)


def _folders(file: SettingsFile, tables: NetworkTables) -> dict[str, Path]:
    folders: dict[str, Path] = {}
    for name, table in tables.site.items():
        text = table.path or f"sites/{name}"
        if is_url(text):
            raise file.error(
                ("site", name, "path"), f"site {name}: path = {shown(text)} must be a folder, not a URL"
            )
        folder = Path(absolute(text, file.path.parent))
        for other, taken in folders.items():
            if folder == taken or folder in taken.parents or taken in folder.parents:
                raise file.error(
                    ("site", name, "path"),
                    f"site {name}: path = {shown(text)} is the folder of site {other}, or one of them is "
                    "inside the other; every site needs a folder of its own",
                )
        folders[name] = folder
    return folders


def _check_folders(
    file: SettingsFile, streams: Mapping[str, StreamDeclaration], folders: Mapping[str, Path]
) -> None:
    for declaration in streams.values():
        origin = declaration.source.path
        for site, folder in folders.items():
            if origin is not None and reads_own_results(origin, folder):
                raise file.error(
                    ("site", site, "path"),
                    f"site {site}: path {folder} is where stream {declaration.name} reads ({origin}); "
                    "choose another folder",
                )
