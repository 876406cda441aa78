"""Targets that the settings refuse: not the event's fault."""

import socket
from pathlib import Path
from typing import Any

import pytest

from hookgw import DeliveryState, LaneState, Outcome
from hookgw.testing import GatewayKit, Receiver, kit, open_kit, open_receiver
from tests.faults.support import KIND, attempts_of, state_of, wait_of
from tests.public.delivery import Found

pytestmark = pytest.mark.usefixtures("hookgw_clock")


class Names:
    """Where the one name leads."""

    def __init__(self) -> None:
        self.address = "10.0.0.5"

    async def resolve(self, host: str, port: int, **options: Any) -> Found:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.address, port))]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    found = Names()
    monkeypatch.setattr(kit, "resolve_locally", found.resolve)
    return found


async def test_a_name_that_leads_to_a_refused_address_for_a_while_loses_nothing(
    names: Names, tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    async with open_receiver() as operator:
        settings = {"operations": {"url": operator.url.replace("127.0.0.1", "localhost")}}
        names.address = "127.0.0.1"
        async with open_kit(tmp_path, settings=settings) as gateway:
            names.address = "10.0.0.5"
            await gateway.register(f"http://shop.example:{hookgw_receiver.port}/")
            events = [await gateway.emit(KIND, {"n": n}) for n in range(5)]
            for wait in (1.0, 2.0, 4.0, 8.0):
                await gateway.settled()
                assert wait - 0.01 <= wait_of(gateway, "shop.example") <= wait * 1.1
                await gateway.advance(wait_of(gateway, "shop.example") + 0.001)
            [lane] = [one for one in gateway.gateway.lanes() if "shop.example" in str(one.url)]
            assert (lane.state, lane.backlog, lane.last_outcome) == (LaneState.WAITING, 5, Outcome.BLOCKED)
            assert "delivery.allow_networks" in (lane.last_error or "")
            names.address = "127.0.0.1"
            await gateway.advance(wait_of(gateway, "shop.example") + 0.001)
            assert hookgw_receiver.ids == [event.id for event in events]
            assert {one.outcome for one in (await attempts_of(gateway, events[0]))[:-1]} == {Outcome.BLOCKED}
            await gateway.advance(300)
        told = [request.body for request in operator.requests if b"LANE_FAILING" in request.body]
    assert len(told) >= 1
    assert any(b'"blocked"' in body and b"delivery.allow_networks" in body for body in told)


async def test_a_setting_that_is_missing_for_a_restart_costs_nothing(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    refuses = {"delivery": {"refused_ports": [hookgw_receiver.port]}}
    async with open_kit(tmp_path, settings=refuses) as gateway:
        await gateway.register(hookgw_receiver.url)
        events = [await gateway.emit(KIND, {"n": n}) for n in range(3)]
        await gateway.advance(3600)
        assert [await state_of(gateway, event) for event in events] == [DeliveryState.PENDING] * 3
    async with open_kit(tmp_path) as gateway:
        await gateway.settled()
        await gateway.advance(300)
        assert hookgw_receiver.ids == [event.id for event in events]


async def test_an_address_that_stays_refused_is_waited_for_until_max_age(tmp_path: Path) -> None:
    async with open_kit(tmp_path, settings={"delivery": {"max_age": "1h"}}) as gateway:
        await gateway.register("http://10.1.2.3/hook")
        events = [await gateway.emit(KIND, {"n": n}) for n in range(3)]
        await gateway.settled()
        while gateway.gateway.lanes()[0].state is LaneState.WAITING:
            await gateway.advance(wait_of(gateway) + 0.001)
        reports = [await gateway.gateway.store.find_delivery("shop", event.id) for event in events]
    for report in reports:
        assert report is not None
        assert report.summary.state is DeliveryState.DEAD
        assert "target address was refused until the event was older than max_age" in str(
            report.summary.reason
        )
    assert [len(report.attempts) for report in reports if report is not None][1:] == [0, 0]


async def test_another_url_is_tried_at_once(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    await hookgw_gateway.register("http://10.1.2.3/hook")
    event = await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.advance(100)
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.settled()
    assert await state_of(hookgw_gateway, event) is DeliveryState.DELIVERED
