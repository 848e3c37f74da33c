"""The command line against a service: what it prints is what it prints on a local catalog."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from anabranch.catalog.tokens import Role, Tokens
from anabranch.cli.target import target_first
from anabranch.results.layout import Layout
from tests.cli.conftest import Command, Outcome, anabranch  # noqa: F401
from tests.cli.sinks import make_sink

WXQUERY = (
    '<out>{ for $p in stream("photons")/photons/photon where $p/en > 2 return <hit>{ $p/ra }</hit> }</out>'
)


@pytest.mark.parametrize(
    "arguments",
    [
        ["subscribe", "more", "SELECT ra FROM photons WHERE en > 5", "--activate", "2.5"],
        ["subscribe", "x", "SELECT enn FROM photons"],
        ["subscribe", "x", "SELECT\nra FROM photons WHERE name > 1"],
        ["subscribe", "vela", "SELECT ra FROM photons"],
        ["subscribe", " x", "SELECT ra FROM photons"],
        ["subscribe", "x", "SELECT ra FROM photons", "--activate", "soon"],
        ["subscribe", "x", "SELECT ra FROM photons", "--activate", "2026-01-01"],
        ["cancel", "vela", "--at", "7"],
        ["cancel", "vela"],
        ["cancel", "vla"],
        ["results", "vela"],
        ["results", "all", "--format", "csv"],
        ["results", "all", "--format", "xml", "--limit", "2"],
        ["results", "nobody"],
        ["results"],
        ["results", "--dead-letters"],
        ["results", "--dead-letters", "photons", "--format", "csv"],
        ["results", "--dead-letters", "photon"],
        ["list"],
    ],
)
def test_as_on_a_local_catalog(
    anabranch: Command,  # noqa: F811
    address: str,
    tmp_path: Path,
    arguments: list[str],
) -> None:
    beside = make_sink(tmp_path / "beside").root
    command, *rest = arguments
    here, there = anabranch(command, beside, *rest), anabranch(command, "--url", address, *rest)
    assert there == here
    assert (here.code, bool(here.out)) in ((0, True), (2, False))


def test_wxquery_is_constructed_here(anabranch: Command, layout: Layout, address: str) -> None:  # noqa: F811
    assert anabranch("subscribe", address, "wx", WXQUERY).code == 0
    there = anabranch("results", address, "wx", "--format", "xml")
    assert there == anabranch("results", layout.root, "wx", "--format", "xml")
    assert (there.code, "<out>" in there.out) == (0, True)


def test_parquet(anabranch: Command, layout: Layout, address: str, tmp_path: Path) -> None:  # noqa: F811
    for name, target in (("here", layout.root), ("there", address)):
        file = tmp_path / name
        assert anabranch("results", target, "all", "--format", "parquet", "--output", file).code == 0
    assert pq.read_table(tmp_path / "here").equals(pq.read_table(tmp_path / "there"))


def test_the_token_comes_from_the_environment(
    anabranch: Command,  # noqa: F811
    layout: Layout,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = Tokens(layout.catalog)
    monkeypatch.setenv("ANABRANCH_TOKEN", tokens.create("ann", Role.USER))
    assert anabranch("subscribe", address, "mine", "SELECT ra FROM photons").code == 0
    assert '"owner": "ann"' in anabranch("list", address, "--format", "json").out
    assert "vela" not in anabranch("list", address).out
    monkeypatch.delenv("ANABRANCH_TOKEN")
    refused = anabranch("list", address)
    assert (refused.code, refused.out) == (2, "")
    assert "ANABRANCH_TOKEN has it" in refused.err
    tokens.close()


def test_no_service_there(anabranch: Command, address: str) -> None:  # noqa: F811
    port = int(address.rsplit(":", 1)[1])
    nobody = anabranch("list", "--url", "http://127.0.0.1:1")
    assert (nobody.code, "cannot be reached" in nobody.err) == (1, True)
    assert anabranch("list", f"http://127.0.0.1:{port}/elsewhere").code == 2
    assert "not the address of a service" in anabranch("list", "http://[").err


def test_url_is_the_target() -> None:
    assert target_first(["a", "--url", "http://x", "b"]) == ["http://x", "a", "b"]
    assert target_first(["--url=http://x", "b", "--all"]) == ["http://x", "b", "--all"]
    assert target_first(["x", "--", "--url", "y"]) == ["x", "--", "--url", "y"]
    assert target_first(["x", "--url"]) == ["x", "--url"]


def test_tokens(anabranch: Command, layout: Layout) -> None:  # noqa: F811
    created = anabranch("token", "create", layout.root, "ann", "--role", "admin")
    assert created.code == 0
    kept = Tokens(layout.catalog)
    token = kept.known(created.out.strip())
    assert token is not None
    assert (token.owner, token.role) == ("ann", Role.ADMIN)
    listed: Outcome = anabranch("token", "list", layout.root)
    assert listed.out.splitlines()[1].split()[:3] == [token.id, "ann", "admin"]
    assert (
        created.out.strip()
        not in listed.out + anabranch("token", "list", layout.root, "--format", "json").out
    )
    assert anabranch("token", "revoke", layout.root, token.id).out == f"token {token.id} of ann is revoked\n"
    assert kept.known(created.out.strip()) is None
    assert "unknown token" in anabranch("token", "revoke", layout.root, "x").err
    assert "an owner cannot be called" in anabranch("token", "create", layout.root, " ").err
    kept.close()
    assert os.environ.get("ANABRANCH_TOKEN") is None
