"""Every route, with every method, called without permission: no route can be forgotten.

The path alone determines the key that a route requires. A new route without an instance is closed to instance
keys until it is added to one of the lists here and in :mod:`hookgw.web.auth`.
"""

import inspect
import re

import httpx
import pytest
from quart_trio import QuartTrio

from hookgw import Gateway
from hookgw.app import Dashboard, create_app
from hookgw.web import PLACES, VERIFY_PATH, CallPlace, place_of
from hookgw.web import AppApplication as Application
from tests.api.conftest import KEY
from tests.api.test_app import shape_of

OWN_KEY = "the-key-of-loja1"
OPEN = {"/", "/healthz", "/readyz", "/openapi.json", "/public/hello"}
OPEN |= {"/docs", "/docs/http", "/docs/<path:page>"}
TOKEN_IN_PATH = {
    "/ingest/<instance>/<token>",
    "/ingest/<instance>/<token>/<path:below>",
    "/media/<instance>/<token>",
}
"""Networks and readers of events call these: no key is needed, and none helps."""
FAST = ("/event/emit/", "/ingest/")
"""The routes with a fast path. All others are the same routes without fast paths, and walked once."""
ANY_KEY = {"/instance/fetchInstances", "/event/kinds", "/job/find/<job_id>", "/job/list", "/shared/colours"}
ANY_KEY |= {f"/job/{order}/<job_id>" for order in ("pause", "resume", "cancel")}
ANY_KEY |= {f"/delivery/{call}" for call in ("list", "replay", "cancel")}
ANY_KEY |= {"/mcp", "/event/list"}
FILLED = {
    "token": "wrong",
    "label": "crm",
    "name": "dlv_1",
    "key_name": "default",
    "job_id": "job_1",
    "event_id": "e-1",
    "rest": "notes",
    "part": "data",
    "below": "messages-upsert",
    "page": "start",
    "kind": "messages-upsert",
}
"""Values for the variables in paths other than the instance. Add every new variable here."""

Route = tuple[str, str, str]
"""The method, the path with its variables filled in, and its rule."""


class RoutesOfAPlugin:
    """Routes that a plugin adds, well protected and not."""

    def routes(self, app: QuartTrio, gateway: Gateway) -> None:
        @app.get("/public/hello")
        async def hello() -> str:
            return "hello"

        @app.get("/shared/colours")
        async def colours() -> str:
            return "red"

        @app.route("/crm/contacts/<instance>", methods=["GET", "PUT", "PATCH", "TRACE"])
        async def contacts(instance: str) -> str:
            return instance

        @app.get("/crm/<instance>/files/<path:rest>")
        async def files(instance: str, rest: str) -> str:
            return rest

        @app.get("/crm/export")
        async def export() -> str:
            return "everybody's"

        @app.get("/crm/of/<name>")
        async def careless(name: str) -> str:
            return name


@pytest.fixture(params=["short", "long"])
def app(request: pytest.FixtureRequest, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Application:
    """With a plugin's routes; with the fast path of emits, and without."""
    monkeypatch.setattr(gateway.hooks, "routes", RoutesOfAPlugin().routes)
    app = create_app(gateway)
    assert app.uses_fast_paths
    if request.param == "long":
        app.use_fast_paths()
    return app


@pytest.fixture
async def client(stranger: httpx.AsyncClient, gateway: Gateway) -> httpx.AsyncClient:
    """Without a key."""
    await gateway.instances.create("loja1", token=OWN_KEY)
    await gateway.instances.create("loja2")
    return stranger


def walk(app: Application, instance: str = "loja1") -> list[Route]:
    """Return every route; in an application without fast paths, the routes that have one otherwise."""
    filled = {**FILLED, "instance": instance}
    return [
        (method, re.sub(r"<(?:\w+:)?(\w+)>", lambda found: filled[found[1]], rule.rule), rule.rule)
        for rule in app.url_map.iter_rules()
        for method in sorted(rule.methods or ())
        if app.uses_fast_paths or rule.rule.startswith(FAST)
    ]


def scoped(routes: list[Route]) -> list[Route]:
    """Return the routes that name an instance."""
    return [route for route in routes if "<instance>" in route[2] and route[2] not in TOKEN_IN_PATH]


def told(response: httpx.Response) -> tuple[object, ...]:
    """Return everything in a response except the time."""
    headers = [(name, value) for name, value in response.headers.items() if name != "date"]
    return response.status_code, response.content, headers


async def test_the_walk_sees_everything(app: Application) -> None:
    rules = {rule for _, _, rule in walk(app)}
    if not app.uses_fast_paths:
        assert rules == {rule.rule for rule in app.url_map.iter_rules() if rule.rule.startswith(FAST)}
        return
    assert rules == {rule.rule for rule in app.url_map.iter_rules()}
    assert len(scoped(walk(app))) >= 60
    assert rules >= OPEN | ANY_KEY | {"/crm/export", "/key/delete/<instance>/<key_name>"}


@pytest.mark.parametrize("key", [None, "", "wrong", KEY + "x", KEY.upper(), OWN_KEY + " x", OWN_KEY[:-1]])
async def test_no_route_responds_without_a_key(
    key: str | None, app: Application, client: httpx.AsyncClient
) -> None:
    headers = {} if key is None else {"apikey": key}
    for method, path, rule in walk(app):
        if rule in OPEN | TOKEN_IN_PATH:
            continue
        response = await client.request(method, path, headers=headers)
        assert response.status_code == 401, (method, path)
        assert "www-authenticate" in response.headers
        assert method == "HEAD" or shape_of(response)


async def test_no_route_lets_an_instance_key_access_another_instance(
    app: Application, client: httpx.AsyncClient
) -> None:
    """The response is the same whether or not the instance exists."""
    client.headers["apikey"] = OWN_KEY
    routes = zip(
        scoped(walk(app, "loja2")), scoped(walk(app, "nobody")), scoped(walk(app, "a b")), strict=True
    )
    for (method, path, _), (_, elsewhere, _), (_, impossible, _) in routes:
        response = await client.request(method, path)
        assert response.status_code == 403, (method, path)
        others = [await client.request(method, other) for other in (elsewhere, impossible)]
        assert told(response) == told(others[0]) == told(others[1])
        assert method == "HEAD" or shape_of(response) == ["This key belongs to another instance."]


async def test_a_refusal_looks_nothing_up(
    app: Application, client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the duration of a refusal reveals nothing either."""

    def look(*_: object, **__: object) -> None:
        pytest.fail("looked up")

    with monkeypatch.context() as patched:
        services = (gateway.events, gateway.instances, gateway.registrations, gateway.keys)
        for part in (*services, gateway.deliveries, gateway.store):
            for name, _ in inspect.getmembers(part, inspect.isroutine):
                # In a fleet a key is looked up once more, before anything is: another node may have made it.
                is_of_key = gateway.fleet is not None and part is gateway.keys and name == "holder_of"
                if not name.startswith("_") and not is_of_key:
                    patched.setattr(part, name, look)
        for key, status in ((OWN_KEY, 403), ("wrong", 401)):
            for method, path, _ in scoped(walk(app, "loja2")):
                response = await client.request(method, path, headers={"apikey": key}, json={})
                assert response.status_code == status, (method, path)


async def test_other_routes_require_a_global_key_unless_they_are_listed(
    app: Application, client: httpx.AsyncClient
) -> None:
    client.headers["apikey"] = OWN_KEY
    for method, path, rule in walk(app):
        if "<instance>" in rule or rule in OPEN:
            continue
        response = await client.request(method, path)
        if rule == VERIFY_PATH:
            assert response.status_code == 401  # to its clients, it is a wrong key
            continue
        assert (response.status_code == 403) is (rule not in ANY_KEY), (method, path)
        assert (
            method == "HEAD" or rule in ANY_KEY or shape_of(response) == ["This call requires a global key."]
        )


async def test_no_key_helps_where_the_path_has_a_token(app: Application, client: httpx.AsyncClient) -> None:
    """The response is the same for every instance, and for none."""
    for rule in TOKEN_IN_PATH & {rule for _, _, rule in walk(app)}:
        responses = [
            await client.request(method, path, headers=headers)
            for instance in ("loja1", "loja2", "nobody", "a b")
            for method, path, found in walk(app, instance)
            for headers in ({}, {"apikey": "wrong"}, {"apikey": OWN_KEY}, {"apikey": KEY})
            if found == rule and method in ("GET", "POST")
        ]
        assert all(told(response) == told(responses[0]) for response in responses)
        assert responses[0].status_code == (403 if rule.startswith("/media") else 404)


async def test_a_name_in_the_body_or_query_gives_no_access(
    app: Application, client: httpx.AsyncClient
) -> None:
    client.headers["apikey"] = OWN_KEY
    for method, path, _ in scoped(walk(app, "loja2")):
        named = {"instance": "loja1", "instanceName": "loja1"}
        response = await client.request(method, path, params=named, json=named)
        assert response.status_code == 403, (method, path)


async def test_an_instance_key_accesses_its_own_instance(app: Application, client: httpx.AsyncClient) -> None:
    """This shows that the refusals above have the reason that they name."""
    client.headers["apikey"] = OWN_KEY
    for method, path, rule in scoped(walk(app)):
        if method in ("GET", "OPTIONS"):
            response = await client.request(method, path)
            needs_more = rule.startswith("/group/findGroupInfos/")  # the group, in the query
            assert response.status_code in (200, 404, 409, *[400] * needs_more), (method, rule)


@pytest.mark.parametrize(
    "path",
    [
        "/public/../crm/contacts/loja2",
        "/crm/contacts/loja1/../loja2",
        "//crm/contacts/loja2",
        "/crm/contacts/loja2/",
        "/crm/contacts//loja2",
        "/crm/contacts/%6Coja2",
        "/crm/contacts/loja1%2F..%2Floja2",
        "/event/emit/loja1%2f..%2floja2",
        "/event/emit/loja2/",
        "/event/emit//loja2",
        "/event/emit/loja2?instance=loja1",
    ],
)
async def test_spellings_of_a_path_give_no_access(path: str, client: httpx.AsyncClient) -> None:
    client.event_hooks = {}  # by their spelling they are not in the contract
    for method in ("GET", "POST"):
        response = await client.request(method, path, headers={"apikey": OWN_KEY})
        assert response.status_code in (403, 404, 405), (method, path)
        assert (await client.request(method, path)).status_code == 401


async def test_what_a_plugin_declares_is_open(client: httpx.AsyncClient) -> None:
    assert (await client.get("/public/hello")).text == "hello"
    own, everything = {"apikey": OWN_KEY}, {"apikey": KEY}
    assert (await client.get("/shared/colours", headers=own)).text == "red"
    assert (await client.get("/crm/contacts/loja1", headers=own)).text == "loja1"
    assert (await client.get("/crm/export", headers=everything)).text == "everybody's"


async def test_every_route_has_a_place_in_a_fleet(gateway: Gateway) -> None:
    """Which node answers it. A new route without an instance must be added to the table."""
    app = create_app(gateway, Dashboard(gateway).blueprint)
    # But for those of plugins.
    own = {rule.rule for rule in app.url_map.iter_rules() if not rule.rule.startswith("/alerts/")}
    assert {rule for rule in own if "<instance>" not in rule} <= PLACES.keys()
    assert PLACES.keys() <= own  # no route that is gone
    for rule in app.url_map.iter_rules():
        place = place_of(rule.rule, rule.arguments)
        if rule.rule.startswith("/dashboard/live/instance/"):
            assert place is CallPlace.OWNER
        assert place in (CallPlace.OWNER, CallPlace.ANY) or "instance" not in rule.arguments
    # Of plugins:
    assert place_of("/crm/contacts/<instance>", {"instance"}) is CallPlace.OWNER
    assert place_of("/crm/export", ()) is CallPlace.ANY
