"""The manual for plugin authors covers every hook, with its signature and an example that works."""

from __future__ import annotations

import hashlib
import hmac
import inspect
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import click
import httpx
import msgspec
import pytest
import structlog
import trio
import trio.testing
from click.testing import CliRunner
from quart_trio import QuartTrio

import hookgw
from hookgw import (
    Attempt,
    Delivery,
    Event,
    Invalid,
    LaneState,
    Outcome,
    Outgoing,
    PluginGateway,
    Registration,
    TextMessage,
)
from hookgw.plugins import gateway_protocol, hookspecs
from hookgw.testing import FakeSession, open_kit, running
from tests.public.config import PluginsSettings
from tests.public.kernel import ConfigError
from tests.public.plugins import HOOKS, PLAIN_HOOKS, Hooks, check_plugin, load_plugins, new_manager

ROOT = Path(__file__).parents[2]
MANUAL = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
CONNECTORS = (ROOT / "docs" / "connectors.md").read_text(encoding="utf-8")
_SECTION = re.compile(
    r"^### (\w+)\n\n```\n(.+?)\n```\n\n(.+?)\n\n```python\n(.+?)```\n", re.DOTALL | re.MULTILINE
)
SECTIONS = {match[1]: (match[2], match[3], match[4]) for match in _SECTION.finditer(MANUAL)}
FAILURES = MANUAL[MANUAL.index("What else a failure does") : MANUAL.index("**Results are checked.**")]


def signature_of(hook: str) -> str:
    """Return a hookspec's signature as the manual writes it."""
    spec = getattr(hookspecs, hook)
    prefix = "async " if inspect.iscoroutinefunction(spec) else ""
    return prefix + hook + str(inspect.signature(spec)).replace("'", "")


def example(hook: str) -> ModuleType:
    """Run the example of a hook, and return it as a module."""
    module = ModuleType(f"example_of_{hook}")
    exec(compile(SECTIONS[hook][2], f"docs/plugins.md, {hook}", "exec"), vars(module))
    return module


def hooks_with(module: ModuleType, tmp_path: Path, name: str = "mine") -> Hooks:
    settings = PluginsSettings(first_party=False, folders=())
    return Hooks(load_plugins(settings, base=tmp_path, extra={name: module}))


def test_the_manual_has_every_hook_in_the_order_of_the_hookspecs() -> None:
    assert list(SECTIONS) == list(HOOKS)
    assert re.findall(r"^### (\w+)", MANUAL, re.MULTILINE) == list(HOOKS)


@pytest.mark.parametrize("hook", HOOKS)
def test_the_signature_is_that_of_the_hookspec(hook: str) -> None:
    assert " ".join(SECTIONS[hook][0].split()) == signature_of(hook)


@pytest.mark.parametrize("hook", HOOKS)
def test_the_example_registers(hook: str) -> None:
    module, manager = example(hook), new_manager()
    assert hook in check_plugin(module, manager)
    manager.register(module)
    manager.check_pending()


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hookspec_has_a_docstring(hook: str) -> None:
    assert inspect.getdoc(getattr(hookspecs, hook))


def test_the_table_has_every_hook_once() -> None:
    table = MANUAL[MANUAL.index("## Which hook for what") : MANUAL.index("## How hookgw finds plugins")]
    assert sorted(re.findall(r"\[(hookgw_\w+)\]", table)) == sorted(HOOKS)


@pytest.mark.parametrize("hook", HOOKS)
def test_the_manual_says_what_a_failure_does(hook: str) -> None:
    assert f"`{hook}`" in FAILURES


def test_the_manual_names_the_plain_hooks() -> None:
    (plain,) = re.findall(r"must\s+be plain: (.+?)\.\n", MANUAL, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", plain)) == PLAIN_HOOKS


@pytest.mark.parametrize("path", ["docs/plugins.md", "docs/connectors.md", "plugins/README.md"])
def test_links_have_a_target(path: str) -> None:
    page = ROOT / path
    text = page.read_text(encoding="utf-8")
    headings = {
        "#" + re.sub(r"[^\w -]", "", h).lower().replace(" ", "-")
        for h in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }
    for link in re.findall(r"\]\((?!https:)([^)]+)\)", text):
        assert link in headings if link.startswith("#") else (page.parent / link.split("#")[0]).exists(), link


def test_the_settings_in_the_manual_exist() -> None:
    shown = set(re.findall(r"`plugins\.(\w+)", MANUAL)) | set(re.findall(r"^  (\w+):", MANUAL, re.MULTILINE))
    assert shown - {"url"} <= set(PluginsSettings.__struct_fields__)


def message(chat: str = "ana@x", text: str = "hello") -> Any:
    return {"key": {"remoteJid": chat, "fromMe": False, "id": "A"}, "message": {"conversation": text}}


def event_of(data: Any, kind: str = "MESSAGES_UPSERT") -> Event:
    return Event(id="msg_1", kind=kind, instance="shop", data_json=msgspec.json.encode(data), time=1.0)


def with_plugins(registration: Registration, **plugins: Any) -> Registration:
    return msgspec.structs.replace(registration, plugins=plugins)


def delivery_of(event: Event) -> Delivery:
    return Delivery(
        seq=7,
        event=event,
        registration="reg_1",
        lane="reg_1:0",
        accepted_at=1.0,
        position=7,
        queued_at=1.0,
    )


async def test_the_first_example_drops_groups(tmp_path: Path, registration: Registration) -> None:
    text = MANUAL[MANUAL.index("```python\n") + 10 :]
    module = ModuleType("no_groups")
    exec(text[: text.index("```")], vars(module))
    hooks = hooks_with(module, tmp_path)
    assert await hooks.filter(event_of(message()), registration)
    assert not await hooks.filter(event_of(message("1@g.us")), registration)
    assert await hooks.filter(event_of([1]), registration)


async def test_the_plugin_in_ten_lines(tmp_path: Path, registration: Registration) -> None:
    text = (ROOT / "plugins" / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.+?)```", text, re.DOTALL)
    assert len(code.splitlines()) <= 10
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "shout.py").write_text(code)
    hooks = Hooks(load_plugins(PluginsSettings(first_party=False), base=tmp_path))
    assert (await hooks.transform(event_of(message()), registration)).data == message(text="HELLO")
    other = event_of({"state": "open"})
    assert await hooks.transform(other, registration) is other


def test_event_kinds(tmp_path: Path) -> None:
    (kind,) = hooks_with(example("hookgw_event_kinds"), tmp_path).kinds()
    assert (kind.name, kind.plugin) == ("ORDER_PAID", "mine")


def test_configure(tmp_path: Path) -> None:
    module = example("hookgw_configure")
    hooks = hooks_with(module, tmp_path)
    hooks.configure({"mine": {"limit": 5}})
    assert module.Setting.options.limit == 5
    with pytest.raises(ConfigError, match=r"plugins\.options\.mine: limit must be 1 or more\."):
        hooks.configure({"mine": {"limit": 0}})


@pytest.mark.parametrize(
    ("options", "message"),
    [({"language": "fr"}, "language must be de, en or pt"), ({"lang": "de"}, "unknown option lang")],
)
def test_check_registration(tmp_path: Path, registration: Registration, options: Any, message: str) -> None:
    hooks = hooks_with(example("hookgw_check_registration"), tmp_path)
    hooks.check_registration(with_plugins(registration, mine={"language": "de"}))
    with pytest.raises(Invalid, match=message):
        hooks.check_registration(with_plugins(registration, mine=options))


async def test_secret_options(tmp_path: Path, registration: Registration) -> None:
    hooks = hooks_with(example("hookgw_secret_options"), tmp_path)
    hooks.configure({})
    subject = with_plugins(registration, mine={"token": "t0ken-1"})
    hooks.check_registration(subject)
    assert hooks.secret_options.masked(subject.plugins) == {"mine": {"token": "********"}}
    assert hooks.secrets_of(subject) == {"t0ken-1"}
    request = Outgoing(url=subject.url, body=b"{}", headers={}, attempt=1)
    await hooks.prepare(request, event_of({}), subject)
    assert request.headers == {"x-token": "t0ken-1"}


async def test_event_accepted(tmp_path: Path) -> None:
    module = example("hookgw_event_accepted")
    await hooks_with(module, tmp_path).notify("hookgw_event_accepted", event=event_of({}))
    assert module.accepted == {"MESSAGES_UPSERT": 1}


async def test_filter(tmp_path: Path, registration: Registration) -> None:
    hooks = hooks_with(example("hookgw_filter"), tmp_path, "chats")
    wanting = with_plugins(registration, chats={"only_from": ["ana@x"]})
    hooks.check_registration(wanting)
    passing = [await hooks.filter(event_of(message(chat)), wanting) for chat in ("ana@x", "bruno@x")]
    assert passing == [True, False]
    assert await hooks.filter(event_of(message("bruno@x")), registration)


async def test_transform(tmp_path: Path, registration: Registration) -> None:
    hooks = hooks_with(example("hookgw_transform"), tmp_path)
    assert (await hooks.transform(event_of({"a": 1}), registration)).data == {"a": 1, "source": "hookgw"}


async def test_encode(tmp_path: Path, registration: Registration) -> None:
    hooks = hooks_with(example("hookgw_encode"), tmp_path)
    body = await hooks.encode(event_of({"a": 1}), with_plugins(registration, cloud_event={}))
    assert msgspec.json.decode(body or b"") == {
        "specversion": "1.0",
        "id": "msg_1",
        "source": "/shop",
        "type": "MESSAGES_UPSERT",
        "data": {"a": 1},
    }
    assert await hooks.encode(event_of({}), registration) is None


async def test_prepare(tmp_path: Path, registration: Registration) -> None:
    request = Outgoing(url="https://app.example/", body=b"", headers={}, attempt=2)
    await hooks_with(example("hookgw_prepare"), tmp_path).prepare(request, event_of(message()), registration)
    assert request.headers == {"x-chat": "person", "x-is-retry": "true"}


async def test_attempt(tmp_path: Path, registration: Registration) -> None:
    module = example("hookgw_attempt")
    hooks = hooks_with(module, tmp_path)
    for duration in (5.0, 6.0):
        attempt = Attempt(number=1, at=1.0, duration=duration, outcome=Outcome.DELIVERED)
        delivery = delivery_of(event_of({}))
        await hooks.notify("hookgw_attempt", attempt=attempt, delivery=delivery, registration=registration)
    assert module.slow == [(registration.url, 6.0)]


async def test_delivered(tmp_path: Path, registration: Registration) -> None:
    module = example("hookgw_delivered")
    delivery = delivery_of(event_of({}))
    await hooks_with(module, tmp_path).notify(
        "hookgw_delivered", delivery=delivery, registration=registration
    )
    assert module.last_delivered == {"reg_1": "msg_1"}


class FakeClient:
    """A client that records posts."""

    def __init__(self) -> None:
        self.posted: list[Any] = []

    async def post(self, url: str, json: Any) -> None:
        await trio.lowlevel.checkpoint()
        self.posted.append((url, json))


async def started(hooks: Hooks) -> FakeClient:
    """Run the plugin's ``hookgw_run`` with a client, and return the client."""
    client = FakeClient()
    for _, run in hooks.background("hookgw_run"):
        await run(cast("PluginGateway", SimpleNamespace(http=client)))
    return client


async def test_dead_letter(tmp_path: Path) -> None:
    hooks = hooks_with(example("hookgw_dead_letter"), tmp_path)
    letter = {"delivery": delivery_of(event_of({})), "registration": None, "reason": "gone"}
    await hooks.notify("hookgw_dead_letter", **letter)
    client = await started(hooks)
    await hooks.notify("hookgw_dead_letter", **letter)
    assert client.posted == [("https://chat.example/alerts", {"text": "dlv_7: gone"})]


async def test_lane_state(tmp_path: Path) -> None:
    module = example("hookgw_lane_state")
    hooks = hooks_with(module, tmp_path)
    seen = []
    for state in (LaneState.WAITING, LaneState.DELIVERING):
        lane = {"lane": "reg_1:0", "registration": "reg_1", "partition": None, "url": "https://crm.example/"}
        await hooks.notify("hookgw_lane_state", state=state, **lane)
        seen.append(dict(module.waiting))
    assert seen == [{"reg_1:0": "https://crm.example/"}, {}]


async def test_operational_event(tmp_path: Path) -> None:
    hooks = hooks_with(example("hookgw_operational_event"), tmp_path)
    client = await started(hooks)
    for kind in ("DELIVERY_DEAD", "REGISTRATION_DISABLED"):
        event = event_of({"reason": "The receiver answered 410 Gone."}, kind)
        await hooks.notify("hookgw_operational_event", event=event)
    assert client.posted == [("https://chat.example/alerts", {"text": "The receiver answered 410 Gone."})]


async def test_connectors(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    ticker = hooks_with(example("hookgw_connectors"), tmp_path).connectors()["ticker"]
    session = FakeSession()
    with trio.move_on_after(90):
        await ticker.run(session)
    assert session.states == [(hookgw.ConnectionState.OPEN, 200, {"wuid": "ticker"})]
    assert [data["message"] for data in session.data_of("MESSAGES_UPSERT")] == [{"conversation": "tick"}]
    sent = await ticker.send(session, TextMessage(number="ticker", text="hi"), key="k")
    assert sent["message"] == {"conversation": "hi"}
    with pytest.raises(hookgw.NetworkRefused):
        await ticker.send(session, TextMessage(number="ana", text="hi"), key="k")


async def test_destinations(tmp_path: Path) -> None:
    hooks = hooks_with(example("hookgw_destinations"), tmp_path)
    assert list(hooks.schemes) == ["lines"]

    class Stream:
        answers = iter([b"o", b"k\n"])
        sent = b""

        async def send_all(self, data: bytes) -> None:
            self.sent += data

        async def receive(self) -> bytes:
            return next(self.answers, b"")

    stream = Stream()

    async def connect() -> Stream:
        return stream

    outgoing = SimpleNamespace(headers={"webhook-id": "msg_1"}, body=b"{}", connect=connect)
    assert await hooks.send("lines", cast("hookgw.OutgoingDelivery", outgoing)) == hookgw.Response(
        200, b"ok\n"
    )
    assert stream.sent == b"2 msg_1\n{}"
    with pytest.raises(ConnectionError, match="closed the connection"):
        await hooks.send("lines", cast("hookgw.OutgoingDelivery", outgoing))


async def test_the_test_of_a_destination(tmp_path: Path, hookgw_clock: trio.testing.MockClock) -> None:
    text = (ROOT / "docs" / "destinations.md").read_text("utf-8").partition("### Test it")[2]
    module = ModuleType("test_lines")
    code = text.partition("```python\n")[2].partition("```")[0]
    exec(compile(code, "docs/destinations.md, Test it", "exec"), vars(module))
    plugins = inspect.unwrap(module.hookgw_plugins.__wrapped__)()
    async with open_kit(tmp_path, plugins=plugins) as kit:
        await module.test_a_server_that_is_down(kit)


async def test_the_kit_connects_sends_and_masks(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    text = CONNECTORS[CONNECTORS.index("## The kit") :]
    code = text.partition("```python\n")[2].partition("```")[0]
    module = ModuleType("chat")
    forever = code.replace("            ...\n", "            await trio.sleep_forever()\n")
    exec(compile(f"import trio\n{forever}", "docs/connectors.md, The kit", "exec"), vars(module))
    hooks = hooks_with(module, tmp_path, "chat")
    hooks.configure({"chat": {"server": "https://chat.example"}})
    chat: Any = hooks.connectors()["chat"]
    assert chat.options_schema["properties"]["server"]["default"] == "https://chat.example"

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/me":
            return httpx.Response(200, json={})
        if b"bad" in request.content:
            return httpx.Response(401, json={"error": "planted-key is wrong"})
        return httpx.Response(200, json={"id": "1", "time": 7})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        options = {"server": "https://chat.example", "api_key": "planted-key"}
        session = FakeSession(options=options, http=http)
        with pytest.raises(hookgw.NetworkRefused, match="not connected to Chat"):
            await chat.send(session, TextMessage(number="ana", text="hi"), key="k")
        async with running(chat, session):
            sent = await chat.send(session, TextMessage(number="ana", text="hi"), key="k")
            with pytest.raises(hookgw.NetworkRefused, match=r"^\*+ is wrong$") as caught:
                await chat.send(session, TextMessage(number="ana", text="bad"), key="k")
    assert (sent["key"]["id"], sent["message"], sent["status"]) == ("1", {"conversation": "hi"}, "SERVER_ACK")
    assert caught.value.status == 409


def function_in(section: str) -> Any:
    """Return the function of a section's example for connectors."""
    text = CONNECTORS[CONNECTORS.index(f"## {section}") :]
    module = ModuleType("acme")
    code = text.partition("```python\n")[2].partition("```")[0]
    exec(compile(code, f"docs/connectors.md, {section}", "exec"), vars(module))
    return next(value for value in vars(module).values() if inspect.isfunction(value))


@pytest.mark.parametrize(
    ("wants", "size", "inside"), [(True, 3, "UE5H"), (True, 10**7, None), (False, 3, None)]
)
async def test_received_files(wants: bool, size: int, inside: str | None) -> None:
    receive = function_in("Received files")
    network = httpx.MockTransport(lambda _request: httpx.Response(200, content=b"PNG"))
    async with httpx.AsyncClient(transport=network) as client:
        session = FakeSession(http=client, wants_base64=wants)
        await receive(session, "photo-1", size)
    (link,) = session.media
    assert session.media[link] == ("photo-1", "image/png", "photo.png")
    (data,) = session.data_of("MESSAGES_UPSERT")
    assert data["message"]["imageMessage"] == {"url": link, "mimetype": "image/png"}
    assert data["message"].get("base64") == inside


class FakeLane(msgspec.Struct):
    lane: str
    registration: str
    url: str
    state: LaneState
    backlog: int = 3


def gateway_with(registration: Registration) -> PluginGateway:
    """Return a gateway with this registration, three lanes, and only the parts that examples use."""
    lanes = [
        FakeLane("reg_1:0:0", "reg_1", registration.url, LaneState.WAITING),
        FakeLane("reg_1:0:1", "reg_1", registration.url, LaneState.IDLE, backlog=1),
        FakeLane("reg_2:0", "reg_2", "https://other.example", LaneState.IDLE),
    ]
    registrations = SimpleNamespace(of_instance=lambda name: [registration])
    return cast("PluginGateway", SimpleNamespace(registrations=registrations, lanes=lambda: lanes))


@pytest.mark.parametrize("protocol", ["PluginGateway", "Events", "Instances", "Registrations"])
def test_the_manual_names_everything_in_the_gateway_protocol(protocol: str) -> None:
    section = MANUAL[MANUAL.index("## The gateway object") : MANUAL.index("## HTTP requests")]
    members = [name for name in vars(getattr(gateway_protocol, protocol)) if not name.startswith("_")]
    assert members
    for name in members:
        assert re.search(rf"gateway\.(\w+\.)?{name}\b", section), name


async def test_requests_of_the_network() -> None:
    ingest = function_in("Answer requests of the network")
    session = FakeSession("shop", options={"secret": "s", "account": "me"})

    async def ask(body: bytes, proof: str, method: str = "POST") -> hookgw.IngestResponse:
        headers, query = {"x-acme-signature": proof}, {"challenge": "42"}
        request = hookgw.IngestRequest(method=method, query=query, headers=headers, body=body)
        response: hookgw.IngestResponse = await ingest(None, session, request)
        return response

    def proof_of(body: bytes) -> str:
        return hmac.new(b"s", body, hashlib.sha256).hexdigest()

    assert (await ask(b"", "", "GET")).body == b"42"
    message = msgspec.json.encode({"chat": "c@x", "id": "$a:b", "text": "hi", "time": 1})
    for proof in ("", "\xe9", proof_of(b"x")):
        with pytest.raises(hookgw.ProofRefused):
            await ask(message, proof)
    for body in (b"{", b"[]", b"{}"):
        with pytest.raises(Invalid):
            await ask(body, proof_of(body))
    assert session.events == []
    assert (await ask(message, proof_of(message))).status == 200
    (event,) = session.events
    assert (event.event_id, event.data["key"]["id"]) == (hookgw.event_id_of("$a:b"), "$a:b")


async def test_routes(tmp_path: Path, registration: Registration) -> None:
    app = QuartTrio("example")
    hooks = hooks_with(example("hookgw_routes"), tmp_path)
    hooks.routes(app, lambda _: gateway_with(registration), lambda *_: None)
    answer = await app.test_client().get("/backlog/shop")
    assert await answer.get_json() == {registration.label: 4}


async def test_dashboard_pages(tmp_path: Path, registration: Registration) -> None:
    page, note = hooks_with(example("hookgw_dashboard_pages"), tmp_path).dashboard_pages()
    registration = msgspec.structs.replace(registration, url="https://crm.example/?a=<b>")
    content = await page.render(gateway_with(registration), {"least": "2"}, 10)
    assert content.startswith('<section class="card"><h2>Backlogs</h2>')
    assert "<li><b>https://crm.example/?a=&lt;b&gt;</b> 3</li>" in content
    assert content.count("<li>") == 2
    gateway = gateway_with(registration)
    assert await note.submit(gateway, {"instance": "shop", "note": "<b>"}, 10) == "Kept."
    assert 'value="&lt;b&gt;"' in await note.render(gateway, {"instance": "shop"}, 10)
    assert 'value=""' in await note.render(gateway, {"instance": "other"}, 10)
    with pytest.raises(hookgw.Invalid, match="at most 100 characters"):
        await note.submit(gateway, {"instance": "shop", "note": "x" * 101}, 10)


def test_commands(tmp_path: Path) -> None:
    group = click.Group()
    hooks_with(example("hookgw_commands"), tmp_path).commands(group, lambda *_: None)
    assert CliRunner().invoke(group, ["greet", "Ana"]).output == "Hello, Ana!\n"


async def test_run_on_one_node(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    stored: dict[str, Any] = {}

    class Records:
        async def load(self) -> dict[str, Any]:
            return dict(stored)

        async def put(self, changes: dict[str, Any]) -> None:
            stored.update(changes)

    module = example("hookgw_run_on_one_node")
    ((_, run),) = hooks_with(module, tmp_path).background("hookgw_run_on_one_node")
    with trio.move_on_after(2.5 * 24 * 3600):
        await run(cast("PluginGateway", SimpleNamespace(records=Records())))
    assert stored == {"reports": 3}


async def test_run(
    tmp_path: Path, registration: Registration, autojump_clock: trio.testing.MockClock
) -> None:
    ((name, run),) = hooks_with(example("hookgw_run"), tmp_path).background("hookgw_run")
    with structlog.testing.capture_logs() as logs, trio.move_on_after(150):
        await run(gateway_with(registration))
    assert (name, [entry["urls"] for entry in logs]) == ("mine", [[registration.url]] * 2)
