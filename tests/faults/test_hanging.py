"""Receivers that hang, and events of which receivers die."""

from pathlib import Path
from typing import Any

import pytest

from hookgw import DeliveryState, LaneState, Outcome
from hookgw.testing import Answer, GatewayKit, Received, Receiver, answer, close, open_kit
from tests.faults.support import KIND, attempts_of, report_of, state_of, wait_of
from tests.public.records import FIRST

pytestmark = pytest.mark.usefixtures("hookgw_clock")

SCHEDULE = ["1s", "2s", "20s"]
LAST = 20.0
JITTER = 1.1
DELIVERY: dict[str, Any] = {"schedule": SCHEDULE, "max_age": "1h"}


async def exhaust(kit: GatewayKit, attempts: int = len(SCHEDULE)) -> None:
    """Let so many waits of the head pass."""
    for _ in range(attempts):
        await kit.settled()
        await kit.advance(wait_of(kit) + 0.001)


async def test_a_receiver_that_hangs_costs_one_dead_letter(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = close()
    async with open_kit(tmp_path, settings={"delivery": DELIVERY}) as kit:
        await kit.register(hookgw_receiver.url)
        events = [await kit.emit(KIND, {"n": n}) for n in range(3)]
        await exhaust(kit)
        assert await state_of(kit, events[0]) is DeliveryState.DEAD
        for _ in range(10):
            wait = wait_of(kit)
            assert LAST - 0.01 <= wait <= LAST * JITTER
            await kit.advance(wait + 0.001)
        report = await report_of(kit, events[1])
        assert report.summary.state is DeliveryState.PENDING
        assert {one.outcome for one in report.attempts} == {Outcome.UNANSWERED}
        [lane] = kit.gateway.lanes()
        [head] = (await kit.gateway.store.read_lane(lane.lane, FIRST, 1)).deliveries
        assert head.failures == 0
        assert (lane.state, lane.backlog, lane.last_outcome) == (LaneState.WAITING, 2, Outcome.UNANSWERED)
        assert "so the receiver hangs" in (lane.last_error or "")
        hookgw_receiver.default = answer()
        await kit.advance(wait_of(kit) + 0.001)
        assert [await state_of(kit, event) for event in events[1:]] == [DeliveryState.DELIVERED] * 2


async def test_an_event_that_kills_its_receiver_costs_one_dead_letter(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    def dies_of_one(request: Received) -> Answer:
        return close() if b'"bad"' in request.body else answer()

    hookgw_receiver.default = dies_of_one
    async with open_kit(tmp_path, settings={"delivery": DELIVERY}) as kit:
        await kit.register(hookgw_receiver.url)
        events = [await kit.emit(KIND, {name: 1}) for name in ("bad", "good", "bad", "good")]
        await exhaust(kit, 2 * len(SCHEDULE))
        states = [await state_of(kit, event) for event in events]
    assert states == [DeliveryState.DEAD, DeliveryState.DELIVERED] * 2


@pytest.mark.parametrize(("status", "hangs"), [(504, True), (520, True), (524, True), (500, False)])
async def test_what_a_proxy_says_of_a_silent_receiver_is_no_response(
    status: int, hangs: bool, tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(status)
    async with open_kit(tmp_path, settings={"delivery": DELIVERY}) as kit:
        await kit.register(hookgw_receiver.url)
        events = [await kit.emit(KIND, {"n": n}) for n in range(2)]
        await exhaust(kit)
        assert await state_of(kit, events[0]) is DeliveryState.DEAD
        assert (wait_of(kit) >= LAST) is hangs


async def test_a_response_in_between_ends_the_hanging(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = close()
    async with open_kit(tmp_path, settings={"delivery": DELIVERY}) as kit:
        await kit.register(hookgw_receiver.url)
        events = [await kit.emit(KIND, {"n": n}) for n in range(2)]
        await exhaust(kit)
        assert wait_of(kit) >= LAST
        hookgw_receiver.will(answer(500))
        await kit.advance(wait_of(kit) + 0.001)
        assert 1 <= wait_of(kit) <= JITTER  # the first failure of this one
        await exhaust(kit)
        assert await state_of(kit, events[1]) is DeliveryState.DEAD


async def test_a_receiver_that_refuses_connections_in_between_hangs_still(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = close()
    async with open_kit(tmp_path, settings={"delivery": DELIVERY}) as kit:
        await kit.register(hookgw_receiver.url)
        events = [await kit.emit(KIND, {"n": n}) for n in range(2)]
        await exhaust(kit)
        await hookgw_receiver.stop_listening()
        await kit.advance(wait_of(kit) + 0.001)
        await hookgw_receiver.restart()
        await kit.advance(wait_of(kit) + 0.001)
        assert wait_of(kit) >= LAST
        assert [one.outcome for one in await attempts_of(kit, events[1])] == [
            Outcome.UNANSWERED,
            Outcome.UNREACHABLE,
            Outcome.UNANSWERED,
        ]


async def test_a_receiver_that_hangs_is_waited_for_until_max_age(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = close()
    async with open_kit(tmp_path, settings={"delivery": DELIVERY | {"max_age": "100s"}}) as kit:
        await kit.register(hookgw_receiver.url)
        events = [await kit.emit(KIND, {"n": n}) for n in range(3)]
        await exhaust(kit)
        while (await report_of(kit, events[1])).summary.state is DeliveryState.PENDING:
            await kit.advance(wait_of(kit) + 0.001)
        second, third = await report_of(kit, events[1]), await report_of(kit, events[2])
    reason = "The receiver did not respond until the event was older than max_age (100 s)."
    assert [second.summary.reason, third.summary.reason] == [reason] * 2
    assert third.attempts == ()


async def test_without_a_schedule_every_event_has_one_attempt(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = close()
    async with open_kit(tmp_path, settings={"delivery": {"schedule": []}}) as kit:
        await kit.register(hookgw_receiver.url)
        events = [await kit.emit(KIND, {"n": n}) for n in range(3)]
        await kit.settled()
        assert [await state_of(kit, event) for event in events] == [DeliveryState.DEAD] * 3
    assert hookgw_receiver.ids == [event.id for event in events]


async def test_another_target_does_not_hang(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = close()
    async with open_kit(tmp_path, settings={"delivery": DELIVERY}) as kit:
        await kit.register(hookgw_receiver.url)
        for n in range(2):
            await kit.emit(KIND, {"n": n})
        await exhaust(kit)
        assert wait_of(kit) >= LAST
        await kit.register(hookgw_receiver.url + "other")
        await kit.settled()
        assert wait_of(kit) <= JITTER


@pytest.mark.parametrize("with_attempts", [False, True])
async def test_a_restart_does_not_forget_that_a_receiver_hangs(
    with_attempts: bool, tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = close()
    async with open_kit(tmp_path, settings={"delivery": DELIVERY}) as kit:
        await kit.register(hookgw_receiver.url)
        events = [await kit.emit(KIND, {"n": 0})]
        if with_attempts:
            events.append(await kit.emit(KIND, {"n": 1}))
        await exhaust(kit)
    async with open_kit(tmp_path, settings={"delivery": DELIVERY}) as kit:
        if not with_attempts:
            events.append(await kit.emit(KIND, {"n": 1}))
        else:
            await kit.settled()
            await kit.advance(wait_of(kit) + 0.001)
        await exhaust(kit, 5)
        assert await state_of(kit, events[0]) is DeliveryState.DEAD
        assert await state_of(kit, events[1]) is DeliveryState.PENDING
        assert wait_of(kit) >= LAST


async def test_a_lane_that_had_nothing_to_do_for_long_knows_that_its_receiver_hangs(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = close()
    async with open_kit(tmp_path, settings={"delivery": DELIVERY}) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit(KIND, {"n": 0})
        await exhaust(kit)
        await kit.advance(3600)
        assert list(kit.gateway.lanes()) == []
        event = await kit.emit(KIND, {"n": 1})
        await exhaust(kit, 5)
        assert await state_of(kit, event) is DeliveryState.PENDING


async def test_a_response_before_a_restart_counts(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = close()
    async with open_kit(tmp_path, settings={"delivery": DELIVERY}) as kit:
        await kit.register(hookgw_receiver.url)
        hookgw_receiver.will(*[close()] * 4, answer(500))  # before the first attempt can begin
        for n in range(2):
            await kit.emit(KIND, {"n": n})
        await exhaust(kit)
        await kit.settled()  # the 500 is stored; one wait more would race another attempt with the end
    async with open_kit(tmp_path, settings={"delivery": DELIVERY}) as kit:
        await kit.settled()
        await kit.advance(wait_of(kit) + 0.001)
        await kit.settled()
        assert 2 <= wait_of(kit) <= 2 * JITTER  # its second failure
