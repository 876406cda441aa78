"""The GOWA connector and its device: the webhook, the state, the code, faults of the server, and logouts."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio

from hookgw import (
    ConnectionState,
    IngestRequest,
    InstanceSettings,
    Invalid,
    NetworkRefused,
    ProofRefused,
    Unavailable,
)
from hookgw.testing import FakeSession
from plugins.gowa.connection import MOST_CODES, State
from plugins.gowa.connector import Gowa
from plugins.gowa.options import Options, check_defaults, read_options
from tests.first_party.gowa import ANA, BASE_URL, GROUP, OPTIONS, Setup, setup
from tests.first_party.runs import running
from tests.networks.gowa.server import Device, Fault

pytestmark = pytest.mark.usefixtures("autojump_clock")

ME = "5511999999999@s.whatsapp.net"


@pytest.fixture
async def it() -> AsyncIterator[Setup]:
    async with setup() as made:
        yield made


async def test_a_new_device_is_made_scanned_and_open(it: Setup) -> None:
    async with it.running():
        await it.session.wait_for("QRCODE_UPDATED")
        assert it.session.state is ConnectionState.CONNECTING
        code = it.session.qr_codes[0]
        # Read from the picture: the link leads to a host that only GOWA's caller knows.
        assert code.code == it.gowa.devices["shop"].code
        assert code.base64.startswith("data:image/png;base64,iVBOR")
        it.gowa.scan("shop")
        await it.session.wait_until(ConnectionState.OPEN)
    assert it.session.states[-1][2] == {"wuid": ME, "profileName": "Shop"}
    device = it.gowa.devices["shop"]
    assert device.url == it.session.ingest_url
    assert device.secret == it.session.stored["secret"]
    assert len(device.secret) >= 32
    it.check_events()


async def test_a_number_brings_a_code_to_type(it: Setup) -> None:
    it.session.pairing_number = "5511999999999"
    async with it.running():
        await it.session.wait_until(ConnectionState.CONNECTING)
        await trio.sleep(120)  # another QR code would end the code to type
        [code] = it.session.qr_codes
        assert code.pairing_code == it.gowa.devices["shop"].pair_code != ""
        await trio.sleep(60)
        assert len(it.session.qr_codes) == 2
        assert it.session.qr_codes[1].pairing_code == it.gowa.devices["shop"].pair_code
    assert ("POST", "/devices/shop/login/code", {"phone": "5511999999999"}) in it.gowa.calls


async def test_a_code_to_scan_alone_if_there_is_none_to_type(it: Setup) -> None:
    it.session.options = {**it.session.options, "number": "+55 11 99999-9999"}
    it.gowa.faults.append(Fault("/login/code", 500, b'{"code": "INTERNAL_SERVER_ERROR", "message": "no"}'))
    async with it.running():
        await trio.sleep(10)
        [code] = it.session.qr_codes
    assert (code.pairing_code, bool(code.code)) == (None, True)


async def test_a_code_is_renewed_until_nobody_scans(it: Setup) -> None:
    async with it.running():
        await it.session.wait_for("QRCODE_UPDATED", MOST_CODES)
        await it.session.wait_until(ConnectionState.CLOSE)
        assert it.session.states[-1][1] == 401
        codes = [code.code for code in it.session.qr_codes]
        assert len(set(codes)) == MOST_CODES
        await trio.sleep(600)
        assert len(it.session.qr_codes) == MOST_CODES
    # "connect" is another run, with other codes.
    async with it.running():
        await it.session.wait_for("QRCODE_UPDATED", MOST_CODES + 1)


async def test_the_webhook_is_set_again_and_changed_only_if_it_must(it: Setup) -> None:
    async with it.connected():
        await trio.sleep(600)
        assert [path for method, path, _ in it.gowa.calls if method == "PATCH"] == []
        device = it.gowa.devices["shop"]
        device.url, device.secret = "https://crm.example/hook", "theirs"
        await trio.sleep(31)
        assert (device.url, device.secret) == (it.session.ingest_url, it.session.stored["secret"])
        assert it.session.state is ConnectionState.OPEN


async def test_the_secret_survives_a_restart(it: Setup) -> None:
    async with it.connected():
        secret = it.gowa.devices["shop"].secret
    async with it.running():
        await it.session.wait_until(ConnectionState.OPEN)
        assert it.gowa.devices["shop"].secret == secret
        assert len(await it.events_of("message", {"id": "A", "chat_id": ANA, "body": "hi"})) == 1


async def test_only_what_the_devices_secret_signs_is_taken(it: Setup) -> None:
    async with it.connected():
        it.gowa.sign_wrongly = True
        assert await it.events_of("message", {"id": "A", "chat_id": ANA, "body": "hi"}) == []
        assert set(it.answers) == {401}
        for headers in ({}, {"x-hub-signature-256": "sha256="}, {"x-hub-signature-256": "sha256=é"}):
            request = IngestRequest(method="POST", query={}, headers=headers, body=b"{}")
            with pytest.raises(ProofRefused):
                await it.connector.ingest(it.session, request)
    with pytest.raises(Unavailable):
        await it.connector.ingest(it.session, request)


async def test_another_device_and_odd_bodies(it: Setup) -> None:
    async with it.connected():
        payload = {"id": "A", "chat_id": ANA, "body": "hi"}
        assert await it.events_of("message", payload, session_id="another") == []
        news = {"network": "gowa", "name": "some.news", "value": {}}
        assert await it.events_of("some.news", {}) == [("NETWORK_EVENT", news)]
        assert set(it.answers) == {200}
        # A repeated report is one event.
        for _ in range(2):
            await it.events_of("message", payload)
        assert len(it.session.data_of("MESSAGES_UPSERT")) == 1


async def test_a_logout_on_the_phone_is_noticed_and_waits_for_connect(it: Setup) -> None:
    async with it.connected():
        it.gowa.log_out("shop")
        await it.session.wait_until(ConnectionState.CLOSE)
        assert it.session.states[-1][1] == 401
        await trio.sleep(600)
        assert len(it.session.qr_codes) == 1
    async with it.running():
        await it.session.wait_for("QRCODE_UPDATED", 2)


async def test_a_lost_connection_comes_back(it: Setup) -> None:
    async with it.connected():
        it.gowa.devices["shop"].is_connected = False
        await it.session.wait_until(ConnectionState.CLOSE)
        assert it.session.states[-1][1] == 428
        await it.session.wait_until(ConnectionState.OPEN)
    # A run that begins while the account is not connected waits for it.
    it.gowa.devices["shop"].is_connected = False
    async with it.running():
        await it.session.wait_until(ConnectionState.OPEN)
        assert len(it.session.qr_codes) == 1


async def test_a_device_that_was_removed_is_made_again(it: Setup) -> None:
    async with it.connected():
        del it.gowa.devices["shop"]
        await it.session.wait_until(ConnectionState.CLOSE)
        assert it.session.states[-1][1] == 401
        assert it.gowa.devices["shop"].url == it.session.ingest_url


@pytest.mark.parametrize(
    ("fault", "reason", "words"),
    [
        (Fault("GET /devices", 401, b"Unauthorized", 9**9), 403, "user and password"),
        (Fault("GET /devices", 404, b"Cannot GET", 9**9), 408, "update it to version 9"),
        (Fault("GET /devices", 302, b"", 9**9), 408, "redirects"),
        (Fault("GET /devices", 200, b"<html>", 9**9), 408, "with JSON"),
        (Fault("GET /devices", 500, b'{"message": "disk full"}', 9**9), 408, "GOWA: disk full"),
        (
            Fault("/login", 401, b'{"code": "AUTHENTICATION_ERROR", "message": "reconnect error"}', 9**9),
            408,
            "cannot connect to WhatsApp",
        ),
    ],
)
async def test_a_server_that_refuses_is_named(it: Setup, fault: Fault, reason: int, words: str) -> None:
    it.gowa.faults.append(fault)
    async with it.running():
        await it.session.wait_until(ConnectionState.CLOSE)
        state = it.session.states[-1]
        assert state[1] == reason
        assert words in state[2]["message"]
        it.gowa.faults.clear()
        await it.session.wait_for("QRCODE_UPDATED")


async def test_a_moment_without_the_server_is_no_close(it: Setup) -> None:
    async with it.connected():
        it.gowa.faults.append(Fault("/devices", 503, b"", 2))
        await trio.sleep(300)
        assert it.session.state is ConnectionState.OPEN
        assert it.gowa.faults == []


async def test_a_picture_that_cannot_be_read_is_said(it: Setup) -> None:
    it.gowa.faults.append(Fault("GET /statics", 200, b"no picture"))
    async with it.running():
        await it.session.wait_until(ConnectionState.CLOSE)
        assert "no QR code that can be read" in it.session.states[-1][2]["message"]
        await it.session.wait_for("QRCODE_UPDATED")


async def test_a_login_that_came_between_is_no_fault(it: Setup) -> None:
    it.gowa.faults.append(Fault("/login", 500, b'{"code": "SESSION_SAVED_ERROR", "message": "saved"}'))
    async with it.running():
        await it.session.wait_for("QRCODE_UPDATED")
        assert ConnectionState.CLOSE not in [state for state, _, _ in it.session.states]


async def test_logout_removal_and_restart(it: Setup) -> None:
    async with it.connected():
        await it.connector.restart(it.session)
        assert it.gowa.calls[-1][:2] == ("POST", "/devices/shop/reconnect")
        await it.connector.remove(it.session)
        assert it.gowa.devices["shop"].url == ""
        assert it.gowa.devices["shop"].jid
        await trio.sleep(100)
        assert it.gowa.devices["shop"].url == ""
    async with it.running():
        await it.session.wait_until(ConnectionState.OPEN)
        await it.connector.logout(it.session)
        assert it.gowa.devices["shop"].jid == it.gowa.devices["shop"].url == ""
    with pytest.raises(NetworkRefused):
        await it.connector.restart(it.session)


async def test_a_restart_without_a_login_is_no_error(it: Setup) -> None:
    async with it.running():
        await it.session.wait_for("QRCODE_UPDATED")
        await it.connector.restart(it.session)


async def test_settings_of_the_account(it: Setup) -> None:
    async with it.connected():
        settings = InstanceSettings(
            groups_ignore=True, read_messages=True, reject_call=True, msg_call="Later", always_online=True
        )
        await it.connector.settings(it.session, settings)
        assert await it.events_of("message", {"id": "A", "chat_id": GROUP, "from": ANA, "body": "hi"}) == []
        assert await it.events_of("some.news", {"chat_id": GROUP}) == []
        await it.events_of("message", {"id": "B", "chat_id": ANA, "from": ANA, "body": "hi"})
        await it.events_of("message", {"id": "D", "chat_id": "status@broadcast", "from": ANA, "body": "hi"})
        await it.events_of("call.offer", {"call_id": "C", "from": ANA, "auto_rejected": False})
        await trio.sleep(1)
        calls = {path: body for method, path, body in it.gowa.calls if method == "POST"}
        assert calls["/send/presence"] == {"type": "available"}
        assert calls["/message/B/read"] == {"phone": ANA}
        # Its author would be told, though readStatus is off.
        assert "/message/D/read" not in calls
        assert calls["/call/reject"] == {"caller_jid": ANA, "call_id": "C"}
        assert calls["/send/message"] == {"phone": ANA, "message": "Later"}
        for always_online in (True, False):  # the first changes nothing
            before = len(it.gowa.calls)
            await it.connector.settings(it.session, InstanceSettings(always_online=always_online))
            await trio.sleep(1)
            sent = [body for _, path, body in it.gowa.calls[before:] if path == "/send/presence"]
            assert sent == ([] if always_online else [{"type": "unavailable"}])


async def test_a_device_may_have_another_name() -> None:
    async with setup(options={**OPTIONS, "device": "org_2"}) as it:
        it.gowa.devices["org_2"] = Device("org_2", jid=ME, is_connected=True)
        async with it.running():
            await it.session.wait_until(ConnectionState.OPEN)
        assert it.gowa.devices["org_2"].url == it.session.ingest_url


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "Set base_url"),
        ({"base_url": "ftp://x"}, "use the URL"),
        ({"base_url": "http://u:p@x"}, "without a user, a password"),
        ({"base_url": "http://x/?a"}, "use the URL"),
        ({"base_url": BASE_URL, "user": 5}, "not valid"),
        ({"base_url": BASE_URL, "user": "a:b"}, "no colon"),
        ({"base_url": BASE_URL, "password": "a\nb"}, "printable"),
    ],
)
async def test_options_that_cannot_work_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        await Gowa().check_options(options, public_url="https://hookgw.example")
    session = FakeSession(options=options)
    async with running(Gowa(), session):
        await session.wait_until(ConnectionState.CLOSE)
    assert session.states[-1][:2] == (ConnectionState.CLOSE, 400)


async def test_without_a_public_url_it_is_refused() -> None:
    with pytest.raises(Invalid, match=r"server\.public_url"):
        await Gowa().check_options(OPTIONS, public_url=None)


def test_the_operators_password_is_for_the_operators_server() -> None:
    defaults = {"base_url": BASE_URL, "user": "u", "password": "p"}
    assert read_options({}, defaults, "https://hookgw.example").password == "p"
    assert (
        read_options({"base_url": "https://other.example"}, defaults, "https://hookgw.example").password == ""
    )
    assert read_options({"base_url": f"{BASE_URL}/"}, defaults, "https://hookgw.example").password == "p"
    for options in ({"pasword": "p"}, {"base_url": 5}, {"password": "p"}, {"base_url": "x"}):
        with pytest.raises(ValueError, match=r"gowa|text|beside|URL"):
            check_defaults(options)
    assert "hidden" not in repr(Options(base_url=BASE_URL, password="hidden")) + repr(State(secret="hidden"))


async def test_the_server_does_not_repeat_the_password_to_anybody(it: Setup) -> None:
    async with it.connected():
        words = f"gowa-password {it.session.stored['secret']}"
        it.gowa.faults.append(Fault("/user/check", 400, b'{"code": "X", "message": "%s"}' % words.encode()))
        with pytest.raises(NetworkRefused) as refused:
            await it.connector.find_numbers(it.session, ["5511988887777"])
        assert str(refused.value) == "GOWA: ******** ********"


async def test_the_password_goes_to_no_other_host(it: Setup) -> None:
    hosts = set()

    async def note(request: httpx.Request) -> None:
        hosts.add(request.url.host)

    it.session.http.event_hooks["request"].append(note)
    async with it.connected():
        pass
    assert hosts == {"gowa.example"}
