"""A gateway full of planted secrets, and what is asked of it."""

import base64
import io
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import trio
import trustme
from trio.testing import wait_all_tasks_blocked

from hookgw import Gateway
from hookgw.testing import Answer, Received, Receiver, answer
from tests.public.app import Dashboard, open_gateway
from tests.public.command import configure_logging
from tests.public.config import load_settings, new_master_key
from tests.public.kernel import Signature, make_secret
from tests.public.site import SESSION, Cookies
from tests.public.web import serve
from tests.support.application import create_app
from tests.support.certificates import certificate_of
from tests.support.planted import Planted

CONFIG = """
server: {{bind: ["127.0.0.1:0"], tls: {{key_password: "{key_password}"}}}}
auth: {{global_key: "${{PLANTED_GLOBAL_KEY}}", failed_attempts: 0}}
storage:
  path: {folder}/data/hookgw.db
  master_key: "{master_key}"
  old_master_keys: ["{old_master_key}"]
delivery:
  allow_networks: ["127.0.0.0/8"]
  schedule: []
  unreachable_first_wait: 20ms
  unreachable_max_wait: 20ms
  max_age: 100ms
  proxy: {proxy}
operations:
  url: "{ops_url}"
  headers: {{authorization: "Bearer {ops_header}"}}
  secret: "{ops_secret}"
global_webhooks:
  - {{label: all, url: "{all_url}", headers: {{x-all: "{all_header}"}}, secret: "{all_secret}"}}
plugins:
  folders: ["{folder}/plugins"]
  options: {{leaky: {{api_key: "{plugin_option}", pin: "{plugin_secret}"}}}}
log: {{level: debug, format: json}}
"""
PLUGIN = '''
"""A plugin that handles secrets without care."""
import hookgw
import trio
import trustme

class Connector:
    name = "leaky"
    runs = 0
    async def run(self, session):
        await session.set_state(hookgw.ConnectionState.OPEN)
        self.runs += 1
        if self.runs == 1:
            raise RuntimeError(f"the login failed in {session!r}")
        await trio.sleep_forever()
    async def send(self, session, message, *, key):
        raise hookgw.NetworkRefused("no")
    async def ingest(self, session, request):
        if request.method == "GET":
            raise hookgw.Invalid(f"not at {session.ingest_url}")
        raise RuntimeError(f"cannot answer {request} at {session.ingest_url}: {vars(session)}")

@hookgw.hookimpl
def hookgw_secret_options():
    return ["pin"]

@hookgw.hookimpl
def hookgw_configure(options):
    Connector.pin = options["pin"]

@hookgw.hookimpl
def hookgw_check_registration(options):
    if "wrong" in options:
        raise ValueError(f"wrong options: {options}")
    if "broken" in options:
        raise KeyError(str(options))

@hookgw.hookimpl
def hookgw_prepare(request):
    request.headers["x-pin"] = Connector.pin

@hookgw.hookimpl
def hookgw_connectors():
    return [Connector()]

@hookgw.hookimpl
def hookgw_delivered(delivery, registration):
    raise RuntimeError(f"cannot note {delivery} of {registration}")

@hookgw.hookimpl
async def hookgw_transform(event, registration):
    if "tell" in str(event.data):
        raise ValueError(f"cannot transform with {registration.plugins}")
    if "fail" in str(event.data):
        raise ValueError(f"cannot transform for {registration!r}")
    return event
'''


def whsec(planted: Planted, name: str) -> str:
    """A signing secret, looked for as it is and as the bytes in it."""
    raw = planted.plant(f"{name}, raw")
    return planted.plant(name, "whsec_" + base64.b64encode(raw.encode()).decode())


class World:
    """A gateway full of secrets, with its receivers and its log."""

    def __init__(self, folder: Path, *, proxy: bool = False) -> None:
        self.planted = Planted()
        password = self.planted.plant("password of the proxy", "planted-proxy-password-91")
        self.proxy = f'"http://proxyuser:{password}@127.0.0.1:1"' if proxy else "null"
        self.folder = folder
        self.log = io.StringIO()
        self.gateway: Gateway
        self.client: httpx.AsyncClient
        self.url = ""
        self.seen: list[tuple[str, bytes]] = []
        plant = self.planted.plant
        self.global_key = plant("global key", "planted-global-key-3f7a")
        self.token = plant("instance key", "planted-instance-key-88c1")
        self.header = plant("header")
        self.user, self.password = plant("user in URL", "planted.user.771"), plant("password in URL")
        self.ops_password = plant("password of operations.url", "planted-ops-password-20")
        self.private_key = plant("private key", make_secret(Signature.V1A))
        self.secret = whsec(self.planted, "signing secret")
        certificate, key = certificate_of(trustme.CA())
        # A line of it, as JSON and pages have no line ends.
        plant("key of a client certificate", key.splitlines()[1])
        self.tls = {"clientCertificate": certificate, "clientKey": key}
        self.option = plant("connector option")
        self.apikey = plant("secret option of a registration")
        self.pin = plant("secret option of another plugin")

    def url_of(self, receiver: Receiver, path: str = "/hook") -> str:
        """A receiver's URL with user and password."""
        password = "".join(f"%{byte:02X}" for byte in self.password.encode())
        return receiver.url.replace("://", f"://{self.user}:{password}@").rstrip("/") + path

    def write_config(self, receiver: Receiver | SimpleNamespace) -> Path:
        plant = self.planted.plant
        text = CONFIG.format(
            folder=self.folder,
            proxy=self.proxy,
            key_password=plant("password of the TLS key"),
            master_key=plant("master key", new_master_key()),
            old_master_key=plant("old master key", new_master_key()),
            ops_url=receiver.url.replace("://", f"://ops:{self.ops_password}@") + "ops",
            ops_header=plant("header of operations"),
            ops_secret=whsec(self.planted, "secret of operations"),
            all_url=receiver.url.replace("://", "://all:planted-all-password-41@") + "all",
            all_header=plant("header of a global webhook"),
            all_secret=whsec(self.planted, "secret of a global webhook"),
            plugin_option=plant("option of a plugin"),
            plugin_secret=plant("secret option of a plugin"),
        )
        plant("password of a global webhook", "planted-all-password-41")
        path = self.folder / "config.yaml"
        path.write_text(text)
        (self.folder / "plugins").mkdir()
        (self.folder / "plugins" / "leaky.py").write_text(PLUGIN)
        return path

    async def call(self, method: str, path: str, *, key: str | None = None, **more: Any) -> httpx.Response:
        """Ask for something, and note the answer."""
        headers = {"apikey": key or self.global_key, **more.pop("headers", {})}
        response = await self.client.request(method, path, headers=headers, **more)
        head = "\n".join(f"{name}: {value}" for name, value in response.headers.items())
        self.seen.append((f"{method} {path} -> {response.status_code}", head.encode() + response.content))
        return response

    def leaks(self, *, allowed: dict[str, set[str]] | None = None) -> list[str]:
        """Every secret that was seen, and where; save those that a call is there to show."""
        return [
            f"{name} in {what}: {place!r}"
            for what, content in [*self.seen, ("the log", self.log.getvalue().encode())]
            for name, place in self.planted.found_in(content).items()
            if not any(re.search(shown, what) and name in names for shown, names in (allowed or {}).items())
        ]


@asynccontextmanager
async def open_world(
    tmp_path: Path, receiver: Receiver, nursery: trio.Nursery, *, proxy: bool = False
) -> AsyncIterator[World]:
    world = World(tmp_path, proxy=proxy)
    path = world.write_config(receiver)
    settings = load_settings(path, {"PLANTED_GLOBAL_KEY": world.global_key})
    configure_logging(settings.log, world.log)
    scope = trio.CancelScope()
    async with open_gateway(settings, base=tmp_path) as world.gateway:

        async def run(*, task_status: trio.TaskStatus[list[str]]) -> None:
            with scope:
                pages = Dashboard(world.gateway).blueprint
                await serve(create_app(world.gateway, pages), settings.server, task_status=task_status)

        (world.url,) = await nursery.start(run)
        async with httpx.AsyncClient(base_url=world.url, trust_env=False, timeout=None) as world.client:
            yield world
        scope.cancel()


def bodies(world: World, receiver: Receiver) -> dict[str, list[Any]]:
    """Requests with secrets in them, good and bad, by the end of a route."""
    url, headers = world.url_of(receiver), {"authorization": f"Bearer {world.header}"}
    plugins = {"evolution_envelope": {"apikey": world.apikey}, "leaky": {"pin": {"deep": [world.pin]}}}
    good = {
        "url": url,
        "headers": headers,
        "secret": world.secret,
        "plugins": plugins,
        "tls": world.tls,
    }
    key = world.tls["clientKey"]
    return {
        "/webhook/set/<instance>": [
            good,
            {**good, "secret": world.secret + "!"},
            {**good, "secret": world.private_key[:-12]},
            {**good, "signature": "v1a"},
            {**good, "headers": {"x": world.header + "\n"}},
            {**good, "headers": {"bad name": world.header, "host": world.header, "x": [world.header]}},
            {**good, "headers": [world.header]},
            {**good, "url": url + "#fragment"},
            {**good, "url": url.replace("127.0.0.1", "10.0.0.1")},
            {**good, "url": url.replace("127.0.0.1", "no such host")},
            {**good, "url": url.replace("http:", "ftp:")},
            {**good, "url": url + "/" + "x" * 3000},
            {**good, "url": url.replace("http://", "http://\\")},
            {**good, "plugins": {"leaky": {"pin": world.pin, "wrong": 1}}},
            {**good, "plugins": {"leaky": {"pin": world.pin, "broken": 1}}},
            {**good, "plugins": {"evolution_envelope": {"apikey": [world.apikey]}}},
            {**good, "plugins": {"evolution_envelope": world.apikey}},
            {**good, "tls": {**world.tls, "clientCertificate": key}},
            {**good, "tls": {**world.tls, "clientKey": key[:-40]}},
            {**good, "tls": {**world.tls, "clientKey": [key]}},
            {**good, "tls": {"clientKey": key}},
            {**good, "tls": {**world.tls, "serverName": key}},
            {**good, "timeout": "soon", "plugins": {"nobody": {"password": world.header}}},
            good,
        ],
        "/webhook/set/<instance>/<label>": [
            {"url": url, "headers": headers, "secret": world.private_key},
            {"url": "http://********@elsewhere.test/"},
            {"url": url, "headers": {"new": "********"}},
        ],
        "/instance/create": [
            {"instanceName": "loja1", "token": world.token},
            {"instanceName": "x", "token": world.token + "\n"},
            {"instanceName": "x", "token": [world.token]},
            {"instanceName": "y", "integration": "nobody", "token": world.token, "api_token": world.option},
        ],
        "/event/emit/<instance>": [
            {"event": "MESSAGES_UPSERT", "data": {"text": "hello"}},
            {"event": "MESSAGES_UPSERT", "data": {"text": "fail"}, "apikey": world.token},
            {"event": "MESSAGES_UPSERT", "data": {"text": "tell"}},
            {"event": "NOPE", "data": {}, "apikey": world.token},
        ],
    }


NOT_READY = {"message": ["The instance's connector is not ready. Retry later."]}
JSON = {"content-type": "application/json"}
SHOWN = {
    "/instance/create -> 201": {"instance key"},
    "GET /webhook/secret/": {"signing secret", "signing secret, raw"},
    "/instance/(create|connect/loja2|rotateIngest/loja2|fetchInstances.*) -> 20": {"token of an ingestUrl"},
    "GET /dashboard/instances/loja2(/connection)? -> 200": {"token of an ingestUrl"},
    "hookgw instance (list|ingest-url) -> 0": {"token of an ingestUrl"},
    # Where it belongs.
    "body sent to /hook": {"secret option of a registration"},
    "GET /operations/secret": {"secret of operations", "secret of operations, raw"},
}
"""What is there to show a secret, and which."""


async def fill(world: World, receiver: Receiver) -> None:
    """Instances, registrations and deliveries of every fate."""
    options = {"instanceName": "loja2", "integration": "leaky", "api_token": world.option}
    created = (await world.call("POST", "/instance/create", json=options)).json()
    ingest_url = created["ingestUrl"]
    world.planted.plant("token of an ingestUrl", ingest_url.rpartition("/")[2])
    requests = bodies(world, receiver)
    for path, found in requests.items():
        for body in found:
            place = path.replace("<instance>", "loja1").replace("<label>", "crm")
            await world.call("POST", place, json=body)
    unreachable = world.url_of(receiver).replace(f":{receiver.url.rpartition(':')[2].strip('/')}", ":1")
    blocked = world.url_of(receiver).replace("127.0.0.1", "10.0.0.1")
    for label, url in (("unreachable", unreachable), ("blocked", blocked)):
        body = {"url": url, "headers": {"x-key": world.header}}
        await world.call("POST", f"/webhook/set/loja1/{label}", json=body)
    await world.call("GET", "/instance/connect/loja2")
    with trio.fail_after(20):  # its first run fails
        while (await world.call("POST", ingest_url, content=world.header)).json()["response"] == NOT_READY:
            await wait_all_tasks_blocked(0.05)
    for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS"):
        for further in ("", "/", "/more", "?x=1"):
            await world.call(method, ingest_url + further, content=world.header)
    for status in (500, 400, 302, 429, 200, 410):
        receiver.default = partial(echo, status)
        await world.call("POST", "/webhook/test/loja1")
        await world.call("POST", "/event/emit/loja1", json={"event": "CALL", "data": {"status": status}})
        await settle(world)
        await world.call("POST", "/webhook/set/loja1", json=requests["/webhook/set/<instance>"][0])


def echo(status: int, request: Received) -> Answer:
    """An answer that repeats what the request was sent with, as a debugging receiver does."""
    sent = request.header("authorization") or ""
    told = [f"{name}: {value}" for name, value in request.headers if not name.startswith("webhook-")]
    if sent.startswith("Basic "):
        told.append(base64.b64decode(sent.removeprefix("Basic ")).decode())
    told.append(request.body.decode())
    return answer(status, "\n".join(told), headers={"location": f"http://x.test/?{sent}"})


async def settle(world: World) -> None:
    """Wait until nothing is pending."""
    with trio.fail_after(20):
        while (
            any(lane.backlog for lane in world.gateway.lanes()) or await world.gateway.store.pending_lanes()
        ):
            await wait_all_tasks_blocked(0.01)


async def walk(world: World, receiver: Receiver) -> None:
    """Every route by every method, for things that exist and things that do not."""
    deliveries = (await world.call("GET", "/delivery/list/loja1?limit=100")).json()
    names = [delivery["id"] for delivery in find_list(deliveries)] or ["none"]
    rules = sorted({rule.rule for rule in create_app(world.gateway).routing.url_map.iter_rules()})
    last = ("/webhook/delete", "/instance/delete", "/key/delete")
    for rule in sorted(rules, key=lambda rule: rule.startswith(last)):
        for instance, label in (("loja1", "crm"), ("loja1", "blocked"), ("loja2", "none")):
            path = re.sub(r"<(?:\w+:)?(?!instance)\w+>", label, rule.replace("<instance>", instance))
            for method in ("GET", "POST", "DELETE"):
                await world.call(method, path, json={})
        await world.call("PUT", path, key=world.token)
        await world.call("POST", path, key=f"wrong{world.global_key}")
        await world.call("POST", path, content=world.header, headers={"content-type": "text/plain"})
        broken = f'{{"url": "{world.url_of(receiver)}", "secret": {world.secret}'
        for method in ("POST", "DELETE"):
            await world.call(method, f"{path}?apikey={world.token}", content=broken, headers=JSON)
    for name in names:
        await world.call("GET", f"/delivery/find/loja1/{name}")


async def look_at_pages(world: World) -> None:
    """Every page of the dashboard, for things that exist and things that do not, as the operator sees it."""
    holder = world.gateway.keys.holder_of(world.global_key)
    assert holder is not None
    sessions = world.gateway.sessions
    cookies = Cookies("/dashboard", sessions.installation, is_secure=False)
    session = {"cookie": cookies.set(SESSION, await sessions.begin(holder))}
    deliveries = find_list((await world.call("GET", "/delivery/list/loja1?limit=100")).json())
    app = create_app(world.gateway, Dashboard(world.gateway).blueprint)
    for rule in sorted({rule.rule for rule in app.routing.url_map.iter_rules()}):
        if not rule.startswith("/dashboard") or rule.startswith("/dashboard/live"):
            continue
        for instance, rest in (("loja1", "crm"), ("loja1", deliveries[0]["id"]), ("loja2", "none")):
            path = re.sub(r"<(?:\w+:)?(?!instance)\w+>", rest, rule.replace("<instance>", instance))
            await world.call("GET", path, headers=session)
            await world.call("POST", path, headers=session, data={"form_token": "wrong", "key": world.token})


def find_list(answer_: Any) -> list[dict[str, Any]]:
    lists = [answer_] if isinstance(answer_, list) else [v for v in answer_.values() if isinstance(v, list)]
    return lists[0] if lists else []
