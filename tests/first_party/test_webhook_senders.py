"""The generic way in: what single senders have of their own; kinds and ids in headers, forms, times."""

import base64
import hashlib
import hmac
from typing import Any

import msgspec
import pytest
import trio

from hookgw import ConnectionState, IngestRequest, Invalid, ProofRefused
from hookgw.testing import FakeSession
from tests.first_party.webhook_schemes import (
    BODY,
    CATALOG,
    FORM,
    JSON,
    SENDERS,
    URL,
    session_of,
    signed,
    with_headers,
)
from tests.public.plugins import ContainedConnector, Hooks, LoadedPlugins


@pytest.fixture
def webhook(loaded: LoadedPlugins) -> ContainedConnector:
    return Hooks(loaded).connectors()["webhook"]


# What single senders have of their own


async def test_twilio_may_call_the_url_with_a_port_and_below(webhook: ContainedConnector) -> None:
    host, path = "https://hookgw.example", URL.removeprefix("https://hookgw.example")
    for url, accepted in (
        (f"{host}{path}", True),
        (f"{host}:443{path}", True),
        (f"{host}:80{path}", False),
        (f"http://hookgw.example{path}", False),
        (f"https://other.example{path}", False),
    ):
        session, body = session_of("twilio", kind="CALL"), b"SmsSid=SM1&Body=Ol%C3%A1"
        content = f"{url}BodyOláSmsSidSM1".encode()
        signature = base64.b64encode(
            hmac.new(SENDERS["twilio"].secret.encode(), content, "sha1").digest()
        ).decode()
        request = IngestRequest(
            method="POST", query={}, headers={**FORM, "x-twilio-signature": signature}, body=body
        )
        if accepted:
            answer = await webhook.ingest(session, request)
            assert (answer.body, answer.content_type) == (b"<Response/>", "text/xml")
            assert [event.data for event in session.events] == [{"SmsSid": "SM1", "Body": "Olá"}]
        else:
            with pytest.raises(ProofRefused):
                await webhook.ingest(session, request)


async def test_twilio_signs_json_by_its_hash_in_the_url(webhook: ContainedConnector) -> None:
    def request(body: bytes, hashed: bytes | None) -> IngestRequest:
        query = "" if hashed is None else f"bodySHA256={hashlib.sha256(hashed).hexdigest()}"
        content = f"{URL}?{query}" if query else URL
        mac = hmac.new(SENDERS["twilio"].secret.encode(), content.encode(), "sha1").digest()
        return IngestRequest(
            method="POST",
            query={} if hashed is None else {"bodySHA256": query.partition("=")[2]},
            query_string=query,
            headers={**JSON, "x-twilio-signature": base64.b64encode(mac).decode()},
            body=body,
        )

    session = session_of("twilio")
    for forged in (request(BODY, None), request(BODY, b"{}")):
        with pytest.raises(ProofRefused, match="bodySHA256 of the URL is not its hash"):
            await webhook.ingest(session, forged)
    await webhook.ingest(session, request(BODY, BODY))
    assert [event.data_json for event in session.events] == [BODY]


async def test_pagseguro_sends_codes_unsigned_and_nothing_else(webhook: ContainedConnector) -> None:
    session = session_of("pagseguro", kind="CALL")
    code = b"notificationCode=766B9C-AD4B044B04DA-77742F5FA653-E1AB24&notificationType=transaction"
    for _ in range(2):
        await webhook.ingest(session, IngestRequest(method="POST", query={}, headers=FORM, body=code))
    [event] = session.events
    assert event.data == {
        "notificationCode": "766B9C-AD4B044B04DA-77742F5FA653-E1AB24",
        "notificationType": "transaction",
    }
    for body in (code + b"&x=1", b"x=1&" + code, code + b"\n", b"notificationCode=1", BODY):
        with pytest.raises(ProofRefused):
            await webhook.ingest(session, IngestRequest(method="POST", query={}, headers=FORM, body=body))
    wrong = {**FORM, "x-authenticity-token": "0" * 64}
    with pytest.raises(ProofRefused):  # a signature that is there must be right
        await webhook.ingest(session, IngestRequest(method="POST", query={}, headers=wrong, body=code))


async def test_woocommerce_pings_a_new_url_unsigned(webhook: ContainedConnector) -> None:
    session = session_of("woocommerce")
    ping = IngestRequest(method="POST", query={}, headers=FORM, body=b"webhook_id=7")
    assert (await webhook.ingest(session, ping)).status == 200
    assert session.events == []
    with pytest.raises(ProofRefused):
        await webhook.ingest(session, msgspec.structs.replace(ping, body=b"webhook_id=7&x=1"))


async def test_slacks_challenge_is_answered_if_it_is_signed(webhook: ContainedConnector) -> None:
    session = session_of("slack")
    request = signed("slack", {"type": "url_verification", "challenge": "3eZbrw1a", "token": "x"})
    answer = await webhook.ingest(session, request)
    assert (answer.status, answer.body, answer.content_type) == (
        200,
        b"3eZbrw1a",
        "text/plain; charset=utf-8",
    )
    assert session.events == []
    with pytest.raises(ProofRefused):
        await webhook.ingest(session, with_headers(request, x_slack_signature="v0=0"))


@pytest.mark.parametrize(
    "body",
    [
        {"type": "event_callback", "challenge": "3eZbrw1a"},
        {"type": "url_verification"},
        {"type": "url_verification", "challenge": 5},
        ["url_verification"],
    ],
)
async def test_an_event_of_slack_that_looks_like_its_challenge_is_an_event(
    webhook: ContainedConnector, body: Any
) -> None:
    session = session_of("slack", kind="CALL")
    answer = await webhook.ingest(session, signed("slack", body))
    assert (answer.status, answer.body, len(session.events)) == (200, b"", 1)


@pytest.mark.parametrize(
    ("body", "status", "answer", "events"),
    [
        ({"type": 1, "id": "1", "token": "x"}, 200, b'{"type":1}', 0),
        ({"type": 0, "application_id": "1", "version": 1}, 204, b"", 0),
        ({"type": 1, "version": 1, "event": {"type": "APPLICATION_AUTHORIZED"}}, 204, b"", 1),
        ({"type": 2, "id": "1", "token": "x", "data": {"name": "ping"}}, 202, b"", 1),
        ({"type": True}, 204, b"", 1),
        (["token"], 204, b"", 1),
    ],
)
async def test_discords_pings_are_answered_if_they_are_signed(
    webhook: ContainedConnector, body: Any, status: int, answer: bytes, events: int
) -> None:
    session, request = session_of("discord", kind="CALL"), signed("discord", body)
    with pytest.raises(ProofRefused):  # Discord sends such a one, too, before it stores the URL
        await webhook.ingest(session, with_headers(request, x_signature_ed25519="0" * 128))
    given = await webhook.ingest(session, request)
    assert (given.status, given.body, len(session.events)) == (status, answer, events)
    assert not answer or given.content_type == "application/json"


@pytest.mark.parametrize(
    ("query", "token", "status", "body"),
    [
        ({"hub.mode": "subscribe", "hub.verify_token": "t0ken", "hub.challenge": "42"}, "t0ken", 200, b"42"),
        ({"hub.mode": "subscribe", "hub.verify_token": "other", "hub.challenge": "42"}, "t0ken", 403, None),
        ({"hub.mode": "subscribe", "hub.verify_token": "", "hub.challenge": "42"}, "t0ken", 403, None),
        ({"hub.mode": "unsubscribe", "hub.verify_token": "t0ken", "hub.challenge": "42"}, "t0ken", 403, None),
        ({"hub.mode": "subscribe", "hub.verify_token": "", "hub.challenge": "42"}, "", 200, b"Send each"),
        ({}, "t0ken", 200, b"Send each"),
    ],
)
async def test_metas_challenge_needs_the_verify_token(
    webhook: ContainedConnector, query: dict[str, str], token: str, status: int, body: bytes | None
) -> None:
    session = session_of("github", verify_token=token)
    answer = await webhook.ingest(session, IngestRequest(method="GET", query=query, headers={}, body=b""))
    assert answer.status == status
    assert body is None or answer.body.startswith(body)


# Kinds


@pytest.mark.parametrize(
    ("word", "kind"),
    [("messages/upsert", "MESSAGES_UPSERT"), ("Messages.Upsert", "MESSAGES_UPSERT"), ("call", "CALL")],
)
async def test_a_header_names_the_kind(webhook: ContainedConnector, word: str, kind: str) -> None:
    session = session_of("shopify", kind="header:X-Shopify-Topic")
    await webhook.ingest(session, signed("shopify", {"n": 1}, x_shopify_topic=word))
    assert [event.kind for event in session.events] == [kind]


async def test_an_unknown_kind_in_a_header_is_refused_by_its_name(webhook: ContainedConnector) -> None:
    session = session_of("shopify", kind="header:x-shopify-topic")
    with pytest.raises(Invalid, match="in the header x-shopify-topic: 'orders/create' is not a known event"):
        await webhook.ingest(session, signed("shopify", {}))
    with pytest.raises(Invalid, match="has no header x-shopify-topic, which names the kind"):
        await webhook.ingest(session, signed("shopify", {}, x_shopify_topic=""))


@pytest.mark.parametrize("word", ["order.refunded", "", None, 5, {}, "PLUGIN_FAILING", "x" * 100_000])
async def test_everything_unknown_has_the_kind_otherwise(webhook: ContainedConnector, word: Any) -> None:
    session = session_of("stripe", otherwise="call")
    await webhook.ingest(session, signed("stripe", {"event": word}))
    await webhook.ingest(session, signed("stripe", {"event": "MESSAGES_UPSERT"}))
    assert [event.kind for event in session.events] == ["CALL", "MESSAGES_UPSERT"]
    assert session.events[0].data == {"event": word}


async def test_the_network_event_of_an_unknown_kind_says_the_senders_word(
    webhook: ContainedConnector,
) -> None:
    session = session_of("github", kind="header:x-github-event", otherwise="NETWORK_EVENT")
    raw = b'{"zen": 1e2,  "a": 1}'
    await webhook.ingest(session, signed("github", raw, x_github_event="star"))
    await webhook.ingest(session, signed("github", raw, x_github_event="", x_github_delivery="second"))
    first, second = session.events
    assert first.data_json == b'{"network":"webhook","name":"star","value":%b}' % raw
    assert second.data["name"] == ""
    assert (first.kind, first.event_id) == ("NETWORK_EVENT", "72d3162e-cc78-11e3-81ab-4c9367dc0958")


async def test_unknown_kinds_with_one_id_are_two_events(webhook: ContainedConnector) -> None:
    session = session_of("stripe", otherwise="CALL")
    for word in ("order.created", "order.paid", "order.paid"):
        await webhook.ingest(session, signed("stripe", {"event": word, "id": "17"}))
    assert [event.data["event"] for event in session.events] == ["order.created", "order.paid"]


@pytest.mark.parametrize("otherwise", ["order.refunded", "PLUGIN_FAILING"])
async def test_otherwise_must_be_a_kind(webhook: ContainedConnector, otherwise: str) -> None:
    session = session_of("stripe", otherwise=otherwise)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(webhook.run, session)
        await session.wait_until(ConnectionState.CLOSE)
        nursery.cancel_scope.cancel()
    assert session.states[-1][2]["message"].startswith("otherwise: ")


async def test_a_header_has_the_id(webhook: ContainedConnector) -> None:
    session = session_of("typeform", id="header:X-Delivery")
    for delivery, event_id in (("1", "a"), ("1", "b"), ("2", "a")):
        body = {"event": "CALL", "event_id": event_id}
        await webhook.ingest(session, signed("typeform", body, x_delivery=delivery))
    assert len(session.events) == 2
    # Without the header, it is where the scheme has it.
    for _ in range(2):
        await webhook.ingest(session, signed("typeform", {"event": "CALL", "event_id": "a"}))
    assert len(session.events) == 3


# Forms


def posted(body: bytes, content_type: str = FORM["content-type"]) -> tuple[FakeSession, IngestRequest]:
    session = FakeSession(options={"kind": "CALL", "header": "x-token", "value": "t0ken"}, catalog=CATALOG)
    headers = {"x-token": "t0ken", "content-type": content_type}
    return session, IngestRequest(method="POST", query={}, headers=headers, body=body)


@pytest.mark.parametrize(
    ("body", "data"),
    [
        (b"a=1&b=x+y%26z&c", {"a": "1", "b": "x y&z", "c": ""}),
        (b"a=1&a=1&a=3&b=", {"a": ["1", "1", "3"], "b": ""}),
        (b"n[0][id]=%C3%A9&&=x", {"n[0][id]": "é", "": "x"}),
        (b"a=" + b"%C3%A9" * 20_000, {"a": "é" * 20_000}),
        # curl -d says that JSON is a form
        (b' {"a": "b=c"}', {"a": "b=c"}),
        (b'"a=b"', "a=b"),
    ],
)
async def test_a_form_is_an_object_of_texts(webhook: ContainedConnector, body: bytes, data: Any) -> None:
    for content_type in (
        "application/x-www-form-urlencoded",
        "Application/X-WWW-Form-Urlencoded;charset=UTF-8",
    ):
        session, request = posted(body, content_type)
        await webhook.ingest(session, request)
        assert [event.data for event in session.events] == [data]


@pytest.mark.parametrize(
    ("charset", "body", "data"),
    [
        ("; charset=ISO-8859-1", b"n%E3o=caf%E9+%80&b=1", {"não": "café €", "b": "1"}),
        ('; Charset="windows-1252"', b"a=\xe9", {"a": "é"}),
        # PayPal's IPN names it in a field, and HTML in another
        ("", b"a=Jos%E9&charset=windows-1252", {"a": "José", "charset": "windows-1252"}),
        ("", b"_charset_=iso-8859-1&a=%E9", {"_charset_": "iso-8859-1", "a": "é"}),
        # many say so, and send UTF-8
        ("; charset=ISO-8859-1", b"a=%C3%A9", {"a": "é"}),
    ],
)
async def test_a_form_that_names_a_western_encoding_is_read_in_it(
    webhook: ContainedConnector, charset: str, body: bytes, data: Any
) -> None:
    session, request = posted(body, FORM["content-type"] + charset)
    await webhook.ingest(session, request)
    assert [event.data for event in session.events] == [data]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"a=%E9", "The form is not in UTF-8"),
        (b"a=\xe9", "The form is not in UTF-8"),
        (b"a=\x81&charset=windows-1252", "The form is not in UTF-8"),
        (b"a=%E9&charset=iso-8859-15", "The form is not in UTF-8"),
        (b"&".join([b"a=1"] * 1_001), "The form has more than 1,000 fields"),
    ],
)
async def test_a_form_that_is_none_is_refused(webhook: ContainedConnector, body: bytes, said: str) -> None:
    session, request = posted(body)
    with pytest.raises(Invalid, match=said):
        await webhook.ingest(session, request)


@pytest.mark.parametrize("name", ["github", "slack"])
async def test_a_form_with_a_payload_is_the_json_in_it(webhook: ContainedConnector, name: str) -> None:
    session = session_of(name)
    body = b"payload=%7B%22event%22%3A+%22CALL%22%2C+%22n%22%3A+1e2%7D"
    await webhook.ingest(session, signed(name, body, content_type=FORM["content-type"]))
    assert [event.data_json for event in session.events] == [b'{"event": "CALL", "n": 1e2}']


@pytest.mark.parametrize(
    "text",
    ["2026-11-20T12:00:00", "2026-11-20 12:00:00", "2026-11-20T12:00:00.5", "2026-11-20T12:00:00+0300"],
)
async def test_a_time_without_an_offset_is_refused(webhook: ContainedConnector, text: str) -> None:
    session = session_of("stripe", time="/at")
    with pytest.raises(Invalid, match="must be RFC 3339 with Z or an offset"):
        await webhook.ingest(session, signed("stripe", {"event": "CALL", "at": text}))
    assert session.events == []
