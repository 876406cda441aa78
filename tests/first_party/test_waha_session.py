"""The WAHA connector and its session: the webhook, the status, faults of the server, and logouts."""

import hashlib
import hmac
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import (
    ConnectionState,
    IngestRequest,
    InstanceSettings,
    Invalid,
    NetworkRefused,
    NewEvent,
    ProofRefused,
    TooLarge,
    Unavailable,
)
from hookgw.testing import FakeSession
from plugins.waha.connection import CHECK_EVERY
from plugins.waha.connector import Waha, check_proof
from plugins.waha.options import Options, check_defaults, read_options
from plugins.waha.remote_session import State
from plugins.waha.webhook import EVENTS, OLD_EVENTS, RETRIES
from tests.first_party.runs import running
from tests.first_party.waha import ANA, BASE_URL, ME_JID, OPTIONS, Setup, setup
from tests.networks.waha.server import Fault, Session
from tests.public.records import BUILT_IN_KINDS, Catalog

OTHER = {"url": "https://crm.example/hook", "events": ["message"], "hmac": {"key": "theirs"}, "retries": None}


@pytest.fixture
async def it(autojump_clock: MockClock) -> AsyncIterator[Setup]:
    async with setup() as made:
        yield made


async def test_a_code_to_type_comes_beside_the_code_to_scan(it: Setup) -> None:
    it.session.pairing_number = "5511988887777"
    it.waha.faults.append(Fault("POST /api/default/auth/request-code", 422))
    async with it.running():
        await it.session.wait_for("QRCODE_UPDATED")
        it.waha.new_code("default")
        await it.session.wait_for("QRCODE_UPDATED", 2)
        await trio.sleep(200)
        for number in (3, 4):
            it.waha.new_code("default")
            await it.session.wait_for("QRCODE_UPDATED", number)
    # One code to type is shown for some minutes, while the codes to scan change.
    assert [code.pairing_code for code in it.session.qr_codes] == [None, None, "ABCD-7777", "ABCD-7777"]
    assert [path for _, path, _ in it.waha.calls].count("/api/default/auth/request-code") == 2


async def test_a_new_session_is_created_and_connected(it: Setup) -> None:
    async with it.running():
        await it.session.wait_for("QRCODE_UPDATED")
        assert it.session.state is ConnectionState.CONNECTING
        assert it.session.qr_codes[0].code == it.waha.sessions["default"].code
        assert it.session.qr_codes[0].base64.startswith("data:image/png;base64,iVBOR")
        it.waha.new_code("default")
        await it.session.wait_for("QRCODE_UPDATED", 2)
        it.waha.scan("default")
        await it.session.wait_until(ConnectionState.OPEN)
    assert it.session.states[-1][2] == {"wuid": ME_JID, "profileName": "Shop"}
    [webhook] = it.webhooks()
    assert webhook["url"] == it.session.ingest_url
    assert webhook["events"] == list(EVENTS)
    assert webhook["retries"] == RETRIES
    assert webhook["hmac"]["key"] == it.session.stored["hmac_key"]
    it.check_events()


async def test_an_own_key_and_other_webhooks_are_kept(it: Setup) -> None:
    it.session.options["hmac_key"] = "a key of sixteen letters"
    config = {"metadata": {"user": "1"}, "webhooks": [OTHER], "proxy": None}
    it.waha.sessions["default"] = Session("default", "WORKING", config, is_paired=True)
    async with it.running():
        await it.session.wait_until(ConnectionState.OPEN)
    theirs, ours = it.webhooks()
    assert theirs == OTHER
    assert ours["hmac"]["key"] == "a key of sixteen letters"
    assert it.session.stored["hmac_key"] == ""
    assert it.waha.sessions["default"].config["metadata"] == {"user": "1"}


async def test_a_lost_webhook_is_set_again_within_a_minute(it: Setup) -> None:
    async with it.connected():
        puts = len(await it.waha.wait_for_call("PUT", "/sessions/default"))
        await trio.sleep(600)
        # WAHA restarts a session for each change: nothing is changed without need.
        assert len(await it.waha.wait_for_call("PUT", "/sessions/default")) == puts
        it.waha.sessions["default"].config = {"webhooks": [OTHER]}
        with trio.fail_after(60):
            await it.waha.wait_for_call("PUT", "/sessions/default", puts + 1)
        await trio.sleep(10)
        assert [webhook["url"] for webhook in it.webhooks()] == [OTHER["url"], it.session.ingest_url]
        assert it.session.state is ConnectionState.OPEN


async def test_a_webhook_that_is_shown_otherwise_is_not_set_again(it: Setup) -> None:
    async with it.connected():
        it.waha.hidden_keys = True
        await it.waha.wait_for_call("PUT", "/sessions/default", 2)
        await trio.sleep(600)
        assert len(await it.waha.wait_for_call("PUT", "/sessions/default", 2)) == 2
    # Another key is set all the same.
    it.session.options["hmac_key"] = "another key, of the options"
    async with it.running():
        await it.waha.wait_for_call("PUT", "/sessions/default", 3)


async def test_a_webhook_that_is_not_shown_is_set_once(it: Setup) -> None:
    it.waha.hidden_webhooks = True
    async with it.connected():
        await trio.sleep(600)
        assert len(await it.waha.wait_for_call("PUT", "/sessions/default")) == 1
        assert it.webhooks()[0]["url"] == it.session.ingest_url
    async with it.running():
        await it.session.wait_until(ConnectionState.OPEN)
        assert len(await it.waha.wait_for_call("PUT", "/sessions/default")) == 1


async def test_an_updated_server_gets_the_events_that_it_learned(it: Setup) -> None:
    known, it.waha.known_events = it.waha.known_events, OLD_EVENTS
    async with it.connected():
        assert len(it.webhooks()[0]["events"]) == len(OLD_EVENTS)
        restarts = len([1 for status in it.statuses if status == "STARTING"])
    async with it.running():  # still the old one: a refusal restarts nothing
        await it.session.wait_until(ConnectionState.OPEN)
        await trio.sleep(600)
        assert len([1 for status in it.statuses if status == "STARTING"]) == restarts
    it.waha.known_events = known
    async with it.running():
        await it.session.wait_until(ConnectionState.OPEN)
        await trio.sleep(60)
        assert it.webhooks()[0]["events"] == list(EVENTS)
        assert it.session.stored["events"] == []


@pytest.mark.parametrize(
    "fault",
    [
        Fault("GET /api/default/auth/qr", 422),  # scanned in this moment
        Fault("GET /api/default/auth/qr", 200, b"{}"),
        Fault("GET /api/default/auth/qr", 500),
        Fault("POST /api/sessions/default/start", 422),  # older versions: it runs already
        Fault("POST /api/sessions/default/start", 500),
        Fault("POST /api/sessions", 500),
        Fault("PUT /api/sessions/default", 500),
    ],
    ids=lambda fault: f"{fault.path} {fault.status}",
)
async def test_faults_while_it_connects(it: Setup, fault: Fault) -> None:
    fault.times = 3
    it.waha.faults.append(fault)
    async with it.running():
        await it.session.wait_for("QRCODE_UPDATED")
        it.waha.scan("default")
        await it.session.wait_until(ConnectionState.OPEN)
    assert fault.times == 0


async def test_a_failed_session_that_comes_back_by_itself_is_left_alone(it: Setup) -> None:
    async with it.connected():
        start = it.waha.start_session
        it.waha.start_session = lambda session: it.waha.set_status(session, "FAILED")  # type: ignore[method-assign]
        it.waha.set_status(it.waha.sessions["default"], "FAILED")
        await it.waha.wait_for_call("POST", "/restart", 3)
        it.waha.start_session = start  # type: ignore[method-assign]
        it.waha.scan("default")
        await it.session.wait_until(ConnectionState.OPEN)
        await trio.sleep(600)
        assert len(await it.waha.wait_for_call("POST", "/restart")) == 3


async def test_a_passkey_is_asked_for_on_the_dashboard(it: Setup) -> None:
    async with it.connected():
        it.waha.set_status(it.waha.sessions["default"], "PASSKEY_REQUIRED")
        await it.session.wait_until(ConnectionState.CONNECTING)
        await trio.sleep(60)
        it.waha.scan("default")
        await it.session.wait_until(ConnectionState.OPEN)


async def test_an_older_server_gets_the_events_that_it_knows(it: Setup) -> None:
    it.waha.known_events = (*OLD_EVENTS, "message", "state.change", "group.join")
    async with it.connected():
        [webhook] = it.webhooks()
        assert sorted(webhook["events"]) == sorted((*OLD_EVENTS, "group.join"))  # it has no group.v2.join
        puts = len(await it.waha.wait_for_call("PUT", "/sessions/default"))
        await trio.sleep(600)
        assert len(await it.waha.wait_for_call("PUT", "/sessions/default")) == puts


async def test_a_refusal_without_names_gets_the_oldest_events(it: Setup) -> None:
    it.waha.known_events = OLD_EVENTS
    it.waha.faults.append(Fault("PUT /api/sessions", 422, b'{"message": "no"}'))
    async with it.connected():
        assert it.webhooks()[0]["events"] == list(OLD_EVENTS)


async def test_a_webhook_of_an_earlier_url_is_replaced(it: Setup) -> None:
    async with it.connected():
        await it.session.save_state({**it.session.stored, "urls": ["https://old.example/ingest/shop/1"]})
        it.waha.sessions["default"].config["webhooks"] = [
            {"url": "https://old.example/ingest/shop/1", "events": ["message"]},
            OTHER,
        ]
    async with it.running():
        await it.waha.wait_for_call("PUT", "/sessions/default", 2)
        await it.session.wait_until(ConnectionState.OPEN)
    assert [webhook["url"] for webhook in it.webhooks()] == [OTHER["url"], it.session.ingest_url]
    assert it.session.stored["urls"] == [it.session.ingest_url]


async def test_a_stopped_session_is_started_again(it: Setup) -> None:
    async with it.connected():
        it.waha.set_status(it.waha.sessions["default"], "STOPPED")
        await it.session.wait_until(ConnectionState.CLOSE)
        assert it.session.states[-1][1] == 428
        assert "was stopped on the WAHA server" in it.session.states[-1][2]["message"]
        await it.session.wait_until(ConnectionState.OPEN)


async def test_a_restart_by_somebody_else_is_no_outage(it: Setup) -> None:
    async with it.connected():
        reported = len(it.session.states)
        session = it.waha.sessions["default"]
        it.waha.set_status(session, "STOPPED")
        await wait_all_tasks_blocked()
        it.waha.start_session(session)
        await trio.sleep(60)
        assert {state for state, *_ in it.session.states[reported:]} == {ConnectionState.OPEN}


async def test_an_account_that_was_logged_out_shows_a_code_and_then_closes(it: Setup) -> None:
    async with it.connected():
        it.waha.unpair("default")
        await it.session.wait_until(ConnectionState.CLOSE)
        assert it.session.states[-1][1] == 500
        await it.session.wait_for("QRCODE_UPDATED", 2 if it.session.qr_codes else 1)
    async with it.running():  # and after a restart of hookgw
        await it.session.wait_until(ConnectionState.CONNECTING)
        await it.session.wait_for("QRCODE_UPDATED", len(it.session.qr_codes) + 1)
        it.waha.set_status(it.waha.sessions["default"], "FAILED")  # after six codes, WAHA gives up
        await it.session.wait_until(ConnectionState.CLOSE)
        assert it.session.states[-1][1] == 401
        assert "nobody scanned" in it.session.states[-1][2]["message"]
        # The code is scanned on WAHA's dashboard.
        codes = len(it.session.qr_codes)
        await trio.sleep(600)
        assert len(it.session.qr_codes) == codes
        it.waha.scan("default")
        await it.session.wait_until(ConnectionState.OPEN)


async def test_a_session_that_fails_for_good_is_restarted_with_growing_waits(it: Setup) -> None:
    async with it.connected():
        it.waha.start_session = lambda session: it.waha.set_status(session, "FAILED")  # type: ignore[method-assign]
        it.waha.set_status(it.waha.sessions["default"], "FAILED")
        await trio.sleep(600)
        restarts = [path for _, path, _ in it.waha.calls if path.endswith("/restart")]
        assert 5 < len(restarts) < 25
        assert it.session.state is ConnectionState.CLOSE


async def test_a_wrong_api_key_closes_and_a_right_one_opens(it: Setup) -> None:
    it.waha._api_key = "another"
    async with it.running():
        await it.session.wait_until(ConnectionState.CLOSE)
        assert it.session.states[-1][1:] == (
            403,
            {"message": "The WAHA server does not accept the option api_key."},
        )
        it.waha._api_key = "waha-key"
        await it.pair()


@pytest.mark.parametrize(
    "fault",
    [
        Fault("GET /api/sessions", 500, b'{"exception": {"message": "oops"}}'),
        Fault("GET /api/sessions", 200, b'{"name": "defa'),
        Fault("GET /api/sessions", 200, b"<html>"),
        Fault("GET /api/sessions", 200, b"[]"),
        Fault("GET /api/sessions", 200, b'{"status": "WORKING", "config": []}'),
        Fault("GET /api/sessions", 200, b'{"status": "WORKING", "config": {"webhooks": {}}}'),
        Fault("GET /api/sessions", 302, b"", {"location": "https://elsewhere.example/"}),
        Fault("GET /api/sessions", 429, b"{}", {"retry-after": "30"}),
    ],
    ids=lambda fault: f"{fault.status} {fault.body.decode()[:20]}",
)
async def test_after_faults_it_continues(it: Setup, fault: Fault) -> None:
    it.waha.sessions["default"] = Session("default", "WORKING", {"webhooks": [OTHER]}, is_paired=True)
    async with it.running():
        await it.session.wait_until(ConnectionState.OPEN)
        fault.times = 2  # the server is back before the connection counts as closed
        it.waha.faults.append(fault)
        it.waha.report("default", "session.status", {})
        await trio.sleep(100)
        if fault.status != 302:  # which will not pass by itself
            assert ConnectionState.CLOSE not in [state for state, *_ in it.session.states]
        fault.times = 5
        await it.session.wait_until(ConnectionState.CLOSE)
        await it.session.wait_until(ConnectionState.OPEN)
    # Whatever the server said, no other webhook was lost.
    assert [webhook["url"] for webhook in it.webhooks()] == [OTHER["url"], it.session.ingest_url]


async def test_a_server_that_asks_for_a_wait_is_left_alone(it: Setup) -> None:
    async with it.connected():
        it.waha.faults.append(Fault("GET /api/sessions", 429, b"{}", {"retry-after": "200"}))
        await trio.sleep(50)
        asked = len(it.waha.calls)
        await trio.sleep(150)
        assert len(it.waha.calls) == asked


async def test_requests_do_not_wear_out_the_patience_with_a_failing_server(it: Setup) -> None:
    async with it.connected():
        it.waha.faults.append(Fault("GET /api/sessions", 503, times=2))
        before = len(it.session.states)
        await trio.sleep(CHECK_EVERY)  # until the next look, which fails
        for _ in range(40):
            it.waha.receive("default", ANA, "hi")
            await trio.sleep(0.1)
        await it.waha.all_delivered()
        assert not it.waha.faults[-1].times
        assert {state for state, *_ in it.session.states[before:]} <= {ConnectionState.OPEN}


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("too slow"),
        httpx.RemoteProtocolError("the answer was cut off"),
    ],
    ids=str,
)
async def test_a_server_that_cannot_be_reached_is_tried_again(
    autojump_clock: MockClock, error: httpx.HTTPError
) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise error

    connector = Waha()
    async with (
        httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as http,
        trio.open_nursery() as nursery,
    ):
        session = FakeSession(options=OPTIONS, http=http)
        nursery.start_soon(connector.run, session)
        await session.wait_until(ConnectionState.CLOSE)
        assert session.states[-1][1] == 408
        assert session.states[-1][2]["message"] == f"The WAHA server cannot be reached: {error}"
        await trio.sleep(600)
        assert 10 < len(session.states) < 20
        nursery.cancel_scope.cancel()


async def test_logout_and_remove(it: Setup) -> None:
    it.waha.sessions["default"] = Session("default", "STOPPED", {"webhooks": [OTHER]}, is_paired=True)
    async with it.connected():
        await it.connector.remove(it.session)
        await trio.sleep(120)
        assert it.webhooks() == [OTHER]
        assert it.waha.sessions["default"].is_paired
    async with it.connected():
        assert len(it.webhooks()) == 2
        await it.connector.logout(it.session)
        await trio.sleep(1)
        assert it.webhooks() == [OTHER]
        assert it.waha.sessions["default"].status == "STOPPED"
        assert not it.waha.sessions["default"].is_paired
        del it.waha.sessions["default"]
        await it.connector.remove(it.session)  # nothing is left to be removed
    with pytest.raises(NetworkRefused, match="not connected"):
        await it.connector.remove(it.session)


async def test_restart(it: Setup) -> None:
    async with it.connected():
        await it.connector.restart(it.session)
        await it.session.wait_until(ConnectionState.OPEN)
        assert ("POST", "/api/sessions/default/restart", {}) in it.waha.calls


async def test_settings(it: Setup) -> None:
    async with it.connected():
        settings = InstanceSettings(
            always_online=True,
            read_messages=True,
            read_status=True,
            reject_call=True,
            msg_call="Write, please.",
        )
        await it.connector.settings(it.session, settings)
        assert await it.waha.wait_for_call("POST", "/presence") == [{"presence": "online"}]
        payload = it.waha.receive("default", ANA, "hi")
        [seen] = await it.waha.wait_for_call("POST", "/sendSeen")
        assert seen == {"session": "default", "chatId": ANA, "messageIds": [payload["id"]]}
        it.waha.receive("default", "status@broadcast", "story", participant=ANA)
        seen = (await it.waha.wait_for_call("POST", "/sendSeen", 2))[1]
        assert (seen["chatId"], seen["participant"]) == ("status@broadcast", ANA)
        it.waha.report("default", "call.received", {"id": "C", "from": ANA, "timestamp": 1})
        assert await it.waha.wait_for_call("POST", "/calls/reject") == [{"from": ANA, "id": "C"}]
        [words] = await it.waha.wait_for_call("POST", "/sendText")
        assert words["text"] == "Write, please."
        it.waha.faults.append(Fault("POST /api/default/presence", 500))
        await it.connector.settings(it.session, InstanceSettings(groups_ignore=True))
        await it.waha.wait_for_call("POST", "/presence", 2)  # refused, which is only logged
        before = len(it.session.events)
        it.waha.receive("default", "1203@g.us", "hi", participant=ANA)
        await it.waha.all_delivered()
        assert len(it.session.events) == before
    it.session.settings = InstanceSettings(always_online=True)
    async with it.running():
        await it.waha.wait_for_call("POST", "/presence", 3)
    await it.connector.settings(it.session, InstanceSettings())  # not connected: the next run has them


async def test_options_that_cannot_work_are_refused() -> None:
    connector = Waha()
    await connector.check_options(OPTIONS, public_url="https://hookgw.example")
    with pytest.raises(Invalid, match=r"server\.public_url"):
        await connector.check_options(OPTIONS, public_url=None)
    with pytest.raises(Invalid, match=r"base_url.*in the request.*plugins\.options\.waha"):
        await connector.check_options({"api_key": "x"}, public_url="https://hookgw.example")
    for url in ("https://", "https://waha.example?x=1", "https://a:b@waha.example", "https://[", "ftp://a"):
        with pytest.raises(Invalid, match="base_url"):
            await connector.check_options({"base_url": url}, public_url="https://hookgw.example")
    with pytest.raises(Invalid, match="session"):
        await connector.check_options({**OPTIONS, "session": 1}, public_url="https://hookgw.example")
    connector.set_defaults({"base_url": BASE_URL, "api_key": "secret"})
    await connector.check_options({}, public_url="https://hookgw.example")
    properties = connector.options_schema["properties"]
    assert properties["base_url"]["default"] == BASE_URL
    assert "default" not in properties["api_key"]
    assert "waha-key" not in repr(Options(**OPTIONS))
    # The operator's keys are for the operator's server, and its sessions for the operator to assign.
    defaults = {"base_url": BASE_URL, "api_key": "secret", "hmac_key": "k" * 16}
    assert read_options({}, defaults, "https://hookgw.example").api_key == "secret"
    elsewhere = read_options({"base_url": "https://tenant.example"}, defaults, "https://hookgw.example")
    assert (elsewhere.api_key, elsewhere.hmac_key) == ("", "")
    assert read_options({"base_url": f"{BASE_URL}/"}, defaults, "https://hookgw.example").api_key == "secret"
    assert {name for name, described in properties.items() if described.get("x-operator")} == {
        "base_url",
        "session",
    }
    assert "planted" not in repr(State(hmac_key="planted"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"api_key": "x"}, "api_key needs base_url"),
        ({"base": "x"}, "no option base"),
        ({"base_url": 1}, "must be a text"),
        ({"link_previews": "no"}, "link_previews must be true or false"),
        ({"base_url": "x"}, "base_url"),
    ],
)
def test_wrong_defaults_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_defaults(options)


async def test_an_instance_without_what_it_needs_says_so() -> None:
    session = FakeSession(options={"session": "default"})
    async with running(Waha(), session):
        await session.wait_until(ConnectionState.CLOSE)
    assert session.states[-1][:2] == (ConnectionState.CLOSE, 400)
    assert "Set base_url" in session.states[-1][2]["message"]

    class WithoutUrl(FakeSession):
        @property
        def ingest_url(self) -> str | None:
            return "/ingest/shop/1"

    session = WithoutUrl(options=OPTIONS)
    async with running(Waha(), session):
        await session.wait_until(ConnectionState.CLOSE)
    assert "server.public_url" in session.states[-1][2]["message"]


async def test_a_state_of_another_version_is_no_failure(it: Setup) -> None:
    await it.session.save_state({"urls": 1})
    async with it.connected():
        assert it.session.stored["urls"] == [it.session.ingest_url]


def test_the_proof_is_that_of_the_documentation() -> None:
    # The example in https://waha.devlike.pro/docs/how-to/events/#hmac-authentication.
    proof = (
        "208f8a55dde9e05519e898b10b89bf0d0b3b0fdf11fdbf09b6b90476301b98d8"
        "097c462b2b17a6ce93b6b47a136cf2e78a33a63f6752c2c1631777076153fa89"
    )
    body = b'{"event":"message","session":"default","engine":"WEBJS"}'

    def request(body: bytes, **headers: str) -> IngestRequest:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return IngestRequest(method="POST", query={}, headers=named, body=body)

    check_proof(request(body, x_webhook_hmac=proof, x_webhook_hmac_algorithm="sha512"), b"my-secret-key")
    for wrong in (
        request(body),
        request(body + b" ", x_webhook_hmac=proof),
        request(body, x_webhook_hmac=proof, x_webhook_hmac_algorithm="sha256"),
        request(body, x_webhook_hmac="é\ud800"),
    ):
        with pytest.raises(ProofRefused):
            check_proof(wrong, b"my-secret-key")


async def test_an_event_without_room_for_ever_is_not_repeated(it: Setup) -> None:
    async def refuse(events: Sequence[NewEvent], **more: Any) -> None:
        raise TooLarge("This request exceeds limits.registration_bytes on its own.")

    async with it.connected():
        it.session.emit_all = refuse  # type: ignore[method-assign]
        it.waha.receive("default", ANA, "hi")
        await it.waha.all_delivered()
    assert it.answers[-1] == 200


async def test_requests_are_refused_without_a_connection_or_proof(it: Setup) -> None:
    request = IngestRequest(method="POST", query={}, headers={}, body=b"{}")
    with pytest.raises(Unavailable):
        await it.connector.ingest(it.session, request)
    async with it.connected():
        with pytest.raises(ProofRefused):
            await it.connector.ingest(it.session, request)
        it.waha.sign_wrongly = True
        it.waha.receive("default", ANA, "hi")
        await trio.sleep(1)
        assert it.answers[-1] == 401
        assert not it.session.data_of("MESSAGES_UPSERT")
    with pytest.raises(NetworkRefused):
        await it.connector.open_media(it.session, "x", None)  # type: ignore[arg-type]


async def passed_on(it: Setup, *bodies: bytes) -> list[bytes | None]:
    """Report something, and return the NETWORK_EVENTs for it."""
    for body in bodies:
        proof = hmac.new(it.session.stored["hmac_key"].encode(), body, hashlib.sha512).hexdigest()
        assert await it.post(str(it.session.ingest_url), {"x-webhook-hmac": proof}, body) == 200
    return [event.data_json for event in it.session.events if event.kind == "NETWORK_EVENT"]


@pytest.mark.parametrize("name", [b"new.event", b"message.any", b"poll.vote.failed"])
async def test_a_report_without_a_kind_is_passed_on_byte_for_byte(
    it: Setup, autojump_clock: MockClock, name: bytes
) -> None:
    body = b'{"id":"evt_9","event":"%b","session":"default","payload":{"b": 1.0,"a":1}}' % name
    async with it.connected():
        found = await passed_on(it, body, body)
    assert found == [b'{"network":"waha","name":"%b","value":{"b": 1.0,"a":1}}' % name]


async def test_a_report_whose_kind_is_switched_off_is_passed_on(it: Setup, autojump_clock: MockClock) -> None:
    it.session.catalog = Catalog(BUILT_IN_KINDS)
    payload = b'{"id":"1@c.us", "archived":true}'
    body = b'{"id":"e","event":"chat.archive","session":"default","payload":%b}' % payload
    async with it.connected():
        found = await passed_on(it, body)
    assert found == [b'{"network":"waha","name":"chat.archive","value":%b}' % payload]


async def test_reports_about_groups_can_be_ignored_without_a_kind_too(
    it: Setup, autojump_clock: MockClock
) -> None:
    it.session.settings = InstanceSettings(groups_ignore=True)
    body = b'{"id":"e","event":"poll.vote.failed","session":"default","payload":{"vote":{"to":"%b"}}}'
    async with it.connected():
        found = await passed_on(it, body % b"1-2@g.us", body % b"1@c.us")
    assert found == [b'{"network":"waha","name":"poll.vote.failed","value":{"vote":{"to":"1@c.us"}}}']
