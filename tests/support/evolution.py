"""A scripted Evolution API 2: it answers what ``hookgw import evolution`` asks, as version 2.3.6 does."""

import json
from typing import Any
from urllib.parse import unquote

from hookgw.testing import Answer, Received, answer

KEY = "429683C4C977415CAAFCCE10F7D57E11"
"""Its global key."""
TIME = "2026-11-01T12:00:00.000Z"
OWN_SETTINGS = {
    "rejectCall": False,
    "msgCall": "",
    "groupsIgnore": False,
    "alwaysOnline": False,
    "readMessages": False,
    "readStatus": False,
    "syncFullHistory": False,
    "wavoipToken": "",
}


class Evolution:
    """What the server has. Pass :meth:`respond` to a receiver as its default answer."""

    def __init__(self) -> None:
        self.instances: dict[str, dict[str, Any]] = {}
        self.webhooks: dict[str, dict[str, Any]] = {}
        self.settings: dict[str, dict[str, Any]] = {}

    def add(
        self,
        name: str,
        *,
        token: str | None,
        webhook: dict[str, Any] | None = None,
        settings: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Add an instance, with the fields that differ from those of a new one."""
        number = len(self.instances)
        ids = {"id": f"setting{number}", "createdAt": TIME, "updatedAt": TIME, "instanceId": f"id{number}"}
        stored = {**ids, **OWN_SETTINGS, **(settings or {})}
        self.instances[name] = {
            "id": f"id{number}",
            "name": name,
            "connectionStatus": "open",
            "ownerJid": "5511988887777@s.whatsapp.net",
            "profileName": "Loja",
            "profilePicUrl": None,
            "integration": "WHATSAPP-BAILEYS",
            "number": None,
            "businessId": None,
            "token": token,
            "clientName": "evolution_exchange",
            "disconnectionReasonCode": None,
            "disconnectionObject": None,
            "disconnectionAt": None,
            "createdAt": TIME,
            "updatedAt": TIME,
            "Chatwoot": None,
            "Proxy": None,
            "Rabbitmq": None,
            "Nats": None,
            "Sqs": None,
            "Websocket": None,
            "Setting": stored,
            "_count": {"Message": 12, "Contact": 3, "Chat": 2},
            **fields,
        }
        self.settings[name] = stored
        if webhook is not None:
            self.webhooks[name] = {
                "id": f"webhook{number}",
                "url": "https://crm.example/hook",
                "headers": {},
                "enabled": True,
                "events": ["MESSAGES_UPSERT", "CONNECTION_UPDATE"],
                "webhookByEvents": False,
                "webhookBase64": False,
                "createdAt": TIME,
                "updatedAt": TIME,
                "instanceId": f"id{number}",
                **webhook,
            }

    def respond(self, request: Received) -> Answer:
        tokens = {instance["token"] for instance in self.instances.values()}
        if request.header("apikey") not in {KEY, *tokens}:
            return _json({"status": 401, "error": "Unauthorized"}, 401)
        first, second, *rest = request.path.strip("/").split("/")
        match (request.method, f"{first}/{second}"):
            case "GET", "instance/fetchInstances":
                return _json(list(self.instances.values()))
            case "GET", "webhook/find":
                return _json(self.webhooks.get(unquote(rest[0])))
            case "GET", "settings/find":
                return _json(self.settings[unquote(rest[0])])
        raise AssertionError(f"{request.method} {request.target}: only reading was asked for")


def _json(value: Any, status: int = 200) -> Answer:
    headers = {"content-type": "application/json; charset=utf-8"}
    return answer(status, json.dumps(value), headers=headers)
