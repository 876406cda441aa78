"""Deliveries that are sent again with other data, or once to another URL."""

from pathlib import Path

import pytest

from hookgw import Conflict, NotFound, Outcome
from hookgw.testing import GatewayKit, Receiver, answer, open_kit, open_receiver
from tests.public.records import edited_from, edited_id
from tests.public.store import AuditQuery

pytestmark = pytest.mark.usefixtures("hookgw_clock")


def test_the_id_of_an_edited_event_names_the_former_one_and_the_edit() -> None:
    first = edited_id("msg_1", b'{"a": 1}')
    assert first == edited_id("msg_1", b'{"a": 1}') != edited_id("msg_1", b'{"a": 2}')
    assert edited_from(first) == "msg_1"
    assert edited_from(edited_id(first, b"1")) == first
    assert edited_from("msg_1") is None
    assert edited_from("my-edited-thing") is None
    long = edited_id("x" * 255, b"1")
    assert len(long) == 255
    assert (edited_from(long) or "").startswith("xxx")


async def test_other_data_goes_to_the_same_registration_as_a_new_event(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(f"{hookgw_receiver.url}crm", label="crm", events=["CALL"])
    hookgw_receiver.default = answer(400)
    event = await hookgw_gateway.emit("CALL", {"n": 1})
    await hookgw_gateway.settled()
    hookgw_receiver.default = answer()
    hookgw_receiver.requests.clear()
    await hookgw_gateway.register(f"{hookgw_receiver.url}other", label="other")
    deliveries = hookgw_gateway.gateway.deliveries
    summary = await deliveries.resend_edited("shop", event.id, b'{"n":2}')
    assert summary.event_id == edited_id(event.id, b'{"n":2}')
    await hookgw_gateway.settled()
    again = await deliveries.resend_edited("shop", event.id, b'{"n":2}')  # it is there already
    assert again.id == summary.id
    await hookgw_gateway.settled()
    (request,) = hookgw_receiver.requests
    assert (request.target, request.header("webhook-id")) == ("/crm", summary.event_id)
    assert request.header("x-edited-from") == event.id
    assert request.header("webhook-signature")
    assert request.json["data"] == {"n": 2}
    entries = (await hookgw_gateway.gateway.audit.list(AuditQuery(action="delivery.resend"))).entries
    assert [one.details["editedFrom"] for one in entries] == [event.id] * 2
    former = await deliveries.resend("shop", event.id)
    assert former.event_id == event.id  # it is kept as it was
    await hookgw_gateway.settled()
    assert hookgw_receiver.requests[-1].header("x-edited-from") is None


async def test_another_url_gets_it_once_without_what_is_secret(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url, headers={"authorization": "Bearer secret"})
    event = await hookgw_gateway.emit("CALL", {"n": 1})
    await hookgw_gateway.settled()
    async with open_receiver() as stranger:
        stranger.will(answer(503))
        call = hookgw_gateway.gateway.deliveries.send_elsewhere
        attempt = await call("shop", event.id, f"{stranger.url}look")
        assert (attempt.outcome, attempt.status) == (Outcome.UNREACHABLE, 503)
        await hookgw_gateway.settled()
        (request,) = stranger.requests
    assert (request.target, request.header("webhook-id")) == ("/look", event.id)
    assert request.json["data"] == {"n": 1}
    assert request.header("authorization") is None
    assert request.header("webhook-signature") is None
    report = await hookgw_gateway.gateway.history.find("shop", event.id)
    assert len(report.attempts) == 1
    assert len(hookgw_receiver.requests) == 1
    (entry,) = (await hookgw_gateway.gateway.audit.list(AuditQuery(action="delivery.resend"))).entries
    assert entry.details["url"].endswith("/look")


async def test_the_address_guard_applies_to_another_url(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    async with open_kit(tmp_path, settings={"delivery": {"allow_networks": ["127.0.0.1/32"]}}) as kit:
        await kit.register(hookgw_receiver.url)
        event = await kit.emit("CALL", {})
        await kit.settled()
        attempt = await kit.gateway.deliveries.send_elsewhere("shop", event.id, "http://169.254.169.254/")
        assert attempt.outcome is Outcome.BLOCKED


async def test_what_cannot_be_sent_again_is_refused(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    deliveries = hookgw_gateway.gateway.deliveries
    await hookgw_gateway.register(hookgw_receiver.url)
    event = await hookgw_gateway.emit("CALL", {})
    await hookgw_gateway.settled()
    with pytest.raises(NotFound):
        await deliveries.resend_edited("shop", "nothing", b"{}")
    with pytest.raises(NotFound):
        await deliveries.send_elsewhere("other", event.id, hookgw_receiver.url)
    await hookgw_gateway.register(hookgw_receiver.url, enabled=False)
    with pytest.raises(Conflict, match="disabled"):
        await deliveries.resend_edited("shop", event.id, b"{}")
    await hookgw_gateway.gateway.registrations.delete("shop")
    for call in (
        deliveries.resend_edited("shop", event.id, b"{}"),
        deliveries.send_elsewhere("shop", event.id, hookgw_receiver.url),
    ):
        with pytest.raises(Conflict, match="deleted"):
            await call


async def test_a_test_sends_the_given_kind_and_data(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    test = hookgw_gateway.gateway.registrations.test
    await test("shop", kind="CALL", data_json=b'{"n":1}')
    await test("shop", kind="CALL")
    await test("shop", data_json=b"[]")
    first, second, third = (one.json for one in hookgw_receiver.requests)
    assert (first["event"], first["data"]) == (second["event"], {"n": 1})
    assert second["data"]
    assert second["data"] != {"n": 1}
    assert (third["event"], third["data"]) == ("MESSAGES_UPSERT", [])
