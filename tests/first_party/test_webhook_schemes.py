"""The generic way in: every scheme of the table, by the same rules; challenges, forms, kinds in headers."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import trio

from hookgw import ConnectionState, IngestRequest, Invalid, ProofRefused, Unavailable
from hookgw.config import PluginsSettings
from hookgw.plugins import ContainedConnector, Hooks, load_plugins
from hookgw.records import BUILT_IN_KINDS, Catalog
from hookgw.testing import FakeSession
from plugins.gateway_kinds import KINDS
from tests.first_party.webhook_schemes import BODY, FORM, JSON, SENDERS, URL

NAMES = list(SENDERS)
CATALOG = Catalog([*BUILT_IN_KINDS, *KINDS])
TIMED = [name for name, sender in SENDERS.items() if sender.tolerance]
UNTIMED = [name for name, sender in SENDERS.items() if not sender.tolerance]
DOCS = Path(__file__).parents[2] / "docs/networks/webhook.md"


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> ContainedConnector:
    hooks = Hooks(load_plugins(PluginsSettings(), base=tmp_path_factory.mktemp("plugins")))
    hooks.configure({})
    return hooks.connectors()["webhook"]


class Session(FakeSession):
    """Has the URL for which the requests are signed."""

    @property
    def ingest_url(self) -> str | None:
        return URL


def session_of(scheme: str, **options: Any) -> FakeSession:
    given = {"scheme": scheme, "kind": "/event", "secret": SENDERS[scheme].secret, **options}
    return Session(options=given, catalog=CATALOG)


def now() -> int:
    return int(time.time())


def with_headers(request: IngestRequest, **changed: str) -> IngestRequest:
    headers = {**request.headers, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return msgspec.structs.replace(request, headers={name: value for name, value in headers.items() if value})


def scheme_of(module_of: Callable[[str], ModuleType], name: str) -> Any:
    return module_of("webhook").schemes.SCHEMES[name]


# The table


def test_every_scheme_has_a_sender_and_its_place_in_the_docs(
    module_of: Callable[[str], ModuleType],
) -> None:
    schemes = module_of("webhook").schemes.SCHEMES
    assert list(schemes) == NAMES
    lines = DOCS.read_text().splitlines()
    for name, scheme in schemes.items():
        tolerance = f"{scheme.tolerance:g} s" if scheme.tolerance else "–"
        row = f"| `{name}` | `{scheme.header}` | {scheme.algorithm}, {scheme.encoding} | `{scheme.signed}` |"
        [line] = [line for line in lines if line.startswith(row)]
        assert line.split(" | ")[4] == tolerance


@pytest.mark.parametrize("name", NAMES)
async def test_a_request_of_the_sender_is_an_event(webhook: ContainedConnector, name: str) -> None:
    session = session_of(name)
    answer = await webhook.ingest(session, SENDERS[name].request(now()))
    assert 200 <= answer.status < 300
    [event] = session.events
    assert event.kind == "CALL"
    if SENDERS[name].body == BODY:
        assert event.data_json == BODY


@pytest.mark.parametrize("name", NAMES)
async def test_a_repeated_request_is_one_event(webhook: ContainedConnector, name: str) -> None:
    session = session_of(name)
    for age in (2, 1):
        await webhook.ingest(session, SENDERS[name].request(now() - age))
    assert len(session.events) == (1 if SENDERS[name].repeats else 2)


@pytest.mark.parametrize("name", NAMES)
async def test_another_secret_is_refused(webhook: ContainedConnector, name: str) -> None:
    session = session_of(name)
    with pytest.raises(ProofRefused):
        await webhook.ingest(session, SENDERS[name].request(now(), secret=SENDERS[name].other_secret))
    assert session.events == []


@pytest.mark.parametrize("name", NAMES)
async def test_what_is_signed_cannot_be_changed(
    webhook: ContainedConnector, module_of: Callable[[str], ModuleType], name: str
) -> None:
    session, genuine = session_of(name), SENDERS[name].request(now())
    forged = [msgspec.structs.replace(genuine, body=genuine.body.replace(b"CALL", b"HOAX"))]
    if name == "mercadopago":  # it signs no body
        forged = [
            msgspec.structs.replace(genuine, query={**genuine.query, "data.id": "999"}),
            with_headers(genuine, x_request_id="x"),
        ]
    if name == "twilio":
        forged.append(msgspec.structs.replace(genuine, query_string="from=twilia"))
        forged.append(msgspec.structs.replace(genuine, path="below"))
    time_header = scheme_of(module_of, name).time
    if time_header:
        forged.append(with_headers(genuine, **{time_header.replace("-", "_"): str(now() - 1)}))
    for request in forged:
        with pytest.raises(ProofRefused):
            await webhook.ingest(session, request)
    assert session.events == []


@pytest.mark.parametrize("name", NAMES)
async def test_a_missing_or_misspelled_signature_is_refused(
    webhook: ContainedConnector, module_of: Callable[[str], ModuleType], name: str
) -> None:
    session, scheme = session_of(name), scheme_of(module_of, name)
    genuine = SENDERS[name].request(now())
    shown = genuine.headers[scheme.header]
    begin = max(shown.rfind("v1="), 0) + 3 if scheme.names else len(scheme.prefix)
    before, signature = shown[:begin], shown[begin:].partition(",")[0]
    raw = bytes.fromhex(signature) if scheme.encoding == "hex" else base64.b64decode(signature)
    if name == "stripe":
        before, signature = shown.partition("v1=")[0] + "v1=", shown.partition("v1=")[2][:64]
        raw = bytes.fromhex(signature)
    other = base64.b64encode(raw).decode() if scheme.encoding == "hex" else raw.hex()
    wrong = [
        *("", before, before + other, before + signature[:-1], before + signature + "0", before + "é"),
        *(before + f" {signature}", before + signature[:2] + " " + signature[2:]),
        *(before + ("0" * len(signature)), shown.replace("=", "", 1) if before else "x"),
    ]
    if scheme.encoding == "hex":
        wrong += [before + signature.upper(), before + "0x" + signature]
    if scheme.prefix:
        wrong += [signature, scheme.prefix.upper() + signature, scheme.prefix + scheme.prefix + signature]
    for value in wrong:
        with pytest.raises(ProofRefused):
            await webhook.ingest(session, with_headers(genuine, **{scheme.header.replace("-", "_"): value}))
    assert session.events == []
    # The rest of the test would prove nothing if this were refused, too.
    value = before + signature
    await webhook.ingest(session, with_headers(genuine, **{scheme.header.replace("-", "_"): value}))
    assert len(session.events) == 1


@pytest.mark.parametrize("name", TIMED)
async def test_a_time_may_be_off_as_far_as_the_table_says(webhook: ContainedConnector, name: str) -> None:
    sender = SENDERS[name]
    for age in (sender.tolerance - 5, 5 - sender.tolerance):
        session = session_of(name)
        await webhook.ingest(session, sender.request(now() - age))
        assert len(session.events) == 1
    session = session_of(name)
    for age, said in ((sender.tolerance + 10, "s in the past"), (-10 - sender.tolerance, "s in the future")):
        with pytest.raises(ProofRefused, match=said):
            await webhook.ingest(session, sender.request(now() - age))
    assert session.events == []


@pytest.mark.parametrize("text", ["", "x", "-1", "1e9", "١", " 1795168800", "1_795_168_800", "9" * 19, "1.5"])
@pytest.mark.parametrize("name", TIMED)
async def test_a_time_that_is_none_is_refused(
    webhook: ContainedConnector, module_of: Callable[[str], ModuleType], name: str, text: str
) -> None:
    session, scheme = session_of(name), scheme_of(module_of, name)
    genuine = SENDERS[name].request(now())
    header = scheme.time or scheme.header
    shown = genuine.headers[header]
    value = text if scheme.time else re.sub(r"(ts?)=\d+", lambda found: f"{found[1]}={text}", shown, count=1)
    with pytest.raises(ProofRefused):
        await webhook.ingest(session, with_headers(genuine, **{header.replace("-", "_"): value}))


@pytest.mark.parametrize("name", [name for name in TIMED if name in ("stripe", "calendly", "mercadopago")])
async def test_a_list_has_one_time_and_any_number_of_signatures(
    webhook: ContainedConnector, module_of: Callable[[str], ModuleType], name: str
) -> None:
    session, scheme = session_of(name), scheme_of(module_of, name)
    genuine = SENDERS[name].request(now())
    shown = genuine.headers[scheme.header]
    (time_name, signature_name), header = scheme.names, scheme.header.replace("-", "_")
    stale = f"{time_name}=1,"
    for value in (stale + shown, f"{shown},{time_name}=1", f"{shown},{shown}", shown.partition(",")[2]):
        with pytest.raises(ProofRefused, match=f"must have {time_name} once"):
            await webhook.ingest(session, with_headers(genuine, **{header: value}))
    # While a secret is replaced, a sender signs with both.
    wrong = f"{signature_name}={'0' * 64}"
    at, _, rest = shown.partition(",")
    await webhook.ingest(session, with_headers(genuine, **{header: f"{at}, {wrong}, {rest}"}))
    assert len(session.events) == 1
    with pytest.raises(ProofRefused):
        await webhook.ingest(
            session, with_headers(genuine, **{header: f"{at},{','.join([wrong] * 16)},{rest}"})
        )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("secret", ["", None])
async def test_an_empty_secret_is_refused(webhook: ContainedConnector, name: str, secret: str | None) -> None:
    options = {"scheme": name, "kind": "/event", "secret": secret}
    with pytest.raises(Invalid, match="secret"):
        await webhook.check_options(options, public_url="https://hookgw.example")
    # An instance may have them all the same. Everybody can sign with nothing.
    session = session_of(name, secret=secret)
    with pytest.raises(Unavailable):
        await webhook.ingest(session, SENDERS[name].request(now()))


@pytest.mark.parametrize("name", NAMES)
async def test_a_header_beside_the_signature_is_needed_too(webhook: ContainedConnector, name: str) -> None:
    session = session_of(name, header="x-token", value="t0ken")
    genuine = SENDERS[name].request(now())
    for request in (genuine, with_headers(genuine, x_token="other")):
        with pytest.raises(ProofRefused, match="x-token is missing or wrong"):
            await webhook.ingest(session, request)
    await webhook.ingest(session, with_headers(genuine, x_token="t0ken"))
    assert len(session.events) == 1


@pytest.mark.parametrize(
    "raw",
    [
        BODY.decode().encode("utf-16"),
        BODY.decode().encode("utf-16-be"),
        BODY.replace(b"evt_1", b"\xe9"),
        gzip.compress(BODY),
        b"<event>CALL</event>",
        b"",
        b'--x\r\ncontent-disposition: form-data; name="event"\r\n\r\nCALL\r\n--x--\r\n',
    ],
    ids=["utf-16", "utf-16-be", "latin-1", "gzip", "xml", "empty", "multipart"],
)
@pytest.mark.parametrize("name", [name for name in NAMES if SENDERS[name].body == BODY])
async def test_a_signed_body_in_another_encoding_is_refused(
    webhook: ContainedConnector, name: str, raw: bytes
) -> None:
    session = session_of(name)
    with pytest.raises(Invalid, match="The body is not JSON"):
        await webhook.ingest(session, SENDERS[name].request(now(), body=raw))
    assert session.events == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scheme": "paypal", "secret": "planted"}, "scheme must be one of standard-webhooks, svix, github"),
        ({"scheme": 5}, "scheme must be a text"),
        (
            {"scheme": "github", "header": "x-token", "value": "planted"},
            "secret is missing: the scheme github",
        ),
        ({"scheme": "svix", "secret": "planted"}, "secret must be whsec_"),
        ({"scheme": "discord", "secret": "planted"}, "secret must be the public key of the application, 64"),
        ({"scheme": "discord", "secret": "0" * 63}, "secret must be the public key of the application, 64"),
        ({"scheme": "github", "secret": "planted", "kind": "header:"}, "kind must be a JSON pointer"),
        ({"scheme": "github", "secret": "planted", "kind": "header:x y"}, "kind must be a JSON pointer"),
        ({"scheme": "github", "secret": "planted", "time": "header:date"}, "time must be a JSON pointer"),
        ({"scheme": "twilio", "secret": "planted"}, "scheme needs the setting server.public_url"),
    ],
)
async def test_wrong_options_of_a_scheme_are_refused(
    webhook: ContainedConnector, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await webhook.check_options({"kind": "/event", **options}, public_url=None)
    [sentence] = caught.value.messages
    assert sentence.startswith(said)
    assert "planted" not in sentence


# What single senders have of their own


def signed(name: str, body: Any, **headers: str) -> IngestRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return with_headers(SENDERS[name].request(now(), body=raw), **headers)


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
    ("body", "status", "answer", "events"),
    [
        ({"type": 1, "id": "1", "token": "x"}, 200, b'{"type":1}', 0),
        ({"type": 0, "application_id": "1", "version": 1}, 204, b"", 0),
        ({"type": 1, "version": 1, "event": {"type": "APPLICATION_AUTHORIZED"}}, 204, b"", 1),
        ({"type": 2, "id": "1", "token": "x", "data": {"name": "ping"}}, 202, b"", 1),
        ({"type": True}, 204, b"", 1),
        ([1], 204, b"", 1),
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
    session = Session(options={"kind": "CALL", "header": "x-token", "value": "t0ken"}, catalog=CATALOG)
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
    ("body", "said"),
    [
        (b"a=%E9", "The form is not in UTF-8"),
        (b"a=\xe9", "The form is not in UTF-8"),
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
