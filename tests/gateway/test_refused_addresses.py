"""Registrations whose address is refused: what is said of them, and whom their backlog concerns."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from hookgw import DeliveryState, LaneState, Outcome
from hookgw.testing import GatewayKit, Receiver, open_kit
from tests.gateway.test_pending import emit
from tests.public.delivery import Blocked, Dialer
from tests.public.kernel import TooManyRequests
from tests.public.records import advice_for, skippable
from tests.support.kit import states

pytestmark = pytest.mark.usefixtures("hookgw_clock")

SETTING = 'delivery.allow_networks: ["10.0.0.5/32"]'
BLOCKED = f"The host crm.example is blocked. Port 80 of 10.0.0.5 is not dialled. To allow it, set {SETTING}."


def refuse_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the names of receivers resolve to an address that is refused."""
    vet = Dialer.vet

    async def refuse(self: Dialer, host: str, port: int, *more: str) -> Any:
        if host == "crm.example":
            raise Blocked(BLOCKED)
        return await vet(self, host, port, *more)

    monkeypatch.setattr(Dialer, "vet", refuse)


async def test_lists_and_pages_name_the_setting_after_a_refused_attempt(
    hookgw_gateway: GatewayKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = hookgw_gateway.gateway
    refuse_names(monkeypatch)
    registration = await hookgw_gateway.register("http://crm.example/hook")
    assert gateway.registrations.refusals(registration) == []
    await emit(hookgw_gateway, 2)
    await hookgw_gateway.settled()
    (lane,) = gateway.lanes()
    assert (lane.last_outcome, lane.last_error) == (Outcome.BLOCKED, BLOCKED)
    assert gateway.registrations.refusals(registration) == [f"url: {BLOCKED}"]
    (problem,) = (await gateway.views.overview(None, 20)).problems
    assert SETTING in problem.why
    # The next delivery would fare no better: nothing suggests to skip this one.
    assert problem.delivery == "" == skippable(lane)


async def test_a_backlog_behind_a_refused_address_is_no_reason_to_skip(
    hookgw_gateway: GatewayKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = hookgw_gateway.gateway
    refuse_names(monkeypatch)
    await hookgw_gateway.register("http://crm.example/hook")
    await emit(hookgw_gateway, 200)
    for _ in range(12):
        await hookgw_gateway.advance(60)
        await hookgw_gateway.settled()
    (lane,) = gateway.lanes()
    assert lane.tried_since is not None
    assert advice_for(lane, gateway.clock.steady()) is None
    (problem,) = (await gateway.views.overview(None, 20)).problems
    assert (problem.why, problem.delivery) == (BLOCKED, "")


async def test_a_literal_address_is_known_before_any_attempt(hookgw_gateway: GatewayKit) -> None:
    registrations = hookgw_gateway.gateway.registrations
    for url, why in (
        ("http://10.0.0.5/hook", SETTING),
        ("http://crm.example:5432/", "leave 5432 out of delivery.refused_ports"),
    ):
        stored = await hookgw_gateway.register(url)
        (warning,) = registrations.refusals(stored)
        assert why in warning
    await registrations.pause("shop")
    assert registrations.refusals(registrations.get("shop"))


async def test_the_start_names_each_with_its_backlog(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    webhooks = [{"label": "own", "url": "http://10.0.0.5/", "enabled": True}]
    async with open_kit(tmp_path) as kit:
        await kit.register("http://10.0.0.6/hook")
        await kit.register("http://10.0.0.7/hook", instance="bar")
        await kit.register(hookgw_receiver.url, instance="works")
        for instance in ("shop", "bar"):
            await kit.gateway.registrations.pause(instance)
            await emit(kit, 3, instance=instance)
    with capture_logs() as logs:
        async with open_kit(tmp_path, settings={"global_webhooks": webhooks}) as kit:
            await kit.settled()
    named = [log for log in logs if log["event"] == "nothing can be delivered to a webhook"]
    assert sorted((log["instance"], log["label"], log["pending"]) for log in named) == [
        ("*", "own", 0),
        ("bar", "default", 3),
        ("shop", "default", 3),
    ]
    assert {log["log_level"] for log in named} == {"warning"}
    assert all("delivery.allow_networks" in log["reason"] for log in named)


async def test_its_backlog_counts_against_its_own_instance_alone(
    tmp_path: Path, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        refuse_names(patch)
        limits = {"deliveries": 100, "instance_reserved_deliveries": 0}
        async with open_kit(tmp_path, settings={"limits": limits}) as kit:
            await kit.register("http://crm.example/hook")
            await kit.register(hookgw_receiver.url, instance="bar")
            with pytest.raises(TooManyRequests):
                await emit(kit, 100)
            await kit.settled()
            # Four times what is free.
            assert set((await states(kit)).values()) == {DeliveryState.PENDING}
            assert kit.gateway.backlog.count == 80
            (lane,) = [one for one in kit.gateway.lanes() if one.last_outcome is Outcome.BLOCKED]
            assert (lane.state, lane.backlog) == (LaneState.WAITING, 80)
            assert SETTING in (lane.last_error or "")
            ids = await emit(kit, 15, instance="bar")
            await kit.settled()
            assert hookgw_receiver.ids == ids
