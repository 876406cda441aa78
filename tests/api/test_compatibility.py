"""``server.compatibility: evolution``: where responses are those of Evolution API, and not hookgw's own."""

from typing import Any

import httpx
import msgspec
import pytest

from hookgw import Gateway, __version__
from tests.api.conftest import KEY
from tests.public.config import AuthSettings, ServerSettings, Settings
from tests.public.web import AppApplication as Application

WRONG = {"apikey": "a-wrong-key"}


class TestHookgw:
    async def test_a_wrong_field_and_a_foreign_key(self, client: httpx.AsyncClient, gateway: Gateway) -> None:
        _, key, _ = await gateway.instances.create("loja1")
        sent = await client.post("/webhook/set/loja1", json={})
        assert (sent.status_code, sent.json()["response"]["message"]) == (400, ["url is missing."])
        foreign = await client.get("/webhook/find/loja2", headers={"apikey": key})
        assert foreign.status_code == 403
        assert (await client.get("/")).json()["version"] == __version__


class TestEvolution:
    @pytest.fixture
    def server_settings(self) -> ServerSettings:
        return ServerSettings(bind=("127.0.0.1:0",), compatibility="evolution")

    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, auth=AuthSettings(global_key=KEY, failed_attempts=3))

    async def test_the_version_and_the_message(self, client: httpx.AsyncClient) -> None:
        answer = await client.get("/")
        assert answer.json()["version"] == "2.3.7"
        assert answer.json()["message"] == "Welcome to the Evolution API, it is working!"
        assert answer.headers["x-hookgw-version"] == __version__

    @pytest.mark.parametrize(
        ("path", "body", "said"),
        [
            ("/webhook/set/loja1", {}, "url is missing."),
            ("/webhook/set/loja1", {"url": 1}, "url must be a string, not a number."),
            ("/webhook/set/loja1", {"url": "https://x", "events": ["NO_SUCH"]}, "NO_SUCH"),
            ("/webhook/set/loja1", [1], "The body must be an object, not a list."),
            ("/instance/create", {}, "instanceName is missing."),
            ("/instance/create", {"instanceName": "a", "integration": "other"}, "no connector 'other'"),
            (
                "/instance/create",
                {"instanceName": "a", "integration": "simulator", "chats": "x"},
                "chats: the value is not of type",
            ),
            ("/message/sendText/loja1", {"number": "1"}, "text is missing."),
            ("/message/sendLocation/loja1", {"number": "1", "latitude": "x", "longitude": 1}, "latitude"),
            ("/chat/findChats/loja1", {"page": "x"}, "page must be a whole number"),
        ],
    )
    async def test_messages_about_fields_are_a_list_in_the_list(
        self, path: str, body: Any, said: str, client: httpx.AsyncClient, gateway: Gateway
    ) -> None:
        await gateway.instances.create("loja1")
        answer = await client.post(path, json=body)
        assert answer.status_code == 400
        (messages,) = answer.json()["response"]["message"]
        assert isinstance(messages, list)
        assert said in messages[0]

    async def test_other_messages_are_a_list(self, client: httpx.AsyncClient) -> None:
        for answer, status in (
            (await client.get("/webhook/find/nobody"), 404),
            (await client.get("/nowhere"), 404),
            (
                await client.post(
                    "/instance/create", content="{", headers={"content-type": "application/json"}
                ),
                400,
            ),
        ):
            assert answer.status_code == status
            assert all(isinstance(message, str) for message in answer.json()["response"]["message"])

    async def test_another_instances_key_gets_401_and_does_not_count_as_a_wrong_key(
        self, client: httpx.AsyncClient, gateway: Gateway
    ) -> None:
        _, key, _ = await gateway.instances.create("loja1")
        await gateway.instances.create("loja2")
        own = {"apikey": key}
        for _ in range(4):
            for method, path, body in (
                ("GET", "/webhook/find/loja2", None),
                ("GET", "/webhook/find/nobody", None),
                ("POST", "/event/emit/loja2", {"event": "CALL", "data": {}}),
                ("POST", "/instance/create", {"instanceName": "loja3"}),
                ("POST", "/verify-creds", None),
            ):
                answer = await client.request(method, path, json=body, headers=own)
                assert (answer.status_code, answer.json()["error"]) == (401, "Unauthorized"), path
                assert "www-authenticate" in answer.headers
        assert (await client.get("/webhook/find/loja1", headers=own)).status_code == 200
        for _ in range(3):
            assert (await client.get("/webhook/find/loja1", headers=WRONG)).status_code == 401
        assert (await client.get("/webhook/find/loja1", headers=WRONG)).status_code == 429

    async def test_a_name_that_is_taken_is_403(self, client: httpx.AsyncClient, gateway: Gateway) -> None:
        await gateway.instances.create("loja1")
        answer = await client.post("/instance/create", json={"instanceName": "loja1"})
        assert answer.status_code == 403
        assert "already in use" in answer.json()["response"]["message"][0]  # clients look for these words

    async def test_the_document_says_so(self, app: Application, client: httpx.AsyncClient) -> None:
        document = (await client.get("/openapi.json")).json()
        items = document["components"]["schemas"]["Messages"]["properties"]["message"]["items"]
        assert [one["type"] for one in items["anyOf"]] == ["string", "array"]
