"""The simulated network: kills, requests to hookgw, files, and faults on demand."""

import base64
import hashlib
import hmac
import json
from pathlib import Path
from random import Random
from typing import Any, get_args

import jsonschema_rs
import pytest
import trio

from hookgw import (
    ConnectionState,
    IngestRequest,
    IngestResponse,
    InstanceSettings,
    Invalid,
    Message,
    NetworkRefused,
    NotFound,
    ProofRefused,
    TextMessage,
    Unavailable,
)
from hookgw.testing import FakeMediaSink, FakeSession
from tests.public.kernel import PluginFailed
from tests.public.plugins import ContainedConnector, Hooks
from tests.public.records import check_schema
from tests.support.simulated import connected, instance, run_for, times_of

pytestmark = pytest.mark.usefixtures("autojump_clock")

ROOT = Path(__file__).parents[2]
HELLO = TextMessage(number="5511988887777", text="hello")


def numbers_of(session: FakeSession) -> list[str]:
    return [data["key"]["id"] for data in session.data_of("MESSAGES_UPSERT")]


async def test_after_kills_the_messages_continue(simulator: ContainedConnector) -> None:
    options: dict[str, Any] = {"rate": 10, "messages": 50, "seed": 3, "connect_delay": 0}
    undisturbed = await run_for(simulator, instance(**options), 60)
    killed, random = instance(**options), Random(1)
    while len(killed.data_of("MESSAGES_UPSERT")) < 50:
        await run_for(simulator, killed, random.uniform(0, 1))
    await run_for(simulator, killed, 60)
    assert numbers_of(killed) == numbers_of(undisturbed)
    assert len(set(numbers_of(killed))) == 50
    assert killed.repeated == []


async def test_a_kill_between_the_commit_and_its_answer_repeats_nothing(
    simulator: ContainedConnector,
) -> None:
    session = instance(rate=1, messages=2, connect_delay=0)
    await run_for(simulator, session, 1.5)
    # The commit was made, and the run ended before it knew.
    before = session.stored
    session.stored = {**before, "received": 0}
    await run_for(simulator, session, 60)
    assert len(numbers_of(session)) == 2
    assert len(session.repeated) == 1


async def test_messages_without_a_seed_continue_too(simulator: ContainedConnector) -> None:
    one, two = [await run_for(simulator, instance(rate=1, messages=3), 60) for _ in range(2)]
    assert numbers_of(one) != numbers_of(two)
    await run_for(simulator, one, 60)
    assert one.stored == {"received": 3, "seed": one.stored["seed"]}
    assert len(numbers_of(one)) == 3


# Requests of the network


def request(body: Any = None, secret: str = "s3cret", **query: str) -> IngestRequest:
    if body is None:
        return IngestRequest(method="GET", query=query, headers={}, body=b"")
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    signature = f"sha256={hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()}"
    return IngestRequest(method="POST", query={}, headers={"x-hub-signature-256": signature}, body=raw)


MESSAGES = {
    "messages": [
        {"id": "A1", "from": "5511988887777", "name": "Ana", "text": "hi"},
        {"id": "A2", "from": "120363040000000000@g.us", "text": "all"},
    ]
}


async def test_a_request_becomes_events_once(simulator: ContainedConnector) -> None:
    session = instance(rate=0, app_secret="s3cret")
    async with connected(simulator, session):
        for _ in range(2):
            assert await simulator.ingest(session, request(MESSAGES)) == IngestResponse()
        first, second = session.data_of("MESSAGES_UPSERT")
        await simulator.settings(session, InstanceSettings(groups_ignore=True))
        await simulator.ingest(session, request({"messages": [{**MESSAGES["messages"][1], "id": "A3"}]}))
    assert first["key"] == {"remoteJid": "5511988887777@s.whatsapp.net", "fromMe": False, "id": "A1"}
    assert (first["pushName"], first["message"]) == ("Ana", {"conversation": "hi"})
    assert second["key"]["remoteJid"] == "120363040000000000@g.us"
    assert len(session.repeated) == 2
    assert len(session.data_of("MESSAGES_UPSERT")) == 2


async def test_the_challenge(simulator: ContainedConnector) -> None:
    session = instance(verify_token="v3rify")
    query = {"hub.mode": "subscribe", "hub.verify_token": "v3rify", "hub.challenge": "1158201444"}
    assert await simulator.ingest(session, request(**query)) == IngestResponse(body=b"1158201444")
    for wrong in ({**query, "hub.verify_token": "other"}, {"hub.challenge": "1"}):
        assert (await simulator.ingest(session, request(**wrong))).status == 403


@pytest.mark.parametrize(
    "wrong",
    [
        request(MESSAGES, secret="other"),
        IngestRequest(method="POST", query={}, headers={}, body=b"{}"),
        IngestRequest(method="POST", query={}, headers={"x-hub-signature-256": "sha256=é"}, body=b"{}"),
    ],
    ids=["other secret", "none", "not ASCII"],
)
async def test_a_wrong_proof(simulator: ContainedConnector, wrong: IngestRequest) -> None:
    with pytest.raises(ProofRefused, match="HMAC-SHA256"):
        await simulator.ingest(instance(app_secret="s3cret"), wrong)


async def test_without_secrets_everything_is_refused(simulator: ContainedConnector) -> None:
    with pytest.raises(ProofRefused):
        await simulator.ingest(instance(), request(MESSAGES, secret=""))
    query = {"hub.mode": "subscribe", "hub.verify_token": "", "hub.challenge": "1"}
    assert (await simulator.ingest(instance(), request(**query))).status == 403


@pytest.mark.parametrize(
    "body", [b"{", {"messages": [{"id": 1}]}, {}, {"messages": [{"id": "A", "from": "nobody", "text": "hi"}]}]
)
async def test_a_malformed_request(simulator: ContainedConnector, body: Any) -> None:
    session = instance(rate=0, app_secret="s3cret")
    async with connected(simulator, session):
        with pytest.raises(Invalid):
            await simulator.ingest(session, request(body))
    assert session.data_of("MESSAGES_UPSERT") == []


async def test_a_request_before_the_connection_is_repeated_later(simulator: ContainedConnector) -> None:
    with pytest.raises(Unavailable):
        await simulator.ingest(instance(app_secret="s3cret"), request(MESSAGES))


# Files


async def test_incoming_pictures_have_a_link_and_a_file(simulator: ContainedConnector) -> None:
    session = await run_for(simulator, instance(rate=10, seed=1), 6)
    images = [
        data["message"]["imageMessage"]
        for data in session.data_of("MESSAGES_UPSERT")
        if data["messageType"] == "imageMessage"
    ]
    assert {image["url"] for image in images} == set(session.media)
    reference, mimetype, file_name = session.media[images[0]["url"]]
    sink = FakeMediaSink()
    await simulator.open_media(session, reference, sink)
    assert sink.content.startswith(b"\x89PNG")
    assert (sink.mimetype, sink.file_name) == (mimetype, file_name) == ("image/png", f"{reference}.png")
    assert images[0]["fileLength"] == str(len(sink.content)) == str(sink.size)
    assert not any("base64" in data["message"] for data in session.data_of("MESSAGES_UPSERT"))


async def test_pictures_are_in_the_event_if_somebody_wants_them(simulator: ContainedConnector) -> None:
    session = FakeSession(options={"rate": 10, "seed": 1}, wants_base64=True)
    await run_for(simulator, session, 6)
    message = next(
        data["message"] for data in session.data_of("MESSAGES_UPSERT") if "imageMessage" in data["message"]
    )
    assert base64.b64decode(message["base64"]).startswith(b"\x89PNG")


async def test_lose_media(simulator: ContainedConnector) -> None:
    with pytest.raises(NotFound, match="lose_media"):
        await simulator.open_media(instance(lose_media=True), "3EB0", FakeMediaSink())


# Faults


async def test_limit_rate(simulator: ContainedConnector) -> None:
    session = instance(rate=0, limit_rate=0.5)
    async with connected(simulator, session):
        await simulator.send(session, HELLO, key="1")
        await trio.sleep(0.5)
        with pytest.raises(NetworkRefused, match=r"0\.5 messages per second") as caught:
            await simulator.send(session, HELLO, key="2")
        refusal = caught.value
        assert (refusal.code, refusal.status, refusal.retry_after) == ("RATE_LIMIT", 429, 1.5)
        # What was sent before is no new message.
        await simulator.send(session, HELLO, key="1")
        await trio.sleep(1.5)
        await simulator.send(session, HELLO, key="2")


async def test_fail_send_has_a_code(simulator: ContainedConnector) -> None:
    session = instance(rate=0, fail_send=1)
    async with connected(simulator, session):
        with pytest.raises(NetworkRefused, match="fail_send") as caught:
            await simulator.send(session, HELLO, key="k")
    assert (caught.value.code, caught.value.status) == ("SIMULATED_FAILURE", 502)


async def test_log_out_after(simulator: ContainedConnector) -> None:
    session = instance(rate=1, connect_delay=0, log_out_after="5500ms")
    await simulator.run(session)
    assert trio.current_time() == 5.5
    assert session.states[-1] == (ConnectionState.CLOSE, 401, {})
    assert len(session.data_of("MESSAGES_UPSERT")) == 5


async def test_lose_connection(simulator: ContainedConnector) -> None:
    session = instance(rate=1, connect_delay=0, lose_connection="2500ms", log_out_after="10s")
    for _ in range(2):
        with pytest.raises(PluginFailed, match="The connection broke because of the option lose_connection"):
            await simulator.run(session)
    assert session.state is ConnectionState.OPEN  # the gateway reports the closed connection
    assert times_of(session, "MESSAGES_UPSERT") == [1, 2, 3.5, 4.5]


# The description of the options


def test_the_schema_describes_every_option(simulator: ContainedConnector, module_of: Any) -> None:
    options = module_of("simulator").options
    schema = simulator.options_schema
    assert schema is not None
    assert check_schema(schema) is None
    properties = schema["properties"]
    assert list(properties) == list(options.Options.__struct_fields__)
    assert all(part["description"].endswith(".") for part in properties.values())
    defaults = {name: part["default"] for name, part in properties.items() if "default" in part}
    assert options.read_options(defaults, strict=True) == options.Options()
    assert [name for name, part in properties.items() if part.get("writeOnly")] == [
        "app_secret",
        "verify_token",
    ]


def test_the_schema_has_the_defaults_of_the_operator_without_secrets(hooks: Hooks) -> None:
    hooks.configure({"simulator": {"rate": 7, "app_secret": "s3cret"}})
    schema = hooks.connectors()["simulator"].options_schema
    assert schema is not None
    assert schema["properties"]["rate"]["default"] == 7
    assert "s3cret" not in str(schema)


@pytest.mark.parametrize(
    ("value", "fits"), [("2s", True), (0, True), ("0", True), (5, False), ("fast", False)]
)
def test_the_schema_knows_durations(simulator: ContainedConnector, value: object, fits: bool) -> None:
    assert simulator.options_schema is not None
    check = jsonschema_rs.validator_for(simulator.options_schema)
    assert check.is_valid({"slow_send": value}) is fits


def test_the_page_lists_every_option(simulator: ContainedConnector) -> None:
    assert simulator.options_schema is not None
    rows = ""
    for name, part in simulator.options_schema["properties"].items():
        default = f"`{json.dumps(part['default'])}`" if "default" in part else ""
        rows += f"| `{name}` | {default} | {part['description']} |\n"
    assert f"{rows}\n" in (ROOT / "plugins" / "README.md").read_text(encoding="utf-8")


def test_it_has_every_call(simulator: ContainedConnector) -> None:
    assert simulator.message_types == frozenset(get_args(Message))
    assert simulator.methods == {
        "run",
        "send",
        "ingest",
        "mark_read",
        "set_presence",
        "edit",
        "delete",
        "settings",
        "restart",
        "find_numbers",
        "find_picture",
        "list_groups",
        "find_group",
        "open_media",
    }
