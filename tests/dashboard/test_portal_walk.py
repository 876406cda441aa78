"""Thirty customers, each with a portal link: every page and every route shows each of them their own alone.

Whatever belongs to a customer has the customer's mark in it, or an id that is known to be theirs. Each answer
is searched for the marks and ids of all others, and of the operator.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest

from hookgw import Event, Gateway
from tests.api.test_route_walk import FILLED
from tests.dashboard.conftest import KEY, Browser, form_token
from tests.dashboard.test_portal import enter
from tests.dashboard.test_streams import watching
from tests.public.config import Settings
from tests.public.mcp import TOOLS
from tests.public.records import MEANINGS
from tests.public.web import AppApplication as Application

OPERATOR = "zqoperator"
RIGHTS = [str(right) for right in MEANINGS if right not in ("keys", "operate")]
_ID = re.compile(r"dlv_\d+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_OPEN = {"/", "/healthz", "/readyz", "/openapi.json", "/docs", "/event/kinds"}


class Customer(NamedTuple):
    """A customer with two accounts: the mark in everything that they have, and their phone number."""

    mark: str
    number: str

    @property
    def accounts(self) -> list[str]:
        return [f"{self.mark}-shop", f"{self.mark}-desk"]


ALL = [Customer(f"zq{place:02}x", f"5511{place:02}77{place:02}333") for place in range(12)]
few = pytest.mark.parametrize("customers", [ALL[:4]])
"""For tests of one customer among others."""


class World(NamedTuple):
    """Everybody, and the ids of what each customer has: of instances, webhooks, deliveries and jobs."""

    customers: list[Customer]
    ids: dict[str, set[str]]

    def next_to(self, customer: Customer) -> Customer:
        return self.customers[(self.customers.index(customer) + 1) % len(self.customers)]

    def strange_to(self, customer: Customer, text: str) -> list[str]:
        """Return what a text has of others."""
        marks = (mark for one in self.customers if one is not customer for mark in one)
        found = [mark for mark in (OPERATOR, *marks) if mark in text]
        known = self.ids[customer.mark]
        elsewhere = set().union(*(ids for mark, ids in self.ids.items() if mark != customer.mark))
        return found + [one for one in _ID.findall(text) if one in elsewhere and one not in known]


@pytest.fixture
def customers() -> list[Customer]:
    return ALL


@pytest.fixture
def settings(settings: Settings) -> Settings:
    everywhere = {"url": f"http://127.0.0.1:9/{OPERATOR}", "label": OPERATOR}
    return msgspec.structs.replace(settings, global_webhooks=(everywhere,))


@pytest.fixture
async def world(gateway: Gateway, url: str, customers: list[Customer]) -> World:
    ids: dict[str, set[str]] = {}
    async with httpx.AsyncClient(base_url=url, headers={"apikey": KEY}, trust_env=False, timeout=60) as http:

        async def post(path: str, body: object, status: int = 201) -> httpx.Response:
            answer = await http.post(path, json=body)
            assert answer.status_code == status, (path, answer.text)
            return answer

        for name in (f"{OPERATOR}-own", f"{OPERATOR}-spare"):
            await gateway.instances.create(name)
        for customer in customers:
            mark, own = customer.mark, ids.setdefault(customer.mark, set())
            for name in customer.accounts:
                created = await gateway.instances.create(name, tags={"tenant": mark, "plan": "gold"})
                own.add(created.instance.id)
                hook = {"url": f"http://127.0.0.1:9/{mark}", "retry": {"schedule": ["1h"]}}
                own.add((await post(f"/webhook/set/{name}", hook)).json()["id"])
                own.add((await post(f"/webhook/set/{name}/{mark}-crm", hook)).json()["id"])
            data = {
                "key": {
                    "remoteJid": f"{customer.number}@s.whatsapp.net",
                    "fromMe": False,
                    "id": f"{mark}-message",
                },
                "pushName": f"{mark} person",
                "message": {"conversation": f"hello {mark}"},
            }
            await gateway.events.accept(
                [
                    Event(
                        id=f"evt-{mark}-{place}-{number}",
                        kind="MESSAGES_UPSERT",
                        instance=name,
                        data_json=Event.encode(data),
                        time=gateway.clock.wall(),
                    )
                    for place, name in enumerate(customer.accounts)
                    for number in range(2)
                ]
            )
            await post("/key/create", {"name": f"{mark}-key", "tags": {"tenant": mark}, "rights": RIGHTS})
            await post(f"/delivery/cancel/{mark}-desk", {"label": f"{mark}-crm"}, 200)
            job = await post(
                "/delivery/replay",
                {"instances": customer.accounts, "state": "dead", "since": "2020-01-01T00:00:00Z"},
                202,
            )
            own.update(re.findall(r"job_\w+", job.text))
        for customer in customers:
            for name in customer.accounts:
                listed = await http.get(f"/delivery/list/{name}?limit=100")
                ids[customer.mark].update(re.findall(r"dlv_\d+", listed.text))
                # The operator's webhook hears the customer's events; its deliveries are the operator's.
                of_operator = {one["id"] for one in listed.json()["deliveries"] if one["label"] == OPERATOR}
                ids[customer.mark] -= of_operator
                ids.setdefault(OPERATOR, set()).update(of_operator)
    return World(customers, ids)


@asynccontextmanager
async def visiting(url: str, customer: Customer) -> AsyncIterator[Browser]:
    """A customer's browser, which has opened a portal link."""
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
        asked = {"tags": {"tenant": customer.mark}, "rights": RIGHTS}
        made = await http.post("/portal/link", json=asked, headers={"apikey": KEY})
        browser = Browser(http)
        assert (await enter(browser, made.json()["url"])).status_code == 303
        yield browser


def names_of(customer: Customer, world: World) -> dict[str, str]:
    """Return what a customer has for the variables in paths."""
    own = world.ids[customer.mark]
    return FILLED | {
        "instance": customer.accounts[0],
        "label": f"{customer.mark}-crm",
        "name": min(one for one in own if one.startswith("dlv_")),
        "event_id": f"evt-{customer.mark}-0-0",
        "job_id": next((one for one in own if one.startswith("job_")), "job_1"),
        "plugin": "none",
        "path": "none",
        "version": "none",
    }


def paths(app: Application, customer: Customer, world: World, method: str) -> Iterator[tuple[str, str]]:
    """Yield every rule with a method, and its path for a customer's first account."""
    filled = names_of(customer, world)
    for rule in app.routing.url_map.iter_rules():
        if method in (rule.methods or ()):
            yield rule.rule, re.sub(r"<(?:\w+:)?(\w+)>", lambda found: filled[found[1]], rule.rule)


async def test_every_page_shows_each_of_twelve_customers_their_own_alone(
    app: Application, world: World, url: str
) -> None:
    seen = 0
    for customer in ALL:
        other = world.next_to(customer)
        async with visiting(url, customer) as browser:
            for rule, path in paths(app, customer, world, "GET"):
                if not rule.startswith("/dashboard") or "/assets/" in rule or "/live/" in rule:
                    continue
                page = await browser.http.get(path)
                assert page.status_code in (200, 303, 400, 401, 403, 404), (path, page.status_code)
                assert world.strange_to(customer, page.text) == [], path
                seen += page.status_code == 200
                # The same page of another, and of nobody: both are refused, and in the same words.
                if "<instance>" in rule and rule.count("<") and page.status_code == 200:
                    refused = [
                        await browser.http.get(path.replace(customer.accounts[0], name))
                        for name in (other.accounts[0], f"{OPERATOR}-own", "nobody")
                    ]
                    assert {one.status_code for one in refused} == {403}, path
                    assert len({one.text for one in refused}) == 1, path
            listed = (await browser.get("/instances")).text
            assert all(name in listed for name in customer.accounts)
            # Searches and filters find nothing of others.
            for query in (
                *(f"/instances?search={word}" for word in (other.mark, other.number, OPERATOR, "-shop")),
                *(f"/deliveries?instance={name}" for name in (other.accounts[0], f"{OPERATOR}-own")),
                *(
                    f"/deliveries?{name}={other.mark}"
                    for name in ("search", "error", "label", "text", "host")
                ),
                *("/?problems=all", "/lanes?all=1", "/deliveries?state=dead", "/deliveries?state=pending"),
                f"/deliveries?search={min(world.ids[other.mark])}",
            ):
                page = await browser.get(query)
                assert page.status_code in (200, 400, 403, 404), query
                # The page repeats what was asked, and no more of it.
                assert [one for one in world.strange_to(customer, page.text) if one not in query] == [], query
                words = (other.number, *other.accounts, f"{OPERATOR}-own")
                assert not any(word in page.text for word in words if word not in query), query
    assert seen > 10 * len(ALL)


async def test_live_updates_show_each_customer_their_own_alone(
    app: Application, world: World, url: str
) -> None:
    for customer in ALL:
        other = world.next_to(customer)
        async with visiting(url, customer) as browser:
            for rule, path in paths(app, customer, world, "GET"):
                if "/dashboard/live/" not in rule:
                    continue
                if rule == "/dashboard/live/log":
                    assert (await browser.http.get(path)).status_code == 403
                    continue
                if path.endswith("/job_1"):  # theirs ended before anybody was told of it
                    assert (await browser.http.get(path)).status_code == 404
                    continue
                async with watching(browser, path) as events:
                    assert world.strange_to(customer, (await events.next())["data"]) == [], path
                if "<instance>" in rule:
                    refused = await browser.http.get(path.replace(customer.accounts[0], other.accounts[0]))
                    assert refused.status_code == 403


@few
async def test_what_others_do_changes_no_page_and_no_number(world: World, url: str, gateway: Gateway) -> None:
    """The figures of a customer count their own: nothing moves if everybody else is busy."""
    customer = world.customers[1]
    for name in customer.accounts:
        for one in gateway.registrations.of_instance(name):
            await gateway.registrations.pause(name, one.label)
    async with visiting(url, customer) as browser:
        pages = (
            "/",
            "/?problems=all",
            "/instances",
            "/deliveries",
            "/lanes",
            f"/instances/{customer.accounts[0]}",
        )

        async def read() -> list[str]:
            return [still(await browser.get(page)) for page in pages]

        before = await read()
        for other in (one for one in world.customers if one is not customer):
            await gateway.instances.create(f"{other.mark}-new", tags={"tenant": other.mark})
            event = Event(
                id=f"evt-{other.mark}-more",
                kind="MESSAGES_UPSERT",
                instance=other.accounts[0],
                data_json=b"{}",
                time=gateway.clock.wall(),
            )
            await gateway.events.accept([event])
            await gateway.instances.delete(other.accounts[1])
        assert await read() == before


def still(page: httpx.Response) -> str:
    """Return a page without what time alone changes."""
    assert page.status_code == 200
    text = re.sub(r"<time.*?</time>", "", page.text)
    text = re.sub(r"[\d.]+ (ms|s|min|h)\b( \d+ (s|min))?", "", text)
    return re.sub(r'(data-live|form_token|href)="[^"]*"', "", text)


@few
async def test_forms_change_nothing_of_others(
    app: Application, world: World, url: str, gateway: Gateway
) -> None:
    customer, other = world.customers[1:3]
    theirs = next(one for one in sorted(world.ids[other.mark]) if one.startswith("dlv_"))
    async with visiting(url, customer) as browser:
        token = form_token((await browser.get("/")).text)
        named = {
            "form_token": token,
            "instance": other.accounts[0],
            "label": f"{other.mark}-crm",
            "delivery": f"{other.accounts[0]}/{theirs}",
            "state": "all",
            "since": "2020-01-01T00:00",
            "confirmed": "true",
            "name": other.accounts[0],
        }
        before = _all_of(gateway, other)
        tried = 0
        for rule, path in paths(app, other, world, "POST"):
            if not rule.startswith("/dashboard/") or rule in ("/dashboard/logout", "/dashboard/login"):
                continue
            answer = await browser.http.post(path, data=named)
            assert answer.status_code in (200, 303, 400, 403, 404, 409), (path, answer.status_code)
            if "<instance>" in rule:
                assert answer.status_code == 403, path
            strange = world.strange_to(customer, answer.text)
            assert [one for one in strange if one not in f"{path} {list(named.values())}"] == [], path
            tried += 1
        assert tried > 20
        assert _all_of(gateway, other) == before


def _all_of(gateway: Gateway, customer: Customer) -> list[object]:
    records = [gateway.instances.get(name) for name in customer.accounts]
    return [
        *records,
        *(one for name in customer.accounts for one in gateway.registrations.of_instance(name)),
        *(gateway.backlog.of_instance(name) for name in customer.accounts),
    ]


@few
async def test_no_route_takes_the_session_of_a_link(app: Application, world: World, url: str) -> None:
    customer = world.customers[0]
    async with visiting(url, customer) as browser:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            for rule, path in paths(app, customer, world, method):
                if rule in _OPEN - {"/event/kinds"} or rule.startswith(
                    ("/dashboard", "/docs/", "/ingest/", "/media/")
                ):
                    continue
                assert (await browser.http.request(method, path)).status_code == 401, (method, path)


async def test_every_route_shows_the_key_of_each_customer_their_own_alone(
    app: Application, world: World, url: str
) -> None:
    """A link is held to the same check as a key with its reach: here is the key, over the whole API."""
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
        for customer in ALL:
            asked = {"name": f"{customer.mark}-walk", "tags": {"tenant": customer.mark}, "rights": RIGHTS}
            key = (await http.post("/key/create", json=asked, headers={"apikey": KEY})).json()["key"]
            for rule, path in paths(app, customer, world, "GET"):
                if rule.startswith("/dashboard") or rule in _OPEN:
                    continue
                answer = await http.get(path, headers={"apikey": key})
                assert answer.status_code < 500 or answer.status_code in (501, 502, 503), path
                assert world.strange_to(customer, answer.text) == [], path
            for path in (
                "/delivery/list?limit=1000",
                "/webhook/list",
                "/lane/list",
                "/job/list",
                "/event/list",
            ):
                answer = await http.get(path, headers={"apikey": key})
                assert answer.status_code == 200, path
                assert world.strange_to(customer, answer.text) == [], path


class Call(NamedTuple):
    """An operation of the document, with what it takes."""

    method: str
    path: str
    parameters: list[str]
    fields: dict[str, Any]
    example: dict[str, Any]


def calls_of(document: Any) -> Iterator[Call]:
    """Yield every call for which a key is needed; the one that deletes an instance comes last."""

    def resolve(part: Any) -> Any:
        while "$ref" in part:
            *_, kind, name = part["$ref"].split("/")
            part = document["components"][kind][name]
        return part

    def fields_of(schema: Any) -> dict[str, Any]:
        schema = resolve(schema)
        found = dict(schema.get("properties", {}))
        for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
            found |= fields_of(one)
        return {name: resolve(one) for name, one in found.items()}

    for path, operations in sorted(document["paths"].items(), key=lambda one: "/instance/delete" in one[0]):
        for method, operation in operations.items():
            if method == "head" or operation.get("x-right", "none") == "none":
                continue
            body = resolve(operation.get("requestBody", {})).get("content", {}).get("application/json", {})
            examples = [one["value"] for one in body.get("examples", {}).values()]
            text = json.dumps(next((one for one in examples if isinstance(one, dict)), {}))
            yield Call(
                method.upper(),
                path,
                [
                    one["name"]
                    for one in map(resolve, operation.get("parameters", ()))
                    if one["in"] == "query"
                ],
                fields_of(body.get("schema", {})),
                json.loads(re.sub(r"https?://[^\"]*", "http://127.0.0.1:9/own", text)),
            )


def in_the_form_of(schema: Any, values: list[str]) -> list[Any]:
    """Return what to send in a field: each value, or all of them together."""
    kinds = schema.get("type", "string")
    if "array" in kinds:
        return [values, [{"id": one, "instance": one} for one in values]]
    if "object" in kinds or "properties" in schema:
        return [{one: {} for one in values}, {"tenant": values[0]}, {"id": values[0], "instance": values[0]}]
    return values


def attempts(
    call: Call, own: dict[str, str], values: list[str]
) -> Iterator[tuple[str, dict[str, str], dict[str, Any]]]:
    """Yield path, query and fields of requests that name what is not the caller's, once in each place."""

    def filled(**others: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: {**own, **others}[found[1]], call.path)

    for name in re.findall(r"\{(\w+)\}", call.path):
        yield from ((filled(**{name: value}), {}, {}) for value in values)
    for name in call.parameters:
        yield from ((filled(), {name: value}, {}) for value in values)
    for name, schema in call.fields.items():
        yield from ((filled(), {}, {name: value}) for value in in_the_form_of(schema, values))


class Caller(NamedTuple):
    """A customer's key, and what that must not find."""

    http: httpx.AsyncClient
    world: World
    customer: Customer
    gateway: Gateway

    @property
    def other(self) -> Customer:
        return self.world.next_to(self.customer)

    @property
    def strange(self) -> list[str]:
        """Names and ids of what another customer and the operator have."""
        mark, ids = self.other.mark, sorted(self.world.ids[self.other.mark])
        by_kind = {one.partition("_")[0] if "_" in one else "uuid": one for one in ids}
        words = (f"{mark}-crm", f"evt-{mark}-0-0", f"{mark}-key", self.other.number)
        return [self.other.accounts[0], f"{OPERATOR}-own", *words, *by_kind.values()]

    def kept(self) -> list[object]:
        """Return what the other customer has."""
        keys = [one for one in self.gateway.keys.list(None) if one.name == f"{self.other.mark}-key"]
        return [*_all_of(self.gateway, self.other), *keys]

    async def send(self, method: str, path: str, **options: Any) -> None:
        """Send a request with strange names, and check that the answer has nothing else of theirs."""
        answer = await self.http.request(method, path, **options)
        tried = f"{method} {path} {options}"
        assert answer.status_code < 500 or answer.status_code in (501, 502, 503), tried
        mark, sent = self.other.mark, self.strange
        texts = [self.other.accounts[1], f"{mark}-message", f"{mark} person", f"hello {mark}", f":9/{mark}"]
        texts += [f"{OPERATOR}-spare", f":9/{OPERATOR}", self.world.customers[0].mark]
        texts += [one for one in self.world.ids[mark] if one not in sent]
        # What was sent, now or before, may be repeated.
        found = [one for one in texts if re.search(rf"{re.escape(one)}\b", answer.text)]
        assert found == [], tried


@asynccontextmanager
async def calling(url: str, world: World, gateway: Gateway, customer: Customer) -> AsyncIterator[Caller]:
    """A customer's key with all rights but ``operate``, while no delivery of anybody is attempted."""
    for name in (one for each in world.customers for one in each.accounts):
        for registration in gateway.registrations.of_instance(name):
            await gateway.registrations.pause(name, registration.label)
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
        rights = [str(right) for right in MEANINGS if right != "operate"]
        asked = {"name": f"{customer.mark}-walk", "tags": {"tenant": customer.mark}, "rights": rights}
        made = await http.post("/key/create", json=asked, headers={"apikey": KEY})
        http.headers["apikey"] = made.json()["key"]
        yield Caller(http, world, customer, gateway)


PARTS = 6


@few
@pytest.mark.parametrize("part", range(PARTS))
async def test_no_field_of_any_call_reaches_what_others_have(
    part: int, world: World, url: str, gateway: Gateway
) -> None:
    """Whatever names something in a path, a query or a body; a new call is tried as soon as it exists."""
    async with calling(url, world, gateway, world.customers[1]) as caller:
        calls = [*calls_of((await caller.http.get("/openapi.json")).json())]
        assert len(calls) > 110
        own, before = names_of(caller.customer, world), caller.kept()
        for call in calls[part::PARTS]:
            for path, query, fields in attempts(call, {**own, "id": own["name"]}, caller.strange):
                body = None if call.method == "GET" else {**call.example, **fields}
                await caller.send(call.method, path, params=query, json=body)
            assert caller.kept() == before, call


@few
async def test_no_argument_of_a_tool_reaches_what_others_have(
    world: World, url: str, gateway: Gateway
) -> None:
    async with calling(url, world, gateway, world.customers[1]) as caller:
        before = caller.kept()
        caller.http.headers["accept"] = "application/json, text/event-stream"
        mark = caller.customer.mark
        own = {
            "instance": f"{mark}-shop",
            "id": f"evt-{mark}-0-0",
            "job": "job_1",
            "url": "http://127.0.0.1:9/own",
        }
        for tool in TOOLS:
            needed = {name: own.get(name, "1") for name in tool.schema.get("required", ())}
            for name, schema in tool.schema["properties"].items():
                for value in in_the_form_of(schema, caller.strange):
                    arguments = {**needed, name: value}
                    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
                    message["params"] = {"name": tool.name, "arguments": arguments}
                    await caller.send("POST", "/mcp", json=message)
            assert caller.kept() == before, tool.name
