"""Manifests are a chain, and one that is damaged is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.catalog.catalog_link import open_linked
from anabranch.model.errors import FormatError, JobError
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest, Manifests


@pytest.fixture
def manifests(tmp_path: Path) -> Manifests:
    made = Manifests(Layout(tmp_path))
    for batch in range(3):
        made.commit("s", Manifest(batch, books={"processed": batch}))
    return made


def test_each_names_the_one_before(manifests: Manifests) -> None:
    first, second, third = manifests.manifests("s")
    assert (first.before, second.before, third.before) == ("", first.checksum, second.checksum)
    again = Manifests(manifests.layout)  # another process goes on
    again.commit("s", Manifest(3))
    assert [manifest.before for manifest in again.manifests("s")][3] == third.checksum


@pytest.mark.parametrize(("damage", "said"), [(b"", "it is empty"), (b"{", "no JSON"), (None, "checksum")])
def test_damage_is_named(manifests: Manifests, damage: bytes | None, said: str) -> None:
    path = manifests.layout.manifests("s") / f"{1:012d}.json"
    path.write_bytes(path.read_bytes().replace(b": 1,", b": 2,") if damage is None else damage)
    with pytest.raises(FormatError, match=rf"1\.json is damaged: .*{said}"):
        manifests.manifest("s", 1)


def test_the_last_batch_is_found_without_its_hint(manifests: Manifests) -> None:
    (manifests.layout.manifests("s") / "latest").write_text("")
    assert manifests.latest("s") == 2


def test_a_catalog_that_is_gone_is_noticed(manifests: Manifests) -> None:
    with pytest.raises(JobError, match=r"catalog\.sqlite is gone, and the sink .* holds results"):
        open_linked(manifests.layout.hidden, None)
