"""Filters of registrations, from the set to the dropped delivery."""

from pathlib import Path
from typing import Any

import pytest

from hookgw import DeliveryState, Event
from hookgw.testing import GatewayKit, Receiver, answer, open_kit
from tests.public.delivery import template_for
from tests.public.kernel import ConfigError
from tests.public.records import encode_payload
from tests.public.store import DeliveryQuery, DeliverySummary
from tests.public.webhooks import parse_registration

pytestmark = pytest.mark.usefixtures("hookgw_clock")

KIND = "MESSAGES_UPSERT"
NOT_MINE = {"pointer": "/data/key/fromMe", "op": "equals", "value": False}
ONE_CHAT = {"pointer": "/data/key/remoteJid", "op": "in", "value": ["1@c", "2@c"]}


def message(jid: str, *, from_me: bool = False) -> dict[str, Any]:
    return {"key": {"remoteJid": jid, "fromMe": from_me, "id": "M1"}, "message": {"conversation": "Oi"}}


async def deliveries(kit: GatewayKit, instance: str = "shop") -> dict[str, DeliverySummary]:
    await kit.settled()
    found = await kit.gateway.store.list_deliveries(DeliveryQuery(instance=instance, limit=1000))
    return {delivery.event_id: delivery for delivery in found.deliveries}


async def change(kit: GatewayKit, **body: Any) -> None:
    parsed, _ = parse_registration(body, kit.gateway.catalog, stored_enabled=True)
    await kit.gateway.registrations.update("shop", "default", parsed)


async def test_what_a_filter_does_not_let_pass_is_dropped_with_the_condition_as_its_reason(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url, filter=[NOT_MINE, ONE_CHAT])
    passed = await hookgw_gateway.emit(KIND, message("1@c"))
    mine = await hookgw_gateway.emit(KIND, message("1@c", from_me=True))
    other = await hookgw_gateway.emit(KIND, message("3@c"))
    without = await hookgw_gateway.emit("CONNECTION_UPDATE", {"state": "open"})
    last = await hookgw_gateway.emit(KIND, message("2@c"))
    found = await deliveries(hookgw_gateway)
    assert hookgw_receiver.ids == [passed.id, last.id]
    reasons = {event.id: found[event.id].reason for event in (mine, other, without)}
    assert reasons == {
        mine.id: "The filter dropped it. This condition does not hold: /data/key/fromMe equals false.",
        other.id: "The filter dropped it. This condition does not hold: "
        '/data/key/remoteJid in ["1@c", "2@c"].',
        without.id: "The filter dropped it. This condition does not hold: /data/key/fromMe equals false.",
    }
    assert {found[name].state for name in reasons} == {DeliveryState.DROPPED}
    assert {found[name].attempts for name in reasons} == {0}
    body, _ = await hookgw_gateway.gateway.metrics.render_in_slices()
    assert b'state="dropped"} 3' in body


async def test_a_changed_filter_holds_for_what_was_not_tried_yet(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(500)
    await hookgw_gateway.register(hookgw_receiver.url)
    tried = await hookgw_gateway.emit(KIND, message("1@c", from_me=True))
    waits = await hookgw_gateway.emit(KIND, message("2@c", from_me=True))
    await hookgw_gateway.settled()
    await change(hookgw_gateway, filter=[NOT_MINE])
    hookgw_receiver.default = answer(200)
    await hookgw_gateway.advance(10)
    found = await deliveries(hookgw_gateway)
    assert found[tried.id].state is DeliveryState.DELIVERED
    assert found[waits.id].state is DeliveryState.DROPPED
    await change(hookgw_gateway, filter=[])
    after = await hookgw_gateway.emit(KIND, message("2@c", from_me=True))
    assert (await deliveries(hookgw_gateway))[after.id].state is DeliveryState.DELIVERED


async def test_true_and_1_are_different_filters(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url, filter=[NOT_MINE | {"value": 1}])
    await change(hookgw_gateway, filter=[NOT_MINE | {"value": True}])
    passed = await hookgw_gateway.emit(KIND, message("1@c", from_me=True))
    assert (await deliveries(hookgw_gateway))[passed.id].state is DeliveryState.DELIVERED


async def test_a_filter_outlives_a_restart(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    async with open_kit(tmp_path) as kit:
        before = await kit.register(hookgw_receiver.url, filter=[NOT_MINE, ONE_CHAT])
    async with open_kit(tmp_path) as kit:
        assert kit.gateway.registrations.get("shop") == before
        await kit.emit(KIND, message("1@c", from_me=True))
        (delivery,) = (await deliveries(kit)).values()
        assert delivery.state is DeliveryState.DROPPED


async def test_a_test_event_is_sent_whatever_the_filter_says(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    nothing = {"pointer": "/data", "op": "notExists"}
    await hookgw_gateway.register(hookgw_receiver.url, filter=[nothing])
    attempt = await hookgw_gateway.gateway.registrations.test("shop")
    assert attempt.outcome == "delivered"


async def test_a_file_that_the_receiver_does_not_get_does_not_exist_for_its_filter(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    data = encode_payload({"message": {"base64": "QUJD"}}, wants_file=lambda: True, max_data=10_000)
    event = Event(id="msg_1", kind=KIND, instance="shop", data_json=data, time=0.0)
    has_file = {"pointer": "/data/message/base64", "op": "exists"}
    for base64 in (False, True):
        stored = await hookgw_gateway.register(hookgw_receiver.url, filter=[has_file], base64=base64)
        assert (template_for(stored).refusal(event) is None) is base64


async def test_global_webhooks_have_filters(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    block = {"label": "audit", "url": hookgw_receiver.url, "filter": [NOT_MINE]}
    async with open_kit(tmp_path, settings={"global_webhooks": [block]}) as kit:
        await kit.gateway.instances.create("shop")
        await kit.emit(KIND, message("1@c", from_me=True))
        passed = await kit.emit(KIND, message("1@c"))
        await kit.settled()
        assert hookgw_receiver.ids == [passed.id]


async def test_a_wrong_filter_in_the_configuration_stops_the_start(tmp_path: Path) -> None:
    block = {"url": "https://a.example/", "filter": [NOT_MINE | {"op": "like"}]}
    with pytest.raises(ConfigError, match=r"global_webhooks\[0\]\.filter\[0\]\.op must be one of equals"):
        async with open_kit(tmp_path, settings={"global_webhooks": [block]}):
            pass
