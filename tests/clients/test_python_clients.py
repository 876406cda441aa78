"""Python clients of Evolution API, from create to delete."""

import asyncio
import base64
import json
import os
import sys
from typing import Any

import pytest

from tests.clients.conftest import EVENTS, NUMBER, TOKENS, URL, until_open
from tests.support.gateway_process import KEY, Server


def test_evolutionapi(server: Server, has_network: bool) -> None:
    """It returns decoded JSON, or raises for any status that is no success."""
    client_module = pytest.importorskip("evolutionapi.client")
    instances = pytest.importorskip("evolutionapi.models.instance")
    messages = pytest.importorskip("evolutionapi.models.message")
    errors = pytest.importorskip("evolutionapi.exceptions")
    client = client_module.EvolutionClient(server.url, KEY)
    config = instances.InstanceConfig(
        instanceName="evolutionapi",
        integration="WHATSAPP-BAILEYS",
        token=TOKENS["evolutionapi"],
        qrcode=True,
        rejectCall=True,
        msgCall="Only texts",
    )
    created = client.instances.create_instance(config)
    assert (created["hash"], created["instance"]["integration"]) == (
        TOKENS["evolutionapi"],
        "WHATSAPP-BAILEYS",
    )
    (listed,) = [one for one in client.instances.fetch_instances() if one["name"] == "evolutionapi"]
    assert (listed["Setting"]["rejectCall"], listed["token"]) == (True, "********")

    operations = client.instance_operations

    def state() -> Any:
        return operations.get_connection_state("evolutionapi", TOKENS["evolutionapi"])["instance"]["state"]

    text = messages.TextMessage(number=NUMBER, text="Oi", delay=10)
    if has_network:
        assert created["qrcode"]["base64"].startswith("data:image/png;base64,")
        shown = operations.connect("evolutionapi", TOKENS["evolutionapi"])
        assert {"pairingCode", "code", "base64", "count"} <= shown.keys()
        assert state() == "connecting"
        until_open(state)
        sent = client.messages.send_text("evolutionapi", text, TOKENS["evolutionapi"])
        assert {"key", "message", "messageType", "messageTimestamp", "status"} <= sent.keys()
        assert operations.logout("evolutionapi", TOKENS["evolutionapi"])["status"] == "SUCCESS"
    else:
        with pytest.raises(errors.EvolutionAPIError, match="409"):
            operations.connect("evolutionapi", TOKENS["evolutionapi"])
        # It gives the body of a POST, whatever the status.
        assert client.messages.send_text("evolutionapi", text, TOKENS["evolutionapi"])["status"] == 409
    assert state() == "close"
    assert operations.delete("evolutionapi", TOKENS["evolutionapi"])["error"] is False
    with pytest.raises(errors.EvolutionAuthenticationError):
        state()


def test_pyevolutionapi(server: Server, has_network: bool) -> None:
    """It validates responses with pydantic: other values of its enums fail."""
    package = pytest.importorskip("pyevolutionapi")
    models = pytest.importorskip("pyevolutionapi.models.webhook")
    errors = pytest.importorskip("pyevolutionapi.exceptions")
    with package.EvolutionClient(server.url, KEY) as client:
        webhook = {"url": URL, "byEvents": False, "base64": True, "events": EVENTS}
        created = client.instance.create(
            "pyevolutionapi",
            token=TOKENS["pyevolutionapi"],
            reject_call=True,
            groups_ignore=True,
            webhook=webhook,
        )
        assert (created.hash, created.is_success) == (TOKENS["pyevolutionapi"], True)
        assert created.instance.integration == "WHATSAPP-BAILEYS"
        assert created.instance.status == ("connecting" if has_network else "close")
        (listed,) = client.instance.fetch_instances(instance_id=created.instance.instance_id)
        assert (listed.id, listed.integration) == (created.instance.instance_id, "WHATSAPP-BAILEYS")
        assert (listed.Setting["rejectCall"], listed.Setting["groupsIgnore"]) == (True, True)

        # Its own set fails before it sends anything: it gives httpx a pydantic URL. Not validated, it is a
        # text.
        config = models.WebhookConfig.model_construct(
            url=URL, enabled=True, webhook_by_events=True, webhook_base64=False, events=EVENTS
        )
        with pytest.warns(UserWarning, match="Pydantic serializer"):
            client.webhook.set_webhook("pyevolutionapi", config)
        client.webhook.find_webhook("pyevolutionapi")
        stored = client.webhook._get("/webhook/find/pyevolutionapi")
        assert (stored["url"], stored["webhookByEvents"], stored["events"]) == (URL, True, EVENTS)

        def state() -> Any:
            return client.instance.connection_state("pyevolutionapi")["instance"]["state"]

        if has_network:
            assert created.qr_code_base64.startswith("data:image/png;base64,")
            shown = client.instance.connect("pyevolutionapi")
            assert shown.qr_code_base64 == created.qr_code_base64
            assert (shown.instance.state, state()) == ("connecting", "connecting")
            until_open(state)
            # Its model of the response wants a key inside of `message`, which Evolution API does not send
            # either. The message itself was sent.
            with pytest.raises(ValueError, match=r"message\.key"):
                client.messages.send_text("pyevolutionapi", NUMBER, "Oi")
            sent = {"number": NUMBER, "text": "Oi"}
            answer = client.messages._post("/message/sendText/pyevolutionapi", json=sent)
            assert {"key", "message", "messageType", "messageTimestamp", "status"} <= answer.keys()
            assert client.instance.logout("pyevolutionapi")["status"] == "SUCCESS"
        else:
            for call in (client.instance.connect, client.instance.logout):
                with pytest.raises(errors.EvolutionAPIError) as caught:
                    call("pyevolutionapi")
                assert caught.value.status_code == 409
        assert state() == "close"
        client.instance.delete("pyevolutionapi")
        assert client.instance.fetch_instances(instance_name="pyevolutionapi") == []


def test_evolution_whatsapp(server: Server, has_network: bool) -> None:
    """It only sends, so the instance is created and deleted without it."""
    package = pytest.importorskip("evolution_api")
    body = {
        "instanceName": "evolution-whatsapp",
        "integration": "WHATSAPP-BAILEYS",
        "token": TOKENS["evolution-whatsapp"],
    }
    server.post("/instance/create", {**body, "qrcode": True}, status=201)
    with package.EvoClient(
        server.url, api_key=TOKENS["evolution-whatsapp"], instance="evolution-whatsapp", max_retries=1
    ) as client:

        def state() -> Any:
            return client.connection_state()["instance"]["state"]

        if has_network:
            until_open(state)
            sent = client.send_text(NUMBER, "Oi", delay=10, link_preview=False)
            assert sent["key"]["remoteJid"] == f"{NUMBER}@s.whatsapp.net"
            sent = client.send_location(NUMBER, -23.55, -46.63, name="Shop", address="Rua Um, 1")
            assert sent["messageType"] == "locationMessage"
            (found,) = client.check_is_whatsapp([NUMBER])
            assert found["exists"] is True
        else:
            assert state() == "close"
            with pytest.raises(package.EvolutionAPIError, match="No connector is set up") as caught:
                client.send_text(NUMBER, "Oi")
            assert caught.value.status == 409
    assert server.http.delete("/instance/delete/evolution-whatsapp").status_code == 200


def test_cliente_evolution_api(server: Server, has_network: bool) -> None:
    """It was generated for Evolution API 1: no integration, PUT for restart, the key as a bearer token."""
    package: Any = pytest.importorskip("evolution_api_client")
    name = "cliente"
    configuration = package.Configuration(host=server.url, api_key={"apikeyAuth": KEY}, access_token=KEY)
    with package.ApiClient(configuration) as http:
        instances, webhooks = package.InstanceControllerApi(http), package.WebhookApi(http)
        body = package.InstanceCreatePostRequest(instance_name=name, token=TOKENS["cliente"], qrcode=True)
        instances.instance_create_post(body)
        found = [one.instance for one in instances.instance_fetch_instances_get()]
        (listed,) = [one for one in found if one.instance_name == name]
        assert listed.status == ("connecting" if has_network else "close")
        # Its enum of events has no members, so it can only ask for all of them.
        given = {"url": URL, "webhook_by_events": True, "webhook_base64": False}
        request = package.WebhookSetInstanceNamePostRequest(**given)
        webhooks.webhook_set_instance_name_post(name, request)
        webhooks.webhook_find_instance_name_get(name)
        assert server.get(f"/webhook/find/{name}")["webhookByEvents"] is True

        def state() -> Any:  # it drops the response
            instances.instance_connection_state_instance_name_get(name)
            return server.get(f"/instance/connectionState/{name}")["instance"]["state"]

        text = package.MessageSendTextInstanceNamePostRequestTextMessage(text="Oi")
        message = package.MessageSendTextInstanceNamePostRequest(number=NUMBER, text_message=text)
        messages = package.SendMessageControllerApi(http)
        if has_network:
            shown = instances.instance_connect_instance_name_get(name)
            assert shown.var_base64.startswith("data:image/png;base64,")
            assert state() == "connecting"
            until_open(state)
            messages.message_send_text_instance_name_post(name, message)
            instances.instance_restart_instance_name_put(name)
            instances.instance_logout_instance_name_delete(name)
        else:
            for call in (
                instances.instance_connect_instance_name_get,
                instances.instance_restart_instance_name_put,
                instances.instance_logout_instance_name_delete,
            ):
                with pytest.raises(package.ApiException) as caught:
                    call(name)
                assert caught.value.status == 409
        instances.instance_delete_instance_name_delete(name)
        assert name not in [one["name"] for one in server.get("/instance/fetchInstances")]


def test_whatsapp_toolkit(server: Server, has_network: bool) -> None:
    """It looks for its instance by `instance.name`, and sends only if that has an `ownerJid`."""
    package = pytest.importorskip("whatsapp_toolkit")
    body = {"instanceName": "toolkit", "integration": "WHATSAPP-BAILEYS", "token": TOKENS["toolkit"]}
    server.post("/instance/create", {**body, "qrcode": True}, status=201)
    if has_network:
        until_open(lambda: server.get("/instance/connectionState/toolkit")["instance"]["state"])
    client = package.WhatsappClient(TOKENS["toolkit"], server.url, "toolkit")
    if has_network:
        sent = json.loads(client.send_text(NUMBER, "Oi", delay_ms=10))
        assert sent["key"]["remoteJid"] == f"{NUMBER}@s.whatsapp.net"
        sticker = json.loads(client.send_sticker(NUMBER, base64.b64encode(b"webp").decode()))
        assert sticker["messageType"] == "stickerMessage"
        reaction = client.send_reaction(sent["key"]["remoteJid"], sent["key"]["id"], "👍", from_me=True)
        assert json.loads(reaction)["key"]
        # Its types accept no group without all of Evolution API's fields.
        groups = client.get_groups_typed()
        assert [len(group.participants) for group in groups.groups] == [11, 11]
    else:
        assert client.send_text(NUMBER, "Oi") is False  # the account is not connected
    assert client.delete_instance().status_code == 200


def test_evolution_api_mcp(server: Server, has_network: bool, is_evolution: bool) -> None:
    """It asks who it talks to before it does anything, as an assistant does through it."""
    pytest.importorskip("evolution_api_mcp")
    body = {"instanceName": "mcp", "integration": "WHATSAPP-BAILEYS", "token": TOKENS["mcp"], "webhook": URL}
    server.post("/instance/create", {**body, "qrcode": True}, status=201)
    if has_network:
        until_open(lambda: server.get("/instance/connectionState/mcp")["instance"]["state"])
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get_instance_status", {}),
        ("send_text_message", {"chat": NUMBER, "text": "Oi"}),
        ("list_chats", {}),
        ("read_messages", {"chat": NUMBER}),
        ("list_groups", {}),
        ("check_whatsapp_numbers", {"numbers": [NUMBER]}),
    ]
    answers = dict(zip((name for name, _ in calls), asyncio.run(call_tools(server, calls)), strict=True))
    if not is_evolution:
        assert "is not supported; this server needs Evolution API 2.x" in answers["get_instance_status"]
    elif has_network:
        shown = {name: json.loads(text) for name, text in answers.items()}
        status = shown["get_instance_status"]
        assert (status["instance"], status["state"]) == ("mcp", "open")
        assert status["evolution_version"] == "2.3.7"
        assert NUMBER in answers["send_text_message"]
        assert f"{NUMBER}@s.whatsapp.net" in [chat["chat_id"] for chat in shown["list_chats"]["chats"]]
        assert [one["text"] for one in shown["read_messages"]["messages"]] == ["Oi"]
        assert shown["list_groups"]["total"] == 2
        assert NUMBER in answers["check_whatsapp_numbers"]
    assert server.http.delete("/instance/delete/mcp").status_code in (200, 202)


async def call_tools(server: Server, calls: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Run the server of tools, as a host does, and return the text of each answer."""
    mcp = pytest.importorskip("mcp")
    stdio = pytest.importorskip("mcp.client.stdio")
    variables = {
        "EVOLUTION_API_URL": server.url,
        "EVOLUTION_INSTANCE_TOKEN": TOKENS["mcp"],
        "EVOLUTION_MCP_TOOLSETS": "all",
        "EVOLUTION_MCP_DEFAULT_DELAY_MS": "10",
    }
    parameters = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "evolution_api_mcp.server"], env={**os.environ, **variables}
    )
    async with mcp.Client(stdio.stdio_client(parameters)) as client:
        return [(await client.call_tool(name, arguments)).content[0].text for name, arguments in calls]
