"""What the state of an instance on WAHA says when the session, its account or the server is not as before."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from hookgw import ConnectionState, IngestRequest, NetworkRefused, ProofRefused, TextMessage
from tests.first_party.waha import ANA, ME_JID, Setup, setup
from tests.networks.waha.server import Fault, Session

pytestmark = pytest.mark.usefixtures("autojump_clock")


@pytest.fixture
async def it() -> AsyncIterator[Setup]:
    async with setup() as made:
        yield made


def closed_with(it: Setup) -> list[tuple[int, str]]:
    """Return the reasons of the closed states, each as often as it is new."""
    found: list[tuple[int, str]] = []
    for state, reason, more in it.session.states:
        if state is ConnectionState.CLOSE and (not found or found[-1] != (reason, more["message"])):
            found.append((reason, more["message"]))
    return found


def restarts(it: Setup) -> int:
    return len([1 for method, path, _ in it.waha.calls if (method, path[-8:]) == ("POST", "/restart")])


async def test_an_unlinked_account_is_not_restarted_for_ever(it: Setup) -> None:
    it.waha.keeps_login = True
    async with it.connected():
        it.waha.unpair("default")
        await trio.sleep(600)
        assert restarts(it) == 6
        assert [reason for reason, _ in closed_with(it)] == [500, 401]
        assert "unlinked on the phone. Connect the instance again" in closed_with(it)[-1][1]
        assert it.session.state is ConnectionState.CLOSE
        assert not any(path.endswith("/logout") for _, path, _ in it.waha.calls)
    # "connect" begins another run.
    async with it.running():
        await it.session.wait_for("QRCODE_UPDATED")
        assert len([1 for _, path, _ in it.waha.calls if path.endswith("/logout")]) == 1
        # The caller waits for the code: a reason to give up must not come first.
        assert [state for state, *_ in it.session.states[-3:]].count(ConnectionState.CLOSE) <= 1
        it.waha.scan("default")
        await it.session.wait_until(ConnectionState.OPEN)
    assert it.session.stored["unlinked"] is False


async def test_a_session_that_recovers_meanwhile_is_not_logged_out(it: Setup) -> None:
    it.waha.keeps_login = True
    async with it.connected():
        it.waha.unpair("default")
        await trio.sleep(600)
        assert it.session.stored["unlinked"] is True
    it.waha.sessions["default"].is_paired = True  # it failed for another reason, such as its database
    async with it.running():
        await it.session.wait_until(ConnectionState.OPEN)
    assert not any(path.endswith("/logout") for _, path, _ in it.waha.calls)
    assert it.session.stored["unlinked"] is False


async def test_other_engines_are_never_logged_out() -> None:
    async with setup(engine="WEBJS") as it:
        it.waha.keeps_login = True
        for _ in range(2):
            async with it.running():
                it.waha.sessions.setdefault("default", Session("default", "FAILED", was_unpaired=True))
                await trio.sleep(600)
        assert restarts(it) > 12
        assert not any(path.endswith("/logout") for _, path, _ in it.waha.calls)


@pytest.mark.parametrize("shows_version", [True, False])
async def test_a_server_that_signs_nothing_is_named(it: Setup, shows_version: bool) -> None:
    it.waha.version, it.waha.shows_version = "2024.10.8", shows_version
    it.waha.sessions["default"] = Session("default", "WORKING", is_paired=True)
    async with it.running():
        await it.session.wait_until(ConnectionState.CLOSE)
        [(reason, words)] = closed_with(it)
        assert reason == 501
        assert words.startswith("WAHA does not sign its requests")
        assert "since 2024.11.5" in words
        assert ("2024.10.8" in words) == shows_version
        # After an update, nobody has to do anything.
        it.waha.version = "2024.11.5"
        it.waha.sessions["default"].config.clear()
        it.waha.shows_version = True
        with trio.fail_after(60):
            await it.session.wait_until(ConnectionState.OPEN)
        await it.waha.all_delivered()
        it.waha.receive("default", ANA, "hi")
        await it.session.wait_for("MESSAGES_UPSERT")


async def test_one_request_without_a_proof_closes_nothing(it: Setup) -> None:
    request = IngestRequest(method="POST", query={}, headers={}, body=b"{}")
    it.waha.shows_version = False
    async with it.connected():
        with pytest.raises(ProofRefused, match="WAHA does not sign its requests"):
            await it.connector.ingest(it.session, request)
        await trio.sleep(100)
        assert closed_with(it) == []


async def test_a_session_that_was_deleted_is_made_again_and_says_so(it: Setup) -> None:
    async with it.connected():
        del it.waha.sessions["default"]
        await it.session.wait_for("QRCODE_UPDATED", len(it.session.qr_codes) + 1)
        [(reason, words)] = closed_with(it)
        assert (reason, it.session.state) == (401, ConnectionState.CONNECTING)
        assert "was deleted on the WAHA server" in words
        await it.pair()
        assert it.webhooks()[0]["url"] == it.session.ingest_url


@pytest.mark.parametrize("hidden", [False, True])
async def test_a_session_that_was_deleted_and_made_again_is_noticed(it: Setup, hidden: bool) -> None:
    it.waha.hidden_webhooks = hidden
    async with it.connected():
        it.waha.sessions["default"] = Session("default", "SCAN_QR_CODE", code="2@new")
        await it.session.wait_for("QRCODE_UPDATED", len(it.session.qr_codes) + 1)
        [(reason, words)] = closed_with(it)
        assert (reason, it.session.state) == (401, ConnectionState.CONNECTING)
        assert "deleted and made again" in words
        await trio.sleep(60)
        assert it.webhooks()[0]["url"] == it.session.ingest_url
        await it.pair()


async def test_another_account_in_the_session_is_noticed(it: Setup) -> None:
    async with it.connected():
        assert it.session.states[-1][2]["wuid"] == ME_JID
        it.waha.me = "5511966665555@c.us"
        await trio.sleep(60)
        [(reason, words)] = closed_with(it)
        assert reason == 401
        assert "another account" in words
        assert it.session.state is ConnectionState.OPEN
        assert it.session.states[-1][2]["wuid"] == "5511966665555@s.whatsapp.net"


async def test_each_reason_of_a_closed_connection_is_reported(it: Setup) -> None:
    it.waha._engine = "GOWS"
    async with it.connected():
        it.waha.faults.append(Fault("GET /api/sessions", 500, times=6))
        it.waha.start_session = lambda session: it.waha.set_status(session, "FAILED")  # type: ignore[method-assign]
        it.waha.set_status(it.waha.sessions["default"], "FAILED")
        await trio.sleep(300)
        assert [reason for reason, _ in closed_with(it)] == [408, 500]
        assert it.session.state is ConnectionState.CLOSE


@pytest.mark.parametrize(
    ("status", "words", "shown", "named"),
    [
        (501, "The method is not implemented by the engine.", 501, "engine NOWEB"),
        (501, "The method is not implemented by 'NOWEB' engine.", 501, "'NOWEB'"),
        (422, "The method is not implemented by the engine.", 422, "engine NOWEB"),
        (422, "Sending files is available only in Plus version.", 422, "edition CORE"),
        (422, "No such chat.", 422, "No such chat."),
        (500, "oops", 502, "oops"),
        (503, "busy", 502, "busy"),
    ],
)
async def test_refusals_name_the_engine_or_the_edition(
    it: Setup, status: int, words: str, shown: int, named: str
) -> None:
    body = f'{{"message": "{words}", "statusCode": {status}}}'.encode()
    async with it.connected():
        it.waha.faults.append(Fault("POST /api/sendText", status, body))
        message: Any = TextMessage(number=ANA, text="hi")
        with pytest.raises(NetworkRefused) as refused:
            await it.connector.send(it.session, message, key="k")
    assert refused.value.status == shown
    assert words in str(refused.value)
    assert named in str(refused.value)
    assert str(refused.value).count("NOWEB") <= 1
