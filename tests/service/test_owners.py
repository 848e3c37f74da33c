"""Owners are apart: nothing that one of them does, under whatever names, reaches another.

Owners, names and routes are drawn. The names are those that look like each other's parts and labels. Every
query of an owner carries a mark of its owner; no answer to another may have it, and no owner's subscriptions
may change by what another does.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.tokens import Role, Tokens
from anabranch.results.layout import Layout
from anabranch.service.job_service import JobService, Limits
from anabranch.service.monitor import Monitor
from anabranch.service.server import make_app
from tests.cli.sinks import deliver, make_sink
from tests.drawn import examples

OWNERS = ("ann", "bob", "cem")
NAMES = ("team", "team/2", "team/2#4", "team#3", "team/2/2", "#1", "#4", "vela", "all")


def query(kind: str, owner: str) -> str:
    """A query that says whose it is, in one part or in two."""
    if kind == "sql":
        return f"SELECT ra AS {owner}_mark FROM photons"
    return f"<{owner}_mark>{{ for $p in stream('photons')/s/i return $p/ra }}{{ /photons/i }}</{owner}_mark>"


ACTIONS = st.tuples(
    st.sampled_from(OWNERS),
    st.sampled_from(["sql", "parts", "cancel", "deliver", *["look"] * 2]),
    st.sampled_from(NAMES),
)


class Service:
    def __init__(self, root: Path) -> None:
        self.layout: Layout = make_sink(root)
        tokens = Tokens(self.layout.catalog)
        self.tokens = {owner: tokens.create(owner, Role.USER) for owner in OWNERS}
        tokens.close()
        monitor = Monitor(self.layout)
        self.service = JobService(
            self.layout, monitor.plan, monitor.network, Limits(requests_per_second=1e6, batches_kept=2)
        )
        transport = httpx.ASGITransport(make_app(self.service))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
        self.loop = asyncio.Runner()
        self.batch = 2

    def send(self, owner: str, method: str, path: str, **given: Any) -> tuple[int, str]:
        answer = self.request(self.tokens[owner], method, path, **given)
        text = answer.text
        assert answer.status_code < 500, (method, path, text)
        for other in OWNERS:
            assert other == owner or f"{other}_mark" not in text, (owner, method, path, text)
            assert other == owner or f'"owner":"{other}"' not in text
        return answer.status_code, text

    def request(self, token: str, method: str, path: str, **given: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"}
        return self.loop.run(self.http.request(method, path, headers=headers, **given))

    def state(self) -> dict[str, list[tuple[int, str]]]:
        """Numbers and states of the subscriptions of each owner."""
        with Catalog(self.layout.catalog) as catalog:
            found = catalog.subscriptions(state=None)
        every = (*OWNERS, None)
        return {str(whose): [(e.number, e.state) for e in found if e.owner == whose] for whose in every}

    def act(self, owner: str, action: str, name: str) -> None:
        path = quote(name, safe="")
        match action:
            case "sql" | "parts":
                body = {"name": name, "query": query(action, owner)}
                status, _ = self.send(owner, "POST", "/api/subscriptions", json=body)
                assert status in ((400,) if name.startswith("#") else (201, 409))
            case "cancel":
                self.send(owner, "DELETE", f"/api/subscriptions/{path}")
            case "deliver":
                with Catalog(self.layout.catalog) as catalog:
                    labels = [entry.label for entry in catalog.subscriptions()]
                deliver(self.layout, self.batch, [self.batch], [labels], dead=[("late", "{}")])
                self.batch += 1
            case "look":
                self.look(owner, path)

    def look(self, owner: str, path: str) -> None:
        for route in ("subscriptions", "results", "answers"):
            self.send(owner, "GET", f"/api/{route}/{path}")
        for route in (
            "subscriptions?all=true&counts=true",
            "progress",
            "positions/photons",
            "streams",
            "plan",
        ):
            self.send(owner, "GET", f"/api/{route}")
        self.send(owner, "POST", f"/api/secrets/{path}")
        self.send(owner, "GET", "/metrics")

    def close(self) -> None:
        self.loop.run(self.http.aclose())
        self.loop.close()
        self.service.close()


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ACTIONS, min_size=4, max_size=14))
def test_nothing_of_one_owner_reaches_another(actions: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder) / "out")
        try:
            for owner, action, name in actions:
                before = service.state()
                service.act(owner, action, name)
                after = service.state()
                assert {k: v for k, v in before.items() if k != owner} == {
                    k: v for k, v in after.items() if k != owner
                }
        finally:
            service.close()


@pytest.fixture
def service(tmp_path: Path) -> Any:
    service = Service(tmp_path / "out")
    yield service
    service.close()


def test_a_part_takes_no_name(service: Service) -> None:
    service.act("ann", "sql", "team/2")
    status, _ = service.send(
        "bob", "POST", "/api/subscriptions", json={"name": "team", "query": query("parts", "bob")}
    )
    assert status == 201
    service.act("bob", "cancel", "team")
    state = service.state()
    assert [state for _, state in state["ann"]] == ["active"]
    assert [state for _, state in state["bob"]] == ["cancelled"] * 2


def test_somebody_elses_query_of_the_same_text_is_no_part(service: Service) -> None:
    """`team/2` comes right after `team`, with the very same query: it is somebody else's all the same."""
    asked = query("sql", "ann").replace("ann_mark", "x")
    assert service.send("ann", "POST", "/api/subscriptions", json={"name": "team", "query": asked})[0] == 201
    assert (
        service.send("bob", "POST", "/api/subscriptions", json={"name": "team/2", "query": asked})[0] == 201
    )
    service.act("ann", "cancel", "team")
    assert [state for _, state in service.state()["bob"]] == ["active"]


def test_answers_are_kept_per_subscription_and_reach(service: Service) -> None:
    """An admin sees all batches, an owner the last two, whoever asked first."""
    tokens = Tokens(service.layout.catalog)
    root = tokens.create("root", Role.ADMIN)
    tokens.close()
    service.act("ann", "sql", "team")
    for _ in range(4):
        service.act("ann", "deliver", "")
    whole = service.request(root, "GET", "/api/answers/team").json()["rows"]
    _, text = service.send("ann", "GET", "/api/answers/team")
    assert (len(whole), len(json.loads(text)["rows"])) == (4, 2)
