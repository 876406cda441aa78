"""The document of a running gateway: it has every route, and it is correct."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema_rs
import msgspec
import pytest
import trio

from hookgw import Gateway, describes
from hookgw.connectors import message_data, text_data
from tests.api.conftest import open_client
from tests.public.app import request_schemas
from tests.public.config import Settings
from tests.public.web import AppApplication as Application
from tests.public.web import OpenApiRoutes, Routing, document_path, operation_of, routes_of
from tests.support.application import create_app
from tests.support.contract import Contract

METHODS = {"get", "post", "delete", "put", "patch"}


@pytest.fixture
def document(app: Application, gateway: Gateway) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        msgspec.json.encode(OpenApiRoutes(app, gateway, request_schemas).document)
    )
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def refs(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from refs(value)
    elif isinstance(node, list):
        for value in node:
            yield from refs(value)


async def test_what_selects_deliveries_has_one_form_in_lists_and_bodies(document: dict[str, Any]) -> None:
    lists = [
        {one["name"]: one["schema"] for one in document["paths"][path]["get"]["parameters"]}
        for path in ("/delivery/list", "/event/list")
    ]
    bodies = [
        document["components"]["schemas"][name]["properties"] for name in ("ReplayRequest", "CancelRequest")
    ]
    for name in ("label", "host", "status", "error", "person", "failedSince", "since", "until"):
        forms = [one[name] for one in lists]
        forms += [{**one[name], "type": one[name]["type"][0]} for one in bodies]
        for form in forms:
            form.pop("description", None)
        assert all(form == forms[0] for form in forms), (name, forms)


async def test_every_route_declares_itself(app: Application) -> None:
    silent = [
        rule.rule
        for rule in app.routing.url_map.iter_rules()
        if operation_of(app.routing.view_functions[rule.endpoint]) is None
    ]
    assert silent == []


async def test_every_route_is_in_the_document(app: Application, document: dict[str, Any]) -> None:
    routes = {(document_path(route.path), route.method.lower()) for route in routes_of(app.routing)}
    assert {(path, method) for path, method, _ in operations(document)} == routes
    assert len(routes) >= 30
    assert {method for _, method in routes} <= METHODS


async def test_every_operation_is_complete(document: dict[str, Any]) -> None:
    found = list(operations(document))
    ids = [operation["operationId"] for _, _, operation in found]
    assert len(set(ids)) == len(ids)
    # Plugins' routes alone are told apart like this: it says nothing.
    assert [one for one in ids if one.endswith("Again")] == []
    for path, _, operation in found:
        assert operation["summary"].endswith((".", "key.")), path
        assert "``" not in operation["summary"], path
        named = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path))
        assert "500" in operation["responses"]
        # The network's proof is no key of hookgw's.
        assert ("401" in operation["responses"]) == (
            operation.get("security") != [] or path.startswith("/ingest/")
        )
        assert any(status < "300" for status in operation["responses"])


async def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for ref in set(refs(document)):
        node: Any = document
        for part in ref.removeprefix("#/").split("/"):
            node = node[part]


async def test_every_schema_is_valid_and_used(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        assert schema.get("description"), name
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        assert f"#/components/schemas/{name}" in set(refs(document)), name


async def test_what_every_connector_returns_has_a_type(document: dict[str, Any]) -> None:
    """Generated clients keep only the fields of their types."""
    returned = {
        "SentMessage": message_data({}, ("", {}), 0, status="PENDING", source="web"),
        "EditedMessage": text_data({}, "Oi", 0),
    }
    for name, data in returned.items():
        assert data.keys() <= document["components"]["schemas"][name]["properties"].keys()


async def test_the_code_of_a_network_has_a_type_with_every_status(document: dict[str, Any]) -> None:
    """A connector may choose a status that hookgw itself uses, such as 429."""
    for name in ("Messages", "Refusal"):
        assert document["components"]["schemas"][name]["properties"]["code"]["type"] == "string"


async def test_every_field_of_a_response_has_a_meaning(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        for field, described in schema.get("properties", {}).items():
            assert described.get("description"), (name, field)


async def test_every_example_is_accepted(
    app: Application, client: httpx.AsyncClient, gateway: Gateway
) -> None:
    """The client also validates each against its schema."""
    pytest.importorskip("mcp")  # one of the examples calls /mcp
    document = OpenApiRoutes(app, gateway, request_schemas).document
    for path, method, operation in operations(document):
        for media, content in operation.get("requestBody", {}).get("content", {}).items():
            for title, example in content.get("examples", {}).items():
                await gateway.registrations.set("loja1", "crm", _change(), create=True)
                await gateway.registrations.set("loja1", "default", _change())
                if operation["operationId"] == "instanceCreate":
                    await gateway.instances.delete("loja1")
                url = path.replace("{instance}", "loja1").replace("{label}", "crm")
                url = url.replace("{kind}", "messages-upsert")
                response = await client.request(
                    method, url, json=example["value"], headers={"content-type": media}
                )
                # A connector, or a folder for backups.
                needs_more = (
                    "message",
                    "chat",
                    "instanceOptionsPatch",
                    "instanceSetPresence",
                    "storageBackup",
                    # The webhook is posted to a URL.
                    "deliveryPull",
                    "deliveryAck",
                )
                known = {409} if operation["operationId"].startswith(needs_more) else set()
                if "{id}" in path:
                    known = {404}  # there is no such delivery
                if operation["operationId"] == "chatGetBase64FromMediaMessage":
                    known = {400}  # there is no such message
                if operation["operationId"] == "problemMute":
                    known = {404}  # there is no such problem
                assert response.is_success or response.status_code in known, (path, title, response.text)


def _change() -> Any:
    from tests.public.webhooks import RegistrationChange

    return RegistrationChange(url="http://127.0.0.1:9/hook")


async def test_no_key_is_needed(app: Application, nursery: trio.Nursery) -> None:
    async with open_client(app, nursery) as stranger:
        response = await stranger.get("/openapi.json")
        again = await stranger.get("/openapi.json")
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.json()["openapi"] == "3.1.0"
    assert again.content == response.content


class TestBelowABasePath:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        server = msgspec.structs.replace(settings.server, base_path="/hooks")
        return msgspec.structs.replace(settings, server=server)

    async def test_the_document_names_the_base_path(self, client: httpx.AsyncClient) -> None:
        response = await client.get("/hooks/openapi.json")
        assert response.json()["servers"] == [{"url": "/hooks"}]
        assert (await client.get("/openapi.json")).status_code == 404


class TestWithAPublicUrl:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        server = msgspec.structs.replace(settings.server, public_url="https://hooks.example/gw/")
        return msgspec.structs.replace(settings, server=server)

    async def test_the_document_names_it(self, client: httpx.AsyncClient) -> None:
        """Of a path alone, Postman and Bruno make an empty address."""
        response = await client.get("/openapi.json")
        assert response.json()["servers"] == [{"url": "https://hooks.example/gw"}]


class Pong(msgspec.Struct):
    """What comes back.

    Attributes:
        count: how often.
    """

    count: int


async def test_the_document_has_the_routes_of_plugins(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(app: Routing, _: Gateway, _contains: object) -> None:
        @app.post("/public/ping/<int:number>")
        @describes("Ping", {200: Pong}, errors=(409,))
        async def ping(number: int) -> str:
            """Ping."""
            return ""

        @app.get("/backlog", endpoint="all")
        @app.get("/backlog/<instance>")
        @app.post("/backlog/<instance>", endpoint="add")
        async def backlog(instance: str) -> str:
            return ""

    monkeypatch.setattr(gateway.hooks, "routes", add)
    paths = OpenApiRoutes(create_app(gateway), gateway, request_schemas).document["paths"]
    ping = paths["/public/ping/{number}"]["post"]
    assert (ping["tags"], ping["summary"], ping["security"]) == (["Ping"], "Ping.", [])
    assert ping["responses"]["200"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/Pong"
    }
    assert "409" in ping["responses"]
    backlog = paths["/backlog/{instance}"]["get"]
    assert backlog["summary"] == "GET /backlog/{instance}"
    assert "default" in backlog["responses"]
    assert "403" in backlog["responses"]
    ids = {backlog["operationId"], paths["/backlog/{instance}"]["post"]["operationId"]}
    assert ids == {"backlogGet", "backlog"}
    assert paths["/backlog"]["get"]["operationId"] == "backlogGlobal"


async def test_the_document_has_the_names_of_this_gateway(document: dict[str, Any], gateway: Gateway) -> None:
    schemas = document["components"]["schemas"]
    for kind in gateway.catalog:
        assert (kind.name in schemas["KindName"]["enum"]) != kind.operational
        assert kind.name in schemas["AnyKindName"]["enum"]
    assert schemas["ConnectorName"]["enum"] == gateway.instances.connectors


async def test_drift_would_be_noticed(app: Application, client: httpx.AsyncClient) -> None:
    """This is the check that every client of these tests makes."""
    contract = Contract(app)
    answer = await client.get("/healthz")
    await contract.check(answer)
    answer = httpx.Response(200, headers=answer.headers, content=b'{"status": "odd"}', request=answer.request)
    with pytest.raises(jsonschema_rs.ValidationError):
        await contract.check(answer)
    answer.status_code = 418
    with pytest.raises(AssertionError, match="healthz does not declare 418"):
        await contract.check(answer)


@pytest.mark.parametrize("path", ["/instance/fetchInstances", "/lane/list", "/job/list"])
async def test_a_list_that_is_an_array_declares_the_header_of_its_cursor(
    document: dict[str, Any], path: str
) -> None:
    headers = document["paths"][path]["get"]["responses"]["200"]["headers"]
    assert headers["hookgw-cursor"]["schema"] == {"type": "string"}
    assert ("hookgw-silent-nodes" in headers) == (path != "/job/list")
