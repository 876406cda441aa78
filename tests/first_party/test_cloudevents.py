"""The plugin cloudevents, read by the official SDK for Python."""

import json
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from cloudevents.core.v1.event import CloudEvent

from hookgw import Event
from hookgw.testing import GatewayKit, Received, Receiver, answer
from tests.first_party.amqp_broker import open_broker
from tests.public.kernel import Invalid, rfc3339

pytestmark = pytest.mark.usefixtures("hookgw_clock")

KIND = "MESSAGES_UPSERT"
DATA = {"key": {"id": "A1"}, "message": {"conversation": "Olá, “você” 100 %"}}


def read(request: Received) -> CloudEvent:
    found = from_http_event(HTTPMessage(dict(request.headers), request.body))
    assert isinstance(found, CloudEvent)
    return found


def check(
    found: CloudEvent, event: Event, source: str = "/hookgw/shop", kind: str = f"hookgw.{KIND}"
) -> None:
    assert found.get_specversion() == "1.0"
    assert (found.get_id(), found.get_source(), found.get_type()) == (event.id, source, kind)
    assert found.get_datacontenttype() == "application/json"
    assert found.get_extension("instance") == "shop"
    time = found.get_time()
    assert time is not None
    assert rfc3339(time.timestamp()) == rfc3339(event.time)
    assert found.get_data() == DATA


@pytest.mark.parametrize("mode", ["structured", "binary"])
async def test_the_sdk_reads_what_is_sent(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, mode: str
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url, plugins={"cloudevents": {"mode": mode}})
    event = await hookgw_gateway.emit(KIND, DATA)
    await hookgw_gateway.settled()
    (request,) = hookgw_receiver.requests
    check(read(request), event)
    is_structured = request.header("content-type") == "application/cloudevents+json"
    assert is_structured is (mode == "structured")
    assert (request.header("ce-id") is not None) is (mode == "binary")
    assert request.header("webhook-id") == event.id


async def test_attributes_are_chosen_and_encoded(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    options = {"mode": "binary", "source": "https://shops.example/{instance}?a=%20b", "type_prefix": 'com.x"'}
    await hookgw_gateway.register(hookgw_receiver.url, plugins={"cloudevents": options})
    event = await hookgw_gateway.emit(KIND, DATA)
    await hookgw_gateway.settled()
    (request,) = hookgw_receiver.requests
    check(read(request), event, "https://shops.example/shop?a=%20b", f'com.x"{KIND}')
    assert request.header("ce-source") == "https://shops.example/shop?a=%2520b"
    assert request.header("ce-type") == f"com.x%22{KIND}"


@pytest.mark.parametrize("mode", ["structured", "binary"])
async def test_a_retry_after_a_change_of_the_mode_is_one_event_still(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, mode: str
) -> None:
    hookgw_receiver.will(answer(500), answer(204))
    await hookgw_gateway.register(hookgw_receiver.url, plugins={"cloudevents": {"mode": mode}})
    event = await hookgw_gateway.emit(KIND, DATA)
    await hookgw_gateway.settled()
    if mode == "structured":
        await hookgw_gateway.register(hookgw_receiver.url, plugins={"cloudevents": {"mode": "binary"}})
    await hookgw_gateway.advance(60)
    first, second = hookgw_receiver.requests
    assert first.body == second.body
    check(read(second), event)


async def test_a_payload_that_is_a_cloudevent_is_the_data_in_binary_mode(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    # As the SDK for Go writes it, for example to an instance of the connector webhook.
    data = {"specversion": "1.0", "id": "1", "source": "/orders", "type": "order.paid", "data": {}}
    await hookgw_gateway.register(hookgw_receiver.url, plugins={"cloudevents": {"mode": "binary"}})
    event = await hookgw_gateway.emit(KIND, data)
    await hookgw_gateway.settled()
    (request,) = hookgw_receiver.requests
    assert request.header("content-type") == "application/json"
    found = read(request)
    assert (found.get_id(), found.get_type(), found.get_data()) == (event.id, f"hookgw.{KIND}", data)


async def test_registrations_without_the_block_are_as_they_were(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit(KIND, DATA)
    await hookgw_gateway.settled()
    (request,) = hookgw_receiver.requests
    assert json.loads(request.body)["event"] == KIND
    assert request.header("ce-id") is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"mode": "batched"}, "Invalid enum value 'batched'"),
        ({"mod": "binary"}, "unknown field `mod`"),
        ({"source": ""}, "source: use a URI or a path"),
        ({"source": "a b"}, "source: use a URI or a path"),
        ({"source": "{event}"}, "source: use a URI or a path"),
        ({"type_prefix": "a\n"}, "type_prefix: use visible ASCII"),
    ],
)
async def test_wrong_options_are_refused(
    hookgw_gateway: GatewayKit, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Invalid, match=r"^webhook.plugins.cloudevents: ") as caught:
        await hookgw_gateway.register("https://crm.example/", plugins={"cloudevents": options})
    assert sentence in str(caught.value)


async def test_other_destinations_get_cloudevents_too(hookgw_gateway: GatewayKit) -> None:
    async with open_broker() as broker:
        await hookgw_gateway.register(broker.url(), plugins={"cloudevents": {}})
        event = await hookgw_gateway.emit(KIND, DATA)
        await hookgw_gateway.settled()
    (message,) = broker.messages
    content_type = message.properties.content_type or ""
    assert content_type == "application/cloudevents+json"
    found = from_http_event(HTTPMessage({"content-type": content_type}, message.content))
    assert isinstance(found, CloudEvent)
    check(found, event)
