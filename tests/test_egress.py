"""What leaves a gateway: all of it passes the address guard."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from hookgw.deliveries import Attempt, DeliveryState, Outcome
from hookgw.registrations import GLOBAL_INSTANCE
from hookgw.store import DeliveryQuery, DeliveryReport
from hookgw.testing import GatewayKit, Receiver, open_kit
from tests.support.proxies import http_proxy, open_proxy


async def sent_to(kit: GatewayKit, url: str) -> Attempt:
    """A test delivery to that URL."""
    await kit.register(url)
    return await kit.gateway.test_registration("shop")


async def dead_letter(kit: GatewayKit, instance: str) -> DeliveryReport:
    """The first delivery of an instance that was given up."""
    query = DeliveryQuery(instance=instance, state=DeliveryState.DEAD, limit=1)
    for _ in range(1000):
        await kit.settled()
        if found := await kit.gateway.store.list_deliveries(query):
            report = await kit.gateway.store.find_delivery(instance, found[0].event_id)
            assert report is not None
            return report
    pytest.fail("nothing was given up")


@pytest.mark.parametrize("url", ["http://10.1.2.3/hook", "http://8.8.8.8:25/hook"])
async def test_a_test_event_passes_the_guard(tmp_path: Path, hookgw_clock: MockClock, url: str) -> None:
    async with open_kit(tmp_path) as kit:
        attempt = await sent_to(kit, url)
    assert attempt.outcome is Outcome.BLOCKED
    assert "is not dialled" in (attempt.error or "")


async def test_the_settings_say_which_ports_are_refused(tmp_path: Path, hookgw_clock: MockClock) -> None:
    async with open_kit(tmp_path, settings={"delivery": {"refused_ports": [8081]}}) as kit:
        assert (await sent_to(kit, "http://127.0.0.1:8081/")).outcome is Outcome.BLOCKED
        assert (await sent_to(kit, "http://127.0.0.1:22/")).outcome is not Outcome.BLOCKED


async def test_operational_events_pass_the_guard(tmp_path: Path, hookgw_clock: MockClock) -> None:
    async with open_kit(tmp_path, settings={"operations": {"url": "http://10.1.2.3/ops"}}) as kit:
        await kit.register("http://10.9.9.9/hook")
        await kit.emit("CALL", {})
        report = await dead_letter(kit, GLOBAL_INSTANCE)
    assert report.attempts[0].outcome is Outcome.BLOCKED
    assert "10.1.2.3/32" in (report.attempts[0].error or "")


async def test_a_gateway_does_not_deliver_to_itself(tmp_path: Path, hookgw_clock: MockClock) -> None:
    async with open_kit(tmp_path) as kit:
        kit.gateway.listens_on(["http://127.0.0.1:8080", "unix:/run/hookgw.sock"])
        assert (await sent_to(kit, "http://127.0.0.1:8080/")).outcome is Outcome.BLOCKED


async def test_deliveries_go_through_the_proxy_of_the_settings(
    tmp_path: Path, hookgw_clock: MockClock, hookgw_receiver: Receiver
) -> None:
    async with open_proxy(http_proxy, reaches=hookgw_receiver.port, credentials="ann:hunter2") as proxy:
        settings = {"delivery": {"proxy": f"http://ann:hunter2@127.0.0.1:{proxy.port}"}}
        async with open_kit(tmp_path, settings=settings) as kit:
            attempt = await sent_to(kit, hookgw_receiver.url)
    assert attempt.outcome is Outcome.DELIVERED
    assert proxy.asked == [f"127.0.0.1:{hookgw_receiver.port}"]


async def test_a_proxy_that_does_not_connect_makes_the_receiver_unreachable(
    tmp_path: Path, hookgw_clock: MockClock, hookgw_receiver: Receiver
) -> None:
    async with open_proxy(http_proxy) as proxy:
        settings = {"delivery": {"proxy": f"http://127.0.0.1:{proxy.port}"}}
        async with open_kit(tmp_path, settings=settings) as kit:
            attempt = await sent_to(kit, hookgw_receiver.url)
    assert attempt.outcome is Outcome.UNREACHABLE
    assert "the proxy answered 403 Forbidden" in (attempt.error or "")
