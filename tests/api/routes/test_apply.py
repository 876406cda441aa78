"""``POST /apply``: what should be there, and what it answers."""

from typing import Any

import httpx
import pytest

from hookgw import Gateway
from tests.api.conftest import KEY

HOOK = "https://crm.example/hook"


class Api:
    """Applies documents with the global key."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def post(self, document: Any, **query: str) -> httpx.Response:
        return await self._client.post("/apply", json=document, params=query, headers={"apikey": KEY})

    async def apply(self, document: Any, **query: str) -> Any:
        response = await self.post(document, **query)
        assert response.status_code == 200, response.text
        return response.json()

    async def mistakes(self, document: Any, **query: str) -> list[str]:
        response = await self.post(document, **query)
        assert response.status_code == 400, response.text
        found: list[str] = response.json()["response"]["message"]
        return found


@pytest.fixture
def api(client: httpx.AsyncClient) -> Api:
    return Api(client)


def shown(applied: Any) -> list[str]:
    """Return the changes as a plan shows them."""
    signs = {"create": "+", "change": "~", "delete": "-", "conflict": "!"}
    return sorted(
        f"{signs[one['action']]} {one['name']}{'/' + one['label'] if one['label'] else ''}"
        f"{' ' + ','.join(one['fields']) if one['fields'] else ''}"
        for one in applied["changes"]
    )


DOCUMENT = {
    "name": "acme",
    "defaults": {
        "connector": "simulator",
        "tags": {"plan": "gold"},
        "webhook": {"events": ["MESSAGES_UPSERT"], "headers": {"authorization": "Bearer s3cret-s3cret"}},
    },
    "instances": {
        "loja1": {
            "webhooks": {"crm": {"url": HOOK}, "n8n": {"url": "https://n8n.example"}},
            "tags": {"tenant": "a"},
        },
        "loja2": {"settings": {"rejectCall": True}, "options": {"quietAfter": "1h"}},
        "loja3": None,
    },
}


async def test_a_document_makes_what_it_says_and_then_changes_nothing(api: Api, gateway: Gateway) -> None:
    planned = await api.apply(DOCUMENT, dryRun="true")
    assert shown(planned) == ["+ loja1", "+ loja1/crm", "+ loja1/n8n", "+ loja2", "+ loja3"]
    assert {one["state"] for one in planned["changes"]} == {"planned"}
    assert gateway.instances.count() == 0
    applied = await api.apply(DOCUMENT)
    assert {one["state"] for one in applied["changes"]} == {"done"}
    loja1, loja2 = gateway.instances.get("loja1"), gateway.instances.get("loja2")
    assert (loja1.integration, loja1.tags) == ("simulator", {"plan": "gold", "tenant": "a"})
    assert loja2.settings.reject_call
    assert loja2.quiet_after == 3600
    crm = gateway.registrations.get("loja1", "crm")
    assert crm.events == ("MESSAGES_UPSERT",)
    assert crm.headers == {"authorization": "Bearer s3cret-s3cret"}
    again = await api.apply(DOCUMENT)
    assert (again["changes"], again["unchanged"]) == ([], 5)
