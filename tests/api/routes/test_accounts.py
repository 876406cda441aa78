"""Options, settings, restart, presence and capabilities of an instance, over HTTP."""

from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from hookgw import (
    ConnectionState,
    Gateway,
    InstanceSettings,
    Invalid,
    NetworkRefused,
    QRCode,
    Session,
    TextMessage,
)
from hookgw.testing import FakeConnector
from tests.public.kernel import MASK
from tests.public.plugins import ConnectorOptions
from tests.support.observer import Observer

SCHEMA: dict[str, Any] = {
    "required": ["server"],
    "properties": {
        "server": {"type": "string"},
        "password": {"type": "string", "writeOnly": True},
        "rate": {"type": "integer", "default": 3},
    },
    "additionalProperties": False,
}
GIVEN = {"server": "https://a.example", "password": "planted-password"}
OWN: dict[str, Any] = {"quietAfter": None, "catchUp": {"limit": 10_000, "span": "1d"}}
SHOWN = {"server": "https://a.example", "password": MASK}


async def states(observer: Observer, count: int) -> list[tuple[str, int]]:
    """Wait for so many connection states: they are reported after they are set."""
    return [
        (one["state"], one["statusReason"]) for one in await observer.wait_for("CONNECTION_UPDATE", count)
    ]


async def show_code(session: Session) -> None:
    code = f"code of {session.pairing_number}" if session.pairing_number else None
    await session.set_state(ConnectionState.CONNECTING)
    await session.show_qr_code(QRCode(code="2@x", base64="data:,", pairing_code=code))


@pytest.fixture
def connector() -> FakeConnector:
    return FakeConnector("strict", options_schema=SCHEMA)


@pytest.fixture
def observer() -> Observer:
    return Observer()


@pytest.fixture
def plugins(connector: FakeConnector, observer: Observer) -> dict[str, object]:
    small = FakeConnector(
        "small", without=("settings", "restart", "set_presence"), message_types=(TextMessage,)
    )
    pairing = FakeConnector("pairing", script=show_code)
    return {"strict": connector, "small": small, "pairing": pairing, "observer": observer}


@pytest.fixture
async def gateway(gateway: Gateway) -> Gateway:
    await gateway.instances.create("shop", integration="strict", options=GIVEN)
    await gateway.instances.create("small", integration="small")
    await gateway.instances.create("http")
    return gateway


def messages(response: httpx.Response, status: int) -> list[str]:
    assert response.status_code == status, response.text
    found: list[str] = response.json()["response"]["message"]
    return found


# Options.


async def test_options_are_fields_of_create(client: httpx.AsyncClient, gateway: Gateway) -> None:
    body = {
        "instanceName": "loja1",
        "integration": "strict",
        "qrcode": True,
        "token": "a-chosen-key-0001",
        **GIVEN,
    }
    created = await client.post("/instance/create", json=body)
    assert created.status_code == 201
    assert created.json()["instance"]["options"] == SHOWN
    assert "warnings" not in created.json()
    assert gateway.instances.get("loja1").options == GIVEN
    listed = await client.get("/instance/fetchInstances")
    assert {one["name"]: one["instance"].get("options") for one in listed.json()} == {
        "http": None,
        "loja1": SHOWN,
        "shop": SHOWN,
        "small": {},
    }


async def test_wrong_options_create_nothing(client: httpx.AsyncClient, gateway: Gateway) -> None:
    body = {"instanceName": "loja1", "integration": "strict", "password": ["planted"], "servr": "https://a"}
    response = await client.post("/instance/create", json=body)
    assert sorted(messages(response, 400)) == [
        'password: the value is not of type "string".',
        "server is missing.",
        "servr is not an option of the connector strict. Did you mean server?",
    ]
    assert gateway.instances.find("loja1") is None


async def test_a_mask_at_create(client: httpx.AsyncClient) -> None:
    body = {"instanceName": "loja1", "integration": "strict", **SHOWN}
    assert messages(await client.post("/instance/create", json=body), 400) == [
        "password is masked, but no value is stored: send one."
    ]


async def test_options_are_read_and_changed(client: httpx.AsyncClient, gateway: Gateway) -> None:
    found = await client.get("/instance/options/shop")
    assert found.json() == {"options": SHOWN, "optionsSchema": SCHEMA, **OWN}
    changed = await client.patch("/instance/options/shop", json={**found.json()["options"], "rate": 5})
    assert changed.json() == {"options": {**SHOWN, "rate": 5}, "optionsSchema": SCHEMA, "warnings": [], **OWN}
    assert gateway.instances.get("shop").options == {**GIVEN, "rate": 5}
    for value in (5.0, 5):  # to Python, they are equal, as 1 and true are
        await client.patch("/instance/options/shop", json={"rate": value})
        stored = (await client.get("/instance/options/shop")).json()["options"]["rate"]
        assert repr(stored) == repr(value)
    removed = await client.patch("/instance/options/shop", json={"rate": None, "password": None})
    assert removed.json()["options"] == {"server": "https://a.example"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"server": None}, "server is missing."),
        ({"rate": "x"}, 'rate: the value is not of type "integer".'),
        ({"token": "x"}, "token is not an option: it cannot be changed here."),
        ([1], "The body must be an object, not a list."),
    ],
)
async def test_a_wrong_change_changes_nothing(
    change: Any, sentence: str, client: httpx.AsyncClient, gateway: Gateway
) -> None:
    assert messages(await client.patch("/instance/options/shop", json=change), 400) == [sentence]
    assert gateway.instances.get("shop").options == GIVEN


async def test_some_options_are_the_operators(
    client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = {"type": "string", "default": "eu", "x-operator": True}
    rules = ConnectorOptions("strict", {**SCHEMA, "properties": {**SCHEMA["properties"], "region": region}})
    monkeypatch.setattr(gateway.connectors, "option_rules", lambda _: rules)
    body = {"instanceName": "loja1", "integration": "strict", "token": "the-key-of-loja1", **GIVEN}
    assert (await client.post("/instance/create", json=body)).status_code == 201
    own = {"apikey": "the-key-of-loja1"}
    refused = await client.patch("/instance/options/loja1", json={"region": "us"}, headers=own)
    assert messages(refused, 403) == ["region can be changed only with a global key."]
    # What stays as it is, is no change.
    allowed = await client.patch("/instance/options/loja1", json={"region": "eu", "rate": 9}, headers=own)
    assert allowed.json()["options"]["rate"] == 9
    assert (await client.patch("/instance/options/loja1", json={"region": "us"})).status_code == 200


async def test_without_a_schema_all_options_are_secrets(client: httpx.AsyncClient) -> None:
    changed = await client.patch("/instance/options/small", json={"anything": {"a": "b"}, "n": 5})
    shown = {"options": {"anything": MASK, "n": MASK}, "optionsSchema": None, **OWN}
    assert changed.json() == {**shown, "warnings": []}


async def test_an_instance_without_a_connector_has_no_options(client: httpx.AsyncClient) -> None:
    assert (await client.get("/instance/options/http")).json() == {
        "options": {},
        "optionsSchema": None,
        **OWN,
    }
    assert "has no connector" in messages(await client.patch("/instance/options/http", json={}), 409)[0]


@pytest.mark.parametrize("name", ["shop", "http"])
async def test_options_of_every_instance_need_no_connector_and_restart_none(
    client: httpx.AsyncClient, gateway: Gateway, connector: FakeConnector, name: str
) -> None:
    await gateway.instances.connect("shop")
    own = {"quietAfter": "6h", "catchUp": {"limit": 5, "span": "2h"}}
    path = f"/instance/options/{name}"
    changed = (await client.patch(path, json=own)).json()
    assert own == {field: changed[field] for field in own}
    assert (await client.patch(path, json={"quietAfter": None, "catchUp": {"limit": 5}})).status_code == 200
    found = (await client.get(path)).json()
    assert (found["quietAfter"], found["catchUp"]) == (None, {"limit": 5, "span": "1d"})
    assert connector.runs == 1
    refused = await client.patch(path, json={"quietAfter": "0.5s", "catchUp": {"limit": -1}})
    assert messages(refused, 400) == [
        "quietAfter must be from 1s to 365d, not 500ms.",
        "catchUp.limit must be a whole number from 0 to 100000.",
    ]


async def test_a_running_connector_starts_again_with_changed_options(
    client: httpx.AsyncClient, gateway: Gateway, connector: FakeConnector, observer: Observer
) -> None:
    await gateway.instances.connect("shop")
    first = connector.session("shop")
    assert first.options == {**GIVEN, "rate": 3}
    await client.patch("/instance/options/shop", json={"rate": 5})
    await gateway.instances.connect("shop")  # waits until it is open again
    second = connector.session("shop")
    assert second.options == {**GIVEN, "rate": 5}
    assert first.options == {**GIVEN, "rate": 3}
    expected = [("connecting", 200), ("open", 200)]
    assert await states(observer, 5) == [*expected, ("close", 515), *expected]
    # What changes nothing does not interrupt it.
    await client.patch("/instance/options/shop", json={"rate": 5, "password": MASK})
    assert (connector.session("shop"), connector.runs) == (second, 2)


async def test_connect_passes_the_number_of_the_account_on(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    async def connect(**query: str) -> tuple[int, Any]:
        response = await client.get("/instance/connect/pairing", params=query)
        return response.status_code, response.json().get("pairingCode")

    await gateway.instances.create("pairing", integration="pairing")
    assert await connect() == (200, None)
    # A code is shown already, but none to type.
    assert await connect(number="+55 (11) 98888-7777") == (200, "code of 5511988887777")
    shown = gateway.instances.codes_shown("pairing")
    # Clients ask every few seconds, with the number and without.
    for query in ({"number": "5511988887777"}, {"number": ""}, {}):
        assert await connect(**query) == (200, "code of 5511988887777")
    assert gateway.instances.codes_shown("pairing") == shown
    assert await connect(number="5511977776666") == (200, "code of 5511977776666")
    assert (await connect(number="0055"))[0] == 400


async def test_secret_options_appear_in_no_failure(
    client: httpx.AsyncClient, gateway: Gateway, connector: FakeConnector
) -> None:
    await gateway.instances.connect("shop")
    connector.refusal = NetworkRefused("Wrong password planted-password.", code="planted-password")
    body = {"number": "5", "text": "x"}
    refused = await client.post("/message/sendText/shop", json=body)
    connector.refusal = ValueError("planted-password is wrong")
    with capture_logs() as logs:
        failed = await client.post("/message/sendText/shop", json=body)
    assert (refused.status_code, failed.status_code) == (502, 502)
    assert "Wrong password ********" in refused.text
    assert "planted" not in refused.text + failed.text + str(logs)


# Settings.


async def test_settings_are_stored_without_a_connector(client: httpx.AsyncClient, gateway: Gateway) -> None:
    defaults = (await client.get("/settings/find/http")).json()
    assert defaults == {
        "rejectCall": False,
        "msgCall": "",
        "groupsIgnore": False,
        "alwaysOnline": False,
        "readMessages": False,
        "syncFullHistory": False,
        "readStatus": False,
        "wavoipToken": "",
    }
    given = {"rejectCall": True, "msg_call": "no", "wavoipToken": "planted-token", "colour": 1}
    response = await client.post("/settings/set/http", json=given)
    expected = {**defaults, "rejectCall": True, "msgCall": "no", "wavoipToken": MASK}
    assert (response.status_code, response.json()) == (
        201,
        {
            "settings": {"instanceName": "http", "settings": expected},
            "warnings": ["colour is an unknown field; it was ignored."],
        },
    )
    # A missing field keeps its value, and so does the mask.
    await client.post("/settings/set/http", json={"readStatus": True, "wavoipToken": MASK})
    assert (await client.get("/settings/find/http")).json() == {**expected, "readStatus": True}
    assert gateway.instances.get("http").settings.wavoip_token == "planted-token"


async def test_settings_at_create(client: httpx.AsyncClient, gateway: Gateway) -> None:
    body = {
        "instanceName": "loja1",
        "integration": "strict",
        "groupsIgnore": True,
        "always_online": True,
        **GIVEN,
    }
    assert "warnings" not in (await client.post("/instance/create", json=body)).json()
    stored = gateway.instances.get("loja1")
    assert stored.settings == InstanceSettings(groups_ignore=True, always_online=True)
    assert stored.options == GIVEN


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rejectCall": "yes"}, "rejectCall must be true or false, not a string."),
        ({"msg_call": 5}, "msg_call must be a string, not a number."),
        ({"msgCall": "x" * 4097}, "msgCall must have at most 4,096 characters, not 4,097."),
    ],
)
async def test_wrong_settings(given: Any, sentence: str, client: httpx.AsyncClient) -> None:
    assert messages(await client.post("/settings/set/http", json=given), 400) == [sentence]


async def test_a_running_connector_hears_of_settings(
    client: httpx.AsyncClient, gateway: Gateway, connector: FakeConnector
) -> None:
    await client.post("/settings/set/shop", json={"readMessages": True})
    assert connector.calls_of("settings") == []  # it does not run
    await gateway.instances.connect("shop")
    session = connector.session("shop")
    assert session.settings.read_messages
    response = await client.post("/settings/set/shop", json={"groupsIgnore": True})
    assert response.json()["warnings"] == []
    told = InstanceSettings(read_messages=True, groups_ignore=True)
    assert connector.calls_of("settings") == [{"settings": told}]
    assert session.settings == told
    await gateway.instances.connect("small")
    quiet = await client.post("/settings/set/small", json={"groupsIgnore": True})
    assert quiet.json()["warnings"] == []


@pytest.mark.parametrize("fault", [NetworkRefused("Not now."), ValueError("a bug")])
async def test_settings_that_the_connector_did_not_apply_are_stored(
    fault: Exception, client: httpx.AsyncClient, gateway: Gateway, connector: FakeConnector
) -> None:
    await gateway.instances.connect("shop")
    connector.faults["settings"] = fault
    response = await client.post("/settings/set/shop", json={"rejectCall": True})
    (warning,) = response.json()["warnings"]
    assert warning.startswith("The settings are stored, but the connector has not applied them: ")
    assert str(fault) in warning
    assert (await client.get("/settings/find/shop")).json()["rejectCall"] is True


# Restart, presence and capabilities.


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/json"])
async def test_a_restart(
    content_type: str | None, client: httpx.AsyncClient, connector: FakeConnector, observer: Observer
) -> None:
    headers = {"content-type": content_type} if content_type else {}
    first = await client.post("/instance/restart/shop", headers=headers)
    assert first.json() == {"instance": {"instanceName": "shop", "state": "open"}}
    assert (connector.runs, connector.calls_of("restart")) == (1, [])  # it did not run
    connector.faults["restart"] = NetworkRefused("Not now.")
    again = await client.post("/instance/restart/shop", headers=headers)
    assert again.json() == first.json()
    assert (connector.runs, connector.calls_of("restart")) == (2, [{}])
    assert (await states(observer, 5))[-3:] == [("close", 515), ("connecting", 200), ("open", 200)]


async def test_a_restart_without_a_connector(client: httpx.AsyncClient) -> None:
    assert "has no connector" in messages(await client.post("/instance/restart/http"), 409)[0]
    started = await client.post("/instance/restart/small")
    assert started.json()["instance"]["state"] == "open"


async def test_the_presence_of_an_account(
    client: httpx.AsyncClient, gateway: Gateway, connector: FakeConnector
) -> None:
    body = {"presence": "available"}
    for name in ("http", "shop"):
        assert (await client.post(f"/instance/setPresence/{name}", json=body)).status_code == 409
    await gateway.instances.connect("shop")
    await gateway.instances.connect("small")
    shown = await client.post("/instance/setPresence/shop", json=body)
    assert (shown.status_code, shown.json()) == (201, body)
    assert connector.calls_of("set_presence") == [{"presence": "available", "number": None, "delay": 0.0}]
    assert (await client.post("/instance/setPresence/small", json=body)).status_code == 501
    assert messages(await client.post("/instance/setPresence/shop", json={"presence": "composing"}), 400) == [
        "presence must be one of available, unavailable."
    ]
    connector.faults["set_presence"] = NetworkRefused("Too fast.", status=429, retry_after=7)
    refused = await client.post("/instance/setPresence/shop", json=body)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "7")


async def test_capabilities(client: httpx.AsyncClient) -> None:
    found = {
        name: (await client.get(f"/instance/capabilities/{name}")).json()["calls"]
        for name in ("shop", "small", "http")
    }
    assert {"sendText", "sendMedia", "updateMessage", "setPresence"} <= set(found["shop"])
    assert "sendText" in found["small"]
    assert not {"sendMedia", "setPresence"} & set(found["small"])
    assert found["http"] == []


# What the connector is told.


async def test_options_that_the_connector_refuses(
    client: httpx.AsyncClient, gateway: Gateway, connector: FakeConnector
) -> None:
    token = "a-chosen-key-0002"
    connector.faults["check_options"] = Invalid(f"token: {GIVEN['password']} is another account's.")
    body = {"instanceName": "loja1", "integration": "strict", "token": token, **GIVEN}
    refused = messages(await client.post("/instance/create", json=body), 400)
    changed = messages(await client.patch("/instance/options/shop", json={"rate": 7}), 400)
    assert refused == changed == [f"token: {MASK} is another account's."]
    assert gateway.instances.find("loja1") is None
    assert gateway.instances.get("shop").options == GIVEN
    connector.faults["check_options"] = RuntimeError("a bug")
    assert messages(await client.patch("/instance/options/shop", json={"rate": 7}), 502) == [
        "The connector 'strict' failed: RuntimeError: a bug"
    ]
    del connector.faults["check_options"]
    assert (await client.patch("/instance/options/shop", json={"rate": 7})).status_code == 200
    assert connector.calls_of("check_options")[-1]["public_url"] is None


@pytest.mark.parametrize("fault", [None, NetworkRefused("Not now."), RuntimeError("a bug")])
async def test_a_connector_hears_of_the_end(
    client: httpx.AsyncClient, gateway: Gateway, connector: FakeConnector, fault: Exception | None
) -> None:
    if fault is not None:
        connector.faults |= {"logout": fault, "remove": fault}
    assert (await client.delete("/instance/logout/shop")).status_code == 200
    assert connector.calls_of("logout") == []  # it did not run
    await gateway.instances.connect("shop")
    assert (await client.delete("/instance/logout/shop")).status_code == 200
    assert (connector.calls_of("logout"), connector.calls_of("remove")) == ([{}], [])
    await gateway.instances.connect("shop")
    assert (await client.delete("/instance/delete/shop")).status_code == 200
    assert (connector.calls_of("logout"), connector.calls_of("remove")) == ([{}], [{}])
    assert gateway.instances.find("shop") is None
