"""The connector in front of an Evolution API: the webhook that it keeps, the state, faults, options."""

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import httpx
import pytest
import trio
from structlog.testing import capture_logs

from hookgw import ConnectionState, InstanceSettings, Invalid, TextMessage
from hookgw.testing import FakeSession
from plugins.evolution.connection import CHECK_INTERVAL
from plugins.evolution.connector import Evolution as Connector
from plugins.evolution.options import Defaults, read_options
from plugins.evolution.webhook import EVENTS, PROOF
from tests.first_party.evolution import (
    FORMER,
    OPTIONS,
    Take,
    Transport,
    connected,
    transport_of,
)
from tests.first_party.runs import post
from tests.networks.evolution import KEY, WUID, Evolution

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def test_it_sets_the_webhook_and_takes_the_events(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    async with connected(connector, session):
        [webhook] = evolution.calls_of("POST webhook/set/shop")
        assert webhook == {
            "webhook": {
                "enabled": True,
                "url": session.ingest_url,
                "headers": {PROOF: session.stored["secret"]},
                "byEvents": False,
                "base64": False,
                "events": list(EVENTS),
            }
        }
        posted = evolution.receive("shop", "hello")
        assert posted is not None
        await posted.is_done.wait()
    assert posted.statuses == [200]
    event = session.events[-1]
    assert (event.kind, event.data, event.sender) == ("MESSAGES_UPSERT", posted.body["data"], WUID)
    assert session.states[-1] == (ConnectionState.OPEN, 200, {"wuid": WUID, "profileName": "Loja"})


# The webhook


async def test_a_lost_or_changed_webhook_is_set_again(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    shop = evolution.accounts["shop"]
    async with connected(connector, session):
        wanted = shop.webhook
        assert wanted is not None
        for change in (
            None,
            {"url": "https://other.example/"},
            {"enabled": False},
            {"headers": None},
            {"headers": {PROOF: "other"}},
            {"webhookByEvents": True},
            {"webhookBase64": True},
            {"events": ["CALL"]},
        ):
            shop.webhook = None if change is None else {**wanted, **change}
            with capture_logs() as logs:
                await trio.sleep(CHECK_INTERVAL + 1)
            assert shop.webhook == wanted
            assert [line["event"] for line in logs] == ["webhook set again"]
        sets = len(evolution.calls_of("POST webhook/set"))
        finds = len(evolution.calls_of("GET webhook/find"))
        await trio.sleep(600)
        assert len(evolution.calls_of("POST webhook/set")) == sets
        assert len(evolution.calls_of("GET webhook/find")) >= finds + 600 / 60


async def test_a_rotated_url_is_told_soon(
    connector: Connector, session: FakeSession, evolution: Evolution, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(connector, session):
        url = "https://hookgw.example/ingest/shop/another"
        monkeypatch.setattr(FakeSession, "ingest_url", url)
        await trio.sleep(CHECK_INTERVAL / 2)
        webhook = evolution.accounts["shop"].webhook
        assert webhook is not None
        assert webhook["url"] == url


async def test_a_kind_of_a_newer_version_is_asked_for_by_name_alone(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    """2.3 refuses the whole call for it."""
    evolution.events.append("MESSAGING_HISTORY_SET")
    session.options["remote_events"] = ["MESSAGES_SET", "MESSAGING_HISTORY_SET"]
    async with connected(connector, session):
        webhook = evolution.accounts["shop"].webhook
        assert webhook is not None
        assert {*webhook["events"]} == {
            *("MESSAGES_SET", "MESSAGING_HISTORY_SET", "CONNECTION_UPDATE", "QRCODE_UPDATED")
        }
        await trio.sleep(CHECK_INTERVAL + 1)
        assert len(evolution.calls_of("POST webhook/set")) == 1


async def test_files_are_not_inside_webhooks(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    """A long video would make a request that hookgw refuses. It fetches the files that fit into events."""
    session.wants_files = True
    async with connected(connector, session):
        await trio.sleep(CHECK_INTERVAL + 1)
        webhook = evolution.accounts["shop"].webhook
        assert webhook is not None
        assert webhook["webhookBase64"] is False


async def test_a_server_with_other_names_sends_all_that_it_knows(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    evolution.events.remove("SEND_MESSAGE_UPDATE")
    async with connected(connector, session):
        [_, webhook] = evolution.calls_of("POST webhook/set/shop")
        assert webhook["webhook"]["events"] == []
        await trio.sleep(120)
        assert len(evolution.calls_of("POST webhook/set/shop")) == 2


async def test_chosen_events(connector: Connector, session: FakeSession, evolution: Evolution) -> None:
    session.options["remote_events"] = ["MESSAGES_UPSERT", "GROUPS_UPDATE"]
    async with connected(connector, session):
        [webhook] = evolution.calls_of("POST webhook/set/shop")
    chosen = ["QRCODE_UPDATED", "MESSAGES_UPSERT", "GROUP_UPDATE", "CONNECTION_UPDATE"]
    assert webhook["webhook"]["events"] == chosen


async def test_the_secret_stays_the_same_over_restarts(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    async with connected(connector, session):
        secret = session.stored["secret"]
    async with connected(connector, session):
        assert session.stored["secret"] == secret
    assert len(evolution.calls_of("POST webhook/set")) == 1
    assert len(secret) >= 43


def as_set(webhook: dict[str, Any] | None) -> dict[str, Any]:
    assert webhook is not None
    names = {"webhookByEvents": "byEvents", "webhookBase64": "base64"}
    return {
        names.get(name, name): value
        for name, value in webhook.items()
        if name not in ("id", "createdAt", "updatedAt", "instanceId")
    }


async def set_former(evolution: Evolution, name: str = "shop") -> None:
    client = httpx.AsyncClient(transport=Transport(evolution), headers={"apikey": KEY})
    async with client as http:
        url = f"http://evolution.example/webhook/set/{name}"
        assert (await http.post(url, json={"webhook": FORMER})).status_code == 201
    evolution.calls.clear()


@pytest.mark.parametrize("call", ["remove", "logout", "set_webhook"])
async def test_the_webhook_is_given_back(
    connector: Connector, session: FakeSession, evolution: Evolution, call: str
) -> None:
    await set_former(evolution)
    shop = evolution.accounts["shop"]
    async with connected(connector, session):
        assert session.stored["former"] == FORMER
        if call != "set_webhook":
            await getattr(connector, call)(session)
            assert as_set(shop.webhook) == FORMER
            await trio.sleep(CHECK_INTERVAL + 1)  # until the instance is gone
            assert as_set(shop.webhook) == FORMER
    if call == "set_webhook":
        session.options["set_webhook"] = False
        async with connected(connector, session):
            assert as_set(shop.webhook) == FORMER
            await trio.sleep(600)
            # What Evolution API still repeats is taken.
            headers = {PROOF: session.stored["secret"]}
            body = json.dumps(evolution.envelope("shop", "messages.upsert", {"key": {"id": "1"}})).encode()
            assert await post(connector, session, body, headers) == 200
            assert len(session.data_of("MESSAGES_UPSERT")) == 1
    assert as_set(shop.webhook) == FORMER
    assert (session.stored["target"], session.stored["former"]) == (None, None)
    assert (shop.state == "close") == (call == "logout")
    session.options["set_webhook"] = True
    shop.state = "open"
    async with connected(connector, session):
        assert session.stored["former"] == FORMER


async def test_without_a_former_webhook_it_is_switched_off(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    async with connected(connector, session):
        await connector.remove(session)
    webhook = evolution.accounts["shop"].webhook
    assert webhook is not None
    assert (webhook["enabled"], webhook["headers"], webhook["events"]) == (False, {}, [])


async def test_what_somebody_else_has_set_meanwhile_is_what_is_given_back(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    async with connected(connector, session):
        await set_former(evolution)
        await connector.remove(session)
        assert as_set(evolution.accounts["shop"].webhook) == FORMER
    async with connected(connector, session):
        await set_former(evolution)
        await trio.sleep(CHECK_INTERVAL + 1)
        await connector.remove(session)
    assert as_set(evolution.accounts["shop"].webhook) == FORMER


async def test_a_former_webhook_that_lies_is_kept_as_far_as_it_can_be_put_back(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    lying = {"url": "https://crm.example/hook", "enabled": True, "events": ["CALL", 7, None]}
    evolution.accounts["shop"].webhook = {**lying, "headers": {"a": "b", "c": {"d": 1}, "e": 2**80}}
    async with connected(connector, session):
        former = session.stored["former"]
        assert (former["headers"], former["events"]) == ({"a": "b", "e": str(2**80)}, ["CALL"])
        evolution.accounts["shop"].webhook = {**lying, "headers": {"a": "b" * 2_000_000}}
        await trio.sleep(CHECK_INTERVAL + 1)
        assert session.stored.get("former") is None
        evolution.accounts["shop"].webhook = {**lying, "headers": None, "events": []}
        await trio.sleep(CHECK_INTERVAL + 1)
        # It has sent nothing; and `set` takes an empty list for all events.
        assert session.stored["former"]["enabled"] is False


async def test_another_remote_gets_its_webhook_back(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    evolution.add("other")
    await set_former(evolution)
    async with connected(connector, session):
        pass
    session.options["remote"] = "other"
    async with connected(connector, session):
        assert as_set(evolution.accounts["shop"].webhook) == FORMER
        webhook = evolution.accounts["other"].webhook
        assert webhook is not None
        assert webhook["url"] == session.ingest_url
        assert session.stored["former"] is None


async def test_a_server_that_has_moved_keeps_what_was_there_before(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    await set_former(evolution)
    async with connected(connector, session):
        pass
    evolution.faults["GET webhook/find"] = [(502, "gone")]
    session.options["base_url"] = "http://moved.example/evolution"
    evolution.app.config["APPLICATION_ROOT"] = "/"
    session.options["base_url"] = "http://moved.example"
    async with connected(connector, session):
        assert session.stored["former"] == FORMER
        await connector.remove(session)
    assert as_set(evolution.accounts["shop"].webhook) == FORMER


@pytest.mark.parametrize("request_number", range(8))
@pytest.mark.parametrize("is_processed", [True, False])
async def test_a_kill_at_any_request_loses_neither_events_nor_the_former_webhook(
    connector: Connector, session: FakeSession, evolution: Evolution, request_number: int, is_processed: bool
) -> None:
    await set_former(evolution)
    transport = transport_of(session)

    async def run(*options: bool) -> None:
        """Run the connector with each value of ``set_webhook``, one after the other."""
        for option in options:
            session.options["set_webhook"] = option
            async with connected(connector, session):
                evolution.receive("shop", "hello")
                await evolution.settled()

    transport.kill_at, transport.is_processed = request_number, is_processed
    with trio.CancelScope() as transport.killed:
        await run(True, False)
    transport.kill_at = -1
    await run(True)
    assert session.stored["former"] == FORMER
    await run(False)
    assert as_set(evolution.accounts["shop"].webhook) == FORMER
    taken = {event.data["key"]["id"] for event in session.events if event.kind == "MESSAGES_UPSERT"}
    ours = {
        posted.body["data"]["key"]["id"] for posted in evolution.posted if posted.url == session.ingest_url
    }
    assert taken == ours


# The state


def states(session: FakeSession) -> list[str]:
    return [data["state"] for data in session.data_of("CONNECTION_UPDATE")]


async def test_states_raise_no_doubles(session: FakeSession, evolution: Evolution, taking: Take) -> None:
    assert states(session) == ["connecting", "open"]
    update = evolution.envelope("shop", "connection.update", {"instance": "shop", "state": "open"})
    for _ in range(2):
        assert await taking(update) == 200
    evolution.set_state("shop", "close", 401)
    await evolution.settled()
    await trio.sleep(CHECK_INTERVAL * 3)
    assert states(session) == ["connecting", "open", "close"]
    assert session.data_of("CONNECTION_UPDATE")[-1]["statusReason"] == 401
    for state in ("connecting", "open"):
        evolution.set_state("shop", state)
        await evolution.settled()
    await trio.sleep(CHECK_INTERVAL * 3)
    assert states(session)[3:] == ["connecting", "open"]
    more = session.data_of("CONNECTION_UPDATE")[-1]
    assert (more["wuid"], more["profileName"], more["instance"]) == (WUID, "Loja", "shop")


async def test_a_state_with_strange_fields(session: FakeSession, taking: Take) -> None:
    strange = {"state": "close", "statusReason": "x", "reason": 1, "self": 2, "n": 2**80, "message": "Bye."}
    assert await taking({"event": "connection.update", "data": {**strange, "instance": "other"}}) == 200
    data = session.data_of("CONNECTION_UPDATE")[-1]
    assert data == {
        "instance": "shop",
        "state": "close",
        "statusReason": 200,
        "n": 2.0**80,
        "message": "Bye.",
    }


async def test_a_late_state_changes_nothing(session: FakeSession, evolution: Evolution, taking: Take) -> None:
    closed = evolution.envelope("shop", "connection.update", {"instance": "shop", "state": "close"})
    opened = evolution.envelope("shop", "connection.update", {"instance": "shop", "state": "open"})
    assert await taking(opened) == 200
    assert await taking(closed) == 200
    assert session.state is ConnectionState.OPEN


async def test_a_state_that_was_missed_is_looked_up(
    session: FakeSession, evolution: Evolution, taking: Take
) -> None:
    evolution.accounts["shop"].state = "close"
    await trio.sleep(CHECK_INTERVAL + 1)
    assert states(session) == ["connecting", "open", "close"]
    evolution.accounts["shop"].state = "open"
    await trio.sleep(CHECK_INTERVAL + 1)
    assert session.state is ConnectionState.OPEN


@pytest.mark.parametrize(
    "data", [None, [], {}, {"state": None}, {"state": "paused"}, {"state": ["open"]}, "open"]
)
async def test_an_update_without_a_state_is_an_ordinary_event(
    session: FakeSession, taking: Take, data: Any
) -> None:
    assert await taking({"event": "connection.update", "data": data}) == 200
    assert session.data_of("CONNECTION_UPDATE")[-1] == data
    assert session.state is ConnectionState.OPEN


@pytest.mark.parametrize("place", ["option", "call"])
async def test_a_number_brings_a_code_to_type(
    connector: Connector, session: FakeSession, evolution: Evolution, place: str
) -> None:
    shop = evolution.accounts["shop"]
    shop.state = "close"
    if place == "call":
        session.pairing_number = "5511988887777"
    else:
        session.options["number"] = "+55 (11) 98888-7777"
    async with connected(connector, session, ConnectionState.CONNECTING):
        await session.wait_for("QRCODE_UPDATED")
    assert shop.pairing_number == "5511988887777"
    assert session.qr_codes[0].pairing_code == "WZYEH1YY"
    assert session.data_of("QRCODE_UPDATED")[0]["qrcode"]["pairingCode"] == "WZYEH1YY"


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(Invalid, match="number"):
        read_options({**OPTIONS, "number": "0055"}, Defaults(), "shop", "https://hookgw.example")


async def test_a_code_to_scan_alone_says_so(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    evolution.accounts["shop"].state = "close"
    async with connected(connector, session, ConnectionState.CONNECTING):
        [shown] = await session.wait_for("QRCODE_UPDATED")
    assert list(shown["qrcode"]) == ["instance", "pairingCode", "code", "base64"]
    assert shown["qrcode"]["pairingCode"] is None


async def test_a_code_is_shown_until_it_is_scanned(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    shop = evolution.accounts["shop"]
    shop.state = "close"
    async with connected(connector, session, ConnectionState.CONNECTING):
        await session.wait_for("QRCODE_UPDATED")
        await evolution.settled()
        # The answer to connect and the webhook bring the same code.
        assert [code.code for code in session.qr_codes] == ["2@shop-1"]
        assert session.qr_codes[0].base64.startswith("data:image/png;base64,")
        evolution.show_code("shop")
        await session.wait_for("QRCODE_UPDATED", 2)
        # The limit of codes, without one, is an ordinary event.
        evolution.emit("shop", "qrcode.updated", {"message": "QR code limit reached", "statusCode": 500})
        evolution.set_state("shop", "refused", 428)
        await session.wait_until(ConnectionState.CLOSE)
        await trio.sleep(600)
        assert len(evolution.calls_of("GET instance/connect/")) == 1
        assert len(session.data_of("QRCODE_UPDATED")) == 3
    async with connected(connector, session, ConnectionState.CONNECTING):
        evolution.set_state("shop", "open")
        await session.wait_until(ConnectionState.OPEN)
        assert len(evolution.calls_of("GET instance/connect/")) == 2


# Faults of the server


@pytest.mark.parametrize(
    ("fault", "reason", "sentence"),
    [
        (httpx.ConnectError("refused"), 503, "cannot be reached"),
        ((401, {"status": 401, "response": {"message": "Unauthorized"}}), 403, "refuses the option api_key"),
        ((404, {"response": {"message": 'The "shop" instance does not exist'}}), 404, "no instance 'shop'"),
        ((404, "<h1>nginx</h1>"), 404, "answered with 404"),
        ((502, "<h1>nginx</h1>"), 502, "answered with 502"),
        ((503, '{"error": "x", "code": "LICENSE_REQUIRED"}'), 503, "is not activated"),
        ((302, ""), 503, "Is base_url right"),
        ((200, "<h1>Welcome</h1>"), 503, "did not answer with JSON"),
    ],
)
async def test_what_is_wrong_is_said_and_tried_again(
    connector: Connector, session: FakeSession, evolution: Evolution, fault: Any, reason: int, sentence: str
) -> None:
    if isinstance(fault, httpx.HTTPError):
        transport_of(session).errors["GET webhook/find"] = [fault] * 4
    else:
        evolution.faults["GET webhook/find"] = [fault] * 4
    async with connected(connector, session, ConnectionState.CLOSE):
        _, given, more = session.states[-1]
        assert given == reason
        assert sentence in more["message"]
        assert KEY not in more["message"]
        # Events come meanwhile, for example because only the way there is broken.
        secret = connector.connections.of(session).connection.state.secret
        assert await post(connector, session, b"{}", {PROOF: secret}) == 200
        await session.wait_until(ConnectionState.OPEN)
    assert states(session) == ["connecting", "close", "open"]


async def test_one_failure_of_an_open_connection_changes_nothing(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    async with connected(connector, session):
        transport_of(session).errors["GET webhook/find"] = [httpx.ReadTimeout("slow")]
        await trio.sleep(CHECK_INTERVAL * 2 + 3)
        assert states(session) == ["connecting", "open"]
        evolution.faults["GET webhook/find"] = [(503, "busy")] * 2
        await trio.sleep(CHECK_INTERVAL * 2 + 3)
        assert states(session) == ["connecting", "open", "close", "open"]


async def test_an_outage_of_a_night_ends(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    async with connected(connector, session):
        evolution.faults["GET webhook/find"] = [(503, "busy")] * 1_100
        await trio.sleep(CHECK_INTERVAL * 1_105)
        assert states(session) == ["connecting", "open", "close", "open"]


@pytest.mark.parametrize(
    "answer",
    [None, [], 7, {}, {"instance": None}, {"instance": {"state": None}}, {"instance": {"state": {}}}, "open"],
)
async def test_a_lying_state(
    connector: Connector, session: FakeSession, evolution: Evolution, answer: Any
) -> None:
    evolution.faults["GET instance/connectionState"] = [(200, json.dumps(answer))] * 2
    evolution.faults["GET instance/connect/"] = [(200, json.dumps(answer))]
    async with connected(connector, session, ConnectionState.CLOSE):
        assert "does not say in which state" in session.states[-1][2]["message"]
        await session.wait_until(ConnectionState.OPEN)


@pytest.mark.parametrize("found", [None, [], 7, {"url": 5, "headers": [], "events": {}}, {"webhook": FORMER}])
async def test_a_lying_webhook(
    connector: Connector, session: FakeSession, evolution: Evolution, found: Any
) -> None:
    evolution.faults["GET webhook/find"] = [(200, json.dumps(found))]
    async with connected(connector, session):
        webhook = evolution.accounts["shop"].webhook
        assert webhook is not None
        assert webhook["url"] == session.ingest_url


@pytest.mark.parametrize("found", [None, {}, [None], [{"ownerJid": 7, "name": "shop"}], [{"name": "other"}]])
async def test_a_lying_account(
    connector: Connector, session: FakeSession, evolution: Evolution, found: Any
) -> None:
    evolution.faults["GET instance/fetchInstances"] = [(200, json.dumps(found))]
    async with connected(connector, session):
        assert session.states[-1] == (ConnectionState.OPEN, 200, {})


async def test_a_token_that_may_not_ask_for_the_account(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    evolution.faults["GET instance/fetchInstances"] = [(401, {})]
    async with connected(connector, session):
        assert states(session) == ["connecting", "open"]


# Options


async def test_options(connector: Connector) -> None:
    from plugins.evolution.options import read_defaults

    async def check(defaults: dict[str, Any], **options: Any) -> str:
        connector.hookgw_configure(defaults)
        try:
            await connector.check_options(options, public_url="https://hooks.example")
        except Invalid as error:
            [sentence] = error.messages
            return sentence
        return ""

    base = {"base_url": "https://evolution.example"}
    assert "plugins.options.evolution.base_url" in await check({}, api_key="k")
    assert "plugins.options.evolution.api_key" in await check({}, **base)
    assert await check({}, **base, api_key="k") == ""
    assert await check({**base, "api_key": "k"}) == ""
    assert await check({**base, "api_key": "k"}, base_url="https://evolution.example/") == ""
    assert await check({**base, "api_key": "k"}, base_url="https://EVOLUTION.example:443") == ""
    # The operator's key goes to the operator's server alone, and opens no instance of another name.
    assert "its own base_url" in await check({**base, "api_key": "k"}, base_url="https://attacker.example")
    assert "same name" in await check({**base, "api_key": "k"}, remote="victim")
    assert await check({**base, "api_key": "k"}, remote="mine", api_key="token") == ""
    for url in (
        "ftp://a",
        "http://",
        "https://u:p@a",
        "https://a?b",
        "nonsense",
        "https://a#b",
        "http://[::",
    ):
        assert "base_url: use the URL" in await check({}, base_url=url, api_key="k")
    assert "printable ASCII" in await check({}, **base, api_key="é")
    assert "not valid" in await check({}, **base, api_key="k", remote=7)
    with pytest.raises(Invalid, match=r"^server\.public_url is not set: set it .* there\.$"):
        await connector.check_options({**base, "api_key": "k"}, public_url=None)
    for wrong in ({"x": 1}, {"base_url": "nonsense"}, {"base_url": 7}, {"remote_events": ["X"]}):
        with pytest.raises(ValueError, match=r"x|base_url|events|str"):
            read_defaults(wrong)


async def test_wrong_options_close_and_events_still_come(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    async with connected(connector, session):
        pass
    del session.options["base_url"]
    async with connected(connector, session, ConnectionState.CLOSE):
        assert "base_url is missing" in session.states[-1][2]["message"]
        posted = evolution.receive("shop", "hello")
        assert posted is not None
        await posted.is_done.wait()
        assert posted.statuses == [200]
        with pytest.raises(Exception, match="not connected"):
            await connector.send(session, TextMessage(number="55", text="x"), key="k")


async def test_without_a_public_url_nothing_is_set(
    connector: Connector, session: FakeSession, evolution: Evolution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeSession, "ingest_url", "/ingest/shop/token")
    async with connected(connector, session, ConnectionState.CLOSE):
        assert "server.public_url is not set" in session.states[-1][2]["message"]
    assert evolution.calls == []


def test_the_plugin_takes_its_options_from_the_configuration(module_of: Callable[[str], ModuleType]) -> None:
    module = module_of("evolution")
    evolution = module._evolution
    module.hookgw_configure({"base_url": "https://evolution.example", "api_key": "k"})
    apply = module.hookgw_reconfigure({"base_url": "https://other.example", "api_key": "secret"})
    before = evolution.defaults["base_url"]
    apply()
    after = evolution.defaults["base_url"]
    assert (before, after) == ("https://evolution.example", "https://other.example")
    assert "secret" not in repr(evolution)
    with pytest.raises(ValueError, match="no option base"):
        module.hookgw_configure({"base": "x"})


# Settings


async def test_settings_are_forwarded_once(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    async with connected(connector, session):
        # hookgw's defaults do not replace what is set in Evolution API.
        assert evolution.calls_of("POST settings/set") == []
        session.settings = InstanceSettings(reject_call=True, msg_call="Only texts")
        await connector.settings(session, session.settings)
        [body] = evolution.calls_of("POST settings/set")
        assert (body["rejectCall"], body["msgCall"], body["groupsIgnore"]) == (True, "Only texts", False)
    session.settings = InstanceSettings(groups_ignore=True)
    evolution.faults["POST settings/set"] = [(400, {"response": {"message": [["no"]]}})]
    async with connected(connector, session):
        await trio.sleep(CHECK_INTERVAL * 3)
    assert [body["groupsIgnore"] for body in evolution.calls_of("POST settings/set")] == [False, True, True]
