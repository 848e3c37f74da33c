"""Who may do what, and how much of it."""

from __future__ import annotations

import sqlite3
import threading
import time

import httpx
import pytest

from anabranch.catalog.receivers import DeliveryProgress, Receivers
from anabranch.catalog.tokens import Role, Tokens
from anabranch.model.errors import JobError
from anabranch.results.layout import Layout
from anabranch.service import events
from anabranch.service.access import is_loopback
from anabranch.service.job_service import DELIVERY_FAILED, JobService, Limits
from anabranch.service.routes import ARROW, KEPT_FROM
from anabranch.service.server import serving
from tests.cli.sinks import deliver

Headers = dict[str, dict[str, str]]
ASK = {"name": "mine", "query": "SELECT ra FROM photons"}


def test_the_text_of_a_token_is_not_kept(layout: Layout) -> None:
    tokens = Tokens(layout.catalog)
    text = tokens.create("ann", Role.USER)
    secret = text.split("_", 2)[2]
    with sqlite3.connect(layout.catalog) as database:
        kept = "".join(map(str, database.execute("SELECT * FROM tokens").fetchall()))
    assert secret not in kept
    known = tokens.known(text)
    assert known is not None
    assert (known.owner, known.role) == ("ann", Role.USER)
    for other in (text + "x", text[:-1], text.upper(), "", "_", "ana__", text.replace(secret, "")):
        assert tokens.known(other) is None
    tokens.revoke(known.id)
    assert tokens.known(text) is None
    with pytest.raises(JobError, match="revoked already"):
        tokens.revoke(known.id)


def test_with_a_token_in_the_catalog_every_request_needs_one(http: httpx.Client, tokens: Headers) -> None:
    for headers in ({}, {"Authorization": "Bearer ana_1_2"}, {"Authorization": "Basic x"}):
        for path in ("/api/streams", "/api/results/vela", "/api/events/vela", "/api/plan", "/metrics"):
            refused = http.get(path, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "token")
        assert http.post("/api/subscriptions", json=ASK, headers=headers).status_code == 401
    assert http.get("/health").status_code == 200
    assert http.get("/api/streams", headers=tokens["ann"]).status_code == 200


def test_an_owner_sees_and_cancels_only_its_own(http: httpx.Client, tokens: Headers) -> None:
    ann, bob, eve, root = (tokens[name] for name in ("ann", "bob", "eve", "root"))
    assert http.post("/api/subscriptions", json=ASK, headers=ann).json()["owner"] == "ann"

    def names(headers: dict[str, str]) -> list[str]:
        return [s["name"] for s in http.get("/api/subscriptions", headers=headers).json()["subscriptions"]]

    assert (names(ann), names(bob)) == (["mine"], [])
    assert names(eve) == names(root) == ["vela", "all", "mine"]
    for path in ("/api/subscriptions/mine", "/api/results/mine", "/api/events/mine", "/api/results/vela"):
        refused = http.get(path, headers=bob)
        assert refused.status_code == 404
        assert "did you mean" not in refused.json()["error"]["message"]  # others' names are theirs
    assert http.delete("/api/subscriptions/mine", headers=bob).status_code == 404
    assert http.delete("/api/subscriptions/mine", headers=eve).status_code == 403
    taken = http.post("/api/subscriptions", json=ASK, headers=bob)
    assert taken.json()["error"]["message"] == "the name 'mine' is taken; choose another name"
    assert http.get("/api/subscriptions/mine", headers=ann).json()["state"] == "active"
    assert http.delete("/api/subscriptions/mine", headers=ann).json()["state"] == "cancelled"
    assert http.post("/api/subscriptions", json=ASK, headers=bob).status_code == 201
    shown = http.get("/api/subscriptions/mine", headers=ann).json()
    assert (shown["owner"], shown["state"]) == ("ann", "cancelled")  # the name is bob's now, this one is hers
    assert http.delete("/api/subscriptions/mine", headers=ann).status_code == 409
    assert http.get("/api/subscriptions/mine", headers=bob).json()["state"] == "active"
    assert http.delete("/api/subscriptions/mine", headers=root).json()["owner"] == "bob"


def test_roles(http: httpx.Client, tokens: Headers) -> None:
    for path in ("/api/plan", "/metrics"):
        assert [http.get(path, headers=tokens[n]).status_code for n in ("ann", "eve", "root")] == [
            403,
            200,
            200,
        ]
    refused = http.post("/api/subscriptions", json=ASK, headers=tokens["eve"])
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "role")


def test_where_results_of_users_may_go(
    http: httpx.Client, layout: Layout, service: JobService, tokens: Headers
) -> None:
    """Public addresses for users, also where the service listens on loopback; anything for admins."""

    def register(name: str, who: str, deliver: str) -> int:
        asked = ASK | {"name": name, "deliver": deliver}
        return http.post("/api/subscriptions", json=asked, headers=tokens[who]).status_code

    private = ("http://127.0.0.1:9/", "http://169.254.169.254/", "http://[::1]/", "kafka:t@b:1")
    for number, address in enumerate((*private, "http://10.0.0.1/", "http://localhost:9/")):
        assert register(f"a{number}", "ann", address) == 400, address
        assert register(f"r{number}", "root", address) == 201
    assert register("public", "ann", "https://example.org/hook") == 201
    service.private_receivers = True
    assert register("allowed", "ann", "http://127.0.0.1:9/") == 201
    receivers = Receivers(layout.catalog)
    reach = {entry.name: delivery.reach for entry, delivery in receivers.open()}
    assert (reach["r0"], reach["public"], reach["allowed"]) == ("any", "public", "public")
    receivers.close()


def test_the_error_of_a_delivery_and_the_secret(http: httpx.Client, layout: Layout, tokens: Headers) -> None:
    """Users learn that a try failed, not which machine said what; the secret is shown once."""
    asked = ASK | {"deliver": "https://example.org/hook"}
    new = http.post("/api/subscriptions", json=asked, headers=tokens["ann"]).json()
    assert new["delivery"]["secret"].startswith("whsec_")
    receivers = Receivers(layout.catalog)
    error = "ConnectError: connection to 10.0.0.7 port 22 refused"
    receivers.save([DeliveryProgress(new["number"], "2:0", 0, None, error, None)])
    receivers.close()

    def delivery(who: str) -> dict[str, str | None]:
        shown = http.get("/api/subscriptions/mine", headers=tokens[who]).json()["delivery"]
        listed = http.get("/api/subscriptions", headers=tokens[who]).json()["subscriptions"][-1]["delivery"]
        assert shown == listed
        return dict(shown)

    assert (delivery("ann")["error"], delivery("eve")["error"]) == (DELIVERY_FAILED, error)
    assert delivery("ann")["secret"] is delivery("root")["secret"] is None
    assert http.post("/api/secrets/mine", headers=tokens["eve"]).status_code == 403
    assert http.post("/api/secrets/mine", headers=tokens["bob"]).status_code == 404
    renewed = http.post("/api/secrets/mine", headers=tokens["ann"]).json()["secret"]
    assert renewed.startswith("whsec_")
    assert renewed != new["delivery"]["secret"]


def test_a_revoked_token_is_refused_at_once(http: httpx.Client, layout: Layout, tokens: Headers) -> None:
    assert http.get("/api/streams", headers=tokens["ann"]).status_code == 200
    kept = Tokens(layout.catalog)
    for token in kept.all():
        kept.revoke(token.id)
    assert http.get("/api/streams", headers=tokens["ann"]).status_code == 401
    assert http.get("/api/streams").status_code == 401  # no token left is not no token needed


def test_a_listener_whose_token_is_revoked_is_let_go(
    http: httpx.Client, layout: Layout, tokens: Headers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "ALIVE_S", 0.1)
    monkeypatch.setattr(events, "CHECK_S", 0.2)
    kept = Tokens(layout.catalog)
    with http.stream("GET", "/api/events/all", headers=tokens["eve"]) as answer:
        lines = answer.iter_lines()
        assert any(line == ": alive" for line in lines)
        kept.revoke(next(token.id for token in kept.all() if token.owner == "eve"))
        assert set(lines) <= {"", ": alive"}  # and then it ends
    kept.close()


def test_a_listener_whose_token_is_revoked_is_let_go_while_rows_come(
    http: httpx.Client, layout: Layout, tokens: Headers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy stream must not keep a listener that may not listen any more."""
    monkeypatch.setattr(events, "CHECK_S", 0.3)
    monkeypatch.setattr(events, "LOOK_S", 0.01)
    kept = Tokens(layout.catalog)
    with http.stream("GET", "/api/events/all", headers=tokens["eve"]) as answer:
        lines = answer.iter_lines()
        next(lines)
        kept.revoke(next(token.id for token in kept.all() if token.owner == "eve"))
        revoked = time.monotonic()
        for batch in range(2, 400):
            deliver(layout, batch, [batch], [["all"]], dead=[("late", "{}")])
            line = next((line for line in lines if line.startswith("data")), None)
            if line is None:
                break
        assert time.monotonic() - revoked < 5
        assert line is None
    kept.close()


def test_wrong_tokens_are_limited_and_right_ones_are_not(http: httpx.Client, tokens: Headers) -> None:
    assert http.get("/api/streams", headers=tokens["ann"]).status_code == 200
    wrong = {"Authorization": "Bearer ana_00000000_wrong"}
    found = [http.get("/api/streams", headers=wrong).status_code for _ in range(100)]
    assert set(found) == {401, 429}
    assert found.index(429) >= 40
    assert http.get("/api/streams", headers=wrong).headers["retry-after"] == "10"
    assert http.get("/api/streams", headers=tokens["ann"]).status_code == 200


def test_subscriptions_per_owner(http: httpx.Client, service: JobService, tokens: Headers) -> None:
    service.limits = Limits(subscriptions=2, requests_per_second=1000)

    def register(name: str, who: str) -> int:
        return http.post("/api/subscriptions", json=ASK | {"name": name}, headers=tokens[who]).status_code

    assert [register(name, "ann") for name in "abc"] == [201, 201, 429]
    assert register("d", "bob") == 201
    http.delete("/api/subscriptions/a", headers=tokens["ann"])
    assert register("c", "ann") == 201


def test_requests_per_owner(http: httpx.Client, service: JobService, tokens: Headers) -> None:
    service.limits = Limits(requests_per_second=2)
    found = [http.get("/api/streams", headers=tokens["ann"]) for _ in range(8)]
    refused = [answer for answer in found if answer.status_code == 429]
    assert 2 <= len(refused) <= 4  # a burst of four, and what time gave meanwhile
    assert int(refused[0].headers["retry-after"]) >= 1
    assert http.get("/api/streams", headers=tokens["bob"]).status_code == 200
    time.sleep(0.6)
    assert http.get("/api/streams", headers=tokens["ann"]).status_code == 200


def test_listeners_per_owner(http: httpx.Client, service: JobService, tokens: Headers) -> None:
    service.limits = Limits(listeners=1)
    root = tokens["root"]
    with http.stream("GET", "/api/events/all", headers=root) as answer:
        lines = answer.iter_lines()  # a reader that is forgotten closes its connection
        next(lines)
        assert http.get("/api/events/all", headers=root).status_code == 429
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with http.stream("GET", "/api/events/all", headers=root) as answer:
            if answer.status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError("a listener that went away still counts")


def test_listeners_that_come_at_once(http: httpx.Client, service: JobService, tokens: Headers) -> None:
    """Thirty at the same moment, of whom five may listen."""
    service.limits = Limits(listeners=5, requests_per_second=1000)
    gate, answers, over = threading.Barrier(30), [], threading.Event()

    def listen() -> None:
        gate.wait()
        with http.stream("GET", "/api/events/all", headers=tokens["root"]) as answer:
            answers.append(answer.status_code)
            while answer.status_code == 200 and not over.wait(0.05):
                pass

    threads = [threading.Thread(target=listen) for _ in range(30)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 20
    while len(answers) < 30 and time.monotonic() < until:
        time.sleep(0.05)
    over.set()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200] * 5 + [429] * 25


def test_results_per_owner(http: httpx.Client, service: JobService, layout: Layout, tokens: Headers) -> None:
    """An owner sees so many batches back, and learns that there were more; admins and viewers see all."""
    service.limits = Limits(batches_kept=2, requests_per_second=1000)
    ann, eve = tokens["ann"], tokens["eve"]
    assert http.post("/api/subscriptions", json=ASK, headers=ann).status_code == 201
    for batch in (2, 3):
        deliver(layout, batch, [10 * batch, 10 * batch + 1], [["mine"], ["mine"]], dead=[("late", "{}")])
    page = http.get("/api/results/mine", headers=ann).json()
    assert ([row["ra"] for row in page["rows"]], page["kept_from"]) == ([140.5, 141.5, 150.5, 151.5], "2:0")
    deliver(layout, 4, [40], [["mine"]], dead=[("late", "{}")])
    page = http.get("/api/results/mine", params={"after": "2:1"}, headers=ann).json()
    assert ([row["ra"] for row in page["rows"]], page["kept_from"]) == ([150.5, 151.5, 160.5], "3:0")
    arrow = http.get("/api/results/mine", headers=ann | {"Accept": ARROW})
    assert arrow.headers[KEPT_FROM] == "3:0"
    whole = http.get("/api/results/mine", headers=eve).json()
    assert (len(whole["rows"]), whole["kept_from"]) == (5, None)
    with http.stream("GET", "/api/events/mine", headers=ann | {"Last-Event-ID": "2:1"}) as answer:
        lines = [line for _, line in zip(range(9), answer.iter_lines(), strict=False) if line]
    assert lines[1:5] == ["event: gap", 'data: {"kept_from": "3:0"}', "id: 3:1", 'data: {"ra": 150.5}']


def test_without_tokens_only_this_machine(http: httpx.Client, service: JobService) -> None:
    refused = http.get("/api/streams", headers={"Host": "rebound.example"})
    assert refused.status_code == 403
    with (
        pytest.raises(JobError, match=r"there are no tokens yet: make one first"),
        serving(service, "0.0.0.0", 0),
    ):
        pass
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "example.org", ""))


def test_a_taken_port_is_said(layout: Layout, address: str) -> None:
    port = int(address.rsplit(":", 1)[1])
    with (
        pytest.raises(JobError, match="try another --port"),
        serving(JobService(layout, dict, dict), "127.0.0.1", port),
    ):
        pass
