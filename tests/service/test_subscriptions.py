"""Streams and subscriptions over HTTP: what the command line does on a catalog, with the same errors."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import httpx
import pytest

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.entries import NewSubscription
from anabranch.model.control_log import Activate, Cancel
from anabranch.model.subscription import Subscription
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest
from anabranch.service import query_checks
from anabranch.service.job_service import JobService
from anabranch.service.monitor import plan_of
from tests.cli.conftest import Command, anabranch  # noqa: F401
from tests.cli.sinks import VELA, make_sink


def test_streams(http: httpx.Client) -> None:
    (stream,) = http.get("/api/streams").json()
    assert stream["name"] == "photons"
    assert stream["columns"][0] == {"name": "det_time", "type": "float"}
    assert (stream["books"]["rows_in"], stream["books"]["processed"]) == (6, 3)
    assert http.get("/api/streams/photons").json() == stream
    refused = http.get("/api/streams/photon")
    assert refused.status_code == 404
    assert "unknown stream 'photon'; did you mean 'photons'?" in refused.json()["error"]["message"]


def test_register_show_list_cancel(http: httpx.Client, layout: Layout) -> None:
    new = {"name": "a/b? c", "query": "SELECT ra FROM photons WHERE en > 5", "activate": 2.5}
    answer = http.post("/api/subscriptions", json=new)
    assert answer.status_code == 201
    facts = answer.json()
    assert (facts["number"], facts["kind"], facts["state"], facts["activate"]) == (3, "select", "active", 2.5)
    assert http.get("/api/subscriptions/a%2Fb%3F%20c").json() == facts
    listed = http.get("/api/subscriptions").json()
    assert [each["name"] for each in listed["subscriptions"]] == ["vela", "all", "a/b? c"]
    first = http.get("/api/subscriptions", params={"limit": 2}).json()
    assert [each["name"] for each in first["subscriptions"]] == ["vela", "all"]
    rest = http.get("/api/subscriptions", params={"limit": 2, "after": first["next"]}).json()
    assert ([each["name"] for each in rest["subscriptions"]], rest["next"]) == (["a/b? c"], None)
    ended = http.delete("/api/subscriptions/a%2Fb%3F%20c", params={"at": "7"}).json()
    assert (ended["state"], ended["cancel"]) == ("cancelled", 7)
    assert len(http.get("/api/subscriptions").json()["subscriptions"]) == 2
    assert len(http.get("/api/subscriptions", params={"all": True}).json()["subscriptions"]) == 3
    with Catalog(layout.catalog) as catalog:
        log = catalog.log("photons", ["filters"], 0, catalog.version("photons", ["filters"]))
    activate, cancel = log[-2:]
    assert isinstance(activate, Activate)
    assert activate == Activate(3, "a/b? c", activate.spec, 2.5, "filters")
    assert cancel == Cancel(3, 7, "filters")


@pytest.mark.parametrize(
    ("name", "query", "status", "code"),
    [
        ("x", "SELECT enn FROM photons", 422, "query"),
        ("x", "SELECT ra FROM photon", 422, "query"),
        ("x", "SELECT ra\nFROM photons\nWHERE en < 1 AND en > 2", 422, "query"),
        ("x", "<a>{ for $p in stream('photons') return $p }</a>", 422, "query"),
        ("x", "SELECT", 422, "query"),
        ("vela", "SELECT ra FROM photons", 409, "taken"),
        (" x", "SELECT ra FROM photons", 400, "request"),
    ],
)
def test_refusals_are_those_of_the_command_line(
    http: httpx.Client,
    tmp_path: Path,
    anabranch: Command,  # noqa: F811
    name: str,
    query: str,
    status: int,
    code: str,
) -> None:
    refused = http.post("/api/subscriptions", json={"name": name, "query": query})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (status, code)
    beside = make_sink(tmp_path / "beside").root
    assert anabranch("subscribe", beside, name, query).err == f"anabranch: {error['text']}\n"
    if "^" in error["text"]:  # the position is where the mark is
        line, mark = error["text"].splitlines()[-2:]
        position = error["place"]
        assert query.splitlines()[position["line"] - 1] == line[2:]
        assert mark.index("^") - 2 == position["column"] - 1
        assert (
            position["offset"]
            == len("".join(query.splitlines(True)[: position["line"] - 1])) + position["column"] - 1
        )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"name": "x"}, "body.query"),
        ({"name": "x", "query": "SELECT ra FROM photons", "more": 1}, "body.more"),
        ({"name": "x" * 201, "query": "SELECT ra FROM photons"}, "body.name"),
        ({"name": 1, "query": "SELECT ra FROM photons"}, "body.name"),
        ({"name": "x", "query": "SELECT ra FROM photons", "activate": "soon"}, "activate soon is not a time"),
        ({"name": "x", "query": "SELECT ra FROM photons", "activate": "2026-01-01"}, "is a date, but"),
    ],
)
def test_wrong_requests(http: httpx.Client, body: dict[str, object], said: str) -> None:
    refused = http.post("/api/subscriptions", json=body)
    assert refused.status_code in (400, 422)
    assert said in refused.json()["error"]["message"]


def test_one_envelope_for_everything(http: httpx.Client) -> None:
    for answer, status, code in (
        (http.get("/nothing"), 404, "unknown"),
        (http.put("/api/streams"), 405, "method"),
        (
            http.post("/api/subscriptions", content=b"{", headers={"content-type": "application/json"}),
            422,
            "request",
        ),
        (http.delete("/api/subscriptions/vla"), 404, "unknown"),
        (http.post("/api/subscriptions", content=b"x" * (300 << 10)), 413, "size"),
        (http.get("/api/results/vela", params={"after": "x"}), 400, "request"),
        (http.get("/api/results/vela", params={"limit": 0}), 422, "request"),
    ):
        assert answer.status_code == status
        assert set(answer.json()) == {"error"}
        assert answer.json()["error"]["code"] == code
        assert set(answer.json()["error"]) == {"code", "message", "text", "place"}


def test_a_body_without_a_length_is_cut_off(http: httpx.Client) -> None:
    refused = http.post("/api/subscriptions", content=(b"x" * 1024 for _ in range(300)))
    assert refused.status_code == 413


def test_cancel_twice(http: httpx.Client) -> None:
    assert http.delete("/api/subscriptions/vela").status_code == 200
    refused = http.delete("/api/subscriptions/vela")
    assert refused.status_code == 409
    assert "cancelled already" in refused.json()["error"]["message"]


def test_a_name_again(http: httpx.Client) -> None:
    """The newest has the name; the one before keeps its results under its label."""
    http.delete("/api/subscriptions/vela")
    answer = http.post("/api/subscriptions", json={"name": "vela", "query": VELA}).json()
    assert answer["label"] == "vela#3"
    assert http.get("/api/results/vela").json()["rows"] == []
    assert http.get("/api/subscriptions/vela%233").json() == answer


def test_plan_is_what_explain_computes(http: httpx.Client, layout: Layout) -> None:
    plan = http.get("/api/plan").json()
    assert plan == plan_of(layout)
    assert {group["shared"] for group in plan["groups"]} == {"every item", "en > 1.3"}


def test_health(http: httpx.Client, service: JobService) -> None:
    assert http.get("/health").json() == {"status": "ok", "batches": {"photons": 1}}
    service.deliveries.commit("photons.clusters", Manifest(0))  # a family that is set apart
    assert http.get("/health").json()["batches"] == {"photons": 1, "photons.clusters": 0}


def test_the_document_names_every_path_and_metric(http: httpx.Client) -> None:
    text = (Path(__file__).parents[2] / "docs" / "service.md").read_text()
    paths = http.get("/openapi.json").json()["paths"]
    known = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert set(re.findall(r"`((?:GET|POST|DELETE) /\S+)`", text)) == known
    metrics = set(re.findall(r"^# TYPE (\S+)", http.get("/metrics").text, re.M))
    assert set(re.findall(r"`(anabranch_\w+)`", text)) == metrics


@pytest.mark.parametrize("time", [10**400, -(10**400), 1e300, "1e999", "9" * 5_000, 2**63, "soon", "nan"])
def test_times_that_are_none(http: httpx.Client, time: float | str) -> None:
    asked = {"name": "t", "query": "SELECT ra FROM photons", "activate": time}
    refused = http.post("/api/subscriptions", json=asked)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "request")
    assert len(refused.text) < 1_000
    assert http.delete("/api/subscriptions/vela", params={"at": str(time)}).status_code == 400
    assert http.get("/api/subscriptions/vela").json()["state"] == "active"


def test_a_query_that_takes_too_long_or_is_too_large(
    http: httpx.Client,
    service: JobService,
    monkeypatch: pytest.MonkeyPatch,
    tokens: dict[str, dict[str, str]],
) -> None:
    """It is refused, and somebody else's is checked meanwhile."""
    monkeypatch.setattr(query_checks, "CHECK_S", 0.3)
    bind, over = service.bind, threading.Event()

    def slow(subscription: Subscription) -> NewSubscription:
        if "slow" in subscription.query:
            over.wait(20)
        return bind(subscription)

    monkeypatch.setattr(service, "bind", slow)

    def status(query: str, who: str, path: str = "check") -> int:
        body = {"query": query} if path == "check" else {"query": query, "name": "new"}
        return http.post(f"/api/{path}", json=body, headers=tokens[who]).status_code

    fine = "SELECT ra FROM photons"
    assert [status("SELECT slow FROM photons", "ann", path) for path in ("check", "subscriptions")] == [
        400
    ] * 2
    assert status(fine, "bob") == status(fine, "root") == 200
    assert status(fine, "ann") == 400  # hers is still being checked
    over.set()
    assert status("SELECT ra FROM photons WHERE " + "en > 1 AND " * 15_000 + "en > 1", "bob") == 413
    assert status("x" * 300_000, "bob") == 413


def test_a_receiver(http: httpx.Client) -> None:
    new = {"name": "q", "query": "SELECT ra FROM photons", "deliver": "http://127.0.0.1:9/hook"}
    answer = http.post("/api/subscriptions", json=new)
    assert answer.status_code == 201
    delivery = answer.json()["delivery"]
    assert (delivery["receiver"], delivery["place"], delivery["behind"]) == (new["deliver"], "2:0", 0)
    listed = {each["name"]: each for each in http.get("/api/subscriptions").json()["subscriptions"]}
    assert (listed["q"]["delivery"], listed["vela"]["delivery"]) == (delivery | {"secret": None}, None)
    refused = http.post("/api/subscriptions", json=new | {"name": "r", "deliver": "gopher://x"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "request")


def test_receivers_of_a_service_that_others_reach(
    http: httpx.Client, service: JobService, tokens: dict[str, dict[str, str]]
) -> None:
    service.local = False
    new = {"name": "q", "query": "SELECT ra FROM photons"}
    for address, said in (
        ("http://127.0.0.1:9/hook", "127.0.0.1 is not an address of the public internet"),
        ("kafka:a@b:1", "sends nothing to Kafka"),
    ):
        refused = http.post("/api/subscriptions", json=new | {"deliver": address}, headers=tokens["ann"])
        assert (refused.status_code, said in refused.json()["error"]["message"]) == (400, True)
    fine = new | {"deliver": "https://example.org/hook"}
    assert http.post("/api/subscriptions", json=fine, headers=tokens["ann"]).status_code == 201
