"""network.toml: what it says, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.model.errors import JobError
from anabranch.planning.optimizer import SharingStrategy
from anabranch.sites.network_catalog import is_network
from anabranch.sites.network_file import load_network
from tests.sites.networks import NETWORK, subscription, write_network

HOT = subscription("hot", "office", "SELECT ra, en FROM photons WHERE en > 1.3")


def test_a_network_is_read(tmp_path: Path) -> None:
    path = write_network(tmp_path, HOT, '[planner]\nstrategy = "query-shipping"\n')
    file = load_network(path)
    assert is_network(path)
    assert list(file.network.sites) == ["plant", "hub", "office"]
    assert file.network.sites["office"].capacity == 2
    assert file.network.links["hub", "plant"].bandwidth == 1_000_000 / 8
    assert file.folders["plant"] == tmp_path / "sites/plant"
    assert file.folders["hub"] == tmp_path / "sites/hub"
    assert file.planner.strategy is SharingStrategy.QUERY_SHIPPING
    ((hot, site),) = file.subscriptions
    assert (hot.name, site) == ("hot", "office")
    assert file.streams["photons"].settings == {"time": "det_time"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'site = "plant"',
            'site = "plnt"',
            r"network.toml:\d+: stream photons: unknown site 'plnt'; did you",
        ),
        ('between = ["plant", "hub"]', 'between = ["plant", "hup"]', r"link 1: unknown site 'hup'; did you"),
        ('between = ["plant", "hub"]', 'between = ["hub", "hub"]', "it must be two different sites"),
        (
            'between = ["plant", "hub"]',
            'between = ["office", "hub"]',
            "there is a link between hub and office",
        ),
        ("bandwidth = 1000000", "bandwidth = 0", r":\d+: link 1: bandwidth = 0 cannot be; .* a number > 0"),
        ("capacity = 2", "capacity = -1", "capacity = -1 cannot be"),
        ("capacity = 2", "capacty = 2", "unknown setting 'capacty'; did you mean 'capacity'"),
        ('site = "plant"\n', "", "stream photons: site is missing"),
        ('path = "sites/plant"', 'path = "sites/hub"', "every site needs a folder of its own"),
        ('path = "sites/plant"', 'path = "photons"', "is where stream photons reads"),
        ("[stream.photons]", "[stream.photons]\n[stream.photons]", "not valid TOML"),
        ("[site.hub]", '[site."h b"]', "a site cannot be called 'h b'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = write_network(tmp_path, network=NETWORK.replace(old, new, 1))
    with pytest.raises(JobError, match=message):
        load_network(path)


def test_a_subscription_needs_a_site_that_is_there(tmp_path: Path) -> None:
    path = write_network(tmp_path, HOT.replace('"office"', '"ofice"'))
    with pytest.raises(JobError, match="subscription hot: unknown site 'ofice'; did you mean 'office'"):
        load_network(path)


def test_a_job_is_no_network(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text('[stream.s]\nsource = { format = "rate" }\n')
    assert not is_network(job)
    assert not is_network(tmp_path)
