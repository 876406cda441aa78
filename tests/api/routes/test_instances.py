from datetime import datetime
from typing import Any

import httpx
import msgspec
import pytest

from hookgw import Gateway, Unavailable
from tests.api.test_app import shape_of
from tests.public.config import InstancesSettings, Settings

URL = "https://example.com/hook"


async def test_create_answers_instance_and_key(client: httpx.AsyncClient) -> None:
    response = await client.post("/instance/create", json={"instanceName": "loja1"})
    assert response.status_code == 201
    answer = response.json()
    assert list(answer) == ["instance", "hash", "settings", "websocket", "rabbitmq", "nats", "sqs"]
    assert answer["instance"]["instanceName"] == "loja1"
    assert answer["instance"]["status"] == "close"
    found = await client.get("/webhook/find/loja1", headers={"apikey": answer["hash"]})
    assert found.status_code == 200


async def test_create_with_a_webhook_a_token_and_the_integration_of_known_clients(
    client: httpx.AsyncClient,
) -> None:
    body = {
        "instanceName": "loja1",
        "token": "a-token-of-the-caller",
        "integration": "WHATSAPP-BAILEYS",
        "qrcode": True,
        "webhook": {"url": URL, "byEvents": True, "events": ["QRCODE_UPDATED"]},
    }
    answer = (await client.post("/instance/create", json=body)).json()
    assert (answer["hash"], answer["instance"]["integration"]) == (
        "a-token-of-the-caller",
        "WHATSAPP-BAILEYS",
    )
    assert answer["instance"]["connector"] is None
    assert (answer["webhook"]["url"], answer["webhook"]["events"]) == (URL, ["QRCODE_UPDATED"])
    assert len(answer["webhook"]["warnings"]) == 2
    found = (await client.get("/webhook/find/loja1", headers={"apikey": answer["hash"]})).json()
    more = {"warnings": [], "webhookUrl": URL, "webhookHeaders": {}}
    assert found | more == answer["webhook"] | {"warnings": []}


async def test_create_answers_what_clients_of_evolution_api_read(client: httpx.AsyncClient) -> None:
    webhook = {"url": URL, "headers": {"authorization": "Bearer abc"}}
    body = {"instanceName": "loja1", "rejectCall": True, "wavoipToken": "t", "webhook": webhook}
    answer = (await client.post("/instance/create", json=body)).json()
    assert (answer["settings"]["rejectCall"], answer["settings"]["wavoipToken"]) == (True, "********")
    assert answer["webhook"]["webhookUrl"] == URL
    assert answer["webhook"]["webhookHeaders"] == {"authorization": "********"}
    for name in ("websocket", "rabbitmq", "nats", "sqs"):
        assert answer[name] == {"enabled": False}


async def test_create_warns_of_another_label_for_its_webhook(client: httpx.AsyncClient) -> None:
    webhook = {"url": URL, "label": "crm", "instance": "loja1"}
    response = await client.post("/instance/create", json={"instanceName": "loja1", "webhook": webhook})
    created = response.json()["webhook"]
    assert created["label"] == "default"
    said = "webhook.label was ignored: the label here is default. For another one, use "
    assert said + "/webhook/set/loja1/<label>." in created["warnings"]


async def test_create_warns_without_a_webhook_too(client: httpx.AsyncClient) -> None:
    answer = (await client.post("/instance/create", json={"instanceName": "loja1", "odd": 1})).json()
    assert answer["warnings"] == ["odd is an unknown field; it was ignored."]


async def test_a_name_can_be_taken_once(client: httpx.AsyncClient) -> None:
    assert (await client.post("/instance/create", json={"instanceName": "loja1"})).status_code == 201
    response = await client.post("/instance/create", json={"instanceName": "loja1", "webhook": URL})
    assert response.status_code == 403
    assert "'loja1'" in shape_of(response)[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"instanceName": "a b"},
        {"instanceName": "x" * 129},
        {"instanceName": None},
        {"integration": "no-such-connector"},
        {"webhook": "ftp://x"},
        {"webhook": {"url": URL, "plugins": {"no_such_plugin": {}}}},
    ],
)
async def test_a_bad_create_leaves_nothing(
    fields: dict[str, Any], client: httpx.AsyncClient, gateway: Gateway
) -> None:
    response = await client.post("/instance/create", json={"instanceName": "loja1"} | fields)
    assert response.status_code == 400
    assert shape_of(response)
    assert gateway.instances.all() == []


async def test_only_the_global_key_creates(client: httpx.AsyncClient, gateway: Gateway) -> None:
    _, key, _ = await gateway.instances.create("loja1")
    response = await client.post("/instance/create", json={"instanceName": "b"}, headers={"apikey": key})
    assert response.status_code == 403


async def test_the_list_shows_what_the_key_may_see(client: httpx.AsyncClient, gateway: Gateway) -> None:
    _, key, _ = await gateway.instances.create("loja1")
    await gateway.instances.create("loja2")

    async def names(query: str = "", **headers: str) -> list[str]:
        return [
            one["name"]
            for one in (await client.get(f"/instance/fetchInstances{query}", headers=headers)).json()
        ]

    assert await names() == ["loja1", "loja2"]
    assert await names("?instanceName=loja2") == ["loja2"]
    assert await names(apikey=key) == ["loja1"]
    assert await names("?instanceName=loja2", apikey=key) == []


async def test_the_list_has_what_older_and_newer_clients_read(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    instance, _, _ = await gateway.instances.create("loja1", integration="simulator")
    (shown,) = (await client.get("/instance/fetchInstances")).json()
    assert (shown["id"], shown["connectionStatus"]) == (instance.id, "close")
    assert shown["instance"]["instanceId"] == instance.id
    assert shown["instance"]["integration"] == "simulator"


async def test_a_connector_is_named_as_in_responses_and_documents(client: httpx.AsyncClient) -> None:
    created = await client.post("/instance/create", json={"instanceName": "loja1", "connector": "simulator"})
    assert (created.status_code, created.json()["instance"]["connector"]) == (201, "simulator")


async def test_an_instance_without_a_connector(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    state = (await client.get("/instance/connectionState/loja1")).json()
    assert state == {"instance": {"instanceName": "loja1", "state": "close"}}
    refused = await client.get("/instance/connect/loja1")
    assert refused.status_code == 409
    assert refused.json()["response"]["errors"] == [
        {"id": "instance.no_connector", "values": {"instance": "loja1"}}
    ]
    assert (await client.delete("/instance/logout/loja1")).status_code == 409
    sent = await client.post("/message/sendText/loja1", json={"number": "1", "text": "Oi"})
    assert sent.status_code == 409


async def test_a_connected_instance(client: httpx.AsyncClient) -> None:
    body = {"instanceName": "loja1", "integration": "simulator"}
    assert (await client.post("/instance/create", json=body)).status_code == 201
    connected = (await client.get("/instance/connect/loja1")).json()
    assert connected["instance"]["instanceName"] == "loja1"
    assert (await client.delete("/instance/logout/loja1")).json()["response"][
        "message"
    ] == "Instance logged out"
    assert (await client.get("/instance/connectionState/loja1")).json()["instance"]["state"] == "close"


async def test_a_closed_connection_has_a_reason(client: httpx.AsyncClient) -> None:
    await client.post("/instance/create", json={"instanceName": "loja1", "integration": "simulator"})
    state = (await client.get("/instance/connectionState/loja1")).json()["instance"]
    assert state["reason"] == "It has not been connected since hookgw started: connect it."
    (listed,) = (await client.get("/instance/fetchInstances")).json()
    assert listed["disconnectionReason"] == state["reason"]
    await client.get("/instance/connect/loja1")
    await client.delete("/instance/logout/loja1")
    state = (await client.get("/instance/connectionState/loja1")).json()["instance"]
    assert state["reason"] == "The instance was logged out of its connector."


async def test_bad_messages_are_refused_first(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    response = await client.post("/message/sendText/loja1", json={"number": 5})
    assert response.status_code == 400
    assert shape_of(response) == ["text is missing."]


async def test_delete(client: httpx.AsyncClient, gateway: Gateway) -> None:
    _, key, _ = await gateway.instances.create("loja1")
    await client.post("/webhook/set/loja1", json={"url": URL})
    response = await client.delete("/instance/delete/loja1")
    assert response.json()["response"] == {"message": "Instance deleted"}
    assert (await client.get("/webhook/find/loja1", headers={"apikey": key})).status_code == 401
    assert (await client.delete("/instance/delete/loja1")).status_code == 404


# What clients of Evolution API read.


async def test_the_list_has_every_field_of_evolution_api(client: httpx.AsyncClient, gateway: Gateway) -> None:
    body = {"instanceName": "loja1", "integration": "WHATSAPP-BUSINESS", "rejectCall": True, "msgCall": "Oi"}
    created = (await client.post("/instance/create", json=body)).json()
    (shown,) = (await client.get("/instance/fetchInstances")).json()
    nested = shown.pop("instance")
    assert shown["createdAt"] == shown["updatedAt"] == created["instance"]["createdAt"]
    assert shown == {
        "id": created["instance"]["instanceId"],
        "name": "loja1",
        "connectionStatus": "close",
        "ownerJid": None,
        "profileName": None,
        "profilePicUrl": None,
        "integration": "WHATSAPP-BUSINESS",
        "connector": None,
        "number": None,
        "businessId": None,
        "token": "********",
        "clientName": "hookgw",
        "disconnectionReasonCode": None,
        "disconnectionObject": None,
        "disconnectionAt": None,
        "disconnectionReason": (
            "No connector is set up for WHATSAPP-BUSINESS: events come only over HTTP. Name one in "
            "instances.integrations, and create the instance again."
        ),
        "createdAt": shown["createdAt"],
        "updatedAt": shown["updatedAt"],
        "tags": {},
        "Setting": {
            "rejectCall": True,
            "msgCall": "Oi",
            "groupsIgnore": False,
            "alwaysOnline": False,
            "readMessages": False,
            "syncFullHistory": False,
            "readStatus": False,
            "wavoipToken": "",
        },
        "_count": {"Message": 0, "Contact": 0, "Chat": 0},
        "backlog": {"deliveries": 0, "bytes": 0},
    }
    account = dict.fromkeys(("ownerJid", "owner", "profileName", "profilePicUrl"))
    assert nested == created["instance"] | {"name": "loja1", **account}


async def test_the_list_by_id(client: httpx.AsyncClient, gateway: Gateway) -> None:
    first, _, _ = await gateway.instances.create("loja1")
    await gateway.instances.create("loja2")

    async def names(instance_id: str) -> list[str]:
        listed = await client.get("/instance/fetchInstances", params={"instanceId": instance_id})
        return [one["name"] for one in listed.json()]

    assert await names(first.id) == ["loja1"]
    assert await names("nobody") == []
    assert await names("") == ["loja1", "loja2"]


async def test_the_list_by_number(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    _, key, _ = await gateway.instances.create("loja2")
    for name, jid in (("loja1", "5511988887777:3@s.whatsapp.net"), ("loja2", "551@s.whatsapp.net")):
        data = {"instance": name, "state": "open", "statusReason": 200, "wuid": jid}
        await client.post(f"/event/emit/{name}", json={"event": "CONNECTION_UPDATE", "data": data})

    async def names(number: str, **headers: str) -> list[str] | int:
        query = {"number": number}
        listed = await client.get("/instance/fetchInstances", params=query, headers=headers)
        if listed.is_error:
            assert shape_of(listed) == [f"No instance has the number {number!r}."]
        return [one["name"] for one in listed.json()] if listed.is_success else listed.status_code

    assert await names("5511988887777") == ["loja1"]
    assert await names("551@s.whatsapp.net") == ["loja2"]
    assert await names("5522") == 404
    assert await names("5511988887777", apikey=key) == 404  # as if there were none
    assert await names("551", apikey=key) == ["loja2"]
    assert await names("") == ["loja1", "loja2"]


async def test_a_key_of_an_instance_sees_itself(client: httpx.AsyncClient, gateway: Gateway) -> None:
    _, key, _ = await gateway.instances.create("loja1")
    second = (await client.post("/key/create/loja1", json={"name": "crm"})).json()["key"]

    async def token(**headers: str) -> str:
        (listed,) = (await client.get("/instance/fetchInstances", headers=headers)).json()
        return str(listed["token"])

    assert await token() == "********"
    assert await token(apikey=key) == key
    assert await token(apikey=second) == second


async def test_an_event_reports_the_account_and_the_end_of_its_connection(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1")
    began = gateway.clock.wall()
    account = {"wuid": "551@s.whatsapp.net", "profileName": "Loja", "profilePictureUrl": "https://x/p.jpg"}
    for state, more in (("open", account), ("close", {"statusReason": 428})):
        data = {"instance": "loja1", "state": state, "statusReason": 200, **more}
        event = {"event": "CONNECTION_UPDATE", "data": data, "date_time": "2026-11-20T12:00:00.000Z"}
        assert (await client.post("/event/emit/loja1", json=event)).status_code == 202
    (shown,) = (await client.get("/instance/fetchInstances")).json()
    for one in (shown, shown["instance"]):
        assert [one[name] for name in ("ownerJid", "profileName", "profilePicUrl")] == list(account.values())
    assert shown["instance"]["owner"] == "551@s.whatsapp.net"
    assert shown["disconnectionReasonCode"] == 428
    # By hookgw's clock: a producer may write its local time.
    ended = datetime.fromisoformat(shown["disconnectionAt"]).timestamp()
    assert began - 0.001 <= ended <= gateway.clock.wall()


async def test_a_webhook_without_a_url_is_none(client: httpx.AsyncClient) -> None:
    """n8n's nodes send this if somebody fills in the events alone."""
    webhook = {"url": "", "byEvents": False, "base64": False, "events": ["MESSAGES_UPSERT"]}
    body = {"instanceName": "loja1", "webhook": webhook}
    client.event_hooks = {}  # the document publishes what clients should send
    answer = (await client.post("/instance/create", json=body)).json()
    assert answer["warnings"] == ["webhook.url is empty: no registration was set."]
    assert (await client.get("/webhook/find/loja1")).json() is None


async def test_an_instance_without_its_connector_says_what_to_do(client: httpx.AsyncClient) -> None:
    body = {"instanceName": "loja1", "integration": "WHATSAPP-BAILEYS", "qrcode": True}
    created = (await client.post("/instance/create", json=body)).json()
    said = "o connector is set up for WHATSAPP-BAILEYS: events come only over HTTP. Name one in "
    assert said in "\n".join(created["warnings"])
    state = (await client.get("/instance/connectionState/loja1")).json()["instance"]
    (listed,) = (await client.get("/instance/fetchInstances")).json()
    assert said in state["reason"]
    assert listed["disconnectionReason"] == state["reason"]
    message = {"number": "5511988887777", "text": "hi"}
    for answer in (
        await client.get("/instance/connect/loja1"),
        await client.post("/instance/restart/loja1"),
        await client.patch("/instance/options/loja1", json={"a": 1}),
        await client.post("/message/sendText/loja1", json=message),
    ):
        assert (answer.status_code, answer.json()["response"]["message"]) == (409, [state["reason"]])
        (error,) = answer.json()["response"]["errors"]
        assert error["id"] == "instance.integration_without_connector"


class TestWithAConnectorForBaileys:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(
            settings, instances=InstancesSettings(integrations={"WHATSAPP-BAILEYS": "simulator"})
        )

    async def test_from_create_to_delete(self, client: httpx.AsyncClient) -> None:
        body = {
            "instanceName": "loja1",
            "integration": "WHATSAPP-BAILEYS",
            "qrcode": True,
            "number": "5511988887777",
            "rabbitmq": {"enabled": False},
            "connect_delay": "1h",
        }
        created = await client.post("/instance/create", json=body)
        answer = created.json()
        assert created.status_code == 201, answer
        shown = answer["instance"]
        assert (shown["integration"], shown["connector"]) == ("WHATSAPP-BAILEYS", "simulator")
        assert (shown["status"], shown["options"]) == ("connecting", {"connect_delay": "1h"})
        assert answer["warnings"] == [
            "number is an unknown field; it was ignored.",
            "rabbitmq is an unknown field; it was ignored.",
        ]
        assert list(answer["qrcode"]) == ["pairingCode", "code", "base64", "count"]
        assert answer["qrcode"]["base64"].startswith("data:image/png;base64,")

        connected = (await client.get("/instance/connect/loja1")).json()
        assert {name: connected[name] for name in answer["qrcode"]} == answer["qrcode"]
        assert connected["count"] == 1
        for _ in range(3):  # while the code is shown
            state = (await client.get("/instance/connectionState/loja1")).json()
            assert state == {"instance": {"instanceName": "loja1", "state": "connecting"}}
        (listed,) = (await client.get("/instance/fetchInstances")).json()
        assert (listed["integration"], listed["connector"]) == ("WHATSAPP-BAILEYS", "simulator")
        assert (await client.delete("/instance/logout/loja1")).status_code == 200
        (listed,) = (await client.get("/instance/fetchInstances")).json()
        assert listed["disconnectionReasonCode"] == 401
        assert listed["disconnectionAt"] is not None
        assert (await client.delete("/instance/delete/loja1")).status_code == 200

    async def test_an_open_connection_is_called_connected(self, client: httpx.AsyncClient) -> None:
        """A client of Evolution API fails with any other word in the response to `create`."""
        body = {
            "instanceName": "loja1",
            "integration": "WHATSAPP-BAILEYS",
            "qrcode": True,
            "qr_code": False,
            "connect_delay": 0,
        }
        answer = (await client.post("/instance/create", json=body)).json()
        assert answer["instance"]["status"] == "connected"
        assert "qrcode" not in answer
        (listed,) = (await client.get("/instance/fetchInstances")).json()
        assert listed["connectionStatus"] == listed["instance"]["status"] == "open"
        assert listed["ownerJid"] is not None

    async def test_an_instance_that_cannot_be_connected_is_created_all_the_same(
        self, client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def refuse(name: str) -> None:
            raise Unavailable("hookgw is shutting down.")

        monkeypatch.setattr(gateway.instances, "connect", refuse)
        body = {"instanceName": "loja1", "integration": "simulator", "qrcode": True}
        response = await client.post("/instance/create", json=body)
        assert response.status_code == 201
        assert response.json()["warnings"] == [
            "qrcode: the instance is not connected: hookgw is shutting down."
        ]

    async def test_the_connectors_own_name_keeps_all_options(self, client: httpx.AsyncClient) -> None:
        body = {"instanceName": "loja1", "integration": "simulator", "number": "1"}
        answer = (await client.post("/instance/create", json=body)).json()
        assert answer["instance"]["options"] == {"number": "********"}
