"""Registrations that hookgw disables, and what counts as failing."""

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import Attempt, DeliveryState, Outcome, Registration
from hookgw.testing import GatewayKit, Receiver, answer, open_kit, open_receiver
from tests.public.records import OPERATIONS_ID
from tests.public.webhooks import STORED_AFTER, STORED_EVERY, parse_registration
from tests.support.disks import refuse
from tests.support.kit import emit_many, states

pytestmark = pytest.mark.usefixtures("hookgw_clock")

KIND = "CALL"

FAILED = Attempt(number=1, at=0.0, duration=0.0, outcome=Outcome.FAILED)


async def test_gone_disables_the_registration_and_says_why(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(410))
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit_many(hookgw_gateway, 3)
    await hookgw_gateway.settled()
    registration = hookgw_gateway.gateway.registrations.find("shop")
    assert registration is not None
    assert not registration.enabled
    assert "410" in (registration.disabled_reason or "")
    assert hookgw_receiver.ids == ids[:1]
    assert set((await states(hookgw_gateway)).values()) == {DeliveryState.DEAD}
    await hookgw_gateway.register(hookgw_receiver.url)
    again = await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids[-1] == again.id


AN_HOUR = {"delivery": {"disable_after": "1h", "schedule": ["10m"] * 20}}


async def fail_for_half_an_hour(folder: Path, receiver: Receiver) -> float:
    """Run a gateway whose receiver fails; return since when it does."""
    receiver.default = answer(500)
    async with open_kit(folder, settings=AN_HOUR) as kit:
        await kit.register(receiver.url)
        await kit.emit(KIND, {})
        await kit.settled()
        for _ in range(3):
            await kit.advance(660)
        since = kit.gateway.registrations.get("shop").failing_since
        assert since is not None
        return since


async def test_a_registration_that_fails_for_too_long_is_disabled_also_over_a_restart(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    await fail_for_half_an_hour(tmp_path, hookgw_receiver)
    async with open_kit(tmp_path, settings=AN_HOUR) as kit:
        for _ in range(4):
            await kit.advance(660)
        registration = kit.gateway.registrations.find("shop")
        assert registration is not None
        assert not registration.enabled
        assert "failed for" in (registration.disabled_reason or "")


async def test_time_in_which_no_hookgw_ran_is_no_time_of_failing(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    """One attempt after a holiday must not disable a registration, nor one after each of two."""
    since = await fail_for_half_an_hour(tmp_path, hookgw_receiver)
    for _ in range(2):
        hookgw_clock.jump(7200)
        async with open_kit(tmp_path, settings=AN_HOUR) as kit:
            before = len(hookgw_receiver.requests)
            await kit.advance(660)
            assert len(hookgw_receiver.requests) > before
            registration = kit.gateway.registrations.get("shop")
            assert registration.enabled
            # When it began to fail is still known.
            assert kit.gateway.auto_disable.failing_since(registration.id) == since
    async with open_kit(tmp_path, settings=AN_HOUR) as kit:
        for _ in range(4):
            await kit.advance(660)
        assert not kit.gateway.registrations.get("shop").enabled


async def test_a_node_that_takes_over_later_counts_the_time_in_between_neither(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    auto_disable, registrations = hookgw_gateway.gateway.auto_disable, hookgw_gateway.gateway.registrations
    registration = await hookgw_gateway.register(hookgw_receiver.url, retry={"disableAfter": "1h"})
    for _ in range(4):
        await auto_disable.attempted(FAILED, registration)
        hookgw_clock.jump(STORED_EVERY + 1)
    auto_disable.leave([registration.id])
    hookgw_clock.jump(7200)
    auto_disable.take_up([registrations.get("shop")])
    for _ in range(3):
        await auto_disable.attempted(FAILED, registration)
        assert registrations.get("shop").enabled
        hookgw_clock.jump(STORED_EVERY + 1)
    await auto_disable.attempted(FAILED, registration)
    assert not registrations.get("shop").enabled


async def test_the_metrics_name_what_fails_also_after_a_restart(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    def failing(kit: GatewayKit) -> list[str]:
        text = kit.gateway.metrics.render()[0].decode()
        return [line for line in text.splitlines() if line.startswith("hookgw_registration_failing_seconds{")]

    hookgw_receiver.default = answer(500)
    settings = {"delivery": {"schedule": ["10m"] * 20}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        assert failing(kit) == []
        await kit.emit(KIND, {})
        await kit.settled()
        await kit.advance(660)
        registration = kit.gateway.registrations.find("shop")
        assert registration is not None
        names = f'instance="shop",label="default",registration="{registration.id}"'
        [line] = failing(kit)
        assert line.startswith(f"hookgw_registration_failing_seconds{{{names}}} ")
    async with open_kit(tmp_path, settings=settings) as kit:
        # Its next attempt is minutes away.
        [line] = failing(kit)
        assert names in line
        hookgw_receiver.default = answer(204)
        await kit.advance(660)
        assert failing(kit) == []


async def test_a_paused_webhook_does_not_fail_until_it_is_tried_again(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(500)
    settings = {"delivery": {"schedule": ["10m"] * 20}}
    async with open_kit(tmp_path, settings=settings) as kit:
        registration = await kit.register(hookgw_receiver.url)
        await kit.emit(KIND, {})
        await kit.settled()
        await kit.advance(660)
        assert len((await kit.gateway.problems()).problems) == 1
        await kit.gateway.registrations.pause("shop")
        assert list(kit.gateway.auto_disable.failing()) == []
        assert (await kit.gateway.problems()).problems == []
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.advance(660)
        assert (await kit.gateway.problems()).problems == []
        await kit.gateway.registrations.resume("shop")
        await kit.settled()
        [(failing, since)] = kit.gateway.auto_disable.failing()
        assert failing.id == registration.id
        assert since == kit.gateway.clock.steady()


async def test_the_overview_says_why_a_webhook_fails_also_after_a_restart(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    async def shown(kit: GatewayKit) -> list[tuple[str, str]]:
        overview = await kit.gateway.views.overview(None, 10)
        return [(problem.why, problem.delivery) for problem in overview.problems]

    hookgw_receiver.default = answer(500)
    settings = {"delivery": {"schedule": ["10m"] * 20}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit(KIND, {})
        await kit.settled()
        await kit.advance(660)
        before = await shown(kit)
        [(why, skips)] = before
        assert "500" in why
        assert skips.startswith("shop/dlv_")
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.advance(1)  # its next attempt is minutes away
        assert await shown(kit) == before
        [lane] = kit.gateway.dispatcher.lanes()
        assert lane.last_error == why
    assert len(hookgw_receiver.requests) == 2


async def test_without_an_attempt_since_the_start_the_overview_says_so(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(400)
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        for _ in range(2):
            await kit.emit(KIND, {})
            await kit.settled()
            await kit.advance(61)
    async with open_kit(tmp_path) as kit:
        (problem,) = (await kit.gateway.views.overview(None, 10)).problems
        assert problem.why == "The last attempts failed; none was made since hookgw started."


async def test_one_success_ends_a_row_of_failures(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(*[answer(500)] * 5)
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit(KIND, {})
    for _ in range(4):
        await hookgw_gateway.advance(140)
    failing = hookgw_gateway.gateway.registrations.find("shop")
    assert failing is not None
    assert failing.failing_since is not None
    await hookgw_gateway.advance(140)
    working = hookgw_gateway.gateway.registrations.find("shop")
    assert working is not None
    assert working.failing_since is None


async def test_a_disk_that_refuses_while_a_receiver_is_gone_or_fails_ends_nothing(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hookgw_receiver.will(answer(500), answer(500), answer(500), answer(500), answer(410))
    await hookgw_gateway.register(hookgw_receiver.url)
    first = await hookgw_gateway.emit(KIND, {})
    second = await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    with monkeypatch.context() as patch:
        patch.setattr(hookgw_gateway.gateway.store, "put_registration", refuse)
        for _ in range(4):
            await hookgw_gateway.advance(140)
    assert await states(hookgw_gateway) == {first.id: DeliveryState.DEAD, second.id: DeliveryState.DELIVERED}
    registration = hookgw_gateway.gateway.registrations.find("shop")
    assert registration is not None
    assert registration.enabled


async def test_a_success_counts_even_if_the_disk_refuses_to_store_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"delivery": {"disable_after": "1h", "schedule": ["10m"] * 20}}
    async with open_receiver(default=answer(500)) as receiver:
        async with open_kit(tmp_path, settings=settings) as kit:
            await kit.register(receiver.url)
            await kit.emit(KIND, {})
            for _ in range(4):
                await kit.advance(660)
            receiver.will(answer(204))
            with monkeypatch.context() as patch:
                patch.setattr(kit.gateway.store, "put_registration", refuse)
                await kit.advance(660)
            assert receiver.ids[-1] == receiver.ids[0]
            assert list(kit.gateway.auto_disable.failing()) == []
            # Two hours after the first failure, but the first one after the success.
            await kit.advance(3600)
            began = kit.gateway.clock.steady()
            await kit.emit(KIND, {})
            await kit.settled()
            registration = kit.gateway.registrations.get("shop")
            assert registration.enabled
            # The disk still had the time of the former failures, so this one is stored at once.
            assert registration.failing_since == pytest.approx(began, abs=1)
        async with open_kit(tmp_path, settings=settings) as kit:
            for _ in range(4):
                await kit.advance(660)
            assert kit.gateway.registrations.get("shop").enabled
            for _ in range(3):
                await kit.advance(660)
            assert not kit.gateway.registrations.get("shop").enabled


async def test_the_next_success_stores_what_the_disk_refused(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hookgw_receiver.will(*[answer(500)] * 5)
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit(KIND, {})
    for _ in range(4):
        await hookgw_gateway.advance(140)
    with monkeypatch.context() as patch:
        patch.setattr(hookgw_gateway.gateway.store, "put_registration", refuse)
        await hookgw_gateway.advance(140)
    assert hookgw_gateway.gateway.registrations.get("shop").failing_since is not None
    await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    assert hookgw_gateway.gateway.registrations.get("shop").failing_since is None


async def test_failing_since_is_stored_only_after_a_minute(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    """A registration that fails now and then costs no writes."""
    hookgw_receiver.default = answer(500)
    await hookgw_gateway.register(hookgw_receiver.url)
    began = hookgw_gateway.gateway.clock.steady()
    await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    assert hookgw_gateway.gateway.registrations.get("shop").failing_since is None
    for _ in range(6):
        await hookgw_gateway.advance(STORED_AFTER / 2)
    since = hookgw_gateway.gateway.registrations.get("shop").failing_since
    assert since == pytest.approx(began, abs=1)


async def test_another_url_begins_a_new_row_of_failures(tmp_path: Path) -> None:
    settings = {"delivery": {"disable_after": "1h", "schedule": ["10m"] * 20}}
    async with (
        open_receiver(default=answer(500)) as old,
        open_receiver(default=answer(500)) as new,
        open_kit(tmp_path, settings=settings) as kit,
    ):
        await kit.register(old.url)
        await kit.emit(KIND, {})
        for _ in range(4):
            await kit.advance(660)
        await kit.register(new.url)
        for _ in range(4):
            await kit.advance(660)
            assert kit.gateway.registrations.get("shop").enabled
        for _ in range(3):
            await kit.advance(660)
        assert not kit.gateway.registrations.get("shop").enabled
        assert len(new.requests) == 7


async def test_the_registration_for_operational_events_is_never_disabled(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(422)
    settings = {"operations": {"url": hookgw_receiver.url + "ops"}, "delivery": {"disable_after": "10s"}}
    async with open_receiver(default=answer(410)) as ops:
        settings["operations"]["url"] = ops.url
        async with open_kit(tmp_path, settings=settings) as kit:
            await kit.register(hookgw_receiver.url)
            for _ in range(3):
                await kit.emit(KIND, {})
                await kit.advance(20)
            await ops.wait_for(2)
            operations = kit.gateway.registrations.by_id(OPERATIONS_ID)
            assert operations is not None
            assert operations.enabled


async def test_enabling_begins_a_new_row_of_failures(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    """One failure after days of being disabled must not disable the registration again."""
    hookgw_receiver.default = answer(500)
    settings = {"delivery": {"disable_after": "1h", "schedule": ["10m"] * 20}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit(KIND, {})
        for _ in range(3):
            await kit.advance(660)
        await kit.register(hookgw_receiver.url, enabled=False)
        await kit.advance(7200)
        await kit.register(hookgw_receiver.url)
        await kit.emit(KIND, {})
        for _ in range(4):
            await kit.advance(660)
            assert kit.gateway.registrations.get("shop").enabled
        for _ in range(3):
            await kit.advance(660)
        assert not kit.gateway.registrations.get("shop").enabled


class SlowDisk:
    """The next write of a registration waits for ``goes_on``; ``begun`` is set once it waits."""

    def __init__(self, kit: GatewayKit, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.goes_on = trio.Event(), trio.Event()
        store = kit.gateway.store
        put = store.put_registration

        async def put_slowly(registration: Registration, **more: Any) -> None:
            self.begun.set()
            await self.goes_on.wait()
            await put(registration, **more)

        monkeypatch.setattr(store, "put_registration", put_slowly)


async def test_a_failure_that_is_stored_after_a_set_does_not_undo_the_fresh_start(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    auto_disable, registrations = hookgw_gateway.gateway.auto_disable, hookgw_gateway.gateway.registrations
    registration = await hookgw_gateway.register(hookgw_receiver.url)
    await auto_disable.attempted(FAILED, registration)
    hookgw_clock.jump(2 * STORED_AFTER)
    disk = SlowDisk(hookgw_gateway, monkeypatch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hookgw_gateway.register, hookgw_receiver.url)
        await disk.begun.wait()
        nursery.start_soon(auto_disable.attempted, FAILED, registration)
        await wait_all_tasks_blocked()
        disk.goes_on.set()
    assert registrations.get("shop").failing_since is None


@pytest.mark.parametrize("meanwhile", ["nothing", "another change", "set", "success", "pause"])
async def test_what_happens_while_a_change_is_stored_counts_before_disabling(
    meanwhile: str,
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    auto_disable, registrations = hookgw_gateway.gateway.auto_disable, hookgw_gateway.gateway.registrations
    registration = await hookgw_gateway.register(hookgw_receiver.url, retry={"disableAfter": "5m"})
    await auto_disable.attempted(FAILED, registration)
    hookgw_clock.jump(301)
    disk = SlowDisk(hookgw_gateway, monkeypatch)
    async with trio.open_nursery() as nursery:
        if meanwhile == "set":
            nursery.start_soon(hookgw_gateway.register, hookgw_receiver.url)
        elif meanwhile == "pause":
            nursery.start_soon(registrations.pause, "shop")
        elif meanwhile != "nothing":  # a registration of the same instance
            nursery.start_soon(partial(hookgw_gateway.register, hookgw_receiver.url, label="other"))
        if meanwhile != "nothing":
            await disk.begun.wait()
        nursery.start_soon(auto_disable.attempted, FAILED, registration)
        await wait_all_tasks_blocked()
        if meanwhile == "success":
            delivered = msgspec.structs.replace(FAILED, outcome=Outcome.DELIVERED)
            nursery.start_soon(auto_disable.attempted, delivered, registration)
            await wait_all_tasks_blocked()
        disk.goes_on.set()
    assert registrations.get("shop").enabled == (meanwhile in {"set", "success", "pause"})


async def test_a_410_disables_after_a_set_of_the_same_url(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    registration = await hookgw_gateway.register(hookgw_receiver.url)
    disk = SlowDisk(hookgw_gateway, monkeypatch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hookgw_gateway.register, hookgw_receiver.url)
        await disk.begun.wait()
        nursery.start_soon(hookgw_gateway.gateway.auto_disable.disable, registration, "It is gone.")
        await wait_all_tasks_blocked()
        disk.goes_on.set()
    assert hookgw_gateway.gateway.registrations.get("shop").disabled_reason == "It is gone."


async def test_changes_that_are_no_fresh_start_prolong_nothing(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    """A client that changes a field before each attempt must not keep a dead registration alive."""
    hookgw_receiver.default = answer(500)
    retry = {"schedule": ["50s"] * 20, "disableAfter": "5m"}
    await hookgw_gateway.register(hookgw_receiver.url, retry=retry)
    await hookgw_gateway.emit(KIND, {})
    for kinds in ([KIND], []) * 4:
        await hookgw_gateway.advance(56)
        change, _ = parse_registration({"events": kinds}, hookgw_gateway.gateway.catalog, stored_enabled=True)
        registration = hookgw_gateway.gateway.registrations.get("shop")
        if not registration.enabled:
            break
        await hookgw_gateway.gateway.registrations.update("shop", "default", change)
    assert "failed for 300 s" in (registration.disabled_reason or "")


async def test_a_webhook_that_rejects_all_says_so_when_its_lane_is_forgotten(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(422)
    registration = await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    await hookgw_gateway.advance(300)
    assert not [*hookgw_gateway.gateway.dispatcher.lanes(registration.id)]
    [problem] = (await hookgw_gateway.gateway.problems()).problems
    assert problem.loses
    assert "422" in problem.why
