import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import trio

from hookgw import Gateway
from hookgw.testing import Receiver
from tests.api.conftest import KEY, open_client, open_whole_gateway
from tests.api.test_app import shape_of
from tests.public.config import EventsSettings, LimitsSettings, Settings
from tests.public.core import run_in_slices
from tests.public.records import OPERATIONAL_KINDS
from tests.support.application import create_app

EMIT = "/event/emit/loja1"
PAYLOADS = sorted((Path(__file__).parents[2] / "payloads").glob("*.json"))
EXAMPLE = {
    "key": {"remoteJid": "5511988887777@s.whatsapp.net", "fromMe": False, "id": "A1"},
    "message": {"conversation": "Oi"},
    "messageTimestamp": 1773027345,
}


def one(**changes: Any) -> dict[str, Any]:
    return {"event": "MESSAGES_UPSERT", "data": EXAMPLE} | changes


@pytest.fixture
async def client(client: httpx.AsyncClient, gateway: Gateway) -> httpx.AsyncClient:
    """With an instance."""
    await gateway.instances.create("loja1")
    return client


async def test_a_single_event(client: httpx.AsyncClient) -> None:
    response = await client.post(EMIT, json=one(id="a-1"))
    assert response.status_code == 202
    nothing = {"deliveries": 0, "bytes": 0}
    assert response.json() == {"accepted": 1, "duplicates": 0, "ids": ["a-1"], "backlog": nothing}


async def test_duplicates_are_counted(client: httpx.AsyncClient) -> None:
    await client.post(EMIT, json=one(id="a-1"))
    response = await client.post(EMIT, json=[one(id="a-1"), one(id="a-2"), one(id="a-2")])
    answer = response.json()
    assert (answer["accepted"], answer["duplicates"], answer["ids"]) == (1, 2, ["a-1", "a-2", "a-2"])


async def test_lines(client: httpx.AsyncClient) -> None:
    body = "\n".join(json.dumps(one(id=str(number))) for number in range(3))
    response = await client.post(EMIT, content=body, headers={"content-type": "application/x-ndjson"})
    assert (response.status_code, response.json()["ids"]) == (202, ["0", "1", "2"])


async def test_an_idempotency_key(client: httpx.AsyncClient) -> None:
    for duplicates in (0, 1):
        response = await client.post(EMIT, json=one(), headers={"idempotency-key": "k-1"})
        answer = response.json()
        found = answer["accepted"], answer["duplicates"], answer["ids"]
        assert found == (1 - duplicates, duplicates, ["k-1"])


WITH_KEY = {"idempotency-key": "k-1"}
FIRST = {"event": "CALL", "data": {"a": [1, 1.50, "é"], "b": True}}


async def emit_first(client: httpx.AsyncClient, receiver: Receiver) -> None:
    await client.post("/webhook/set/loja1", json={"url": receiver.url})
    assert (await client.post(EMIT, json=FIRST, headers=WITH_KEY)).json()["accepted"] == 1


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(FIRST),
        json.dumps({**FIRST, "event": "call", "date_time": "2026-11-20T12:00:00Z", "sender": "x"}),
        json.dumps({**FIRST, "id": "k-1"}),
        '{"data": {"b":true, "a":[1.0,15e-1,"\\u00e9"]}, "event": "CALL"}',
    ],
    ids=["the same", "other fields", "its id too", "another spelling"],
)
async def test_a_key_with_the_same_content_is_a_repetition(
    body: str, client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    await emit_first(client, hookgw_receiver)
    response = await client.post(EMIT, content=body, headers={**WITH_KEY, "content-type": "application/json"})
    assert (response.status_code, response.json()["duplicates"]) == (202, 1)


@pytest.mark.parametrize(
    ("path", "changed", "what"),
    [
        (EMIT, {"event": "PRESENCE_UPDATE"}, "kind"),
        (EMIT, {"data": {"a": [1, 1.5, "é"], "b": 1}}, "data"),
        (EMIT, {"data": {"a": [1.5, 1, "é"], "b": True}}, "data"),
        (EMIT, {"data": "x" * 10_000}, "data"),
        (EMIT, {"data": None}, "data"),
        (f"{EMIT}/CALL", {"data": None}, "data"),
    ],
)
async def test_a_key_with_other_content_is_refused(
    changed: dict[str, Any], what: str, path: str, client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    await emit_first(client, hookgw_receiver)
    response = await client.post(path, json=FIRST | changed, headers=WITH_KEY)
    sentence = f"Idempotency-Key: it was used for an event with another {what}. Use a new key for each event."
    assert (response.status_code, shape_of(response)) == (422, [sentence])
    assert response.json()["error"] == "Unprocessable Content"
    # Without the header, an id that comes again is a duplicate, whatever it is the id of.
    response = await client.post(path, json=FIRST | changed | {"id": "k-1"})
    assert (response.status_code, response.json()["duplicates"]) == (202, 1)


async def test_a_key_of_an_event_that_nobody_wants_is_compared_too(client: httpx.AsyncClient) -> None:
    await client.post(EMIT, json=FIRST, headers=WITH_KEY)
    response = await client.post(EMIT, json=FIRST, headers=WITH_KEY)
    assert (response.status_code, response.json()["duplicates"]) == (202, 1)
    response = await client.post(EMIT, json=FIRST | {"data": 1}, headers=WITH_KEY)
    assert response.status_code == 422


@pytest.mark.parametrize("path", PAYLOADS, ids=lambda path: path.name)
async def test_envelopes_of_other_gateways(path: Path, client: httpx.AsyncClient) -> None:
    headers = {"content-type": "application/json"}
    body = await trio.Path(path).read_bytes()
    response = await client.post(EMIT, content=body, headers=headers)
    assert response.status_code == 202
    assert response.json()["accepted"] == 1


OF_KIND = f"{EMIT}/messages-upsert"


@pytest.mark.parametrize("spelling", ["messages-upsert", "MESSAGES_UPSERT", "messages.upsert"])
@pytest.mark.parametrize("body", [one(), EXAMPLE], ids=["the event", "its data"])
async def test_the_path_names_the_kind(spelling: str, body: Any, client: httpx.AsyncClient) -> None:
    """As Evolution API calls a URL with byEvents."""
    response = await client.post(f"{EMIT}/{spelling}", json=body)
    assert (response.status_code, response.json()["accepted"]) == (202, 1)


async def test_another_kind_than_the_path_says(client: httpx.AsyncClient) -> None:
    response = await client.post(OF_KIND, json=one(event="messages.update"))
    assert response.status_code == 400
    assert shape_of(response) == ["event is MESSAGES_UPDATE, but the path says MESSAGES_UPSERT."]


async def test_the_path_names_no_kind(client: httpx.AsyncClient) -> None:
    response = await client.post(f"{EMIT}/mesages-upsert", json=EXAMPLE)
    assert response.status_code == 400
    (problem,) = shape_of(response)
    assert problem == (
        "The kind in the path: 'mesages-upsert' is not a known event kind. Did you mean MESSAGES_UPSERT?"
    )
    unknown = await client.post("/event/emit/nobody/mesages-upsert", json=EXAMPLE)
    assert unknown.status_code == 404


@pytest.mark.parametrize("path", [EMIT, OF_KIND])
async def test_a_message_that_comes_again_is_a_duplicate(path: str, client: httpx.AsyncClient) -> None:
    counts = []
    for text in ("Oi", "Oi", "Oi!"):  # whatever else is in it
        event = one(data={**EXAMPLE, "message": {"conversation": text}})
        response = await client.post(path, json=event, params={"dedupe": "message"})
        counts.append(response.json()["duplicates"])
    assert counts == [0, 1, 1]
    other = {**EXAMPLE, "key": {**EXAMPLE["key"], "id": "A2"}}  # type: ignore[dict-item]
    response = await client.post(path, json=[one(data=other), one()], params={"dedupe": "message"})
    assert response.json()["duplicates"] == 1
    # Without the parameter, as before.
    assert (await client.post(path, json=one())).json()["duplicates"] == 0


async def test_a_message_is_recognised_after_a_restart(
    settings: Settings, tmp_path: Path, nursery: trio.Nursery
) -> None:
    counts = []
    for start in ("first", "second"):
        async with open_whole_gateway(settings, base=tmp_path) as gateway:
            if start == "first":
                await gateway.instances.create("loja1")
            async with open_client(create_app(gateway), nursery, apikey=KEY) as client:
                response = await client.post(EMIT, json=one(), params={"dedupe": "message"})
                counts.append(response.json()["duplicates"])
    assert counts == [0, 1]


async def test_dedupe_by_something_else(client: httpx.AsyncClient) -> None:
    for value in ("content", "", "messages"):
        response = await client.post(EMIT, json=one(), params={"dedupe": value})
        assert response.status_code == 400
        assert shape_of(response) == ["dedupe in the query must be message."]


async def test_a_batch_is_taken_whole_or_not_at_all(client: httpx.AsyncClient) -> None:
    batch = [one(id="a"), one(id="b.c"), one(id="d"), one(event="MESAGES_UPSERT")]
    response = await client.post(EMIT, json=batch)
    assert response.status_code == 400
    second, fourth = shape_of(response)
    assert second.startswith("events[1].id must be")
    assert fourth.startswith("events[3].event: ")
    assert fourth.endswith("Did you mean MESSAGES_UPSERT?")
    assert (await client.post(EMIT, json=batch[::2])).json()["duplicates"] == 0


async def test_a_batch_is_read_in_steps(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    holders = []

    async def run(holder: str, steps: Any) -> Any:
        holders.append(holder)
        return await run_in_slices(holder, steps)

    monkeypatch.setattr("hookgw.web.body.run_in_slices", run)
    assert (await client.post(EMIT, json=[one(), one()])).json()["accepted"] == 2
    assert (await client.post(EMIT, json=[one(), 5])).status_code == 400
    assert (await client.post(EMIT, json=one(data={"text": "x" * 5000}))).status_code == 202
    assert holders == ["loja1"] * 3
    # Nothing else may delay a short event.
    assert (await client.post(EMIT, json=one())).status_code == 202
    assert holders == ["loja1"] * 3


async def test_the_path_alone_names_the_instance(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("loja2")
    response = await client.post(EMIT, json=one(id="a", instance="loja2"))
    assert response.json()["warnings"] == ["instance was ignored: the path says loja1."]
    assert (await client.post("/event/emit/loja2", json=one(id="a"))).json()["duplicates"] == 0


async def test_what_arrives_is_what_was_emitted(client: httpx.AsyncClient, hookgw_receiver: Receiver) -> None:
    await client.post("/webhook/set/loja1", json={"url": hookgw_receiver.url})
    data = '{"z": 18446744073709551615, "a": 1.50}'
    body = f'{{"event": "messages.upsert", "data": {data}}}'
    await client.post(EMIT, content=body, headers={"content-type": "application/json"})
    (received,) = await hookgw_receiver.wait_for(1)
    assert data.encode() in received.body


async def test_a_payload_that_breaks_its_schema_is_warned_of(client: httpx.AsyncClient) -> None:
    answer = (await client.post(EMIT, json=one(data={"key": 5}))).json()
    assert answer["accepted"] == 1
    assert answer["warnings"]


class TestStrict:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return Settings(
            server=settings.server,
            auth=settings.auth,
            storage=settings.storage,
            events=EventsSettings(validate="strict"),
        )

    async def test_a_payload_that_breaks_its_schema_is_refused(self, client: httpx.AsyncClient) -> None:
        response = await client.post(EMIT, json=[one(), one(data={"key": 5})])
        assert response.status_code == 400
        assert all(message.startswith("events[1]") for message in shape_of(response))
        response = await client.post(EMIT, json=one(data={"key": 5}))
        assert response.status_code == 400
        assert all(message.startswith("data") for message in shape_of(response))
        response = await client.post(EMIT, json=[one(data={"key": 5})])
        assert all(message.startswith("events[0].data") for message in shape_of(response))


async def test_the_catalog(client: httpx.AsyncClient, gateway: Gateway) -> None:
    kinds = (await client.get("/event/kinds")).json()
    assert [kind["name"] for kind in kinds] == [kind.name for kind in gateway.catalog]
    upsert = next(kind for kind in kinds if kind["name"] == "MESSAGES_UPSERT")
    fields = ["name", "dotted", "aliases", "meaning", "schema", "example", "plugin", "operational"]
    assert list(upsert) == fields
    assert (upsert["dotted"], upsert["plugin"], upsert["operational"]) == ("messages.upsert", None, False)
    operational = {kind["name"] for kind in kinds if kind["operational"]}
    assert operational == {kind.name for kind in OPERATIONAL_KINDS}
    assert next(kind for kind in kinds if kind["name"] == "CALL")["plugin"] == "gateway_kinds"


async def test_a_list_without_events_takes_what_no_kind_is_known_for_too(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    found = next(
        kind for kind in (await client.get("/event/kinds")).json() if kind["name"] == "NETWORK_EVENT"
    )
    assert (found["dotted"], found["plugin"]) == ("network.event", None)
    assert "NETWORK_EVENT" in (await client.get("/openapi.json")).text
    await client.post("/webhook/set/loja1", json={"url": "http://127.0.0.1:9/", "events": []})
    event = {"event": "NETWORK_EVENT", "data": found["example"]}
    assert (await client.post(EMIT, json=event)).status_code == 202
    [delivery] = (await client.get("/delivery/list/loja1")).json()["deliveries"]
    assert delivery["kind"] == "NETWORK_EVENT"


async def test_nobody_hears_of_an_event_without_a_registration(client: httpx.AsyncClient) -> None:
    await client.post(EMIT, json=one())
    assert (await client.get("/delivery/list/loja1")).json() == {"deliveries": [], "cursor": None}


class TestAtALimit:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, limits=LimitsSettings(deliveries=2))

    async def test_producers_are_told_when_to_try_again(self, client: httpx.AsyncClient) -> None:
        await client.post("/webhook/set/loja1", json={"url": "http://127.0.0.1:9/"})
        response = await client.post(EMIT, json=[one(), one(), one()])
        assert response.status_code == 413
        assert "limits.deliveries" in response.text
        response = await client.post(EMIT, json=[one(data=1), one(data="two")])
        assert response.json()["backlog"] == {"deliveries": 2, "bytes": 6}
        (listed,) = (await client.get("/instance/fetchInstances")).json()
        assert listed["backlog"] == {"deliveries": 2, "bytes": 6}
        response = await client.post(EMIT, json=one())
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) > 0
        assert "limits.deliveries: 2" in response.text


class TestAtTheShareOfAnInstance:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        limits = LimitsSettings(deliveries=5, instance_reserved_deliveries=0)
        return msgspec.structs.replace(settings, limits=limits)

    async def test_the_others_have_room(self, client: httpx.AsyncClient) -> None:
        for name in ("loja1", "loja2"):
            await client.post(f"/webhook/set/{name}", json={"url": "http://127.0.0.1:9/"})
        response = await client.post(EMIT, json=[one()] * 5)
        assert response.status_code == 413
        assert "four fifths of limits.deliveries (5)" in response.text
        assert (await client.post(EMIT, json=[one(), one(), one()])).status_code == 202
        assert (await client.post("/event/emit/loja2", json=one())).status_code == 202
        response = await client.post(EMIT, json=one())
        assert response.status_code == 429
        assert int(response.headers["retry-after"]) > 0
        assert "limits.deliveries: 5" in response.text


async def test_erase(client: httpx.AsyncClient) -> None:
    await client.post("/webhook/set/loja1", json={"url": "https://example.com/hook"})
    await client.post("/webhook/pause/loja1")
    for jid in ("1@s.whatsapp.net", "2@s.whatsapp.net", "1@s.whatsapp.net"):
        await client.post("/event/emit/loja1", json={"event": "CALL", "data": {"remoteJid": jid}})
    body = {"remoteJid": "1@s.whatsapp.net"}
    refused = await client.post("/event/erase/loja1", json=body | {"odd": 1})
    assert refused.status_code == 400
    assert "odd is not a field of an erasure." in refused.text
    response = await client.post("/event/erase/loja1", json=body)
    assert (response.status_code, response.json()) == (200, {"events": 2, "deliveries": 2})
    assert len((await client.get("/delivery/list/loja1")).json()["deliveries"]) == 1
    for bad in ({}, {"remoteJid": ""}, {"remoteJid": 5}, {"remoteJid": "x" * 256}):
        assert (await client.post("/event/erase/loja1", json=bad)).status_code == 400
