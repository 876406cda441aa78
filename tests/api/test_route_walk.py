"""Every route, with every method, called with and without permission: no route can be forgotten.

What each route needs is read from its declaration (:mod:`hookgw.web.needs`), and every right and every reach
is tried on it.
"""

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from quart_trio import QuartTrio

from hookgw import Gateway, Right, describes
from tests.api.conftest import KEY
from tests.api.test_app import shape_of
from tests.public.app import Dashboard
from tests.public.auth import new_key
from tests.public.core import OUT_OF_REACH
from tests.public.records import NO_INSTANCE, Key, Reach
from tests.public.web import PLACES, VERIFY_PATH, CallPlace, Need, NotJson, Scope, need_of_view, place_of
from tests.public.web import AppApplication as Application
from tests.support.application import create_app
from tests.support.open_routes import OPEN_ROUTES, TOKEN_IN_PATH

OWN_KEY = "the-key-of-loja1"
PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text("utf-8")
LACKS_OPERATE = "This key does not have the right 'operate'."
FAST = ("/event/emit/", "/ingest/")
"""The routes with a fast path. All others are the same routes without fast paths, and walked once."""
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
    "problem": "0f3c5a7e9b1d",
    "language": "en",
}
"""Values for the variables in paths other than the instance. Add every new variable here."""


class Route(NamedTuple):
    """A method of a route, with the variables in its path filled in."""

    method: str
    path: str
    rule: str
    need: Need

    @property
    def is_open(self) -> bool:
        return self.need.scope is Scope.OPEN


class RoutesOfAPlugin:
    """Routes that a plugin adds, well protected and not."""

    def routes(self, app: QuartTrio, gateway: Gateway, _contains: object) -> None:
        @app.get("/public/hello")
        async def hello() -> str:
            return "hello"

        @app.get("/shared/colours")
        async def colours() -> str:
            return "red"

        @app.route("/crm/contacts/<instance>", methods=["GET", "PUT", "PATCH", "TRACE"])
        @describes("CRM", {200: NotJson("text/html", "A name.")}, needs=Right.READ)
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
    assert app.fast_paths
    if request.param == "long":
        app.use_fast_paths()
    return app


@pytest.fixture
async def client(stranger: httpx.AsyncClient, gateway: Gateway) -> httpx.AsyncClient:
    """Without a key."""
    await gateway.instances.create("loja1", token=OWN_KEY, tags={"tenant": "acme"})
    await gateway.instances.create("loja2")
    return stranger


def add_key(gateway: Gateway, reach: Reach, rights: Iterable[str]) -> str:
    """Add a key to the ring, and return it."""
    key, ring = new_key(), gateway.authenticator.keyring
    ring.add_global(Key(name=key[:8], hash=ring.hash(key), reach=reach, rights=tuple(rights)))
    return key


def walk(app: Application, instance: str = "loja1") -> list[Route]:
    """Return every route; in an application without fast paths, the routes that have one otherwise."""
    filled = {**FILLED, "instance": instance}
    return [
        Route(
            method,
            re.sub(r"<(?:\w+:)?(\w+)>", lambda found: filled[found[1]], rule.rule),
            rule.rule,
            need_of_view(app.routing, rule),
        )
        for rule in app.routing.url_map.iter_rules()
        for method in sorted(rule.methods or ())
        if app.fast_paths or rule.rule.startswith(FAST)
    ]


def scoped(routes: list[Route]) -> list[Route]:
    """Return the routes that name an instance."""
    return [route for route in routes if "<instance>" in route.rule and not route.is_open]


def told(response: httpx.Response) -> tuple[object, ...]:
    """Return everything in a response except the time."""
    headers = [(name, value) for name, value in response.headers.items() if name != "date"]
    return response.status_code, response.content, headers


async def test_the_walk_sees_everything(app: Application) -> None:
    rules = {route.rule for route in walk(app)}
    if not app.fast_paths:
        assert rules == {rule.rule for rule in app.routing.url_map.iter_rules() if rule.rule.startswith(FAST)}
        return
    assert rules == {rule.rule for rule in app.routing.url_map.iter_rules()}
    assert len(scoped(walk(app))) >= 60
    assert rules >= {"/crm/export", "/key/delete/<instance>/<key_name>", "/mcp"}
    assert {route.need.right for route in walk(app)} == {*Right, None}
    assert {route.need.scope for route in walk(app)} == {*Scope}
    assert {route.rule for route in walk(app) if route.is_open} == {"/public/hello", *OPEN_ROUTES}
    assert {route.rule for route in walk(app) if route.need.scope is Scope.ANY_KEY} == {
        "/event/kinds",
        "/mcp",
        VERIFY_PATH,
        "/shared/colours",
    }


async def test_the_manual_says_which_calls_need_a_global_key(app: Application) -> None:
    said = {
        (method, re.sub(r"<\w+>", "<>", path)): text.endswith("Global key")
        for method, path, text in re.findall(r"^\| `([A-Z]+) (/[^`?]*)[^`]*` \| (.+) \|$", PAGE, re.MULTILINE)
    }
    needs = {
        (route.method, re.sub(r"<[^>]+>", "<>", route.rule)): route.need.scope is Scope.EVERYTHING
        for route in walk(app)
    }
    assert bool(app.fast_paths) is (len(said.keys() & needs.keys()) > 90)
    assert {call for call in said.keys() & needs.keys() if said[call] != needs[call]} == set()


@pytest.mark.parametrize("key", [None, "", "wrong", KEY + "x", KEY.upper(), OWN_KEY + " x", OWN_KEY[:-1]])
async def test_no_route_responds_without_a_key(
    key: str | None, app: Application, client: httpx.AsyncClient
) -> None:
    headers = {} if key is None else {"apikey": key}
    for method, path, _, need in walk(app):
        if need.scope is Scope.OPEN:
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
    for (method, path, _, need), (_, elsewhere, _, _), (_, impossible, _, _) in routes:
        response = await client.request(method, path)
        assert response.status_code == 403, (method, path)
        others = [await client.request(method, other) for other in (elsewhere, impossible)]
        assert told(response) == told(others[0]) == told(others[1])
        assert method == "HEAD" or shape_of(response) == [refusal(need)]


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
            for method, path, _, _ in scoped(walk(app, "loja2")):
                response = await client.request(method, path, headers={"apikey": key}, json={})
                assert response.status_code == status, (method, path)


def refusal(need: Need) -> str:
    """Return what a key of another instance, which has all rights but one, is told."""
    return LACKS_OPERATE if need.right is Right.OPERATE else OUT_OF_REACH


async def test_routes_about_everything_require_a_global_key(
    app: Application, client: httpx.AsyncClient
) -> None:
    client.headers["apikey"] = OWN_KEY
    for method, path, _, need in walk(app):
        if need.scope is Scope.EVERYTHING:
            response = await client.request(method, path)
            assert response.status_code == 403, (method, path)
            assert method == "HEAD" or shape_of(response) == ["This call requires a global key."]


@pytest.mark.parametrize("right", list(Right))
async def test_a_key_without_a_right_is_refused_where_it_is_needed(
    right: Right, app: Application, client: httpx.AsyncClient, gateway: Gateway
) -> None:
    """Everywhere, whatever the key reaches, and whether or not the instance exists."""
    others = tuple(map(str, frozenset(Right) - {right}))
    message = [f"This key does not have the right '{right}'."]
    for reach in (Reach(), Reach(tags=(("tenant", "acme"),)), Reach(tags=(("tenant", "none"),))):
        client.headers["apikey"] = add_key(gateway, reach, others)
        routes = zip(walk(app, "loja1"), walk(app, "nobody"), strict=True)
        for (method, path, _, need), (_, elsewhere, _, _) in routes:
            is_asked = need.scope is not Scope.EVERYTHING or reach.is_everything
            if need.right is right and is_asked and method != "OPTIONS":
                response = await client.request(method, path)
                assert response.status_code == 403, (method, path)
                assert method == "HEAD" or shape_of(response) == message, (method, path)
                assert told(response) == told(await client.request(method, elsewhere))


@pytest.mark.parametrize("right", list(Right))
async def test_a_right_is_enough_within_reach_and_nothing_outside(
    right: Right, app: Application, client: httpx.AsyncClient, gateway: Gateway
) -> None:
    within = add_key(gateway, Reach(tags=(("tenant", "acme"),)), [right])
    by_id = add_key(gateway, Reach(instances=frozenset({gateway.instances.get("loja1").id})), [right])
    everything = add_key(gateway, Reach(), [right])
    routes = zip(walk(app, "loja1"), walk(app, "loja2"), walk(app, "nobody"), walk(app, "a b"), strict=True)
    for (method, path, rule, need), *elsewhere in routes:
        # What OPTIONS tells is in the document, and the first of the routes of a path answers it.
        if need.right is not right or method == "OPTIONS":
            continue
        for key in (within, by_id):
            client.headers["apikey"] = key
            response = await client.request(method, path)
            if need.scope is Scope.EVERYTHING or (key is by_id and rule == "/instance/create"):
                assert response.status_code == 403, (method, path)
                continue
            # A key manages only keys that can no more than itself.
            refusals = (401,) if rule == "/key/delete/<instance>/<key_name>" else (401, 403)
            assert response.status_code not in refusals, (method, path)
            if need.scope is Scope.INSTANCE:
                refused = [await client.request(method, other.path) for other in elsewhere]
                assert [one.status_code for one in refused] == [403] * 3, (method, path)
                assert told(refused[0]) == told(refused[1]) == told(refused[2])
                assert method == "HEAD" or shape_of(refused[0]) == [OUT_OF_REACH]
            if gateway.instances.find("loja1") is None:
                return  # deleted: the rest of this right is walked with another instance
        client.headers["apikey"] = everything
        assert (await client.request(method, path)).status_code not in (401, 403), (method, path)


async def test_no_key_helps_where_the_path_has_a_token(app: Application, client: httpx.AsyncClient) -> None:
    """The response is the same for every instance, and for none."""
    for rule in TOKEN_IN_PATH & {route.rule for route in walk(app)}:
        responses = [
            await client.request(method, path, headers=headers)
            for instance in ("loja1", "loja2", "nobody", "a b")
            for method, path, found, _ in walk(app, instance)
            for headers in ({}, {"apikey": "wrong"}, {"apikey": OWN_KEY}, {"apikey": KEY})
            if found == rule and method in ("GET", "POST")
        ]
        assert all(told(response) == told(responses[0]) for response in responses)
        assert responses[0].status_code == (403 if rule.startswith("/media") else 404)


async def test_a_name_in_the_body_or_query_gives_no_access(
    app: Application, client: httpx.AsyncClient
) -> None:
    client.headers["apikey"] = OWN_KEY
    for method, path, _, _ in scoped(walk(app, "loja2")):
        named = {"instance": "loja1", "instanceName": "loja1"}
        response = await client.request(method, path, params=named, json=named)
        assert response.status_code == 403, (method, path)


async def test_an_instance_key_accesses_its_own_instance(app: Application, client: httpx.AsyncClient) -> None:
    """This shows that the refusals above have the reason that they name."""
    client.headers["apikey"] = OWN_KEY
    for method, path, rule, need in scoped(walk(app)):
        if method in ("GET", "OPTIONS") and need.right is not Right.OPERATE:
            response = await client.request(method, path)
            needs_more = rule.startswith(("/group/find", "/group/participants/"))  # the group, in the query
            assert response.status_code in (200, 404, 409, *[400] * needs_more), (method, rule)


async def test_an_unknown_instance_is_not_found(app: Application, client: httpx.AsyncClient) -> None:
    """Before any mistake in the body. Of an instance that was deleted, the audit stays."""
    client.headers["apikey"] = KEY
    for method, path, rule, _ in scoped(walk(app, "nobody")):
        creates = method == "POST" and rule.startswith("/webhook/set/")
        if method != "OPTIONS" and not creates and not rule.startswith(("/audit/", "/crm/")):
            response = await client.request(method, path)
            assert response.status_code == 404, (method, path)
            assert method == "HEAD" or shape_of(response) == [NO_INSTANCE(name="nobody")]


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
    own = {rule.rule for rule in app.routing.url_map.iter_rules() if not rule.rule.startswith("/alerts/")}
    assert {rule for rule in own if "<instance>" not in rule} <= PLACES.keys()
    assert PLACES.keys() <= own  # no route that is gone
    for rule in app.routing.url_map.iter_rules():
        place = place_of(rule.rule, rule.arguments)
        if rule.rule.startswith("/dashboard/live/instance/"):
            assert place is CallPlace.OWNER
        places = (CallPlace.OWNER, CallPlace.ANY, CallPlace.RECORDS)
        assert place in places or "instance" not in rule.arguments
    # Of plugins:
    assert place_of("/crm/contacts/<instance>", {"instance"}) is CallPlace.OWNER
    assert place_of("/crm/export", ()) is CallPlace.ANY
