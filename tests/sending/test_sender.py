"""Results sent to receivers: every row at least once and in order, whatever the receiver does."""

from __future__ import annotations

import ssl
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.receivers import DeliveryProgress, Receivers
from anabranch.model.errors import JobError, RunError
from anabranch.model.receiver import Topic, Webhook, receiver_of
from anabranch.results.layout import Layout
from anabranch.sending import outbox, sender, webhook
from anabranch.sending.sender import wait_s
from anabranch.sending.signature import signature
from anabranch.sending.webhook import SendFailed, Webhooks, is_public
from tests.cli.conftest import Command, anabranch  # noqa: F401
from tests.cli.sinks import make_sink
from tests.sending.deliveries import batch, progress, sending, subscribe
from tests.sending.hooks import hooked


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "LOOK_S", 0.05)
    monkeypatch.setattr(sender, "FIRST_WAIT_S", 0.02)
    monkeypatch.setattr(sender, "LONGEST_WAIT_S", 0.1)
    monkeypatch.setattr(webhook, "TRY_S", 0.5)


# --- addresses ---


def test_addresses() -> None:
    assert receiver_of("https://example.org:8443/a?b=c") == Webhook("https://example.org:8443/a?b=c")
    assert receiver_of("kafka:a.b-c@x:1,[::1]:9092".replace("[::1]", "y")) == Topic("a.b-c", "x:1,y:9092")
    wrong = [
        "",
        "x",
        "ftp://a/b",
        "file:///etc/passwd",
        "http://",
        "http://a b/",
        "http://u:p@a/",
        "http://a/#x",
    ]
    wrong += [
        "kafka:a@b",
        "kafka:@b:1",
        "kafka:a b@c:1",
        "http://a:99999/",
        "http://é/",
        "http://[::1/",
        "a" * 3000,
    ]
    for text in wrong:
        with pytest.raises(JobError, match="results cannot be sent to"):
            receiver_of(text)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.1.1",
        "172.16.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "100.64.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fd00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


def test_public_addresses() -> None:
    assert all(map(is_public, ("93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34")))


# --- webhooks ---


def test_rows_arrive_in_order_once_where_all_is_well(tmp_path: Path) -> None:
    layout = make_sink(tmp_path / "out")
    with hooked() as hook:
        number = subscribe(layout, "q", hook.url)
        with sending(layout):
            wanted = batch(layout, 2, ["q", "all"]) + batch(layout, 3, ["all"])[:0] + batch(layout, 4, ["q"])
            hook.wait(lambda: len(hook.arrived()) == 6)
        assert hook.arrived() == wanted
        assert progress(layout, number) == {
            "receiver": hook.url,
            "place": "5:0",
            "sent": 6,
            "behind": 0,
            "error": None,
            "tried": progress(layout, number)["tried"],
        }
        first = hook.tries[0][1]
        assert {key: first[key] for key in ("subscription", "label", "stream", "first")} == {
            "subscription": "q",
            "label": "q",
            "stream": "photons",
            "first": "2:0",
        }


@pytest.mark.parametrize("bad", [500, 404, 429, "drop", "hang", "redirect", "half"])
@pytest.mark.slow
def test_what_fails_is_sent_again_with_its_key(tmp_path: Path, bad: int | str) -> None:
    layout = make_sink(tmp_path / "out")
    with hooked(lambda n: bad if n in (0, 1, 3) else 204) as hook:
        number = subscribe(layout, "q", hook.url)
        with sending(layout):
            wanted = batch(layout, 2, ["q"]) + batch(layout, 3, ["q"])
            hook.wait(lambda: len(hook.arrived()) == 6)
        assert hook.arrived() == wanted
        keys = [key for key, _, _ in hook.tries]
        assert keys[0] == keys[1] == keys[2] != keys[3] == keys[4]
        assert progress(layout, number)["error"] is None


@pytest.mark.slow
def test_a_dead_receiver_delays_nobody_and_is_shown(tmp_path: Path, anabranch: Command) -> None:  # noqa: F811
    layout = make_sink(tmp_path / "out")
    with hooked(lambda n: "hang") as dead, hooked() as well:
        numbers = [subscribe(layout, f"dead{n}", dead.url) for n in range(60)]
        subscribe(layout, "well", well.url)
        names = [*(f"dead{n}" for n in range(60)), "well"]
        with sending(layout, patience_s=0):
            for number in range(2, 8):
                batch(layout, number, names)
                well.wait(lambda number=number: len(well.arrived()) == 3 * (number - 1))  # type: ignore[misc]
            dead.wait(lambda: progress(layout, numbers[0])["error"] is not None)
        facts = progress(layout, numbers[0])
        assert (facts["sent"], facts["behind"], facts["place"]) == (0, 6, "2:0")
        assert facts["error"] == "no answer within 0.5 s"
        shown = anabranch("list", layout.root).out
        assert "no answer within 0.5 s" in shown
        assert dead.url in shown


def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    """Killed before its progress is saved, a shipment comes twice, under one key; no row is left out."""
    layout = make_sink(tmp_path / "out")
    away = threading.Event()
    away.set()
    with hooked(lambda n: 503 if n > 0 and away.is_set() else 200) as hook:
        number = subscribe(layout, "q", hook.url)
        with sending(layout, patience_s=0.3):
            wanted = batch(layout, 2, ["q"]) + batch(layout, 3, ["q"])
            hook.wait(lambda: len(hook.tries) >= 2)
        assert progress(layout, number)["behind"] == 1
        receivers = Receivers(layout.catalog)
        state = receivers.all()[number]
        # as if the first shipment had not been saved
        receivers.save([DeliveryProgress(number, "2:0", 0, state.tried, state.error, None)])
        receivers.close()
        wanted += batch(layout, 4, ["q"])
        away.clear()
        with sending(layout, patience_s=10):
            pass
        by_key = {key: body["rows"] for key, body, do in hook.tries if do == 200}
        assert [row for rows in by_key.values() for row in rows] == wanted
        assert max(Counter(key for key, _, do in hook.tries if do == 200).values()) == 2


def test_shipments_are_bounded_and_the_same_when_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "AHEAD", 40)
    monkeypatch.setattr(outbox, "SHIPMENT_ROWS", 30)
    monkeypatch.setattr(outbox, "SHIPMENT_BYTES", 800)
    layout = make_sink(tmp_path / "out")
    with hooked(lambda n: 200 if n % 2 else 500) as hook:  # each fails once
        subscribe(layout, "q", hook.url)
        wanted = batch(layout, 2, ["q"], rows=200)
        with sending(layout, patience_s=20):
            pass
        assert hook.arrived() == wanted
        assert set(Counter(key for key, _, _ in hook.tries).values()) == {2}
        assert max(hook.sizes) < 800 + 200  # the rows, and what stands around them
        assert len(hook.tries) > 200 * 30 / 800


def test_a_cancelled_subscription_is_sent_to_its_end(tmp_path: Path) -> None:
    layout = make_sink(tmp_path / "out")
    with hooked() as hook:
        number = subscribe(layout, "q", hook.url)
        with sending(layout):
            wanted = batch(layout, 2, ["q"])
            with Catalog(layout.catalog) as catalog:
                catalog.cancel("q")
            wanted += batch(layout, 3, ["q"])
            receivers, later = Receivers(layout.catalog), count(4)

            def ended() -> bool:
                batch(layout, next(later), ["all"])  # the stream goes on
                return receivers.all()[number].ended is not None

            hook.wait(ended)
            assert receivers.open() == []
            receivers.close()
        assert hook.arrived() == wanted


# --- what a service on the internet does not do ---


def test_hanging_receivers_of_an_owner_keep_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One owner has many receivers that hang: few requests are under way, and others get theirs."""
    monkeypatch.setattr(webhook, "TRY_S", 1.0)
    monkeypatch.setattr(sender, "TRIES", (20, 6))
    monkeypatch.setattr(sender, "OWNER_TRIES", (8, 3))
    layout = make_sink(tmp_path / "out")
    with hooked(lambda n: "hang") as dead, hooked() as well:
        names = [f"dead{n}" for n in range(60)]
        for name in names:
            subscribe(layout, name, dead.url, "ann")
        subscribe(layout, "well", well.url, "bob")
        with sending(layout, private=True, patience_s=0):
            for number in range(2, 5):
                batch(layout, number, ["well", *names])
                well.wait(lambda number=number: len(well.arrived()) == 3 * (number - 1), 10)  # type: ignore[misc]
                assert dead.under_way <= 8 + 3
            assert dead.tries


# --- signatures ---


def test_requests_are_signed(tmp_path: Path, anabranch: Command) -> None:  # noqa: F811
    layout = make_sink(tmp_path / "out")
    with hooked() as hook:
        number = subscribe(layout, "q", hook.url)
        receivers = Receivers(layout.catalog)
        secret = receivers.secret(number)
        assert secret is not None
        with sending(layout):
            batch(layout, 2, ["q"])
            hook.wait(lambda: len(hook.signed) == 1)
            renewed = anabranch("secret", layout.root, "q").out.strip()
            hook.wait(lambda: receivers.secret(number) == renewed)
            time.sleep(0.3)  # it looks for changes now and then
            batch(layout, 3, ["q"])
            hook.wait(lambda: len(hook.signed) == 2)
        receivers.close()
        assert renewed != secret
        for (header, body), key in zip(hook.signed, (secret, renewed), strict=True):
            sent_at = int(header.partition(",")[0].removeprefix("t="))
            assert abs(time.time() - sent_at) < 60
            assert header == signature(key, sent_at, body)
            assert header != signature(key, sent_at, body + b" ")
            assert header != signature(key, sent_at + 1, body)


def test_a_secret_is_shown_once_and_only_for_webhooks(sink_layout: Layout, anabranch: Command) -> None:  # noqa: F811
    root = sink_layout.root
    done = anabranch("subscribe", root, "q", "SELECT ra FROM photons", "--deliver", "https://example.org/")
    assert "requests are signed with whsec_" in done.err
    assert "whsec_" not in anabranch("list", root, "--format", "json").out
    done = anabranch("subscribe", root, "r", "SELECT ra FROM photons", "--deliver", "kafka:t@b:1")
    assert "whsec_" not in done.err
    refused = anabranch("secret", root, "r")
    assert (refused.code, "not sent to a webhook" in refused.err) == (2, True)


# --- TLS ---


def test_a_connection_belongs_to_its_name() -> None:
    """Two names have one address. The certificate is for one of them: only that one gets something, also
    while a connection to it is kept.
    """
    folder = Path(__file__).parent / "tls"
    trusted = ssl.create_default_context(cafile=folder / "a.test.pem")
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(folder / "a.test.pem", folder / "a.test.key.pem")
    asked: list[str | None] = []
    shown.sni_callback = lambda _, name, __: asked.append(name)

    async def post(port: int) -> list[str]:
        hooks, outcome = Webhooks(lambda host: ["127.0.0.1"], trusted), []
        for name in ("a.test", "b.test", "a.test"):
            try:
                url = f"https://{name}:{port}/"
                await hooks.post(url, b'{"rows": []}', "k", True, anyio.CapacityLimiter(1))
                outcome.append("arrived")
            except SendFailed as failed:
                outcome.append(str(failed))
        await hooks.close()
        return outcome

    with hooked(tls=shown) as hook:
        first, second, third = anyio.run(post, hook.port)
    assert (first, third) == ("arrived", "arrived")
    assert "certificate" in second
    assert (asked, hook.hosts) == (["a.test", "b.test"], [f"a.test:{hook.port}"] * 2)


def test_a_name_is_looked_up_once_per_request() -> None:
    """A name that is public when it is checked and private when it is used leads nowhere."""
    answers = iter([["93.184.216.34"], ["127.0.0.1"], ["127.0.0.1"]])

    async def post(port: int) -> None:
        hooks = Webhooks(lambda host: next(answers))
        try:
            await hooks.post(f"http://a.test:{port}/", b"{}", "k", False, anyio.CapacityLimiter(1))
        finally:
            await hooks.close()

    with hooked() as hook, pytest.raises(SendFailed):
        anyio.run(post, hook.port)
    assert hook.tries == []
    assert next(answers) == ["127.0.0.1"]  # it was asked once


def test_only_public_addresses_for_callers_of_a_service(tmp_path: Path) -> None:
    layout = make_sink(tmp_path / "out")
    with hooked() as hook:
        named = hook.url.replace("127.0.0.1", "localhost")
        theirs = [subscribe(layout, "a", hook.url, "ann"), subscribe(layout, "b", named, "ann")]
        subscribe(layout, "job", hook.url)  # registered on the machine itself
        with sending(layout, private=False, patience_s=0):
            batch(layout, 2, ["a", "b", "job"])
            hook.wait(lambda: all(progress(layout, number)["error"] for number in theirs))
            hook.wait(lambda: bool(hook.arrived()))
        assert {body["subscription"] for _, body, _ in hook.tries} == {"job"}
        assert "not an address of the public internet" in progress(layout, theirs[1])["error"]


def test_from_the_command_line(sink_layout: Layout, anabranch: Command) -> None:  # noqa: F811
    done = anabranch("subscribe", sink_layout.root, "q", "SELECT ra FROM photons", "--deliver", "kafka:t@b:1")
    assert done.code == 0, done.err
    assert (
        '"receiver": "kafka:t@b:1", "place": "2:0"'
        in anabranch("list", sink_layout.root, "--format", "json").out
    )
    done = anabranch("subscribe", sink_layout.root, "r", "SELECT ra FROM photons", "--deliver", "kafka:t")
    assert (done.code, "kafka:topic@broker:9092" in done.err) == (2, True)


@pytest.fixture
def sink_layout(tmp_path: Path) -> Layout:
    return make_sink(tmp_path / "out")


# --- topics ---


def test_topics_get_one_message_per_row(sink_layout: Layout) -> None:
    sent: list[tuple[str, str, str, str, str]] = []
    tries = []

    def produce(servers: str, topic: str, messages: Any) -> None:
        tries.append(len(messages))
        sent.extend((servers, topic, *message) for message in messages)
        if len(tries) == 1:
            raise RunError("TimeoutException: not now")

    subscribe(sink_layout, "q", "kafka:t@b:1")
    batch(sink_layout, 2, ["q"])
    with sending(sink_layout, produce=produce, patience_s=10):
        pass
    assert tries == [3, 3]
    assert [each[:3] for each in sent] == [("b:1", "t", "q")] * 6
    ids = [id for *_, id in sent]
    assert ids[:3] == ids[3:]
    assert [id.rsplit("-", 1)[1] for id in ids[:3]] == ["2:0", "2:1", "2:2"]


def test_a_topic_whose_servers_hang_delays_nobody(sink_layout: Layout) -> None:
    over = threading.Event()

    def produce(servers: str, topic: str, messages: Any) -> None:
        over.wait(20)

    with hooked() as hook:
        topics = [f"k{number}" for number in range(50)]
        for name in topics:
            subscribe(sink_layout, name, "kafka:t@b:1")
        subscribe(sink_layout, "q", hook.url)
        started = time.monotonic()
        with sending(sink_layout, produce=produce, patience_s=0):
            batch(sink_layout, 2, ["q", *topics])
            hook.wait(lambda: len(hook.arrived()) == 3)
        assert time.monotonic() - started < 15
        over.set()


def test_waits_grow_and_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    waits = [[wait_s(failures) for _ in range(20)] for failures in (1, 2, 5, 7, 50, 5_000)]
    for longest, some in zip((1, 2, 16, 60, 60, 60), waits, strict=True):
        assert all(longest / 2 <= wait <= longest for wait in some)
        assert len(set(some)) > 1


def test_a_name_that_is_nobodys() -> None:
    async def post() -> None:
        hooks = Webhooks()
        try:
            await hooks.post("http://no.such.name.invalid/", b"{}", "k", True, anyio.CapacityLimiter(1))
        finally:
            await hooks.close()

    with pytest.raises(SendFailed):
        anyio.run(post)
