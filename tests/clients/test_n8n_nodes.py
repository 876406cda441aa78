"""The n8n nodes of Evolution API, from create to delete: their own code, without n8n around it."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import EVENTS, NUMBER, TOKENS, URL, until_open
from tests.support.gateway_process import KEY, Server
from tests.support.processes import PATIENCE

PACKAGE = os.environ.get("HOOKGW_N8N_NODES", "")
DRIVER = Path(__file__).with_name("n8n_driver.js")
NAME = "n8n"
PICTURE: dict[str, Any] = {
    "key": {"remoteJid": f"{NUMBER}@s.whatsapp.net", "fromMe": False, "id": "3EB0C0BD05DCA97A7C09CB"},
    "message": {"imageMessage": {"mimetype": "image/png"}, "base64": "SGVsbG8="},
    "messageType": "imageMessage",
    "messageTimestamp": 1773027345,
}

pytestmark = pytest.mark.skipif(
    not PACKAGE or shutil.which("node") is None,
    reason="n8n's nodes need node and npm: nox -s clients installs them if npm is there",
)


def run_node(server: Server, resource: str, operation: str, **parameters: Any) -> Any:
    """Execute the node once, as a workflow does. Return the JSON of its one item."""
    asked = {
        "parameters": {"resource": resource, "operation": operation, "instanceName": NAME, **parameters},
        "credentials": {"server-url": server.url, "apikey": KEY},
    }
    done = subprocess.run(
        ["node", DRIVER, PACKAGE],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ((item,),) = json.loads(done.stdout)
    return item["json"]


def test_from_create_to_delete(server: Server, has_network: bool) -> None:
    def instances(operation: str, **parameters: Any) -> Any:
        return run_node(server, "instances-api", operation, **parameters)

    webhook = {
        "webhookUrl": URL,
        "webhookByEvents": False,
        "webhookBase64": True,
        "webhookEvents": EVENTS,
    }
    settings = {"rejectCall": True, "msgCall": "Only texts", "alwaysOnline": True}
    created = instances(
        "instance-basic",
        token=TOKENS[NAME],
        number="",
        options_Create_instance={
            "instanceSettings": {"settings": settings},
            "webhook": {"webhookSettings": webhook},
            "rabbitmq": {"rabbitmqSettings": {"rabbitmqEnabled": False}},
        },
    )
    assert created["success"] is True, created
    answer = created["data"]
    assert (answer["hash"], answer["instance"]["integration"]) == (TOKENS[NAME], "WHATSAPP-BAILEYS")
    assert (answer["webhook"]["url"], answer["webhook"]["events"]) == (URL, EVENTS)
    (listed,) = instances("fetch-instances")["data"]
    assert {name: listed["Setting"][name] for name in settings} == settings

    found = run_node(server, "events-api", "webhook", resourceForWebhook="findWebhook")
    assert found["data"]["webhookBase64"] is True
    # Without a URL the node sends "vazio".
    disabled = {"enabled": False, "webhookUrl": "", "webhookByEvents": False, "webhookBase64": False}
    kept = run_node(
        server, "events-api", "webhook", resourceForWebhook="setWebhook", webhookEvents=[], **disabled
    )
    assert kept["data"]["enabled"] is False
    changed = dict.fromkeys(("rejectCall", "groupsIgnore", "alwaysOnline", "readMessages"), False)
    stored = instances("instance-settings", syncFullHistory=False, readStatus=True, msgCall="", **changed)
    assert stored["data"]["settings"]["settings"]["readStatus"] is True

    def send(**options: Any) -> Any:
        return run_node(
            server, "messages-api", "send-text", remoteJid=NUMBER, messageText="Oi", options_message=options
        )

    def chats_and_groups() -> None:
        server.post(f"/webhook/set/{NAME}/crm", {"url": URL}, status=201)  # what nobody wants is not stored
        event = {"event": "MESSAGES_UPSERT", "data": PICTURE}
        server.post(f"/event/emit/{NAME}", event, status=202)
        found = run_node(server, "chat-api", "find-messages", remoteJid=f"{NUMBER}@s.whatsapp.net")
        assert found["data"]["messages"]["records"][0]["key"]["id"] == PICTURE["key"]["id"]
        file = run_node(
            server, "chat-api", "get-media-base64", messageId=PICTURE["key"]["id"], convertToMp4=False
        )
        assert (file["data"]["base64"], file["data"]["mediaType"]) == ("SGVsbG8=", "imageMessage")
        picture = run_node(server, "chat-api", "fetch-profile-picture", number=NUMBER)
        assert picture["data"]["profilePictureUrl"]
        groups = run_node(
            server, "groups-api", "fetch-groups", searchMethod="fetchAll", getParticipants=True
        )["data"]
        group = run_node(
            server, "groups-api", "fetch-groups", searchMethod="groupJid", groupJid=groups[0]["id"]
        )
        assert group["data"] == groups[0]

    connected = instances("instance-connect")
    if has_network:
        assert {"pairingCode", "code", "base64", "count"} <= connected["data"].keys()
        until_open(lambda: server.get(f"/instance/connectionState/{NAME}")["instance"]["state"])
        sent = send(linkPreview=False)["data"]
        assert {"key", "message", "messageType", "messageTimestamp", "status"} <= sent.keys()
        quoting = send(quoted={"messageQuoted": {"messageId": sent["key"]["id"]}}, delay=10)
        assert quoting["success"] is True
        numbers = run_node(server, "chat-api", "check-number", numbers=f"{NUMBER}, 1")["data"]
        assert [one["exists"] for one in numbers] == [True, False]
        chats_and_groups()
        assert instances("set-presence", presence="available")["success"] is True
        assert instances("restart-instance")["success"] is True
        assert instances("logout-instance")["success"] is True
    else:
        assert connected["success"] is False
        assert "409" in connected["error"]["details"]
        assert send()["success"] is False
    assert instances("delete-instance")["success"] is True
    assert instances("fetch-instances")["data"] == []
